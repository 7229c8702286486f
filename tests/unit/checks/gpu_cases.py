"""Captured outputs of a host's GPU software, and what the checks gpu_driver, gpu_rdma and gpu_metrics say of them."""

from __future__ import annotations

import json
from typing import Any

KERNEL, NEWER = "6.1.0-40-amd64", "6.1.0-41-amd64"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)  Tue Sep 23\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
PACKAGES = """installed|nvidia-open|580.95.05-1
installed|nvidia-kernel-open-dkms|580.95.05-1
installed|libnvidia-ml1|580.95.05-1
installed|nvidia-fabricmanager|580.95.05-1
installed|libnvidia-nscq|580.95.05-1
installed|nvidia-persistenced|580.95.05-1
installed|nvidia-container-toolkit|1.18.0-1
config-files|nvidia-kernel-dkms|535.309.01-1
not-installed|libcuda1|
"""
UBUNTU = """installed|nvidia-headless-580-server-open|580.95.05-0ubuntu0.24.04.1
installed|nvidia-dkms-580-server-open|580.95.05-0ubuntu0.24.04.1
installed|libnvidia-compute-580-server|580.95.05-0ubuntu0.24.04.1
"""
LISTED = (
    f"/boot/vmlinuz-{KERNEL}\n/boot/vmlinuz-{NEWER}\n/boot/vmlinuz-6.1.0-9-amd64\n"
    f"/lib/modules/{KERNEL}/build/Makefile\n/lib/modules/{NEWER}/build/Makefile\n"
)
DKMS = (
    f"nvidia/580.95.05, {KERNEL}, x86_64: installed\nnvidia/580.95.05, {NEWER}, x86_64: installed\n"
    f"zfs/2.1.11, {KERNEL}, x86_64: installed\n"
)
OLD_DKMS = f"nvidia, 580.95.05, {KERNEL}, x86_64: installed\nnvidia, 580.95.05, {NEWER}, x86_64: installed\n"
MODINFO = (
    "filename:       /lib/modules/{0}/updates/dkms/nvidia.ko\nversion:        580.95.05\nlicense:        Dual MIT/GPL\n"
)
SIGNED = MODINFO.format(KERNEL) + "signer:         DKMS module signing key\n"
UNSIGNED = MODINFO.format(KERNEL)
SMI = "index, name, uuid, pci.bus_id, driver_version\n0, NVIDIA H100 80GB HBM3, GPU-1, 00000000:19:00.0, 580.95.05\n"
SMI_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105.08\n"
ENROLLED = "/var/lib/dkms/mok.pub is already enrolled\n"
NOT_ENROLLED = "/var/lib/dkms/mok.pub is not enrolled\n"


