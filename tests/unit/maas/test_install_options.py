"""Install's settings: what is wrong with one is told before anything is started."""

from __future__ import annotations

import pytest

from firstlight.errors import InputError
from firstlight.maas.options import install_options, ssh_minutes


@pytest.fixture
def site(tmp_path):
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA operator\n")
    return {"install_distro_series": "noble", "install_ssh_public_key_file": str(tmp_path / "key.pub")}


def test_what_is_set_is_taken_and_the_rest_has_defaults(site):
    site |= {"install_max_parallel": "4", "install_poll_seconds": 1, "maas_subnets": ["10.0.0.0/8"]}
    options = install_options(site.get)
    assert (options.max_parallel, options.poll_seconds, options.subnets) == (4, 1.0, ("10.0.0.0/8",))
    assert (options.distro_series, options.retries, options.check) == ("noble", 1, False)
    assert "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA operator" in options.user_data
    assert ssh_minutes(site.get) == 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"install_max_parallel": 0}, "install_max_parallel is 0; it must be a whole number of 1 or more"),
        ({"install_max_parallel": "many"}, "install_max_parallel is 'many'; it must be a whole number"),
        ({"install_max_parallel": True}, "install_max_parallel is True; it must be a whole number"),
        ({"install_retries": -1}, "install_retries is -1"),
        ({"install_poll_seconds": "soon"}, "install_poll_seconds is 'soon'; it must be a number of 0.1 or more"),
        ({"install_poll_seconds": 0}, "install_poll_seconds is 0"),
        ({"install_deploy_minutes": float("nan")}, "install_deploy_minutes is nan"),
        ({"install_commission_minutes": [3]}, "install_commission_minutes is [3]"),
        ({"install_distro_series": None}, "install_distro_series is not set; name the series"),
        ({"install_distro_series": 24.04}, "install_distro_series is 24.04; name the series"),
        ({"install_ssh_public_key_file": None}, "install_ssh_public_key_file is not set"),
        ({"install_ssh_public_key_file": "/nowhere/key.pub"}, "/nowhere/key.pub cannot be read: No such file"),
        ({"maas_subnets": "10.0.0.0/8"}, "maas_subnets is '10.0.0.0/8'; write a list"),
        ({"maas_subnets": ["ten"]}, "maas_subnets: 'ten' is not a subnet"),
        ({"ansible_user": "root"}, "'root' cannot be the SSH user"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(site, change, said):
    with pytest.raises(InputError) as caught:
        install_options({**site, **change}.get)
    assert said in str(caught.value)


@pytest.mark.parametrize("given", ["soon", -1, True, None])
def test_minutes_for_ssh(given):
    if given is None:
        assert ssh_minutes({"install_ssh_minutes": 3}.get) == 3
    else:
        with pytest.raises(InputError, match="install_ssh_minutes is"):
            ssh_minutes({"install_ssh_minutes": given}.get)


def test_a_private_key_is_refused_and_nothing_of_it_is_shown(site, tmp_path):
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n")
    with pytest.raises(InputError, match=r"key is a private key; name the file that ends in \.pub") as caught:
        install_options({**site, "install_ssh_public_key_file": str(tmp_path / "key")}.get)
    assert "b3Bl" not in str(caught.value)
