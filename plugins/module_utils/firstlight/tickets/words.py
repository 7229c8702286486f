"""What is to be done, in simple words: by action and kind of part, and by symptom where that says more."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from ..policy.causes import HARDWARE, LINKS, UNSEEN
from ..slots import slot_of
from .links import HOT, HOT_STEPS, STEPS, of_link, port_of
from .model import Ticket
from .neutral import in_command, neutral

NOUNS = {
    "gpu": "GPU", "hca": "InfiniBand adapter", "nic": "Ethernet port", "drive": "drive", "psu": "power supply",
    "fan": "fan", "memory": "memory module", "cpu": "processor", "board": "PCIe card or riser", "bmc": "BMC",
    "host": "server",
}  # fmt: skip

_OFF = "Shut the server down, and pull its power cords."
_ON = "Plug the power cords in, and switch the server on."
_RESEAT = {
    "gpu": [_OFF, "Take {part} out, look at its contacts and power cables, and put it back until it locks.", _ON],
    "hca": [_OFF, "Take {part} out, look at its contacts, and put it back until it locks.", _ON],
    "nic": [_OFF, "Take the card of {part} out, look at its contacts, and put it back until it locks.", _ON],
    "drive": ["Pull {part}, wait ten seconds, and push it back until it locks.",
              "If several drives are missing, reseat the cables of the backplane with the server off."],
    "psu": ["Check the power cord of {part} at both ends, and that the outlet of the rack has power.",
            "Pull {part}, wait ten seconds, and push it back until it locks."],
    "fan": ["Take {part} out, look for what blocks it, and put it back until it locks."],
    "memory": [_OFF, "Take {part} out, look at its contacts, and put it back until both latches close.", _ON],
    "cpu": [_OFF, "Take {part} out, look at socket and pins, and put it back.", _ON],
    "board": [_OFF, "Take {part} out, look at its contacts, and put it back until it locks.", _ON],
    "bmc": ["Check the network cable of the BMC at both ends, and the port of the switch.",
            "If the link is up and the BMC does not answer: pull all power cords, wait a minute, plug them in."],
    "host": ["Pull all power cords, wait a minute, plug them in, and switch the server on.",
             "Watch its screen until the system is up, and write down where it stops."],
}  # fmt: skip
_REPLACE = {
    "gpu": [_OFF, "Replace {part}.", _ON],
    "hca": [_OFF, "Replace {part}; keep its transceiver and cable where they are well.", _ON],
    "nic": [_OFF, "Replace the card of {part}. Its MAC address changes: write the new one down.", _ON],
    "drive": ["Compare the serial number on the drive with this ticket before you pull it.", "Replace {part}."],
    "psu": ["Replace {part}; the other supplies keep the server running."],
    "fan": ["Replace {part}."],
    "memory": [_OFF, "Replace {part} by one of the same size and part number.", _ON],
    "cpu": [_OFF, "Replace {part}.", _ON],
    "board": [_OFF, "Replace {part}.", _ON],
    "bmc": ["Replace the board of the BMC, and set its address and password as before."],
    "host": ["Replace the server's main board, or the server; write its new service tag into the fleet file."],
}  # fmt: skip
# Nobody goes there for these: what whoever reads the ticket does from afar. {name} is the host.
_REMOTE = {
    "wait": "Look again in some minutes: `scripts/health {name}`",
    "retry": "Run the stage again: `ansible-playbook site.yml -l {name}`",
    "reset_bmc": "Restart the BMC: `ansible-playbook playbooks/reset_bmc.yml -l {name}`",
    "reboot": "Reboot the host: "
    "`ansible-playbook playbooks/configure.yml -l {name} --tags reboot -e reboot_reason={id}`",
    "power_cycle": "Take its power away and give it back: "
    "`ansible-playbook playbooks/power.yml -l {name} -e power=cycle -e confirm=true`",
    "update_firmware": "Bring the firmware to the version in the evidence: "
    "`ansible-playbook playbooks/firmware.yml -l {name} -e firmware_file=FILE`",
}
# Of what a person must decide: where to begin, by kind.
_DECIDE = {
    "driver": "Run the role that owns it: `ansible-playbook playbooks/configure.yml -l {name} --tags gpu_driver`",
    "zfs": "Read `zpool status` on {name}; nothing of the pool is made anew or wiped unasked.",
    "cooling": "Feel the air at front and back of {name}, close gaps with blind covers, compare its neighbours.",
    "identity": "Compare the service tag on {name} with this ticket; then correct the fleet file or the cabling.",
    "clock": "Run the role time_sync: `ansible-playbook playbooks/configure.yml -l {name} --tags time_sync`",
    "disk_space": "Find on {name} what fills it: `du -x`",
    "job": "Find out whose it is on {name}, and end it.",
    "bios": "See what differs: `ansible-playbook playbooks/bios.yml -l {name} --check --diff`",
    "firmware": "Compare the version in the evidence with the profile of {name}, and choose the file to install.",
    "gpu_setting": "Compare {name} with a good host of its profile, and correct what differs.",
    "cpu_setting": "See what differs in the BIOS: `ansible-playbook playbooks/bios.yml -l {name} --check --diff`",
    "bmc": "Try the BMC by hand: `scripts/bmc show {name} --ask`; then check its password, certificate and address.",
    "trust": "Check the SSH key and address of {name}, see docs/maas.md.",
    "maas": "Look at {name} in MAAS: its state, owner and events.",
    "install": "Read the console and MAAS's events of {name}.",
    "docker": "Read on {name}: `journalctl -u docker`",
    UNSEEN: "Run on {name} what the evidence names, and see why it cannot be read.",
}


def part_named(ticket: Ticket) -> str:
    """The part for people: GPU Video.Slot.26-1, GPU 0000:1b:00.0 in PCIe Slot 33 where a finding tells its slot; "the
    GPU that is missing" is for whoever reads the evidence."""
    if of_link(ticket):
        what = "transceiver" if any(f.symptom == HOT for f in ticket.findings) else "transceiver or cable"
        return f"{what} of {_port(ticket)}"
    noun = NOUNS.get(ticket.cause.kind, ticket.cause.kind.replace("_", " "))
    if ticket.cause.part in ("", LINKS):
        named = next((_placed(f.locator, [f]) for f in ticket.findings if f.locator), "")
        return f"the {noun} ({named})" if named and ticket.cause.kind in HARDWARE else f"the {noun}"
    about = [f for f in ticket.findings if ticket.cause.part.lower() in f.locator.lower()]
    spelled = _placed(about[0].locator if about else ticket.cause.part, about)
    return spelled if spelled.lower().startswith(noun.lower()) else f"{noun} {spelled}"


