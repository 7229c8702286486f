"""The inventory plugin maas, run by ansible-inventory against the simulated region."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from maas_product_lab import KEY, ROOT, ProductLab

from firstlight.maas.enlist import enlist
from firstlight.maas.install import install

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory) -> Iterator[ProductLab]:
    """A lab with r1-n01 deployed, the others New, and a machine that is not of the fleet."""
    lab = ProductLab(tmp_path_factory.mktemp("lab"), machines=3)
    with lab.client() as client:
        ids = {name: str(r.system_id) for name, r in enlist(client, lab.desired(zone="r1")).items()}
        client.create("database7", ["02:ff:00:00:00:01"], "amd64/generic")
        install(client, lab.wanted({"r1-n01": ids["r1-n01"]}), lab.options())
    yield lab
    lab.stop()


class Site:
    """A folder with a maas.yml, and ansible-inventory over it."""

    def __init__(self, folder: Path, lab: ProductLab) -> None:
        self.folder = folder
        self.lab = lab
        self.options = {"plugin": "maas", "url": lab.url, "ca_file": lab.ca, "cache": False}
        self.environment = {"FIRSTLIGHT_MAAS_API_KEY": KEY}
        (folder / "ansible.cfg").write_text(
            f"[defaults]\ninventory_plugins = {ROOT}/plugins/inventory\n"
            "[inventory]\nenable_plugins = maas\nany_unparsed_is_failed = true\n"
            f"cache_plugin = ansible.builtin.jsonfile\ncache_connection = {folder}/cache\n"
        )

    def run(self, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        (self.folder / "site.maas.yml").write_text(json.dumps({**self.options, **options}))
        keep = ("PATH", "HOME", "LANG", "LC_ALL")
        environment = {k: os.environ[k] for k in keep if k in os.environ}
        environment |= {"ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **self.environment}
        command = [str(BIN / "ansible-inventory"), "-i", "site.maas.yml", *(arguments or ["--list"])]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)

    def read(self, *arguments: str, **options: object) -> dict:
        done = self.run(*(arguments or ["--list"]), **options)
        assert done.returncode == 0, done.stderr
        return loads(done.stdout)

    def error(self, **options: object) -> str:
        done = self.run(**options)
        assert done.returncode != 0
        text = done.stdout + done.stderr
        assert "Traceback" not in text and not any(part in text for part in KEY.split(":"))
        return " ".join(text.split())


@pytest.fixture
def site(tmp_path, running_lab) -> Site:
    if "maas" not in running_lab.processes:
        running_lab.start("maas")
    running_lab.reset_stats()
    return Site(tmp_path, running_lab)


def loads(text: str) -> dict:
    """What ansible-inventory prints; it marks values that are data and never templates."""
    return json.loads(text, object_hook=lambda d: d["__ansible_unsafe"] if list(d) == ["__ansible_unsafe"] else d)


def steady(data: dict) -> dict:
    """Without MAAS's clock, which is measured each time that MAAS is asked."""
    for variables in data["_meta"]["hostvars"].values():
        variables.pop("maas_clock", None)
    return data


def hostvars(data: dict) -> dict:
    return data["_meta"]["hostvars"]


def test_hosts_with_their_variables_from_one_request(site):
    data = site.read()
    assert set(hostvars(data)) == set(site.lab.names)
    deployed = hostvars(data)["r1-n01"]
    assert deployed["maas_status"] == "deployed"
    assert deployed["ansible_host"].startswith("127.253.0.")
    assert (deployed["maas_zone"], deployed["maas_pool"]) == ("r1", "default")
    assert deployed["maas_tags"] == ["firstlight"]
    assert deployed["maas_rack"] == ""
    assert abs(deployed["maas_clock"]["skew"]) <= 1 + deployed["maas_clock"]["uncertainty"]
    assert len(deployed["maas_system_id"]) == 6
    assert (deployed["maas_url"], deployed["maas_ca_file"]) == (site.lab.url, site.lab.ca)
    new = hostvars(data)["r1-n02"]
    assert new["maas_status"] == "new" and "ansible_host" not in new
    assert data["maas_deployed"]["hosts"] == ["r1-n01"]
    assert sorted(data["maas_new"]["hosts"]) == ["r1-n02", "r1-n03"]
    stats = site.lab.stats()
    assert (stats["reads"], stats["writes"]) == (1, 0)


