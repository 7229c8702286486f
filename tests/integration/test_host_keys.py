"""A real sshd in a simulated server: verified from the first connection on, with keys and secrets where they belong.

The tests tell one story and build on each other, in this order.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from firstlight.maas.hostkeys import BOOTSTRAP, KnownHosts, new_key_pair
from tests.e2e.conftest import REPOSITORY, Lab, Run

pytestmark = pytest.mark.lab
NAME, OTHER = "r1-n01", "r2-n01"
SCREENS: list[str] = []


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("keys"), block=62)
    try:
        lab.command("up", "--block", "62", "--inventory-dir", str(lab.inventory), "--fleet", "2", "--sound")
        yield lab
    finally:
        lab.end_runs()
        lab.command("down")


@pytest.fixture(scope="module")
def installed(lab) -> Run:
    run = lab.play("-vvvv", "site.yml", "--tags", "validate,discover,enlist,install", "-l", NAME)
    SCREENS.append(run.screen)
    return run


@pytest.fixture
def known(lab) -> KnownHosts:
    return KnownHosts(lab.folder / "lab" / "known_hosts")


def user_data(lab) -> dict:
    state = json.loads((lab.folder / "lab" / "machines" / NAME / "state.json").read_text())
    return yaml.safe_load(state["disk"]["user_data"])


def on_host(lab, command: str) -> str:
    return lab.command("ssh", NAME, command).strip()


def adhoc(lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ansible", NAME, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=lab.environment, capture_output=True, text=True, timeout=120)


def finding(lab) -> dict:
    return next(f for f in lab.host(NAME)["findings"] if f["status"] == "fail")


def test_the_first_connection_is_verified_and_the_key_then_replaced(lab, installed, known):
    assert installed.status == 0, installed.screen
    assert "StrictHostKeyChecking=yes" in installed.screen
    assert "StrictHostKeyChecking=accept-new" not in installed.screen
    assert "Permanently added" not in installed.screen
    [key] = known.keys(NAME)
    assert on_host(lab, "cat /etc/ssh/ssh_host_ed25519_key.pub") == key
    assert on_host(lab, "ls /etc/ssh/ssh_host_*").split() == [
        "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_ed25519_key.pub",
    ]  # fmt: skip
    assert known.keys(NAME, BOOTSTRAP) == []
    assert user_data(lab)["ssh_keys"]["ed25519_public"] != key
    assert adhoc(lab, "-m", "ping").returncode == 0


def test_the_private_key_is_nowhere_but_in_the_user_data(lab, installed):
    """Not on a screen with -vvvv, not in the ledger, the reports, the cache or the file of known hosts."""
    private = user_data(lab)["ssh_keys"]["ed25519_private"]
    lines = private.splitlines()[3:-2]  # what is before is the same in every key, or public
    # what leaked might be encoded once more; three ways, for it may begin anywhere in a group of three bytes
    again = [base64.b64encode(b"x" * n + lines[0].encode())[8:80].decode() for n in range(3)]
    for text in SCREENS:
        assert not [part for part in (*lines, *again) if part in text]
    state = {lab.folder / "lab" / "machines" / NAME / "state.json", lab.folder / "lab" / "maas" / "state.json"}
    files = [path for path in lab.folder.rglob("*") if path.is_file() and path not in state]
    assert len(files) > 10
    holding = [p for p in files if any(part.encode() in p.read_bytes() for part in (*lines, *again))]
    assert holding == []


def test_it_is_done_again_only_where_there_is_something_to_do(lab, installed, known):
    before = known.keys(NAME)
    done = adhoc(lab, "-b", "-m", "host_key")
    assert (done.returncode, '"changed": false' in done.stdout) == (0, True), done.stdout
    known.replace(NAME, before[0], BOOTSTRAP)
    checked = adhoc(lab, "-b", "-m", "host_key", "--check")
    assert '"changed": true' in checked.stdout
    assert known.keys(NAME, BOOTSTRAP) == before
    done = adhoc(lab, "-b", "-m", "host_key")
    assert '"changed": true' in done.stdout, done.stdout
    [key] = known.keys(NAME)
    assert key not in before
    assert on_host(lab, "cat /etc/ssh/ssh_host_ed25519_key.pub") == key


def test_a_failure_on_the_host_is_one_line_and_the_host_stays_reachable(lab, installed, known):
    [key] = known.keys(NAME)
    known.replace(NAME, key, BOOTSTRAP)
    failed = adhoc(lab, "-b", "-m", "host_key", "-a", "service=no-such.service")
    assert "no-such.service could not be reloaded" in failed.stdout
    assert "Traceback" not in failed.stdout + failed.stderr
    assert adhoc(lab, "-m", "ping").returncode == 0
    assert '"changed": true' in adhoc(lab, "-b", "-m", "host_key").stdout
    assert len(known.keys(NAME)) == 1


def end_connections(lab) -> None:
    """What was connected before stays so for a minute (ControlPersist)."""
    adhoc(lab, "-m", "meta", "-a", "reset_connection")
    for path in (Path.home() / ".ansible" / "cp").glob("*"):
        subprocess.run(["ssh", "-O", "exit", "-S", path, "x"], capture_output=True, timeout=20)


def test_a_host_without_an_entry_is_told_so(lab, installed, known):
    known.forget(NAME)
    end_connections(lab)
    run = lab.play("playbooks/configure.yml", "-l", NAME)
    said = finding(lab)
    assert (said["symptom"], said["action"]) == ("ssh.host_key_unknown", "escalate"), run.screen
    assert "playbooks/host_keys.yml" in said["evidence"]


def confirm_code(screen: str) -> str:
    return screen.split("-e host_keys_confirm=")[1][:12]


def test_its_key_is_taken_on_a_persons_word_and_no_other(lab, installed, known):
    fingerprint = on_host(lab, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    shown = lab.play("playbooks/host_keys.yml", "-l", NAME)
    assert f"{NAME} at 10.62.0.11: {fingerprint} is not known" in shown.screen
    assert not known.has(NAME)
    code = confirm_code(shown.screen)
    wrong = lab.play("playbooks/host_keys.yml", "-l", NAME, "-e", "host_keys_confirm=000000000000")
    assert "is not for the keys that are shown now" in wrong.screen
    checked = lab.play("playbooks/host_keys.yml", "-l", NAME, "-e", f"host_keys_confirm={code}", "--check")
    assert checked.status == 0
    assert not known.has(NAME)
    taken = lab.play("playbooks/host_keys.yml", "-l", NAME, "-e", f"host_keys_confirm={code}")
    assert taken.status == 0, taken.screen
    assert known.keys(NAME) == [on_host(lab, "cat /etc/ssh/ssh_host_ed25519_key.pub")]
    assert adhoc(lab, "-m", "ping").returncode == 0


def test_a_changed_key_is_told_so_and_never_taken_silently(lab, installed, known):
    [good] = known.keys(NAME)
    other = new_key_pair().public
    known.replace(NAME, other)
    end_connections(lab)
    run = lab.play("playbooks/configure.yml", "-l", NAME)
    said = finding(lab)
    assert (said["symptom"], said["action"]) == ("ssh.host_key_changed", "escalate"), run.screen
    assert "another SSH key than the one in known_hosts_file" in said["evidence"]
    assert known.keys(NAME) == [other]
    shown = lab.play("playbooks/host_keys.yml", "-l", NAME)
    assert "is NOT the one in known_hosts_file" in shown.screen
    lab.play("playbooks/host_keys.yml", "-l", NAME, "-e", f"host_keys_confirm={confirm_code(shown.screen)}")
    assert known.keys(NAME) == [good]


def wrong_installation(lab) -> dict[str, str]:
    """Evidence by symptom, of the stage install alone."""
    failed = [f for f in lab.host(NAME)["findings"] if f["status"] == "fail"]
    return {f["symptom"]: f["evidence"] for f in failed if f["symptom"].startswith("install.")}


def test_what_runs_and_is_not_what_was_pinned_is_a_finding(lab, installed):
    versions = lab.folder / "versions.yml"
    pin = {"series": "bookworm", "release": "ubuntu-24.04", "kernel_version": "1.2.3"}
    versions.write_text(yaml.safe_dump({"versions": {"operating_system": {"any": {"any": pin}}}}))
    arguments = ("-l", NAME, "-e", "install_distro_series=", "-e", f"versions_file={versions}")
    run = lab.play("playbooks/install.yml", *arguments)
    found = wrong_installation(lab)
    assert set(found) == {"install.wrong_image", "install.wrong_kernel"}, run.screen
    assert found["install.wrong_image"].endswith("runs, versions.yml pins ubuntu-24.04")
    run = lab.play("playbooks/install.yml", "-l", NAME)
    assert wrong_installation(lab) == {}, run.screen


def test_an_image_that_maas_lacks_is_told_before_anything_is_touched(lab, installed):
    assert lab.play("site.yml", "--tags", "validate,discover,enlist", "-l", OTHER).status == 0
    before = lab.maas_writes()
    run = lab.play("playbooks/install.yml", "-l", OTHER, "-e", "install_distro_series=plan9")
    assert f"MAAS has no image plan9 for amd64 ({OTHER}); it has: custom/bookworm, ubuntu/jammy" in run.screen
    run = lab.play(
        "playbooks/install.yml", "-l", OTHER, "-e", "install_distro_series=jammy", "-e", "install_hwe_kernel=ga-24.04"
    )
    assert "MAAS has no kernel ga-24.04 of ubuntu/jammy for amd64" in run.screen
    assert "it has: ga-22.04, hwe-22.04" in run.screen
    assert "Traceback" not in run.screen
    assert lab.maas_writes() == before
