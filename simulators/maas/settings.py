"""What lab.json says about the region, with defaults."""

from __future__ import annotations

import ssl
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.bmc.hardware import Hardware
from simulators.maas.store import Machine


@dataclass
class Settings:
    """lab.json's "maas" part and what else of the lab the region needs. Times are in seconds."""

    lab_dir: Path
    listen: tuple[str, int]
    admin: tuple[str, int]
    api_key: str
    bmc_admin: str
    tls: ssl.SSLContext
    version: str = "3.7.3"
    username: str = "admin"
    password: str = ""
    commission_seconds: float = 4
    deploy_seconds: float = 6
    erase_seconds: float = 2
    boot_seconds: float = 1
    spread: float = 0  # machines differ by this share of those times; always the same machine by the same
    node_timeout: float = 120
    real_machines: bool = False  # what runs on a machine reports by itself, see rack_api.py
    power_timeout: float = 10
    power_attempts: int = 3
    power_retry: float = 1
    create_gap: float = 0.05  # between the checks of a new machine and storing it
    durable: bool = True  # survive a kill
    distro_series: list[str] = field(default_factory=lambda: ["bookworm"])
    zones: list[str] = field(default_factory=lambda: ["default"])
    pools: list[str] = field(default_factory=lambda: ["default"])
    domains: list[str] = field(default_factory=lambda: ["maas"])
    subnet: str = "10.31.0.0/24"
    first_address: str = "10.31.0.11"
    machines: list[dict[str, Any]] = field(default_factory=list)
    bmc: dict[str, Any] = field(default_factory=dict)  # lab.json's part

    @classmethod
    def load(cls, lab_dir: str | Path) -> Settings:
        """Read lab.json; makes missing certificates. Raises lab_files.LabError."""
        lab = lab_files.load(lab_dir)
        part = lab.get("maas")
        if not isinstance(part, dict):
            raise lab_files.LabError("lab.json: maas: missing")
        for key in ("listen", "admin", "api_key"):
            if not isinstance(part.get(key), str):
                raise lab_files.LabError(f"lab.json: maas.{key}: missing")
        authority = lab_files.make_certificates(lab_dir, lab)
        renamed = {
            "node_timeout_seconds": "node_timeout",
            "power_timeout_seconds": "power_timeout",
            "power_retry_seconds": "power_retry",
            "create_gap_seconds": "create_gap",
            "resource_pools": "pools",
        }
        given = {renamed.get(key, key): value for key, value in part.items()}
        known = {key: value for key, value in given.items() if key in cls.__dataclass_fields__}
        for name, default in (("zones", "default"), ("pools", "default"), ("domains", "maas")):
            known[name] = [default, *(x for x in known.get(name, []) if x != default)]
        known.update(
            lab_dir=Path(lab_dir),
            listen=lab_files.split_address(part["listen"]),
            admin=lab_files.split_address(part["admin"]),
            bmc_admin=str(lab.get("bmc", {}).get("admin", "")),
            tls=ssl.create_default_context(cafile=str(authority)),
            machines=lab["machines"],
            bmc=lab.get("bmc", {}),
        )
        return cls(**known)

    @property
    def is_34(self) -> bool:
        """True where the answers of 3.4 are wanted."""
        return self.version.startswith("3.4")

    def job_seconds(self, kind: str, hostname: str) -> float:
        """How long the part of a job takes that runs on the machine; for a real one: may take."""
        if self.real_machines:
            return self.node_timeout
        seconds = {"deploy": self.deploy_seconds, "erase": self.erase_seconds}.get(kind, self.commission_seconds)
        luck = zlib.crc32(f"{kind} {hostname}".encode()) / 2**32  # 0 to 1
        return seconds * (1 + self.spread * (2 * luck - 1))

    def bmc_login(self, machine: Machine) -> dict[str, str]:
        """Address, user and password of a machine's BMC as the lab has them."""
        name = self.machine_name(machine)
        entry = next((e for e in self.machines if e["name"] == name), {})
        state = lab_files.read_json(self.lab_dir / "machines" / str(name) / "state.json", {})
        hardware = Hardware(int(entry.get("index", 0)), "", state.get("replaced", {}))
        user, password = hardware.bmc_login(str(self.bmc.get("username", "")), str(self.bmc.get("password", "")))
        return {
            "power_address": f"{entry.get('bmc_address')}:{self.bmc.get('port', 8443)}",
            "power_user": user,
            "power_pass": password,
        }

    def machine_name(self, machine: Machine) -> str | None:
        """The lab's name of a machine, by service tag, else by BMC address."""
        host = machine["power_parameters"].get("power_address", "").rpartition(":")
        address = (host[0] if host[2].isdigit() and host[0] else "".join(host)).strip("[]")
        for entry in self.machines:
            if machine["service_tag"] and entry["service_tag"] == machine["service_tag"]:
                return str(entry["name"])
        for entry in self.machines:
            if address and entry["bmc_address"] == address:
                return str(entry["name"])
        return None
