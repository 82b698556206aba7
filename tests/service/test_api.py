"""Requests and replies: every field, every refusal, and HTTP as clients speak it."""

import base64
import json
import re
import subprocess
import time

import pytest

import api
from api import JSON, call, problem, request_bytes

pytestmark = pytest.mark.rootonly  # the same whoever runs it

ROUTES = pytest.mark.parametrize("path", ["/execute", "/v1/execute"])


def v1(service, code, **fields):
    return service.execute(code, path="/v1/execute", **fields)


def ok(service, code, **fields):
    result = v1(service, code, **fields)
    assert result["status"] == "success", result
    return result["stdout"]


# --- fields ---


def test_the_two_routes(service):
    old = service.execute("import sys; print('out'); print('err', file=sys.stderr)")
    new = v1(service, "import sys; print('out'); print('err', file=sys.stderr)")
    assert (old["output"], old["error"], new["stdout"], new["stderr"]) == ("out\n", "err\n", "out\n", "err\n")
    assert set(old) - set(new) == {"output", "error"} and set(new) - set(old) == {"stdout", "stderr"}
    assert re.fullmatch(api.ID, old["id"]) and old["id"] != new["id"]


def test_tool_name(service):
    """/execute must name the tool, as the seeds do; /v1/execute may, for the two that are always meant."""
    problem(service.request("POST", "/execute", {"code": "1"}), 422, "invalid_request", "tool_name", "execute_code")
    assert service.request("POST", "/v1/execute", {"code": "print(1)"}).json()["stdout"] == "1\n"
    assert service.request("POST", "/v1/execute", {"command": "echo 1"}).json()["stdout"] == "1\n"
    for path in ("/execute", "/v1/execute"):
        problem(service.request("POST", path, {"tool_name": "rm", "code": "1"}), 422, "invalid_request", "tool_name", "execute_code")


@pytest.mark.parametrize(
    "language, code, output",
    [("python", "print(1)", "1\n"), ("bash", "echo ${BASH_VERSION:+bash}", "bash\n"), ("sh", "echo $0", "/sandbox/main.sh\n"), ("node", "console.log(6 * 7)", "42\n")],
)
def test_languages(service, language, code, output):
    assert ok(service, code, language=language) == output


def test_stdin(service):
    code = "import sys; print(repr(sys.stdin.read()))"
    assert ok(service, code, stdin="hé\nllo\0") == repr("hé\nllo\0") + "\n"
    assert ok(service, code, stdin="") == ok(service, code) == "''\n"
    big = "0123456789" * 100_000
    assert ok(service, "import sys; print(len(sys.stdin.read()))", stdin=big) == "1000000\n"
    assert ok(service, "pass", stdin=big) == ""  # a program need not read it


def test_args(service):
    args = ["", "a b", "$HOME", "'\"", "-x", "é", "\n"]
    assert ok(service, "import sys; print(sys.argv[1:])", args=args) == f"{args}\n"
    assert ok(service, "import sys; print(len(sys.argv))", args=["x"] * 256) == "257\n"
    assert ok(service, "import sys; print(len(sys.argv[1]))", args=["x" * 131071]) == "131071\n"


def test_env(service):
    env = {"A": "1", "_b": "x=y", "EMPTY": "", "HOME": "/tmp", "LONG": "z" * 1000}
    shown = ok(service, "import os, json; print(json.dumps(dict(os.environ)))", env=env)
    found = json.loads(shown)
    assert env.items() <= found.items() and found["PATH"] and "LANG" in found


def test_files(service):
    files = [
        {"name": "a.txt", "text": "hé\n"},
        {"name": "d/e/f.bin", "base64": base64.b64encode(bytes(range(256))).decode()},
        {"name": "run.sh", "text": "#!/bin/sh\necho ran $1\n", "executable": True},
        {"name": "empty", "text": ""},
        {"name": "empty.b64", "base64": ""},
        {"name": "nul", "text": "a\0b"},
        {"name": "no", "text": "", "executable": False},
    ]
    code = """
printf %s "$(cat a.txt)"; cksum < d/e/f.bin; ./run.sh it; wc -c < empty; wc -c < empty.b64; wc -c < nul
test -x no || echo plain; ls | tr '\\n' ' '
"""
    assert ok(service, code, language="sh", files=files).split() == (
        "hé" + "1313719201 256 ran it 0 0 3 plain a.txt d empty empty.b64 main.sh no nul run.sh"
    ).split()


