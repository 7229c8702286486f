"""Checking what a client sends about a machine, with MAAS's field errors."""

from __future__ import annotations

import json
import re
from typing import Any

from simulators.maas import status as st
from simulators.maas.settings import Settings
from simulators.maas.status import ApiError, bad_field
from simulators.maas.store import Machine, Store

MAC = re.compile(r"([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}")
_HOSTNAME = re.compile(r"(?!-)[a-zA-Z0-9-]{1,63}(?<!-)")
UBUNTU = {"focal": "20.04", "jammy": "22.04", "noble": "24.04"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)")
TRUE = {"1", "true", "yes", "on", "t", "y"}
FALSE = {"0", "false", "no", "off", "f", "n", ""}
# Power type -> parameter -> (label, required).
POWER_TYPES: dict[str, dict[str, tuple[str, bool]]] = {
    "": {},
    "manual": {},
    "redfish": {
        "power_address": ("Redfish address", True),
        "power_user": ("Redfish user", True),
        "power_pass": ("Redfish password", True),
        "node_id": ("Node ID", False),
    },
    "ipmi": {
        "power_driver": ("Power driver", False),
        "power_boot_type": ("Power boot type", False),
        "power_address": ("IP address", True),
        "power_user": ("Power user", False),
        "power_pass": ("Power password", False),
        "k_g": ("K_g BMC key", False),
        "cipher_suite_id": ("Cipher Suite ID", False),
        "privilege_level": ("Privilege Level", False),
        "workaround_flags": ("Workaround Flags", False),
        "mac_address": ("Power MAC", False),
    },
}
LAYOUTS = ("flat", "lvm", "bcache", "vmfs6", "vmfs7", "custom", "blank")


class Form:
    """The fields of one request: each name has a list of values, all of them text."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        """The last value of this name, as Django's forms take it."""
        return self.values[name][-1] if self.values.get(name) else default

    def all(self, name: str) -> list[str]:
        """Every value of this name."""
        return self.values.get(name, [])

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean in any of MAAS's spellings; ApiError 400 when it is none."""
        if name not in self.values:
            return default
        text = self.get(name).lower()
        if text in TRUE | FALSE:
            return text in TRUE
        raise bad_field(name, f"Value should be {', '.join(sorted(TRUE))} or {', '.join(sorted(FALSE - {''}))}")

    def integer(self, name: str, default: int) -> int:
        """A whole number; ApiError 400 when it is none."""
        text = self.get(name, str(default))
        if not re.fullmatch(r"-?\d{1,12}", text):
            raise ApiError(400, f"Invalid {name}: Please enter an integer value")
        return int(text)


def architecture(text: str, has_images: bool) -> str:
    """A usable architecture; only amd64 has images here."""
    name = text if "/" in text or not text else f"{text}/generic"
    usable = ["amd64/generic"] if has_images else []
    if name not in usable:
        choices = ", ".join(f"'{choice}'" for choice in usable or [""])
        raise bad_field("architecture", f"'{name}' is not a valid architecture.  It should be one of: {choices}.")
    return name


def mac_addresses(form: Form, needed: bool) -> list[str]:
    """The MACs of a new machine, in MAAS's spelling. A comma between two makes MAAS fail with 500."""
    found = [text.strip() for text in form.all("mac_addresses") if text.strip()]
    if any("," in text for text in found):
        raise ApiError(500, f"'{found[0]}' is not a valid MAC address.")
    bad = [text for text in found if not MAC.fullmatch(text)]
    if bad:
        raise bad_field("mac_addresses", f"One or more MAC addresses is invalid. ('{bad[0]}')")
    if not found and needed:
        raise bad_field("mac_addresses", "This field is required.")
    return [text.lower().replace("-", ":") for text in found]


def hostname(store: Store, text: str, machine: Machine | None = None) -> str:
    """A name that no other machine has."""
    name = text.split(".", 1)[0]
    if not _HOSTNAME.fullmatch(name):
        raise bad_field("hostname", f"Invalid hostname: {name}.")
    other = store.by_hostname(name)
    if other is not None and other is not machine:
        raise bad_field("hostname", "Node with this Hostname already exists.")
    return name


def power(form: Form, machine: Machine | None = None) -> dict[str, Any]:
    """power_type and power_parameters of the request, merged with what the machine has. Empty when none is given."""
    given = {
        name.removeprefix("power_parameters_"): form.get(name)
        for name in form.values
        if name.startswith("power_parameters_") and name != "power_parameters_skip_check"
    }
    if "power_parameters" in form:
        given.update(_json_parameters(form.get("power_parameters")))
    if "power_type" not in form and not given:
        return {}
    kind = form.get("power_type", machine["power_type"] if machine else "")
    if kind not in POWER_TYPES:
        raise bad_field("power_type", f"Select a valid choice. {kind} is not one of the available choices.")
    merged = dict(machine["power_parameters"]) if machine and machine["power_type"] in ("", kind) else {}
    merged.update({name: value for name, value in given.items() if value != ""})
    if str(given.get("power_address", "")).startswith(("https://", "http://")):
        raise ApiError(500, f"'{given['power_address']}' does not appear to be an IPv4 or IPv6 address")
    if not form.flag("power_parameters_skip_check"):
        known = POWER_TYPES[kind]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise bad_field("power_parameters", f"Unknown parameter(s): {', '.join(unknown)}.")
        missing = [label for name, (label, needed) in known.items() if needed and not merged.get(name)]
        if missing:
            raise bad_field("power_parameters", *(f"{label}: This field is required." for label in missing))
    return {"power_type": kind, "power_parameters": merged}


