"""cloud-init user data: what a freshly installed host must know before Ansible reaches it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from ..errors import InputError

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\n\r]*)?")
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")


def user_data(
    authorized_keys: Sequence[str], user: str = "firstlight", ntp_servers: Sequence[str] = (), timezone: str = ""
) -> str:
    """The text of a ``#cloud-config``; InputError names what is wrong with an argument.

    authorized_keys: lines of an authorized_keys file. ntp_servers: where the clock comes from, first of all; none
    leaves the image's. Nothing is installed or upgraded here: versions are the roles' business.
    """
    keys = [key.strip() for key in authorized_keys if key.strip()]
    if not keys:
        raise InputError("install: no SSH key is given; without one nobody could reach the installed host")
    for key in keys:
        if not _KEY.fullmatch(key):
            raise InputError(f"install: {key[:24]!r}... is not a public SSH key (ssh-ed25519 AAAA... comment)")
    if not _USER.fullmatch(user) or user == "root":
        raise InputError(f"install: {user!r} cannot be the SSH user; it is a lower-case name, not root")
    for server in ntp_servers:
        if not _SERVER.fullmatch(server):
            raise InputError(f"install: {server!r} is not the name or address of an NTP server")
    config: dict[str, Any] = {
        "users": [
            {
                "name": user,
                "gecos": "Firstlight",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": keys,
            }
        ],
        "ssh_pwauth": False,
        "disable_root": True,
        "package_update": False,
        "package_upgrade": False,
        "package_reboot_if_required": False,
    }
    if ntp_servers:
        config["ntp"] = {"enabled": True, "servers": list(ntp_servers)}
    if timezone:
        config["timezone"] = timezone
    return "#cloud-config\n" + yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=4096)
