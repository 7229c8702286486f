"""Waiting for SSH, against real sockets on loopback."""

import socket
import threading
import time

from firstlight.maas.wait import wait_for_ssh


def listener(answer=None, address="127.0.0.1"):
    server = socket.create_server((address, 0))
    server.settimeout(10)

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            if answer is not None:
                connection.sendall(answer)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return server, server.getsockname()


def test_many_hosts_each_with_its_own_end():
    good, good_at = listener(b"SSH-2.0-OpenSSH_9.2\r\n")
    web, web_at = listener(b"HTTP/1.0 400 Bad Request\r\n")
    mute, mute_at = listener()
    closed = socket.create_server(("127.0.0.1", 0))
    closed_at = closed.getsockname()
    closed.close()
    began = time.monotonic()
    found = wait_for_ssh({"a": good_at, "b": web_at, "c": mute_at, "d": closed_at}, minutes=0.01, poll_seconds=0.1)
    assert time.monotonic() - began < 5
    for server in (good, web, mute):
        server.close()
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"] is None
    assert "something else answers there: HTTP/1.0 400" in found["b"].evidence
    assert "closed without an SSH greeting" in found["c"].evidence
    assert "refused" in found["d"].evidence.lower()
    assert {found[n].symptom for n in "bcd"} == {"install.no_ssh"}


def test_a_host_that_comes_late():
    spare = socket.create_server(("127.0.0.1", 0))
    address = spare.getsockname()
    spare.close()
    servers = []

    def later():
        time.sleep(0.5)
        server = socket.create_server(address)
        servers.append(server)
        connection, _ = server.accept()
        connection.sendall(b"SSH-2.0-late\n")
        connection.close()

    thread = threading.Thread(target=later)
    thread.start()
    assert wait_for_ssh({"late": address}, minutes=0.2, poll_seconds=0.1) == {"late": None}
    thread.join()
    servers[0].close()


def test_nobody_to_wait_for():
    assert wait_for_ssh({}, minutes=1) == {}
