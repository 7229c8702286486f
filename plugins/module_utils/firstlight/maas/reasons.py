"""Why a machine did not come: pure judgement over MAAS's events, the installation's log, BMC and console.

MAAS has no codes in its API; the types of its events are fixed texts (provisioningserver/events.py, 3.4 to 3.7), and
so are the words of firmware, iPXE, GRUB, the kernel, curtin and cloud-init. All of it is text from strangers: it is cut
before it is searched, the patterns are linear, and nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Finding, shorten
from .machines import Machine, label, status_name, text_of

RETRY, POWER_CYCLE, NO = "retry", "power_cycle", "no"

# symptom -> the finding's action, and whether one automatic try more helps: the whole step again, a boot from the
# network forced past MAAS, or not at all. docs/maas.md explains each.
REASONS: dict[str, tuple[str, str]] = {
    "install.power_failed": ("reset_bmc", POWER_CYCLE),
    "install.no_link": ("reseat", NO),
    "install.no_dhcp": ("escalate", POWER_CYCLE),
    "install.no_pxe": ("power_cycle", POWER_CYCLE),
    "install.no_kernel": ("escalate", POWER_CYCLE),
    "install.certificate": ("escalate", NO),
    "install.clock": ("reset_bmc", NO),
    "install.disk_write": ("replace", NO),
    "install.kernel_panic": ("power_cycle", RETRY),
    "install.out_of_memory": ("escalate", NO),
    "install.script_failed": ("escalate", NO),
    "install.curtin_failed": ("escalate", RETRY),
    "install.cloud_init_failed": ("escalate", RETRY),
    "install.no_first_boot": ("power_cycle", RETRY),
    "install.failed": ("retry", RETRY),
    "install.timed_out": ("retry", RETRY),
}

_IN_VAIN = frozenset(f"install.{x}" for x in ("power_failed", "no_link", "no_dhcp", "no_pxe", "kernel_panic"))
_SAYS_SO = frozenset(f"install.{x}" for x in ("timed_out", "curtin_failed", "cloud_init_failed", "script_failed"))

# How far a machine came since the phase began.
NOTHING, NETWORK, KERNEL, RUNNING, INSTALLED = range(5)
_REACHED = {
    "PXE Request": NETWORK,
    "TFTP Request": NETWORK,
    "HTTP Request": NETWORK,
    "Performing PXE boot": NETWORK,
    "Loading ephemeral": KERNEL,
    "Gathering information": RUNNING,
    "Node commissioning": RUNNING,
    "Node commissioning failure": RUNNING,
    "Running test": RUNNING,
    "Script result": RUNNING,
    "Node installation": RUNNING,
    "Node installation failure": RUNNING,
    "Configuring storage": RUNNING,
    "Installing OS": RUNNING,
    "Configuring OS": RUNNING,
    "Installation complete": INSTALLED,
    "Rebooting": INSTALLED,
    "Node post-installation failure": INSTALLED,
}
_POWER_FAILED = frozenset(
    {"Failed to power on node", "Failed to power off node", "Failed to power cycle node", "Failed to query node's BMC"}
)
_POWER_WORKED = frozenset({"Node powered on", "Node powered off", "Queried node's BMC"})
_STARTED = {"commission": "Commissioning", "deploy": "Deploying", "release": "Releasing"}
_TOO_MUCH = 65536  # characters of one text that are looked at: its end
_LINE = 300

# What a line of the console or of a log means. The first that fits anywhere wins, and within it the last line.
# fmt: off
_LINES: tuple[tuple[str, int, re.Pattern[str]], ...] = tuple(
    # symptom, the furthest that the machine may have come for it to matter, pattern
    (symptom, furthest, re.compile(pattern, re.IGNORECASE))
    for symptom, furthest, pattern in (
        ("install.kernel_panic", INSTALLED, r"kernel panic - not syncing"),
        ("install.clock", INSTALLED,
         r"not yet valid|Release file for .{0,120} is not valid yet|Expired timestamp|Timestamp refused"
         r"|certificate has expired or is not yet|clockskew.{0,80} to -?\d{3,}"),
        ("install.certificate", INSTALLED,
         r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|x509: |SSL certificate problem|SSLCertVerificationError"
         r"|self.signed certificate|unable to get (?:local )?issuer certificate|certificate has expired"
         r"|ipxe\.org/0216eb|Certificate verification failed"),
        # not of a floppy, CD or loop device that is not there
        ("install.disk_write", INSTALLED,
         r"I/O error(?:, | on )dev(?:ice)? (?!fd|sr|loop|zram|nbd|mtdblock)\S|critical (?:medium|target) error"
         r"|Input/output error|\[Errno 5\]|\bEIO\b|nvme\S* .{0,60}timeout, (?:aborting|reset|disable) controller"
         r"|nvme\S* .{0,60}controller is down|Remounting filesystem read-only|attempt to access beyond end of device"
         r"|Read-only file system|lost page write"),
        ("install.out_of_memory", INSTALLED, r"Out of memory: Kill|oom-kill:|Cannot allocate memory|\bMemoryError\b"),
        ("install.no_link", NOTHING,
         r"PXE-E61|Media test failure|check cable|link-up on net\d+\.* *(?:down|failed)|NIC is not ready.{0,20}no link"
         r"|No network device with link|Link is down, check"),
        ("install.no_dhcp", NOTHING,
         r"PXE-E(?:16|18|51|52|53|55)\b|No DHCP or proxyDHCP offers|No offer received|No boot filename received"
         r"|No configuration methods succeeded|No DHCPOFFERS received|no response after \d+ secs - giving up"
         r"|DHCP(?:v4|v6)? (?:failed|timed out|timeout)|\(net\d+ \S+\)\.*.{0,80}ipxe\.org/040ee"),
        ("install.no_kernel", NETWORK,
         r"PXE-E(?:11|12|21|23|24|32|35|36|37|38|39|3B|3F|79|99)\b|PXE-T\d\d\b|TFTP.{0,40}(?:time ?out|error|not found)"
         r"|NBP (?:file ?size is 0|is too big)|https?://ipxe\.org/[0-9a-f]{6}|could not (?:start|select|boot|load) "
         r"|error: (?:time ?out|file `|couldn't send|you need to load the kernel|no suitable|failure reading)"
         r"|Server (?:IP )?address.{0,40}unreachable|VFS: Unable to mount root|Unable to find a (?:live|medium)"
         r"|Gave up waiting for root|squashfs.{0,60}(?:fail|not found|error)"),
        ("install.curtin_failed", INSTALLED,
         r"curtin: Installation failed|finish: cmd-install.{0,120}FAIL|Unexpected error while running command"
         r"|ProcessExecutionError|curtin.{0,40}(?:Traceback|exception)|failed to run curtin"),
        ("install.cloud_init_failed", INSTALLED,
         r"cloud-init\[\d+\]:.{0,120}(?:Traceback|CRITICAL|ERROR)|Failed to start .{0,60}cloud-(?:init|config|final)"
         r"|Failed (?:running|loading) module|Failed loading yaml|failed to fetch metadata|Used fallback datasource"
         r"|No instance datasource found"),
    )
)
# fmt: on
# Terminal control: colours, cursor, titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]{0,30}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[ -/]{0,4}[0-~])")


@dataclass(frozen=True)
class BmcState:
    """What the BMC says of a machine that stalls. power: On, Off... link: up or down, of the NIC that boots.

    post: how far the firmware came. logs: its latest entries. error: why it could not be asked. "" is not told.
    """

    power: str = ""
    link: str = ""
    nic: str = ""
    post: str = ""
    logs: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Look:
    """What there is to judge by.

    events: of MAAS, newest first. log: the installer's. console: since the phase began. notes: what could not be read.
    """

    events: Sequence[dict[str, Any]] = ()
    bmc: BmcState | None = None
    console: str = ""
    log: str = ""
    notes: tuple[str, ...] = ()


def judge(phase: str, machine: Machine, look: Look, timed_out_minutes: float | None = None) -> Finding:
    """Why a machine failed in a phase (commission, deploy, release), or did not come out of it in time.

    Only what happened since the phase began counts.
    """
    recent = _since_start(phase, look.events)
    far = _reached(recent)
    said = _said(machine, recent, timed_out_minutes)
    power = next((e for e in recent if e.get("type") in _POWER_FAILED | _POWER_WORKED), None)
    if far == NOTHING and power is not None and power.get("type") in _POWER_FAILED:
        text = _text(power)
        return _finding(machine, "install.power_failed", f"{said}; {text}" if text != said else said)
    found = _by_text(machine, look, far, said)
    if found is not None:
        return found
    if phase == "release" and power is not None and power.get("type") in _POWER_FAILED:
        return _finding(machine, "install.power_failed", f"{said}; {_text(power)}")
    bmc = look.bmc or BmcState()
    if phase != "release" and far == NOTHING:
        if bmc.power == "Off" and timed_out_minutes is not None:
            evidence = f"{said}; its BMC says that it is off{_hints(bmc)}"
            return _finding(machine, "install.power_failed", evidence)
        if bmc.link == "down":
            evidence = f"{said}; its BMC says that {bmc.nic or 'the port that boots'} has no link{_hints(bmc)}"
            return _finding(machine, "install.no_link", evidence, bmc.nic)
        if recent:
            evidence = f"{said}; no network boot was seen since MAAS powered it on (VLAN? DHCP? boot order?)"
            return _finding(machine, "install.no_pxe", evidence + _hints(bmc))
    if phase != "release" and far == NETWORK:
        evidence = f"{said}; it booted from the network, and loaded no kernel; last: {_last(recent)}"
        return _finding(machine, "install.no_kernel", evidence + _hints(bmc))
    found = _by_event(machine, recent, said, far)
    if found is not None:
        return found
    last = _last(recent)
    symptom = "install.failed" if timed_out_minutes is None else "install.timed_out"
    reached = f"; the last that was seen of it: {last}" if last else ""
    return _finding(machine, symptom, f"{phase}: {said}{reached}{_hints(bmc)}")


def judge_stalled(phase: str, machine: Machine, look: Look, minutes: float, before: int | None) -> Finding | None:
    """A machine shows nothing new for so many minutes: the finding when waiting is in vain, None when it may come.

    before: how far it was at the look before this one, None for the first (see ``reached``).
    """
    far = reached(phase, look)
    finding = judge(phase, machine, look, minutes)
    if finding.symptom in _IN_VAIN:
        return finding
    # A machine that runs says itself when it has given up; and what a line tells may have been overcome since.
    return finding if far == before and finding.symptom not in _SAYS_SO else None


def reached(phase: str, look: Look) -> int:
    """How far the machine came since the phase began: NOTHING, NETWORK, KERNEL, RUNNING or INSTALLED."""
    return _reached(_since_start(phase, look.events))


def boots(machine: Machine) -> bool:
    """True when MAAS's list says by itself that the machine booted: its status message is the last event's type."""
    return any(text_of(machine, "status_message").startswith(known) for known in _REACHED)


def again(finding: Finding) -> str:
    """Whether one automatic try more helps against this: RETRY, POWER_CYCLE or NO."""
    return REASONS.get(finding.symptom, ("", NO))[1]


def clean(text: str) -> str:
    """The end of a console's text without terminal control."""
    return _ESCAPES.sub("", str(text)[-_TOO_MUCH:]).replace("\r", "\n")