def test_files_are_not_the_script(service):
    """Two files of a name would leave open which of them runs."""
    reply = service.request("POST", "/v1/execute", {"code": "print(1)", "files": [{"name": "main.py", "text": "print(2)"}]})
    problem(reply, 422, "invalid_request", "main.py")
    twice = [{"name": "a", "text": ""}, {"name": "a", "text": "x"}]
    problem(service.request("POST", "/v1/execute", {"code": "", "files": twice}), 422, "invalid_request", "'a'")


def test_outputs(service):
    code = """
printf 'hé' > text.txt; printf '\\000\\377' > bin; mkdir -p d; echo 1 > d/1.csv; echo 2 > d/2.csv
ln -s /bin/sh link; mkfifo fifo; echo 'password=hunter2' > secret.txt; : > empty
"""
    result = v1(service, code, language="sh", outputs=["text.txt", "bin", "d/*.csv", "link", "fifo", "missing", "secret.txt", "empty", "*.none"])
    files = {f["name"]: f for f in result["files"]}
    assert files["text.txt"] == {"name": "text.txt", "bytes": 3, "text": "hé"}
    assert files["bin"] == {"name": "bin", "bytes": 2, "base64": "AP8="}
    assert (files["d/1.csv"]["text"], files["d/2.csv"]["text"], files["empty"]["text"]) == ("1\n", "2\n", "")
    assert files["secret.txt"]["text"] == "[REDACTED_SECRET]\n" and result["redactions"] == 1
    for name in ("link", "fifo", "missing"):
        assert files[name]["skipped"] and set(files[name]) == {"name", "skipped"}
    assert len(files) == 9 and "*.none" not in files


def test_outputs_too_large(service):
    """What does not fit into a reply is left out, the rest comes."""
    result = v1(service, "truncate -s 17M big; echo x > small", language="sh", outputs=["big", "small"])
    files = {f["name"]: f for f in result["files"]}
    assert set(files["big"]) == {"name", "skipped"} and files["small"]["text"] == "x\n"


def test_everything_together(service):
    result = v1(
        service,
        'cat; echo "$1 $X" | tee out; cat in',
        language="bash",
        stdin="stdin\n",
        args=["arg"],
        env={"X": "env"},
        files=[{"name": "in", "text": "file\n"}],
        outputs=["out"],
        limits={"max_pids": 16, "timeout_seconds": 10},
        network=False,
        stream=False,
    )
    assert result["stdout"] == "stdin\narg env\nfile\n" and result["files"] == [{"name": "out", "bytes": 8, "text": "arg env\n"}]
    assert result["enforced"]["limits"]["max_pids"] == 16 and result["enforced"]["limits"]["timeout_seconds"] == 10


def test_network_none(service):
    for value in (False, "none"):
        assert v1(service, "print(1)", network=value)["enforced"]["network"] == "none"


def test_code(service):
    assert ok(service, "") == ""
    assert ok(service, "print('hé €😀')") == "hé €😀\n"
    longest = "print(1)\n" + "#" * (1048576 - 9)
    assert ok(service, longest) == "1\n"
    problem(service.request("POST", "/v1/execute", {"code": longest + "#"}), 422, "bad_input", "code", "1048576")
    problem(service.request("POST", "/v1/execute", {"code": "a\0b"}), 422, "bad_input", "code")


def test_exit_codes_and_signals(service):
    assert v1(service, "raise SystemExit(42)")["exit_code"] == 42
    result = v1(service, "import os; os.kill(os.getpid(), 9)")
    assert (result["status"], result["exit_code"], result["signal"], result["was_killed"]) == ("error", None, 9, False)


def test_usage(service):
    usage = v1(service, "import time; x = b'x' * (50 << 20); time.sleep(0.2); print(1)")["resource_usage"]
    assert usage["wall_ms"] >= 200 and usage["memory_peak_mb"] >= 50 and usage["cpu_ms"] > 0 and usage["stdout_bytes"] == 2


# --- limits ---


def enforced(service, **limits):
    return v1(service, "print(1)", limits=limits)["enforced"]["limits"]


def test_limits(service):
    assert enforced(service) == service.request("GET", "/v1/capabilities").json()["limits"]
    lower = dict(timeout_seconds=1.5, max_cpu_seconds=0.5, max_cpu_percent=50, max_memory_mb=64, max_disk_mb=1, max_pids=4, max_open_files=32, max_output_bytes=0)
    assert enforced(service, **lower) == lower
    assert enforced(service, timeout_seconds=0.25 * 4, max_pids=8.0) == {**enforced(service), "timeout_seconds": 1, "max_pids": 8}


