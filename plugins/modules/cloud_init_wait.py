"""Documentation of the action plugin of the same name."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: cloud_init_wait
short_description: Wait until cloud-init is done on a host
description:
  - Runs C(cloud-init status --wait) on the host. A failure is the finding C(install.cloud_init_failed) with the errors
    that cloud-init tells, which the callback plugin C(firstlight) gives the ledger instead of a mere failed task.
  - Errors that cloud-init recovered from (exit status 2) are shown as a warning.
  - Check mode asks nothing.
options:
  minutes:
    description: How long it may take.
    type: float
    default: 10
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Wait until cloud-init is done
  cloud_init_wait:
    minutes: "{{ install_ssh_minutes | default(10) }}"
"""

RETURN = r"""
findings:
  description: One finding, as the report has it.
  type: list
  elements: dict
  returned: when cloud-init could be asked
rc:
  description: Exit status of C(cloud-init status --wait), 124 when it took too long.
  type: int
  returned: when cloud-init could be asked
"""
