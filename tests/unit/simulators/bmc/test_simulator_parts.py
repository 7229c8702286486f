"""Parts of the BMC simulator and of the lab's files that need no process."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from simulators import lab_files
from simulators.bmc import faults
from simulators.bmc.hardware import Hardware


def lab(*addresses: str) -> dict[str, Any]:
    return {
        "maas": {"listen": "127.31.0.2:5443"},
        "machines": [
            {"name": f"n{number}", "index": number, "service_tag": f"T{number}", "bmc_address": address}
            for number, address in enumerate(addresses, 1)
        ],
    }


def addresses_of(pem: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(pem.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(address) for address in names.get_values_for_type(x509.IPAddress)]


def test_certificates_are_kept_added_and_renewed_when_an_address_changes(tmp_path: Path) -> None:
    authority = lab_files.make_certificates(tmp_path, lab("127.31.1.1", "127.31.1.2"))
    first, second, ca = ((tmp_path / name).read_bytes() for name in ("tls/n1.pem", "tls/n2.pem", "ca.pem"))
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls/n1.pem").stat().st_mode) == 0o600
    lab_files.make_certificates(tmp_path, lab("127.31.1.1", "127.31.1.9", "127.31.1.3"))
    assert authority.read_bytes() == ca
    assert (tmp_path / "tls/n1.pem").read_bytes() == first
    assert (tmp_path / "tls/n2.pem").read_bytes() != second
    assert addresses_of(tmp_path / "tls/n2.pem") == ["127.31.1.9"]
    assert addresses_of(tmp_path / "tls/n3.pem") == ["127.31.1.3"]
    assert addresses_of(tmp_path / "tls/maas.pem") == ["127.31.0.2"]


def test_a_new_authority_signs_everything_anew(tmp_path: Path) -> None:
    lab_files.make_certificates(tmp_path, lab("127.31.1.1"))
    before = (tmp_path / "tls/n1.pem").read_bytes()
    (tmp_path / "ca.key").unlink()
    lab_files.make_certificates(tmp_path, lab("127.31.1.1"))
    assert (tmp_path / "tls/n1.pem").read_bytes() != before


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    lab_files.write_json(path, {"boots": 1})
    with pytest.raises(TypeError):
        lab_files.write_json(path, {"boots": object()})
    assert lab_files.read_json(path) == {"boots": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_lab_json_errors_name_the_place(tmp_path: Path) -> None:
    with pytest.raises(lab_files.LabError, match=r"lab\.json: No such file"):
        lab_files.load(tmp_path)
    (tmp_path / "lab.json").write_text('{\n"machines": [\n')
    with pytest.raises(lab_files.LabError, match=r"lab\.json:3: not JSON"):
        lab_files.load(tmp_path)
    lab_files.write_json(tmp_path / "lab.json", lab("127.31.1.1") | {"machines": [{"name": "a"}]})
    with pytest.raises(lab_files.LabError, match=r"machines\[0\]: lacks index"):
        lab_files.load(tmp_path)
    with pytest.raises(lab_files.LabError, match="there are n1, n2"):
        lab_files.machine(lab("127.31.1.1", "127.31.1.2"), "n3")


def test_hardware_is_the_same_again_and_different_elsewhere() -> None:
    assert Hardware(7, "A") == Hardware(7, "A")
    seen: set[str] = set()
    for index in range(1, 601):
        hardware = Hardware(index, f"T{index}")
        parts = [hardware.board_serial, hardware.uuid, hardware.bmc_mac]
        parts += [gpu.serial for gpu in hardware.gpus] + [gpu.uuid for gpu in hardware.gpus]
        parts += [port.mac for port in hardware.nics + hardware.hcas]
        parts += [disk.serial for disk in hardware.drives + hardware.os_disks]
        assert seen.isdisjoint(parts)
        assert len(set(parts)) == len(parts)
        seen.update(parts)


def test_fault_parameters() -> None:
    assert faults.parameters("gpu_missing", None) == {"gpu": 3}
    assert faults.parameters("psu_failed", {"psu": 6}) == {"psu": 6}
    for name, given in (("psu_failed", {"psu": 0}), ("psu_failed", {"psu": True}), ("no_link", {"nic": 1})):
        with pytest.raises(faults.FaultError, match=name):
            faults.parameters(name, given)
    assert faults.from_lab(["no_link", {"name": "gpu_missing", "gpu": 7}]) == {"no_link": {}, "gpu_missing": {"gpu": 7}}
    with pytest.raises(faults.FaultError, match="there are unreachable, hangs"):
        faults.from_lab(["on_fire"])
