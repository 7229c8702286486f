"""The files of a site that people write: profiles and the fleet (the rack plan)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import netaddr

from .csvfile import read_csv
from .errors import InputError
from .profile import LIMITS, OS_DISK_KEYS, Profile
from .profile_kinds import OS_DISK_BUSES
from .yamlfile import SchemaFile, read_yaml

_COUNT = {"type": "integer", "minimum": 0}
_SLOTS = {"type": "array", "items": {"type": "string"}, "x-hint": "a list of ids, as the BMC spells them"}
_OS_DISK_TEXT = {"type": "string", "minLength": 1, "maxLength": 64, "x-hint": "a text of 1 to 64 characters"}
_KERNEL_WORD = {"type": "string", "pattern": r"^[a-z_]{1,32}$", "x-hint": "a word as the kernel spells it: performance"}
_SWITCH = {"enum": ["enabled", "disabled"], "x-hint": "enabled or disabled"}
_PART: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "count": _COUNT,
        "model": {"type": "string"},
        "driver_required": {"type": "boolean"},
        "pxe": {"type": "string"},
        "rate_gbps": {"type": "number", "minimum": 0},
        "min_bytes": {"type": "integer", "minimum": 0},
        "total_gib": {"type": "number", "minimum": 0},
        "slots": _SLOTS,
        "cabled": _SLOTS,
        "pcie": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "lanes": {"type": "integer", "minimum": 1, "maximum": 32},
                "generation": {"type": "integer", "minimum": 1, "maximum": 9},
            },
        },
    },
    "required": ["count"],
}

_GPUS: dict[str, Any] = {
    **_PART,
    "properties": {
        **_PART["properties"],
        "kernel_module": {"enum": ["open", "proprietary"]},
        "nvswitch": {"type": "boolean"},
        "rdma": {"enum": ["peermem", "dmabuf", "both"]},
        "ecc": {"type": "boolean"},
        "vbios": {
            "type": "string",
            "pattern": r"^[0-9A-Fa-f]{1,4}(\.[0-9A-Fa-f]{1,4}){2,7}$",
            "x-hint": 'a version in quotes: "96.00.A5.00.1A"',
        },
        "power_watts": {"type": "number", "exclusiveMinimum": 0},
        "sm_mhz": {"type": "number", "exclusiveMinimum": 0},
        "nvlink": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "links": {"type": "integer", "minimum": 1, "maximum": 256},
                "gbytes_per_second": {"type": "number", "exclusiveMinimum": 0},
            },
        },
        "topology": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "gpus": {
                    "type": "string",
                    "pattern": r"^(NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS)$",
                    "x-hint": "as nvidia-smi topo -m has it: NV18",
                },
                "nics": {"enum": ["PIX", "PXB", "PHB", "NODE", "SYS"]},
                "numa": {"type": "array", "items": _COUNT, "x-hint": "a list of NUMA nodes: [0, 0, 1, 1]"},
            },
        },
    },
}

_VERSION = {
    "type": "string",
    "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9}){1,5}$",
    "x-hint": 'a version in quotes: "28.43.2026"',
}
_HCAS: dict[str, Any] = {
    **_PART,
    "properties": {
        **_PART["properties"],
        "firmware": _VERSION,
        "module_firmware": {"type": "object", "additionalProperties": _VERSION},
    },
}

PROFILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "vendor", "model", "gpus", "hcas", "ethernet", "nvme", "os_disk", "psus"],
    "additionalProperties": False,
    "properties": {
        "name": {
            "type": "string",
            "pattern": r"^[a-z0-9][a-z0-9_-]*$",
            "x-hint": "lower-case letters, digits, - and _",
        },
        "vendor": {"type": "string"},
        "model": {"type": "string"},
        "gpus": _GPUS,
        "hcas": _HCAS,
        "ethernet": {**_PART, "required": ["count", "pxe"]},
        "nvme": _PART,
        "os_disk": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "controller": _OS_DISK_TEXT,
                "model": _OS_DISK_TEXT,
                "min_bytes": {"type": "integer", "minimum": 0},
                "max_bytes": {"type": "integer", "minimum": 1},
                "bus": {"enum": list(OS_DISK_BUSES), "x-hint": f"one of {', '.join(OS_DISK_BUSES)}"},
                "serial": {
                    "type": "string",
                    "pattern": r"^[A-Za-z0-9_.*?\[\]!-]{1,64}$",
                    "x-hint": "a serial number, or a pattern of one such as BTYH*; at most 64 characters",
                },
                "exclude_data_drives": {"type": "boolean"},
            },
            "minProperties": 1,
            "x-hint": f"name what tells the OS disk apart: at least one of {', '.join(OS_DISK_KEYS)}",
        },
        "psus": _PART,
        "fans": _PART,
        "dimms": _PART,
        "firmware": {
            "type": "object",
            "additionalProperties": {"type": "string", "x-hint": 'a version in quotes: "2.5.4"'},
        },
        "bios": {
            "type": "object",
            "additionalProperties": {
                "type": ["string", "integer"],
                "x-hint": 'a value as the BIOS spells it; words such as "On" and "Off" in quotes',
            },
        },
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "properties": {limit: {"type": "number"} for limit in LIMITS},
        },
        "tuning": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "pcie_acs": {"enum": ["disabled"], "x-hint": "disabled, or leave the key out"},
                "cpu_governor": _KERNEL_WORD,
                "cpu_energy_preference": _KERNEL_WORD,
                "hugepages": {
                    "type": "object",
                    "propertyNames": {"pattern": r"^[1-9][0-9]{0,9}$"},
                    "additionalProperties": _COUNT,
                    "x-hint": 'numbers of pages by their size in kB, in quotes: {"2048": 1024}',
                },
                "transparent_hugepages": {"enum": ["always", "madvise", "never"]},
                "numa_balancing": _SWITCH,
                "swap": _SWITCH,
                "sysctl": {
                    "type": "object",
                    "propertyNames": {"pattern": r"^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$"},
                    "additionalProperties": {"type": ["integer", "string"]},
                },
                "limits": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"nofile": _COUNT, "memlock": {"enum": ["unlimited"]}},
                },
            },
        },
        "reboot": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "services": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "pattern": r"^[A-Za-z0-9@_.:-]{1,128}\.(service|target|socket|timer)$",
                        "x-hint": "the name of a unit such as nvidia-fabricmanager.service",
                    },
                }
            },
        },
    },
}

_NAME = {
    "type": "string",
    "pattern": r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "x-hint": "a host name has lower-case letters, digits and hyphens",
}
_ADDRESS = {"type": "string", "x-hint": "an IP address such as 10.0.1.11"}
# without quotes YAML reads a MAC of digits alone as a number
_MAC = {"type": "string", "x-hint": 'a MAC address in quotes: "b0:7b:25:00:01:0a"'}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
RACK_UNITS = 60
_UNIT = {"type": "integer", "minimum": 1, "maximum": RACK_UNITS, "x-hint": f"a rack unit from 1 to {RACK_UNITS}"}
_RACK = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
    "x-hint": 'a rack name in quotes, e.g. "r1"',
}
_TAG = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9-]{1,40}$",
    "x-hint": "a service tag has letters, digits and hyphens (quote it if it has digits alone)",
}

FLEET_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["site"],
    "additionalProperties": False,
    "properties": {
        "site": {"type": "string"},
        "hosts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rack", "unit", "bmc_address", "profile"],
                "additionalProperties": False,
                "properties": {
                    "name": _NAME,
                    "rack": _RACK,
                    "unit": _UNIT,
                    "bmc_address": _ADDRESS,
                    "bmc_port": _PORT,
                    "profile": {"type": "string"},
                    "service_tag": _TAG,
                    "mac": _MAC,
                },
            },
        },
        "ranges": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["names", "rack", "first_unit", "unit_step", "bmc_addresses", "profile"],
                "additionalProperties": False,
                "properties": {
                    "names": {
                        "type": "string",
                        "pattern": r"^[a-z0-9-]*\[[0-9]{1,6}:[0-9]{1,6}\][a-z0-9-]*$",
                        "x-hint": "names count like r1-n[01:08]",
                    },
                    "rack": _RACK,
                    "first_unit": _UNIT,
                    "unit_step": {"type": "integer", "minimum": 1},
                    "bmc_addresses": {"type": "string"},
                    "bmc_port": _PORT,
                    "profile": {"type": "string"},
                },
            },
        },
    },
}


@dataclass(frozen=True)
class PlannedHost:
    """One server of the rack plan, written down before it answers."""

    name: str
    rack: str
    unit: int
    bmc_address: str
    profile: str
    bmc_port: int = 443
    service_tag: str | None = None
    mac: str | None = None  # of the NIC that installs, where the plan knows it: aa:bb:cc:dd:ee:ff

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Fleet:
    site: str
    hosts: list[PlannedHost]


def load_profiles(folder: Path | str) -> dict[str, Profile]:
    """All profiles (``*.yml``) of a folder by name; InputError where one is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such folder of profiles", str(folder))
    profiles: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.yml")):
        file = read_yaml(path)
        file.check(PROFILE_SCHEMA)
        try:
            profile = Profile.from_dict(file.data)
        except ValueError as error:
            key = str(error).replace(".", " ").split()[0]
            raise InputError(str(error), file.where([key])) from None
        if profile.name != path.stem:
            raise InputError(f"name: {profile.name!r} must be the file's name, {path.stem!r}", file.where(["name"]))
        profiles[profile.name] = profile
    if not profiles:
        raise InputError("holds no profile (*.yml)", str(folder))
    return profiles