def test_ceilings(start_service):
    service = start_service({"ceilings": {"max_memory_mb": 512, "timeout_seconds": 60.5}, "limits": {"max_memory_mb": 128}})
    assert enforced(service)["max_memory_mb"] == 128
    assert enforced(service, max_memory_mb=512, timeout_seconds=60.5)["max_memory_mb"] == 512
    for name, value, most in [("max_memory_mb", 513, "512"), ("timeout_seconds", 60.501, "60.5"), ("timeout_seconds", 61, "60.5")]:
        reply = service.request("POST", "/v1/execute", {"code": "1", "limits": {name: value}})
        problem(reply, 422, "invalid_request", f"limits.{name}", f"to {most}")
    capabilities = service.request("GET", "/v1/capabilities").json()
    assert (capabilities["limits"]["max_memory_mb"], capabilities["ceilings"]["max_memory_mb"]) == (128, 512)


def test_output_limits_of_the_routes(service):
    assert service.execute("print(1)")["enforced"]["limits"]["max_output_bytes"] == 10000
    assert enforced(service)["max_output_bytes"] == 1000000
    assert service.execute("print(1)", limits={"max_output_bytes": 20000})["enforced"]["limits"]["max_output_bytes"] == 20000
    result = v1(service, "print('x' * 2000000)")
    assert result["stdout"] == "x" * 1000000 and result["truncated"] and result["resource_usage"]["stdout_bytes"] == 2000001


WHOLE = ["max_cpu_percent", "max_memory_mb", "max_disk_mb", "max_pids", "max_open_files", "max_output_bytes"]
DECIMAL = ["timeout_seconds", "max_cpu_seconds"]


@pytest.mark.parametrize("value", ["-1", "-0.001", "2147483648", "4294967297", "9007199254740993", "9223372036854775807", "-9223372036854775808", "1e308", "-1e308", '"5"', "null", "true", "false", "[]", "[1]", "{}", '""', "1e5000"])
@pytest.mark.parametrize("name", WHOLE + DECIMAL)
def test_bad_limits(service, name, value):
    reply = service.request("POST", "/v1/execute", f'{{"code": "1", "limits": {{"{name}": {value}}}}}'.encode(), JSON)
    if value == "1e5000":
        problem(reply, 400, "malformed_json")  # no number that anybody could hold
    else:
        problem(reply, 422, "invalid_request", f"limits.{name}")


def test_fractions(service):
    for name in WHOLE:
        problem(service.request("POST", "/v1/execute", {"code": "1", "limits": {name: 20.5}}), 422, "invalid_request", f"limits.{name}", "whole number")
    for name in DECIMAL:
        problem(service.request("POST", "/v1/execute", {"code": "1", "limits": {name: 1.0005}}), 422, "invalid_request", f"limits.{name}")
        assert enforced(service, **{name: 1.001})[name] == 1.001
    assert enforced(service, max_pids=1e1)["max_pids"] == 10


@pytest.mark.parametrize("name", [n for n in WHOLE + DECIMAL if n != "max_output_bytes"])
def test_zero(service, name):
    """Only output may be none at all."""
    for value in (0, -0.0):
        problem(service.request("POST", "/v1/execute", {"code": "1", "limits": {name: value}}), 422, "invalid_request", f"limits.{name}")


def test_limit_beyond_every_number(service):
    """2^63 and more is not a number that JSON readers agree on."""
    for number in ("9223372036854775808", "-9223372036854775809", "1" + "0" * 400):
        reply = service.request("POST", "/v1/execute", f'{{"code": "1", "limits": {{"max_pids": {number}}}}}'.encode(), JSON)
        assert reply.status in (400, 422)
        problem(reply, reply.status, json.loads(reply.body)["code"])


@pytest.mark.parametrize("field", ["session_id"])
def test_fields_of_later_versions(service, field):
    """What cannot be done is refused, never dropped in silence."""
    problem(service.request("POST", "/execute", call("print(1)", **{field: "x"})), 422, "invalid_request", field, "yet")


def test_unknown_limits(service):
    for name in ("max_memory", "MAX_PIDS", "timeout", "", "max_pids "):
        problem(service.request("POST", "/v1/execute", {"code": "1", "limits": {name: 5}}), 422, "invalid_request", "limits", "max_pids")


# --- refusals ---


