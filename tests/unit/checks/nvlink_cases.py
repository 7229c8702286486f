"""Outputs about NVLink, and what nvlink, gpu_fabric and gpu_topology must say of them. See ``gpu_health_cases``."""

from __future__ import annotations

import re
from typing import Any

from gpu_health_cases import GPUS, HERE, Row, Wanted, broken, every, fixture, good, lost, smi

from firstlight.checks.capture import Output

IDENTITY = "GPU-00000000-1111-4222-8333-00000000000{}"
STATUS_8, ERRORS_8 = "nvlink-s.8x-h100.txt", "nvlink-e.8x-h100.txt"
INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inactive\n"


def links(change: dict[int, str] | None = None, gpu: int = 6, base: str = STATUS_8) -> Output:
    """``nvlink -s``, the lines of these links of one GPU replaced: by a value, or taken out where it is empty."""
    blocks = fixture(base).split("GPU ")
    lines = blocks[gpu + 1].splitlines(keepends=True)
    for link, value in (change or {}).items():
        lines = [
            (f"\t Link {link}: {value}\n" if value else "") if line.startswith(f"\t Link {link}: ") else line
            for line in lines
        ]
    blocks[gpu + 1] = "".join(lines)
    return Output("GPU ".join(blocks))


def counters(change: dict[str, int] | None = None, gpu: int = 6, base: str = ERRORS_8) -> Output:
    """``nvlink -e``, with counts set: ``{"3: CRC Errors": 5}``."""
    blocks = fixture(base).split("GPU ")
    for name, count in (change or {}).items():
        assert f"Link {name}: 0\n" in blocks[gpu + 1]
        blocks[gpu + 1] = blocks[gpu + 1].replace(f"Link {name}: 0\n", f"Link {name}: {count}\n")
    return Output("GPU ".join(blocks))


def _link(name: str, status: Output, want: Wanted, errors: Output | None = None, **more: Any) -> Row:
    captured = {"status": status, "errors": errors or counters(), "nvidia_smi": more.pop("nvidia_smi", smi())}
    captured.update({"load": more.pop("load")} if "load" in more else {})
    limits, expect = more.pop("limits", {}), more.pop("expect", {})
    return "nvlink", name, captured, want, {"gpus": {**GPUS, **more}, "limits": limits}, expect


