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

    def start(script, host="127.0.0.1"):
        servers.append(Hostile(script, host))
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


# --- mail servers ---

GREETING = b"220 mail.example ESMTP\r\n"


def smtp(**answers):
    """A conversation: what is answered to each verb, 250 if nothing is said; a function does as it likes with the line. `dot` is the end of the mail."""

    def give(line, answer):
        answer(line) if callable(answer) else line.send(answer)

    def script(line):
        give(line, answers.get("greeting", GREETING))
        data = b""
        while True:
            while b"\r\n" not in data:
                data += line.read()
            command, data = data.split(b"\r\n", 1)
            verb = command.split(b" ")[0].decode("latin-1").lower()
            give(line, answers.get(verb, b"354 go on\r\n" if verb == "data" else b"221 bye\r\n" if verb == "quit" else b"250 fine\r\n"))
            if verb == "data":
                while b"\r\n.\r\n" not in data:
                    data += line.read()
                data = data.split(b"\r\n.\r\n", 1)[1]
                give(line, answers.get("dot", b"250 taken\r\n"))

    return script


def send(call, server, host="127.0.0.1", **spec):
    spec = {"server": f"smtp://{host}:{server.port}", "tls": "never", "from": "agent@example.com", "recipients": ["support@example.com"], "timeout_seconds": SECONDS, **spec}
    return ends(call, "email", spec, {"recipient": "support@example.com", "subject": "s", "body": "b"}, {"mail": SECRET})


LOGIN = {"username": "agent", "password": "{secret:mail}"}
AUTH = b"250-mail.example\r\n250-AUTH PLAIN LOGIN\r\n250 PIPELINING\r\n"
STARTTLS = b"250-mail.example\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n"

MAIL = {
    "no greeting": smtp(greeting=lambda line: line.wait()),
    "a greeting without end": smtp(greeting=lambda line: line.flood(b"220-" + b"x" * 1000 + b"\r\n")),
    "a greeting in one line without end": smtp(greeting=lambda line: line.flood(b"220-" + b"x" * 1000)),
    "a drip of a greeting": smtp(greeting=lambda line: line.drip(b"220 " + b"x" * 100000)),
    "a greeting that says no": smtp(greeting=b"554 go away\r\n"),
    "extensions without end": smtp(ehlo=lambda line: line.flood(b"250-X" + b"y" * 500 + b"\r\n")),
    "no SMTP": smtp(greeting=b"HTTP/1.1 200 OK\r\n\r\n"),
    "an end after the greeting": smtp(ehlo=lambda line: line.conn.close()),
    "an end after MAIL": smtp(mail=lambda line: (line.send(b"250 fine\r\n"), line.conn.close())),
    "an end at the mail": smtp(data=lambda line: (line.send(b"354 go on\r\n"), line.conn.close())),
    "silence after the mail": smtp(dot=lambda line: line.wait()),
    "a flood after the mail": smtp(dot=lambda line: line.flood(b"250-" + b"z" * 1000 + b"\r\n")),
    "a recipient that is refused": smtp(rcpt=b"550 no\r\n"),
    "numbers that are none": smtp(mail=b"2x0 what\r\n" * 3),
    "an answer to DATA that is too early": smtp(data=b"250 taken\r\n"),
}


@pytest.mark.parametrize("what", MAIL)
def test_mail_servers_that_fail(call, hostile, what):
    answer = send(call, hostile(MAIL[what]))
    assert answer.failed and not answer.error and len(answer.result["error"]) < 200, answer.raw


@pytest.mark.parametrize("last", [lambda line: line.wait(), lambda line: line.flood(b"221-x\r\n"), lambda line: line.conn.close(), b"500 no\r\n"], ids=["silence", "flood", "end", "no"])
def test_a_mail_that_was_taken_was_sent(call, hostile, last):
    """However the server behaves at the end: who hears that it failed sends it once more."""
    server = hostile(smtp(quit=last))
    answer = send(call, server)
    assert not answer.failed and answer.result["status"] == "sent", answer.raw


