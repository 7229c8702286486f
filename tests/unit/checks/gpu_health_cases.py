"""Logs of ``nvidia-smi -q -x``, and what gpu_count, gpu_firmware, gpu_memory and gpu_running must say of them.

The bad ones are the good ones of ``fixtures/gpu``, one thing changed.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from firstlight.checks.capture import Output

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gpu"
Wanted = list[tuple[str, str, str, str]]
# check, name, captured, want, gpus and limits of the profile, expect
Row = tuple[str, str, dict[str, Output], Wanted, dict[str, Any], dict[str, Any]]
GPUS: dict[str, Any] = {"count": 8, "model": "H100", "nvswitch": True}


@functools.lru_cache
def fixture(name: str) -> str:
    return (FIXTURES / name).read_text()


def broken(problem: str) -> Output:
    return Output(errors=f"it is {problem}", code=1, problem=problem, seconds=5.0)


def smi(edits: dict[int, dict[str, str | None]] | None = None, base: str = "smi-q.8x-h100.xml", **more: Any) -> Output:
    """``nvidia-smi -q -x`` with values set, by number of the GPU and path below it; None takes the element out.

    gpus: only the first so many. driver: its version. code, errors: of the command. after: a line behind the document.
    """
    text = fixture(base)
    if edits or "gpus" in more or "driver" in more:
        root = ElementTree.fromstring(text)
        gpus = root.findall("gpu")
        for number, values in (edits or {}).items():
            for path, value in values.items():
                _set(gpus[number], path, value)
        if "driver" in more:
            _set(root, "driver_version", more["driver"])
        for gpu in gpus[more.get("gpus", len(gpus)) :]:
            root.remove(gpu)
        head = text[: text.index("<nvidia_smi_log>")]
        text = f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"
    return Output(text + more.get("after", ""), more.get("errors", ""), more.get("code", 0))


def _set(gpu: ElementTree.Element, path: str, value: str | None) -> None:
    parent = gpu
    *above, tag = path.split("/")
    for name in above:
        child = parent.find(name)
        parent = ElementTree.SubElement(parent, name) if child is None else child
    element = parent.find(tag)
    if element is None:
        element = ElementTree.SubElement(parent, tag)
    if value is None:
        parent.remove(element)
    else:
        element.text = value


def every(values: dict[str, str | None], gpus: int = 8) -> dict[int, dict[str, str | None]]:
    return dict.fromkeys(range(gpus), values)


def good(check: str) -> Wanted:
    return [("ok", check, "", "none")]


def lost(check: str, reason: str, action: str = "escalate", place: str = "") -> Wanted:
    return [("unknown", f"{check}.{reason}", place, action)]


def _log(check: str, name: str, output: Output, want: Wanted, **gpus: Any) -> Row:
    """limits, expect: of the profile and of the site; all else is what the profile has of GPUs."""
    limits, expect = gpus.pop("limits", {}), gpus.pop("expect", {})
    return check, name, {"nvidia_smi": output}, want, {"gpus": {**GPUS, **gpus}, "limits": limits}, expect


def _unread(check: str) -> list[Row]:
    """What every check of nvidia-smi -q -x must say of an answer that is none."""
    return [
        _log(check, "hangs", broken("timed_out"), lost(check, "timed_out", "retry")),
        _log(check, "no tool", broken("no_tool"), lost(check, "no_tool")),
        _log(check, "not permitted", broken("not_permitted"), lost(check, "not_permitted")),
        _log(check, "nothing", Output(""), lost(check, "unreadable")),
        _log(check, "cut off", Output(fixture("smi-q.8x-h100.xml")[:30000]), lost(check, "unreadable")),
        _log(check, "good, bad exit", smi(code=255), lost(check, "failed")),
    ]


V100 = "smi-q.v100.xml"
HERE, THERE = "0000:1b:00.0", "0000:8a:00.0"
BAD_END = "Unable to determine the device handle for GPU0000:9D:00.0: Unknown Error\n"
FIRST = "GPU-00000000-1111-4222-8333-000000000000"


def _two(edits: dict[int, dict[str, str | None]]) -> Output:
    return Output(smi(edits, gpus=2).text.replace("attached_gpus>8", "attached_gpus>2"))


COUNT = [
    *_unread("gpu_count"),
    _log("gpu_count", "8 of 8", smi(), good("gpu_count")),
    _log("gpu_count", "a shim's word on stderr", smi(errors="a note"), good("gpu_count")),
    _log("gpu_count", "7 of 8", Output(smi(gpus=7).text.replace("attached_gpus>8", "attached_gpus>7")),
         [("fail", "gpu.missing", "1 of 8", "reseat")]),
    _log("gpu_count", "one of two, told of twice", _two({1: {"uuid": FIRST}}),
         [("fail", "gpu.missing", "1 of 2", "reseat"), ("unknown", "gpu_count.unreadable", "0000:", "escalate")],
         count=2),
    _log("gpu_count", "one of two, its place told of twice", _two({1: {"pci/pci_bus_id": "00000000:1B:00.0"}}),
         [("fail", "gpu.missing", "1 of 2", "reseat"), ("unknown", "gpu_count.unreadable", HERE, "escalate")],
         count=2),
    _log("gpu_count", "two of two", _two({}), good("gpu_count"), count=2),
    _log("gpu_count", "told of 7, 8 attached", smi(gpus=7), [("fail", "gpu.lost", "1 of 8", "power_cycle")]),
    _log("gpu_count", "no handle", Output(BAD_END, code=15), [("fail", "gpu.lost", "0000:9d:00.0", "power_cycle")]),
    _log("gpu_count", "no handle, behind the others", smi(gpus=7, after=BAD_END, code=15),
         [("fail", "gpu.lost", "0000:9d:00.0", "power_cycle")]),
    _log("gpu_count", "lost", smi({4: {"temperature/gpu_temp": "GPU is lost"}}),
         [("fail", "gpu.lost", "0000:9d:00.0", "power_cycle")]),
    _log("gpu_count", "an unknown error where its name belongs", smi({2: {"product_name": "Unknown Error"}}),
         [("fail", "gpu.lost", "0000:52:00.0", "power_cycle")]),
    _log("gpu_count", "9 of 8", smi(), [("fail", "gpu.unexpected", "", "escalate")], count=7),
    _log("gpu_count", "wrong model", smi({0: {"product_name": "NVIDIA A100-SXM4-80GB"}}),
         [("fail", "gpu.wrong_model", "0000:1b:00.0", "escalate")]),
    _log("gpu_count", "without a name", smi({0: {"product_name": None}}), lost("gpu_count", "unreadable", place=HERE)),
    *(
        _log("gpu_count", f"{path} {value}", smi({0: {path: value}}),
             lost("gpu_count", "unreadable", place="n/a" if "pci" in path and value == "N/A" else ""))
        for path in ("uuid", "pci/pci_bus_id")
        for value in ("N/A", "garbage")
    ),
    *(
        _log("gpu_count", f"driver version {value!r}", smi(driver=value), lost("gpu_count", "unreadable"))
        for value in ("N/A", "", "garbage")
    ),
    _log("gpu_count", "text form", Output(fixture("smi-q.2x-h100.txt")), good("gpu_count"), count=2),
    _log("gpu_count", "another driver", smi(), [("fail", "gpu.driver_version", "", "escalate")],
         expect={"gpu_driver": "580.159.04"}),
]  # fmt: skip

FIRMWARE = [
    *_unread("gpu_firmware"),
    _log("gpu_firmware", "alike", smi(), good("gpu_firmware")),
    _log("gpu_firmware", "at the floor", smi(), good("gpu_firmware"), vbios="96.00.89.00.01"),
    _log("gpu_firmware", "one below", smi({5: {"vbios_version": "96.00.89.00.00"}}),
         [("fail", "gpu.firmware", "0000:c3:00.0", "update_firmware")], vbios="96.00.89.00.01"),
    _log("gpu_firmware", "exactly so", smi(), good("gpu_firmware"), expect={"gpu_vbios": "96.00.89.00.01"}),
    _log("gpu_firmware", "one newer than it must be", smi({5: {"vbios_version": "96.00.9F.00.01"}}),
         [("fail", "gpu.firmware_version", "0000:c3:00.0", "update_firmware")], vbios="96.00.89.00.01",
         expect={"gpu_vbios": "96.00.89.00.01"}),
    _log("gpu_firmware", "hexadecimal parts", smi(every({"vbios_version": "96.00.A5.00.1A"})), good("gpu_firmware"),
         vbios="96.00.A5.00.09"),
    _log("gpu_firmware", "mixed", smi({5: {"vbios_version": "96.00.9F.00.01"}}),
         [("warn", "gpu.firmware_mixed", "692-2G520-0200-000", "none")]),
    _log("gpu_firmware", "mixed, of other boards",
         smi({5: {"vbios_version": "96.00.9F.00.01", "board_part_number": "692-2G520-0280-000"}}),
         good("gpu_firmware")),
    _log("gpu_firmware", "infoROM", smi(after="WARNING: infoROM is corrupted at gpu 0000:43:00.0\n"),
         [("fail", "gpu.inforom", "0000:43:00.0", "replace")]),
    _log("gpu_firmware", "not told", smi({5: {"vbios_version": "N/A"}}),
         lost("gpu_firmware", "unreadable", place="0000:c3:00.0")),
]  # fmt: skip


def _memory(
    name: str, values: dict[str, str | None], want: Wanted, base: str = "smi-q.8x-h100.xml", **gpus: Any
) -> Row:
    return _log("gpu_memory", name, smi({0: values}, base), want, **gpus)


PAGES = "retired_pages/{}_retirement/retired_count"
MEMORY = [
    *_unread("gpu_memory"),
    _log("gpu_memory", "8 good", smi(), good("gpu_memory")),
    _log("gpu_memory", "text form", Output(fixture("smi-q.2x-h100.txt")), good("gpu_memory")),
    _log("gpu_memory", "V100", smi(base=V100), good("gpu_memory")),
    _memory("ECC off", {"ecc_mode/current_ecc": "Disabled", "ecc_mode/pending_ecc": "Disabled", "ecc_errors": None,
                        "remapped_rows": None},
            [("fail", "gpu.ecc_off", HERE, "escalate")]),
    _memory("ECC off until a reset", {"ecc_mode/current_ecc": "Disabled"}, [("fail", "gpu.ecc_off", HERE, "reboot")]),
    _memory("ECC off after a reset", {"ecc_mode/pending_ecc": "Disabled"},
            [("warn", "gpu.ecc_pending", HERE, "escalate")]),
    _memory("DRAM, the first in its life",
            {"ecc_errors/volatile/dram_uncorrectable": "1", "ecc_errors/aggregate/dram_uncorrectable": "1"},
            [("fail", "gpu.ecc_errors", HERE, "reboot")]),
    _memory("ECC not told", {"ecc_mode/current_ecc": "N/A"}, lost("gpu_memory", "unreadable", place=HERE)),
    _log("gpu_memory", "a model without ECC",
         smi(every({"ecc_mode/current_ecc": "N/A", "ecc_errors": None, "remapped_rows": None})),
         good("gpu_memory"), ecc=False),
    _memory("DRAM, since boot", {"ecc_errors/volatile/dram_uncorrectable": "1"},
            [("fail", "gpu.ecc_errors", HERE, "reboot")]),
    _memory("SRAM, since boot", {"ecc_errors/volatile/sram_uncorrectable_parity": "2"},
            [("fail", "gpu.ecc_errors", HERE, "reboot")]),
    _memory("V100, since boot", {"ecc_errors/volatile/double_bit/total": "3"},
            [("fail", "gpu.ecc_errors", THERE, "reboot")], V100),
    _memory("in its life", {"ecc_errors/aggregate/sram_uncorrectable_secded": "4",
                            "ecc_errors/aggregate_uncorrectable_sram_sources/sram_l2": "4"},
            [("warn", "gpu.ecc_history", HERE, "none")]),
    _memory("corrected", {"ecc_errors/volatile/dram_correctable": "1001"},
            [("warn", "gpu.ecc_corrected", HERE, "none")], limits={"gpu_corrected_errors": 1000}),
    _memory("corrected, no limit", {"ecc_errors/volatile/dram_correctable": "1001"}, good("gpu_memory")),
    _memory("DRAM not told", {"ecc_errors/volatile/dram_uncorrectable": "N/A"},
            lost("gpu_memory", "unreadable", place=HERE)),
    _memory("SRAM in one number, before 535",
            {"ecc_errors/volatile/sram_uncorrectable_parity": None,
             "ecc_errors/volatile/sram_uncorrectable_secded": None,
             "ecc_errors/volatile/sram_uncorrectable": "0"}, good("gpu_memory")),
    _memory("counters not told", {"ecc_errors/volatile": None}, lost("gpu_memory", "unreadable", place=HERE)),
    _memory("a counter that is none", {"ecc_errors/volatile/dram_uncorrectable": "Unknown Error"},
            lost("gpu_memory", "unreadable", place=HERE)),
    _memory("SRAM threshold", {"ecc_errors/aggregate/sram_threshold_exceeded": "Yes"},
            [("fail", "gpu.sram_errors", HERE, "replace")]),
    _memory("unrepairable", {"ecc_errors/unrepairable_memory": "Yes"},
            [("fail", "gpu.memory_unrepairable", HERE, "replace")]),
    _memory("channel repair", {"ecc_errors/channel_repair_pending": "Yes"},
            [("fail", "gpu.repair_pending", HERE, "reboot")]),
    _memory("TPC repair", {"ecc_errors/tpc_repair_pending": "Yes"}, [("fail", "gpu.repair_pending", HERE, "reboot")]),
    _memory("rows failed", {"remapped_rows/remapped_row_failure": "Yes"},
            [("fail", "gpu.rows_failed", HERE, "replace")]),
    _memory("rows pending", {"remapped_rows/remapped_row_pending": "Yes", "remapped_rows/remapped_row_unc": "1"},
            [("warn", "gpu.rows_remapped", HERE, "none"), ("fail", "gpu.rows_pending", HERE, "reboot")]),
    _memory("no spare rows", {"remapped_rows/row_remapper_histogram/row_remapper_histogram_none": "2 bank(s)"},
            [("warn", "gpu.rows_used_up", HERE, "none")]),
    _memory("a flag that is none", {"remapped_rows/remapped_row_pending": "Perhaps"},
            lost("gpu_memory", "unreadable", place=HERE)),
    _memory("neither rows nor pages", {"remapped_rows": None}, lost("gpu_memory", "unreadable", place=HERE)),
    _memory("neither, MIG", {"remapped_rows": None, "mig_mode/current_mig": "Enabled"},
            [("warn", "gpu.rows_not_told", HERE, "none")]),
    _memory("pages", {PAGES.format("multiple_single_bit"): "2"}, [("warn", "gpu.pages_retired", THERE, "none")], V100),
    _memory("60 pages", {PAGES.format("multiple_single_bit"): "55", PAGES.format("double_bit"): "5"},
            [("fail", "gpu.pages_retired", THERE, "replace")], V100),
    _memory("pages pending", {"retired_pages/pending_retirement": "Yes"},
            [("fail", "gpu.pages_pending", THERE, "reboot")], V100),
    _memory("pages pending, older word", {"retired_pages/pending_retirement": None,
                                          "retired_pages/pending_blacklist": "Yes"},
            [("fail", "gpu.pages_pending", THERE, "reboot")], V100),
    _memory("lost", {"temperature/gpu_temp": "GPU is lost", "ecc_mode/current_ecc": "GPU is lost"},
            lost("gpu_memory", "unreadable", place=HERE)),
    _memory("recovery: reset", {"gpu_recovery_action": "Reset"}, [("fail", "gpu.recovery", HERE, "reboot")]),
    _memory("recovery: drain", {"gpu_recovery_action": "Drain and Reset"}, [("fail", "gpu.recovery", HERE, "reboot")]),
    _memory("recovery: in another word", {"gpu_recovery_action": "Bake"}, [("fail", "gpu.recovery", HERE, "escalate")]),
    _log("gpu_memory", "recovery: before 570",
         smi({number: {"gpu_recovery_action": None,
                       "gpu_reset_status/reset_required": "No" if number else "Yes"} for number in range(8)},
             driver="535.183.06"),
            [("fail", "gpu.recovery", HERE, "reboot")]),
    *(
        _memory(f"{path} {value or 'not there'}", {path: value}, lost("gpu_memory", "unreadable", place=HERE))
        for path in ("ecc_errors/aggregate/dram_uncorrectable", "ecc_errors/aggregate/sram_uncorrectable_secded",
                     "ecc_errors/volatile/sram_uncorrectable_parity",
                     "ecc_errors/aggregate/sram_threshold_exceeded", "ecc_errors/unrepairable_memory",
                     "ecc_errors/channel_repair_pending", "ecc_mode/pending_ecc", "remapped_rows/remapped_row_corr",
                     "remapped_rows/remapped_row_unc", "remapped_rows/remapped_row_pending",
                     "remapped_rows/remapped_row_failure", "gpu_recovery_action",
                     "remapped_rows/row_remapper_histogram/row_remapper_histogram_none")
        for value in ("N/A", None)
    ),
    _memory("nothing of its life", {"ecc_errors/aggregate": None}, lost("gpu_memory", "unreadable", place=HERE)),
    *(
        _log("gpu_memory", f"{path} of no GPU", smi(every({path: "N/A"})),
             [lost("gpu_memory", "unreadable", place="0000:")[0]] * 8)
        for path in ("ecc_errors/unrepairable_memory", "remapped_rows/remapped_row_pending", "gpu_recovery_action")
    ),
    _log("gpu_memory", "what drivers before 575 do not tell",
         smi(every({"ecc_errors/unrepairable_memory": None, "ecc_errors/channel_repair_pending": None,
                    "ecc_errors/tpc_repair_pending": None, "ecc_errors/aggregate/sram_threshold_exceeded": None,
                    "gpu_recovery_action": None, "gpu_reset_status/reset_required": "No"}), driver="535.183.06"),
         good("gpu_memory")),
    _log("gpu_memory", "neither a recovery action nor a reset status",
         smi(every({"gpu_recovery_action": None}), driver="535.183.06"),
         [lost("gpu_memory", "unreadable", place="0000:")[0]] * 8),
    _log("gpu_memory", "Ada, which tells nothing of unrepairable memory",
         smi(every({"ecc_errors/unrepairable_memory": "N/A", "product_architecture": "Ada Lovelace",
                    "product_name": "NVIDIA L40S"})), good("gpu_memory")),
    *(
        _memory(f"V100, {path} not told", {path: "N/A"}, lost("gpu_memory", "unreadable", place=THERE), V100)
        for path in ("ecc_errors/aggregate/double_bit/total", PAGES.format("double_bit"))
    ),
    _memory("V100, pending pages not told",
            {"retired_pages/pending_retirement": "N/A", "retired_pages/pending_blacklist": "N/A"},
            lost("gpu_memory", "unreadable", place=THERE), V100),
    _log("gpu_memory", "MIG on one of 8", smi({0: {"remapped_rows": None, "mig_mode/current_mig": "Enabled"}}),
         [("warn", "gpu.rows_not_told", HERE, "none")]),
    _memory("corrected, a limit, and no number",
            {"ecc_errors/volatile/sram_correctable": "N/A", "ecc_errors/volatile/dram_correctable": "N/A"},
            lost("gpu_memory", "unreadable", place=HERE), limits={"gpu_corrected_errors": 1000}),
    _memory("recovery: deprecated",
            {"gpu_reset_status/reset_required": "Requested functionality has been deprecated"}, good("gpu_memory")),
]  # fmt: skip


def _running(
    name: str, values: dict[str, str | None], want: Wanted, base: str = "smi-q.8x-h100.xml", **more: Any
) -> Row:
    return _log("gpu_running", name, smi({0: values}, base), want, **more)


def process(name: str, memory: str = "28234 MiB") -> dict[str, str | None]:
    info = {"pid": "10309", "type": "C", "process_name": name, "used_memory": memory}
    return {f"processes/process_info/{tag}": value for tag, value in info.items()}


REASON = "clocks_event_reasons/clocks_event_reason_"
OLD_REASON = "clocks_throttle_reasons/clocks_throttle_reason_"
IN_USE: dict[str, str | None] = {"fb_memory_usage/used": "32362 MiB"}
RUNNING = [
    *_unread("gpu_running"),
    _log("gpu_running", "8 idle", smi(), good("gpu_running")),
    _log("gpu_running", "V100", smi(base=V100), good("gpu_running")),
    *(
        _running(f"{name} {value}", {f"{REASON}{name}": value}, lost("gpu_running", "unreadable", place=HERE))
        for name, value in (("hw_thermal_slowdown", "N/A"), ("hw_thermal_slowdown", None), ("sync_boost", "Perhaps"),
                            ("hw_power_brake_slowdown", "N/A"), ("sw_thermal_slowdown", None), ("hw_slowdown", "N/A"))
    ),
    _running("sync boost not told", {f"{REASON}sync_boost": "N/A"}, good("gpu_running")),
    _running("133 C, and no threshold", {"temperature/gpu_temp": "133 C", "temperature/gpu_temp_tlimit": "N/A"},
             lost("gpu_running", "unreadable", place=HERE)),
    _running("V100, no threshold",
             {"temperature/gpu_temp_max_gpu_threshold": "N/A", "temperature/gpu_temp_slow_threshold": "N/A"},
             lost("gpu_running", "unreadable", place=THERE), V100),
    _running("no threshold but the profile's", {"temperature/gpu_temp_tlimit": "N/A"}, good("gpu_running"),
             limits={"gpu_celsius": 80}),
    _running("memory too, and not how warm",
             {"temperature/memory_temp": "N/A", "temperature/gpu_temp_max_mem_threshold": "95 C"},
             lost("gpu_running", "unreadable", place=HERE)),
    _running("power limit without its default", {"gpu_power_readings/default_power_limit": "N/A"},
             lost("gpu_running", "unreadable", place=HERE)),
    _running("application clocks without their default", {"default_applications_clocks/graphics_clock": "N/A"},
             lost("gpu_running", "unreadable", place=HERE)),
    _log("gpu_running", "no list of processes", smi(every({"processes": None})), good("gpu_running")),
    _running("at work, at the power cap", {f"{REASON}gpu_idle": "Not Active", f"{REASON}sw_power_cap": "Active"},
             good("gpu_running")),
    _running("a process", process("./gpu_burn"), [("fail", "gpu.process", HERE, "escalate")]),
    _log("gpu_running", "processes, text form", Output(fixture("smi-q.2x-h100.txt")),
         [("fail", "gpu.process", HERE, "escalate")]),
    _running("a process without a name", process("[Not Found]"), [("fail", "gpu.process", HERE, "escalate")]),
    _running("a process that may be", {**IN_USE, **process("/usr/bin/nv-hostengine")}, good("gpu_running"),
             expect={"gpu_processes": ["nv-hostengine"]}),
    _running("another than may be", process("/usr/bin/python3"), [("fail", "gpu.process", HERE, "escalate")],
             expect={"gpu_processes": ["nv-hostengine"]}),
    _running("any may be", process("/usr/bin/python3 train.py"), good("gpu_running"), expect={"gpu_processes": ["*"]}),
    _running("memory in use, nobody seen", IN_USE, [("fail", "gpu.memory_in_use", HERE, "reboot")]),
    _running("memory in use, as the profile accepts", IN_USE, good("gpu_running"),
             limits={"gpu_memory_used_mib": 40000}),
    _running("much not told", {"temperature": None, "clocks_event_reasons": None, "fb_memory_usage": None},
             lost("gpu_running", "unreadable", place=HERE)),
    _running("memory not told", {"fb_memory_usage/used": "N/A"}, lost("gpu_running", "unreadable", place=HERE)),
    _running("hot, clocks halved", {f"{REASON}hw_thermal_slowdown": "Active", f"{REASON}hw_slowdown": "Active"},
             [("fail", "gpu.throttled", HERE, "escalate")]),
    _running("power brake", {f"{REASON}hw_power_brake_slowdown": "Active"},
             [("fail", "gpu.throttled", HERE, "escalate")]),
    _running("warm", {f"{REASON}sw_thermal_slowdown": "Active"}, [("fail", "gpu.throttled", HERE, "escalate")]),
    _running("slowdown without a cause", {f"{REASON}hw_slowdown": "Active"},
             [("warn", "gpu.clocks_held", HERE, "none")]),
    _running("a reason of tomorrow", {f"{REASON}moon": "Active"}, [("warn", "gpu.clocks_held", HERE, "none")]),
    _running("throttle reasons", {f"{OLD_REASON}hw_thermal_slowdown": "Active"},
             [("fail", "gpu.throttled", THERE, "escalate")], V100),
    _running("reasons not told", {"clocks_event_reasons": None}, lost("gpu_running", "unreadable", place=HERE)),
    _running("power limit lowered", {"gpu_power_readings/current_power_limit": "500.00 W"},
             [("warn", "gpu.power_limit", HERE, "none")]),
    _running("power limit not the profile's", {"gpu_power_readings/current_power_limit": "500.00 W"},
             [("fail", "gpu.power_limit", HERE, "escalate")], power_watts=700),
    _log("gpu_running", "power limit as the profile has it",
         smi(every({"gpu_power_readings/current_power_limit": "600.00 W"})), good("gpu_running"), power_watts=600),
    _running("power limit not told", {"gpu_power_readings": None}, lost("gpu_running", "unreadable", place=HERE),
             power_watts=700),
    _running("power limit not told, not asked for", {"gpu_power_readings": None}, good("gpu_running")),
    _running("V100's power limit", {"power_readings/enforced_power_limit": "200.00 W"},
             [("warn", "gpu.power_limit", THERE, "none")], V100),
    _running("slow clocks", {"max_clocks/sm_clock": "1755 MHz"}, [("fail", "gpu.slow_clocks", HERE, "escalate")],
             sm_mhz=1980),
    _running("clocks not told", {"max_clocks": None}, lost("gpu_running", "unreadable", place=HERE), sm_mhz=1980),
    _running("application clocks", {"applications_clocks/graphics_clock": "1200 MHz"},
             [("warn", "gpu.clocks_held", HERE, "none")]),
    _running("at its limit", {"temperature/gpu_temp": "87 C", "temperature/gpu_temp_tlimit": "0 C"},
             [("fail", "gpu.hot", HERE, "escalate")]),
    _running("above the profile's limit", {"temperature/gpu_temp": "76 C"}, [("fail", "gpu.hot", HERE, "escalate")],
             limits={"gpu_celsius": 75}),
    _running("V100 at its threshold", {"temperature/gpu_temp": "83 C"}, [("fail", "gpu.hot", THERE, "escalate")], V100),
    _running("V100's memory", {"temperature/memory_temp": "86 C"}, [("fail", "gpu.hot", THERE, "escalate")], V100),
    _running("lost", {"temperature/gpu_temp": "GPU is lost", "fb_memory_usage/used": "GPU is lost"},
             lost("gpu_running", "unreadable", place=HERE)),
    _running("temperature not told", {"temperature/gpu_temp": "ERR!"}, lost("gpu_running", "unreadable", place=HERE)),
]  # fmt: skip

CASES: list[Row] = [*COUNT, *FIRMWARE, *MEMORY, *RUNNING]
