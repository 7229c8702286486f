"""A simulated NTP server for the scenario time_sync: stratum 1, the machine's own clock, 127.0.0.1:1123 (RFC 4330)."""

import socket
import struct
import time

EPOCH = 2208988800  # NTP counts from 1900


def ntp_time():
    now = time.time() + EPOCH
    return int(now) << 32 | int(now % 1 * 2**32)


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 1123))
while True:
    request, client = server.recvfrom(512)
    received = ntp_time()
    if len(request) < 48 or request[0] & 7 != 3:  # only a client's question
        continue
    version = request[0] >> 3 & 7
    sent = struct.unpack("!Q", request[40:48])[0]
    head = struct.pack("!BBbbII4s", version << 3 | 4, 1, request[2] & 127, -20, 0, 66, b"SIMU")
    server.sendto(head + struct.pack("!QQQQ", received, sent, received, ntp_time()), client)
