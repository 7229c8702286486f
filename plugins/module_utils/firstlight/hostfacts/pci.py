"""PCI functions: how many GPUs, NVSwitches and HCAs, and which bridges can control access (ACS). Pure functions."""

from __future__ import annotations

import re
import struct
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

NVIDIA, MELLANOX = "10DE", "15B3"
DISPLAY, BRIDGE_PCI, BRIDGE_OTHER, NETWORK = 0x03, 0x0604, 0x0680, 0x02
_ACS = 0x000D  # PCI Express Base Specification, extended capability id
_EXTENDED = 0x100
_STEPS_MAX = 960  # capabilities that fit into 4096 octets; a loop ends here


class Function(NamedTuple):
    """address: ``0000:9a:00.0``; vendor and device in hexadecimal; kind: class and subclass."""

    address: str
    vendor: str
    device: str
    kind: int


def read_uevent(text: str) -> Optional[Function]:
    """One /sys/bus/pci/devices/*/uevent; None when it is none."""
    values = dict(re.findall(r"^(PCI_\w+)=(\S{1,40})$", text, re.MULTILINE))
    vendor, _, device = values.get("PCI_ID", "").partition(":")
    address, kind = values.get("PCI_SLOT_NAME", ""), values.get("PCI_CLASS", "")
    if not re.fullmatch(r"[0-9a-fA-F]{1,6}", kind) or not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f:.]{7}", address):
        return None
    return Function(address, vendor.upper(), device.upper(), int(kind, 16) >> 8)


def acs_control(config: bytes) -> Optional[int]:
    """The ACS control register in a function's configuration space, None when it has no such capability.

    ValueError when only the first 256 octets could be read, as without the right to more.
    """
    if len(config) <= _EXTENDED:
        raise ValueError(f"only {len(config)} octets of configuration space")
    at = _EXTENDED
    for _ in range(_STEPS_MAX):
        if at + 8 > len(config):
            return None
        header = struct.unpack_from("<I", config, at)[0]
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == _ACS:
            return int(struct.unpack_from("<H", config, at + 6)[0])
        at = header >> 20 & 0xFFC
        if at < _EXTENDED:
            return None
    return None


def summary(functions: List[Function], configs: Mapping[str, Optional[bytes]]) -> Dict[str, Any]:
    """nvidia_gpus, nvswitches, mellanox (counts) and bridges_with_acs ({address, control}; None: not readable).

    configs: by address of a bridge its configuration space, None where it could not be read.
    """
    gpus = [f for f in functions if f.vendor == NVIDIA and f.kind >> 8 == DISPLAY]
    switches = [f for f in functions if f.vendor == NVIDIA and f.kind == BRIDGE_OTHER]
    cards = {f.address.rpartition(".")[0] for f in functions if f.vendor == MELLANOX and f.kind >> 8 == NETWORK}
    bridges: Optional[List[Dict[str, Any]]] = []
    for address, config in sorted(configs.items()):
        try:
            control = acs_control(config or b"")
        except ValueError:
            bridges = None
            break
        if control is not None and bridges is not None:
            bridges.append({"address": address, "control": f"{control:04x}"})
    return {
        "nvidia_gpus": len(gpus),
        "nvswitches": len(switches),
        "mellanox": len(cards),
        "bridges_with_acs": bridges,
    }
