"""Firmware files and what they say; ways to push them; servers that have another part, or take no file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import FakeBmc, error

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change
from firstlight.bmc.errors import BmcError, Refused
from firstlight.bmc.image import Image, choose, installed, read_image
from firstlight.bmc.transport import tls_context
from firstlight.bmc.update import update_firmware
from firstlight.errors import InputError

SERVICE = "/redfish/v1/UpdateService"
INVENTORY = f"{SERVICE}/FirmwareInventory"
SIMPLE = f"{SERVICE}/Actions/UpdateService.SimpleUpdate"
TASK = "/redfish/v1/TaskService/Tasks/7"


def software(identity: str, component: str, name: str, version: str, **more: Any) -> dict[str, Any]:
    path = f"{INVENTORY}/{identity}"
    return {"@odata.id": path, "Id": identity, "SoftwareId": component, "Name": name, "Version": version, **more}


def dells(status: str, component: str, version: str, device: str, name: str) -> dict[str, Any]:
    oem = {"Dell": {"DellSoftwareInventory": {"Status": status}}}
    return software(f"{status}-{component}-{version}__{device}", component, name, version, Oem=oem)


DELL = [
    dells("Installed", "159", "2.5.4", "BIOS.Setup.1-1", "BIOS"),
    dells("Current", "159", "2.5.4", "BIOS.Setup.1-1", "BIOS"),
    dells("Previous", "159", "2.4.4", "BIOS.Setup.1-1", "BIOS"),
    dells("Installed", "25227", "7.10.50.00", "iDRAC.Embedded.1-1", "Integrated Dell Remote Access Controller"),
    dells("Installed", "0", "28.39.35.60", "InfiniBand.Slot.31-1", "ConnectX-7"),
    dells("Installed", "0", "28.39.35.60", "InfiniBand.Slot.32-1", "ConnectX-7"),
]


def dup(folder: Path, version: str, *components: str, xml: str = "") -> Path:
    """A package in the shape of Dell's: a program with a zip behind it."""
    path = folder / "BIOS_7TK2M_WN64.EXE"
    devices = "".join(f'<Device componentID="{c}" embedded="1"/>' for c in components)
    body = f'<SoftwareComponent vendorVersion="{version}"><SupportedDevices>{devices}</SupportedDevices>'
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("payload/package.xml", xml or f"{body}</SoftwareComponent>")
    path.write_bytes(b"MZ this is a program" + path.read_bytes())
    return path


def test_dells_packages_tell_what_they_are(tmp_path: Path) -> None:
    image = read_image(dup(tmp_path, "2.6.3", "159", "x"))
    assert (image.version, image.components) == ("2.6.3", ("159",))
    choice = choose(image, "", installed(DELL))
    assert (choice.before, choice.after) == ({"BIOS.Setup.1-1": "2.5.4"}, {"BIOS.Setup.1-1": "2.6.3"})
    with pytest.raises(InputError, match=r"BIOS_7TK2M_WN64.EXE: is version 2.6.3, not 2.7.0"):
        read_image(image.path, "2.7.0")


@pytest.mark.parametrize("xml", ["<", "<!DOCTYPE x><a/>", "<a><!ENTITY b 'c'></a>", "<a>" * 10_000, "\0"])
def test_a_package_that_is_broken_tells_nothing(tmp_path: Path, xml: str) -> None:
    path = dup(tmp_path, "1", xml=xml)
    with pytest.raises(InputError, match="does not tell its version"):
        read_image(path)
    assert read_image(path, "1.0", "BIOS").components == ()


def test_files_that_are_none(tmp_path: Path) -> None:
    empty = tmp_path / "empty.bin"
    empty.touch()
    with pytest.raises(InputError, match="0 bytes are no firmware file"):
        read_image(empty, "1", "BIOS")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_image(tmp_path / "absent.bin", "1", "BIOS")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_image(tmp_path, "1", "BIOS")
    empty.write_bytes(b"x")
    with pytest.raises(InputError, match=r"which component it is for; name it as component:"):
        read_image(empty, "1")


def image(version: str, *components: str) -> Image:
    return Image(Path("file.bin"), 10, "00", version, components)


def test_the_file_is_for_another_component() -> None:
    choice = choose(image("2.6.3", "159"), "iDRAC", installed(DELL))
    assert choice.refused
    assert "is for component 159; this server has iDRAC (25227)" in choice.refused.evidence
    choice = choose(image("2.6.3", "741"), "", installed(DELL))
    assert choice.refused
    assert choice.refused.symptom == "firmware.wrong_component"


