"""What a reviewer tried against the front and got through with, once: none of it may come back."""

import contextlib
import ctypes
import json
import os
import socket
import time

import api
import pytest
from conftest import wait_for

MIB = 1 << 20


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def head(method, path, length, *more):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_all(sock):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := sock.recv(65536):
            data += more
    return data


def test_a_body_that_nobody_asked_for_is_not_read(start_service):
    """Without a key, on a route that is open to all: refused at the head, whatever is to come."""
    service = start_service({"keys": api.keys(one={})})
    chunked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n400000\r\n"
    for request, status in ((head("GET", "/healthz", 4 * MIB), b"422"), (chunked, b"413")):
        with service.socket() as sock:
            sock.sendall(request)
            reply = read_all(sock)
        assert reply.startswith(b"HTTP/1.1 " + status) and b"Connection: close" in reply


def test_bodies_together_have_a_bound(start_service):
    """Each is within its limit; all of them are not kept."""
    service = start_service({"http": {"body_bytes": 32 * MIB}})
    pid = service.pids()["front"]
    before = rss(pid)
    socks = [service.socket() for _ in range(40)]
    for sock in socks:
        sock.settimeout(5)
        with contextlib.suppress(OSError):  # one that was refused is closed while we send
            sock.sendall(head("POST", "/execute", 31 * MIB, "Content-Type: application/json"))
            sock.sendall(b" " * (30 * MIB))
    wait_for("a refusal", lambda: any(_readable(sock) for sock in socks))
    assert rss(pid) - before < 700 * MIB  # of 1200, and buffers grow by doubling
    refused = [read_all(sock) for sock in socks if _readable(sock)]
    assert refused and all(b" 503 " in reply.split(b"\r\n")[0] and b"Retry-After" in reply for reply in refused)
    for sock in socks:
        sock.close()
    assert service.execute("print(1)")["output"] == "1\n"


def _readable(sock):
    sock.setblocking(False)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    except OSError:
        return False
    finally:
        sock.settimeout(5)


def test_a_stream_survives_a_moment_without_a_reader(start_service):
    """A full socket starts a clock; reading on must stop it."""
    service = start_service({"http": {"write_seconds": 3}})
    code = "import sys, time\nsys.stdout.write('x' * 900000 + '\\n')\nsys.stdout.flush()\nfor i in range(12):\n    time.sleep(0.5)\n    print(i, flush=True)"
    body = json.dumps({"code": code}).encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.connect((service.host, service.port))
        sock.settimeout(60)
        sock.sendall(head("POST", "/v1/execute", len(body), "Content-Type: application/json", "Accept: application/x-ndjson", "Connection: close") + body)
        time.sleep(1)
        data = read_all(sock)
    assert b'"type":"result"' in data and b'"status":"success"' in data, data[-300:]


def test_a_reader_of_single_bytes_is_dropped(start_service):
    """Taking one byte now and then is not reading."""
    service = start_service({"http": {"write_seconds": 1}})
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((service.host, service.port))
        sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        before = api.metrics(service)["glovebox_connections", ""]
        assert before >= 1
        end = time.monotonic() + 30
        while api.metrics(service)["glovebox_connections", ""] > before - 1:
            assert time.monotonic() < end, "it is still there"
            sock.recv(64)
            time.sleep(0.2)


def test_few_descriptors_leave_room_for_boxes(make_service):
    """A low limit of open files costs connections, never boxes."""
    service = make_service()
    script = service.dir / "few"
    script.write_text(f'#!/bin/sh\nulimit -n 400\nexec {service.program} "$@"\n')
    script.chmod(0o755)
    service.program = str(script)
    service.start()
    idle = []
    for _ in range(500):
        with contextlib.suppress(OSError):
            idle.append(service.socket())
    assert service.execute("print(1)")["output"] == "1\n"
    assert "fewer connections than configured" in service.log()
    for sock in idle:
        sock.close()


def test_marks_longer_than_what_they_replace(start_service):
    """A file that grows by being sanitised still comes back."""
    service = start_service({"screen": "off"})
    result = service.execute("open('f', 'w').write('key=a\\n' * 20000)", outputs=["f"])
    assert result["files"][0]["text"] == "[REDACTED_SECRET]\n" * 20000 and result["redactions"] == 20000


def take_descriptor(pid, number):
    """A copy of another process's descriptor, as a captured process could pass it on."""
    pidfd = os.pidfd_open(pid)
    try:
        return ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, number, 0)
    finally:
        os.close(pidfd)


@pytest.mark.rootonly
def test_a_listening_socket_that_was_shut_down_listens_again(start_service):
    """The last deed of a captured front must not be that nobody listens for ever."""
    service = start_service()
    old = service.pids()
    copies = [fd for number in range(3, 64) if (fd := take_descriptor(old["front"], number)) >= 0]
    doors = []
    for fd in copies:
        try:
            sock = socket.socket(fileno=fd)
        except OSError:  # no socket
            os.close(fd)
            continue
        (doors.append if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) else socket.socket.close)(sock)
    assert len(doors) == 2
    for sock in doors:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()
    with contextlib.suppress(ProcessLookupError):  # it may have noticed already
        os.kill(old["front"], 9)
    service.wait_children(but=old.values())
    service.wait_healthy()
    assert service.execute("print(1)")["output"] == "1\n"
    assert service.request("GET", "/healthz", unix=True).status == 200
