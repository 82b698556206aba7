"""Who may call: keys, users of this host, Host and Origin."""

import json
import os
import signal
import socket
import subprocess
import textwrap
import time

import pytest

import api
import conftest
from api import bearer, call, key_of, problem

AS_ROOT = pytest.mark.rootonly  # becomes another user
NOBODY = 65534
GUARDED = ["/v1/executions", "/v1/capabilities", "/metrics"]
OPEN = ["/healthz", "/health", "/readyz", "/openapi.json"]


@pytest.fixture(scope="module")
def keyed(service):
    with api.running(service, {"keys": api.keys(alice={}, bob={})}) as s:
        yield s


# --- keys ---


@pytest.mark.parametrize("headers", [bearer("alice"), {"X-API-Key": key_of("alice")}, {"authorization": f"bearer {key_of('alice')}"}, {"Authorization": f"BEARER {key_of('alice')}"}])
def test_right_key(keyed, headers):
    assert keyed.request("GET", "/v1/capabilities", headers=headers).json()["principal"] == "alice"
    assert keyed.execute("print(1)", headers=headers)["output"] == "1\n"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": key_of("alice")},
        {"Authorization": f"Basic {key_of('alice')}"},
        {"Authorization": f"Bearer{key_of('alice')}"},
        {"Authorization": f"Bearer {key_of('alice')} x"},
        {"Authorization": f"Bearer {key_of('alice')}x"},
        {"Authorization": f"Bearer {key_of('alice')[:-1]}"},
        {"Authorization": f"Bearer  {key_of('alice')}"},
        {"Authorization": f"Bearer {key_of('alice').upper()}"},
        {"Authorization": f"Bearer {'x' * 513}"},
        {"Authorization": f"Bearer {'x' * 7000}"},
        {"X-API-Key": ""},
        {"X-API-Key": "wrong"},
        {"X-API-Key": key_of("carol")},
        {"X-API-Key": f"Bearer {key_of('alice')}"},
        {"X-API-Key": key_of("alice"), "Authorization": f"Bearer {key_of('alice')}"},
        {"X-API-Key": key_of("alice"), "Authorization": f"Bearer {key_of('bob')}"},
        {"Cookie": f"key={key_of('alice')}"},
    ],
)
def test_wrong_key(keyed, headers):
    for method, path, body in [("POST", "/execute", call("print(1)")), ("GET", "/v1/capabilities", None), ("GET", "/nowhere", None)]:
        reply = keyed.request(method, path, body, headers)
        detail = problem(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == 'Bearer realm="glovebox"'
        assert "the-key" not in detail and "alice" not in detail


def test_key_in_the_url_is_no_key(keyed):
    problem(keyed.request("GET", f"/v1/capabilities?api_key={key_of('alice')}"), 401, "unauthorized")


@pytest.mark.parametrize("header", ["Authorization: Bearer {0}\r\nAuthorization: Bearer {0}", "X-API-Key: {0}\r\nx-api-key: {0}", "X-API-Key: {0}\0", "X-API-Key: {0}\x01"])
def test_ambiguous_key(keyed, header):
    """Two of a kind, or bytes that no header has: not HTTP as we take it."""
    with api.wire(keyed) as wire:
        wire.send(b"GET /v1/capabilities HTTP/1.1\r\nHost: localhost\r\n" + header.format(key_of("alice")).encode() + b"\r\n\r\n")
        problem(wire.reply(), 400, "malformed_http")
        assert wire.ended()


def test_what_needs_no_key(keyed):
    for path in OPEN:
        assert keyed.request("GET", path).status == 200, path
    for path in GUARDED:
        problem(keyed.request("GET", path), 401, "unauthorized")


def test_unix_socket_needs_a_key_too(keyed):
    problem(keyed.request("GET", "/v1/capabilities", unix=True), 401, "unauthorized")
    assert keyed.request("GET", "/v1/capabilities", headers=bearer("bob"), unix=True).json()["principal"] == "bob"


def test_key_is_of_a_request_not_of_a_connection(keyed):
    with api.wire(keyed) as wire:
        for headers, status in [(bearer("alice"), 200), ({}, 401), (bearer("bob"), 200), ({"X-API-Key": "no"}, 401)]:
            wire.send(api.request_bytes("GET", "/v1/capabilities", headers=headers))
            assert wire.reply().status == status


def test_executions_of_others(keyed):
    """Not to be seen, not to be cancelled, and not to be told from those that do not exist."""
    mine = keyed.execute("print(1)", headers=bearer("alice"))["id"]
    assert keyed.request("GET", f"/v1/executions/{mine}", headers=bearer("alice")).status == 200
    theirs = keyed.request("GET", f"/v1/executions/{mine}", headers=bearer("bob"))
    nobodys = keyed.request("GET", f"/v1/executions/{'0' * 26}", headers=bearer("bob"))
    assert problem(theirs, 404, "not_found") == problem(nobodys, 404, "not_found")
    assert mine in [e["id"] for e in keyed.request("GET", "/v1/executions?limit=100", headers=bearer("alice")).json()["executions"]]
    assert mine not in [e["id"] for e in keyed.request("GET", "/v1/executions?limit=100", headers=bearer("bob")).json()["executions"]]
    with api.Stream(keyed, api.FOREVER, headers=bearer("alice")) as stream:
        id_ = stream.until("start")["id"]
        assert id_ in [e["id"] for e in keyed.request("GET", "/v1/executions", headers=bearer("alice")).json()["running"]]
        assert id_ not in [e["id"] for e in keyed.request("GET", "/v1/executions", headers=bearer("bob")).json()["running"]]
        problem(keyed.request("POST", f"/v1/executions/{id_}/cancel", headers=bearer("bob")), 404, "not_found")
        assert keyed.request("POST", f"/v1/executions/{id_}/cancel", headers=bearer("alice")).status == 202
        assert stream.until("result")["result"]["status"] == "cancelled"


def test_key_is_nowhere_to_be_read(keyed):
    keyed.execute("print(1)", headers=bearer("alice"))
    keyed.request("GET", "/metrics", headers={"X-API-Key": "guess-of-a-key"})
    everything = keyed.log() + keyed.audit("export").stdout + keyed.request("GET", "/metrics", headers=bearer("bob")).body.decode()
    assert key_of("alice") not in everything and "guess-of-a-key" not in everything
    assert '"alice"' in keyed.log()


def test_body_is_not_read_without_a_key(keyed):
    """Refused at the head, and the body that was announced is not waited for."""
    with api.wire(keyed) as wire:
        wire.send(b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
        reply = wire.reply()
        problem(reply, 401, "unauthorized")
        assert reply.headers["connection"] == "close" and wire.ended()


# --- without keys: users of this host ---

CLIENT = """
import json, socket, struct, sys
family, address, how, count = json.loads(sys.argv[1])
body = json.dumps({"tool_name": "execute_code", "code": "print('ran')"}).encode()
request = b"POST /execute HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
for i in range(count):
    s = socket.socket(socket.AF_UNIX if family == "unix" else socket.AF_INET)
    s.settimeout(60)
    s.connect(address if family == "unix" else tuple(address))
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.sendall(request)
    if how == "half":
        s.shutdown(socket.SHUT_WR)
    if how == "ask":
        reply = b""
        while b"\\r\\n\\r\\n" not in reply or not reply.rstrip().endswith(b"}"):
            reply += s.recv(65536) or sys.exit("closed: " + repr(reply))
        print(reply.split(b" ")[1].decode(), reply.split(b"\\r\\n\\r\\n")[1].decode())
    s.close()
"""


def as_user(uid, service, family="tcp", how="ask", count=1):
    address = service.unix_path if family == "unix" else [service.host, service.port]
    argument = json.dumps([family, address, how, count])
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", CLIENT, argument], user=uid, group=uid, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_to_all(path):
    """The front's own rule is to be seen, not that of the file system."""
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(path, 0o777)


@AS_ROOT
@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_other_users(service, family):
    open_to_all(service.unix_path)
    before = api.executed(api.metrics(service))
    assert as_user(0, service, family).startswith("200 ")
    reply = as_user(NOBODY, service, family)
    assert reply.startswith("403 ") and "only the user who runs the service" in reply
    after = api.executed(api.metrics(service))
    assert after.total() == before.total() + 1


@AS_ROOT
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_client_that_is_gone_is_not_root(start_service, how):
    """The kernel says that a socket without a process belongs to user 0. Such a client must not be served: nothing is recorded, nothing run."""
    service = start_service()
    front = service.pids()["front"]
    as_user(NOBODY, service, how=how, count=100)  # the front may be quicker than the client
    conftest.stop(front)  # now it is not
    try:
        as_user(NOBODY, service, how=how, count=100)
        time.sleep(1)  # the kernel forgets the user only when it has acknowledged the end of the connection
    finally:
        os.kill(front, signal.SIGCONT)
    values = api.metrics(service)
    assert values["glovebox_http_replies_total", 'class="4xx"'] > 0  # they were heard
    assert api.executed(values).total() == 0 and values["glovebox_sandbox_wait_seconds_count", ""] == 0
    assert service.request("GET", "/v1/executions").json() == {"running": [], "executions": [], "next": None}
    assert '"intent"' not in service.audit("export").stdout


@AS_ROOT
def test_other_users_see_what_is_open(service):
    code = textwrap.dedent(
        f"""
        import http.client
        for path in {OPEN + GUARDED}:
            c = http.client.HTTPConnection({service.host!r}, {service.port}, timeout=60)
            c.request("GET", path)
            print(c.getresponse().status)
        """
    )
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", code], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["200"] * len(OPEN) + ["403"] * len(GUARDED), done.stderr


# --- Host ---


@pytest.fixture(scope="module")
def named(service):
    config = {"hosts": ["glovebox.example", "Box.Example"], "origins": ["https://app.example"], "listen": ["127.0.0.1:0", "[::1]:0"]}
    with api.running(service, config) as s:
        yield s


def status_for(service, method="GET", path="/healthz", **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.request(method, path, headers=headers)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "localhost:1", "127.0.0.1", "127.0.0.1:{port}", "127.0.0.1:80", "glovebox.example", "GLOVEBOX.example:443", "box.example"]
)
def test_own_names(named, host):
    assert status_for(named, Host=host.format(port=named.port)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "localhost.",
        "evil-localhost",
        "xlocalhost",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "glovebox.example.evil.example",
        "sub.glovebox.example",
        "box",
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/capabilities", "/nowhere"])
def test_names_of_others(named, host, path):
    """What a browser would send after DNS was made to point at us."""
    reply = status_for(named, path=path, Host=host)
    problem(reply, 403, "forbidden", "Host")


@pytest.mark.parametrize("host", ["", "localhost:x", "localhost:99999999", "user@localhost", "local host", "localhost/", "[::1", "::1"])
def test_no_names(named, host):
    """Not even HTTP, or nobody's name."""
    with api.wire(named) as wire:
        wire.send(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert wire.reply().status in (400, 403)


def test_ipv6(named):
    (line,) = named.log_lines("serving")
    port = int(line["addresses"].split("[::1]:")[1].split()[0])
    with api.Wire(socket.create_connection(("::1", port), timeout=60)) as wire:
        for host, status in [("[::1]", 200), ("[::1]:8640", 200), ("localhost", 200), ("127.0.0.1", 403), ("[::2]", 403)]:
            wire.send(api.request_bytes("GET", "/healthz", host=host))
            assert wire.reply().status == status, host
        wire.send(api.request_bytes("GET", "/v1/capabilities"))
        assert wire.reply().status == 200  # the caller's user is known over IPv6 too


def test_unix_socket_has_any_name(service):
    assert service.request("GET", "/healthz", headers={"Host": "whatever"}, unix=True).status == 200


# --- Origin ---


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://localhost",
        "http://127.0.0.1:8640",
        "http://app.example",
        "https://app.example:444",
        "https://app.example.evil.example",
        "https://app.example/",
        "https://xapp.example",
        "file://",
    ],
)
def test_pages_of_others(named, origin):
    for method, path in [("POST", "/execute"), ("GET", "/v1/executions"), ("GET", "/healthz"), ("OPTIONS", "/execute")]:
        reply = named.request(method, path, call("print(1)") if method == "POST" else None, {"Origin": origin})
        problem(reply, 403, "forbidden", "Origin")
        assert "access-control-allow-origin" not in reply.headers


def test_pages_that_are_listed(named):
    for origin in ["https://app.example", "HTTPS://APP.example"]:
        reply = named.request("POST", "/execute", call("print(1)"), {"Origin": origin, "Sec-Fetch-Site": "cross-site"})
        assert reply.status == 200 and reply.headers["access-control-allow-origin"] == origin and reply.headers["vary"] == "Origin"
    reply = named.request("POST", "/execute", {}, {"Origin": "https://app.example"})
    problem(reply, 422, "invalid_request")
    assert reply.headers["access-control-allow-origin"] == "https://app.example"  # so that the page can read the problem


def test_origin_twice(named):
    with api.wire(named) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nOrigin: https://evil.example\r\n\r\n")
        assert wire.reply().status in (400, 403)


@pytest.mark.parametrize("site, status", [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200), ("CROSS-SITE", 403), ("", 403), ("other", 403)])
def test_fetch_metadata(service, site, status):
    """An image, a form or a script of another page sends no Origin, but this."""
    reply = service.request("GET", "/v1/executions", headers={"Sec-Fetch-Site": site})
    assert reply.status == status
    if status == 403:
        problem(reply, 403, "forbidden", "Sec-Fetch-Site")


