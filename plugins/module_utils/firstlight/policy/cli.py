"""The command line scripts/policy: a policy file, and what it would have done to this ledger's past."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import commandline
from ..errors import InputError
from ..findings import shorten
from ..ledger.store import Ledger
from ..ledger.where import find_ledger
from .dryrun import dry_run
from .past import read_past
from .settings import Policy, load_policy

NAME = "policy.yml"
DESCRIPTION = (
    "What a policy would have done: who would have been quarantined, which runs stopped; who is golden or a lemon, and "
    "how many spares to keep."
)
EPILOG = """\
Nothing is changed: the ledger is only read, and no run is affected.

exit status:
  0  told
  1  not told: a wrong policy file, no ledger, wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)

    def work() -> None:
        site = _site(options.inventory)
        policy, where = _policy(options.file, site)
        url = find_ledger(options.ledger, options.inventory)
        told = dry_run(policy, read_past(Ledger(url, create=False)), datetime.now(UTC), options.days)
        told = {"file": where, **told}
        commandline.say(json.dumps(told, indent=2) if options.json else "\n".join(lines(told)))

    return commandline.run("policy", work)


def _parser() -> argparse.ArgumentParser:
    parser = commandline.parser("policy", DESCRIPTION, EPILOG, parents=[commandline.ledger_options()])
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"by default {NAME} of the site's inventory")
    parser.add_argument("--days", type=_days, metavar="N", help="only the runs of the last N days")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    return parser


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 36500:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days")
    return int(text)


def _site(given: Path | None) -> Path | None:
    """The folder of the site's inventory; None where none is named."""
    named = given or Path(os.environ.get("ANSIBLE_INVENTORY") or "")
    if str(named) == ".":
        return None
    if not named.exists():
        raise InputError(f"no such inventory: {named}")
    return named if named.is_dir() else named.parent


def _policy(file: Path | None, site: Path | None) -> tuple[Policy, str]:
    path = file or (site / NAME if site else None)
    if path is None or (file is None and not path.exists()):
        return Policy(), f"the defaults, there is no {path}" if path else "the defaults"
    return load_policy(path), str(path)


# -- for people -----------------------------------------------------------------------------------------------------


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The dry run for people."""
    fleet = told["fleet"]
    yield f"policy: {told['file']}"
    yield ""
    quiet = 0
    for run in told["runs"]:
        if not run["quarantined"] and not run["stopped"]:
            quiet += 1
            continue
        yield f"run {run['run']}, {run['started']}, {run['playbook'] or 'a playbook'}, {run['judged']} hosts:"
        for one in run["quarantined"]:
            symptoms = ", ".join(one["symptoms"][:3]) + (", ..." if len(one["symptoms"]) > 3 else "")
            what = f"{symptoms} {one['locator']}".rstrip()
            yield f"    quarantined after {one['stage']}: {shorten(one['name'], 64)}: {what}"
        if run["stopped"]:
            yield f"    STOPPED after {run['stopped']['stage']}: {run['stopped']['why']}"
    if told["runs"]:
        stopped = sum(bool(run["stopped"]) for run in told["runs"])
        yield f"{len(told['runs'])} runs: {stopped} stopped, {quiet} in which nobody would have been quarantined"
    else:
        yield "no run has judged a host yet"
    yield ""
    counted = Counter(host["grade"] for host in told["hosts"])
    yield f"golden: {counted['golden']} of {fleet['hosts']} hosts; lemons: {counted['lemon']}"
    for host in told["hosts"]:
        if host["grade"] == "lemon":
            yield f"    lemon: {shorten(host['name'], 64)}, {host['service_tag'] or 'no service tag'}: {host['why']}"
    for host in told["hosts"]:
        for step in host["next"]:
            why = f" ({step['why']})" if step["why"] else ""
            yield f"    next: {shorten(host['name'], 64)}, {step['cause']}: {step['action']}{why}"
    yield ""
    met = "met" if fleet["met"] else "NOT met"
    yield f"ready: {fleet['ready']} of {fleet['hosts']}; fleet_min_ready asks for {fleet['required']}: {met}"
    missing = f"; {fleet['missing']} more must be ready to keep them beside fleet_min_ready" if fleet["missing"] else ""
    yield f"spares: keep {fleet['spares']}, which leaves {fleet['for_jobs']} ready hosts for jobs{missing}"


if __name__ == "__main__":
    sys.exit(main())
