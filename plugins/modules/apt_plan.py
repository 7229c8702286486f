#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_plan
short_description: Look at an apt transaction before it runs, and refuse it where it would do more than it should
version_added: "0.2.0"
description:
  - Simulates the installation of O(packages) with the host's own C(apt-get), and reads what would be installed,
    changed and removed.
  - Fails with one line when the transaction would touch the kernel, remove a package outside O(family), or bring
    together packages of O(family) from archives other than those of O(labels). The failure carries a finding
    (RV(findings)), since doing the same again would mend nothing.
  - Packages that are there as wanted are left alone, so that a run later upgrades nothing by the way.
  - Only reads; the same in check mode. Run M(ansible.builtin.apt) with RV(specs) after it.
options:
  packages:
    description: Packages to install, by C(NAME) or C(NAME=VERSION), where the version may be a pattern.
    type: list
    elements: str
    required: true
  family:
    description:
      - Patterns of the packages that the transaction is about; only these may be removed by it. A pattern that begins
        with C(!) takes out what it matches.
    type: list
    elements: str
    required: true
  labels:
    description: Patterns of the archives' labels (C(Label) in their Release file) for O(family). Empty, any.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Look at what installing the driver would do
  apt_plan:
    packages: ["nvidia-open=580.*"]
    family: ["nvidia-*", "libnvidia-*", "!nvidia-container-*"]
    labels: [NVIDIA CUDA]
  register: plan
"""

RETURN = r"""
specs:
  description:
    - Those of O(packages) that are not there as wanted, and what of O(family) has to change with them, by its version.
      apt moves a held package only when it is named.
  returned: success
  type: list
  sample: ["nvidia-open=580.*"]
changes:
  description: By name, what would be installed or changed, C(OLD -> NEW).
  returned: success
  type: dict
removals:
  description: By name, the version that would go.
  returned: success
  type: dict
installed:
  description: Version by name of the packages of O(family) that are there now.
  returned: success
  type: dict
findings:
  description:
    - One of status C(fail) and action C(escalate), C(packages.refused) where the transaction would do more than it
      should, C(packages.not_installable) where apt finds no way to install what is wanted.
  returned: when that is why it failed
  type: list
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import aptplan  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Command, run_command  # noqa: E402
from ansible.module_utils.firstlight.findings import Finding  # noqa: E402

STATUS = "-f=${db:Status-Status}|${Package}|${Version}\\n"


def read(module, argv, limit=120.0):
    """What a command prints; fails where it cannot be run."""
    output = run_command(Command(tuple(argv), limit=limit, max_bytes=8 * 1024 * 1024))
    if output.problem:
        module.fail_json(msg=f"apt_plan: {argv[0]}: {output.problem}: {output.errors.strip()[:300]}")
    return output


def refuse(module, symptom, said):
    """Fails with a finding: a retry meets the same packages again, so a person has to decide."""
    finding = Finding("packages", "fail", symptom, "apt", said, "escalate")
    module.fail_json(msg=said, findings=[finding.to_dict()])


def archives(module, names):
    """By package the labels of the archives that have what is installed of it."""
    if not names:
        return {}
    files = aptplan.parse_files(read(module, ["apt-cache", "policy"]).text)
    return aptplan.parse_policy(read(module, ["apt-cache", "policy", *names]).text, files)


def main():
    texts = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "packages": {**texts, "required": True},
            "family": {**texts, "required": True},
            "labels": {**texts, "default": []},
        },
        supports_check_mode=True,
    )
    packages, family, labels = (module.params[key] for key in ("packages", "family", "labels"))
    for spec in packages:
        if not spec or spec.startswith("-") or any(c.isspace() for c in spec):
            module.fail_json(msg=f"apt_plan: {spec!r} is no package such as nvidia-open or nvidia-open=580.*")
    versions = aptplan.parse_installed(read(module, ["dpkg-query", "-W", STATUS]).text)
    installed = {name: version for name, version in versions.items() if aptplan.matches(name, family)}
    specs = aptplan.missing(packages, versions)
    plan = aptplan.Plan()
    if specs:
        # what of the family is held has to move with the rest; the holds of others are watched over below
        options = ["--simulate", "--yes", "--no-install-recommends", "--allow-change-held-packages", "--ignore-hold"]
        argv = ["apt-get", *options, "--allow-downgrades", "-o", "Debug::NoLocking=1", "install", "--", *specs]
        output = read(module, argv)
        if output.code:
            reason = aptplan.errors(output.text + "\n" + output.errors)
            refuse(module, "packages.not_installable", f"apt cannot install {' '.join(specs)}: {reason}"[:1500])
        plan = aptplan.parse_simulation(output.text)
    said = aptplan.refusals(plan, family, labels, archives(module, sorted(installed)) if labels else {})
    if said:
        more = f"; and {len(said) - 10} more" if len(said) > 10 else ""
        what = " ".join(specs or packages)
        refuse(module, "packages.refused", f"refused: installing {what} {'; '.join(said[:10])}{more}")
    module.exit_json(
        changed=False,
        specs=aptplan.complete(specs, plan, family),
        changes={c.name: f"{c.old} -> {c.new}" if c.old else c.new for c in plan.changes},
        removals=plan.removals,
        installed=installed,
    )


if __name__ == "__main__":
    main()
