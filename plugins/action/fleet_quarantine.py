"""Take hosts out of use, and back in, by hand (see plugins/modules/fleet_quarantine.py)."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible.errors import AnsibleError

from firstlight.errors import InputError
from firstlight.fleet_action import FleetAction, ledger_of, write_report
from firstlight.ledger import repairs
from firstlight.ledger.store import Ledger, ledger_file
from firstlight.plainvalue import plain

NAMED = 20  # hosts that a refusal names


class ActionModule(FleetAction):
    REPORTS = False
    SPEC: ClassVar[dict[str, Any]] = {
        "event": {"type": "str", "choices": ["hold", "readmit"], "required": True},
        "host": {"type": "str"},
        "reason": {"type": "str", "default": ""},
        "confirm": {"type": "bool", "default": False},
    }
    _VALID_ARGS = frozenset(SPEC)

    def work(self) -> dict[str, Any]:
        done = self._hold() if self.options["event"] == "hold" else self._readmit()
        if not self.check:
            write_report(self.ledger, self.variables, self.run_hosts(), check=False)
            self.mirror_states(self.targets)
        return {"changed": True, "hosts": self.targets, "msg": done}

    def open_ledger(self) -> Ledger:
        """Who is meant is settled before anything is opened, and in check mode nothing is made."""
        try:
            self.options: dict[str, Any] = dict(self.validate_argument_spec(argument_spec=dict(self.SPEC))[1])
        except AnsibleError as error:
            raise InputError(f"{self._what()}: {error}") from None
        self.targets = self._targets()
        if not self.check:
            return super().open_ledger()
        url = ledger_of(self.variables)
        file = ledger_file(url)
        return Ledger("sqlite://") if file and not file.exists() else Ledger(url, create=False)

    def _plan(self) -> None:
        if not self.check:
            self.ledger.plan(self.value("site", "") or "", [self.planned(name) for name in self.targets])

    def _what(self) -> str:
        return "readmit" if self._task.args.get("event") == "readmit" else "quarantine"

    def _targets(self) -> list[str]:
        """The hosts that are meant; InputError where that is not sure."""
        what, host = self._what(), self.options["host"]
        fleet = plain(list(self.variables["groups"].get("fleet", [])))
        if host:
            if host not in fleet:
                raise InputError(
                    f"{what}: {host} is no host of the fleet; nothing was done. Several hosts are said by -l"
                )
            if host not in self.hosts:
                raise InputError(f"{what}: -l leaves {host} out; nothing was done. Leave -l away")
            return [host]
        if what == "readmit" or not self.variables.get("ansible_limit"):
            raise InputError(f"{what}: no host was named; nothing was done. Name one: -e host=r1-n01")
        if len(self.hosts) > 1 and not self.options["confirm"]:
            more = f" and {len(self.hosts) - NAMED} more" if len(self.hosts) > NAMED else ""
            raise InputError(
                f"{what}: that takes {len(self.hosts)} hosts out of use: {', '.join(self.hosts[:NAMED])}{more}; "
                "nothing was done. Say -e confirm=true if that is meant"
            )
        return self.hosts

    def _hold(self) -> str:
        reason = " ".join(self.options["reason"].split())
        if not reason:
            raise InputError(
                "quarantine: no reason was given; nothing was done. Give one: -e 'reason=\"fan 3 is loud\"'"
            )
        for name in self.targets:
            before = self.host_value(name, "ledger_state", "planned")
            self.tell(f"{name}: {before}, {'would be' if self.check else 'now'} quarantined: {reason}")
            if not self.check:
                self.ledger.hold(name, reason)
        return f"{len(self.targets)} hosts held: {reason}"

    def _readmit(self) -> str:
        (name,) = self.targets
        if self.check:
            self.tell(f"{name}: would be readmitted, if it passed every stage at its last try")
            return "check mode"
        reason = " ".join(self.options["reason"].split())
        self.ledger.readmit(name, reason or "readmitted by hand")
        repairs.note_findings(self.ledger, name, [])
        self.tell(f"{name}: ready")
        return f"{name} is ready"
