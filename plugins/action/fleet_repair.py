"""The steps of playbooks/reprovision.yml that are not those of a stage (see plugins/modules/fleet_repair.py)."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible.errors import AnsibleError

from firstlight import repair
from firstlight.bmc.hardware import Record
from firstlight.checks import TIERS
from firstlight.errors import FirstlightError, InputError
from firstlight.findings import Finding, blocking
from firstlight.fleet_action import FleetAction
from firstlight.ledger import repairs
from firstlight.ledger.parts import parts_of
from firstlight.ledger.standing import IN_REPAIR, READY, STAGES
from firstlight.ledger.store import Ledger
from firstlight.ledger.tickets import tickets
from firstlight.maas.disks import OsDisk, os_disk_of
from firstlight.plainvalue import plain

EVENTS = ("check", "begin", "triage", "install", "end")


class ActionModule(FleetAction):
    REPORTS = False
    SPEC: ClassVar[dict[str, Any]] = {
        "event": {"type": "str", "choices": list(EVENTS), "required": True},
        "host": {"type": "str"},
        "confirm": {"type": "str", "default": ""},
        "reason": {"type": "str", "default": ""},
        "in_use": {"type": "bool", "default": False},
        "wipe_data": {"type": "bool", "default": False},
        "wipe_serials": {"type": "list", "elements": "str", "default": []},
        "reinstall": {"type": "bool", "default": False},
        "tier": {"type": "str", "choices": list(TIERS)},
    }
    _VALID_ARGS = frozenset(SPEC)

    def work(self) -> dict[str, Any]:
        try:
            self.options: dict[str, Any] = dict(self.validate_argument_spec(argument_spec=dict(self.SPEC))[1])
        except AnsibleError as error:
            raise InputError(f"reprovision: {error}") from None
        self.name = named(self, "reprovision", self.options["host"])
        return dict(getattr(self, f"_{self.options['event']}")())

    def open_ledger(self) -> Ledger:
        """Before anything is claimed one that nobody sees: what is asked is in the inventory."""
        return Ledger("sqlite://") if self._task.args.get("event") == "check" else super().open_ledger()

    def _plan(self) -> None:
        if self._task.args.get("event") != "check":
            super()._plan()

    # -- before anything is done ----------------------------------------------------------------------------------

    def _check(self) -> dict[str, Any]:
        """Refuse what is not meant."""
        name, state = self.name, self.host_value(self.name, "ledger_state", "planned")
        tag = self.host_value(name, "service_tag", "") or ""
        said = self.options["confirm"]
        if self.options["wipe_data"] and not self._disk().not_serials:
            raise InputError(
                f"reprovision: wipe_data: no serial number of a data drive of {name} is known, so none can be named; "
                f"nothing was done. Let its BMC tell them first (ansible-playbook playbooks/discover.yml -l {name}), "
                "or leave wipe_data away"
            )
        if self.check:
            return {"msg": f"{name} is {state}; it would wipe {self._loss()}"}
        if state == READY and not self.options["in_use"]:
            raise InputError(
                f"reprovision: {name} is ready, and may be in use; nothing was done. "
                "Take it out first (playbooks/quarantine.yml), or say -e in_use=true"
            )
        if not said or (tag and said != tag):
            typed = f"{said} is not its service tag" if said else "its service tag was not typed"
            raise InputError(
                f"reprovision: {name} ({state}): {typed}; nothing was done. It wipes {self._loss()}. "
                f"If that is meant: -e confirm={tag or 'SERVICETAG, as it is printed on the machine'}"
            )
        return {"msg": f"{name} is {state}"}

    def _disk(self) -> OsDisk:
        record = self.host_value(self.name, "bmc_record") or {}
        return os_disk_of(self.host_value(self.name, "profile"), record.get("hardware"))

    def _loss(self) -> str:
        """What a reprovision destroys, in words."""
        disk = self._disk()
        lost = f"its OS disk ({disk if disk.serials else 'its serial is not known yet'})"
        drives = ", ".join(self._to_wipe())
        return f"{lost} and its data drives ({drives})" if drives else f"{lost}; its data pool is kept"

    def _to_wipe(self) -> list[str]:
        """The serial numbers that were named when this run began and that the BMC still tells: no others are wiped."""
        now = list(self._disk().not_serials) if self.options["wipe_data"] else []
        begun = self.options["event"] in ("check", "begin")
        return now if begun else [serial for serial in now if serial in self.options["wipe_serials"]]

    # -- the repair -----------------------------------------------------------------------------------------------

    def _begin(self) -> dict[str, Any]:
        """The host is in repair from now on, and the ledger has why."""
        if self.ledger.states().get(self.name) == READY and not self.options["in_use"] and not self.check:
            raise FirstlightError(f"{self.name} has become ready meanwhile; nothing was done")
        self._put_into_repair(self.policy().reinstall_max_parallel)
        return {"wipe_serials": self._to_wipe()}

    def _put_into_repair(self, most: int | None = None) -> None:
        """most: hosts at once; FirstlightError where so many others are under way."""
        current, line = repairs.current(self.ledger, self.name), ""
        why = self.options["reason"] or "reprovision"
        # an installation that goes on is followed: a run that was killed is not to wipe twice
        if current is None or (self.options["reinstall"] and current.tried):
            line = f"{repairs.BEGUN}{why}; it wipes {self._loss()}"
        elif self.options["event"] == "begin":
            wipes = f"; it wipes its data drives ({', '.join(serials)})" if (serials := self._to_wipe()) else ""
            line = f"{repairs.GOES_ON}since {current.begun}, {_how_far(current)}{wipes}"
        if others := repairs.begin(self.ledger, self.name, why, line, most):
            many = "another host is" if len(others) == 1 else f"{len(others)} other hosts are"
            raise FirstlightError(
                f"{many} being reprovisioned ({', '.join(others[:8])}), and "
                f"reinstall_max_parallel of the policy is {most}; nothing was done"
            )
        if line:
            self.tell(f"{self.name}: {line}")

    def _deed(self, line: str) -> None:
        self.ledger.deed(self.name, line)
        self.tell(f"{self.name}: {line}")

    def _triage(self) -> dict[str, Any]:
        """What was repaired, and what that asks for; ``refused`` where it must not go on."""
        name = self.name
        if refused := self._not_passed("discover"):
            return {"refused": refused}
        record = Record.from_dict(self.host_value(name, "bmc_record"))
        tag = record.hardware.service_tag if record.hardware else ""
        if not tag:  # a planned one has stopped it in discover
            said = f"{name}: its BMC tells no service tag, so the one that was typed proves nothing; nothing was wiped"
            return {"refused": f"{said}. Have it restored first, as after a new board (docs/repair.md)"}
        if not self.check and tag != self.options["confirm"]:
            said = f"{name} is another server now: its BMC says service tag {tag}, not {self.options['confirm']}"
            return {"refused": f"{said}; nothing was wiped. If that is meant: -e confirm={tag}"}
        if self.ledger.states().get(name) != IN_REPAIR:  # the name has gone over to another server
            self._put_into_repair()
        rows = parts_of(self.ledger, name)
        since = repairs.smoke_passed_at(self.ledger, name)
        recent = [row for row in rows if row["at"] > since]
        for row in recent:
            change = repair.Change(row["kind"], row["locator"], row["removed"], row["installed"])
            self.tell(f"{name}: {change.line()}")
        now = repair.parts_of(record.hardware.to_dict() if record.hardware else None)
        orders = tickets(self.ledger, [name])
        missed = repair.not_replaced(orders, now, rows)
        repairs.note_findings(self.ledger, name, missed)
        for finding in missed:
            self.tell(f"{name}: warning: {finding.evidence}")
        to_wipe = self._to_wipe()
        if self.options["wipe_data"] and (new := sorted(set(self._disk().not_serials) - set(to_wipe))):
            self.tell(f"{name}: not wiped, since they were not named when this began: {', '.join(new)}")
        kinds = sorted({row["kind"] for row in recent})
        current = repairs.current(self.ledger, name)
        ordered = repair.ordered(orders, current.begun if current else "")
        said = f"tickets of {', '.join(ordered)}; " if ordered else ""
        level = self.options["tier"] or repair.burn_in_level([*kinds, *ordered])
        return {
            "refused": "",
            "parts": recent,
            "tier": level,
            "release_first": self._is_new(tag) and not (current and current.installing),
            "wipe_serials": to_wipe,
            "findings": [finding.to_dict() for finding in missed],
            "msg": f"{', '.join(kinds) or 'no part'} replaced; {said}checks: {level}",
        }

    def _is_new(self, tag: str) -> bool:
        """Whether another server stood here before: MAAS may have its installation."""
        before = self.host_value(self.name, "bmc_previous")
        hardware = Record.from_dict(before).hardware if before else None
        return bool(hardware and hardware.service_tag and tag and hardware.service_tag != tag)

    def _install(self) -> dict[str, Any]:
        """Whether the machine is to be given back first: once in a repair."""
        if refused := self._not_passed("enlist"):
            return {"refused": refused}
        current = repairs.current(self.ledger, self.name)
        if current is None or not current.installing:
            self.tell(f"{self.name}: {'would be' if self.check else 'is'} installed anew; it wipes {self._loss()}")
            return {"refused": "", "release": True, "msg": "to be installed anew"}
        if what := self._replaced_since(current.deployed):
            self._deed(f"{repairs.BEGUN}{what} since it was installed; it wipes {self._loss()}")
            return {"refused": "", "release": True, "msg": "to be installed anew"}
        how = _how_far(current)
        self.tell(f"{self.name}: {how}, in this repair; it goes on from there")
        return {"refused": "", "release": False, "msg": how}

    def _replaced_since(self, deployed: str) -> str:
        """What was replaced after that, without which an installation is worth nothing."""
        own = set(self._disk().serials)
        for row in parts_of(self.ledger, self.name):
            if row["at"] > deployed and row["kind"] == "drive" and row["installed"] in own:
                return f"the OS disk was replaced (serial {row['installed']})"
        return ""

    def _end(self) -> dict[str, Any]:
        """Ready again, where the smoke of this run says so."""
        name = self.name
        if self.check:
            return {"refused": "", "msg": "check mode: not run, and not readmitted"}
        if refused := next((said for stage in STAGES if (said := self._not_passed(stage))), ""):
            return {"refused": refused}
        (story,) = self.ledger.story([name])
        smoke = story["stages"]["smoke"]
        if smoke.get("run_id") != self.ledger.run_id:
            return {"refused": f"{name} did not go through smoke in this run; it stays {story['state']}"}
        try:
            self.ledger.readmit(name, "reprovisioned: passed smoke")
        except FirstlightError as error:
            return {"refused": str(error)}
        repairs.note_findings(self.ledger, name, [])
        self.tell(f"{name}: ready")
        return {"refused": "", "msg": "ready"}

    def _not_passed(self, stage: str) -> str:
        """Why the host does not go on from this stage, "" when it does."""
        if self.name in self.ledger.passed(stage, [self.name]):
            return ""
        (story,) = self.ledger.story([self.name])
        held = [Finding.from_dict(row) for row in story["findings"] if row["stage"] == stage]
        why = ", ".join(f"{f.symptom} {f.locator}".strip() for f in blocking(held)[:5])
        return f"{self.name} did not pass {stage}{f': {why}' if why else ''}; it stays {story['state']}"


def _how_far(current: repairs.Repair) -> str:
    if current.installed:
        return f"installed {current.installed}"
    if not current.deployed:
        return "not installed yet"
    return f"deployed {current.deployed}, {'which it did not pass' if current.tried else 'which goes on'}"


def named(action: FleetAction, what: str, host: str | None) -> str:
    """The one host of the fleet that is meant; InputError for anything else."""
    fleet = plain(list(action.variables["groups"].get("fleet", [])))
    if not host:
        raise InputError(f"{what}: no host was named; nothing was done. Name one: -e host=r1-n01")
    if host not in fleet:
        raise InputError(
            f"{what}: {host} is no host of the fleet; nothing was done. Name one host, no group or pattern"
        )
    if host not in action.run_hosts():
        raise InputError(f"{what}: -l leaves {host} out; nothing was done. Leave -l away, -e host={host} is enough")
    return host
