#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: zfs_pool
short_description: A ZFS pool over every drive that is not the system's
version_added: "0.1.0"
description:
  - Creates the pool, or imports it where the drives hold it already, and sets what the site wants of it. A pool that is
    there is never made anew, but for O(anew).
  - The drives of the operating system are left out by what is mounted, and once more by their identity. A drive that
    holds anything (partition table, file system, RAID, another pool) is named in a finding and nothing is done, unless
    its serial is in O(wipe_serials).
  - It never fails because of the hardware or of what is on a drive; that are findings. It fails because of wrong
    parameters.
options:
  name:
    description: The pool's name.
    type: str
    required: true
  level:
    description: Redundancy. C(auto) is a mirror of 2, RAIDZ1 of 3 to 5, RAIDZ2 of 6 and more.
    type: str
    choices: [auto, mirror, raidz1, raidz2, raidz3, stripe]
    default: auto
  max_width:
    description: The most drives in one RAIDZ group. More are split into groups of equal width, the rest are spares.
    type: int
    default: 11
  ashift:
    description: Sector size as a power of two; 0 is what the drives ask for, 12 at least.
    type: int
    default: 0
  drives:
    description: How many drives there must be; with fewer no pool is made. 0 takes what is there.
    type: int
    default: 0
  wipe_serials:
    description:
      - Serials of drives that may be emptied for the pool. Never one that is mounted or otherwise in use, nor one with
        the label of a pool of this name that is not imported, unless O(anew) says so.
    type: list
    elements: str
    default: []
  ignore_serials:
    description: Serials of drives that are none of the pool's.
    type: list
    elements: str
    default: []
  replace:
    description:
      - By old drive (serial, name in /dev/disk/by-id, or the number that zpool shows) the new one (serial or name).
        Done once; it may stay in the settings.
    type: dict
    default: {}
  import_forced:
    description: Whether a pool is imported that another system had last.
    type: bool
    default: false
  mixed_sizes:
    description: Whether drives of different sizes are taken; a group has room as if all were as the smallest.
    type: bool
    default: false
  anew:
    description:
      - Whether a pool of this name that is not imported is given up, and a new one made. Each drive must be listed in
        O(wipe_serials), else nothing is done. A pool that is imported is kept.
    type: bool
    default: false
  pool_properties:
    description: Properties of the pool, such as C(autotrim).
    type: dict
    default: {}
  properties:
    description: Properties of its root dataset, which the others inherit.
    type: dict
    default: {}
  datasets:
    description: Datasets with O(datasets[].name) (without the pool's) and O(datasets[].properties). None is removed.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Make the pool
  zfs_pool:
    name: data
    drives: 8
    properties: {compression: lz4, atime: false, mountpoint: /data}
    datasets:
      - name: scratch
        properties: {recordsize: 1M}
"""

RETURN = r"""
action:
  description: C(create), C(import), C(keep) or C(refuse).
  returned: always
  type: str
commands:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: str
findings:
  description: What was seen of the pool and its drives; see the module host_check for their form.
  returned: always
  type: list
  elements: dict
groups:
  description: The drives of each group of a pool that was made.
  returned: always
  type: list
  elements: list
spares:
  description: Its spares.
  returned: always
  type: list
  elements: str
"""

import re  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight.hostfacts.gather import gather  # noqa: E402
from ansible.module_utils.firstlight.zfs.plan import LEVELS, Wanted  # noqa: E402
from ansible.module_utils.firstlight.zfs.properties import check_datasets, text_of  # noqa: E402
from ansible.module_utils.firstlight.zfs.run import NOT_FOUND, bring_about  # noqa: E402

# zpoolconcepts(7): a name of a pool, and words that are none
_NAME = re.compile(r"^(?!mirror|raidz|draid|spare|log$|c[0-9])[a-z][A-Za-z0-9_.:-]{0,63}\Z")


def texts(values):
    return {str(key): text_of(value) for key, value in (values or {}).items()}


def read_wanted(params):
    """The parameters as Wanted and datasets; ValueError names what is wrong with them."""
    if not _NAME.match(params["name"]):
        raise ValueError(f"name: {params['name']!r} is no name of a pool: lower-case, and no word of zpool's own")
    if params["ashift"] != 0 and not 9 <= params["ashift"] <= 16:
        raise ValueError(f"ashift: {params['ashift']} is neither 0 nor from 9 to 16")
    if params["max_width"] < 2:
        raise ValueError(f"max_width: {params['max_width']} is less than 2")
    if params["drives"] < 0:
        raise ValueError(f"drives: {params['drives']} is less than 0")
    try:
        datasets = check_datasets(params["datasets"])
    except ValueError as error:
        raise ValueError(f"datasets: {error}") from None
    return (
        Wanted(
            name=params["name"],
            level=params["level"],
            max_width=params["max_width"],
            ashift=params["ashift"],
            drives=params["drives"],
            wipe=tuple(params["wipe_serials"]),
            ignore=tuple(params["ignore_serials"]),
            replace={str(old): str(new) for old, new in params["replace"].items()},
            force_import=params["import_forced"],
            mixed_sizes=params["mixed_sizes"],
            anew=params["anew"],
            pool_properties=texts(params["pool_properties"]),
            properties=texts(params["properties"]),
        ),
        datasets,
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "level": {"type": "str", "choices": list(LEVELS), "default": "auto"},
            "max_width": {"type": "int", "default": 11},
            "ashift": {"type": "int", "default": 0},
            "drives": {"type": "int", "default": 0},
            "wipe_serials": {"type": "list", "elements": "str", "default": []},
            "ignore_serials": {"type": "list", "elements": "str", "default": []},
            "replace": {"type": "dict", "default": {}},
            "import_forced": {"type": "bool", "default": False},
            "mixed_sizes": {"type": "bool", "default": False},
            "anew": {"type": "bool", "default": False},
            "pool_properties": {"type": "dict", "default": {}},
            "properties": {"type": "dict", "default": {}},
            "datasets": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        wanted, datasets = read_wanted(module.params)
    except ValueError as error:
        module.fail_json(msg=str(error))

    def run(command):
        if module.get_bin_path(command[0]) is None:
            return NOT_FOUND, "", f"{command[0]} is not installed"
        return module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"}, errors="replace")

    outcome = bring_about(wanted, datasets, gather(), run, module.check_mode)
    lines = [" ".join(command) for command in outcome.commands]
    module.exit_json(
        changed=bool(lines),
        action=outcome.action,
        commands=lines,
        findings=[finding.to_dict() for finding in outcome.findings],
        groups=outcome.groups,
        spares=outcome.spares,
        diff={"before": "", "after": "".join(f"{line}\n" for line in lines)},
    )


if __name__ == "__main__":
    main()
