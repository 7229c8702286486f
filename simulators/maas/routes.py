"""Which handler answers which path, method and op; and the description of it that clients fetch from describe/."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from simulators.maas import handlers as h
from simulators.maas import interfaces as nics
from simulators.maas import operations as ops
from simulators.maas import resources as r
from simulators.maas import script_api as sc
from simulators.maas.region import Handler


@dataclass(frozen=True)
class Action:
    """One thing that a resource can do."""

    method: str
    op: str | None
    handler: Handler
    anonymous: bool = False


@dataclass(frozen=True)
class Resource:
    """One path of the API, below /MAAS/api/2.0/. Names are those of MAAS's handlers: clients look them up."""

    name: str
    path: str
    actions: dict[str, Action]
    has_anonymous: bool = False


def _get(handler: Handler, op: str | None = None, anonymous: bool = False) -> Action:
    return Action("GET", op, handler, anonymous)


def _post(handler: Handler, op: str | None = None, anonymous: bool = False) -> Action:
    return Action("POST", op, handler, anonymous)


def _named(plural: str, single: str, kind: str, path: str) -> list[Resource]:
    return [
        Resource(plural, f"{kind}/", {"read": _get(r.lister(kind)), "create": _post(r.creator(kind))}),
        Resource(single, path, {"read": _get(r.reader(kind))}),
    ]


_MACHINE_OPERATIONS = {
    "commission": ops.commission,
    "deploy": ops.deploy,
    "release": ops.release,
    "abort": ops.abort,
    "power_on": ops.power_on,
    "power_off": ops.power_off,
    "lock": ops.lock,
    "unlock": ops.unlock,
    "mark_broken": ops.mark_broken,
    "mark_fixed": ops.mark_fixed,
    "set_storage_layout": ops.set_storage_layout,
    "set_owner_data": ops.set_owner_data,
    "set_workload_annotations": ops.set_owner_data,
}
_NODE = {
    "power_parameters": _get(ops.power_parameters, "power_parameters"),
    "query_power_state": _get(ops.query_power_state, "query_power_state"),
}

