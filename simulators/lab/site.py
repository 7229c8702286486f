"""What the lab writes for its operator: the site's rack plan and vaulted secrets, an SSH key, and a file to source."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from pathlib import Path

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.vault import VaultLib, VaultSecret

from simulators import lab_files
from simulators.lab.plan import fleet_file
from simulators.lab_files import Lab

REPOSITORY = Path(__file__).resolve().parents[2]


def write(lab_dir: Path, lab: Lab, inventory_dir: Path) -> None:
    """Write all of it; what is there and right is left as it is."""
    if not (lab_dir / "vault_password").exists():
        lab_files.write_atomic(lab_dir / "vault_password", secrets.token_urlsafe(24) + "\n", 0o600)
    _write_changed(inventory_dir / "fleet.yml", fleet_file(lab))
    _secrets(lab_dir, lab, inventory_dir / "group_vars" / "all" / "secrets.yml")
    _ssh_key(lab_dir / "ssh" / "id_ed25519")
    _write_changed(lab_dir / "activate", _activate(lab_dir, inventory_dir))


def _write_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        lab_files.write_atomic(path, text)


def _secrets(lab_dir: Path, lab: Lab, path: Path) -> None:
    """Encrypted with ansible-vault's own library: no secret is in any command line."""
    wanted = {
        "bmc_username": lab["bmc"]["username"],
        "bmc_password": lab["bmc"]["password"],
        "maas_api_key": lab["maas"]["api_key"],
    }
    vault = VaultLib([("default", VaultSecret((lab_dir / "vault_password").read_text().strip().encode()))])
    try:
        if path.exists() and yaml.safe_load(vault.decrypt(path.read_bytes())) == wanted:
            return
    except (AnsibleError, yaml.YAMLError):
        pass  # of an earlier lab, with another password
    lab_files.write_atomic(path, vault.encrypt(f"---\n{yaml.safe_dump(wanted, sort_keys=False)}"), 0o600)


def _ssh_key(path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    comment = "operator of the lab"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True)


def environment(lab_dir: Path, inventory_dir: Path) -> dict[str, str]:
    """What makes the product work on the lab's site."""
    return {
        "PATH": f"{REPOSITORY / '.venv' / 'bin'}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_INVENTORY": str(inventory_dir),
        "ANSIBLE_VAULT_PASSWORD_FILE": str(lab_dir / "vault_password"),
        "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(lab_dir / "cache"),
        "FIRSTLIGHT_LAB_DIR": str(lab_dir),
    }


def _activate(lab_dir: Path, inventory_dir: Path) -> str:
    values = environment(lab_dir, inventory_dir)
    lines = [f"export PATH={shlex.quote(str(REPOSITORY / '.venv' / 'bin'))}:$PATH"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items() if name != "PATH"]
    return (
        "# Source this: the product then works on the lab's site. Written by scripts/lab.\n" + "\n".join(lines) + "\n"
    )
