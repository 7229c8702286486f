"""What of a task was told: the same thing once for all hosts, and of different things the first few."""

from __future__ import annotations

from collections import Counter

IN_FULL = 5  # different failures, warnings or messages of a task
LIMITED = {
    "failure": (
        "other failure: see reports/latest.txt, or use -v",
        "other failures: see reports/latest.txt, or use -v",
    ),
    "warning": ("other warning (-v shows it)", "other warnings (-v shows them)"),
    "message": ("other message (-v shows it)", "other messages (-v shows them)"),
}
SAME = {"difference": ("host has a difference that is shown above", "hosts have a difference that is shown above")}


class Told:
    """Of one task; another begins with a new one."""

    def __init__(self) -> None:
        self._shown: dict[str, set[str]] = {}
        self._withheld: Counter[str] = Counter()

    def may(self, kind: str, text: str) -> bool:
        """Whether to show it; what is not shown is counted for ``rest``."""
        shown = self._shown.setdefault(kind, set())
        if text in shown:
            self._withheld[kind] += kind in SAME
            return False
        if kind in LIMITED and len(shown) >= IN_FULL:
            self._withheld[kind] += 1
            return False
        shown.add(text)
        return True

    def rest(self) -> list[str]:
        """A line for each kind of which something was not shown."""
        words = {**LIMITED, **SAME}
        return [f"{count} {words[kind][count > 1]}" for kind, count in self._withheld.items() if count]
