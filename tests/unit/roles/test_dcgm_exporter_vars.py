"""Which of DCGM's packages role dcgm_exporter takes: those for the CUDA of the driver that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.plainvalue import plain

ROLE = Path(__file__).parents[3] / "roles/dcgm_exporter"


@pytest.mark.parametrize(
    ("loaded", "wanted", "cuda"),
    [
        ({"rc": 1, "stdout": ""}, "580", "cuda13"),  # none is loaded
        ({"rc": 1, "stdout": ""}, "570.86.15", "cuda12"),
        ({"rc": 0, "stdout": "570.86.15"}, "580", "cuda12"),  # left alone, since the host is in use
        ({"rc": 0, "stdout": "580.95.05"}, "580", "cuda13"),
        ({}, "595", "cuda13"),
    ],
)
def test_the_loaded_driver_decides(loaded: dict[str, Any], wanted: str, cuda: str):
    loader = DataLoader()
    known: dict[str, Any] = {"component_versions": {}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    known |= {"dcgm_exporter_driver_version": wanted, "__dcgm_exporter_driver": loaded}
    specs = plain(Templar(loader=loader, variables=known).template(known["__dcgm_exporter_specs"]))
    assert [spec for spec in specs if "-4-cuda" in spec] == [f"datacenter-gpu-manager-4-{cuda}=1:4.6.1-*"]
