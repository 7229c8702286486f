"""Files of a role: which lists are refused, and what the module does on a host, through Ansible's own executor."""

from __future__ import annotations

import json
import os
import re
import runpy
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from hypothesis import given
from hypothesis import strategies as st

import firstlight
from firstlight import hostfiles

ROOT = Path(__file__).parents[2]


def entry(path: str, state: str = "file", **rest: Any) -> dict[str, Any]:
    return {"path": path, "state": state, **({"content": "x\n"} if state == "file" else {}), **rest}


def test_defaults_are_those_of_settings():
    file, folder, gone = hostfiles.read([entry("/a/b"), entry("/a", "directory"), entry("/c", "absent")])
    assert (file.content, file.owner, file.group, file.mode) == (b"x\n", "root", "root", 0o644)
    assert (folder.mode, gone.path) == (0o755, Path("/c"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (entry("etc/a"), "etc/a: path must be absolute"),
        (entry("/etc/../a"), "/etc/../a: path must be"),
        (entry("/etc/a/"), "/etc/a/: path must be"),
        (entry("/etc//a"), "/etc//a: path must be"),
        (entry("/"), "/: path must be"),
        (entry("//"), "//: path must be"),
        (entry("/a\0b"), "entry 2: path must be"),
        (entry("/a\nb"), "entry 2: path must be"),
        (entry(""), "entry 2: path must be"),
        (entry("/" + "n" * 241), "a name in a path may have 240 bytes"),
        ({"state": "file"}, "entry 2: path must be"),
        ({"path": 5}, "entry 2: path must be"),
        ("/a", "entry 2: is no mapping"),
        (entry("/a", "link"), "/a: state 'link' must be one of file, directory, absent"),
        (entry("/a", templat="x"), "/a: 'templat' is no option; path, state, template"),
        (entry("/a", content=True), "/a: content must be text"),
        (entry("/a", content={"a": 1}), "/a: content must be text"),
        (entry("/a", content="\udcff"), "/a: is not UTF-8"),
        (entry("/a", mode=420), "/a: mode must be text"),
        (entry("/a", owner=0), "/a: owner must be text"),
        (entry("/first/b"), "/first/b: cannot be below /first, which is listed as file"),
        (entry("/", "directory"), "/: path must be"),
        (entry("/a", content=None), "/a: a file needs a template or its content"),
        (entry("/a", "directory", content="x"), "/a: state directory goes with neither"),
        (entry("/a", "absent", content=""), "/a: state absent goes with neither"),
        (entry("/a", mode="644"), '/a: mode 644 must be octal digits in quotes, as in "0644"'),
        (entry("/a", mode="420"), "/a: mode 420 must be"),
        (entry("/a", mode="u+x"), "/a: mode u+x must be"),
        (entry("/first"), "/first: is listed twice"),
    ],
)
def test_a_wrong_entry_is_named(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        hostfiles.read([entry("/first"), wrong])
    assert "\n" not in str(error.value)


def test_what_contradicts_an_entry_before_is_refused_in_either_order():
    for state in ("file", "absent"):
        for listed in ([entry("/a", state), entry("/a/b/c")], [entry("/a/b/c", "directory"), entry("/a", state)]):
            with pytest.raises(ValueError, match=f"/a/b/c: cannot be below /a, which is listed as {state}"):
                hostfiles.read(listed)


ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=3), max_size=2)


@given(
    st.text(max_size=40) | ANY,
    st.sampled_from(hostfiles.STATES) | ANY,
    st.dictionaries(st.sampled_from(hostfiles.KEYS[2:]) | st.text(max_size=3), ANY, max_size=3),
)
def test_whatever_is_listed_is_an_entry_or_a_wrong_value(path, state, rest):
    try:
        (read,) = hostfiles.read([{"content": "x", **rest, "path": path, "state": state}])
    except ValueError as error:
        assert str(error).isprintable() or "\n" not in str(error)
        return
    assert str(read.path) == os.path.normpath(path) == path
    assert path.startswith("/")


def obstacle(listed: list[dict[str, Any]], **there: str) -> str:
    kinds = {f"/{name.replace('_', '/')}": kind for name, kind in there.items()}
    folders = {path for path, kind in kinds.items() if kind in ("directory", "link")} | {"/"}
    return hostfiles.obstacle(
        hostfiles.read(listed), lambda path: kinds.get(str(path), "nothing"), lambda path: str(path) in folders
    )


