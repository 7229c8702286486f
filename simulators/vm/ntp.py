"""A simulated NTP server, stratum 1, of this machine's own clock (RFC 4330): python -m simulators.vm.ntp ADDRESS."""

from __future__ import annotations

import socket
import struct
import sys
import time

PORT = 123
EPOCH = 2208988800  # NTP counts from 1900
CLIENT, SERVER = 3, 4


def answer(request: bytes, received: float, now: float) -> bytes | None:
    """The answer to a client's question, None to anything else. received, now: seconds since 1970."""
    if len(request) < 48 or request[0] & 7 != CLIENT:
        return None
    version = request[0] & 0b111000
    # stratum, poll, precision (2**-20 s), root delay and dispersion, reference
    head = struct.pack("!BBbbII4s", version | SERVER, 1, request[2] & 127, -20, 0, 66, b"SIMU")
    return head + _stamp(received) + request[40:48] + _stamp(received) + _stamp(now)


def _stamp(seconds: float) -> bytes:
    return struct.pack("!II", int(seconds) + EPOCH, int(seconds % 1 * 2**32))


def main() -> None:
    """Serve for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], PORT))
        print("simulated NTP server ready", flush=True)
        while True:
            request, client = server.recvfrom(512)
            said = answer(request, time.time(), time.time())
            if said:
                server.sendto(said, client)


if __name__ == "__main__":
    main()
