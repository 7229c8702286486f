"""What /sys/class/infiniband, hwmon and mlxlink tell of HCAs, and what their checks must say.

Paths and values are those of mlx5 in Linux 6.1 to 6.8; mlxlink's answers, as MFT 4.26 prints them, are fixtures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Want = list[tuple[str, str, str, str]]
Row = tuple[str, str, dict[str, Any], Want, dict[str, Any], dict[str, Any]]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
TOP = "/sys/class/infiniband"
BOOT = "2365cf1b-9b5d-4187-b797-9dd769386a95"
HCAS = {"count": 2, "rate_gbps": 400}
OPTICAL, COPPER = (FIXTURES / "mlxlink.optical.json").read_text(), (FIXTURES / "mlxlink.copper.txt").read_text()


def files(values: dict[str, Any]) -> str:
    """What ``read_files`` prints; keys that are no path are below /sys/class/infiniband."""
    found = {key if key.startswith("/") else f"{TOP}/{key}": f"{value}\n" for key, value in values.items()}
    return json.dumps({"files": found, "errors": {}})


LAYERS = {f"mlx5_{n}/ports/1/link_layer": "InfiniBand" for n in range(2)}
# beside them a virtual function, and a port of the same family of cards that is Ethernet
OTHERS = {
    "mlx5_2/ports/1/link_layer": "Ethernet",
    "mlx5_3/ports/1/link_layer": "InfiniBand",
    "mlx5_3/device/physfn/vendor": "0x15b3",
}

# ---------------------------------------------------------------- hca_firmware

BOARD, VERSION = "MT_0000000838", "28.43.2026"


def firmware(second: str = VERSION, board: str = BOARD, **more: str) -> str:
    versions = {"mlx5_0": VERSION, "mlx5_1": second, "mlx5_2": "26.30.1004", "mlx5_3": "1.1.1"}
    boards = {"mlx5_0/board_id": BOARD, "mlx5_1/board_id": board}
    return files({**LAYERS, **OTHERS, **{f"{k}/fw_ver": v for k, v in versions.items()}, **boards, **more})


IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.43.2026
\tHardware version: 0
\tPort 1:
\t\tState: Active
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4125
\tNumber of ports: 1
\tFirmware version: 22.35.1012
\tPort 1:
\t\tLink layer: Ethernet
"""


def _firmware(name: str, sysfs: Any, want: Want, ibstat: Any = "no_tool", floor: str = "", exact: str = "") -> Row:
    hcas = {**HCAS, "firmware": floor} if floor else HCAS
    return ("hca_firmware", name, {"sysfs": sysfs, "ibstat": ibstat}, want, {"hcas": hcas}, {"hca_firmware": exact})


