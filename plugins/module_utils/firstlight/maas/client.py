"""A small client for MAAS: what the product needs of its API, written against the contract of MAAS 3.4 to 3.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .machines import Machine, macs_of
from .transport import MaasError, Transport

__all__ = ["MaasClient", "MaasError"]


class MaasClient(Transport):
    """The operations, one method each. Errors are MaasError; see Transport for the arguments."""

    def whoami(self) -> dict[str, Any]:
        """The user that the key belongs to: {username, email, is_superuser...}."""
        return self.mapping("Users.whoami")

    def version(self) -> str:
        return str(self.mapping("Version.read").get("version", ""))

    def machines(self, **filters: Any) -> list[Machine]:
        """All machines, in one request (MAAS has no paging). filters: hostname, mac_address, id... as MAAS has them."""
        if "mac_address" in filters:  # MAAS finds lower-case MACs with colons only
            macs = filters["mac_address"]
            filters["mac_address"] = [m.lower() for m in ([macs] if isinstance(macs, str) else macs)]
        answer = self.call("Machines.read", data=filters)
        if not isinstance(answer, list):
            raise MaasError(self.redact(f"MAAS at {self.root} answered no list of machines"), "failed")
        return [m for m in answer if isinstance(m, dict) and isinstance(m.get("system_id"), str)]

    def machine(self, system_id: str) -> Machine:
        return self.mapping("Machine.read", {"system_id": system_id})

    def create(
        self,
        hostname: str,
        macs: Sequence[str],
        architecture: str,
        power: dict[str, str] | None = None,
        **fields: str | None,
    ) -> Machine:
        """Make a machine of status New; gives the machine that has one of the MACs if there is one in the end.

        It never makes a second one: when the outcome of a POST is unknown, or MAAS says that a MAC is taken, the
        machine is looked up by MAC (another run, PXE, or the lost POST itself may have made it). The caller
        compares what comes back. power: {power_type, power_parameters_X...}. fields: description, pool, zone, domain.
        Commissioning is left to the caller: with commission=true MAAS answers 503 for a dead BMC, yet stores it.
        """
        data = {
            "hostname": hostname,
            "mac_addresses": [m.lower() for m in macs],
            "architecture": architecture,
            "commission": False,
            **(power or {}),
            **fields,
        }
        for last in (False, True):
            try:
                return self.mapping("Machines.create", data=data)
            except MaasError as error:
                if not error.outcome_unknown and "mac_addresses" not in error.fields:
                    raise
                found = self._look_up(macs, patient=error.outcome_unknown)
                if found:
                    return found
                # A POST that got no answer in time may still be running; a second would race it, and MAAS has
                # stored the same MAC twice in such races. The next run finds out.
                if last or error.kind == "timed_out" or not error.outcome_unknown:
                    raise
        raise AssertionError("unreachable")

    def _look_up(self, macs: Sequence[str], patient: bool) -> Machine | None:
        wanted = {m.lower() for m in macs}
        for wait in (0.5, 2.0, 4.0) if patient else (0.0,):
            self._pause(wait)
            found = [m for m in self.machines(mac_address=sorted(wanted)) if wanted & set(macs_of(m))]
            if found:
                return found[0]
        return None

    def update(self, system_id: str, **fields: Any) -> Machine:
        """Change a machine. fields: hostname, description, pool, zone, power_type, power_parameters_X..."""
        return self.mapping("Machine.update", {"system_id": system_id}, fields)

    def commission(self, system_id: str, testing_scripts: str | None = None) -> Machine:
        # Else commissioning makes an IPMI user "maas" in the BMC, and MAAS drives the machine by that from then on.
        data = {"skip_bmc_config": 1, "testing_scripts": testing_scripts}
        return self.mapping("Machine.commission", {"system_id": system_id}, data)

    def deploy(
        self,
        system_id: str,
        distro_series: str | None = None,
        user_data: str | None = None,
        hwe_kernel: str | None = None,
        comment: str | None = None,
    ) -> Machine:
        """Start an installation: an answer means started, not more. user_data: base64."""
        data = {
            "distro_series": distro_series or None,
            "user_data": user_data or None,
            "hwe_kernel": hwe_kernel or None,
            "comment": comment,
        }
        return self.mapping("Machine.deploy", {"system_id": system_id}, data)

    def release(
        self,
        system_id: str,
        comment: str = "released by firstlight",
        erase: bool = False,
        quick_erase: bool = False,
        secure_erase: bool = False,
    ) -> Machine:
        """Give a machine back. The comment is always sent: some releases of MAAS answer 400 to an empty body.

        erase: its disks are overwritten; quick_erase: 2 MiB at both ends alone; secure_erase: by the drives themselves
        where they can, else the quick way with quick_erase, else all of it.
        """
        ways = {"erase": erase or quick_erase or secure_erase, "quick_erase": quick_erase, "secure_erase": secure_erase}
        data = {"comment": comment, **{name: True if asked else None for name, asked in ways.items()}}
        return self.mapping("Machine.release", {"system_id": system_id}, data)

    def abort(self, system_id: str, comment: str = "aborted by firstlight") -> None:
        self.call("Machine.abort", {"system_id": system_id}, {"comment": comment})

    def power_on(self, system_id: str, comment: str = "by firstlight") -> None:
        self.call("Machine.power_on", {"system_id": system_id}, {"comment": comment})

    def power_off(self, system_id: str, comment: str = "by firstlight") -> None:
        self.call("Machine.power_off", {"system_id": system_id}, {"comment": comment})

    def power_state(self, system_id: str) -> str:
        """What the BMC says now: on, off, unknown or error. One try: MAAS asks the BMC while we wait."""
        return str(self.mapping("Machine.query_power_state", {"system_id": system_id}, attempts=1).get("state"))

    def block_devices(self, system_id: str) -> list[dict[str, Any]]:
        answer = self.call("BlockDevices.read", {"system_id": system_id})
        return [d for d in answer if isinstance(d, dict)] if isinstance(answer, list) else []

    def set_os_disk(self, system_id: str, device_id: int, is_boot_disk: bool) -> Machine:
        """Boot from this disk and lay out the root file system on it; gives the machine. It must be Ready.

        Setting the boot disk does not move the root file system, so the layout always follows.
        """
        if not is_boot_disk:
            self.call("BlockDevice.set_boot_disk", {"system_id": system_id, "id": device_id})
        data = {"storage_layout": "flat", "root_device": device_id}
        return self.mapping("Machine.set_storage_layout", {"system_id": system_id}, data)

    def boot_resources(self) -> list[dict[str, Any]]:
        """The images that MAAS has, of an Ubuntu image each kernel apart: {name, architecture: amd64/ga-24.04...}."""
        answer = self.call("BootResources.read")
        return [r for r in answer if isinstance(r, dict)] if isinstance(answer, list) else []

    def events(self, system_id: str, limit: int = 100) -> list[dict[str, Any]]:
        """The latest events of a machine, newest first, those of level DEBUG (network boot) included."""
        data = {"id": system_id, "level": "DEBUG", "limit": limit}
        found = self.mapping("Events.query", data=data).get("events")
        return [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []

    def ensure_tag(self, name: str, comment: str = "") -> None:
        """Make a tag unless there is one."""
        try:
            self.call("Tags.create", data={"name": name, "comment": comment})
        except MaasError as error:
            if error.status != 400 or "name" not in error.fields:
                raise

    def tags(self) -> set[str]:
        """The names of all tags."""
        answer = self.call("Tags.read")
        return {str(t.get("name")) for t in answer if isinstance(t, dict)} if isinstance(answer, list) else set()

    def tag_machines(self, name: str, add: Sequence[str], remove: Sequence[str] = ()) -> int:
        """Tag machines and untag others, all in one request; gives how many were tagged.

        MAAS skips unknown ids silently, and answers 404 when it has no such tag.
        """
        data = {"add": list(add) or None, "remove": list(remove) or None}
        added = self.mapping("Tag.update_nodes", {"name": name}, data).get("added")
        return added if isinstance(added, int) else 0

    def set_mac(self, system_id: str, interface_id: int, mac: str) -> None:
        """Another NIC sits where this interface is: it keeps its name, its network and that it boots.

        New, Ready, Failed testing, Allocated, Broken and Deployed machines alone; 409 else.
        """
        path: dict[str, str | int] = {"system_id": system_id, "id": interface_id}
        self.call("Interface.update", path, {"mac_address": mac.lower()})

    def add_nic(self, system_id: str, mac: str) -> None:
        """One more interface, without a network. As set_mac, but for Deployed machines."""
        self.call("Interfaces.create_physical", {"system_id": system_id}, {"mac_address": mac.lower()})

    def delete_machine(self, system_id: str) -> None:
        """Forget a machine; that there is none is fine."""
        try:
            self.call("Machine.delete", {"system_id": system_id})
        except MaasError as error:
            if error.status != 404:
                raise

    def script(self, name: str) -> dict[str, Any] | None:
        """A script with its text and history; None when MAAS has none of this name."""
        try:
            return self.mapping("Script.read", {"name": name}, {"include_script": True})
        except MaasError as error:
            if error.status == 404:
                return None
            raise

    def upload_script(self, name: str, script: str, is_new: bool, **fields: Any) -> None:
        """Make a script, or give it a new text. fields: type, title, timeout (seconds)... as MAAS has them."""
        data = {"script": script.encode(), **fields}
        if is_new:
            try:
                self.call("Scripts.create", data={"name": name, **data})
                return
            except MaasError as error:  # another run has made it meanwhile, or MAAS does not take it
                if error.status != 400 or self.script(name) is None:
                    raise
        self.call("Script.update", {"name": name}, data)

    def script_results(self, system_id: str, name: str) -> list[dict[str, Any]]:
        """The machine's runs of scripts, those of the installer included, each with the results of this one script."""
        answer = self.call("ScriptResults.read", {"system_id": system_id}, {"filters": name, "include_output": True})
        return [r for r in answer if isinstance(r, dict)] if isinstance(answer, list) else []
