"""What nvidia-smi says of GPUs, in its three forms; hostile ones too."""

from __future__ import annotations

import pytest
from gpu_health_cases import fixture
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.checks.gpu_log import Gpu, bus_id, parse_log, parse_query, parse_text, parse_xml


def test_the_log_of_eight() -> None:
    log = parse_log(fixture("smi-q.8x-h100.xml"))

    assert log is not None
    assert (log.driver, log.attached, len(log.gpus)) == ("580.95.05", 8, 8)
    assert [g.bus for g in log.gpus[:2]] == ["0000:1b:00.0", "0000:43:00.0"]
    first = log.gpus[0]
    assert first.get("ecc_mode/current_ecc") == "Enabled"
    assert first.get("fan_speed") == ""
    assert first.get("display_mode") == ""
    assert first.get("temperature/gpu_target_temperature", "temperature/gpu_temp").endswith(" C")
    assert first.number("gpu_power_readings/current_power_limit") == 700.0
    assert first.number("temperature/gpu_temp_slow_tlimit_threshold") == -2.0
    assert first.number("product_name") is None
    assert first.number("vbios_version") is None
    assert not [path for path in first.values if path.startswith(("supported_clocks", "mig_devices"))]
    assert first.processes == ()


def test_lines_around_the_document_do_not_matter() -> None:
    text = fixture("smi-q.8x-h100.xml")

    assert parse_log(f"a note\n{text}WARNING: infoROM is corrupted at gpu 0000:43:00.0\n") == parse_log(text)


@pytest.mark.parametrize("name", ["/usr/bin/a&b <c>", "\x01\x1b[0m\ud800", "a</process_info", "&nosuch;", "é" * 9])
def test_a_process_with_any_name_makes_no_log_unreadable(name: str) -> None:
    info = "<process_info><pid>7</pid><process_name>NAME</process_name></process_info>\n"
    text = fixture("smi-q.8x-h100.xml").replace("<processes>\n", f"<processes>\n{info}", 1).replace("NAME", name)
    log = parse_log(text)

    assert log is not None
    assert len(log.gpus) == 8
    assert log.gpus[0].processes[0]["pid"] == "7"
    assert log.gpus[0].processes[0].get("process_name") or name == "&nosuch;"


HEAD, TAIL = "<nvidia_smi_log>", "</nvidia_smi_log>"
BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [\n<!ENTITY a "ha">\n'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1 if n else str()};" * 10}">\n' for n in range(9))
    + f"]>\n{HEAD}<driver_version>&a8;</driver_version><gpu id='1'></gpu>{TAIL}"
)
FILE = BOMB[:45] + f'<!ENTITY a SYSTEM "file:///etc/passwd">]>\n{HEAD}<driver_version>&a;</driver_version>{TAIL}'


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        FILE,
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ELEMENT gpu ANY>]>' + HEAD + "<gpu id='1'/>" + TAIL,
        HEAD + "<a>" * 20 + "</a>" * 20 + TAIL,
        HEAD + "<a/>" * 200_001 + TAIL,
        HEAD + "<gpu>" + TAIL,
        f"<?xml version='1.0' encoding='no-such'?>{HEAD}<gpu a=1/>{TAIL}",
        f"<?xml version='1.0'?><log>{HEAD}{TAIL}</log>",
        "",
        TAIL + HEAD,
    ],
    ids=["bomb", "file", "own declarations", "deep", "many", "not closed", "encoding", "another root", "empty", "torn"],
)
def test_what_nvidia_smi_would_not_write_is_refused(text: str) -> None:
    assert parse_log(text) is None


def test_the_doctype_that_nvidia_smi_writes_is_read_and_fetched_from_nowhere() -> None:
    text = '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log SYSTEM "file:///no/such.dtd">' + HEAD + "<gpu id='1'/>" + TAIL

    log = parse_log(text)

    assert log is not None
    assert [g.bus for g in log.gpus] == ["1"]


def test_what_is_kept_of_a_log_is_bounded() -> None:
    info = f"<process_info><pid>1</pid><process_name>{'x' * 999}</process_name></process_info>"
    log = parse_log(f"{HEAD}<gpu id='1'><processes>{info * 999}</processes></gpu>{TAIL}")

    assert log is not None
    assert len(log.gpus[0].processes) == 200
    assert len(log.gpus[0].processes[0]["process_name"]) == 300


