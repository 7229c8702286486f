"""What goes wrong with single machines: which events MAAS then has, what their consoles and logs say.

A fault of this kind is set for machines by name: ``PUT /faults/no_dhcp {"machines": ["r1-n01"]}``. Texts are written
after what firmware, iPXE, kernel, curtin and cloud-init say; consoles are DIR/console/NAME.log.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from simulators.maas import scripts
from simulators.maas.settings import Settings
from simulators.maas.store import Machine, Store

FAILED_INSTALL = "Installation failed (refer to the installation log for more information)."
INSTALL_LOG = "/tmp/install.log"  # noqa: S108 - its name in MAAS
_BOOTED = (("PXE Request", "local"), ("Performing PXE boot", ""))


@dataclass(frozen=True)
class Trouble:
    """events: (type, description), oldest first. marked: what MAAS says of the failure."""

    console: str = ""
    log: str = ""
    events: tuple[tuple[str, str], ...] = ()
    marked: str = ""


def _curtin(stage: str) -> tuple[tuple[str, str], ...]:
    return (
        ("Node installation failure", f"'curtin' {stage}"),
        ("Node installation failure", "'curtin' curtin command install"),
        ("Script result", f"{INSTALL_LOG} changed status from 'Running' to 'Failed'"),
    )


# It gets no kernel.
AT_THE_NETWORK = {
    "no_dhcp": Trouble(
        ">>Start PXE over IPv4.\r\n  PXE-E16: No valid offer received.\r\n"
        "PXE-E51: No DHCP or proxyDHCP offers were received.\r\nPXE-M0F: Exiting Intel Boot Agent.\r\n"
    ),
    "no_kernel": Trouble(
        ">>Start PXE over IPv4.\r\n  Station IP address is 10.31.0.77\r\n  NBP filename is bootx64.efi\r\n"
        "  PXE-E23: Client received TFTP error from server.\r\n",
        events=(("TFTP Request", "bootx64.efi"), *_BOOTED),
    ),
}
# It starts, and never says another word.
HANGS = {
    "certificate": Trouble(
        "[   31.4] cloud-init[1289]: url_helper.py[WARNING]: Calling 'https://10.31.0.2:5443/MAAS/metadata/' failed: "
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate\n"
    ),
    "clock": Trouble(
        "[   31.4] cloud-init[1289]: url_helper.py[WARNING]: Calling 'http://10.31.0.2:5248/MAAS/metadata/' failed: "
        "401 Authorization Error: 'Expired timestamp: given 1546300800 and now 1796000000 has a greater difference "
        "than threshold 300'\n"
    ),
    "kernel_panic": Trouble("[    4.2] Kernel panic - not syncing: Fatal machine check\n"),
    "out_of_memory": Trouble("[   61.0] Out of memory: Killed process 1402 (curtin) total-vm:81920kB\n"),
}
# The installer, or commissioning, gives up and says so.
AT_THE_END = {
    "disk_write": Trouble(
        "[  120.1] I/O error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2\n",
        "wiping 1M on /dev/sda at offsets [0, -1048576]\nAn error occured handling 'sda': OSError - [Errno 5] "
        "Input/output error\ncurtin: Installation failed with exception: [Errno 5] Input/output error\n",
        _curtin("configuring disk: sda"),
        FAILED_INSTALL,
    ),
    "curtin": Trouble(
        "",
        "curtin: Installation failed with exception: Unexpected error while running command.\nCommand: ['curtin', "
        "'in-target', '--', 'apt-get', 'install', 'grub-efi-amd64-signed']\nExit code: 100\nReason: -\n",
        _curtin("installing missing packages"),
        FAILED_INSTALL,
    ),
    "cloud_init": Trouble(
        "[   88.0] cloud-init[2211]: 2026-11-29 10:00:00,000 - util.py[WARNING]: Failed running module scripts-user\n",
        "",
        (("Node post-installation failure", "'cloudinit' running modules for final"),),
        "Installation failed (refer to the event log for more information).",
    ),
}
POWER = ("driver_fails", "disk_first", "no_ssh")
FAULTS = (*AT_THE_NETWORK, *HANGS, *AT_THE_END, *POWER)


class Troubles:
    """The faults of single machines."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store

    def of(self, machine: Machine) -> set[str]:
        """The names of a machine's faults."""
        faults = self._store.data["faults"]
        return {name for name in FAULTS if machine["hostname"] in faults.get(name, {}).get("machines", [])}

    def at_the_network(self, machine: Machine) -> Trouble | None:
        """What keeps it from a kernel."""
        return self._met(machine, AT_THE_NETWORK)

    def hangs(self, machine: Machine) -> bool:
        """True when it will say no more."""
        return self._met(machine, HANGS) is not None

    def at_the_end(self, machine: Machine, kind: str) -> Trouble | None:
        """How a deployment fails."""
        return self._met(machine, AT_THE_END) if kind == "deploy" else None

    def address(self, machine: Machine, told: str) -> str:
        """Where the installed host really is: with no_ssh not where MAAS says."""
        return f"{told.rpartition('.')[0]}.253" if "no_ssh" in self.of(machine) else told

    def _met(self, machine: Machine, table: dict[str, Trouble]) -> Trouble | None:
        mine = self.of(machine)
        found = next((trouble for name, trouble in table.items() if name in mine), None)
        if found is not None:
            self._say(machine, found)
        return found

    def _say(self, machine: Machine, trouble: Trouble) -> None:
        runs = [run for run in machine.get("script_sets", []) if run["type"] == scripts.INSTALLATION]
        for result in runs[-1]["results"] if runs and trouble.log else []:
            result.update(status=scripts.FAILED, exit_status=1, output=trouble.log, ended=time.time())
        if trouble.console:
            path = self._settings.lab_dir / "console" / f"{machine['hostname']}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", newline="") as stream:
                stream.write(trouble.console)
