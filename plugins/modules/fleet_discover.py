"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_discover
short_description: Judge what the BMCs said about all hosts of the play
description:
  - Runs once, on the controller. Reads the records that the inventory plugin P(redfish_bmc#inventory) took, judges
    each against the host's profile, and writes findings and states to the ledger. Asks no BMC by itself; put
    C(refresh_inventory) before it.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Judge every host against its profile
  fleet_discover:
"""

RETURN = r"""
msg:
  description: How many passed, and the symptoms of the others.
  type: str
  returned: always
"""
