"""What is built into one simulated server, worked out from its number alone.

The same number always gives the same serial numbers and MAC addresses, and no two machines share one.
The sizes and slot names are those of a Dell PowerEdge XE9680.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

MODEL = "PowerEdge XE9680"
BIOS_VERSION = "2.5.4"
BMC_VERSION = "7.10.50.00"
BOOT_NIC = "NIC.Embedded.1-1-1"
SECOND_NIC = "NIC.Embedded.2-1-1"
ENCLOSURE = "Enclosure.Internal.0-1"
BOSS = "BOSS.SL.12-1"
GPU_SLOTS = tuple(range(21, 29))  # GPU number 0 sits in slot 21
HCA_SLOTS = tuple(range(31, 39))
DRIVES = 8  # bays 0 to 7
PSUS = 6  # numbered from 1
FANS = 16
DIMMS = tuple(f"{bank}{number}" for bank in "AB" for number in range(1, 17))
DIMM_GIB = 64

# What can be replaced: its name in serial numbers, and the faults (with the parameter that names the part) that go
# with the old one.
REPLACEABLE: dict[str, dict[str, tuple[str, int]]] = {
    **{f"gpu{n}": dict.fromkeys(
        ("gpu_missing", "gpu_failed", "gpu_lost", "gpu_ecc", "gpu_xid", "nvlink_down", "nvlink_errors"), ("gpu", n)
    ) for n in range(len(GPU_SLOTS))},
    **{f"InfiniBand.Slot.{slot}": dict.fromkeys(("hca_missing", "hca_failed", "hca_no_link"), ("hca", n))
       for n, slot in enumerate(HCA_SLOTS)},
    **{f"nvme{n}": dict.fromkeys(("nvme_missing", "nvme_failed", "nvme_worn"), ("drive", n)) for n in range(DRIVES)},
    **{f"psu{n}": dict.fromkeys(("psu_missing", "psu_failed"), ("psu", n)) for n in range(1, PSUS + 1)},
    **{f"dimm{slot}": dict.fromkeys(("dimm_failed", "dimm_missing"), ("dimm", n)) for n, slot in enumerate(DIMMS, 1)},
    "nic1": {}, "nic2": {}, "boss0": {}, "boss1": {}, "osdisk": {}, "board": {}, "bmc": {},
}  # fmt: skip
# Several parts at once. Of a mirror one drive may be another one, and the other has all that was on it.
PARTS_OF = {"osdisk": ("boss0", "boss1")}
FACTORY_USER = "root"

_SERIAL_LETTERS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True)
class Gpu:
    """One GPU: number as nvidia-smi counts it, Redfish id, serial number, UUID."""

    number: int
    fqdd: str
    serial: str
    uuid: str


@dataclass(frozen=True)
class Port:
    """One network port: function id, port id, MAC address in upper case, and what iDRAC calls it."""

    fqdd: str
    port: str
    mac: str
    description: str


@dataclass(frozen=True)
class Disk:
    """One drive: Redfish id, bay or direct slot number, serial number, model, size in bytes."""

    fqdd: str
    number: int
    serial: str
    model: str
    size: int


@dataclass(frozen=True)
class Hardware:
    """All parts of the machine with this number (1 and up) and service tag.

    replaced: how often parts were replaced, by their names (REPLACEABLE); a part that was has another serial number.
    """

    index: int
    service_tag: str
    replaced: Mapping[str, int] = field(default_factory=dict, hash=False)
    board_serial: str = field(init=False)
    uuid: str = field(init=False)
    bmc_mac: str = field(init=False)
    gpus: tuple[Gpu, ...] = field(init=False)
    nics: tuple[Port, ...] = field(init=False)
    hcas: tuple[Port, ...] = field(init=False)
    drives: tuple[Disk, ...] = field(init=False)
    os_disks: tuple[Disk, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Work out every part."""
        put = object.__setattr__  # the dataclass is frozen once it is made
        put(self, "board_serial", f"CNFL{self.serial('board', 10)}")
        digest = hashlib.sha256(f"uuid/{self.index}".encode()).hexdigest()
        put(self, "uuid", f"4c4c4544-00{digest[:2]}-{digest[2:6]}-80{digest[6:8]}-{digest[8:20]}")
        # iDRAC writes its own MAC in lower case and the host's in upper case.
        put(self, "bmc_mac", self.mac("bmc", mac("B07B25", self.index * 2)).lower())
        put(
            self,
            "gpus",
            tuple(
                Gpu(number, f"Video.Slot.{slot}-1", f"165{self.digits(f'gpu{number}', 10)}", self._gpu_uuid(number))
                for number, slot in enumerate(GPU_SLOTS)
            ),
        )
        put(
            self,
            "nics",
            tuple(
                Port(
                    f"NIC.Embedded.{number}-1-1",
                    f"NIC.Embedded.{number}-1",
                    self.mac(f"nic{number}", boot_mac(self.index, number)),
                    f"Embedded NIC {number} Port 1 Partition 1",
                )
                for number in (1, 2)
            ),
        )
        put(
            self,
            "hcas",
            tuple(
                Port(
                    f"InfiniBand.Slot.{slot}-1",
                    f"InfiniBand.Slot.{slot}-1",
                    self.mac(f"InfiniBand.Slot.{slot}", mac("B83FD2", self.index * 16 + number)),
                    f"InfiniBand in Slot {slot} Port 1",
                )
                for number, slot in enumerate(HCA_SLOTS)
            ),
        )
        put(
            self,
            "drives",
            tuple(
                Disk(
                    f"Disk.Bay.{bay}:{ENCLOSURE}",
                    bay,
                    self.serial(f"nvme{bay}", 12),
                    "Dell Ent NVMe CM7 U.2 RI 3.84TB",
                    3_840_755_982_336,
                )
                for bay in range(DRIVES)
            ),
        )
        put(
            self,
            "os_disks",
            tuple(
                Disk(
                    f"Disk.Direct.{number}-{number}:{BOSS}",
                    number,
                    self.serial(f"boss{number}", 12),
                    "Dell BOSS-N1 M.2 480GB",
                    480_103_981_056,
                )
                for number in (0, 1)
            ),
        )

    @property
    def os_volume(self) -> str:
        """The boot card's id of its mirror: another one where all its drives were replaced."""
        return f"Disk.Virtual.{239 - self.replaced.get('osdisk', 0) % 240}:{BOSS}"

    def bmc_login(self, user: str, password: str) -> tuple[str, str]:
        """User and password of its BMC: these, which the lab gave it, or those of the factory where it was replaced."""
        return (FACTORY_USER, self.serial("bmc", 14)) if self.replaced.get("bmc") else (user, password)

    def serial(self, part: str, length: int) -> str:
        """Return a serial number of this machine's part: letters and digits, the machine's own number at its end."""
        digest = hashlib.sha256(self._identity(part).encode()).digest()
        head = "".join(_SERIAL_LETTERS[byte % len(_SERIAL_LETTERS)] for byte in digest[: length - 4])
        return head + _in_letters(self.index, 4)

    def digits(self, part: str, length: int) -> str:
        """Return a serial number made of digits only."""
        digest = hashlib.sha256(self._identity(part).encode()).digest()
        return "".join(str(byte % 10) for byte in digest[: length - 5]) + f"{self.index:05d}"

    def mac(self, part: str, first: str) -> str:
        """Return a port's MAC: the one that it came with, or that of the part in its place."""
        times = self.replaced.get(part, 0)
        return f"{first[:2]}:{0xA0 + times % 80:02X}{first[5:]}" if times else first

    def _identity(self, part: str) -> str:
        times = self.replaced.get(part, 0)
        return f"{part}/{self.index}/{times}" if times else f"{part}/{self.index}"

    def _gpu_uuid(self, number: int) -> str:
        again = self.replaced.get(f"gpu{number}", 0)
        identity = f"gpu/{self.index}/{number}/{again}" if again else f"gpu/{self.index}/{number}"
        digest = hashlib.sha256(identity.encode()).hexdigest()
        return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def mac(vendor: str, number: int) -> str:
    """Return a MAC address in upper case: three octets of a vendor, and the number."""
    digits = f"{vendor}{number:06X}"
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))


def boot_mac(index: int, number: int = 1) -> str:
    """Return the MAC address of Ethernet port `number` of the machine with this index."""
    return mac("70B5E8", index * 4 + number - 1)


def _in_letters(number: int, length: int) -> str:
    letters = ""
    for _ in range(length):
        number, rest = divmod(number, len(_SERIAL_LETTERS))
        letters = _SERIAL_LETTERS[rest] + letters
    return letters
