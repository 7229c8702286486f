"""What the checks of how a host is set must say: access control of bridges, CPU frequency, kernel settings.

The lspci texts have the form that pciutils 3.9 prints for root ports with the capability; sysfs as Linux 6.1 has it.
"""

from __future__ import annotations

import json
from typing import Any

Want = list[tuple[str, str, str, str]]
BARE = ("none\n", 1)
CPU = {"cpu_governor": "performance", "cpu_energy_preference": "performance"}


def bridge(address: str, control: str | None, kind: str = "0604") -> str:
    """One function as ``lspci -D -n -vv`` prints it; control: the words after ACSCtl, None for no such capability."""
    lines = [
        f"{address} {kind}: 8086:352a (rev 04) (prog-if 00 [Normal decode])",
        "\tControl: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+",
        "\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00",
        "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0",
    ]
    if control is not None:
        lines += [
            "\tCapabilities: [148 v1] Access Control Services",
            "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
            f"\t\tACSCtl:\t{control}",
        ]
    return "\n".join([*lines, "\tKernel driver in use: pcieport", "", ""])


OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
ON = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
DENIED = "0000:15:01.0 0604: 8086:352a (rev 04) (prog-if 00 [Normal decode])\n\tCapabilities: <access denied>\n\n"
CLEAR = bridge("0000:15:01.0", OFF) + bridge("0000:00:1c.0", None) + bridge("0000:16:00.0", OFF)
PLAIN = "0000:18:00.0 0604: 1a03:1150 (rev 04)\n\tStatus: Cap- 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast\n\n"
NAMED = CLEAR.replace("0000:", "").replace("0604: 8086:352a", "PCI bridge: Intel Corporation Device 352a")
ONE_ON = bridge("0000:15:01.0", OFF) + bridge("0000:16:00.0", ON)


def acs(lspci: Any, machine: Any = BARE) -> dict[str, Any]:
    return {"lspci": lspci, "virtualization": machine}


ACS_CASES: list[tuple[str, dict[str, Any], Want, dict[str, Any]]] = [
    ("off", acs(CLEAR), [("ok", "pcie_acs", "", "none")], {}),
    ("no bridge at all", acs(""), [("unknown", "pcie_acs.unreadable", "", "escalate")], {}),
    (
        "no bridge in a virtual machine",
        acs("", "kvm\n"),
        [("warn", "pcie_acs.virtual", "", "none")],
        {"acs_in_virtual_machines": True},
    ),
    ("named, without domain", acs(NAMED), [("ok", "pcie_acs", "", "none")], {}),
    (
        "named, one on",
        acs(NAMED.replace("TransBlk-", "TransBlk+", 1)),
        [("fail", "pcie_acs.enabled", "1 of 2 bridges: 0000:15:01.0", "retry")],
        {},
    ),
    ("a bridge of plain PCI has no capabilities", acs(CLEAR + PLAIN), [("ok", "pcie_acs", "", "none")], {}),
    *(
        (name, acs(text), [("unknown", "pcie_acs.unreadable", "", "escalate")], {})
        for name, text in (
            ("no capability told", CLEAR + "0000:17:00.0 0604: 8086:352a (rev 04)\n\n"),
            ("a register that is not understood", CLEAR + bridge("0000:17:00.0", "SrcValid? 0x7f")),
            ("an empty register", CLEAR + bridge("0000:17:00.0", "")),
            ("a capability without its register", CLEAR.replace("ACSCtl", "ACSXyz", 1)),
            ("all ones", CLEAR + "0000:17:00.0 0604: 8086:352a (rev ff)\n\t!!! Unknown header type 7f\n\n"),
            ("bridges of another form", CLEAR.replace(" 0604: ", " bridge ")),
        )
    ),
    (
        "one on, one not told",
        acs(ONE_ON + bridge("0000:17:00.0", "")),
        [
            ("fail", "pcie_acs.enabled", "1 of 2 bridges: 0000:16:00.0", "retry"),
            ("unknown", "pcie_acs.unreadable", "", "escalate"),
        ],
        {},
    ),
    ("one on", acs(ONE_ON), [("fail", "pcie_acs.enabled", "1 of 2 bridges: 0000:16:00.0", "retry")], {}),
    (
        "many on",
        acs("".join(bridge(f"0000:{n:02x}:00.0", ON) for n in range(20))),
        [("fail", "pcie_acs.enabled", "20 of 20 bridges: 0000:00:00.0", "retry")],
        {},
    ),
    ("virtual", acs(ONE_ON, "kvm\n"), [("warn", "pcie_acs.virtual", "", "none")], {}),
    ("in a container", acs("no_tool", "podman\n"), [("warn", "pcie_acs.virtual", "", "none")], {}),
    (
        "virtual, judged all the same",
        acs(ONE_ON, "qemu\n"),
        [("fail", "pcie_acs.enabled", "0000:16:00.0", "retry")],
        {"acs_in_virtual_machines": True},
    ),
    ("denied", acs(DENIED), [("unknown", "pcie_acs.not_permitted", "", "escalate")], {}),
    ("no lspci", acs("no_tool"), [("unknown", "pcie_acs.no_tool", "", "escalate")], {}),
    ("lspci hangs", acs("timed_out"), [("unknown", "pcie_acs.timed_out", "", "retry")], {}),
    ("something else", acs("usage: lspci\n"), [("unknown", "pcie_acs.unreadable", "", "escalate")], {}),
    ("machine not known", acs(CLEAR, "no_tool"), [("unknown", "pcie_acs.no_tool", "", "escalate")], {}),
]

