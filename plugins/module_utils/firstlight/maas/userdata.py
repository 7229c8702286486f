"""cloud-init user data: what a freshly installed host must know before Ansible reaches it.

It is rendered from user_data.yml.j2, or from a template of the site's that extends it, per host: it carries the
private part of the host's first SSH key. So nothing of a rendered text is ever shown, in no error either.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import jinja2.sandbox

from ..errors import InputError
from ..yamlfile import YamlFile, read_text
from .hostkeys import BOOTSTRAP, KeyPair, KnownHosts, new_key_pair

TEMPLATE = Path(__file__).with_name("user_data.yml.j2")
CLOCK_SCRIPT = Path(__file__).with_name("step_clock.py")
MAX_BYTES = 64 * 1024  # ours; neither MAAS nor cloud-init names one
TIMEZONE = "Etc/UTC"

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( .*)?")
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(=[A-Za-z0-9.+:~-]+)?")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_URL_PATH = re.compile(r"[A-Za-z0-9/._~%+-]*")
_MIRRORS = ("primary", "security")


@dataclass(frozen=True)
class UserData:
    """A site's settings for user data, checked. ``render`` gives the text for one host.

    authorized_keys: lines of an authorized_keys file. ntp_servers: none leaves the image's own time service.
    apt_mirrors: {primary, security: URL}. template: path of the site's own, None for ours.
    """

    authorized_keys: list[str]
    user: str = "firstlight"
    ntp_servers: list[str] = field(default_factory=list)
    apt_proxy: str = ""
    apt_mirrors: Mapping[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    timezone: str = TIMEZONE
    template: Path | None = None
    _checked: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def render(self, name: str, host_key: KeyPair) -> str:
        """The ``#cloud-config`` of one host; InputError when the site's template does not make a usable one."""
        path = self.template or TEMPLATE
        variables = {
            "name": name,
            "user": self.user,
            "authorized_keys": self.authorized_keys,
            "host_key": {"private": host_key.private, "public": host_key.public},
            "ntp_servers": self.ntp_servers,
            "clock_script": CLOCK_SCRIPT.read_text(encoding="utf-8"),
            "apt_proxy": self.apt_proxy,
            "apt_mirrors": dict(self.apt_mirrors),
            "packages": self.packages,
            "timezone": self.timezone,
        }
        try:
            text = _compiled(read_text(path)).render(variables)
        except jinja2.TemplateSyntaxError as error:
            raise InputError(f"install_user_data_template: {error.message}", f"{path}:{error.lineno}") from None
        except jinja2.UndefinedError as error:  # names the variable, no value
            raise InputError(f"install_user_data_template: {error.message}", str(path)) from None
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise InputError(f"install_user_data_template: {type(error).__name__} in it", str(path)) from None
        # Reading YAML takes 30 ms, and hosts' texts are the same but for these.
        alike = text
        for own in (as_json(host_key.private), as_json(host_key.public), as_json(name)):
            alike = alike.replace(own, "")
        if alike not in self._checked:
            self._check(text, path, host_key)
            self._checked.add(alike)
        return text

    def _check(self, text: str, path: Path, host_key: KeyPair) -> None:
        where = f"{path}, as rendered"
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise InputError("install_user_data_template: not UTF-8 text", where) from None
        if size > MAX_BYTES:
            raise InputError(f"install_user_data_template: {size} bytes, and {MAX_BYTES} are the most", where)
        if not text.startswith("#cloud-config\n"):
            raise InputError("install_user_data_template: the first line must be #cloud-config", where)
        config = YamlFile(Path(where), text).data
        if not isinstance(config, dict):
            raise InputError("install_user_data_template: it must be keys with values", where)
        keys, users = config.get("ssh_keys"), config.get("users")
        if not isinstance(keys, dict) or keys.get("ed25519_private") != host_key.private:
            raise InputError("install_user_data_template: ssh_keys lacks host_key; SSH could not be verified", where)
        listed = users if isinstance(users, list) else []
        mine = [u for u in listed if isinstance(u, dict) and u.get("name") == self.user]
        if not mine or mine[0].get("ssh_authorized_keys") != self.authorized_keys:
            said = f"users lacks {self.user} with authorized_keys; nobody could reach the host"
            raise InputError(f"install_user_data_template: {said}", where)


