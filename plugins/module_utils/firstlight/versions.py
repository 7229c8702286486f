"""inventory/versions.yml: which version of what is installed on which distribution, architecture and profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError
from .yamlfile import YamlFile, read_yaml

ANY = "any"
ARCHITECTURES = ("x86_64", "aarch64")
NOT_ROLES = ("operating_system", "firmware")  # components that no role installs; see maas/images.py, and EXPECTED
# by key of the checks' expect: the component and setting that has it
EXPECTED = {
    "gpu_driver": ("gpu_driver", "version"),
    "gpu_vbios": ("firmware", "gpu_vbios"),
    "hca_firmware": ("firmware", "hca"),
}
FIRMWARE = "firmware"
# its settings that a host's own checks read; all others are components as the BMC's inventory names them
_OF_HOST = tuple(setting for component, setting in EXPECTED.values() if component == FIRMWARE)

_SETTINGS: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
    "properties": {
        "version": {"type": "string", "x-hint": 'a version in quotes: "1.10"'},
        "url": {"type": "string", "pattern": "^https?://", "x-hint": "a URL that begins with https:// or http://"},
        "checksum": {"type": "string", "pattern": "^[0-9a-f]{64}$", "x-hint": "a SHA-256: 64 hexadecimal digits"},
    },
    # what is fetched from somewhere is never installed unchecked
    "dependentRequired": {"url": ["version", "checksum"]},
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_FIRMWARE: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"},
    "additionalProperties": {"type": "string", "x-hint": 'a version in quotes: "2.6.3"'},
}


def _distributions(architectures: str) -> dict[str, Any]:
    of = {"$ref": f"#/$defs/{architectures}"}
    return {
        "type": "object",
        "properties": {ANY: of},
        "patternProperties": {r"^(debian-\d+|ubuntu-\d+\.\d+)\Z": of},
        "additionalProperties": False,
    }


def _architectures(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict.fromkeys((ANY, *ARCHITECTURES), settings),
    }


_COMPONENTS: dict[str, Any] = {
    "type": "object",
    "properties": {FIRMWARE: _distributions("of_firmware")},
    "additionalProperties": _distributions("of_role"),
}
VERSIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["versions"],
    "additionalProperties": False,
    "properties": {
        "versions": _COMPONENTS,
        "overrides": {"type": "object", "additionalProperties": _COMPONENTS},
    },
    "$defs": {"of_role": _architectures(_SETTINGS), "of_firmware": _architectures(_FIRMWARE)},
}

Components = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class Versions:
    """``versions``: component -> distribution -> architecture -> settings; ``overrides``: profile -> the same."""

    versions: Components
    overrides: Mapping[str, Components]

    def settings(self, component: str, distribution: str, architecture: str, profile: str = "") -> dict[str, Any]:
        """Settings of one component on one kind of host: the more exact entry wins, a profile's over all others.

        ``distribution`` is as in "debian-12" or "ubuntu-24.04", ``architecture`` as in "x86_64".
        """
        found: dict[str, Any] = {}
        for components in (self.versions, self.overrides.get(profile, {})):
            distributions = components.get(component, {})
            for by_distribution in (ANY, distribution):
                for by_architecture in (ANY, architecture):
                    found.update(distributions.get(by_distribution, {}).get(by_architecture, {}))
        return found

    def bmc_firmware(self, profile: str = "") -> dict[str, str]:
        """Component, as BMCs name it, -> the exact version that discover expects of servers with this profile."""
        settings = self.settings(FIRMWARE, ANY, ANY, profile)
        return {component: version for component, version in settings.items() if version and component not in _OF_HOST}

    def expected(self, profile: str, without: Iterable[str] = ()) -> dict[str, dict[str, dict[str, str]]]:
        """Distribution -> architecture -> what checks expect of such a host with this profile, "any" for all others.

        For who does not know yet what the host runs: health/settings.py picks on the host. without: roles that a site
        leaves out. A mere branch of the driver, "580", is no version that could be expected.
        """
        together = [self.versions, self.overrides.get(profile, {})]
        named = {distribution for components in together for by in components.values() for distribution in by}
        return {
            distribution: {
                architecture: self._expected(distribution, architecture, profile, set(without))
                for architecture in (ANY, *ARCHITECTURES)
            }
            for distribution in sorted({ANY, *named})
        }

    def _expected(self, distribution: str, architecture: str, profile: str, without: set[str]) -> dict[str, str]:
        found = {}
        for key, (component, setting) in EXPECTED.items():
            value = str(self.settings(component, distribution, architecture, profile).get(setting) or "")
            if value and component not in without and (key != "gpu_driver" or "." in value):
                found[key] = value
        return found


def load_versions(
    path: Path | str, profiles: Iterable[str] | None = None, components: Iterable[str] | None = None
) -> Versions:
    """Read and check versions.yml; InputError names file, line and what would be right.

    ``profiles``: names of the profiles that may be overridden, ``components``: names of the roles; where known.
    """
    file = read_yaml(path)
    file.check(VERSIONS_SCHEMA)
    overrides = file.data.get("overrides") or {}
    known = overrides if profiles is None else sorted(profiles)
    for profile in overrides:
        if profile not in known:
            raise InputError(
                f"unknown profile {profile!r}; known are {', '.join(known)}", file.where(["overrides", profile])
            )
    places: list[tuple[list[str | int], Components]] = [(["versions"], file.data["versions"])]
    places += [(["overrides", profile], by_component) for profile, by_component in overrides.items()]
    for where, by_component in places:
        if components is not None:
            _refuse_unknown(file, sorted([*components, *NOT_ROLES]), where, by_component)
        _refuse_by_system(file, where, by_component)
    return Versions(file.data["versions"], overrides)


def _refuse_unknown(file: YamlFile, known: list[str], path: list[str | int], components: Components) -> None:
    for component in components:
        if component not in known:
            raise InputError(
                f"unknown component {component!r}; known are {', '.join(known)}", file.where([*path, component])
            )


def _refuse_by_system(file: YamlFile, path: list[str | int], components: Components) -> None:
    """A BMC knows no distribution and no architecture."""
    for distribution, architectures in components.get(FIRMWARE, {}).items():
        for architecture, settings in architectures.items():
            for component in settings:
                if component not in _OF_HOST and (distribution, architecture) != (ANY, ANY):
                    where = file.where([*path, FIRMWARE, distribution, architecture, component])
                    raise InputError(
                        f"firmware that a BMC tells is judged whatever is installed: {component!r} belongs under "
                        f"{FIRMWARE}: {ANY}: {ANY}; by system there are {', '.join(_OF_HOST)}",
                        where,
                    )
