"""Ending a call: by the cancel route, or by leaving. The box goes, the record says so, the place is free."""

import json
import socket
import time

import pytest

import api
from api import FOREVER, Stream, call, problem


@pytest.fixture(scope="module")
def single(service):
    """One box at a time: a place that is not given back would be noticed."""
    with api.running(service, {"boxes": {"running": 1, "queued": 8}}) as s:
        yield s


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return value


def outcome(service, id_):
    """The record of how it ended, as soon as there is one."""

    def find():
        records = service.request("GET", f"/v1/executions/{id_}").json().get("records", [])
        return [r["record"] for r in records if r["kind"] == "outcome"]

    return wait_for("the outcome", find)[0]


def running_ids(service):
    return [row["id"] for row in service.request("GET", "/v1/executions").json()["running"]]


def no_box_left(service):
    service.wait_calm()


def cancel(service, id_):
    return service.request("POST", f"/v1/executions/{id_}/cancel")


# --- the route ---


@pytest.mark.parametrize("accept", [api.SSE, api.NDJSON])
def test_cancel_of_a_stream(single, accept):
    with Stream(single, FOREVER, accept=accept) as stream:
        id_ = stream.until("start")["id"]
        assert stream.until("stdout")["text"] == "on\n"
        reply = cancel(single, id_)
        assert (reply.status, reply.json()) == (202, {"id": id_, "status": "cancelling"})
        result = stream.until("result")["result"]
    assert (result["success"], result["status"], result["was_killed"], result["kill_reason"]) == (False, "cancelled", True, "cancelled")
    assert result["stdout"] == "on\n" and result["exit_code"] is None
    assert outcome(single, id_)["status"] == "cancelled"
    no_box_left(single)
    assert single.execute("print(1)")["output"] == "1\n"


def test_cancel_of_a_plain_call(single):
    with api.wire(single) as wire:
        wire.send(api.request_bytes("POST", "/execute", call(FOREVER)))
        (id_,) = wait_for("the call", lambda: running_ids(single))
        assert cancel(single, id_).status == 202
        result = json.loads(wire.reply().body)
        assert (result["id"], result["status"], result["kill_reason"]) == (id_, "cancelled", "cancelled")
    assert running_ids(single) == []


@pytest.mark.parametrize("delay", [0, 0.001, 0.003, 0.01, 0.02, 0.05])
def test_cancel_at_any_moment(single, delay):
    """While it waits, while the box is built, while it runs: always one result, and it says cancelled."""
    with Stream(single, FOREVER) as stream:
        id_ = stream.until("start")["id"]
        time.sleep(delay)
        assert cancel(single, id_).status == 202
        cancel(single, id_)  # once more does no harm
        rest = [event for event in stream if event["type"] not in ("stdout", "stderr")]
        assert [event["type"] for event in rest] == ["result"] and rest[0]["result"]["status"] == "cancelled"
    no_box_left(single)


def test_cancel_while_it_waits(single):
    with Stream(single, FOREVER) as first, Stream(single, "print('never')") as second:
        first.until("stdout")
        id_ = second.until("start")["id"]
        assert cancel(single, id_).status == 202
        result = second.until("result")["result"]
        assert (result["status"], result["kill_reason"], result["stdout"], result["enforced"]) == ("cancelled", "cancelled", "", None)
        kinds = [r["kind"] for r in single.request("GET", f"/v1/executions/{id_}").json()["records"]]
        assert kinds == ["intent", "outcome"]  # never launched
    no_box_left(single)


def test_what_cannot_be_cancelled(service):
    done = service.execute("print(1)")["id"]
    for id_ in [done, "0" * 26, "x", "0" * 25, "0" * 27, "!" * 26, "%30" * 26, done.lower()]:
        problem(cancel(service, id_), 404, "not_found")
    for path in ["/v1/executions//cancel", f"/v1/executions/{done}/x/cancel", f"/v1/executions/{done}/cancel/", "/v1/executions/cancel"]:
        assert service.request("POST", path).status in (404, 405)
    reply = service.request("GET", f"/v1/executions/{done}/cancel")
    problem(reply, 405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"
    problem(service.request("POST", f"/v1/executions/{done}/cancel", {"why": "so"}), 422, "invalid_request", "no body")


# --- leaving ---


def leave(sock, how):
    if how == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "half":
        sock.shutdown(socket.SHUT_WR)
    else:
        sock.close()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("accept", [None, api.SSE])
def test_leaving(single, how, accept):
    sock = single.socket()
    sock.sendall(api.request_bytes("POST", "/v1/execute", {"code": FOREVER}, {"Accept": accept}))
    (id_,) = wait_for("the call", lambda: running_ids(single))
    time.sleep(0.05)
    leave(sock, how)
    assert outcome(single, id_)["status"] == "cancelled"
    no_box_left(single)
    assert single.execute("print(1)")["output"] == "1\n"
    sock.close()


def test_leaving_while_it_waits(single):
    with Stream(single, FOREVER) as first:
        first.until("stdout")
        second = Stream(single, "print('never')")
        id_ = second.until("start")["id"]
        second.close()
        assert outcome(single, id_)["status"] == "cancelled"
        assert running_ids(single) and id_ not in running_ids(single)


def test_leaving_a_flood(single):
    """The client stops reading, then leaves; the box was held back by its pipe."""
    stream = Stream(single, "import sys\nwhile True: sys.stdout.write('x' * 65536)", limits={"max_output_bytes": 16000000})
    id_ = stream.until("start")["id"]
    time.sleep(0.2)
    stream.close()
    assert outcome(single, id_)["status"] == "cancelled"
    no_box_left(single)


def test_leaving_before_the_body_is_complete(single):
    wait_for("the calls of other tests to end", lambda: running_ids(single) == [])
    before = api.executed(api.metrics(single))
    with api.wire(single) as wire:
        wire.send(api.request_bytes("POST", "/execute", call(FOREVER))[:-1])
    time.sleep(0.1)
    assert api.executed(api.metrics(single)) == before and running_ids(single) == []


def test_many_who_leave(service):
    """Nothing of them stays: no box, no call, no place."""
    for i in range(30):
        with api.wire(service) as wire:
            wire.send(api.request_bytes("POST", "/execute", call(FOREVER)))
            time.sleep(0.002 * (i % 6))
    wait_for("all calls to end", lambda: running_ids(service) == [])
    no_box_left(service)
    values = api.metrics(service)
    assert values["glovebox_sandboxes_active", ""] == values["glovebox_queue_depth", ""] == 0
    assert service.execute("print(1)")["output"] == "1\n"


def test_pipelined_request_is_no_leaving(single):
    """Bytes behind a request wait; they do not look like an end."""
    with api.wire(single) as wire:
        wire.send(api.request_bytes("POST", "/execute", call("import time; time.sleep(0.3); print(1)")) + api.request_bytes("GET", "/healthz"))
        assert json.loads(wire.reply().body)["output"] == "1\n"
        assert wire.reply().status == 200
