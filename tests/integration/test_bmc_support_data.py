"""Dell's support data from simulated iDRACs: collected once, saved whole, refused and told where it cannot be."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_product_lab import PASSWORD, PROJECT, USER, BmcLab, Site

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change
from firstlight.bmc.errors import HalfAnswering, Refused
from firstlight.bmc.support_data import Wanted, collect
from firstlight.bmc.transport import tls_context

VENDORS = ("dell-idrac9", "dell-idrac10", "dell-idrac8", "supermicro")
PAUSE = 0.05


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=len(VENDORS), vendors=VENDORS, support_seconds=0.4)
    yield lab
    lab.stop()


class Asked:
    """One BMC that was asked; notes and lines are what it told meanwhile."""

    def __init__(self, lab: BmcLab, number: int) -> None:
        self.lab, self.number = lab, number
        self.notes: list[str] = []
        self.lines: list[str] = []

    def collect(self, folder: Path, check: bool = False, **wanted: Any) -> Change:
        context = tls_context(self.lab.ca_file)
        where = self.lab.address(self.number), self.lab.port, USER, PASSWORD
        with BmcClient(*where, context=context, ca_file=self.lab.ca_file, deadline=30) as bmc:
            return collect(
                bmc, Wanted(folder, **wanted), check, note=self.notes.append, say=self.lines.append, pause=PAUSE
            )

    def jobs(self) -> int:
        private = (self.lab.folder / "machines" / f"n{self.number}" / "bmc.json").read_text()
        return private.count("SupportAssist Collection")


def symptoms(change: Change) -> list[str]:
    return [f"{finding.status} {finding.symptom}" for finding in change.findings]


@pytest.mark.parametrize("number", [1, 2])
def test_it_is_collected_and_saved_for_its_owner_alone(lab: BmcLab, tmp_path: Path, number: int) -> None:
    asked, folder = Asked(lab, number), tmp_path / "reports/support"
    change = asked.collect(folder, check=True)
    assert (change.changed, change.after, asked.jobs()) == (True, f"{folder}/TST{number:04d}-TIME.zip", 0)
    assert not folder.exists()

    change = asked.collect(folder, data=("HWData", "TTYLogs"))

    assert symptoms(change) == ["ok support_data"]
    (file,) = folder.iterdir()
    assert change.after == str(file) and file.name.startswith(f"TST{number:04d}-20")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as archive:
        assert {"tsr/HWData.txt", "tsr/TTYLogs.txt"} < set(archive.namelist())
    assert any("SupportAssist" in line and "%" in line for line in asked.lines)
    assert (asked.jobs(), asked.notes) == (1, [])


@pytest.mark.parametrize("number", [3, 4])
def test_a_bmc_without_it_is_a_warning(lab: BmcLab, tmp_path: Path, number: int) -> None:
    asked = Asked(lab, number)
    change = asked.collect(tmp_path)
    assert (change.changed, symptoms(change)) == (False, ["warn bmc.no_support_data"])
    assert "has no support data to collect over Redfish" in asked.lines[0]
    assert list(tmp_path.iterdir()) == []


def test_the_licence_is_accepted_only_where_it_is_said(lab: BmcLab, tmp_path: Path) -> None:
    lab.fault("n1", "eula_not_accepted")
    asked = Asked(lab, 1)
    before = asked.jobs()
    assert symptoms(asked.collect(tmp_path)) == ["fail bmc.support_eula"]
    assert asked.collect(tmp_path, check=True, accept_eula=True).changed
    assert "eula_not_accepted" in lab.look("n1")["faults"]
    assert (asked.jobs(), asked.notes) == (before, [])
    assert symptoms(asked.collect(tmp_path, accept_eula=True)) == ["ok support_data"]
    assert asked.notes == ["accept Dell's licence for SupportAssist (EULA)"]
    assert "eula_not_accepted" not in lab.look("n1")["faults"]


def test_a_job_that_fails_or_takes_too_long_leaves_no_file_and_the_one_that_runs_is_waited_for(
    lab: BmcLab, tmp_path: Path
) -> None:
    lab.fault("n1", "support_data_fails")
    asked = Asked(lab, 1)
    change = asked.collect(tmp_path)
    assert symptoms(change) == ["fail support_data.failed"]
    assert "internal error" in change.findings[0].evidence
    lab.fault("n1", "support_data_fails", on=False)
    before = asked.jobs()
    assert symptoms(asked.collect(tmp_path, seconds=0.1)) == ["fail support_data.unfinished"]
    assert list(tmp_path.iterdir()) == []
    assert symptoms(asked.collect(tmp_path)) == ["ok support_data"]
    assert asked.jobs() == before + 1
    assert asked.lines[-1].endswith("bytes")


def test_a_file_that_is_too_large_or_cannot_be_written_is_not_kept(lab: BmcLab, tmp_path: Path) -> None:
    asked = Asked(lab, 2)
    with pytest.raises(HalfAnswering, match="larger than 100 bytes"):
        asked.collect(tmp_path, most=100)
    with pytest.raises(Refused, match="does not collect Everything"):
        asked.collect(tmp_path, data=("Everything",))
    (tmp_path / "file").write_text("")
    assert symptoms(asked.collect(tmp_path / "file")) == ["fail support_data.not_written"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/redfish/v1/Managers", "fail support_data.not_zip"),
        ("/redfish/v1/Dell/none.zip", "404"),
        ("/etc/passwd", "leads out of"),
        ("/redfish/v1/../../etc/passwd", "leads out of"),
    ],
)
def test_where_a_job_points_is_not_believed(
    lab: BmcLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    monkeypatch.setattr(BmcClient, "leads_to", lambda self, path: place)
    try:
        told = symptoms(Asked(lab, 2).collect(tmp_path))[0]
    except HalfAnswering as error:
        told = str(error)
    assert said in told
    assert list(tmp_path.iterdir()) == []


def test_the_playbook_names_files_and_goes_on_past_a_bmc_that_cannot(lab: BmcLab, tmp_path: Path) -> None:
    lab.fault("n1", "support_data_fails")
    (tmp_path / "site").mkdir()
    done = Site(lab, tmp_path / "site").run(
        "ansible-playbook",
        str(PROJECT / "playbooks/support_data.yml"),
        *("-l", "n1,n2,n4", "-e", f"reports_dir={tmp_path}/reports", "-e", "support_data=HWData,TTYLogs"),
        ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"),
        ANSIBLE_INVENTORY_CACHE_CONNECTION=str(tmp_path / "cache"),
        FIRSTLIGHT_BMC_USERNAME=USER,
        FIRSTLIGHT_BMC_PASSWORD=PASSWORD,
    )
    lab.fault("n1", "support_data_fails", on=False)
    screen = " ".join((done.stdout + done.stderr).split())
    assert "support_data: 1 changed, 1 as wanted already; 1 not done: 1 support_data.failed" in screen
    assert "internal error" in screen and PASSWORD not in screen and "Traceback" not in screen
    (file,) = (tmp_path / "reports/support").iterdir()
    assert f"n2: {file}: {file.stat().st_size} bytes" in screen
