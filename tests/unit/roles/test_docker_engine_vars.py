"""What role docker_engine does where nobody says how: by the host's profile, and by the Docker that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from firstlight.plainvalue import plain
from firstlight.rolefindings import read

ROLE = Path(__file__).parents[3] / "roles/docker_engine"
SERVER = {"gpus": {"count": 8}, "nvme": {"count": 6}}
BOOKWORM = "docker.io:\n  Installed: 20.10.24+dfsg1-1+deb12u1+b2\n  Candidate: 26.1.5\n  Version table:\n"
TRIXIE = (
    "docker.io:\n  Installed: (none)\n  Candidate: 26.1.5+dfsg1-9+b9\n  Version table:\n     26.1.5+dfsg1-9+b9 500\n"
)
UNKNOWN = "docker-ce:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
OLD_UPSTREAM = "docker-ce:\n  Installed: 5:24.0.9-1~debian.12~bookworm\n  Candidate: 5:29.0.0-1\n"


def told(name: str, profile: Any = SERVER, policy: str = "", **variables: Any) -> Any:
    """A variable of the role's, or what a template of its makes."""
    loader = DataLoader()
    known: dict[str, Any] = {"ansible_check_mode": False, "__docker_engine_policy": {"stdout": policy}}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known |= loader.load_from_file(str(ROLE / file), trusted_as_template=True)
    known |= ({} if profile is None else {"profile": profile}) | variables
    text = trust_as_template((ROLE / "templates" / name).read_text()) if name.endswith(".j2") else known[name]
    return plain(Templar(loader=loader, variables=known).template(text))


@pytest.mark.parametrize(
    ("profile", "settings", "gpu", "root", "mount"),
    [
        (SERVER, {}, "auto", "/data/docker", "/data"),
        (SERVER, {"zfs_pool_mountpoint": "/pool"}, "auto", "/pool/docker", "/pool"),
        (SERVER, {"configure_skip": ["zfs_pool"]}, "auto", "/var/lib/docker", ""),
        (SERVER, {"docker_engine_data_root": "/var/lib/docker"}, "auto", "/var/lib/docker", ""),
        (SERVER, {"docker_engine_gpu": "none"}, "none", "/data/docker", "/data"),
        ({"gpus": {"count": 8}}, {}, "auto", "/var/lib/docker", ""),
        ({"nvme": {"count": 6}}, {}, "none", "/data/docker", "/data"),
        ({}, {}, "none", "/var/lib/docker", ""),
        (None, {}, "none", "/var/lib/docker", ""),
    ],
)
def test_defaults_follow_the_profile_and_the_site(
    profile: Any, settings: dict[str, Any], gpu: str, root: str, mount: str
) -> None:
    names = ("docker_engine_gpu", "docker_engine_data_root", "docker_engine_data_root_mount")
    assert [told(name, profile, **settings) for name in names] == [gpu, root, mount]


@pytest.mark.parametrize(
    ("policy", "settings", "way"),
    [
        (BOOKWORM, {}, "runtime"),  # what is installed stays
        (TRIXIE, {}, "cdi"),
        (UNKNOWN, {}, "runtime"),  # which every Docker can
        (UNKNOWN, {"docker_engine_package_source": "docker"}, "cdi"),
        (OLD_UPSTREAM, {"docker_engine_package_source": "docker"}, "runtime"),
        (OLD_UPSTREAM, {"docker_engine_package_source": "docker", "docker_engine_version": "5:28.5.*"}, "cdi"),
        (TRIXIE, {"docker_engine_version": "20.10.24*"}, "runtime"),
        (BOOKWORM, {"docker_engine_gpu": "cdi"}, "cdi"),
        (TRIXIE, {"docker_engine_gpu": "runtime"}, "runtime"),
        (TRIXIE, {"docker_engine_gpu": "none"}, "none"),
    ],
)
def test_the_way_for_gpus_is_what_the_docker_there_can(policy: str, settings: dict[str, Any], way: str) -> None:
    assert told("__docker_engine_gpu", policy=policy, **settings) == way
    written = json.loads(told("daemon.json.j2", policy=policy, **settings))
    assert written.get("features", {}).get("cdi", False) is (way == "cdi")
    assert ("nvidia" in written.get("runtimes", {})) is (way == "runtime")


def test_images_are_in_the_data_root_too() -> None:
    written = json.loads(told("daemon.json.j2", policy=TRIXIE))
    assert written["data-root"] == "/data/docker"
    assert written["features"] == {"cdi": True, "containerd-snapshotter": False}
    assert "features" not in json.loads(told("daemon.json.j2", {}))


def test_no_gpus_in_containers_is_told_where_there_are_some() -> None:
    running = {"__docker_engine_other_settings": [], "__docker_engine_info": {}}
    found = read("docker_engine", told("__docker_engine_findings", docker_engine_gpu="none", **running))
    assert [(f.status, f.symptom) for f in found] == [("warn", "docker.gpu_off")]
    assert "the profile has 8 GPUs" in found[0].evidence
    assert told("__docker_engine_findings", {"nvme": {"count": 6}}, **running) == []


ANSWER = json.dumps(
    {
        "ServerVersion": "26.1.5",
        "DockerRootDir": "/var/lib/docker",
        "LiveRestoreEnabled": True,
        "LoggingDriver": "json-file",
        "RegistryConfig": {"Mirrors": []},
    }
)


@pytest.mark.parametrize(
    ("lines", "other"),
    [
        (["same", ANSWER], []),
        (["other", ANSWER], ["another daemon.json than there is now"]),
        (["same", ANSWER.replace("true", "false")], ["live restore False, wanted is True"]),
    ],
)
def test_a_daemon_that_started_with_another_file_is_seen(lines: list[str], other: list[str]) -> None:
    asked = {"stdout_lines": lines, "stdout": "\n".join(lines), "stderr": ""}
    assert told("__docker_engine_other_settings", {}, __docker_engine_info=asked) == other
    found = read("docker_engine", told("__docker_engine_findings", {}, __docker_engine_info=asked))
    assert [f.symptom for f in found] == ["docker.other_settings"] * bool(other)


@pytest.mark.parametrize("lines", [[], ["other"], ["same", ""], ["same", "Cannot connect"]])
def test_a_daemon_that_does_not_answer(lines: list[str]) -> None:
    asked = {"stdout_lines": lines, "stdout": "\n".join(lines), "stderr": "Cannot connect to the Docker daemon"}
    [found] = read("docker_engine", told("__docker_engine_findings", {}, __docker_engine_info=asked))
    assert (found.status, found.symptom) == ("fail", "docker.not_answering")
    assert "Cannot connect" in found.evidence


def test_what_systemd_refuses_about_the_devices_is_a_finding() -> None:
    asked = {"stdout_lines": ["same", ANSWER.replace("/var/lib/docker", "/data/docker")]}
    refresh = {"results": [{"item": "a"}, {"item": "b", "msg": "Unit b is masked."}]}
    variables = {"__docker_engine_info": asked, "__docker_engine_refresh": refresh, "docker_engine_gpu_image": "x"}
    gpus = {"stdout_lines": ["GPU-a"]}
    variables |= {"__docker_engine_gpus_here": gpus, "__docker_engine_gpus_inside": gpus}
    [found] = read("docker_engine", told("__docker_engine_findings", policy=TRIXIE, **variables))
    assert (found.symptom, found.locator) == ("docker.no_gpu", "nvidia-cdi-refresh")
    assert "Unit b is masked." in found.evidence
