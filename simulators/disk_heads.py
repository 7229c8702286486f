"""What the first MiB of each simulated disk holds: the same for whoever reads it, MAAS's script or the installed host.

A machine's ``state.json`` decides: what an installer wrote (``disk.root``: {model, serial, size} of the disk that holds
the root file system), and the faults ``data_drive_used`` (something was there before) and ``data_drive_written`` (the
installer wrote more than it should).
"""

from __future__ import annotations

import hashlib
from typing import Any

HEAD_BYTES = 1024 * 1024
BLANK = bytes(HEAD_BYTES)
_ZFS_MAGIC = (0x00BAB10C).to_bytes(8, "little")
_EXT4_MAGIC = b"\x53\xef"


def heads(state: dict[str, Any], drives: list[dict[str, Any]]) -> dict[str, bytes]:
    """By serial number the first MiB of those disks that are not blank. drives: data drives with number and serial."""
    found: dict[str, bytes] = {}
    installed = state.get("disk") or {}
    root = installed.get("root") or {}
    for drive in drives:
        if _hit(state, "data_drive_used", drive):
            found[drive["serial"]] = _put(131072, _ZFS_MAGIC)
        if installed and _hit(state, "data_drive_written", drive):
            found[drive["serial"]] = _put(1080, _EXT4_MAGIC)
    if installed and root.get("serial"):
        mark = hashlib.sha256(str(installed.get("installed_at")).encode()).digest()
        found[str(root["serial"])] = _put(510, b"\x55\xaaEFI PART" + mark)
    return found


def _hit(state: dict[str, Any], fault: str, drive: dict[str, Any]) -> bool:
    if fault not in state.get("faults", []):
        return False
    return int((state.get("fault_parameters") or {}).get(fault, {}).get("drive", 1)) == drive["number"]


def _put(offset: int, content: bytes) -> bytes:
    return BLANK[:offset] + content + BLANK[offset + len(content) :]