def test_what_stands_in_the_way_is_found_before_anything_is_written():
    assert obstacle([entry("/etc/a"), entry("/b", "absent")], etc="directory", etc_a="file", b="link") == ""
    assert "/etc/x/a: there is no folder /etc/x; list it before" in obstacle([entry("/etc/x/a")], etc="directory")
    assert obstacle([entry("/etc/x", "directory"), entry("/etc/x/a")], etc="directory") == ""
    assert "there is no folder" in obstacle([entry("/etc/x/a"), entry("/etc/x", "directory")], etc="directory")
    assert obstacle([entry("/a/b/c", "absent")]) == ""
    assert "/a: is a folder, and is not removed" in obstacle([entry("/a", "absent")], a="directory")
    assert "/a: is a folder" in obstacle([entry("/a")], a="directory")
    assert "/a: is a device" in obstacle([entry("/a")], a="other")
    assert "/a: is no folder" in obstacle([entry("/a", "directory")], a="file")
    assert "/a: is no folder" in obstacle([entry("/a/b/c", "directory")], a="file")
    assert obstacle([entry("/a/b/c", "directory"), entry("/a/b/x")]) == ""
    assert obstacle([entry("/a", "directory")], a="link") == ""  # to a folder


def test_what_is_no_text_is_described():
    assert hostfiles.shown("ä\n".encode()) == "ä\n"
    assert hostfiles.shown(b"\xff\xfe") == "(of 2 bytes that are no text)\n"
    assert hostfiles.shown(b"a" * (hostfiles.SHOWN_BYTES + 1)).startswith("(of ")


SAID = """
DOCUMENTATION = "{name: said, type: stdout, short_description: Results alone}"

import json
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_TYPE, CALLBACK_NAME, CALLBACK_VERSION = "stdout", "said", 2.0

    def v2_runner_on_ok(self, result):
        print(json.dumps({"failed": False, **result._result}, default=str))

    def v2_runner_on_failed(self, result, ignore_errors=False):
        print(json.dumps({**result._result, "failed": True}, default=str))
"""


class Host:
    """This machine's folder ``root``, through a play as roles have it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        for name in ("root", "templates"):
            (folder / name).mkdir()
        (folder / "said.py").write_text(SAID)
        (folder / "hosts.yaml").write_text("all: {hosts: {localhost: }}\n")

    def path(self, name: str) -> str:
        return str(self.root / name)

    def template(self, name: str, text: str) -> None:
        (self.folder / "templates" / name).write_text(text)

    def run(self, files: Any, *words: str, **variables: Any) -> dict[str, Any]:
        """The task's whole result."""
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **variables},
            "tasks": [{"name": "Write", "host_files": {"files": files}}],
        }
        (self.folder / "play.yml").write_text(json.dumps([play]))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_STDOUT_CALLBACK": "said",
            "ANSIBLE_CALLBACK_PLUGINS": str(self.folder),
            "ANSIBLE_CALLBACKS_ENABLED": "said",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
        }
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yaml", "play.yml", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@pytest.fixture
def host(tmp_path):
    if os.getuid():
        pytest.skip("the files are root's")
    return Host(tmp_path)


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_written_once_and_then_left_alone(host):
    host.template("a.conf.j2", "# {{ word }}\n{% if true %}\nkey = {{ {'a': 1} | to_json }}\n{% endif %}\n\n")
    files = [
        {"path": host.path("etc"), "state": "directory"},
        {"path": host.path("etc/a.conf"), "template": "a.conf.j2"},
        {"path": host.path("etc/tool"), "content": "#!/bin/sh\n", "mode": "0755", "group": "adm"},
        {"path": host.path("old"), "state": "absent"},
    ]
    (host.root / "old").write_text("x")
    paths = [entry["path"] for entry in files]

    foreseen = host.run(files, "--check", "--diff", word="first")
    assert (foreseen["failed"], foreseen["changed"], foreseen["changed_paths"]) == (False, True, paths)
    assert [(d["before_header"], d["before"], d["after"]) for d in foreseen["diff"]] == [
        (paths[0], "absent\n", "directory\n"),
        (paths[1], "", '# first\nkey = {"a": 1}\n\n'),
        (paths[2], "", "#!/bin/sh\n"),
        (paths[3], "file\n", "absent\n"),
    ]
    told = foreseen["diff"]
    assert names(host.root) == ["old"]

    done = host.run(files, "--diff", word="first")
    assert (done["changed"], done["changed_paths"], done["diff"]) == (True, paths, told)
    assert done["invocation"]["module_args"]["files"][1] == {"path": paths[1]}
    assert (host.root / "etc/a.conf").read_text() == '# first\nkey = {"a": 1}\n\n'
    assert (mode(paths[0]), mode(paths[1]), mode(paths[2])) == (0o755, 0o644, 0o755)
    assert (host.root / "etc/tool").group() == "adm"
    assert names(host.root) == ["etc"]

    inode = Path(paths[1]).stat().st_ino
    for words in (("--diff",), ("--check", "--diff")):
        again = host.run(files, *words, word="first")
        assert (again["changed"], again["changed_paths"], "diff" in again) == (False, [], False)
    assert Path(paths[1]).stat().st_ino == inode

    other = host.run(files, "--diff", word="second")
    assert other["changed_paths"] == [paths[1]]
    assert [(d["before"], d["after"]) for d in other["diff"]] == [
        ('# first\nkey = {"a": 1}\n\n', '# second\nkey = {"a": 1}\n\n')
    ]


