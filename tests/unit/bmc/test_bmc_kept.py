"""Records that several processes keep in one store: whose counts, the lock, and a process that is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import cache_loader, inventory_loader

from firstlight.bmc import sources
from firstlight.bmc.hardware import Gpu, Hardware, Record
from firstlight.bmc.kept import Kept, Rules, locked, must_ask, newest, with_answers
from firstlight.bmc.known import VERSION, not_asked, to_entries
from firstlight.sitefiles import Fleet, PlannedHost

PROJECT = Path(__file__).resolve().parents[3]
HOSTS = [PlannedHost(f"n{n}", f"r-{1 + n // 3}", n, f"10.0.0.{n}", "xe9680") for n in range(1, 5)]
FLEET = Fleet("test", HOSTS)


def record(name: str, seconds_ago: float, condition: str = "ok", gpus: int = 0, stale: bool = False) -> Record:
    asked = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    hardware = Hardware(gpus=[Gpu(str(n)) for n in range(gpus)]) if gpus else None
    return Record(name, condition, "", asked.isoformat(timespec="seconds"), 1.0, stale, hardware)


# -- pure -------------------------------------------------------------------------------------------------------------


def test_the_newer_record_wins_and_one_from_the_future_does_not() -> None:
    new, old, future, odd = record("n1", 5), record("n1", 50), record("n1", -500), Record("n1", "ok", "", "?", 1.0)
    for one, other in ((new, old), (new, future), (new, odd)):
        assert newest({"n1": (one, None)}, {"n1": (other, None)}) == {"n1": (one, None)}
        assert newest({"n1": (other, None)}, {"n1": (one, None)}) == {"n1": (one, None)}
    assert newest({"n1": (new, old)}, {"n2": (old, None)}) == {"n1": (new, old), "n2": (old, None)}


def test_an_answer_counts_against_what_another_process_kept_meanwhile() -> None:
    stored = {"n1": (record("n1", 10, gpus=8), None)}
    later = with_answers(stored, {"n1": record("n1", 5, "unreachable")})
    assert (later["n1"][0].condition, later["n1"][0].stale, len(later["n1"][0].hardware.gpus)) == (
        "unreachable",
        True,
        8,
    )
    lost = with_answers(stored, {"n1": record("n1", 5, gpus=7)})
    assert lost["n1"][1] == stored["n1"][0], "a GPU that was lost between two runs is missed"
    earlier = with_answers(stored, {"n1": record("n1", 20, "unreachable")})
    assert earlier == stored
    future = with_answers({"n1": (record("n1", -500, gpus=8), None)}, {"n1": record("n1", 5, gpus=7)})
    assert len(future["n1"][0].hardware.gpus) == 7


def test_what_was_heard_a_moment_before_another_process_heard_nothing() -> None:
    for stored in (record("n1", 5, "timed_out"), record("n1", 5, "timed_out", gpus=8, stale=True)):
        (pair,) = with_answers({"n1": (stored, None)}, {"n1": record("n1", 10, gpus=7)}).values()
        assert (pair[0].condition, pair[0].stale, len(pair[0].hardware.gpus)) == ("timed_out", True, 7)


def test_whom_to_ask() -> None:
    rules = Rules(60, retry=True, expire_seconds=3600)
    good, bad, refused = record("n1", 30), record("n1", 300, "timed_out"), record("n1", 30, "auth_failed")
    assert [must_ask(r, rules, "missing") for r in (None, good, bad, refused, record("n1", 4000))] == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert [must_ask(r, rules, "now") for r in (good, refused)] == [True, False]
    assert [must_ask(r, rules, "never") for r in (None, bad)] == [False, False]
    assert must_ask(refused, rules, "flush") and must_ask(not_asked("n1", ""), rules, "missing")
    assert not must_ask(bad, Rules(60, retry=False), "missing")
    assert must_ask(record("n1", 300), Rules(60, retry=False), "missing", use_store=False)


# -- a store ----------------------------------------------------------------------------------------------------------


class Store:
    """A store in memory, and the file whose lock its processes take."""

    def __init__(self, folder: Path, content: Any = None) -> None:
        self.place = folder / "place"
        self.place.touch()
        self.content = content
        self.warnings: list[str] = []

    def kept(self, fleet: Fleet = FLEET) -> Kept:
        """As another process has it."""

        def save(content: dict[str, Any]) -> None:
            self.content = json.loads(json.dumps(content))

        return Kept(fleet, self.place, lambda: self.content, save, learnt={}, warn=self.warnings.append)


def test_a_host_that_left_the_fleet_goes_and_one_that_came_meanwhile_stays(tmp_path: Path) -> None:
    before = Fleet("test", HOSTS[:3])
    store = Store(tmp_path, {"version": VERSION, "hosts": to_entries(FLEET, {"n4": record("n4", 900)}, {})})
    old = store.kept(before)
    old.read()
    old.add({"n1": record("n1", 0)})
    assert list(store.content["hosts"]) == ["n1"]
    grown = store.kept(FLEET)  # a rack was added while the first run goes on
    grown.add({"n4": record("n4", 0)})
    old.add({"n2": record("n2", 0)})
    assert sorted(store.content["hosts"]) == ["n1", "n2", "n4"]
    assert store.kept(FLEET).read()["n4"].condition == "ok"


def test_of_one_second_what_is_stored_counts_and_then_the_answer(tmp_path: Path) -> None:
    store = Store(tmp_path, {"version": VERSION, "hosts": to_entries(FLEET, {"n1": record("n1", 5, gpus=8)}, {})})
    kept = store.kept()
    kept.read()
    at = store.content["hosts"]["n1"]["record"]["asked_at"]
    store.kept().add({"n1": dataclasses.replace(record("n1", 0, gpus=7), asked_at=at)})
    assert gpus_of(kept.add({"n2": record("n2", 0)}))["n1"] == 7
    assert gpus_of(kept.add({"n1": dataclasses.replace(record("n1", 0, gpus=6), asked_at=at)}))["n1"] == 6


def test_a_store_that_was_damaged_or_emptied_meanwhile_is_made_anew(tmp_path: Path) -> None:
    for damage in (None, 3, [], {"version": VERSION, "hosts": 3}, {"version": "x", "hosts": {"n1": {}}}):
        store = Store(tmp_path, {"version": VERSION, "hosts": to_entries(FLEET, {"n3": record("n3", 9)}, {})})
        kept = store.kept()
        kept.read()
        store.content = damage
        kept.add({"n1": record("n1", 0)})
        assert sorted(store.content["hosts"]) == ["n1", "n3"]
    store.content["hosts"] |= {"n7": 3, "n8": {"bmc": 1}, "n9": {"bmc": 1, "record": {"condition": "?"}}}
    kept.add({"n2": record("n2", 0)})
    assert sorted(store.content["hosts"]) == ["n1", "n2", "n3"]


def test_without_a_store_what_this_process_learnt_is_known(tmp_path: Path) -> None:
    learnt: dict[str, Any] = {}
    first = Kept(FLEET, tmp_path / "none", None, pytest.fail, learnt=learnt, warn=pytest.fail)
    assert first.read() == {}
    first.add({"n1": record("n1", 0)})
    again = Kept(FLEET, tmp_path / "none", None, pytest.fail, learnt=learnt, warn=pytest.fail)
    assert list(again.read()) == ["n1"]


def test_a_place_that_cannot_be_locked_is_told_and_the_records_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.place.unlink()
    store.kept().add({"n1": record("n1", 0)})
    assert list(store.content["hosts"]) == ["n1"]
    assert store.warnings == [
        f"{store.place} cannot be locked: No such file or directory; what another run keeps now may be lost"
    ]


def test_the_lock_keeps_others_out_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("as it was")
    with locked(place) as first, locked(place, seconds=0.1) as second:
        assert (first, second) == ("", "another process has held it for 0.1 s")
    with locked(place, seconds=0) as third:
        assert third == ""
    assert [path.read_text() for path in tmp_path.iterdir()] == ["as it was"]
    place.chmod(0o400)
    with locked(place, seconds=0) as read_only:
        assert read_only == ""


# -- the inventory plugin ---------------------------------------------------------------------------------------------

SERVER = '''
"""A cache that is no folder of files, as memcached and redis are none."""
import copy
from ansible.plugins.cache import BaseCacheModule
DOCUMENTATION = """
name: testserver
short_description: x
description: x
options:
  _uri: {type: str, default: "", description: x}
  _timeout: {type: int, default: 0, description: x}
  _prefix: {type: str, default: "", description: x}
