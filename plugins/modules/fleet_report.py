"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_report
short_description: Write and show the report of the whole fleet
description:
  - Runs once, on the controller, from what the ledger holds. Writes C(latest.*) - text, JSON, a page and
    metrics - into C(reports_dir), by default C(reports/) beside ansible.cfg; in check mode C(check.*).
  - Then opens, updates and closes the tickets of the hosts of this run, tells the outputs of C(tickets.yml) what they
    do not know yet, and switches locator lights where that file says so; see docs/tickets.md. Not in check mode.
  - Sets in MAAS, where the site has one, the tags that tell the ledger's states. Not in check mode.
  - The callback plugin P(firstlight#callback) makes the exit status of it - 0 when the policy C(fleet_min_ready) is
    met, 2 when not, 1 when the run itself broke.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Write the report
  fleet_report:
"""

RETURN = r"""
policy:
  description: fleet_min_ready, how many hosts it asks for, how many are ready, and whether it is met.
  type: dict
  returned: always
counts:
  description: Hosts, ready, not_ready, by_state, by_symptom.
  type: dict
  returned: always
tickets:
  description: Ids of the tickets that were opened, updated and closed; how many are open; problems, a line each.
  type: dict
  returned: always
folder:
  description: Where the report was written.
  type: str
  returned: always
"""
