"""The operations of the MAAS 2.0 API that Firstlight uses, and the requests for them.

python-libmaas makes the requests: its "bones" know MAAS's encoding (op in the query, multipart with repeated keys)
and sign them with OAuth PLAINTEXT and a fresh nonce. ``client.py`` sends them, because libmaas's own transport has
no deadline, knows no CA file, and wants an event loop per thread; and bones alone does not need distutils, which
Python 3.12 dropped. The list below has the form that ``describe/`` of a region has, so that no request is spent on
asking for it: what is not in it cannot be called by mistake.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import InputError

# handler: (path below api/2.0/, {action: (method, op)})
OPERATIONS: dict[str, tuple[str, dict[str, tuple[str, str | None]]]] = {
    "Version": ("version/", {"read": ("GET", None)}),
    "Users": ("users/", {"whoami": ("GET", "whoami")}),
    "Machines": ("machines/", {"read": ("GET", None), "create": ("POST", None)}),
    "Machine": (
        "machines/{system_id}/",
        {
            "read": ("GET", None),
            "update": ("PUT", None),
            "delete": ("DELETE", None),
            "query_power_state": ("GET", "query_power_state"),
            "commission": ("POST", "commission"),
            "deploy": ("POST", "deploy"),
            "release": ("POST", "release"),
            "abort": ("POST", "abort"),
            "power_on": ("POST", "power_on"),
            "power_off": ("POST", "power_off"),
            "set_storage_layout": ("POST", "set_storage_layout"),
        },
    ),
    "Interfaces": ("nodes/{system_id}/interfaces/", {"create_physical": ("POST", "create_physical")}),
    "Interface": ("nodes/{system_id}/interfaces/{id}/", {"update": ("PUT", None)}),
    "BlockDevices": ("nodes/{system_id}/blockdevices/", {"read": ("GET", None)}),
    "BlockDevice": ("nodes/{system_id}/blockdevices/{id}/", {"set_boot_disk": ("POST", "set_boot_disk")}),
    # No slash behind the name: MAAS answers 404 to one.
    "Scripts": ("scripts/", {"create": ("POST", None)}),
    "Script": ("scripts/{name}", {"read": ("GET", None), "update": ("PUT", None)}),
    "ScriptResults": ("nodes/{system_id}/results/", {"read": ("GET", None)}),
    "BootResources": ("boot-resources/", {"read": ("GET", None)}),
    "Events": ("events/", {"query": ("GET", "query")}),
    "Tags": ("tags/", {"read": ("GET", None), "create": ("POST", None)}),
    "Tag": ("tags/{name}/", {"update_nodes": ("POST", "update_nodes")}),
}


class Request(NamedTuple):
    """One signed request. body: None for GET."""

    method: str
    url: str
    body: bytes | None
    headers: dict[str, str]


def api_root(url: str) -> str:
    """The root of the API of a region named by what people write: https://host:5443/MAAS."""
    parts = urlsplit(url.strip())
    if "@" in url or parts.query or parts.fragment:
        raise InputError("maas url: has a user name, password or query in it; write https://host:5443/MAAS alone")
    if parts.scheme != "https" or not parts.hostname:
        # PLAINTEXT OAuth sends the key itself; without TLS everybody on the way can read it.
        raise InputError(f"{url!r} is not the URL of MAAS over TLS; it looks like https://maas.example.org:5443/MAAS")
    path = parts.path.rstrip("/")
    if not path.endswith("/api/2.0"):
        path += "/api/2.0"
    return f"https://{parts.netloc}{path}/"


def split_key(api_key: str) -> tuple[str, str, str]:
    """consumer, token and secret of an API key; InputError, which does not show the key, when it is none."""
    parts = str(api_key).strip().split(":")
    if len(parts) != 3 or not all(parts) or any(c.isspace() or not c.isprintable() for c in api_key.strip()):
        raise InputError("the MAAS API key must have three parts, consumer:token:secret (in MAAS: user, API keys)")
    return parts[0], parts[1], parts[2]


class RequestMaker:
    """Makes signed requests for one region and key."""

    def __init__(self, root: str, api_key: str) -> None:
        # These imports take half a second (aiohttp, macaroons); an inventory read from the cache goes without.
        from maas.client.bones import SessionAPI
        from maas.client.utils.creds import Credentials

        self._session = SessionAPI(_description(root), Credentials(*split_key(api_key)))
        self._session.scheme = urlsplit(root).scheme

    def make(self, operation: str, path: Mapping[str, str | int], data: Mapping[str, Any]) -> Request:
        """The request for an operation such as ``Machine.deploy``.

        path: what the URI needs (system_id, id, name). data: strings, numbers, booleans, lists of strings, or bytes
        for a file; None leaves a parameter out.
        """
        handler, action = operation.split(".")
        call = getattr(getattr(self._session, handler), action).bind(**{k: str(v) for k, v in path.items()})
        url, body, headers = call.prepare({k: _plain(v) for k, v in data.items() if v is not None})
        headers = {name: str(value) for name, value in headers.items()}
        headers.setdefault("Accept", "application/json,*/*;q=0.9")
        return Request(call.action.method, url, body, headers)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return lambda: io.BytesIO(value)  # an upload; bones opens it for each request
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return [str(v) for v in value]
    return str(value)


def _description(root: str) -> dict[str, Any]:
    resources = []
    for name, (path, actions) in OPERATIONS.items():
        handler = {
            "name": f"{name}Handler",
            "doc": "",
            "uri": root + path,
            "path": urlsplit(root).path + path,
            "params": [part.split("}")[0] for part in path.split("{")[1:]],
            "actions": [
                {"name": action, "op": op, "method": method, "restful": op is None, "doc": ""}
                for action, (method, op) in actions.items()
            ],
        }
        resources.append({"name": handler["name"], "anon": None, "auth": handler})
    return {"doc": "Firstlight's part of the MAAS API", "hash": "", "resources": resources}