ALL_DOWN = Output("".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: {IDENTITY.format(n)})\n{INACTIVE}" for n in range(8)))
PROFILE_18 = {"links": 18, "gbytes_per_second": 26.562}
D1 = "GPU 0000:d1:00.0"  # the GPU of number 6
EARLIER = {IDENTITY.format(n): {str(link): {"CRC Errors": 3} for link in range(18)} for n in range(8)}
UP = Output('{"files": {"/proc/uptime": "180000.00 1000.00\\n"}}')  # 50 hours
NVLINK = [
    _link("18 on each", links(), good("nvlink")),
    _link("as the profile says", links(), good("nvlink"), nvlink=PROFILE_18),
    _link("NVLink 5", Output(fixture("nvlink-s.b200.txt")), good("nvlink"), Output(fixture("nvlink-e.b200.txt")),
          nvlink={"links": 18, "gbytes_per_second": 53.125}, count=1, nvidia_smi=smi(gpus=1)),
    _link("one of two", Output(fixture(STATUS_8).split("GPU 1")[0]),
          [("fail", "nvlink.missing", "GPU 0000:", "escalate")], count=2, nvidia_smi=smi(gpus=2)),
    _link("one of eight, nvidia-smi -q hangs", Output(fixture(STATUS_8).split("GPU 1")[0]),
          lost("nvlink", "incomplete"), nvidia_smi=broken("timed_out")),
    _link("one of eight, twice", Output(fixture(STATUS_8).split("GPU 1")[0] * 8), lost("nvlink", "incomplete"),
          nvidia_smi=broken("timed_out")),
    _link("seven, and no more are there", Output(fixture(STATUS_8).split("GPU 7")[0]), lost("nvlink", "incomplete"),
          nvidia_smi=smi(gpus=7)),
    _link("a GPU is lost", Output(fixture(STATUS_8).split("GPU 7")[0]), lost("nvlink", "incomplete"),
          nvidia_smi=smi({7: {"uuid": "GPU is lost"}})),
    _link("two down", links({3: "<inactive>", 17: "<inactive>"}),
          [("fail", "nvlink.inactive", f"{D1} link 3, 17", "reboot")]),
    _link("8 of 18 are wired", links(dict.fromkeys(range(8, 18), "<inactive>")), good("nvlink"), nvlink={"links": 8}),
    _link("all down", ALL_DOWN, [("fail", "nvlink.inactive", "0000:", "reboot")] * 8, counters()),
    _link("all down, one by one", links(dict.fromkeys(range(18), "<inactive>")),
          [("fail", "nvlink.inactive", D1, "reboot")]),
    _link("one gone", links({4: ""}), [("fail", "nvlink.missing", D1, "escalate")]),
    _link("no link told", links(dict.fromkeys(range(18), "")), [("fail", "nvlink.missing", D1, "escalate")]),
    _link("no GPU has any", Output(""), [("fail", "nvlink.missing", "all GPUs", "escalate")]),
    _link("one slow", links({9: "25 GB/s"}), [("fail", "nvlink.slow", f"{D1} link 9", "reboot")]),
    _link("all slower than the profile says", Output(fixture(STATUS_8).replace("26.562", "20")),
          [("fail", "nvlink.slow", "link 0, 1", "reboot")] * 8, nvlink=PROFILE_18),
    _link("places not known", links({3: "<inactive>"}), [("fail", "nvlink.inactive", IDENTITY.format(6), "reboot")],
          nvidia_smi=broken("timed_out")),
    _link("errors of the past", links(), [("warn", "nvlink.errors", D1, "none")], counters({"3: CRC Errors": 5})),
    _link("errors of the past, NVLink 5", Output(fixture("nvlink-s.b200.txt")),
          [("warn", "nvlink.errors", "0000:1b:00.0", "none")],
          counters({"3: Link recovery successful events": 505}, 0, "nvlink-e.b200.txt"), count=1,
          nvidia_smi=smi(gpus=1)),
    _link("no more than before", links(), good("nvlink"), counters({"3: CRC Errors": 3}),
          expect={"nvlink_counters": EARLIER}),
    _link("more than before", links(), [("warn", "nvlink.errors", D1, "none")], counters({"3: CRC Errors": 5}),
          expect={"nvlink_counters": EARLIER}),
    _link("more than the profile accepts", links(), [("fail", "nvlink.errors_growing", D1, "reboot")],
          counters({"3: CRC Errors": 5}), expect={"nvlink_counters": EARLIER}, limits={"nvlink_errors": 1}),
    _link("very many more than before", links(), [("fail", "nvlink.errors_growing", D1, "reboot")],
          counters({"3: CRC Errors": 900_000_000}), expect={"nvlink_counters": EARLIER}),
    _link("many in two days", links(), [("warn", "nvlink.errors", D1, "none")],
          counters({"3: CRC Errors": 900_000}), expect={"nvlink_counters": {**EARLIER, "uptime": 7200.0}}, load=UP),
    _link("many in an hour", links(), [("fail", "nvlink.errors_growing", D1, "reboot")],
          counters({"3: CRC Errors": 900_000}), expect={"nvlink_counters": {**EARLIER, "uptime": 176400.0}}, load=UP),
    _link("many in an hour, by the profile well", links(), [("warn", "nvlink.errors", D1, "none")],
          counters({"3: CRC Errors": 900_000}), expect={"nvlink_counters": {**EARLIER, "uptime": 176400.0}}, load=UP,
          limits={"nvlink_errors_per_hour": 1_000_000}),
    _link("replays", links(), [("fail", "nvlink.errors_growing", D1, "reboot")],
          counters({"3: Replay Errors": 11}), expect={"nvlink_counters": {**EARLIER, "uptime": 176400.0}}, load=UP),
    _link("recovered since", links(), [("fail", "nvlink.errors_growing", D1, "reboot")],
          counters({"3: Recovery Errors": 1}), expect={"nvlink_counters": EARLIER}),
    _link("counted anew since a reset", links(), [("warn", "nvlink.errors", D1, "none")],
          counters({"3: CRC Errors": 2}), expect={"nvlink_counters": EARLIER}),
    _link("errors hang", links(), lost("nvlink", "timed_out", "retry"), broken("timed_out")),
    _link("errors of seven", links(), lost("nvlink", "unreadable", place="0000:df:00.0"),
          Output(fixture(ERRORS_8).split("GPU 7")[0])),
    *(
        _link(f"errors, {name}", links(), lost("nvlink", "unreadable", place="0000:1b:00.0"),
              Output(re.sub(pattern, new, fixture(ERRORS_8), count=1)))
        for name, pattern, new in (
            ("link 3 is not told", r"(\t Link 3: .*\n)+", ""),
            ("no number of link 3", r"(Link 3: CRC Errors): 0", r"\1: N/A"),
            ("a counter of link 3 is not told", r"\t Link 3: CRC Errors: 0\n", ""),
        )
    ),
    _link("errors, a counter without a number on any link", links(),
          [lost("nvlink", "unreadable", place="0000:")[0]] * 8,
          Output(fixture(ERRORS_8).replace("CRC Errors: 0", "CRC Errors: N/A"))),
    _link("errors not understood", links(), lost("nvlink", "unreadable"), Output("what?\n")),
    _link("errors fail", links(), lost("nvlink", "failed"), Output("", "no", 2)),
    _link("hangs", broken("timed_out"), lost("nvlink", "timed_out", "retry")),
    _link("no tool", broken("no_tool"), lost("nvlink", "no_tool")),
    _link("fails", Output("No devices were found\n", code=6), lost("nvlink", "failed")),
    _link("a speed in another unit", links({9: "212 Gbit/s"}), lost("nvlink", "unreadable")),
    _link("good, bad exit", Output(fixture(STATUS_8), code=255), lost("nvlink", "failed")),
]  # fmt: skip

