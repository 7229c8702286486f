#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_facts
short_description: Facts of a host that several roles need, in one call
version_added: "0.1.0"
description:
  - Sets C(ansible_facts.firstlight_host). Only reads; the same in check mode.
  - What cannot be read is C(null), never "none of it", and C(problems) says why.
options:
  timeout:
    description: Seconds that any one command may take at most. A drive that does not answer costs this once.
    type: float
    default: 30.0
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Gather the facts that roles share
  host_facts:
  when: ansible_facts["firstlight_host"] is not defined
"""

RETURN = r"""
ansible_facts:
  description: To be added to the host's facts.
  returned: always
  type: dict
  contains:
    firstlight_host:
      description: See below; the disks are those that have a size, without memory, loops, arrays and volumes.
      type: dict
      contains:
        virtualization:
          description: C(bare_metal), C(container), or the kind of machine as C(systemd-detect-virt) calls it.
          type: str
        distribution: {description: "As in inventory/versions.yml, such as C(debian-12).", type: str}
        architecture: {description: As C(uname -m) prints it., type: str}
        kernels:
          description: C(running); C(installed), newest last; C(headers), those that modules can be built for.
          type: dict
        secure_boot: {description: Whether the firmware enforces it., type: bool}
        os_disks:
          description: Drives that C(/), C(/boot), C(/boot/efi), C(/usr), C(/var) or swap are on, through any layer.
          type: list
        os_unresolved:
          description: Which of those could not be followed to a drive. Not empty, nothing may be erased here.
          type: list
        disks:
          description: >-
            By drive C(name), C(by_id) (its stable name in /dev/disk/by-id), C(serial), C(wwn), C(model), C(size) in
            bytes, C(transport), C(rotational), C(logical_sector), C(physical_sector), C(is_os), C(mounted),
            C(holders), C(partitions), C(signatures) (C(device), C(type), C(label), C(uuid), C(usage) of each).
          type: list
        pci:
          description: >-
            C(nvidia_gpus), C(nvswitches), C(mellanox) (cards), C(bridges_with_acs) (C(address), C(control)).
          type: dict
        cpufreq:
          description: C(driver), C(governors), C(energy_preferences), C(policies), C(online_cpus).
          type: dict
        problems: {description: What could not be read and why., type: list}
"""

import math  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight.hostfacts.gather import gather  # noqa: E402


def main():
    module = AnsibleModule(
        argument_spec={"timeout": {"type": "float", "default": 30.0}},
        supports_check_mode=True,
    )
    timeout = module.params["timeout"]
    if not math.isfinite(timeout) or not 0 < timeout <= 600:
        module.fail_json(msg=f"timeout: {timeout!r} is not more than 0 and at most 600 seconds")
    module.exit_json(changed=False, ansible_facts={"firstlight_host": gather(limit=timeout)})


if __name__ == "__main__":
    main()
