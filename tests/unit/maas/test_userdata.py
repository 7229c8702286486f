"""The user data that an installed host starts with."""

import pytest
import yaml

from firstlight.errors import InputError
from firstlight.maas.userdata import user_data

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0Yx9cGh5e1o1lVqPVo9C3qO0Vw8yq9JtV6l0Cz9sUe ops: the #1 key"


def test_the_whole_document():
    text = user_data([KEY], ntp_servers=["10.0.0.1", "ntp.example.org"])
    assert text.startswith("#cloud-config\n")
    assert yaml.safe_load(text) == {
        "users": [
            {
                "name": "firstlight",
                "gecos": "Firstlight",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": [KEY],
            }
        ],
        "ssh_pwauth": False,
        "disable_root": True,
        "package_update": False,
        "package_upgrade": False,
        "package_reboot_if_required": False,
        "ntp": {"enabled": True, "servers": ["10.0.0.1", "ntp.example.org"]},
    }


def test_no_ntp_section_without_servers():
    assert "ntp" not in yaml.safe_load(user_data([KEY, "", "  "], user="ops"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"authorized_keys": []}, "no SSH key"),
        ({"authorized_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}, "not a public SSH key"),
        ({"authorized_keys": [KEY + "\nssh-ed25519 AAAA evil"]}, "not a public SSH key"),
        ({"authorized_keys": [KEY], "user": "root"}, "'root' cannot be the SSH user"),
        ({"authorized_keys": [KEY], "user": "a b"}, "cannot be the SSH user"),
        ({"authorized_keys": [KEY], "ntp_servers": ["a b"]}, "'a b' is not the name"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_installed(arguments, text):
    with pytest.raises(InputError, match=text):
        user_data(**arguments)


def test_a_private_key_is_not_shown():
    with pytest.raises(InputError) as caught:
        user_data(["-----BEGIN OPENSSH PRIVATE KEY-----b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE"])
    assert "b3Blbn" not in str(caught.value)
