"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_release
short_description: Give the machines of the play back to MAAS
description:
  - Runs once, on the controller. Ends what runs on the machines, and has MAAS release them - they are Ready and
    switched off again, and the next run of C(site.yml) installs them anew. What commissions or deploys is aborted.
  - Never touches a machine that is locked, that lacks the tag C(firstlight), that belongs to another user of MAAS, that
    is marked broken, or that cannot be shown to be this host; each is a finding of its host.
  - The deed is noted in the ledger before, the host goes back to state C(enlisted), and its SSH host key is forgotten.
  - Waits until MAAS says Ready, with one list of all machines a look. Interrupted, what was begun goes on in MAAS;
    started again, it follows what goes on. A second run changes nothing.
  - Settings of a site are C(release_erase), C(release_minutes) (15, with quick erase 45, with secure erase 180),
    C(release_max_parallel) (64), C(release_poll_seconds) (5) and C(release_outage_minutes) (5).
  - Check mode and diff tell what would be done.
options:
  confirm:
    description: Do it. Without this the task fails, and names the hosts that would be hit and what MAAS says of them.
    type: bool
    default: false
  all:
    description: The whole fleet is meant. Without this, and without C(-l), a fleet of several hosts is refused.
    type: bool
    default: false
  erase:
    description:
      - C(quick) overwrites 2 MiB at both ends of each disk. C(secure) has the drives erase themselves, and overwrites
        whole those that cannot, which may take hours. Both boot the machine from the network for it. B(All) disks are
        erased, data drives too.
      - The site's C(release_erase) unless given.
    type: str
    choices: [none, quick, secure]
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Give the machines back
  fleet_release:
    confirm: true
"""

RETURN = r"""
hosts:
  description: By name, C(changed), C(before) and C(after) (MAAS's status), C(findings).
  type: dict
  returned: always
failed_hosts:
  description: By name, why it was not done.
  type: dict
  returned: always
msg:
  description: How many changed, and the symptoms of the others.
  type: str
  returned: always
"""
