"""Open or close a stage whose work is done on the hosts themselves (see plugins/modules/fleet_stage.py)."""

from __future__ import annotations

from typing import Any

from firstlight import cohort, rolefindings
from firstlight.checks import ALL_CHECKS
from firstlight.checks.engine import FINDINGS_MAX, bounded_values
from firstlight.errors import FirstlightError, InputError
from firstlight.findings import Finding
from firstlight.fleet_action import FleetAction
from firstlight.health.answers import Answer, held_over, read_answer, usable
from firstlight.health.bmcslots import Known, gpu_slots, placed
from firstlight.health.verdicts import STAGE as CHECKS_STAGE
from firstlight.ledger.readings import GPU_SLOTS, VALUES
from firstlight.plainvalue import plain
from firstlight.rolefindings import FACT
from firstlight.stages import admit

MAX_FINDINGS = len(ALL_CHECKS) * FINDINGS_MAX + rolefindings.OF_A_HOST_MAX  # of one host; a well one gives some dozens


class ActionModule(FleetAction):
    _VALID_ARGS = frozenset({"stage", "event", "findings_from", "parts", "begun_by"})

    def work(self) -> dict[str, Any]:
        stage, event = self._task.args["stage"], self._task.args["event"]
        whole, part = self._wanted(stage)
        if not (whole or part):
            return {"admitted": [], "earlier": {}, "msg": f"{stage}: not asked for (--tags)"}
        if event == "open":
            return self._open(stage, whole)
        if event != "close":
            raise InputError(f"fleet_stage: event {event!r} is neither open nor close")
        if not whole:
            return {"msg": f"{stage}: only a part ran (--tags, --skip-tags); nothing is recorded"}
        # Who did not enter has not passed either: a play may have been started in its middle (--start-at-task).
        begun = self.ledger.begun(stage, self.hosts)
        register = self._task.args.get("findings_from")
        earlier, seconds = self._begun_by(begun)
        findings = {name: [*earlier.get(name, []), *self._findings(name, stage, register)] for name in begun}
        if stage != CHECKS_STAGE:
            return {"msg": self.close_stage(stage, findings, seconds)}
        answers = {name: read_answer(self._told(name, register)) for name in begun}
        before = self.ledger.remembered(answers)
        slots = {name: self._gpu_slots(name, answer, before.get(name, {})) for name, answer in answers.items()}
        if not self.check:
            self._remember(answers, before, slots)
        odd = cohort.judge(self.ledger.values())
        for name, answer in answers.items():
            findings[name] += [*answer.findings, *(odd.get(name, []) if answer.values else [])]
            findings[name] = placed(findings[name], slots[name])
        keep = {name: held_over(answer.ran) for name, answer in answers.items()}
        return {"msg": self.close_stage(stage, findings, seconds, keep)}

    def _gpu_slots(self, name: str, answer: Answer, before: dict[str, Any]) -> Known:
        return gpu_slots(answer.serials, self.host_value(name, "bmc_record"), before.get(GPU_SLOTS))

    def _remember(self, answers: dict[str, Answer], before: dict[str, dict[str, Any]], slots: dict[str, Known]) -> None:
        """For each host's next run, for comparing hosts and finding parts; of checks that did not run values stay."""
        readings: dict[str, dict[str, Any]] = {}
        for name, answer in answers.items():
            known = bounded_values(before.get(name, {}).get(VALUES))
            stay = {check: known[check] for check in held_over(answer.ran) if check in known}
            readings[name] = {**answer.memory, **({VALUES: {**stay, **answer.values}} if answer.values else {})}
            if slots[name] and slots[name] != before.get(name, {}).get(GPU_SLOTS):
                readings[name][GPU_SLOTS] = slots[name]
        self.ledger.remember(readings)

    def _begun_by(self, names: list[str]) -> tuple[dict[str, list[Finding]], dict[str, float]]:
        """What the action that opened the stage itself has found of these hosts, and how long it took."""
        register = self._task.args.get("begun_by")
        hosts = self.host_value(self.hosts[0], register, {}).get("hosts", {}) if register and names else {}
        known = {name: hosts[name] for name in names if name in hosts}
        findings = {name: [Finding.from_dict(f) for f in host.get("findings", [])] for name, host in known.items()}
        return findings, {name: host["seconds"] for name, host in known.items() if "seconds" in host}

    def _open(self, stage: str, whole: bool) -> dict[str, Any]:
        admission = admit(self.ledger, stage, self.hosts)
        lost = [name for name in admission.admitted if not self.host_value(name, "ansible_host")]
        if lost and self.value("maas_error"):
            raise FirstlightError(f"the hosts' addresses are not known: {self.value('maas_error')}")
        if whole:
            self.open_stage(stage)
            if lost:
                keep = dict.fromkeys(lost, held_over()) if stage == CHECKS_STAGE else {}
                self.close_stage(stage, {name: [self._no_address(name, stage)] for name in lost}, {}, keep)
        admitted = [name for name in admission.admitted if name not in lost]
        known = self.ledger.remembered(admitted) if stage == CHECKS_STAGE else {}
        result = {
            "admitted": admitted,
            "left_out": {**admission.left_out, **dict.fromkeys(lost, "no address in MAAS")},
            "earlier": {name: usable(readings) for name, readings in known.items()},
        }
        return result if whole else {**result, "msg": f"{stage}: only a part runs (--tags, --skip-tags)"}

    def _no_address(self, name: str, stage: str) -> Finding:
        status = self.host_value(name, "maas_status") or "not there, or without the tag firstlight"
        if status == "broken":  # by people: we mark none
            said = "it is marked broken in MAAS; once repaired, mark it fixed there and run site.yml for it"
            return Finding(stage, "fail", "maas.broken", f"MAAS machine {name}", said, "escalate")
        said = f"it was installed once, but MAAS tells no address; in MAAS it is {status}"
        return Finding(stage, "fail", "maas.no_address", f"MAAS machine {name}", said, "retry")

    def _wanted(self, stage: str) -> tuple[bool, bool]:
        """Whether --tags and --skip-tags ask for the whole stage, and whether for a part of it at least."""
        parts = self._task.args.get("parts") or []

        def of_a_part(tags: list[str]) -> bool:
            return any(tag == part or tag.startswith(f"{part}_") for tag in tags for part in parts)

        run = list(self.variables["ansible_run_tags"])
        all_of_it = not {"all", "tagged", stage}.isdisjoint(run)
        return all_of_it and not of_a_part(list(self.variables["ansible_skip_tags"])), all_of_it or of_a_part(run)

    def _told(self, name: str, register: str | None) -> Any:
        """What a host answered, as plain values; None where that is nothing, or nested too deep to be an answer."""
        try:
            return plain(self.host_variables(name).get(register)) if register else None
        except RecursionError:
            return None

    def _findings(self, name: str, stage: str, register: str | None) -> list[Finding]:
        well = [Finding(stage, "ok", stage, evidence="every role read back what it did")]
        if register is None:  # every task of the stage went well: that is the finding
            return well
        if register == FACT:  # beside it, what roles found and did not fail for; there may be none
            found = plain(self.host_variables(name).get("ansible_facts", {}).get(FACT, []))
            if found == []:
                return well
        else:
            told = self._told(name, register)
            found, well = told.get("findings") if isinstance(told, dict) else None, []
        said = "the host told nothing: no finding is no proof of anything"
        if isinstance(found, list) and len(found) > MAX_FINDINGS:
            said = f"the host's answer is not believable: {len(found)} findings"
        elif found:
            try:
                return [*well, *(Finding.from_dict(f) for f in found)]
            except (TypeError, KeyError, ValueError) as error:
                said = f"the host's answer is not readable: {type(error).__name__}"
        return [Finding(stage, "unknown", f"{stage}.no_answer", evidence=said, action="retry")]
