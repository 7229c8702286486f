"""Times of simulated machines."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from simulators.maas.settings import Settings


def settings(**more: Any) -> Settings:
    here = ("127.0.0.1", 0)
    return Settings(Path(), here, here, "k", "", ssl.create_default_context(), **more)


def test_machines_differ_by_the_spread_and_each_stays_as_it_is() -> None:
    times = [settings(deploy_seconds=10, spread=0.5).job_seconds("deploy", f"n{n}") for n in range(200)]
    assert times == [settings(deploy_seconds=10, spread=0.5).job_seconds("deploy", f"n{n}") for n in range(200)]
    assert 5 <= min(times) < 6 and 14 < max(times) <= 15
    assert sum(times) / len(times) == pytest.approx(10, abs=0.5)


def test_without_a_spread_all_are_alike() -> None:
    assert {settings(commission_seconds=3).job_seconds("commission", f"n{n}") for n in range(20)} == {3}
