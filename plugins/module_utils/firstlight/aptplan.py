"""What an apt transaction would do, from what ``apt-get --simulate`` prints, and whether it may.

Pure: nothing is run here. Standard library only, this file also runs on the hosts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

# a transaction that is about something else must leave these as they are
KERNEL = ("linux-image-*", "linux-modules-[0-9]*", "linux-modules-extra-*", "linux-generic*", "linux-virtual*")

# RelStr() in apt's cacheiterators: "Inst NAME [OLD] (NEW LABEL:VERSION/ARCHIVE, LABEL:ARCHIVE [ARCH])"
_INST = re.compile(r"^Inst (\S{1,200})(?: \[([^\]]{1,200})\])? \((\S{1,200}) (.{0,2000}?)\s?\[([\w-]{1,30})\]\)")
_REMV = re.compile(r"^(?:Remv|Purg) (\S{1,200}) \[([^\]]{1,200})\]")
_POLICY_NAME = re.compile(r"^(\S{1,200}):$")
_POLICY_VERSION = re.compile(r"^ (\*\*\*|   ) (\S{1,200})(?: -?\d+)?$")
_POLICY_SOURCE = re.compile(r"^ +-?\d+ (.{1,1000})$")


@dataclass(frozen=True)
class Change:
    """One package that would be installed, or changed (old is not empty). labels: of the archives that offer it."""

    name: str
    new: str
    old: str = ""
    labels: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    changes: List[Change] = field(default_factory=list)
    removals: Dict[str, str] = field(default_factory=dict)  # name: version that would go


def parse_simulation(text: str) -> Plan:
    """The plan in the output of ``apt-get --simulate install``; lines of other kinds are passed over."""
    changes: List[Change] = []
    removals: Dict[str, str] = {}
    for line in text.splitlines():
        found = _INST.match(line)
        if found:
            name, old, new, offered, _ = found.groups()
            changes.append(Change(_plain(name), new, old or "", _labels(offered)))
            continue
        found = _REMV.match(line)
        if found:
            removals[_plain(found.group(1))] = found.group(2)
    for change in changes:  # an upgrade is printed as both where the order of steps needs it
        removals.pop(change.name, None)
    return Plan(changes, removals)


def _plain(name: str) -> str:
    return name.partition(":")[0]


def _labels(offered: str) -> Tuple[str, ...]:
    """``Debian:12.9/stable, Debian-Security:12/stable-security`` as the labels alone."""
    parts = (part.strip().rpartition(":")[0] for part in offered.split(", "))
    return tuple(dict.fromkeys(part for part in parts if part))


def parse_files(text: str) -> Dict[str, str]:
    """``apt-cache policy`` without a package: the label of each package file, by its description there."""
    labels: Dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("Pinned packages:"):
            break
        stripped = line.strip()
        if stripped.startswith("release "):
            fields = dict(part.partition("=")[::2] for part in stripped[len("release ") :].split(","))
            labels[current] = fields.get("l", "")
            continue
        found = _POLICY_SOURCE.match(line)
        if found:
            current = found.group(1).strip()
    return labels


def parse_policy(text: str, files: Dict[str, str]) -> Dict[str, Tuple[str, ...]]:
    """``apt-cache policy PACKAGE...``: by installed package the labels of the archives that have its very version.

    Empty where no archive has it (any more).
    """
    found: Dict[str, List[str]] = {}
    name, inside = "", False
    for line in text.splitlines():
        heading = _POLICY_NAME.match(line)
        if heading:
            name, inside = _plain(heading.group(1)), False
            continue
        version = _POLICY_VERSION.match(line)
        if version:
            inside = version.group(1) == "***"
            if inside:
                found.setdefault(name, [])
            continue
        source = _POLICY_SOURCE.match(line)
        if source and inside and name in found:
            label = files.get(source.group(1).strip(), "")
            if label:
                found[name].append(label)
    return {package: tuple(dict.fromkeys(labels)) for package, labels in found.items()}


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a package's name matches one of these; a pattern that begins with ``!`` takes out what it matches."""
    known = list(patterns)
    if any(fnmatchcase(name, pattern[1:]) for pattern in known if pattern.startswith("!")):
        return False
    return any(fnmatchcase(name, pattern) for pattern in known if not pattern.startswith("!"))


