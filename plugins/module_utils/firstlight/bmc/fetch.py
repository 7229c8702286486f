"""Reading the part of a Redfish tree that matters, with as few requests as the BMC allows."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .client import ROOT, Resource
from .errors import AuthFailed, Blocked, BmcError, HalfAnswering, NotReady, TimedOut, Unreachable
from .values import dig, link, mac, number, rows, text
from .vendors import host_system
from .vendors.nvidia import is_baseboard
from .wanted import Found, read_wanted

MAX_MEMBERS = 512
MAX_PAGES = 20
MAX_SYSTEMS = 4
MAX_LINKS = 20  # followed in a log that does not expand
MAX_FAILURES = 40  # a BMC that fails this often is not worth more requests

# After one of these nothing else will be answered either.
_FATAL = (AuthFailed, Blocked, TimedOut, Unreachable)


class Reader(Protocol):
    """Where resources come from: a BmcClient, or a captured tree."""

    @property
    def can_expand(self) -> bool: ...

    def get(self, path: str, expand: bool = False) -> Resource: ...


class TreeReader:
    """Resources from memory: path -> JSON object. What is not there answers as a BMC's 404 does."""

    can_expand = False

    def __init__(self, resources: Mapping[str, Any]) -> None:
        self._resources = resources

    def get(self, path: str, expand: bool = False) -> Resource:
        resource = self._resources.get(path.rstrip("/"))
        if not isinstance(resource, dict):
            raise HalfAnswering(f"GET {path}: 404", 404)
        return resource


@dataclass
class Tree:
    """What was read: resources by path; failures by part ("gpus": ["GET ...: 404 ..."]); when the clock was read."""

    resources: dict[str, Resource] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    clock_read_at: datetime.datetime | None = None


def read_tree(reader: Reader, root: Resource | None = None) -> Tree:
    """Read one BMC.

    A part that cannot be read is noted in Tree.failures. Raises a BmcError when nothing useful can be said: no
    system, not ready, or no answer any more.
    """
    return _Walk(reader).everything(root)


def read_macs(reader: Reader, root: Resource | None = None) -> Tree:
    """Read what identifies one server, and its Ethernet ports with their MACs, no more. Otherwise as read_tree."""
    return _Walk(reader).macs(root)


def read_collection(reader: Reader, path: str) -> list[Resource]:
    """The members of one collection, whole; [] without a path. A BmcError when none of them can be read."""
    if not path:
        return []
    walk = _Walk(reader)
    members = walk.collection(path)
    for notes in walk.tree.failures.values() if not members else ():
        raise HalfAnswering(notes[0])
    return members


