"""The small system that the network boots: it commissions a server, or writes an image to its disk.

A kernel of the image, and an initrd of busybox, zstd and the kernel's modules with init.sh in it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from simulators.lab_files import LabError

INIT = Path(__file__).with_name("init.sh")
BUSYBOX = Path("/bin/busybox")
FOLDERS = ("bin", "dev", "proc", "sys", "tmp", "etc", "mnt", "lib/modules", "root")


def build(root: Path, release: str, modules: tuple[str, ...], out: Path) -> None:
    """Make the initrd. root: a Debian with the kernel of this release; modules: by name, their needs come with them."""
    with tempfile.TemporaryDirectory(prefix="initrd-", dir=out.parent) as name:
        tree = Path(name) / "tree"
        for folder in FOLDERS:
            (tree / folder).mkdir(parents=True)
        if b"=>" in _run("ldd", BUSYBOX, check=False):
            raise LabError(f"{BUSYBOX} is not static; the package busybox-static is wanted")
        shutil.copy(BUSYBOX, tree / "bin" / "busybox")
        shutil.copy(INIT, tree / "init")
        (tree / "init").chmod(0o755)
        _program(Path(shutil.which("zstd") or "/usr/bin/zstd"), tree)
        _modules(root, release, modules, tree)
        files = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*"))).encode()
        archive = _run("cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", stdin=files, cwd=tree)
        out.write_bytes(_run("zstd", "-q", "-10", stdin=archive))


def _program(path: Path, tree: Path) -> None:
    """A program of this machine with the libraries that it names."""
    shutil.copy(path, tree / "bin" / path.name)
    for library in re.findall(r"(/\S+) \(0x", _run("ldd", path).decode()):
        target = tree / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def _modules(root: Path, release: str, modules: tuple[str, ...], tree: Path) -> None:
    folder = tree / "lib" / "modules" / release
    folder.mkdir()
    for name in modules:
        shown = _run("chroot", root, "modprobe", "-S", release, "--show-depends", name).decode()
        for path in re.findall(r"^insmod /(\S+)", shown, re.M):
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, target)
    for part in ("modules.order", "modules.builtin"):
        shutil.copy(root / "lib" / "modules" / release / part, folder / part)
    _run(BUSYBOX, "depmod", "-b", tree, release)


def _run(*command: str | Path, stdin: bytes = b"", cwd: Path | None = None, check: bool = True) -> bytes:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, cwd=cwd, timeout=120, check=False)
    except FileNotFoundError:
        raise LabError(f"{words[0]} is not installed; scripts/system-packages --vm installs it") from None
    if check and done.returncode:
        raise LabError(f"{words[0]}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout
