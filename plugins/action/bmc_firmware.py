"""Firmware update from a local file over Redfish (see plugins/modules/bmc_firmware.py)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from firstlight.bmc.client import BmcClient
from firstlight.bmc.control import Change, Say
from firstlight.bmc.image import read_image
from firstlight.bmc.update import AWAY_SECONDS, GRACE_SECONDS, READ_BACK_SECONDS, UPLOAD_SECONDS, WHEN, update_firmware
from firstlight.bmc_action import BmcAction, seconds_spec


class ActionModule(BmcAction):
    ABOUT = "firmware"
    SPEC: ClassVar[dict[str, Any]] = {
        "file": {"type": "path", "required": True},
        "component": {"type": "str", "default": ""},
        "version": {"type": "str", "default": ""},
        "apply": {"type": "str", "choices": list(WHEN), "default": "next_boot"},
        "downgrade": {"type": "bool", "default": False},
        "wait_seconds": seconds_spec(3600.0),
        "grace_seconds": seconds_spec(GRACE_SECONDS),
        "uploads": {"type": "int", "default": 8},
        "confirm": {"type": "bool", "default": False},
    }

    def destroys(self) -> str:
        extra = ", and restarts the server" if self.options["apply"] == "now" else ""
        return f"an update replaces the firmware of {self.options['component'] or 'what the file is for'}{extra}"

    def seconds(self) -> float:
        """Waiting for a turn to upload, the upload, the job twice (scheduled, done), and reading back."""
        turns = 1 + len(self.hosts) // max(1, self.options["uploads"])
        waits = 2 * self.options["wait_seconds"] + self.options["grace_seconds"] + READ_BACK_SECONDS + AWAY_SECONDS
        return turns * UPLOAD_SECONDS + waits

    def function(self) -> Callable[[str, Say, Say], Callable[[BmcClient], Change]]:
        component = self.options["component"]
        options = {
            "image": read_image(self.options["file"], self.options["version"], component),
            "component": component,
            "when": self.options["apply"],
            "downgrade": self.options["downgrade"],
            "wait": self.options["wait_seconds"],
            "grace": self.options["grace_seconds"],
            "slots": threading.Semaphore(max(1, self.options["uploads"])),
            "check": self.check,
        }

        def make(name: str, note: Say, say: Say) -> Callable[[BmcClient], Change]:
            return functools.partial(update_firmware, note=note, say=say, **options)

        return make
