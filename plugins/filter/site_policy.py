"""The site's policy, for roles that follow it."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from firstlight.errors import FirstlightError
from firstlight.policy.settings import Policy, load_policy

DOCUMENTATION = r"""
name: site_policy
short_description: The site's policy by the keys of its file
description: What the file leaves out, and all of it where there is no file, is as in docs/policy.md.
options:
  _input:
    description: Path of policy.yml, which the inventory plugin C(redfish_bmc) has as C(policy_file); may be empty.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Do it on a few hosts at once
  ansible.builtin.command: ...
  throttle: "{{ (policy_file | default('') | site_policy).reboot_max_parallel }}"
"""

RETURN = r"""
_value:
  description: The policy.
  type: dict
"""


def site_policy(path: str) -> dict[str, Any]:
    """Each key of the policy in this file with its value; AnsibleFilterError, one line, where the file is wrong."""
    file = Path(str(path))
    try:
        return asdict(_read(str(file), file.stat().st_mtime_ns) if path and file.exists() else Policy())
    except FirstlightError as error:
        raise AnsibleFilterError(str(error)) from None


@functools.lru_cache(maxsize=8)  # it is asked for by each host
def _read(path: str, changed: int) -> Policy:
    return load_policy(path)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"site_policy": site_policy}
