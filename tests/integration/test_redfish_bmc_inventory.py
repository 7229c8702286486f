"""The inventory plugin as an operator meets it: Ansible's own programs, in front of simulated BMCs."""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bmc_product_lab import BIN, PASSWORD, USER, BmcLab, Site

from firstlight.bmc.known import VERSION
from firstlight.findings import Finding
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.sitefiles import PlannedHost


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=4)
    yield lab
    lab.stop()


@pytest.fixture
def site(lab: BmcLab, tmp_path: Path) -> Site:
    for number in range(1, lab.count + 1):
        for fault in lab.look(f"n{number}")["faults"]:
            lab.fault(f"n{number}", fault, on=False)
    return Site(lab, tmp_path)


def asked(lab: BmcLab) -> list[int]:
    """How many requests each BMC had so far."""
    return [lab.counters(f"n{n}")["requests"] for n in range(1, lab.count + 1)]


def hostvars(inventory: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(inventory["_meta"]["hostvars"][name])


def test_every_planned_host_with_what_its_bmc_says(site: Site) -> None:
    site.lab.fault("n2", "gpu_missing", gpu=3)
    site.lab.fault("n3", "wrong_password")
    failed_before = site.lab.counters("n3")["failed_logins"]
    inventory = site.inventory()
    assert inventory["fleet"]["children"] == ["rack_r_1", "rack_r_2"]
    assert inventory["rack_r_1"]["hosts"] == ["n1", "n2", "n3"]
    assert inventory["profile_xe9680"]["hosts"] == inventory["state_planned"]["hosts"] == ["n1", "n2", "n3", "n4"]
    assert inventory["bmc_ok"]["hosts"] == ["n1", "n2", "n4"]
    assert inventory["bmc_failed"]["children"] == ["bmc_auth_failed"]
    assert inventory["bmc_auth_failed"]["hosts"] == ["n3"]

    good = hostvars(inventory, "n1")
    assert (good["bmc_address"], good["bmc_port"]) == (site.lab.address(1), site.lab.port)
    assert (good["rack"], good["unit"], good["service_tag"]) == ("r-1", 1, "TST0001")
    assert good["pxe_mac"] == "70:b5:e8:00:00:04"
    assert (good["bmc_condition"], good["ledger_state"], good["site"]) == ("ok", "planned", "test")
    assert good["bmc_ca_file"] == site.lab.ca_file
    assert good["ledger_url"] == f"sqlite:///{site.folder}/ledger.sqlite"
    assert not (site.folder / "ledger.sqlite").exists()
    assert (good["profile"]["name"], good["profile"]["gpus"]["count"]) == ("xe9680", 8)
    assert PlannedHost(**good["planned"]).name == "n1"
    record = good["bmc_record"]
    assert (record["name"], record["condition"], record["stale"]) == ("n1", "ok", False)
    assert len(record["hardware"]["gpus"]) == 8
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(record["asked_at"])
    assert age < datetime.timedelta(seconds=60)

    assert len(hostvars(inventory, "n2")["bmc_record"]["hardware"]["gpus"]) == 7
    refused = hostvars(inventory, "n3")
    assert (refused["bmc_condition"], refused["bmc_record"]["hardware"]) == ("auth_failed", None)
    assert "service_tag" not in refused
    assert "pxe_mac" not in refused
    assert site.lab.counters("n3")["failed_logins"] - failed_before == 1
    assert [site.lab.counters(f"n{n}")["sessions_open"] for n in range(1, 5)] == [0, 0, 0, 0]
    assert [site.lab.counters(f"n{n}")["writes"] for n in range(1, 5)] == [0, 0, 0, 0]
    kept = "".join(path.read_text() for path in (site.folder / "cache").iterdir())
    assert "TST0001" in kept
    assert PASSWORD not in kept + json.dumps(inventory)


def test_a_second_run_asks_nobody(site: Site) -> None:
    site.write(fresh_seconds=600)  # however slow this machine is
    site.lab.fault("n3", "wrong_password")
    first = site.inventory()
    before = asked(site.lab)
    assert site.inventory() == first
    host = site.run("ansible-inventory", "--host", "n1")
    assert json.loads(host.stdout)["service_tag"] == "TST0001"
    graph = site.run("ansible-inventory", "--graph").stdout
    assert "|--@fleet:" in graph
    assert "|  |--@rack_r_2:" in graph
    assert asked(site.lab) == before


def test_nobody_needs_a_secret_when_nobody_is_asked(site: Site) -> None:
    first = site.inventory()
    site.secrets.unlink()
    assert site.inventory() == first


def test_failures_are_asked_again_when_they_are_no_longer_fresh(site: Site) -> None:
    site.lab.fault("n3", "wrong_password")
    site.write(fresh_seconds=1)
    assert site.inventory()["bmc_auth_failed"]["hosts"] == ["n3"]
    site.lab.fault("n3", "wrong_password", on=False)
    before = asked(site.lab)
    time.sleep(1.2)
    assert site.inventory()["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]
    after = asked(site.lab)
    assert [now > then for now, then in zip(after, before, strict=True)] == [False, False, True, False]


def test_retry_off(site: Site) -> None:
    site.lab.fault("n3", "wrong_password")
    site.write(fresh_seconds=0, retry=False)
    site.inventory()
    before = asked(site.lab)
    assert site.inventory()["bmc_auth_failed"]["hosts"] == ["n3"]
    assert asked(site.lab) == before


def test_a_bmc_that_fails_keeps_its_last_good_hardware(site: Site) -> None:
    site.write(fresh_seconds=0, refresh="always")
    site.inventory()
    site.lab.fault("n1", "unreachable")
    inventory = site.inventory()
    broken = hostvars(inventory, "n1")
    assert inventory["bmc_unreachable"]["hosts"] == ["n1"]
    assert (broken["bmc_condition"], broken["bmc_record"]["stale"]) == ("unreachable", True)
    assert len(broken["bmc_record"]["hardware"]["gpus"]) == 8
    assert (broken["service_tag"], broken["pxe_mac"]) == ("TST0001", "70:b5:e8:00:00:04")
    site.lab.fault("n1", "unreachable", on=False)
    healed = hostvars(site.inventory(), "n1")
    assert (healed["bmc_condition"], healed["bmc_record"]["stale"]) == ("ok", False)


def test_another_bmc_address_is_another_machine(site: Site) -> None:
    """The cache of n1 tells nothing about the machine that the plan now means by n1."""
    site.inventory()
    site.hosts[0]["bmc_address"], site.hosts[3]["bmc_address"] = site.lab.address(4), site.lab.address(1)
    site.write()
    inventory = site.inventory()
    assert hostvars(inventory, "n1")["service_tag"] == "TST0004"
    assert hostvars(inventory, "n4")["service_tag"] == "TST0001"


def test_refresh_never(site: Site) -> None:
    site.write(refresh="never")
    before = asked(site.lab)
    inventory = site.inventory()
    assert inventory["bmc_not_asked"]["hosts"] == ["n1", "n2", "n3", "n4"]
    assert "bmc_failed" not in inventory
    assert hostvars(inventory, "n1")["bmc_record"]["evidence"] == "not asked yet: refresh is never"
    assert asked(site.lab) == before


def test_flush_cache_asks_everyone(site: Site) -> None:
    site.inventory()
    before = asked(site.lab)
    site.inventory("--flush-cache")
    assert all(now > then for now, then in zip(asked(site.lab), before, strict=True))


def play(site: Site, seconds: int) -> str:
    """A playbook that waits, refreshes the inventory, and tells n1's condition before and after."""
    told = {"ansible.builtin.debug": {"msg": "{{ hostvars.n1.bmc_condition }} {{ hostvars.n1.bmc_record.stale }}"}}
    tasks = [told, {"ansible.builtin.pause": {"seconds": seconds}}, {"ansible.builtin.meta": "refresh_inventory"}, told]
    plays = [{"hosts": "n1", "gather_facts": False, "connection": "local", "tasks": tasks}]
    (site.folder / "play.yml").write_text(yaml.safe_dump(plays))
    done = site.run("ansible-playbook", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_refresh_inventory_asks_again_and_is_remembered(site: Site) -> None:
    site.write(fresh_seconds=1)
    site.inventory()
    site.lab.fault("n1", "unreachable")
    said = play(site, 2)
    assert said.index("ok False") < said.index("unreachable True")
    site.write(fresh_seconds=600)
    before = asked(site.lab)
    assert hostvars(site.inventory(), "n1")["bmc_condition"] == "unreachable"
    assert asked(site.lab) == before


def test_refresh_inventory_does_not_ask_those_who_just_answered(site: Site) -> None:
    """A second refused password in one run would be a step towards a blocked address."""
    site.lab.fault("n3", "wrong_password")
    failed = site.lab.counters("n3")["failed_logins"]
    play(site, 0)
    assert site.lab.counters("n3")["failed_logins"] - failed == 1


def test_without_a_cache_nobody_is_asked_twice_in_one_run(site: Site) -> None:
    site.lab.fault("n3", "wrong_password")
    site.write(cache=False)
    failed = site.lab.counters("n3")["failed_logins"]
    play(site, 0)
    assert site.lab.counters("n3")["failed_logins"] - failed == 1
    assert not (site.folder / "cache").exists()


def test_a_ledger_in_which_no_run_has_made_tables_is_none(site: Site) -> None:
    (site.folder / "ledger.sqlite").touch()  # as an empty database of a server is
    assert hostvars(site.inventory(), "n1")["ledger_state"] == "planned"


def test_states_come_from_the_ledger(site: Site) -> None:
    ledger = Ledger(ledger_url("ledger.sqlite", site.folder))
    ledger.plan("test", [site.lab.planned(1)])
    ledger.end_stage("discover", "n1", [])
    states = ledger.states()
    inventory = site.inventory()
    assert hostvars(inventory, "n1")["ledger_state"] == states["n1"]
    assert inventory[f"state_{states['n1']}"]["hosts"][0] == "n1"
    assert hostvars(inventory, "n2")["ledger_state"] == "planned"


def test_golden_hosts_and_lemons_are_groups_by_the_policy_beside_the_file(site: Site) -> None:
    ledger = Ledger(ledger_url("ledger.sqlite", site.folder))
    ledger.plan("test", [site.lab.planned(number) for number in (1, 2)])
    for name in ("n1", "n2"):
        ledger.set_state(name, "ready", "test")
    for _ in range(2):
        ledger.end_stage("smoke", "n2", [Finding("xid", "fail", "xid.79", "GPU 0000:1b:00.0", "", "power_cycle")])
        ledger.end_stage("smoke", "n2", [])
    with sqlite3.connect(site.folder / "ledger.sqlite") as db:
        db.execute("UPDATE state_change SET at = '2026-01-01T00:00:00.000+00:00'")
    policy = site.folder / "policy.yml"
    policy.write_text("lemon_failures: 2\n")
    inventory = site.inventory()
    assert (inventory["golden"]["hosts"], inventory["lemon"]["hosts"]) == (["n1"], ["n2"])
    assert hostvars(inventory, "n1")["policy_file"] == str(policy)
    policy.unlink()
    inventory = site.inventory()  # by default a lemon has failed three times
    assert inventory["golden"]["hosts"] == ["n1"] and "lemon" not in inventory
    policy.write_text("lemon_failures: 1\n")
    assert "golden" not in site.inventory()


def test_constructed_groups_and_variables(site: Site) -> None:
    site.write(
        compose={"gpu_count": "bmc_record.hardware.gpus | length"},
        keyed_groups=[{"key": "bmc_record.hardware.power_state", "prefix": "power"}],
        groups={"upper": "unit > 2"},
    )
    inventory = site.inventory()
    assert hostvars(inventory, "n1")["gpu_count"] == 8
    assert inventory["power_Off"]["hosts"] == ["n1", "n2", "n3", "n4"]
    assert inventory["upper"]["hosts"] == ["n3", "n4"]


def test_environment_overrides_the_secrets_file(site: Site) -> None:
    site.secrets.write_text(yaml.safe_dump({"bmc_username": USER, "bmc_password": "outdated"}))
    inventory = site.inventory(FIRSTLIGHT_BMC_PASSWORD=PASSWORD)
    assert inventory["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]


def test_vaulted_secrets(site: Site) -> None:
    key = site.folder / "vault-password"
    key.write_text("open sesame\n")
    subprocess.run(
        [str(BIN / "ansible-vault"), "encrypt", "--vault-password-file", str(key), str(site.secrets)],
        check=True,
        capture_output=True,
    )
    assert "$ANSIBLE_VAULT" in site.secrets.read_text()
    said = site.refusal()
    assert f"{site.secrets}: cannot be decrypted; give its password with --vault-password-file" in said
    inventory = site.inventory("--vault-password-file", str(key))
    assert inventory["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]


def test_a_missing_secret(site: Site) -> None:
    site.secrets.write_text(yaml.safe_dump({"bmc_username": USER}))
    assert site.parse_error() == (
        f"{site.secrets}: bmc_password of n1 is missing; add it, or an entry in bmc_credentials, with ansible-vault, "
        "or set FIRSTLIGHT_BMC_PASSWORD"
    )
    site.secrets.unlink()
    del site.options["secrets"]
    site.write()
    assert site.parse_error().startswith(f"{site.folder}/group_vars/all/secrets.yml: bmc_username of n1 is missing")


def test_credentials_of_ranges_and_hosts(site: Site) -> None:
    """Only the right one of four passwords is sent: any other would be a failed login."""
    failed = [site.lab.counters(f"n{n}")["failed_logins"] for n in range(1, 5)]
    site.secrets.write_text(
        yaml.safe_dump(
            {
                "bmc_username": USER,
                "bmc_password": PASSWORD,  # n4
                "bmc_credentials": [
                    {"addresses": "127.0.0.0/8", "password": "too wide"},
                    {"addresses": f"{site.lab.address(1)}-{site.lab.address(3)}", "password": "too wide as well"},
                    {"addresses": site.lab.address(1), "username": USER, "password": PASSWORD},
                    {"host": "n2", "username": USER, "password": PASSWORD},
                    {"addresses": f"{site.lab.address(2)}-{site.lab.address(3)}", "password": PASSWORD},
                    {"host": "n4", "password": PASSWORD},
                ],
            }
        )
    )
    inventory = site.inventory()
    assert inventory["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]
    assert [site.lab.counters(f"n{n}")["failed_logins"] for n in range(1, 5)] == failed
    kept = "".join(path.read_text() for path in (site.folder / "cache").iterdir())
    assert PASSWORD not in kept + json.dumps(inventory)
    assert "too wide" not in kept + json.dumps(inventory)


def test_credentials_of_a_host_that_is_not_planned(site: Site) -> None:
    site.secrets.write_text(
        yaml.safe_dump(
            {"bmc_username": USER, "bmc_password": PASSWORD, "bmc_credentials": [{"host": "n9", "password": "x"}]}
        )
    )
    assert site.parse_error() == f"{site.secrets}: bmc_credentials[0]: host n9 is not in the fleet"


def test_a_fleet_as_a_table(site: Site) -> None:
    rows = [f"test,{h['name']},{h['rack']},{h['unit']},{h['bmc_address']},{h['bmc_port']},xe9680" for h in site.hosts]
    table = "\n".join(["site,name,rack,unit,bmc_address,bmc_port,profile", *rows]) + "\n"
    (site.folder / "fleet.csv").write_text(table)
    site.write(fleet="fleet.csv")
    (site.folder / "fleet.yml").unlink()
    inventory = site.inventory()
    assert inventory["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]
    assert hostvars(inventory, "n4")["rack"] == "r-2"
    (site.folder / "fleet.csv").write_text(table.replace(",4,127.", ",4,270."))
    assert f"{site.folder}/fleet.csv:5: host n4: bmc_address '270." in site.parse_error()


def test_a_limited_run_asks_those_it_is_limited_to(site: Site) -> None:
    site.write(fresh_seconds=0, refresh="always")
    before = asked(site.lab)
    first = site.inventory("--limit", "n1,rack_r_2")
    after = asked(site.lab)
    assert [now > then for now, then in zip(after, before, strict=True)] == [True, False, False, True]
    assert first["bmc_ok"]["hosts"] == ["n1", "n4"]
    site.inventory()
    site.lab.fault("n2", "unreachable")
    before = asked(site.lab)
    site.inventory("--limit", "n1", "--flush-cache")
    after = asked(site.lab)
    assert [now > then for now, then in zip(after, before, strict=True)] == [True, False, False, False]
    # a pattern may mean a group that only the answers make: everyone is asked, and n2 is found to be gone
    assert site.inventory("--limit", "bmc_*")["bmc_unreachable"]["hosts"] == ["n2"]


def test_a_playbook_for_one_host_asks_that_one(site: Site) -> None:
    before = asked(site.lab)
    site.inventory("-e", "host=n1")
    assert [now > then for now, then in zip(asked(site.lab), before, strict=True)] == [True, False, False, False]


def test_progress_is_told_on_the_error_stream(site: Site) -> None:
    site.write(progress_seconds=0.2)
    site.lab.fault("n2", "hangs")
    done = site.run("ansible-inventory", "--list")
    assert done.returncode == 0
    assert json.loads(done.stdout)["bmc_timed_out"]["hosts"]
    assert "redfish_bmc: 3 of 4 BMCs done after" in done.stderr
    assert "3 ok" in done.stderr


def test_a_record_older_than_the_caches_time_out_is_asked_again(site: Site) -> None:
    """Also when the cache as a whole was written a moment ago."""
    first = site.inventory()
    (path,) = (site.folder / "cache").iterdir()
    kept = path.read_text()
    asked_at = hostvars(first, "n2")["bmc_record"]["asked_at"]
    before_n2, n2, after = kept.partition(site.lab.address(2) + " port")
    assert asked_at in after
    path.write_text(before_n2 + n2 + after.replace(asked_at, "2020-01-01T00:00:00+00:00", 1))
    before = asked(site.lab)
    site.inventory()
    after = asked(site.lab)
    assert [now > then for now, then in zip(after, before, strict=True)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("options", "host", "words"),
    [
        ({"flet": "x"}, {}, "unknown option 'flet'; known are "),
        ({"ca_file": "nowhere.pem"}, {}, "nowhere.pem: the CA of the BMCs cannot be read: No such file or directory"),
        ({"profiles": "nowhere"}, {}, "nowhere: no such folder of profiles"),
        ({"fleet": "nowhere.yml"}, {}, "nowhere.yml: cannot be read: No such file or directory"),
        ({"refresh": "sometimes"}, {}, "sometimes"),
        ({}, {"profile": "xe1"}, "host n1: unknown profile 'xe1'; known are xe9680"),
        ({}, {"name": "n2"}, "host n2: name n2 is already"),
    ],
)
def test_wrong_input_is_one_line(site: Site, options: dict[str, Any], host: dict[str, Any], words: str) -> None:
    before = asked(site.lab)
    site.hosts[0] |= host
    site.write(**options)
    said = site.parse_error()
    assert words in said
    assert "\n" not in said
    assert asked(site.lab) == before


def test_a_cache_that_somebody_else_wrote_is_not_believed(site: Site) -> None:
    first = site.inventory()
    (path,) = (site.folder / "cache").iterdir()
    entry = {"version": VERSION, "hosts": {"n1": 3, "n2": {"bmc": "x"}}}
    for content in (json.dumps(entry), "{"):
        path.write_text(content)
        again = site.inventory()
        assert again["bmc_ok"] == first["bmc_ok"]


def gpus(inventory: dict[str, Any]) -> list[int]:
    shown = sorted(inventory["_meta"]["hostvars"])
    return [len(hostvars(inventory, name)["bmc_record"]["hardware"]["gpus"]) for name in shown]


def test_two_runs_at_once_on_different_racks_keep_what_both_learnt(site: Site) -> None:
    """The first has read the cache before the second begins, and writes it after that has ended."""
    site.write(fresh_seconds=0, refresh="always", host_deadline=100)
    assert gpus(site.inventory()) == [8, 8, 8, 8]
    for number in (1, 2, 4):
        site.lab.fault(f"n{number}", "gpu_missing", gpu=3)
    site.lab.fault("n1", "hangs")
    before = asked(site.lab)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(site.inventory, "--limit", "rack_r_1")
        try:
            until = time.monotonic() + 100
            while asked(site.lab)[1:3] == before[1:3]:
                assert time.monotonic() < until
                time.sleep(0.1)
            assert gpus(site.inventory("--limit", "rack_r_2")) == [7], "while the first still asks"
            assert not first.done()
        finally:
            site.lab.fault("n1", "hangs", on=False)
        assert gpus(first.result()) == [7, 7, 8]
    site.write(refresh="never")
    assert gpus(site.inventory()) == [7, 7, 8, 7]
    assert len(list((site.folder / "cache").iterdir())) == 1, "no lock, no half-written file"


def test_runs_at_once_that_begin_from_nothing(site: Site) -> None:
    """All have read the empty cache before the first BMC answers; then they write within a moment."""
    site.write(host_deadline=100)
    limits = ["n1", "n2", "n3", "rack_r_2"]
    before = asked(site.lab)
    for number in range(1, 5):
        site.lab.fault(f"n{number}", "hangs")
    with concurrent.futures.ThreadPoolExecutor(len(limits)) as pool:
        runs = [pool.submit(site.inventory, "--limit", limit) for limit in limits]
        try:
            until = time.monotonic() + 100
            while any(now == then for now, then in zip(asked(site.lab), before, strict=True)):
                assert time.monotonic() < until
                time.sleep(0.1)
        finally:
            for number in range(1, 5):
                site.lab.fault(f"n{number}", "hangs", on=False)
        assert all(run.result() for run in runs)
    site.write(refresh="never")
    assert site.inventory()["bmc_ok"]["hosts"] == ["n1", "n2", "n3", "n4"]


def test_only_its_own_files_are_read(site: Site) -> None:
    other = site.folder / "something.yml"
    other.write_text(site.config.read_text())
    site.config = other
    assert "something.yml" in site.refusal()
