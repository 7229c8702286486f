"""Dell's support data (a SupportAssist collection, TSR) from an iDRAC: asked for, waited for, brought here.

An iDRAC collects for minutes, as a job, and then has the file at a place that its job names. Nothing of the server is
touched. Its licence is the site's to accept: never by itself.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..findings import Finding
from .client import ROOT, BmcClient, Resource
from .control import PAUSE, Change, Say, manager_of, silent, system_of
from .errors import HalfAnswering, Refused
from .jobs import DONE, Job, job_for, unfinished_jobs, wait_for_job
from .values import dig, link, rows, text

CHECK = "support_data"
DATA = ("HWData",)  # what Dell's support asks for first, and takes some minutes
MAX_BYTES = 512 * 1024 * 1024
SECONDS = 1800.0
PLACE = f"{ROOT}/Dell/sacollect.zip"  # where an iDRAC has it that does not say where
_ACCEPTED = "SRV074"  # the last part of a MessageId: "... is accepted by iDRAC user ..."
_NOT_ACCEPTED = "SRV085"
_NAME = re.compile(r"[A-Za-z0-9]{1,20}")


@dataclass(frozen=True)
class Wanted:
    """folder: where the file goes. data: kinds of data, in Dell's words. seconds: that the job may take.

    accept_eula: whether Dell's licence may be accepted. most: bytes that the file may have.
    """

    folder: Path
    data: tuple[str, ...] = DATA
    accept_eula: bool = False
    seconds: float = SECONDS
    most: int = MAX_BYTES


def collect(
    client: BmcClient, wanted: Wanted, check: bool = False, note: Say = silent, say: Say = silent, pause: float = PAUSE
) -> Change:
    """Collect support data and save it as TAG-TIME.zip, whole or not at all. after: the file's path.

    A BMC that has no such thing is a warning. A collection that runs already is waited for, and none begun beside it.
    note: called before the licence is accepted; say: with lines of progress.
    """
    service = _service(client)
    offered = dig(service, "Actions", "#DellLCService.SupportAssistCollection")
    target = text(offered, "target")
    shares = dig(offered, "ShareType@Redfish.AllowableValues")
    if not target or (isinstance(shares, list) and "Local" not in shares):
        return _without(client, say)
    kinds = dig(offered, "DataSelectorArrayIn@Redfish.AllowableValues")
    strange = [kind for kind in wanted.data if isinstance(kinds, list) and kind not in kinds]
    if strange:
        raise Refused(f"does not collect {', '.join(strange)}: it offers {', '.join(map(str, kinds))}")
    if not _is_accepted(client, service):
        if not wanted.accept_eula:
            return _failed(
                "bmc.support_eula",
                "Dell's licence for SupportAssist is not accepted on it; read it (iDRAC, Maintenance, SupportAssist), "
                "and accept it there or by -e support_accept_eula=true",
            )
        if not check:
            note("accept Dell's licence for SupportAssist (EULA)")
            client.post(text(service, "Actions", "#DellLCService.SupportAssistAcceptEULA", "target"), {})
    if check:
        return Change(True, None, f"{wanted.folder}/{_tag(client)}-TIME.zip")
    job = _job(client, target, wanted, say, pause)
    if not job.ended:
        return _failed("support_data.unfinished", f"not done after {wanted.seconds:g} s: {job}", "retry")
    # with errors it is done too, for something may be broken in what it reads; the file says what there is
    if job.state != DONE and "witherrors" not in _word(client.get(job.path)):
        return _failed("support_data.failed", str(job), "retry")
    return _save(client, client.leads_to(job.path) or PLACE, wanted, say)


def _job(client: BmcClient, target: str, wanted: Wanted, say: Say, pause: float) -> Job:
    running = next((job for job in unfinished_jobs(client) if job.about("SupportAssist")), None)
    if running is not None:
        say(f"a collection runs already: {running}")
        path = running.path
    else:
        try:
            body = client.post(target, {"ShareType": "Local", "DataSelectorArrayIn": list(wanted.data)})
        except Refused as error:
            if _NOT_ACCEPTED in error.codes:
                raise Refused(f"{error.evidence}; -e support_accept_eula=true accepts it", error.status) from None
            raise
        path = client.location or link(body)
        if not path:
            raise HalfAnswering(f"POST {target}: accepted, without a job to watch")
        path = job_for(client, path)
    return wait_for_job(client, path, wanted.seconds, say=say, pause=pause)


def _service(client: BmcClient) -> Resource:
    """The iDRAC's Lifecycle service, {} where there is none."""
    path = link(manager_of(client)[1], "Links", "Oem", "Dell", "DellLCService")
    try:
        return client.get(path) if path else {}
    except Refused as error:
        if error.status in (404, 405):
            return {}
        raise


