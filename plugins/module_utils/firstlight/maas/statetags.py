"""MAAS tags that mirror the ledger's states: each machine of ours has the one of its host's state.

The ledger owns the state; the tags are for people who look at MAAS, and nothing reads them back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import FirstlightError
from .client import MaasClient
from .desired import STATE, sites_of, state_tag
from .machines import FLEET_TAG, Machine, is_locked, tags_of, text_of


def changes(
    machines: list[Machine], states: Mapping[str, str], site: str = ""
) -> dict[str, tuple[list[str], list[str]]]:
    """By tag the ids of machines that lack it and of those that have it no more. Pure.

    states: by hostname. site: the site's tag; machines of other sites are left alone, so are those without our tag and
    locked ones.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    for machine in machines:
        state, tags = states.get(text_of(machine, "hostname")), tags_of(machine)
        elsewhere = site and sites_of(machine) and site not in sites_of(machine)
        if state is None or FLEET_TAG not in tags or is_locked(machine) or elsewhere:
            continue
        wanted = state_tag(state)
        if wanted not in tags:
            found.setdefault(wanted, ([], []))[0].append(machine["system_id"])
        for tag in tags:
            if tag.startswith(STATE) and tag != wanted:
                found.setdefault(tag, ([], []))[1].append(machine["system_id"])
    return found


def mirror(client: MaasClient, states: Mapping[str, str], site: str = "", check: bool = False) -> list[str]:
    """Set the tags: one read, and one request a tag whose machines change (two where MAAS may not have it yet).

    Returns a line for each tag that was (check: would be) changed. Raises MaasError.
    """
    machines = client.machines()
    seen = {tag for machine in machines for tag in tags_of(machine)}
    lines = []
    # added first: a machine whose run ends in between has two, and the next run mends that
    changed = changes(machines, states, site)
    for tag in sorted(changed, key=lambda tag: (not changed[tag][0], tag)):
        add, remove = changed[tag]
        if not check:
            if add and tag not in seen:
                client.ensure_tag(tag, "set by firstlight")
            client.tag_machines(tag, add, remove)
        lines.append(f"MAAS tag {tag}: {len(add)} added, {len(remove)} taken off")
    return lines


def keep(
    make: Callable[[], MaasClient],
    states: Mapping[str, str],
    tell: Callable[[str], None],
    site: str = "",
    check: bool = False,
) -> list[str]:
    """``mirror`` that ends nothing: without MAAS it tells a warning, and the next run mends the tags."""
    try:
        return mirror(make(), states, site, check)
    except FirstlightError as error:
        tell(f"warning: the tags {STATE}* in MAAS are not up to date: {error}")
        return []
