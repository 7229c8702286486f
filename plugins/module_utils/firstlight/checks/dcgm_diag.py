"""NVIDIA's diagnostic of every GPU, ``dcgmi diag``: what it computes, copies and remembers is compared and measured.

It needs the GPUs for itself, minutes long: it is not run where jobs may run (``expect.gpu_processes`` with ``*``), nor
while there is any process on a GPU, or memory in use, as by one in a container. ``expect.dcgm_diag_level`` is as NVIDIA
counts: 1 software alone, 2 memory and PCIe too, 3 load, power and bandwidth too. A banner that says "Pass" is not
believed: each test of each GPU counts, and so do warnings of tests that passed. Read: the JSON of DCGM 2.4 to 4.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..findings import ACTIONS, Finding
from ..profile import Profile
from .capture import TIMED_OUT, Command, Source
from .engine import Captured, Check, Expect, asked, not_known, ok, unknown, unreadable
from .gpu import QUERY, expected, read_log
from .gpu_running import MEMORY_USED_MIB, wanted

NAME = "dcgm_diag"
DEFAULT_LEVEL = 2
SECONDS = {1: 300.0, 2: 900.0, 3: 3300.0}  # NVIDIA: seconds, two minutes, a quarter of an hour; more on eight GPUs
_STOPPED = 124  # exit status of the reader: the diagnostic did not end in time
_RESULTS_MAX, _NOTES_MAX, _WORDS_MAX = 20_000, 20, 300

# Prints what dcgmi prints, and ends as it does; or {"problem", "said"}, {"processes": [names], "count"}, {"memory": MiB
# of the fullest GPU}, and nothing was run.
# dcgmi is told to stop before anything kills it: the tests run in its host engine, and would go on without it.
_SCRIPT = r"""
import json, re, signal, subprocess, sys
level, limit, most = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
def end(**said):
    print(json.dumps(said))
    sys.exit(0)
def lost(tool, error):
    missing = isinstance(error, FileNotFoundError)
    end(problem="no_tool" if missing else "failed", said="%s: %s" % (tool, "not found" if missing else error))
