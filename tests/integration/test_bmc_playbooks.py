"""The control playbooks as an operator meets them: check mode, diff, refusals, a bad BMC among good ones, deeds."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bmc_product_lab import PASSWORD, PROJECT, USER, BmcLab, Site


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=3, restart_seconds=1.2, update_seconds=0.5)
    yield lab
    lab.stop()


class Operator:
    """Runs playbooks on a site of its own."""

    def __init__(self, lab: BmcLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.site = Site(lab, folder)

    def play(self, name: str, *arguments: str) -> tuple[int, str]:
        """Exit status and screen."""
        done = self.site.run(
            "ansible-playbook",
            str(PROJECT / "playbooks" / f"{name}.yml"),
            *arguments,
            ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"),
            ANSIBLE_INVENTORY_CACHE_CONNECTION=str(self.folder / "cache"),
            FIRSTLIGHT_BMC_USERNAME=USER,
            FIRSTLIGHT_BMC_PASSWORD=PASSWORD,
        )
        screen = done.stdout + done.stderr
        assert PASSWORD not in screen
        assert "Traceback" not in screen
        return done.returncode, screen

    def deeds(self) -> list[tuple[str, str]]:
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            query = "select host.name, deed.what from deed join host on host.id = deed.host_id order by deed.id"
            return list(ledger.execute(query))

    def writes(self) -> list[int]:
        return [self.lab.counters(f"n{n}")["writes"] for n in range(1, self.lab.count + 1)]


@pytest.fixture
def operator(lab: BmcLab, tmp_path: Path) -> Operator:
    return Operator(lab, tmp_path)


def test_power_refuses_shows_and_does(operator: Operator) -> None:
    lab = operator.lab
    assert operator.play("power", "-e", "power=on")[0] == 0
    writes = operator.writes()
    status, screen = operator.play("power", "-e", "power=off", "-l", "n1,n2")
    assert status != 0
    assert "power off ends what runs on 2 hosts: n1 (planned), n2 (planned); nothing was done" in " ".join(
        screen.split()
    )
    status, screen = operator.play("power", "-e", "power=off", "-l", "n1,n2", "--check", "--diff")
    assert status == 0, screen
    assert "+++ after: n1: power" in screen
    assert "2 would change" in screen
    assert operator.writes() == writes
    assert ("n1", "power off: On -> Off") not in operator.deeds()
    status, screen = operator.play("power", "-e", "power=off", "-e", "confirm=true", "-l", "n1,n2")
    assert status == 0, screen
    assert [lab.look(f"n{n}")["power"] for n in (1, 2, 3)] == ["Off", "Off", "On"]
    assert {("n1", "power off: On -> Off"), ("n2", "power off: On -> Off")} <= set(operator.deeds())
    status, screen = operator.play("power", "-e", "power=off", "-e", "confirm=true", "-l", "n1,n2")
    assert "2 as wanted already" in screen
    assert "changed=0" in screen


def test_not_while_another_run_works_on_the_host(operator: Operator) -> None:
    assert operator.play("locate", "-l", "n1")[0] == 0
    holder = (
        "import sys; from pathlib import Path; from firstlight.ledger.claim import Claims\n"
        "Claims(Path(sys.argv[1])).take(['n1']); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holder, str(operator.folder / "ledger.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        status, screen = operator.play("power", "-e", "power=cycle", "-e", "confirm=true", "-l", "n1,n2")
        assert status != 0
        assert f"another run (process {other.pid} of " in " ".join(screen.split())
        assert operator.play("locate", "-e", "lit=false", "-l", "n1")[0] == 0
        other.communicate("")
    assert operator.deeds() == []


def test_bios_of_the_fleet_with_a_dead_bmc(operator: Operator) -> None:
    lab = operator.lab
    attributes = '{"bios_attributes": {"SubNumaCluster": "4Way"}}'
    status, screen = operator.play("bios", "-e", attributes, "--check", "--diff")
    assert status == 0, screen
    assert "-SubNumaCluster: Disabled" in screen
    assert "+SubNumaCluster: 4Way" in screen
    assert not (operator.folder / "ledger.sqlite").exists()
    lab.fault("n2", "unreachable")
    status, screen = operator.play("bios", "-e", attributes)
    lab.fault("n2", "unreachable", on=False)
    assert status == 2, screen
    assert "bios: 2 changed, 0 as wanted already; 1 not done: 1 bmc.unreachable" in screen
    assert screen.count("FAILED!") == 1
    assert sorted(name for name, _what in operator.deeds()) == ["n1", "n3"]
    writes = operator.writes()
    status, screen = operator.play("bios", "-e", attributes, "-l", "n1,n3")
    assert status == 0, screen
    assert "changed=0" in screen
    assert operator.writes() == writes


def test_now_needs_a_confirmation(operator: Operator) -> None:
    arguments = ("-e", '{"bios_attributes": {"ProcCStates": "Enabled"}}', "-e", "bios_apply=now", "-l", "n2")
    status, screen = operator.play("bios", *arguments)
    assert status != 0
    assert "restart the server on 1 hosts: n2" in " ".join(screen.split())
    status, screen = operator.play("bios", *arguments, "-e", "confirm=true")
    assert status == 0, screen
    assert [what.partition(":")[0] for _name, what in operator.deeds()][:2] == ["BIOS", "power on"]


def test_firmware_from_a_file(operator: Operator, tmp_path: Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(b"Firstlight simulated firmware: bmc 9.10.20.00\n" + b"x" * 200_000)
    arguments = ["-e", f"firmware_file={path}", "-l", "n3"]
    status, screen = operator.play("firmware", *arguments)
    assert status != 0
    assert "does not tell its version; name it as version:" in screen
    arguments += ["-e", "firmware_version=9.10.20.00", "-e", "firmware_component=iDRAC"]
    status, screen = operator.play("firmware", *arguments, "--check", "--diff")
    assert status == 0, screen
    assert "+iDRAC.Embedded.1-1: 9.10.20.00" in screen
    status, screen = operator.play("firmware", *arguments, "-e", "confirm=true")
    assert status == 0, screen
    assert "n3: sent 100 % of 0.2 MB" in screen
    assert "n3: reads back iDRAC.Embedded.1-1" in screen
    status, screen = operator.play("firmware", *arguments, "-e", "confirm=true")
    assert "changed=0" in screen


def test_boot_and_restart(operator: Operator) -> None:
    status, screen = operator.play("boot", "-e", "one_time_pxe=true", "-e", "pxe_first=true", "-l", "n1", "--diff")
    assert status == 0, screen
    assert "+next boot: Pxe, Once" in screen
    assert operator.lab.look("n1")["boot"]["target"] == "Pxe"
    assert "changed=0" in operator.play("boot", "-e", "one_time_pxe=true", "-l", "n1")[1]
    status, screen = operator.play("reset_bmc", "-l", "n1")
    assert status == 0, screen
    assert operator.deeds()[-1][1].startswith("BMC restart")
