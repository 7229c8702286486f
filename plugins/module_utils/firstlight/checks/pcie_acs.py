"""Access control (ACS) of PCIe bridges: where it is on, traffic between GPUs and HCAs goes up to the root complex.

On bare metal every bridge's control register must be zero. In a virtual machine the registers of the real switches
are not visible, so that nothing is proved there: ``warn``.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import Command, Source
from .engine import Captured, Check, Expect, asked, not_known, ok, unreadable

NAME = "pcie_acs"
VIRTUALIZATION = Command(("systemd-detect-virt",), limit=5.0)
# every PCI-to-PCI bridge with its capabilities, numbers in place of names
_LSPCI = Command(("lspci", "-D", "-n", "-vv", "-d", "::0604"), limit=15.0, max_bytes=8 * 1024 * 1024)
_NAMED = 12  # bridges that the evidence names


class Bridge(NamedTuple):
    """enabled: the bits of ACSCtl that are on, as lspci names them; None where it has no such capability."""

    address: str
    enabled: Optional[List[str]]
    readable: bool


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if profile.tuning.get("pcie_acs") != "disabled" and not asked(expect, NAME):
        return {}
    return {"lspci": _LSPCI, "virtualization": VIRTUALIZATION}


def parse_lspci(text: str) -> List[Bridge]:
    """The bridges of ``lspci -D -n -vv``, in its order."""
    found = []
    for part in re.split(r"\n(?=[0-9a-f]{4,8}:[0-9a-f]{2}:)", text):
        head = re.match(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) 0604: ", part)
        if head:
            control = re.search(r"^\s+ACSCtl:((?:\s+\w+[+-])+)\s*$", part, re.MULTILINE)
            on = [word[:-1] for word in control.group(1).split() if word.endswith("+")] if control else None
            found.append(Bridge(head.group(1), on, "<access denied>" not in part))
    return found


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    machine, output = captured["virtualization"], captured["lspci"]
    kind = machine.text.strip()
    if machine.problem or not re.fullmatch(r"[a-z0-9_-]{1,32}", kind):
        return not_known(NAME, machine, "systemd-detect-virt")
    if kind != "none" and not expect.get("acs_in_virtual_machines"):
        said = f"runs in {kind}: what the real bridges do cannot be seen; whoever owns the machine below must see to it"
        return [Finding(NAME, "warn", f"{NAME}.virtual", "", said)]
    if output.problem or output.code:
        return not_known(NAME, output, "lspci")
    bridges = parse_lspci(output.text)
    if output.text.strip() and not bridges:
        return unreadable(NAME, output.text, "lspci")
    if denied := [bridge for bridge in bridges if not bridge.readable]:
        said = f"lspci: capabilities of {_names(denied)}: access denied"
        return [Finding(NAME, "unknown", f"{NAME}.not_permitted", "", said, "escalate")]
    able = [bridge for bridge in bridges if bridge.enabled is not None]
    if on := [bridge for bridge in able if bridge.enabled]:
        bits = sorted({bit for bridge in on for bit in bridge.enabled or []})
        said = f"ACSCtl {', '.join(bits)} on, expected none; after a boot: is firstlight-pcie-acs.service enabled?"
        return [
            Finding(NAME, "fail", f"{NAME}.enabled", f"{len(on)} of {len(able)} bridges: {_names(on)}", said, "retry")
        ]
    return ok(NAME, f"off on all {len(able)} bridges that have it, of {len(bridges)}")


def _names(bridges: List[Bridge]) -> str:
    more = f" and {len(bridges) - _NAMED} more" if len(bridges) > _NAMED else ""
    return ", ".join(bridge.address for bridge in bridges[:_NAMED]) + more


CHECKS = [Check(NAME, "quick", reads, judge, needs=("tuning.pcie_acs", "expect.acs_in_virtual_machines"))]
