"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_locator
short_description: Switch the light that shows people which server it is
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
options:
  lit:
    description: Whether it shall blink.
    type: bool
    required: true
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Show the technician where it is
  bmc_locator:
    lit: true
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
