"""Set a fresh host's clock once, from the first NTP server that answers. User data carries this file to the host.

Runs at the first boot, before anything there speaks TLS: with a clock that is years off no certificate is valid, and
nothing that is fetched over HTTPS, an NTP daemon's package included, would ever arrive. Standard library only, Python
3.7 and later. It never fails: a host without a right clock is found and named later, a host that does not boot is not.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from typing import Any

PORT = 123
TRIES, SECONDS = 2, 2.0  # of each server
STEP = 1.0  # seconds off from which on the clock is stepped
EPOCH = 2208988800  # seconds from 1900, where NTP counts from, to 1970
ERA = 1 << 32  # NTP's seconds begin anew in 2036
OLDEST = 1700000000  # no server is right that says it is earlier than this program


def ask(address: Any, family: int) -> float:
    """Seconds that the clock of this machine is behind a server's (RFC 4330). OSError or ValueError when it fails."""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(address)  # answers of others are dropped
        cookie = os.urandom(8)  # instead of our time, which says nothing: an answer has to repeat it
        sent = time.time()
        began = time.monotonic()
        sock.send(struct.pack("!B39x8s", 0x23, cookie))
        if not select.select([sock], [], [], SECONDS)[0]:
            raise ValueError("no answer")
        answer = sock.recv(512)
        took = time.monotonic() - began
    if len(answer) < 48:
        raise ValueError("a short answer")
    first, stratum = answer[0], answer[1]
    if answer[24:32] != cookie or first & 7 != 4:
        raise ValueError("an answer to another question")
    if first >> 6 == 3 or not 1 <= stratum <= 15:
        raise ValueError("not synchronised itself")
    received, transmitted = stamp(answer[32:40]), stamp(answer[40:48])
    if transmitted < OLDEST or not 0 <= transmitted - received <= took + 1:
        raise ValueError("an impossible time")
    return ((received - sent) + (transmitted - (sent + took))) / 2


def stamp(raw: bytes) -> float:
    """An NTP time stamp as seconds since 1970, in the era that is not over yet."""
    seconds, fraction = struct.unpack("!II", raw)
    if seconds < ERA // 2:  # before 1968, or after 2036
        seconds += ERA
    return seconds - EPOCH + fraction / ERA


def offset_by(server: str) -> tuple[float | None, str]:
    """(seconds behind, "") of the first of a server's addresses that answers, or (None, why not)."""
    why = "no address"
    try:
        found = socket.getaddrinfo(server, PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        return None, str(error)
    for family, _, _, _, address in found[:4]:
        for _ in range(TRIES):
            try:
                return ask(address, family), ""
            except (OSError, ValueError) as error:
                why = str(error)
    return None, why


def main(servers: list[str]) -> None:
    """One line on the screen for each server that was asked."""
    for server in servers:
        offset, why = offset_by(server)
        if offset is None:
            print(f"clock: {server}: {why}")
            continue
        if abs(offset) <= STEP:
            print(f"clock: {server}: {offset:+.3f} s, left as it is")
            return
        try:
            time.clock_settime(time.CLOCK_REALTIME, time.time() + offset)
            print(f"clock: {server}: stepped by {offset:+.3f} s")
        except OSError as error:
            print(f"clock: {server}: {offset:+.3f} s off, and it cannot be set: {error}")
        return
    print("clock: nobody told the time; left as it is")


if __name__ == "__main__":
    main(sys.argv[1:])
