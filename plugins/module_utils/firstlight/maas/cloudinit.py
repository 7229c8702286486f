"""What cloud-init came to on a freshly installed host: a pure judgement over what ``cloud-init status`` says."""

from __future__ import annotations

import json
from typing import Any

from ..findings import Finding, shorten

TIMED_OUT = 124  # exit status of timeout(1)
MAX_TEXT = 65536
NAMED = 3  # errors that are shown


def judge_cloud_init(status: int, long_text: str, minutes: float) -> Finding:
    """status: exit status of ``cloud-init status --wait``. long_text: of ``cloud-init status --long --format json``.

    cloud-init before 23 knows no JSON there, and before 22 no list of errors; then its words are taken as they are.
    """
    state, errors = _read(long_text)
    if status == TIMED_OUT:
        said = f"cloud-init is not done after {minutes:g} minutes{f', it is {state}' if state else ''}"
        return _finding("fail", f"{said}{_shown(errors)}")
    if status in (0, 2) and state != "error":  # 2: it recovered from something
        if status == 0 and not errors:
            return Finding("cloud_init", "ok", "cloud_init", evidence=state or "done")
        return _finding("warn", f"cloud-init is done, with errors that it recovered from{_shown(errors)}")
    where = "; see /var/log/cloud-init.log and cloud-init-output.log on the host"
    return _finding("fail", f"cloud-init failed{_shown(errors) or f' (exit status {status})'}{where}")


def _read(text: str) -> tuple[str, list[str]]:
    """The state in a word, and what went wrong."""
    text = str(text)[:MAX_TEXT]
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        state = next((line.partition(":")[2].strip() for line in lines if line.startswith("status:")), "")
        detail = [line for line in lines if not line.startswith(("status:", "detail:", "time:", "extended", "boot_"))]
        return shorten(state, 40), [shorten(line, 200) for line in detail[:NAMED] if state == "error"]
    if not isinstance(data, dict):
        return "", []
    listed = data.get("errors")
    errors = [shorten(str(e), 200) for e in listed if e] if isinstance(listed, list) else []
    recovered = data.get("recoverable_errors")
    for lines in recovered.values() if isinstance(recovered, dict) else ():
        errors += [shorten(str(line), 200) for line in lines[:NAMED]] if isinstance(lines, list) else []
    if not errors and data.get("status") == "error" and isinstance(data.get("detail"), str):
        errors = [shorten(data["detail"], 200)]
    return shorten(str(data.get("status") or ""), 40), list(dict.fromkeys(errors))


def _shown(errors: list[str]) -> str:
    if not errors:
        return ""
    more = f" and {len(errors) - NAMED} more" if len(errors) > NAMED else ""
    return f": {'; '.join(errors[:NAMED])}{more}"


def _finding(status: str, evidence: str) -> Finding:
    action = "none" if status == "warn" else "escalate"
    return Finding("cloud_init", status, "install.cloud_init_failed", "cloud-init", evidence, action)
