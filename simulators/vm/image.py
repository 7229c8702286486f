"""The image that an installation writes: Debian with its kernel and cloud-init, bootable by BIOS and by UEFI.

Made from the packages of this machine's own apt, and kept in .cache/vm/image-SUM. The partitions are put together in
files: no loop device, no mount, no file system driver is needed. Needs root (mmdebstrap, and the owners of files).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulators.lab_files import LabError, write_json
from simulators.vm import ephemeral, sources

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "vm"
PACKAGES = (
    "linux-image-cloud-amd64", "systemd-sysv", "udev", "dbus", "initramfs-tools", "zstd", "kmod", "openssh-server",
    "cloud-init", "python3", "sudo", "libnss-myhostname", "iproute2", "ca-certificates", "procps", "nvme-cli",
)  # fmt: skip
# The kernel's modules that the way to the root file system needs, and the ephemeral system too.
BOOT_MODULES = ("virtio_pci", "virtio_net", "nvme", "ext4")
# What a test has no use for, and emulation pays for; the timers would start in the middle of one.
IDLE_UNITS = (
    "getty@tty1.service", "serial-getty@ttyS0.service", "nvmf-autoconnect.service", "systemd-udev-settle.service",
    "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service",
)  # fmt: skip
BASE_FILES = {
    "etc/hostname": "localhost\n",
    "etc/machine-id": "",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    # there is no name server in the machine's network; the one of this machine is none of its business
    "etc/resolv.conf": "",
    "etc/fstab": "LABEL=root / ext4 defaults,noatime 0 1\n",
    # an emulated machine on a busy one takes its time
    "etc/systemd/system.conf.d/patience.conf": "[Manager]\nDefaultTimeoutStartSec=900s\n",
}
MIB = 1024 * 1024
SECTOR = 512
CORE_START, ESP_START, ESP_MIB = MIB, 2 * MIB, 64  # where GRUB's core and the EFI partition lie
ROOT_START = ESP_START + ESP_MIB * MIB
GRUB_MODULES = ("part_gpt", "fat", "ext2", "search", "search_label", "search_fs_file", "configfile", "normal", "linux",
                "serial", "terminal", "echo", "test", "chain")  # fmt: skip
GRUB = Path("/usr/lib/grub")
KEEP = 2  # images; the older ones are removed
FRESH_DAYS = 7


@dataclass(frozen=True)
class Image:
    """What was made: the disk's content, compressed, and what the network boots. seconds: that it took, once."""

    folder: Path
    suite: str
    seconds: float

    @property
    def disk(self) -> Path:
        return self.folder / "disk.zst"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.zst"

    @property
    def local_efi(self) -> Path:
        return self.folder / "local.efi"


def build(say: object = None) -> Image:
    """The image of this recipe, made when there is none, or it lacks a week's updates. LabError says what failed."""
    suite, lines = sources.debian()
    files = (Path(__file__), Path(ephemeral.__file__), ephemeral.INIT)
    folder = made_once("image", sum_of(lines, *files), _make, suite, lines, say)
    made = json.loads((folder / "image.json").read_text())
    return Image(folder, made["suite"], made["seconds"])


def made_once(
    kind: str, recipe: str, make: Callable[[Path, str, list[str]], None], suite: str, lines: list[str], say: object
) -> Path:
    """The folder of the image of this kind and recipe; make makes it when there is none, or it is too old."""
    folder = CACHE / f"{kind}-{recipe}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once make one image
        if not _is_fresh(folder):
            if os.geteuid():
                raise LabError("making the image needs root")
            if callable(say):
                say(f"making the {kind} of a {suite} server from this machine's package archive (some minutes)")
            make(folder, suite, lines)
            _forget_old(folder, kind)
    return folder


def _is_fresh(folder: Path) -> bool:
    try:
        return time.time() - (folder / "image.json").stat().st_mtime < FRESH_DAYS * 86400
    except FileNotFoundError:
        return False


def sum_of(lines: list[str], *files: Path) -> str:
    """What an image is made of, as a short sum: the files with its recipe, and the archive."""
    recipe = hashlib.sha256("\n".join(lines).encode())
    for path in files:
        recipe.update(path.read_bytes())
    return recipe.hexdigest()[:16]


