"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_enlist
short_description: Make MAAS hold exactly the machines of the play
description:
  - Runs once, on the controller. Creates, adopts or updates the machines in MAAS by what discovery saw - MACs, power
    parameters, host name, tags, description with rack and unit - and puts the PXE port first in their boot order over
    Redfish. Nothing is commissioned or powered.
  - A machine that belongs to somebody else is refused with a finding. A second run reads once and writes nothing.
  - Check mode and diff tell what would be written.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Make MAAS hold exactly these machines
  fleet_enlist:
"""

RETURN = r"""
msg:
  description: How many passed, and the symptoms of the others.
  type: str
  returned: always
"""
