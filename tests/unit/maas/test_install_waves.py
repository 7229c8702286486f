"""Whatever machines do, install keeps its limits and comes to an end; in a world of its own, with its own clock."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
import resource
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.findings import Finding, blocking
from firstlight.maas import machines as m
from firstlight.maas.calls import Calls
from firstlight.maas.client import MaasError
from firstlight.maas.disks import OsDisk
from firstlight.maas.engine import Engine
from firstlight.maas.jobs import Wave
from firstlight.maas.options import InstallOptions, Wanted
from firstlight.maas.reasons import BmcState

ON = {"type": "Node powered on", "level": "DEBUG"}
PXE = {"type": "Performing PXE boot", "level": "INFO"}
FAILED = {"type": "Marking node failed", "level": "ERROR", "description": "Installation failed (...)."}
NO_POWER = {"type": "Failed to power on node", "level": "ERROR", "description": "Power on for the node failed: 500"}
RUNNING = (m.COMMISSIONING, m.DEPLOYING)


class World:
    """MAAS, its machines, and time.

    fate: good, never (it shows nothing), silent (nor does it when its power is switched again), fails, vanishes, or
    driver (no power).
    """

    def __init__(self, fates: list[tuple[str, int, int]], seed: int = 0, errors: float = 0.0) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.errors = errors
        self.machines_ = {}
        self.fates = {}
        self.until = {}
        self.writes = Counter()
        for number, (fate, _rack, status) in enumerate(fates):
            name = f"n{number:03d}"
            self.fates[name] = fate
            disk = {"id": number + 1, "name": "sda", "serial": f"OS{number}", "model": "BOSS", "size": 480 * 10**9}
            root = {**disk, "type": "physical", "partitions": [{"filesystem": {"mount_point": "/"}}]}
            self.machines_[name] = {
                "system_id": name,
                "hostname": name,
                "status": status,
                "tag_names": ["firstlight"],
                "blockdevice_set": [root],
                "boot_disk": disk,
                "power_type": "redfish",
                "ip_addresses": [f"10.0.{number // 250}.{number % 250 + 1}"],
                "owner": "us",
            }
            if status in (*RUNNING, m.RELEASING):
                self.until[name] = 60.0 + number
        self.wanted = [
            Wanted(name, name, OsDisk(serials=(f"OS{n}",)), "", f"r{fates[n][1]}")
            for n, name in enumerate(self.machines_)
        ]

    def clock(self) -> float:
        return self.now

    # -- what the engine asks ------------------------------------------------------------------------------------

    def machines(self):
        if self.now and self.random.random() < self.errors:  # the first answer must come
            raise MaasError("a moment", "failed", 503)
        for name, machine in list(self.machines_.items()):
            if name in self.until and self.now >= self.until[name]:
                del self.until[name]
                self._step(name, machine)
        return [dict(machine) for machine in self.machines_.values()]

    def _step(self, name, machine):
        fate = self.fates[name]
        if machine["status"] == m.RELEASING:
            machine.update(status=m.READY)
        elif fate == "vanishes":
            del self.machines_[name]
        elif fate == "driver" and machine["power_type"] == "redfish":
            machine["status"] += 1 if machine["status"] == m.COMMISSIONING else 2
        elif fate == "fails" and machine["status"] == m.DEPLOYING:
            machine["status"] = m.FAILED_DEPLOYMENT
        elif fate in ("never", "silent"):
            pass
        elif machine["status"] == m.COMMISSIONING:
            machine["status"] = m.READY
        elif machine["status"] == m.DEPLOYING:
            machine["status"] = m.DEPLOYED

    def _write(self, name, op):
        self.writes[op] += 1
        if self.random.random() < self.errors:
            raise MaasError("not now", "failed", self.random.choice([409, 503, 500]))
        if name not in self.machines_:
            raise MaasError("Not Found", "refused", 404)
        return self.machines_[name]

    def _begin(self, name, status):
        self.machines_[name]["status"] = status
        self.until[name] = self.now + self.random.randint(20, 300)
        return self.machines_[name]

    def commission(self, name, scripts=None):
        self._write(name, "commission")
        return self._begin(name, m.COMMISSIONING)

    def deploy(self, name, *_):
        if self._write(name, "deploy")["status"] != m.READY:
            raise MaasError("not Ready", "refused", 409)
        return self._begin(name, m.DEPLOYING)

    def release(self, name, comment):
        self._write(name, "release")
        return self._begin(name, m.RELEASING)

    def abort(self, name, comment):
        machine = self._write(name, "abort")
        machine["status"] = m.NEW if machine["status"] == m.COMMISSIONING else m.ALLOCATED

    def set_os_disk(self, name, device, is_boot_disk):
        return self._write(name, "layout")

    def update(self, name, **fields):
        self._write(name, "update").update(fields)

    def whoami(self):
        return {"username": "us"}

    def hide(self, *_):
        pass

    def call(self, *_):
        return []

    def events(self, name):
        status = self.machines_.get(name, {}).get("status")
        if self.fates[name] == "driver" and self.machines_[name]["power_type"] == "redfish":
            return [FAILED, NO_POWER]
        if status == m.FAILED_DEPLOYMENT:
            return [FAILED, PXE, ON]
        return [ON] if self.fates[name] in ("never", "silent") else [PXE, ON]

    # -- and of BMCs ---------------------------------------------------------------------------------------------

    def on(self, name):
        return None if self.fates[name] != "never" else Finding("install", "fail", "install.power_failed")

    def look(self, name):
        return BmcState("On")

    def settings(self, name):
        return {"power_type": "redfish"}


def run(world: World, options: InstallOptions, watch=lambda engine: None, has_power=True):
    calls = Calls(world, options, lambda name: "#cloud-config\n", None, None, world if has_power else None)

    def pause(seconds: float) -> None:
        concurrent.futures.wait([job.call for job in engine.live if job.call])
        world.now += seconds
        assert world.now < 10**6, "it does not end"

    engine = Engine(calls, world.wanted, lambda progress: watch(engine), pause=pause, clock=world.clock)
    return engine.run()


FATES = st.sampled_from(["good", "good", "good", "never", "silent", "fails", "vanishes", "driver"])
STATES = st.sampled_from(
    [m.NEW, m.NEW, m.READY, m.COMMISSIONING, m.DEPLOYING, m.DEPLOYED, m.FAILED_DEPLOYMENT, m.FAILED_COMMISSIONING,
     m.RELEASING, m.BROKEN, m.ALLOCATED, m.FAILED_TESTING]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(FATES, st.integers(1, 3), STATES), min_size=1, max_size=14),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.15]),
    st.integers(0, 1000),
)
def test_the_limits_hold_and_it_always_ends(fates, most, per_rack, retries, errors, seed):
    world = World(fates, seed, errors)
    begun = Counter(f"r{rack}" for _, rack, status in fates if status in (*RUNNING, m.RELEASING))
    seen = Counter()

    def watch(engine):
        active = [job for job in engine.jobs if job.active and not job.over]
        assert len(active) <= max(most, sum(begun.values()))
        assert engine.wave.total == len(active)
        for rack, count in Counter(job.wanted.rack for job in active).items():
            assert not per_rack or count <= max(per_rack, begun[rack])
        seen["most"] = max(seen["most"], len(active))

    options = InstallOptions(most, per_rack, retries=retries, distro_series="noble", outage_minutes=1e5)
    results = run(world, options, watch)
    assert set(results) == {w.name for w in world.wanted}
    for name, result in results.items():
        assert blocking(result.findings) or (result.status == "deployed" and result.address)
        if world.fates[name] == "good" and not errors and fates[int(name[1:])][2] not in (m.BROKEN, m.FAILED_TESTING):
            assert result.status == "deployed", result.findings
        machine = world.machines_.get(name)
        if machine and not errors:
            assert machine["power_type"] == "redfish"  # whatever happened to it, it was put back


@pytest.mark.parametrize("retries", [0, 1])
def test_bad_machines_do_not_delay_the_last_good_one(retries):
    """5 % never come; 64 at a time. The good ones are done as soon as without them, but for the places they held."""
    fates = [("silent" if n % 20 == 7 else "good", n // 8, m.NEW) for n in range(511)]
    ends = {}
    for which in (fates, [("good", rack, status) for _, rack, status in fates]):
        world = World(which, 1)
        last = [0.0]

        def watch(engine, last=last, world=world):
            done = sum(job.over and not job.result.findings for job in engine.jobs)
            if done > last[0]:
                last[0], ends[id(world)] = done, world.now

        results = run(world, InstallOptions(64, 0, retries=retries, distro_series="noble", poll_seconds=30), watch)
        bad = [name for name, result in results.items() if result.findings]
        assert len(bad) == sum(fate == "silent" for fate, _, _ in which)
    with_bad, without = list(ends.values())
    # Each bad one holds a place for install_pxe_minutes and no longer: 26 of them, 15 minutes, 64 places. Its second
    # try comes behind the first of all others.
    assert with_bad < without + 26 * 15 * 60 / 64 + 60


def test_its_own_work_is_small_and_its_memory_flat():
    """The engine's own CPU a tick, without MAAS's list; measured, with much air for a busy machine."""
    world = World([("never" if n % 20 == 7 else "good", n // 8, m.NEW) for n in range(511)], 2)
    sizes = []
    ticks = [0]

    def watch(engine):
        ticks[0] += 1
        if ticks[0] % 50 == 0:
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    begun = time.thread_time()
    run(world, InstallOptions(64, 8, distro_series="noble", poll_seconds=30), watch)
    assert (time.thread_time() - begun) / ticks[0] < 0.05
    assert sizes[-1] - sizes[0] < 32 * 1024  # KiB


def test_a_wave_gives_back_what_it_took():
    wave = Wave(3, 2)
    wave.take("a")
    wave.take("a")
    assert not wave.has_room("a") and wave.has_room("b")
    wave.take("b")
    assert not wave.has_room("c")
    wave.give("a")
    assert wave.has_room("a") and wave.has_room("c")
    assert Wave(9, 0).has_room("x")


def test_maas_is_not_asked_before_it_said():
    """Retry-After of a refused call holds that machine, and no other."""
    world = World([("good", 1, m.NEW), ("good", 1, m.NEW)])
    asked = []
    commission = world.commission

    def refuse_once(name, scripts=None):
        asked.append((name, world.now))
        if len([1 for n, _ in asked if n == name]) == 1 and name == "n000":
            error = MaasError("later", "refused", 409)
            error.retry_after = 25.0
            raise error
        return commission(name, scripts)

    world.commission = refuse_once
    results = run(world, InstallOptions(distro_series="noble", poll_seconds=10))
    times = [now for name, now in asked if name == "n000"]
    assert len(times) == 2 and times[1] >= 25
    assert {r.status for r in results.values()} == {"deployed"}


@pytest.mark.parametrize("status", [m.NEW, m.READY, m.COMMISSIONING, m.FAILED_DEPLOYMENT, m.RELEASING])
def test_a_machine_with_other_drives_is_commissioned_once(status):
    world = World([("good", 1, status)])
    world.wanted = [dataclasses.replace(wanted, commission_first=True) for wanted in world.wanted]
    assert [r.status for r in run(world, InstallOptions()).values()] == ["deployed"]
    assert (world.writes["commission"], world.writes["deploy"]) == (int(status != m.COMMISSIONING), 1)


def test_a_commissioning_that_was_aborted_does_not_count():
    world = World([("good", 1, m.READY)])
    world.wanted = [dataclasses.replace(wanted, commission_first=True) for wanted in world.wanted]
    world.fates["n000"] = "silent"

    def abort(name, comment):  # as MAAS does: back to what it was before
        world._write(name, "abort").update(status=m.READY)
        world.fates[name] = "good"

    world.abort = abort
    results = run(world, InstallOptions(), has_power=False)
    assert [r.status for r in results.values()] == ["deployed"], results
    assert (world.writes["abort"], world.writes["commission"], world.writes["deploy"]) == (1, 2, 1)
