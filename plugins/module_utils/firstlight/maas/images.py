"""The operating system that hosts get: pinned by versions.yml, and whether MAAS has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

COMPONENT = "operating_system"  # in versions.yml; the only one there that is no role
SERIES = "install_distro_series"
KERNEL = "install_hwe_kernel"
UNAME = {"amd64": "x86_64", "arm64": "aarch64"}  # architectures as MAAS has them, and as versions.yml

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_KERNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_-]*")
_SETTINGS = {  # what each looks like, and an example
    "series": (_IMAGE, "noble, ubuntu/noble or custom/NAME"),
    "hwe_kernel": (_KERNEL, "ga-24.04"),
    "release": (re.compile(r"[a-z]+-[0-9.]+"), "ubuntu-24.04"),
    "kernel_version": (_KERNEL, "6.8.0-49-generic"),
}


@dataclass(frozen=True)
class Pin:
    """What a host gets. series: as MAAS takes it (noble, ubuntu/noble, custom/NAME). hwe_kernel: "" for MAAS's choice.

    What the host itself must say afterwards, "" where anything is right: release ("ubuntu-24.04": ID and VERSION_ID of
    os-release), kernel_version (uname -r).
    """

    series: str
    hwe_kernel: str = ""
    release: str = ""
    kernel_version: str = ""


def pin_of(settings: Mapping[str, Any], value: Callable[[str], Any]) -> Pin:
    """settings: of versions.yml for this host. value: gives a setting of the site, which goes before versions.yml.

    A series of the site's makes what versions.yml says of the kernel and the release void: they belong together.
    InputError names what is wrong.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise InputError(f"versions.yml: {COMPONENT}: unknown setting {key!r}; known are {', '.join(_SETTINGS)}")
    found = {key: (given, f"versions.yml: {COMPONENT}.{key}") for key, given in settings.items()}
    if value(SERIES) not in (None, ""):
        found = {"series": (value(SERIES), SERIES)}
    if value(KERNEL) is not None:
        found["hwe_kernel"] = (value(KERNEL), KERNEL)
    if not found.get("series", ("",))[0]:
        raise InputError(f"{SERIES} is not set, and versions.yml pins no {COMPONENT}; name a series, e.g. noble")
    for key, (given, where) in found.items():
        pattern, example = _SETTINGS[key]
        if given != "" and not (isinstance(given, str) and pattern.fullmatch(given)):
            raise InputError(f"{where} is {given!r}; write e.g. {example}")
    return Pin(**{key: given for key, (given, _) in found.items()})


def find_images(resources: Iterable[Mapping[str, Any]], wanted: Mapping[str, tuple[Pin, str]]) -> dict[str, str]:
    """The full name of each host's image in MAAS ("ubuntu/noble"), by host name.

    resources: what GET boot-resources/ gave. wanted: the host's pin and its architecture in MAAS ("amd64/generic").
    InputError names what MAAS lacks and what it has, before anything is touched.
    """
    kernels: dict[str, dict[str, set[str]]] = {}  # architecture -> image -> kernels
    for resource in resources:
        architecture, _, kernel = str(resource.get("architecture")).partition("/")
        name = str(resource.get("name"))
        full = name if "/" in name else f"custom/{name}"
        kernels.setdefault(architecture, {}).setdefault(full, set()).add(kernel)
    return {name: _find(kernels, pin, architecture, name) for name, (pin, architecture) in wanted.items()}


def _find(kernels: dict[str, dict[str, set[str]]], pin: Pin, architecture: str, host: str) -> str:
    machine = architecture.partition("/")[0]
    images = kernels.get(machine, {})
    names = [pin.series] if "/" in pin.series else [f"ubuntu/{pin.series}", f"custom/{pin.series}"]
    found = next((name for name in names if name in images), None)
    if found is None:
        raise InputError(f"MAAS has no image {pin.series} for {machine} ({host}); it has: {_listed(images)}")
    # Each kernel of an Ubuntu image is a boot resource of its own; for other images MAAS judges at the deployment.
    if pin.hwe_kernel and found.startswith("ubuntu/") and pin.hwe_kernel not in images[found]:
        said = f"MAAS has no kernel {pin.hwe_kernel} of {found} for {machine} ({host})"
        raise InputError(f"{said}; it has: {_listed(images[found])}")
    return found


def _listed(names: Iterable[str], most: int = 12) -> str:
    known = sorted(name[:60] for name in names)
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return (", ".join(known[:most]) + rest) or "none"
