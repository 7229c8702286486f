"""How the API shows its objects: the same keys as MAAS 3.7, also where this simulation has nothing to say."""

from __future__ import annotations

from typing import Any

from simulators.maas import machines as mm
from simulators.maas import status as st
from simulators.maas.settings import Settings
from simulators.maas.store import Machine

API = "/MAAS/api/2.0"
_TEST_KINDS = ("commissioning", "testing", "cpu_test", "memory_test", "network_test", "storage_test", "other_test")


def named(kind: str, entry: dict[str, Any]) -> dict[str, Any]:
    """A zone, resource pool or domain."""
    key = entry["name"] if kind == "zones" else entry["id"]
    path = "resourcepool" if kind == "resourcepools" else kind
    shown = {**entry, "resource_uri": f"{API}/{path}/{key}/"}
    if kind == "domains":
        shown.update(authoritative=True, ttl=None, is_default=entry["id"] == 0, resource_record_count=0)
    return shown


def tag(entry: dict[str, Any]) -> dict[str, Any]:
    """A tag."""
    return {**entry, "resource_uri": f"{API}/tags/{entry['name']}/"}


def user(settings: Settings) -> dict[str, Any]:
    """The only user of this region."""
    return {
        "is_superuser": True,
        "username": settings.username,
        "email": f"{settings.username}@lab.invalid",
        "is_local": True,
        "resource_uri": f"{API}/users/{settings.username}/",
    }


def subnet(settings: Settings) -> dict[str, Any]:
    """The only subnet."""
    return {
        "id": 1,
        "name": settings.subnet,
        "cidr": settings.subnet,
        "vlan": vlan(),
        "gateway_ip": None,
        "dns_servers": [],
        "managed": True,
        "space": "undefined",
        "resource_uri": f"{API}/subnets/1/",
    }


def vlan() -> dict[str, Any]:
    """The only VLAN."""
    return {
        "id": 5001,
        "vid": 0,
        "name": "untagged",
        "fabric": "fabric-0",
        "fabric_id": 0,
        "mtu": 1500,
        "dhcp_on": True,
        "primary_rack": None,
        "secondary_rack": None,
        "space": "undefined",
        "resource_uri": f"{API}/vlans/5001/",
    }


def interface(settings: Settings, machine: Machine, nic: dict[str, Any]) -> dict[str, Any]:
    """One interface of a machine."""
    links = []
    if nic["link"]:
        links.append({**nic["link"], "subnet": subnet(settings)})
    return {
        "system_id": machine["system_id"],
        "id": nic["id"],
        "name": nic["name"],
        "type": "physical",
        "mac_address": nic["mac_address"],
        "enabled": True,
        "vlan": vlan(),
        "links": links,
        "discovered": [],
        "parents": [],
        "children": [],
        "tags": [],
        "params": "",
        "effective_mtu": 1500,
        "vendor": None,
        "product": None,
        "firmware_version": None,
        "link_connected": True,
        "link_speed": 0,
        "interface_speed": 0,
        "numa_node": 0,
        "sriov_max_vf": 0,
        "resource_uri": f"{API}/nodes/{machine['system_id']}/interfaces/{nic['id']}/",
    }


def _partition(machine: Machine, disk: dict[str, Any], number: int, size: int, mount: str) -> dict[str, Any]:
    fstype = "fat32" if mount == "/boot/efi" else "ext4"
    return {
        "system_id": machine["system_id"],
        "device_id": disk["id"],
        "id": disk["id"] * 10 + number,
        "uuid": f"00000000-0000-4000-8000-{disk['id'] * 10 + number:012d}",
        "path": f"/dev/disk/by-dname/{disk['name']}-part{number}",
        "type": "partition",
        "size": size,
        "bootable": mount == "/boot/efi",
        "tags": [],
        "used_for": f"{fstype} formatted filesystem mounted at {mount}",
        "filesystem": {
            "fstype": fstype,
            "label": "efi" if mount == "/boot/efi" else "root",
            "uuid": f"00000000-0000-4000-9000-{disk['id'] * 10 + number:012d}",
            "mount_point": mount,
            "mount_options": None,
        },
        "resource_uri": f"{API}/nodes/{machine['system_id']}/blockdevices/{disk['id']}/partition/"
        f"{disk['id'] * 10 + number}",
    }


