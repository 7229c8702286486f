"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_health
short_description: Begin a run of playbooks/health.yml
description:
  - Runs once, on the controller, before any host is touched. Refuses a tier that there is not, which on the hosts would
    count against each of them.
options:
  tier:
    description: Which checks are going to run.
    type: str
    choices: [quick, long]
    default: quick
  note:
    description:
      - A file, written for C(scripts/health) - C(report), where the run's report will be, its C(run_id), the C(hosts)
        that it is for and the inventory's C(groups).
    type: path
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Begin
  fleet_health:
    tier: quick
"""

RETURN = r"""
tier:
  description: The tier.
  type: str
  returned: success
"""
