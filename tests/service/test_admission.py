"""Too much is answered at once: rates and caps of a key, places for boxes and for calls that wait."""

import concurrent.futures
import time

import pytest

import api
from api import FOREVER, SSE, Stream, bearer, call, problem



def until_free(service, headers=None):
    """A client has left; its box may need a moment to go."""
    end = time.monotonic() + 60
    while (reply := service.request("POST", "/execute", call("print(1)"), headers)).status in (429, 503):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert reply.status == 200


# --- the service as a whole ---


def test_full(start_service):
    """One runs, one waits, the third is told so at once."""
    service = start_service({"boxes": {"running": 1, "queued": 1}})
    before = api.metrics(service)
    with Stream(service, FOREVER) as first, Stream(service, "print('second')") as second:
        first.until("stdout")
        second.until("start")
        for _ in range(3):
            start = time.monotonic()
            reply = service.request("POST", "/execute", call("print(3)"))
            problem(reply, 503, "queue_full")
            assert time.monotonic() - start < 20
        reply = service.request("POST", "/v1/execute", {"code": "print(3)"}, {"Accept": SSE})
        problem(reply, 503, "queue_full")
        values = api.metrics(service)
        assert values["glovebox_queue_full_total", ""] == before["glovebox_queue_full_total", ""] + 4
        assert (values["glovebox_sandboxes_active", ""], values["glovebox_queue_depth", ""]) == (1, 1)
        first.close()
        assert second.until("result")["result"]["stdout"] == "second\n"
    until_free(service)


def test_no_queue(start_service):
    service = start_service({"boxes": {"running": 1, "queued": 0}})
    with Stream(service, FOREVER) as stream:
        stream.until("stdout")
        problem(service.request("POST", "/execute", call("print(1)")), 503, "queue_full")
        # Busy is not broken: the queue says no, a load balancer need not.
        assert service.request("GET", "/readyz").status == 200
        assert service.request("GET", "/healthz").status == 200
        assert service.request("GET", "/v1/executions").status == 200
    until_free(service)
    assert service.request("GET", "/readyz").status == 200


def test_waiting_too_long(start_service):
    service = start_service({"boxes": {"running": 1, "wait_seconds": 0.3}})
    with Stream(service, FOREVER) as stream:
        stream.until("stdout")
        problem(service.request("POST", "/execute", call("print(1)")), 503, "queue_full", "boxes.wait_seconds")
        *others, last = api.events(service, "print(1)")
        assert [event["type"] for event in others] == ["start"]
        assert last["type"] == "error" and last["error"]["code"] == "queue_full" and last["error"]["status"] == 503
    until_free(service)


def test_those_who_wait_are_served_in_order(start_service):
    service = start_service({"boxes": {"running": 1}})
    with Stream(service, FOREVER) as first:
        first.until("stdout")
        waiting = [Stream(service, "import time; print(time.time_ns())") for _ in range(4)]
        for stream in waiting:
            stream.until("start")
        first.close()
        times = [int(stream.until("result")["result"]["stdout"]) for stream in waiting]
        for stream in waiting:
            stream.close()
    assert times == sorted(times)


def test_burst(service):
    """A hundred at once, all served."""
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        results = list(pool.map(lambda i: service.execute(f"print({i})"), range(100)))
    assert [r["output"] for r in results] == [f"{i}\n" for i in range(100)]
    assert len({r["id"] for r in results}) == 100


def test_overload(start_service):
    """More than fit: each is answered, either with its result or with a problem; nothing hangs, and the service is as before."""
    service = start_service({"boxes": {"running": 2, "queued": 10}})

    def one(i):
        return service.request("POST", "/execute", call(f"print({i})"))

    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        replies = list(pool.map(one, range(60)))
    good = [i for i, reply in enumerate(replies) if reply.status == 200]
    for i, reply in enumerate(replies):
        if i in good:
            assert reply.json()["output"] == f"{i}\n"
        else:
            problem(reply, 503, "queue_full")
    assert len(good) >= 12
    values = api.metrics(service)
    assert values["glovebox_sandboxes_active", ""] == values["glovebox_queue_depth", ""] == 0
    assert values["glovebox_queue_full_total", ""] == 60 - len(good)


def test_connections(start_service):
    """All places taken: one that idles makes room; when none does, the client is told."""
    service = start_service({"http": {"connections": 8}})
    idle = [api.wire(service) for _ in range(8)]
    for wire in idle:
        wire.send(api.request_bytes("GET", "/healthz"))
        assert wire.reply().status == 200
    assert service.request("GET", "/healthz").status == 200
    assert idle[0].ended()
    busy = [api.wire(service) for _ in range(8)]
    for wire in busy:
        wire.send(b"GET /healthz HTTP/1.1\r\n")  # has begun
    time.sleep(0.2)
    with api.wire(service) as late:
        status, headers = late.head()
        assert status == 503 and int(headers["retry-after"]) >= 1 and headers["connection"] == "close"
    for wire in busy:
        wire.send(b"Host: localhost\r\n\r\n")
    assert all(wire.reply().status == 200 for wire in busy[1:])
    for wire in idle + busy:
        wire.close()


