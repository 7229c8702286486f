"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: reboot_in_turn
short_description: Reboot a host, a few at once of all runs on the site's ledger
description:
  - M(ansible.builtin.reboot), with its options and results, when one of O(max_parallel) turns is free. Turns are
    counted on the ledger that C(ledger_url) names, so over all shards, operators and control nodes; of a host without
    C(ledger_url) nothing is counted.
  - A turn is over when the reboot is, its C(test_command) included, and when the run is killed.
author: [Firstlight contributors]
options:
  max_parallel:
    description: How many hosts may be down at once, 1 or more.
    type: int
    required: true
  msg: {description: As there., type: str}
  reboot_timeout: {description: As there; waiting for the turn does not count., type: int}
  boot_time_command: {description: As there., type: str}
  test_command: {description: As there., type: str}
"""

EXAMPLES = r"""
- name: Reboot the host
  reboot_in_turn:
    max_parallel: "{{ (policy_file | site_policy).reboot_max_parallel }}"
"""

RETURN = r"""
rebooted:
  description: Whether it went down and came back.
  type: bool
  returned: always
"""