@ROUTES
@pytest.mark.parametrize(
    "fields, where",
    [
        ({"code": 5}, "code"),
        ({"code": None}, "code"),
        ({"code": ["print(1)"]}, "code"),
        ({"tool_name": 1}, "tool_name"),
        ({"tool_name": None}, "tool_name"),
        ({"tool_name": "execute_code\0"}, "tool_name"),
        ({"language": "ruby"}, "language"),
        ({"language": "Python"}, "language"),
        ({"language": None}, "language"),
        ({"stdin": 1}, "stdin"),
        ({"stdin": None}, "stdin"),
        ({"args": "x"}, "args"),
        ({"args": {"0": "x"}}, "args"),
        ({"args": ["a", 1]}, "args[1]"),
        ({"args": ["a\0b"]}, "args[0]"),
        ({"args": ["x"] * 257}, "args"),
        ({"args": ["x" * 131072]}, "args[0]"),
        ({"args": ["x" * 131071] * 9}, "args"),
        ({"env": []}, "env"),
        ({"env": {"A": 1}}, "env.A"),
        ({"env": {"A": "x\0"}}, "env.A"),
        ({"env": {"1A": "x"}}, "env.1A"),
        ({"env": {"A-B": "x"}}, "env.A-B"),
        ({"env": {"": "x"}}, "env."),
        ({"env": {"A=B": "x"}}, "env.A=B"),
        ({"env": {"Ä": "x"}}, "env.Ä"),
        ({"env": {f"A{i}": "" for i in range(257)}}, "env"),
        ({"files": {}}, "files"),
        ({"files": ["a"]}, "files[0]"),
        ({"files": [{"name": "a", "text": ""}, {"name": "b"}]}, "files[1]"),
        ({"files": [{"text": "x"}]}, "files[0]"),
        ({"files": [{"name": "a", "text": "x", "base64": ""}]}, "files[0]"),
        ({"files": [{"name": "a", "text": 1}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": None}]}, "files[0]"),
        ({"files": [{"name": 1, "text": ""}]}, "files[0]"),
        ({"files": [{"name": "a", "text": "", "executable": 1}]}, "files[0]"),
        ({"files": [{"name": "a", "text": "", "mode": 493}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "AA"}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "AA=A"}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "AA==\n"}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "A==="}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "===="}]}, "files[0]"),
        ({"files": [{"name": "a", "base64": "AA-_"}]}, "files[0]"),
        ({"files": [{"name": "a", "text": ""}] * 65}, "files"),
        ({"outputs": "a"}, "outputs"),
        ({"outputs": [1]}, "outputs[0]"),
        ({"outputs": ["a"] * 257}, "outputs"),
        ({"limits": []}, "limits"),
        ({"limits": None}, "limits"),
        ({"limits": {"max_pids": "5"}}, "limits.max_pids"),
        ({"network": True}, "network"),
        ({"network": "host"}, "network"),
        ({"network": ["api.example.com"]}, "network"),
        ({"network": None}, "network"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream": None}, "stream"),
        ({"session_id": "x"}, "session_id"),
        ({"command": "ls"}, "command"),
        ({"arguments": "x"}, "arguments"),
        ({"arguments": None}, "arguments"),
        ({"arguments": {"code": "print(1)"}}, "code"),
        ({"allowed_modules": "math"}, "allowed_modules"),
        ({"allowed_modules": [1]}, "allowed_modules[0]"),
        ({"allowed_modules": ["math", ""]}, "allowed_modules[1]"),
        ({"allowed_modules": ["m" * 256]}, "allowed_modules[0]"),
        ({"allowed_modules": ["m"] * 257}, "allowed_modules"),
        ({"allowed_modules": ["math"], "language": "bash"}, "allowed_modules"),
        ({"raw": True}, "raw"),
        ({"raw": 1}, "raw"),
        ({"wait": "no"}, "wait"),
        ({"approval": "x"}, "approval"),
        ({"approval": 1}, "approval"),
        ({"approval": None}, "approval"),
        ({"Code": "print(1)"}, "Code"),
        ({"__proto__": {}}, "__proto__"),
        ({"code\0": "x"}, "code"),
        ({"é" * 200: 1}, "é"),
    ],
)
def test_wrong_fields(service, path, fields, where):
    reply = service.request("POST", path, {**call("print(1)"), **fields})
    detail = problem(reply, 422, "invalid_request")
    assert detail.startswith(where), detail


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "..", "a//b", "./a", "a/", "x" * 256, "a\0b", "/", "a/./b"])
def test_names_that_leave(service, name):
    reply = service.request("POST", "/execute", call("1", files=[{"name": name, "text": "x"}]))
    problem(reply, 422, "invalid_request", "files[0]")
    reply = service.request("POST", "/execute", call("1", outputs=["ok", name]))
    problem(reply, 422, "invalid_request", "outputs[1]")


