"""The file of secrets, usually vaulted: read with ansible-core's own vault. Imported late, ansible-core is slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import AnsibleVaultError, VaultSecretsContext, get_file_vault_secret

from .errors import InputError

CANNOT = "cannot be decrypted; give its password with --vault-password-file, or set "


def vault_loader(password_files: list[str]) -> DataLoader:
    """A loader that can decrypt with the passwords in these files (or programs, when they are executable)."""
    loader = DataLoader()
    secrets = []
    for name in password_files:
        try:
            secret = get_file_vault_secret(filename=str(Path(name).expanduser()), loader=loader)
            secret.load()
        except AnsibleError as error:
            raise InputError(f"the vault's password cannot be read: {_first_line(error)}", name) from None
        secrets.append(("default", secret))
    loader.set_vault_secrets(secrets)
    context = VaultSecretsContext.current(optional=True)  # for single values that are vaulted
    if context is None:
        VaultSecretsContext.initialize(VaultSecretsContext(secrets))
    else:
        context.secrets = secrets
    return loader


def read_secrets(path: Path, loader: DataLoader, variables: str) -> dict[str, Any]:
    """The mapping in a file of secrets, decrypted, as plain values; {} when there is no such file.

    variables: the environment variables that would do instead, for errors; they never show what is in the file.
    """
    if not path.exists():
        return {}
    try:
        data = _plain(loader.load_from_file(str(path), cache="none"))
    except AnsibleVaultError:
        raise InputError(f"{CANNOT}{variables}", str(path)) from None
    except AnsibleError as error:
        vaulted = "vault" in str(error).lower()
        raise InputError(f"{CANNOT}{variables}" if vaulted else "cannot be read as YAML", str(path)) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError("must be a mapping such as bmc_username: root", str(path))
    return data


def _plain(value: Any) -> Any:
    """Without Ansible's wrappers; a value with ``!vault`` becomes its text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str.__str__(value) if isinstance(value, str) else str(value)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
