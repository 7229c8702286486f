"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_stage
short_description: Open or close a stage for all hosts of the play
description:
  - Runs once, on the controller. Opening admits those hosts that passed the stages before and returns them;
    closing writes their findings to the ledger. A host whose task failed in between was noted by the callback
    plugin C(firstlight) with a finding of its own.
  - Stage smoke remembers. Opening it hands out what each host's checks are to know of their last run, closing it stores
    what M(host_check) gives back for the next one. What checks of the tier long found holds until they run again, the
    machine is released, or a later version has no such check. Hosts of one profile are compared with each other
    (C(docs/health.md)).
  - When only a part of O(stage) runs (C(--tags) or C(--skip-tags) of one of O(parts)), nothing is recorded. When
    C(--tags) asks for nothing of it, no host is admitted.
author: [Firstlight contributors]
options:
  stage:
    description: Which stage.
    type: str
    required: true
    choices: [install, configure, smoke]
  event:
    description: Open it before the stage's work, close it after.
    type: str
    required: true
    choices: [open, close]
  parts:
    description: Roles of the stage. Their names, and their names with an underscore and more, are tags of a part of it.
    type: list
    elements: str
  findings_from:
    description:
      - With O(event=close), the registered variable of each host whose C(findings) are taken.
      - C(firstlight_findings) is the fact of that name, to which roles add (M(role_findings)); where no role added
        anything, that every task went well is the finding.
    type: str
  begun_by:
    description:
      - With O(event=close), the registered variable of the run-once action that opened the stage by itself. The
        C(findings) and C(seconds) that its C(hosts) have are taken too.
    type: str
"""

EXAMPLES = r"""
- name: Open the stage
  fleet_stage:
    stage: configure
    event: open
  register: __stage
"""

RETURN = r"""
admitted:
  description: Names of the hosts that go in.
  type: list
  returned: when opening
left_out:
  description: Reason by name of the hosts that stay out.
  type: dict
  returned: when opening
earlier:
  description: By name of the hosts that go into smoke what M(host_check) takes as its option of this name.
  type: dict
  returned: when opening
"""
