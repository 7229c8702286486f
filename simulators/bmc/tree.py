"""The Redfish tree: which path has which builder, collections, and the $expand and $select queries.

Nothing is built before it is asked for, and nothing is kept: a tree is a set of functions over a machine.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from simulators.bmc import errors
from simulators.bmc.machine import Machine

Resource = dict[str, Any]
Builder = Callable[..., Resource | None]

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"
CHASSIS = f"{ROOT}/Chassis/System.Embedded.1"
MANAGER = f"{ROOT}/Managers/iDRAC.Embedded.1"
OK = {"Health": "OK", "State": "Enabled"}
OK_ROLLUP = {"Health": "OK", "HealthRollup": "OK", "State": "Enabled"}

_EXACT: dict[str, Builder] = {}
_PATTERNS: dict[int, list[tuple[re.Pattern[str], Builder]]] = {}

# What another generation of iDRAC says differently: vendor -> resource as built -> as it is there, or None.
ADJUST: dict[str, Callable[[Machine, str, Resource], Resource | None]] = {}
NO_EXPANSION: set[str] = set()  # vendors that do not know $expand

# The fault "half_answering": what such a BMC cannot say, and members of collections that are not there.
_ERRORS = {f"{CHASSIS}/Thermal", f"{CHASSIS}/Power", f"{SYSTEM}/Processors/Video.Slot.27-1"}
_GONE = {f"{SYSTEM}/Bios", f"{SYSTEM}/Storage/CPU.1/Drives/Disk.Bay.6:Enclosure.Internal.0-1"}
_DEAD_MEMBERS = {
    f"{SYSTEM}/EthernetInterfaces": f"{SYSTEM}/EthernetInterfaces/NIC.Slot.40-1-1",
    f"{SYSTEM}/Storage": f"{SYSTEM}/Storage/RAID.Slot.39-1",
}


def resource(path: str) -> Callable[[Builder], Builder]:
    """Register a builder for a path; each `*` in it is one segment, handed to the builder after the machine."""

    def register(builder: Builder) -> Builder:
        if "*" in path:
            pattern = re.compile(re.escape(path).replace(r"\*", "([^/]+)"))
            _PATTERNS.setdefault(path.count("/"), []).append((pattern, builder))
        else:
            _EXACT[path] = builder
        return builder

    return register


def ref(path: str) -> Resource:
    """Return a link."""
    return {"@odata.id": path}


def head(path: str, kind: str, version: str, name: str, description: str | None = None) -> Resource:
    """Return what every resource starts with; `kind` such as "Drive", `version` such as "v1_12_1"."""
    return {
        "@odata.context": f"{ROOT}/$metadata#{kind}.{kind}",
        "@odata.id": path,
        "@odata.type": f"#{kind}.{version}.{kind}",
        "Description": description or name,
        "Id": path.rsplit("/", 1)[1],
        "Name": name,
    }


def collection(machine: Machine, path: str, kind: str, name: str, ids: Iterable[str]) -> Resource:
    """Return a collection. iDRAC's are in no order, so this one is shuffled, but always in the same way."""
    members = [f"{path}/{entry}" for entry in ids]
    if machine.has("half_answering") and path in _DEAD_MEMBERS:
        members.append(_DEAD_MEMBERS[path])
    random.Random(f"{machine.name}{path}").shuffle(members)
    return {
        "@odata.context": f"{ROOT}/$metadata#{kind}Collection.{kind}Collection",
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Description": name,
        "Members": [ref(member) for member in members],
        "Members@odata.count": len(members),
        "Name": name,
    }


def lookup(machine: Machine, path: str) -> Resource:
    """Return the resource at a path. RedfishError when there is none, or the machine's faults keep it back."""
    if machine.has("half_answering"):
        if path in _ERRORS:
            raise errors.internal()
        if path in _GONE:
            raise errors.not_found(path)
    if (machine.has("empty_systems") or machine.phase == "empty") and path.startswith(SYSTEM):
        raise errors.not_found(path)
    builder = _EXACT.get(path)
    found = builder(machine) if builder else None
    if builder is None:
        for pattern, candidate in _PATTERNS.get(path.count("/"), ()):
            match = pattern.fullmatch(path)
            if match:
                found = candidate(machine, *match.groups())
                break
    if found is not None and machine.vendor in ADJUST:
        found = ADJUST[machine.vendor](machine, path, found)
    if found is None:
        raise errors.not_found(path)
    return found


def exists(path: str) -> bool:
    """Say whether the tree has a place for this path, in any machine."""
    return path in _EXACT or any(pattern.fullmatch(path) for pattern, _ in _PATTERNS.get(path.count("/"), ()))


def answer(machine: Machine, path: str, query: str) -> Resource:
    """Return the answer to a GET, $expand and $select done. RedfishError when it cannot be answered."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    body = lookup(machine, path)
    if "Entries" in path and "Members" in body:
        body = _page(path, body, options)
    if "$expand" in options:
        if machine.vendor in NO_EXPANSION:
            raise errors.no_such_query("$expand")
        how = re.fullmatch(r"([*.~])(?:\(\$levels=(\d+)\))?", options["$expand"])
        if how is None or int(how[2] or 1) != 1:
            raise errors.RedfishError(
                400,
                errors.BASE + "QueryParameterOutOfRange",
                f"The value {options['$expand'][:100]} for the query parameter $expand is out of range *($levels=1).",
                (options["$expand"][:100], "$expand", "*($levels=1)"),
            )
        body = _expand(machine, body, how[1])
    if "$select" in options:
        wanted = {name.strip().split("/")[0] for name in options["$select"].split(",")}
        body = {key: value for key, value in body.items() if key in wanted or key.startswith("@odata.")}
    return body


def _page(path: str, body: Resource, options: dict[str, str]) -> Resource:
    """Return one page of a log: 50 entries at most, and where the next ones are."""
    members = body["Members"]
    skip = int(options["$skip"]) if options.get("$skip", "").isdigit() else 0
    top = min(int(options["$top"]), 50) if options.get("$top", "").isdigit() else 50
    page = body | {"Members": members[skip : skip + top]}
    if skip + top < len(members):
        page["Members@odata.nextLink"] = f"{path}?$skip={skip + top}"
    return page


def _expand(machine: Machine, body: Resource, what: str) -> Resource:
    """Put resources in place of links, one level deep: "." the subordinate ones, "~" those in Links, "*" both."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"@odata.id"}:
                if "#" in value["@odata.id"]:
                    return value
                try:
                    return lookup(machine, value["@odata.id"])
                except errors.RedfishError as error:
                    if error.status == 404:  # a dead member stays a bare link
                        return value
                    raise
            return {key: item if key.startswith("@") else replaced(item) for key, item in value.items()}
        if isinstance(value, list):
            return [replaced(item) for item in value]
        return value

    if "Members" in body:
        return body | {"Members": [replaced(member) for member in body["Members"]]}
    return {
        key: replaced(value) if (key == "Links" and what in "~*") or (key != "Links" and what in ".*") else value
        for key, value in body.items()
    }
