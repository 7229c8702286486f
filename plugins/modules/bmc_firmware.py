"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_firmware
short_description: Update firmware from a local file
description:
  - Runs once, on the controller, for all hosts of the play. A BMC that cannot do it is that host's finding in the
    result; the others are done. Only wrong input fails the task.
  - Pushes the file to the BMC's UpdateService, shows the progress of the job, and reads the version back.
  - Refuses a file for another component and an older version. Does nothing where the version is installed, or an
    update of the component waits for the next boot.
options:
  file:
    description: The firmware file on the controller. Dell's update packages tell their version and component.
    type: path
    required: true
  component:
    description: What it is for, as the firmware inventory has it, e.g. C(BIOS), C(iDRAC), C(NIC.Embedded.1-1-1).
    type: str
    default: ""
  version:
    description: The version that it brings, where the file does not tell.
    type: str
    default: ""
  apply:
    description: C(next_boot), or C(now), which restarts the server where the part needs it.
    type: str
    choices: [next_boot, now]
    default: next_boot
  downgrade:
    description: Go back to an older version on purpose.
    type: bool
    default: false
  wait_seconds:
    description: How long the job may take.
    type: float
    default: 3600
  grace_seconds:
    description: With O(apply=now), how long a BMC may take to restart its server before it is restarted from here.
    type: float
    default: 120
  uploads:
    description: How many files are sent at a time.
    type: int
    default: 8
  confirm:
    description: Do it. Without this the task refuses, and names the hosts that it would hit with their states.
    type: bool
    default: false
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Update the BIOS at the next boot
  bmc_firmware:
    file: /srv/firmware/BIOS_7TK2M_WN64_2.6.3.EXE
    confirm: true
  run_once: true
"""

RETURN = r"""
msg:
  description: How many hosts were changed, were as wanted already, and were not done and why.
  type: str
  returned: always
hosts:
  description: By host C(changed), C(before), C(after) and C(findings).
  type: dict
  returned: always
failed_hosts:
  description: By host, for those on which it was not or not wholly done, the reason in one line.
  type: dict
  returned: always
"""
