"""Profiles and fleets as people write them, good and bad."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import firstlight
from firstlight.errors import InputError
from firstlight.profile import LIMITS, Profile
from firstlight.sitefiles import load_fleet, load_profiles, normal_mac

ROOT = Path(__file__).parents[2]
PROFILES = {name: Profile(name, "Dell Inc.", "PowerEdge XE9680") for name in ("xe9680", "other")}

PROFILE = """\
---
name: small
vendor: Example
model: Server 1
gpus:
  count: 2
  model: H100
hcas:
  count: 0
ethernet:
  count: 1
  pxe: NIC.1
nvme:
  count: 1
  min_bytes: 1000000000000
os_disk:
  controller: BOSS
psus:
  count: 2
firmware: {}
limits:
  disk_used_percent: 95
"""

HOST = "  - {{name: {name}, rack: {rack}, unit: {unit}, bmc_address: {address}, profile: xe9680{more}}}\n"


def hosts(*rows: dict[str, str]) -> str:
    defaults = {"name": "a", "rack": "r1", "unit": "4", "address": "10.0.1.11", "more": ""}
    return "site: lab\nhosts:\n" + "".join(HOST.format(**{**defaults, **row}) for row in rows)


def fleet(tmp_path: Path, text: str):
    (tmp_path / "fleet.yml").write_text(text)
    return load_fleet(tmp_path / "fleet.yml", PROFILES)


def fleet_error(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        fleet(tmp_path, text)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{tmp_path}/", "")


def profile_error(tmp_path: Path, text: str) -> str:
    (tmp_path / "small.yml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_profiles(tmp_path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{tmp_path}/", "")


# ---------------------------------------------------------------- profiles


def test_the_projects_own_profiles_are_sound() -> None:
    profiles = load_profiles(ROOT / "inventory" / "profiles")

    assert profiles["xe9680"].count("gpus") == 8
    assert profiles["xe9680"].os_disk["controller"] == "BOSS"


def test_the_labs_profile_is_the_projects_less_what_containers_cannot_have() -> None:
    whole = yaml.safe_load((ROOT / "inventory" / "profiles" / "xe9680.yml").read_text())
    lab = yaml.safe_load((ROOT / "simulators" / "lab" / "profiles" / "xe9680.yml").read_text())
    for key in ("kernel_module", "nvswitch", "rdma"):
        del whole["gpus"][key]
    del whole["reboot"]
    del whole["limits"]["cpu_idle_microseconds"]  # a container sees the C-states of the machine below it

    assert lab == whole


def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "small.yml").write_text(PROFILE)
    (tmp_path / "notes.txt").write_text("not a profile")

    assert load_profiles(str(tmp_path))["small"].gpus == {"count": 2, "model": "H100"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: small", "name: large", "small.yml:2: name: 'large' must be the file's name, 'small'"),
        ("name: small", "name: Small", "small.yml:2: name: 'Small' is not right; lower-case letters, digits, - and _"),
        ("vendor: Example\n", "", "small.yml:2: 'vendor' is a required property"),
        ("  count: 2\n  model", "  count: two\n  model", "small.yml:6: gpus.count: 'two' must be a whole number"),
        ("  count: 2\n  model", "  count: -2\n  model", "small.yml:6: gpus.count: -2 is less than the minimum of 0"),
        ("  model: H100", "  model: 100", "small.yml:7: gpus.model: 100 must be text (in quotes)"),
        (
            "gpus:\n",
            "gpu:\n",
            "small.yml:5: unknown key 'gpu'; known are name, vendor, model, gpus, hcas, ethernet, nvme, "
            "os_disk, psus, fans, dimms, firmware, bios, limits, tuning, reboot",
        ),
        (
            "firmware: {}",
            "firmware: {}\nbios: {AcPwrRcvry: Off}",
            "small.yml:21: bios.AcPwrRcvry: False is not right; a value as the BIOS spells it; "
            'words such as "On" and "Off" in quotes',
        ),
        ("  pxe: NIC.1\n", "", "small.yml:10: ethernet: 'pxe' is a required property"),
        ("1000000000000", "1 TB", "small.yml:15: nvme.min_bytes: '1 TB' must be a whole number"),
        (
            "firmware: {}",
            "firmware: {bios: 2.5}",
            'small.yml:20: firmware.bios: 2.5 is not right; a version in quotes: "2.5.4"',
        ),
        ("percent: 95", "percent: 95 %", "small.yml:22: limits.disk_used_percent: '95 %' must be a number"),
        ("percent: 95", "percent: .nan", "small.yml:21: limits.disk_used_percent must be a number, not nan"),
        (
            "  count: 2\n  model",
            "  count: 2.0\n  model",
            "small.yml:5: gpus.count must be a whole number, 0 or more, not 2.0",
        ),
        (
            "  controller: BOSS",
            "  serial: a/b",
            "small.yml:17: os_disk.serial: 'a/b' is not right; a serial number, or a pattern of one such as BTYH*; "
            "at most 64 characters",
        ),
        (
            "  controller: BOSS",
            "  bus: scsi",
            "small.yml:17: os_disk.bus: 'scsi' is not right; one of nvme, sata, sas, virtio, usb",
        ),
        (
            "os_disk:\n  controller: BOSS",
            "os_disk: {}",
            "small.yml:16: os_disk: {} is not right; name what tells the OS disk apart: at least one of controller, "
            "model, min_bytes, max_bytes, bus, serial, exclude_data_drives",
        ),
        (
            "  controller: BOSS",
            "  {min_bytes: 9, max_bytes: 3}",
            "small.yml:16: os_disk.max_bytes is 3, less than min_bytes 9: no disk can have both",
        ),
        (
            "  controller: BOSS",
            "  exclude_data_drives: false",
            "small.yml:16: os_disk says nothing about the disk: exclude_data_drives is not true, and nothing else "
            "given",
        ),
    ],
)
def test_a_wrong_profile(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PROFILE
    assert profile_error(tmp_path, PROFILE.replace(old, new, 1)) == message


@pytest.mark.parametrize(
    ("old", "new", "unknown"),
    [
        ("min_bytes: 1000", "min_byte: 1000", "nvme: unknown key 'min_byte'"),
        ("  model: H100", "  modell: H100", "gpus: unknown key 'modell'"),
        ("disk_used_percent", "disk_use_percent", "limits: unknown key 'disk_use_percent'"),
    ],
)
def test_a_misspelt_key_within_a_part_is_named(tmp_path: Path, old: str, new: str, unknown: str) -> None:
    assert old in PROFILE
    assert f": {unknown}; known are " in profile_error(tmp_path, PROFILE.replace(old, new, 1))


def test_every_limit_that_is_read_is_known() -> None:
    library = Path(firstlight.__file__).parent
    read = {
        name
        for path in library.rglob("*.py")
        for name in re.findall(r'limits?(?:\.get)?\("([a-z_]+)"', path.read_text())
    }
    assert read == set(LIMITS)


def test_no_profiles(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: no such folder of profiles"):
        load_profiles(tmp_path / "none")
    with pytest.raises(InputError, match=r"holds no profile \(\*.yml\)"):
        load_profiles(tmp_path)


# ---------------------------------------------------------------- MAC addresses


@pytest.mark.parametrize("text", ["B0:7B:25:00:01:0A", "b0-7b-25-00-01-0a", "b07b.2500.010a", "b07b2500010a"])
def test_a_mac_in_any_spelling(text: str) -> None:
    assert normal_mac(text) == "b0:7b:25:00:01:0a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "b0:7b:25:00:01",
        "b0:7b:25:00:01:0a:0b:0c",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
    ],
)
def test_what_is_no_mac_of_one_nic(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        normal_mac(text)


@given(st.text(max_size=30) | st.text("0123456789abcdef:-.", max_size=20))
def test_any_text_is_a_mac_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert len(normal_mac(text)) == 17


# ---------------------------------------------------------------- the fleet


def test_hosts_and_ranges(tmp_path: Path) -> None:
    text = hosts(
        {"name": "head", "unit": "40", "address": "10.0.1.99", "more": ", mac: B0-7B-25-00-01-0A, service_tag: ABC1234"}
    )
    text += """\
