"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: role_findings
short_description: Add what a role found to the host's findings
description:
  - Sets the fact C(firstlight_findings), a list of findings, each with the C(role) that gave it. What the same role
    gave before is replaced.
  - Where the play has the variable C(findings_collected) (true), that is all - its close reads the fact
    (M(fleet_stage) with C(findings_from=firstlight_findings)), so that a host leaves the stage with all its findings
    at once. Elsewhere a finding of status C(fail) or C(unknown) fails the task with one line.
  - A finding of status C(warn) is shown and no more.
author: [Firstlight contributors]
options:
  role:
    description: The role's name.
    type: str
    required: true
  findings:
    description: Findings as M(host_check) returns them; at most 100.
    type: list
    elements: dict
    required: true
  reboot:
    description:
      - Why the host must be rebooted before the role's work is done; empty when it need not. Kept by role in the fact
        C(reboot_needed), which is empty when no role asks. Without it the fact is left as it is.
    type: str
  at_once:
    description: Fails the task even where findings are collected, for what nothing that comes after it could work with.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read back what was done
  host_check:
    checks: [cpu_frequency]
  register: __cpu_frequency_proof

- name: Hand over what was found
  role_findings:
    role: cpu_frequency
    findings: "{{ __cpu_frequency_proof.findings }}"
"""

RETURN = r"""
findings:
  description: Those that say no to the host.
  type: list
  elements: dict
  returned: failure
ansible_facts:
  description: The fact.
  type: dict
  returned: always
  contains:
    firstlight_findings: {description: All findings of roles on this host so far., type: list, elements: dict}
    reboot_needed: {description: "By role, why it asks for a reboot; with O(reboot) only.", type: dict}
"""