try:
    asked = subprocess.run(["nvidia-smi", "-q", "-x"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=60)
except (OSError, subprocess.SubprocessError) as error:
    lost("nvidia-smi", error)
if asked.returncode:
    end(problem="failed", said="nvidia-smi -q: exit status %d: %s" % (asked.returncode,
        (asked.stdout + asked.stderr)[:300].decode("utf-8", "replace")))
names = re.findall(rb"<process_name>([^<]{0,200})", asked.stdout)
if names:
    end(processes=[name.decode("utf-8", "replace") for name in names[:20]], count=len(names))
used = [int(mib) for mib in re.findall(rb"<fb_memory_usage>.{0,400}?<used>([0-9]{1,9}) MiB", asked.stdout, re.S)]
if max(used + [0]) > most:
    end(memory=max(used))
# a tool started in the background, as by a timer's script, would not hear it
signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    tool = subprocess.Popen(["dcgmi", "diag", "-r", level, "-j"], stdin=subprocess.DEVNULL)
except OSError as error:
    lost("dcgmi", error)
try:
    code = tool.wait(limit)
except subprocess.TimeoutExpired:
    tool.send_signal(signal.SIGINT)
    try:
        tool.wait(30)
    except subprocess.TimeoutExpired:
        tool.kill()
    sys.exit(124)
sys.exit(code if code >= 0 else 128 - code)
"""

# What to do about DCGM's errors (numbers and advice are those of its dcgm_errors.h); others are for a person.
_ACTIONS = {
    **dict.fromkeys((47, 56, 130), "retry"),  # stopped, no memory free, asks to be run again
    **dict.fromkeys((4, 6, 57, 83, 84, 85, 103, 106), "reboot"),  # memory errors that a reset repairs or confines
    **dict.fromkeys((81, 101, 125, 126, 127, 128), "reboot"),  # Xids; the GPU asks for a reset
    **dict.fromkeys((13, 14, 15, 70, 71, 88, 99, 100, 108, 109, 112, 115, 116, 119, 121, 123), "reboot"),  # NVLink
    23: "reboot",  # nouveau has the GPU
    120: "power_cycle",  # fell off the bus
    **dict.fromkeys((3, 30, 31, 45, 46, 98, 104, 107, 113, 114), "reseat"),  # PCIe
    **dict.fromkeys((7, 8, 9, 52, 58, 79, 80, 95, 111, 118, 132), "replace"),  # memory, infoROM, field diagnostic
}
_BY_TEST = {"memory": "replace", "gpu memory": "replace", "memtest": "replace", "pcie": "reseat"}  # without a number
_BUSY = re.compile(r"already running|in use|are paused|is paused", re.IGNORECASE)
_BANDWIDTH = re.compile(r"(GPU to Host|Host to GPU) bandwidth:\s{0,8}([0-9]{1,5}(?:\.[0-9]{1,6})?) GB/s")


@dataclass(frozen=True)
class Note:
    """What a test says of a part: DCGM's number of the error, 0 where it gives none."""

    words: str
    error: int = 0


@dataclass(frozen=True)
class Tested:
    """One test of one part. part: ``GPU 3`` in DCGM's counting, ``CPU 0``, or empty for the whole host.

    status: pass, fail, warn, skip, or another word. basic: a test of software and settings. told: its measurements.
    """

    test: str
    part: str
    status: str
    notes: Tuple[Note, ...] = ()
    basic: bool = False
    told: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Diag:
    """What ``dcgmi diag -j`` said. serials: by part. error: why it did not run, else empty."""

    tested: Tuple[Tested, ...] = ()
    serials: Tuple[Tuple[str, str], ...] = ()
    error: str = ""


def level(expect: Expect) -> int:
    """The level that the site asks for."""
    given = expect.get("dcgm_diag_level")
    return given if isinstance(given, int) and given in SECONDS else DEFAULT_LEVEL


def reads(profile: Profile, expect: Expect) -> Dict[str, Source]:
    if not expected(profile) and not asked(expect, NAME):
        return {}
    if wanted("", expect.get("gpu_processes")):  # a pattern for whatever runs: there may be a job
        return {"nvidia_smi": QUERY}
    limit, most = SECONDS[level(expect)], profile.limit("gpu_memory_used_mib", MEMORY_USED_MIB)
    words = (str(level(expect)), f"{limit:g}", f"{most:g}")
    argv = (sys.executable or "python3", "-I", "-S", "-c", _SCRIPT, *words)
    return {"nvidia_smi": QUERY, "diag": Command(argv, limit + 100, 4 * 1024 * 1024, alone=True)}


# ---------------------------------------------------------------- parsing


def _dicts(value: Any) -> Iterator[Dict[str, Any]]:
    """The mappings in a list; DCGM leaves null where a GPU did not run a test."""
    return (row for row in value if isinstance(row, dict)) if isinstance(value, list) else iter(())


def _text(value: Any) -> str:
    return str(value)[:_WORDS_MAX] if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _notes(value: Any) -> Tuple[Note, ...]:
    """Of ``warnings``: text, or mappings since 3.1 (their text is ``warning``, in some of 3.x ``warnings``)."""
    if isinstance(value, str):
        return (Note(_text(value)),) if value.strip() else ()
    found = []
    for row in value[: 4 * _NOTES_MAX] if isinstance(value, list) else ():
        number = row.get("error_id") if isinstance(row, dict) else None
        words = _text(row.get("warning") or row.get("warnings")) if isinstance(row, dict) else _text(row)
        if words:
            found.append(Note(words, number if isinstance(number, int) and 0 <= number < 100_000 else 0))
    return tuple(found[:_NOTES_MAX])


def _parts(row: Mapping[str, Any]) -> List[str]:
    """The parts that a result is of: one, or with ``gpu_ids`` several."""
    if "entity_group" in row:
        return [f"{_text(row['entity_group'])[:20]} {_text(row.get('entity_id'))[:20]}".strip()]
    for key, kind in (("gpu_id", "GPU"), ("gpu_ids", "GPU"), ("cpu_id", "CPU")):
        numbers = re.findall(r"[0-9]{1,4}", _text(row.get(key)))
        if numbers:
            return [f"{kind} {number}" for number in numbers]
    return [""]


def _results(test: Mapping[str, Any], basic: bool) -> Iterator[Tested]:
    name = _text(test.get("name"))[:60]
    seen: Set[Note] = set()
    for row in _dicts(test.get("results")):
        notes, info = _notes(row.get("warnings")), row.get("info")
        told = tuple(_text(line) for line in (info if isinstance(info, list) else [info])[:40])
        seen.update(notes)
        for part in _parts(row):
            yield Tested(name, part, _text(row.get("status")).strip().lower() or "not told", notes, basic, told)
    summary = test.get("test_summary")  # of DCGM 4: of the whole test, with what no part's result has
    if isinstance(summary, dict):
        rest = tuple(note for note in _notes(summary.get("warnings")) if note not in seen)
        if rest:
            yield Tested(name, "", _text(summary.get("status")).strip().lower(), rest, basic)


def _serials(said: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    older = said.get("GPU Device Serials")
    for number, serial in list(older.items())[:256] if isinstance(older, dict) else ():
        yield f"GPU {_text(number)[:20]}", _text(serial)[:60]
    for group in _dicts(said.get("entity_groups")):
        for row in _dicts(group.get("entities")):
            yield _parts({**row, "entity_group": group.get("entity_group")})[0], _text(row.get("serial_num"))[:60]


def parse_diag(text: str) -> Optional[Diag]:
    """The JSON of ``dcgmi diag -j``, whatever is printed around it; None when it is something else."""
    try:
        said = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except (ValueError, RecursionError):
        return None
    body = said.get("DCGM Diagnostic", said.get("DCGM GPU Diagnostic")) if isinstance(said, dict) else None
    if not isinstance(body, dict):
        return None
    tested: List[Tested] = []
    for category in _dicts(body.get("test_categories")):
        deployment = _text(category.get("category")).lower() == "deployment"
        for test in _dicts(category.get("tests")):
            tested += _results(test, deployment)
            if len(tested) > _RESULTS_MAX:
                return None
    serials = tuple((part, serial) for part, serial in _serials(said) if serial)
    error = body.get("runtime_error")
    ran = tuple(row for row in tested if row.status not in ("", "not run"))
    return Diag(ran, serials[:256], _text(error).strip()) if ran or error else None


# ---------------------------------------------------------------- judging


def judge(captured: Captured, profile: Profile, expect: Expect) -> List[Finding]:
    if "diag" not in captured:
        evidence = "not run: jobs may run here, and it needs the GPUs for itself"
        return [Finding(NAME, "warn", f"{NAME}.not_run", "", evidence)]
    output = captured["diag"]
    if output.problem:
        return not_known(NAME, output, "dcgmi diag")
    if output.code == _STOPPED:
        evidence = f"dcgmi diag -r {level(expect)} did not end within {SECONDS[level(expect)]:g} s, and was stopped"
        return [unknown(NAME, TIMED_OUT, evidence, action="retry")]
    refused = _refused(output.text, expect)
    if refused:
        return refused
    diag = parse_diag(output.text)
    if diag is None:
        return not_known(NAME, output, "dcgmi diag") if output.code else unreadable(NAME, output.text, "dcgmi diag")
    if diag.error:
        busy = bool(_BUSY.search(diag.error))
        reason, action = ("in_use", "retry") if busy else ("failed", "escalate")
        return [unknown(NAME, reason, f"dcgmi diag: {diag.error}", action=action)]
    places = _places(diag, captured)
    findings = [finding for row in diag.tested for finding in _judge_test(row, diag.tested, places)]
    findings += _untested(diag.tested, profile, level(expect))
    if findings:
        return findings
    if output.code:
        return not_known(NAME, output, "dcgmi diag")
    tests = {row.test for row in diag.tested if row.status == "pass"}
    return ok(NAME, f"level {level(expect)}: {len(_gpus(diag.tested))} GPUs passed {', '.join(sorted(tests))}")


def _refused(text: str, expect: Expect) -> List[Finding]:
    """What the reader said instead of running it; empty where it ran."""
    try:
        said = json.loads(text)
        problem, processes, memory = said.get("problem"), said.get("processes"), said.get("memory")
    except (ValueError, AttributeError, RecursionError):
        return []
    if problem:
        return [unknown(NAME, "no_tool" if problem == "no_tool" else "failed", _text(said.get("said")))]
    if isinstance(memory, int):
        evidence = f"not run: {_text(memory)} MiB of a GPU are in use, by no process that is seen here"
        return [unknown(NAME, "in_use", evidence, action="retry")]
    if not isinstance(processes, list):
        return []
    names = [_text(name) for name in processes[:20]]
    evidence = f"not run: processes on GPUs: {_text(said.get('count'))}, {', '.join(names[:5])}"
    if all(wanted(name, expect.get("gpu_processes")) for name in names):
        return [Finding(NAME, "warn", f"{NAME}.not_run", "", evidence)]
    return [unknown(NAME, "in_use", evidence, action="retry")]


def _places(diag: Diag, captured: Captured) -> Dict[str, str]:
    """Where DCGM's GPUs sit, by their serial numbers."""
    log = read_log(NAME, captured["nvidia_smi"])[0]
    by_serial = {gpu.get("serial"): gpu.locator for gpu in (log.gpus if log else ()) if gpu.get("serial")}
    return {part: by_serial[serial] for part, serial in diag.serials if serial in by_serial}


def _judge_test(row: Tested, every: Sequence[Tested], places: Mapping[str, str]) -> List[Finding]:
    locator = places.get(row.part) or (f"{row.part} of DCGM's" if row.part else "")
    words = "; ".join(f"{note.words} (error {note.error})" if note.error else note.words for note in row.notes)
    evidence = f"{row.test}: {words or row.status}"
    if row.status == "fail":
        return [Finding(NAME, "fail", "gpu.diag_failed", locator, evidence, _action(row))]
    if row.status == "warn" or (row.status == "pass" and row.notes):
        return [Finding(NAME, "warn", "gpu.diag_warning", locator, evidence)]
    if row.status == "pass":
        return []
    if row.status != "skip":
        return [unknown(NAME, "unreadable", f"{row.test}: status {row.status[:40]!r}", locator)]
    if row.part and any(other.test == row.test and other.status != "skip" for other in every):
        return [Finding(NAME, "warn", "gpu.diag_skipped", locator, f"{evidence}; other GPUs were tested")]
    return []


def _action(row: Tested) -> str:
    """The highest that its errors ask for; one that we do not know is for a person."""
    numbers = [note.error for note in row.notes if note.error]
    if not numbers:
        return _BY_TEST.get(row.test.lower(), "escalate")
    return max((_ACTIONS.get(number, "escalate") for number in numbers), key=ACTIONS.index)


def _gpus(tested: Sequence[Tested], basic: bool = True) -> List[str]:
    """The GPUs that some test was run on, in order; without ``basic`` those alone of which the hardware was."""
    names = {row.part for row in tested if row.part.startswith("GPU ") and row.status != "skip"}
    if not basic:
        names &= {row.part for row in tested if row.status != "skip" and not row.basic}
    return sorted(names, key=lambda name: (len(name), name))


def _untested(tested: Sequence[Tested], profile: Profile, depth: int) -> List[Finding]:
    """GPUs that no test was run on; level 1 has none of the hardware, and before DCGM 4 none of a GPU."""
    ran = [row for row in tested if row.status != "skip" and (depth == 1 or not row.basic)]
    if not ran:
        notes = [note.words for row in tested for note in row.notes]
        return [unknown(NAME, "all_skipped", f"no test was run: {notes[0] if notes else 'all are skipped'}")]
    gpus, count = _gpus(tested, depth == 1), profile.count("gpus")
    if len(gpus) >= count or (depth == 1 and not gpus):
        return []
    evidence = f"{len(gpus)} of {count} GPUs were tested: {', '.join(gpus) or 'none'}"
    return [unknown(NAME, "not_tested", evidence, f"{count - len(gpus)} of {count} GPUs")]


def values(captured: Captured, profile: Profile) -> Dict[str, Any]:
    """The slowest copies between a GPU and memory in GB/s, from level 2 on."""
    output = captured.get("diag")
    diag = parse_diag(output.text) if output and not output.problem else None
    slowest: Dict[str, float] = {}
    for row in diag.tested if diag else ():
        for way, number in (found for line in row.told for found in _BANDWIDTH.findall(line)):
            name = "gpu.to_host_gbytes_min" if way == "GPU to Host" else "gpu.from_host_gbytes_min"
            slowest[name] = min(float(number), slowest.get(name, float(number)))
    return dict(slowest)


NEEDS = ("gpus.count", "limits.gpu_memory_used_mib", "expect.dcgm_diag_level", "expect.gpu_processes")
CHECKS = [Check(NAME, "long", reads, judge, needs=NEEDS, values=values)]
