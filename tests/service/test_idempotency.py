"""Idempotency-Key: a call that is repeated runs once."""

import json
import time

import pytest

import api
from api import bearer, call, problem

pytestmark = pytest.mark.rootonly  # the same whoever runs it

RANDOM = "import random; print(random.random())"


@pytest.fixture
def key(request):
    """One that no other test has."""
    return f"{request.node.name[:100]}-{time.monotonic_ns()}".replace(" ", "")


def send(service, key, body, path="/execute", **headers):
    return service.request("POST", path, body, {"Idempotency-Key": key, **headers})


def test_repetition(service, key):
    first, second = send(service, key, call(RANDOM)), send(service, key, call(RANDOM))
    assert first.status == second.status == 200
    assert first.body == second.body and first.headers["content-type"] == second.headers["content-type"]
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert send(service, key + "2", call(RANDOM)).body != first.body


def test_runs_once(service, key):
    before = api.executed(api.metrics(service)).total()
    for _ in range(3):
        assert send(service, key, call(RANDOM)).status == 200
    assert api.executed(api.metrics(service)).total() == before + 1


def test_the_same_request_written_differently(service, key):
    first = send(service, key, b'{"tool_name":"execute_code","code":"print(1)","limits":{"max_pids":8,"timeout_seconds":5}}', **api.JSON)
    second = send(service, key, b' { "limits": {"timeout_seconds": 5, "max_pids": 8},\n "code": "pr\\u0069nt(1)", "tool_name": "execute_code" }', **api.JSON)
    assert first.status == 200 and second.headers["idempotent-replayed"] == "true" and first.body == second.body


def test_failures_of_the_program_are_kept(service, key):
    first, second = send(service, key, call("raise SystemExit(3)")), send(service, key, call("raise SystemExit(3)"))
    assert first.json()["exit_code"] == 3 and second.body == first.body
    blocked = [send(service, key + "b", call("eval('1')")) for _ in range(2)]
    assert blocked[0].json()["status"] == "blocked" and blocked[1].body == blocked[0].body


def test_other_body(service, key):
    assert send(service, key, call("print(1)")).status == 200
    problem(send(service, key, call("print(2)")), 422, "invalid_request", "Idempotency-Key")
    problem(send(service, key, call("print(1)", stdin="")), 422, "invalid_request", "Idempotency-Key")
    assert send(service, key, call("print(1)")).headers["idempotent-replayed"] == "true"


def test_other_route(service, key):
    """The two answer in different forms, so one cannot answer for the other."""
    assert send(service, key, call("print(1)")).status == 200
    reply = send(service, key, call("print(1)"), "/v1/execute")
    problem(reply, 422, "invalid_request", "Idempotency-Key")


def test_while_the_first_runs(service, key):
    code = "import time; time.sleep(2); print('once')"
    with api.wire(service) as wire:
        wire.send(api.request_bytes("POST", "/execute", call(code), {"Idempotency-Key": key}))
        end = time.monotonic() + 60
        while not service.request("GET", "/v1/executions").json()["running"]:
            assert time.monotonic() < end
        problem(send(service, key, call("print('other body')")), 422, "invalid_request", "Idempotency-Key")
        reply = send(service, key, call(code))
        problem(reply, 409, "conflict", "Idempotency-Key")
        assert int(reply.headers["retry-after"]) >= 1
        assert json.loads(wire.reply().body)["output"] == "once\n"
    reply = send(service, key, call(code))
    assert reply.headers["idempotent-replayed"] == "true" and reply.json()["output"] == "once\n"


def test_callers_have_their_own(start_service, key):
    service = start_service({"keys": api.keys(alice={}, bob={})})
    first = send(service, key, call(RANDOM), **bearer("alice"))
    other = send(service, key, call(RANDOM), **bearer("bob"))
    assert other.status == 200 and "idempotent-replayed" not in other.headers and other.body != first.body
    assert send(service, key, call(RANDOM), **bearer("alice")).body == first.body
    assert send(service, key, call("print('bob may say another thing')"), **bearer("carol")).status == 401


