"""MAAS's node statuses, events and answers to wrong requests (names and numbers as in MAAS 3.4 and 3.7)."""

from __future__ import annotations

from typing import Any

NEW = 0
COMMISSIONING = 1
FAILED_COMMISSIONING = 2
READY = 4
DEPLOYED = 6
BROKEN = 8
DEPLOYING = 9
ALLOCATED = 10
FAILED_DEPLOYMENT = 11
RELEASING = 12
FAILED_RELEASING = 13
DISK_ERASING = 14
FAILED_DISK_ERASING = 15
FAILED_TESTING = 22

LABELS = {
    0: "New",
    1: "Commissioning",
    2: "Failed commissioning",
    3: "Missing",
    4: "Ready",
    5: "Reserved",
    6: "Deployed",
    7: "Retired",
    8: "Broken",
    9: "Deploying",
    10: "Allocated",
    11: "Failed deployment",
    12: "Releasing",
    13: "Failed releasing",
    14: "Disk erasing",
    15: "Failed disk erasing",
    16: "Rescue mode",
    17: "Entering rescue mode",
    18: "Failed to enter rescue mode",
    19: "Exiting rescue mode",
    20: "Failed to exit rescue mode",
    21: "Testing",
    22: "Failed testing",
}
# How the machines list names them in its status filter.
SHORT_NAMES = {
    label.lower()
    .replace("failed to enter ", "failed_entering_")
    .replace("failed to exit ", "failed_exiting_")
    .replace(" ", "_"): number
    for number, label in LABELS.items()
}

# What an operation becomes when it fails, and what may be released, commissioned or aborted.
FAILED = {
    COMMISSIONING: FAILED_COMMISSIONING,
    DEPLOYING: FAILED_DEPLOYMENT,
    RELEASING: FAILED_RELEASING,
    DISK_ERASING: FAILED_DISK_ERASING,
}
CAN_COMMISSION = {NEW, FAILED_COMMISSIONING, READY, BROKEN, FAILED_TESTING}
CAN_RELEASE = {ALLOCATED, BROKEN, DEPLOYING, DEPLOYED, FAILED_DEPLOYMENT, FAILED_RELEASING, FAILED_DISK_ERASING}
CAN_ABORT = {COMMISSIONING, DEPLOYING, DISK_ERASING}

LEVELS = {"AUDIT": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
# Event type as the API shows it -> level.
EVENT_LEVELS = {
    "Powering on": "INFO",
    "Powering off": "INFO",
    "Node powered on": "DEBUG",
    "Node powered off": "DEBUG",
    "Failed to power on node": "ERROR",
    "Failed to power off node": "ERROR",
    "Queried node's BMC": "DEBUG",
    "Failed to query node's BMC": "WARNING",
    "PXE Request": "DEBUG",
    "Performing PXE boot": "INFO",
    "Loading ephemeral": "INFO",
    "Gathering information": "INFO",
    "Configuring storage": "INFO",
    "Installing OS": "INFO",
    "Configuring OS": "INFO",
    "Rebooting": "INFO",
    "Installation complete": "DEBUG",
    "Node changed status": "DEBUG",
    "Disks erased": "INFO",
    "Marking node failed": "ERROR",
    "New": "INFO",
    "Commissioning": "INFO",
    "Failed commissioning": "INFO",
    "Ready": "INFO",
    "Deploying": "INFO",
    "Image Deployed": "INFO",
    "Deployed": "INFO",
    "Releasing": "INFO",
    "Released": "INFO",
}


class ApiError(Exception):
    """One answer of MAAS that is not a success.

    A dict becomes a JSON body (field errors), a string a plain text body.
    """

    def __init__(self, status: int, body: dict[str, Any] | str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body
        self.headers = headers or {}


def conflict(text: str) -> ApiError:
    """The machine is in the wrong state for what was asked."""
    return ApiError(409, text)


def unavailable(text: str) -> ApiError:
    """No rack controller, or a power action is already running."""
    return ApiError(503, text, {"Retry-After": "10"})


def bad_field(field: str, *texts: str) -> ApiError:
    """A field error, in the shape that Django's forms give."""
    return ApiError(400, {field: list(texts)})