def _make(folder: Path, suite: str, lines: list[str]) -> None:
    started = time.monotonic()
    work = CACHE / f"work-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        root = work / "root"
        bootstrap(root, suite, lines, PACKAGES)
        release = kernel_of(root)
        _configure(root, release)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copyfile(root / "boot" / f"vmlinuz-{release}", folder / "vmlinuz")
        ephemeral.build(root, release, BOOT_MODULES, folder / "initrd.zst")
        _local_efi(work, folder / "local.efi")
        assemble(work, root, work / "disk.raw")
        run("zstd", "-q", "-T0", "-6", work / "disk.raw", "-o", folder / "disk.zst")
        made = {
            "suite": suite,
            "kernel": release,
            "bytes": (work / "disk.raw").stat().st_size,
            "packed": (folder / "disk.zst").stat().st_size,
            "seconds": round(time.monotonic() - started, 1),
        }
        write_json(folder / "image.json", made)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def kernel_of(root: Path) -> str:
    """The release of the newest kernel that is installed there."""
    return sorted(path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*"))[-1]


def bootstrap(root: Path, suite: str, lines: list[str], packages: tuple[str, ...], *hooks: str) -> None:
    """Install the packages. The initramfs holds only what this machine's disks need: it is loaded by firmware.

    hooks: shell commands at the end, while apt's lists are still there; $1 is the root.
    """
    modules = "\\n".join(BOOT_MODULES)
    early = (
        'mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"; '
        'printf "MODULES=list\\nCOMPRESS=zstd\\n" > "$1/etc/initramfs-tools/conf.d/firstlight"; '
        f'printf "{modules}\\n" > "$1/usr/share/initramfs-tools/modules.d/firstlight"'
    )
    command = [
        # its mounts of /proc, /sys and /dev are nobody else's, and end with it, however it ends
        "unshare", "--mount", "--propagation", "private",
        "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}",
        "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale")),
        f"--essential-hook={early}", *(f"--customize-hook={hook}" for hook in hooks), suite, str(root), *lines,
    ]  # fmt: skip
    run(*command, seconds=1800)


def _configure(root: Path, release: str) -> None:
    files = BASE_FILES | {
        "etc/systemd/network/20-dhcp.network": "[Match]\nName=e*\n\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\n"
        "LinkLocalAddressing=no\n",
        # the second port has no cable
        "etc/systemd/system/systemd-networkd-wait-online.service.d/any.conf": "[Service]\nExecStart=\n"
        "ExecStart=/lib/systemd/systemd-networkd-wait-online --any\n",
        # systemd-networkd asks by DHCP; the file system keeps the size that the image gives it
        "etc/cloud/cloud.cfg.d/90_firstlight.cfg": "datasource_list: [NoCloud, None]\nnetwork: {config: disabled}\n"
        "growpart: {mode: 'off'}\nresize_rootfs: false\nlocale: false\n",
        "boot/grub/grub.cfg": _grub_menu(release),
    }
    write_files(root, files)
    (root / "boot" / "efi").mkdir(exist_ok=True)
    strip(root)
    run("chroot", root, "systemctl", "--quiet", "enable", "systemd-networkd.service", "ssh.service")
    run("chroot", root, "systemctl", "--quiet", "mask", *IDLE_UNITS)


