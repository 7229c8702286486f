"""Redfish tree of a simulated iDRAC9: the service root and Systems, without its larger parts."""

from __future__ import annotations

from typing import Any

from simulators.bmc import bios, parts, tree_pcie
from simulators.bmc.hardware import BOSS, DIMM_GIB, DIMMS, FANS
from simulators.bmc.machine import Machine, local, utc
from simulators.bmc.tree import CHASSIS, MANAGER, OK, OK_ROLLUP, ROOT, SYSTEM, Resource, collection, head, ref, resource

CPU_MODEL = "Intel(R) Xeon(R) Platinum 8480+"
CORES = 56
RESET_TYPES = (
    "On",
    "ForceOff",
    "ForceRestart",
    "GracefulRestart",
    "GracefulShutdown",
    "PushPowerButton",
    "Nmi",
    "PowerCycle",
)
BOOT_TARGETS = (
    "None",
    "Pxe",
    "Floppy",
    "Cd",
    "Hdd",
    "BiosSetup",
    "Utilities",
    "UefiTarget",
    "SDCard",
    "UefiHttp",
)


@resource("/redfish")
def versions(machine: Machine) -> Resource:
    """Protocol versions."""
    return {"v1": "/redfish/v1/"}


@resource(ROOT)
def root(machine: Machine) -> Resource:
    """Service root, readable without credentials."""
    return head(ROOT, "ServiceRoot", "v1_15_0", "Root Service") | {
        "Id": "RootService",
        "Chassis": ref(f"{ROOT}/Chassis"),
        "JobService": ref(f"{ROOT}/JobService"),
        "Links": {"Sessions": ref(f"{ROOT}/SessionService/Sessions")},
        "Managers": ref(f"{ROOT}/Managers"),
        "Oem": {
            "Dell": {
                "@odata.context": f"{ROOT}/$metadata#DellServiceRoot.DellServiceRoot",
                "@odata.type": "#DellServiceRoot.v1_0_0.DellServiceRoot",
                "IsBranded": 0,
                "ManagerMACAddress": machine.hardware.bmc_mac,
                "ServiceTag": parts.service_tag(machine),
            },
            "Simulator": {"Note": "Simulated BMC of the Firstlight lab: not hardware"},
        },
        "Product": "Integrated Dell Remote Access Controller",
        "ProtocolFeaturesSupported": {
            "DeepOperations": {"DeepPATCH": False, "DeepPOST": False},
            "ExcerptQuery": False,
            "ExpandQuery": {"ExpandAll": True, "Levels": True, "Links": True, "MaxLevels": 1, "NoLinks": True},
            "FilterQuery": False,
            "OnlyMemberQuery": False,
            "SelectQuery": True,
        },
        "RedfishVersion": "1.17.0",
        "SessionService": ref(f"{ROOT}/SessionService"),
        "Systems": ref(f"{ROOT}/Systems"),
        "Tasks": ref(f"{ROOT}/TaskService"),
        "UpdateService": ref(f"{ROOT}/UpdateService"),
        "Vendor": "Dell",
    }


@resource(f"{ROOT}/Systems")
def systems(machine: Machine) -> Resource:
    """The collection with one system, or with none while the BMC still starts."""
    empty = machine.has("empty_systems") or machine.phase == "empty"
    return collection(
        machine,
        f"{ROOT}/Systems",
        "ComputerSystem",
        "Computer System Collection",
        [] if empty else ["System.Embedded.1"],
    )


def boot_object(machine: Machine) -> dict[str, Any]:
    """The Boot object of the system."""
    return {
        "BootOptions": ref(f"{SYSTEM}/BootOptions"),
        "BootOrder": list(machine.boot["order"]),
        "BootOrder@odata.count": len(machine.boot["order"]),
        "BootSourceOverrideEnabled": machine.boot["enabled"],
        "BootSourceOverrideMode": machine.boot["mode"],
        "BootSourceOverrideTarget": machine.boot["target"],
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
        "StopBootOnFault": "Never",
        "UefiTargetBootSourceOverride": None,
    }