# -- parts --------------------------------------------------------------------------------------------------------


def _by_text(machine: Machine, look: Look, far: int, said: str) -> Finding | None:
    """The cause that a line tells, of the installer's log or the console."""
    sources = [("installation log", _lines(look.log)), ("console", _lines(look.console)), ("", [said])]
    for symptom, furthest, pattern in _LINES:
        if far > furthest:
            continue
        for source, lines in sources:
            line = next((line for line in reversed(lines) if pattern.search(line)), None)
            if line is not None:
                evidence = f"{said}; {source}: {shorten(line, _LINE)}" if source else said
                return _finding(machine, symptom, evidence + _hints(look.bmc or BmcState(), short=True))
    return None


def _by_event(machine: Machine, recent: Sequence[dict[str, Any]], said: str, far: int) -> Finding | None:
    """The cause that the type of an event tells."""
    for event in recent:
        kind, text = event.get("type"), str(event.get("description") or "")
        evidence = f"{said}; {_text(event)}" if _text(event) not in said else said
        if kind in ("Script result", "Script") and re.search(r"'(?:Failed|Timed out|Failed [a-z ]+)'$|did not", text):
            curtin = "install.log" in text or "curtin" in text
            return _finding(machine, "install.curtin_failed" if curtin else "install.script_failed", evidence)
        if kind in ("Node installation failure", "Node commissioning failure", "Node post-installation failure"):
            by_curtin = "curtin" in text and kind == "Node installation failure"
            return _finding(machine, "install.curtin_failed" if by_curtin else "install.cloud_init_failed", evidence)
    if far == INSTALLED and (said.endswith("minutes") or "timed out" in said):
        evidence = f"{said}; installed and restarted, and the installed system has not reported since"
        return _finding(machine, "install.no_first_boot", evidence)
    return None


