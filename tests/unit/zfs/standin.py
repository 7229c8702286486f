"""Runs the scenario's stand-in for drives and ZFS in a folder of a test's own."""

import contextlib
import importlib.util
import io
import json
from pathlib import Path

from firstlight.hostfacts import disks as hostdisks

PROGRAM = Path(__file__).parents[3] / "molecule/zfs_pool/zfs_standin.py"


class Host:
    """A host with six empty drives; ``calls`` are the commands that ``run`` was given."""

    def __init__(self, folder):
        self.folder = folder
        self.calls = []
        self._standin = importlib.util.module_from_spec(importlib.util.spec_from_file_location("standin", PROGRAM))
        self._standin.__spec__.loader.exec_module(self._standin)
        self._standin.STATE, self._standin.DEV = folder / "state.json", folder / "dev"
        (folder / "dev").mkdir()
        self.control("reset")

    def _start(self, command):
        """(status, output, errors) as its own process would give; starting one takes most of a second."""
        out, errors = io.StringIO(), io.StringIO()
        path = self.folder / "state.json"
        state = json.loads(path.read_text()) if path.exists() else self._standin.fresh()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = self._standin.answer(command[0], command[1:], state)
            except SystemExit as stopped:
                code = 1
                print(stopped.code, file=errors)
        return code, out.getvalue(), errors.getvalue()

    def control(self, *words):
        assert self._start(["control", *words])[0] == 0, words

    def run(self, command):
        self.calls.append(command)
        return self._start(command)

    def facts(self):
        """As the module host_facts gives them."""
        blocks = hostdisks.read_lsblk(self._start(["lsblk", "--json"])[1])
        links = {}
        for link in (self.folder / "dev/disk/by-id").iterdir():
            links.setdefault(link.readlink().name, []).append(link.name)
        signatures = {}
        for name in blocks.drives():
            paths = [f"/dev/{n}" for n in blocks.below(name)]
            signatures[name] = hostdisks.read_wipefs(self._start(["wipefs", "--json", *paths])[1])
        rows = hostdisks.describe(blocks, links, signatures, ["vda"])
        return {"disks": rows, "os_disks": [row for row in rows if row["is_os"]], "os_unresolved": []}
