"""A machine as it shall be in MAAS, and what of it is kept in MAAS's own fields: tags and the description.

Passwords in MAAS cannot be compared without reading them in clear text (op=power_parameters), every run, for the whole
fleet, through every proxy and log in between. So what we set is remembered where the list shows it: a mark at the end
of the description, an HMAC over power type, address, user and password. Its key is the secret part of the API key,
which can read the clear text anyway; without it a weak password cannot be guessed from the mark. What the mark cannot
see is power settings that somebody changed in MAAS by hand; and another API key updates every machine once.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .machines import FLEET_TAG, Machine, tags_of, text_of

# On machines with the tag firstlight, tags that begin so are ours: one that is not wanted any more is taken off.
SITE, RACK, PROFILE = "site-", "rack-", "profile-"
OUR_TAGS = (SITE, RACK, PROFILE)
STATE = "firstlight-state-"  # the ledger's; not enlist's to set, see statetags.py
_NOT_IN_A_TAG = re.compile(r"[^A-Za-z0-9_.-]+")
_SERVICE_TAG = re.compile(r"service tag ([A-Za-z0-9._-]+)")


@dataclass(frozen=True)
class Desired:
    """A machine as it shall be in MAAS. macs: all known MACs of the host, pxe_mac: that of the NIC that installs.

    pool, zone: None leaves them as they are. tags: besides ``firstlight``, which every machine gets.
    hardware_macs: those of every port that the BMC sees, InfiniBand too; empty when it does not tell.
    """

    name: str
    macs: tuple[str, ...]
    pxe_mac: str
    bmc_address: str
    bmc_username: str
    bmc_password: str = field(repr=False)
    bmc_port: int = 443
    architecture: str = "amd64/generic"
    pool: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    description: str = ""
    service_tag: str = ""
    hardware_macs: tuple[str, ...] = ()

    def all_macs(self) -> list[str]:
        """The MAC that installs first: MAAS takes the first as the boot interface."""
        return list(dict.fromkeys(m.lower() for m in (self.pxe_mac, *self.macs) if m))

    def all_tags(self) -> list[str]:
        return list(dict.fromkeys((FLEET_TAG, *self.tags)))

    def power_address(self) -> str:
        """As MAAS's redfish driver wants it: ip, ip:port or [v6]:port; a URL makes MAAS fail with 500."""
        host = f"[{self.bmc_address}]" if ":" in self.bmc_address else self.bmc_address
        return host if self.bmc_port == 443 else f"{host}:{self.bmc_port}"

    def power(self) -> dict[str, str]:
        return {
            "power_type": "redfish",
            "power_parameters_power_address": self.power_address(),
            "power_parameters_power_user": self.bmc_username,
            "power_parameters_power_pass": self.bmc_password,
        }

    def power_text(self) -> str:
        """For people, without the password."""
        return f"redfish {self.bmc_username}@{self.power_address()}"


def without_shared_macs(desired: Sequence[Desired]) -> list[Desired]:
    """The same without MACs that several hosts have: some USB NICs have one and the same everywhere.

    The MAC that installs stays; where that is shared, the hosts conflict.
    """
    owners = Counter(mac for d in desired for mac in d.all_macs())
    return [replace(d, macs=tuple(m for m in d.all_macs() if owners[m] == 1)) for d in desired]


def site_tag(site: str) -> str:
    """The tag of a site's machines, empty for a site without a name."""
    name = _NOT_IN_A_TAG.sub("-", site).strip("-")
    return SITE + name if name else ""


def state_tag(state: str) -> str:
    """The tag of machines whose hosts are in this state."""
    return STATE + state


def sites_of(machine: Machine) -> list[str]:
    """The site tags that a machine has."""
    return [tag for tag in tags_of(machine) if tag.startswith(SITE)]


def stale_tags(desired: Desired, machine: Machine) -> list[str]:
    """Tags of ours that the machine has from before it moved."""
    tags = tags_of(machine)
    return [t for t in tags if t.startswith(OUR_TAGS) and t not in desired.tags] if FLEET_TAG in tags else []


def describe(rack: str, unit: int, service_tag: str) -> str:
    """The description of a host's machine, for people; the service tag is read back from it."""
    return f"rack {rack} unit {unit}, service tag {service_tag}"


def service_tag_of(machine: Machine) -> str:
    """The service tag of the host that we described the machine as, empty when it is none of ours or has none."""
    found = _SERVICE_TAG.search(without_mark(text_of(machine, "description")))
    return found[1] if found and FLEET_TAG in tags_of(machine) else ""


def description_with_mark(desired: Desired, key: bytes) -> str:
    """The description with the mark of the power settings, which must not change between releases of Firstlight."""
    said = "\0".join(desired.power().values()).encode()
    mark = hmac.new(key, said, hashlib.sha256).hexdigest()[:16]
    return f"{desired.description} [power {mark}]".strip()


def mark_in(description: str) -> str:
    _, found, tail = description.rpartition("[power ")
    return tail[:-1] if found and tail.endswith("]") else ""


def without_mark(description: str) -> str:
    return description.rpartition("[power ")[0].strip() if mark_in(description) else description
