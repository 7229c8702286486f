"""Open tickets in the report."""

from __future__ import annotations

from dataclasses import replace

from test_text import REAL, ticket

from firstlight.tickets.model import CLOSED
from firstlight.tickets.told import add_tickets


def test_each_host_has_its_open_tickets_and_the_report_their_number():
    gpu, drive, cable = (ticket(*REAL[name]) for name in ("gpu", "drive", "cable"))
    report = {"hosts": [{"name": "r1-n03"}, {"name": "r1-n04"}]}
    add_tickets(report, [gpu, replace(drive, host="r1-n04"), replace(cable, state=CLOSED), replace(gpu, host="away")])
    assert [[t["id"] for t in host["tickets"]] for host in report["hosts"]] == [["FLB0003-gpu-1"], ["FLB0003-drive-1"]]
    assert report["tickets"] == {"open": 3, "by_action": {"replace": 1, "reseat": 2}}
    assert report["hosts"][0]["tickets"] == [{"id": "FLB0003-gpu-1", "action": "reseat", "kind": "gpu"}]


def hosts(**verdicts):
    return [{"name": name, "verdict": verdict, "action": "power_cycle"} for name, verdict in verdicts.items()]


def test_a_host_has_one_action_the_report_s_is_that_of_its_tickets():
    report = {"hosts": hosts(n1="not ready", n2="not ready", n3="not ready", n4="not ready", n5="ready")}
    gpu = ticket(*REAL["gpu"], action="replace")
    told = [replace(gpu, host="n2"), replace(gpu, host="n3"), replace(gpu, host="n5")]
    add_tickets(report, told, {"n1": "replace", "n2": "reboot", "n3": "escalate"})
    assert [host["action"] for host in report["hosts"]] == [
        "replace",  # no ticket yet: as the one that comes
        "replace",  # the action of an open ticket never falls
        "escalate",  # it rises before the ticket does
        "power_cycle",  # nothing of it is a matter of tickets
        "power_cycle",  # ready: its ticket is closed next
    ]