def test_preflight(named):
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    reply = named.request("OPTIONS", "/execute", headers={"Origin": "https://app.example", **ask})
    assert (reply.status, reply.body) == (204, b"") and "content-length" not in reply.headers
    assert reply.headers["access-control-allow-origin"] == "https://app.example"
    assert reply.headers["access-control-allow-methods"] == "POST"
    allowed = reply.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "idempotency-key", "x-api-key"} == set(allowed)
    assert named.request("OPTIONS", "/metrics", headers={"Origin": "https://app.example"}).headers["access-control-allow-methods"] == "GET, HEAD"
    problem(named.request("OPTIONS", "/nowhere", headers={"Origin": "https://app.example"}), 404, "not_found")
    problem(named.request("OPTIONS", "/execute", headers={"Origin": "https://evil.example", **ask}), 403, "forbidden")
    reply = named.request("OPTIONS", "/execute")
    problem(reply, 405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"


def test_preflight_needs_no_key(service):
    config = {"keys": api.keys(alice={}), "origins": ["https://app.example"]}
    with api.running(service, config) as s:
        origin = {"Origin": "https://app.example"}
        assert s.request("OPTIONS", "/execute", headers=origin).status == 204
        reply = s.request("POST", "/execute", call("print(1)"), origin)
        problem(reply, 401, "unauthorized")
        assert s.request("POST", "/execute", call("print(1)"), origin | bearer("alice")).status == 200
