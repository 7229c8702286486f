"""Power of a server, restart of its BMC, locator light. Each does nothing when it is already so."""

from __future__ import annotations

import time

from ..findings import Finding
from .client import BmcClient, Resource
from .control import PAUSE, Change, Say, manager_of, reconnect, silent, system_of, until_true
from .errors import BmcError, HalfAnswering, Refused
from .values import dig, text

# What to ask for, in the order of preference; BMCs differ in what they offer.
_RESETS = {
    "on": ("On", "ForceOn"),
    "off": ("ForceOff",),
    "shutdown": ("GracefulShutdown",),
    "restart": ("ForceRestart", "PowerCycle", "GracefulRestart"),
    "cycle": ("PowerCycle", "FullPowerCycle"),
}
ACTIONS = tuple(_RESETS)
DESTRUCTIVE = ("off", "shutdown", "restart", "cycle")  # they end what runs on the server
_END = {"on": "On", "off": "Off", "shutdown": "Off", "restart": "On", "cycle": "On"}
_ALREADY = {"on": "PSU501", "off": "PSU502", "shutdown": "PSU502"}  # "Server is already powered ON / OFF."
AWAY_SECONDS = 60.0  # within which a BMC that was told to restart stops answering


def power(client: BmcClient, action: str, check: bool = False, wait: float = 0, note: Say = silent) -> Change:
    """Switch the server. before, after: On, Off, or what the BMC says.

    action: on, off, shutdown (asks the operating system), restart, or cycle (off and on). A restart or cycle of a
    server that is off switches it on. "Already on" is success without a change. wait: seconds in which the new
    state must read back, 0: not read. note: called right before something is sent. A restart cannot be read back.
    """
    if action not in _RESETS:
        raise ValueError(f"action {action!r} is none of {', '.join(ACTIONS)}")
    path, system = system_of(client)
    before = text(system, "PowerState")
    if action in ("restart", "cycle") and before == "Off":
        action = "on"
    after = _END[action]
    if action not in ("restart", "cycle") and before == after:
        return Change(False, before, before)
    if check:
        return Change(True, before, after)
    note(f"power {action}: {before or 'state not told'} -> {after}")
    try:
        if action == "cycle" and not _offers(client, system, action):  # HPE does not
            _reset(client, path, system, "off")
            if not until_true(lambda: _state(client) == "Off", max(wait, 30.0), 1.0):
                raise HalfAnswering("switched off for a power cycle, and it does not read back as Off")
            action = "on"
        _reset(client, path, system, action)
    except BmcError as error:
        if _ALREADY.get(action, "-") not in error.codes:
            raise
        return Change(False, before, after)
    if wait and not until_true(lambda: _state(client) == after, wait, min(PAUSE, wait / 4)):
        evidence = f"{action} was accepted; after {wait:g} s the power still reads {_state(client) or 'nothing'}"
        hint = "; the operating system may not listen to the button" if action == "shutdown" else ""
        finding = Finding("power", "fail", "power.not_reached", "system", evidence + hint, "power_cycle")
        return Change(True, before, after, (finding,))
    return Change(True, before, after)


def reset_bmc(
    client: BmcClient, seconds: float, check: bool = False, note: Say = silent, pause: float = PAUSE
) -> Change:
    """Restart the BMC (not the server), and wait until it answers again; at most so many seconds.

    Raises TimedOut when it does not come back.
    """
    path, manager = manager_of(client)
    kind = _reset_type(client, manager, "#Manager.Reset", ("GracefulRestart", "ForceRestart"), "restart the BMC")
    if check:
        return Change(True, "running", "restarted")
    target = text(manager, "Actions", "#Manager.Reset", "target") or f"{path}/Actions/Manager.Reset"
    note(f"BMC restart: {text(manager, 'Model') or path}")
    started = time.monotonic()
    try:
        client.post(target, {"ResetType": kind})
    except Refused:
        raise
    except BmcError:
        if client.stopped:
            raise  # else: it went before it answered
    went = until_true(lambda: _is_away(client, path), min(AWAY_SECONDS, seconds), min(pause, 0.5))
    reconnect(client, max(pause, seconds - (time.monotonic() - started)), pause)
    took = f"answers again after {time.monotonic() - started:.0f} s"
    if went:
        return Change(True, "running", "restarted", (Finding("bmc_reset", "ok", "bmc_reset", "BMC", took),))
    evidence = f"accepted the restart, and went on answering for {min(AWAY_SECONDS, seconds):g} s"
    finding = Finding("bmc_reset", "fail", "bmc.reset_ignored", "BMC", evidence, "power_cycle")
    return Change(True, "running", "restarted", (finding,))


