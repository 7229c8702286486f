"""Why a host is unreachable, told from what OpenSSH 9 and Ansible really print."""

from __future__ import annotations

import pytest

from firstlight.sshreason import judge_unreachable

SHA = "SHA256:" + "x" * 43
CHANGED = (
    "Task failed: Failed to connect to the host via ssh: @@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION "
    "HAS CHANGED!     @\r\n@@@@@\r\nIT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r\nThe fingerprint for the "
    f"ED25519 key sent by the remote host is\n{SHA}.\r\nPlease contact your system administrator.\r\nOffending "
    "ED25519 key in /x/known_hosts:1\r\nHost key for r1-n01 has changed and you have requested strict checking.\r\n"
    "Host key verification failed."
)
UNKNOWN = (
    "Task failed: Failed to connect to the host via ssh: No ED25519 host key is known for r1-n01 and you have "
    "requested strict checking.\r\nHost key verification failed."
)


@pytest.mark.parametrize(
    ("said", "symptom", "words"),
    [
        (CHANGED, "ssh.host_key_changed", f"another SSH key than the one in known_hosts_file (it shows {SHA})"),
        (UNKNOWN, "ssh.host_key_unknown", "no SSH key of this host is in known_hosts_file, so it cannot be verified"),
        ("Host key verification failed.", "ssh.host_key_unknown", "playbooks/host_keys.yml"),
        ("Failed: ops@10.0.0.1: Permission denied (publickey).", "ssh.login_refused", "Permission denied (publickey)"),
        ("Connection timed out during banner exchange", "ssh.unreachable", "banner exchange"),
    ],
)
def test_the_reason_is_named_with_what_to_do(said, symptom, words):
    reason = judge_unreachable(said)
    assert reason.symptom == symptom
    assert words in reason.evidence
    assert len(reason.evidence) < 400
    if "key" in symptom:
        assert "playbooks/host_keys.yml" in reason.evidence
        assert reason.action == "escalate"
