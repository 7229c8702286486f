"""Firmware files on disk, what they say they are for, and what a server has installed."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ..errors import InputError
from ..findings import Finding, shorten
from .client import Resource
from .judge_rest import version_key
from .values import link, state, text

MAX_FILE = 4 * 1024**3
MAX_XML = 1024**2
_DELL = ("Oem", "Dell", "DellSoftwareInventory", "Status")


@dataclass(frozen=True)
class Image:
    """A firmware file. components: ids of those that it is for, and version: "" and () where the file does not tell.

    Dell's update packages (Windows .EXE, a zip behind a program) tell, in package.xml.
    """

    path: Path
    size: int
    sha256: str
    version: str = ""
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class Software:
    """One installed firmware: path and id of its resource, id of its kind of component, name, version."""

    path: str
    id: str
    component: str
    name: str
    version: str

    @property
    def device(self) -> str:
        """Dell's FQDD of the part, e.g. BIOS.Setup.1-1; elsewhere the id."""
        return self.id.rpartition("__")[2]

    def is_a(self, wanted: str) -> bool:
        """True when a person or a file means this by ``wanted``: its device, its beginning, its name or its id."""
        wanted = wanted.lower()
        device = self.device.lower()
        return wanted in (device, self.component.lower(), self.name.lower(), self.id.lower()) or device.startswith(
            f"{wanted}."
        )


@dataclass(frozen=True)
class Choice:
    """What an image would do to a server: which firmware it replaces, the version it brings, or why not."""

    replaces: tuple[Software, ...] = ()
    version: str = ""
    refused: Finding | None = None

    @property
    def before(self) -> dict[str, str]:
        return {s.device: s.version for s in self.replaces}

    @property
    def after(self) -> dict[str, str]:
        return {s.device: self.version for s in self.replaces}


def read_image(path: Path | str, version: str = "", component: str = "") -> Image:
    """Look at a firmware file; version: what the operator says it is. InputError when it cannot be used so."""
    path = Path(path)
    digest = hashlib.sha256()
    try:
        size = path.stat().st_size
        if not 0 < size <= MAX_FILE:
            raise InputError(f"{size} bytes are no firmware file", str(path))
        with path.open("rb") as file:
            while block := file.read(1024**2):
                digest.update(block)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    told, components = _package(path)
    if told and version and version_key(told) != version_key(version):
        raise InputError(f"is version {told}, not {version}", str(path))
    if not told and not version:
        raise InputError("does not tell its version; name it as version:", str(path))
    if not components and not component:
        raise InputError("does not tell which component it is for; name it as component:, e.g. BIOS", str(path))
    return Image(path, size, digest.hexdigest(), told or version, components)


def installed(inventory: Iterable[Resource]) -> list[Software]:
    """What is installed, of a FirmwareInventory: not what was before, what is rolled back to, or what is only there."""
    everything = list(inventory)
    dells = any(text(entry, *_DELL) for entry in everything)
    found = []
    for entry in everything:
        version, identity = text(entry, "Version"), text(entry, "Id")
        gone = text(entry, *_DELL) != "Installed" if dells else state(entry) in ("Absent", "Disabled")
        if version and identity and not gone:
            found.append(Software(link(entry), identity, text(entry, "SoftwareId"), text(entry, "Name"), version))
    return found


def choose(image: Image, component: str, software: Iterable[Software], downgrade: bool = False) -> Choice:
    """Which of a server's firmware this image replaces. Pure.

    component: what the operator calls it, "" when the file tells. downgrade: an older version is wanted on purpose.
    """
    there = list(software)
    meant = [s for s in there if s.is_a(component)] if component else there
    fits = [s for s in meant if s.component in image.components] if image.components else meant
    if component and meant and not fits:
        # Adapters and drives have no component id on Dell; the BMC itself compares their PCI ids.
        fits = [s for s in meant if s.component in ("", "0")]
    if not fits:
        file = f"is for component {', '.join(image.components)}" if image.components else f"is said to be {component}"
        have = sorted({f"{s.device.partition('.')[0]} ({s.component})" for s in (meant or there)})
        evidence = f"{image.path.name} {file}; this server has {', '.join(have[:12]) or 'no firmware inventory'}"
        where = component or ", ".join(image.components)
        return Choice(refused=Finding("firmware", "fail", "firmware.wrong_component", where, evidence, "escalate"))
    newer = [s for s in fits if version_key(s.version) > version_key(image.version)]
    if newer and not downgrade:
        evidence = f"{newer[0].device} is {newer[0].version}, the file is {image.version}; say downgrade to go back"
        where = newer[0].device
        refused = Finding("firmware", "fail", "firmware.downgrade", where, evidence, "escalate")
        return Choice(tuple(fits), image.version, refused)
    old = [s for s in fits if version_key(s.version) != version_key(image.version)]
    return Choice(tuple(old), image.version)


def _package(path: Path) -> tuple[str, tuple[str, ...]]:
    """Version and component ids of a Dell update package; ("", ()) for a file of another kind."""
    try:
        with zipfile.ZipFile(path) as package:
            entry = next(
                (e for e in package.infolist() if e.filename.lower().rpartition("/")[2] == "package.xml"), None
            )
            if entry is None or entry.file_size > MAX_XML:
                return "", ()
            with package.open(entry) as stream:
                content = stream.read(MAX_XML)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError):
        return "", ()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        return "", ()
    try:
        root = ElementTree.fromstring(content)  # noqa: S314  the operator's own file, bounded, without entities
    except ElementTree.ParseError:
        return "", ()
    devices = (e.get("componentID") or "" for e in root.iter() if e.tag.rpartition("}")[2] == "Device")
    ids = dict.fromkeys(d for d in devices if re.fullmatch(r"[0-9]{1,9}", d))
    return shorten(root.get("vendorVersion") or "", 60), tuple(ids)