@ROUTES
def test_missing_fields(service, path):
    for body in ({}, {"tool_name": "execute_code"}, {"tool_name": "execute_code", "stdin": "x"}):
        detail = problem(service.request("POST", path, body), 422, "invalid_request")
        assert "code" in detail or "tool_name" in detail
    for body in (b"[]", b'"x"', b"1", b"null", b"true"):
        problem(service.request("POST", path, body, JSON), 422, "invalid_request", "object")


@ROUTES
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"{]",
        b'{"code": "x"',
        b'{"code": "x"}}',
        b'{"code": "x"} {}',
        b'{"code": "x"}x',
        b'{"code": "x"}\0',
        b'{"code": "x",}',
        b"{'code': 'x'}",
        b'{code: "x"}',
        b'{"code": "a\nb"}',
        b'{"code": "\\x41"}',
        b'{"code": "\\ud800"}',
        b'{"code": "\xff"}',
        b'{"code": "\xc0\xaf"}',
        b'{"code": "\xed\xa0\x80"}',
        b'{"code": "a\0b"}',
        b'\xef\xbb\xbf{"code": "x"}',
        '{"code": "x"}'.encode("utf-16"),
        b'{"code": "x", "code": "y"}',
        b'{"code": "x", "c\\u006fde": "y"}',
        b'{"code": "x", "env": {"A": "1", "A": "2"}}',
        b'{"code": "x", "limits": {"max_pids": 01}}',
        b'{"code": "x", "limits": {"max_pids": 0x10}}',
        b'{"code": "x", "limits": {"max_pids": NaN}}',
        b'{"code": "x", "limits": {"max_pids": Infinity}}',
        b'{"code": "x", "limits": {"max_pids": +1}}',
        b"// comment\n{}",
        b'{"code": ' + b"[" * 65 + b"]" * 65 + b"}",
        b"[" * 1000000,
        b'{"a":' * 100000,
        b"[" + b"0," * 300000 + b"0]",
    ],
)
def test_malformed_json(service, path, body):
    detail = problem(service.request("POST", path, body, JSON), 400, "malformed_json")
    assert re.match(r"line \d+, column \d+: ", detail), detail
    assert all(c.isprintable() for c in detail)


def test_depth(service):
    """As deep as may be: refused for what it is, not for its depth."""
    body = b'{"code": ' + b"[" * 63 + b"]" * 63 + b"}"
    problem(service.request("POST", "/v1/execute", body, JSON), 422, "invalid_request", "code")


@ROUTES
@pytest.mark.parametrize("type_", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "xapplication/json", "application/json-patch+json", "application/json, text/plain"])
def test_media_types(service, path, type_):
    """A form of another page can send only such types: another wall against it."""
    body = json.dumps(call("print(1)")).encode()
    reply = service.request("POST", path, body, {"Content-Type": type_})
    problem(reply, 415, "unsupported_media_type", "application/json")
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("type_", ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8", "application/json ; x=y"])
def test_json_types(service, type_):
    assert service.request("POST", "/execute", json.dumps(call("print(1)")).encode(), {"Content-Type": type_}).status == 200


def test_no_media_type(service):
    with api.wire(service) as wire:
        wire.send(b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        problem(wire.reply(), 415, "unsupported_media_type")


# --- paths and methods ---


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/execute/", "//execute", "/Execute", "/v1", "/v1/", "/v1/execut", "/v1/execute/x", "/v2/execute", "/execute%2f", "/%65xecute", "/healthz/", "/./healthz", "/v1/../healthz", "/execute;x=y"]
)
def test_unknown_paths(service, path):
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        problem(service.request(method, path), 404, "not_found", "/openapi.json")


@pytest.mark.parametrize(
    "path, allow", [(p, ", ".join({"get": "GET, HEAD", "post": "POST"}[m] for m in item)) for p, item in api.DOCUMENT["paths"].items()]
)
def test_methods(service, path, allow):
    path = path.replace("{id}", "0" * 26).replace("{name}", "execute_code")
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "get"):
        if method in allow.split(", "):
            continue
        reply = service.request(method, path)
        problem(reply, 405, "method_not_allowed", allow)
        assert reply.headers["allow"] == allow


