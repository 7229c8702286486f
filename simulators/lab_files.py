"""The lab's files, shared by all simulators: lab.json, machine state, and the lab's certificates.

See simulators/README.md for what lab.json holds.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import trustme

Lab = dict[str, Any]
CERTIFICATE_DAYS = 825  # as long as TLS clients accept for a server's certificate


class LabError(Exception):
    """The lab's files cannot be used; the message says which, where, and what would be right."""


def load(lab_dir: str | Path) -> Lab:
    """Read lab.json, checked for what every simulator needs.

    Raises LabError when it is missing, is not JSON, or lacks a key.
    """
    path = Path(lab_dir) / "lab.json"
    try:
        lab = json.loads(path.read_text())
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; scripts/lab writes this file") from None
    except json.JSONDecodeError as error:
        raise LabError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(lab, dict):
        raise LabError(f"{path}: must hold one JSON object")
    if not isinstance(lab.get("machines"), list):
        raise LabError(f"{path}: machines: must be a list of machines")
    for number, entry in enumerate(lab["machines"]):
        for key in ("name", "index", "service_tag", "bmc_address"):
            if not isinstance(entry, dict) or key not in entry:
                raise LabError(f"{path}: machines[{number}]: lacks {key}")
    for key in ("name", "index", "service_tag"):
        seen = set()
        for entry in lab["machines"]:
            if entry[key] in seen:
                raise LabError(f"{path}: machines: {key} {entry[key]!r} is used twice")
            seen.add(entry[key])
    return lab


def machine(lab: Lab, name: str) -> dict[str, Any]:
    """Return the entry of one machine; LabError names the known ones when there is no such machine."""
    for entry in lab["machines"]:
        if entry["name"] == name:
            return dict(entry)
    known = ", ".join(sorted(entry["name"] for entry in lab["machines"]))
    raise LabError(f"no machine {name!r} in this lab; there are {known}")


def split_address(text: str) -> tuple[str, int]:
    """Split "127.31.0.1:8450" into host and port; LabError when it is neither."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise LabError(f"lab.json: {text!r} is not an address of the form HOST:PORT")
    return host.strip("[]"), int(port)


def write_atomic(path: str | Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace a file as a whole: a reader, or a crash half way, never sees a part of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.fchmod(handle, mode)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Any, mode: int = 0o644) -> None:
    """Write one JSON value atomically, indented, keys in the order given."""
    write_atomic(path, json.dumps(value, indent=1) + "\n", mode)


def read_json(path: str | Path, default: Any = None) -> Any:
    """Read one JSON value; default when the file does not exist; LabError when it is not JSON."""
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        return default
    except json.JSONDecodeError as error:
        raise LabError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None


def make_certificates(lab_dir: str | Path, lab: Lab) -> Path:
    """Make the lab's CA and one certificate for each listener; keep those that are there and still fit.

    Writes ca.pem, ca.key (0600), tls/NAME.pem (key and certificate, 0600) for each machine, and tls/maas.pem.
    Returns the path of ca.pem.
    """
    lab_dir = Path(lab_dir)
    (lab_dir / "tls").mkdir(parents=True, exist_ok=True)
    with (lab_dir / "tls" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two simulators that start at once must not make two CAs
        _issue(lab_dir, lab)
    return lab_dir / "ca.pem"


def _issue(lab_dir: Path, lab: Lab) -> None:
    ca = authority(lab_dir)
    wanted = {entry["name"]: entry["bmc_address"] for entry in lab["machines"]}
    if "listen" in lab.get("maas", {}):
        wanted["maas"] = split_address(lab["maas"]["listen"])[0]
    index_path = lab_dir / "tls" / "index.json"
    made: dict[str, str] = read_json(index_path, {})
    for name, address in wanted.items():
        path = lab_dir / "tls" / f"{name}.pem"
        if made.get(name) == address and path.exists():
            continue
        issue(lab_dir, name, address, ca)
        made[name] = address
    write_json(index_path, made, 0o600)


def issue(lab_dir: Path, name: str, address: str, ca: trustme.CA | None = None) -> None:
    """Make tls/NAME.pem anew: key and certificate of one listener, by the lab's CA."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=CERTIFICATE_DAYS)
    leaf = (ca or authority(lab_dir)).issue_cert(address, "localhost" if name == "maas" else name, not_after=until)
    write_atomic(lab_dir / "tls" / f"{name}.pem", leaf.private_key_and_cert_chain_pem.bytes(), 0o600)


def authority(lab_dir: Path) -> trustme.CA:
    """Return the lab's CA; make it, and ca.pem and ca.key, when there is none."""
    certificate, key = lab_dir / "ca.pem", lab_dir / "ca.key"
    if certificate.exists() and key.exists():
        return trustme.CA.from_pem(certificate.read_bytes(), key.read_bytes())
    made = trustme.CA(organization_name="Firstlight lab (simulated)")
    write_atomic(key, made.private_key_pem.bytes(), 0o600)
    write_atomic(certificate, made.cert_pem.bytes())
    # What an older CA signed is of no use now.
    (lab_dir / "tls" / "index.json").unlink(missing_ok=True)
    return made
