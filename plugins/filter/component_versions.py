"""Which versions a host gets, from inventory/versions.yml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from firstlight.errors import FirstlightError
from firstlight.versions import load_versions

DOCUMENTATION = r"""
name: component_versions
short_description: Settings by component for one host, from versions.yml
description: The more exact entry wins, a profile's over all others.
positional: facts, profile
options:
  _input:
    description: Path of versions.yml.
    type: path
    required: true
  facts:
    description: The host's C(ansible_facts), with C(distribution), its version and C(architecture).
    type: dict
    required: true
  profile:
    description: Name of the host's profile.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look up this host's versions
  ansible.builtin.set_fact:
    component_versions: "{{ versions_file | component_versions(ansible_facts, profile.name) }}"
"""

RETURN = r"""
_value:
  description: Settings by component.
  type: dict
"""


def component_versions(path: str, facts: Mapping[str, Any], profile: str) -> dict[str, dict[str, Any]]:
    """Settings of every component of ``path`` for a host with these facts."""
    try:
        versions = load_versions(str(path))
    except FirstlightError as error:
        raise AnsibleFilterError(str(error)) from None
    name = str(facts["distribution"]).lower()
    version = str(facts["distribution_version" if name == "ubuntu" else "distribution_major_version"])
    where = (f"{name}-{version}", str(facts["architecture"]), str(profile))
    named = set(versions.versions).union(*versions.overrides.values())
    return {component: versions.settings(component, *where) for component in sorted(named)}


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"component_versions": component_versions}
