"""Servers that lie, flood, stall and steal. Whatever they do, a call ends in its time with an answer that says so, and a password goes nowhere it should not."""

import json
import struct
import time

import pytest
import shop
from hostile import Hostile

pytestmark = pytest.mark.rootonly

SECRET = "sesame-4711-open"
SECONDS = 1  # what each tool may take


@pytest.fixture
def hostile():
    servers = []

    def start(script):
        servers.append(Hostile(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def ends(call, *args):
    """It ends, by its own clock if nothing else: the driver's alarm is not what ended it."""
    began = time.monotonic()
    answer = call(*args)
    assert answer.raw != {"signal": 14}, "it did not look at its clock"
    assert time.monotonic() - began < 60, "seconds; generous for a busy machine"
    assert SECRET not in json.dumps(answer.raw), answer.raw
    return answer


# --- upstreams of the HTTP tool ---

OK = b"HTTP/1.1 200 OK\r\n"


def reply(*parts):
    def script(line):
        line.until(b"\r\n\r\n")
        for part in parts:
            line.send(part)

    return script


def endless(data, before=b""):
    def script(line):
        line.until(b"\r\n\r\n")
        line.send(before)
        line.flood(data)

    return script


def dripping(data):
    def script(line):
        line.until(b"\r\n\r\n")
        line.drip(data)

    return script


# What the upstream does; words of the error, or None if there is a result.
HTTP = {
    "drip of a body": (dripping(OK + b"Content-Length: 100000\r\n\r\n" + b"x" * 100000), "in time"),
    "drip of headers": (dripping(OK + b"X: " + b"y" * 100000), "in time"),
    "drip of a status line": (dripping(b"HTTP/1.1 200 " + b"O" * 100000), "in time"),
    "silence": (lambda line: line.wait(), "in time"),
    "silence after headers": (lambda line: (line.until(b"\r\n\r\n"), line.send(OK + b"Content-Length: 5\r\n\r\n"), line.wait()), "in time"),
    "headers without end": (endless(b"X-Y: " + b"z" * 1000 + b"\r\n", OK), "headers"),
    "one header without end": (endless(b"z" * 1000, OK + b"X-Y: "), ""),
    "a status line without end": (endless(b"z" * 1000, b"HTTP/1.1 200 "), ""),
    "100 Continue without end": (endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100), "headers"),
    "103 Early Hints without end": (endless(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" * 100), "headers"),
    "102 with a body": (reply(b"HTTP/1.1 102 Processing\r\n\r\nbody", OK + b"\r\n"), ""),
    "trailers without end": (endless(b"X-T: y\r\n" * 100, OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"), ""),
    "chunk size that is none": (reply(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"), ""),
    "chunk size that is negative": (reply(OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n"), ""),
    "chunk size beyond 64 bits": (reply(OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\nabc\r\n0\r\n\r\n"), ""),
    "chunk extensions without end": (endless(b"a" * 1000, OK + b"Transfer-Encoding: chunked\r\n\r\n5;"), ""),
    "chunk that ends early": (reply(OK + b"Transfer-Encoding: chunked\r\n\r\n50\r\nabc"), ""),
    "length that is a lie, too long": (reply(OK + b"Content-Length: 500\r\n\r\nabc"), ""),
    "length that is negative": (reply(OK + b"Content-Length: -1\r\n\r\nabc"), ""),
    "two lengths": (reply(OK + b"Content-Length: 3\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabc"), ""),
    "HTTP/0.9": (reply(b"just text"), ""),
    "HTTP/9.9": (reply(b"HTTP/9.9 200 OK\r\n\r\nx"), ""),
    "another protocol": (reply(b"SSH-2.0-OpenSSH_9.2\r\n"), ""),
    "status 99999": (reply(b"HTTP/1.1 99999 X\r\n\r\nx"), ""),
    "nothing": (reply(), ""),
    "upgrade that nobody asked for": (reply(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nx"), ""),
    "NUL in a header": (reply(OK + b"X: a\0b\r\n\r\nx"), ""),
}


@pytest.mark.parametrize("what", HTTP)
def test_upstreams_that_fail(call, hostile, what):
    script, words = HTTP[what]
    server = hostile(script)
    spec = {"url": f"http://127.0.0.1:{server.port}/", "private": ["127.0.0.1"], "timeout_seconds": SECONDS, "headers": {"X-Key": "{secret:key}"}}
    answer = ends(call, "http", spec, {}, {"key": SECRET})
    assert answer.failed and not answer.denials and not answer.error, answer.raw
    assert words in json.dumps(answer.result) and len(json.dumps(answer.result)) < 1000, answer.raw


def test_what_an_answer_cannot_change(call, hostile):
    """Lengths that overflow, bytes behind the end, encodings that nobody asked for: taken as they are, once."""
    rows = [
        (OK + b"Content-Length: 99999999999999999999999\r\n\r\nabc", "abc"),
        (OK + b"Content-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "abc"),
        (OK + b"Content-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        (OK + b"Content-Type: text/plain\r\nContent-Encoding: br, gzip, deflate, gzip\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        (OK + b"Set-Cookie: a=b\r\nRefresh: 0; url=http://169.254.169.254/\r\nAlt-Svc: h2=\":9\"\r\nStrict-Transport-Security: max-age=99\r\nContent-Length: 3\r\n\r\nabc", "abc"),
    ]
    for data, body in rows:
        server = hostile(reply(data))
        answer = ends(call, "http", {"url": f"http://127.0.0.1:{server.port}/", "private": ["127.0.0.1"], "timeout_seconds": SECONDS}, {})
        assert not answer.failed and answer.result["body"] == body and server.connections == 1, (data, answer.raw)
        assert b"ncoding" not in server.got, server.got


# {port}: the upstream itself. Nothing but /start and /end is asked of it, and nobody else is asked anything.
LOCATIONS = [
    (300, "/end", False),
    (304, "/end", False),
    (305, "http://127.0.0.1:9/", False),
    (306, "/end", False),
    (309, "/end", False),
    (302, "", False),
    (302, "/end", True),
    (308, "http://127.0.0.1:{port}/end", True),
    (302, "HTTP://127.0.0.1:{port}/end", True),
    (302, "http:/end", None),
    (302, "//127.0.0.1:{port}/end", True),
    (302, "\\\\evil.example/end", None),
    (302, "/\\evil.example/end", None),
    (302, "http://127.0.0.1:{port}\\@evil.example/end", False),
    (302, "http://evil.example\\@127.0.0.1:{port}/end", False),
    (302, "http://127.0.0.1:{port}#@evil.example/end", None),
    (302, "http://127。0。0。1:{port}/end", False),
    (302, "http://①②⑦.⓪.⓪.①:{port}/end", False),
    (302, "http://xn--80ak6aa92e.example/end", False),
    (302, "http://аррӏе.example/end", False),
    (302, "http://127.0.0.1:{port}\x01/end", False),
    (302, "http://127.0.0.1\x00.evil.example:{port}/end", False),
    (302, "http://127.0.0.1:{port}/en\x7f\x01d", None),
    (302, "http://127.0.0.1%00.evil.example/end", False),
    (302, "http://127.0.0.1%2eevil.example/end", False),
    (302, "http://[::ffff:127.0.0.1%25lo]:{port}/end", False),
    (302, "http://127.0.0.1:{port}:80/end", False),
    (302, "http://127.0.0.1:99999/end", False),
    (302, "http://127.0.0.1:0/end", False),
    (302, "http:// 127.0.0.1:{port}/end", False),
    (302, "x" * 60000, None),
]


@pytest.mark.parametrize("status, location, followed", LOCATIONS, ids=range(len(LOCATIONS)))
def test_redirects_that_nobody_should_follow(call, hostile, status, location, followed):
    asked = []

    def script(line):
        path = line.until(b"\r\n\r\n").split(b" ")[1]
        asked.append(path)
        to = location.replace("{port}", str(server.port)).encode()
        line.send(OK + b"Content-Length: 4\r\nConnection: close\r\n\r\ndone" if path != b"/start" else b"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\nSet-Cookie: a=b; Path=/\r\nConnection: close\r\n\r\n" % (status, to))

    server = hostile(script)
    spec = {"url": f"http://127.0.0.1:{server.port}/start", "private": ["127.0.0.1"], "timeout_seconds": 5, "headers": {"X-Key": "{secret:key}"}}
    answer = ends(call, "http", spec, {}, {"key": SECRET})
    assert answer.error is None and b"ookie" not in server.got, answer.raw
    if followed is not None:
        assert (answer.result is not None and answer.result.get("body") == "done") == followed, answer.raw
        assert asked == ([b"/start", b"/end"] if followed else [b"/start"]), (asked, answer.raw)
    assert all(path == b"/start" or path.startswith((b"/end", b"/x", b"/en", b"/%5C", b"/\\")) for path in asked), asked
