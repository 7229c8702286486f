"""Access control (ACS) of PCIe bridges: where it is on, traffic between GPUs and HCAs goes up to the root complex.

On bare metal every bridge's control register must be zero. In a virtual machine the registers of the real switches
are not visible, so that nothing is proved there: ``warn``.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional

from ..findings import Finding
from ..profile import Profile
from .capture import NOT_PERMITTED, Command, Source
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable

NAME = "pcie_acs"
VIRTUALIZATION = Command(("systemd-detect-virt",), limit=5.0)
# every PCI-to-PCI bridge with its capabilities, numbers in place of names
_LSPCI = Command(("lspci", "-D", "-n", "-vv", "-d", "::0604"), limit=15.0, max_bytes=8 * 1024 * 1024)
_NAMED = 12  # bridges that the evidence names
_HEAD_MAX = 300
_HEAD = re.compile(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ")
_BRIDGE = re.compile(r"^\S{7,16} (?:(?:Class )?0604: |PCI bridge(?: \[0604\])?: )")
_BIT = re.compile(r"^[A-Za-z]{1,30}[+-]$")
_DENIED = "<access denied>"


class Bridge(NamedTuple):
    """enabled: the bits of ACSCtl that are on, as lspci names them; None where it has no such capability.

    unread: why its register was not read: lspci's words, or what they lack; empty where it was.
    """

    address: str
    enabled: Optional[List[str]]
    unread: str = ""


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if profile.tuning.get("pcie_acs") != "disabled" and not asked(expect, NAME):
        return {}
    return {"lspci": _LSPCI, "virtualization": VIRTUALIZATION}


def parse_lspci(text: str) -> List[Bridge]:
    """The bridges of ``lspci -vv``, in its order; with or without domain, numbers (-n), or names."""
    blocks: List[List[str]] = []
    for line in text.splitlines():
        if _HEAD.match(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line.strip(" \t"))
    return [_bridge(head, lines) for head, *lines in blocks if _BRIDGE.search(head[:_HEAD_MAX])]


def _bridge(head: str, lines: List[str]) -> Bridge:
    address = head.partition(" ")[0]
    address = address if address.count(":") == 2 else f"0000:{address}"
    joined = "\n".join(lines)
    control = [line for line in lines if line.startswith("ACSCtl:")]
    if _DENIED in joined:
        return Bridge(address, None, _DENIED)
    if odd := [line for line in lines if line.startswith("!!!")]:
        return Bridge(address, None, odd[0][:60])
    if "Capabilities:" not in joined and "Status: Cap-" not in joined:
        return Bridge(address, None, "no capabilities told")
    if not control:
        has = "ACSCap:" in joined or "Access Control Services" in joined
        return Bridge(address, None, "ACSCtl not told" if has else "")
    words = control[0].partition(":")[2].split()
    if len(control) > 1 or not words or not all(_BIT.match(word) for word in words):
        return Bridge(address, None, f"not understood: {control[0][:60]}")
    return Bridge(address, [word[:-1] for word in words if word.endswith("+")])


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
    if not bridges and not output.text.strip() and kind != "none":
        return [Finding(NAME, "warn", f"{NAME}.virtual", "", f"runs in {kind}, whose bus shows no bridge")]
    if not bridges:  # no server is without: its GPUs and cards hang on root ports
        return unreadable(NAME, output.text, "lspci")
    findings: List[Finding] = []
    able = [bridge for bridge in bridges if bridge.enabled is not None]
    if on := [bridge for bridge in able if bridge.enabled]:
        bits = sorted({bit for bridge in on for bit in bridge.enabled or []})
        said = f"ACSCtl {', '.join(bits)} on, expected none; after a boot: is firstlight-pcie-acs.service enabled?"
        findings.append(
            Finding(NAME, "fail", f"{NAME}.enabled", f"{len(on)} of {len(able)} bridges: {_names(on)}", said, "retry")
        )
    if unread := [bridge for bridge in bridges if bridge.unread]:
        reason = NOT_PERMITTED if all(bridge.unread == _DENIED for bridge in unread) else "unreadable"
        said = f"lspci: capabilities of {_names(unread)}: {', '.join(sorted({b.unread for b in unread})[:3])}"
        findings.append(unknown(NAME, reason, said))
    return findings or ok(NAME, f"off on all {len(able)} bridges that have it, of {len(bridges)}")


def _names(bridges: List[Bridge]) -> str:
    more = f" and {len(bridges) - _NAMED} more" if len(bridges) > _NAMED else ""
    return ", ".join(bridge.address for bridge in bridges[:_NAMED]) + more


CHECKS = [Check(NAME, "quick", reads, judge, needs=("tuning.pcie_acs", "expect.acs_in_virtual_machines"))]