RUNS = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"
FAILED = "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\n"
FABRIC_GOOD = {
    "nvidia_smi": smi(),
    "manager": Output(RUNS),
    "version": Output("\n\tFabric Manager version is : 580.95.05\n\n"),
    "log": Output(""),
    "container": Output("none\n", code=1),
    "virtual": Output("none\n", code=1),
}
UNIT = "nvidia-fabricmanager.service"
ABSENT: dict[str, Output] = {
    "manager": Output(RUNS.replace("=loaded", "=not-found").replace("=active", "=inactive").replace("running", "dead")),
    "version": broken("no_tool"),
}
LOG = (
    "[Nov 29 2026 10:11:12] [INFO] [tid 1584] Received an inband message\n"
    "[Nov 29 2026 10:11:13] [ERROR] [tid 1590] detected NVSwitch non-fatal error 12028 on fid 0 physical id 3 port 61\n"
    "[Nov 30 2026 07:00:01] [ERROR] [tid 841] number of NVSwitches does not match any topology, aborting\n"
    "[Nov 30 2026 07:00:02] [INFO] [tid 841] exiting\n"
)
HEALTHY: dict[str, str | None] = {
    "fabric/health/bandwidth": "Full", "fabric/health/route_unhealthy": "False",
    "fabric/health/summary": "Healthy", "fabric/health/incorrect_configuration": "None",
}  # fmt: skip
A100 = smi(every({"fabric": None, "product_architecture": "Ampere"}))  # before Hopper GPUs are not registered


def _fabric(name: str, want: Wanted, values: dict[str, str | None] | None = None, **captured: Output) -> Row:
    log = {"nvidia_smi": smi({0: values})} if values else {}
    return "gpu_fabric", name, {**FABRIC_GOOD, **log, **captured}, want, {"gpus": GPUS}, {}


def _absent(name: str, want: Wanted, **captured: Output) -> Row:
    return "gpu_fabric", name, {**FABRIC_GOOD, **ABSENT, **captured}, want, {"gpus": GPUS}, {}


