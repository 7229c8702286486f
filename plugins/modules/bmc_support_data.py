"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: bmc_support_data
short_description: Collect Dell's support data over Redfish
description:
  - Runs once, on the controller, for all hosts of the play. Has each iDRAC make a SupportAssist collection (TSR), waits
    for its job, and saves the file as C(reports/support/TAG-TIME.zip), readable by its owner alone.
  - A BMC that has no such thing, of another vendor or too old, is a warning (C(bmc.no_support_data)). One that cannot
    do it is that host's finding in the result; the others are done. Only wrong input fails the task.
  - A collection that runs already is waited for, none is begun beside it. The server is not touched.
options:
  data:
    description:
      - What to collect, in Dell's words; C(HWData), C(TTYLogs) (of storage), C(DebugLogs), C(OSAppData),
        C(TelemetryReports), C(GPULogs). The iDRAC says which of them it knows.
    type: list
    elements: str
    default: [HWData]
  accept_eula:
    description: Accept Dell's licence on iDRACs where it is not accepted yet. Otherwise that is a finding.
    type: bool
    default: false
  max_mbytes:
    description: How large a file may be, in MiB. A larger one is not kept.
    type: int
    default: 512
  wait_seconds:
    description: How long a collection may take. What it was at then is in the finding.
    type: float
    default: 1800
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Collect the support data
  bmc_support_data:
    data: [HWData, TTYLogs]
  run_once: true
"""

RETURN = r"""
msg:
  description: How many hosts were done, and were not done and why.
  type: str
  returned: always
hosts:
  description: By host C(changed), C(before), C(after) (the file's path) and C(findings).
  type: dict
  returned: always
failed_hosts:
  description: By host, for those on which it was not or not wholly done, the reason in one line.
  type: dict
  returned: always
"""
