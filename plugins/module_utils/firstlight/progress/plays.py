"""What a display has to know of Ansible's plays and tasks, and of where it writes."""

from __future__ import annotations

import os
import sys
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleError

FREE = ("free", "host_pinned")


def has_a_screen() -> bool:
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or context.CLIARGS.get("step"):
        return False
    if any(os.environ.get(name) for name in ("CI", "NO_COLOR", "ANSIBLE_NOCOLOR")) or C.ANSIBLE_NOCOLOR:
        return False
    return os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "") and not C.config.get_config_value(
        "ENABLE_TASK_DEBUGGER"
    )


def hosts_of(play: Any) -> list[str]:
    """The play's hosts, within the limit; none where Ansible will say itself what is wrong."""
    try:
        inventory = play.get_variable_manager()._inventory
        return [host.get_name() for host in inventory.get_hosts(play.hosts, order=None)]
    except AnsibleError:
        return []


def is_rescued(task: Any) -> bool:
    """Whether a rescue stands ready for a task: not for those of the rescue itself, nor for what is done always."""
    child, parent = task, getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None):
            others = {getattr(one, "_uuid", None) for one in [*parent.rescue, *parent.always]}
            if child._uuid not in others:
                return True
        child, parent = parent, getattr(parent, "_parent", None)
    return False


def is_linear(play: Any) -> bool:
    """Whether all hosts are at one task at a time."""
    return str(play.strategy).removeprefix("ansible.builtin.") not in FREE