RESOURCES = [
    Resource(
        "MachinesHandler",
        "machines/",
        {
            "read": _get(h.list_machines),
            "create": _post(h.create_machine, anonymous=True),
            "allocate": _post(h.allocate, "allocate"),
            "release": _post(h.release_machines, "release"),
            "is_registered": _get(h.is_registered, "is_registered", anonymous=True),
            "power_parameters": _get(h.list_power_parameters, "power_parameters"),
        },
        has_anonymous=True,
    ),
    Resource(
        "MachineHandler",
        "machines/{system_id}/",
        {
            "read": _get(h.read_machine),
            "update": Action("PUT", None, h.update_machine),
            "delete": Action("DELETE", None, h.delete_machine),
            **{name: _post(handler, name) for name, handler in _MACHINE_OPERATIONS.items()},
            **_NODE,
        },
    ),
    Resource("NodesHandler", "nodes/", {"read": _get(h.list_machines)}, has_anonymous=True),
    Resource("NodeHandler", "nodes/{system_id}/", {"read": _get(h.read_machine), **_NODE}),
    Resource("BlockDevicesHandler", "nodes/{system_id}/blockdevices/", {"read": _get(h.list_block_devices)}),
    Resource(
        "BlockDeviceHandler",
        "nodes/{system_id}/blockdevices/{id}/",
        {"read": _get(h.read_block_device), "set_boot_disk": _post(ops.set_boot_disk, "set_boot_disk")},
    ),
    Resource(
        "InterfacesHandler",
        "nodes/{system_id}/interfaces/",
        {"read": _get(nics.list_interfaces), "create_physical": _post(nics.create_physical, "create_physical")},
    ),
    Resource(
        "InterfaceHandler",
        "nodes/{system_id}/interfaces/{id}/",
        {
            "read": _get(nics.read_interface),
            "update": Action("PUT", None, nics.update_interface),
            "delete": Action("DELETE", None, nics.delete_interface),
            "disconnect": _post(nics.disconnect_interface, "disconnect"),
            "link_subnet": _post(nics.link_interface, "link_subnet"),
        },
    ),
    Resource("TagsHandler", "tags/", {"read": _get(r.list_tags), "create": _post(r.create_tag)}),
    Resource(
        "TagHandler",
        "tags/{name}/",
        {
            "read": _get(r.read_tag),
            "delete": Action("DELETE", None, r.delete_tag),
            "update_nodes": _post(r.update_tag_nodes, "update_nodes"),
            "machines": _get(r.tag_machines, "machines"),
            "nodes": _get(r.tag_machines, "nodes"),
        },
    ),
    Resource("NodeScriptsHandler", "scripts/", {"read": _get(sc.list_scripts), "create": _post(sc.create_script)}),
    Resource(
        "NodeScriptHandler",
        "scripts/{name}",  # without a slash, as in MAAS
        {"read": _get(sc.read_script), "update": Action("PUT", None, sc.update_script)},
    ),
    Resource("NodeScriptResultsHandler", "nodes/{system_id}/results/", {"read": _get(sc.list_results)}),
    Resource("EventsHandler", "events/", {"query": _get(r.query_events, "query")}),
    Resource("UsersHandler", "users/", {"read": _get(r.list_users), "whoami": _get(r.whoami, "whoami")}),
    Resource("UserHandler", "users/{username}/", {"read": _get(r.read_user)}),
    Resource("VersionHandler", "version/", {"read": _get(r.version, anonymous=True)}, has_anonymous=True),
    Resource("BootResourcesHandler", "boot-resources/", {"read": _get(r.list_boot_resources)}),
    Resource("RackControllersHandler", "rackcontrollers/", {"read": _get(r.list_rack_controllers)}),
    Resource("SubnetsHandler", "subnets/", {"read": _get(r.list_subnets)}),
    Resource(
        "SSHKeysHandler",
        "account/prefs/sshkeys/",
        {"read": _get(r.list_ssh_keys), "create": _post(r.create_ssh_key)},
    ),
    *_named("ZonesHandler", "ZoneHandler", "zones", "zones/{name}/"),
    *_named("ResourcePoolsHandler", "ResourcePoolHandler", "resourcepools", "resourcepool/{id}/"),
    *_named("DomainsHandler", "DomainHandler", "domains", "domains/{id}/"),
]


def find(resource: Resource, method: str, op: str | None) -> Action | None:
    """The action of a resource that a request means."""
    for action in resource.actions.values():
        if action.method == method and action.op == op:
            return action
    return None


def describe(base: str) -> dict[str, Any]:
    """The API's description for describe/: what python-libmaas and MAAS's own client build themselves from.

    base is the address as the client sees it, such as https://127.31.0.2:5443/MAAS/api/2.0/.
    """
    resources = []
    for resource in RESOURCES:
        whole = _describe_handler(base, resource, resource.actions)
        anonymous = {name: action for name, action in resource.actions.items() if action.anonymous}
        shown = None
        if anonymous:
            shown = _describe_handler(base, resource, anonymous)
            shown["name"] = f"Anon{resource.name}"
        resources.append({"name": resource.name, "anon": shown, "auth": whole})
    digest = hashlib.sha1(json.dumps(resources).encode(), usedforsecurity=False).hexdigest()
    return {"doc": "MAAS API (simulated)", "hash": digest, "resources": resources}


def _describe_handler(base: str, resource: Resource, actions: dict[str, Action]) -> dict[str, Any]:
    return {
        "name": resource.name,
        "doc": (resource.name.removesuffix("Handler") + " (simulated)"),
        "uri": base + resource.path,
        "path": "/MAAS/api/2.0/" + resource.path,
        "params": [part[1:-1] for part in resource.path.split("/") if part.startswith("{")],
        "actions": [
            {
                "name": name,
                "method": action.method,
                "op": action.op,
                "restful": action.op is None,
                "doc": action.handler.__doc__ or "",
            }
            for name, action in actions.items()
        ],
    }