FABRIC = [
    _fabric("registered", good("gpu_fabric")),
    _fabric("A100", good("gpu_fabric"), nvidia_smi=A100),
    _fabric("NVLink 5, healthy", good("gpu_fabric"),
            nvidia_smi=smi(every(HEALTHY))),
    _fabric("NVLink 5, one does not tell its health", lost("gpu_fabric", "unreadable", place="0000:1b:00.0"),
            nvidia_smi=smi({**every(HEALTHY), 0: {**HEALTHY, "fabric/health/route_unhealthy": "N/A"}})),
    _fabric("one does not tell its state", lost("gpu_fabric", "unreadable", place=HERE), {"fabric": None}),
    _fabric("none tells its state", [lost("gpu_fabric", "unreadable", place="0000:")[0]] * 8,
            nvidia_smi=smi(every({"fabric/state": "N/A", "fabric/status": "N/A"}))),
    _fabric("in progress", [("fail", "gpu.fabric_waiting", HERE, "wait")], {"fabric/state": "In Progress"}),
    _fabric("not started", [("fail", "gpu.fabric_not_started", HERE, "reboot")], {"fabric/state": "Not Started"}),
    _fabric("failed", [("fail", "gpu.fabric_failed", HERE, "reboot")], {"fabric/status": "Failure"}),
    _fabric("no status", [("fail", "gpu.fabric_failed", HERE, "reboot")], {"fabric/status": None}),
    _fabric("a state of tomorrow", lost("gpu_fabric", "unreadable", place=HERE), {"fabric/state": "Dancing"}),
    _fabric("degraded", [("fail", "gpu.fabric_unhealthy", HERE, "reboot")],
            nvidia_smi=smi({**every(HEALTHY), 0: {**HEALTHY, "fabric/health/bandwidth": "Degraded"}})),
    _fabric("unhealthy route", [("fail", "gpu.fabric_unhealthy", HERE, "reboot")],
            nvidia_smi=smi({**every(HEALTHY), 0: {**HEALTHY, "fabric/health/route_unhealthy": "True"}})),
    _fabric("manager failed", [("fail", "fabric_manager.not_running", UNIT, "reboot")],
            manager=Output(FAILED)),
    _fabric("manager failed, and its log says why", [("fail", "fabric_manager.not_running", UNIT, "reboot")],
            manager=Output(FAILED), log=Output(LOG)),
    _absent("manager absent", [("fail", "fabric_manager.not_running", UNIT, "escalate")]),
    _absent("manager absent, virtual machine", good("gpu_fabric"), virtual=Output("kvm\n")),
    _absent("manager absent, virtual machine, nothing told", [("fail", "fabric_manager.not_running", UNIT, "escalate")],
            virtual=Output("kvm\n"), nvidia_smi=A100),
    _fabric("manager starts", [("fail", "fabric_manager.starting", UNIT, "wait")],
            manager=Output(RUNS.replace("=active", "=activating"))),
    _fabric("manager of another version", [("fail", "fabric_manager.version", UNIT, "reboot")],
            version=Output("Fabric Manager version is : 580.105.08\n")),
    _fabric("manager does not tell its version", lost("gpu_fabric", "unreadable"), version=Output("usage\n")),
    _fabric("no nv-fabricmanager", lost("gpu_fabric", "no_tool", place=UNIT), version=broken("no_tool")),
    _fabric("version hangs", lost("gpu_fabric", "timed_out", "retry"), version=broken("timed_out")),
    _fabric("a container", [("warn", "fabric_manager.container", "", "none")], container=Output("podman\n"),
            manager=broken("no_tool"), version=broken("no_tool")),
    _fabric("no systemd", lost("gpu_fabric", "failed"), manager=Output("", "Host is down", 1)),
    _fabric("systemd says nothing", lost("gpu_fabric", "unreadable"), manager=Output("")),
    _fabric("nvidia-smi hangs", lost("gpu_fabric", "timed_out", "retry"), nvidia_smi=broken("timed_out")),
    _fabric("good, bad exit", lost("gpu_fabric", "failed"), nvidia_smi=smi(code=255)),
]  # fmt: skip

TOPOLOGY_8 = "topo-m.8x-h100.txt"
AS_BUILT = {"gpus": "NV18", "nics": "PIX", "numa": [0, 0, 0, 0, 1, 1, 1, 1]}


def matrix(old: str = "", new: str = "") -> Output:
    text = fixture(TOPOLOGY_8)
    assert old in text
    return Output(text.replace(old, new, 1) if old else text)


def _topology(name: str, output: Output, want: Wanted, topology: dict[str, Any] | None = None, **gpus: Any) -> Row:
    captured = {"topology": output, "nvidia_smi": gpus.pop("nvidia_smi", smi())}
    profile = {"gpus": {**GPUS, **({"topology": topology} if topology else {}), **gpus}}
    return "gpu_topology", name, captured, want, profile, {}


