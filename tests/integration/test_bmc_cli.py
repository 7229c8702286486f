"""scripts/bmc as people run it, in front of simulated BMCs."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bmc_product_lab import BIN, PASSWORD, PROJECT, USER, BmcLab, Site

from firstlight.bmc.discover import discover
from firstlight.bmc.treefiles import load_tree


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=3)
    yield lab
    lab.stop()


class People:
    """Somebody at a shell, in a site's folder."""

    def __init__(self, site: Site) -> None:
        self.site = site
        known = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "FIRSTLIGHT_"))}
        self.environment = known | {
            "ANSIBLE_CONFIG": str(site.folder / "ansible.cfg"),
            "XDG_CACHE_HOME": str(site.folder / "user-cache"),
        }
        self.fleet = ["--fleet", "fleet.yml", "--ca-file", site.lab.ca_file]

    def bmc(self, *arguments: str, status: int, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "firstlight.bmc.cli", *arguments],
            cwd=self.site.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        return done

    def login(self) -> dict[str, str]:
        return {"FIRSTLIGHT_BMC_USERNAME": USER, "FIRSTLIGHT_BMC_PASSWORD": PASSWORD}


@pytest.fixture
def people(lab: BmcLab, tmp_path: Path) -> People:
    for number in range(1, lab.count + 1):
        for fault in lab.look(f"n{number}")["faults"]:
            lab.fault(f"n{number}", fault, on=False)
    return People(Site(lab, tmp_path))


def requests(lab: BmcLab) -> list[int]:
    return [lab.counters(f"n{n}")["requests"] for n in range(1, lab.count + 1)]


