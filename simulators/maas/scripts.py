"""Scripts that a site has uploaded, and what came of them: which MAAS runs at commissioning.

Nothing is executed here. What the script ``firstlight-disks`` prints is worked out from the machine's disks (see
``output``); a test runs the script itself on disks like these and compares. A machine that really boots (rack_api)
brings its own output.
"""

from __future__ import annotations

import email.utils
import hashlib
import time
from pathlib import Path
from typing import Any

from simulators import disk_heads, lab_files
from simulators.bmc.hardware import Hardware
from simulators.maas.settings import Settings
from simulators.maas.store import Machine, Store

COMMISSIONING, INSTALLATION, TESTING = 0, 1, 2
TYPE_NAMES = {COMMISSIONING: "Commissioning", INSTALLATION: "Installation", TESTING: "Testing"}
PENDING, PASSED, FAILED = 0, 2, 3
STATUS_NAMES = {PENDING: "Pending", PASSED: "Passed", FAILED: "Failed"}
KEPT = 10  # sets of one kind of a machine, as MAAS keeps them


def commissioning_scripts(store: Store) -> dict[str, str]:
    """The texts of the scripts that every commissioning runs, by name."""
    scripts = store.data.get("scripts", {})
    return {n: s["history"][0]["data"] for n, s in scripts.items() if s["type"] == COMMISSIONING and s["history"]}


def begin(store: Store, machine: Machine, kind: str) -> None:
    """A commissioning or a deployment begins."""
    if kind not in ("commission", "deploy"):
        return
    run_type = COMMISSIONING if kind == "commission" else INSTALLATION
    names = list(commissioning_scripts(store)) if kind == "commission" else ["/tmp/install.log"]  # noqa: S108
    results = [_result(store, name, PENDING) for name in names]
    sets = machine.setdefault("script_sets", [])
    sets.append({"id": store.next_id(), "type": run_type, "results": results})
    old = [run for run in sets if run["type"] == run_type][:-KEPT]
    machine["script_sets"] = [run for run in sets if run not in old]


def finish(
    settings: Settings, store: Store, machine: Machine, outputs: dict[str, tuple[int, str]] | None = None
) -> None:
    """The machine's commissioning is over. outputs: exit status and output of its scripts, where it really ran them."""
    runs = [run for run in machine.get("script_sets", []) if run["type"] == COMMISSIONING]
    if not runs:
        return
    now = time.time()
    for result in runs[-1]["results"]:
        if outputs is None:
            status, text = 0, output(settings, machine, now) if result["name"] == "firstlight-disks" else ""
        else:
            status, text = outputs.get(result["name"], (127, ""))
        done = PASSED if status == 0 else FAILED
        result.update(status=done, exit_status=status, output=text, started=now - 1, ended=now)


def _result(store: Store, name: str, status: int) -> dict[str, Any]:
    now = email.utils.formatdate(time.time())
    return {
        "id": store.next_id(),
        "created": now,
        "updated": now,
        "name": name,
        "status": status,
        "exit_status": None,
        "started": None,
        "ended": None,
        "runtime": "",
        "script_id": None,
        "script_revision_id": None,
        "suppressed": False,
    }


def output(settings: Settings, machine: Machine, now: float) -> str:
    """What firstlight-disks prints on this machine, whose clock is as far off as its BMC's (fault clock_wrong)."""
    name = settings.machine_name(machine)
    state = _state(settings, name)
    drives: list[dict[str, Any]] = []
    entry = next((m for m in settings.machines if m["name"] == name), None)
    if entry is not None:
        hardware = Hardware(entry["index"], entry["service_tag"], state.get("replaced") or {})
        drives = [{"number": d.number, "serial": d.serial} for d in hardware.drives]
    heads = disk_heads.heads(state, drives)
    lines = ["firstlight-disks\t1"]
    for disk in sorted(machine["disks"], key=lambda d: str(d["name"])):
        head = heads.get(disk["serial"], disk_heads.BLANK)
        blank = "yes" if head == disk_heads.BLANK else "no"
        sha256 = hashlib.sha256(head).hexdigest()
        fields = ("disk", disk["name"], str(disk["size"]), sha256, blank, disk["serial"], "", disk["model"])
        lines.append("\t".join(fields))
    wrong = (state.get("fault_parameters") or {}).get("clock_wrong", {})
    off = float(wrong.get("seconds", 0)) if "clock_wrong" in state.get("faults", []) else 0.0
    lines.append(f"clock\t{max(0, int(now + off))}")
    return "\n".join(lines) + "\n"


def _state(settings: Settings, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    try:
        found = lab_files.read_json(Path(settings.lab_dir) / "machines" / name / "state.json", {})
    except (OSError, lab_files.LabError):
        return {}
    return found if isinstance(found, dict) else {}
