"""What the bmc_* action plugins share: one thing done with the BMCs of all hosts of a play, each with its own result.

A BMC that cannot is that host's finding: the task itself fails only for wrong input. What was done and not done is in
the result by host; deeds are written to the ledger right before they are done.
"""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ansible.errors import AnsibleError

from .bmc.client import BmcClient
from .bmc.control import Change, Say, many
from .bmc.errors import BmcError, Refused
from .errors import InputError
from .findings import Finding, blocking
from .fleet_action import FleetAction, ledger_of
from .ledger.claim import claims_of
from .ledger.store import Ledger

# what to do about a BMC that did not do it
_ACTIONS = {
    "unreachable": "reseat",
    "tls_failed": "escalate",
    "auth_failed": "escalate",
    "blocked": "wait",
    "busy": "retry",
    "not_ready": "wait",
}
NAMED = 20  # hosts that a refusal names
MARGIN_SECONDS = 60.0  # for what comes before and after a wait


class BmcAction(FleetAction):
    """Base of the bmc_* actions. A subclass has ``ABOUT``, ``SPEC``, and implements ``function``."""

    REPORTS = False
    CLAIMS = True  # nobody else may work on the hosts meanwhile
    ABOUT = ""  # the check of its findings, and what its lines begin with
    CALLED = ""  # the action's own name, bmc_ABOUT unless said
    SPEC: ClassVar[dict[str, Any]] = {}  # an argument_spec

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        """From (host, note, say) to what is done with that host's BMC; self.options has the arguments."""
        raise NotImplementedError

    def destroys(self) -> str:
        """In words what the hosts lose by this, "" when nothing that needs a confirmation."""
        return ""

    def seconds(self) -> float:
        """How long one host may take, besides logging in and out."""
        return 0.0

    def work(self) -> dict[str, Any]:
        self.options = self._arguments()
        make = self.function()
        self._confirm()
        own_run = self._start_run()
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        works = {name: make(name, self._noter(name, lines), _speaker(name, lines)) for name in self.hosts}
        outcome = "stopped"
        try:
            results = many(
                [self.bmc_target(name) for name in self.hosts],
                lambda client: works[client.name](client),
                ca_file=self.needed("bmc_ca_file", "name it as ca_file: in the inventory's *.redfish_bmc.yml"),
                deadline=self.seconds() + MARGIN_SECONDS,
                lines=lines,
                tell=self.tell,
            )
            outcome = "done"
        finally:
            if own_run is not None:
                self.ledger.end_run(own_run, outcome)
        return self._told({name: self._change(results[name]) for name in self.hosts})

    def _start_run(self) -> int | None:
        """Claim the hosts and note a run, unless the run of a stage has; its number where it is ours to end."""
        if self.check or self.ledger.run_id:
            return None
        if self.CLAIMS and (claims := claims_of(ledger_of(self.variables))):
            claims.take(self.hosts)
            self._claims = claims  # kept until this process ends, and with it the task
        return self.ledger.start_run(self._called())

    def _called(self) -> str:
        return self.CALLED or f"bmc_{self.ABOUT}"

    def open_ledger(self) -> Ledger:
        """In check mode one that nobody sees: nothing is noted."""
        return Ledger("sqlite://") if self.check else super().open_ledger()

    def _plan(self) -> None:
        if not self.check:
            super()._plan()

    def _arguments(self) -> dict[str, Any]:
        try:
            return dict(self.validate_argument_spec(argument_spec=dict(self.SPEC))[1])
        except AnsibleError as error:
            raise InputError(f"{self._called()}: {error}") from None

    def _confirm(self) -> None:
        loss = self.destroys()
        if not loss or self.check or self.options.get("confirm"):
            return
        states = self.ledger.states()
        hit = self._named([f"{name} ({states.get(name, 'unknown')})" for name in self.hosts])
        raise InputError(
            f"{self._called()}: {loss} on {len(self.hosts)} hosts: {hit}; "
            "nothing was done. Say confirm: true (in the playbook: -e confirm=true) if that is meant"
        )

    @staticmethod
    def _named(hosts: list[str]) -> str:
        more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
        return ", ".join(hosts[:NAMED]) + more

    def _noter(self, name: str, lines: queue.SimpleQueue[str]) -> Say:
        def note(what: str) -> None:
            lines.put(f"{name}: {what}")
            try:
                self.ledger.deed(name, what)
            except Exception as error:  # whatever it is: a deed that is not written down is not done
                raise Refused(f"not done, since the ledger could not note it: {type(error).__name__}") from None

        return note

    def _change(self, result: Change | BmcError) -> Change:
        if isinstance(result, Change):
            known = result.findings or (Finding(self.ABOUT, "ok", self.ABOUT, evidence=f"{result.after}"),)
            return Change(result.changed, result.before, result.after, known)
        symptom = f"{self.ABOUT}.refused" if isinstance(result, Refused) else f"bmc.{result.condition}"
        action = "escalate" if isinstance(result, Refused) else _ACTIONS.get(result.condition, "reset_bmc")
        return Change(False, None, None, (Finding(self.ABOUT, "fail", symptom, "BMC", result.evidence, action),))

    def _told(self, changes: Mapping[str, Change]) -> dict[str, Any]:
        failed = {name: blocking(change.findings) for name, change in changes.items() if blocking(change.findings)}
        changed = [name for name, change in changes.items() if change.changed]
        counts = Counter(found[0].symptom for found in failed.values())
        as_wanted = sum(not change.changed and name not in failed for name, change in changes.items())
        done = f"{len(changed)} {'would change' if self.check else 'changed'}, {as_wanted} as wanted already"
        symptoms = ", ".join(f"{count} {symptom}" for symptom, count in counts.most_common())
        line = f"{self.ABOUT}: {done}" + (f"; {len(failed)} not done: {symptoms}" if failed else "")
        self.tell(line)
        return {
            "changed": bool(changed),
            "msg": line,
            "hosts": {
                name: {
                    "changed": change.changed,
                    "before": change.before,
                    "after": change.after,
                    "findings": [finding.to_dict() for finding in change.findings],
                }
                for name, change in changes.items()
            },
            "failed_hosts": {
                name: f"{found[0].symptom} {found[0].locator}: {found[0].evidence}" for name, found in failed.items()
            },
            "diff": [self._diff(name, changes[name]) for name in changed],
        }

    def _diff(self, name: str, change: Change) -> dict[str, str]:
        header = f"{name}: {self.ABOUT}"
        return {
            "before_header": header,
            "after_header": header,
            "before": _text(change.before),
            "after": _text(change.after),
        }


def seconds_spec(default: float) -> dict[str, Any]:
    """An option that is a number of seconds."""
    return {"type": "float", "default": default}


def _speaker(name: str, lines: queue.SimpleQueue[str]) -> Say:
    return lambda line: lines.put(f"{name}: {line}")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"{key}: {part}\n" for key, part in sorted(value.items()))
    parts = value if isinstance(value, list | tuple) else [value]
    return "".join(f"{part}\n" for part in parts if part is not None)