def hosts(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {h["name"]: h for h in json.loads(done.stdout)["hosts"]}


def test_scan_of_a_fleet_file_then_list(people: People) -> None:
    """Without Ansible: neither a site nor a cache of it."""
    lab = people.site.lab
    people.site.config.unlink()
    before = people.bmc("list", *people.fleet, "--json", status=2)
    assert {h["condition"] for h in hosts(before).values()} == {"not_asked"}
    lab.fault("n2", "gpu_missing", gpu=3)
    found = hosts(people.bmc("scan", *people.fleet, "--json", status=2, **people.login()))
    assert [found[n]["condition"] for n in ("n1", "n2", "n3")] == ["ok"] * 3
    assert (found["n1"]["service_tag"], found["n1"]["pxe_mac"]) == ("TST0001", "70:b5:e8:00:00:04")
    symptoms = {f["symptom"] for f in found["n2"]["findings"] if f["status"] == "fail"}
    assert "gpu.missing" in symptoms
    asked = requests(lab)
    assert hosts(people.bmc("list", *people.fleet, "--json", status=2)) == found
    shown = people.bmc("show", "n2", *people.fleet, status=2).stdout
    assert "Video.Slot.22-1" in shown
    assert "gpu.missing" in shown
    assert requests(lab) == asked
    (cache,) = (people.site.folder / "user-cache" / "firstlight").iterdir()
    assert cache.stat().st_mode & 0o077 == 0
    assert PASSWORD not in cache.read_text()


def test_scan_of_some_hosts_as_a_table(people: People) -> None:
    lab = people.site.lab
    lab.fault("n1", "psu_failed", psu=2)
    before = requests(lab)
    done = people.bmc("scan", "n1", *people.fleet, status=2, **people.login())
    assert [now > then for now, then in zip(requests(lab), before, strict=True)] == [True, False, False]
    assert "psu.failed" in done.stdout
    assert "n2" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_the_site_and_its_cache(people: People) -> None:
    """scan writes what list, show and Ansible then tell; the secrets are the site's."""
    site = ["-i", people.site.config.name]
    scanned = hosts(people.bmc("scan", *site, "--json", status=0))
    asked = requests(people.site.lab)
    assert hosts(people.bmc("list", *site, "--json", status=0)) == scanned
    inventory = people.site.inventory()
    told = inventory["_meta"]["hostvars"]["n1"]["bmc_record"]
    assert told["asked_at"] == scanned["n1"]["asked_at"]
    assert requests(people.site.lab) == asked
    folder = people.bmc("list", "--inventory", ".", "--json", status=0)
    assert hosts(folder) == scanned


def test_a_refused_password_is_sent_once(people: People) -> None:
    lab = people.site.lab
    lab.fault("n3", "wrong_password")
    failed = lab.counters("n3")["failed_logins"]
    found = hosts(people.bmc("scan", *people.fleet, "--json", status=2, **people.login()))
    assert found["n3"]["condition"] == "auth_failed"
    again = people.bmc("scan", *people.fleet, "--json", status=2, **people.login())
    assert "not asked again: n3" in again.stderr
    assert hosts(again)["n3"] == found["n3"]
    people.bmc("show", "n3", "--ask", *people.fleet, status=2, **people.login())
    assert lab.counters("n3")["failed_logins"] == failed + 1


def test_a_part_that_vanished_is_named_by_what_was_there(people: People) -> None:
    """With one host there are no peers to tell which GPU is missing; its own past does, also at the third look."""
    lab = people.site.lab
    people.site.hosts = people.site.hosts[:1]
    people.site.write()
    people.bmc("scan", *people.fleet, status=0, **people.login())
    lab.fault("n1", "gpu_missing", gpu=3)
    for _look in range(2):
        found = hosts(people.bmc("scan", *people.fleet, "--json", status=2, **people.login()))
        (missing,) = [f for f in found["n1"]["findings"] if f["symptom"] == "gpu.missing"]
        assert missing["locator"] == "Video.Slot.24-1"
    assert hosts(people.bmc("list", *people.fleet, "--json", status=2)) == found


def test_single_values_in_a_vault(people: People) -> None:
    folder = people.site.folder
    (folder / "key").write_text("open sesame\n")
    encrypt = [str(BIN / "ansible-vault"), "encrypt_string", "--vault-password-file", "key", "--name", "bmc_password"]
    done = subprocess.run([*encrypt, PASSWORD], cwd=folder, check=True, capture_output=True, text=True)
    (folder / "s.yml").write_text(f"bmc_username: {USER}\n{done.stdout}")
    ours = ["scan", "n1", *people.fleet, "--secrets", "s.yml"]
    people.bmc(*ours, "--vault-password-file", "key", status=0)
    assert "s.yml: cannot be decrypted; give its password with" in people.bmc(*ours, status=1).stderr


def test_secrets_in_a_vault(people: People) -> None:
    folder = people.site.folder
    (folder / "key").write_text("open sesame\n")
    entries = [{"addresses": f"{people.site.lab.address(1)}/32", "password": PASSWORD}]
    secrets = {"bmc_username": USER, "bmc_password": "of the others", "bmc_credentials": entries}
    (folder / "s.yml").write_text(yaml.safe_dump(secrets))
    encrypt = [str(BIN / "ansible-vault"), "encrypt", "--vault-password-file", "key", "s.yml"]
    subprocess.run(encrypt, cwd=folder, check=True, capture_output=True)
    done = people.bmc("scan", "n1", *people.fleet, "--secrets", "s.yml", status=1)
    assert re.fullmatch(
        r"bmc: s.yml: cannot be decrypted; give its password with --vault-password-file.*\n", done.stderr
    )
    done = people.bmc(
        "scan", "n1", *people.fleet, "--secrets", "s.yml", "--vault-password-file", "key", "--json", status=0
    )
    assert hosts(done)["n1"]["condition"] == "ok"
    done = people.bmc("scan", "n1", *people.fleet, "--secrets", "s.yml", "--vault-password-file", "none", status=1)
    assert done.stderr.startswith("bmc: none: the vault's password cannot be read: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "n9", "--fleet", "fleet.yml"], "n9 is not in the fleet of site test; scripts/bmc list shows who is"),
        (["list", "--fleet", "none.yml"], "none.yml: cannot be read: No such file or directory"),
        (["scan", "--fleet", "fleet.yml", "--ca-file", "x"], "environment: bmc_username of n1 is missing"),
        (["list", "--secrets", "x"], "--secrets belongs to --fleet; the inventory's *.redfish_bmc.yml names its own"),
        (["normalise", "nowhere"], "nowhere: no such folder"),
        (["scan", "--fleet", "fleet.yml", "--ca-file", "x", "--secrets", "none"], "none: no such file of secrets"),
        (["list", "--fleet", "fleet.yml", "--ask-login"], "--ask-login needs a keyboard"),
    ],
)
def test_wrong_input_is_one_line(people: People, arguments: list[str], said: str) -> None:
    done = people.bmc(*arguments, status=1)
    assert done.stderr.startswith(f"bmc: {said}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_folder_that_is_no_site(people: People) -> None:
    (people.site.folder / "user").mkdir()
    done = people.bmc("list", "-i", "user", status=1)
    assert "/user: holds no *.redfish_bmc.yml; name your site with --inventory, or a --fleet file\n" in done.stderr
    people.site.config.write_text(yaml.safe_dump(people.site.options | {"nonsense": 1}))
    done = people.bmc("list", "-i", ".", status=1)
    assert "unknown option 'nonsense'; known are " in done.stderr


def test_without_a_ca_nobody_is_asked(people: People) -> None:
    before = requests(people.site.lab)
    done = people.bmc("scan", "--fleet", "fleet.yml", status=1, **people.login())
    assert done.stderr == "bmc: --ca-file is missing: the PEM file of the CA that signed the BMCs' certificates\n"
    assert requests(people.site.lab) == before


def test_usage_errors_are_status_1(people: People) -> None:
    assert "--help says more" in people.bmc("scan", "--flet", "x", status=1).stderr
    assert "--help says more" in people.bmc(status=1).stderr
    assert "exit status:" in people.bmc("--help", status=0).stdout


def test_watch(people: People) -> None:
    """Two rounds; what refuses the password is asked in the first only."""
    lab = people.site.lab
    lab.fault("n3", "wrong_password")
    failed = lab.counters("n3")["failed_logins"]
    before = requests(lab)
    done = people.bmc("watch", *people.fleet, "--rounds", "2", "--every", "5", status=2, **people.login())
    assert "round 2 at" in done.stdout
    assert "auth_failed" in done.stdout
    assert lab.counters("n3")["failed_logins"] == failed + 1
    assert requests(lab)[0] > before[0]


def test_the_password_from_the_keyboard(people: People) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "firstlight.bmc.cli", "scan", "n1", *people.fleet, "--json"],
        cwd=people.site.folder,
        env=people.environment | {"FIRSTLIGHT_BMC_USERNAME": USER},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal but this one
    )
    os.close(theirs)
    assert process.stderr is not None
    prompt = process.stderr.read(len("BMC password: "))  # what is typed before is thrown away
    os.write(ours, f"{PASSWORD}\n".encode())
    out, errors = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0, errors
    assert json.loads(out)["hosts"][0]["condition"] == "ok"
    assert prompt == "BMC password: "
    assert PASSWORD not in out + errors


