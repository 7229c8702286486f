"""What the shims share: this server's parts and faults, as the lab's files in /run/simulator have them."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SIMULATOR = os.environ.get("FIRSTLIGHT_SIMULATOR", "/run/simulator")
BUSES = (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)  # PCI bus of each GPU by its number on the board


def read(name: str, default: Any) -> Any:
    try:
        return json.loads(Path(SIMULATOR, name).read_text())
    except (OSError, ValueError):
        return default


def parts(kind: str) -> list[dict[str, Any]]:
    """The server's gpus, hcas or drives that are built in, less a GPU that the fault gpu_missing took."""
    found: list[dict[str, Any]] = read("hardware.json", {}).get(kind, [])
    missing = fault("gpu_missing") if kind == "gpus" else None
    return found if missing is None else [part for part in found if part["number"] != missing.get("gpu", 3)]


def fault(name: str) -> dict[str, Any] | None:
    """The parameters of one fault, or None when the server does not have it."""
    state = read("state.json", {})
    if name not in state.get("faults", []):
        return None
    parameters: dict[str, Any] = state.get("fault_parameters", {}).get(name, {})
    return parameters


def hang_if_told(tool: str) -> None:
    """Never answer, as a tool whose driver or device is stuck, while the fault command_hangs names this tool."""
    hanging = fault("command_hangs")
    if hanging is not None and hanging.get("tool", "nvme") == tool:
        sys.stderr.flush()
        time.sleep(3600)
