"""What ``dcgmi diag -j`` and the reader of whole drives print, and what dcgm_diag and drive_read must say of it.

The forms are those of DCGM 3.3 and 4.4 (dcgmi/Diag.cpp); the numbers are ours.
"""

from __future__ import annotations

import json
from typing import Any

from disk_cases import GOOD as GOOD_DRIVE
from disk_cases import Want, drive, reading
from gpu_health_cases import Row, broken, good, lost, smi

from firstlight.checks.capture import Output

# ---------------------------------------------------------------- dcgm_diag

GPUS = {"gpus": {"count": 8, "model": "H100", "nvswitch": True}}
SOFTWARE = (
    "Denylist",
    "NVML Library",
    "CUDA Main Library",
    "CUDA Toolkit Library",
    "Permissions and OS Blocks",
    "Persistence Mode",
    "Environment Variables",
    "Page Retirement/Row Remap",
    "Graphics Processes",
    "Inforom",
)
HARDWARE = (("Integration", "PCIe"), ("Hardware", "GPU Memory"))
SERIALS = {str(n): f"165262400000{n}" for n in range(8)}  # of fixtures/gpu/smi-q.8x-h100.xml
D1 = "GPU 0000:d1:00.0"  # the GPU of number 6
Changes = dict[tuple[str, int], dict[str, Any] | None]  # by test and GPU; None: the GPU did not run it


def warning(words: str, error: int, severity: int = 2, category: int = 10) -> dict[str, Any]:
    return {"warning": words, "error_id": error, "error_category": category, "error_severity": severity}


def copies(gpu: int) -> list[str]:
    return [f"GPU {gpu} GPU to Host bandwidth:\t\t{54 + gpu / 10:.2f} GB/s",
            f"GPU {gpu} Host to GPU bandwidth:\t\t{55 - gpu / 10:.2f} GB/s"]  # fmt: skip


def diag3(changes: Changes | None = None, software: dict[str, dict[str, Any]] | None = None, gpus: int = 8) -> str:
    """As dcgmi 3.3: GPUs by ``gpu_id``, null for one that did not run a test, level 1 without a GPU."""
    deployment = [{"name": n, "results": [{"status": "Pass", **(software or {}).get(n, {})}]} for n in SOFTWARE]
    categories: list[dict[str, Any]] = [{"category": "Deployment", "tests": deployment}]
    for category, name in HARDWARE:
        results: list[dict[str, Any] | None] = []
        for gpu in range(gpus):
            change = (changes or {}).get((name, gpu), {})
            row: dict[str, Any] = {"gpu_id": str(gpu), "status": "Pass"}
            if name == "PCIe":
                row["info"] = ", ".join(copies(gpu))
            results.append(None if change is None else {**row, **change})
        categories.append({"category": category, "tests": [{"name": name, "results": results}]})
    said = {"DCGM GPU Diagnostic": {"test_categories": categories}, "Driver Version Detected": "550.127.05",
            "GPU Device IDs": ["2330"] * gpus, "GPU Device Serials": SERIALS, "version": "3.3.9"}  # fmt: skip
    return json.dumps(said, indent=3)


def diag4(
    changes: Changes | None = None, gpus: int = 8, summaries: dict[str, dict[str, Any]] | None = None, **more: Any
) -> str:
    """As dcgmi 4: GPUs as entities, tests by their short names, a summary of each test."""
    categories = []
    for category, name in (("Deployment", "software"), ("Hardware", "memory"), ("Integration", "pcie")):
        results = []
        for gpu in range(gpus):
            change = (changes or {}).get((name, gpu), {})
            row: dict[str, Any] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
            if name == "pcie":
                row["info"] = copies(gpu)
            if change is not None:
                results.append({**row, **change})
        summary = {"status": "Pass", **(summaries or {}).get(name, {})}
        categories.append(
            {"category": category, "tests": [{"name": name, "results": results, "test_summary": summary}]}
        )
    entities = [{"device_id": "2330", "entity_id": int(n), "serial_num": serial} for n, serial in SERIALS.items()]
    said = {"DCGM Diagnostic": {"test_categories": categories},
            "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
            "metadata": {"Driver Version Detected": "580.95.05", "version": "4.4.2"}, **more}  # fmt: skip
    return json.dumps(said, indent=3)


def refused(words: str, name: str = "DCGM Diagnostic") -> str:
    return json.dumps({name: {"runtime_error": words, "version": "4.4.2"}}, indent=3)


def failing(*warnings: dict[str, Any], status: str = "Fail") -> dict[str, Any]:
    return {"status": status, "warnings": list(warnings)}