def normal_mac(text: str) -> str:
    """A MAC in any usual spelling as aa:bb:cc:dd:ee:ff; ValueError when it is not a unicast 6-octet address."""
    try:
        mac = netaddr.EUI(text, version=48, dialect=netaddr.mac_unix_expanded)
    except (netaddr.AddrFormatError, TypeError, ValueError):
        raise ValueError(f"{text!r} is not a MAC address") from None
    if int(mac) == 0 or mac.words[0] & 1:
        raise ValueError(f"{text!r} is not the address of one NIC")
    return str(mac)


def load_fleet(path: Path | str, profiles: Mapping[str, Profile] | None) -> Fleet:
    """The fleet file, YAML or a table (``*.csv``): hosts and expanded ranges.

    Every host is unique by name, BMC, MAC, tag and place, and has one of the profiles (None: they are not looked at).
    """
    file: SchemaFile = read_csv(path) if Path(path).suffix.lower() == ".csv" else read_yaml(path)
    file.check(FLEET_SCHEMA)
    _refuse_overlaps(file)
    planned: list[tuple[PlannedHost, str]] = []
    for number, row in enumerate(file.data.get("hosts") or []):
        planned.append((_one_host(file, number, row), file.where(["hosts", number])))
    for number, row in enumerate(file.data.get("ranges") or []):
        planned += [(host, file.where(["ranges", number])) for host in _one_range(file, number, row)]
    if not planned:
        raise InputError("no host is planned; add hosts: or ranges:", str(path))
    for host, where in planned:
        if profiles is not None and host.profile not in profiles:
            known = ", ".join(sorted(profiles))
            raise InputError(f"host {host.name}: unknown profile {host.profile!r}; known are {known}", where)
    _refuse_duplicates(planned)
    return Fleet(site=file.data["site"], hosts=[host for host, _ in planned])