def test_head(service):
    with api.wire(service) as wire:
        for path in ["/healthz", "/v1/capabilities", "/openapi.json", "/v1/executions?limit=1", "/nowhere", "/execute"]:
            wire.send(request_bytes("GET", path))
            get = wire.reply()
            wire.send(request_bytes("HEAD", path))
            head = wire.reply(head_only=True)
            assert head.status == get.status and head.headers["content-type"] == get.headers["content-type"]
            if path != "/v1/executions?limit=1":  # its record may have come between
                assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/executions", "/v1/capabilities", "/metrics", "/openapi.json", "/readyz"])
def test_body_on_get(service, path):
    problem(service.request("GET", path, b"x"), 422, "invalid_request", "no body")
    with api.wire(service) as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode())
        assert wire.reply().status == 200  # empty is none


# --- HTTP as clients speak it ---


def test_keep_alive(service):
    """Many requests, good and bad, over one connection."""
    with api.wire(service) as wire:
        for i in range(30):
            wire.send(request_bytes("POST", "/execute", call("eval('1')" if i % 3 else f"print({i})")))
            reply = wire.reply()
            assert reply.status == 200 and "connection" not in reply.headers
            wire.send(request_bytes("POST", "/execute", {"code": i}))
            problem(wire.reply(), 422, "invalid_request")
            wire.send(request_bytes("POST", "/execute", b"{"))
            problem(wire.reply(), 400, "malformed_json")
            wire.send(request_bytes("GET", "/nowhere"))
            problem(wire.reply(), 404, "not_found")
        wire.send(request_bytes("GET", "/healthz", headers={"Connection": "close"}))
        assert wire.reply().headers["connection"] == "close" and wire.ended()


def test_refused_before_its_body(service):
    """The reply says that the connection ends, and so it does: the body is not taken for a request."""
    with api.wire(service) as wire:
        smuggled = request_bytes("POST", "/execute", call("print('smuggled')"))
        wire.send(request_bytes("POST", "/nowhere", smuggled))
        reply = wire.reply()
        problem(reply, 404, "not_found")
        assert reply.headers["connection"] == "close" and wire.ended()


def test_pipelining(service):
    requests = []
    for i in range(20):
        requests.append(request_bytes("POST", "/execute", call(f"print({i})") if i % 4 == 0 else call("eval('1')", stdin=str(i))))
        requests.append(request_bytes("GET", "/healthz" if i % 2 else "/nowhere"))
    with api.wire(service) as wire:
        wire.send(b"".join(requests))
        for i in range(20):
            reply = wire.reply()
            assert json.loads(reply.body)["output"] == (f"{i}\n" if i % 4 == 0 else "Code blocked: Blocked pattern: dynamic code execution")
            assert wire.reply().status == (200 if i % 2 else 404)


def test_drop_by_drop(service):
    data = request_bytes("POST", "/execute", call("print(1)"))
    with api.wire(service) as wire:
        for i in range(len(data)):
            wire.send(data[i : i + 1])
        assert json.loads(wire.reply().body)["output"] == "1\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_chunked_body(service, size):
    body = json.dumps(call("print('chunks')", stdin="x" * 500)).encode()
    data = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(part), part) for part in (body[i : i + size] for i in range(0, len(body), size)))
    head = b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with api.wire(service) as wire:
        wire.send(head + data + b"0\r\nTrailer-Of-Ours: x\r\n\r\n" + request_bytes("GET", "/healthz"))
        assert json.loads(wire.reply().body)["output"] == "chunks\n"
        assert wire.reply().status == 200


def test_expect_continue(service):
    body = json.dumps(call("print(1)")).encode()
    with api.wire(service) as wire:
        for _ in range(2):
            wire.send(request_bytes("POST", "/execute", body, {"Expect": "100-continue"})[: -len(body)])
            assert wire.head() == (100, {})
            wire.send(body)
            assert json.loads(wire.reply().body)["output"] == "1\n"


