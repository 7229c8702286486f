"""Firmware update from a local file over the UpdateService: pushed, watched, read back."""

from __future__ import annotations

import io
import json
import re
import secrets
import threading
import time
from typing import Any, BinaryIO

from ..findings import Finding
from .client import BmcClient, Resource
from .control import PAUSE, Change, Say, again, silent, until_true
from .errors import Refused
from .fetch import read_collection
from .image import Choice, Image, choose, installed
from .jobs import FAILED, SCHEDULED, Job, job_for, unfinished_jobs, wait_for_job
from .power import power
from .values import dig, link, number, text

WHEN = ("next_boot", "now")
APPLY = {"next_boot": "OnReset", "now": "Immediate"}
UPLOAD_SECONDS = 600.0  # a BMC checks the whole file before it answers
AWAY_SECONDS = 900.0  # it restarts after an update of itself
GRACE_SECONDS = 120.0
SETTLE = 15  # looks that a BMC gets to restart after an update of itself
READ_BACK_SECONDS = 300.0  # its inventory follows late
_BMC = re.compile(r"^(idrac|ilo|bmc|xcc)\b", re.I)


def update_firmware(
    client: BmcClient,
    image: Image,
    *,
    component: str = "",
    when: str = "next_boot",
    downgrade: bool = False,
    wait: float = 3600.0,
    check: bool = False,
    note: Say = silent,
    say: Say = silent,
    pause: float = PAUSE,
    slots: threading.Semaphore | None = None,
    grace: float = GRACE_SECONDS,
) -> Change:
    """Bring a server's firmware to the image's version. before, after: version by device.

    when: ``next_boot``, or ``now``: then the BMC restarts the server where the part needs it. What concerns the BMC
    alone is done at once in both cases. wait: seconds for the job. slots: how many upload at a time. grace: seconds
    that a BMC has to restart the server by itself before it is restarted from here.
    """
    choice = choose(image, component, _installed(client), downgrade)
    before, after = choice.before, choice.after
    if choice.refused:
        return Change(False, before, before, (choice.refused,))
    if not choice.replaces:
        found = Finding("firmware", "ok", "firmware", component, f"version {image.version} is installed")
        return Change(False, before, before, (found,))
    jobs = [job for job in unfinished_jobs(client) if job.about("update", "firmware")]
    ours = next(
        (
            job
            for job in jobs
            if job.about(*(word for s in choice.replaces for word in (s.name, s.device.partition(".")[0]) if word))
        ),
        None,
    )
    running = next((job for job in jobs if job.state != SCHEDULED), None)
    if running:
        finding = _fail("job_pending", running.id, f"{running}; one update at a time", "wait")
        return Change(False, before, before, (finding,))
    if ours and when != "now":
        return Change(False, before, before, (_waits(ours),))
    service, refused = _service(client, image, when)
    if refused:
        return Change(False, before, before, (refused,))
    if check:
        return Change(True, before, after)
    if ours:
        power(client, "restart", note=note)
        path = ours.path
    else:
        devices = ", ".join(f"{s.device} {s.version} -> {image.version}" for s in choice.replaces)
        note(f"firmware: {devices} from {image.path.name} (SHA-256 {image.sha256[:16]}…), {when}")
        with slots or threading.Semaphore():
            path = _push(client, service, image, when, say)
        if when == "now" and path:  # some BMCs restart the server by themselves, some leave it to us
            job = wait_for_job(client, path, wait, say=say, pause=pause, until=(SCHEDULED,), away_seconds=AWAY_SECONDS)
            if job.state == SCHEDULED and not until_true(lambda: _begun(client, path, pause), grace, pause):
                power(client, "restart", note=note)
    return Change(True, before, after, _outcome(client, path, choice, when, wait, say, pause))


def _begun(client: BmcClient, path: str, pause: float) -> bool:
    return wait_for_job(client, path, 0, pause=pause, away_seconds=AWAY_SECONDS).state != SCHEDULED


def _outcome(
    client: BmcClient, path: str, choice: Choice, when: str, wait: float, say: Say, pause: float
) -> tuple[Finding, ...]:
    if path:
        until = (SCHEDULED,) if when == "next_boot" else ()
        job = wait_for_job(client, path, wait, say=say, pause=pause, until=until, away_seconds=AWAY_SECONDS)
        if job.state == FAILED:
            return (_fail("job_failed", job.id, str(job), "escalate"),)
        if job.state == SCHEDULED and when == "next_boot":
            return (_waits(job),)
        if not job.ended:
            return (_fail("job_unfinished", job.id, f"{job} after {wait:g} s", "reset_bmc"),)
    wanted = choice.after

    def versions() -> dict[str, str]:
        there = again(client, lambda: _installed(client), AWAY_SECONDS, pause)
        return {s.device: s.version for s in there if s.device in wanted}

    say(f"reads back {', '.join(wanted)}")
    if any(_BMC.match(device) for device in wanted):
        time.sleep(SETTLE * pause)  # its job can end, and its new version be told, right before it restarts
    if until_true(lambda: versions() == wanted, min(READ_BACK_SECONDS, wait), pause):
        told = ", ".join(f"{device} {version}" for device, version in wanted.items())
        return (Finding("firmware", "ok", "firmware", "", f"{told} reads back"),)
    still = ", ".join(f"{device} is {version}" for device, version in versions().items()) or "nothing is told"
    return (_fail("not_applied", ", ".join(wanted), f"the update ended well, and {still}", "reset_bmc"),)