FIRMWARE_FINE: Want = [("ok", "hca_firmware", "", "none")]
NO_DEVICE: Want = [("warn", "hca_firmware.no_device", "", "none")]
LOWER: Want = [("fail", "firmware.below_floor", "HCA mlx5_1", "update_firmware")]
FIRMWARE_CASES: list[Row] = [
    _firmware("two alike", firmware(), FIRMWARE_FINE),
    _firmware("at the floor", firmware(), FIRMWARE_FINE, floor="28.43.2026"),
    _firmware("above it", firmware(), FIRMWARE_FINE, floor="28.9.9999"),
    _firmware("below it", firmware("28.9.3000"), LOWER, floor="28.43.2026"),
    _firmware("exactly", firmware(), FIRMWARE_FINE, exact=VERSION),
    _firmware(
        "another",
        firmware("28.44.1036"),
        [("fail", "hca.firmware_version", "HCA mlx5_1", "update_firmware")],
        exact=VERSION,
    ),
    _firmware("mixed", firmware("28.39.1002"), [("warn", "hca.firmware_mixed", BOARD, "update_firmware")]),
    _firmware("two kinds of board", firmware("26.39.1002", "MT_0000000222"), FIRMWARE_FINE),
    _firmware(
        "no version",
        firmware("burnt"),
        [("unknown", "hca_firmware.unreadable", "HCA mlx5_1", "escalate")],
        floor="28.43.2026",
    ),
    *(
        _firmware(
            f"version {version!r}, nothing is wanted",
            firmware(version),
            [("unknown", "hca_firmware.unreadable", "HCA mlx5_1", "escalate")],
            exact=exact,
        )
        for version, exact in (("", ""), ("N/A", ""), ("burnt", ""), ("", VERSION))
    ),
    _firmware(
        "no version of any",
        firmware("", **{"mlx5_0/fw_ver": ""}),
        [("unknown", "hca_firmware.unreadable", f"HCA mlx5_{n}", "escalate") for n in range(2)],
    ),
    _firmware(
        "no file of one",
        json.dumps({"files": {k: v for k, v in json.loads(firmware())["files"].items() if "5_1/fw_ver" not in k}}),
        [("unknown", "hca_firmware.unreadable", "HCA mlx5_1", "escalate")],
    ),
    _firmware(
        "no board of one", firmware(board=""), [("unknown", "hca_firmware.unreadable", "HCA mlx5_1", "escalate")]
    ),
    _firmware(
        "ibstat, no version",
        files({}),
        [("unknown", "hca_firmware.unreadable", "HCA mlx5_0", "escalate")],
        IBSTAT.replace("\tFirmware version: 28.43.2026\n", ""),
    ),
    _firmware("ibstat", files({}), FIRMWARE_FINE, IBSTAT, floor="28.43.2026"),
    _firmware(
        "ibstat, below",
        files({}),
        [("fail", "firmware.below_floor", "HCA mlx5_0", "update_firmware")],
        IBSTAT,
        floor="28.44.0",
    ),
    _firmware("neither", files({}), NO_DEVICE),
    _firmware("ibstat hangs", files({}), [("unknown", "hca_firmware.timed_out", "", "retry")], "timed_out"),
    _firmware("not JSON", "x", [("unknown", "hca_firmware.unreadable", "", "escalate")]),
]

# ---------------------------------------------------------------- hca_errors

NAMES = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors")
NAMES += ("local_link_integrity_errors", "excessive_buffer_overrun_errors")
NAMES += ("port_rcv_constraint_errors", "port_xmit_constraint_errors")
HOUR = 3600.0


def counters(uptime: float = 10 * HOUR, **second: Any) -> str:
    """Two ports whose counters are all 0 but those given, which are the second's."""
    values: dict[str, Any] = {"/proc/uptime": f"{uptime:.2f} 1.0", "/proc/sys/kernel/random/boot_id": BOOT}
    for port in ("mlx5_0/ports/1", "mlx5_1/ports/1", "mlx5_2/ports/1", "mlx5_3/ports/1"):
        mine = second if port.startswith("mlx5_1") else {}
        broken = 60000 if port.startswith(("mlx5_2", "mlx5_3")) else 0
        values.update({f"{port}/counters/{name}": mine.get(name, broken) for name in NAMES})
        again = ("local_ack_timeout_err", "out_of_sequence", "packet_seq_err")
        values.update({f"{port}/hw_counters/{name}": mine.get(name, 0) for name in again})
    return files({**LAYERS, **OTHERS, **values})


def without(path: str, value: str | None, *more: str) -> str:
    """The same with one kind of file (by part of its path) gone, or of another text."""
    said = json.loads(counters())
    for name in [name for name in said["files"] if any(part in name for part in (path, *more))]:
        if value is None:
            del said["files"][name]
        else:
            said["files"][name] = value
    return json.dumps(said)


def earlier(uptime: float, boot: str = BOOT, **second: int) -> dict[str, Any]:
    return {"boot": boot, "uptime": uptime, "ports": {"mlx5_0/1": {}, "mlx5_1/1": second}}