def test_a_mail_that_may_have_been_taken_is_said_to_be_so(call, hostile):
    answer = send(call, hostile(smtp(dot=lambda line: line.conn.close())))
    assert answer.failed and "may have been sent" in answer.result["error"], answer.raw


# Whoever sits in between takes STARTTLS away, or answers in its place.
STRIPPED = {
    "not offered": smtp(ehlo=AUTH),
    "EHLO refused": smtp(ehlo=b"502 what\r\n"),
    "refused": smtp(ehlo=STARTTLS, starttls=b"454 not now\r\n"),
    "answers behind it": smtp(ehlo=STARTTLS, starttls=b"220 go\r\n250-mail.example\r\n250 AUTH PLAIN\r\n235 in\r\n250 fine\r\n"),
    "no TLS behind it": smtp(ehlo=STARTTLS, starttls=lambda line: (line.send(b"220 go\r\n"), line.read(), line.send(b"250 no TLS here\r\n"))),
    "silence behind it": smtp(ehlo=STARTTLS, starttls=lambda line: (line.send(b"220 go\r\n"), line.wait())),
}


@pytest.mark.parametrize("what", STRIPPED)
@pytest.mark.parametrize("host, tls", [("127.0.0.1", "required"), ("127.0.0.2", "never"), ("127.0.0.2", "try")])
def test_without_tls_nobody_gets_the_password(call, hostile, what, host, tls):
    """Where the policy wants TLS, and wherever the server is not this very host (127.0.0.2 stands for one)."""
    server = hostile(STRIPPED[what], host)
    answer = send(call, server, host, tls=tls, **LOGIN)
    assert answer.failed and not answer.error and server.connections == 1, answer.raw
    assert b"AUTH" not in server.got and b"MAIL" not in server.got and b"c2VzYW1l" not in server.got, server.got


@pytest.mark.parametrize("verb", ["auth", "mail", "rcpt", "dot"])
def test_a_server_that_says_the_password(call, hostile, verb):
    said = b"535-bad password sesame-4711-open for agent\r\n535 sesame-4711-open\r\n"
    server = hostile(smtp(ehlo=AUTH, **({"auth": b"235 in\r\n"} | {verb: said})))
    answer = send(call, server, **LOGIN)
    assert b"AUTH PLAIN" in server.got or b"AUTH LOGIN" in server.got, "it has it"
    assert answer.failed, answer.raw  # and ends() has looked for it


# --- database servers ---


