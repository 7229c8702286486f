#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_pins
short_description: By what a pin names one apt repository and no other
version_added: "0.2.0"
description:
  - Reads the Release files of O(repositories) before apt has them for good, and gives for each what follows C(Pin:) in
    apt_preferences(5), C(release o=Docker,l=Docker CE,n=bookworm). The host's name only where its Release file says
    nothing and no other repository is on that host.
  - Fails with one line where a pin would hold for another repository too.
  - Changes nothing. What apt has fetched is read; of a repository that it does not have yet, the Release files are
    fetched into a folder of their own. In check mode such a one is left out of the answer.
options:
  repositories:
    description: The repositories.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Its file is C(firstlight-NAME.sources).
        type: str
        required: true
      uri:
        description: As in its file.
        type: str
        required: true
      suites:
        description: As in its file.
        type: list
        elements: str
        required: true
      signed_by:
        description: As in its file.
        type: str
        required: true
  without:
    description: Names of files with sources that are going to be taken away.
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
- name: Read by what each is told apart
  apt_pins:
    repositories:
      - name: docker
        uri: http://download.docker.com/linux/debian
        suites: [bookworm]
        signed_by: /etc/apt/keyrings/docker.asc
"""

RETURN = r"""
pins:
  description: By name of a repository what follows C(Pin:), each suite's.
  returned: success
  type: dict
  sample: {docker: ["release o=Docker,l=Docker CE,n=bookworm"]}
"""

import shutil  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import aptlists, aptpins  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Command, run_command  # noqa: E402

APT = ("apt-get", "-q")
SOURCES = Path("/etc/apt")
ONLY_RELEASES = (
    "Acquire::Retries=3",
    "Acquire::Languages=none",
    "Acquire::IndexTargets::deb::Packages::DefaultEnabled=false",
    "Acquire::IndexTargets::deb-src::Sources::DefaultEnabled=false",
)
UPDATE_SECONDS = 300.0


def run(module, argv, limit=60.0):
    output = run_command(Command((*APT, *argv), limit=limit, max_bytes=8 * 1024 * 1024, keep="tail"))
    if output.problem:
        module.fail_json(msg=f"apt_pins: apt-get: {output.problem}: {output.errors.strip()[:300]}")
    return output


def look(module, options=()):
    """All sources that apt has the Release files of."""
    words = ("indextargets", "--no-release-info", "--format", aptpins.FORMAT, "Created-By: Packages")
    output = run(module, (*options, *words))
    if output.code:
        module.fail_json(msg=f"apt cannot read its sources: {aptlists.errors(output.errors)}")
    return [target for target in map(aptpins.with_release, aptpins.parse(output.text)) if target]


def file_of(repository):
    return f"firstlight-{repository['name']}.sources"


def of(targets, repository):
    return aptpins.of(targets, file_of(repository), repository["uri"], repository["suites"])


def lacks(targets, repository):
    """Whether one of its suites is not there."""
    return len({target.suite for target in of(targets, repository)}) < len(set(repository["suites"]))


def lay_out(folder, repositories):
    """The sources as they are going to be, with folders for what is fetched; the options that have apt use them."""
    parts, lists = folder / "parts", folder / "lists"
    parts.mkdir()
    lists.mkdir()
    folder.chmod(0o755)  # apt fetches as another user
    for path in sorted((SOURCES / "sources.list.d").glob("*")):
        if path.suffix in (".list", ".sources"):
            shutil.copyfile(path, parts / path.name)
    main = folder / "sources.list"
    main.write_bytes((SOURCES / "sources.list").read_bytes() if (SOURCES / "sources.list").exists() else b"")
    for repository in repositories:
        lines = ["Types: deb", f"URIs: {repository['uri']}", f"Suites: {' '.join(repository['suites'])}"]
        if not any(suite.endswith("/") for suite in repository["suites"]):
            lines.append("Components: main")  # it has to have one; no list of it is fetched
        lines += [f"Signed-By: {repository['signed_by']}"] if repository["signed_by"] else []
        (parts / file_of(repository)).write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": main,
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": lists,
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def fetch(module, repositories):
    """What apt would know of all sources, from their Release files alone."""
    folder = Path(tempfile.mkdtemp(prefix="firstlight-apt-pins-"))
    try:
        options = lay_out(folder, repositories)
        only = [word for setting in ONLY_RELEASES for word in ("-o", setting)]
        output = run(module, ("update", *options, *only), limit=UPDATE_SECONDS)
        targets = look(module, options)
        if any(lacks(targets, repository) for repository in repositories):
            module.fail_json(msg=f"apt does not take its sources: {aptlists.errors(output.errors or output.text)}")
        return targets
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    module = AnsibleModule(
        argument_spec={
            "repositories": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "uri": {"type": "str", "required": True},
                    "suites": {"type": "list", "elements": "str", "required": True},
                    "signed_by": {"type": "str", "required": True},
                },
            },
            "without": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    repositories = module.params["repositories"]
    pins = {}
    try:
        targets = look(module) if repositories else []
        if any(lacks(targets, repository) for repository in repositories):
            if module.check_mode:
                repositories = [repository for repository in repositories if not lacks(targets, repository)]
            else:
                targets = fetch(module, repositories)
        for repository in repositories:
            own = of(targets, repository)
            others = [t for t in targets if t not in own and t.source not in module.params["without"]]
            others = [t for t in others if t.source != file_of(repository)]
            pins[repository["name"]] = aptpins.pins(repository["name"], own, others)
    except aptpins.NotToldApart as error:
        module.fail_json(msg=f"apt_cache: {error}")
    except OSError as error:
        module.fail_json(msg=f"apt_pins: {error.filename or 'apt'}: {error.strerror or error}")
    module.exit_json(changed=False, pins=pins)


if __name__ == "__main__":
    main()
