"""Tickets as a run leaves them: a webhook that fails and recovers, a locator light, and nothing told twice."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from bmc_product_lab import BIN, PASSWORD, PROJECT, USER, BmcLab, Site

from firstlight.bmc.control import Change, many
from firstlight.bmc.power import set_locator
from firstlight.findings import Finding
from firstlight.ledger.store import Ledger, ledger_url
from firstlight.ledger.tickets import delivered, tickets

LOST = Finding("gpus", "fail", "gpu.missing", "Video.Slot.26-1", "7 of 8 GPUs", "reseat")
FAN = Finding("fans", "fail", "fan.failed", "Fan 3", "0 rpm", "replace")


class Desk:
    """A ticket system on this machine. down: it answers 503. taken: (method, path, token, body) of what it took."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, str, Any]] = []
        self.down = False
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not desk.down:
                    desk.taken.append((self.command, self.path, self.headers["Authorization"], body))
                said = json.dumps({"key": f"DC-{body['id']}"}).encode()
                self.send_response(503 if desk.down else 201)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_PUT = do_POST

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def told(self) -> list[tuple[str, str, str]]:
        """(method, id, state) of each, and forgets them."""
        told = [(method, body["id"], body["state"]) for method, _, _, body in self.taken]
        self.taken.clear()
        return told


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcLab]:
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=3)
    yield lab
    lab.stop()


def test_an_inventory_folder_may_hold_what_belongs_to_tickets(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("all: {hosts: {n1: {}}}")
    (tmp_path / "tickets.yml").write_text(
        "templates: ticket_templates\noutputs:\n  - folder: tickets\n"
        "  - webhook: {url: 'https://x.example', template: mine.j2, ca_file: ca.pem}\n"
    )
    for name in ("ticket_templates/ticket.md.j2", "ticket_templates/mine", "tickets/n1-gpu-1.md", "ca.pem", "b.j2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{% if %}")

    def listed() -> subprocess.CompletedProcess[str]:
        known = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        return subprocess.run(
            [BIN / "ansible-inventory", "-i", tmp_path, "--list"],
            cwd=PROJECT,
            env=known | {"ANSIBLE_INVENTORY_CACHE_CONNECTION": str(tmp_path / ".cache")},
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = listed()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ungrouped"]["hosts"] == ["n1"]
    (tmp_path / "ticket_templates").rename(tmp_path / "other")
    done = listed()  # which is why the settings name what may be there
    assert f"Completely failed to parse inventory source {tmp_path}/other" in done.stderr
    assert done.returncode != 0


def test_a_fleet_s_tickets_from_run_to_run(lab: BmcLab, desk: Desk, tmp_path: Path) -> None:
    site = Site(lab, tmp_path)
    (tmp_path / "tickets.yml").write_text(
        f"""\
locator_led: true
outputs:
  - folder: tickets
  - webhook:
      name: desk
      url: {desk.url}/new
      token_from: DESK_TOKEN
      reference: key
      update_url: {desk.url}/change/{{reference}}
      update_method: PUT
"""
    )
    ledger = Ledger(ledger_url("ledger.sqlite", tmp_path))
    ledger.plan("test", [lab.planned(number) for number in (1, 2, 3)])
    for name, found in (("n1", [LOST, FAN]), ("n2", [FAN])):
        ledger.end_stage("discover", name, found)

    def report(*arguments: str) -> str:
        done = site.run(
            "ansible-playbook",
            str(PROJECT / "playbooks" / "report.yml"),
            *arguments,
            "-e", f"reports_dir={tmp_path}/reports",
            ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"),
            ANSIBLE_INVENTORY_CACHE_CONNECTION=str(tmp_path / "cache"),
            FIRSTLIGHT_BMC_USERNAME=USER,
            FIRSTLIGHT_BMC_PASSWORD=PASSWORD,
            DESK_TOKEN="s3cret-desk",
        )  # fmt: skip
        screen = done.stdout + done.stderr
        assert done.returncode == 2, screen  # nobody is ready
        assert "Traceback" not in screen
        assert "s3cret-desk" not in screen
        return " ".join(screen.split())

    def lit() -> list[bool]:
        """Of those BMCs that answer."""
        told = many(lab.targets(), lambda bmc: set_locator(bmc, True, check=True), ca_file=lab.ca_file)
        return [isinstance(told[f"n{n}"], Change) and told[f"n{n}"].before == "on" for n in (1, 2, 3)]

    # in check mode nothing
    report("--check")
    assert (tickets(ledger), desk.told(), lit()) == ([], [], [False] * 3)

    # the desk is down, and so is a BMC
    desk.down = True
    lab.fault("n2", "unreachable")
    screen = report()
    assert "tickets: 3 opened; 3 open" in screen
    assert "desk: 3 tickets wait" in screen
    assert "the locator light of n2 was not switched" in screen
    assert len(list((tmp_path / "tickets").glob("*.md"))) == 3
    assert (desk.told(), lit()) == ([], [True, False, False])

    # both are back: all is told once, whatever was told is not told again
    desk.down = False
    lab.fault("n2", "unreachable", on=False)
    assert "tickets: 3 open" in report()
    assert sorted(desk.told()) == [("POST", f"{name}-1", "open") for name in ("n1-fan", "n1-gpu", "n2-fan")]
    assert lit() == [True, True, False]
    report()
    assert desk.told() == []

    # mended: one of two on n1, all on n2, of which the run that looks only at n1 does not know
    ledger.end_stage("discover", "n1", [FAN])
    ledger.end_stage("discover", "n2", [])
    assert "tickets: 1 closed; 2 open" in report("-l", "n1")
    assert desk.told() == [("PUT", "n1-gpu-1", "closed")]
    assert lit() == [True, True, False]
    assert "tickets: 1 closed; 1 open" in report()
    assert desk.told() == [("PUT", "n2-fan-1", "closed")]
    assert lit() == [True, False, False]
    assert delivered(ledger, "desk") == {
        "n1-fan-1": (1, "DC-n1-fan-1"), "n1-gpu-1": (2, "DC-n1-gpu-1"), "n2-fan-1": (2, "DC-n2-fan-1"),
    }  # fmt: skip

    # outputs that cannot work, and a template: the others are told, the light of n1 goes out
    ledger.end_stage("discover", "n1", [])
    good = (tmp_path / "tickets.yml").read_text()
    bad = "  - mail: {host: 127.0.0.1, sender: a@x.example, recipients: [b@x.example], ca_file: none.pem}\n"
    (tmp_path / "tickets.yml").write_text(good + bad)
    screen = report()
    assert "outputs[2].mail.ca_file:" in screen
    assert "none.pem: No such file or directory; nothing is told there" in screen
    assert (desk.told(), lit()) == ([("PUT", "n1-fan-1", "closed")], [False] * 3)
    ledger.end_stage("discover", "n1", [LOST])
    (tmp_path / "ticket_templates").mkdir()
    (tmp_path / "ticket_templates" / "ticket.md.j2").write_text('{% extends "ticket.md.j2" %}')
    (tmp_path / "tickets.yml").write_text(f"templates: ticket_templates\n{good}")
    assert "it extends itself" in report()
    assert (desk.told(), lit()) == ([], [True, False, False])

    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"s3cret-desk" not in file.read_bytes(), file