@pytest.mark.parametrize(
    "path, headers, status, code",
    [
        ("/execute", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ("/execute", {"Content-Length": 1 << 30}, 413, "too_large"),
        ("/nowhere", {}, 404, "not_found"),
        ("/healthz", {}, 405, "method_not_allowed"),
        ("/execute", {"Origin": "http://evil.example"}, 403, "forbidden"),
        ("/execute", {"Expect": "200-ok"}, 417, "malformed_http"),
    ],
)
def test_expect_refused(service, path, headers, status, code):
    """What can be refused without the body is, and the body is not asked for."""
    body = json.dumps(call("print(1)")).encode()
    with api.wire(service) as wire:
        wire.send(request_bytes("POST", path, body, {"Expect": "100-continue", **headers})[: -len(body)])
        reply = wire.reply()
        problem(reply, status, code)
        assert reply.headers["connection"] == "close" and wire.ended()


def test_old_clients(service):
    """HTTP/1.0: no Host, one request, unless it asks for more."""
    with api.wire(service) as wire:
        wire.send(request_bytes("POST", "/execute", call("print(1)"), version="1.0", host=None))
        reply = wire.reply()
        assert json.loads(reply.body)["output"] == "1\n" and reply.headers["connection"] == "close" and wire.ended()


def test_unix_socket(service):
    reply = service.request("POST", "/execute", call("print(1)"), unix=True)
    assert reply.json()["output"] == "1\n"
    records = service.request("GET", f"/v1/executions/{reply.json()['id']}").json()["records"]
    assert records[0]["record"]["client"] == "unix"


def test_largest_body(service):
    """4 MiB by default, to the byte."""
    most = service.request("GET", "/v1/capabilities").json()["body_bytes"]
    frame = len(json.dumps(call("import sys; print(len(sys.stdin.read()))", stdin="")).encode())
    body = json.dumps(call("import sys; print(len(sys.stdin.read()))", stdin="x" * (most - frame))).encode()
    assert len(body) == most == 4194304
    assert service.request("POST", "/execute", body, JSON).json()["output"] == f"{most - frame}\n"
    with api.wire(service) as wire:
        wire.send(request_bytes("POST", "/execute", body + b" ")[:1000])
        reply = wire.reply()
        problem(reply, 413, "too_large", "http.body_bytes")
        assert reply.headers["connection"] == "close" and wire.ended()


def test_small_bodies_only(start_service):
    service = start_service({"http": {"body_bytes": 1024}})
    body = json.dumps(call("print(1)")).encode().ljust(1024)
    assert service.request("POST", "/execute", body, JSON).status == 200
    problem(service.request("POST", "/execute", body + b" ", JSON), 413, "too_large")
    head = b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for size, status in [(1024, 200), (1025, 413), (0xFFFFFF, 413)]:
        with api.wire(service) as wire:
            wire.send(head + b"%x\r\n" % size + (body + b" ")[:size] + b"\r\n0\r\n\r\n" * (size < 1025))
            assert wire.reply().status == status


def test_large_reply(service):
    text = "line of text\n" * 200_000
    result = service.request("POST", "/v1/execute", {"code": "", "files": [{"name": "f", "text": text}], "outputs": ["f"]}).json()
    assert result["files"] == [{"name": "f", "bytes": len(text), "text": text}]


def test_headers_of_replies(service):
    seen = set()
    for path in ("/healthz", "/nowhere", "/v1/executions"):
        headers = service.request("GET", path, headers={"X-Request-Id": "mine"}).headers
        assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
        assert re.fullmatch(api.ID, headers["x-request-id"]) and headers["date"].endswith(" GMT") and "server" not in headers
        seen.add(headers["x-request-id"])
    assert len(seen) == 3


# --- pages ---


def test_health(service):
    for path in ("/healthz", "/health", "/healthz?x=y"):
        assert service.request("GET", path).json() == {"status": "ok"}


def test_ready(start_service):
    service = start_service()
    for _ in range(3):  # by a box of its own, then by the memory of it
        assert service.request("GET", "/readyz").json() == {"status": "ready"}
    assert service.request("GET", "/v1/executions").json()["executions"] == []  # a probe is no call
    assert api.executed(api.metrics(service)).total() == 0


def test_capabilities(service):
    found = service.request("GET", "/v1/capabilities").json()
    assert found["principal"] == "local" and found["languages"] == ["python", "bash", "sh", "node"] and found["tools"] == ["execute_code", "execute_command"]
    assert found["version"] == api.DOCUMENT["info"]["version"] and found["network"] == "none" and found["code_bytes"] == 1048576
    assert all(found["limits"][name] <= found["ceilings"][name] for name in found["limits"])


def test_executions(start_service):
    service = start_service()
    assert service.request("GET", "/v1/executions").json() == {"running": [], "executions": [], "next": None}
    ids = [service.execute("print(1)" if i == 2 else "eval('1')")["id"] for i in range(7)]
    newest = ids[::-1]
    page = service.request("GET", "/v1/executions").json()
    assert [e["id"] for e in page["executions"]] == newest and page["next"] is None
    assert all(e["kind"] == "outcome" and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", e["time"]) for e in page["executions"])
    assert [e["record"]["status"] for e in page["executions"]] == ["success" if i == ids[2] else "blocked" for i in newest]
    for size in (1, 2, 3, 7, 100):
        seen, before = [], ""
        while before is not None:
            page = service.request("GET", f"/v1/executions?limit={size}" + (f"&before={before}" if before else "")).json()
            assert len(page["executions"]) <= size
            seen += [e["id"] for e in page["executions"]]
            before = page["next"]
        assert seen == newest
    one = service.request("GET", f"/v1/executions/{ids[2]}").json()
    assert one["id"] == ids[2] and one["running"] is False
    assert [r["kind"] for r in one["records"]] == ["intent", "launch", "outcome"]
    assert [r["seq"] for r in one["records"]] == sorted(r["seq"] for r in one["records"])
    intent, launch, end = [r["record"] for r in one["records"]]
    assert intent["decision"] == "allow" and intent["route"] == "/execute" and intent["client"] == "tcp" and intent["limits"] == launch["limits"]
    assert end["status"] == "success" and end["enforced"]["policy_hash"] == launch["policy_hash"]


def test_records_hold_no_code(service):
    """Neither code nor output is kept, only hashes and sizes."""
    id_ = service.execute("print('marker-in-' + 'output')  # marker-in-code", stdin="marker-in-stdin")["id"]
    assert "marker-in" not in service.request("GET", f"/v1/executions/{id_}").body.decode()


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=-1", "limit=", "limit=x", "limit=1.5", "before=x", "before=-1", "x=1", "limit", "&limit=1", "limit=1&&before=1", "limit=1&x=2", "limit=%31", "limit=99999999999999999999", "before=" + "9" * 60])
def test_bad_queries(service, query):
    problem(service.request("GET", f"/v1/executions?{query}"), 422, "invalid_request", "limit")


def test_unknown_execution(service):
    for id_ in ["0" * 26, "7" * 26, "x", "../healthz", "0" * 25, "0" * 27, "O" * 26]:
        assert service.request("GET", f"/v1/executions/{id_}").status == 404


# --- metrics ---


def test_metrics(service):
    before = api.metrics(service)
    service.execute("print('10.0.0.1')")
    service.execute("eval('1')")
    service.execute("x = b'x' * (200 << 20)", limits={"max_memory_mb": 32})
    assert service.request("GET", "/nowhere").status == 404
    after = api.metrics(service)
    grown = {sample: after[sample] - before[sample] for sample in after if after[sample] != before[sample]}
    for sample, least in [
        (("glovebox_executions_total", 'language="python",outcome="success"'), 1),
        (("glovebox_executions_total", 'language="python",outcome="blocked"'), 1),
        (("glovebox_executions_total", 'language="python",outcome="resource_exceeded"'), 1),
        (("glovebox_redactions_total", ""), 1),
        (("glovebox_oom_kills_total", ""), 1),
        (("glovebox_http_replies_total", 'class="2xx"'), 4),
        (("glovebox_http_replies_total", 'class="4xx"'), 1),
        (("glovebox_execution_duration_seconds_count", ""), 3),
    ]:
        assert grown.get(sample) == least, (sample, grown)
    assert after["glovebox_build_info", f'version="{api.DOCUMENT["info"]["version"]}"'] == 1
    assert after["glovebox_connections", ""] >= 1


def test_metrics_hold_nothing_of_callers(service):
    service.request("GET", "/marker-path?marker-query", headers={"User-Agent": "marker-agent", "X-Marker": "x"})
    service.request("POST", "/execute", {"marker": 1})
    service.execute("print('marker')", env={"MARKER": "x"})
    assert b"marker" not in service.request("GET", "/metrics").body.lower()


# --- the page for people ---


@pytest.mark.parametrize("command, output", [pytest.param(*example, id=str(i)) for i, example in enumerate(api.console("docs/api.md"))])
def test_examples_of_the_page(service, command, output):
    """What the page shows is what comes; … stands for anything."""
    service.execute("print(1)")  # so that there is something to list
    command = command.replace("localhost:8640", f"localhost:{service.port}").replace("order-66", f"order-{time.monotonic_ns()}")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    pattern = ".*".join(map(re.escape, output.strip().split("…")))
    assert re.fullmatch(pattern, done.stdout.strip(), re.S), done.stdout
