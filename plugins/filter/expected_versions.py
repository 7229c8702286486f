"""Which versions checks expect of hosts with one profile, from inventory/versions.yml."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from firstlight.errors import FirstlightError
from firstlight.versions import load_versions

DOCUMENTATION = r"""
name: expected_versions
short_description: What checks expect of hosts with one profile, from versions.yml
description:
  - GPU driver, VBIOS and HCA firmware by distribution and architecture. The host picks what is of its own system, so
    that no facts need be gathered.
  - Nothing where there is no such file; C(validate) says that it is missing.
positional: profile, without
options:
  _input:
    description: Path of versions.yml.
    type: path
    required: true
  profile:
    description: Name of the hosts' profile.
    type: str
    required: true
  without:
    description: Roles that the site leaves out; nothing is expected of them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Run the quick checks
  host_check:
    profile: "{{ profile }}"
    expect:
      versions: "{{ versions_file | expected_versions(profile.name) }}"
"""

RETURN = r"""
_value:
  description: Expectations by distribution, then by architecture.
  type: dict
"""


def expected_versions(path: str, profile: str, without: Iterable[str] = ()) -> dict[str, dict[str, dict[str, str]]]:
    """By distribution and architecture what ``path`` has checks expect."""
    if not Path(str(path)).exists():
        return {}
    try:
        return load_versions(str(path)).expected(str(profile), [str(role) for role in without])
    except FirstlightError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"expected_versions": expected_versions}
