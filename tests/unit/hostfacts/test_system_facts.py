"""Machine, kernels, CPU frequency, PCI: from what the host says; and the module on this machine."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.checks.capture import Output
from firstlight.hostfacts import gather, pci, system


@pytest.mark.parametrize(
    ("container", "machine", "kind"),
    [
        ("none\n", "none\n", "bare_metal"),
        ("none\n", "kvm\n", "kvm"),
        ("podman\n", "kvm\n", "container"),
        ("docker\n", "none\n", "container"),
        ("", "none\n", None),
        ("none\n", "", None),
        ("none\n", "<script>\n", None),
    ],
)
def test_the_kind_of_machine(container, machine, kind):
    assert system.virtualization(container, machine) == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n', "debian-12"),
        ('ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n', "ubuntu-24.04"),
        ("ID=debian\nVERSION_CODENAME=sid\n", ""),
        ("", ""),
    ],
)
def test_the_distribution_as_the_versions_file_writes_it(text, name):
    assert system.distribution(text) == name


def test_kernels_are_in_the_order_of_their_versions():
    images = ["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-10-amd64", "initrd.img-6.1.0-9-amd64", "vmlinuz-", "vmlinuz"]

    found = system.kernels("6.1.0-9-amd64", images, {"6.1.0-9-amd64": True, "6.1.0-10-amd64": False})

    assert found == {
        "running": "6.1.0-9-amd64",
        "installed": ["6.1.0-9-amd64", "6.1.0-10-amd64"],
        "headers": ["6.1.0-9-amd64"],
    }


@pytest.mark.parametrize(
    ("efi", "variable", "inside", "on"),
    [
        (True, b"\x06\0\0\0\x01", False, True),
        (True, b"\x06\0\0\0\0", False, False),
        (True, None, False, None),
        (True, b"\x01", False, None),
        (False, None, False, False),
        (True, b"\x06\0\0\0\x01", True, None),
    ],
)
def test_secure_boot(efi, variable, inside, on):
    assert system.secure_boot(efi, variable, inside) is on


def test_cpu_frequency_is_what_every_policy_offers():
    first = {"scaling_driver": "intel_pstate\n", "scaling_available_governors": "performance powersave\n"}
    second = {"scaling_driver": "intel_pstate\n", "scaling_available_governors": "performance\n"}

    assert system.cpufreq("0-3,8\n", {"policy0": first, "policy10": second}) == {
        "driver": "intel_pstate",
        "governors": ["performance"],
        "energy_preferences": [],
        "policies": 2,
        "online_cpus": 5,
    }
    assert system.cpufreq("", {})["online_cpus"] is None


def config(*capabilities: tuple[int, int, bytes]) -> bytes:
    """A configuration space with these extended capabilities: (where, id, its octets after the header)."""
    data = bytearray(4096)
    for number, (at, kind, body) in enumerate(capabilities):
        after = capabilities[number + 1][0] if number + 1 < len(capabilities) else 0
        struct.pack_into("<I", data, at, kind | 1 << 16 | after << 20)
        data[at + 4 : at + 4 + len(body)] = body
    return bytes(data)


ACS = struct.pack("<HH", 0x007F, 0x001D)


def test_acs_is_found_behind_other_capabilities():
    assert pci.acs_control(config((0x100, 0x0001, b""), (0x148, 0x000D, ACS))) == 0x1D
    assert pci.acs_control(config((0x100, 0x000D, ACS))) == 0x1D
    assert pci.acs_control(config((0x100, 0x0001, b""))) is None
    assert pci.acs_control(b"\xff" * 4096) is None  # a bridge that does not answer
    loop = config((0x100, 0x0001, b""), (0x100, 0x0001, b""))
    assert pci.acs_control(loop) is None
    with pytest.raises(ValueError, match="only 64 octets"):
        pci.acs_control(b"\0" * 64)


@given(st.binary(min_size=257, max_size=4096))
def test_any_configuration_space_can_be_read(data):
    assert pci.acs_control(data) is None or 0 <= pci.acs_control(data) <= 0xFFFF


def uevent(address: str, ids: str, kind: str) -> str:
    return f"DRIVER=x\nPCI_CLASS={kind}\nPCI_ID={ids}\nPCI_SUBSYS_ID=0:0\nPCI_SLOT_NAME={address}\n"


def test_what_is_in_the_slots_is_counted():
    texts = [
        uevent("0000:19:00.0", "10DE:2330", "30200"),
        uevent("0000:05:00.0", "10DE:22A3", "68000"),
        uevent("0000:3b:00.0", "15B3:1021", "20700"),
        uevent("0000:3b:00.1", "15B3:1021", "20000"),
        uevent("0000:00:01.0", "8086:352A", "60400"),
        "nonsense",
    ]
    functions = [f for f in map(pci.read_uevent, texts) if f]

    found = pci.summary(functions, {"0000:00:01.0": config((0x100, 0x000D, ACS))})

    assert found == {
        "nvidia_gpus": 1,
        "nvswitches": 1,
        "mellanox": 1,
        "bridges_with_acs": [{"address": "0000:00:01.0", "control": "001d"}],
    }
    assert pci.summary(functions, {"0000:00:01.0": None})["bridges_with_acs"] is None


def test_facts_are_read_from_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    put("etc/os-release", "ID=debian\nVERSION_ID=13\n")
    put("boot/vmlinuz-6.12.1-amd64", "")
    put("lib/modules/6.12.1-amd64/build/Makefile", "")
    put("sys/bus/pci/devices/0000:19:00.0/uevent", uevent("0000:19:00.0", "10DE:2330", "30200"))
    put("sys/devices/system/cpu/online", "0-1")
    put("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq\n")
    put("proc/self/mountinfo", "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n")
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/disk/by-id/ata-X_1").symlink_to("../../sda")
    rows = [{"name": "sda", "kname": "sda", "type": "disk", "size": 9, "children": [
        {"name": "sda1", "kname": "sda1", "type": "part", "size": 8, "maj:min": "8:1", "mountpoints": ["/"]}
    ]}]  # fmt: skip
    said = {
        gather.LSBLK: Output(json.dumps({"blockdevices": rows})),
        gather.CONTAINER: Output("none\n", code=1),
        gather.MACHINE: Output("none\n", code=1),
    }
    monkeypatch.setattr(gather, "run_all", lambda sources, limit: {s: said[s] for s in sources})

    facts = gather.gather(str(tmp_path))

    assert facts["virtualization"] == "bare_metal"
    assert facts["distribution"] == "debian-13"
    assert facts["kernels"]["installed"] == facts["kernels"]["headers"] == ["6.12.1-amd64"]
    assert facts["pci"]["nvidia_gpus"] == 1
    assert facts["cpufreq"]["driver"] == "acpi-cpufreq"
    assert facts["os_disks"][0]["by_id"] == "ata-X_1"
    assert facts["os_unresolved"] == []
    assert facts["disks"][0]["signatures"] is None
    assert facts["problems"] == ["sda: no node in /dev"]


def test_a_machine_that_tells_nothing_has_facts_that_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lost = Output(errors="lsblk: not found", code=127, problem="no_tool")
    monkeypatch.setattr(gather, "run_all", lambda sources, limit: dict.fromkeys(sources, lost))

    facts = gather.gather(str(tmp_path))

    assert facts["disks"] is None and facts["os_disks"] is None and facts["os_unresolved"] == ["/"]
    assert facts["virtualization"] is None
    assert facts["problems"] == ["lsblk: no_tool"]