HWP = {
    "scaling_driver": "intel_pstate", "scaling_governor": "performance",
    "scaling_available_governors": "performance powersave", "energy_performance_preference": "performance",
    "energy_performance_available_preferences": "default performance balance_performance balance_power power",
    "cpuinfo_max_freq": "3800000", "scaling_max_freq": "3800000", "base_frequency": "2000000",
}  # fmt: skip
ACPI = {
    "scaling_driver": "acpi-cpufreq", "scaling_governor": "performance", "cpuinfo_max_freq": "3800000",
    "scaling_available_governors": "ondemand performance schedutil", "scaling_max_freq": "3800000",
    "bios_limit": "3800000", "scaling_available_frequencies": "3800000 2100000 ",
}  # fmt: skip

# EPYC 7763 of Linux 5.12 and later: the boost clock is in cpuinfo_max_freq alone, all else ends at the base clock
EPYC = {
    "scaling_driver": "acpi-cpufreq", "scaling_governor": "performance", "cpuinfo_max_freq": "3529052",
    "scaling_available_governors": "conservative ondemand performance schedutil", "scaling_max_freq": "2450000",
    "scaling_available_frequencies": "2450000 2000000 1500000 ", "bios_limit": "2450000",
}  # fmt: skip


def sysfs(*cpus: dict[str, str], busy: str = "3500000", **driver: str) -> str:
    said = {"cpus": dict(enumerate(cpus)), "driver": driver, "busy": {str(len(cpus) - 1): busy}}
    return json.dumps({**said, "throttled": {}})


def hot(**counts: int) -> str:
    """Two packages, the second was slowed down so often."""
    said = json.loads(sysfs(HWP, HWP))
    return json.dumps({**said, "throttled": {"0": {"core": 0, "package": 0}, "1": counts}})


def cpu(text: Any, machine: Any = BARE) -> dict[str, Any]:
    return {"sysfs": text, "virtualization": machine}


