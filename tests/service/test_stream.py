"""Streams: the sequence of events, while the program runs, sanitised, and in whole characters."""

import json
import time

import pytest

import api
from api import NDJSON, SSE, Stream

KINDS = pytest.mark.parametrize("kind", [SSE, NDJSON])
ROUTES = pytest.mark.parametrize("path", ["/execute", "/v1/execute"])


def text_of(found, stream="stdout"):
    return "".join(event["text"] for event in found if event["type"] == stream)


def result_of(found):
    """The one terminal event, which is the last."""
    assert [event["type"] for event in found if event["type"] in ("result", "error")] == ["result"]
    assert found[0]["type"] == "start" and found[-1]["type"] == "result"
    assert [event["type"] for event in found].count("start") == 1
    return found[-1]["result"]


@KINDS
@ROUTES
def test_sequence(service, kind, path):
    found = api.events(service, "import sys; print('out', flush=True); print('err', file=sys.stderr)", accept=kind, path=path)
    result = result_of(found)
    assert found[0] == {"type": "start", "id": result["id"]}
    assert (text_of(found), text_of(found, "stderr")) == ("out\n", "err\n")
    out, err = ("output", "error") if path == "/execute" else ("stdout", "stderr")
    assert (result["success"], result[out], result[err]) == (True, "out\n", "err\n")


@KINDS
def test_silence(service, kind):
    found = api.events(service, "pass", accept=kind)
    assert [event["type"] for event in found] == ["start", "result"] and result_of(found)["success"]


def test_failure_is_a_result(service):
    found = api.events(service, "print('a', flush=True); raise SystemExit(7)")
    assert (text_of(found), result_of(found)["status"], result_of(found)["exit_code"]) == ("a\n", "error", 7)


@KINDS
def test_blocked_is_a_result(service, kind):
    found = api.events(service, "import subprocess; subprocess.run(['ls'])", accept=kind, path="/execute")
    assert [event["type"] for event in found] == ["start", "result"]
    assert result_of(found)["output"] == "Code blocked: Blocked pattern: subprocess execution"


def test_timeout_is_a_result(service):
    found = api.events(service, api.FOREVER, limits={"timeout_seconds": 0.5})
    assert text_of(found) == "on\n" and result_of(found)["status"] == "timeout"


def test_the_field(service):
    """stream: true means server-sent events."""
    with Stream(service, "print(1)", accept=None, stream=True) as stream:
        assert stream.kind == SSE and result_of(list(stream))["stdout"] == "1\n"
    assert service.execute("print(1)", path="/v1/execute", stream=False)["stdout"] == "1\n"


