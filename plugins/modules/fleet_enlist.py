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
  - A NIC that was swapped takes the place of the one that is gone. Tags C(rack-*), C(profile-*) and C(site-*) from
    before a host moved are taken off. What MAAS found by itself through PXE is taken in.
  - A machine that belongs to somebody else, to another site or to another server is refused with a finding. A second
    run reads once and writes nothing.
  - Machines that the site has in MAAS (tags C(firstlight) and C(site-NAME)) and that are no host of the whole fleet any
    more are named as retired. The variable C(enlist_delete_retired), a list of their names, has them deleted; what is
    locked, in use or not retired is refused, and then nothing is done.
  - The variable C(enlist_adopt_deployed) (false) takes in machines that are deployed, but not by firstlight, as they
    are, if they are nobody's or of our own user.
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
retired:
  description: Machines of this site in MAAS that are in the fleet no more - name, system_id, status, service_tag.
  type: list
  elements: dict
  returned: always
deleted:
  description: Those that were, or in check mode would be, deleted.
  type: list
  elements: str
  returned: always
"""
