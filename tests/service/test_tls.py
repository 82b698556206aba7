"""TLS when a certificate is configured: the same service behind it, and nothing in the clear."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest


CODE = {"tool_name": "execute_code", "code": "print(2 + 2)"}


def make_certificate(directory, name, common="localhost"):
    """A key and a certificate that signs itself. Returns their paths."""
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={common}",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    return cert, key


@pytest.fixture
def tls(start_service, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    service = start_service({"tls": {"certificate": str(cert), "key": str(key)}, "screen": "off"})
    service.cert, service.key = cert, key
    return service


def context(cert):
    return ssl.create_default_context(cafile=str(cert))


def connect(service, cert=None, **kwargs):
    return http.client.HTTPSConnection("localhost", service.port, context=context(cert or service.cert), timeout=60, **kwargs)


def post(connection, body, headers=None):
    connection.request("POST", "/execute", json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def raw(service):
    return context(service.cert).wrap_socket(socket.create_connection(("127.0.0.1", service.port), 60), server_hostname="localhost")


def test_a_call(tls):
    assert "https://127.0.0.1" in tls.banner()
    connection = connect(tls)
    for _ in range(3):  # keep-alive
        status, result = post(connection, CODE)
        assert (status, result["output"]) == (200, "4\n")


def test_big_body_and_big_reply(tls):
    """More than one record in both directions, and more than a socket takes at once."""
    text = "x" * 3_000_000
    body = {"tool_name": "execute_code", "code": "import sys; d = open('big').read(); print(len(d)); open('out', 'wb').write(d.encode())",
            "files": [{"name": "big", "text": text}], "outputs": ["out"]}  # fmt: skip
    status, result = post(connect(tls), body)
    assert status == 200, result
    assert result["output"] == "3000000\n", result
    assert result["files"] == [{"name": "out", "bytes": len(text), "text": text}]


def test_stream_arrives_while_it_runs(tls):
    connection = connect(tls)
    code = "import sys, time\nprint('first', flush=True)\ntime.sleep(3)\nprint('last')"
    start = time.monotonic()
    connection.request("POST", "/v1/execute", json.dumps({"code": code}), {"Content-Type": "application/json", "Accept": "application/x-ndjson"})
    reply = connection.getresponse()
    lines = []
    for line in reply:
        lines.append((json.loads(line), time.monotonic() - start))
    kinds = [event["type"] for event, _ in lines]
    assert kinds[0] == "start" and kinds[-1] == "result" and kinds.count("result") == 1
    first = next(at for event, at in lines if event.get("text", "").startswith("first"))
    assert lines[-1][1] - first > 1  # not all at the end


def test_pipelined_in_one_record(tls):
    """Requests that arrive in one TLS record: no event tells of the second, it is inside OpenSSL already."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with raw(tls) as s:
        s.sendall(request * 5)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 5:
            more = s.recv(65536)
            assert more, data
            data += more


def test_in_the_clear_is_refused(tls):
    with socket.create_connection(("127.0.0.1", tls.port), 60) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while more := s.recv(4096):
                data += more
    assert b"200 OK" not in data
    tls.wait_log("serving")  # still there
    assert post(connect(tls), CODE)[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_refused(tls, version):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    ctx.minimum_version = ctx.maximum_version = version
    ctx.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", tls.port), 60) as s, pytest.raises((ssl.SSLError, ConnectionError)):
        ctx.wrap_socket(s, server_hostname="localhost")


def test_alpn(tls):
    for offer, chosen in ((["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1")):
        ctx = context(tls.cert)
        ctx.set_alpn_protocols(offer)
        with ctx.wrap_socket(socket.create_connection(("127.0.0.1", tls.port), 60), server_hostname="localhost") as s:
            assert s.selected_alpn_protocol() == chosen
    ctx = context(tls.cert)
    ctx.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", tls.port), 60) as s, pytest.raises((ssl.SSLError, ConnectionError)):
        ctx.wrap_socket(s, server_hostname="localhost").recv(1)


def test_a_client_that_leaves_cancels(tls):
    body = json.dumps({"code": "import time; time.sleep(60)"}).encode()
    head = f"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    s = raw(tls)
    s.sendall(head + body)
    tls.wait_call()
    s.close()
    tls.wait_log('"status":"cancelled"')


def test_slow_handshakes_do_not_block(tls):
    """Clients that connect and say nothing, or half a hello."""
    idle = [socket.create_connection(("127.0.0.1", tls.port), 60) for _ in range(50)]
    for s in idle[::2]:
        s.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert post(connect(tls), CODE)[0] == 200
    for s in idle:
        s.close()


def test_reload_takes_a_new_certificate(tls, tmp_path):
    old = connect(tls)
    assert post(old, CODE)[0] == 200
    cert, key = make_certificate(tmp_path, "two")
    shutil.copy(cert, tls.cert.with_suffix(".new"))
    os.replace(tls.cert.with_suffix(".new"), tls.cert)
    shutil.copy(key, tls.key.with_suffix(".new"))
    os.replace(tls.key.with_suffix(".new"), tls.key)
    tls.signal(signal.SIGHUP)
    tls.wait_log("new configuration in use")
    assert post(connect(tls, cert), CODE)[0] == 200
    assert post(old, CODE)[0] == 200  # the connection that was open stays


def test_bad_certificates_do_not_start(start_service, tmp_path):
    cert, key = make_certificate(tmp_path, "one")
    _, other = make_certificate(tmp_path, "two")
    for config, word in (
        ({"certificate": str(cert), "key": str(other)}, "key"),
        ({"certificate": str(key), "key": str(key)}, "certificate"),
        ({"certificate": str(tmp_path / "none.pem"), "key": str(key)}, "none.pem"),
        ({"certificate": str(cert)}, "tls.key"),
    ):
        with pytest.raises(AssertionError) as failure:
            start_service({"tls": config})
        assert word in str(failure.value)


def test_the_unix_socket_stays_plain(tls):
    assert tls.request("GET", "/healthz", unix=True).status == 200
