"""nvidia-peermem is built with what the driver's build finds of OFED, so OFED comes first, and what does not fit it is
found (roles/gpu_rdma)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "roles/gpu_rdma/files/stale-peermem"
SYMBOL = "ib_register_peer_memory_client"


def test_ofed_is_installed_before_the_driver():
    play = yaml.safe_load((ROOT / "playbooks/configure.yml").read_text())[0]
    included = [
        (n, t["ansible.builtin.include_role"], t)
        for n, t in enumerate(play["tasks"])
        if "ansible.builtin.include_role" in t
    ]
    driver = next(n for n, role, _ in included if role["name"] == "gpu_driver")
    at, role, task = next(found for found in included if found[1]["name"] == "gpu_rdma")
    assert at < driver
    assert role["tasks_from"] == "install.yml"
    assert "gpu_rdma_driver | default('inbox') == 'doca'" in task["when"]
    assert task["tags"] == ["gpu_rdma", "gpu_rdma_install"]
    assert any(n > driver and role == "gpu_rdma" for n, role in ((n, role["name"]) for n, role, _ in included))


def lines(tmp_path: Path, status: str, built: str | None, symvers: str | None, where: str = "default") -> list[str]:
    """What the script says of a host with this dkms status, of a module and of OFED with these symbols."""
    kernel = "6.8.0-49-generic"
    for name, text in {"dkms": f"cat <<'END'\n{status}\nEND", "modprobe": 'cat "$2"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    if built is not None:
        module = tmp_path / "lib/modules" / kernel / "updates/dkms/nvidia-peermem.ko.zst"
        module.parent.mkdir(parents=True)
        module.write_text(built)
    if symvers is not None:
        list_of_symbols = tmp_path / "usr/src/ofa_kernel" / where / "Module.symvers"
        list_of_symbols.parent.mkdir(parents=True)
        list_of_symbols.write_text(symvers)
    text = SCRIPT.read_text()
    for folder in ("/lib/modules", "/usr/src", "/var/lib/dkms"):
        text = text.replace(folder, f"{tmp_path}{folder}")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


THREE = "nvidia/580.95.05, 6.8.0-49-generic, x86_64: installed (WARNING! Diff between built and installed module!)"
TWO = "nvidia, 580.95.05, 6.8.0-49-generic, x86_64: installed"
OFED = f"0x0badcafe\trdma_bind_addr\tx\tEXPORT_SYMBOL\n0x0c0ffee0\t{SYMBOL}\tib_core\tEXPORT_SYMBOL\n"
FITS = f"0x11111111\tnvidia_p2p_get_pages\n0x0c0ffee0\t{SYMBOL}\n"
STALE = ["nvidia/580.95.05 6.8.0-49-generic"]


@pytest.mark.parametrize(
    ("status", "built", "symvers", "said"),
    [
        (THREE, "0x11111111\tnvidia_p2p_get_pages\n", OFED, STALE),  # built before OFED was there
        (TWO, "0x11111111\tnvidia_p2p_get_pages\n", OFED, STALE),
        (THREE, FITS.replace("c0ffee0", "c0ffee1"), OFED, STALE),  # built for another OFED
        (THREE, FITS, OFED, []),
        (THREE, "0x11111111\tx\n", None, []),  # no OFED
        (THREE, "0x11111111\tx\n", "0x0badcafe\trdma_bind_addr\tx\n", []),  # one without what it registers with
        (THREE, None, OFED, []),  # the driver has no such module
        (THREE, "", OFED, []),  # a kernel without checksums
        ("nvidia/580.95.05, 6.8.0-49-generic, x86_64: built", "0x1\tx\n", OFED, []),
        ("nvidia/580.95.05: added", "0x1\tx\n", OFED, []),
        ("zfs/2.2.2, 6.8.0-49-generic, x86_64: installed", "0x1\tx\n", OFED, []),
        ("", None, None, []),
    ],
)
def test_which_builds_do_not_fit_ofed(tmp_path, status, built, symvers, said):
    assert lines(tmp_path, status, built, symvers) == said


def test_ofed_s_symbols_of_the_very_kernel_go_before_those_of_any(tmp_path):
    (tmp_path / "usr/src/ofa_kernel/default").mkdir(parents=True)
    (tmp_path / "usr/src/ofa_kernel/default/Module.symvers").write_text(OFED.replace("c0ffee0", "c0ffee9"))
    assert lines(tmp_path, THREE, FITS, OFED, where="6.8.0-49-generic") == []
