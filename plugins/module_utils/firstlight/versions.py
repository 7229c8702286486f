"""inventory/versions.yml: which version of what is installed on which distribution, architecture and profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError
from .yamlfile import YamlFile, read_yaml

ANY = "any"
NOT_ROLES = ("operating_system",)  # components that no role installs; see maas/images.py

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
_COMPONENTS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {ANY: {"$ref": "#/$defs/architectures"}},
        "patternProperties": {r"^(debian-\d+|ubuntu-\d+\.\d+)$": {"$ref": "#/$defs/architectures"}},
        "additionalProperties": False,
    },
}
VERSIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["versions"],
    "additionalProperties": False,
    "properties": {
        "versions": _COMPONENTS,
        "overrides": {"type": "object", "additionalProperties": _COMPONENTS},
    },
    "$defs": {
        "architectures": {
            "type": "object",
            "additionalProperties": False,
            "properties": {ANY: _SETTINGS, "x86_64": _SETTINGS, "aarch64": _SETTINGS},
        }
    },
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
    if components is not None:
        components = [*components, *NOT_ROLES]
        _refuse_unknown(file, sorted(components), ["versions"], file.data["versions"])
        for profile, by_component in overrides.items():
            _refuse_unknown(file, sorted(components), ["overrides", profile], by_component)
    return Versions(file.data["versions"], overrides)


def _refuse_unknown(file: YamlFile, known: list[str], path: list[str | int], components: Components) -> None:
    for component in components:
        if component not in known:
            raise InputError(
                f"unknown component {component!r}; known are {', '.join(known)}", file.where([*path, component])
            )