def _said(machine: Machine, recent: Sequence[dict[str, Any]], minutes: float | None) -> str:
    if minutes is not None:
        return f"still {status_name(machine)} after {minutes:g} minutes"
    failed = next((e for e in recent if str(e.get("level")) in ("ERROR", "CRITICAL")), None)
    return _text(failed) if failed else error_text(machine)


def error_text(machine: Machine) -> str:
    """MAAS's own word on what is wrong with the machine."""
    said = text_of(machine, "error_description") or text_of(machine, "status_message")
    return shorten(said, _LINE) or "no reason given"


def _hints(bmc: BmcState, short: bool = False) -> str:
    """What else the BMC says, for people."""
    parts = [] if short else [f"power {bmc.power}"] if bmc.power else []
    parts += [f"firmware at {bmc.post}"] if bmc.post and not short else []
    parts += [f"not asked: {bmc.error}"] if bmc.error and not short else []
    parts += [f"log: {line}" for line in bmc.logs[:1]]
    return f" (BMC: {shorten('; '.join(parts), 160)})" if parts else ""


def _reached(recent: Sequence[dict[str, Any]]) -> int:
    return max((_REACHED.get(str(e.get("type")), NOTHING) for e in recent), default=NOTHING)


def _last(recent: Sequence[dict[str, Any]]) -> str:
    last = next((e for e in recent if str(e.get("type")) in _REACHED), None)
    return _text(last) if last else ""


def _since_start(phase: str, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    recent: list[dict[str, Any]] = []
    for event in events:
        if not isinstance(event, dict):
            continue
        kind = str(event.get("type"))
        if kind == _STARTED.get(phase):
            return recent
        recent.append({**event, "type": kind})
    return recent


def _text(event: dict[str, Any]) -> str:
    description = shorten(str(event.get("description") or ""), _LINE)
    kind = shorten(str(event.get("type")), 64)
    return f"{kind}: {description}" if description else kind


def _lines(text: str) -> list[str]:
    return [line[:_LINE] for line in clean(text).split("\n") if line.strip()][-2000:]


def _finding(machine: Machine, symptom: str, evidence: str, locator: str = "") -> Finding:
    where = locator or f"MAAS machine {label(machine)}"
    return Finding("install", "fail", symptom, where, evidence, REASONS[symptom][0])
