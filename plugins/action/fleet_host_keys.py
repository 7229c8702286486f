"""Show the SSH host keys of the play's hosts, and take them on a person's word (see plugins/modules/)."""

from __future__ import annotations

from typing import Any

from firstlight.errors import InputError
from firstlight.fleet_action import FleetAction
from firstlight.maas.enrol import CHANGED, SILENT, UNKNOWN, code_of, compare, scan, to_take
from firstlight.maas.hostkeys import fingerprint


class ActionModule(FleetAction):
    REPORTS = False
    _VALID_ARGS = frozenset({"confirm"})

    def work(self) -> dict[str, Any]:
        targets = {}
        for name in self.hosts:
            if address := self.host_value(name, "ansible_host"):
                targets[name] = (str(address), int(self.host_value(name, "ansible_port", 22)))
            else:
                self.tell(f"{name}: MAAS tells no address; is it installed?")
        files = {name: self.known_hosts(name) for name in targets}
        shown = compare(targets, scan(targets), files)
        for host in shown:
            self.tell(host.line())
        wanted, code = to_take(shown), code_of(shown)
        given = str(self._task.args.get("confirm") or "")
        counts = {state: sum(host.state == state for host in shown) for state in (UNKNOWN, CHANGED, SILENT)}
        said = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "all known"
        if not wanted:
            return {"msg": f"{len(targets)} hosts: {said}"}
        if not given:
            look = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
            how = f"compare the fingerprints (at the console: {look}), then -e host_keys_confirm={code}"
            return {"msg": f"{len(targets)} hosts: {said}; nothing was written. To take the keys: {how}"}
        if given != code:
            raise InputError(
                f"host_keys_confirm={given} is not for the keys that are shown now, which have the code {code}; "
                "nothing was written"
            )
        if not self.check:
            for host in wanted:
                files[host.name].replace(host.name, host.key)
                self.ledger.deed(host.name, f"took the SSH host key {fingerprint(host.key)} on a person's word")
        return {"changed": True, "msg": f"{len(targets)} hosts: {said}; {len(wanted)} keys taken"}