def set_locator(client: BmcClient, lit: bool, check: bool = False) -> Change:
    """Switch the light that shows people which server it is. before, after: on, off, or what the BMC says."""
    path, system = system_of(client)
    wanted = "on" if lit else "off"
    name = "LocationIndicatorActive" if isinstance(dig(system, "LocationIndicatorActive"), bool) else "IndicatorLED"
    before = _light(system, name)
    if not before:
        raise Refused(f"GET {path}: tells of no locator light")
    if before == wanted:
        return Change(False, before, before)
    if check:
        return Change(True, before, wanted)
    value: bool | str = lit if name == "LocationIndicatorActive" else ("Blinking" if lit else "Lit")
    try:
        client.patch(path, {name: value})
    except Refused:
        if value != "Lit":
            raise
        client.patch(path, {name: "Off"})  # where the light has no colour for "all is well"
    if _light(system_of(client)[1], name) != wanted:
        raise HalfAnswering(f"PATCH {path}: accepted, but the locator light reads back as it was")
    return Change(True, before, wanted)


def _light(system: Resource, name: str) -> str:
    if name == "LocationIndicatorActive":
        return "on" if dig(system, name) is True else "off"
    return {"Blinking": "on", "Lit": "off", "Off": "off"}.get(text(system, name), "")


def _state(client: BmcClient) -> str:
    return text(system_of(client)[1], "PowerState")


def _is_away(client: BmcClient, path: str) -> bool:
    """True when the BMC no longer answers as before; its session ends with it."""
    try:
        client.get(path)
        system_of(client)
    except BmcError:
        return True
    return False


def _reset(client: BmcClient, path: str, system: Resource, action: str) -> None:
    target = text(system, "Actions", "#ComputerSystem.Reset", "target") or f"{path}/Actions/ComputerSystem.Reset"
    kind = _reset_type(client, system, "#ComputerSystem.Reset", _RESETS[action], action)
    client.post(target, {"ResetType": kind})


def _offers(client: BmcClient, system: Resource, action: str) -> bool:
    allowed = _allowed(client, system, "#ComputerSystem.Reset")
    return allowed is None or bool(set(_RESETS[action]) & set(allowed))


def _reset_type(client: BmcClient, resource: Resource, action: str, wanted: tuple[str, ...], doing: str) -> str:
    """A reset type that this BMC allows."""
    allowed = _allowed(client, resource, action)
    if allowed is None:
        return wanted[0]
    for kind in wanted:
        if kind in allowed:
            return kind
    raise Refused(f"cannot {doing}: it offers {', '.join(allowed[:12]) or 'nothing'}")


def _allowed(client: BmcClient, resource: Resource, action: str) -> list[str] | None:
    """The reset types that it lists: Dell and HPE inline, Supermicro and DGX in ResetActionInfo; None for no list."""
    reset = dig(resource, "Actions", action)
    allowed = dig(reset, "ResetType@Redfish.AllowableValues")
    info = text(reset, "@Redfish.ActionInfo")
    if not isinstance(allowed, list) and info:
        parameters = client.get(info).get("Parameters")
        for parameter in parameters if isinstance(parameters, list) else []:
            if text(parameter, "Name") == "ResetType":
                allowed = dig(parameter, "AllowableValues")
    return [str(kind) for kind in allowed] if isinstance(allowed, list) else None
