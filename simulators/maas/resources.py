"""The rest of the API's collections: tags, events, users, zones, resource pools, domains, images and the like."""

from __future__ import annotations

from typing import Any

from simulators.maas import forms, view
from simulators.maas import status as st
from simulators.maas.region import Call, Region, Text
from simulators.maas.status import ApiError, bad_field

CAPABILITIES = [
    "networks-management",
    "static-ipaddresses",
    "ipv6-deployment-ubuntu",
    "devices-management",
    "storage-deployment-ubuntu",
    "network-deployment-ubuntu",
    "authenticate-api",
]


async def list_tags(region: Region, call: Call) -> Any:
    """All tags."""
    return [view.tag(entry) for entry in region.store.data["tags"].values()]


async def create_tag(region: Region, call: Call) -> Any:
    """A new tag; 400 when there is one of this name."""
    name = call.form.get("name")
    if not name:
        raise bad_field("name", "This field is required.")
    if not all(c.isalnum() or c in "_.-" for c in name) or len(name) > 256:
        raise bad_field("name", "Invalid tag name (can only contain alphanumeric chars, hyphens, underscores or dots)")
    if name in region.store.data["tags"]:
        raise bad_field("name", "Tag with this Name already exists.")
    entry = {key: call.form.get(key) for key in ("name", "comment", "definition", "kernel_opts")}
    region.store.data["tags"][name] = entry
    region.store.save()
    return view.tag(entry)


def _tag(region: Region, call: Call) -> dict[str, Any]:
    entry = region.store.data["tags"].get(call.path["name"])
    if entry is None:
        raise ApiError(404, "Not Found")
    return dict(entry)


async def read_tag(region: Region, call: Call) -> Any:
    """One tag."""
    return view.tag(_tag(region, call))


async def delete_tag(region: Region, call: Call) -> Any:
    """Delete a tag, also from the machines that have it."""
    name = _tag(region, call)["name"]
    del region.store.data["tags"][name]
    for machine in region.store.machines.values():
        machine["tags"] = [tag for tag in machine["tags"] if tag != name]
    region.store.save()
    return Text("", 204)


async def update_tag_nodes(region: Region, call: Call) -> Any:
    """Tag and untag machines; ids that are not known are passed over without a word."""
    name = _tag(region, call)["name"]
    done = {"added": 0, "removed": 0}
    for system_id in call.form.all("add"):
        machine = region.store.machines.get(system_id)
        if machine is not None:
            machine["tags"] = sorted({*machine["tags"], name})
            done["added"] += 1
    for system_id in call.form.all("remove"):
        machine = region.store.machines.get(system_id)
        if machine is not None:
            machine["tags"] = [tag for tag in machine["tags"] if tag != name]
            done["removed"] += 1
    region.store.save()
    return done


async def tag_machines(region: Region, call: Call) -> Any:
    """The machines that have a tag."""
    name = _tag(region, call)["name"]
    return [region.show(machine) for machine in region.store.machines.values() if name in machine["tags"]]


async def query_events(region: Region, call: Call) -> Any:
    """Events, newest first, a page at a time."""
    form = call.form
    limit = form.integer("limit", 100)
    if limit > 1000:
        raise ApiError(400, f"Requested number of events {limit} is greater than limit: 1000")
    level = form.get("level", "INFO").upper()
    if level not in st.LEVELS:
        raise ApiError(400, f"Unrecognised log level: {level}")
    ids = set(form.all("id"))
    for field, key in (("zone", "zone"), ("domain", "domain")):
        if field in form:
            inside = {i for i, m in region.store.machines.items() if m[key] in form.all(field)}
            ids = ids & inside if ids else inside or {""}
    if "mac_address" in form:
        owners = {m["system_id"] for mac in form.all("mac_address") if (m := region.store.by_mac(mac))}
        ids = ids & owners if ids else owners or {""}
    before, after = form.integer("before", 0), form.integer("after", -1)
    found = [
        event
        for event in region.store.data["events"]
        if st.LEVELS[event["level"]] >= st.LEVELS[level]
        and (not ids or event["node"] in ids)
        and ("hostname" not in form or event["hostname"] in form.all("hostname"))
        and ("owner" not in form or event["username"] in form.all("owner"))
        and (not before or event["id"] < before)
        and event["id"] > after
    ]
    page = found[:limit] if after >= 0 else found[-limit:] if limit else []
    page = page[::-1]
    base = f"{view.API}/events/?op=query&limit={limit}&level={level}"
    newest, oldest = (page[0]["id"], page[-1]["id"]) if page else (max(after, 0), before)
    return {
        "count": len(page),
        "events": page,
        "next_uri": f"{base}&after={newest}",
        "prev_uri": f"{base}&before={oldest}",
    }


