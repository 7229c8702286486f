"""What the machine is made of: its disks, ports and slots, and QEMU's command line for one boot.

Its serial numbers and MACs are those that its BMC shows (simulators.bmc.hardware). Between two boots the drives are
found in another order, as on hardware: never with the OS disk at the same place.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulators import lab_files
from simulators.bmc.hardware import MODEL, Hardware
from simulators.lab_files import Lab

DATA_DRIVES = 6
MEMORY_MIB = 1024
OVMF = Path("/usr/share/OVMF")


@dataclass(frozen=True)
class Drive:
    """One NVMe drive and the file that holds its content."""

    serial: str
    size: int
    path: Path
    is_os: bool


@dataclass(frozen=True)
class Server:
    """One machine of lab.json; folder: where its state and disks are."""

    name: str
    folder: Path
    hardware: Hardware
    settings: dict[str, Any]

    @classmethod
    def of(cls, lab_dir: Path, lab: Lab, name: str) -> Server:
        """The machine of this name; LabError when there is none."""
        entry = lab_files.machine(lab, name)
        hardware = Hardware(int(entry["index"]), str(entry["service_tag"]))
        return cls(name, lab_dir / "machines" / name, hardware, lab.get("vm", {}))

    @property
    def macs(self) -> list[str]:
        """Of its Ethernet ports; the first one has a cable."""
        return [port.mac.lower() for port in self.hardware.nics]

    def drives(self) -> list[Drive]:
        """The OS disk, then the data drives."""
        parts = [self.hardware.os_disks[0], *self.hardware.drives[:DATA_DRIVES]]
        return [Drive(part.serial, part.size, self.folder / f"disk-{part.serial}.raw", not number)
                for number, part in enumerate(parts)]  # fmt: skip

    def make_drives(self) -> None:
        """Sparse files of the drives' real sizes; those that are there stay as they are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for drive in self.drives():
            if not drive.path.exists():
                with drive.path.open("wb") as stream:
                    stream.truncate(drive.size)


def order(server: Server, boot: int) -> list[Drive]:
    """The drives in the order of their slots at this boot, the first one numbered 1; the same seed, the same orders."""
    chosen = random.Random(f"{server.settings.get('seed', 1)}/{server.name}")
    place = -1
    drives = server.drives()
    for _ in range(max(1, boot)):
        while True:
            chosen.shuffle(drives)
            now = next(number for number, drive in enumerate(drives) if drive.is_os)
            if now != place:
                place = now
                break
    return drives


def command(server: Server, boot: int, firmware: str, sources: list[str], accelerator: str) -> list[str]:
    """QEMU's command line. firmware: uefi or bios; sources: "pxe" and "disk" in the order that the BMC wants."""
    folder = server.folder
    index = {source: f",bootindex={number}" for number, source in enumerate(sources, 1)}
    kvm = accelerator == "kvm"
    cpu = server.settings.get("cpu") or ("host" if kvm else "qemu64,-svm")
    iommu = bool(server.settings.get("iommu"))
    words = [
        "qemu-system-x86_64", "-name", server.name, "-nodefaults", "-no-user-config",
        "-display", "none", "-vga", "none",
        "-machine", "q35,kernel-irqchip=split" if iommu else "q35",
        "-accel", "kvm" if kvm else "tcg,thread=multi,tb-size=512",
        "-cpu", cpu, "-smp", "1", "-m", str(server.settings.get("memory", MEMORY_MIB)),
        "-uuid", server.hardware.uuid,
        "-smbios", f"type=1,manufacturer=Dell Inc.,product={MODEL},serial={server.hardware.service_tag}",
        "-serial", f"file:{folder / f'serial-{boot}.log'}",
        # a monitor serves one client at a time, and the first is watched until the end
        "-qmp", f"unix:{folder / 'qmp.sock'},server=on,wait=off",
        "-qmp", f"unix:{folder / 'button.sock'},server=on,wait=off",
        # a reset or a power-off of the guest stops the machine and is told; the BMC decides what comes then
        "-action", "reboot=shutdown,shutdown=pause",
    ]  # fmt: skip
    # first of all devices: it is there when the kernel looks at the ports
    words += ["-device", "intel-iommu,intremap=on,caching-mode=on"] if iommu else []
    words += [word for name, value in server.settings.get("qemu", {}).items() for word in (f"-{name}", str(value))]
    if firmware == "uefi":
        words += [
            "-drive", f"if=pflash,format=raw,readonly=on,file={OVMF / 'OVMF_CODE_4M.fd'}",
            "-drive", f"if=pflash,format=raw,file={folder / 'vars.fd'}",
        ]  # fmt: skip
    slot = 1

    def port(name: str) -> list[str]:
        nonlocal slot
        slot += 1
        return ["-device", f"pcie-root-port,id={name},bus=pcie.0,addr={slot:#x},chassis={slot},slot={slot}"]

    # OVMF has a PXE client of its own; the BIOS uses the one on the card
    rom = ",romfile=" if firmware == "uefi" else ""
    for number, mac in enumerate(server.macs):
        net = f"tap,id=net{number},ifname={server.settings['tap']},script=no,downscript=no" if not number else (
            f"hubport,id=net{number},hubid={number}")  # fmt: skip
        words += ["-netdev", net, *port(f"nicport{number}")]
        boots = index.get("pxe", "") if not number else ""
        here = f",mac={mac},bus=nicport{number}{rom if not number else ',romfile='}{boots}"
        words += ["-device", f"virtio-net-pci,netdev=net{number}{here}"]
    for number, drive in enumerate(order(server, boot)):
        words += [
            "-blockdev", f"driver=file,node-name=file{number},filename={drive.path},cache.no-flush=on,discard=unmap",
            "-blockdev", f"driver=raw,node-name=disk{number},file=file{number},discard=unmap", *port(f"slot{number}"),
            # with ioeventfd, which is for KVM, emulated guests were seen whose reads of a drive never ended
            "-device", f"nvme,id=nvme{number},drive=disk{number},serial={drive.serial},bus=slot{number},ioeventfd=off"
            f"{index.get('disk', '') if drive.is_os else ''}",
        ]  # fmt: skip
    return words


def allocated(path: Path) -> list[tuple[int, int]]:
    """Where a sparse file holds data: (start, end) in bytes, in order."""
    found = []
    with path.open("rb") as stream:
        handle, size, place = stream.fileno(), path.stat().st_size, 0
        while place < size:
            try:
                start = os.lseek(handle, place, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            place = os.lseek(handle, start, os.SEEK_HOLE)
            found.append((start, place))
    return found
