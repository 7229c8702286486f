"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_power
short_description: Switch servers on and off
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
  - A server that is in the wanted state already is left alone, and counts as unchanged.
  - What ends a running server needs O(confirm), and is written to the ledger as a deed before it is done.
options:
  action:
    description:
      - C(on), C(off) at once, C(shutdown) through the operating system, C(restart), or C(cycle), off and on.
      - Restart and cycle switch a server on that is off.
    type: str
    required: true
    choices: ["on", "off", shutdown, restart, cycle]
  wait_seconds:
    description: How long the new power state may take to read back.
    type: float
    default: 60
  confirm:
    description: Do it. Without this the task refuses, and names the hosts that it would hit with their states.
    type: bool
    default: false
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Switch them on
  bmc_power:
    action: "on"
  run_once: true

- name: Restart those that hang
  bmc_power:
    action: restart
    confirm: true
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