ranges:
  - names: r1-n[08:10]
    rack: r1
    first_unit: 4
    unit_step: 6
    bmc_addresses: 10.0.1.254-10.0.2.0
    bmc_port: 8443
    profile: other
"""

    found = fleet(tmp_path, text)

    assert found.site == "lab"
    assert (found.hosts[0].mac, found.hosts[0].service_tag, found.hosts[0].bmc_port) == (
        "b0:7b:25:00:01:0a",
        "ABC1234",
        443,
    )
    assert [(h.name, h.unit, h.bmc_address) for h in found.hosts[1:]] == [
        ("r1-n08", 4, "10.0.1.254"),
        ("r1-n09", 10, "10.0.1.255"),
        ("r1-n10", 16, "10.0.2.0"),
    ]
    assert {(h.rack, h.profile, h.bmc_port, h.mac) for h in found.hosts[1:]} == {("r1", "other", 8443, None)}


def test_one_bmc_address_with_two_ports_is_two_bmcs(tmp_path: Path) -> None:
    assert len(fleet(tmp_path, hosts({}, {"name": "b", "unit": "5", "more": ", bmc_port: 8443"})).hosts) == 2


def test_ipv6_range(tmp_path: Path) -> None:
    text = RANGE.replace("10.0.1.11-10.0.1.12", "fd00::f-fd00::10")

    assert [h.bmc_address for h in fleet(tmp_path, text).hosts] == ["fd00::f", "fd00::10"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"name": "a"}, "fleet.yml:4: host a: name a is already taken by a (fleet.yml:3)"),
        (
            {"name": "b", "unit": "5"},
            "fleet.yml:4: host b: BMC address 10.0.1.11:443 is already taken by a (fleet.yml:3)",
        ),
        (
            {"name": "b", "address": "10.0.1.12"},
            "fleet.yml:4: host b: place rack r1 unit 4 is already taken by a (fleet.yml:3)",
        ),
        (
            {"name": "b", "unit": "5", "address": "10.0.1.12", "more": ", mac: b07b.2500.010a"},
            "fleet.yml:4: host b: MAC b0:7b:25:00:01:0a is already taken by a (fleet.yml:3)",
        ),
        (
            {"name": "b", "unit": "5", "address": "10.0.1.12", "more": ", service_tag: abc1234"},
            "fleet.yml:4: host b: service tag ABC1234 is already taken by a (fleet.yml:3)",
        ),
    ],
)
def test_duplicates(tmp_path: Path, second: dict[str, str], message: str) -> None:
    first = {"more": ", mac: 'B0:7B:25:00:01:0A', service_tag: ABC1234"}

    assert fleet_error(tmp_path, hosts(first, second)) == message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"name": "Node_1"},
            "fleet.yml:3: hosts[0].name: 'Node_1' is not right; a host name has lower-case letters, digits and hyphens",
        ),
        ({"unit": "61"}, "fleet.yml:3: hosts[0].unit: 61 is not right; a rack unit from 1 to 60"),
        ({"rack": "7"}, 'fleet.yml:3: hosts[0].rack: 7 is not right; a rack name in quotes, e.g. "r1"'),
        ({"address": "10.0.1"}, "fleet.yml:3: host a: bmc_address '10.0.1' is not an IP address"),
        ({"address": "10.0.1.0/24"}, "fleet.yml:3: host a: bmc_address '10.0.1.0/24' is not an IP address"),
        ({"address": "10.1"}, "fleet.yml:3: hosts[0].bmc_address: 10.1 is not right; an IP address such as 10.0.1.11"),
        (
            {"more": ", mac: 12:34"},
            'fleet.yml:3: hosts[0].mac: 754 is not right; a MAC address in quotes: "b0:7b:25:00:01:0a"',
        ),
        ({"more": ", mac: b0:7b"}, "fleet.yml:3: host a: mac: 'b0:7b' is not a MAC address"),
        (
            {"more": ", service_tag: 1234567"},
            "fleet.yml:3: hosts[0].service_tag: 1234567 is not right; a service tag has letters, "
            "digits and hyphens (quote it if it has digits alone)",
        ),
        ({"more": ", bmc_port: 0"}, "fleet.yml:3: hosts[0].bmc_port: 0 is less than the minimum of 1"),
        (
            {"more": ", bmc_prot: 1"},
            "fleet.yml:3: hosts[0]: unknown key 'bmc_prot'; known are name, rack, unit, bmc_address, "
            "bmc_port, profile, service_tag, mac",
        ),
    ],
)
def test_a_wrong_host(tmp_path: Path, row: dict[str, str], message: str) -> None:
    assert fleet_error(tmp_path, hosts(row)) == message


def test_an_unknown_profile(tmp_path: Path) -> None:
    text = hosts({}).replace("xe9680", "xe9999")

    assert fleet_error(tmp_path, text) == "fleet.yml:3: host a: unknown profile 'xe9999'; known are other, xe9680"


RANGE = """\
site: lab
ranges:
  - names: n[1:2]
    rack: r1
    first_unit: 4
    unit_step: 6
    bmc_addresses: 10.0.1.11-10.0.1.12
    profile: xe9680
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n[1:2]", "n1-2", "ranges[0].names: 'n1-2' is not right; names count like r1-n[01:08]"),
        ("n[1:2]", "n[1:3]", "names n[1:3] are 3 hosts, bmc_addresses 10.0.1.11-10.0.1.12 are 2"),
        ("n[1:2]", "n[2:1]", "names n[2:1] must go from the first to the last"),
        ("n[1:2]", "'-n[1:2]'", "names -n[1:2] gives '-n1'; a host name has lower-case letters, digits and hyphens"),
        (
            "n[1:2]",
            "n[1:99999999999]",
            "ranges[0].names: 'n[1:99999999999]' is not right; names count like r1-n[01:08]",
        ),
        (
            "10.0.1.11-10.0.1.12",
            "10.0.1.12-10.0.1.11",
            "bmc_addresses 10.0.1.12-10.0.1.11 must go from the first to the last",
        ),
        (
            "10.0.1.11-10.0.1.12",
            "10.0.1.11-fd00::1",
            "bmc_addresses 10.0.1.11-fd00::1 must go from the first to the last",
        ),
        (
            "10.0.1.11-10.0.1.12",
            "10.0.1.11",
            "bmc_addresses '10.0.1.11' is no range; it looks like 10.0.1.11-10.0.1.18",
        ),
        ("10.0.1.11-10.0.1.12", "a-b", "bmc_addresses 'a-b' is no range; it looks like 10.0.1.11-10.0.1.18"),
        (
            "10.0.1.11-10.0.1.12",
            "0.0.0.0-255.255.255.255",
            "names n[1:2] are 2 hosts, bmc_addresses 0.0.0.0-255.255.255.255 are 4294967296",
        ),
        ("unit_step: 6", "unit_step: 60", "the last of 2 hosts would sit at unit 64; a rack ends at 60"),
        ("xe9680", "xe9999", "host n1: unknown profile 'xe9999'; known are other, xe9680"),
    ],
)
def test_a_wrong_range(tmp_path: Path, old: str, new: str, message: str) -> None:
    found = fleet_error(tmp_path, RANGE.replace(old, new))

    assert found.partition(": ")[2] == message
    assert found.startswith("fleet.yml:3:")


