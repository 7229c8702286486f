#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: install_proof
short_description: Prove that an installation is on the right disk and touched no other
version_added: "0.1.0"
description:
  - Finds the disk that C(/) lies on (C(findmnt), C(lsblk), through partitions, LVM, md and dm), and compares its serial
    number with that of the disk that was chosen.
  - Reads the first MiB of every other disk, and compares it with what was there at commissioning. Blank is fine too.
  - Judges the host's clock, if the controller measured it.
  - Only reads; the same in check mode. It never fails because of what it finds, only because of wrong parameters.
options:
  os_disk:
    description: The disk that was chosen, as C(fleet_install) returns it. Needed to prove anything of C(/).
    type: dict
    default: {}
  disks_before:
    description: Fingerprints of the disks as they were at commissioning, as C(fleet_install) returns them.
    type: dict
    default: {}
  fresh:
    description:
      - Whether the host was just installed. The data drives of others hold what they are for, and are not judged.
    type: bool
    default: true
  image:
    description:
      - What must run (C(image), its full name in MAAS; C(release), such as C(ubuntu-24.04); C(kernel_version), what
        C(uname -r) prints), as C(fleet_install) returns it. Of what is empty anything is right.
    type: dict
    default: {}
  clock:
    description:
      - What the action C(clock_skew) returned of this host (C(skew), C(uncertainty)), and C(maas_skew) and
        C(maas_uncertainty), all in seconds that a clock is ahead of the controller's.
    type: dict
    default: {}
  clock_limit:
    description: How many seconds clocks may differ.
    type: float
    default: 30.0
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Prove that root is on the chosen disk
  install_proof:
    os_disk: "{{ __install.hosts[inventory_hostname].os_disk }}"
    disks_before: "{{ __install.hosts[inventory_hostname].disks_before }}"
  register: __proof

- name: Ask which disk is the OS disk
  install_proof:
    fresh: false
  register: __where
"""

RETURN = r"""
findings:
  description: What was found, as mappings (check, status, symptom, locator, evidence, action).
  type: list
  returned: always
os_disk:
  description: The disk that C(/) lies on (name, serial, wwid, model, size in bytes); empty if it is none or several.
  type: dict
  returned: always