def _port(ticket: Ticket) -> str:
    """Where the link of a ticket is plugged in, with the slot of its card."""
    named = [f.locator for f in ticket.findings if f.locator]
    about = [f for f in ticket.findings if f.locator == named[0]] if named else []
    noun = NOUNS.get(ticket.cause.kind, "port")
    return port_of(_placed(named[0], about)) if named else f"the {noun}"


def _placed(locator: str, findings: Sequence[Finding]) -> str:
    """The part with where it sits, where one of these findings of it tells that."""
    slots = [slot for slot in (slot_of(f.evidence) for f in findings) if slot and slot not in locator]
    return f"{locator} in {max(slots, key=len)}" if slots else locator


def steps(ticket: Ticket) -> list[str]:
    """What to do, one sentence of Markdown a step, in order."""
    name, part = in_command(ticket.host), neutral(part_named(ticket))
    kind, values = ticket.cause.kind, {"name": name, "part": part, "id": in_command(ticket.id)}
    if of_link(ticket) and ticket.action not in _REMOTE:
        values["port"] = neutral(_port(ticket))
        hot = any(f.symptom == HOT for f in ticket.findings)
        found = HOT_STEPS if hot else STEPS.get(ticket.action, STEPS["escalate"])
    elif ticket.action in _REMOTE:
        found = [_REMOTE[ticket.action]]
    elif ticket.action in ("reseat", "replace"):
        table = _RESEAT if ticket.action == "reseat" else _REPLACE
        found = table.get(kind) or [
            f"Compare what is in {{name}} with the evidence, and {ticket.action} what it names."
        ]
    else:
        found = [_DECIDE.get(kind) or _of_symptoms(ticket)]
    return [step.format(**values) for step in found]


def _of_symptoms(ticket: Ticket) -> str:
    """Where no table knows the kind: each symptom has a row in the docs that says what to do."""
    symptoms = neutral(", ".join(dict.fromkeys(f.symptom for f in ticket.findings[:10])))
    symptoms = symptoms.replace("{", "{{").replace("}", "}}")
    if ticket.cause.kind in HARDWARE:
        return f"Read the evidence for {symptoms}, and decide whether {{part}} is reseated or replaced on {{name}}."
    return f"Look up {symptoms} in docs/triage-hosts.md, and carry out on {{name}} what its row says."


def needs_visit(ticket: Ticket) -> bool:
    return ticket.action in ("reseat", "replace")
