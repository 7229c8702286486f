"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_host_keys
short_description: Show SSH host keys, and take them on a person's word
description:
  - Runs once, on the controller, for hosts that were not installed by Firstlight, or past it. Others are verified from
    their first connection on and need nothing of this.
  - Shows the ed25519 key of every host of the play against the one in C(known_hosts_file), and a code for what would be
    taken. Only with that code as O(confirm) the keys are written down; other keys than the ones shown are refused.
  - Check mode writes nothing.
options:
  confirm:
    description: The code that was shown.
    type: str
    default: ""
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Show the keys
  fleet_host_keys:

- name: Take them
  fleet_host_keys:
    confirm: 3f0c9a7d21be
"""

RETURN = r"""
msg:
  description: How many are known, unknown, changed and silent, and the code.
  type: str
  returned: always
"""
