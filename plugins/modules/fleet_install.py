"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_install
short_description: Install the machines of the play in waves
description:
  - Runs once, on the controller. Brings every machine to Deployed in MAAS, whatever state it is in - commissions it,
    chooses the OS disk by the serial that discovery saw, deploys it, waits for SSH. One list call per tick for all.
  - A deployed machine is left as it is. Machines that a stopped run left installing are waited for.
  - Every machine that is going to be wiped is named on the screen and in the ledger before it is.
  - A machine that does not come is looked at (MAAS's events, BMC, console), its cause is named, and where that helps
    it is tried once more. Where MAAS's power driver fails, its power is switched over Redfish.
  - Check mode tells what would be done.
  - Settings are variables of the site that begin with C(install_), see docs/maas.md.
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Install in waves
  fleet_install:
  register: __install
"""

RETURN = r"""
addresses:
  description: Address by name of every host that is installed and answers on SSH.
  type: dict
  returned: always
hosts:
  description:
    - Of the same hosts by name, their C(address), C(os_disk) as a mapping of C(serial), C(model), C(size) in bytes
      and C(name) in MAAS, and C(disks_before), the fingerprints by serial that commissioning took of the disks, as
      far as it did; C(fresh), whether they were just installed; C(clock), how far MAAS's clock is ahead of this
      machine's; C(findings) and C(seconds) of the stage so far.
    - They are still in the stage. Module M(install_proof) proves the rest on them, and M(fleet_stage) closes it.
  type: dict
  returned: always
"""
