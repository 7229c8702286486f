"""Ansible's workers end with the run that forked them.

Since ansible-core 2.19 a worker is a session of its own, so that neither a signal to the run's process group nor the
loss of its terminal reaches it. One in the middle of a wave would go on installing when the run was killed and its
claim on the hosts is given back already, beside the next run.
"""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2), Linux


def end_with_this_process() -> None:
    """From now on whatever this process forks, and what that forks, is killed when its parent is gone.

    Nothing on a system without prctl. The helpers that a worker executes (ssh) end by themselves, at the latest when
    their command does.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return
    parents = [os.getpid()]

    def before() -> None:
        parents[0] = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parents[0]:  # it was gone before
            os.kill(os.getpid(), signal.SIGKILL)

    os.register_at_fork(before=before, after_in_child=in_child)