@resource(SYSTEM)
def system(machine: Machine) -> Resource:
    """The server as a whole."""
    hardware = machine.hardware
    return head(SYSTEM, "ComputerSystem", "v1_20_1", "System") | {
        "@Redfish.Settings": {
            "@odata.context": f"{ROOT}/$metadata#Settings.Settings",
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": ref(f"{SYSTEM}/Settings"),
            "SupportedApplyTimes": ["OnReset"],
        },
        "@odata.etag": f'W/"gen-{machine.version}"',
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{SYSTEM}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": list(RESET_TYPES),
            }
        },
        "AssetTag": machine.asset_tag,
        "Bios": ref(f"{SYSTEM}/Bios"),
        "BiosVersion": parts.version(machine, "bios"),
        "Boot": boot_object(machine),
        "EthernetInterfaces": ref(f"{SYSTEM}/EthernetInterfaces"),
        "HostName": (machine.disk or {}).get("hostname", "") if machine.running == "disk" else "",
        "IndicatorLED": machine.light,
        "LastResetTime": local(machine.reset_at),
        "Links": {
            "Chassis": [ref(CHASSIS)],
            "Chassis@odata.count": 1,
            "CooledBy": [ref(f"{CHASSIS}/Thermal#/Fans/{number}") for number in range(FANS)],
            "CooledBy@odata.count": FANS,
            "ManagedBy": [ref(MANAGER)],
            "ManagedBy@odata.count": 1,
            "PoweredBy": [
                ref(f"{CHASSIS}/Power#/PowerSupplies/{number}") for number in range(len(parts.psus(machine)))
            ],
            "PoweredBy@odata.count": len(parts.psus(machine)),
        },
        "Manufacturer": "Dell Inc.",
        "Memory": ref(f"{SYSTEM}/Memory"),
        "MemorySummary": {
            "MemoryMirroring": "System",
            "Status": parts.rollup(parts.level(machine.has("dimm_failed"))),
            "TotalSystemMemoryGiB": DIMM_GIB * len(parts.dimms(machine)),
        },
        "Model": parts.model(machine),
        "NetworkInterfaces": ref(f"{SYSTEM}/NetworkInterfaces"),
        "Oem": {"Dell": {"@odata.type": "#DellOem.v1_3_0.DellOemResources", "DellSystem": dell_system(machine)}},
        "PCIeDevices": tree_pcie.links(machine),
        "PCIeDevices@odata.count": len(tree_pcie.links(machine)),
        "PartNumber": "0WMWCRA01",
        "PowerState": machine.power,
        "ProcessorSummary": {
            "CoreCount": 2 * CORES,
            "Count": 2,
            "LogicalProcessorCount": 4 * CORES,
            "Model": CPU_MODEL,
            "Status": dict(OK_ROLLUP),
            "ThreadingEnabled": True,
        },
        "Processors": ref(f"{SYSTEM}/Processors"),
        "SKU": parts.service_tag(machine),
        "SecureBoot": ref(f"{SYSTEM}/SecureBoot"),
        "SerialNumber": hardware.board_serial,
        "Status": parts.health(machine),
        "Storage": ref(f"{SYSTEM}/Storage"),
        "SystemType": "Physical",
        "TrustedModules": [{"FirmwareVersion": "7.2.3.1", "InterfaceType": "TPM2_0", "Status": {"State": "Enabled"}}],
        "TrustedModules@odata.count": 1,
        "UUID": hardware.uuid,
    }


