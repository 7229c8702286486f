"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_bios
short_description: Set BIOS attributes
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
  - Compares first and shows what would change; sets only what differs; nothing when one attribute does not exist.
  - A BIOS job that waits already blocks further changes. It is reported or waited for, never deleted; values that
    somebody else left to be committed are never committed with ours.
  - A run while the change waits for the next boot changes nothing and says so.
options:
  attributes:
    description: Values by attribute, as the BIOS spells them, words such as C(On) in quotes. By default C(bios) of the
      host's profile.
    type: dict
  apply:
    description: C(next_boot) schedules the change; C(now) also restarts the server and waits until it is done.
    type: str
    choices: [next_boot, now]
    default: next_boot
  pending:
    description: What to do about a BIOS job that is there already.
    type: str
    choices: [report, wait]
    default: report
  wait_seconds:
    description: How long one job may take.
    type: float
    default: 1800
  confirm:
    description:
      - Restart the servers, with O(apply=now). Without this the task refuses, and names the hosts that it would hit.
    type: bool
    default: false
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Make the BIOS as the profile says, at the next boot
  bmc_bios:
  run_once: true
"""

RETURN = r"""
msg:
  description: How many hosts were changed, were as wanted already, and were not done and why.
  type: str
  returned: always
hosts:
  description: By host C(changed), C(before), C(after) and C(findings).
  type: dict
  returned: always
failed_hosts:
  description: By host, for those on which it was not or not wholly done, the reason in one line.
  type: dict
  returned: always
"""
