"""PCIe links of a host, as the reader of pcie_link prints them, and what the check must say of each fault.

The whole host is in pci.8-gpus.json: four switches with two GPUs, two HCAs and two drives each, links in the words of
Linux 6.8. Faults are single values of it, changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Want = list[tuple[str, str, str, str]]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
WHOLE = json.loads((FIXTURES / "pci.8-gpus.json").read_text())
GPUS = [address for address, row in sorted(WHOLE.items()) if row["class"] == "0x030200"]
BRIDGES = [address for address, row in sorted(WHOLE.items()) if row["class"].startswith("0x0604")]
FULL, HALF = {"lanes": 16, "generation": 5}, {"lanes": 4, "generation": 4}
PROFILE: dict[str, Any] = {
    "gpus": {"count": 8, "pcie": FULL},
    "hcas": {"count": 8, "pcie": FULL},
    "nvme": {"count": 8, "pcie": HALF},
    "ethernet": {"count": 2},
    "os_disk": {"controller": "BOSS"},
}
SILENT = {**PROFILE, **{kind: {"count": 8} for kind in ("gpus", "hcas", "nvme")}}
GPU, HCA, DRIVE, UPLINK = GPUS[2], "0000:1a:00.0", "0000:1c:00.0", "0000:16:00.0"
GEN1, DEAD = "2.5 GT/s PCIe", {"current_link_speed": "Unknown", "current_link_width": "63"}
OLD = {"current_link_speed": "32 GT/s", "max_link_speed": "32 GT/s"}  # as kernels before 5.10 write it
NIC, CAN = "0000:02:00.0", {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}
LEAST = {"current_link_speed": GEN1, "current_link_width": "1", **CAN}
NO_LINK = {
    "current_link_speed": "Unknown",
    "current_link_width": "0",
    "max_link_speed": "Unknown",
    "max_link_width": "255",
}


def pci(gone: tuple[str, ...] = (), **changes: dict[str, Any]) -> str:
    """The host with some values changed (addresses with _ for : and .), and some devices gone."""
    rows = {address: dict(row) for address, row in WHOLE.items() if address not in gone}
    for name, values in changes.items():
        rows[name.strip("_")].update(values)
    return json.dumps(rows)


def states(state: str = "P0") -> str:
    """What nvidia-smi -q -x says of all GPUs."""
    told = "".join(f'<gpu id="0000{gpu.upper()}"><performance_state>{state}</performance_state></gpu>' for gpu in GPUS)
    return f"<nvidia_smi_log>{told}</nvidia_smi_log>"


def outputs(sysfs: Any, machine: Any = "none\n", states: Any = states()) -> dict[str, Any]:  # noqa: B008
    return {"sysfs": sysfs, "virtualization": machine, "nvidia_smi": states, "load": "{}"}


def slow(address: str) -> str:
    return pci(**{address: {"current_link_speed": GEN1}})


def narrow(address: str, lanes: str) -> str:
    return pci(**{address: {"current_link_width": lanes}})


BARE_HOST = json.dumps({"0000:00:03.0": {**NO_LINK, "class": "0x020000", "vendor": "0x1af4", "above": "pci0000:00"}})
TWO_GPUS = json.dumps(
    {
        f"0000:00:0{n}.0": {
            "class": "0x030200",
            "vendor": "0x10de",
            "current_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16",
            "max_link_speed": "32.0 GT/s PCIe",
            "max_link_width": "16",
            "above": "pci0000:00",
            "virtual": False,
        }
        for n in (6, 7)
    }
)
UNKNOWN: Want = [("unknown", "pcie_link.unreadable", "", "escalate")]
CASES: list[tuple[str, str, dict[str, Any], Want, dict[str, Any], dict[str, Any]]] = [
    ("pcie_link", name, captured, want, profile, {})
    for name, captured, want, profile in [
        ("whole", outputs(pci()), [("ok", "pcie_link", "", "none")], PROFILE),
        ("words of an older kernel", outputs(pci(**{GPU: OLD})), [("ok", "pcie_link", "", "none")], PROFILE),
        (
            "GPU x8",
            outputs(narrow(GPU, "8")),
            [("fail", "pcie.narrow", f"GPU {GPU}", "reseat")],
            PROFILE,
        ),
        ("GPU slow at work", outputs(slow(GPU)), [("fail", "pcie.slow", f"GPU {GPU}", "reseat")], PROFILE),
        ("GPU asleep", outputs(slow(GPU), states=states("P8")), [("ok", "pcie_link", "", "none")], PROFILE),
        (
            "GPU asleep, and narrow",
            outputs(pci(**{GPU: {"current_link_speed": GEN1, "current_link_width": "4"}}), states=states("P8")),
            [("fail", "pcie.narrow", f"GPU {GPU}", "reseat")],
            PROFILE,
        ),
        (
            "GPU slow, nvidia-smi hangs",
            outputs(slow(GPU), states="timed_out"),
            [("unknown", "pcie_link.maybe_asleep", f"GPU {GPU}", "retry")],
            PROFILE,
        ),
        ("HCA x4", outputs(narrow(HCA, "4")), [("fail", "pcie.narrow", f"HCA mlx5_0 {HCA}", "reseat")], PROFILE),
        ("HCA slow", outputs(slow(HCA)), [("fail", "pcie.slow", f"HCA mlx5_0 {HCA}", "reseat")], PROFILE),
        ("drive x2", outputs(narrow(DRIVE, "2")), [("fail", "pcie.narrow", f"NVMe nvme0 {DRIVE}", "reseat")], PROFILE),
        (
            "drive x2, the profile is silent",
            outputs(narrow(DRIVE, "2")),
            [("warn", "pcie.narrow", f"NVMe nvme0 {DRIVE}", "none")],
            SILENT,
        ),
        (
            "NIC at a part of what it could, the profile is silent",
            outputs(pci(**{NIC: LEAST, "0000:00:1c.0": CAN})),
            [
                ("warn", "pcie.narrow", f"NIC eno8303 {NIC}", "none"),
                ("warn", "pcie.slow", f"NIC eno8303 {NIC}", "none"),
            ],
            PROFILE,
        ),
        (
            "NIC as the profile wants, and less than it could",
            outputs(pci(**{NIC: LEAST, "0000:00:1c.0": CAN})),
            [
                ("warn", "pcie.narrow", f"NIC eno8303 {NIC}", "none"),
                ("warn", "pcie.slow", f"NIC eno8303 {NIC}", "none"),
            ],
            {**PROFILE, "ethernet": {"count": 2, "pcie": {"lanes": 1, "generation": 1}}},
        ),
        (
            "NIC, the profile wants more",
            outputs(pci()),
            [("fail", "pcie.narrow", "NIC eno8303 0000:02:00.0", "reseat")],
            {**PROFILE, "ethernet": {"count": 2, "pcie": {"lanes": 8, "generation": 3}}},
        ),
        (
            "uplink of a switch x8",
            outputs(narrow(UPLINK, "8")),
            [("fail", "pcie.narrow", f"bridge {UPLINK}", "reseat")],
            PROFILE,
        ),
        (
            "uplink of a switch slow",
            outputs(slow(UPLINK)),
            [("fail", "pcie.slow", f"bridge {UPLINK}", "reseat")],
            PROFILE,
        ),
        (
            "uplink narrow, the profile is silent",
            outputs(narrow(UPLINK, "8")),
            [("warn", "pcie.narrow", f"bridge {UPLINK}", "none")],
            SILENT,
        ),
        (
            "fallen off the bus",
            outputs(pci(**{GPU: DEAD})),
            [("fail", "pcie.no_answer", f"GPU {GPU}", "power_cycle")],
            PROFILE,
        ),
        (
            "GPU not on the bus",
            outputs(pci(gone=(GPU,))),
            [("fail", "pcie.missing", "1 of 8 GPU", "reseat")],
            PROFILE,
        ),
        (
            "HCA and drive not on the bus",
            outputs(pci(gone=(HCA, DRIVE))),
            [("fail", "pcie.missing", "1 of 8 HCA", "reseat"), ("fail", "pcie.missing", "1 of 8 NVMe", "reseat")],
            PROFILE,
        ),
        (
            "no link told",
            outputs(pci(**{HCA: NO_LINK})),
            [("unknown", "pcie_link.unreadable", f"HCA mlx5_0 {HCA}", "escalate")],
            PROFILE,
        ),
        (
            "no link told of a switch's uplink",
            outputs(pci(**{UPLINK: {**NO_LINK, "current_link_width": "0"}})),
            [("unknown", "pcie_link.unreadable", f"bridge {UPLINK}", "escalate")],
            PROFILE,
        ),
        (
            "no link told of any bridge",
            outputs(pci(**dict.fromkeys(BRIDGES, NO_LINK))),
            [("unknown", "pcie_link.unreadable", "bridge", "escalate")] * 4,
            PROFILE,
        ),
        (
            "what a GPU hangs on is not told",
            outputs(pci(**{GPU: {"above": "N/A"}})),
            [("unknown", "pcie_link.unreadable", f"GPU {GPU}", "escalate")],
            PROFILE,
        ),
        (
            "a switch's uplink is not told",
            outputs(pci(gone=(UPLINK,))),
            [("unknown", "pcie_link.unreadable", "0000:", "escalate")] * 6,
            PROFILE,
        ),
        (
            "a container on another machine",
            outputs(BARE_HOST, "podman\n"),
            [("warn", "pcie_link.virtual", "", "none")],
            PROFILE,
        ),
        (
            "a virtual machine with its GPUs",
            outputs(TWO_GPUS, "kvm\n", ""),
            [("ok", "pcie_link", "", "none")],
            {"gpus": {"count": 2, "pcie": FULL}, "hcas": {"count": 0}, "nvme": {"count": 0}},
        ),
        (
            "a virtual machine with a narrow GPU, and no HCA",
            outputs(TWO_GPUS.replace('"current_link_width": "16"', '"current_link_width": "8"', 1), "kvm\n", ""),
            [("warn", "pcie_link.virtual", "", "none"), ("fail", "pcie.narrow", "GPU 0000:00:06.0", "reseat")],
            {"gpus": {"count": 2, "pcie": FULL}, "hcas": {"count": 1}, "nvme": {"count": 0}},
        ),
        (
            "GPU gone, bare metal or not is not known",
            outputs(pci(gone=(GPU,)), "no_tool"),
            [("unknown", "pcie_link.no_tool", "", "escalate")],
            PROFILE,
        ),
        ("hangs", outputs("timed_out"), [("unknown", "pcie_link.timed_out", "", "retry")], PROFILE),
        ("not JSON", outputs("0000:00"), UNKNOWN, PROFILE),
        ("a list", outputs("[1]"), UNKNOWN, PROFILE),
    ]
]
