"""community.general.redfish_info on a sample of BMCs: the collection comes from the PyPI package "ansible"."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from bench_fleet import PASSWORD, PROJECT, USER, Fleet, Measured, address

CACHE = PROJECT / ".cache" / "benchmarks"
WANTED = "ansible_collections/community/general/"
NEEDED = (
    f"{WANTED}MANIFEST.json",
    f"{WANTED}FILES.json",
    f"{WANTED}meta/runtime.yml",
    f"{WANTED}plugins/modules/redfish_info.py",
    f"{WANTED}plugins/module_utils/redfish_utils.py",
    f"{WANTED}plugins/doc_fragments/redfish.py",
    f"{WANTED}plugins/doc_fragments/attributes.py",
)
# What discovery's two questions come to in this module's words.
COMMANDS = {
    "macs": {"Systems": ["GetSystemInventory", "GetNicInventory"]},
    "all": {
        "Systems": [
            "GetSystemInventory",
            "GetNicInventory",
            "GetCpuInventory",
            "GetMemoryInventory",
            "GetDiskInventory",
            "GetBiosAttributes",
        ],
        "Chassis": ["GetPsuInventory", "GetFanInventory", "GetChassisThermals"],
        "Update": ["GetFirmwareInventory"],
        "Manager": ["GetManagerInventory", "GetLogs"],
    },
}


def collection() -> Path | None:
    """The folder of ansible_collections, made when need be; None when the package cannot be had."""
    folder = CACHE / "collections"
    if (folder / NEEDED[3]).exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    wheels = sorted(CACHE.glob("ansible-*.whl"))
    if not wheels:
        print("fetching the PyPI package ansible (55 MB, once) for community.general.redfish_info ...", flush=True)
        command = ["pip", "download", "--no-deps", "--only-binary", ":all:", "--dest", str(CACHE), "ansible>=12,<13"]
        subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)
        wheels = sorted(CACHE.glob("ansible-*.whl"))
    if not wheels:
        return None
    with zipfile.ZipFile(wheels[-1]) as archive:
        present = set(archive.namelist())
        for name in NEEDED:
            if name in present:
                archive.extract(name, folder)
    wheels[-1].unlink()
    return folder


def ask(fleet: Fleet, numbers: Sequence[int], what: str, forks: int) -> Measured | None:
    """Ask these BMCs with one Ansible task a category; None when the collection cannot be had, or the run fails."""
    found = collection()
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        tasks = [
            {
                "community.general.redfish_info": {
                    "category": [category],
                    "command": commands,
                    "baseuri": "{{ bmc }}",
                    "username": USER,
                    "password": PASSWORD,
                    "validate_certs": True,
                    "ca_path": fleet.ca_file,
                    "timeout": 30,
                },
            }
            for category, commands in COMMANDS[what].items()
        ]
        hosts = {f"n{n}": {"bmc": f"{address(n)}:{fleet.port}"} for n in numbers}
        variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        files = {
            "hosts.yml": {"all": {"hosts": hosts, "vars": variables}},
            "play.yml": [{"hosts": "all", "gather_facts": False, "tasks": tasks}],
        }
        for name, content in files.items():
            (Path(folder) / name).write_text(yaml.safe_dump(content))
        (Path(folder) / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path={found}\ncallback_result_format=json\nstdout_callback=minimal\n"
            f"forks={forks}\nretry_files_enabled=false\n"
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        known = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"],
            cwd=folder,
            env=known | {"ANSIBLE_CONFIG": f"{folder}/ansible.cfg"},
            capture_output=True,
            text=True,
        )
        wall = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        print(f"community.general.redfish_info fails: {(done.stdout + done.stderr)[-600:]}")
        return None
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, after.ru_maxrss / 1024, {"macs": done.stdout.count('"MACAddress"')})


if __name__ == "__main__":
    print(json.dumps(str(collection())))
