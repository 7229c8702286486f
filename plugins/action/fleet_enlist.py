"""Make MAAS hold exactly the machines of the play (see plugins/modules/fleet_enlist.py)."""

from __future__ import annotations

import functools
from typing import Any

from firstlight.bmc.boot import ensure_pxe_first
from firstlight.bmc.control import many
from firstlight.bmc.errors import BmcError
from firstlight.bmc.hardware import Record
from firstlight.findings import Finding, blocking
from firstlight.fleet_action import FleetAction, plain
from firstlight.maas.enlist import Desired, enlist


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        admitted = self.open_stage("enlist").admitted
        if not admitted:
            return {"msg": self.close_stage("enlist", {}, {})}
        desired = [self._desired(name) for name in admitted]
        fleet = plain(list(self.variables["groups"]["fleet"]))  # also hosts outside the limit own their machines
        results = enlist(self.maas_client(), desired, check=self.check, on_progress=self.tell, fleet_names=fleet)
        findings = {name: list(results[name].findings) for name in admitted}
        diffs = [{"prepared": f"{n} in MAAS: {results[n].diff}\n"} for n in admitted if results[n].diff]
        changed = any(results[name].changed for name in admitted)
        for name, change in self._boot_order([n for n in admitted if not blocking(findings[n])]).items():
            if isinstance(change, Finding):
                findings[name].append(change)
                continue
            findings[name].append(Finding("boot_order", "ok", "boot_order", evidence=", ".join(change.after)))
            if change.changed:
                changed = True
                header = f"{name}: boot order"
                before, after = ("".join(f"{entry}\n" for entry in order) for order in (change.before, change.after))
                diffs.append({"before_header": header, "after_header": header, "before": before, "after": after})
        for name in admitted:
            if not blocking(findings[name]):
                findings[name].append(Finding("enlist", "ok", "enlist", evidence=f"MAAS {results[name].system_id}"))
        return {"changed": changed, "diff": diffs, "msg": self.close_stage("enlist", findings, {})}

    def _desired(self, name: str) -> Desired:
        planned, record = self.planned(name), Record.from_dict(self.host_value(name, "bmc_record"))
        macs = [n.mac for n in record.hardware.nics if n.mac and n.kind == "ethernet"] if record.hardware else []
        tag = self.host_value(name, "service_tag", "")
        return Desired(
            name=name,
            macs=tuple(macs),
            pxe_mac=self.host_value(name, "pxe_mac", ""),
            bmc_address=planned.bmc_address,
            bmc_port=planned.bmc_port,
            bmc_username=self.host_secret(name, "bmc_username"),
            bmc_password=self.host_secret(name, "bmc_password"),
            architecture=self.host_value(name, "maas_architecture", "amd64/generic"),
            pool=self.host_value(name, "maas_want_pool"),
            zone=self.host_value(name, "maas_want_zone"),
            tags=(f"profile-{planned.profile}", f"rack-{planned.rack}"),
            description=f"rack {planned.rack} unit {planned.unit}, service tag {tag}",
        )

    def _boot_order(self, names: list[str]) -> dict[str, Any]:
        """Put the PXE port first in each host's boot order: a change by name, or the finding why not."""
        by_nic: dict[str, list[str]] = {}
        for name in names:
            by_nic.setdefault(self.host_value(name, "profile")["ethernet"]["pxe"], []).append(name)
        changes: dict[str, Any] = {}
        for nic, hosts in by_nic.items():
            work = functools.partial(ensure_pxe_first, nic_fqdd=nic, check=self.check)
            outcomes = many([self.bmc_target(n) for n in hosts], work, ca_file=self.value("bmc_ca_file"))
            for name, outcome in outcomes.items():
                changes[name] = outcome
                if isinstance(outcome, BmcError):
                    symptom = f"bmc.{outcome.condition}"
                    changes[name] = Finding("boot_order", "fail", symptom, nic, outcome.evidence, "retry")
        return changes
