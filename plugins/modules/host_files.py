#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_files
short_description: Write a role's files to the host, all of them in one command
version_added: "0.2.0"
description:
  - Makes folders, writes files from templates, and removes files, in the order of O(files).
  - One task and one command on the host, where M(ansible.builtin.template) takes two commands a file. With many hosts
    that is most of what a run costs that changes nothing.
  - All of O(files) is looked at before the first is written. A wrong entry, a folder that is not there, or a folder
    where a file should be ends the task with nothing changed.
  - A file is replaced at once, never written in place. A symbolic link in its place is replaced by the file; a link to
    a folder counts as the folder.
  - Not for secrets; they belong in M(ansible.builtin.copy) with C(no_log).
options:
  files:
    description: The files and folders. A folder comes before what is in it.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path on the host.
        type: str
        required: true
      state:
        description:
          - V(file) is a regular file with the content given.
          - V(directory) is a folder, made with the folders above it; what is in it stays.
          - V(absent) is no file and no link. A folder of that name is an error, and is not removed.
        type: str
        choices: [file, directory, absent]
        default: file
      template:
        description: Name of the template, looked for as by M(ansible.builtin.template). One that renders to nothing is
          an empty file.
        type: str
      content:
        description: The whole text of the file, in place of a template.
        type: str
      owner:
        description: Name of the user who owns it.
        type: str
        default: root
      group:
        description: Name of its group.
        type: str
        default: root
      mode:
        description: Its permissions, as octal digits in quotes; by default V("0644"), of a folder V("0755").
        type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author:
  - Firstlight contributors
"""

EXAMPLES = r"""
- name: Write the service's settings
  host_files:
    files:
      - path: /etc/example
        state: directory
      - path: /etc/example/settings.json
        template: settings.json.j2
      - path: /etc/example/old.conf
        state: absent
  notify: Restart the service
"""

RETURN = r"""
changed_paths:
  description: The paths of O(files) that were, or in check mode would be, written, removed or given other permissions.
  returned: success
  type: list
"""

import grp  # noqa: E402
import os  # noqa: E402
import pwd  # noqa: E402
import stat  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import hostfiles  # noqa: E402
from ansible.module_utils.firstlight.wholefile import write_whole  # noqa: E402


def numbers(entry):
    """Its user and group as the host has them. ValueError: it has none of that name."""
    found = []
    for what, name, look in (("user", entry.owner, pwd.getpwnam), ("group", entry.group, grp.getgrnam)):
        try:
            found.append(look(name)[2])
        except (KeyError, ValueError):
            raise ValueError(f"{entry.path}: the host has no {what} {name!r}") from None
    return tuple(found)


def content_there(entry):
    """What the file has now; what is surely another is not read to its end."""
    with entry.path.open("rb") as file:
        return file.read(max(len(entry.content), hostfiles.SHOWN_BYTES) + 1)


def difference(path, before, after):
    return {"before_header": str(path), "after_header": str(path), "before": before, "after": after}


class Step:
    """How one entry becomes what it should be: what differs, found before anything is changed."""

    def __init__(self, entry):
        self.entry, self.owners = entry, numbers(entry)
        self.kind = hostfiles.kind_of(entry.path)
        self.differences, self.whole = [], False
        if entry.state == "absent":
            if self.kind != "nothing":
                self._differs(self._as_it_is(), "absent\n")
        elif entry.state == "directory" and self.kind == "nothing":
            self._differs("absent\n", "directory\n")
        else:
            if entry.state == "file":
                before = content_there(entry) if self.kind == "file" else None
                if before != entry.content:
                    said = self._as_it_is() if before is None else hostfiles.shown(before)
                    self._differs(said, hostfiles.shown(entry.content))
            self.whole = bool(self.differences)
            if self.kind == "file" or entry.state == "directory":  # a link to a folder is one
                there = entry.path.stat()
                now = (stat.S_IMODE(there.st_mode), there.st_uid, there.st_gid)
                wanted = (entry.mode, *self.owners)
                if now != wanted:
                    self._differs(hostfiles.attributes(*now), hostfiles.attributes(*wanted))
        if self.differences and os.geteuid() and self.owners != (os.geteuid(), os.getegid()):
            raise ValueError(f"{entry.path}: only root can have it owned by {entry.owner}:{entry.group}; use become")

    def _differs(self, before, after):
        self.differences.append(difference(self.entry.path, before, after))

    def _as_it_is(self):
        if self.kind == "link":
            return f"link to {os.readlink(self.entry.path)}\n"  # noqa: PTH115 - as it is written, not a path
        return "" if self.kind == "nothing" else f"{self.kind}\n"

    def take(self):
        entry = self.entry
        if entry.state == "absent":
            entry.path.unlink()
        elif entry.state == "file" and self.whole:
            write_whole(entry.path, entry.content, entry.mode, self.owners)
        else:
            if self.kind == "nothing":
                for path in reversed([entry.path, *entry.path.parents]):
                    if not path.exists():
                        path.mkdir()
                        path.chmod(0o755)  # whatever the umask says
            os.chown(entry.path, *self.owners)
            entry.path.chmod(entry.mode)  # after chown, which takes setuid away


def main():
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "raw",  # each is read below: so that what is wrong with one names it
                "required": True,
                "no_log": True,  # the host's log is not to have all files once more in it
            },
        },
        supports_check_mode=True,
    )
    module.no_log_values.clear()  # else paths and differences would be blanked out in the result too
    given = [entry.get("path") for entry in module.params["files"] if isinstance(entry, dict)]
    said = {"invocation": {"module_args": {"files": [{"path": path} for path in given]}}}
    try:
        entries = hostfiles.read(module.params["files"])
        problem = hostfiles.obstacle(entries)
        if problem:
            raise ValueError(problem)
        steps = [Step(entry) for entry in entries]
    except (OSError, ValueError) as error:
        what = f"{os.fsdecode(error.filename)}: {error.strerror}" if isinstance(error, OSError) else str(error)
        module.fail_json(msg=f"host_files: {what}; nothing was changed", **said)
    done = []
    for step in [step for step in steps if step.differences]:
        try:
            if not module.check_mode:
                step.take()
        except OSError as error:
            what = f"host_files: {step.entry.path}: {error.strerror or error}"
            more = f"; changed before: {', '.join(done)}" if done else "; nothing was changed"
            module.fail_json(msg=what + more, changed=bool(done), changed_paths=done, **said)
        done.append(str(step.entry.path))
    diff = [one for step in steps for one in step.differences] if module._diff else []
    module.exit_json(changed=bool(done), changed_paths=done, **({"diff": diff} if diff else {}), **said)


if __name__ == "__main__":
    main()