def _one_host(file: SchemaFile, number: int, row: dict[str, Any]) -> PlannedHost:
    key: list[str | int] = ["hosts", number]
    try:
        address = str(netaddr.IPAddress(row["bmc_address"]))
    except (netaddr.AddrFormatError, ValueError):
        raise InputError(
            f"host {row['name']}: bmc_address {row['bmc_address']!r} is not an IP address",
            file.where([*key, "bmc_address"]),
        ) from None
    try:
        mac = normal_mac(row["mac"]) if "mac" in row else None
    except ValueError as error:
        raise InputError(f"host {row['name']}: mac: {error}", file.where([*key, "mac"])) from None
    return PlannedHost(**{**row, "bmc_address": address, "mac": mac})


def _one_range(file: SchemaFile, number: int, row: dict[str, Any]) -> list[PlannedHost]:
    where = file.where(["ranges", number])
    before, first, last, after = re.split(r"\[(\d+):(\d+)\]", row["names"])  # the schema saw to its form
    count = int(last) - int(first) + 1
    start, end = _first_last(file, number, row)
    between = int(end) - int(start) + 1
    if start.version != end.version or between < 1 or count < 1:
        what = f"names {row['names']}" if count < 1 else f"bmc_addresses {row['bmc_addresses']}"
        raise InputError(f"{what} must go from the first to the last", where)
    if count != between:
        raise InputError(
            f"names {row['names']} are {count} hosts, bmc_addresses {row['bmc_addresses']} are {between}", where
        )
    last_unit = row["first_unit"] + (count - 1) * row["unit_step"]
    if last_unit > RACK_UNITS:  # before anything is expanded: a slip of the pen can name a million hosts
        raise InputError(f"the last of {count} hosts would sit at unit {last_unit}; a rack ends at {RACK_UNITS}", where)
    names = [f"{before}{n:0{len(first)}d}{after}" for n in range(int(first), int(last) + 1)]
    wrong = next((name for name in names if not re.fullmatch(_NAME["pattern"], name)), None)
    if wrong:
        raise InputError(f"names {row['names']} gives {wrong!r}; {_NAME['x-hint']}", where)
    addresses = [str(start + i) for i in range(count)]
    units = [row["first_unit"] + i * row["unit_step"] for i in range(count)]
    return [
        PlannedHost(name, row["rack"], unit, address, row["profile"], row.get("bmc_port", 443))
        for name, unit, address in zip(names, units, addresses, strict=True)
    ]


