"""What a run does about tickets: decide from the ledger, save, and tell the site's outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..findings import shorten
from ..ledger import tickets as kept
from ..ledger.store import Ledger, operator
from ..plainvalue import plain
from ..policy.settings import Policy
from .model import CLOSED, OPEN, Ticket
from .now import hosts_now
from .outbox import Outbox
from .plan import Plan, plan
from .settings import NAME, TicketSettings, load_tickets, make_outputs
from .telling import reason

ANOTHER = "its machine has this name no more"
FOLDER = "tickets"  # of the reports, for a site that names no output


@dataclass(frozen=True)
class Told:
    """What became of tickets in a run. problems: a line each; nothing is lost by any of them."""

    made: Plan = field(default_factory=Plan)
    open: int = 0
    where: str = ""
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For the screen; "" where there is no ticket."""
        counts = {"opened": self.made.opened, "updated": self.made.updated, "closed": self.made.closed}
        done = ", ".join(f"{len(those)} {word}" for word, those in counts.items() if those)
        if not done and not self.open:
            return ""
        return "tickets: " + "; ".join(part for part in (done, f"{self.open} open{self.where}") if part)


def tell(
    ledger: Ledger,
    variables: Mapping[str, Any],
    policy: Policy,
    *,
    check: bool,
    names: Collection[str] | None = None,
    stopped: Collection[str] = (),
) -> list[str]:
    """``work``, for who only wants to know what went wrong: a line each. In check mode nothing is done."""
    return [] if check else work(ledger, variables, policy, names=names, stopped=stopped).problems


def work(
    ledger: Ledger,
    variables: Mapping[str, Any],
    policy: Policy,
    *,
    names: Collection[str] | None = None,
    stopped: Collection[str] = (),
) -> Told:
    """Open, update and close the tickets of these hosts (all by default), and tell what outputs do not know yet.

    variables: of the site. stopped: hosts that the brake kept from quarantine; they get no new ticket. A ticket is in
    the ledger before anybody is told, so that whatever ends the run here, the next one tells. Raises nothing: a run
    does not break over its tickets, and what comes after them is done.
    """
    try:
        made = decide(ledger, policy, names=names, stopped=stopped)
    except Exception as error:
        return Told(problems=[f"tickets: {reason(error)}"])
    problems: list[str] = []
    where, still_open = "", 0
    try:
        still_open = len(kept.tickets(ledger, open_only=True))
        settings = settings_of(variables, strict=False)
        where = f", in {_folder(variables)}" if settings.outputs is None else ""
        problems = [f"tickets: {line}" for line in deliver(ledger, settings, _folder(variables))]
    except Exception as error:
        problems = [f"tickets: {reason(error)}"]
    return Told(made, still_open, where, problems)


def decide(
    ledger: Ledger, policy: Policy, *, names: Collection[str] | None = None, stopped: Collection[str] = ()
) -> Plan:
    """Decide what to do about tickets and save it, in one transaction: two runs at once open none twice.

    A ticket of a machine whose name went to another one is closed: nobody will look at it again.
    """
    now = datetime.now(UTC)

    def decided(known: list[Ticket]) -> Plan:
        made = plan(policy, known, hosts_now(ledger, policy, now, names), now, stopped)
        gone = kept.nameless(ledger) - {ticket.id for ticket in made.updated}
        mine = [t for t in known if t.id in gone and (names is None or t.host in names)]
        return Plan(made.opened, made.updated, [*made.closed, *(_closed(t, now, ANOTHER) for t in mine)])

    return kept.change(ledger, decided)


def close(ledger: Ledger, name: str, why: str) -> Ticket:
    """Close a ticket by hand; InputError: there is none that is open. What is found again opens another one."""

    if not why.strip():
        raise InputError("--why is empty; say in some words why it is closed")

    def decided(known: list[Ticket]) -> Plan:
        found = next((t for t in known if t.id == name), None)
        if found is None or found.state != OPEN:
            raise InputError(f"no open ticket {shorten(name, 128)}; scripts/tickets list --open shows them")
        return Plan(closed=[_closed(found, datetime.now(UTC), f"by {operator()}: {shorten(why, 300)}")])

    return kept.change(ledger, decided).closed[0]


def _closed(ticket: Ticket, now: datetime, why: str) -> Ticket:
    return ticket.changed(now.isoformat(timespec="seconds"), f"closed: {why}", state=CLOSED)


def deliver(ledger: Ledger, settings: TicketSettings, default: Path) -> list[str]:
    """Tell the outputs what they do not know yet; a line for each that is wrong or failed."""
    outputs, left_out = make_outputs(settings, default)
    with kept.delivering(ledger):
        problems = Outbox(ledger).deliver(kept.tickets(ledger), outputs)
    return [*settings.wrong, *left_out, *problems]


def settings_of(variables: Mapping[str, Any], strict: bool = True) -> TicketSettings:
    """``tickets.yml`` beside the site's policy; without it the default. InputError, strict: see ``load_tickets``."""
    file = tickets_file(variables)
    return load_tickets(file, strict) if file and file.exists() else TicketSettings()


def tickets_file(variables: Mapping[str, Any]) -> Path | None:
    """Where the site's settings for tickets are, or would be; None where nothing says which site it is."""
    if variables.get("policy_file"):
        return Path(str(plain(variables["policy_file"]))).parent / NAME
    return Path(str(plain(variables["inventory_dir"]))) / NAME if variables.get("inventory_dir") else None


def _folder(variables: Mapping[str, Any]) -> Path:
    from ..fleet_action import reports_folder  # which imports Ansible; scripts do without

    return reports_folder(variables) / FOLDER
