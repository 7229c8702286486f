"""The process that drives one shard: ansible-playbook through ansible-runner, in the background."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_runner import Runner, RunnerConfig
from ansible_runner.exceptions import AnsibleRunnerException

from ..errors import FirstlightError
from ..ledger.store import now
from . import locks
from .events import Progress
from .noting import note_end
from .runs import FLEET_RUN, RUN_FILE, Shard, read_run

# All of the operator's environment that ansible-runner learns, and so writes down.
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ")
_SAVED_EVERY = 1.0  # s


class Driver:
    """A shard's way from its start to its end."""

    def __init__(self, shard: Shard, root: Path, together: str) -> None:
        self.shard, self.root, self.together = shard, root, together
        self.progress = Progress()
        self.number = int(shard.saved().get("tries", 0)) + 1
        self.started = now()
        self._saved = 0.0
        self._news = False
        self._stop = self._told = False
        self._before = dict(os.environ)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stopped)
        signal.signal(signal.SIGINT, self._stopped)
        (self.shard.folder / "ledger_run").unlink(missing_ok=True)
        self._save()
        rc: int | None = None
        why = ""
        try:
            _, rc = Runner(self._config(), event_handler=self._event, cancel_callback=self._goes_on).run()
        except (AnsibleRunnerException, OSError) as error:
            why = f"ansible-runner: {' '.join(str(error).split())}"
        stopped = self._stop and rc not in (0, 2)
        outcome = "stopped" if stopped else "done" if rc is not None else "died"
        how = "was stopped" if stopped else "was killed" if rc is None else f"ended with exit status {rc}"
        self._save()
        try:
            if note_end(self.shard, f"ansible-playbook {how}", asked=stopped) and not stopped:
                why = why or f"ansible-playbook {how}"
        except FirstlightError as error:
            why = why or str(error)
        self._save(outcome=outcome, rc=rc, ended=now(), why=why)

    def _config(self) -> RunnerConfig:
        about, shard = self.shard.run.about, self.shard
        more = [*(word for text in about["extra"] for word in ("-e", text)), *(["--check"] if about["check"] else [])]
        plugins = self._before.get("ANSIBLE_CALLBACK_PLUGINS") or str(self.root / "plugins" / "callback")
        for name in list(os.environ):
            if name not in PASSED:
                del os.environ[name]
        config = RunnerConfig(
            str(shard.folder),
            playbook=about["playbook"],
            inventory=about["inventory"],
            limit=",".join(shard.hosts),
            tags=about["tags"] or None,
            skip_tags=about["skip_tags"] or None,
            forks=about["forks"],
            cmdline=shlex.join(more) or None,
            project_dir=str(self.root),
            ident=str(self.number),
            envvars={
                "ANSIBLE_CONFIG": self._before.get("ANSIBLE_CONFIG") or str(self.root / "ansible.cfg"),
                # ansible-runner would say False, and put its own folder in the place of ansible.cfg's
                "ANSIBLE_HOST_KEY_CHECKING": self._before.get("ANSIBLE_HOST_KEY_CHECKING") or "True",
                "ANSIBLE_CALLBACK_PLUGINS": plugins,
                "ANSIBLE_NOCOLOR": "1",
                RUN_FILE: str(shard.folder / "ledger_run"),
                FLEET_RUN: self.together,
            },
            settings={"pexpect_timeout": 1},
            fact_cache_type="memory",
            suppress_ansible_output=True,
        )
        config.prepare()
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        config.command = [
            *(sys.executable, "-m", "firstlight.fleet.playbook", str(shard.playbook_lock), str(os.getpid())),
            *(program, *config.command[1:]),
        ]
        return config

    def _event(self, event: Mapping[str, Any]) -> bool:
        kept = self.progress.take(event)
        self._news = True
        self._save_news()
        return kept

    def _save_news(self) -> None:
        if self._news and time.monotonic() - self._saved > _SAVED_EVERY:
            self._save()

    def _save(self, **more: Any) -> None:
        self._saved, self._news = time.monotonic(), False
        self.shard.save(tries=self.number, started=self.started, **self.progress.as_dict(), **more)

    def _stopped(self, number: int, frame: Any) -> None:
        self._stop = True
        self._tell()

    def _goes_on(self) -> bool:
        """Asked by ansible-runner every second, also amid a task that takes hours; True would be SIGKILL."""
        self._save_news()  # else the last event before such a task would not be seen
        self._tell()
        return False

    def _tell(self) -> None:
        """Ctrl-C for ansible-playbook, once, as soon as it is there."""
        if self._stop and not self._told and (pid := locks.holder(self.shard.playbook_lock)):
            self._told = True
            os.killpg(pid, signal.SIGINT)


def main(folder: Path, name: str, root: Path, together: str) -> int:
    """together: by which the ledger knows the shards that are started with this one."""
    shard = Shard(read_run(folder), name)
    lock = locks.hold(shard.runner_lock)
    if lock is None:
        print(f"fleet: another process drives shard {name}", file=sys.stderr)
        return 1
    Driver(shard, root, together).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
