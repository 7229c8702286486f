"""Judge what the BMCs said against the profiles (see plugins/modules/fleet_discover.py)."""

from __future__ import annotations

from typing import Any

from firstlight.bmc.hardware import Record
from firstlight.bmc.triage import bmc_clock, judge_clocks, peers_of, triage, triage_fleet
from firstlight.clocks import Reading, judge_site
from firstlight.findings import Finding
from firstlight.fleet_action import FleetAction
from firstlight.profile import Profile
from firstlight.versions import load_versions


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        admitted = self.open_stage("discover").admitted
        fleet = [n for n in self.variables["groups"]["fleet"] if self.host_value(n, "bmc_record")]
        records = {name: Record.from_dict(self.host_value(name, "bmc_record")) for name in fleet}
        twins = triage_fleet(records)  # of the whole fleet: a twin may be outside the limit
        findings, seconds = {}, {}
        profiles = {name: Profile.from_dict(self.host_value(name, "profile")) for name in fleet}
        peers = {
            profile.name: peers_of(records, profile, [n for n in fleet if profiles[n].name == profile.name])
            for profile in {p.name: p for p in profiles.values()}.values()
        }
        exact = {name: self._exact_firmware(name) for name in peers}
        maas = self._maas_clock()
        site = self._site_clocks(maas, records)
        for name in admitted:
            record, profile = records[name], profiles[name]
            before = self.host_value(name, "bmc_previous")
            previous = Record.from_dict(before) if before else None
            known = triage(self.planned(name), record, profile, peers[profile.name], previous, exact[profile.name])
            findings[name] = judge_clocks(known, record, profile, maas) + site + twins.get(name, [])
            seconds[name] = record.seconds
            if record.hardware and record.hardware.service_tag and name not in twins:
                self.ledger.identify(name, record.hardware.service_tag)
        return {"msg": self.close_stage("discover", findings, seconds)}

    def _exact_firmware(self, profile: str) -> dict[str, str]:
        """As versions.yml has it; nothing where there is no such file, which validate tells."""
        path = self.versions_file()
        return load_versions(path).bmc_firmware(profile) if path.exists() else {}

    def _maas_clock(self) -> Reading | None:
        """As the inventory plugin maas has read it; None when MAAS was not asked."""
        seen = self.value("maas_clock")
        return Reading("MAAS's clock", float(seen["skew"]), float(seen["uncertainty"])) if seen else None

    def _site_clocks(self, maas: Reading | None, records: dict[str, Record]) -> list[Finding]:
        """The controller's clock or MAAS's is wrong: told once, and a warning of every host that it may have misled."""
        found = judge_site(maas, [r for r in map(bmc_clock, records.values()) if r is not None])
        for finding in found:
            self.tell(f"clocks: {finding.locator}: {finding.evidence}")
        return found
