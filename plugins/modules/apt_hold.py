#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_hold
short_description: Hold installed packages, so that no upgrade by the way changes them
version_added: "0.2.0"
description: Holds every installed package whose name matches one of O(patterns). Others' holds are left as they are.
options:
  patterns:
    description: Patterns of package names; one that begins with C(!) takes out what it matches.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Hold the driver and the kernel
  apt_hold:
    patterns: ["nvidia-*", "linux-image-*"]
"""

RETURN = r"""
held:
  description: The packages of O(patterns), all of which are held now.
  returned: success
  type: list
added:
  description: Those of them that were not held before.
  returned: success
  type: list
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import aptplan  # noqa: E402

STATUS = "-f=${db:Status-Status}|${Package}|${Version}\\n"


def main():
    module = AnsibleModule(
        argument_spec={"patterns": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    patterns = module.params["patterns"]
    _, text, _ = module.run_command(["dpkg-query", "-W", STATUS], check_rc=True)
    _, holds, _ = module.run_command(["apt-mark", "showhold"], check_rc=True)
    held = {line.strip().partition(":")[0] for line in holds.splitlines()}
    wanted = sorted(name for name in aptplan.parse_installed(text) if aptplan.matches(name, patterns))
    added = [name for name in wanted if name not in held]
    if added and not module.check_mode:
        module.run_command(["apt-mark", "hold", "--", *added], check_rc=True)
    diff = {"before": "", "after": "".join(f"hold {name}\n" for name in added)}
    module.exit_json(changed=bool(added), held=wanted, added=added, diff=diff)


if __name__ == "__main__":
    main()
