"""Whether apt's package lists are those of its sources: after a run that was stopped, a source that changed, a clock
that was off, an archive that refused."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firstlight
from firstlight import aptlists
from firstlight.aptlists import Fetched, Seen

NOW = 1_800_000_000.0
HOUR = 3600
TARGETS = """/etc/apt/sources.list.d/docker.sources:1|{0}/download.docker.com_dists_trixie_stable_binary-amd64_Packages
/etc/apt/sources.list.d/docker.sources:1|{0}/download.docker.com_dists_trixie_stable_binary-all_Packages
/etc/apt/sources.list:3|{0}/deb.example.org_dists_trixie_main_binary-amd64_Packages
nonsense
|{0}/x
/etc/apt/sources.list.d/empty.sources:1|
"""


def seen(**changes: Any) -> Seen:
    """Sources of three hours ago, lists of ten minutes ago."""
    return Seen(**{"digest": "d1", "changed_at": NOW - 3 * HOUR, "lists_at": NOW - 600, **changes})


@pytest.mark.parametrize(
    ("now_is", "fetched", "why"),
    [
        # nothing is remembered: by dates
        (seen(), None, ""),
        (seen(changed_at=NOW - 300), None, "a source was written after them"),
        (seen(lists_at=NOW - 2 * HOUR, changed_at=0.0), None, "they are 7200 s old"),
        (seen(lists_at=NOW + HOUR), None, "they are dated in the future"),
        (seen(lists_at=0.0), None, "a source was written after them"),
        # a source was written, and the run stopped before lists were fetched
        (seen(lacking=("docker.sources",)), Fetched("d1", NOW - 60), "there is none of docker.sources"),
        (seen(lacking=("a.sources", "b.sources")), None, "there is none of a.sources, b.sources"),
        (seen(), Fetched("d0", NOW - 60), "sources or keys are others than when they were fetched"),
        # the run was stopped while it fetched, or an archive refused: other archives' lists are new
        (seen(lists_at=NOW), Fetched("", NOW - 60), "the last fetch did not come to its end"),
        # an image from which they were removed, soon after they were fetched
        (seen(none=True), None, "there is none at all"),
        (seen(none=True), Fetched("d1", NOW - 60), "there is none at all"),
        # as they should be; that others fetched later, or long ago, is no matter
        (seen(), Fetched("d1", NOW - 60), ""),
        (seen(lists_at=0.0, changed_at=NOW), Fetched("d1", NOW - HOUR), ""),
        (seen(), Fetched("d1", NOW - HOUR - 1), "they are 3601 s old"),
        # the clock has been set back since
        (seen(), Fetched("d1", NOW + 1), "they are dated in the future"),
    ],
)
def test_when_lists_are_fetched(now_is: Seen, fetched: Fetched | None, why: str):
    assert aptlists.reason(now_is, fetched, HOUR, NOW) == why


def test_a_source_is_lacking_when_apt_keeps_no_list_of_it(tmp_path: Path):
    targets = aptlists.parse_targets(TARGETS.format(tmp_path))
    assert sorted(targets) == ["docker.sources", "sources.list"]
    wanted = ["docker.sources", "sources.list", "unheard.sources"]

    assert aptlists.lacking(wanted, targets) == tuple(wanted)
    assert aptlists.none_there(targets) and aptlists.none_there({})
    (tmp_path / "deb.example.org_dists_trixie_main_binary-amd64_Packages.diff_Index").touch()
    # one architecture's is enough, packed or not
    (tmp_path / "download.docker.com_dists_trixie_stable_binary-amd64_Packages.lz4").touch()
    assert aptlists.lacking(wanted, targets) == ("sources.list", "unheard.sources")
    assert not aptlists.none_there(targets)
    (tmp_path / "deb.example.org_dists_trixie_main_binary-amd64_Packages").touch()
    assert aptlists.lacking(wanted, targets) == ("unheard.sources",)


def files(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = root / "etc/apt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (NOW, NOW))


def test_the_digest_is_of_sources_and_keys_alone(tmp_path: Path):
    files(tmp_path, {"sources.list": "deb a", "sources.list.d/x.sources": "Types: deb", "keyrings/x.asc": "KEY"})
    digest, changed_at = aptlists.read_sources(tmp_path)
    assert changed_at == NOW

    files(tmp_path, {"preferences.d/x": "Pin: *", "sources.list.d/x.save": "old", "apt.conf.d/1": "x"})
    (tmp_path / "etc/apt/sources.list.d/folder.sources").mkdir()
    os.utime(tmp_path / "etc/apt/sources.list", (NOW + 5, NOW + 5))
    assert aptlists.read_sources(tmp_path) == (digest, NOW + 5)

    digests = {digest}
    for name in (
        "sources.list",
        "sources.list.d/x.sources",
        "keyrings/x.asc",
        "trusted.gpg.d/y.gpg",
        "sources.list.d/z.list",
    ):
        files(tmp_path, {name: "another"})
        digests.add(aptlists.read_sources(tmp_path)[0])
    (tmp_path / "etc/apt/sources.list.d/z.list").unlink()
    digests.add(aptlists.read_sources(tmp_path)[0])
    assert len(digests) == 6  # without z.list it is as before


def test_texts_that_move_from_one_file_to_the_next_are_another_digest(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    files(one, {"sources.list.d/a.list": "deb x", "sources.list.d/b.list": "deb y"})
    files(two, {"sources.list.d/a.list": "deb y", "sources.list.d/b.list": "deb x"})
    assert aptlists.read_sources(one)[0] != aptlists.read_sources(two)[0]
    assert aptlists.read_sources(tmp_path / "none")[1] == 0.0


def test_what_is_remembered_is_read_back():
    kept = Fetched("d1", 12.5)
    assert aptlists.parse_state(aptlists.state_text(kept)) == kept
    assert aptlists.parse_state("") is None


@given(
    st.text()
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps)
    | st.fixed_dictionaries({"digest": st.text() | st.none(), "at": st.floats() | st.text() | st.integers()}).map(
        json.dumps
    )
)
def test_what_is_damaged_is_no_proof_that_lists_are_good(text: str):
    read = aptlists.parse_state(text)
    if read is not None and not (read.digest and read == aptlists.parse_state(aptlists.state_text(read))):
        assert aptlists.reason(seen(), read, HOUR, NOW) != ""


@given(st.text())
def test_what_apt_says_is_one_bounded_line(text: str):
    said = aptlists.errors(text)
    assert 0 < len(said) <= 600
    assert "\n" not in said


def test_apt_s_own_words():
    text = "Hit:1 http://a\nW: GPG error: x\nE: The repository is not signed.\nE: The repository is not signed.\n"
    assert aptlists.errors(text) == "W: GPG error: x E: The repository is not signed."
    assert aptlists.is_locked("E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\n")
    assert not aptlists.is_locked(text)


# ---- the module, with a program in apt-get's place

APT_GET = """#!/bin/sh
echo "$1" >>{0}/calls
case $1 in
  indextargets) echo "/etc/apt/sources.list.d/x.sources:1|{0}/lists/x_Packages" ;;
  -q)
    if [ -e {0}/locked ]; then
      rm {0}/locked
      echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2
      exit 100
    fi
    if [ -e {0}/refused ]; then echo "E: The repository 'x' is not signed." >&2; exit 100; fi
    touch {0}/lists/x_Packages ;;
