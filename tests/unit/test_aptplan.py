"""What an apt transaction would do is read rightly, and what it must not do is refused."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight import aptplan
from firstlight.aptplan import Change, Plan
from firstlight.checks.capture import Output
from firstlight.findings import Finding

FAMILY = ["nvidia-*", "libnvidia-*", "!nvidia-container-*", "!libnvidia-container*"]
NVIDIA = ["NVIDIA CUDA"]

# lines as apt 2.6 and 3.0 print them
SIMULATED = """NOTE: This is only a simulation!
Reading package lists...
Building dependency tree...
The following packages will be REMOVED:
  nvidia-driver-pinning-570
Remv nvidia-driver-pinning-570 [570-1]
Inst libnvidia-ml1 [570.86.15-1] (580.95.05-1 NVIDIA CUDA:/ [amd64]) []
Inst nvidia-open (580.95.05-1 NVIDIA CUDA: [all])
Inst libglvnd0 (1.6.0-1 Debian:12.9/stable, Debian-Security:12/stable-security [amd64])
Conf libnvidia-ml1 (580.95.05-1 NVIDIA CUDA:/ [amd64])
"""

FILES = """Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 file:/srv/nvidia ./ Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin
 500 http://deb.example.org/debian bookworm/non-free amd64 Packages
     release v=12.9,o=Debian,a=stable,n=bookworm,l=Debian,c=non-free,b=amd64
     origin deb.example.org
Pinned packages:
     nvidia-open -> 580.95.05-1 with priority 1001
"""

POLICY = """nvidia-smi:
  Installed: 535.309.01-1
  Candidate: 580.95.05-1
  Version table:
     580.95.05-1 1001
        600 file:/srv/nvidia ./ Packages
 *** 535.309.01-1 500
        500 http://deb.example.org/debian bookworm/non-free amd64 Packages
        100 /var/lib/dpkg/status
nvidia-open:
  Installed: 580.95.05-1
  Candidate: 580.95.05-1
  Version table:
 *** 580.95.05-1 1001
        600 file:/srv/nvidia ./ Packages
        100 /var/lib/dpkg/status
nvidia-old:
  Installed: 1.0-1
  Candidate: 1.0-1
  Version table:
 *** 1.0-1 100
        100 /var/lib/dpkg/status
nvidia-none:
  Installed: (none)
  Candidate: 2
  Version table:
     2 500
        600 file:/srv/nvidia ./ Packages
