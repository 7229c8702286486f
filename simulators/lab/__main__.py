"""The lab: simulated servers, their BMCs and a MAAS, all on this machine. Not part of the product."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from simulators import lab_files
from simulators.bmc.faults import FAULTS
from simulators.bmc.hardware import REPLACEABLE, Hardware
from simulators.lab import lifecycle, plan, site, week, week_plan
from simulators.lab_files import LabError

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_DIR = REPOSITORY / ".lab"
ADMIN_SECONDS = 10


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 not done (one line on standard error says why)."""
    options = _parser().parse_args(arguments)
    lab_dir = Path(options.lab_dir or DEFAULT_DIR).resolve()
    try:
        _become_root(options.command)
        status = int(options.run(lab_dir, options) or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # whoever read has seen enough, as in "scripts/lab status | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
    except PermissionError as error:
        print(f"lab: {error.filename}: not permitted; was the lab started by another user?", file=sys.stderr)
    except KeyboardInterrupt:
        print("lab: stopped; scripts/lab down removes what was started", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/lab", description=__doc__)
    parser.add_argument(
        "--lab-dir", default=os.environ.get("FIRSTLIGHT_LAB_DIR"), help="default: $FIRSTLIGHT_LAB_DIR, else .lab"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the lab; one that runs is kept as it is")
    up.set_defaults(run=_up)
    up.add_argument("--fleet", type=int, metavar="N", help=f"how many servers (default {plan.DEFAULT_FLEET})")
    up.add_argument("--fresh", action="store_true", help="throw the old lab away first, with its secrets")
    up.add_argument("--sound", action="store_true", help="no server is broken at first")
    up.add_argument("--block", type=int, help="addresses 127.N.* and 10.N.0.* (default 31; a second lab needs another)")
    up.add_argument("--inventory-dir", type=Path, help="where fleet.yml and secrets.yml go (default inventory/lab)")
    commands.add_parser("down", help="stop and remove everything but the images").set_defaults(run=_down)
    status = commands.add_parser("status", help="what runs")
    status.set_defaults(run=_status)
    status.add_argument("--json", action="store_true")
    fault = commands.add_parser("fault", help="give a server a fault, or take it away")
    fault.set_defaults(run=_fault)
    fault.add_argument("name")
    fault.add_argument("fault", metavar="FAULT", choices=sorted(FAULTS), help="see: scripts/lab faults")
    fault.add_argument("switch", choices=("on", "off"))
    fault.add_argument("parameters", nargs="*", metavar="KEY=VALUE")
    replace = commands.add_parser(
        "replace", help="put another part into a server: gpu3, nvme0, osdisk, psu2, nic1, dimmA4, bmc, ..."
    )
    replace.set_defaults(run=_replace)
    replace.add_argument("name")
    replace.add_argument("part", metavar="PART", choices=sorted(REPLACEABLE))
    commands.add_parser("faults", help="the faults there are, and who has them").set_defaults(run=_faults)
    week = commands.add_parser("week", help="let a scripted week happen: hosts fail, are mended and come back")
    week.set_defaults(run=_week)
    week.add_argument("--seed", type=int, default=7, help="what happens in it (default 7)")
    week.add_argument("--days", type=int, default=7, help="how long it is (default 7)")
    week.add_argument("--kills", type=int, default=0, help="commands that are killed on the way (default none)")
    week.add_argument("--reports", type=Path, default=REPOSITORY / "reports", help="where the site's reports are")
    ssh = commands.add_parser("ssh", help="log in to a server")
    ssh.set_defaults(run=_ssh)
    ssh.add_argument("name")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


def _become_root(command: str) -> None:
    """Containers with addresses of their own need root; keys and files stay the caller's."""
    if command in ("up", "down", "status") and os.geteuid():
        keep = "PATH,FIRSTLIGHT_CACHE,FIRSTLIGHT_ENGINE_MODE,FIRSTLIGHT_BASE_IMAGE,FIRSTLIGHT_LAB_DIR"
        try:
            words = ["sudo", f"--preserve-env={keep}", str(REPOSITORY / "scripts" / "lab"), *sys.argv[1:]]
            os.execvp("sudo", words)  # noqa: S606
        except FileNotFoundError:
            raise LabError("needs root, or sudo") from None


def _up(lab_dir: Path, options: argparse.Namespace) -> None:
    inventory_dir, block = _where(lab_dir, options)
    for path in inventory_dir.glob("*.maas.yml"):
        if f"//127.{block}." not in path.read_text():
            raise LabError(f"{path}: its url is not this lab's, https://127.{block}.0.2:5443/MAAS; see docs/lab.md")
    lab = lifecycle.up(lab_dir, inventory_dir, options.fleet, block, options.fresh, options.sound)
    print(f"lab: {len(lab['machines'])} servers, MAAS on https://{lab['maas']['listen']}/MAAS, files in {lab_dir}")


def _where(lab_dir: Path, options: argparse.Namespace) -> tuple[Path, int]:
    """The site's folder and the address block: as asked, else as last time, else the defaults."""
    old: dict[str, Any] = lab_files.read_json(lab_dir / "where.json", {})
    default = REPOSITORY / "inventory" / "lab" if lab_dir == DEFAULT_DIR else lab_dir / "inventory"
    inventory_dir = Path(options.inventory_dir or old.get("inventory_dir", default)).resolve()
    block = options.block if options.block is not None else int(old.get("block", plan.DEFAULT_BLOCK))
    lab_dir.mkdir(mode=lifecycle.FOLDER_MODE, parents=True, exist_ok=True)
    lab_files.write_json(lab_dir / "where.json", {"inventory_dir": str(inventory_dir), "block": block})
    return inventory_dir, block


def _down(lab_dir: Path, options: argparse.Namespace) -> None:
    print("lab: stopped and removed" if lifecycle.down(lab_dir) else f"lab: there is none in {lab_dir}")


def _status(lab_dir: Path, options: argparse.Namespace) -> int:
    found = lifecycle.status(lab_dir)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, pid in found["simulators"].items():
            print(f"{name} simulator: {f'runs, process {pid}' if pid else 'stopped'}")
        row = "{:<10} {:<12} {:<19} {:<6} {:<10} {:<14} {:<14} {}"
        print(row.format("NAME", "SERVICE TAG", "BMC", "POWER", "CONTAINER", "HOSTNAME", "ADDRESS", "FAULTS"))
        for machine in found["machines"]:
            values = [", ".join(value) if isinstance(value, list) else value for value in machine.values()]
            print(row.format(*values).rstrip())
    return 0 if all(found["simulators"].values()) else 1


def _fault(lab_dir: Path, options: argparse.Namespace) -> None:
    lab = lab_files.load(lab_dir)
    lab_files.machine(lab, options.name)
    body: dict[str, float | str] = {}
    known = FAULTS[options.fault]
    for word in options.parameters:
        key, _, value = word.partition("=")
        try:
            body[key] = value if isinstance(known.get(key), str) else float(value) if "." in value else int(value)
        except ValueError:
            raise LabError(f"{word!r}: this parameter is a number, as in gpu=3") from None
    method = "PUT" if options.switch == "on" else "DELETE"
    _admin(lab, method, f"/machines/{options.name}/faults/{options.fault}", body)
    print(f"lab: {options.name}: {options.fault} is {options.switch}")


def _replace(lab_dir: Path, options: argparse.Namespace) -> None:
    lab = lab_files.load(lab_dir)
    entry = lab_files.machine(lab, options.name)
    _admin(lab, "POST", f"/machines/{options.name}/parts/{options.part}/replace", {})
    print(f"lab: {options.name}: {options.part} is another one now")
    if options.part == "bmc":
        state = lab_files.read_json(lab_dir / "machines" / options.name / "state.json", {})
        user, password = Hardware(entry["index"], "", state.get("replaced", {})).bmc_login("", "")
        print(f"lab: on its label: user {user}, password {password}")


def _week(lab_dir: Path, options: argparse.Namespace) -> None:
    lab = lab_files.load(lab_dir)
    names = [machine["name"] for machine in lab["machines"]]
    try:
        planned = week_plan.plan(options.seed, names, options.days)
    except ValueError as error:
        raise LabError(str(error)) from None
    kills = week_plan.spread(options.seed, options.kills, planned.commands())
    inventory_dir, _ = _where(lab_dir, argparse.Namespace(inventory_dir=None, block=None))
    environment = {**os.environ, **site.environment(lab_dir, inventory_dir)}
    operator = week.Operator(lab_dir, environment, kills, options.seed)
    told = week.Site(operator, options.reports, lab_dir / "ledger.sqlite")

    def fault(host: str, name: str, switch: str, parameters: tuple[str, ...]) -> None:
        _fault(lab_dir, argparse.Namespace(name=host, fault=name, switch=switch, parameters=list(parameters)))

    def replace(host: str, part: str) -> None:
        _replace(lab_dir, argparse.Namespace(name=host, part=part))

    week.Week(lab_dir, operator, told, planned, fault, replace).run()
    print(f"lab: the week of seed {options.seed} went as it must; {operator.killed} commands were killed on the way")


def _admin(lab: lab_files.Lab, method: str, path: str, body: Any) -> None:
    request = urllib.request.Request(f"http://{lab['bmc']['admin']}{path}", method=method)
    if method == "PUT":
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    # straight to the loopback: a proxy has no business there
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=ADMIN_SECONDS).close()
    except urllib.error.HTTPError as error:
        raise LabError(f"{path}: {error.code} {error.read(500).decode(errors='replace').strip()}") from None
    except OSError as error:
        raise LabError(f"the lab does not answer ({error}); scripts/lab up starts it") from None


def _faults(lab_dir: Path, options: argparse.Namespace) -> None:
    having: dict[str, list[str]] = {}
    if (lab_dir / "lab.json").exists():
        for machine in lab_files.load(lab_dir)["machines"]:
            state = lab_files.read_json(lab_dir / "machines" / machine["name"] / "state.json", {})
            for fault in state.get("faults", []):
                having.setdefault(fault, []).append(machine["name"])
    for name, known in FAULTS.items():
        takes = ", ".join(f"{key}={_allowed(allowed)}" for key, allowed in known.items())
        print(f"{name:<16} {takes:<40} {' '.join(having.get(name, []))}".rstrip())


def _allowed(allowed: tuple[float, float, float] | str) -> str:
    return allowed if isinstance(allowed, str) else f"{allowed[0]} ({allowed[1]:g} to {allowed[2]:g})"


def _ssh(lab_dir: Path, options: argparse.Namespace) -> None:
    lab_files.machine(lab_files.load(lab_dir), options.name)
    state = lab_files.read_json(lab_dir / "machines" / options.name / "state.json", {})
    disk = state.get("disk")
    if not disk:
        raise LabError(f"{options.name}: nothing is installed on its disk")
    # its host key is new after every installation, and the machine is this one: nothing to remember, nothing to spoof
    words = ["ssh", "-i", str(lab_dir / "ssh" / "id_ed25519"), "-o", "UserKnownHostsFile=/dev/null",
             "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR", f"{_user(disk)}@{disk['address']}"]  # fmt: skip
    os.execvp("ssh", [*words, *options.words])  # noqa: S606


def _user(disk: dict[str, Any]) -> str:
    """The first user that the installation made, else the distribution's own."""
    try:
        users = (yaml.safe_load(disk.get("user_data") or "") or {}).get("users", [])
    except (yaml.YAMLError, AttributeError):
        users = []
    names = [user["name"] for user in users if isinstance(user, dict) and "name" in user]
    return str(names[0]) if names else "debian"


if __name__ == "__main__":
    sys.exit(main())