esac
"""


class Ended(Exception):
    pass


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the module on a host whose apt is APT_GET; the result, and how often lists were fetched so far."""
    file = Path(__file__).parents[2] / "plugins/modules/apt_lists.py"
    spec = importlib.util.spec_from_file_location("apt_lists_module", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ansible.module_utils.firstlight", firstlight)  # as on a host
    spec.loader.exec_module(module)
    (tmp_path / "lists").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/apt-get"
    program.write_text(APT_GET.format(tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(module, "LISTS", tmp_path / "lists")
    monkeypatch.setattr(module, "STATE", tmp_path / "state/apt_lists.json")
    monkeypatch.setattr(module, "LOCK_PAUSE_SECONDS", 0.0)
    read = aptlists.read_sources
    monkeypatch.setattr(module.aptlists, "read_sources", lambda root: read(tmp_path))
    files(tmp_path, {"sources.list.d/x.sources": "Types: deb"})

    def run(check_mode: bool = False, **options: Any) -> tuple[dict[str, Any], int]:
        ended: dict[str, Any] = {}

        class Module:
            def __init__(self, **_: Any) -> None:
                self.params = {"sources": ["x.sources"], "max_age": HOUR, "lock_timeout": 60, **options}
                self.check_mode = check_mode

            def exit_json(self, **result: Any) -> None:
                ended.update(result)
                raise Ended

            def fail_json(self, **result: Any) -> None:
                self.exit_json(failed=True, **result)

        monkeypatch.setattr(module, "AnsibleModule", Module)
        with pytest.raises(Ended):
            module.main()
        calls = (tmp_path / "calls").read_text().split()
        return ended, calls.count("-q")

    return run


def test_lists_are_fetched_once(host: Any):
    first, _ = host()
    assert first == {"changed": False, "fetched": True, "why": "there is none of x.sources"}
    assert host() == ({"changed": False, "fetched": False, "why": ""}, 1)
    assert host(max_age=0)[0]["fetched"]


def test_check_mode_says_why_and_fetches_nothing(host: Any, tmp_path: Path):
    said, fetches = host(check_mode=True)
    assert said == {"changed": False, "fetched": False, "why": "there is none of x.sources"}
    assert fetches == 0
    assert not (tmp_path / "state").exists()


def test_another_source_is_fetched_though_lists_are_young(host: Any, tmp_path: Path):
    host()
    files(tmp_path, {"sources.list.d/x.sources": "Types: deb\nSigned-By: another"})  # no younger than the lists
    assert host()[0]["why"] == "sources or keys are others than when they were fetched"
    assert host()[0]["why"] == ""


def test_an_archive_that_refuses_fails_each_run_until_it_does_not(host: Any, tmp_path: Path):
    host()
    (tmp_path / "refused").touch()
    files(tmp_path, {"keyrings/x.asc": "another key"})
    for _ in range(2):
        said, _ = host()
        assert said == {"failed": True, "msg": "apt does not take its sources: E: The repository 'x' is not signed."}
    (tmp_path / "refused").unlink()
    assert host()[0]["why"] == "the last fetch did not come to its end"
    assert host()[0]["why"] == ""


def test_a_lock_is_waited_for(host: Any, tmp_path: Path):
    (tmp_path / "locked").touch()
    said, fetches = host()
    assert said["fetched"]
    assert fetches == 2


def test_a_folder_that_cannot_be_written_is_one_line(host: Any, tmp_path: Path):
    (tmp_path / "state").write_text("a file where the folder should be")
    said, _ = host()
    assert said["failed"]
    assert str(tmp_path / "state") in said["msg"]
    assert "\n" not in said["msg"]