def _is_accepted(client: BmcClient, service: Resource) -> bool:
    """Whether the licence is accepted; where the iDRAC does not tell, its refusal will."""
    target = text(service, "Actions", "#DellLCService.SupportAssistGetEULAStatus", "target")
    if not target:
        return True
    codes = [
        text(row, "MessageId").rsplit(".", 1)[-1] for row in rows(client.post(target, {}), "@Message.ExtendedInfo")
    ]
    return _ACCEPTED in codes


def _word(job: Resource) -> str:
    return re.sub(r"[^a-z]", "", (text(job, "JobState") or text(job, "Oem", "Dell", "JobState")).lower())


def _tag(client: BmcClient) -> str:
    """The server's service tag, as a part of a file's name: what a BMC says is a stranger's."""
    said = text(system_of(client)[1], "SKU")
    return said if _NAME.fullmatch(said) else client.name or "no-tag"


def _save(client: BmcClient, path: str, wanted: Wanted, say: Say) -> Change:
    name = f"{_tag(client)}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.zip"
    target, fresh = wanted.folder / name, None
    try:
        wanted.folder.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix=f".{name}.", dir=wanted.folder)  # 0600
        with os.fdopen(handle, "wb") as file:
            size = client.download(path, _writer(file), wanted.most)
            file.flush()
            os.fsync(file.fileno())
        if not zipfile.is_zipfile(fresh):
            return _failed("support_data.not_zip", f"GET {path}: {size} bytes that are no zip file", "retry")
        Path(fresh).replace(target)
    except _NotWritten as error:
        return _failed("support_data.not_written", str(error), "escalate")
    except OSError as error:
        return _failed("support_data.not_written", f"{wanted.folder}: {error.strerror}", "escalate")
    finally:
        if fresh:
            Path(fresh).unlink(missing_ok=True)
    say(f"{target}: {size} bytes")
    return Change(True, None, str(target), (Finding(CHECK, "ok", CHECK, "BMC", f"{target}, {size} bytes"),))


class _NotWritten(Exception):
    """This machine could not write: not to be taken for the connection's fault."""


def _writer(file: BinaryIO) -> Callable[[bytes], None]:
    def write(block: bytes) -> None:
        try:
            file.write(block)
        except OSError as error:
            raise _NotWritten(f"{file.name}: {error.strerror}") from None

    return write


def _without(client: BmcClient, say: Say) -> Change:
    model = text(manager_of(client)[1], "Model") or "this BMC"
    evidence = f"{model} has no support data to collect over Redfish; take it from its own web page"
    say(evidence)
    return Change(False, None, None, (Finding(CHECK, "warn", "bmc.no_support_data", "BMC", evidence, "none"),))


def _failed(symptom: str, evidence: str, action: str = "escalate") -> Change:
    return Change(False, None, None, (Finding(CHECK, "fail", symptom, "BMC", evidence, action),))


def data_named(words: Sequence[str]) -> tuple[str, ...]:
    """Kinds of data as an option has them; ValueError names one that can be none."""
    for word in words:
        if not re.fullmatch(r"[A-Za-z]{1,40}", word):
            raise ValueError(f"{word!r} is no kind of data such as HWData, TTYLogs or DebugLogs")
    return tuple(words) or DATA
