"""Pins hold for one repository and no other: the rules, and the module with the machine's own apt on a made root."""

from __future__ import annotations

import functools
import hashlib
import http.server
import importlib.util
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import firstlight
from firstlight import aptpins
from firstlight.aptpins import NotToldApart, Target

ROOT = Path(__file__).parents[2]


def target(source: str, uri: str, suite: str, **said: str) -> Target:
    return Target(source, uri, suite, "/x", tuple(said.items()))


VENDOR = target("firstlight-vendor.sources", "http://mirror.example/vendor", "stable", o="Vendor", l="V", n="v1", a="s")
DEBIAN = target("debian.sources", "http://mirror.example/debian", "bookworm", o="Debian", l="Debian", n="bookworm")


def test_a_pin_is_by_what_the_release_file_says_where_the_host_is_shared():
    assert aptpins.pins("vendor", [VENDOR], [DEBIAN]) == ["release o=Vendor,l=V,n=v1"]


def test_each_suite_has_its_own():
    own = [VENDOR, replace(VENDOR, suite="testing", said=(("o", "Vendor"), ("l", "V"), ("n", ""), ("a", "testing")))]
    assert aptpins.pins("vendor", own, []) == ["release o=Vendor,l=V,n=v1", "release o=Vendor,l=V,a=testing"]


def test_the_host_does_where_the_release_file_says_nothing():
    mute = replace(VENDOR, said=(), uri="http://Vendor.example/x")
    assert aptpins.pins("vendor", [mute], [DEBIAN]) == ['origin "vendor.example"']


def test_the_host_does_where_the_release_file_says_what_another_s_does():
    copy = replace(DEBIAN, source="firstlight-copy.sources", uri="http://copy.example/debian")
    assert aptpins.pins("copy", [copy], [DEBIAN]) == ['origin "copy.example"']


@pytest.mark.parametrize(
    "own",
    [
        replace(VENDOR, said=()),  # says nothing
        replace(VENDOR, said=(("o", "DEBIAN"), ("l", "Debian"), ("n", "bookworm"))),
        replace(VENDOR, said=(("o", "Debian"), ("l", "Debian"))),
    ],
)
def test_what_nothing_tells_apart_is_refused(own: Target):
    with pytest.raises(
        NotToldApart, match=r"^vendor: its pins would hold for debian.sources too.*mirror\.example as well;"
    ):
        aptpins.pins("vendor", [own], [DEBIAN])


def test_what_would_mean_more_to_apt_means_itself():
    odd = replace(VENDOR, said=(("o", "A, b*"), ("l", "/x/y")))
    assert aptpins.pins("vendor", [odd], []) == ["release o=A? b?,l=?x/y"]


def test_rows_of_apt():
    row = "/etc/apt/sources.list.d/debian.sources:1\thttp://m.example/debian/\tbookworm\t"
    files = "/l/m.example_debian_dists_bookworm_"
    text = f"{row}main/binary-amd64/Packages\t{files}main_binary-amd64_Packages\n"
    text += f"{row}main/binary-all/Packages\t{files}main_binary-all_Packages\nnonsense\n"
    text += "/etc/apt/sources.list:2\thttp://m.example/x/\t\tPackages\t/l/m.example_x_Packages\n"
    assert aptpins.parse(text) == [
        Target("debian.sources", "http://m.example/debian", "bookworm", f"{files}Release"),
        Target("sources.list", "http://m.example/x", "/", "/l/m.example_x_Release"),
    ]


def test_a_release_file_signed_or_not():
    text = "-----BEGIN PGP SIGNED MESSAGE-----\n\nOrigin: A: b\nSuite: stable\nLabel:\nSHA256:\n Label: no 1\n"
    assert aptpins.parse_release(text) == (("o", "A: b"), ("l", ""), ("a", "stable"))


# ---- the module, with the machine's own apt on a made root, and one host for all repositories


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def publish(folder: Path, package: str, fields: dict[str, str]) -> None:
    """A flat repository with one package, which nobody signed."""
    folder.mkdir(parents=True)
    packages = (
        f"Package: {package}\nVersion: 1\nArchitecture: all\nFilename: {package}.deb\nSize: 1\nSHA256: {'0' * 64}\n"
    )
    (folder / "Packages").write_text(packages)
    said = "".join(f"{name}: {value}\n" for name, value in fields.items())
    digest = hashlib.sha256(packages.encode()).hexdigest()
    date = "Date: Tue, 01 Dec 2026 00:00:00 UTC\n"
    (folder / "Release").write_text(f"{said}{date}SHA256:\n {digest} {len(packages)} Packages\n")