def test_boxes_that_open_all_they_can(start_service):
    """Each box has its own limit of descriptors; the service has as many as before."""
    service = start_service({"boxes": {"running": 8}})
    code = "import os\nn = 0\ntry:\n    while True:\n        os.dup(0); n += 1\nexcept OSError as e:\n    print(e.errno, n)\n"
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        replies = [pool.submit(service.execute, code, limits={"max_open_files": 4096}) for _ in range(50)]
        assert service.request("GET", "/healthz").status == 200
        assert {reply.result()["output"] for reply in replies} == {"24 4093\n"}


# --- keys ---


def test_rate(start_service):
    service = start_service({"keys": api.keys(slow={"rate_per_minute": 3}, other={})})
    for _ in range(3):
        assert service.request("POST", "/execute", call("eval('1')"), bearer("slow")).status == 200
    reply = service.request("POST", "/execute", call("eval('1')"), bearer("slow"))
    problem(reply, 429, "rate_limited", "3 calls in a minute")
    assert 1 <= int(reply.headers["retry-after"]) <= 21
    problem(service.request("POST", "/v1/execute", {"code": "1"}, bearer("slow") | {"Accept": SSE}), 429, "rate_limited")
    # It is calls that are counted; and others have their own.
    assert service.request("GET", "/v1/executions", headers=bearer("slow")).status == 200
    assert service.execute("print(1)", headers=bearer("other"))["success"]
    assert api.metrics(service, bearer("other"))["glovebox_rate_limited_total", ""] == 2


def test_rate_comes_back(start_service):
    service = start_service({"keys": api.keys(quick={"rate_per_minute": 60})})
    with api.wire(service) as wire:
        for _ in range(200):
            wire.send(api.request_bytes("POST", "/execute", call("eval('1')"), bearer("quick")))
            reply = wire.reply()
            if reply.status == 429:
                break
        assert reply.status == 429 and reply.headers["retry-after"] == "1"
        time.sleep(1.1)
        wire.send(api.request_bytes("POST", "/execute", call("eval('1')"), bearer("quick")))
        assert wire.reply().status == 200


def test_bad_requests_count(start_service):
    """Finding out that a request is bad is work, too: it is one of the key's calls."""
    service = start_service({"keys": api.keys(slow={"rate_per_minute": 2})})
    problem(service.request("POST", "/execute", {}, bearer("slow")), 422, "invalid_request")
    assert service.request("POST", "/execute", call("eval('1')"), bearer("slow")).status == 200
    problem(service.request("POST", "/execute", {}, bearer("slow")), 429, "rate_limited")


def test_boxes_of_a_key(start_service):
    service = start_service({"keys": api.keys(one={"max_running": 1}, two={"max_running": 2})})
    with Stream(service, FOREVER, headers=bearer("one")) as stream:
        stream.until("stdout")
        reply = service.request("POST", "/execute", call("print(1)"), bearer("one"))
        problem(reply, 429, "rate_limited", "1 call")
        with Stream(service, FOREVER, headers=bearer("two")) as other:
            other.until("stdout")
            assert service.execute("print(2)", headers=bearer("two"))["output"] == "2\n"
    until_free(service, bearer("one"))


@pytest.mark.parametrize("value", [0, 5])
def test_no_rate(start_service, value):
    """0 is no limit; and a cap that is not reached does nothing."""
    service = start_service({"keys": api.keys(free={"rate_per_minute": 0, "max_running": value})})
    with api.wire(service) as wire:
        for _ in range(100):
            wire.send(api.request_bytes("POST", "/execute", call("eval('1')"), bearer("free")))
            assert wire.reply().status == 200


def test_readiness_costs_one_box(start_service):
    """However many ask at once, and with no key: one box is started to see, and all get its answer."""
    service = start_service({"boxes": {"running": 1, "queued": 0}})
    wires = [api.wire(service) for _ in range(50)]
    for wire in wires:
        wire.send(api.request_bytes("GET", "/readyz"))
    wires[0].close()  # whoever began it may leave
    wires[1].close()
    for wire in wires[2:]:
        reply = wire.reply()
        assert (reply.status, reply.body) == (200, b'{"status":"ready"}\n')
        wire.close()
    assert api.metrics(service)["glovebox_sandbox_wait_seconds_count", ""] <= 2
    until_free(service)