def test_adapters_have_no_component_id() -> None:
    choice = choose(image("28.42.1000", "116"), "InfiniBand", installed(DELL))
    assert list(choice.after) == ["InfiniBand.Slot.31-1", "InfiniBand.Slot.32-1"]


def test_versions_decide() -> None:
    assert choose(image("2.5.4", "159"), "", installed(DELL)).replaces == ()
    assert choose(image("2.10.0", "159"), "", installed(DELL)).after == {"BIOS.Setup.1-1": "2.10.0"}
    assert choose(image("2.5.3", "159"), "", installed(DELL)).refused
    assert choose(image("2.5.3", "159"), "", installed(DELL), downgrade=True).after == {"BIOS.Setup.1-1": "2.5.3"}


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    root = dict(server.answers["GET /redfish/v1"][1])  # type: ignore[index]
    server.answers["GET /redfish/v1"] = (200, {**root, "UpdateService": {"@odata.id": SERVICE}})
    system, manager = "/redfish/v1/Systems/1", "/redfish/v1/Managers/1"
    server.answers["GET /redfish/v1/Systems"] = (200, {"Members": [{"@odata.id": system}]})
    links = {"ManagedBy": [{"@odata.id": manager}]}
    server.answers[f"GET {system}"] = (200, {"@odata.id": system, "Links": links, "PowerState": "On"})
    server.answers[f"GET {manager}"] = (200, {"@odata.id": manager})
    server.answers[f"GET {INVENTORY}"] = versions("1.0")
    server.answers[f"GET {TASK}"] = (200, {"@odata.id": TASK, "Id": "7", "TaskState": "Completed"})
    yield server
    server.close()


@pytest.fixture
def client(bmc: FakeBmc) -> Iterator[BmcClient]:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", "pw", context=context, ca_file=bmc.ca_file) as session:
        yield session


def versions(bios: str) -> tuple[int, dict[str, Any]]:
    return 200, {"Members": [software("UEFI", "UEFI-U8E1", "Firmware:UEFI", bios)]}


def service(bmc: FakeBmc, **values: Any) -> None:
    simple = {"@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate", "OnReset"]}, "target": SIMPLE}
    actions = {"Actions": {"#UpdateService.SimpleUpdate": simple}}
    inventory = {"FirmwareInventory": {"@odata.id": INVENTORY}}
    bmc.answers[f"GET {SERVICE}"] = (200, {"@odata.id": SERVICE, **inventory, **actions, **values})


def update(client: BmcClient, path: Path, **options: Any) -> Change:
    path.write_bytes(b"firmware" * 20_000)
    given = read_image(path, "2.0", "UEFI")
    return update_firmware(client, given, component="UEFI", wait=1, pause=0.02, grace=0.1, **options)


def sent(bmc: FakeBmc, path: str) -> tuple[dict[str, str], bytes]:
    return next((headers, body) for m, p, headers, body in bmc.requests if (m, p) == ("POST", path))


def symptoms(change: Change) -> list[str]:
    return [f"{finding.status} {finding.symptom}" for finding in change.findings]


def test_a_multipart_push_beside_the_tree(bmc: FakeBmc, client: BmcClient, tmp_path: Path) -> None:
    """Lenovo's push URI is not below /redfish/v1."""
    service(bmc, MultipartHttpPushUri="/mfwupdate", HttpPushUri="/fwupdate")
    bmc.answers["POST /mfwupdate"] = (202, {"@odata.id": TASK})
    bmc.answers[f"GET {INVENTORY}"] = [versions("1.0"), versions("1.0"), versions("2.0")]
    assert symptoms(update(client, tmp_path / "a.bin", when="now")) == ["ok firmware"]
    headers, body = sent(bmc, "/mfwupdate")
    assert headers["x-auth-token"] == "t0k3n"
    assert b'{"Targets": [], "@Redfish.OperationApplyTime": "Immediate"}' in body
    assert b"firmware" * 20_000 in body
    assert int(headers["content-length"]) == len(body)