@pytest.fixture
def apt(tmp_path: Path) -> tuple[str, ...]:
    """Options for an apt of its own."""
    if not shutil.which("apt-get"):
        pytest.skip("needs apt")
    etc = tmp_path / "etc"
    for folder in (etc / "sources.list.d", etc / "preferences.d", tmp_path / "lists", tmp_path / "cache"):
        folder.mkdir(parents=True)
    (tmp_path / "status").touch()
    settings = {
        "Dir::Etc": etc,
        "Dir::State::lists": tmp_path / "lists",
        "Dir::State::status": tmp_path / "status",
        "Dir::Cache": tmp_path / "cache",
        "Acquire::AllowInsecureRepositories": "true",
        "Acquire::http::Proxy": "DIRECT",
        "Acquire::http::Proxy-Auto-Detect": "",
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke": "",
    }
    return tuple(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apt: tuple[str, ...]) -> Any:
    """Runs the module on that root."""
    spec = importlib.util.spec_from_file_location("apt_pins_module", ROOT / "plugins/modules/apt_pins.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ansible.module_utils.firstlight", firstlight)  # as on a host
    spec.loader.exec_module(loaded)
    monkeypatch.setattr(loaded, "APT", ("apt-get", "-q", *apt))
    monkeypatch.setattr(loaded, "SOURCES", tmp_path / "etc")

    def run(check_mode: bool = False, **options: Any) -> dict[str, Any]:
        ended: dict[str, Any] = {}

        class Module:
            def __init__(self, **_: Any) -> None:
                self.params = {"without": [], **options}
                self.check_mode = check_mode

            def exit_json(self, **result: Any) -> None:
                ended.update(result)
                raise SystemExit

            def fail_json(self, **result: Any) -> None:
                self.exit_json(failed=True, **result)

        monkeypatch.setattr(loaded, "AnsibleModule", Module)
        with pytest.raises(SystemExit):
            loaded.main()
        return ended

    return run


def source(etc: Path, name: str, uri: str) -> None:
    (etc / "sources.list.d" / name).write_text(f"Types: deb\nURIs: {uri}/\nSuites: /\n")


def candidates(apt: tuple[str, ...], *packages: str) -> list[str]:
    said = subprocess.run(["apt-cache", *apt, "policy", *packages], capture_output=True, text=True, check=True).stdout
    return [line.split(": ")[1] for line in said.splitlines() if "Candidate:" in line]


def wanted(mirror: str) -> dict[str, Any]:
    return {"name": "vendor", "uri": f"{mirror}/vendor", "suites": ["/"], "signed_by": ""}


def test_keeping_a_repository_out_leaves_the_others_of_its_host(tmp_path: Path, mirror: str, apt: Any, module: Any):
    etc = tmp_path / "etc"
    publish(tmp_path / "web/debian", "hello", {"Origin": "Debian", "Label": "Debian", "Codename": "x"})
    publish(tmp_path / "web/vendor", "driver", {"Origin": "The Vendor, Inc.", "Label": "V W"})
    source(etc, "debian.sources", f"{mirror}/debian")

    assert module(check_mode=True, repositories=[wanted(mirror)]) == {"changed": False, "pins": {}}
    told = module(repositories=[wanted(mirror)])
    assert told["pins"] == {"vendor": ["release o=The Vendor? Inc.,l=V W"]}
    assert list((tmp_path / "lists").glob("*vendor*")) == []  # apt itself has none of it before its pins are written

    pin = f"Package: *\nPin: {told['pins']['vendor'][0]}\nPin-Priority: -1\n"
    (etc / "preferences.d/firstlight-vendor").write_text(pin)
    source(etc, "firstlight-vendor.sources", f"{mirror}/vendor")
    subprocess.run(["apt-get", *apt, "update"], capture_output=True, check=True)
    assert candidates(apt, "hello", "driver") == ["1", "(none)"]
    # from what apt has, and the same
    shutil.rmtree(tmp_path / "web")
    assert module(repositories=[wanted(mirror)]) == told
    assert module(check_mode=True, repositories=[wanted(mirror)]) == told


def test_a_pin_that_would_hold_for_another_repository_is_refused(tmp_path: Path, mirror: str, module: Any):
    publish(tmp_path / "web/debian", "hello", {"Origin": "Debian", "Label": "Debian"})
    publish(tmp_path / "web/vendor", "driver", {})
    source(tmp_path / "etc", "debian.sources", f"{mirror}/debian")
    told = module(repositories=[wanted(mirror)])
    assert told["failed"]
    assert told["msg"].startswith(
        "apt_cache: vendor: its pins would hold for debian.sources too: its Release file says "
    )
    # one that is going to be taken away is no matter
    assert module(repositories=[wanted(mirror)], without=["debian.sources"])["pins"] == {
        "vendor": ['origin "127.0.0.1"']
    }


def test_a_repository_that_does_not_answer_is_told(tmp_path: Path, mirror: str, module: Any):
    (tmp_path / "web/vendor").mkdir()
    told = module(repositories=[wanted(mirror)])
    assert told["msg"].startswith(f"apt does not take its sources: W: The repository '{mirror}/vendor ")