def _errors(name: str, text: Any, want: Want, before: Any = None, **limits: float) -> Row:
    profile = {"hcas": HCAS, "limits": limits}
    return ("hca_errors", name, {"counters": text}, want, profile, {} if before is None else {"hca_counters": before})


FINE: Want = [("ok", "hca_errors", "", "none")]
BAD: Want = [("fail", "hca.errors", "HCA mlx5_1 port 1", "reseat")]
FLAPS: Want = [("fail", "hca.link_flaps", "HCA mlx5_1 port 1", "reseat")]
NOW = 10 * HOUR
ERROR_CASES: list[Row] = [
    _errors("none", counters(), FINE),
    _errors("few since the boot", counters(symbol_error=100), FINE),
    _errors("many since the boot", counters(symbol_error=101), BAD),
    _errors("a short time may bring what an hour may", counters(60, port_rcv_errors=10), FINE),
    _errors("more than that", counters(60, port_rcv_errors=11), BAD),
    _errors("many, and none of them new", counters(symbol_error=5000), FINE, earlier(9 * HOUR, symbol_error=5000)),
    _errors("new ones", counters(symbol_error=5011), BAD, earlier(9 * HOUR, symbol_error=5000)),
    _errors("over two hours", counters(symbol_error=5020), FINE, earlier(8 * HOUR, symbol_error=5000)),
    _errors("cleared, few since", counters(symbol_error=10), FINE, earlier(9 * HOUR, symbol_error=5000)),
    _errors("cleared, many since", counters(symbol_error=11), BAD, earlier(9 * HOUR, symbol_error=5000)),
    _errors("of another boot", counters(symbol_error=100), FINE, earlier(1.0, "other", symbol_error=99)),
    _errors("of the future", counters(symbol_error=101), BAD, earlier(99 * HOUR, symbol_error=101)),
    _errors("in another form", counters(symbol_error=101), BAD, ["x"]),
    _errors("a new port", counters(symbol_error=100), FINE, {**earlier(NOW - 60), "ports": {"mlx5_0/1": {}}}),
    _errors("of two kinds", counters(link_error_recovery=200, excessive_buffer_overrun_errors=14), BAD),
    _errors("link down twice", counters(link_downed=2), FINE),
    _errors("link down three times", counters(link_downed=3), FLAPS),
    _errors("none allowed", counters(link_downed=1), FLAPS, hca_link_downs_per_day=0),
    _errors("more allowed", counters(symbol_error=9000), FINE, hca_errors_per_hour=1000),
    _errors(
        "a counter at its end",
        counters(symbol_error=65535),
        [("warn", "hca.counter_full", "HCA mlx5_1 port 1", "none")],
        earlier(9 * HOUR, symbol_error=65535),
    ),
    _errors(
        "remote",
        counters(port_rcv_remote_physical_errors=101),
        [("warn", "hca.remote_errors", "HCA mlx5_1 port 1", "none")],
    ),
    _errors(
        "sent again",
        counters(local_ack_timeout_err=101, packet_seq_err=7),
        [("warn", "hca.retransmissions", "HCA mlx5_1 port 1", "none")],
    ),
    _errors(
        "a port without counters",
        counters(**dict.fromkeys(NAMES, "N/A"), out_of_sequence=1),
        [("unknown", "hca_errors.unreadable", "HCA mlx5_1 port 1", "escalate")],
    ),
    *(
        _errors(
            f"{name} of one port, {said}",
            without(f"mlx5_1/ports/1/{folder}/{name}", value),
            [("unknown", "hca_errors.unreadable", "HCA mlx5_1 port 1", "escalate")],
        )
        for folder, name in (
            ("counters", "symbol_error"),
            ("counters", "link_downed"),
            ("counters", "port_rcv_errors"),
            ("hw_counters", "packet_seq_err"),
        )
        for said, value in (("not there", None), ("N/A", "N/A"), ("no text", ""))
    ),
    _errors(
        "one port without its files",
        without("mlx5_1/ports/1/counters/", None, "mlx5_1/ports/1/hw_counters/"),
        [("unknown", "hca_errors.unreadable", "HCA mlx5_1 port 1", "escalate")],
    ),
    _errors(
        "no port tells of symbol errors",
        without("counters/symbol_error", None),
        [("unknown", "hca_errors.unreadable", f"HCA mlx5_{n} port 1", "escalate") for n in range(2)],
    ),
    _errors(
        "no counter at all",
        files({**LAYERS, "/proc/uptime": "60.1 2"}),
        [("unknown", "hca_errors.unreadable", "", "escalate")],
    ),
    _errors("no HCA", files({"/proc/uptime": "60.1 2"}), [("warn", "hca_errors.no_device", "", "none")]),
    _errors("no uptime", files(LAYERS), [("unknown", "hca_errors.unreadable", "", "escalate")]),
    _errors("hangs", "timed_out", [("unknown", "hca_errors.timed_out", "", "retry")]),
]

