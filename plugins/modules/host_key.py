#!/usr/bin/python
# Copyright: Firstlight contributors
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_key
short_description: Give a freshly installed host an SSH key of its own
description:
  - A host is installed with a key that the controller made, so that the first connection is verified. MAAS keeps user
    data, so that key is replaced over this first connection. The host makes a new one, the controller writes its public
    part into the file of known hosts (C(known_hosts_file)), the host changes over, and a new connection is verified by
    the new key before the old one is forgotten.
  - It may be stopped at any point and begun again. Where no key is to be replaced, the host is not asked at all.
  - Check mode only says whether it would be done.
options:
  step:
    description: Set by the action plugin of the same name.
    type: str
    choices: [prepare, switch]
  bootstrap:
    description: Set by the action plugin; the public keys to replace.
    type: list
    elements: str
    default: []
  key:
    description: Set by the action plugin; the public key to change over to.
    type: str
  folder:
    description: Where the host's keys are.
    type: path
    default: /etc/ssh
  service:
    description: The unit to reload; empty for none.
    type: str
    default: ssh.service
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Give the host a key of its own
  host_key:
  become: true
"""

RETURN = r"""
fingerprint:
  description: Of the key that the host has from now on.
  type: str
  returned: changed
"""

import os  # noqa: E402
import subprocess  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

KEY = "ssh_host_ed25519_key"
PENDING = KEY + ".firstlight"  # made, and not yet in use


class NoKey(Exception):
    """One line for people."""


def public_of(path):
    """The public key ("ssh-ed25519 AAAA...") of a private key's file, None when it is none."""
    if not path.exists():
        return None
    words = _run("ssh-keygen", "-y", "-P", "", "-f", str(path)).split()
    return " ".join(words[:2]) if len(words) >= 2 else None


def prepare(folder, bootstrap):
    """The public key that the host is going to have. It is made unless it was, and not in use yet."""
    current = public_of(folder / KEY)
    if current is not None and current not in bootstrap:
        return current  # stopped after it changed over
    pending = folder / PENDING
    made = public_of(pending)
    if made is None or made in bootstrap:
        for path in (pending, folder / (PENDING + ".pub")):
            if path.exists():
                path.unlink()
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(pending))
        made = public_of(pending)
    if made is None:
        raise NoKey("ssh-keygen made no key in %s" % folder)
    return made


def switch(folder, key, service):
    """Use this key from now on. Returns whether it was not in use."""
    path, pending = folder / KEY, folder / PENDING
    changed = public_of(path) != key
    if changed:
        if public_of(pending) != key:
            raise NoKey("%s is not the key that was prepared" % pending)
        pending.chmod(0o600)
        pending.rename(path)
    public = folder / (PENDING + ".pub")
    public.write_text(key + "\n")
    public.chmod(0o644)
    public.rename(folder / (KEY + ".pub"))
    handle = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(handle)  # a host that loses its power now comes back with the new key
    finally:
        os.close(handle)
    if service:
        command = ["systemctl", "try-reload-or-restart", service]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            said = " ".join(done.stdout.decode("utf-8", "replace").split())[:200]
            raise NoKey("%s could not be reloaded: %s" % (service, said))
    return changed


def _run(*words):
    """What it prints; "" when it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.decode("ascii", "replace") if done.returncode == 0 else ""


def main():
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["prepare", "switch"], "required": True},
            "bootstrap": {"type": "list", "elements": "str", "default": []},
            "key": {"type": "str", "no_log": False},
            "folder": {"type": "path", "default": "/etc/ssh"},
            "service": {"type": "str", "default": "ssh.service"},
        },
        required_if=[("step", "switch", ["key"])],
    )
    given = module.params
    folder = Path(given["folder"])
    try:
        if given["step"] == "prepare":
            key = prepare(folder, given["bootstrap"])
            module.exit_json(changed=False, key=key)
        module.exit_json(changed=switch(folder, given["key"], given["service"]), key=given["key"])
    except (NoKey, OSError) as error:
        module.fail_json(msg="host key: %s" % error)


if __name__ == "__main__":
    main()