FAULTY = failing(warning("Found 3 faulty memory elements on GPU 6", 52))
SLOW = failing(warning("Bandwidth of GPU 6 in direction Host to GPU of 9.1 did not exceed minimum of 20.", 30, 4, 13))
ALREADY = "A diag instance is already running, cannot run a new diag until the current one finishes"
ECC_OFF = failing(warning("Skipping test memory because ECC is not enabled on GPU 6", 55, 5), status="Skip")
NO_MEMORY = warning("Couldn't allocate at least 75.0% of GPU memory on GPU 6", 56, 4, 8)
FULL = "Only 212 mb of memory is free, but we need to allocate 4032 mb to pass this test. Skipping"


def failed(action: str, place: str = D1) -> Want:
    return [("fail", "gpu.diag_failed", place, action)]


def _diag(name: str, text: str, want: Want, code: int = 0, errors: str = "", **more: Any) -> Row:
    captured = {"nvidia_smi": more.pop("nvidia_smi", smi()), "diag": Output(text, errors, code)}
    return "dcgm_diag", name, captured, want, GPUS, more


def one(test: str, change: dict[str, Any] | None, gpu: int = 6) -> Changes:
    return {(test, gpu): change}


def each(test: str, change: dict[str, Any] | None, *others: str) -> Changes:
    return {(name, gpu): change for name in (test, *others) for gpu in range(8)}


def errors(number: int) -> dict[str, Any]:
    return one("memory", failing(warning("a fault on GPU 6", number)))


