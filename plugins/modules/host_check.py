#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_check
short_description: Judge whether a host is fit to train
version_added: "0.1.0"
description:
  - Runs all checks of one tier that the host's profile asks for, in one round trip, and gives findings and a verdict.
  - All commands run at the same time, each with its own time limit; those of O(tier=long) that load the host come after
    the others, one by one. One that hangs costs its limit, and makes its own check C(unknown); the others are judged
    all the same.
  - What cannot be read (no tool, no permission, a form that is not understood) is C(unknown), never C(ok). One
    C(unknown) in a required check means not ready. Some checks are not required unless O(require) names them, since
    what they need is not on every host (C(docs/health.md) lists them); for them it is reported as C(warn).
  - Only reads, but for O(capture); the same in check mode. It never fails because of the hardware, only because of
    wrong parameters.
options:
  profile:
    description:
      - The host's profile as a mapping (as in C(inventory/profiles/)). What has a count of 0 is not checked.
      - Required without O(checks).
    type: dict
  tier:
    description: Which checks to run. C(long) has those of C(quick) too.
    type: str
    choices: [quick, long]
    default: quick
  checks:
    description:
      - Run only the checks of these names, whatever their tier; so a role reads back what it did by the check that
        runs later too. They run though O(profile) says nothing of their part; one that has nothing to judge without
        it is C(unknown).
    type: list
    elements: str
    default: []
  skip:
    description: Checks that are switched off on this host. Each one is reported as a finding of status C(warn).
    type: list
    elements: dict
    default: []
    suboptions:
      check:
        description: The check's name.
        type: str
        required: true
      reason:
        description: Why it is switched off.
        type: str
        required: true
      until:
        description: The last day (YYYY-MM-DD, by the host's clock) on which it is. Later the check runs again.
        type: str
        required: true
  require:
    description: Names of checks that must be readable here, of those that are not required by themselves.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Seconds that any one command may take at most, by default 30 in O(tier=quick) and 3600 in O(tier=long). Most
        have a lower limit of their own.
    type: float
  capture:
    description:
      - Keeps everything that the checks read, as an archive (.tar.gz) of this name on the host, which must not be there
        yet. C(scripts/health judge) judges it anywhere, later. Check mode writes none.
    type: path
  earlier:
    description:
      - What an earlier run on this host gave back as RV(remember), so that growth since then is judged. It is merged
        into O(expect), whose own O(expect.hca_counters), O(expect.nvlink_counters) and C(since) of O(expect.kernel_log)
        go before it. Counters of another boot, and what is of later than the host's clock, do not count.
    type: dict
    default: {}
  expect:
    description: What this site expects of its hosts beyond the profile.
    type: dict
    default: {}
    suboptions:
      ntp_servers:
        description: The clock must follow one of these (names or addresses). Empty, any server will do.
        type: list
        elements: str
        default: []
      clock:
        description: Whether the clock must be kept.
        type: bool
        default: true
      docker:
        description: Whether Docker must run.
        type: bool
        default: true
      exporters:
        description: Metric exporters that must answer, name and port on 127.0.0.1. C({}) for none.
        type: dict
        default: {node_exporter: 9100}
      zfs_pool:
        description: The ZFS pool that must be there, C(name), and C(drives), how many it must have (0 for any).
        type: dict
        default: {}
      acs_in_virtual_machines:
        description: Whether access control of PCIe bridges is judged in a virtual machine too.
        type: bool
        default: false
      gpu_driver:
        description:
          - The exact version of the GPU driver. Empty, any will do that all GPUs agree on; not given, as C(versions).
        type: str
      gpu_vbios:
        description: The exact version of the GPUs' VBIOS. Empty, what the profile says; not given, as C(versions).
        type: str
      gpu_rdma:
        description: How HCAs reach GPU memory, for the check C(gpu_rdma). Empty, as the profile says.
        type: str
        choices: ["", peermem, dmabuf, both]
        default: ""
      docker_gpu:
        description:
          - How containers get GPUs, for the check C(docker). C(auto) is as the role docker_engine chooses, by Docker's
            version. Empty, that is not judged.
        type: str
        choices: ["", auto, cdi, runtime]
        default: ""
      containers:
        description:
          - Names of the containers that may be there, as shell patterns; any other is C(fail). Without the list
            containers that are privileged, left over, or run while no job may (O(expect.gpu_processes)), are C(warn).
        type: list
        elements: str
      gpu_processes:
        description:
          - Programs that may run on GPUs, as shell patterns of their path or its last part; C(["*"]) while jobs may
            run.
        type: list
        elements: str
      hca_firmware:
        description: The exact firmware version of the HCAs. Empty, what the profile says; not given, as C(versions).
        type: str
      hca_counters:
        description: The HCAs' error counters at an earlier time, that their growth is judged since then.
        type: dict
      nvlink_counters:
        description: The NVLinks' error counters at an earlier time, that their growth is judged since then.
        type: dict
      kernel_log:
        description: Since when the kernel's log counts, and which lines are harmless or bad here; see C(docs/xid.md).
        type: dict
      dcgm_diag_level:
        description:
          - How deep the check C(dcgm_diag) of O(tier=long) looks, as NVIDIA counts; 2 when it is not given. See
            C(docs/health.md).
        type: int
        choices: [1, 2, 3]
      versions:
        description:
          - What a host that runs this distribution and architecture is expected to have, C(gpu_driver), C(gpu_vbios)
            and C(hca_firmware), as the filter C(expected_versions) gives it from versions.yml; the host picks by its
            own os-release. The options of these names go before it.
        type: dict
        default: {}
      reboot_due:
        description: A reboot has been asked for. What only that will mend in the driver is C(warn) until then.
        type: bool
        default: false
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Run the quick checks
  host_check:
    profile: "{{ profile }}"
  register: smoke

- name: Read back what a role did
  host_check:
    profile: "{{ profile }}"
    checks: [cpu_frequency]
  register: proof

- name: Run them while the InfiniBand fabric is not cabled yet
  host_check:
    profile: "{{ profile }}"
    skip:
      - check: hca_state
        reason: fabric of row 3 is cabled in week 31
        until: "2027-08-06"
    expect:
      ntp_servers: [10.0.0.1, ntp2.example.org]
      exporters: {node_exporter: 9100, dcgm_exporter: 9400}

- name: Keep what they read
  host_check:
    profile: "{{ profile }}"
    capture: /root/capture.tar.gz

- name: Stop here unless the host is ready
  ansible.builtin.assert:
    that: smoke.verdict.ready
    fail_msg: "{{ smoke.verdict.reasons | map(attribute='symptom') | join(', ') }}"
"""

RETURN = r"""
findings:
  description: Everything that was judged, at most 20 for each check.
  returned: always
  type: list
  elements: dict
  contains:
    check: {description: What looked., type: str, sample: gpu_count}
    status: {description: "ok, warn, fail or unknown.", type: str, sample: fail}
    symptom: {description: A stable code; for ok the check's name., type: str, sample: gpu.missing}
    locator: {description: The part and where it sits., type: str, sample: 1 of 8 GPUs}
    evidence:
      description: What was seen and what was expected; at the end where the part sits, if the host tells that.
      type: str
      sample: x8 Gen5, the profile wants x16 Gen5; sits in PCIe Slot 33
    action: {description: What to do., type: str, sample: reseat}
verdict:
  description: Whether the host is fit to train.
  returned: always
  type: dict
  contains:
    ready: {description: Yes or no., type: bool, sample: false}
    action: {description: The one thing to do., type: str, sample: reseat}
    reasons: {description: "The findings that say no, failures first, worst action first.", type: list, elements: dict}
seconds:
  description: By check, the seconds that its slowest reading and its judging took.
  returned: always
  type: dict
  sample: {gpu_count: 0.61}
remember:
  description:
    - What the next run is to be given as O(earlier). Error counters are replaced when they are at least an hour old,
      and not while their check fails; the time since when the kernel log counts is that of a run with a clean verdict.
      With O(checks) it is O(earlier) as it was.
  returned: always
  type: dict
  sample: {nvlink_counters: {time: 1772352000.5, boot: 1d6c03f5-8f0c-4a3b-9a55-2f1c7f0b4c11, value: {}}}
values:
  description: By check, numbers and texts by which hosts of one profile are compared, at most 100.
  returned: always
  type: dict
  sample: {gpu_count: {gpu.driver: 580.95.05}}
time:
  description: When the checks began, in seconds since 1970 by the host's clock.
  returned: always
  type: float
  sample: 1772352000.5
ran:
  description:
    - The checks that were judged or switched off, or have nothing to look at here; not those of another tier, nor one
      that held back for a job's sake. What others found earlier still holds.
  returned: always
  type: list
  elements: str
  sample: [gpu_count, disk_usage]
serials:
  description: Serial numbers of the GPUs by PCI address, by which the BMC's slot of each is found.
  returned: always
  type: dict
  sample: {"0000:1b:00": "1653922000123"}
"""

import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight.checks import ALL_CHECKS, TIERS, run_checks  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Ended, end_on_signals  # noqa: E402
from ansible.module_utils.firstlight.checks.engine import plan  # noqa: E402
from ansible.module_utils.firstlight.checks.folder import Keeper, facts_here, write_archive  # noqa: E402
from ansible.module_utils.firstlight.checks.places import Placing  # noqa: E402
from ansible.module_utils.firstlight.health import VERSION, earlier  # noqa: E402
from ansible.module_utils.firstlight.health.settings import known_check, of_system, read_expect, read_skips  # noqa: E402
from ansible.module_utils.firstlight.profile import Profile  # noqa: E402

EXPORTERS = {"node_exporter": 9100}
NO_PROFILE = {"name": "none", "vendor": "", "model": ""}


def keep(path, keeper, profile, expect, tier, only):
    """Write what was read as an archive; ValueError where that is not possible."""
    kept = keeper.kept(plan(ALL_CHECKS, profile, expect, tier, only), profile, expect, facts_here(VERSION), tier, only)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            write_archive(kept, file)
    except OSError as error:
        raise ValueError("capture: %s: %s" % (path, error.strerror)) from None


def main():
    module = AnsibleModule(
        argument_spec={
            "profile": {"type": "dict"},
            "tier": {"type": "str", "choices": list(TIERS), "default": "quick"},
            "checks": {"type": "list", "elements": "str", "default": []},
            "skip": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "check": {"type": "str", "required": True},
                    "reason": {"type": "str", "required": True},
                    "until": {"type": "str", "required": True},
                },
            },
            "require": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float"},
            "capture": {"type": "path"},
            "earlier": {"type": "dict", "default": {}},
            "expect": {
                "type": "dict",
                "default": {},
                "options": {
                    "ntp_servers": {"type": "list", "elements": "str", "default": []},
                    "clock": {"type": "bool", "default": True},
                    "docker": {"type": "bool", "default": True},
                    "exporters": {"type": "dict", "default": EXPORTERS},
                    "zfs_pool": {"type": "dict", "default": {}},
                    "acs_in_virtual_machines": {"type": "bool", "default": False},
                    "gpu_driver": {"type": "str"},
                    "gpu_vbios": {"type": "str"},
                    "gpu_rdma": {"type": "str", "choices": ["", "peermem", "dmabuf", "both"], "default": ""},
                    "docker_gpu": {"type": "str", "choices": ["", "auto", "cdi", "runtime"], "default": ""},
                    "containers": {"type": "list", "elements": "str"},
                    "gpu_processes": {"type": "list", "elements": "str"},
                    "hca_firmware": {"type": "str"},
                    "hca_counters": {"type": "dict"},
                    "nvlink_counters": {"type": "dict"},
                    "kernel_log": {"type": "dict"},
                    "dcgm_diag_level": {"type": "int", "choices": [1, 2, 3]},
                    "versions": {"type": "dict", "default": {}},
                    "reboot_due": {"type": "bool", "default": False},
                },
            },
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        profile = Profile.from_dict(params["profile"] if params["profile"] is not None else NO_PROFILE)
    except ValueError as error:
        module.fail_json(msg=f"profile: {error}")
    try:
        skips = read_skips(params["skip"])
        for name in params["require"]:
            known_check("require", name)
        for name in params["checks"]:
            known_check("checks", name)
        if params["profile"] is None and not params["checks"]:
            raise ValueError("profile: is missing; only where checks names some it is not required")
        expect = of_system(read_expect(params["expect"]), facts_here(VERSION)["system"])
        limit = params["timeout"] if params["timeout"] is not None else TIERS[params["tier"]]
        if not math.isfinite(limit) or not 0 < limit <= 86400:
            raise ValueError(f"timeout: {limit!r} is not more than 0 and at most 86400 seconds")
    except ValueError as error:
        module.fail_json(msg=str(error))
    try:
        memory = earlier.read(params["earlier"] or {})
    except ValueError as error:
        module.fail_json(msg=f"earlier: {error}")
    boot = earlier.boot_here()
    expect = earlier.known(expect, memory, time.time(), boot)
    placing = Placing()
    keeper = Keeper(placing)
    result = run_checks(
        ALL_CHECKS,
        profile,
        expect,
        params["tier"],
        skips,
        params["require"],
        limit,
        only=params["checks"],
        run=keeper,
    )
    result = placing.told(result)
    captures = params["capture"] is not None and not module.check_mode
    if captures:
        try:
            keep(params["capture"], keeper, profile, expect, params["tier"], params["checks"])
        except ValueError as error:
            module.fail_json(msg=str(error))
    module.exit_json(
        changed=captures,
        findings=[finding.to_dict() for finding in result.findings],
        verdict={
            "ready": result.verdict.ready,
            "action": result.verdict.action,
            "reasons": [finding.to_dict() for finding in result.verdict.reasons],
        },
        seconds=result.seconds,
        remember=earlier.after(memory, result, boot, whole=not params["checks"]),
        values=result.values,
        time=result.time,
        ran=result.ran,
        serials=placing.serials,
    )


if __name__ == "__main__":
    end_on_signals()
    try:
        main()
    except Ended as ended:
        print(json.dumps({"failed": True, "msg": f"ended by {ended}, and with it all that it ran"}))
        sys.exit(1)
