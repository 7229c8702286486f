"""Jobs and tasks of a BMC: what waits, what runs, how one ended. They are looked at and waited for, never deleted."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from ..findings import shorten
from .client import BmcClient, Resource
from .control import PAUSE, Say, again, manager_of, silent
from .errors import HalfAnswering
from .fetch import read_collection
from .values import dig, link, number, rows, text

AWAY_SECONDS = 600.0  # that a BMC may be away while a job runs: some jobs restart it
PREPARING = "preparing"  # not yet known to the boot that is to run it
SCHEDULED = "scheduled"  # begins with the next boot of the server
RUNNING = "running"
DONE = "done"
FAILED = "failed"

# Words of Dell's jobs, of the standard's Job and of its Task. A word that is not here counts as running.
_STATES = {
    PREPARING: ("new", "scheduling", "downloading", "readyforexecution"),
    SCHEDULED: (
        "scheduled", "pending", "waiting", "downloaded", "paused", "rebootpending", "pendingreboot", "suspended",
        "userintervention",
    ),
    DONE: ("completed", "rebootcompleted"),
    FAILED: (
        "failed", "completedwitherrors", "rebootfailed", "cancelled", "exception", "killed",
        "interrupted", "invalid",
    ),
}  # fmt: skip
_BY_WORD = {word: state for state, words in _STATES.items() for word in words}


@dataclass(frozen=True)
class Job:
    """One job. state: preparing, scheduled, running, done or failed. percent: 0 to 100, None when not told.

    kind: the BMC's word, e.g. BIOSConfiguration; name: e.g. "Configure: BIOS.Setup.1-1"; message: how it goes.
    """

    path: str
    id: str
    name: str
    kind: str
    state: str
    percent: int | None
    message: str

    @property
    def ended(self) -> bool:
        return self.state in (DONE, FAILED)

    def about(self, *words: str) -> bool:
        """True when its name or kind has one of these words, in any case."""
        said = f"{self.name} {self.kind}".lower()
        return any(word.lower() in said for word in words)

    def __str__(self) -> str:
        percent = "" if self.percent is None else f", {self.percent} %"
        return shorten(f"{self.id} ({self.name or self.kind or 'no name'}): {self.state}{percent}, {self.message}", 200)


def parse_job(resource: Resource) -> Job:
    """A job from Dell's DellJob, the standard's Job or its Task. HalfAnswering when it is none of them."""
    dell = dig(resource, "Oem", "Dell")
    dell = dell if text(dell, "JobState") else resource
    word = text(dell, "JobState") or text(resource, "TaskState")
    path = link(resource)
    if not word:
        raise HalfAnswering(f"GET {path}: neither a job nor a task")
    if not text(dell, "JobType") and word in ("Starting", "Running") and _is_dells_wait(resource):
        word = "Scheduled"  # as a Task, Dell calls "Starting" what has not begun
    state = _BY_WORD.get(re.sub(r"[ _-]", "", word).lower(), RUNNING)
    health = text(resource, "TaskStatus") or text(resource, "JobStatus")
    if state == DONE and health in ("Critical", "Warning"):
        state = FAILED
    messages = [text(m, "Message") for m in rows(resource, "Messages")]
    message = text(dell, "Message") or next((m for m in reversed(messages) if m), "")
    percent = number(dell, "PercentComplete")
    percent = number(resource, "PercentComplete") if percent is None else percent
    return Job(
        path=path,
        id=text(resource, "Id"),
        name=text(dell, "Name") or text(resource, "Name"),
        kind=text(dell, "JobType"),
        state=state,
        percent=None if percent is None else min(percent, 100),
        message=message,
    )


def unfinished_jobs(client: BmcClient) -> list[Job]:
    """Jobs that wait or run, from Dell's queue, the JobService, or the TaskService; [] where there is none of them."""
    for path in _queues(client):
        found = []
        for resource in read_collection(client, path):
            try:
                job = parse_job(resource)
            except HalfAnswering:
                continue
            if not job.ended:
                found.append(job)
        return found
    return []


def job_for(client: BmcClient, path: str) -> str:
    """Where to watch a change that was sent: Dell's own job tells more than the task that the answer names."""
    name = path.rstrip("/").rsplit("/", 1)[-1]
    queue = dell_queue(client) if name.startswith("JID_") else ""
    return f"{queue.rstrip('/')}/{name}" if queue else path


def dell_queue(client: BmcClient) -> str:
    """Path of Dell's job queue, "" elsewhere."""
    manager = manager_of(client)[1]
    return link(manager, "Links", "Oem", "Dell", "Jobs") or link(manager, "Oem", "Dell", "Jobs")


def wait_for_job(
    client: BmcClient,
    path: str,
    seconds: float,
    *,
    say: Say = silent,
    pause: float = PAUSE,
    until: tuple[str, ...] = (),
    away_seconds: float = AWAY_SECONDS,
) -> Job:
    """Watch a job until it ended, or so many seconds are over: then as it is. until: also in these states.

    say: called with a line whenever there is something new. A BMC that restarts meanwhile is waited for.
    """
    end = time.monotonic() + seconds
    shown = ""
    while True:
        left = end - time.monotonic()
        job = again(client, lambda: parse_job(client.get(path)), max(pause, min(away_seconds, left)), pause)
        line = f"{job.state} {(job.percent or 0) // 10 * 10} %"
        if line != shown:
            say(str(job))
            shown = line
        if job.ended or job.state in until or time.monotonic() + pause > end:
            return job
        time.sleep(pause)


def _queues(client: BmcClient) -> list[str]:
    paths = [dell_queue(client)]
    for service, key in (("JobService", "Jobs"), ("Tasks", "Tasks")):
        if link(client.root, service) and not any(paths):
            paths.append(link(client.get(link(client.root, service)), key))
    return [path for path in paths if path]


def _is_dells_wait(resource: Resource) -> bool:
    codes = [text(m, "MessageId") for m in rows(resource, "Messages")]
    return number(resource, "PercentComplete") == 0 and any(code.endswith("JCP001") for code in codes)
