"""Which units role host_tuning masks so that swap stays off, and what it says of those that may bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.plainvalue import plain
from firstlight.rolefindings import read

ROLE = Path(__file__).parents[3] / "roles/host_tuning"
# as systemctl show prints them: of GPT, fstab, zram, a package, somebody's own; masked, and not there
UNITS = """\
Id=swap.target
LoadState=loaded
FragmentPath=/usr/lib/systemd/system/swap.target
UnitFileState=static

Id=dev-disk-by\\x2ddiskseq-1\\x2dpart3.swap
LoadState=loaded
FragmentPath=/run/systemd/generator.late/dev-disk-by\\x2ddiskseq-1\\x2dpart3.swap
UnitFileState=generated

Id=dev-zram0.swap
LoadState=loaded
FragmentPath=/run/systemd/generator/dev-zram0.swap
UnitFileState=generated

Id=dev-nvme0n1p3.swap
LoadState=loaded
FragmentPath=
UnitFileState=

Id=srv-own.swap
LoadState=loaded
FragmentPath=/etc/systemd/system/srv-own.swap
UnitFileState=enabled

Id=srv-off.swap
LoadState=loaded
FragmentPath=/etc/systemd/system/srv-off.swap
UnitFileState=disabled

Id=srv-masked.swap
LoadState=masked
FragmentPath=
UnitFileState=masked

Id=zramswap.service
LoadState=not-found
FragmentPath=
UnitFileState=
"""
STATE = "".join(f"{line}\n" for line in UNITS.splitlines() if not line.startswith("FragmentPath"))


def told(name: str, **outputs: str) -> Any:
    """A variable of the role's, with what its commands printed."""
    loader = DataLoader()
    known: dict[str, Any] = {"__host_tuning_before": {"findings": []}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    known |= {f"__host_tuning_{key}": {"stdout": text} for key, text in outputs.items()}
    return plain(Templar(loader=loader, variables=known).template(known[name]))


def test_every_unit_that_is_not_masked_yet_is() -> None:
    assert told("__host_tuning_swap_units", units=UNITS) == [
        "swap.target", "dev-disk-by\\x2ddiskseq-1\\x2dpart3.swap", "dev-zram0.swap", "dev-nvme0n1p3.swap",
    ]  # fmt: skip
    assert told("__host_tuning_own_units", units=UNITS) == ["srv-own.swap"]


def test_a_unit_that_may_bring_swap_back_is_a_finding() -> None:
    assert told("__host_tuning_comes_back", swap_state=STATE) == [
        "swap.target", "dev-disk-by\\x2ddiskseq-1\\x2dpart3.swap", "dev-zram0.swap", "srv-own.swap",
    ]  # fmt: skip
    masked = STATE.replace("LoadState=loaded", "LoadState=masked")
    assert told("__host_tuning_comes_back", swap_state=masked) == []
    [found] = read("host_tuning", [told("__host_tuning_swap_again", swap_state="Id=swap.target\nLoadState=loaded\n")])
    assert (found.status, found.symptom, found.locator) == ("fail", "swap.comes_back", "swap.target")


def test_where_swap_may_stay_nothing_is_said() -> None:
    assert told("__host_tuning_comes_back") == []


def test_units_that_are_not_loaded_are_asked_for_by_name() -> None:
    loader = DataLoader()
    known = loader.load_from_file(str(ROLE / "vars/main.yml"), trusted_as_template=True)
    lines = ["dev-vda3.swap generated -", "srv-package.swap enabled enabled", ""]
    variables = {**known, "__host_tuning_swap_files": {"stdout_lines": lines}}
    names = plain(Templar(loader=loader, variables=variables).template(known["__host_tuning_swap_names"]))
    assert names[:2] == ["swap.target", "*.swap"] and names[-2:] == ["dev-vda3.swap", "srv-package.swap"]