def test_subnets_choose_the_address(site):
    assert hostvars(site.read(subnets=["127.253.0.0/16"]))["r1-n01"]["maas_subnets"] == ["127.253.0.0/16"]
    assert "ansible_host" in hostvars(site.read(subnets=["192.0.2.0/24", "127.253.0.0/16"]))["r1-n01"]
    assert "ansible_host" not in hostvars(site.read(subnets=["192.0.2.0/24"]))["r1-n01"]


def test_constructed(site):
    data = site.read(
        keyed_groups=[{"key": "maas_zone", "prefix": "zone"}],
        groups={"installed": "maas_status == 'deployed'"},
        compose={"shown_as": "maas_zone ~ '/' ~ maas_pool"},
        strict=True,
    )
    assert set(data["zone_r1"]["hosts"]) == set(site.lab.names)
    assert data["installed"]["hosts"] == ["r1-n01"]
    assert hostvars(data)["r1-n02"]["shown_as"] == "r1/default"


def test_the_rack_of_the_tag_that_enlist_gives(site):
    system_id = hostvars(site.read())["r1-n02"]["maas_system_id"]
    with site.lab.client() as client:
        for tag in ("rack-r1", "site-lab"):
            client.ensure_tag(tag)
            client.tag_machines(tag, [system_id])
    data = site.read(keyed_groups=[{"key": "maas_rack", "prefix": "rack"}])
    assert hostvars(data)["r1-n02"]["maas_rack"] == "r1"
    assert hostvars(data)["r1-n03"]["maas_rack"] == ""
    assert data["rack_r1"]["hosts"] == ["r1-n02"]
    with site.lab.client() as client:
        client.call("Tag.update_nodes", {"name": "rack-r1"}, {"remove": [system_id]})


def test_without_maas_there_is_no_clock_of_it(site):
    site.read(cache=True)
    assert site.read(cache=True, fresh_seconds=600)["all"].get("vars", {}).get("maas_clock") is None
    site.lab.kill("maas")
    assert "maas_clock" not in hostvars(loads(site.run("--list", cache=True).stdout))["r1-n01"]


def test_a_tag_that_maas_does_not_have_is_no_error(site):
    assert hostvars(site.read(tag="other-fleet")) == {}


def test_maas_is_asked_each_time_so_that_a_host_just_installed_has_its_address(site):
    (site.folder / "cache").mkdir(exist_ok=True)
    before = hostvars(site.read(cache=True))
    assert "ansible_host" not in before["r1-n02"]
    site.lab.client().commission(before["r1-n02"]["maas_system_id"])
    deadline = time.monotonic() + 30
    while hostvars(site.read(cache=True))["r1-n02"]["maas_status"] != "ready":
        assert time.monotonic() < deadline


def test_a_young_answer_in_the_cache_will_do_where_the_site_says_so(site):
    first = steady(site.read(cache=True, fresh_seconds=600))
    assert site.read(cache=True, fresh_seconds=600) == first  # it tells no clock: nobody was asked
    assert site.lab.stats()["reads"] == 1
    assert KEY.split(":")[2] not in "".join(p.read_text() for p in (site.folder / "cache").iterdir())
    site.read("--list", "--flush-cache", cache=True, fresh_seconds=600)
    assert site.lab.stats()["reads"] == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"__payload__": "[1]"}'])
def test_a_damaged_cache_is_made_anew(site, damage):
    first = steady(site.read(cache=True))
    for path in (site.folder / "cache").iterdir():
        path.write_text(damage)
    assert steady(site.read(cache=True)) == first


