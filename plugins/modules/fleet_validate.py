"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_validate
short_description: Refuse to start with inconsistent input
description:
  - Runs once, on the controller. Profiles and fleet were validated when the inventory was read; this checks the
    site's settings and secrets, the files that they name, and that MAAS answers and takes the key. The first thing
    wrong stops the run with one line.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Check the site
  fleet_validate:
"""

RETURN = r"""
msg:
  description: How many hosts, and which MAAS as whom.
  type: str
  returned: always
"""