PIECES = st.sampled_from(
    ["<gpu id='1'>", "</gpu>", "<gpu>", "<processes>", "</processes>", "<process_info>", "</process_info>", "<a>",
     "</a>", "<process_name>", "</process_name>", "<!DOCTYPE x>", "<![CDATA[", "]]>", "&lt;", "&#0;", "<!--", "-->"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_any_text_is_a_log_or_none(text: str) -> None:
    log = parse_log(f"{HEAD}{text}{TAIL}")

    assert log is None or all(isinstance(g.number("a"), (float, type(None))) for g in log.gpus)


def test_the_text_form_says_what_the_xml_form_says() -> None:
    text, xml = parse_text(fixture("smi-q.2x-h100.txt")), parse_xml(fixture("smi-q.8x-h100.xml"))

    assert text is not None
    assert xml is not None
    assert (text.driver, text.attached) == ("580.95.05", 2)
    assert [gpu.bus for gpu in text.gpus] == [gpu.bus for gpu in xml.gpus[:2]]
    idle = text.gpus[1]
    differ = {path for path, value in idle.values.items() if xml.gpus[1].values.get(path) != value}
    assert differ <= {
        "temperature/gpu_temp",
        "temperature/gpu_temp_tlimit",
        "temperature/memory_temp",
        "fb_memory_usage/used",
    }
    assert len(idle.values) > 50
    assert idle.processes == ()
    assert idle.number("gpu_power_readings/current_power_limit") == 700.0
    assert idle.get("performance_state") == "P0"


def test_the_text_form_tells_of_processes() -> None:
    log = parse_log(fixture("smi-q.2x-h100.txt"))

    assert log is not None
    assert log.gpus[0].processes == (
        {"pid": "10309", "type": "C", "process_name": "./gpu_burn", "used_memory": "28234 MiB"},
        {"pid": "10310", "type": "C", "process_name": "/opt/a : b", "used_memory": "545 MiB"},
    )


def test_the_text_form_of_before_535_and_of_one_part() -> None:
    log = parse_text(
        "==============NVSMI LOG==============\n\nDriver Version                            : 470.256.02\n\n"
        "Attached GPUs                             : 1\nGPU 00000001:00:00.0\n    Clocks Throttle Reasons\n"
        "        Idle                              : Active\n        HW Slowdown                       : Active\n"
        "            HW Thermal Slowdown           : Active\n    Retired Pages\n"
        "        Single Bit ECC                    : 60\n        Double Bit ECC                    : 5\n"
        "        Pending Page Blacklist            : Yes\n"
    )

    assert log is not None
    assert log.gpus == (
        Gpu(
            "0001:00:00.0",
            {
                "driver_version": "470.256.02",
                "clocks_throttle_reasons/clocks_throttle_reason_gpu_idle": "Active",
                "clocks_throttle_reasons/clocks_throttle_reason_hw_slowdown": "Active",
                "clocks_throttle_reasons/clocks_throttle_reason_hw_thermal_slowdown": "Active",
                "retired_pages/multiple_single_bit_retirement/retired_count": "60",
                "retired_pages/double_bit_retirement/retired_count": "5",
                "retired_pages/pending_retirement": "Yes",
            },
        ),
    )


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["GPU 00000000:1B:00.0", "    Processes", "        Process ID  : 1", "ECC Mode", "    Fabric : x"]
        )
        | st.text(max_size=20),
        max_size=20,
    )
)
def test_any_text_behind_the_heading_is_a_log(lines: list[str]) -> None:
    log = parse_text("\n".join(["=====NVSMI LOG=====", *lines]))

    assert log is not None
    assert all(gpu.bus == "0000:1b:00.0" for gpu in log.gpus)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "<gpu id='1'/>" * 129 + TAIL,
        "NVSMI LOG\n" + "GPU 00000000:1B:00.0\n" * 129,
    ],
    ids=["xml", "text"],
)
def test_no_host_has_so_many_gpus(text: str) -> None:
    assert parse_log(text) is None


def test_a_long_line_is_no_line_of_the_text_form() -> None:
    long = "        Used   " + " " * 3_000_000 + ": 7 MiB"
    log = parse_text(f"NVSMI LOG\nGPU 00000000:1B:00.0\n    FB Memory Usage\n{long}\n        Used : 8 MiB\n")

    assert log is not None
    assert log.gpus[0].number("fb_memory_usage/used") == 8.0


def test_rows_of_a_query() -> None:
    text = "a note\nindex, driver_version, name, pci.bus_id, uuid\n0, 580.1, NVIDIA H200, 00000000:19:00.0, GPU-1\n"
    log = parse_log(text)

    assert log is not None
    assert (log.driver, log.attached) == ("580.1", None)
    assert [(gpu.bus, gpu.get("product_name"), gpu.get("uuid")) for gpu in log.gpus] == [
        ("0000:19:00.0", "NVIDIA H200", "GPU-1")
    ]
    assert parse_query("index, name\n0, NVIDIA H200\n") is None


@pytest.mark.parametrize(
    ("text", "bus"),
    [("00000000:9A:00.0", "0000:9a:00.0"), ("0001:00:00.0", "0001:00:00.0"), ("9A:00.0", "9a:00.0"), ("", "")],
)
def test_addresses_are_written_as_the_kernel_writes_them(text: str, bus: str) -> None:
    assert bus_id(text) == bus