# ---------------------------------------------------------------- hca_module


def hwmon(module: Any = 52000, asic: int = 61000, **more: Any) -> str:
    values: dict[str, Any] = {f"mlx5_{n}/fw_ver": VERSION for n in range(2)}
    for n in range(2):
        for number, label, now, crit in ((1, "asic", asic, 105000), (2, "Module0", module, 80000)):
            stem = f"mlx5_{n}/device/hwmon/hwmon{n}/temp{number}"
            values.update({f"{stem}_label": label, f"{stem}_input": now if n else 40000, f"{stem}_crit": crit})
    return files({**LAYERS, **OTHERS, **values, **more})


COLD = files({**LAYERS, "mlx5_0/fw_ver": VERSION, "mlx5_1/fw_ver": VERSION})
NO_TOOL = json.dumps({"devices": {}, "problem": "no_tool"})


def mlxlink(second: str = OPTICAL, **row: Any) -> str:
    devices = {"mlx5_0": OPTICAL, "mlx5_1": second, "mlx5_2": "an Ethernet port"}
    answers: dict[str, Any] = {name: {"code": 0, "text": text, "error": ""} for name, text in devices.items()}
    answers["mlx5_1"].update(row)
    return json.dumps({"devices": answers, "problem": ""})


def optical(**values: str) -> str:
    said = json.loads(OPTICAL)
    said["result"]["output"]["Module Info"].update({key.replace("_", " "): value for key, value in values.items()})
    return json.dumps(said)


def _module(name: str, sensors: Any, links: Any, want: Want, hcas: Any = None, **limits: float) -> Row:
    profile = {"hcas": {**HCAS, **(hcas or {})}, "limits": limits}
    return ("hca_module", name, {"hwmon": sensors, "mlxlink": links, "load": "{}"}, want, profile, {})


