"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_repair
short_description: The steps of a host's repair that are not those of a stage
description:
  - Runs once, on the controller, for the one host that C(playbooks/reprovision.yml) is about. See C(docs/repair.md).
  - Started again after it was broken off it goes on. A machine is given back to MAAS once in a repair, which begins
    with a deed in the ledger and ends when the host is ready.
options:
  event:
    description:
      - C(check) refuses what is not meant. C(begin) puts the host into repair. C(triage) tells which parts were
        replaced, what a ticket asked for and is not so, and how long the host is to be checked. C(install) says
        whether its machine is to be given back first. C(end) readmits it, if it passed smoke.
    type: str
    choices: [check, begin, triage, install, end]
    required: true
  host:
    description: The host, by its name.
    type: str
  confirm:
    description: The service tag of the server whose OS disk is to be wiped.
    type: str
    default: ""
  reason:
    description: Why, for the ledger.
    type: str
    default: ""
  in_use:
    description: Go on although the host is ready.
    type: bool
    default: false
  wipe_data:
    description: Its data drives are wiped too, and its pool is made anew.
    type: bool
    default: false
  wipe_serials:
    description:
      - With C(triage) and C(install), the serial numbers that C(begin) has named. No other data drives are wiped.
    type: list
    elements: str
    default: []
  reinstall:
    description: Install it once more although an installation in this repair came to an end.
    type: bool
    default: false
  tier:
    description: Which checks, instead of those that follow from what was replaced.
    type: str
    choices: [quick, long]
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Put the host into repair
  fleet_repair:
    event: begin
    host: r1-n01
  run_once: true
"""

RETURN = r"""
refused:
  description: Why it must not go on, empty where it may.
  type: str
  returned: with triage, install and end
parts:
  description: What was replaced since the host passed smoke last.
  type: list
  returned: with triage
tier:
  description: Which checks are due, quick or long.
  type: str
  returned: with triage
wipe_serials:
  description: Serial numbers of the data drives that are to be wiped.
  type: list
  returned: with begin and triage
release:
  description: Whether the machine is to be given back to MAAS first.
  type: bool
  returned: with install
"""
