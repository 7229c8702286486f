#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_lists
short_description: Have apt's package lists of the sources as they stand now
version_added: "0.2.0"
description:
  - Fetches the package lists (C(apt-get update)) where there is none of one of O(sources) or none at all, where a
    source or a key is another than when they were fetched, where the last fetch did not come to its end, or where they
    are older than O(max_age). So a run that was stopped between naming a repository and fetching its lists is mended
    by the next.
  - Fails with one line, apt's own words, where any archive does not answer or is not signed as its source says.
  - What was fetched is remembered in C(/var/lib/firstlight/apt_lists.json).
  - Lists are a cache, so fetching them is no change. In check mode nothing is fetched.
options:
  sources:
    description: Names of files in C(/etc/apt/sources.list.d), such as C(docker.sources), whose lists must be there.
    type: list
    elements: str
    default: []
  max_age:
    description: Seconds that lists may be old.
    type: int
    default: 3600
  lock_timeout:
    description: Seconds to wait for another program that holds the lock of the lists, such as a host's first boot does.
    type: int
    default: 120
attributes:
  check_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Fetch the package lists
  apt_lists:
    sources: [docker.sources]
"""

RETURN = r"""
fetched:
  description: Whether they were fetched now.
  returned: success
  type: bool
why:
  description: Why they had to be fetched, or in check mode would be; empty where they need not.
  returned: success
  type: str
  sample: there is none of docker.sources
"""

import os  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import aptlists  # noqa: E402
from ansible.module_utils.firstlight.checks.capture import Command, run_command  # noqa: E402

LISTS = Path("/var/lib/apt/lists")
STATE = Path("/var/lib/firstlight/apt_lists.json")
TARGETS = ("apt-get", "indextargets", "--format", "$(SOURCESENTRY)|$(FILENAME)", "Created-By: Packages")
UPDATE = ("apt-get", "-q", "-o", "Acquire::Retries=3", "-o", "APT::Update::Error-Mode=any", "update")
UPDATE_SECONDS = 900.0
LOCK_PAUSE_SECONDS = 3.0


def run(module, argv, limit=60.0):
    output = run_command(Command(argv, limit=limit, max_bytes=8 * 1024 * 1024, keep="tail"))
    if output.problem:
        module.fail_json(msg=f"apt_lists: {' '.join(argv[:2])}: {output.problem}: {output.errors.strip()[:300]}")
    return output


def look(module, sources):
    """What there is of sources and lists; fails where apt cannot read its own sources."""
    digest, changed_at = aptlists.read_sources(Path("/"))
    targets = run(module, TARGETS)
    if targets.code:
        module.fail_json(msg=f"apt cannot read its sources: {aptlists.errors(targets.errors)}")
    lists_at = LISTS.stat().st_mtime if LISTS.exists() else 0.0
    known = aptlists.parse_targets(targets.text)
    missing = aptlists.lacking(sources, known)
    return aptlists.Seen(digest, changed_at, lists_at, missing, aptlists.none_there(known))


def remember(fetched):
    """Write it down; a reader never sees half of it."""
    STATE.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = STATE.with_name(f"{STATE.name}.{os.getpid()}")
    new.write_text(aptlists.state_text(fetched), encoding="ascii")
    new.chmod(0o644)
    new.replace(STATE)


def update(module, lock_timeout):
    """Fetch them; apt's words where it does not take an archive, else nothing."""
    end = time.monotonic() + lock_timeout
    while True:
        output = run(module, UPDATE, limit=UPDATE_SECONDS)
        if not output.code:
            return ""
        if not aptlists.is_locked(output.errors) or time.monotonic() > end:
            return aptlists.errors(output.errors or output.text)
        time.sleep(LOCK_PAUSE_SECONDS)


def main():
    module = AnsibleModule(
        argument_spec={
            "sources": {"type": "list", "elements": "str", "default": []},
            "max_age": {"type": "int", "default": 3600},
            "lock_timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        seen = look(module, module.params["sources"])
        state = STATE.read_text(encoding="ascii", errors="replace") if STATE.exists() else ""
        why = aptlists.reason(seen, aptlists.parse_state(state), module.params["max_age"], time.time())
        if why and not module.check_mode:
            remember(aptlists.Fetched("", time.time()))
            said = update(module, module.params["lock_timeout"])
            if said:
                module.fail_json(msg=f"apt does not take its sources: {said}")
            # for the module apt, which goes by dates: apt leaves the folder alone where no archive had anything new
            os.utime(LISTS)
            remember(aptlists.Fetched(seen.digest, time.time()))
    except OSError as error:
        module.fail_json(msg=f"apt_lists: {error.filename or 'apt'}: {error.strerror or error}")
    module.exit_json(changed=False, fetched=bool(why) and not module.check_mode, why=why)


if __name__ == "__main__":
    main()