def test_capture_then_normalise(people: People) -> None:
    """The same hardware under other names, and nothing of the simulator's left."""
    lab, folder = people.site.lab, people.site.folder
    lab.fault("n2", "psu_failed", psu=2)
    before = discover(lab.targets(2), ca_file=lab.ca_file)["n2"].hardware
    assert before is not None
    done = people.bmc("capture", "n2", "tree", *people.fleet, status=0, **people.login())
    assert re.match(r"tree: \d+ resources", done.stdout)
    left = "\n".join(f"{p}\n{p.read_text()}" for p in (folder / "tree").rglob("*.json")).lower()
    identities = {before.service_tag, before.board_serial, lab.address(2), PASSWORD}
    identities |= {part.serial for part in (*before.gpus, *before.drives, *before.dimms, *before.psus) if part.serial}
    assert len(identities) > 15
    for identity in identities:
        assert identity.lower() not in left
    bare = re.sub("[:-]", "", left)
    macs = {nic.mac for nic in before.nics if nic.mac}
    assert len(macs) == 10
    assert not [mac for mac in macs if mac.replace(":", "") in bare]
    assert lab.counters("n2")["sessions_open"] == 0
    assert lab.counters("n2")["writes"] == 0

    shown = people.bmc("normalise", "tree", "--profile", "xe9680", "--json", status=2)
    view = json.loads(shown.stdout)
    assert "psu.failed" in {f["symptom"] for f in view["findings"]}
    after = view["hardware"]
    assert (after["model"], after["firmware"], after["bios"]) == (before.model, before.firmware, before.bios)
    assert [n["id"] for n in after["nics"]] == [n.id for n in before.nics]
    assert [n["mac"][:8] for n in after["nics"]] == [n.mac[:8] for n in before.nics if n.mac]
    assert [(p["id"], p["health"]) for p in after["psus"]] == [(p.id, p.health) for p in before.psus]
    assert len(after["gpus"]) == 8
    assert after["unread"] == before.unread
    assert abs(after["bmc_clock_skew_seconds"]) <= 2
    assert load_tree(folder / "tree").captured_at is not None
    again = people.bmc("capture", "n2", "tree", *people.fleet, status=1, **people.login())
    assert again.stderr.endswith("tree: is not empty; name a new folder\n")


def test_capture_of_a_bmc_that_refuses(people: People) -> None:
    people.site.lab.fault("n3", "wrong_password")
    done = people.bmc("capture", "n3", "tree", *people.fleet, status=1, **people.login())
    assert re.search(r"^bmc: n3, BMC 127\.\S+: auth_failed: ", done.stderr, re.MULTILINE)
    assert not (people.site.folder / "tree").exists()


def test_the_script_starts(people: People) -> None:
    done = subprocess.run(
        [str(PROJECT / "scripts" / "bmc"), "list", *people.fleet[:2]],
        cwd=people.site.folder,
        env=people.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "3 hosts: 3 not_asked" in done.stdout
