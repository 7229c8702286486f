"""The disk of the machine that roles run on: Debian with its full kernel, ZFS's modules, SSH, and little else.

The full kernel has ACS, P-states and hotplug, which the cloud kernel lacks. What roles install is not installed: the
packages lie beside the image, as an archive that the machine's apt is pointed at. The disk is made as in image.py.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from simulators.lab_files import write_json
from simulators.vm import image, sources, zfs_modules
from simulators.vm.image import run

PACKAGES = (
    "linux-image-amd64", "systemd-sysv", "udev", "dbus", "initramfs-tools", "zstd", "kmod", "openssh-server", "python3",
    "python3-apt", "sudo", "libnss-myhostname", "iproute2", "procps", "fdisk",
)  # fmt: skip
INSTALLED_BY_ROLES = ("chrony", "pciutils", "zfsutils-linux", "zfs-zed")
# what a test has no use for, and emulation pays for
IDLE_UNITS = (
    "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-udev-settle.service", "apt-daily.timer",
    "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service", "dpkg-db-backup.timer", "fstrim.timer",
)  # fmt: skip
SPARE_MIB = 700  # for what the roles install and the test writes
USER = "firstlight"
ADDRESS, GATEWAY, ARCHIVE_PORT = "10.77.0.11", "10.77.0.1", 8080
# P-states on a port that nothing answers at: acpi-cpufreq takes what it wrote for what is
P_STATES_MHZ = (3800, 2100, 800)
_ROWS = ",\n".join(
    f"      Package () {{ {mhz}, {mhz * 90}, 10, 10, {number}, {0xFF - number} }}"
    for number, mhz in enumerate(P_STATES_MHZ)
)
SSDT = f"""DefinitionBlock ("", "SSDT", 2, "FLIGHT", "PSTATES", 1)
{{
  External (\\_SB.CPUS.C000, DeviceObj)
  Scope (\\_SB.CPUS.C000)
  {{
    Name (_PCT, Package () {{
      ResourceTemplate () {{ Register (SystemIO, 8, 0, 0x700) }},
      ResourceTemplate () {{ Register (SystemIO, 8, 0, 0x700) }} }})
    Name (_PSS, Package () {{
{_ROWS} }})
    Method (_PPC) {{ Return (0) }}
  }}
}}
"""


@dataclass(frozen=True)
class RolesImage:
    """What was made. suite: of Debian; kernel: its release; seconds: that it took, once."""

    folder: Path
    suite: str
    kernel: str
    seconds: float

    @property
    def disk(self) -> Path:
        """The OS disk's content, a sparse file."""
        return self.folder / "disk.raw"

    @property
    def vmlinuz(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    @property
    def p_states(self) -> Path:
        """An ACPI table."""
        return self.folder / "ssdt.aml"

    @property
    def archive(self) -> Path:
        """A folder with packages and their index."""
        return self.folder / "archive"

    @property
    def key(self) -> Path:
        """The private SSH key of USER, who may become root."""
        return self.folder / "id_ed25519"

    @property
    def host_key(self) -> str:
        """The public SSH key of the host."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])


def build(say: object = None) -> RolesImage:
    """The image of this recipe, made when there is none or it is a week old. LabError says what failed."""
    suite, lines = sources.debian()
    files = [Path(module.__file__) for module in (image, zfs_modules) if module.__file__]
    folder = image.made_once("roles-image", image.sum_of(lines, Path(__file__), *files), _make, suite, lines, say)
    made = json.loads((folder / "image.json").read_text())
    return RolesImage(folder, made["suite"], made["kernel"], made["seconds"])


def _make(folder: Path, suite: str, lines: list[str]) -> None:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    work = folder / "work"
    work.mkdir()
    root = work / "root"
    # Debian has ZFS in contrib, because of its licence
    lines = [f"{line} contrib" for line in lines]
    # zfs-zed wants modules too, and would bring a compiler for zfs-dkms
    fetch = (
        'chroot "$1" sh -ec "apt-get clean; apt-get -q -y install --no-install-recommends --download-only '
        f"{' '.join(INSTALLED_BY_ROLES[:-1])}; mkdir /archive; cp /var/cache/apt/archives/*.deb /archive; "
        f'cd /archive; apt-get -q download {INSTALLED_BY_ROLES[-1]} zfs-dkms"'
    )
    image.bootstrap(root, suite, lines, PACKAGES, fetch)
    release = image.kernel_of(root)
    (root / "archive").rename(folder / "archive")
    source = next((folder / "archive").glob("zfs-dkms_*.deb"))
    modules = zfs_modules.build(source, release, suite, lines)
    source.unlink()
    zfs_modules.package(modules, release, folder / "archive")
    _keys(folder)
    _configure(root, folder)
    (folder / "archive" / "Packages").write_text(index((folder / "archive").glob("*.deb")))
    shutil.copyfile(root / "boot" / f"vmlinuz-{release}", folder / "vmlinuz")
    shutil.copyfile(root / "boot" / f"initrd.img-{release}", folder / "initrd.img")
    (folder / "ssdt.asl").write_text(SSDT)
    run("iasl", "-p", folder / "ssdt", folder / "ssdt.asl")
    image.assemble(work, root, folder / "disk.raw", SPARE_MIB)
    shutil.rmtree(work)
    seconds = round(time.monotonic() - started, 1)
    write_json(folder / "image.json", {"suite": suite, "kernel": release, "seconds": seconds})


def _keys(folder: Path) -> None:
    for name in ("id_ed25519", "host_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name)


def _configure(root: Path, folder: Path) -> None:
    image.strip(root)
    shutil.rmtree(root / "etc" / "apt" / "sources.list.d", ignore_errors=True)
    files = image.BASE_FILES | {
        "etc/apt/sources.list": f"deb [trusted=yes] http://{GATEWAY}:{ARCHIVE_PORT}/ ./\n",
        "etc/apt/apt.conf.d/plain": 'Acquire::Languages "none";\n',
        "etc/systemd/network/20-lan.network": f"[Match]\nName=enp1s0\n\n[Network]\nAddress={ADDRESS}/24\n"
        "IPv6AcceptRA=no\n",
        f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL) NOPASSWD: ALL\n",
        f"home/{USER}/.ssh/authorized_keys": (folder / "id_ed25519.pub").read_text(),
        "etc/ssh/ssh_host_ed25519_key": (folder / "host_key").read_text(),
        "etc/ssh/ssh_host_ed25519_key.pub": (folder / "host_key.pub").read_text(),
        "etc/ssh/sshd_config.d/lab.conf": "UseDNS no\nGSSAPIAuthentication no\n",
    }
    image.write_files(root, files)
    (root / "etc/ssh/ssh_host_ed25519_key").chmod(0o600)
    run("chroot", root, "useradd", "--no-create-home", "--shell", "/bin/bash", USER)
    run("chroot", root, "chown", "-R", f"{USER}:", f"/home/{USER}")
    run("chroot", root, "systemctl", "--quiet", "enable", "systemd-networkd.service", "ssh.service")
    run("chroot", root, "systemctl", "--quiet", "mask", *IDLE_UNITS)


def index(packages: Iterable[Path]) -> str:
    """What apt calls Packages: of each package what it says of itself, and how to know the file."""
    parts = []
    for path in sorted(packages):
        content = path.read_bytes()
        said = run("dpkg-deb", "-f", path).strip()
        digest = hashlib.sha256(content).hexdigest()
        parts.append(f"{said}\nFilename: ./{path.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    return "\n".join(parts)


def release_file(packages: str, now: float, days: float = 1) -> str:
    """What apt calls Release: when the index was made, and until when it holds; apt refuses it outside of that."""
    content = packages.encode()
    dates = f"Date: {formatdate(now, usegmt=True)}\nValid-Until: {formatdate(now + days * 86400, usegmt=True)}\n"
    return f"Suite: lab\n{dates}SHA256:\n {hashlib.sha256(content).hexdigest()} {len(content)} Packages\n"