def test_a_range_that_overlaps_a_host(tmp_path: Path) -> None:
    text = hosts({"name": "head", "unit": "30", "address": "10.0.1.12"}) + RANGE.partition("\n")[2]

    assert fleet_error(tmp_path, text) == (
        "fleet.yml:5: host n2: BMC address 10.0.1.12:443 is already taken by head (fleet.yml:3)"
    )


@pytest.mark.parametrize(
    ("addresses", "more", "shared"),
    [
        ("10.0.1.12-10.0.1.13", "", "10.0.1.12"),
        ("10.0.1.10-10.0.1.12", "", "10.0.1.11-10.0.1.12"),
        ("10.0.1.13-10.0.1.14", "", None),
        ("10.0.1.11-10.0.1.12", "    bmc_port: 8443\n", None),
        ("fd00::1-fd00::2", "", None),
    ],
)
def test_ranges_that_overlap(tmp_path: Path, addresses: str, more: str, shared: str | None) -> None:
    first, last = addresses.split("-")
    count = int(last[-2:].lstrip(":.")) - int(first[-2:].lstrip(":.")) + 1
    second = RANGE.partition("ranges:\n")[2].replace("n[1:2]", f"m[1:{count}]").replace("r1", "r2") + more
    text = RANGE + second.replace("10.0.1.11-10.0.1.12", addresses)

    if shared is None:
        assert len(fleet(tmp_path, text).hosts) == 2 + count
    else:
        assert fleet_error(tmp_path, text) == (
            f"fleet.yml:9: range m[1:{count}] overlaps range n[1:2] (fleet.yml:3): both have {shared}"
        )


def test_no_host_at_all(tmp_path: Path) -> None:
    assert fleet_error(tmp_path, "site: lab\n") == "fleet.yml: no host is planned; add hosts: or ranges:"
    assert fleet_error(tmp_path, "site: lab\nhosts: []\n") == "fleet.yml: no host is planned; add hosts: or ranges:"
