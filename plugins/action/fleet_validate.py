"""Refuse to start with inconsistent input (see plugins/modules/fleet_validate.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import constants as C

from firstlight.errors import InputError
from firstlight.fleet_action import FleetAction
from firstlight.maas.enlist import enlist_options
from firstlight.maas.hostkeys import new_key_pair
from firstlight.maas.images import COMPONENT, UNAME, pin_of
from firstlight.maas.options import install_options, ssh_minutes
from firstlight.maas.release import release_options
from firstlight.maas.userdata import user_data_settings
from firstlight.policy.settings import POLICY_SCHEMA
from firstlight.sitefiles import load_profiles
from firstlight.tickets.run import settings_of as tickets_settings
from firstlight.versions import ANY, load_versions

IN_POLICY = tuple(POLICY_SCHEMA["properties"])  # as variables they would be read by nobody
VAULT = "put it into group_vars/all/secrets.yml with ansible-vault, or into the environment as "


class ActionModule(FleetAction):
    def work(self) -> dict[str, Any]:
        self._policy_is_in_its_file()
        tickets_settings(self.variables)
        for name in self.hosts:
            self.bmc_target(name)
        self.needed("maas_api_key", f"{VAULT}FIRSTLIGHT_MAAS_API_KEY")
        self.needed("maas_url", "name it as url: in the inventory's *.maas.yml")
        for key in ("bmc_ca_file", "maas_ca_file", "ansible_ssh_private_key_file"):
            self._readable(key)
        enlist_options(self.value)
        install_options(self.value)
        release_options(self.value)
        # a template that makes no usable user data is told before anything is touched
        user_data_settings(self.value).render(self.hosts[0], new_key_pair())
        self.known_hosts(self.hosts[0])
        ssh_minutes(self.value)
        self._versions()
        client = self.maas_client()
        who = client.whoami().get("username", "?")
        return {"msg": f"{len(self.hosts)} hosts, MAAS {client.version()} as {who}"}

    def _policy_is_in_its_file(self) -> None:
        self.policy()
        for name in self.hosts:
            for key in IN_POLICY:
                if key in self.host_variables(name):
                    raise InputError(
                        f"{key} of {name} belongs into {self.value('policy_file') or 'policy.yml'} now, "
                        "and not into variables: move it there"
                    )

    def _versions(self) -> None:
        folders = [Path(folder) for folder in C.DEFAULT_ROLES_PATH or []]
        roles = [role.name for folder in folders if folder.is_dir() for role in folder.iterdir()]
        versions = load_versions(self.versions_file(), load_profiles(self.value("profiles_folder")), roles)
        for profile in {self.host_value(name, "profile")["name"] for name in self.hosts}:
            for architecture in UNAME.values():
                pin_of(versions.settings(COMPONENT, ANY, architecture, profile), self.value)

    def _readable(self, key: str) -> None:
        """A file that a setting names, where it is set, is there and can be read."""
        path = self.value(key)
        if not path:
            return
        try:
            with Path(path).expanduser().open("rb") as file:
                file.read(1)
        except OSError as error:
            raise InputError(f"{key}: {path} cannot be read: {error.strerror}") from None
