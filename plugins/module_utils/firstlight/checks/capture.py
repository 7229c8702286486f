"""Run what the checks read: commands, files, local HTTP. Each with its own time limit and bounded output.

Files and file systems are read by a child process too: a read that a dying drive never answers can then be left
behind. So can the thread that starts a child: a program on such a drive never begins. Nothing here judges. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple, Union

# What can go wrong with a reading; each is the last part of an ``unknown`` finding's symptom.
TIMED_OUT = "timed_out"
NO_TOOL = "no_tool"
NOT_PERMITTED = "not_permitted"
TOO_MUCH = "too_much_output"
REFUSED = "refused"
FAILED = "failed"

KEPT_ERRORS = 8192
GRACE_SECONDS = 0.25  # for output of children that outlive the command
REAP_SECONDS = 0.5
LATE_SECONDS = 2.0  # after its limit what runs a source has said so; else it hangs itself, and is left behind
AT_ONCE = 64
PATH_ALWAYS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# LANG=C fixes these texts; the tools have no exit code of their own for them.
_DENIED = ("operation not permitted", "permission denied", "insufficient permissions", "must be root", "must be run as")

_READER = r"""
import glob, json, sys
files, errors = {}, {}
for pattern in sys.argv[1:]:
    for path in sorted(glob.glob(pattern))[:1000] or ([] if glob.has_magic(pattern) else [pattern]):
        try:
            with open(path, "rb") as f:
                files[path] = f.read(524288).decode("utf-8", "replace")
        except OSError as error:
            errors[path] = error.strerror or "error"
print(json.dumps({"files": files, "errors": errors}))
"""

_USAGE = r"""
import json, os, sys
found = {}
for path in sys.argv[1:]:
    try:
        s, device = os.statvfs(path), os.stat(path).st_dev
        found[path] = {"device": device, "size": s.f_blocks * s.f_frsize, "available": s.f_bavail * s.f_frsize,
                       "used": (s.f_blocks - s.f_bfree) * s.f_frsize, "inodes": s.f_files, "inodes_free": s.f_ffree}
    except OSError as error:
        found[path] = {"error": error.strerror or "error"}
print(json.dumps(found))
"""


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# What runs now, by process group; whether nothing may be started any more; the signals that said so. Without a lock: a
# signal's handler runs between any two steps of the main thread, and would wait for itself.
_running: Set[int] = set()
_ended = threading.Event()
_signals: List[str] = []


class Ended(KeyboardInterrupt):
    """A signal ended this process's work; its text is the signal's name."""


def end_on_signals() -> None:
    """From now on a signal of ENDING kills every command that runs, and ``run_all`` raises Ended.

    Not the handler: what it raises amid a lock of the pool would leave that locked, and its threads waiting for ever.
    Commands are in sessions of their own: nothing else would end them. What is ignored (nohup) stays so.
    """
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end_all)


def _end_all(number: int, frame: Optional[FrameType]) -> None:
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)  # the way out is short, and not to be left half way
    _signals.append(signal.Signals(number).name)
    _ended.set()
    for group in list(_running):
        _kill(group)


def stop_if_ended() -> None:
    """Raise Ended where a signal has come."""
    if _signals:
        raise Ended(_signals[0])


def own_user() -> Dict[str, Any]:
    """For Popen: the user that we are, so that it does not use vfork, which up to Python 3.11.3 stops all threads of
    this process until the program has begun: for ever, where its drive hangs."""
    return {"user": os.geteuid()} if sys.version_info >= (3, 10) else {}


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True)
class Command:
    """One command. limit: seconds. keep: ``head`` ends it at ``max_bytes`` of output, ``tail`` keeps the last.

    alone: it loads the host, so that whatever is read beside it would look ill; nothing is.
    """

    argv: Tuple[str, ...]
    limit: float = 10.0
    max_bytes: int = 1024 * 1024
    keep: str = "head"
    alone: bool = False


@dataclass(frozen=True)
class Get:
    """One HTTP GET. address: ``127.0.0.1:9100``, or a Unix socket's path. Only the first ``max_bytes`` are read."""

    address: str
    path: str
    limit: float = 5.0
    max_bytes: int = 256 * 1024


Source = Union[Command, Get]