def test_a_simple_push(bmc: FakeBmc, client: BmcClient, tmp_path: Path) -> None:
    service(bmc, HttpPushUri="/fwupdate")
    bmc.answers["POST /fwupdate"] = (202, {}, {"Location": TASK})
    bmc.answers[f"GET {INVENTORY}"] = [versions("1.0"), versions("2.0")]
    assert symptoms(update(client, tmp_path / "a.bin")) == ["ok firmware"]
    headers, body = sent(bmc, "/fwupdate")
    assert headers["content-type"] == "application/octet-stream"
    assert body == b"firmware" * 20_000


def test_dells_older_way(bmc: FakeBmc, client: BmcClient, tmp_path: Path) -> None:
    """The file is added to the inventory, which wants its ETag, and installed from there."""
    service(bmc, HttpPushUri=INVENTORY)
    kept = f"{INVENTORY}/Available-1"
    bmc.answers[f"GET {INVENTORY}"] = [(*versions("1.0"), {"ETag": '"v1"'}), (*versions("1.0"), {"ETag": '"v1"'}),
                                       versions("2.0")]  # fmt: skip
    bmc.answers[f"POST {INVENTORY}"] = (201, {}, {"Location": kept})
    bmc.answers[f"POST {SIMPLE}"] = (202, {}, {"Location": TASK})
    assert symptoms(update(client, tmp_path / "a.bin")) == ["ok firmware"]
    assert sent(bmc, INVENTORY)[0]["if-match"] == '"v1"'
    assert json.loads(sent(bmc, SIMPLE)[1]) == {"ImageURI": kept, "@Redfish.OperationApplyTime": "OnReset"}


@pytest.mark.parametrize(
    ("offers", "symptom", "evidence"),
    [
        ({}, "no_push", "takes no file that is pushed"),
        ({"HttpPushUri": "/fwupdate", "ServiceEnabled": False}, "no_push", "switched off"),
        ({"HttpPushUri": "/fwupdate", "MaxImageSizeBytes": 1000}, "no_push", "1000 bytes at most"),
        ({"HttpPushUri": "/fwupdate", "Actions": None}, "no_apply_time", "say apply: now"),
    ],
)
def test_services_that_cannot(
    bmc: FakeBmc, client: BmcClient, tmp_path: Path, offers: dict[str, Any], symptom: str, evidence: str
) -> None:
    service(bmc, **offers)
    change = update(client, tmp_path / "a.bin")
    assert symptoms(change) == [f"fail firmware.{symptom}"]
    assert evidence in change.findings[0].evidence
    assert bmc.asked("POST") == ["POST /redfish/v1/SessionService/Sessions"]


def test_the_version_does_not_change(
    bmc: FakeBmc, client: BmcClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstlight.bmc.update.READ_BACK_SECONDS", 0.1)
    service(bmc, HttpPushUri="/fwupdate")
    bmc.answers["POST /fwupdate"] = (202, {}, {"Location": TASK})
    change = update(client, tmp_path / "a.bin")
    assert change.changed
    assert symptoms(change) == ["fail firmware.not_applied"]
    assert "UEFI is 1.0" in change.findings[0].evidence


def test_a_push_is_never_sent_twice(bmc: FakeBmc, client: BmcClient, tmp_path: Path) -> None:
    service(bmc, HttpPushUri="/fwupdate")
    bmc.answers["POST /fwupdate"] = lambda tls: None  # gone before it answered
    with pytest.raises(BmcError):
        update(client, tmp_path / "a.bin")
    assert bmc.asked("POST").count("POST /fwupdate") == 1


def test_a_push_that_is_refused(bmc: FakeBmc, client: BmcClient, tmp_path: Path) -> None:
    service(bmc, HttpPushUri="/fwupdate")
    bmc.answers["POST /fwupdate"] = error(400, "IDRAC.2.8.RED016", "A staged update is pending.")
    with pytest.raises(Refused, match="RED016 A staged update is pending"):
        update(client, tmp_path / "a.bin")


@pytest.mark.parametrize("uri", ["fwupdate", "//elsewhere/fwupdate", "https://elsewhere/fwupdate", "/../x", "/a b"])
def test_push_uris_that_lead_elsewhere(bmc: FakeBmc, client: BmcClient, tmp_path: Path, uri: str) -> None:
    service(bmc, HttpPushUri=uri)
    with pytest.raises(BmcError):
        update(client, tmp_path / "a.bin")
    assert bmc.asked("POST") == ["POST /redfish/v1/SessionService/Sessions"]
