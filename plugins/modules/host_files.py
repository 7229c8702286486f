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
  - A file is replaced at once, never written in place. A symbolic link in its place is replaced by the file.
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
        description: Name of the template, looked for as by M(ansible.builtin.template).
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
import pwd  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.firstlight import hostfiles  # noqa: E402
from ansible.module_utils.firstlight.wholefile import write_whole  # noqa: E402


class Unchanged(Exception):
    """Nothing was changed, and nothing can be."""


def known(entries):
    """That the host knows all users and groups."""
    for entry in entries:
        for what, name, look in (("user", entry.owner, pwd.getpwnam), ("group", entry.group, grp.getgrnam)):
            try:
                look(name)
            except KeyError:
                raise Unchanged(f"{entry.path}: the host has no {what} {name}") from None


def content_there(entry, kind):
    """What the file has now, or nothing; what is surely another is not read to its end."""
    if kind != "file":
        return None
    with entry.path.open("rb") as file:
        return file.read(max(len(entry.content), hostfiles.SHOWN_BYTES) + 1)


def settle(module, entry):
    """Have one entry as it should be; the differences, for those who ask for them."""
    kind = hostfiles.kind_of(entry.path)
    headers = {"before_header": str(entry.path), "after_header": str(entry.path)}
    if entry.state == "absent":
        if kind == "nothing":
            return []
        if not module.check_mode:
            entry.path.unlink()
        return [{**headers, "before": f"{kind}\n", "after": "absent\n"}]
    found = []
    if entry.state == "directory":
        if kind == "nothing":
            found.append({**headers, "before": "absent\n", "after": "directory\n"})
            if not module.check_mode:
                for path in reversed([entry.path, *entry.path.parents]):
                    if not path.exists():
                        path.mkdir()
                        path.chmod(0o755)  # whatever the umask says
    else:
        before = content_there(entry, kind)
        if before != entry.content:
            found.append({**headers, "before": hostfiles.shown(before), "after": hostfiles.shown(entry.content)})
            if not module.check_mode:
                write_whole(entry.path, entry.content, int(entry.mode, 8))
    if module.check_mode and kind in ("nothing", "link") and not entry.path.is_dir():
        return found  # nothing there yet that could have permissions
    attributes = {"mode": entry.mode, "owner": entry.owner, "group": entry.group}
    difference = {**headers}
    if module.set_fs_attributes_if_different(
        module.load_file_common_arguments(attributes, path=str(entry.path)), False, difference
    ):
        found.append(difference)
    return found


def main():
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "no_log": True,  # the host's log is not to have all files once more in it
                "options": {
                    "path": {"type": "str", "required": True},
                    "state": {"type": "str", "choices": list(hostfiles.STATES), "default": "file"},
                    "content": {"type": "str"},
                    "owner": {"type": "str", "default": "root"},
                    "group": {"type": "str", "default": "root"},
                    "mode": {"type": "str"},
                },
            },
        },
        supports_check_mode=True,
    )
    module.no_log_values.clear()  # else paths and differences would be blanked out in the result too
    said = {"invocation": {"module_args": {"files": [{"path": given["path"]} for given in module.params["files"]]}}}
    done = {}
    try:
        entries = hostfiles.read(module.params["files"])
        if problem := hostfiles.obstacle(entries):
            raise Unchanged(problem)
        known(entries)
        for entry in entries:
            if found := settle(module, entry):
                done[str(entry.path)] = found
    except (Unchanged, ValueError) as error:
        module.fail_json(msg=f"host_files: {error}; nothing was changed", **said)
    except OSError as error:
        module.fail_json(
            msg=f"host_files: {error.filename or entry.path}: {error.strerror or error}", changed_paths=[*done], **said
        )
    diff = [difference for found in done.values() for difference in found] if module._diff else []
    module.exit_json(changed=bool(done), changed_paths=[*done], **({"diff": diff} if diff else {}), **said)


if __name__ == "__main__":
    main()