def packet(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


LET_IN = packet(b"R", struct.pack("!I", 0)) + packet(b"S", b"client_encoding\0UTF8\0") + packet(b"Z", b"I")
NOTICE = packet(b"N", b"SNOTICE\0C00000\0M" + b"x" * 500 + b"\0\0")
ERROR = packet(b"E", b"SERROR\0C42000\0Mno: sesame\0\0")


def startup(line):
    """Reads the client's first packet; the question for TLS is answered with no."""
    while True:
        data = line.read()
        if data[4:8] != struct.pack("!HH", 1234, 5679):
            return
        line.send(b"N")


def database(*steps):
    """After the first packet: sends each, or lets it do as it likes with the line, and reads what comes after each."""

    def script(line):
        startup(line)
        for step in steps:
            step(line) if callable(step) else line.send(step)
            line.read()
        line.wait()

    return script


DATABASE = {
    "silence": database(lambda line: line.wait()),
    "notices without end": database(lambda line: line.flood(NOTICE * 100)),
    "a flood before a word": lambda line: line.flood(b"N" * 10000),
    "settings without end": database(lambda line: (line.send(packet(b"R", bytes(4))), line.flood(b"".join(packet(b"S", b"p%d\0%s\0" % (i, b"v" * 100)) for i in range(200))))),
    "a packet without end": database(b"R" + struct.pack("!I", 0x7FFFFFFF) + b"x" * 5000),
    "a packet of less than nothing": database(b"R" + struct.pack("!I", 1)),
    "garbage": database(b"\xff" * 5000),
    "a Kerberos ticket": database(packet(b"R", struct.pack("!I", 7))),
    "an unknown way to log in": database(packet(b"R", struct.pack("!I", 99))),
    "SASL without end": database(packet(b"R", struct.pack("!I", 10) + b"X" * 1500 + b"\0\0")),
    "SASL that ends at once": database(packet(b"R", struct.pack("!I", 12) + b"v=x")),
    "another encoding": database(packet(b"R", bytes(4)) + packet(b"S", b"client_encoding\0LATIN1\0") + packet(b"Z", b"I")),
    "an error": database(ERROR),
    "an old error": database(b"Eno: sesame\n\0"),
    "silence after the login": database(LET_IN, lambda line: line.wait()),
    "notices after the login": database(LET_IN, lambda line: line.flood(NOTICE * 100)),
    "news after the login": database(LET_IN, lambda line: line.flood(packet(b"A", struct.pack("!I", 1) + b"a\0b\0") * 100)),
    "COPY FROM": database(LET_IN, packet(b"G", bytes(3))),
    "COPY TO": database(LET_IN, packet(b"H", bytes(3))),
    "COPY TO without end": database(LET_IN, lambda line: (line.send(packet(b"H", bytes(3))), line.flood(packet(b"d", b"x" * 100) * 100))),
    "COPY BOTH": database(LET_IN, packet(b"W", bytes(3))),
    "answers without end": database(LET_IN, lambda line: line.flood(packet(b"C", b"BEGIN\0") * 1000)),
    "a row of two gigabytes": database(LET_IN, lambda line: (line.send(packet(b"T", struct.pack("!H", 1) + b"a\0" + struct.pack("!IHIhih", 0, 0, 25, -1, -1, 0)) + b"D" + struct.pack("!I", 0x7FFFFFF0)), line.flood(b"x" * 65536))),
    "a row that is none": database(LET_IN, packet(b"D", struct.pack("!Hi", 500, -7))),
    "columns that are not there": database(LET_IN, packet(b"T", struct.pack("!H", 65535))),
    "the end": database(LET_IN, lambda line: line.conn.close()),
}


def ask_database(call, server, more="", host="127.0.0.1", **spec):
    dsn = f"host={host} port={server.port} user=agent dbname=shop password={{secret:db}} {more}"
    return ends(call, "sql", {"postgresql": dsn, "tables": shop.TABLES, "timeout_seconds": SECONDS, **spec}, {"query": "SELECT 1"}, {"db": SECRET})


@pytest.mark.parametrize("what", DATABASE)
def test_databases_that_fail(call, hostile, what):
    answer = ask_database(call, hostile(DATABASE[what]))
    assert answer.failed or answer.error["code"] == "upstream_failed", answer.raw
    assert "agent" not in json.dumps(answer.raw) and len(json.dumps(answer.raw)) < 1000, answer.raw


# Asks for the password in clear text, or as MD5, which is nearly the same.
THIEVES = {"clear": database(packet(b"R", struct.pack("!I", 3))), "md5": database(packet(b"R", struct.pack("!I", 5) + b"salt"))}


@pytest.mark.parametrize("what", THIEVES)
def test_without_tls_no_password_leaves_the_host(call, hostile, what):
    """127.0.0.2 stands for another host. libpq would give the password to whoever asks: where the policy says so, and on this very host, it does."""
    for host, more, leaves in [("127.0.0.2", "", False), ("127.0.0.1", "hostaddr=127.0.0.2", False), ("127.0.0.2", "sslmode=require", False), ("127.0.0.2", "sslmode=verify-full", False), ("127.0.0.2", "sslmode=prefer", True), ("127.0.0.1", "", True), ("127.0.0.1", "channel_binding=require", False)]:
        server = hostile(THIEVES[what], "127.0.0.2" if "127.0.0.2" in host + more else host)
        answer = ask_database(call, server, more, host)
        assert answer.error["code"] == "upstream_failed", (host, more, answer.raw)
        wanted = SECRET.encode() if what == "clear" else b"md5"
        assert (wanted in server.got) == leaves, (host, more, server.got)
