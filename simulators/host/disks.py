"""The disks that an installed server's container shows: their names, and what their first MiB holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from simulators import disk_heads, lab_files

LISTED = "disks.json"
HEADS = "heads"


def write(folder: Path, state: dict[str, Any], drives: list[dict[str, Any]]) -> None:
    """Write into a machine's folder what its shims lsblk and findmnt, and its unit simulated-disks, answer by."""
    disks = listed(state, drives)
    heads = disk_heads.heads(state, drives)
    (folder / HEADS).mkdir(exist_ok=True)
    for disk in disks:
        path = folder / HEADS / disk["name"]
        if disk["serial"] in heads:
            lab_files.write_atomic(path, heads[disk["serial"]])
        else:
            path.unlink(missing_ok=True)
    lab_files.write_json(folder / LISTED, {"disks": disks})


def listed(state: dict[str, Any], drives: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The disks as the host sees them: its data drives, and the one that was installed on (which may be one of them).

    That one has a number that differs from installation to installation, as disk order does.
    """
    installed = state.get("disk") or {}
    root = installed.get("root") or {}
    disks = [
        {**{key: drive[key] for key in ("serial", "model", "size")}, "name": f"nvme{drive['number']}n1"}
        for drive in drives
        if not _missing(state, drive)
    ]
    if root and all(disk["serial"] != root["serial"] for disk in disks):
        # behind a number that no data drive has: the shim nvme knows those by theirs
        number = len(drives) + random.Random(str(installed.get("installed_at"))).randrange(8)
        disks.append({**root, "name": f"nvme{number}n1"})
    return [{**disk, "root": bool(root) and disk["serial"] == root["serial"]} for disk in disks]


def _missing(state: dict[str, Any], drive: dict[str, Any]) -> bool:
    if "nvme_missing" not in state.get("faults", []):
        return False
    return int((state.get("fault_parameters") or {}).get("nvme_missing", {}).get("drive", 1)) == drive["number"]