NOT_RUN: Want = [("warn", "dcgm_diag.not_run", "", "none")]
SKIPPED = {"status": "Skip"}
DIAG: list[Row] = [
    _diag("DCGM 3", diag3(), good("dcgm_diag")),
    _diag("DCGM 4", diag4(), good("dcgm_diag")),
    _diag("a line before it", f"Successfully ran diagnostic for group.\n{diag4()}\n", good("dcgm_diag")),
    _diag("3: faulty memory", diag3(one("GPU Memory", FAULTY)), failed("replace"), 226),
    _diag("4: faulty memory", diag4(one("memory", FAULTY)), failed("replace"), 205),
    _diag("4: slow PCIe", diag4(one("pcie", SLOW)), failed("reseat"), 226),
    _diag("two tests of one GPU", diag4({**one("memory", FAULTY), **one("pcie", SLOW)}),
          [*failed("replace"), *failed("reseat")], 226),
    _diag("no serial numbers", diag4(one("memory", FAULTY), entity_groups=[]), failed("replace", "GPU 6 of DCGM's"),
          226),
    _diag("nvidia-smi says nothing", diag4(one("memory", FAULTY)), failed("replace", "GPU 6 of DCGM's"), 226,
          nvidia_smi=broken("timed_out")),
    _diag("nouveau", diag3(software={"Denylist": failing({"warnings": "Found driver on the denylist: nouveau",
                                                          "error_id": 23, "error_category": 3})}),
          failed("reboot", ""), 226),
    _diag("of the whole host", diag4(summaries={"software": failing(
        warning("Found CUDA performance-limiting environment variable 'CUDA_LAUNCH_BLOCKING'.", 28, 5, 6))}),
        failed("escalate", ""), 226),
    _diag("in results and summary", diag4(one("memory", FAULTY), summaries={"memory": FAULTY}), failed("replace"), 226),
    _diag("text in place of errors", diag3(one("GPU Memory", {"status": "FAIL", "warnings": "It differs."})),
          failed("replace"), 226),
    _diag("a failure without a word", diag4(one("pcie", {"status": "Fail"})), failed("reseat"), 226),
    _diag("several GPUs in one row", diag4(one("pcie", {"entity_group": None, "status": "Pass"})).replace(
        '"entity_group": null,', '"gpu_ids": "6",'), good("dcgm_diag")),
    *(_diag(f"error {number}", diag4(errors(number)), failed(action), 226) for number, action in (
        (47, "retry"), (57, "reboot"), (120, "power_cycle"), (28, "escalate"), (131, "escalate"))),
    _diag("the highest of two", diag4(one("memory", failing(warning("a", 57), warning("b", 52)))),
          failed("replace"), 226),
    _diag("a warning", diag3(one("GPU Memory", failing(NO_MEMORY, status="Warn"))),
          [("warn", "gpu.diag_warning", D1, "none")]),
    _diag("passed, and warns", diag4(one("memory", failing(NO_MEMORY, status="Pass"))),
          [("warn", "gpu.diag_warning", D1, "none")]),
    _diag("one GPU's test skipped", diag4(one("memory", ECC_OFF)), [("warn", "gpu.diag_skipped", D1, "none")]),
    _diag("a test skipped everywhere", diag4(each("memory", ECC_OFF)), good("dcgm_diag")),
    _diag("all skipped", diag4(each("memory", SKIPPED, "pcie")), lost("dcgm_diag", "all_skipped")),
    _diag("all skipped, level 1", diag3(each("GPU Memory", None, "PCIe"), dict.fromkeys(SOFTWARE, SKIPPED)),
          lost("dcgm_diag", "all_skipped"), dcgm_diag_level=1),
    _diag("level 1", diag3(each("GPU Memory", None, "PCIe")), good("dcgm_diag"), dcgm_diag_level=1),
    _diag("level 1 is not enough", diag3(each("GPU Memory", None, "PCIe")), lost("dcgm_diag", "all_skipped")),
    _diag("seven tested", diag4(gpus=7), lost("dcgm_diag", "not_tested", place="1 of 8 GPUs")),
    _diag("one left out", diag3({**one("PCIe", None), **one("GPU Memory", None)}),
          lost("dcgm_diag", "not_tested", place="1 of 8 GPUs")),
    _diag("another word", diag4(one("memory", {"status": "Maybe"})), lost("dcgm_diag", "unreadable", place=D1)),
    _diag("passed, and fails", diag4(), lost("dcgm_diag", "failed"), 242),
    _diag("runs already", refused(f"Error: Unable to complete diagnostic. Return: (-39) : {ALREADY}\n"),
          lost("dcgm_diag", "in_use", "retry"), 217),
    _diag("3: in use", refused("Error: the affected resource is in use.", "DCGM GPU Diagnostic"),
          lost("dcgm_diag", "in_use", "retry"), 222),
    _diag("paused", refused("Error: Diagnostic could not be run while DCGM is paused."),
          lost("dcgm_diag", "in_use", "retry"), 202),
    _diag("another driver", refused("Error: Diagnostic could not be run because the Tesla recommended driver is not "
                                    "being used."), lost("dcgm_diag", "failed"), 250),
    _diag("no host engine", "Error: unable to establish a connection to the specified host: localhost\n",
          lost("dcgm_diag", "failed"), 235),
    _diag("a process on a GPU", json.dumps({"processes": ["/usr/bin/python3"], "count": 1}),
          lost("dcgm_diag", "in_use", "retry")),
    _diag("one that may be there", json.dumps({"processes": ["/usr/bin/mps"], "count": 1}), NOT_RUN,
          gpu_processes=["mps"]),
    _diag("a job in a container", json.dumps({"memory": 70123}), lost("dcgm_diag", "in_use", "retry")),
    ("dcgm_diag", "jobs may run", {"nvidia_smi": smi()}, NOT_RUN, GPUS, {"gpu_processes": ["*"]}),
    _diag("no dcgmi", json.dumps({"problem": "no_tool", "said": "dcgmi: not found"}),
          lost("dcgm_diag", "no_tool")),
    _diag("no driver", json.dumps({"problem": "failed", "said": "nvidia-smi -q: exit status 9: "}),
          lost("dcgm_diag", "failed")),
    _diag("does not end", "", lost("dcgm_diag", "timed_out", "retry"), 124),
    _diag("hangs", "", lost("dcgm_diag", "timed_out", "retry"), 124),
    _diag("not JSON", "hello {", lost("dcgm_diag", "unreadable")),
    _diag("nothing", "", lost("dcgm_diag", "unreadable")),
    _diag("no test", '{"DCGM Diagnostic": {"test_categories": []}}', lost("dcgm_diag", "unreadable")),
    ("dcgm_diag", "its reader hangs", {"nvidia_smi": smi(), "diag": broken("timed_out")},
     lost("dcgm_diag", "timed_out", "retry"), GPUS, {}),
]  # fmt: skip

# ---------------------------------------------------------------- drive_read

GIB = 1 << 30
PROFILE: dict[str, Any] = {"os_disk": {"controller": "BOSS"}, "nvme": {"count": 8}}


def speed(*mbytes: float, amount: int = GIB) -> dict[str, Any]:
    """What the reader tells of a drive that was read at so many MB/s at start, middle and end."""
    return {"places": [[amount, round(amount / 1e6 / number, 6)] for number in mbytes]}


FAST = speed(6400, 6300, 6350)
DISK = {"model": "ST18000NM", "transport": "sas"}
BOSS = drive("sda", "B0", model="DELLBOSS VD", **speed(480, 470, 475))
OTHERS = [drive(f"nvme{n}n1", f"S{n}", **speed(*(s + n for s in (6400, 6300, 6350)))) for n in range(1, 5)]