def driver_files(**more: str) -> str:
    """What read_files prints. loaded, nvrm, nouveau, secure_boot: contents; empty ones are not there."""
    given = {"loaded": "580.95.05\n", "nvrm": OPEN, **more}
    paths = {
        "loaded": "/sys/module/nvidia/version",
        "nvrm": "/proc/driver/nvidia/version",
        "nouveau": "/sys/module/nouveau/initstate",
        "secure_boot": "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    }
    files = {"/proc/sys/kernel/osrelease": f"{KERNEL}\n"}
    files.update({paths[name]: text for name, text in given.items() if text})
    return json.dumps({"files": files, "errors": {}})


DRIVER: dict[str, str] = {
    "packages": PACKAGES,
    "files": driver_files(),
    "kernels": LISTED,
    "dkms": DKMS,
    "module": SIGNED,
    "key": "",
    "container": "none\n",
    "nvidia_smi": SMI,
}
ABSENT = {"loaded": "", "nvrm": ""}
SECURE = {"secure_boot": "\x06\x00\x00\x00\x01"}
GPUS: dict[str, Any] = {"count": 8, "model": "H100", "kernel_module": "open", "nvswitch": True}
PLAIN: dict[str, Any] = {"count": 8, "model": "H100", "kernel_module": "open"}
FAIL = "fail"

# name, what differs of DRIVER, want, gpus of the profile, expect
DRIVER_CASES: list[tuple[str, dict[str, Any], list[tuple[str, str, str, str]], dict[str, Any], dict[str, Any]]] = [
    ("all well", {}, [("ok", "gpu_driver", "", "none")], GPUS, {}),
    ("dkms 2.x", {"dkms": OLD_DKMS}, [("ok", "gpu_driver", "", "none")], GPUS, {}),
    ("Ubuntu's packages", {"packages": UBUNTU}, [("ok", "gpu_driver", "", "none")], PLAIN, {}),
    ("Secure Boot, signed", {"files": driver_files(**SECURE)}, [("ok", "gpu_driver", "", "none")], GPUS, {}),
    (
        "modules by the distribution",
        {"packages": UBUNTU + "installed|linux-modules-nvidia-580-server-open-generic|6.8\n", "dkms": ""},
        [("ok", "gpu_driver", "", "none")],
        PLAIN,
        {},
    ),
    (
        "nothing there",
        {"packages": "not-installed|libcuda1|\n"},
        [(FAIL, "driver.not_installed", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "dpkg stopped half way",
        {"packages": PACKAGES + "half-configured|nvidia-driver|580.95.05-1\n"},
        [(FAIL, "driver.half_installed", "nvidia-driver", "escalate")],
        GPUS,
        {},
    ),
    (
        "fabric manager of another version",
        {"packages": PACKAGES.replace("fabricmanager|580.95.05", "fabricmanager|580.105.08")},
        [(FAIL, "driver.split_versions", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "no fabric manager",
        {"packages": PACKAGES.replace("nvidia-fabricmanager", "nvidia-settings")},
        [(FAIL, "driver.no_fabric_manager", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "not built for the newest kernel",
        {"dkms": f"nvidia/580.95.05, {KERNEL}, x86_64: installed\nnvidia/580.95.05, {NEWER}, x86_64: built\n"},
        [(FAIL, "driver.not_built", NEWER, "escalate")],
        GPUS,
        {},
    ),
    (
        "only added",
        {"dkms": "nvidia/580.95.05: added\n"},
        [(FAIL, "driver.not_built", KERNEL, "escalate"), (FAIL, "driver.not_built", NEWER, "escalate")],
        GPUS,
        {},
    ),
    ("no dkms", {"dkms": "no_tool"}, [(FAIL, "driver.not_built", "", "escalate")], GPUS, {}),
    ("dkms hangs", {"dkms": "timed_out"}, [("unknown", "gpu_driver.timed_out", "", "retry")], GPUS, {}),
    (
        "no headers",
        {
            "dkms": f"nvidia/580.95.05, {KERNEL}, x86_64: installed\n",
            "kernels": LISTED.replace(f"{NEWER}/build", "x/build"),
        },
        [(FAIL, "driver.no_headers", NEWER, "escalate")],
        GPUS,
        {},
    ),
    (
        "an older build is left",
        {"dkms": DKMS.replace(f"580.95.05, {NEWER}", f"570.86.15, {NEWER}")},
        [(FAIL, "driver.other_build", NEWER, "escalate")],
        GPUS,
        {},
    ),
    (
        "another module lies in its place",
        {
            "dkms": DKMS.replace(
                "installed\nnvidia", "installed (WARNING! Diff between built and installed module!)\nnvidia"
            )
        },
        [(FAIL, "driver.other_build", KERNEL, "escalate")],
        GPUS,
        {},
    ),
    (
        "nouveau",
        {"files": driver_files(nouveau="live\n", **ABSENT)},
        [(FAIL, "driver.nouveau", "", "reboot")],
        GPUS,
        {},
    ),
    ("not loaded", {"files": driver_files(**ABSENT)}, [(FAIL, "driver.not_loaded", "", "reboot")], GPUS, {}),
    (
        "not loaded, a reboot is due",
        {"files": driver_files(**ABSENT)},
        [("warn", "driver.not_loaded", "", "reboot")],
        GPUS,
        {"reboot_due": True},
    ),
    (
        "an older one is loaded",
        {"files": driver_files(loaded="570.86.15\n")},
        [(FAIL, "driver.mismatch", "", "reboot")],
        GPUS,
        {},
    ),
    ("library", {"nvidia_smi": SMI_MISMATCH}, [(FAIL, "driver.mismatch", "", "reboot")], GPUS, {}),
    (
        "only NVRM tells the version",
        {"files": driver_files(loaded="", nvrm=OPEN.replace("580.95.05", "570.86.15"))},
        [(FAIL, "driver.mismatch", "", "reboot")],
        GPUS,
        {},
    ),
    (
        "the other kernel module",
        {"files": driver_files(nvrm=PROPRIETARY)},
        [(FAIL, "driver.wrong_flavour", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "Secure Boot, no signature",
        {"files": driver_files(**ABSENT, **SECURE), "module": UNSIGNED},
        [(FAIL, "driver.unsigned", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "Secure Boot, key not enrolled",
        {"files": driver_files(**ABSENT, **SECURE), "key": NOT_ENROLLED},
        [(FAIL, "driver.key_not_enrolled", "", "escalate")],
        GPUS,
        {},
    ),
    (
        "Secure Boot, key enrolled and not loaded",
        {"files": driver_files(**ABSENT, **SECURE), "key": ENROLLED},
        [(FAIL, "driver.not_loaded", "", "reboot")],
        GPUS,
        {},
    ),
    (
        "a container",
        {"files": driver_files(**ABSENT), "container": "podman\n"},
        [("warn", "driver.container", "", "none")],
        GPUS,
        {},
    ),
    (
        "a container whose newest kernel has no module",
        {"files": driver_files(**ABSENT), "container": "podman\n", "dkms": ""},
        [(FAIL, "driver.not_built", NEWER, "escalate"), ("warn", "driver.container", "", "none")],
        GPUS,
        {},
    ),
    ("no dpkg", {"packages": "no_tool"}, [("unknown", "gpu_driver.no_tool", "", "escalate")], GPUS, {}),
    ("not JSON", {"files": "x"}, [("unknown", "gpu_driver.unreadable", "", "escalate")], GPUS, {}),
    *(
        (
            name,
            captured,
            [("unknown", f"gpu_driver.{reason}", "", "retry" if reason == "timed_out" else "escalate")],
            PLAIN,
            {},
        )
        for name, captured, reason in (
            ("the list of kernels hangs", {"kernels": "timed_out"}, "timed_out"),
            ("no kernel in /boot", {"kernels": ""}, "unreadable"),
            ("a list of kernels that is none", {"kernels": "garbage\n"}, "unreadable"),
            ("Secure Boot, modinfo hangs", {"files": driver_files(**SECURE), "module": "timed_out"}, "timed_out"),
            (
                "Secure Boot, modinfo says something else",
                {"files": driver_files(**SECURE), "module": "?"},
                "unreadable",
            ),
            ("Secure Boot, on or off is not told", {"files": driver_files(secure_boot="N/A")}, "unreadable"),
            ("which flavour is not told", {"files": driver_files(nvrm="N/A")}, "unreadable"),
            ("the running kernel is not told", {"files": driver_files().replace(f'"{KERNEL}', '"')}, "unreadable"),
            (
                "a file that may not be read",
                {"files": driver_files().replace('"errors": {}', '"errors": {"/sys/x": "Permission denied"}')},
                "unreadable",
            ),
            (
                "why files cannot be read is not told",
                {"files": driver_files().replace('"errors"', '"x"')},
                "unreadable",
            ),
        )
    ),
    (
        "files that are not there",
        {"files": driver_files().replace('"errors": {}', '"errors": {"/sys/x": "No such file or directory"}')},
        [("ok", "gpu_driver", "", "none")],
        PLAIN,
        {},
    ),
]


def rdma_files(peermem: str = "live\n", nvrm: str = OPEN, devices: int = 8) -> str:
    files = {
        "/sys/module/nvidia_peermem/initstate": peermem,
        "/proc/driver/nvidia/version": nvrm,
        "/sys/module/ib_core/initstate": "live\n",
        **{f"/sys/class/infiniband/mlx5_{n}/node_type": "1: CA\n" for n in range(devices)},
    }
    return json.dumps({"files": {path: text for path, text in files.items() if text}, "errors": {}})


CONFIG = (
    "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\nCONFIG_INFINIBAND_USER_ACCESS=m\nCONFIG_DMA_SHARED_BUFFER=y\n"
)
RDMA: dict[str, str] = {
    "files": rdma_files(),
    "symbol": "ffffffffc0a1b2c0 T ib_register_peer_memory_client\t[ib_core]\n",
    "config": CONFIG,
    "log": "[    4.1] nvidia: loading out-of-tree module taints kernel.\n",
    "memlock": "DefaultLimitMEMLOCK=infinity\n",
    "container": "none\n",
}
UNKNOWN_SYMBOL = "[   12.3] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n"
RDMA_CASES: list[tuple[str, dict[str, Any], list[tuple[str, str, str, str]], str]] = [
    ("both", {}, [("ok", "gpu_rdma", "", "none")], "both"),
    ("memlock of an old systemd", {"memlock": "DefaultLimitMEMLOCK=18446744073709551615\n"},
     [("ok", "gpu_rdma", "", "none")], "peermem"),
    ("dmabuf needs no peermem", {"files": rdma_files(peermem="")}, [("ok", "gpu_rdma", "", "none")], "dmabuf"),
    ("not loaded", {"files": rdma_files(peermem="")}, [(FAIL, "rdma.peermem_not_loaded", "nvidia_peermem", "reboot")],
     "peermem"),
    ("still going", {"files": rdma_files(peermem="going\n")},
     [(FAIL, "rdma.peermem_not_loaded", "nvidia_peermem", "reboot")], "both"),
    ("the kernel refused it", {"files": rdma_files(peermem=""), "log": RDMA["log"] + UNKNOWN_SYMBOL},
     [(FAIL, "rdma.peermem_refused", "nvidia_peermem", "escalate")], "peermem"),
    ("inbox drivers of Debian", {"files": rdma_files(peermem=""), "symbol": ("", 1)},
     [(FAIL, "rdma.no_peer_memory", "nvidia_peermem", "escalate")], "both"),
    ("no card", {"files": rdma_files(devices=0)}, [(FAIL, "rdma.no_device", "", "reboot")], "both"),
    ("proprietary module", {"files": rdma_files(nvrm=PROPRIETARY)},
     [(FAIL, "rdma.no_dmabuf_driver", "nvidia", "escalate")], "dmabuf"),
    ("no driver", {"files": rdma_files(nvrm="")}, [(FAIL, "rdma.no_driver", "nvidia", "reboot")], "dmabuf"),
    ("a kernel without", {"config": CONFIG.replace("CONFIG_PCI_P2PDMA=y\n", "")},
     [(FAIL, "rdma.no_dmabuf_kernel", "CONFIG_PCI_P2PDMA", "escalate")], "dmabuf"),
    ("no configuration to read", {"config": ("", 3)}, [("unknown", "gpu_rdma.failed", "", "escalate")], "dmabuf"),
    ("little to lock", {"memlock": "DefaultLimitMEMLOCK=8388608\n"}, [(FAIL, "rdma.memlock", "systemd", "escalate")],
     "peermem"),
    ("memlock in a new form", {"memlock": "x=1\n"}, [("unknown", "gpu_rdma.unreadable", "", "escalate")], "peermem"),
    ("a container", {"files": rdma_files("", "", 0), "container": "podman\n"}, [("warn", "rdma.container", "", "none")],
     "both"),
    ("nobody says how", {}, [("unknown", "gpu_rdma.no_mode", "", "escalate")], ""),
    ("not JSON", {"files": "[]"}, [("unknown", "gpu_rdma.unreadable", "", "escalate")], "both"),
]  # fmt: skip


NVLINK = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"


def metrics(gpus: int = 8, without: str = "") -> str:
    fields = {
        "DCGM_FI_DEV_SM_CLOCK": "gauge", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "gauge",
        "DCGM_FI_DEV_GPU_TEMP": "gauge", "DCGM_FI_DEV_POWER_USAGE": "gauge",
        "DCGM_FI_DEV_XID_ERRORS": "gauge", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "counter",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "counter", "DCGM_FI_DEV_ROW_REMAP_FAILURE": "gauge",
        NVLINK: "counter",
    }  # fmt: skip
    lines = []
    for name, kind in fields.items():
        if name == without:
            continue
        lines += [f"# HELP {name} about it.", f"# TYPE {name} {kind}"]
        lines += [
            f'{name}{{gpu="{n}",UUID="GPU-{n:04d}",pci_bus_id="00000000:{n}9:00.0",device="nvidia{n}",'
            f'modelName="NVIDIA H100 80GB HBM3",hostname="r1-n01",DCGM_FI_DRIVER_VERSION="580.95.05"}} {n}'
            for n in range(gpus)
        ]
    return "\n".join(lines) + "\n"


METRICS_CASES: list[tuple[str, Any, list[tuple[str, str, str, str]]]] = [
    ("8 GPUs", (metrics(), 200), [("ok", "gpu_metrics", "", "none")]),
    ("7 GPUs", (metrics(7), 200), [(FAIL, "dcgm.gpu_missing", "1 of 8", "escalate")]),
    ("no metric at all", ("", 200), [(FAIL, "dcgm.gpu_missing", "8 of 8", "escalate")]),
    ("a counter is not told", (metrics(8, "DCGM_FI_DEV_XID_ERRORS"), 200),
     [("warn", "dcgm.counter_missing", "DCGM_FI_DEV_XID_ERRORS", "none")]),
    ("not why clocks are low", (metrics(8, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"), 200),
     [("warn", "dcgm.counter_missing", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "none")]),
    ("nothing of NVLink", (metrics(8, NVLINK), 200), [("warn", "dcgm.counter_missing", NVLINK, "none")]),
    ("refused", "refused", [(FAIL, "dcgm.not_answering", "nvidia-dcgm-exporter", "escalate")]),
    ("500", ("failed to gather", 500), [(FAIL, "dcgm.not_answering", "nvidia-dcgm-exporter", "escalate")]),
    ("something else answers", ("<html>", 200), [("unknown", "gpu_metrics.unreadable", "", "escalate")]),
    ("hangs", "timed_out", [("unknown", "gpu_metrics.timed_out", "", "retry")]),
]  # fmt: skip
