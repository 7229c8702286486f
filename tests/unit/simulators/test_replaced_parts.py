"""A part of a simulated server that was replaced has another identity, and nothing else has."""

from __future__ import annotations

import dataclasses

import pytest

from simulators.bmc.hardware import REPLACEABLE, Hardware


def identities(hardware: Hardware) -> dict[str, str]:
    found = {"board": hardware.board_serial}
    found |= {f"gpu{gpu.number}": f"{gpu.serial} {gpu.uuid}" for gpu in hardware.gpus}
    found |= {f"nic{number}": nic.mac for number, nic in enumerate(hardware.nics, 1)}
    found |= {port.fqdd.removesuffix("-1"): port.mac for port in hardware.hcas}
    found |= {f"nvme{disk.number}": disk.serial for disk in hardware.drives}
    found |= {f"boss{disk.number}": disk.serial for disk in hardware.os_disks}
    others = [part for part in REPLACEABLE if part not in found]
    return found | {part: hardware.serial(part, 10) for part in others}


@pytest.mark.parametrize("part", REPLACEABLE)
def test_only_the_part_that_was_replaced_is_another(part: str) -> None:
    first = Hardware(7, "FLB0007")
    once, twice = (dataclasses.replace(first, replaced={part: times}) for times in (1, 2))
    before, after, later = map(identities, (first, once, twice))
    assert {name for name in before if before[name] != after[name]} == {part}
    assert later[part] not in (before[part], after[part])
    assert len(set(after.values())) == len(after)
    assert once.uuid == first.uuid