def _drive(name: str, row: dict[str, Any], want: Want, *, jobs: bool = False, machine: Any = ("none\n", 1),
           limit: float | None = None) -> tuple[Any, ...]:  # fmt: skip
    profile = {**PROFILE, "limits": {"drive_read_mbytes_per_second": limit}} if limit else PROFILE
    said = reading(*OTHERS, BOSS, drive(**row), machine=machine)
    return "drive_read", name, said, want, profile, {"gpu_processes": ["*"]} if jobs else {}


def _alone(name: str, rows: list[dict[str, Any]], want: Want, machine: Any = ("none\n", 1)) -> tuple[Any, ...]:
    return "drive_read", name, reading(*rows, machine=machine), want, PROFILE, {}


FINE: Want = [("ok", "drive_read", "", "none")]
WARNED: Want = [("warn", "drive.slow", "nvme0n1, serial S0", "none")]
LOST: Want = [("unknown", "drive_read.unreadable", "nvme0n1", "escalate")]
BROKEN: Want = [("fail", "drive.read_error", "nvme0n1, serial S0", "replace")]
TOO_SLOW: Want = [("fail", "drive.slow", "nvme0n1, serial S0", "replace")]
NOT_OURS = {"error": "Operation not permitted", "errno": 1, "places": []}
DRIVES: list[Any] = [
    _drive("all alike", FAST, FINE),
    _drive("an error", {"error": "No data available", "errno": 61, "offset": 1920383410176, "places": [[GIB, 0.17]]},
           BROKEN),
    _drive("an error at its first byte", {"error": "Input/output error", "errno": 5, "offset": 0, "places": []},
           BROKEN),
    _drive("a dead controller", {"error": "No such device or address", "errno": 6, "offset": None, "places": []},
           BROKEN),
    _drive("hangs", {"timed_out": 45.0}, [("unknown", "drive_read.timed_out", "nvme0n1, serial S0", "retry")]),
    _drive("slow at one place", speed(6400, 2900, 6300), WARNED),
    _drive("at a third of the others", speed(2100, 2100, 2100), WARNED),
    _drive("a little more than half", speed(3300, 3300, 3300), FINE),
    _drive("below the limit", speed(2600, 1990, 2600), TOO_SLOW, limit=2000),
    _drive("the OS disk has no limit", FAST, FINE, limit=2000),
    _drive("below the limit, and jobs may run", speed(2600, 1990, 2600), WARNED, limit=2000, jobs=True),
    _drive("the only one of its model", {"model": "Other", **speed(900, 900, 900)}, FINE),
    _drive("too small to be measured", speed(1, 1, 1, amount=4096), FINE),
    _drive("slow, so that little was read", {"places": [[20 << 20, 10.1]] * 3}, WARNED),
    _drive("not permitted", NOT_OURS, [("unknown", "drive_read.not_permitted", "nvme0n1", "escalate")]),
    _drive("no device node", {"error": "No such file or directory", "errno": 2, "places": []}, LOST),
    _drive("its reader died", {"error": "its reader died", "errno": 0, "places": []}, LOST),
    _drive("no speeds", {"places": []}, LOST),
    _drive("two of three places", speed(6400, 6400), LOST),
    _drive("no time", {"places": [[GIB, 0], [GIB, 1], [GIB, 1]]}, LOST),
    _alone("hard disks are slower at their ends",
           [drive(f"sd{c}", c, **DISK, **speed(260 + n, 220 + n, 126 + n)) for n, c in enumerate("abcd")], FINE),
    _alone("in a container", [drive(**NOT_OURS)], [("warn", "drive_read.virtual", "", "none")], "podman\n"),
    _alone("on bare metal", [drive(**NOT_OURS)], [("unknown", "drive_read.not_permitted", "nvme0n1", "escalate")]),
    _alone("one in a container", [drive(**NOT_OURS), GOOD_DRIVE | FAST],
           [("unknown", "drive_read.not_permitted", "nvme0n1", "escalate")], "podman\n"),
    _alone("no drive", [], [("unknown", "drive_read.no_drive", "", "escalate")]),
    ("drive_read", "the reader hangs", {"drives": "timed_out", "virtualization": "none\n"},
     [("unknown", "drive_read.timed_out", "", "retry")], PROFILE, {}),
    ("drive_read", "not JSON", {"drives": "Traceback", "virtualization": "none\n"},
     [("unknown", "drive_read.unreadable", "", "escalate")], PROFILE, {}),
]  # fmt: skip