def test_a_folder_is_made_with_those_above_it(host):
    files = [
        {"path": host.path("a/b/c"), "state": "directory", "mode": "0700"},
        {"path": host.path("a/b/x"), "content": ""},
    ]
    assert host.run(files, "--check")["changed_paths"] == [host.path("a/b/c"), host.path("a/b/x")]
    assert names(host.root) == []
    old = os.umask(0o077)
    try:
        host.run(files)
    finally:
        os.umask(old)
    assert [mode(host.path(name)) for name in ("a", "a/b", "a/b/c", "a/b/x")] == [0o755, 0o755, 0o700, 0o644]
    assert host.run(files)["changed"] is False


def test_permissions_and_owners_are_set_right(host):
    (host.root / "a").write_text("x\n")
    (host.root / "b").write_text("y\n")
    (host.root / "d").mkdir()
    for name, now in (("a", 0o600), ("b", 0o640), ("d", 0o700)):
        (host.root / name).chmod(now)
        os.chown(host.root / name, 1, 2)
    files = [
        {"path": host.path("a"), "content": "x\n", "mode": "04755"},
        {"path": host.path("b"), "content": "other\n"},
        {"path": host.path("d"), "state": "directory"},
    ]
    paths = [entry["path"] for entry in files]
    owners = "owner: 1\ngroup: 2\n", "owner: 0\ngroup: 0\n"
    for words, left in ((("--check", "--diff"), 0o600), (("--diff",), 0o4755)):
        said = host.run(files, *words)
        assert said["changed_paths"] == paths
        assert [(d["before_header"], d["before"], d["after"]) for d in said["diff"]] == [
            (paths[0], f"mode: 0600\n{owners[0]}", f"mode: 4755\n{owners[1]}"),
            (paths[1], "y\n", "other\n"),
            (paths[1], f"mode: 0640\n{owners[0]}", f"mode: 0644\n{owners[1]}"),
            (paths[2], f"mode: 0700\n{owners[0]}", f"mode: 0755\n{owners[1]}"),
        ]
        assert mode(paths[0]) == left
    assert [mode(path) for path in paths] == [0o4755, 0o644, 0o755]
    assert {Path(path).owner() for path in paths} == {"root"}
    assert host.run(files)["changed"] is False


def test_a_link_to_a_folder_is_the_folder(host):
    (host.root / "folder").mkdir(mode=0o700)
    (host.root / "link").symlink_to("folder")
    files = [{"path": host.path("link"), "state": "directory"}, {"path": host.path("link/a"), "content": "x"}]
    assert host.run(files, "--check")["changed_paths"] == [host.path("link"), host.path("link/a")]
    assert host.run(files)["changed_paths"] == [host.path("link"), host.path("link/a")]
    assert (mode(host.path("folder")), names(host.root / "folder")) == (0o755, ["a"])
    assert (host.root / "link").is_symlink()
    for words in ((), ("--check",)):
        assert host.run(files, *words)["changed"] is False


def test_a_path_is_taken_as_it_is_written(host, monkeypatch):
    monkeypatch.setenv("OTHER", "b")
    (host.root / "b").write_text("")
    (host.root / "b").chmod(0o600)
    host.run([{"path": host.path("$OTHER"), "content": "x"}])
    assert (names(host.root), mode(host.path("b"))) == (["$OTHER", "b"], 0o600)


