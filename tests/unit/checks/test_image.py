"""What runs on an installed host against what was pinned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.checks.image import judge_image

NOBLE = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nID=ubuntu\n'
DEBIAN = "# x\nID=debian\nVERSION_ID='12'\nVERSION_CODENAME=bookworm\n"
MODULE = Path(__file__).parents[3] / "plugins" / "modules" / "install_proof.py"
KERNEL = "6.8.0-49-generic"
# with the library where modules look for it; the arguments come from the standard input
RUN_MODULE = """
import importlib.util, sys
path = sys.argv.pop()
import ansible.module_utils, firstlight
sys.modules["ansible.module_utils.firstlight"] = firstlight
spec = importlib.util.spec_from_file_location("install_proof", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.main()
"""


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, NOBLE),
        ({"image": "ubuntu/noble", "release": "ubuntu-24.04", "kernel_version": KERNEL}, NOBLE),
        ({"image": "ubuntu/24.04"}, NOBLE),
        ({"image": "custom/anything"}, DEBIAN),
        ({"image": "custom/anything", "release": "debian-12"}, DEBIAN),
    ],
)
def test_what_was_pinned_runs(wanted, text):
    [finding] = judge_image(wanted, text, KERNEL)
    assert (finding.status, finding.action) == ("ok", "none")
    assert KERNEL in finding.evidence


@pytest.mark.parametrize(
    ("wanted", "text", "symptom", "evidence"),
    [
        ({"image": "ubuntu/jammy"}, NOBLE, "install.wrong_image", "ubuntu-24.04 (noble) runs, ubuntu/jammy was"),
        ({"image": "ubuntu/noble"}, DEBIAN, "install.wrong_image", "debian-12 (bookworm) runs"),
        ({"release": "ubuntu-24.04"}, DEBIAN, "install.wrong_image", "debian-12 runs, versions.yml pins ubuntu-24.04"),
        ({"kernel_version": "6.8.0-51-generic"}, NOBLE, "install.wrong_kernel", f"{KERNEL} runs, versions.yml pins 6"),
    ],
)
def test_something_else_runs(wanted, text, symptom, evidence):
    [finding] = judge_image(wanted, text, KERNEL)
    assert (finding.status, finding.symptom, finding.action) == ("fail", symptom, "escalate")
    assert evidence in finding.evidence


def test_both_can_be_wrong():
    found = judge_image({"release": "ubuntu-22.04", "kernel_version": "1"}, NOBLE, KERNEL)
    assert [f.symptom for f in found] == ["install.wrong_image", "install.wrong_kernel"]


def test_a_host_that_says_nothing_is_unknown():
    [finding] = judge_image({"image": "ubuntu/noble"}, "", KERNEL)
    assert (finding.status, finding.symptom) == ("unknown", "install.wrong_image")


@given(st.text(), st.text())
def test_no_host_makes_it_stumble(text, kernel):
    assert judge_image({"image": "ubuntu/noble", "kernel_version": "1"}, text, kernel)


def test_the_proof_of_an_installation_includes_it():
    """The module as it runs on a host, on this machine."""
    arguments = {"image": {"image": "custom/any", "release": "plan9-4", "kernel_version": "0.0.1"}, "fresh": False}
    done = subprocess.run(
        [sys.executable, "-c", RUN_MODULE, MODULE], input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    found = {finding["symptom"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "versions.yml pins plan9-4" in found["install.wrong_image"]["evidence"]
    assert found["install.wrong_kernel"]["evidence"] == f"{os.uname().release} runs, versions.yml pins 0.0.1"
