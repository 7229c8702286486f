"""HTTPS repositories through the cache: what hosts ask for, and what the cache makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from firstlight.aptcache import VENDORS, asked, cached, clients, remaps
from firstlight.errors import InputError
from firstlight.plainvalue import plain

ROOT = Path(__file__).parents[2]
CACHE = "http://10.0.0.1:3142"
# the roles' options that name an apt repository, with the template that writes it
SOURCES = {
    "docker_engine_repository_url": "docker_engine/templates/docker.sources.j2",
    "docker_engine_toolkit_repository_url": "docker_engine/templates/nvidia-container-toolkit.sources.j2",
    "gpu_driver_repository_url": "gpu_driver/templates/nvidia-cuda.sources.j2",
    "gpu_rdma_repository_url": "gpu_rdma/templates/doca.sources.j2",
}


@pytest.mark.parametrize(
    ("url", "cache", "is_asked"),
    [
        ("https://download.docker.com/linux", CACHE, "http://download.docker.com/linux"),
        ("https://download.docker.com/linux/debian", CACHE, "http://download.docker.com/linux/debian"),
        # no cache: as it is
        ("https://download.docker.com/linux", "", "https://download.docker.com/linux"),
        # a site's own keeps its TLS and its address
        ("https://mirror.example.org/docker", CACHE, "https://mirror.example.org/docker"),
        ("http://mirror.example.org/docker", CACHE, "http://mirror.example.org/docker"),
        # another host or folder that only begins alike
        ("https://download.docker.com.example.org/linux", CACHE, "https://download.docker.com.example.org/linux"),
        ("https://download.docker.com/linux-old", CACHE, "https://download.docker.com/linux-old"),
    ],
)
def test_what_hosts_ask_for(url: str, cache: str, is_asked: str):
    assert cached(url, cache) == is_asked


def rules(repositories: list[dict[str, str]], own: list[dict[str, str]]) -> dict[str, str]:
    return {rule["url"]: rule["upstream"] for rule in remaps(repositories, own)}


def test_the_cache_fetches_each_vendor_with_https():
    assert rules([], []) == {vendor.replace("https://", "http://"): vendor for vendor in VENDORS}


def test_the_site_s_repositories_have_rules_where_the_cache_fetches_them_from_elsewhere():
    repositories = [
        {"url": "https://a.example/debian"},
        {"url": "https://b.example/debian", "mirror": "http://mirror.example/b"},
        {"url": "http://c.example/debian", "mirror": ""},
    ]
    found = rules(repositories, [])
    assert found["http://a.example/debian"] == "https://a.example/debian"
    assert found["http://b.example/debian"] == "http://mirror.example/b"
    assert "http://c.example/debian" not in found


@pytest.mark.parametrize(
    ("cache", "asked_for"),
    [
        (
            CACHE,
            {
                "plain": "http://a.example/debian",
                "mirrored": "http://b.example/debian",
                "unmirrored": "http://c.example/debian",
            },
        ),
        # nobody stands between: the host has to know the mirror by itself
        (
            "",
            {
                "plain": "https://a.example/debian",
                "mirrored": "https://mirror.example/b",
                "unmirrored": "https://c.example/debian",
            },
        ),
    ],
)
def test_a_host_asks_the_mirror_itself_where_there_is_no_cache(cache: str, asked_for: dict[str, str]):
    loader = DataLoader()
    known = {"apt_cache_url": cache, "inventory_hostname": "n1"}
    for file in ("defaults/main.yml", "vars/main.yml"):
        known = loader.load_from_file(str(ROOT / "roles/apt_cache" / file), trusted_as_template=True) | known
    known["apt_cache_repositories"] = [
        {"name": "plain", "url": "https://a.example/debian"},
        {"name": "mirrored", "url": "https://b.example/debian", "mirror": "https://mirror.example/b"},
        {"name": "unmirrored", "url": "https://c.example/debian", "mirror": ""},
    ]
    assert plain(Templar(loader=loader, variables=known).template(known["__apt_cache_uris"])) == asked_for


@pytest.mark.parametrize("url", ["http://download.docker.com/linux", "http://download.docker.com"])
def test_the_site_s_word_goes_before_the_vendor_s(url: str):
    found = rules([], [{"url": url, "upstream": "http://mirror.example/docker"}])
    assert found[url] == "http://mirror.example/docker"
    assert "https://download.docker.com/linux" not in found.values()
    assert len(found) == len(VENDORS)


def test_a_site_s_rule_for_a_part_of_a_vendor_s_leaves_the_rest():
    found = rules([], [{"url": "http://download.docker.com/linux/debian", "upstream": "http://mirror.example/docker"}])
    assert found["http://download.docker.com/linux"] == "https://download.docker.com/linux"
    assert len(found) == len(VENDORS) + 1


@pytest.mark.parametrize(
    ("allowed", "matched"),
    [
        ("10.0.0.0/16", "10.0.0.0/255.255.0.0"),
        ("10.0.0.0/255.255.0.0", "10.0.0.0/255.255.0.0"),
        ("10.0.0.7/24", "10.0.0.0/255.255.255.0"),
        ("10.0.0.7", "10.0.0.7"),
        ("0.0.0.0/0", "0.0.0.0/0.0.0.0"),
        # by itself it would be compared with the client's name as well
        ("::1", "[::1]/128"),
        ("[::1]", "[::1]/128"),
        ("fd00:1::/64", "[fd00:1::]/64"),
        ("[fd00:1::]/64", "[fd00:1::]/64"),
    ],
)
def test_who_may_use_it_needs_no_name_looked_up(allowed: str, matched: str):
    assert clients([allowed]) == [matched]


@pytest.mark.parametrize(
    "wrong", ["node1.example.org", ".example.org", "10.1.", "10.0.0.0/33", "ALL", "", "10.0.0.0/x"]
)
def test_a_client_that_is_no_network_is_refused_in_one_line(wrong: str):
    with pytest.raises(
        InputError, match=rf"^apt_cache_allowed_clients: no network or address: {re.escape(repr(wrong))}"
    ):
        clients(["10.0.0.1", wrong])


def test_each_repository_of_a_role_is_a_vendor_s_that_the_cache_knows():
    found = {}
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        for name, value in yaml.safe_load(path.read_text()).items():
            if name.endswith("repository_url"):
                found[name] = value
    assert set(found) == set(SOURCES)
    for name, value in found.items():
        assert cached(value, CACHE) == asked(value) != value, name


@pytest.mark.parametrize("name", SOURCES)
def test_each_role_s_sources_go_through_the_cache(name: str):
    template = (ROOT / "roles" / SOURCES[name]).read_text()
    assert f"URIs: {{{{ {name} | apt_cached(apt_cache_url | default('')) }}}}/" in template
    assert len(re.findall(r"(?m)^URIs:", template)) == 1


def test_a_host_s_clock_is_right_before_apt_is_used_and_the_cache_is_known_before_a_package_is_fetched():
    play = yaml.safe_load((ROOT / "playbooks/configure.yml").read_text())[0]
    roles = [task["ansible.builtin.include_role"] for task in play["tasks"] if "ansible.builtin.include_role" in task]
    assert [(role["name"], role.get("tasks_from")) for role in roles[:3]] == [
        ("time_sync", "step.yml"),
        ("apt_cache", None),
        ("time_sync", None),
    ]
    for task in yaml.safe_load((ROOT / "roles/time_sync/tasks/step.yml").read_text()):
        assert not {"ansible.builtin.apt", "ansible.builtin.package", "apt_lists"} & set(task), task["name"]
