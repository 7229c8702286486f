"""Boot and power control against BMCs that say no, say yes and do nothing, or offer something else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmc_server import Answer, FakeBmc, error

from firstlight.bmc.boot import ensure_pxe_first, set_one_time_pxe
from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change
from firstlight.bmc.errors import HalfAnswering, NotReady, Refused
from firstlight.bmc.power import power
from firstlight.bmc.transport import tls_context

SYSTEM = "/redfish/v1/Systems/1"
SETTINGS = f"{SYSTEM}/Settings"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[FakeBmc]:
    server = FakeBmc(tmp_path)
    server.answers["GET /redfish/v1/Systems"] = (200, {"Members": [{"@odata.id": SYSTEM}]})
    yield server
    server.close()


@pytest.fixture
def client(bmc: FakeBmc) -> Iterator[BmcClient]:
    context = tls_context(bmc.ca_file)
    with BmcClient(bmc.address, bmc.port, "root", "pw", context=context, ca_file=bmc.ca_file) as session:
        yield session


def system(**values: Any) -> Answer:
    return 200, {"@odata.id": SYSTEM, "PowerState": "Off", **values}


def override(target: str, enabled: str, **values: Any) -> Answer:
    return system(Boot={"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}, **values)


def sent(bmc: FakeBmc, method: str, path: str) -> list[Any]:
    return [json.loads(body) for m, p, _headers, body in bmc.requests if (m, p) == (method, path)]


def test_already_on_is_success(bmc: FakeBmc, client: BmcClient) -> None:
    """It went on between the look and the command."""
    bmc.answers[f"GET {SYSTEM}"] = system()
    bmc.answers[f"POST {RESET}"] = error(409, "IDRAC.2.1.PSU501", "Server is already powered ON.")
    assert power(client, "on") == Change(False, "Off", "On")


def test_another_conflict_is_not(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {SYSTEM}"] = system()
    bmc.answers[f"POST {RESET}"] = error(409, "IDRAC.2.1.SYS999")
    with pytest.raises(Refused, match="409 SYS999"):
        power(client, "on")


def test_reset_types_listed_in_an_action_info(bmc: FakeBmc, client: BmcClient) -> None:
    """As on Supermicro and DGX; and without ForceRestart."""
    action = {"target": RESET, "@Redfish.ActionInfo": f"{SYSTEM}/ResetActionInfo"}
    bmc.answers[f"GET {SYSTEM}"] = system(PowerState="On", Actions={"#ComputerSystem.Reset": action})
    parameter = {"Name": "ResetType", "AllowableValues": ["On", "ForceOff", "PowerCycle"]}
    bmc.answers[f"GET {SYSTEM}/ResetActionInfo"] = (200, {"Parameters": [parameter]})
    bmc.answers[f"POST {RESET}"] = (200, {})
    assert power(client, "restart") == Change(True, "On", "On")
    assert sent(bmc, "POST", RESET) == [{"ResetType": "PowerCycle"}]


def test_a_bmc_that_cannot(bmc: FakeBmc, client: BmcClient) -> None:
    action = {"target": RESET, "ResetType@Redfish.AllowableValues": ["Nmi"]}
    bmc.answers[f"GET {SYSTEM}"] = system(Actions={"#ComputerSystem.Reset": action})
    with pytest.raises(Refused, match="cannot on: it offers Nmi"):
        power(client, "on")
    assert sent(bmc, "POST", RESET) == []


def test_a_bmc_that_just_started(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers["GET /redfish/v1/Systems"] = (200, {"Members": []})
    with pytest.raises(NotReady, match="without any system"):
        power(client, "on")


def test_an_override_that_is_accepted_and_ignored(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {SYSTEM}"] = override("None", "Disabled")
    bmc.answers[f"PATCH {SYSTEM}"] = (200, {})
    with pytest.raises(HalfAnswering, match="accepted, but the one-time PXE boot reads back as it was"):
        set_one_time_pxe(client)


def test_the_settings_object_where_the_system_refuses(bmc: FakeBmc, client: BmcClient) -> None:
    settings = {"@Redfish.Settings": {"SettingsObject": {"@odata.id": SETTINGS}}}
    bmc.answers[f"GET {SYSTEM}"] = [override("None", "Disabled", **settings), override("Pxe", "Once", **settings)]
    bmc.answers[f"PATCH {SYSTEM}"] = error(400, "Base.1.18.PropertyNotWritable")
    bmc.answers[f"PATCH {SETTINGS}"] = (200, {})
    assert set_one_time_pxe(client).changed
    assert sent(bmc, "PATCH", SETTINGS) == sent(bmc, "PATCH", SYSTEM)


def test_a_pending_job_is_said_as_it_is(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {SYSTEM}"] = override("None", "Disabled")
    bmc.answers[f"PATCH {SYSTEM}"] = error(400, "IDRAC.2.8.SYS011", "already committed")
    with pytest.raises(Refused, match="400 SYS011 already committed"):
        set_one_time_pxe(client)


def options(bmc: FakeBmc, *bodies: dict[str, Any], order: list[str], interface: dict[str, Any], **values: Any) -> None:
    path = f"{SYSTEM}/BootOptions"
    boot = {"BootOrder": order, "BootOptions": {"@odata.id": path}}
    nics = f"{SYSTEM}/EthernetInterfaces"
    bmc.answers[f"GET {SYSTEM}"] = system(Boot=boot, EthernetInterfaces={"@odata.id": nics}, **values)
    bmc.answers[f"GET {path}"] = (200, {"Members": list(bodies)})
    bmc.answers[f"GET {nics}"] = (200, {"Members": [interface]})


DISK = {"@odata.id": f"{SYSTEM}/BootOptions/1", "Id": "1", "BootOptionReference": "Boot0001", "DisplayName": "Disk"}
NIC = {"@odata.id": f"{SYSTEM}/EthernetInterfaces/NIC1", "Id": "NIC1", "MACAddress": "02:AA:00:00:00:01"}


@pytest.mark.parametrize(
    "option",
    [
        {"DisplayName": "PXE IPv4", "UefiDevicePath": "PciRoot(0x0)/Pci(0x1,0x0)/MAC(02AA00000001,0x1)/IPv4(0.0.0.0)"},
        {"DisplayName": "Network", "Alias": "Pxe", "RelatedItem": [{"@odata.id": NIC["@odata.id"]}]},
        {"DisplayName": "PXE Device 1: Embedded NIC 1 Port 1"},
    ],
)
def test_ways_to_know_the_nics_boot_option(bmc: FakeBmc, client: BmcClient, option: dict[str, Any]) -> None:
    pxe = {"@odata.id": f"{SYSTEM}/BootOptions/2", "BootOptionReference": "Boot0002", **option}
    other = {"@odata.id": f"{SYSTEM}/BootOptions/3", "BootOptionReference": "Boot0003", "DisplayName": "PXE other NIC"}
    nic = NIC | {"Description": "Embedded NIC 1 Port 1"}
    options(bmc, DISK, other, pxe, order=["Boot0001", "Boot0003", "Boot0002"], interface=nic)
    change = ensure_pxe_first(client, "NIC1", check=True)
    assert change.changed
    assert change.after == [option["DisplayName"], "Disk", "PXE other NIC"]


def test_an_order_that_waits_for_the_next_boot_is_not_written_again(bmc: FakeBmc, client: BmcClient) -> None:
    pxe = {"@odata.id": f"{SYSTEM}/BootOptions/2", "BootOptionReference": "Boot0002", "DisplayName": "PXE: there"}
    settings = {"@Redfish.Settings": {"SettingsObject": {"@odata.id": SETTINGS}}}
    nic = NIC | {"Description": "there"}
    options(bmc, DISK, pxe, order=["Boot0001", "Boot0002"], interface=nic, **settings)
    bmc.answers[f"GET {SETTINGS}"] = (200, {"Boot": {"BootOrder": ["Boot0002", "Boot0001"]}})
    assert not ensure_pxe_first(client, "NIC1").changed
    assert bmc.asked("PATCH") == []


def test_no_boot_order_at_all(bmc: FakeBmc, client: BmcClient) -> None:
    bmc.answers[f"GET {SYSTEM}"] = system(Boot={"BootOrder": None})
    with pytest.raises(HalfAnswering, match="tells no boot order"):
        ensure_pxe_first(client, "NIC1")