def refusals(
    plan: Plan,
    family: Sequence[str],
    labels: Sequence[str] = (),
    installed: Optional[Dict[str, Tuple[str, ...]]] = None,
    protected: Sequence[str] = KERNEL,
) -> List[str]:
    """Why this transaction may not run; empty when it may.

    family: patterns of the packages that it is about; only those may be removed.
    labels: patterns of the archives' labels that packages of the family may come from; empty, any.
    installed: packages of the family that are there now, with the labels of their archives.
    """
    said: List[str] = []
    for change in plan.changes:
        if matches(change.name, protected):
            what = f"replace {change.name} {change.old} by {change.new}" if change.old else f"install {change.name}"
            said.append(f"would {what}: the kernel is not its business")
    for name, version in sorted(plan.removals.items()):
        if matches(name, protected):
            said.append(f"would remove {name} {version}: the kernel is not its business")
        elif not matches(name, family):
            said.append(f"would remove {name} {version}, which has nothing to do with it")
    return said + (_mixed(plan, family, labels, installed or {}) if labels else [])


def _mixed(
    plan: Plan, family: Sequence[str], labels: Sequence[str], installed: Dict[str, Tuple[str, ...]]
) -> List[str]:
    foreign: Dict[str, str] = {}
    touched = set(plan.removals) | {change.name for change in plan.changes}
    for name, has in installed.items():
        if name not in touched and has and not any(_is_one(label, labels) for label in has):
            foreign[name] = f"installed from {' or '.join(has)}"
    for change in plan.changes:
        if matches(change.name, family) and not any(_is_one(label, labels) for label in change.labels):
            foreign[change.name] = f"{change.new} from {' or '.join(change.labels) or 'an archive without a label'}"
    if not foreign:
        return []
    named = ", ".join(f"{name} ({why})" for name, why in sorted(foreign.items())[:10])
    more = f" and {len(foreign) - 10} more" if len(foreign) > 10 else ""
    return [f"would mix packages of several archives, wanted is {' or '.join(labels)} alone: {named}{more}"]


def _is_one(label: str, labels: Sequence[str]) -> bool:
    return any(fnmatchcase(label, pattern) for pattern in labels)


def missing(specs: Iterable[str], installed: Dict[str, str]) -> List[str]:
    """Those of ``NAME`` or ``NAME=VERSION`` (a pattern) that are not there as wanted. installed: version by name."""
    wanted = []
    for spec in specs:
        name, _, version = spec.partition("=")
        have = installed.get(name)
        if have is None or (version and not fnmatchcase(have, version)):
            wanted.append(spec)
    return wanted


def complete(specs: Sequence[str], plan: Plan, family: Sequence[str]) -> List[str]:
    """specs, and by name and version each package of the family that is there and has to change with them."""
    named = {spec.partition("=")[0] for spec in specs}
    also = [f"{c.name}={c.new}" for c in plan.changes if c.old and c.name not in named and matches(c.name, family)]
    return [*specs, *also]


def parse_installed(text: str) -> Dict[str, str]:
    """Version by name of what is installed, from dpkg-query's ``${db:Status-Status}|${Package}|${Version}`` by line."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 3 and parts[0] == "installed":
            found[parts[1]] = parts[2]
    return found


def errors(text: str) -> str:
    """apt's own words on why it cannot, on one line."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line.startswith("E: ") or " : " in line]
    return "; ".join(dict.fromkeys(said[:6])) or next((line for line in reversed(lines) if line), "it did not say why")