def _first_last(file: SchemaFile, number: int, row: dict[str, Any]) -> tuple[netaddr.IPAddress, netaddr.IPAddress]:
    try:
        first, last = (netaddr.IPAddress(part.strip()) for part in row["bmc_addresses"].split("-"))
    except (netaddr.AddrFormatError, ValueError):
        raise InputError(
            f"bmc_addresses {row['bmc_addresses']!r} is no range; it looks like 10.0.1.11-10.0.1.18",
            file.where(["ranges", number]),
        ) from None
    return first, last


def _refuse_overlaps(file: SchemaFile) -> None:
    """Two ranges must not share BMCs; told by their names, which says more than the first host that they share."""
    seen: list[tuple[netaddr.IPAddress, netaddr.IPAddress, int, dict[str, Any]]] = []
    for number, row in enumerate(file.data.get("ranges") or []):
        first, last = _first_last(file, number, row)
        for start, end, other, earlier in seen:
            if row.get("bmc_port", 443) == earlier.get("bmc_port", 443) and first <= end and start <= last:
                shared = "-".join(dict.fromkeys((str(max(first, start)), str(min(last, end)))))
                raise InputError(
                    f"range {row['names']} overlaps range {earlier['names']} ({file.where(['ranges', other])}): "
                    f"both have {shared}",
                    file.where(["ranges", number]),
                )
        seen.append((first, last, number, row))


def _refuse_duplicates(planned: list[tuple[PlannedHost, str]]) -> None:
    unique = {
        "name": lambda h: h.name,
        "BMC address": lambda h: f"{h.bmc_address}:{h.bmc_port}",
        "MAC": lambda h: h.mac,
        "service tag": lambda h: h.service_tag and h.service_tag.upper(),
        "place": lambda h: f"rack {h.rack} unit {h.unit}",
    }
    for what, value_of in unique.items():
        seen: dict[str, tuple[PlannedHost, str]] = {}
        for host, where in planned:
            value = value_of(host)
            if value is None:
                continue
            if value in seen:
                other, place = seen[value]
                raise InputError(f"host {host.name}: {what} {value} is already taken by {other.name} ({place})", where)
            seen[value] = (host, where)