"""

import hashlib  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import threading  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Command, run_command  # noqa: E402
from ansible.module_utils.firstlight.checks.image import judge_image  # noqa: E402
from ansible.module_utils.firstlight.clocks import CONTROLLER, Reading, judge_host  # noqa: E402
from ansible.module_utils.firstlight.findings import Finding  # noqa: E402
from ansible.module_utils.firstlight.proof import (  # noqa: E402
    HEAD_BYTES,
    Head,
    content_of,
    disks_under,
    judge_data,
    judge_root,
    read_findmnt,
    read_lsblk,
)

LSBLK = Command(
    ("lsblk", "--json", "--bytes", "--output", "NAME,MAJ:MIN,TYPE,SIZE,SERIAL,WWN,MODEL,MOUNTPOINT"), limit=20.0
)
FINDMNT = Command(("findmnt", "--json", "--output", "SOURCE,MAJ:MIN,FSTYPE,TARGET", "/"), limit=20.0)
READ_SECONDS = 30.0  # of all first MiBs together; a drive that takes longer is not well
NAME = re.compile(r"[A-Za-z0-9!._-]{1,64}")


def read_head(name):
    """The first MiB of a disk, read without changing anything."""
    try:
        # no blocking on a device that is not ready, and no write by mistake
        descriptor = os.open("/dev/" + name.replace("!", "/"), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb", buffering=0) as device:
            data = b""
            while len(data) < HEAD_BYTES:
                part = device.read(HEAD_BYTES - len(data))
                if not part:
                    break
                data += part
    except OSError as error:
        return Head(problem="cannot be read: %s" % (error.strerror or error))
    if not data:
        return Head(problem="gives no data")
    return Head(hashlib.sha256(data).hexdigest(), content_of(data))


def read_heads(names):
    """Of several disks at once; one that hangs costs READ_SECONDS and is then unread."""
    heads = {name: Head(problem="no answer within %g s" % READ_SECONDS) for name in names}

    def read(name):
        heads[name] = read_head(name)

    threads = [threading.Thread(target=read, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(READ_SECONDS)
    return dict(heads)


def with_kernel_names(disk):
    """The disk with the serial and the WWID that the kernel itself tells, as our commissioning script read them."""
    base = "/sys/block/" + disk.name
    serials, wwids = list(disk.serials), list(disk.wwids)
    for names, paths in (
        (serials, ("/device/serial", "/serial", "/device/vpd_pg80")),
        (wwids, ("/wwid", "/device/wwid")),
    ):
        for path in paths:
            text = _text(base + path, skip=4 if path.endswith("vpd_pg80") else 0)
            if text and text not in names:
                names.append(text)
    return replace(disk, serials=tuple(serials), wwids=tuple(wwids))


def _text(path, skip):
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(512)[skip:]
    except OSError:
        return ""
    return " ".join(raw.decode("utf-8", "replace").replace("\0", " ").split())[:128]


def look():
    """(disks, names of those that / lies on, source of /), or the finding that says why that is not known."""
    listed = run_command(LSBLK)
    mounted = run_command(FINDMNT)
    for tool, output in (("lsblk", listed), ("findmnt", mounted)):
        if output.problem or output.code:
            said = "%s: %s" % (tool, output.errors.strip() or output.problem or "exit status %d" % output.code)
            return Finding("os_disk", "unknown", "os_disk.unproven", "/", said, "retry")
    found = read_lsblk(listed.text)
    root = read_findmnt(mounted.text)
    if found is None or root is None:
        said = "%s is not readable" % ("the answer of lsblk" if found is None else "the answer of findmnt")
        return Finding("os_disk", "unknown", "os_disk.unproven", "/", said, "retry")
    disks, lies_on = found
    disks = [with_kernel_names(disk) for disk in disks if NAME.fullmatch(disk.name)]
    return disks, disks_under(lies_on, *root), root[0]


def clock_findings(clock, limit):
    """What the controller measured at the first SSH; ValueError when it is no measurement."""
    if not clock:
        return []
    numbers = {}
    for key in ("skew", "uncertainty", "maas_skew", "maas_uncertainty"):
        if clock.get(key) not in (None, ""):
            numbers[key] = float(clock[key])
            if not math.isfinite(numbers[key]):
                raise ValueError("clock.%s: %r is no number of seconds" % (key, clock[key]))
    if "skew" not in numbers:
        return []
    host = Reading("host", numbers["skew"], numbers.get("uncertainty", 0.0))
    others = [CONTROLLER]
    if "maas_skew" in numbers:
        others.insert(0, Reading("MAAS's clock", numbers["maas_skew"], numbers.get("maas_uncertainty", 0.0)))
    return judge_host(host, others, limit, " at the first SSH")


def os_release():
    """What the host says that it runs, "" when it says nothing."""
    try:
        with Path("/etc/os-release").open("rb") as stream:
            return stream.read(65536).decode("utf-8", "replace")
    except OSError:
        return ""


def main():
    module = AnsibleModule(
        argument_spec={
            "os_disk": {"type": "dict", "default": {}},
            "disks_before": {"type": "dict", "default": {}},
            "fresh": {"type": "bool", "default": True},
            "image": {"type": "dict", "default": {}},
            "clock": {"type": "dict", "default": {}},
            "clock_limit": {"type": "float", "default": 30.0},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        findings = clock_findings(params["clock"], params["clock_limit"])
    except (TypeError, ValueError) as error:
        module.fail_json(msg="clock: %s" % error)
    if params["image"]:
        image = {key: str(value) for key, value in params["image"].items()}
        findings += judge_image(image, os_release(), os.uname().release)
    seen = look()
    system = {}
    if isinstance(seen, Finding):
        findings.append(seen)
    else:
        disks, on, source = seen
        findings += judge_root(params["os_disk"], disks, on, source)
        if params["fresh"] and on:
            heads = read_heads([disk.name for disk in disks if disk.name not in on])
            findings += judge_data(params["disks_before"].values(), disks, heads, on)
        root = [disk for disk in disks if disk.name in on]
        if len(root) == 1:
            disk = root[0]
            wwid = disk.wwids[0] if disk.wwids else ""
            system = {
                "name": disk.name, "serial": disk.serial, "wwid": wwid, "model": disk.model, "size": disk.size,
            }  # fmt: skip
    module.exit_json(changed=False, findings=[finding.to_dict() for finding in findings], os_disk=system)


if __name__ == "__main__":
    main()