def test_a_link_is_replaced_and_what_it_led_to_stays(host):
    (host.root / "target").write_text("mine\n")
    (host.root / "target").chmod(0o600)
    (host.root / "a").symlink_to("target")
    (host.root / "gone").symlink_to("target")
    files = [{"path": host.path("a"), "content": "x\n"}, {"path": host.path("gone"), "state": "absent"}]
    foreseen = host.run(files, "--check", "--diff")
    assert foreseen["changed_paths"] == [host.path("a"), host.path("gone")]
    assert [(d["before"], d["after"]) for d in foreseen["diff"]] == [
        ("link to target\n", "x\n"),
        ("link to target\n", "absent\n"),
    ]
    assert (host.root / "a").is_symlink()
    assert host.run(files)["changed_paths"] == [host.path("a"), host.path("gone")]
    assert not (host.root / "a").is_symlink()
    assert ((host.root / "a").read_text(), mode(host.path("a"))) == ("x\n", 0o644)
    assert ((host.root / "target").read_text(), mode(host.path("target"))) == ("mine\n", 0o600)
    assert names(host.root) == ["a", "target"]
    assert host.run(files)["changed"] is False


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"path": "{root}/none/b", "content": ""}, "none/b: there is no folder"),
        ({"path": "{root}/b"}, "b: a file needs a template or its content"),
        ({"path": "{root}/b", "content": "", "owner": "nobody-of-here"}, "b: the host has no user 'nobody-of-here'"),
        ({"path": "{root}/b", "content": "", "group": "none-of-here"}, "b: the host has no group 'none-of-here'"),
        ({"path": "{root}/folder", "state": "absent"}, "folder: is a folder, and is not removed"),
        ({"path": "{root}/b", "state": "link"}, "b: state 'link' must be one of file, directory, absent"),
        ({"path": "{root}/b", "contents": ""}, "b: 'contents' is no option"),
        ({"path": "{root}/b", "content": True}, "b: content must be text"),
        ({"path": "{root}/a/b", "content": ""}, "a/b: cannot be below"),
        ({"path": "{root}/b", "template": "truth.j2"}, "b: template truth.j2 gives no text"),
        ({"path": "{root}/b", "template": "latin.j2"}, "b: template latin.j2 is not UTF-8"),
        ({"path": "{root}/b", "template": ["right.j2"]}, "b: template must be the name of a file"),
        ({"path": "{root}/b", "template": ""}, "b: template must be the name of a file"),
        ({"path": "{root}/b", "template": "none.j2"}, "none.j2 could not be found"),
        ({"path": "{root}/b", "template": "wrong.j2"}, "nowhere_defined"),
        ({"path": "{root}/b", "template": "right.j2", "content": ""}, "b: template and content exclude each other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_list_changes_nothing(host, last, said):
    (host.root / "folder").mkdir()
    host.template("wrong.j2", "{{ nowhere_defined }}\n")
    host.template("right.j2", "x\n")
    host.template("truth.j2", "{{ true }}")
    (host.folder / "templates" / "latin.j2").write_bytes(b"caf\xe9\n")
    files = [{"path": host.path("a"), "content": "x\n"}, {**last, "path": last["path"].format(root=host.root)}]
    result = host.run(files)
    assert result["failed"]
    assert said in result["msg"]
    assert "*****" not in result["msg"]
    assert "\n" not in result["msg"] or "nowhere_defined" in result["msg"]
    assert names(host.root) == ["folder"]


def test_a_template_may_render_to_nothing_or_a_number(host):
    host.template("nothing.j2", "{% if false %}\nx\n{% endif %}\n")
    host.template("number.j2", "{{ 5 }}")
    files = [{"path": host.path("a"), "template": "nothing.j2"}, {"path": host.path("b"), "template": "number.j2"}]
    host.run(files)
    assert ((host.root / "a").read_text(), (host.root / "b").read_text()) == ("", "5")
    assert host.run(files)["changed"] is False


def test_files_that_are_no_list_are_refused(host):
    assert "files must be a list of mappings" in host.run("/etc/a")["msg"]
    assert "files must be a list of mappings" in host.run(["/etc/a"])["msg"]


def test_what_cannot_be_written_says_what_was(host):
    (host.root / "a").mkdir()
    os.mkfifo(host.root / "pipe")
    assert "pipe: is a device, socket or pipe" in host.run([{"path": host.path("pipe"), "content": ""}])["msg"]
    files = [{"path": host.path("b"), "content": "x\n"}, {"path": "/proc/firstlight", "content": "x\n"}]
    result = host.run(files)
    assert (result["failed"], result["changed"], result["changed_paths"]) == (True, True, [host.path("b")])
    assert result["msg"].startswith("host_files: /proc/firstlight: ")
    assert result["msg"].endswith(f"; changed before: {host.path('b')}")
    assert host.run(files[1:])["msg"].endswith("; nothing was changed")


def test_the_host_s_log_does_not_repeat_the_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ansible.module_utils.firstlight", firstlight)  # as on a host
    logged: list[str] = []
    monkeypatch.setattr("ansible.module_utils.basic.has_journal", False)
    monkeypatch.setattr("syslog.syslog", lambda *words: logged.append(str(words)))
    files = [{"path": str(tmp_path / "a"), "content": "never-to-be-logged\n"}]
    with patch_module_args({"files": files, "_ansible_check_mode": True}), pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / "plugins" / "modules" / "host_files.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert json.loads(said)["changed_paths"] == [files[0]["path"]]
    assert "Invoked with" in "".join(logged)
    assert "never-to-be-logged" not in said + "".join(logged)
