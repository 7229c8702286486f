"""What cloud-init says of itself, of several versions, as a finding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.findings import EVIDENCE_MAX
from firstlight.maas.cloudinit import judge_cloud_init

# cloud-init 24.1 and 22.4
DONE = {"boot_status_code": "enabled-by-generator", "detail": "DataSourceMAAS", "errors": [], "status": "done"}
DEGRADED = DONE | {
    "extended_status": "degraded done",
    "recoverable_errors": {"WARNING": ["Failed at merging in cloud config part from part-002"]},
}
FAILED = DONE | {
    "status": "error",
    "extended_status": "error - done",
    "errors": [
        "('ssh_authkey_fingerprints', ValueError('bad key'))",
        "Failed to start cloud-final.service",
        "modules-final: third",
        "modules-final: fourth",
    ],
}
OLD_TEXT = "status: error\ntime: Fri, 18 Nov 2025 00:26:30 +0000\ndetail:\nfailed run of stage modules-config\n"


@pytest.mark.parametrize(
    ("status", "text", "judged", "evidence"),
    [
        (0, "", "ok", "done"),
        (0, json.dumps(DONE), "ok", "done"),
        (2, json.dumps(DEGRADED), "warn", "recovered from: Failed at merging in cloud config part from part-002"),
        (1, json.dumps(FAILED), "fail", "cloud-init failed: ('ssh_authkey_fingerprints', ValueError('bad key')); "),
        (1, json.dumps(FAILED), "fail", "modules-final: third and 1 more; see /var/log/cloud-init.log"),
        (2, json.dumps(FAILED), "fail", "Failed to start cloud-final.service"),  # 22.4 gives 2 for an error
        (1, OLD_TEXT, "fail", "cloud-init failed: failed run of stage modules-config"),
        (1, "", "fail", "cloud-init failed (exit status 1); see"),
        (127, "", "fail", "cloud-init failed (exit status 127)"),
        (124, '{"status": "running", "errors": []}', "fail", "not done after 10 minutes, it is running"),
        (124, "", "fail", "cloud-init is not done after 10 minutes"),
    ],
)
def test_what_it_came_to(status, text, judged, evidence):
    finding = judge_cloud_init(status, text, 10)
    assert finding.status == judged
    assert evidence in finding.evidence
    assert (finding.symptom == "install.cloud_init_failed") == (judged != "ok")


KEYS = st.sampled_from(["status", "errors", "recoverable_errors", "detail", "WARNING"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(st.integers(0, 255), st.text(max_size=300) | JSON.map(json.dumps))
def test_foreign_text_is_bounded_and_upsets_nothing(status, text):
    finding = judge_cloud_init(status, text, 10)
    assert len(finding.evidence) <= EVIDENCE_MAX and finding.evidence.isprintable()
    assert finding.status in ("ok", "warn", "fail")
    assert (finding.status == "ok") <= (status in (0, 2))


def test_a_tower_of_brackets():
    assert judge_cloud_init(1, "[" * 60_000, 10).status == "fail"