MODULE_FINE: Want = [("ok", "hca_module", "", "none")]
FLOOR = {"module_firmware": {"MMA4Z00-NS400": "47.171.3"}}
HOT = ("hca.module_hot", "HCA mlx5_1", "escalate")
MODULE_CASES: list[Row] = [
    _module("warm enough", hwmon(), mlxlink(), MODULE_FINE, FLOOR),
    _module("optical and copper", hwmon(), mlxlink(COPPER), MODULE_FINE),
    _module("hwmon alone", hwmon(), NO_TOOL, MODULE_FINE),
    _module("mlxlink alone", COLD, mlxlink(), MODULE_FINE),
    _module("module at 71", hwmon(71000), NO_TOOL, [("warn", *HOT)]),
    _module("module at 66, limit 65", hwmon(66000), NO_TOOL, [("fail", *HOT)], hca_module_celsius=65),
    _module("module critical", hwmon(80000), NO_TOOL, [("fail", "hca.hot", "HCA mlx5_1 Module0", "escalate")]),
    _module("adapter critical", hwmon(asic=106000), NO_TOOL, [("fail", "hca.hot", "HCA mlx5_1 asic", "escalate")]),
    _module("its own threshold", COLD, mlxlink(optical(**{"Temperature [C]": "80 [-10..80]"})), [("fail", *HOT)]),
    _module("mlxlink, above 70", COLD, mlxlink(optical(**{"Temperature [C]": "71 [-10..80]"})), [("warn", *HOT)]),
    _module(
        "old firmware of a module",
        hwmon(),
        mlxlink(optical(FW_Version="47.9.9")),
        [
            ("fail", "firmware.below_floor", "HCA mlx5_1, MMA4Z00-NS400 FLT0000001", "update_firmware"),
            ("warn", "hca.module_firmware_mixed", "MMA4Z00-NS400", "update_firmware"),
        ],
        FLOOR,
    ),
    _module(
        "mixed firmware",
        hwmon(),
        mlxlink(optical(FW_Version="47.172.0")),
        [("warn", "hca.module_firmware_mixed", "MMA4Z00-NS400", "update_firmware")],
    ),
    _module(
        "firmware not told",
        hwmon(),
        mlxlink(optical(FW_Version="N/A")),
        [("unknown", "hca_module.unreadable", "HCA mlx5_1", "escalate")],
        FLOOR,
    ),
    _module(
        "firmware wanted, and no mlxlink",
        hwmon(),
        NO_TOOL,
        [("unknown", "hca_module.no_tool", "", "escalate")],
        FLOOR,
    ),
    _module("nothing tells", COLD, NO_TOOL, [("unknown", "hca_module.no_tool", "", "escalate")]),
    _module(
        "one hangs",
        hwmon(),
        mlxlink(problem="timed_out", text=""),
        [("unknown", "hca_module.timed_out", "HCA mlx5_1", "retry")],
    ),
    _module(
        "not root",
        hwmon(),
        mlxlink("", code=1, error="-E- Permission denied: you need to be root"),
        [("unknown", "hca_module.not_permitted", "HCA mlx5_1", "escalate")],
    ),
    _module(
        "no module",
        hwmon(),
        mlxlink("\nOperational Info\nState : Polling\n"),
        [("unknown", "hca_module.unreadable", "HCA mlx5_1", "escalate")],
    ),
    *(
        _module(name, sensors, links, [("unknown", "hca_module.unreadable", "HCA mlx5_1", "escalate")])
        for name, sensors, links in (
            (
                "an answer that lacks one",
                hwmon(),
                json.dumps({"devices": {"mlx5_0": json.loads(mlxlink())["devices"]["mlx5_0"]}, "problem": ""}),
            ),
            ("a temperature that is none, no hwmon", COLD, mlxlink(optical(**{"Temperature [C]": "garbled"}))),
            ("no temperature, no hwmon", COLD, mlxlink(optical(**{"Temperature [C]": "N/A"}))),
            ("hwmon alone, a temperature that is none", hwmon("garbled"), NO_TOOL),
            (
                "hwmon alone, no sensor of one",
                files({k: v for k, v in json.loads(hwmon())["files"].items() if "mlx5_1/device/hwmon" not in k}),
                NO_TOOL,
            ),
        )
    ),
    _module("copper tells no temperature", COLD, mlxlink(COPPER), MODULE_FINE),
    _module("no HCA", files({}), NO_TOOL, [("warn", "hca_module.no_device", "", "none")]),
    _module("not JSON", hwmon(), "Traceback", [("unknown", "hca_module.unreadable", "", "escalate")]),
    _module("sysfs not JSON", "x", NO_TOOL, [("unknown", "hca_module.unreadable", "", "escalate")]),
    _module("mlxlink's reader hangs", hwmon(), "timed_out", [("unknown", "hca_module.timed_out", "", "retry")]),
]
CASES = [*FIRMWARE_CASES, *ERROR_CASES, *MODULE_CASES]