# what kind of container or virtual machine the host is; "none" with exit status 1 where it is none
CONTAINER = Command(("systemd-detect-virt", "--container"))
VIRTUAL_MACHINE = Command(("systemd-detect-virt", "--vm"))


def inside(output: Output) -> bool:
    """Whether CONTAINER or VIRTUAL_MACHINE says that the host is one."""
    return not output.problem and output.text.strip() not in ("", "none")


def read_files(*patterns: str, limit: float = 5.0) -> Command:
    """Read these files (globs); prints ``{"files": {path: text}, "errors": {path: reason}}``."""
    return Command((sys.executable or "python3", "-I", "-S", "-c", _READER, *patterns), limit, 4 * 1024 * 1024)


def file_systems(*paths: str, limit: float = 5.0) -> Command:
    """statvfs of these paths; prints by path device, size, available, used (bytes), inodes, inodes_free; or error."""
    return Command((sys.executable or "python3", "-I", "-S", "-c", _USAGE, *paths), limit)


@dataclass(frozen=True)
class Output:
    """What a source gave. code: exit status or HTTP status. problem: empty, or one of the words above."""

    text: str = ""
    errors: str = ""
    code: int = 0
    problem: str = ""
    truncated: bool = False
    seconds: float = 0.0


class _Kept:
    """The first or last bytes of a stream."""

    def __init__(self, limit: int, keep: str) -> None:
        self.limit, self.keep, self.data, self.truncated = limit, keep, bytearray(), False

    def add(self, data: bytes) -> bool:
        """False when the stream has to be cut off here."""
        self.data += data
        if len(self.data) <= self.limit:
            return True
        self.truncated = True
        if self.keep == "tail":
            del self.data[: len(self.data) - self.limit]
            return True
        del self.data[self.limit :]
        return False

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def environment() -> Dict[str, str]:
    """This process's environment with the C locale and a PATH that has the administrator's folders."""
    path = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    path += [p for p in PATH_ALWAYS if p not in path]
    return {**os.environ, "LANG": "C", "LC_ALL": "C", "PATH": os.pathsep.join(path)}


def run_command(command: Command) -> Output:
    """Run one command; at its time limit its whole process group is killed. Never raises for what the command does."""
    started = time.monotonic()
    if _ended.is_set():
        return Output(errors="not run: a signal ended the checks", code=-1, problem=FAILED)
    try:
        process = subprocess.Popen(
            list(command.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd="/",
            start_new_session=True,
            **own_user(),
        )
    except FileNotFoundError:
        return Output(errors=f"{command.argv[0]}: not found", code=127, problem=NO_TOOL)
    except PermissionError:
        return Output(errors=f"{command.argv[0]}: may not be run", code=126, problem=NOT_PERMITTED)
    except OSError as error:
        return Output(errors=f"{command.argv[0]}: {error.strerror}", code=126, problem=FAILED)
    _running.add(process.pid)
    if _ended.is_set():  # it came while this one began
        _kill(process.pid)
    out, err = _Kept(command.max_bytes, command.keep), _Kept(KEPT_ERRORS, "tail")
    try:
        problem = _collect(process, started + command.limit, out, err)
    finally:
        _end(process)
        _running.discard(process.pid)
    code = process.returncode if process.returncode is not None else -int(signal.SIGKILL)
    said = (err.text() + out.text()[-2000:]).lower()
    if not problem and code and any(words in said for words in _DENIED):
        problem = NOT_PERMITTED
    return Output(out.text(), err.text(), code, problem, out.truncated, time.monotonic() - started)


def _collect(process: "subprocess.Popen[bytes]", deadline: float, out: _Kept, err: _Kept) -> str:
    """Read both streams until the command ended; returns the problem, if any."""
    ended = None
    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, out), (process.stderr, err)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, kept)
        while selector.get_map():
            now = time.monotonic()
            if now >= deadline:
                return TIMED_OUT
            if ended is None and process.poll() is not None:
                ended = now
            if ended is not None and now - ended > GRACE_SECONDS:
                return ""  # something it started still holds the pipe: not waited for
            for key, _ in selector.select(min(0.05, deadline - now)):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                elif not key.data.add(data):
                    return TOO_MUCH
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    return ""


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the command's process group; a process stuck in the kernel is left behind."""
    _kill(process.pid)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP_SECONDS)


