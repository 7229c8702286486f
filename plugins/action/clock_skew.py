"""Compares a host's clock with the controller's, over whatever connection the host has.

No module is copied and no Python runs on the host: it works however wrong the clock is. One shell command reads the
clock, whether the host may set it, and whether chronyd has it synchronised. The host read its clock somewhere between
the controller's two readings, so the skew is known up to half the round trip; the best of a few samples is kept.

Options: ``samples`` (int, 3), ``good_enough`` (seconds of uncertainty at which no further sample is taken, 0.1).
Returns: ``skew`` (seconds; positive: the host is ahead), ``uncertainty`` (seconds), ``at_least`` (seconds by which the
clock is off for certain: never negative), ``settable`` (bool), ``synchronised`` (bool), ``source`` (what chronyd
follows, or ""). Changes nothing, so it runs in check mode too.
"""

from __future__ import annotations

import re
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

CAP_SYS_TIME = 25  # linux/capability.h
WHOLE_UID_MAP = ["0", "0", "4294967295"]  # user_namespaces(7): any other map is no initial namespace

PROBE = "; ".join(
    [
        'echo "clock=$(date -u +%s.%N)"',
        """echo "capabilities=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/1/status)" """,
        'echo "uid_map=$(cat /proc/self/uid_map)"',
        'echo "tracking=$(chronyc -c tracking 2>/dev/null)"',
    ]
)


def parse(text: str) -> dict[str, Any]:
    """The probe's answer: ``clock`` (s since 1970), ``settable``, ``synchronised``, ``source``. Else ValueError."""
    lines = dict(re.findall(r"^(clock|capabilities|uid_map|tracking)=(.*?)\r?$", text[:4096], re.MULTILINE))
    if not re.fullmatch(r"\d{1,12}\.\d{1,9}", lines.get("clock", "")):
        raise ValueError(f"no time in the answer {text[:80].strip()!r}")
    capabilities = lines.get("capabilities", "").strip()
    bounded = re.fullmatch(r"[0-9a-f]{1,32}", capabilities) and int(capabilities, 16) >> CAP_SYS_TIME & 1
    # reference id, name, stratum, ... leap status: chronyc(1), "tracking"
    tracking = lines.get("tracking", "").split(",")
    synchronised = len(tracking) == 14 and tracking[0] != "00000000" and tracking[-1] != "Not synchronised"
    return {
        "clock": float(lines["clock"]),
        "settable": bool(bounded) and lines.get("uid_map", "").split() == WHOLE_UID_MAP,
        "synchronised": synchronised,
        "source": tracking[1] if synchronised else "",
    }


def judge(before: float, clock: float, after: float) -> dict[str, float]:
    """Skew of ``clock``, read between ``before`` and ``after`` of the controller's clock; all in seconds."""
    skew = clock - (before + after) / 2
    uncertainty = (after - before) / 2
    return {
        "skew": round(skew, 3),
        "uncertainty": round(uncertainty, 3),
        "at_least": round(max(0.0, abs(skew) - uncertainty), 3),
    }


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {"samples": {"type": "int", "default": 3}, "good_enough": {"type": "float", "default": 0.1}}
        )
        best: dict[str, Any] | None = None
        for _ in range(max(1, options["samples"])):
            sample = self._sample()
            if best is None or sample["uncertainty"] < best["uncertainty"]:
                best = sample
            if best["uncertainty"] <= options["good_enough"]:
                break
        assert best is not None  # noqa: S101  (at least one sample is taken)
        return {"changed": False, **best}

    def _sample(self) -> dict[str, Any]:
        before = time.time()
        answer = self._low_level_execute_command(PROBE)
        after = time.time()
        if answer["rc"] != 0:
            raise AnsibleActionFail(f"the host's clock cannot be read: {answer['stderr'].strip()[:200]}")
        try:
            seen = parse(answer["stdout"])
        except ValueError as error:
            raise AnsibleActionFail(f"the host's clock cannot be read: {error}") from None
        return {**judge(before, seen.pop("clock"), after), **seen}
