"""The API of scripts and their results (see scripts.py for what comes of them)."""

from __future__ import annotations

import base64
import email.utils
import time
from typing import Any

from simulators.maas import view
from simulators.maas.region import Call, Region
from simulators.maas.scripts import COMMISSIONING, PENDING, STATUS_NAMES, TESTING, TYPE_NAMES
from simulators.maas.status import ApiError, bad_field

_TYPES = {"commissioning": COMMISSIONING, "commission": COMMISSIONING, "testing": TESTING, "test": TESTING}


def _stored(region: Region) -> dict[str, dict[str, Any]]:
    return dict(region.store.data.setdefault("scripts", {}))


async def list_scripts(region: Region, call: Call) -> Any:
    """All scripts that were uploaded."""
    return [_show(script, "include_script" in call.form) for script in _stored(region).values()]


async def create_script(region: Region, call: Call) -> Any:
    """A new script; 400 when there is one of this name."""
    form = call.form
    name = form.get("name")
    if not name:
        raise bad_field("name", "This field is required.")
    if not form.get("script"):
        raise bad_field("script", "This field is required.")
    if name in _stored(region):
        raise bad_field("name", "Script with this Name already exists.")
    script: dict[str, Any] = {"id": region.store.next_id(), "name": name, "type": TESTING, "history": []}
    _take(region, script, call)
    region.store.data["scripts"][name] = script
    region.store.save()
    return _show(script, False)


def _find(region: Region, call: Call) -> dict[str, Any]:
    script = _stored(region).get(call.path["name"])
    if script is None:
        raise ApiError(404, "Not Found")
    return script


async def read_script(region: Region, call: Call) -> Any:
    """One script; its texts with include_script."""
    return _show(_find(region, call), "include_script" in call.form)


async def update_script(region: Region, call: Call) -> Any:
    """Change a script; a new text becomes a version of its own."""
    script = _find(region, call)
    _take(region, script, call)
    region.store.save()
    return _show(script, False)


def _take(region: Region, script: dict[str, Any], call: Call) -> None:
    form = call.form
    text = form.get("script")
    if text and not text.startswith("#!/"):
        raise bad_field("script", "Must start with shebang.")
    if "type" in form:
        if form.get("type") not in _TYPES:
            raise bad_field("script_type", "Invalid script type choice")
        script["type"] = _TYPES[form.get("type")]
    for key in ("title", "description", "tags", "timeout", "parallel"):
        if key in form:
            script[key] = form.get(key)
    if text:
        created = email.utils.formatdate(time.time())
        version = {"id": region.store.next_id(), "comment": form.get("comment"), "created": created, "data": text}
        script["history"].insert(0, version)


def _show(script: dict[str, Any], with_text: bool) -> dict[str, Any]:
    history = [{key: value for key, value in version.items() if key != "data"} for version in script["history"]]
    if with_text:
        for shown, version in zip(history, script["history"], strict=True):
            shown["data"] = base64.b64encode(version["data"].encode()).decode()
    return {
        "id": script["id"],
        "name": script["name"],
        "title": script.get("title", ""),
        "description": script.get("description", ""),
        "tags": [t for t in script.get("tags", "").split(",") if t],
        "type": script["type"],
        "type_name": f"{TYPE_NAMES[script['type']]} script",
        "hardware_type": 0,
        "hardware_type_name": "Node",
        "parallel": int(script.get("parallel") or 0),
        "results": {},
        "parameters": {},
        "packages": {},
        "timeout": f"0:{int(script.get('timeout') or 0) // 60:02d}:{int(script.get('timeout') or 0) % 60:02d}",
        "destructive": False,
        "for_hardware": [],
        "may_reboot": False,
        "recommission": False,
        "history": history,
        "default": False,
        "apply_configured_networking": False,
        "resource_uri": f"{view.API}/scripts/{script['name']}",
    }


async def list_results(region: Region, call: Call) -> Any:
    """The runs of scripts of a machine, each with its results."""
    machine, form = region.machine(call), call.form
    names = set(form.get("filters").split(",")) if form.get("filters") else None
    shown = []
    for run in machine.get("script_sets", []):
        results = [r for r in run["results"] if names is None or r["name"] in names]
        shown.append(
            {
                "id": run["id"],
                "system_id": machine["system_id"],
                "type": run["type"],
                "type_name": TYPE_NAMES[run["type"]],
                "last_ping": None,
                "status": min((r["status"] for r in run["results"]), default=PENDING),
                "status_name": "",
                "started": None,
                "ended": None,
                "runtime": "",
                "results": [_show_result(r, "include_output" in form) for r in results],
                "resource_uri": f"{view.API}/nodes/{machine['system_id']}/results/{run['id']}/",
            }
        )
    return shown


def _show_result(result: dict[str, Any], with_output: bool) -> dict[str, Any]:
    shown = {key: value for key, value in result.items() if key != "output"}
    for key in ("started", "ended"):
        shown[key] = email.utils.formatdate(result[key]) if result.get(key) is not None else None
    shown["status_name"] = STATUS_NAMES[result["status"]]
    if with_output:
        output = base64.b64encode(result.get("output", "").encode()).decode()
        shown.update(output=output, stdout=output, stderr="")
    return shown
