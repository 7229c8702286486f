"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_quarantine
short_description: Take hosts out of use, and back in, by hand
description:
  - Runs once, on the controller. A host that is held stays quarantined whatever stages it passes, until it is
    readmitted. Only the ledger is written; what runs on the host goes on.
options:
  event:
    description: C(hold) takes them out, C(readmit) takes one back that passed every stage at its last try.
    type: str
    choices: [hold, readmit]
    required: true
  host:
    description: The host, by its name. Without it all of the play, which must be limited with C(-l).
    type: str
  reason:
    description: Why; needed to take a host out.
    type: str
    default: ""
  confirm:
    description: Several hosts are meant.
    type: bool
    default: false
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Take a host out of use
  fleet_quarantine:
    event: hold
    host: r1-n01
    reason: fan 3 is loud
  run_once: true
"""

RETURN = r"""
hosts:
  description: The names of the hosts.
  type: list
  returned: always
msg:
  description: What was done.
  type: str
  returned: always
"""
