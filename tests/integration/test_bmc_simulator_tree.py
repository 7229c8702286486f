"""Captured trees that the BMC simulator serves as they are: mockup folders, flat files, and what is broken in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from bmc_product_lab import PASSWORD, PROJECT, BmcLab, free_port
from redfish import redfish_client
from redfish.rest.v1 import AuthMethod, InvalidCredentialsError

from firstlight.bmc.discover import Target, discover

ROOT = "/redfish/v1"
HOST = "127.41.8.1"
SYSTEM = f"{ROOT}/Systems/System.Embedded.1"


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A tree as a walk over a BMC finds it; logs left out, they are long."""
    lab = BmcLab(tmp_path_factory.mktemp("lab"), count=1)
    found: dict[str, Any] = {}
    todo = [ROOT]
    with requests.Session() as session:
        session.auth = ("root", PASSWORD)
        while todo:
            path = todo.pop()
            if path in found or "/LogServices/" in path or "/SessionService/" in path:
                continue
            url = f"https://{lab.address(1)}:{lab.port}{path}"
            found[path] = session.get(url, verify=lab.ca_file, timeout=10).json()
            todo += [link for link in links(found[path]) if "#" not in link]
    lab.stop()
    return found


def links(value: Any) -> Iterator[str]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == "@odata.id":
            yield item
        else:
            yield from links(item)


class Tree:
    """The simulator's process on a captured tree."""

    def __init__(self, folder: Path, work: Path, password: str | None = PASSWORD) -> None:
        self.port = free_port(HOST)
        self.ca_file = str(work / "ca.pem")
        environment = {key: value for key, value in os.environ.items() if key != "FIRSTLIGHT_BMC_PASSWORD"}
        command = [sys.executable, "-m", "simulators.bmc", "--tree", str(folder), "--address", HOST]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--ca", self.ca_file],
            cwd=PROJECT,
            env=environment | ({"FIRSTLIGHT_BMC_PASSWORD": password} if password else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.terminate()
        self.errors = self.process.communicate(timeout=20)[1]

    def get(self, path: str, password: str = PASSWORD) -> requests.Response:
        url = f"https://{HOST}:{self.port}{path}"
        return requests.get(url, auth=("root", password), verify=self.ca_file, timeout=10, allow_redirects=False)


def mockup(folder: Path, resources: dict[str, Any], below: str = "") -> Path:
    for path, body in resources.items():
        place = folder / path.lstrip("/").removeprefix(below).lstrip("/") / "index.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(body, indent=2))
    return folder


def flat(folder: Path, resources: dict[str, Any]) -> Path:
    for path, body in resources.items():
        (folder / f"{path.replace('/', '_')}.json").write_text(json.dumps(body))
    return folder


@pytest.mark.parametrize("form", ["mockup", "below redfish", "below v1", "flat"])
def test_a_tree_in_each_form(tmp_path: Path, resources: dict[str, Any], form: str) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    if form == "flat":
        flat(folder, resources)
    else:
        mockup(folder, resources, {"below redfish": "redfish", "below v1": "redfish/v1"}.get(form, ""))
    with Tree(folder, tmp_path) as tree:
        assert tree.line.startswith(f"simulated BMC ready: {len(resources)} resources"), tree.line
        client = redfish_client(f"https://{HOST}:{tree.port}", "root", PASSWORD, cafile=tree.ca_file, max_retry=0)
        client.login(auth=AuthMethod.SESSION)
        assert client.get(SYSTEM).dict == resources[SYSTEM]
        whole = client.get(f"{ROOT}/Managers?$expand=*($levels=1)").dict["Members"][0]
        assert whole["FirmwareVersion"] == "7.10.50.00", "its BMC says that it expands"
        client.logout()
        record = discover([Target("t", HOST, tree.port, "root", PASSWORD)], ca_file=tree.ca_file)["t"]
        assert record.hardware is not None
        assert (record.hardware.service_tag, len(record.hardware.gpus)) == ("TST0001", 8)


def test_it_wants_a_password_and_changes_nothing(tmp_path: Path, resources: dict[str, Any]) -> None:
    with Tree(mockup(tmp_path / "tree", resources), tmp_path) as tree:
        assert tree.get(ROOT, "wrong").status_code == 200, "the root is open"
        assert tree.get(SYSTEM, "wrong").status_code == 401
        client = redfish_client(f"https://{HOST}:{tree.port}", "root", "no", cafile=tree.ca_file, max_retry=0)
        with pytest.raises(InvalidCredentialsError):
            client.login(auth=AuthMethod.SESSION)
        url = f"https://{HOST}:{tree.port}{SYSTEM}"
        options: dict[str, Any] = {"auth": ("root", PASSWORD), "verify": tree.ca_file, "timeout": 10}
        assert requests.patch(url, json={"AssetTag": "x"}, **options).status_code == 405
        assert requests.post(f"{url}/Actions/ComputerSystem.Reset", json={}, **options).status_code == 405
    assert tree.errors == ""


def test_what_is_broken_stays_broken(tmp_path: Path, resources: dict[str, Any]) -> None:
    folder = mockup(tmp_path / "tree", resources)
    (folder / "redfish/v1/Systems/System.Embedded.1/Bios/index.json").write_text('{"Attributes": {')
    (folder / "redfish/v1/Managers/index.json").unlink()
    custom = {"status": 403, "body": "<html>403</html>"}
    (folder / "redfish/v1/Managers/custom.json").write_text(json.dumps(custom))
    (folder / "redfish/v1/Chassis/index.json").write_text("[1, 2]")
    with Tree(folder, tmp_path) as tree:
        assert tree.get(f"{SYSTEM}/Bios").text == '{"Attributes": {'
        forbidden = tree.get(f"{ROOT}/Managers")
        assert (forbidden.status_code, forbidden.text) == (403, "<html>403</html>")
        assert tree.get(f"{ROOT}/Chassis").json() == [1, 2]
        assert tree.get(f"{ROOT}/Nowhere").status_code == 404
        assert tree.get(f"{ROOT}/../../../../etc/passwd").status_code == 404
    assert tree.errors == ""


def test_what_cannot_be_served_is_told_in_one_line(tmp_path: Path, resources: dict[str, Any]) -> None:
    (tmp_path / "empty").mkdir()
    for folder, password, words in (
        (tmp_path / "nowhere", PASSWORD, "no such folder"),
        (tmp_path / "empty", PASSWORD, "no service root"),
        (mockup(tmp_path / "tree", {ROOT: resources[ROOT]}), None, "FIRSTLIGHT_BMC_PASSWORD"),
    ):
        with Tree(folder, tmp_path, password) as tree:
            assert tree.process.wait(20) == 1
        assert words in tree.errors
        assert tree.errors.count("\n") == 1