def _json_parameters(text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise bad_field("power_parameters", "Failed to parse JSON power_parameters")
    return {str(name): str(item) for name, item in value.items() if item is not None}


def places(form: Form, names: dict[str, set[str]]) -> dict[str, str]:
    """zone, pool and domain of the request; ApiError for names that do not exist."""
    found = {}
    for field, kind in (("zone", "zones"), ("pool", "resourcepools"), ("domain", "domains")):
        if not form.get(field):
            continue
        name = form.get(field)
        if name not in names[kind]:
            if field == "domain":
                raise bad_field(field, f"Unable to find domain {name}.")
            raise bad_field(field, "Select a valid choice. That choice is not one of the available choices.")
        found[field] = name
    return found


def images(settings: Settings, has_images: bool) -> dict[str, list[str]]:
    """Every image that can be deployed (ubuntu/noble, custom/bookworm), and its kernels as boot resources have them.

    Of an Ubuntu image each kernel is a resource of its own; jammy is always there, commissioning runs from it.
    """
    found: dict[str, list[str]] = {}
    for name in ["jammy", *settings.distro_series] if has_images else []:
        release = UBUNTU.get(name.rpartition("/")[2])
        full = name if "/" in name else f"{'ubuntu' if release else 'custom'}/{name}"
        is_ubuntu = release and full.startswith("ubuntu/")
        found[full] = [f"{kind}-{release}" for kind in ("ga", "hwe")] if is_ubuntu else ["generic"]
    return found


def series(settings: Settings, form: Form, has_images: bool) -> tuple[str, str]:
    """operating system and series of a deployment; the first of lab.json when none is given."""
    usable = images(settings, has_images)
    choices = {short: full for full in usable for short in (full, full.partition("/")[2])}
    first = settings.distro_series[0] if has_images and settings.distro_series else ""
    text = form.get("distro_series") or first
    if text not in choices:
        listed = ", ".join(f"'{name}'" for name in sorted({"", *usable}))
        raise bad_field("distro_series", f"'{text}' is not a valid distro_series.  It should be one of: {listed}.")
    osystem, _, name = choices[text].partition("/")
    kernel = form.get("hwe_kernel")
    if kernel and (osystem != "ubuntu" or kernel not in usable[choices[text]]):
        raise bad_field("hwe_kernel", f"{kernel} is not available for {osystem}/{name} on amd64/generic.")
    return osystem, name


def size(field: str, text: str, whole: int) -> int | None:
    """A size such as 24G, or 50%, in bytes; None when not given."""
    if not text:
        return None
    if re.fullmatch(r"\d{1,3}%", text):
        return whole * int(text[:-1]) // 100
    match = _SIZE.fullmatch(text)
    if not match:
        raise ApiError(
            400, f"Failed to configure storage layout: {field}: Must be an integer or a size with K, M, G, T"
        )
    return int(float(match[1]) * 1000 ** " KMGT".index(match[2] or " "))


def list_filter(form: Form, store: Store, names: dict[str, set[str]]) -> list[Machine]:
    """The machines that GET machines/ with these parameters lists. Values are compared as they are: no folding."""
    known = {"hostname", "mac_address", "id", "status", "zone", "pool", "domain", "tags", "agent_name", "cpu_count"}
    known |= {"mem", "arch", "not_tags", "fabrics", "vlans", "subnets", "link_speed", "pod", "pod_type", "devices"}
    for name in form.values:
        if name not in known and name != "op":
            raise bad_field(name, "No such constraint.")
    for mac in form.all("mac_address"):
        if not MAC.fullmatch(mac):
            raise bad_field("mac_address", f"Invalid MAC address(es): {mac}")
    for text in form.all("status"):
        if text not in st.SHORT_NAMES:
            raise bad_field("status", f"Select a valid choice. {text} is not one of the available choices.")
    for field, kind in (("zone", "zones"), ("pool", "resourcepools"), ("domain", "domains")):
        for text in form.all(field):
            if text not in names[kind]:
                raise bad_field(field, f"No such {field}: '{text}'.")
    for field in ("tags", "not_tags"):
        unknown = [text for text in form.all(field) if text not in store.data["tags"]]
        if unknown:
            raise bad_field(field, "No such tag(s): " + ", ".join(f"'{text}'" for text in unknown) + ".")
    return [machine for machine in store.machines.values() if _matches(machine, form)]


def _matches(machine: Machine, form: Form) -> bool:
    for field, key in (("hostname", "hostname"), ("id", "system_id"), ("zone", "zone"), ("pool", "pool")):
        if field in form and machine[key] not in form.all(field):
            return False
    if "domain" in form and machine["domain"] not in form.all("domain"):
        return False
    if "mac_address" in form and not any(n["mac_address"] in form.all("mac_address") for n in machine["interfaces"]):
        return False
    if "status" in form and machine["status"] not in {st.SHORT_NAMES[text] for text in form.all("status")}:
        return False
    if not set(form.all("tags")) <= set(machine["tags"]):
        return False
    return not set(form.all("not_tags")) & set(machine["tags"])