def _installed(client: BmcClient) -> list[Any]:
    path = link(client.root, "UpdateService")
    if not path:
        raise Refused("the BMC has no UpdateService")
    return installed(read_collection(client, link(client.get(path), "FirmwareInventory")))


def _service(client: BmcClient, image: Image, when: str) -> tuple[Resource, Finding | None]:
    """The UpdateService, and why it cannot take this image so."""
    service = client.get(link(client.root, "UpdateService"))
    most = number(service, "MaxImageSizeBytes")
    if not text(service, "MultipartHttpPushUri") and not text(service, "HttpPushUri"):
        return service, _fail("no_push", "BMC", "its UpdateService takes no file that is pushed", "escalate")
    if dig(service, "ServiceEnabled") is False:
        return service, _fail("no_push", "BMC", "its UpdateService is switched off", "escalate")
    if most and image.size > most:
        return service, _fail("no_push", "BMC", f"it takes {most} bytes at most, the file has {image.size}", "escalate")
    if when == "next_boot" and APPLY[when] not in _apply_times(service):
        evidence = "it does not offer to wait for the next boot; say apply: now to have it done at once"
        return service, _fail("no_apply_time", "BMC", evidence, "escalate")
    return service, None


def _apply_times(service: Resource) -> list[str]:
    """When it offers to do an update; Dell says so at SimpleUpdate, the standard beside the push URI."""
    actions = dig(service, "Actions", "#UpdateService.SimpleUpdate")
    for node, key in (
        (service, "MultipartHttpPushUri@Redfish.OperationApplyTimeSupport"),
        (dig(service, "HttpPushUriOptions", "HttpPushUriApplyTime"), "ApplyTime@Redfish.AllowableValues"),
        (service, "@Redfish.OperationApplyTimeSupport"),
        (actions, "@Redfish.OperationApplyTimeSupport"),
    ):
        offered = dig(node, key)
        offered = dig(offered, "SupportedValues") if isinstance(offered, dict) else offered
        if isinstance(offered, list):
            return [str(time) for time in offered]
    return []


def _push(client: BmcClient, service: Resource, image: Image, when: str, say: Say) -> str:
    """Send the file; the path of the job that installs it, "" where the BMC names none."""
    apply = {"@Redfish.OperationApplyTime": APPLY[when]} if APPLY[when] in _apply_times(service) else {}
    multipart, plain = text(service, "MultipartHttpPushUri"), text(service, "HttpPushUri")
    mark = secrets.token_hex(16)
    form = f"multipart/form-data; boundary={mark}"
    with image.path.open("rb") as file:
        if multipart:
            stream = Upload(file, image.size, say, *_form(image.path.name, mark, {"Targets": [], **apply}))
            body = client.upload(multipart, stream, form, UPLOAD_SECONDS)
        elif plain == link(service, "FirmwareInventory"):  # Dell's older way: a form, added to a collection
            stream = Upload(file, image.size, say, *_form(image.path.name, mark))
            body = client.upload(plain, stream, form, UPLOAD_SECONDS, client.etag(plain))
        else:
            stream = Upload(file, image.size, say)
            body = client.upload(plain, stream, "application/octet-stream", UPLOAD_SECONDS)
    path = client.location or link(body)
    if "/FirmwareInventory/" not in path:
        return job_for(client, path) if path else ""
    # It only keeps the file, under this path (Dell before 4.0); installing it is an action.
    target = text(service, "Actions", "#UpdateService.SimpleUpdate", "target")
    if not target:
        raise Refused(f"keeps the file as {path} and offers no SimpleUpdate to install it")
    body = client.post(target, {"ImageURI": path, **apply})
    path = client.location or link(body)
    return job_for(client, path) if path else ""


class Upload:
    """A file with a beginning and an end around it, read block by block; tells how far it is."""

    def __init__(self, file: BinaryIO, size: int, say: Say, head: bytes = b"", tail: bytes = b"") -> None:
        self._parts: list[BinaryIO] = [io.BytesIO(head), file, io.BytesIO(tail)]
        self._length = len(head) + size + len(tail)
        self._sent = self._told = 0
        self._say = say

    def __len__(self) -> int:
        return self._length

    def read(self, count: int = 65536) -> bytes:
        while self._parts:
            block = self._parts[0].read(count)
            if block:
                self._sent += len(block)
                quarter = 4 * self._sent // self._length
                if quarter > self._told:
                    self._told = quarter
                    self._say(f"sent {25 * quarter} % of {self._length / 1e6:.1f} MB")
                return block
            self._parts.pop(0)
        return b""


def _form(name: str, mark: str, parameters: Resource | None = None) -> tuple[bytes, bytes]:
    """What stands before and after the file in a multipart form: the standard's, with parameters, or Dell's."""
    name = "".join(c if c.isalnum() or c in "._-+" else "_" for c in name)
    head = (
        ""
        if parameters is None
        else (
            f'--{mark}\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n'
            f"Content-Type: application/json\r\n\r\n{json.dumps(parameters)}\r\n"
        )
    )
    head += (
        f'--{mark}\r\nContent-Disposition: form-data; name="{"file" if parameters is None else "UpdateFile"}"; '
        f'filename="{name}"\r\nContent-Type: application/octet-stream\r\n\r\n'
    )
    return head.encode(), f"\r\n--{mark}--\r\n".encode()


def _waits(job: Job) -> Finding:
    return Finding("firmware", "warn", "firmware.waits_for_boot", job.id, f"{job}; done at the server's next boot")


def _fail(symptom: str, locator: str, evidence: str, action: str) -> Finding:
    return Finding("firmware", "fail", f"firmware.{symptom}", locator, evidence, action)