"""


def test_a_simulation_is_read():
    plan = aptplan.parse_simulation(SIMULATED)
    assert plan.removals == {"nvidia-driver-pinning-570": "570-1"}
    assert plan.changes == [
        Change("libnvidia-ml1", "580.95.05-1", "570.86.15-1", ("NVIDIA CUDA",)),
        Change("nvidia-open", "580.95.05-1", "", ("NVIDIA CUDA",)),
        Change("libglvnd0", "1.6.0-1", "", ("Debian", "Debian-Security")),
    ]
    assert aptplan.refusals(plan, FAMILY, NVIDIA) == []


def test_a_package_that_goes_and_comes_in_one_transaction_is_not_removed():
    text = "Remv libnvidia-ml1 [570-1]\nInst libnvidia-ml1:amd64 [570-1] (580-1 NVIDIA CUDA: [amd64])\n"
    assert aptplan.parse_simulation(text).removals == {}


def test_archives_are_told_from_policy():
    files = aptplan.parse_files(FILES)
    assert files["file:/srv/nvidia ./ Packages"] == "NVIDIA CUDA"
    assert aptplan.parse_policy(POLICY, files) == {
        "nvidia-smi": ("Debian",),
        "nvidia-open": ("NVIDIA CUDA",),
        "nvidia-old": (),
    }


@pytest.mark.parametrize(
    "line, words",
    [
        ("Remv linux-image-6.1.0-40-amd64 [6.1.153-1]", "would remove linux-image-6.1.0-40-amd64 6.1.153-1: the"),
        ("Remv docker-ce [5:28.5]", "would remove docker-ce 5:28.5, which has nothing to do with it"),
        ("Remv nvidia-container-toolkit [1.18.0-1]", "would remove nvidia-container-toolkit"),
        ("Purg zfs-dkms [2.1.11]", "would remove zfs-dkms"),
        ("Inst linux-image-amd64 [6.1.1] (6.1.9 Debian:12/stable [amd64])", "replace linux-image-amd64 6.1.1 by 6.1.9"),
        ("Inst linux-modules-6.8.0-90-generic (6.8 Ubuntu:24.04/noble-updates [amd64])", "install linux-modules-6.8"),
        ("Inst libnvidia-cfg1 (535.309.01-1 Debian:12.9/stable [amd64])", "libnvidia-cfg1 (535.309.01-1 from Debian)"),
        ("Inst libnvidia-cfg1 (535.309.01-1 [amd64])", "from an archive without a label"),
    ],
)  # fmt: skip
def test_what_it_must_not_do_is_refused_with_a_name(line, words):
    said = aptplan.refusals(aptplan.parse_simulation(SIMULATED + line + "\n"), FAMILY, NVIDIA)
    assert len(said) == 1
    assert words in said[0]


def test_modules_of_the_driver_are_not_the_kernel():
    line = "Inst linux-modules-nvidia-580-server-open-generic (6.8 Ubuntu:24.04/noble [amd64])"
    assert aptplan.refusals(aptplan.parse_simulation(line), FAMILY, []) == []


def test_a_driver_that_stays_from_another_archive_is_a_mix():
    installed = aptplan.parse_policy(POLICY, aptplan.parse_files(FILES))
    said = aptplan.refusals(Plan(), FAMILY, NVIDIA, installed)
    assert said == [
        "would mix packages of several archives, wanted is NVIDIA CUDA alone: nvidia-smi (installed from Debian)"
    ]
    # it goes or is replaced by ours: no mix
    assert aptplan.refusals(Plan(removals={"nvidia-smi": "535.309.01-1"}), FAMILY, NVIDIA, installed) == []
    ours = Change("nvidia-smi", "580.95.05-1", "535.309.01-1", ("NVIDIA CUDA",))
    assert aptplan.refusals(Plan([ours]), FAMILY, NVIDIA, installed) == []


def test_what_is_missing():
    installed = {"nvidia-open": "580.95.05-1"}
    assert aptplan.missing(["nvidia-open", "nvidia-open=580.*", "nvidia-open=580.95.05-*"], installed) == []
    assert aptplan.missing(["nvidia-open=570.*", "nvidia-imex"], installed) == ["nvidia-open=570.*", "nvidia-imex"]


def test_what_is_held_and_has_to_move_along_is_named():
    plan = aptplan.parse_simulation(SIMULATED)
    assert aptplan.complete(["nvidia-open=580.*"], plan, FAMILY) == ["nvidia-open=580.*", "libnvidia-ml1=580.95.05-1"]


def test_only_what_is_installed_counts():
    text = "installed|nvidia-open|580-1\nconfig-files|nvidia-smi|535\nnot-installed|libcuda1|\nnonsense\n"
    assert aptplan.parse_installed(text) == {"nvidia-open": "580-1"}


def test_apt_s_own_words():
    text = "Reading...\n nvidia-open : Depends: nvidia-driver (= 1) but 2 is to be installed\nE: Unable to correct\n"
    assert aptplan.errors(text) == (
        "nvidia-open : Depends: nvidia-driver (= 1) but 2 is to be installed; E: Unable to correct"
    )
    assert aptplan.errors("") == "it did not say why"


WORDS = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
LINES = st.lists(
    st.one_of(WORDS, st.sampled_from((SIMULATED + FILES + POLICY).splitlines())), max_size=40
).map("\n".join)  # fmt: skip


@given(LINES, LINES, LINES)
def test_foreign_text_is_never_an_error(simulated, files, policy):
    plan = aptplan.parse_simulation(simulated)
    installed = aptplan.parse_policy(policy, aptplan.parse_files(files))
    assert all(isinstance(line, str) for line in aptplan.refusals(plan, FAMILY, NVIDIA, installed))
    aptplan.parse_installed(simulated)
    aptplan.errors(simulated)


class Ended(Exception):
    pass


MODULE = Path(__file__).parents[2] / "plugins" / "modules" / "apt_plan.py"


@pytest.mark.parametrize(
    ("code", "printed", "symptom", "words"),
    [
        (0, "Remv linux-image-6.1.0-40-amd64 [6.1.153-1]\n", "packages.refused", "would remove linux-image-6.1.0-40"),
        (100, "E: Version '999*' for 'nvidia-open' was not found\n", "packages.not_installable", "apt cannot install"),
    ],
)
def test_a_refusal_carries_a_finding_that_no_retry_is_asked_by(monkeypatch, code, printed, symptom, words):
    spec = importlib.util.spec_from_file_location("apt_plan_module", MODULE)
    module = importlib.util.module_from_spec(spec)
    for name in ("", ".aptplan", ".findings", ".checks", ".checks.capture"):  # as on a host
        ours = importlib.import_module(f"firstlight{name}")
        monkeypatch.setitem(sys.modules, f"ansible.module_utils.firstlight{name}", ours)
    spec.loader.exec_module(module)
    failed = {}

    def fail(**result):
        failed.update(result)
        raise Ended

    params = {"packages": ["nvidia-open=999*"], "family": FAMILY, "labels": []}
    monkeypatch.setattr(module, "AnsibleModule", lambda **_: SimpleNamespace(params=params, fail_json=fail))
    answers = {"dpkg-query": (0, ""), "apt-get": (code, printed)}
    monkeypatch.setattr(
        module, "run_command", lambda command: Output(answers[command.argv[0]][1], code=answers[command.argv[0]][0])
    )
    with pytest.raises(Ended):
        module.main()
    assert words in failed["msg"]
    [finding] = [Finding.from_dict(row) for row in failed["findings"]]
    assert (finding.status, finding.symptom, finding.action) == ("fail", symptom, "escalate")
    assert words in finding.evidence