CPU_CASES: list[tuple[str, dict[str, Any], Want, dict[str, Any]]] = [
    ("intel_pstate", cpu(sysfs(HWP, HWP, no_turbo="0", max_perf_pct="100")), [("ok", "cpu_frequency", "", "none")], {}),
    ("acpi-cpufreq, no preference to set", cpu(sysfs(ACPI)), [("ok", "cpu_frequency", "", "none")], {}),
    ("EPYC boosts above its table", cpu(sysfs(EPYC, EPYC, boost="1")), [("ok", "cpu_frequency", "", "none")], {}),
    (
        "EPYC, table not told",
        cpu(sysfs({name: text for name, text in EPYC.items() if name != "scaling_available_frequencies"})),
        [("ok", "cpu_frequency", "", "none")],
        {},
    ),
    ("EPYC at its base clock", cpu(sysfs(EPYC, busy="2450000")), [("ok", "cpu_frequency", "", "none")], {}),
    (
        "EPYC, set to its boost clock",
        cpu(sysfs({**EPYC, "scaling_max_freq": "3529052"})),
        [("ok", "cpu_frequency", "", "none")],
        {},
    ),
    (
        "EPYC capped",
        cpu(sysfs({**EPYC, "scaling_max_freq": "2000000"}, EPYC)),
        [("fail", "cpu.capped", "CPU 0", "escalate")],
        {},
    ),
    (
        "EPYC, the BIOS's limit",
        cpu(sysfs(EPYC, {**EPYC, "bios_limit": "1500000", "scaling_max_freq": "1500000"})),
        [("fail", "cpu.capped", "CPU 1", "escalate"), ("fail", "cpu.bios_limit", "CPU 1", "escalate")],
        {},
    ),
    ("EPYC stuck", cpu(sysfs(EPYC, busy="1500000")), [("fail", "cpu.slow", "CPU 0", "escalate")], {}),
    ("EPYC, no boost", cpu(sysfs(EPYC, busy="2445000", boost="0")), [("warn", "cpu.no_turbo", "", "none")], {}),
    ("hot", cpu(hot(core=12, package=40)), [("warn", "cpu.throttled", "package 1", "none")], {}),
    ("not hot", cpu(hot(core=0, package=0)), [("ok", "cpu_frequency", "", "none")], {}),
    *(
        (f"not told: {name}", cpu(text), [("unknown", "cpu_frequency.unreadable", "", "escalate")], {})
        for name, text in (
            ("frequency when busy", sysfs(HWP, busy="")),
            ("any frequency when busy", json.dumps({**json.loads(sysfs(HWP)), "busy": {}})),
            ("caps", sysfs({k: v for k, v in HWP.items() if not k.endswith("_max_freq")})),
            ("cap of one CPU", sysfs({**HWP, "scaling_max_freq": ""}, HWP)),
            ("what it can", sysfs({**HWP, "cpuinfo_max_freq": "N/A"}, HWP)),
            ("limit of the BIOS", sysfs({**EPYC, "bios_limit": "N/A"}, EPYC)),
            ("table", sysfs({**EPYC, "scaling_available_frequencies": "fast slow"}, EPYC)),
            ("turbo", sysfs(HWP, no_turbo="x")),
            ("share", sysfs(HWP, max_perf_pct="")),
            ("how hot", json.dumps({**json.loads(sysfs(HWP)), "throttled": {"0": {"core": "x", "package": "x"}}})),
            ("how hot at all", json.dumps({k: v for k, v in json.loads(sysfs(HWP)).items() if k != "throttled"})),
        )
    ),
    (
        "files that are not there",
        cpu(sysfs(HWP, no_turbo="None", boost="None")),
        [("ok", "cpu_frequency", "", "none")],
        {},
    ),
    (
        "governor of some",
        cpu(sysfs(HWP, {**HWP, "scaling_governor": "powersave"}, {**HWP, "scaling_governor": "powersave"}, HWP)),
        [("fail", "cpu.governor", "CPU 1-2", "retry")],
        {},
    ),
    (
        "preference",
        cpu(sysfs(HWP, {**HWP, "energy_performance_preference": "balance_power"})),
        [("fail", "cpu.energy_preference", "CPU 1", "retry")],
        {},
    ),
    (
        "one CPU without",
        cpu(sysfs(HWP, {}, HWP)),
        [("fail", "cpu.no_cpufreq", "CPU 1", "escalate")],
        {},
    ),
    (
        "capped",
        cpu(sysfs({**HWP, "scaling_max_freq": "2000000"}, HWP, max_perf_pct="60")),
        [("fail", "cpu.capped", "CPU 0", "escalate"), ("fail", "cpu.capped", "", "escalate")],
        {},
    ),
    (
        "the BIOS's limit",
        cpu(sysfs({**ACPI, "bios_limit": "2100000"})),
        [("fail", "cpu.bios_limit", "CPU 0", "escalate")],
        {},
    ),
    ("no turbo", cpu(sysfs(HWP, no_turbo="1")), [("warn", "cpu.no_turbo", "", "none")], {}),
    ("slow", cpu(sysfs(HWP, busy="1500000")), [("fail", "cpu.slow", "CPU 0", "escalate")], {}),
    ("near 2 GHz", cpu(sysfs(ACPI, busy="2000000")), [("fail", "cpu.slow", "CPU 0", "escalate")], {}),
    (
        "slow, and that is well",
        cpu(sysfs(HWP, busy="1500000")),
        [("ok", "cpu_frequency", "", "none")],
        {"limits": {"cpu_busy_percent": 50}},
    ),
    ("no cpufreq", cpu(sysfs({}, {})), [("fail", "cpu.no_cpufreq", "", "escalate")], {}),
    ("no cpufreq, virtual", cpu(sysfs({}, {}), "kvm\n"), [("warn", "cpu.no_cpufreq", "", "none")], {}),
    (
        "no cpufreq, machine not known",
        cpu(sysfs({}, {}), "no_tool"),
        [("unknown", "cpu_frequency.no_cpufreq", "", "escalate")],
        {},
    ),
    ("hangs", cpu("timed_out"), [("unknown", "cpu_frequency.timed_out", "", "retry")], {}),
    ("not JSON", cpu("x"), [("unknown", "cpu_frequency.unreadable", "", "escalate")], {}),
    ("no CPU", cpu(sysfs()), [("unknown", "cpu_frequency.unreadable", "", "escalate")], {}),
]

