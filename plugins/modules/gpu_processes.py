#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_processes
short_description: Tell which processes use the GPUs
version_added: "0.2.0"
description:
  - For roles that must not disturb a host on which a job runs. Changes nothing, also in check mode.
  - Asks C(nvidia-smi). Where that is missing, fails or hangs, as one of another version than the loaded driver does,
    the processes count that hold a GPU's device file open, without the persistence daemon, the fabric manager and DCGM.
options: {}
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Read whether something runs on the GPUs
  gpu_processes:
  register: __gpu
"""

RETURN = r"""
processes:
  description: Process ids; empty on a host without GPUs, without a driver, or at rest.
  returned: success
  type: list
  elements: int
"""

from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import gpuusers  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Command, run_command  # noqa: E402


def main():
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    asked = run_command(Command(gpuusers.QUERY, limit=gpuusers.LIMIT_SECONDS))
    told = not asked.problem and asked.code == 0
    module.exit_json(changed=False, processes=gpuusers.parse(asked.text) if told else gpuusers.holders(Path("/proc")))


if __name__ == "__main__":
    main()
