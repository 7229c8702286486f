"""inventory/versions.yml: the shipped file is right, wrong ones are refused with the line, the exact entry wins."""

from pathlib import Path

import pytest

from firstlight.errors import InputError
from firstlight.versions import Versions, load_versions

ROOT = Path(__file__).parents[2]
ROLES = [path.name for path in (ROOT / "roles").iterdir() if path.is_dir()]
SUM = "0" * 64


def test_the_shipped_file_is_right():
    profiles = [path.stem for path in (ROOT / "inventory/profiles").glob("*.yml")]
    versions = load_versions(ROOT / "inventory/versions.yml", profiles, ROLES)
    for architecture, spelt in [("x86_64", "amd64"), ("aarch64", "arm64")]:
        settings = versions.settings("node_exporter", "debian-13", architecture)
        assert settings["url"].endswith(f"node_exporter-{settings['version']}.linux-{spelt}.tar.gz")


def test_the_more_exact_entry_wins_setting_by_setting():
    versions = Versions(
        {
            "x": {
                "any": {"any": {"a": 1, "b": 1, "c": 1, "d": 1}, "x86_64": {"b": 2}},
                "debian-12": {"any": {"c": 3}, "x86_64": {"d": 4}},
            }
        },
        {"p": {"x": {"any": {"any": {"d": 5}}}}},
    )
    assert versions.settings("x", "debian-12", "x86_64") == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert versions.settings("x", "debian-12", "x86_64", "p") == {"a": 1, "b": 2, "c": 3, "d": 5}
    assert versions.settings("x", "ubuntu-24.04", "aarch64") == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert versions.settings("y", "debian-12", "x86_64") == {}


def test_what_checks_expect_by_distribution_and_architecture():
    versions = Versions(
        {"gpu_driver": {"any": {"any": {"version": "580"}}, "debian-12": {"x86_64": {"version": "580.126.20"}}}},
        {"p": {"firmware": {"any": {"aarch64": {"gpu_vbios": "96.00", "hca": "28.43"}}}}},
    )
    firmware = {"gpu_vbios": "96.00", "hca_firmware": "28.43"}
    assert versions.expected("p") == {
        "any": {"any": {}, "x86_64": {}, "aarch64": firmware},
        "debian-12": {"any": {}, "x86_64": {"gpu_driver": "580.126.20"}, "aarch64": firmware},
    }
    assert versions.expected("q", ["gpu_driver"])["debian-12"] == {"any": {}, "x86_64": {}, "aarch64": {}}


def test_firmware_that_bmcs_tell_by_profile():
    versions = Versions(
        {"firmware": {"any": {"any": {"bios": "2.6.3", "gpu_vbios": "96.00"}}}},
        {
            "p": {
                "firmware": {"any": {"any": {"bios": "2.7.1", "gpu_baseboard": "HGX-22.10"}, "aarch64": {"hca": "28"}}}
            }
        },
    )
    assert versions.bmc_firmware() == versions.bmc_firmware("q") == {"bios": "2.6.3"}
    assert versions.bmc_firmware("p") == {"bios": "2.7.1", "gpu_baseboard": "HGX-22.10"}
    assert versions.expected("p")["any"]["any"] == {"gpu_vbios": "96.00"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("versions: {firmware: {any: {any: {bios: 2.6}}}}", 1, "a version in quotes"),
        ("versions:\n  firmware:\n    any:\n      x86_64: {BIOS.Setup.1-1: '2'}\n", 4, "under firmware: any: any"),
        (
            "versions: {}\noverrides:\n  xe9680:\n    firmware:\n      debian-12: {any: {bios: '2'}}\n",
            5,
            "by system there are gpu_vbios, hca",
        ),
        ("versions: {docker_engine: {any: {any: {version: 1.1}}}}", 1, "a version in quotes"),
        ("versions:\n  docker_engine:\n    fedora-40: {}\n", 3, "unknown key 'fedora-40'"),
        ("versions:\n  docker_engine:\n    any:\n      riscv64: {}\n", 4, "unknown key 'riscv64'; known are any"),
        ("versions:\n  dcoker: {}\n", 2, "unknown component 'dcoker'"),
        ("versions: {}\noverrides:\n  xe9999: {}\n", 3, "unknown profile 'xe9999'; known are xe9680"),
        ("versions: {}\noverrides:\n  xe9680:\n    dcoker: {}\n", 4, "unknown component 'dcoker'"),
        ("versions:\n  a: {any: {any: {url: 'https://x/y', version: '1'}}}\n", 2, "checksum"),
        (f"versions:\n  a: {{any: {{any: {{url: 'ftp://x', version: '1', checksum: '{SUM}'}}}}}}\n", 2, "https://"),
        ("versions:\n  a: {any: {any: {checksum: abc}}}\n", 2, "64 hexadecimal"),
        ("{}", 1, "'versions' is a required property"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path, text, line, words):
    path = tmp_path / "versions.yml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_versions(path, ["xe9680"], ["docker_engine"])
    assert f"{path}:{line}: " in str(error.value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
