"""The user data that an installed host starts with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firstlight.errors import InputError
from firstlight.maas.hostkeys import BOOTSTRAP, KnownHosts, new_key_pair
from firstlight.maas.userdata import UserData, as_json, per_host, user_data_settings

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0Yx9cGh5e1o1lVqPVo9C3qO0Vw8yq9JtV6l0Cz9sUe ops: the #1 key"
PAIR = new_key_pair()
ROOT = Path(__file__).parents[3]
TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)))


@pytest.fixture
def site(tmp_path):
    (tmp_path / "key.pub").write_text(f"# ours\n{KEY}\n\n{KEY} too\n")
    return {"install_ssh_public_key_file": str(tmp_path / "key.pub")}


def config(settings: UserData) -> dict:
    text = settings.render("r1-n01", PAIR)
    assert text.startswith("#cloud-config\n")
    return yaml.safe_load(text)


def test_a_site_without_settings(site):
    found = config(user_data_settings(site.get))
    [nouveau, hold] = found.pop("runcmd")
    [file, blacklist] = found.pop("write_files")
    assert found == {
        "users": [
            {
                "name": "firstlight",
                "gecos": "Firstlight",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": [KEY, f"{KEY} too"],
            }
        ],
        "ssh_pwauth": False,
        "disable_root": True,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "ssh_keys": {"ed25519_private": PAIR.private, "ed25519_public": PAIR.public},
        "timezone": "Etc/UTC",
        "package_update": False,
        "package_upgrade": False,
        "package_reboot_if_required": False,
    }
    assert "apt-mark hold" in hold
    assert '"linux-"; "nvidia-"' in file["content"]
    assert "modprobe --remove nouveau" in nouveau
    # the very text of the role, which else would write it anew and build the initial file systems once more
    role = yaml.safe_load((ROOT / "roles/gpu_driver/tasks/configure.yml").read_text())[0]["ansible.builtin.copy"]
    assert (blacklist["path"], blacklist["content"]) == (role["dest"], role["content"])
    assert "permissions" not in blacklist and role["mode"] == "0644"  # which is cloud-init's default


def test_a_site_with_everything(site):
    site |= {
        "ansible_user": "ops",
        "install_ntp_servers": ["10.0.0.1", "fd00::1"],
        "time_sync_servers": ["not.asked.example"],
        "install_apt_proxy": "http://10.0.0.2:8000/",
        "install_apt_mirrors": {"security": "https://mirror.example/security", "primary": "http://[fd00::2]/ubuntu"},
        "install_packages": ["chrony", "linux-tools=6.8.0-1~22"],
        "install_timezone": "Europe/Berlin",
    }
    found = config(user_data_settings(site.get))
    assert found["users"][0]["name"] == "ops"
    assert found["timezone"] == "Europe/Berlin"
    assert found["ntp"] == {"enabled": True, "ntp_client": "chrony", "servers": ["10.0.0.1", "fd00::1"]}
    assert found["apt"] == {
        "http_proxy": "http://10.0.0.2:8000/",
        "https_proxy": "http://10.0.0.2:8000/",
        "preserve_sources_list": False,
        "primary": [{"arches": ["default"], "uri": "http://[fd00::2]/ubuntu"}],
        "security": [{"arches": ["default"], "uri": "https://mirror.example/security"}],
    }
    assert (found["package_update"], found["packages"]) == (True, ["chrony", "linux-tools=6.8.0-1~22"])


def test_the_roles_servers_are_asked_where_install_has_none(site):
    assert user_data_settings({**site, "time_sync_servers": ["10.0.0.9"]}.get).ntp_servers == ["10.0.0.9"]
    none = {**site, "time_sync_servers": ["10.0.0.9"], "install_ntp_servers": []}
    assert "bootcmd" not in config(user_data_settings(none.get))


def test_the_clock_is_set_by_the_script_before_anything_else(site):
    """The command as it is written, run: it reaches the script with its servers, and does not fail."""
    [command] = config(user_data_settings({**site, "install_ntp_servers": ["no-such-host.invalid"]}.get))["bootcmd"]
    assert command[:3] == ["cloud-init-per", "instance", "firstlight-clock"]
    done = subprocess.run(command[3:], capture_output=True, text=True, timeout=60, check=True)
    assert "clock: no-such-host.invalid:" in done.stdout
    assert "nobody told the time" in done.stdout


@pytest.mark.parametrize(("vendor", "loaded"), [("0x10de", True), ("0x10de", False), ("0x102b", True), (None, False)])
def test_nouveau_is_taken_out_of_hosts_with_gpus_and_never_fails_the_boot(site, tmp_path, vendor, loaded):
    [nouveau, _] = config(user_data_settings(site.get))["runcmd"]
    for name in ("modprobe", "update-initramfs"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $@" >>"$(dirname "$0")/calls"\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "module").mkdir()
    if loaded:
        (tmp_path / "module/nouveau").mkdir()
    if vendor:
        (tmp_path / "devices/0000:18:00.0").mkdir(parents=True)
        (tmp_path / "devices/0000:18:00.0/vendor").write_text(f"{vendor}\n")
    text = nouveau.replace("/sys/module", f"{tmp_path}/module").replace("/sys/bus/pci/devices", f"{tmp_path}/devices")
    assert "/sys/" not in text
    subprocess.run(["sh", "-c", text], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=20, check=True)
    calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    taken_out = ["modprobe --remove nouveau"] if loaded else []
    assert calls == ([*taken_out, "update-initramfs -u -k all"] if vendor == "0x10de" else [])


def test_installed_kernels_are_held_and_nothing_else(site, tmp_path):
    [_, hold] = config(user_data_settings(site.get))["runcmd"]
    listed = "installed linux-image-generic\ninstalled linux-libc-dev\nnot-installed linux-image-6.8.0-1\n"
    listed += "installed linux-headers-6.8.0-31-generic\ninstalled linux-base\ninstalled linux-generic-hwe-24.04\n"
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\ncat <<'END'\n" + listed + "END\n")
    (tmp_path / "apt-mark").write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/held"\n')
    for name in ("dpkg-query", "apt-mark"):
        (tmp_path / name).chmod(0o755)
    subprocess.run(["sh", "-c", hold], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=20, check=True)
    assert (tmp_path / "held").read_text().split() == [
        "hold", "linux-image-generic", "linux-headers-6.8.0-31-generic", "linux-generic-hwe-24.04",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"install_ssh_public_key_file": None}, "install_ssh_public_key_file is not set"),
        ({"ansible_user": "root"}, "'root' cannot be the SSH user"),
        ({"ansible_user": "a b"}, "'a b' cannot be the SSH user"),
        ({"install_ntp_servers": ["a b"]}, "install_ntp_servers: 'a b' is not the name or address"),
        ({"time_sync_servers": "ntp.example"}, "time_sync_servers is 'ntp.example'; it must be a list"),
        ({"install_apt_proxy": "10.0.0.2:8000"}, "install_apt_proxy is '10.0.0.2:8000'; write a URL"),
        ({"install_apt_proxy": "http://x\ny"}, "write a URL"),
        ({"install_apt_proxy": "http://u:p@x/"}, "install_apt_proxy has a user name or password"),
        ({"install_apt_proxy": "http://x:99999"}, "write a URL"),
        ({"install_apt_proxy": 'http://x/"; APT::x "'}, "write a URL"),
        ({"install_apt_mirrors": ["http://x"]}, "its keys are primary and security"),
        ({"install_apt_mirrors": {"main": "http://x"}}, "its keys are primary and security"),
        ({"install_apt_mirrors": {"primary": "ftp://x"}}, "install_apt_mirrors.primary is 'ftp://x'"),
        ({"install_packages": ["a b"]}, "install_packages: 'a b' is not a package"),
        ({"install_packages": [{"a": 1}]}, "is not a package"),
        ({"install_timezone": "../../etc/passwd"}, "install_timezone is"),
        ({"install_timezone": 1}, "install_timezone is 1"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(site, change, said):
    with pytest.raises(InputError) as caught:
        user_data_settings({**site, **change}.get)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no key in it"),
        ("# only a comment\n", "has no key in it"),
        ("hello\n", "'hello'... is not a public SSH key"),
        (f"{KEY}\nssh-ed25519 AAAA \x1b[31mred\n", "is not a public SSH key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n", "is a private key"),
    ],
)
def test_a_wrong_key_file_is_told_and_a_private_key_not_shown(site, tmp_path, text, said):
    (tmp_path / "key.pub").write_text(text)
    with pytest.raises(InputError) as caught:
        user_data_settings(site.get)
    assert said in str(caught.value)
    assert "b3Blbn" not in str(caught.value)


# -- a site's own template --------------------------------------------------------------------------------------------


def own(site, tmp_path: Path, text: str) -> UserData:
    (tmp_path / "own.j2").write_text(text)
    return user_data_settings({**site, "install_user_data_template": str(tmp_path / "own.j2")}.get)


def test_a_sites_template_adds_to_ours(site, tmp_path):
    extra = '{% extends "user_data.yml.j2" %}\n{% block extra %}\nmotd: {{ name | tojson }}\n{% endblock %}\n'
    found = config(own(site, tmp_path, extra))
    assert found["motd"] == "r1-n01"
    assert found["ssh_keys"]["ed25519_public"] == PAIR.public


BEGIN = '{% extends "user_data.yml.j2" %}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#cloud-config\nusers: []\n", "ssh_keys lacks host_key"),
        (BEGIN + "{% block host_keys %}{% endblock %}", "ssh_keys lacks host_key"),
        (BEGIN + "{% block users %}users: [default]\n{% endblock %}", "users lacks firstlight"),
        (BEGIN + "{% block users %}users: 3\n{% endblock %}", "users lacks firstlight"),
        (BEGIN + "{% block extra %}\nruncmd: [reboot]\n{% endblock %}", "key 'runcmd' is already on line"),
        (BEGIN + "{% block extra %}\na: {{ nothing }}\n{% endblock %}", "'nothing' is undefined"),
        (BEGIN + "{% block extra %}\na: {{ 1 / 0 }}\n{% endblock %}", "ZeroDivisionError in it"),
        (BEGIN + "{% block extra %}\na: [\n{% endblock %}", "not valid YAML"),
        (BEGIN + "{% block extra %}\n{{ host_key.private }}\n{% endblock %}", "not valid YAML"),
        (BEGIN + "{% block extra %}\na: {{ ().__class__.__base__ }}\n{% endblock %}", "SecurityError"),
        (BEGIN + "{% block extra %}\na: {{ '%s' | format('x' * 70000) }}\n{% endblock %}", "65536 are the most"),
        (BEGIN + "{% block extra %}", "Unexpected end of template"),
        ("{% extends 'nowhere.j2' %}", "TemplateNotFound in it"),
        ("#!/bin/sh\n", "the first line must be #cloud-config"),
        ("#cloud-config\n- a\n", "keys with values"),
    ],
)
def test_a_sites_template_that_is_not_usable_is_told_in_one_line_without_the_key(site, tmp_path, text, said):
    settings = own(site, tmp_path, text)
    with pytest.raises(InputError) as caught:
        settings.render("r1-n01", PAIR)
    assert said in str(caught.value)
    assert "own.j2" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [line for line in PAIR.private.splitlines()[1:-1] if line in str(caught.value)]


# -- for each host ----------------------------------------------------------------------------------------------------


def test_each_host_has_a_key_of_its_own_which_is_known_before_it_is_used(site, tmp_path):
    known = KnownHosts(tmp_path / "known_hosts")
    known.add("a", PAIR.public)  # of the installation before
    make = per_host(user_data_settings(site.get), {"a": known, "b": known})
    first, second = (yaml.safe_load(make(name))["ssh_keys"] for name in "ab")
    assert first["ed25519_private"] != second["ed25519_private"]
    assert known.keys("a") == known.keys("a", BOOTSTRAP) == [first["ed25519_public"]]
    assert known.keys("b") == [second["ed25519_public"]]
    # MAAS's answer was lost, the deployment goes on: what the host got the first time is still right
    assert yaml.safe_load(make("a"))["ssh_keys"] == first
    again = per_host(user_data_settings(site.get), {"a": known})
    assert yaml.safe_load(again("a"))["ssh_keys"] != first


def test_nothing_is_written_down_for_a_host_whose_user_data_cannot_be_made(site, tmp_path):
    known = KnownHosts(tmp_path / "known_hosts")
    make = per_host(own(site, tmp_path, BEGIN + "{% block users %}{% endblock %}"), {"a": known})
    with pytest.raises(InputError):
        make("a")
    assert not known.has("a")


def test_a_host_whose_text_is_of_another_kind_is_checked_too(site, tmp_path):
    """Texts that differ in more than name and key are not taken for alike."""
    settings = own(site, tmp_path, BEGIN + '{% block users %}{{ super() if name != "b" }}{% endblock %}')
    settings.render("a", PAIR)
    settings.render("c", new_key_pair())
    with pytest.raises(InputError, match="users lacks firstlight"):
        settings.render("b", PAIR)


# -- hostile values ---------------------------------------------------------------------------------------------------


@given(TEXT)
@example("\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))
@example("a\u2028b\x85c\x7fd\ufeff")
def test_yaml_reads_what_tojson_writes(text):
    assert yaml.safe_load(f"key: {as_json(text)}\n") == {"key": text}
    assert yaml.safe_load(f"[{as_json(text)}, 1]") == [text, 1]


@settings(deadline=None, max_examples=40)
@given(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60),
    st.lists(TEXT, min_size=1, max_size=3),
)
@example('x"\nruncmd: [evil]\n#', ['", evil]\nruncmd:\n- evil'])
@example("{{ 7 * 7 }}{% raw %}", ["'\n---\n"])
def test_no_value_adds_a_key_or_changes_another(name, values):
    """Even values that the settings' checks would have refused."""
    harmless = UserData(["k"], ntp_servers=["s"], apt_proxy="p", apt_mirrors={"primary": "m"}, packages=["a"])
    hostile = UserData(
        values, name, values, apt_proxy=name, apt_mirrors={"primary": name}, packages=values, timezone=name
    )
    wanted, found = config(harmless), yaml.safe_load(hostile.render(name, PAIR))
    assert set(found) == set(wanted)
    assert found["users"][0]["name"] == name
    assert found["users"][0]["ssh_authorized_keys"] == found["ntp"]["servers"] == found["packages"] == values
    assert found["apt"]["primary"][0]["uri"] == found["apt"]["http_proxy"] == found["timezone"] == name
    assert found["bootcmd"][0][8:] == values
    assert found["runcmd"] == wanted["runcmd"]
    assert found["ssh_keys"] == wanted["ssh_keys"]