"""
SERVER = {}
class CacheModule(BaseCacheModule):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seen = {}
    def get(self, key):
        if key not in self._seen:
            self._seen[key] = copy.deepcopy(SERVER[key])
        return self._seen[key]
    def set(self, key, value):
        self._seen[key] = value
        SERVER[key] = copy.deepcopy(value)
    def keys(self):
        return list(SERVER)
    def contains(self, key):
        return key in self._seen or key in SERVER
    def delete(self, key):
        SERVER.pop(key, None)
    def flush(self):
        SERVER.clear()
'''


class Plugins:
    """Instances of the plugin on one site, each as a process of its own has it; BMCs answer by a function."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.folder = folder
        self.patch = monkeypatch
        self.config = folder / "test.redfish_bmc.yml"
        hosts = [{k: v for k, v in h.to_dict().items() if v} for h in HOSTS]
        (folder / "fleet.yml").write_text(yaml.safe_dump({"site": "test", "hosts": hosts}))
        profiles = str(PROJECT / "inventory" / "profiles")
        cache = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(folder / "cache")}
        own = {"plugin": "redfish_bmc", "profiles": profiles, "ca_file": "ca.pem", "fresh_seconds": 0}
        self.config.write_text(yaml.safe_dump(own | cache | options))
        for name in ("USERNAME", "PASSWORD"):
            monkeypatch.setenv(f"FIRSTLIGHT_BMC_{name}", "x")

    def get(self) -> Any:
        inventory_loader.add_directory(str(PROJECT / "plugins" / "inventory"))
        plugin = inventory_loader.get("redfish_bmc")
        self.patch.setitem(type(plugin).records.__globals__, "_learnt", {})
        plugin.read_site(InventoryData(), DataLoader(), str(self.config))
        return plugin

    def ask(self, *names: str, gpus: int = 8, meanwhile: Callable[[], Any] = lambda: None) -> dict[str, int | None]:
        """Ask these; others ask meanwhile. How many GPUs each host has, as this run knows."""
        plugin = self.get()

        def discover(targets: Any, **_: Any) -> dict[str, Record]:
            meanwhile()
            return {target.name: record(target.name, 0, gpus=gpus) for target in targets}

        self.patch.setitem(type(plugin).records.__globals__, "discover", discover)
        records = plugin.records(limit=set(names), refresh="always")
        with contextlib.suppress(AttributeError):
            plugin.update_cache_if_changed()  # as Ansible does after parse
        return gpus_of(records)

    def known(self) -> dict[str, int | None]:
        return gpus_of(self.get().records(refresh="never"))