def http_get(get: Get) -> Output:
    """One HTTP/1.0 GET to this host, bounded in time and size; no proxy, no redirect."""
    started = time.monotonic()
    deadline = started + get.limit
    data = bytearray()
    try:
        with _connect(get) as sock:
            sock.sendall(f"GET {get.path} HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode("ascii"))
            while len(data) < get.max_bytes:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise socket.timeout
                sock.settimeout(left)
                chunk = sock.recv(65536)
                if not chunk:
                    break
                data += chunk
    except socket.timeout:
        return Output(errors=f"no answer in {get.limit:g} s", problem=TIMED_OUT, seconds=time.monotonic() - started)
    except (ConnectionError, FileNotFoundError) as error:
        return Output(errors=error.strerror or str(error), problem=REFUSED, seconds=time.monotonic() - started)
    except PermissionError as error:
        return Output(errors=error.strerror or "", problem=NOT_PERMITTED, seconds=time.monotonic() - started)
    except (OSError, ValueError) as error:
        return Output(errors=str(error), problem=FAILED, seconds=time.monotonic() - started)
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].decode("latin-1").split()
    seconds = time.monotonic() - started
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        return Output(errors="the answer is not HTTP", problem=FAILED, seconds=seconds)
    text = body.decode("utf-8", "replace")
    return Output(text, "", int(words[1][:3]), "", len(data) >= get.max_bytes, seconds)


def _connect(get: Get) -> socket.socket:
    if get.address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(get.limit)
        try:
            sock.connect(get.address)
        except BaseException:
            sock.close()
            raise
        return sock
    host, _, port = get.address.rpartition(":")
    return socket.create_connection((host, int(port)), get.limit)


def run_all(sources: Iterable[Source], limit: float) -> Dict[Source, Output]:
    """Run all sources at once, equal ones once, and then one by one those that must be ``alone``.

    None takes longer than ``limit`` seconds, or little more where it cannot even be begun or ended: then its thread is
    left behind, which holds up neither the others nor the end of this process.
    """
    unique: List[Source] = list(dict.fromkeys(sources))
    alone: List[Source] = [source for source in unique if isinstance(source, Command) and source.alone]
    together = [source for source in unique if source not in alone]
    outputs: Dict[Source, Output] = {}
    for some, at_once in ((together, AT_ONCE), (alone, 1)):
        outputs.update(_run_some(some, at_once, limit))
        stop_if_ended()
    return outputs


def _run_some(sources: List[Source], at_once: int, limit: float) -> Dict[Source, Output]:
    # also a single one is not run by this thread: it handles signals, and one that comes while it starts a process
    # would leave that behind; and the threads are daemons, since Python waits at its end for all others
    outputs: Dict[Source, Output] = {}
    done: "queue.Queue[Tuple[Source, Output]]" = queue.Queue()
    waiting, running = list(reversed(sources)), {}  # type: List[Source], Dict[Source, Tuple[float, float]]
    while waiting or running:
        while waiting and len(running) < at_once:
            source = waiting.pop()
            now = time.monotonic()
            running[source] = (now, now + min(source.limit, limit) + LATE_SECONDS)
            threading.Thread(target=_run, args=(source, limit, done), daemon=True).start()
        # short, since a signal's handler wakes nobody
        with contextlib.suppress(queue.Empty):
            source, output = done.get(timeout=0.2)
            if source in running:  # else it was given up
                outputs[source] = output
                del running[source]
        now = time.monotonic()
        if _ended.is_set():  # all is killed, and nothing more begins: what does not end now does not end
            waiting.clear()
            running = {source: (since, min(end, now + LATE_SECONDS)) for source, (since, end) in running.items()}
        for source, (since, end) in list(running.items()):
            if now >= end:
                said = "could be neither begun nor ended; left behind"
                outputs[source] = Output(errors=said, code=-1, problem=TIMED_OUT, seconds=now - since)
                del running[source]
    return outputs


def _run(source: Source, limit: float, done: "queue.Queue[Tuple[Source, Output]]") -> None:
    values: Dict[str, Any] = {**vars(source), "limit": min(source.limit, limit)}
    try:
        output = run_command(Command(**values)) if isinstance(source, Command) else http_get(Get(**values))
    except Exception as error:  # of this source alone
        output = Output(errors=f"{type(error).__name__}: {error}", code=-1, problem=FAILED)
    done.put((source, output))