@pytest.mark.rootonly
def test_what_was_taken_away_is_not_repeated(start_service, key):
    """A stored reply is for those who may still use the tool."""
    config = {"keys": api.keys(alice={}), "tools": [{"name": "a", "code": {}}, {"name": "b", "code": {}}]}
    service = start_service(config)
    body = {"arguments": {"code": RANDOM}}
    ask = lambda: send(service, key, body, "/v1/tools/a/call", **bearer("alice"))  # noqa: E731
    first = ask()
    assert first.json()["success"] and ask().body == first.body
    service.reload(config | {"principals": {"alice": {"tools": ["b"]}}})
    service.wait_log("new configuration in use")
    for _ in range(2):
        reply = ask()
        assert reply.status == 200 and "idempotent-replayed" not in reply.headers
        assert [d["code"] for d in reply.json()["denials"]] == ["tool_not_allowed"] and reply.json()["stdout"] == ""
    service.reload(config)
    service.wait_log("new configuration in use", 2)
    assert ask().body == first.body


@pytest.mark.parametrize("field, accept", [(True, None), (False, api.SSE), (False, api.NDJSON)])
def test_not_with_streams(service, key, field, accept):
    headers = {"Accept": accept} if accept else {}
    reply = send(service, key, call("print(1)", stream=field), **headers)
    problem(reply, 422, "invalid_request", "Idempotency-Key", "stream")
    assert send(service, key, call("print(1)")).status == 200  # the key was not used up


def test_refusals_are_not_kept(service, key):
    problem(send(service, key, call("print(1)", limits={"max_pids": -1})), 422, "invalid_request")
    problem(send(service, key, b"{", **api.JSON), 400, "malformed_json")
    reply = send(service, key, call("print(1)"))
    assert reply.status == 200 and "idempotent-replayed" not in reply.headers


def test_unavailability_is_not_kept(start_service, key):
    service = start_service({"boxes": {"running": 1, "queued": 0}})
    with api.Stream(service, api.FOREVER) as stream:
        stream.until("stdout")
        problem(send(service, key, call("print(1)")), 503, "queue_full")
    end = time.monotonic() + 60
    while (reply := send(service, key, call("print(1)"))).status == 503:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert reply.status == 200 and "idempotent-replayed" not in reply.headers


def test_a_client_that_left_can_come_back(service, key):
    """Its first call was cancelled, so the second one runs."""
    with api.wire(service) as wire:
        wire.send(api.request_bytes("POST", "/execute", call("import time; time.sleep(1); print('done')"), {"Idempotency-Key": key}))
        time.sleep(0.2)
    end = time.monotonic() + 60
    while (reply := send(service, key, call("import time; time.sleep(1); print('done')"))).status == 409:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert reply.status == 200 and reply.json()["output"] == "done\n"


@pytest.mark.parametrize("bad", ["", "x" * 256, "a b", "\ttab", "umlaut-ä"])
def test_bad_keys(service, bad):
    with api.wire(service) as wire:
        body = json.dumps(call("print(1)")).encode()
        head = b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        wire.send(head + b"Idempotency-Key: a" * (bad == "\ttab") + b"Idempotency-Key:" * (bad != "\ttab") + bad.encode() + b"\r\n\r\n" + body)
        reply = wire.reply()
        assert (reply.status, json.loads(reply.body)["code"]) in [(422, "invalid_request"), (400, "malformed_http")]


def test_longest_key(service, key):
    longest = (key + "y" * 255)[:255]
    assert send(service, longest, call("print(1)")).status == 200
    assert send(service, longest, call("print(1)")).headers["idempotent-replayed"] == "true"


def test_two_keys(service):
    with api.wire(service) as wire:
        wire.send(b"POST /execute HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n")
        problem(wire.reply(), 400, "malformed_http")


REFUSED = {"tool_name": "execute_command", "command": "rm"}  # without a box


def test_many_keys(service, key):
    """More than are kept: old replies make room, nothing fails."""
    with api.wire(service) as wire:
        for i in range(1100):
            wire.send(api.request_bytes("POST", "/execute", REFUSED, {"Idempotency-Key": f"{key}-{i}"}))
            assert wire.reply().status == 200
        for i, replayed in [(1099, True), (0, False)]:
            wire.send(api.request_bytes("POST", "/execute", REFUSED, {"Idempotency-Key": f"{key}-{i}"}))
            reply = wire.reply()
            assert reply.status == 200 and ("idempotent-replayed" in reply.headers) == replayed