def user_data_settings(value: Callable[[str], Any]) -> UserData:
    """A site's settings; InputError names the one that is wrong. value: gives one by name, None where it is not set."""
    user = str(value("ansible_user") or "firstlight")
    if not _USER.fullmatch(user) or user == "root":
        raise InputError(
            f"ansible_user: {user!r} cannot be the SSH user of installed hosts; a lower-case name, not root"
        )
    servers = "install_ntp_servers" if value("install_ntp_servers") is not None else "time_sync_servers"
    zone = value("install_timezone") or TIMEZONE
    if not isinstance(zone, str) or not _ZONE.fullmatch(zone):
        raise InputError(f"install_timezone is {zone!r}; write one like {TIMEZONE} or Europe/Berlin")
    template = value("install_user_data_template")
    return UserData(
        authorized_keys=_public_keys(value("install_ssh_public_key_file")),
        user=user,
        ntp_servers=_names(servers, value(servers), _SERVER, "the name or address of an NTP server"),
        apt_proxy=_url("install_apt_proxy", value("install_apt_proxy")),
        apt_mirrors=_mirrors(value("install_apt_mirrors")),
        packages=_names("install_packages", value("install_packages"), _PACKAGE, "a package, NAME or NAME=VERSION"),
        timezone=zone,
        template=Path(str(template)).expanduser() if template else None,
    )


def per_host(settings: UserData, files: Mapping[str, KnownHosts]) -> Callable[[str], str]:
    """What install() takes as user_data: makes a host's key, writes the public part down, renders the private one.

    One pair a host and run: where MAAS's answer to a deployment was lost, the next try must not change what the first
    may have brought about. files: the file of known hosts, by host name. May be called from several threads.
    """
    pairs: dict[str, KeyPair] = {name: new_key_pair() for name in files}

    def make(name: str) -> str:
        text = settings.render(name, pairs[name])
        files[name].replace(name, pairs[name].public, BOOTSTRAP)
        return text

    return make


@functools.lru_cache(maxsize=4)
def _compiled(text: str) -> jinja2.Template:
    return _environment().from_string(text)


def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.SandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(TEMPLATE.parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tojson"] = as_json
    return environment


def as_json(value: Any) -> str:
    """JSON that YAML 1.1 reads as the same value.

    Its own pairs of surrogates YAML would take for two characters, and what is beyond ASCII unescaped for a line's end.
    """
    return re.sub(r"[^\n\x20-\x7e]", lambda found: f"\\U{ord(found[0]):08x}", json.dumps(value, ensure_ascii=False))


def _names(setting: str, given: Any, pattern: re.Pattern[str], what: str) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise InputError(f"{setting} is {given!r}; it must be a list")
    for entry in given:
        if not isinstance(entry, str) or not pattern.fullmatch(entry):
            raise InputError(f"{setting}: {entry!r} is not {what}")
    return list(given)


def _mirrors(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not set(given) <= set(_MIRRORS):
        raise InputError(f"install_apt_mirrors is {given!r}; its keys are primary and security, its values URLs")
    return {name: _url(f"install_apt_mirrors.{name}", given[name]) for name in _MIRRORS if given.get(name)}


def _url(setting: str, given: Any) -> str:
    if given in (None, ""):
        return ""
    try:
        parts = urlsplit(given) if isinstance(given, str) and given.isprintable() and " " not in given else None
        port = parts.port if parts else None
    except ValueError:
        parts, port = None, None
    if parts is None or port == 0 or parts.scheme not in ("http", "https"):
        parts = None
    elif parts.username is not None or parts.password is not None:
        raise InputError(f"{setting} has a user name or password in it; user data is no place for a secret")
    elif not _SERVER.fullmatch(parts.hostname or "") or not _URL_PATH.fullmatch(parts.path) or parts.query:
        parts = None
    if parts is None:
        raise InputError(f"{setting} is {given!r}; write a URL like http://apt.example.org:3142")
    return str(given)


def _public_keys(path: Any) -> list[str]:
    setting = "install_ssh_public_key_file"
    if not path:
        raise InputError(f"{setting} is not set; name the public key that hosts shall accept")
    try:
        text = Path(str(path)).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{setting}: {path} is not a text file") from None
    except OSError as error:
        raise InputError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    if "PRIVATE KEY" in text:
        raise InputError(f"{setting}: {path} is a private key; name the file that ends in .pub")
    keys = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise InputError(f"{setting}: {path} has no key in it; without one nobody could reach an installed host")
    for key in keys:
        if not _KEY.fullmatch(key) or not key.isprintable():
            raise InputError(
                f"{setting}: {path}: {key[:24]!r}... is not a public SSH key (ssh-ed25519 AAAA... comment)"
            )
    return keys
