"""Make MAAS hold exactly the machines of the play (see plugins/modules/fleet_enlist.py)."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from firstlight.bmc.boot import ensure_pxe_first
from firstlight.bmc.control import many
from firstlight.bmc.errors import BmcError
from firstlight.errors import FirstlightError
from firstlight.findings import Finding, blocking
from firstlight.fleet_action import FleetAction
from firstlight.maas.client import MaasClient
from firstlight.maas.desired import PROFILE, RACK, describe, site_tag
from firstlight.maas.enlist import Desired, EnlistOptions, delete, enlist, enlist_options
from firstlight.maas.machines import Machine, label, status_name
from firstlight.maas.retired import Known, retired, shown, to_delete
from firstlight.plainvalue import plain

NAMED = 20  # retired machines that are named on the screen


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        options = enlist_options(self.value)
        # also hosts outside the limit own their machines, and their MACs
        self.fleet: list[str] = plain(list(self.variables["groups"]["fleet"]))
        self.macs = {name: self._macs(name) for name in self.fleet}
        self.owners = Counter(mac for macs in self.macs.values() for mac in macs)
        self.site_tag = site_tag(str(self.value("site", "") or ""))
        admitted = self.open_stage("enlist").admitted
        if not admitted and not options.delete_retired:
            return {"msg": self.close_stage("enlist", {}, {}), "retired": [], "deleted": []}
        client = self.maas_client()
        machines, gone, deleted, diffs = self._retire(client, options)
        results = enlist(
            client,
            [self._desired(name) for name in admitted],
            check=self.check,
            on_progress=self.tell,
            fleet_names=self.fleet,
            machines=machines,
            adopt_deployed=options.adopt_deployed,
        )
        findings = {name: list(results[name].findings) for name in admitted}
        diffs += [{"prepared": f"{n} in MAAS: {results[n].diff}\n"} for n in admitted if results[n].diff]
        changed = bool(deleted) or any(results[name].changed for name in admitted)
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
        return {
            "changed": changed,
            "diff": diffs,
            "msg": self.close_stage("enlist", findings, {}),
            "retired": [shown(machine) for machine in gone],
            "deleted": deleted,
        }

    # -- machines of hosts that are in the fleet no more -----------------------------------------------------------

    def _retire(
        self, client: MaasClient, options: EnlistOptions
    ) -> tuple[list[Machine], list[Machine], list[str], list[dict[str, str]]]:
        """MAAS's machines without those that were deleted, the retired ones left, the deleted ones, and the diff."""
        machines = client.machines()
        gone = retired(machines, self.site_tag, self.fleet, self._known)
        doomed = to_delete(options.delete_retired, machines, gone, lambda: list(self.owners))
        ids = {machine["system_id"] for machine in doomed}
        left = [machine for machine in gone if machine["system_id"] not in ids]
        if left:
            named = ", ".join(f"{label(machine)} {status_name(machine)}" for machine in left[:NAMED])
            more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
            self.tell(
                f"enlist: {len(left)} retired, in MAAS with our tag, in the fleet no more: {named}{more}; "
                "enlist_delete_retired: [NAME, ...] deletes those that it names"
            )
        deleted = [label(machine) for machine in doomed]
        if not self.check:
            failed = [f"{who}: {error}" for who, error in delete(client, doomed, self._deed) if error]
            if failed:
                raise FirstlightError(f"enlist_delete_retired: {'; '.join(failed)}")
        for who in deleted:
            self.tell(f"enlist: {'would delete' if self.check else 'deleted'} {who} from MAAS")
        diffs = [{"prepared": f"- {who} in MAAS, deleted\n"} for who in deleted]
        return [machine for machine in machines if machine["system_id"] not in ids], left, deleted, diffs

    def _deed(self, name: str, line: str) -> None:
        self.ledger.deed(name, line)

    def _known(self) -> Known:
        tags = [self.host_value(name, "service_tag", "") for name in self.fleet]
        tags += [self.planned(name).service_tag for name in self.fleet]
        return Known(frozenset(self.owners), frozenset(str(tag) for tag in tags if tag))

    # -- machines of hosts -----------------------------------------------------------------------------------------

    def _nics(self, name: str) -> list[dict[str, Any]]:
        hardware = (self.host_value(name, "bmc_record") or {}).get("hardware") or {}
        return [nic for nic in hardware.get("nics") or [] if nic.get("mac")]

    def _macs(self, name: str) -> list[str]:
        """MACs of the host's Ethernet ports, and of the one that installs."""
        macs = [str(nic["mac"]).lower() for nic in self._nics(name) if nic.get("kind") == "ethernet"]
        return list(dict.fromkeys([*macs, *filter(None, [self.host_value(name, "pxe_mac", "")])]))

    def _desired(self, name: str) -> Desired:
        planned = self.planned(name)
        tag = self.host_value(name, "service_tag", "") or ""
        return Desired(
            name=name,
            # a MAC that several hosts have, such as of the BMC's USB NIC, tells nobody apart
            macs=tuple(mac for mac in self.macs[name] if self.owners[mac] == 1),
            pxe_mac=self.host_value(name, "pxe_mac", ""),
            bmc_address=planned.bmc_address,
            bmc_port=planned.bmc_port,
            bmc_username=self.host_secret(name, "bmc_username"),
            bmc_password=self.host_secret(name, "bmc_password"),
            architecture=self.host_value(name, "maas_architecture", "amd64/generic"),
            pool=self.host_value(name, "maas_want_pool"),
            zone=self.host_value(name, "maas_want_zone"),
            tags=(
                *filter(None, [self.site_tag]),
                f"{PROFILE}{planned.profile}",
                f"{RACK}{planned.rack}",
            ),
            description=describe(planned.rack, planned.unit, tag),
            service_tag=tag,
            hardware_macs=tuple(str(nic["mac"]) for nic in self._nics(name)),
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
