"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_reset
short_description: Restart BMCs and wait until they answer again
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
  - The servers run on. A BMC that takes the command and does not restart, or does not come back in time, is a finding.
options:
  wait_seconds:
    description: How long a BMC may take until it answers again and tells of its server.
    type: float
    default: 600
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Restart the BMCs
  bmc_reset:
    wait_seconds: 900
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