class _Walk:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.expand = reader.can_expand
        self.tree = Tree()
        self.part = "system"
        self.others: list[Resource] = []

    def everything(self, root: Resource | None) -> Tree:
        root = root or self.reader.get(ROOT)
        self.tree.resources[ROOT] = root
        system = self._system(root)
        chassis = self._optional("nics", link(system, "Links", "Chassis", 0)) or {}
        for part in ("hcas", "psus", "pcie", "thermal"):  # these hang below the chassis
            self.tree.failures.setdefault(part, []).extend(self.tree.failures.get("nics", []))
        self.part = "clock"
        managers = self.collection(link(root, "Managers"))
        if managers:
            self.tree.clock_read_at = datetime.datetime.now(datetime.UTC)
        self._network(system, chassis)
        self._some("gpus", link(system, "Processors"))
        self._storage(system)
        self._optional("bios", link(system, "Bios"))
        updates = link(root, "UpdateService").rstrip("/")
        self._some("firmware", f"{updates}/FirmwareInventory" if updates else "")
        read_wanted(self, Found(root, system, self.others, chassis, managers[0] if managers else {}, self._has_gpus()))
        self.tree.failures = {part: notes for part, notes in self.tree.failures.items() if notes}
        return self.tree

    def macs(self, root: Resource | None) -> Tree:
        root = root or self.reader.get(ROOT)
        self.tree.resources[ROOT] = root
        system = self._system(root)
        self.part = "nics"
        interfaces = self.collection(link(system, "EthernetInterfaces"))
        if not interfaces or not all(mac(i.get("MACAddress")) or mac(i.get("PermanentMACAddress")) for i in interfaces):
            self._network(system, self._optional("nics", link(system, "Links", "Chassis", 0)) or {})
        self.tree.failures = {part: notes for part, notes in self.tree.failures.items() if notes}
        return self.tree

    def _system(self, root: Resource) -> Resource:
        path = link(root, "Systems") or f"{ROOT}/Systems"
        members = self._members(path)
        if not members:
            raise NotReady(f"GET {path}: 200 without any system; a BMC that has just started says so")
        systems = [system for system in map(self._full, members[:MAX_SYSTEMS]) if system is not None]
        if not systems:
            raise HalfAnswering(f"GET {path}: its members are no systems")
        system = host_system(systems)
        notes = self.tree.failures.get("system")
        if notes and is_baseboard(system):
            raise HalfAnswering(notes[0])  # what is left is the GPUs' side of a machine, not the machine
        self.others = [other for other in systems if other is not system]
        return system

    def _has_gpus(self) -> bool:
        return any(text(r, "ProcessorType") == "GPU" for r in self.tree.resources.values())

    def resource(self, part: str, path: str) -> Resource | None:
        """For wanted.read_wanted."""
        return self._optional(part, path)

    def members(self, part: str, path: str, pages: int = 0) -> list[Resource]:
        """For wanted.read_wanted. With a limit of pages, members that are mere links are not all followed."""
        self.part = part
        if not pages:
            return self.collection(path)
        found = self._try(lambda: self._members(path, pages)) or []
        links = [member for member in found if not _is_whole(member)][:MAX_LINKS]
        whole = [self._full(member) for member in found if _is_whole(member) or member in links]
        return [member for member in whole if member is not None]

    def _network(self, system: Resource, chassis: Resource) -> None:
        self.part = "nics"
        interfaces = self.collection(link(system, "EthernetInterfaces"))
        addresses = {text(i, "Id"): mac(i.get("MACAddress")) or mac(i.get("PermanentMACAddress")) for i in interfaces}
        self.part = "hcas"
        for adapter in self.collection(link(chassis, "NetworkAdapters")):
            name = text(adapter, "Id")
            infiniband = name.startswith("InfiniBand.")
            own = [address for identity, address in addresses.items() if identity.startswith(f"{name}-")]
            if own and all(own):
                continue  # the EthernetInterfaces said it all
            self.part = "hcas" if infiniband else "nics"
            ports = self.collection(link(adapter, "NetworkPorts") or link(adapter, "Ports"))
            # Ethernet ports can be partitioned; an R750 was seen to list one port of an InfiniBand adapter with two.
            if (
                not infiniband
                or len(ports) < max(1, _functions(adapter))
                or not all(_has_address(port) for port in ports)
            ):
                self.collection(link(adapter, "NetworkDeviceFunctions"))

    def _storage(self, system: Resource) -> None:
        self.part = "drives"
        for controller in self.collection(link(system, "Storage")):
            drives = rows(controller, "Drives")[:MAX_MEMBERS]
            path = link(controller)
            if self.expand and len(drives) > 1 and not any(_is_whole(d) for d in drives) and path:
                # one request instead of one a drive, where the BMC expands single resources too
                for drive in self._inline_drives(path):
                    self._keep(drive)
            for drive in drives:
                if link(drive).rstrip("/") not in self.tree.resources:
                    self._full(drive)

    def _inline_drives(self, path: str) -> list[Resource]:
        try:
            body = self.reader.get(path, expand=True)
        except _FATAL:
            raise
        except BmcError:
            return []  # then one by one
        return [drive for drive in rows(body, "Drives")[:MAX_MEMBERS] if _is_whole(drive)]

    def _some(self, part: str, path: str) -> None:
        self.part = part
        self.collection(path)

    def _optional(self, part: str, path: str) -> Resource | None:
        self.part = part
        if not path:
            return None
        return self._full({"@odata.id": path})

    def collection(self, path: str) -> list[Resource]:
        """All members of a collection, whole; [] when the BMC has no such link or cannot answer it."""
        if not path:
            return []
        found = self._try(lambda: self._members(path))
        if found is None:
            return []
        whole = [self._full(member) for member in found]
        return [member for member in whole if member is not None]

    def _members(self, path: str, pages: int = MAX_PAGES) -> list[Resource]:
        """The members of a collection (whole, or links), all pages. Raises BmcError."""
        body = self._get_expanded(path)
        self.tree.resources[path.rstrip("/")] = body
        found: dict[str, Resource] = {}
        for page in range(pages):
            listed = body.get("Members", [] if _says_empty(body) else None)
            if not isinstance(listed, list):
                raise HalfAnswering(f"GET {path}: Members is not a list")
            good = [m for m in listed if isinstance(m, dict) and (link(m) or _is_whole(m))]
            if len(good) < len(listed):
                self._note(f"GET {path}: {len(listed) - len(good)} of its members are no resources")
            # By path, so that pages in a circle, or a member named twice, add nothing.
            found.update({link(m) or f"inline {len(found)}": m for m in good if link(m) not in found})
            following = body.get("Members@odata.nextLink")
            if not isinstance(following, str) or len(found) >= MAX_MEMBERS or page + 1 == pages:
                break
            body = self.reader.get(following)
        members = list(found.values())[:MAX_MEMBERS]
        self.tree.resources[path.rstrip("/")] = {
            "@odata.id": path,
            "Members": [{"@odata.id": link(m)} if link(m) else m for m in members],
        }
        return members

    def _get_expanded(self, path: str) -> Resource:
        if not self.expand:
            return self.reader.get(path)
        try:
            return self.reader.get(path, expand=True)
        except _FATAL:
            raise
        except BmcError as error:
            if isinstance(error, NotReady) and "SYS446" not in error.codes:
                raise
            body = self.reader.get(path)  # one bad member can spoil the expansion of all
            if error.status in (400, 405, 501):
                self.expand = False  # some firmware offers it in vain
            return body

    def _full(self, member: Resource) -> Resource | None:
        """A member as a whole resource, read when it is only a link; None when it cannot be read."""
        path = link(member)
        if _is_whole(member):
            self._keep(member)
            return member
        if path.rstrip("/") in self.tree.resources:
            return self.tree.resources[path.rstrip("/")]
        body = self._try(lambda: self.reader.get(path))
        if body is not None:
            self.tree.resources[path.rstrip("/")] = body
        return body

    def _keep(self, resource: Resource) -> None:
        path = link(resource)
        if path:
            self.tree.resources[path.rstrip("/")] = resource

    def _try(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except _FATAL:
            raise
        except NotReady as error:
            if "SYS446" not in error.codes:  # an internal error of one resource says nothing about the others
                raise
            self._note(error.evidence)
        except BmcError as error:
            self._note(error.evidence)
        return None

    def _note(self, evidence: str) -> None:
        self.tree.failures.setdefault(self.part, []).append(evidence)
        if sum(map(len, self.tree.failures.values())) > MAX_FAILURES:
            raise HalfAnswering(f"more than {MAX_FAILURES} resources cannot be read, e.g. {evidence}")


def _is_whole(member: Any) -> bool:
    """True for a resource, False for a mere link to one."""
    return isinstance(member, dict) and any(not re.match(r"^@", key) for key in member if isinstance(key, str))


def _says_empty(body: Resource) -> bool:
    """AMI leaves Members out of a collection that has none."""
    return text(body, "@odata.type").endswith("Collection") and "error" not in body


def _functions(adapter: Resource) -> int:
    """How many network functions an adapter says it has."""
    controllers = rows(adapter, "Controllers")
    return sum(number(c, "ControllerCapabilities", "NetworkDeviceFunctionCount") or 0 for c in controllers)


def _has_address(port: Resource) -> bool:
    listed = dig(port, "AssociatedNetworkAddresses") or dig(port, "Ethernet", "AssociatedMACAddresses")
    return isinstance(listed, list) and any(mac(address) for address in listed)
