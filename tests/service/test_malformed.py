"""The table of malformed.py against a live service. Each row goes over a connection of its own with a marker request behind it. Seen must be: one
answer with a status of the row's set, `Connection: close`, the end of the connection; and never an answer to the marker."""

import json
import random
import select
import struct
import subprocess
import time

import pytest

import malformed
from conftest import Service

pytestmark = pytest.mark.rootonly  # the same whoever runs it

PATIENCE = 20  # seconds; far more than anything needs, since machines may be busy
MARKERS = iter(range(1_000_000))


def marker():
    return b"GET /healthz?marker=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % next(MARKERS)


def started(**http):
    """One for all rows, beside the shared one: with limits that can be reached."""
    own = Service({"http": {"body_bytes": malformed.BODY_MOST, **http}})
    try:
        yield own.start()
        assert own.stop() == 0, own.log()
    finally:
        own.remove()


@pytest.fixture(scope="module")
def strict():
    yield from started()


@pytest.fixture(scope="module")
def hasty():
    """For the slow ones. The time between requests stays long: a 408 is for a request that has begun."""
    yield from started(header_seconds=1, body_seconds=1)


def send(sock, data):
    """The service may answer and close before it has read all of it."""
    try:
        sock.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def receive(sock):
    """All bytes up to the end of the connection, which must come."""
    data = b""
    sock.settimeout(PATIENCE)
    try:
        while part := sock.recv(65536):
            data += part
    except ConnectionResetError:
        pass  # an end as well: bytes of ours were left unread
    except TimeoutError:
        pytest.fail(f"the connection stays open; received: {data!r}")
    return data


def responses(data):
    """[(status, headers, body)] of everything that was answered."""
    found = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, f"half a head: {head!r}"
        line, *lines = head.split(b"\r\n")
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {name.strip().lower(): value.strip() for name, _, value in (item.partition(b":") for item in lines)}
        status = int(line.split(b" ")[1])
        length = int(headers[b"content-length"]) if status >= 200 else 0
        assert len(data) >= length, f"half a body: {data!r}"
        found.append((status, headers, data[:length]))
        data = data[length:]
    return found


def check(data, statuses):
    found = responses(data)
    assert len(found) == 1, f"{len(found)} answers: {[status for status, _, _ in found]}"
    status, headers, body = found[0]
    assert status in statuses, (status, body)
    assert headers.get(b"connection", b"").lower() == b"close", headers
    assert headers.get(b"content-type") == b"application/problem+json", headers
    problem = json.loads(body)
    assert problem["status"] == status and problem["code"] and problem["request_id"], problem
    return status


def alive(service):
    with service.socket() as sock:
        send(sock, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert [status for status, _, _ in responses(receive(sock))] == [200]


rows = pytest.mark.parametrize("row", malformed.ROWS, ids=lambda row: row.id)


@rows
def test_one_refusal_and_the_end(strict, row):
    with strict.socket() as sock:
        send(sock, row.data() + marker())
        whole = check(receive(sock), row.statuses)
    # However the bytes arrive, the answer is the same.
    data = row.data() + marker()
    cut = random.Random(row.id).randint(1, len(data) - 1)
    with strict.socket() as sock:
        send(sock, data[:cut])
        time.sleep(0.03)
        send(sock, data[cut:])
        assert check(receive(sock), row.statuses) == whole, f"cut at {cut}"


def test_there_are_enough_rows():
    assert len(malformed.ROWS) >= 80 and len(malformed.SLOW) >= 8


def test_well_formed_requests_are_answered(strict):
    """The positive control: what differs from the rows by the fault alone is served, and so is what comes behind it."""
    body = b'{"tool_name": "execute_code", "code": "print(1)"}'
    good = [
        malformed.get(),
        malformed.get(headers=malformed.HOST + b"X: a\t b\r\nX:\r\n" + b"Y: z\r\n" * 97),
        malformed.get(b"GET /healthz?" + b"a" * 8000 + b" HTTP/1.1"),
        malformed.post(b"Content-Length: %d\r\n" % len(body), body),
        malformed.chunked(b"%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(body), body)),
        malformed.chunked(b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n"),
    ]
    for data in good:
        with strict.socket() as sock:
            send(sock, data + marker() + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert [status for status, _, _ in responses(receive(sock))] == [200, 200, 200], data[:80]


def test_a_fault_behind_good_requests(strict):
    """Good requests are answered, the bad one behind them is refused, and what follows is never looked at."""
    with strict.socket() as sock:
        send(sock, marker() + marker() + b"GET /healthz HTTP/1.1\nHost: localhost\n\n" + marker())
        found = responses(receive(sock))
    assert [status for status, _, _ in found] == [200, 200, 400]
    assert found[-1][1][b"connection"] == b"close"


@pytest.mark.parametrize("row", malformed.SLOW, ids=lambda row: row.id)
def test_too_slow(hasty, row):
    with hasty.socket() as sock:
        send(sock, row.first)
        deadline = time.monotonic() + PATIENCE
        while not select.select([sock], [], [], 0.1)[0]:
            assert time.monotonic() < deadline, "it was never given up"
            send(sock, row.drop)
        send(sock, marker())
        check(receive(sock), {408})


def test_it_still_lives(strict, hasty):
    alive(strict)
    alive(hasty)


@pytest.mark.testbuild
def test_the_reader_alone_refuses(gb):
    """The rows that need no configuration, without a service around: so that a row cannot pass because something else refused it."""
    table = [row for row in malformed.ROWS if row.reader]
    frames = b"".join(struct.pack(">I", len(data)) + data for data in (row.data() + marker() for row in table))
    done = subprocess.run([gb.build / "tests/fuzz/http-verdict"], input=frames, stdout=subprocess.PIPE, timeout=60, check=True)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(table)
    wrong = [(row.id, verdict) for row, verdict in zip(table, verdicts) if verdict["end"] != "reject" or verdict["messages"] or verdict["status"] not in row.statuses]
    assert not wrong
