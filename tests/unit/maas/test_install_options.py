"""Install's settings: what is wrong with one is told before anything is started."""

from __future__ import annotations

import pytest

from firstlight.errors import InputError
from firstlight.maas.options import install_options, ssh_minutes


@pytest.fixture
def site():
    return {}


def test_what_is_set_is_taken_and_the_rest_has_defaults(site):
    site |= {"install_max_parallel": "4", "install_poll_seconds": 1, "maas_subnets": ["10.0.0.0/8"]}
    options = install_options(site.get)
    assert (options.max_parallel, options.poll_seconds, options.subnets) == (4, 1.0, ("10.0.0.0/8",))
    assert (options.retries, options.check) == (1, False)
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
        ({"maas_subnets": "10.0.0.0/8"}, "maas_subnets is '10.0.0.0/8'; write a list"),
        ({"maas_subnets": ["ten"]}, "maas_subnets: 'ten' is not a subnet"),
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


def test_power_and_console(site):
    options = install_options({**site, "install_power": "redfish", "install_console_log": "/c/{name}.log"}.get)
    assert (options.power, options.console_log) == ("redfish", "/c/{name}.log")
    assert (install_options(site.get).power, install_options(site.get).console_log) == ("auto", "")
    for change, said in (
        ({"install_power": "wol"}, "install_power is 'wol'; it must be one of auto, maas, redfish"),
        ({"install_console_log": "/c/all.log"}, "install_console_log is '/c/all.log'; write a whole path with {name}"),
        ({"install_console_log": "{name}.log"}, "install_console_log is '{name}.log'; write a whole path"),
        ({"install_stall_minutes": "x"}, "install_stall_minutes is 'x'; it must be a number of 0.01 or more"),
    ):
        with pytest.raises(InputError) as caught:
            install_options({**site, **change}.get)
        assert said in str(caught.value)
