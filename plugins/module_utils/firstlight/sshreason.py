"""Why SSH did not let us in: what ssh prints has no codes, so its fixed words are told apart here, in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass

ENROL = "playbooks/host_keys.yml shows its key and takes it on your word"


@dataclass(frozen=True)
class Reason:
    """symptom and action of a finding, and its evidence: one line that says what to do."""

    symptom: str
    evidence: str
    action: str


def judge_unreachable(said: str) -> Reason:
    """said: what Ansible tells of an unreachable host, with ssh's own words in it (its texts are not translated)."""
    shown = re.search(r"SHA256:[A-Za-z0-9+/]{43}", said)
    key = f" (it shows {shown[0]})" if shown else ""
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or ("Host key for" in said and "has changed" in said):
        evidence = (
            f"the host shows another SSH key than the one in known_hosts_file{key}; was it installed past us, or "
        )
        return Reason("ssh.host_key_changed", f"{evidence}is this another machine? If all is well: {ENROL}", "escalate")
    if ("host key is known for" in said and "strict checking" in said) or "Host key verification failed" in said:
        evidence = f"no SSH key of this host is in known_hosts_file{key}, so it cannot be verified; {ENROL}"
        return Reason("ssh.host_key_unknown", evidence, "escalate")
    if "Permission denied" in said:
        return Reason("ssh.login_refused", f"the host is verified and refuses our login: {said}", "escalate")
    return Reason("ssh.unreachable", said, "power_cycle")
