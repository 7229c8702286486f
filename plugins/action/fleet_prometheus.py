"""Write Prometheus' targets (see plugins/modules/fleet_prometheus.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstlight.errors import InputError
from firstlight.fleet_action import FleetAction
from firstlight.plainvalue import plain
from firstlight.prometheus import HeadNode, Scraped, file_text, targets
from firstlight.wholefile import write_whole


class ActionModule(FleetAction):
    REPORTS = False
    _VALID_ARGS = frozenset({"folder", "node_port", "dcgm_port"})

    def work(self) -> dict[str, Any]:
        _, options = self.validate_argument_spec(
            {
                "folder": {"type": "path", "required": True},
                "node_port": {"type": "int", "default": 9100},
                "dcgm_port": {"type": "int", "default": 9400},
            }
        )
        folder = Path(str(options["folder"]))
        states = self.ledger.states()
        hosts = [self._scraped(name, states.get(name, "planned")) for name in self.hosts]
        # of the whole inventory, and with an empty file where there is none: one from before would live on
        head_nodes = [self._head_node(name) for name in plain(list(self.variables["groups"].get("head_node", [])))]
        files = targets(hosts, options["node_port"], options["dcgm_port"], head_nodes)
        diff = []
        for job, groups in files.items():
            path, text = folder / f"{job}.json", file_text(groups)
            before = _content(path)
            if before != text:
                diff.append({"before_header": str(path), "after_header": str(path), "before": before, "after": text})
                if not self.check:
                    _write(path, text)
        counts = ", ".join(f"{job} {len(groups)}" for job, groups in files.items())
        return {"changed": bool(diff), "diff": diff, "msg": f"targets: {counts}, in {folder}"}

    def _scraped(self, name: str, state: str) -> Scraped:
        profile = self.host_value(name, "profile", {})
        return Scraped(
            name=name,
            address=str(self.host_value(name, "ansible_host") or ""),
            site=str(self.host_value(name, "site", "")),
            rack=str(self.host_value(name, "rack", "")),
            unit=str(self.host_value(name, "unit", "")),
            profile=str(profile.get("name", "")),
            state=state,
            gpus=int((profile.get("gpus") or {}).get("count", 0)),
        )

    def _head_node(self, name: str) -> HeadNode:
        port = self.host_value(name, "node_exporter_port", 9100)
        try:
            return HeadNode(name, str(self.host_value(name, "ansible_host") or name), int(port))
        except (TypeError, ValueError):
            raise InputError(f"node_exporter_port of {name}: {port!r} is no number") from None


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"folder: {path} cannot be read: {error}") from None


def _write(path: Path, text: str) -> None:
    """Prometheus reads the file whenever it changes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"folder: {path} cannot be written: {error.strerror}") from None