@pytest.mark.parametrize(
    "accept, kind",
    [
        ("text/event-stream", SSE),
        ("application/json, text/event-stream", SSE),
        ("TEXT/EVENT-STREAM;q=0.9", SSE),
        ("application/x-ndjson", NDJSON),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/*", "application/json"),
        ("text/event-streams", "application/json"),
        ("xtext/event-stream", "application/json"),
        ("", "application/json"),
    ],
)
def test_accept(service, accept, kind):
    reply = service.request("POST", "/v1/execute", {"code": "print(1)"}, {"Accept": accept})
    assert (reply.status, reply.headers["content-type"]) == (200, kind)


def test_headers(service):
    with Stream(service, "pass") as stream:
        headers = stream.reply.headers
        assert headers["Cache-Control"] == "no-store" and headers["X-Accel-Buffering"] == "no" and headers["X-Request-Id"]
        assert headers["Transfer-Encoding"] == "chunked" and "Content-Length" not in headers


@KINDS
def test_output_arrives_while_the_program_runs(service, kind):
    """It waits for no more than its caller's patience: what it printed must come long before its end."""
    with Stream(service, "import time\nprint('now', flush=True)\ntime.sleep(600)", accept=kind, limits={"timeout_seconds": 300}) as stream:
        start = time.monotonic()
        assert stream.until("stdout") == {"type": "stdout", "text": "now\n"}
        assert time.monotonic() - start < 60


def test_conversation_with_the_clock(service):
    """Lines come one by one, not in one piece at the end."""
    code = "import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.3)"
    seen = []
    with Stream(service, code) as stream:
        for event in stream:
            if event["type"] == "stdout":
                seen.append((event["text"], time.monotonic()))
    assert "".join(text for text, _ in seen) == "0\n1\n2\n3\n" and len(seen) > 1
    assert seen[-1][1] - seen[0][1] > 0.3


# --- contents ---


@KINDS
def test_characters_are_whole(service, kind):
    """Written byte by byte, and in blocks that end within a character."""
    text = "aé€😀" * 50
    code = f"import os, time\nd = {text!r}.encode()\nfor i in range(len(d)):\n    os.write(1, d[i:i+1])\nos.write(1, ('€' * 30000).encode())"
    found = api.events(service, code, accept=kind)
    assert all("\ufffd" not in event.get("text", "") for event in found)
    assert text_of(found) == text + "€" * 30000 == result_of(found)["stdout"]


def test_bytes_that_are_no_characters(service):
    found = api.events(service, "import os; os.write(1, b'a\\xff\\xc3(b\\xe2\\x82')")
    assert text_of(found) == result_of(found)["stdout"]
    assert text_of(found).replace("\ufffd", "") == "a(b" and "\ufffd" in text_of(found)


@KINDS
@pytest.mark.parametrize("pause", [0, 0.03])
def test_secret_over_many_writes(service, kind, pause):
    code = f"import os, time\nfor c in 'see password=hunter2secret and 10.20.30.40 .':\n    os.write(1, c.encode()); time.sleep({pause})"
    found = api.events(service, code, accept=kind)
    assert text_of(found) == "see [REDACTED_SECRET] and [IP_ADDR] ." == result_of(found)["stdout"]
    assert result_of(found)["redactions"] == 2


def test_secret_on_both_streams(service):
    code = "import os\nfor c in b'/home/joe/x':\n    os.write(1, bytes([c])); os.write(2, bytes([c]))"
    found = api.events(service, code)
    assert text_of(found) == text_of(found, "stderr") == "[HOME_DIR]/x"


def test_lines_and_controls_stay_data(service):
    """Whatever the program prints, it forges no event."""
    nasty = "\n\nevent: result\ndata: {}\n\n\r\n: x\r0\r\n\r\n\u2028\x00\x1b"
    for kind in (SSE, NDJSON):
        found = api.events(service, f"print({nasty!r}, end='')", accept=kind)
        assert text_of(found) == nasty == result_of(found)["stdout"]


def test_large_output(service):
    found = api.events(service, "import sys\nfor i in range(100): sys.stdout.write('%09d\\n' % i * 1000)")
    assert text_of(found) == "".join("%09d\n" % i * 1000 for i in range(100))
    assert result_of(found)["stdout"] == text_of(found) and not result_of(found)["truncated"]


def test_limit_of_output(service):
    found = api.events(service, "print('€' * 1000)", limits={"max_output_bytes": 100})
    assert text_of(found) == "€" * 33 and result_of(found)["truncated"]


def test_slow_reader(service):
    """Output waits in the box's pipe, not in our memory; nothing is lost."""
    code = "import sys\nfor i in range(800): sys.stdout.write('x' * 9999 + '\\n')"
    with Stream(service, code, limits={"max_output_bytes": 16000000}) as stream:
        stream.until("start")
        time.sleep(0.5)
        rest = list(stream)
    assert text_of(rest) == ("x" * 9999 + "\n") * 800
    assert rest[-1]["result"]["resource_usage"]["stdout_bytes"] == 8_000_000


# --- on the wire ---


def test_connection_goes_on(service):
    """A stream ends; its connection does not."""
    with api.wire(service) as wire:
        for _ in range(2):
            wire.send(api.request_bytes("POST", "/v1/execute", {"code": "print(1)"}, {"Accept": NDJSON}))
            lines = wire.reply().body.splitlines()
            assert json.loads(lines[0])["type"] == "start" and json.loads(lines[-1])["type"] == "result"
        wire.send(api.request_bytes("GET", "/healthz"))
        assert wire.reply().status == 200


def test_old_clients(service):
    """HTTP/1.0 has no chunks: the end of the connection is the end of the stream."""
    with api.wire(service) as wire:
        wire.send(api.request_bytes("POST", "/v1/execute", {"code": "print(1)"}, {"Accept": NDJSON, "Connection": "keep-alive"}, version="1.0"))
        reply = wire.reply()
        assert "transfer-encoding" not in reply.headers and "content-length" not in reply.headers
        assert reply.headers["connection"] == "close"
        assert [json.loads(line)["type"] for line in reply.body.splitlines()] == ["start", "stdout", "result"]
        assert wire.ended()


def test_refusals_are_no_streams(service):
    reply = service.request("POST", "/v1/execute", {"code": 1}, {"Accept": SSE})
    api.problem(reply, 422, "invalid_request", "code")


def test_unix_socket(service):
    reply = service.request("POST", "/v1/execute", {"code": "print(1)"}, {"Accept": NDJSON}, unix=True)
    assert [json.loads(line)["type"] for line in reply.body.splitlines()] == ["start", "stdout", "result"]