PCIE = Output(fixture("topo-m.2x-pcie.txt"))
ALONE = Output("\tGPU0\tNIC0\tNUMA Affinity\nGPU0\t X \tPIX\t0\n")
TWO: dict[str, Any] = {"count": 2, "nvidia_smi": smi(gpus=2)}
TOPOLOGY = [
    _topology("as built", matrix(), good("gpu_topology"), AS_BUILT),
    _topology("NVSwitch, nothing else said", matrix(), good("gpu_topology")),
    _topology("two GPUs over PCIe", PCIE, good("gpu_topology"), {"gpus": "SYS", "numa": [0, 1]}, nvswitch=False,
              **TWO),
    _topology("one of two", ALONE, lost("gpu_topology", "incomplete"),
              {"gpus": "NV18", "nics": "PIX"}, **TWO),
    _topology("one of two, nvidia-smi -q hangs", ALONE, lost("gpu_topology", "incomplete"), {"nics": "PIX"},
              count=2, nvidia_smi=broken("timed_out")),
    _topology("fewer links", matrix("GPU2\tNV18\tNV18\t X ", "GPU2\tNV16\tNV18\t X "),
              [("fail", "gpu.wrong_link", "0000:52:00.0 (GPU2)", "reboot")]),
    _topology("no NVLink", matrix("GPU2\tNV18\tNV18\t X ", "GPU2\tSYS\tNV18\t X "),
              [("fail", "gpu.wrong_link", "GPU2", "reboot")], AS_BUILT),
    _topology("no NVLink at all", PCIE, [("fail", "gpu.wrong_link", "GPU", "reboot")] * 2, **TWO),
    _topology("fewer links everywhere", Output(fixture(TOPOLOGY_8).replace("NV18", "NV12")),
              [("fail", "gpu.wrong_link", "GPU", "reboot")] * 8, AS_BUILT),
    _topology("a NIC behind another switch", matrix("NODE\tNODE\tPIX", "NODE\tNODE\tNODE"),
              [("fail", "gpu.far_from_nic", "0000:1b:00.0 (GPU0)", "escalate")], AS_BUILT),
    _topology("its neighbour's NIC is near enough", matrix("NODE\tNODE\tPIX", "NODE\tNODE\tNODE"), good("gpu_topology"),
              {"nics": "PXB"}),
    _topology("no NIC", Output("\tGPU0\tNUMA Affinity\nGPU0\t X \t0\n"),
              [("fail", "gpu.far_from_nic", "GPU0", "escalate")], {"nics": "SYS"}, count=1, nvidia_smi=smi(gpus=1)),
    _topology("another NUMA node", matrix("0-55,112-167\t0\t", "0-55,112-167\t1\t"),
              [("fail", "gpu.wrong_numa", "0000:1b:00.0 (GPU0)", "escalate")], AS_BUILT),
    _topology("no NUMA node", matrix("0-55,112-167\t0\t", "0-55,112-167\tN/A\t"),
              [("fail", "gpu.wrong_numa", "GPU0", "escalate")], AS_BUILT),
    _topology("fewer GPUs than NUMA nodes", PCIE, lost("gpu_topology", "incomplete"),
              {"gpus": "SYS", "numa": [0, 1, 1, 1]}),
    _topology("more NUMA nodes than GPUs", PCIE, lost("gpu_topology", "incomplete"),
              {"gpus": "SYS", "numa": [0, 1, 1, 1]}, **TWO),
    _topology("nvidia-smi -q hangs", matrix("GPU2\tNV18\tNV18\t X ", "GPU2\tNV16\tNV18\t X "),
              [("fail", "gpu.wrong_link", "GPU2", "reboot")], nvidia_smi=broken("timed_out")),
    _topology("a word of tomorrow", matrix("NV18", "ICI"), lost("gpu_topology", "unreadable")),
    _topology("a row too short", matrix("GPU7\tNV18\tNV18", "GPU7\tNV18"), lost("gpu_topology", "unreadable")),
    _topology("cut off in a row", Output(fixture(TOPOLOGY_8).split("GPU7\tNV18\tNV18")[0] + "GPU7\tNV18\n"),
              lost("gpu_topology", "unreadable")),
    _topology("a row gone", matrix("\nGPU3\t", "\nGPX3\t"), lost("gpu_topology", "unreadable")),
    _topology("not a matrix", Output("usage: nvidia-smi topo\n"), lost("gpu_topology", "unreadable")),
    _topology("hangs", broken("timed_out"), lost("gpu_topology", "timed_out", "retry")),
    _topology("fails", Output("Failed to run topology matrix\n", code=255), lost("gpu_topology", "failed")),
]  # fmt: skip

CASES: list[Row] = [*NVLINK, *FABRIC, *TOPOLOGY]