def gpus_of(records: dict[str, Record]) -> dict[str, int | None]:
    return {name: len(r.hardware.gpus) if r.hardware else None for name, r in records.items()}


@pytest.mark.parametrize("cache", ["jsonfile", "testserver"])
def test_two_runs_at_once_keep_both_racks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
    connection = str(tmp_path / "cache")
    if cache == "testserver":
        (tmp_path / "plugins").mkdir()
        (tmp_path / "plugins" / "testserver.py").write_text(SERVER)
        cache_loader.add_directory(str(tmp_path / "plugins"))
        connection = "localhost:11211"
    plugins = Plugins(tmp_path, monkeypatch, cache_plugin=cache, cache_connection=connection)
    plugins.ask("n1", "n2", "n3", "n4", gpus=8)
    first = plugins.ask("n1", "n2", gpus=6, meanwhile=lambda: plugins.ask("n3", "n4", gpus=7))
    assert plugins.known() == {"n1": 6, "n2": 6, "n3": 7, "n4": 7}
    assert first == plugins.known(), "and the run that ends last knows what the other one learnt"


@pytest.mark.parametrize("options", [{"cache": False}, {"cache_plugin": "memory"}])
def test_two_runs_at_once_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    plugins = Plugins(tmp_path, monkeypatch, **options)
    first = plugins.ask("n1", gpus=6, meanwhile=lambda: plugins.ask("n3", gpus=7))
    assert first == {"n1": 6, "n2": None, "n3": None, "n4": None}
    assert not (tmp_path / "cache").exists()


