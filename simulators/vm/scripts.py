"""What the rack gives a machine that boots from the network: scripts of iPXE."""

from __future__ import annotations

TASKS = {"enlist": "commission", "commission": "commission", "install": "install"}
MAC = "${netX/mac:hexhyp}"


def first(rack: str) -> str:
    """By TFTP, the same for every machine: asks the rack by HTTP, with the machine's MAC and serial number."""
    return f"#!ipxe\nchain --replace {rack}/ipxe/{MAC}?serial=${{serial:uristring}}&platform=${{platform}}\n"


def answer(boot: str, rack: str, platform: str, disks: int) -> str:
    """What MAAS said, as a script. boot: see /pxe of the MAAS simulator; disks: how many the machine has.

    A UEFI firmware that gets "exit" from iPXE shows its boot menu; MAAS gives it a GRUB that starts the disk's own.
    """
    if boot in TASKS:
        return (
            "#!ipxe\n"
            f"kernel {rack}/vmlinuz initrd=initrd console=ttyS0,115200 mitigations=off quiet panic=10"
            f" rack={rack} task={TASKS[boot]} disks={disks} BOOTIF=01-{MAC}\n"
            f"initrd --name initrd {rack}/initrd.zst\nboot\n"
        )
    if boot == "local" and platform == "efi":
        return f"#!ipxe\nchain {rack}/local.efi\n"
    return "#!ipxe\nexit 1\n"
