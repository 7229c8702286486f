"""One open ticket per host and cause; updated, not repeated; closed when it was looked at and is gone."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import ACTIONS, Finding
from firstlight.policy.settings import Policy
from firstlight.tickets.model import CLOSED, OPEN, Place, Ticket
from firstlight.tickets.plan import FINDINGS_MAX, SAID_MAX, Held, HostNow, plan

NOW = datetime(2026, 11, 30, tzinfo=UTC)
POLICY = Policy()


def held(symptom, locator="", action="reseat", stage="smoke", evidence="7 of 8", status="fail"):
    return Held(symptom.partition(".")[0], status, symptom, locator, evidence, action, stage)


def host(*found, name="r1-n01", tag="FLB0001", **results):
    return HostNow(name, tag, Place("lab", "r1", 4, "xe9680"), tuple(found), results or {"smoke": "failed"})


def after(tickets, hosts, policy=POLICY):
    """The tickets after a plan was carried out, by id."""
    made = plan(policy, tickets, hosts, NOW)
    return {**{t.id: t for t in tickets}, **{t.id: t for t in made.all()}}


LOST = held("gpu.missing", "Video.Slot.26-1", stage="discover")


def test_a_fault_is_one_ticket_and_is_not_repeated_when_its_numbers_change():
    tickets = after([], [host(held("hca.errors", "HCA mlx5_1 port 1", evidence="900 in an hour"))])
    assert list(tickets) == ["FLB0001-hca-1"]
    again = plan(POLICY, tickets.values(), [host(held("hca.errors", "HCA mlx5_1 port 1", evidence="977"))], NOW)
    assert again.all() == []


def test_what_a_hand_need_not_do_opens_none():
    assert plan(POLICY, [], [host(held("gpu.ecc_errors", "GPU 0000:1b:00.0", "reboot"))], NOW).all() == []
    opened = plan(Policy(ticket_min_action="reboot"), [], [host(held("gpu.lost", "", "reboot"))], NOW).opened
    assert [t.action for t in opened] == ["reboot"]


def test_a_lost_gpu_with_all_that_follows_is_one_visit():
    found = [LOST, held("nvlink.inactive", "GPU 0000:43:00.0", "reboot"), held("dcgm.gpu_missing", "1 of 8 GPUs")]
    (ticket,) = plan(POLICY, [], [host(*found)], NOW).opened
    assert ticket.stages == ("discover", "smoke")
    assert len(ticket.findings) == 3


def test_the_part_becomes_known_later_and_the_ticket_stays_the_same():
    first = after([], [host(held("gpu.missing", "1 of 8 GPUs"))])
    (changed,) = plan(POLICY, first.values(), [host(held("gpu.missing", "1 of 8 GPUs"), LOST)], NOW).updated
    assert (changed.id, changed.cause.part, changed.version) == ("FLB0001-gpu-1", "video.slot.26", 2)
    assert changed.history[-1].what == "new: gpu.missing Video.Slot.26-1"


def test_a_higher_action_is_an_update_and_a_lower_one_is_not():
    first = after([], [host(held("gpu.lost", "GPU 0000:1b:00.0", "reseat"))])
    (changed,) = plan(POLICY, first.values(), [host(held("gpu.lost", "GPU 0000:1b:00.0", "replace"))], NOW).updated
    assert (changed.action, changed.history[-1].what) == ("replace", "now replace, was reseat")
    assert plan(POLICY, first.values(), [host(held("gpu.lost", "GPU 0000:1b:00.0", "reboot"))], NOW).all() == []


def test_it_is_closed_when_its_stage_was_passed_and_a_new_one_has_a_new_number():
    first = after([], [host(LOST, discover="failed")])
    closed = after(first.values(), [host(discover="passed")])
    assert [t.state for t in closed.values()] == [CLOSED]
    again = after(closed.values(), [host(LOST, discover="failed")])
    assert [t.id for t in again.values() if t.state == OPEN] == ["FLB0001-gpu-2"]


def test_it_is_not_closed_where_nobody_looked():
    tickets = after([], [host(held("nvme.failed", "nvme3", "replace"))])
    away = held("ssh.unreachable", action="power_cycle")
    unread = held("disk_health.timed_out", action="retry", status="unknown")
    for now in (
        host(away),
        host(unread),
        host(smoke="undone"),
        host(discover="passed"),
        host(name="r1-n02", tag="FLB0002", smoke="passed"),
    ):
        assert plan(POLICY, tickets.values(), [now], NOW).closed == []
    # another fault of that stage hides nothing: every check runs
    other = plan(POLICY, tickets.values(), [host(held("psu.failed", "PSU.Slot.2", "replace"))], NOW)
    assert [t.id for t in other.closed] == ["FLB0001-drive-1"]


def test_a_host_that_the_brake_kept_gets_no_new_ticket_and_keeps_those_it_has():
    assert plan(POLICY, [], [host(LOST)], NOW, stopped={"r1-n01"}).all() == []
    tickets = after([], [host(LOST, discover="failed")])
    raised = held("gpu.missing", "Video.Slot.26-1", "replace", stage="discover")
    assert len(plan(POLICY, tickets.values(), [host(raised)], NOW, stopped={"r1-n01"}).updated) == 1
    assert len(plan(POLICY, tickets.values(), [host(discover="passed")], NOW, stopped={"r1-n01"}).closed) == 1


def test_a_cause_that_hundreds_tell_of_stays_a_ticket_that_can_be_kept():
    many = [held("psu.failed", f"PSU {n}, {'x' * 100}", "replace", stage="discover") for n in range(300)]
    same = [Held(f.check, f.status, "fan.failed", "", f"{n}", "replace", "discover") for n, f in enumerate(many)]
    tickets = after([], [host(*same)])
    for days in range(300):
        moved = [Held(f.check, f.status, f"fan.x{(n + days) % 300}", "", "", "replace", "discover") for n, f in
                 enumerate(many)]  # fmt: skip
        tickets = after(tickets.values(), [host(*moved)])
    (one,) = tickets.values()
    assert len(one.findings) == FINDINGS_MAX
    assert max(len(update.what) for update in one.history) <= SAID_MAX
    assert plan(POLICY, [one], [host(*moved)], NOW).all() == []


def test_the_service_tag_that_is_told_later_does_not_open_a_second_one():
    first = after([], [host(held("bmc.auth_failed", "BMC 10.0.0.1", "escalate"), tag=None)])
    assert list(first) == ["r1-n01-bmc-1"]
    (changed,) = plan(POLICY, first.values(), [host(held("bmc.auth_failed", "BMC 10.0.0.1", "escalate"))], NOW).updated
    assert changed.service_tag == "FLB0001"


def test_tickets_survive_being_written():
    (ticket,) = plan(POLICY, [], [host(LOST)], NOW).opened
    assert Ticket.from_dict(json.loads(json.dumps(ticket.to_dict()))) == ticket


SYMPTOMS = ["gpu.missing", "gpu.lost", "nvlink.inactive", "nvme.failed", "zfs.pool_degraded", "bmc.busy", "x.no_answer"]
LOCATORS = ["", "1 of 8 GPUs", "Video.Slot.26-1", "GPU 0000:1b:00.0", "nvme1n1", "Disk.Bay.1:E", "Disk.Bay.2:E"]
HELD = st.builds(
    held,
    st.sampled_from(SYMPTOMS) | st.text(max_size=8),
    st.sampled_from(LOCATORS) | st.text(max_size=8),
    st.sampled_from(ACTIONS),
    st.sampled_from(["discover", "smoke"]),
    status=st.sampled_from(["warn", "fail", "unknown"]),
)
RESULTS = st.sampled_from([None, "passed", "failed", "undone"])
HOSTS = st.lists(
    st.builds(
        lambda found, n, tagged, discover, smoke: HostNow(
            f"n{n}", f"T{n}" if tagged else None, Place(unit=n), tuple(found), {"discover": discover, "smoke": smoke}
        ),
        st.lists(HELD, max_size=6), st.integers(0, 2), st.booleans(), RESULTS, RESULTS,
    ),
    max_size=3,
    unique_by=lambda h: h.name,
)  # fmt: skip


@given(st.lists(HOSTS, max_size=4))
def test_whatever_happens_there_is_one_open_ticket_a_cause_and_planning_twice_changes_nothing(days):
    tickets: dict[str, Ticket] = {}
    for hosts in days:
        before = set(tickets)
        tickets = after(tickets.values(), hosts)
        assert before <= set(tickets)
        assert plan(POLICY, tickets.values(), hosts, NOW).all() == []
        for one in hosts:
            open_ = [t for t in tickets.values() if t.state == OPEN and t.host == one.name]
            of_host = [t for t in open_ if t.service_tag == one.service_tag]
            assert len({t.cause for t in of_host}) == len(of_host)
            due = [f for f in one.held if f.status != "warn" and f.action in ("reseat", "replace", "escalate")]
            told = [(f.symptom, f.locator) for t in of_host for f in t.findings]
            assert {(f.symptom, f.locator) for f in due} <= set(told)


def test_a_finding_of_the_ledger_is_kept_as_it_was():
    finding = Finding("psus", "fail", "psu.failed", "PSU.Slot.2", "Critical", "replace")
    (ticket,) = plan(POLICY, [], [host(Held.of(finding, "discover"))], NOW).opened
    assert ticket.findings == (finding,)
