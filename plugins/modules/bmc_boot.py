"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_boot
short_description: Boot from the network, once or first in the boot order
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
  - Each setting is written only when it differs, and read back. Generations of iDRAC want it in different places.
  - Warns when the BIOS would not let the NIC boot from the network, since a one-time PXE boot then does nothing.
options:
  one_time_pxe:
    description: Boot from the network at the next boot, and only then.
    type: bool
    default: false
  pxe_first:
    description: Put the PXE boot option of O(nic) first in the boot order.
    type: bool
    default: false
  nic:
    description: FQDD of the NIC, by default C(ethernet.pxe) of the host's profile.
    type: str
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Install these hosts anew at their next boot
  bmc_boot:
    one_time_pxe: true
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