def write_files(root: Path, files: dict[str, str]) -> None:
    """Files by their names below the root, with their content."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def strip(root: Path) -> None:
    """Remove what no machine shares with another, and what apt fetches anew."""
    for path in [
        *root.glob("etc/ssh/ssh_host_*"),
        *root.glob("var/lib/apt/lists/*_*"),
        *root.glob("var/cache/apt/*.bin"),
    ]:
        path.unlink()


def _grub_menu(release: str) -> str:
    return (
        "serial --unit=0 --speed=115200\nterminal_input serial console\nterminal_output serial console\n"
        "set timeout=0\nmenuentry debian {\n  search --no-floppy --label root --set=root\n"
        f"  linux /boot/vmlinuz-{release} root=LABEL=root ro console=ttyS0,115200 mitigations=off quiet\n"
        f"  initrd /boot/initrd.img-{release}\n}}\n"
    )


def _grub_image(work: Path, form: str, early: str, out: Path, *modules: str) -> None:
    config = work / "early.cfg"
    config.write_text(early)
    run("grub-mkimage", "-O", form, "-c", config, "-p", "/boot/grub", "-o", out, *GRUB_MODULES, *modules)


def _local_efi(work: Path, out: Path) -> None:
    """What the rack gives a UEFI machine that shall boot its disk, as MAAS does: a GRUB that looks for the disk's own.

    It looks on disks only: the network that it was loaded from is not searched.
    """
    early = "search --no-floppy --file /EFI/BOOT/BOOTX64.EFI --set=root\nchainloader /EFI/BOOT/BOOTX64.EFI\nboot\n"
    _grub_image(work, "x86_64-efi", early, out)


def assemble(work: Path, root: Path, disk: Path, spare_mib: int = 96) -> None:
    """The whole disk: GPT, GRUB's core for BIOS, the EFI partition, the root file system with so much room left."""
    used = int(run("du", "-s", "-B", str(MIB), root).split()[0])
    root_mib = used * 11 // 10 + spare_mib  # every MiB is written by an emulated CPU
    with disk.open("wb") as stream:
        stream.truncate(ROOT_START + (root_mib + 2) * MIB)
    run("sgdisk", f"-n1:{CORE_START // SECTOR}:{ESP_START // SECTOR - 1}", "-t1:ef02",
        f"-n2:{ESP_START // SECTOR}:{ROOT_START // SECTOR - 1}", "-t2:ef00", "-c2:ESP",
        f"-n3:{ROOT_START // SECTOR}:+{root_mib}M", "-t3:8300", "-c3:root", disk)  # fmt: skip
    early = "search --no-floppy --label root --set=root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
    efi, core, esp, ext4 = work / "BOOTX64.EFI", work / "core.img", work / "esp.raw", work / "root.raw"
    _grub_image(work, "x86_64-efi", early, efi)
    _grub_image(work, "i386-pc", early, core, "biosdisk")
    for path, mib in ((esp, ESP_MIB), (ext4, root_mib)):
        with path.open("wb") as stream:
            stream.truncate(mib * MIB)
    run("mkfs.vfat", "-n", "ESP", esp)
    run("mmd", "-i", esp, "::EFI", "::EFI/BOOT")
    run("mcopy", "-i", esp, efi, "::EFI/BOOT/BOOTX64.EFI")
    # GRUB 2.06 reads neither of these two features
    run("mkfs.ext4", "-q", "-L", "root", "-O", "^metadata_csum_seed,^orphan_file", "-d", root, ext4)
    for part, mib in ((esp, ESP_START // MIB), (ext4, ROOT_START // MIB)):
        run("dd", f"if={part}", f"of={disk}", "bs=1M", f"seek={mib}", "conv=notrunc,sparse", "status=none")
    _embed(disk, (GRUB / "i386-pc" / "boot.img").read_bytes(), core.read_bytes())


def _embed(disk: Path, boot: bytes, core: bytes) -> None:
    """What grub-bios-setup does, on a file: boot.img into the first sector, core.img into its partition.

    boot.img holds at 0x5c the sector of the core, and at 0x66 a jump that makes it trust the firmware's drive number
    when it is no operation. The core's first sector ends with a list of where its rest lies: sector, count, segment.
    """
    start = CORE_START // SECTOR
    core += bytes(-len(core) % SECTOR)
    if len(core) > ESP_START - CORE_START:
        raise LabError(f"GRUB's core of {len(core)} bytes does not fit into its partition")
    first = bytearray(boot)
    struct.pack_into("<Q", first, 0x5C, start)
    first[0x66:0x68] = b"\x90\x90"
    whole = bytearray(core)
    struct.pack_into("<QHH", whole, SECTOR - 12, start + 1, len(core) // SECTOR - 1, 0x820)
    with disk.open("r+b") as stream:
        stream.write(first[:440])  # behind it lies the partition table
        stream.seek(CORE_START)
        stream.write(whole)


def _forget_old(newest: Path, kind: str) -> None:
    images = sorted(CACHE.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in images[KEEP:]:
        if path != newest:
            shutil.rmtree(path, ignore_errors=True)


def run(*command: str | Path, seconds: float = 300) -> str:
    """Run a program; its output. LabError with its last lines when it fails."""
    words = [str(word) for word in command]
    environment = os.environ | {"LC_ALL": "C.UTF-8", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False, env=environment,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except FileNotFoundError:
        raise LabError(f"{words[0]} is not installed; scripts/system-packages --vm installs it") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{words[0]}: no end after {seconds:.0f} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise LabError(f"{words[0]}: {' | '.join(lines) or f'exit status {done.returncode}'}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(json.dumps({"folder": str(build(print).folder)}))
    except LabError as error:
        sys.exit(f"image: {error}")