TUNING = {
    "hugepages": {"2048": 64}, "transparent_hugepages": "madvise", "numa_balancing": "disabled", "swap": "disabled",
    "sysctl": {"vm.max_map_count": 1048576}, "limits": {"nofile": 1048576, "memlock": "unlimited"},
}  # fmt: skip
VALUES = {
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "64\n",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/proc/sys/vm/max_map_count": "1048576\n",
}
OURS = {"/etc/sysctl.d/90-firstlight.conf": "vm.max_map_count = 1048576\nkernel.numa_balancing = 0\n"}
LIMITS = "DefaultLimitNOFILE=1048576\nDefaultLimitMEMLOCK=infinity\n"
TIMER = "ActiveState=active\nLoadState=loaded\n"


def tuned(values: dict[str, str | None] | None = None, files: dict[str, str] | None = None, **more: Any) -> dict:
    seen = {path: text for path, text in {**VALUES, **(values or {})}.items() if text is not None}
    found = {
        "values": json.dumps({"files": seen, "errors": {}}),
        "files": json.dumps({"files": {**OURS, **(files or {})}, "errors": {}}),
        "manager": LIMITS, "timer": TIMER, "virtualization": BARE,
    }  # fmt: skip
    return {**found, **more}


def failed(symptom: str, locator: str, action: str = "retry") -> Want:
    return [("fail", symptom, locator, action)]


TUNING_CASES: list[tuple[str, dict[str, Any], Want, dict[str, Any]]] = [
    ("good", tuned(), [("ok", "host_tuning", "", "none")], {}),
    ("nothing asked for", tuned({}), [("ok", "host_tuning", "", "none")], {"tuning": {}}),
    (
        "sysctl",
        tuned({"/proc/sys/vm/max_map_count": "65530\n"}),
        failed("sysctl.value", "vm.max_map_count"),
        {},
    ),
    (
        "another file sets it too",
        tuned(files={"/etc/sysctl.d/99-tuned.conf": "-vm/max_map_count=65530\n"}),
        failed("sysctl.other_owner", "vm.max_map_count", "escalate"),
        {},
    ),
    (
        "another file that is read earlier",
        tuned(files={"/usr/lib/sysctl.d/50-default.conf": "vm.max_map_count=65530\n"}),
        [("ok", "host_tuning", "", "none")],
        {},
    ),
    (
        "a file that one of its name hides",
        tuned(files={
            "/usr/lib/sysctl.d/99-x.conf": "vm.max_map_count=65530\n", "/etc/sysctl.d/99-x.conf": "# nothing\n"
        }),
        [("ok", "host_tuning", "", "none")],
        {},
    ),
    (
        "sysctl.conf is last",
        tuned(files={"/etc/sysctl.conf": "# a = b\nvm.max_map_count=65530\n"}),
        failed("sysctl.other_owner", "vm.max_map_count", "escalate"),
        {},
    ),
    ("balancing", tuned({"/proc/sys/kernel/numa_balancing": "1"}), failed("sysctl.value", "kernel.numa_balancing"), {}),
    (
        "huge pages",
        tuned({"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "17\n"}),
        failed("hugepages.count", "2048 kB", "reboot"),
        {},
    ),
    (
        "huge pages, and a reboot is due",
        tuned({"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "17\n"}),
        [("warn", "hugepages.count", "2048 kB", "reboot")],
        {"expect": {"reboot_due": True}},
    ),
    (
        "a size that is not there",
        tuned({"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": None}),
        [("unknown", "host_tuning.unreadable", "2048 kB", "escalate")],
        {},
    ),
    (
        "transparent",
        tuned({"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"}),
        failed("hugepages.transparent", "transparent_hugepage"),
        {},
    ),
    (
        "swap",
        tuned({"/proc/swaps": VALUES["/proc/swaps"] + "/dev/nvme0n1p3 partition 8388604 0 -2\n"}),
        failed("swap.on", "/dev/nvme0n1p3"),
        {},
    ),
    ("limits", tuned(manager=LIMITS.replace("1048576", "1024")), failed("limits.value", "NOFILE"), {}),
    ("no timer", tuned(timer="ActiveState=inactive\nLoadState=masked\n"), failed("tmp.not_cleaned", "timer"), {}),
    (
        "container",
        tuned({"/proc/sys/vm/max_map_count": "1"}, virtualization="podman\n"),
        [("warn", "host_tuning.container", "", "none")],
        {},
    ),
    ("hangs", tuned(values=None, files=None, **{"virtualization": "timed_out"}),
     [("unknown", "host_tuning.timed_out", "", "retry")], {}),
    ("no systemd", tuned(timer="no_tool", manager="no_tool"),
     [("unknown", "host_tuning.no_tool", "", "escalate")] * 2, {}),
]  # fmt: skip