KILLED = """
import os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import test_bmc_kept as t, pytest
def half(self, text):
    with self.open("w") as file:
        file.write(text[: len(text) // 2])
    print("half", flush=True)
    time.sleep(60)
pathlib.Path.write_text, whole = half, pathlib.Path.write_text
patch = pytest.MonkeyPatch()
plugins = t.Plugins.__new__(t.Plugins)
plugins.folder, plugins.patch = pathlib.Path(sys.argv[2]), patch
plugins.config = plugins.folder / "test.redfish_bmc.yml"
plugins.ask("n1", gpus=6)
"""


def test_a_run_killed_while_it_writes_leaves_the_cache_and_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = Plugins(tmp_path, monkeypatch)
    plugins.ask("n1", "n2", "n3", "n4", gpus=8)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        with locked(plugins.config, seconds=0) as why:
            assert why, "it holds the lock while it writes"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    with locked(plugins.config, seconds=0) as why:
        assert why == ""
    assert plugins.known() == {"n1": 8, "n2": 8, "n3": 8, "n4": 8}
    plugins.ask("n2", gpus=7)
    assert plugins.known() == {"n1": 8, "n2": 7, "n3": 8, "n4": 8}


def test_a_cache_cut_off_while_a_run_asks_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a full disk leaves it."""
    plugins = Plugins(tmp_path, monkeypatch)
    plugins.ask("n1", "n2", "n3", "n4", gpus=8)
    (path,) = (tmp_path / "cache").iterdir()
    cut = path.read_text()[:100]
    plugins.ask("n1", gpus=6, meanwhile=lambda: path.write_text(cut))
    assert plugins.known() == {"n1": 6, "n2": 8, "n3": 8, "n4": 8}
    path.write_text(cut)
    assert plugins.known() == dict.fromkeys(("n1", "n2", "n3", "n4"))


# -- scripts/bmc with a fleet file alone ------------------------------------------------------------------------------


def test_two_scans_of_a_fleet_file_at_once_keep_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    Plugins(tmp_path, monkeypatch)

    def scan(*names: str, gpus: int, meanwhile: Callable[[], Any] = lambda: None) -> None:
        source = sources.FleetSource(
            tmp_path / "fleet.yml", ca_file="x", profiles=None, secrets=None, vault_password_files=[], deadline=1
        )
        source.known()

        def discover(targets: Any, **_: Any) -> dict[str, Record]:
            meanwhile()
            return {target.name: record(target.name, 0, gpus=gpus) for target in targets}

        monkeypatch.setattr(sources, "discover", discover)
        known.update(gpus_of(source.scan(names, lambda record: None)))

    known: dict[str, int | None] = {}
    scan("n1", "n2", gpus=6, meanwhile=lambda: scan("n3", gpus=7))
    assert known == {"n1": 6, "n2": 6, "n3": 7, "n4": None}
