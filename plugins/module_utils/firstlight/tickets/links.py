"""Tickets about a link: its transceivers and cable, the switch's port, and the adapter only after them."""

from __future__ import annotations

import re

from ..findings import Finding
from .model import Ticket

_LINK = re.compile(r"hca\.(no_link|slow|errors|link_flaps)|(nic|install)\.no_link")
HOT = "hca.module_hot"

_CABLE = "A cable whose ends cannot be taken off (DAC, AOC) counts as a whole."
_LAST = "Only if that does not help either: shut the server down, and replace the adapter; its MAC or GUID changes."
STEPS = {
    "reseat": ["Pull the cable of {port} at both ends, clean its plugs and the transceivers, and put them back until "
               "they click.",
               f"If the link stays as it is: replace the transceiver, then the cable. {_CABLE}"],
    "replace": [f"Replace the transceiver of {{port}}, then the cable, then the transceiver at the switch. {_CABLE}",
                "If the link stays as it is: put the cable into another port of the switch, one that is known to be "
                "good.",
                _LAST],
    "escalate": ["See with `scripts/ledger show {name}`, and ask staff, what of {port} was replaced: transceivers and "
                 "cable come first.",
                 "Then look at the switch: its port, its log, and the link in another port that is known to be good.",
                 _LAST],
}  # fmt: skip
HOT_STEPS = [
    "Feel the air at the ports of {port}, and compare the transceivers beside it: where they are hot too, it is the "
    "air; close gaps with blind covers, look at the fans.",
    "Where it alone is hot: pull the transceiver, clean it and its plug, and put it back until it clicks.",
    "If it is hot again: replace the transceiver.",
    "If the new one is hot too: try its other end in another port of the switch, and only then replace the adapter.",
]


def is_link(finding: Finding) -> bool:
    """Whether it is about a transceiver, cable or port of a switch, as far as one can tell."""
    return bool(_LINK.fullmatch(finding.symptom)) or finding.symptom == HOT


def of_link(ticket: Ticket) -> bool:
    """Whether all that failed is a link, or a transceiver: no adapter that is gone, no heat anywhere else."""
    said = [f for f in ticket.findings if f.status == "fail"] or list(ticket.findings)
    return bool(said) and all(map(is_link, said))


def port_of(locator: str) -> str:
    """``HCA mlx5_3 port 1``, ``Ethernet port NIC.Slot.3-1-1``; "" where no finding names one."""
    return locator if not locator or locator.startswith("HCA") else f"Ethernet port {locator}"
