"""Give the machines of the play back to MAAS (see plugins/modules/fleet_release.py)."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from firstlight.bmc.control import Change
from firstlight.bmc_action import BmcAction
from firstlight.errors import InputError
from firstlight.findings import Finding
from firstlight.fleet_action import write_report
from firstlight.maas.release import ReleaseOptions, ReleaseResult, Releasing, release, release_options
from firstlight.maas.release_steps import ERASES
from firstlight.plainvalue import plain


class ActionModule(BmcAction):
    ABOUT = "release"
    CALLED = "fleet_release"
    SPEC: ClassVar[dict[str, Any]] = {
        "confirm": {"type": "bool", "default": False},
        "all": {"type": "bool", "default": False},
        "erase": {"type": "str", "choices": list(ERASES)},
    }

    def work(self) -> dict[str, Any]:
        self.options = self._arguments()
        options = release_options(self.value, erase=self.options["erase"], check=self.check)
        self._refuse_all()
        client = self.maas_client()
        machines = client.machines()
        hosts = self._releasing()
        if not self.check and not self.options["confirm"]:
            self._ask(release(client, hosts, release_options(self.value, check=True), machines), options)
        own_run, outcome = self._start_run(), "stopped"
        try:
            results = release(client, hosts, options, machines, on_progress=self.tell, on_deed=self._deed)
            outcome = "done"
            if not self.check:
                for name, result in results.items():
                    if result.ready and not result.deeds:  # it was given back before, or by an earlier run
                        self.ledger.undo(name, "install", f"it is {result.after} in MAAS")
        finally:
            if own_run is not None:
                self.ledger.end_run(own_run, outcome)
        if not self.check:
            write_report(self.ledger, self.variables, self.run_hosts(), check=False)
        told = self._told({name: _change(result) for name, result in results.items()})
        deeds = [{"prepared": f"{deed}\n"} for result in results.values() for deed in result.deeds]
        return told | {"diff": told["diff"] + deeds}

    def _refuse_all(self) -> None:
        """The whole fleet is never hit because -l was forgotten."""
        fleet = plain(list(self.variables["groups"]["fleet"]))
        limited = self.variables.get("ansible_limit")
        if self.check or self.options["all"] or limited or len(fleet) < 2 or set(self.hosts) != set(fleet):
            return
        raise InputError(
            f"fleet_release: that is the whole fleet, {len(fleet)} hosts, and no -l was given; nothing was done. "
            "Name a host or a rack (-l r1-n01, -l rack_r1), or say all: true (in the playbook: -e release_all=true)"
        )

    def _ask(self, results: dict[str, ReleaseResult], options: ReleaseOptions) -> None:
        """Name what would be hit, with what MAAS says of it."""
        hit = [f"{name} ({result.before})" for name, result in results.items() if result.changed]
        if hit:
            erased = "" if options.erase == "none" else f" and {options.erase} erase of its disks"
            raise InputError(
                f"fleet_release: release ends what runs{erased} on {len(hit)} hosts: {self._named(hit)}; "
                "nothing was done. Say confirm: true (in the playbook: -e confirm=true) if that is meant"
            )

    def _releasing(self) -> list[Releasing]:
        # of the whole fleet: a MAC that several hosts have tells none of them apart
        macs = {name: self._macs(name) for name in plain(list(self.variables["groups"]["fleet"]))}
        owners = Counter(mac for of_host in macs.values() for mac in of_host)
        return [
            Releasing(
                name,
                tuple(mac for mac in macs.get(name, []) if owners[mac] == 1),
                str(self.host_value(name, "service_tag", "") or ""),
            )
            for name in self.hosts
        ]

    def _macs(self, name: str) -> list[str]:
        hardware = (self.host_value(name, "bmc_record") or {}).get("hardware") or {}
        macs = [str(nic["mac"]).lower() for nic in hardware.get("nics") or [] if nic.get("mac")]
        return list(dict.fromkeys([*macs, *filter(None, [self.host_value(name, "pxe_mac", "")])]))

    def _deed(self, name: str, line: str) -> None:
        """Called right before: the ledger knows, nothing relies on what was installed, its host key is forgotten."""
        self.ledger.deed(name, line)
        self.ledger.undo(name, "install", line)
        self.tell(f"{name}: {line}")
        if self.host_value(name, "known_hosts_file"):
            self.known_hosts(name).forget(name)


def _change(result: ReleaseResult) -> Change:
    findings = tuple(result.findings) or (
        Finding("release", "ok", "release", evidence=f"{result.before} -> {result.after}"),
    )
    return Change(result.changed, result.before, result.after, findings)
