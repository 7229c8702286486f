"""Install: commission and deploy many machines in waves, watched with one list call per tick.

It takes every machine as it finds it: what a killed run has started is waited for, not started again. Nothing is
undone on the way out: machines that are installing go on when the run is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .calls import Calls
from .client import MaasClient
from .engine import Engine
from .foresight import Foresight
from .machines import Machine
from .options import Commissioned, InstallOptions, InstallResult, Power, Progress, Wanted

__all__ = ["Commissioned", "InstallOptions", "InstallResult", "Power", "Progress", "Wanted", "install"]


def install(
    client: MaasClient,
    wanted: Sequence[Wanted],
    options: InstallOptions,
    on_progress: Callable[[Progress], None] | None = None,
    on_deed: Callable[[str, str], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
    *,
    user_data: Callable[[str], str] | None = None,
    before_commission: Callable[[MaasClient], None] | None = None,
    commissioned: Callable[[MaasClient, Wanted, Machine], Commissioned | None] | None = None,
    power: Power | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, InstallResult]:
    """Bring every host to Deployed; one result per name, and a failing host stops no other.

    Raises MaasError when MAAS cannot be used from the start, KeyboardInterrupt through. on_deed: is told (name, line)
    of a destructive step before it is done; on_progress and on_deed are called in this thread, all that follows in
    threads of a pool, for several hosts at once:
    user_data: name -> text of the host's cloud-config, right before deploy is asked for (else options.user_data).
    before_commission: once, before the first commission of the run; again when it raised MaasError.
    commissioned: before the OS disk of a Ready machine is chosen; None when nothing is known.
    power: what switches machines on past MAAS, and asks their BMCs (see options.power).
    """
    calls = Calls(
        client,
        options,
        user_data or (lambda name: options.user_data),
        before_commission,
        commissioned,
        None if options.power == "maas" else power,
    )
    engine = Foresight if options.check else Engine
    return engine(calls, wanted, on_progress, on_deed, pause, clock).run()