@resource(f"{SYSTEM}/Oem/Dell/DellSystem/System.Embedded.1")
def dell_system(machine: Machine) -> Resource:
    """Dell's own view of the server."""
    return {
        "@odata.context": f"{ROOT}/$metadata#DellSystem.DellSystem",
        "@odata.id": f"{SYSTEM}/Oem/Dell/DellSystem/System.Embedded.1",
        "@odata.type": "#DellSystem.v1_4_0.DellSystem",
        "BIOSReleaseDate": "07/15/2025",
        "CPURollupStatus": "OK",
        "ChassisModel": None,
        "ChassisName": "Main System Chassis",
        "ChassisServiceTag": parts.service_tag(machine),
        "ChassisSystemHeightUnit": 6,
        "FanRollupStatus": parts.level(machine.has("fan_failed")),
        "Id": "System.Embedded.1",
        "IntrusionRollupStatus": parts.level(machine.has("intrusion")),
        "LastSystemInventoryTime": utc(machine.inventory_at),
        "LastUpdateTime": utc(machine.inventory_at),
        "ManagedSystemSize": "6 U",
        "MaxCPUSockets": 2,
        "MaxDIMMSlots": len(DIMMS),
        "MaxPCIeSlots": 10,
        "Name": "DellSystem",
        "NodeID": parts.service_tag(machine),
        "PSRollupStatus": parts.redundancy(machine)["Health"],
        "PopulatedDIMMSlots": len(parts.dimms(machine)),
        "SELRollupStatus": parts.level(machine.has("sel_critical")),
        "StorageRollupStatus": parts.level(machine.has("nvme_failed")),
        "SystemGeneration": "16G Monolithic",
        "TempRollupStatus": parts.level(machine.has("too_hot")),
        "UUID": machine.hardware.uuid,
        "VoltRollupStatus": "OK",
    }


@resource(f"{SYSTEM}/Settings")
def system_settings(machine: Machine) -> Resource:
    """The object that takes boot settings for the next reset."""
    return head(f"{SYSTEM}/Settings", "ComputerSystem", "v1_20_1", "System Settings") | {
        "Boot": {
            "BootOrder": list(machine.boot["order"]),
            "BootOrder@odata.count": len(machine.boot["order"]),
            "BootSourceOverrideMode": machine.boot["mode"],
        }
    }


# The fault "odd_macs": interfaces whose address is none, and how the boot NIC's own is written then.
_ODD = {"FC.Slot.40-1": "21:00:F4:E9:00:00:00:01", "NIC.Slot.41-1-1": "00:00:00:00:00:00", "NIC.Slot.42-1-1": ""}


@resource(f"{SYSTEM}/EthernetInterfaces")
def ethernet_interfaces(machine: Machine) -> Resource:
    """The Ethernet ports; InfiniBand ports are not among them on a Dell."""
    return collection(
        machine,
        f"{SYSTEM}/EthernetInterfaces",
        "EthernetInterface",
        "System Ethernet Interface Collection",
        [nic.fqdd for nic in parts.nics(machine)] + (list(_ODD) if machine.has("odd_macs") else []),
    )


@resource(f"{SYSTEM}/EthernetInterfaces/*")
def ethernet_interface(machine: Machine, fqdd: str) -> Resource | None:
    """One Ethernet port."""
    odd = machine.has("odd_macs")
    if odd and fqdd in _ODD:
        path = f"{SYSTEM}/EthernetInterfaces/{fqdd}"
        return head(path, "EthernetInterface", "v1_9_0", "System Ethernet Interface") | {
            "MACAddress": _ODD[fqdd],
            "PermanentMACAddress": _ODD[fqdd],
            "Status": dict(OK),
        }
    for nic in parts.nics(machine):
        if nic.fqdd == fqdd:
            path = f"{SYSTEM}/EthernetInterfaces/{fqdd}"
            up = parts.nic_up(machine, nic)
            return head(path, "EthernetInterface", "v1_9_0", "System Ethernet Interface", nic.description) | {
                "AutoNeg": True,
                "EthernetInterfaceType": "Physical",
                "FQDN": None,
                "FullDuplex": up,
                "HostName": None,
                "IPv4Addresses": [],
                "IPv4Addresses@odata.count": 0,
                "IPv6Addresses": [],
                "IPv6Addresses@odata.count": 0,
                "InterfaceEnabled": True,
                "LinkStatus": "LinkUp" if up else "LinkDown",
                "Links": {"Chassis": ref(CHASSIS)},
                "MACAddress": nic.mac.replace(":", "-") if odd else nic.mac,
                "MTUSize": None,
                "PermanentMACAddress": nic.mac.replace(":", "-") if odd else nic.mac,
                "SpeedMbps": 25000 if up else 0,
                "Status": dict(OK),
                "UefiDevicePath": "PciRoot(0x0)/Pci(0x1C,0x5)/Pci(0x0,0x0)",
                "VLAN": {},
            }
    return None


