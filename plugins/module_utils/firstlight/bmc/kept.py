"""Records of BMCs in a store that several processes write at once. Pure but for the class Kept and the lock."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..sitefiles import Fleet
from .hardware import Record
from .known import REFUSED, VERSION, age, from_entries, is_fresh, to_entries, updated

WAIT_SECONDS = 120.0  # each turn takes some 2 s of CPU with 500 hosts, and 20 shards may end at once
_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)
# By name of the host: its record, and that of known.before_it_changed.
Told = dict[str, tuple[Record, Record | None]]


@dataclasses.dataclass(frozen=True)
class Rules:
    """When a BMC is asked again. Seconds; expire_seconds 0: never for its age alone."""

    fresh_seconds: float
    retry: bool
    expire_seconds: float = 0


def must_ask(record: Record | None, rules: Rules, refresh: str, use_store: bool = True) -> bool:
    """refresh: never, missing, always, now (also the fresh ones, but for those that refused the password) or flush."""
    if refresh == "never":
        return False
    if record is None or record.condition == "not_asked" or refresh == "flush":
        return True
    if is_fresh(record, rules.fresh_seconds) and (refresh != "now" or record.condition in REFUSED):
        return False
    if not use_store or refresh in ("always", "now"):
        return True
    # The store's own clock starts anew whenever one record in it changes.
    return 0 < rules.expire_seconds < age(record) or (record.condition != "ok" and rules.retry)


def told(fleet: Fleet, entries: Any) -> Told:
    """What entries of known.to_entries say of the fleet's hosts."""
    previous = from_entries(fleet, entries, "previous")
    return {name: (record, previous.get(name)) for name, record in from_entries(fleet, entries).items()}


def newest(some: Told, others: Told) -> Told:
    """Of each host what is newer; where both are of one time, what others say."""
    now = datetime.datetime.now(datetime.UTC)
    both = dict(others)
    for name, pair in some.items():
        if name not in both or _time(pair[0], now) > _time(both[name][0], now):
            both[name] = pair
    return both


def with_answers(stored: Told, answers: Mapping[str, Record]) -> Told:
    """What is stored, and these answers: for each host the newer one counts, whoever got it."""
    now = datetime.datetime.now(datetime.UTC)
    all_told = dict(stored)
    for name, answer in answers.items():
        old, previous = stored.get(name, (None, None))
        new = answer
        if old is not None and _time(old, now) > _time(answer, now):
            new, old = old, answer  # another process asked after this one
            if new.stale and old.hardware:  # and heard nothing
                new = dataclasses.replace(new, hardware=old.hardware)
        all_told[name] = updated(new, old, previous)
    return all_told


def strangers(entries: Mapping[str, Any], ours: Told, since: datetime.datetime) -> dict[str, Any]:
    """Entries beside ours, of hosts or BMC addresses that our fleet has not, asked since then.

    A process that read the fleet file later than this one wrote them; older ones are of what the file has no more.
    """
    found, now = {}, datetime.datetime.now(datetime.UTC)
    for name, entry in entries.items():
        if name not in ours and isinstance(entry, Mapping) and "bmc" in entry:
            with contextlib.suppress(TypeError, ValueError):
                if _time(Record.from_dict(entry.get("record")), now) >= since:
                    found[name] = entry
    return found


def _time(record: Record, now: datetime.datetime) -> datetime.datetime:
    """When the BMC was asked. A time to come says that a clock was wrong, and must not win for ever."""
    try:
        asked = datetime.datetime.fromisoformat(record.asked_at)
        return asked if asked <= now else _NEVER
    except (TypeError, ValueError):
        return _NEVER


# -- not pure ---------------------------------------------------------------------------------------------------------


class Kept:
    """The records of a fleet in a store, and what this process learnt itself.

    place: a file that is there for every process with this store, whose lock they take in turns. load: gives the
    store's content, read anew each time, anything when it is damaged; None where nothing is stored. save: replaces it.
    learnt: entries, changed in place. warn: is told, in a line, what may be lost.
    """

    def __init__(
        self,
        fleet: Fleet,
        place: Path,
        load: Callable[[], Any] | None,
        save: Callable[[dict[str, Any]], None],
        *,
        learnt: dict[str, Any],
        warn: Callable[[str], Any],
    ) -> None:
        self.fleet, self.place, self.learnt = fleet, place, learnt
        self._load, self._save, self._warn = load, save, warn
        self._began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)  # records have whole seconds
        self._told = told(fleet, learnt)

    @property
    def previous(self) -> dict[str, Record | None]:
        """See known.before_it_changed."""
        return {name: previous for name, (_, previous) in self._told.items()}

    def read(self) -> dict[str, Record]:
        """What is known of the hosts."""
        self._told = newest(self._told, told(self.fleet, self._entries()))
        return self._known()

    def add(self, answers: Mapping[str, Record]) -> dict[str, Record]:
        """Keep these beside what other processes kept meanwhile; what is known then."""
        if not self._load:
            return self._add(answers)
        with locked(self.place) as why:
            if why:
                self._warn(f"{self.place} cannot be locked: {why}; what another run keeps now may be lost")
            return self._add(answers)

    def _add(self, answers: Mapping[str, Record]) -> dict[str, Record]:
        entries = self._entries()
        stored = told(self.fleet, entries)
        self._told = with_answers(newest(self._told, stored), answers)
        known = self._known()
        new = {name: record for name, record in known.items() if self._told[name] is not stored.get(name)}
        as_they_are = {name: entries[name] for name in known if name not in new}  # writing them out anew takes seconds
        hosts = as_they_are | to_entries(self.fleet, new, self.previous)
        self.learnt.clear()
        self.learnt.update(hosts)
        if self._load:
            self._save({"version": VERSION, "hosts": hosts | strangers(entries, stored, self._began)})
        return known

    def _entries(self) -> Mapping[str, Any]:
        stored = self._load() if self._load else None
        hosts = stored.get("hosts") if isinstance(stored, Mapping) and stored.get("version") == VERSION else None
        return hosts if isinstance(hosts, Mapping) else {}

    def _known(self) -> dict[str, Record]:
        return {name: record for name, (record, _) in self._told.items()}


@contextlib.contextmanager
def locked(place: Path, seconds: float = WAIT_SECONDS) -> Iterator[str]:
    """One process at a time is in here; yields "", or why there is no lock, then others may be in here too.

    The file itself is locked, so that nothing is left; the kernel gives the lock back however its holder ends.
    """
    file, why = None, ""
    try:
        file = _lock(place, seconds)
    except BlockingIOError:
        why = f"another process has held it for {seconds:g} s"
    except OSError as error:
        why = error.strerror or str(error)
    try:
        yield why
    finally:
        if file is not None:
            os.close(file)


def _lock(place: Path, seconds: float) -> int:
    until = time.monotonic() + seconds
    while True:
        try:
            file = os.open(place, os.O_RDWR | os.O_CLOEXEC)  # NFS locks only what may be written
        except OSError:
            file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BaseException as error:
            os.close(file)
            if not isinstance(error, BlockingIOError) or time.monotonic() >= until:
                raise
        time.sleep(0.02)
