"""Control of BMCs whose resources hold anything at all: a change that could be made, or an error in one line."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.bmc.bios import set_bios
from firstlight.bmc.boot import ensure_pxe_first, set_one_time_pxe
from firstlight.bmc.control import Change
from firstlight.bmc.errors import BmcError
from firstlight.bmc.fetch import TreeReader
from firstlight.bmc.image import Image
from firstlight.bmc.power import power, reset_bmc, set_locator
from firstlight.bmc.update import update_firmware

ROOT = "/redfish/v1"
SYSTEM, MANAGER, SERVICE = f"{ROOT}/Systems/1", f"{ROOT}/Managers/1", f"{ROOT}/UpdateService"
NIC = "NIC.Embedded.1-1-1"


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": path}


TREE: dict[str, Any] = {
    ROOT: {**ref(ROOT), "Systems": ref(f"{ROOT}/Systems"), "UpdateService": ref(SERVICE)},
    f"{ROOT}/Systems": {**ref(f"{ROOT}/Systems"), "Members": [ref(SYSTEM)]},
    SYSTEM: {
        **ref(SYSTEM),
        "@Redfish.Settings": {"SettingsObject": ref(f"{SYSTEM}/Settings")},
        "Actions": {
            "#ComputerSystem.Reset": {"target": "x", "ResetType@Redfish.AllowableValues": ["On", "ForceRestart"]}
        },
        "Bios": ref(f"{SYSTEM}/Bios"),
        "Boot": {
            "BootOptions": ref(f"{SYSTEM}/BootOptions"),
            "BootOrder": ["Boot1", "Boot2"],
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideTarget": "None",
        },
        "EthernetInterfaces": ref(f"{SYSTEM}/EthernetInterfaces"),
        "IndicatorLED": "Lit",
        "Links": {"ManagedBy": [ref(MANAGER)]},
        "PowerState": "Off",
    },
    f"{SYSTEM}/Settings": {**ref(f"{SYSTEM}/Settings"), "Boot": {"BootOrder": ["Boot1"]}},
    f"{SYSTEM}/Bios": {
        **ref(f"{SYSTEM}/Bios"),
        "@Redfish.Settings": {"SettingsObject": ref(f"{SYSTEM}/Bios/Settings"), "SupportedApplyTimes": ["OnReset"]},
        "Attributes": {"PxeDev1EnDis": "Enabled", "PxeDev1Interface": NIC, "Cores": 56},
    },
    f"{SYSTEM}/Bios/Settings": {**ref(f"{SYSTEM}/Bios/Settings"), "Attributes": {"Cores": 48}},
    f"{SYSTEM}/BootOptions": {
        "Members": [
            {"@odata.id": "a", "BootOptionReference": "Boot1", "DisplayName": "Disk"},
            {"@odata.id": "b", "BootOptionReference": "Boot2", "DisplayName": "PXE", "RelatedItem": [ref(f"x/{NIC}")]},
        ]
    },
    f"{SYSTEM}/EthernetInterfaces": {"Members": [{"@odata.id": "c", "Id": NIC, "MACAddress": "02:00:00:00:00:01"}]},
    MANAGER: {**ref(MANAGER), "Links": {"Oem": {"Dell": {"Jobs": ref(f"{MANAGER}/Jobs")}}}},
    f"{MANAGER}/Jobs": {
        "Members": [{"@odata.id": "d", "Id": "JID_1", "JobState": "Running", "Name": "BIOS", "PercentComplete": 3}]
    },
    SERVICE: {
        **ref(SERVICE),
        "FirmwareInventory": ref(f"{SERVICE}/FirmwareInventory"),
        "HttpPushUri": "/push",
        "HttpPushUriOptions": {"HttpPushUriApplyTime": {"ApplyTime@Redfish.AllowableValues": ["OnReset"]}},
    },
    f"{SERVICE}/FirmwareInventory": {
        "Members": [{"@odata.id": "e", "Id": "BIOS", "SoftwareId": "159", "Version": "1"}]
    },
}


class Client(TreeReader):
    """What check mode needs of a BmcClient; a write fails the test."""

    wrote = stopped = False
    location = name = ""

    def __init__(self, resources: dict[str, Any]) -> None:
        super().__init__(resources)
        root = resources.get(ROOT)
        self.root = root if isinstance(root, dict) else {}

    def post(self, *_arguments: Any) -> Any:
        raise AssertionError("check mode wrote")

    patch = upload = post


IMAGE = Image(Path("file.bin"), 10, "00", "2")
WORKS: dict[str, Any] = {
    "order": lambda bmc: ensure_pxe_first(bmc, NIC, check=True),
    "once": lambda bmc: set_one_time_pxe(bmc, check=True, nic_fqdd=NIC),
    "power": lambda bmc: power(bmc, "cycle", check=True),
    "reset": lambda bmc: reset_bmc(bmc, 1, check=True),
    "light": lambda bmc: set_locator(bmc, True, check=True),
    "bios": lambda bmc: set_bios(bmc, {"Cores": 40}, check=True),
    "firmware": lambda bmc: update_firmware(bmc, IMAGE, component="BIOS", check=True),
}
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be put in place of what is there."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))][0 if path else 1 :]


PLACES = places(TREE)


@pytest.mark.parametrize("work", WORKS)
def test_the_tree_as_it_is(work: str) -> None:
    change = WORKS[work](Client(copy.deepcopy(TREE)))
    assert isinstance(change, Change)
    assert change.changed or work in ("bios", "firmware")  # a job runs


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(WORKS)), st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_anything_in_place_of_anything(work: str, odd: list[tuple[tuple[Any, ...], Any]]) -> None:
    tree = copy.deepcopy(TREE)
    for place, value in odd:
        node: Any = tree
        try:
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # what was put there before has no such place
    try:
        change = WORKS[work](Client(tree))
    except BmcError as error:
        assert "\n" not in error.evidence
        return
    assert isinstance(change, Change)
