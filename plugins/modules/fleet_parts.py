"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_parts
short_description: Note which parts of servers are others than before
description:
  - Runs once, on the controller. Compares the serial numbers of GPUs, drives, power supplies, memory modules and
    boards, and the MACs of network ports, with those that the ledger remembers of each machine, and notes each part
    that is another one now. What a BMC did not tell is not compared, and keeps its last serial.
  - A part that only moved within its server is none.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Note which parts were replaced
  fleet_parts:
  run_once: true
"""

RETURN = r"""
msg:
  description: How many parts were replaced.
  type: str
  returned: always
"""
