"""ZFS's kernel modules for one kernel of Debian, from the source of its package zfs-dkms.

Built without debugging information, as DKMS would not: a third less to compile. Kept in .cache/vm/zfs-VERSION-KERNEL.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from simulators.lab_files import LabError
from simulators.vm import image

TOOLS = ("gcc", "libc6-dev", "make", "gawk")
HOURS = 3  # a quarter of an hour of one idle processor; most of the time it has none
_SCRIPT = """set -e
export KCFLAGS=-g0
cd /usr/src/zfs-[0-9]*/
./configure --disable-dependency-tracking --with-config=kernel --with-linux=/lib/modules/{release}/source \
--with-linux-obj=/lib/modules/{release}/build
make -j{jobs}
"""


def build(package: Path, release: str, suite: str, lines: list[str]) -> Path:
    """The folder with the .ko files, made once. package: zfs-dkms; release: of the kernel; lines: of sources.list."""
    version = re.match(r"zfs-dkms_([^_]+)_", package.name)
    if not version:
        raise LabError(f"{package.name} is no package zfs-dkms")
    folder = image.CACHE / f"zfs-{version.group(1)}-{release}"
    if folder.exists():
        return folder
    work = image.CACHE / f"zfs-work-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        image.bootstrap(work / "root", suite, lines, (f"linux-headers-{release}", *TOOLS))
        image.run("dpkg-deb", "-x", package, work / "root")
        script = _SCRIPT.format(release=release, jobs=len(os.sched_getaffinity(0)))
        (work / "root" / "build.sh").write_text(script)
        # its /proc and its processes are nobody else's, and end with it
        image.run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c",
                  'mount -t proc proc "$0/proc" && exec chroot "$0" sh /build.sh', work / "root",
                  seconds=HOURS * 3600)  # fmt: skip
        keep(work / "root", work / "modules")
        (work / "modules").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def keep(root: Path, folder: Path) -> None:
    """Copy the modules that were built below the root; LabError when one is missing."""
    folder.mkdir()
    for path in root.glob("usr/src/zfs-*/module/**/*.ko"):
        shutil.copy(path, folder)
    if not {"zfs.ko", "spl.ko"} <= {path.name for path in folder.iterdir()}:
        raise LabError("zfs-dkms was built, and yet there is no zfs.ko")


def package(modules: Path, release: str, archive: Path) -> None:
    """Put them into a package that stands in for zfs-dkms, as a site that builds its modules once would have it."""
    tree = archive / "tree"
    target = tree / "lib" / "modules" / release / "updates"
    target.mkdir(parents=True)
    for path in modules.glob("*.ko"):
        shutil.copy(path, target)
    image.write_files(
        tree / "DEBIAN",
        {
            "control": f"Package: zfs-modules-{release}\nVersion: 1\nArchitecture: amd64\nProvides: zfs-modules\n"
            "Maintainer: Firstlight's lab <root@localhost>\nDescription: ZFS's modules for one kernel\n",
            "postinst": f"#!/bin/sh\nexec depmod {release}\n",
        },
    )
    (tree / "DEBIAN" / "postinst").chmod(0o755)
    image.run("dpkg-deb", "--root-owner-group", "-Zxz", "-b", tree, archive)
    shutil.rmtree(tree)
