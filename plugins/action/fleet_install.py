"""Install the machines of the play in waves (see plugins/modules/fleet_install.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstlight.clocks import LIMIT_SECONDS
from firstlight.findings import Finding, blocking
from firstlight.fleet_action import FleetAction
from firstlight.ledger.parts import replaced_since_installed
from firstlight.maas.client import MaasClient
from firstlight.maas.commissioning import commissioned, disks_before, ensure_script
from firstlight.maas.disks import choose_os_disk, os_disk_of
from firstlight.maas.images import COMPONENT, UNAME, Pin, find_images, pin_of
from firstlight.maas.install import Commissioned, InstallResult, Progress, Wanted, install
from firstlight.maas.machines import DEPLOYED, DEPLOYING, Machine, disks_of, macs_of, status_of, text_of
from firstlight.maas.options import install_options, ssh_minutes
from firstlight.maas.power import RedfishPower, power_settings
from firstlight.maas.userdata import per_host, user_data_settings
from firstlight.maas.wait import wait_for_ssh
from firstlight.profile import Profile
from firstlight.versions import ANY, load_versions

SSH_MINUTES_INSTALLED = 0.5  # a host that was not touched answers at once or not at all


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        options = install_options(self.value, check=self.check)
        settings = user_data_settings(self.value)
        admitted = self.open_stage("install").admitted
        if not admitted:
            return {"addresses": {}, "hosts": {}, "msg": self.close_stage("install", {}, {})}
        client = self.maas_client()
        resumed = self.ledger.installing(admitted)
        wanted, findings = self._wanted(client, admitted)
        user_data = per_host(settings, {w.name: self.known_hosts(w.name) for w in wanted})
        results = (
            install(
                client,
                wanted,
                options,
                on_progress=self._progress,
                on_deed=self._deed,
                user_data=user_data,
                before_commission=ensure_script,
                commissioned=self._commissioned(wanted),
                power=self._power(options.power, wanted),
            )
            if wanted
            else {}
        )
        findings |= {name: list(result.findings) for name, result in results.items()}
        installed = {n: r for n, r in results.items() if r.status == "deployed" and not blocking(findings[n])}
        if self.check:
            waiting = [n for n in admitted if n not in installed and not findings.get(n)]
            self.ledger.withdraw("install", waiting)
            findings = {n: f for n, f in findings.items() if n not in waiting}  # not installed yet: nothing to judge
        else:
            self._wait(installed, findings)
        addresses = {n: r.address for n, r in installed.items() if r.address and not blocking(findings[n])}
        for name, address in addresses.items():
            findings[name].append(Finding("install", "ok", "install", evidence=f"deployed, SSH at {address}"))
        for name in set(installed) - set(addresses):
            if not blocking(findings[name]):
                said = "MAAS says Deployed and tells no address in maas_subnets"
                findings[name].append(
                    Finding("install", "fail", "install.no_address", evidence=said, action="escalate")
                )
        seconds = {name: result.seconds for name, result in results.items()}
        hosts = {w.name: self._host(client, w, results[w.name], resumed) for w in wanted if w.name in addresses}
        for name, host in hosts.items():
            host.update(findings=[finding.to_dict() for finding in findings.pop(name)], seconds=seconds[name])
        return {
            "changed": any(result.changed for result in results.values()),
            "addresses": addresses,
            "hosts": hosts,
            "diff": [{"prepared": f"{n}: {deed}\n"} for n, result in results.items() for deed in result.deeds],
            # The others stay in the stage: what they are is proven on the hosts, then fleet_stage closes it.
            "msg": self.close_stage("install", findings, seconds) if findings else f"install: {len(hosts)} to prove",
        }

    def _commissioned(self, wanted: list[Wanted]) -> Callable[[MaasClient, Wanted, Machine], Commissioned | None]:
        """What the engine calls in its threads, where no variable of a host can be read."""
        limits = {w.name: self._clock_limit(w.name) for w in wanted}
        skews = {w.name: self.host_value(w.name, "bmc_record")["hardware"] or {} for w in wanted}

        def read(client: MaasClient, host: Wanted, machine: Machine) -> Commissioned | None:
            skew = skews[host.name].get("bmc_clock_skew_seconds")
            return commissioned(client, host, machine, limits[host.name], skew)

        return read

    def _clock_limit(self, name: str) -> float:
        return Profile.from_dict(self.host_value(name, "profile")).limit("clock_skew_seconds", LIMIT_SECONDS)

    def _host(self, client: MaasClient, wanted: Wanted, result: InstallResult, resumed: set[str]) -> dict[str, Any]:
        """What is to be proven of an installed host.

        One whose installation was begun by a run that was stopped is as fresh as one of this run.
        """
        fresh = result.changed or wanted.name in resumed
        disk, before = result.os_disk, result.disks_before
        if not disk:
            found = choose_os_disk(disks_of(self._machines[wanted.name]) or [], wanted.os_disk, wanted.name)
            disk = {} if isinstance(found, Finding) else {k: found.get(k) for k in ("serial", "model", "size", "name")}
        if fresh and not before:
            before = disks_before(client, wanted.system_id)
        maas = client.clock
        return {
            "address": result.address,
            "os_disk": disk,
            "disks_before": before,
            "fresh": fresh,
            "clock": {"maas_skew": maas.skew, "maas_uncertainty": maas.uncertainty} if maas else {},
            "clock_limit": self._clock_limit(wanted.name),
            "image": self._images[wanted.name],
        }

    def _wanted(self, client: MaasClient, names: list[str]) -> tuple[list[Wanted], dict[str, list[Finding]]]:
        by_mac = {mac: machine for machine in client.machines() for mac in macs_of(machine)}
        self._machines = {name: by_mac.get(self.host_value(name, "pxe_mac", "")) or {} for name in names}
        wanted: list[Wanted] = []
        findings: dict[str, list[Finding]] = {}
        other_drives = replaced_since_installed(self.ledger, names, "drive")
        pins = self._pins(names, {n: by_mac.get(self.host_value(n, "pxe_mac", "")) for n in names}, client)
        for name in names:
            machine = by_mac.get(self.host_value(name, "pxe_mac", ""))
            if machine is not None or self.check:  # in check mode nothing was enlisted
                planned = self.planned(name)
                disk = os_disk_of(self.host_value(name, "profile"), self.host_value(name, "bmc_record")["hardware"])
                system_id = machine["system_id"] if machine else ""
                pin = pins[name]
                wanted.append(
                    Wanted(
                        name,
                        system_id,
                        disk,
                        planned.bmc_address,
                        planned.rack,
                        pin.series,
                        pin.hwe_kernel,
                        name in other_drives,
                    )
                )
            else:
                said = "MAAS has no machine with this host's MAC any more; enlist again"
                findings[name] = [Finding("install", "fail", "maas.not_enlisted", name, said, "retry")]
        return wanted, findings

    def _pins(self, names: list[str], machines: dict[str, Machine | None], client: MaasClient) -> dict[str, Pin]:
        """What each host gets; InputError when MAAS has no such image or kernel for a host that is to be deployed."""
        versions = load_versions(self.versions_file())
        pins: dict[str, Pin] = {}
        self._images: dict[str, dict[str, str]] = {}
        to_deploy: dict[str, tuple[Pin, str]] = {}
        for name in names:
            machine = machines[name] or {}
            architecture = text_of(machine, "architecture")
            known = UNAME.get(architecture.partition("/")[0], ANY)
            settings = versions.settings(COMPONENT, ANY, known, self.host_value(name, "profile")["name"])
            pins[name] = pin = pin_of(settings, self.value)
            system = text_of(machine, "osystem")
            image = pin.series if "/" in pin.series else f"{system}/{pin.series}" if system else ""
            self._images[name] = {"image": image, "release": pin.release, "kernel_version": pin.kernel_version}
            if machine and status_of(machine) not in (DEPLOYED, DEPLOYING):
                to_deploy[name] = (pin, architecture)
        if to_deploy:
            for name, image in find_images(client.boot_resources(), to_deploy).items():
                self._images[name]["image"] = image
        return pins

    def _deed(self, name: str, line: str) -> None:
        """Called before a machine is wiped: the ledger knows, and the old host key is forgotten."""
        self.ledger.deed(name, line)
        self.ledger.begin_install(name, line)
        self.tell(f"{name}: {line}")
        self.known_hosts(name).forget(name)

    def _power(self, how: str, wanted: list[Wanted]) -> RedfishPower | None:
        """The BMCs of those that are not installed: asked about the ones that stall, used where MAAS's driver fails."""
        ca_file = self.value("bmc_ca_file")
        if how == "maas" or self.check or not (ca_file or how == "redfish"):
            return None
        names = [w.name for w in wanted if status_of(self._machines[w.name]) != DEPLOYED]
        targets = {name: self.bmc_target(name) for name in names}
        return RedfishPower(
            targets,
            self.needed("bmc_ca_file", "name it as ca_file: in the inventory's *.redfish_bmc.yml"),
            {name: str(self.host_value(name, "profile")["ethernet"]["pxe"]) for name in names},
            {n: power_settings(t.address, t.port, t.username, t.password) for n, t in targets.items()},
        )

    def _progress(self, progress: Progress) -> None:
        """What is new, and how many do what: when that changes, and once a minute while some stall."""
        for line in progress.news:
            self.tell(line)
        minute = int(progress.seconds // 60) if progress.stalled else 0
        shown = (progress.counts, progress.stalled, minute)
        if shown != getattr(self, "_shown", None):
            self._shown = shown
            self.tell(f"install: {progress.seconds:.0f} s: {progress}")

    def _wait(self, installed: dict[str, InstallResult], findings: dict[str, list[Finding]]) -> None:
        """MAAS says Deployed before SSH answers."""
        minutes = ssh_minutes(self.value)
        for fresh, allowed in ((True, minutes), (False, min(minutes, SSH_MINUTES_INSTALLED))):
            port = {n: int(self.host_value(n, "ansible_port", 22)) for n in installed}
            targets = {n: (r.address, port[n]) for n, r in installed.items() if r.address and r.changed is fresh}
            for name, finding in wait_for_ssh(targets, allowed).items():
                if finding:
                    findings[name].append(finding)
