"""Install the machines of the play in waves (see plugins/modules/fleet_install.py)."""

from __future__ import annotations

from typing import Any

from firstlight.findings import Finding, blocking
from firstlight.fleet_action import FleetAction
from firstlight.maas.client import MaasClient
from firstlight.maas.disks import os_disk_of
from firstlight.maas.images import COMPONENT, UNAME, Pin, find_images, pin_of
from firstlight.maas.install import InstallResult, Progress, Wanted, install
from firstlight.maas.machines import DEPLOYED, DEPLOYING, Machine, macs_of, status_of, text_of
from firstlight.maas.options import install_options, ssh_minutes
from firstlight.maas.userdata import per_host, user_data_settings
from firstlight.maas.wait import wait_for_ssh
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
        wanted, findings = self._wanted(client, admitted)
        user_data = per_host(settings, {w.name: self.known_hosts(w.name) for w in wanted})
        results = (
            install(client, wanted, options, on_progress=self._progress, on_deed=self._deed, user_data=user_data)
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
        return {
            "changed": any(result.changed for result in results.values()),
            "addresses": addresses,
            "hosts": {
                name: {
                    "address": address,
                    "os_disk": results[name].os_disk,
                    "disks_before": results[name].disks_before,
                    "image": self._images[name],
                }
                for name, address in addresses.items()
            },
            "diff": [{"prepared": f"{n}: {deed}\n"} for n, result in results.items() for deed in result.deeds],
            "msg": self.close_stage("install", findings, seconds),
        }

    def _wanted(self, client: MaasClient, names: list[str]) -> tuple[list[Wanted], dict[str, list[Finding]]]:
        by_mac = {mac: machine for machine in client.machines() for mac in macs_of(machine)}
        wanted: list[Wanted] = []
        findings: dict[str, list[Finding]] = {}
        pins = self._pins(names, {n: by_mac.get(self.host_value(n, "pxe_mac", "")) for n in names}, client)
        for name in names:
            machine = by_mac.get(self.host_value(name, "pxe_mac", ""))
            if machine is not None or self.check:  # in check mode nothing was enlisted
                planned = self.planned(name)
                disk = os_disk_of(self.host_value(name, "profile"), self.host_value(name, "bmc_record")["hardware"])
                system_id = machine["system_id"] if machine else ""
                pin = pins[name]
                wanted.append(
                    Wanted(name, system_id, disk, planned.bmc_address, planned.rack, pin.series, pin.hwe_kernel)
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
        self.ledger.set_state(name, "installing", line)
        self.tell(f"{name}: {line}")
        self.known_hosts(name).forget(name)

    def _progress(self, progress: Progress) -> None:
        for line in progress.news:
            self.tell(line)
        counts = ", ".join(f"{count} {what}" for what, count in progress.counts.items() if count)
        if counts != getattr(self, "_counts", None):
            self._counts = counts
            self.tell(f"install: {progress.seconds:.0f} s: {counts}")

    def _wait(self, installed: dict[str, InstallResult], findings: dict[str, list[Finding]]) -> None:
        """MAAS says Deployed before SSH answers."""
        minutes = ssh_minutes(self.value)
        for fresh, allowed in ((True, minutes), (False, min(minutes, SSH_MINUTES_INSTALLED))):
            port = {n: int(self.host_value(n, "ansible_port", 22)) for n in installed}
            targets = {n: (r.address, port[n]) for n, r in installed.items() if r.address and r.changed is fresh}
            for name, finding in wait_for_ssh(targets, allowed).items():
                if finding:
                    findings[name].append(finding)