@resource(f"{SYSTEM}/Bios")
def bios_current(machine: Machine) -> Resource:
    """BIOS attributes as they are."""
    path = f"{SYSTEM}/Bios"
    return head(path, "Bios", "v1_2_1", "BIOS Configuration Current Settings") | {
        "@Redfish.Settings": {
            "@odata.context": f"{ROOT}/$metadata#Settings.Settings",
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": ref(bios.SETTINGS),
            "SupportedApplyTimes": ["OnReset"],
        },
        "@odata.etag": f'W/"gen-{machine.version}"',
        "AttributeRegistry": "BiosAttributeRegistry.v1_0_0",
        "Attributes": bios.DEFAULTS
        | {
            "SystemBiosVersion": parts.version(machine, "bios"),
            "SystemModelName": parts.model(machine),
            "SystemServiceTag": parts.service_tag(machine),
        }
        | machine.bios_now(),
    }


@resource(bios.SETTINGS)
def bios_pending(machine: Machine) -> Resource:
    """BIOS attributes that wait for the next boot."""
    note = "BIOS Configuration Pending Settings. These settings will be applied on next system reboot."
    return head(bios.SETTINGS, "Bios", "v1_2_1", "BIOS Configuration Pending Settings", note) | {
        "@odata.etag": f'W/"gen-{machine.version}"',
        "Actions": {
            "Oem": {"#DellManager.ClearPending": {"target": f"{bios.SETTINGS}/Actions/Oem/DellManager.ClearPending"}}
        },
        "AttributeRegistry": "BiosAttributeRegistry.v1_0_0",
        "Attributes": dict(machine.bios_pending),
        "Oem": {"Dell": {"Jobs": ref(f"{MANAGER}/Oem/Dell/Jobs")}},
    }


_BOOT_OPTIONS = {
    "Boot0000": "PXE Device 1: Embedded NIC 1 Port 1 Partition 1",
    "Boot0001": f"{BOSS}: EFI Fixed Disk Boot Device 1",
}


@resource(f"{SYSTEM}/BootOptions")
def boot_options(machine: Machine) -> Resource:
    """What can be booted."""
    return collection(machine, f"{SYSTEM}/BootOptions", "BootOption", "Boot Options Collection", _BOOT_OPTIONS)


@resource(f"{SYSTEM}/BootOptions/*")
def boot_option(machine: Machine, name: str) -> Resource | None:
    """One thing that can be booted."""
    if name not in _BOOT_OPTIONS:
        return None
    return head(f"{SYSTEM}/BootOptions/{name}", "BootOption", "v1_0_4", "Uefi Boot Option") | {
        "BootOptionEnabled": True,
        "BootOptionReference": name,
        "DisplayName": _BOOT_OPTIONS[name],
    }


@resource(f"{SYSTEM}/SecureBoot")
def secure_boot(machine: Machine) -> Resource:
    """Secure boot, as the BIOS attribute says."""
    on = machine.bios_value("SecureBoot") == "Enabled"
    return head(f"{SYSTEM}/SecureBoot", "SecureBoot", "v1_1_0", "UEFI Secure Boot") | {
        "SecureBootCurrentBoot": "Enabled" if on else "Disabled",
        "SecureBootEnable": on,
        "SecureBootMode": "DeployedMode",
    }