async def whoami(region: Region, call: Call) -> Any:
    """The user of the API key."""
    return view.user(region.settings)


async def list_users(region: Region, call: Call) -> Any:
    """All users: there is one."""
    return [view.user(region.settings)]


async def read_user(region: Region, call: Call) -> Any:
    """One user."""
    if call.path["username"] != region.settings.username:
        raise ApiError(404, "Not Found")
    return view.user(region.settings)


async def version(region: Region, call: Call) -> Any:
    """The version of MAAS that this simulation follows."""
    return {"version": region.settings.version, "subversion": "simulated", "capabilities": CAPABILITIES}


async def list_boot_resources(region: Region, call: Call) -> Any:
    """The images that can be deployed, of an Ubuntu image each kernel apart."""
    shown: list[dict[str, Any]] = []
    for name, kernels in forms.images(region.settings, region.has_images).items():
        for kernel in kernels:
            number = len(shown) + 1
            shown.append(
                {
                    "id": number,
                    "type": "Synced" if name.startswith("ubuntu/") else "Uploaded",
                    "name": name,
                    "architecture": f"amd64/{kernel}",
                    "resource_uri": f"{view.API}/boot-resources/{number}/",
                    "last_deployed": None,
                    "subarches": f"generic,{kernel}" if kernel != "generic" else "generic",
                }
            )
    return shown


async def list_rack_controllers(region: Region, call: Call) -> Any:
    """The rack controller, if it is connected."""
    if not region.life.has_rack:
        return []
    return [{"system_id": "rack01", "hostname": "rack-simulated", "node_type": 4, "version": region.settings.version}]


async def list_subnets(region: Region, call: Call) -> Any:
    """The only subnet."""
    return [view.subnet(region.settings)]


async def list_ssh_keys(region: Region, call: Call) -> Any:
    """SSH keys of the user."""
    return region.store.data["ssh_keys"]


async def create_ssh_key(region: Region, call: Call) -> Any:
    """Add an SSH key."""
    key = call.form.get("key")
    if not key.startswith(("ssh-", "ecdsa-", "sk-")):
        raise bad_field("key", "Invalid SSH public key.")
    number = region.store.next_id()
    entry = {"id": number, "key": key, "keysource": None, "resource_uri": f"{view.API}/account/prefs/sshkeys/{number}/"}
    region.store.data["ssh_keys"].append(entry)
    region.store.save()
    return entry


def lister(kind: str) -> Any:
    """A handler that lists zones, resourcepools or domains."""

    async def list_named(region: Region, call: Call) -> Any:
        """All of them."""
        return [view.named(kind, entry) for entry in region.store.data["named"][kind]]

    return list_named


def creator(kind: str) -> Any:
    """A handler that adds a zone, resource pool or domain."""

    async def create_named(region: Region, call: Call) -> Any:
        """Add one; 400 when the name is taken."""
        name = call.form.get("name")
        if not name:
            raise bad_field("name", "This field is required.")
        if name in region.names[kind]:
            raise bad_field("name", f"{kind[:-1].capitalize()} with this Name already exists.")
        entry = region.add_named(kind, name, call.form.get("description"))
        region.store.save()
        return view.named(kind, entry)

    return create_named


def reader(kind: str) -> Any:
    """A handler that reads one zone (by name), resource pool or domain (by id)."""

    async def read_named(region: Region, call: Call) -> Any:
        """One of them."""
        for entry in region.store.data["named"][kind]:
            if call.path.get("name") == entry["name"] or call.path.get("id") == str(entry["id"]):
                return view.named(kind, entry)
        raise ApiError(404, "Not Found")

    return read_named