def test_without_maas_the_cache_does(site):
    first = site.read(cache=True)
    site.lab.kill("maas")
    done = site.run("--list", cache=True)
    assert "using what the inventory cache holds" in " ".join(done.stderr.split())
    assert hostvars(loads(done.stdout))["r1-n01"]["ansible_host"] == hostvars(first)["r1-n01"]["ansible_host"]


def test_a_refresh_without_maas_keeps_what_is_known(site):
    site.read(cache=True)
    site.lab.kill("maas")
    play = [
        {
            "hosts": "r1-n01",
            "gather_facts": False,
            "tasks": [
                {"meta": "refresh_inventory"},
                {"debug": {"msg": "address {{ ansible_host }}; {{ maas_stale }}"}},
            ],
        }
    ]
    (site.folder / "play.yml").write_text(json.dumps(play))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(site.folder / "ansible.cfg"), **site.environment}
    command = [str(BIN / "ansible-playbook"), "-i", "site.maas.yml", "play.yml"]
    done = subprocess.run(command, cwd=site.folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "address 127.253.0." in done.stdout and "Connection refused" in done.stdout
    assert "using what the inventory cache holds" in " ".join(done.stderr.split())


def test_without_maas_and_cache_there_is_a_reason(site):
    site.lab.kill("maas")
    done = site.run("--list", "--export")
    assert done.returncode == 0
    assert "[WARNING]: MAAS at 127." in done.stderr and "is not reachable: Connection refused" in done.stderr
    variables = loads(done.stdout)["all"]["vars"]
    assert variables["maas_error"].endswith("Connection refused")
    assert variables["maas_url"] == site.lab.url


def test_a_refused_key_is_a_reason_too(site):
    site.environment["FIRSTLIGHT_MAAS_API_KEY"] = "consumerpart1:tokenpart22:wrongsecret9"
    done = site.run("--list", "--export")
    assert "refuses the API key (HTTP 401)" in loads(done.stdout)["all"]["vars"]["maas_error"]
    assert "secretpart333" not in done.stdout + done.stderr and "wrongsecret9" not in done.stdout + done.stderr


def test_the_key_from_a_vaulted_file(site):
    site.environment.clear()
    (site.folder / "group_vars" / "all").mkdir(parents=True)
    secrets = site.folder / "group_vars" / "all" / "secrets.yml"
    secrets.write_text(f"maas_api_key: {KEY}\n")
    (site.folder / "vault-password").write_text("only-for-this-test\n")
    encrypt = [str(BIN / "ansible-vault"), "encrypt", "--vault-password-file", "vault-password", str(secrets)]
    subprocess.run(encrypt, cwd=site.folder, check=True, capture_output=True, timeout=60)
    assert "cannot be decrypted; give its password with --vault-password-file" in site.error()
    data = site.read("--list", "--vault-password-file", "vault-password")
    assert set(hostvars(data)) == set(site.lab.names)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"url": "http://maas.example.org/MAAS"},
            "site.maas.yml: url: 'http://maas.example.org/MAAS' is not the URL of MAAS over TLS; it looks like https://",
        ),
        ({"subnets": ["127.253.0.0/77"]}, "'127.253.0.0/77' is not a subnet"),
        ({"ca_file": "none.pem"}, "none.pem: ca_file: no such file"),
        ({"subnet": "10.0.0.0/8"}, "unknown option 'subnet'; known are"),
    ],
)
def test_wrong_options_are_named(site, options, text):
    assert text in site.error(**options)


def test_a_missing_key_is_named(site):
    site.environment.clear()
    text = site.error()
    assert "maas_api_key is missing; add it with ansible-vault create" in text
    assert "or set FIRSTLIGHT_MAAS_API_KEY" in text
    site.environment["FIRSTLIGHT_MAAS_API_KEY"] = "no-key"
    assert "must have three parts, consumer:token:secret" in site.error()