def block_device(machine: Machine, disk: dict[str, Any]) -> dict[str, Any]:
    """One disk of a machine, with the partitions that the storage layout plans on it."""
    layout = machine["layout"] or {}
    partitions = []
    free = disk["size"]
    if layout.get("name") not in (None, "blank", "custom"):
        if layout["boot"] == disk["id"]:
            partitions.append(_partition(machine, disk, 1, mm.EFI_SIZE, "/boot/efi"))
            free -= mm.EFI_SIZE
        if layout["root"] == disk["id"]:
            size = min(layout["root_size"] or free, free)
            partitions.append(_partition(machine, disk, len(partitions) + 1, size, "/"))
            free -= size
    return {
        "system_id": machine["system_id"],
        "id": disk["id"],
        "name": disk["name"],
        "type": "physical",
        "path": f"/dev/disk/by-dname/{disk['name']}",
        "id_path": f"/dev/disk/by-id/{'nvme' if disk['nvme'] else 'scsi'}-{disk['model']}_{disk['serial']}".replace(
            " ", "_"
        ),
        "model": disk["model"],
        "serial": disk["serial"],
        "uuid": None,
        "size": disk["size"],
        "block_size": 512,
        "available_size": free,
        "used_size": disk["size"] - free,
        "used_for": f"GPT partitioned with {len(partitions)} partition{'s' * (len(partitions) != 1)}"
        if partitions
        else "Unused",
        "partition_table_type": "GPT" if partitions else None,
        "partitions": partitions,
        "filesystem": None,
        "storage_pool": None,
        "numa_node": 0,
        "firmware_version": None,
        "tags": ["ssd"],
        "resource_uri": f"{API}/nodes/{machine['system_id']}/blockdevices/{disk['id']}/",
    }


def anonymous_machine(machine: Machine) -> dict[str, Any]:
    """What a machine that boots for the first time is told about itself."""
    return {
        "system_id": machine["system_id"],
        "hostname": machine["hostname"],
        "fqdn": mm.fqdn(machine),
        "architecture": machine["architecture"],
        "status": machine["status"],
        "status_name": st.LABELS[machine["status"]],
        "status_action": "",
        "status_message": machine["status_message"],
        "power_type": machine["power_type"],
        "power_state": machine["power_state"],
        "node_type": 0,
        "resource_uri": f"{API}/machines/{machine['system_id']}/",
    }


def machine(settings: Settings, named_things: dict[str, list[dict[str, Any]]], record: Machine) -> dict[str, Any]:
    """The whole machine, as GET machines/ and most operations answer it. Power parameters are never in it."""

    def look_up(kind: str, name: str) -> dict[str, Any] | None:
        return next((named(kind, entry) for entry in named_things[kind] if entry["name"] == name), None)

    disks = [block_device(record, disk) for disk in sorted(record["disks"], key=lambda disk: disk["id"])]
    boot = mm.boot_disk(record)
    nics = [interface(settings, record, nic) for nic in record["interfaces"]]
    shown: dict[str, Any] = {
        **anonymous_machine(record),
        "description": record["description"],
        "hardware_uuid": None,
        "domain": look_up("domains", record["domain"]),
        "zone": look_up("zones", record["zone"]),
        "pool": look_up("resourcepools", record["pool"]),
        "owner": record["owner"],
        "owner_data": record["owner_data"],
        "workload_annotations": record["owner_data"],
        "locked": record["locked"],
        "bios_boot_method": "uefi",
        "boot_interface": nics[0] if nics else None,
        "min_hwe_kernel": record["min_hwe_kernel"],
        "hwe_kernel": record["hwe_kernel"],
        "cpu_count": record["cpu_count"],
        "cpu_speed": 0,
        "memory": record["memory"],
        "swap_size": None,
        "storage": sum(disk["size"] for disk in record["disks"]) / 1e6,
        "osystem": record["osystem"],
        "distro_series": record["distro_series"],
        "netboot": record["netboot"],
        "node_type_name": "Machine",
        "tag_names": list(record["tags"]),
        "address_ttl": None,
        "ip_addresses": [
            nic["link"]["ip_address"] for nic in record["interfaces"] if nic["link"] and "ip_address" in nic["link"]
        ],
        "interface_set": nics,
        "disable_ipv4": False,
        "constraints_by_type": {},
        "boot_disk": next((disk for disk in disks if boot and disk["id"] == boot["id"]), None),
        "blockdevice_set": disks,
        "physicalblockdevice_set": disks,
        "virtualblockdevice_set": [],
        "volume_groups": [],
        "raids": [],
        "bcaches": [],
        "cache_sets": [],
        "special_filesystems": [],
        "pod": None,
        "parent": None,
        "default_gateways": {"ipv4": {"gateway_ip": None, "link_id": None}, "ipv6": {"gateway_ip": None}},
        "current_commissioning_result_id": None,
        "current_testing_result_id": None,
        "current_installation_result_id": None,
        "hardware_info": {
            "system_vendor": "Simulated",
            "system_serial": record["service_tag"] or "Unknown",
            "chassis_serial": record["service_tag"] or "Unknown",
        },
        "interface_test_status": -1,
        "interface_test_status_name": "Unknown",
        "numanode_set": [],
        "virtualmachine_id": None,
        "error_description": record["error_description"],
    }
    for kind in _TEST_KINDS:
        key = f"{kind}_status"
        shown[key] = -1
        shown[f"{key}_name"] = "Unknown"
    if not settings.is_34:
        shown["is_dpu"] = record["is_dpu"]
        shown["enable_hw_sync"] = False
    return shown
