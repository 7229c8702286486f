"""Which ledger a command line means."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from ..yamlfile import read_yaml
from .store import ledger_file, ledger_url


def find_ledger(given: str | None, inventory: Path | None, *, new: bool = False) -> str:
    """The URL of the ledger: the file or URL that was given, else the one that the site's inventory names.

    inventory: by default as $ANSIBLE_INVENTORY says. new: it may be a file that is not there yet. InputError says what
    is missing.
    """
    url = ledger_url(given) if given else _of_site(site_folder(inventory))
    file = ledger_file(url)
    if file is not None and not new and not file.exists():
        raise InputError(f"no ledger at {file}; the first run of a playbook makes it")
    return url


def site_folder(inventory: Path | None) -> Path | None:
    """The folder of the site's inventory, by default as $ANSIBLE_INVENTORY says; None where nothing names one."""
    named = str(inventory or os.environ.get("ANSIBLE_INVENTORY") or "")
    if not named:
        return None
    path = Path(named)
    if not path.exists():
        raise InputError(f"no such inventory: {path}")
    return path if path.is_dir() else path.parent


def _of_site(site: Path | None) -> str:
    if site is None:
        raise InputError("name the site's --inventory, or a --ledger")
    for config in sorted([*site.glob("*redfish_bmc.yml"), *site.glob("*redfish_bmc.yaml")]):
        data = read_yaml(config).data
        if isinstance(data, dict) and data.get("ledger"):
            text = str(data["ledger"])
            return ledger_url(text if "://" in text else str(Path(text).expanduser()), site)
    raise InputError(f"{site} has no *.redfish_bmc.yml with ledger: in it; name a --ledger")
