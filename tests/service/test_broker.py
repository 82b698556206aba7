"""glovebox-broker, driven as the supervisor and the front would: it keeps generations of the configuration apart, ends what nobody waits for, survives
its children, and leaves nothing behind."""

import fcntl
import json
import os
import pathlib
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time

import pytest

import broker
import confined
import wire
from broker import Broker, hash_of
from conftest import BUILD, alive, stat_of, wait_for
from under_way import under_way

MODE = os.environ.get("GB_MODE", "root" if os.geteuid() == 0 else "user")
SANITIZED = b"__asan_init" in (BUILD / "glovebox-broker").read_bytes()  # its address space has no limit


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A directory that the broker's user can reach, with a database in it."""
    with tempfile.TemporaryDirectory(prefix="gb-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        path = pathlib.Path(name, "a.db")
        pathlib.Path(name).chmod(0o755)
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE t (a, b)")
            db.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"row {i}") for i in range(10)])
        path.chmod(0o644)
        yield path


@pytest.fixture(scope="module")
def silent():
    """An upstream that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def sql_tool(database, name="query", **spec):
    return {"name": name, "sql": {"sqlite": str(database), "tables": {"t": True}, **spec}}


def hang_tool(port, name="hang", seconds=60):
    """One that waits for an answer until its time is over."""
    host = f"127.0.0.1:{port}"
    return {
        "name": name,
        "parameters": {"type": "object", "properties": {}},
        "http": {"url": f"http://{host}/", "private": [host], "timeout_seconds": seconds},
    }


@pytest.fixture
def config(database, silent):
    return {"tools": [sql_tool(database), hang_tool(silent), {"name": "code", "code": {}}]}


@pytest.fixture
def start(config, tmp_path):
    """start(config, running=…) -> Broker; its log is in .log()."""
    made = []

    def start(text=None, **kwargs):
        with open(tmp_path / f"log-{len(made)}", "wb") as log:
            b = Broker(BUILD, config if text is None else text, log=log, **kwargs)
        b.log = pathlib.Path(log.name).read_text
        made.append(b)
        return b

    yield start
    for b in made:
        b.close()


SELECT = {"query": "SELECT count(*) AS n, sum(a) AS s FROM t"}


def works(b, **kwargs):
    answer = b.ask("query", SELECT, **kwargs)
    assert answer.kind == "TOOL_DONE" and not answer.denials and "45" in str(answer.result), (answer, b.log())
    return answer


def hanging(b, count=1):
    """A call that hangs, and its process."""
    before = set(b.children())
    calls = [b.call("hang", {}) for _ in range(count)]
    # As soon as it has an upstream it is confined and at work.
    fresh = lambda: set(b.children()) - before  # noqa: E731
    wait_for("processes for the calls", lambda: len(fresh()) == count)
    for pid in fresh():
        wait_for("its walls", lambda pid=pid: not confined.missing(pid, "broker-net", MODE == "root"))
    return calls, sorted(fresh())


# --- calls ---


def test_a_call_is_done(start):
    b = start()
    answer = works(b)
    assert not answer.failed and answer.wall_us > 0


def test_a_refusal_comes_as_denials(start):
    b = start()
    answer = b.ask("query", {"query": "DELETE FROM t"})
    assert answer.kind == "TOOL_DONE" and answer.denials and answer.result is None, answer
    works(b)


BAD = {
    "no JSON": (b"{", "SYNTAX", "arguments"),
    "no UTF-8": (b'{"query": "\xff"}', "SYNTAX", "arguments"),
    "something behind it": (b"{} {}", "SYNTAX", "arguments"),
    "twice": (b'{"query": "x", "query": "SELECT 1"}', "SYNTAX", "arguments"),
    "deep": (b"[" * 5000, "SYNTAX", "arguments"),
    "empty": (b"", "USAGE", "arguments"),
    "no object": (b'["SELECT 1"]', "USAGE", "object"),
}


@pytest.mark.parametrize("what", BAD)
def test_arguments_that_no_front_of_ours_would_send(start, what):
    b = start()
    data, error, text = BAD[what]
    answer = b.ask("query", data)
    assert (answer.kind, answer.error) == ("TOOL_FAILED", error) and text in answer.text, answer
    works(b)


def test_arguments_that_could_still_change(start):
    b = start()
    answer = b.ask("query", SELECT, seals=0)
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "USAGE") and "sealed" in answer.text, answer
    works(b)


def huge(size):
    fd = os.memfd_create("huge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, wire.F_ADD_SEALS, wire.SEALS)
    return fd


# Descriptors in the place of the arguments, which only a captured front would send.
DESCRIPTORS = {
    "device": lambda: os.open("/dev/zero", os.O_RDONLY),
    "directory": lambda: os.open("/", os.O_RDONLY),
    "file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "path": lambda: os.open("/etc/passwd", os.O_PATH),
    "pipe": lambda: os.pipe2(os.O_CLOEXEC)[0],
    "socket": lambda: socket.socket().detach(),
    "64 MiB of nothing": lambda: huge(64 << 20),
    "a terabyte": lambda: huge(1 << 40),
    "all there is": lambda: huge((1 << 63) - 4097),
    "many values": lambda: wire.memfd(b'{"query": [' + b"1," * 1000000 + b"1]}"),
    **{f"seals {seals}": lambda seals=seals: wire.memfd(b'{"query": "SELECT 1"}', seals) for seals in (wire.SEALS & ~1, wire.SEALS & ~2, wire.SEALS & ~4, wire.SEALS & ~8)},
}


def test_descriptors_that_are_no_arguments(start):
    b = start()
    for what, make in DESCRIPTORS.items():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = make()
        wire.send(b.front, wire.message("TOOL", broker.tool_body("query", hash_of(b.config))), [theirs.fileno(), fd])
        theirs.close()
        os.close(fd)
        answer = broker.Call(ours).answer()
        assert answer.kind == "TOOL_FAILED" and answer.error in ("USAGE", "SYNTAX"), (what, answer)
    works(b)


def test_sockets_that_nobody_listens_to(start):
    """Unconnected, listening, shut, full, or one for several calls: costs that call, nothing else."""
    b = start()
    loose, listening = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    listening.bind("")  # a name that the kernel gives
    listening.listen(1)
    shut, full = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    shut[1].shutdown(socket.SHUT_WR)
    full[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            full[1].send(b"x" * 1000)
    shared = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in [loose, listening, shut[1], full[1], shared[1], shared[1], shared[1]]:
        fd = wire.memfd(json.dumps(SELECT).encode())
        wire.send(b.front, wire.message("TOOL", broker.tool_body("query", hash_of(b.config))), [end.fileno(), fd])
        os.close(fd)
    assert [broker.Answer(wire.receive(shared[0])).kind for _ in range(3)] == ["TOOL_DONE"] * 3
    wait_for("the end of their processes", lambda: not b.children())
    works(b)
    for end in [loose, listening, *shut, *full, *shared]:
        end.close()


@pytest.mark.parametrize("arguments", [{}, {"query": 1}, {"query": "SELECT 1", "more": True}])
def test_the_schema_is_held_once_more(start, arguments):
    """By the broker's own copy of the policy: whoever has captured the front does not get past it."""
    b = start()
    answer = b.ask("query", arguments)
    assert answer.kind == "TOOL_DONE" and answer.denials and "arguments" in answer.denials[0][1], answer
    works(b)


@pytest.mark.parametrize("tool", ["", "code", "nothing", "../query", "x" * 63])
def test_a_tool_that_is_not_the_brokers(start, tool):
    b = start()
    answer = b.ask(tool, SELECT)
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "USAGE") and "no tool" in answer.text, answer


def test_an_id_that_is_none(start):
    b = start()
    answer = b.ask("query", SELECT, id="../../etc")
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "USAGE"), answer


def test_a_result_that_is_too_large(start):
    """Within the tool's own limit as it came, beyond the broker's as JSON: each of its characters takes six there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        body = b"\x01" * 4000000

        def serve():
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        tool = hang_tool(server.getsockname()[1])
        tool["http"]["max_bytes"] = 16777216
        b = start({"tools": [tool]})
        answer = b.ask("hang", {})
        thread.join()
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "UPSTREAM") and "as JSON" in answer.text, answer


@pytest.mark.parametrize("mode", [0o000, 0o644])
def test_a_database_that_cannot_be_reached(start, tmp_path, mode):
    """What it says names the user that needs the right."""
    path = tmp_path / "other.db"
    sqlite3.connect(path).close()
    path.touch()
    path.chmod(mode)
    tmp_path.chmod(0o700 if mode else 0o755)
    b = start({"tools": [sql_tool(path)]})
    answer = b.ask("query", SELECT)
    if MODE == "root" or not mode:
        assert (answer.kind, answer.error) == ("TOOL_FAILED", "UPSTREAM"), answer
        assert "Permission denied" in answer.text and f"uid {2000065539 if MODE == 'root' else os.geteuid()}" in answer.text, answer


@pytest.mark.parametrize("make", [lambda p: os.mkfifo(p, 0o666), lambda p: p.mkdir(), lambda p: None], ids=["fifo", "directory", "nothing"])
def test_a_database_that_is_none(start, database, make, tmp_path):
    path = database.parent / "other"
    make(path)
    try:
        b = start({"tools": [sql_tool(path)]})
        answer = b.ask("query", SELECT)
        assert (answer.kind, answer.error) == ("TOOL_FAILED", "UPSTREAM") and "database" in answer.text, answer
    finally:
        if path.exists():
            path.rmdir() if path.is_dir() else path.unlink()


# --- generations ---


def test_a_policy_that_it_does_not_know(start):
    b = start()
    for policy in ["", "0" * 64, hash_of(b.config)[:-1], "x" * 71]:
        answer = b.ask("query", SELECT, policy=policy)
        assert (answer.kind, answer.error) == ("TOOL_FAILED", "CONFLICT") and "try again" in answer.text, answer
    works(b)


def test_calls_of_before_a_reload_are_still_done(start, config, database):
    b = start()
    fresh = b.reload({"tools": [sql_tool(database, "other")]}, tag=77)
    ready = wire.receive(b.control)
    assert (ready.kind, ready.tag) == ("READY", 77)
    works(b)  # under the old one
    assert b.ask("other", SELECT).error == "USAGE", "a new tool is not in the old policy"
    answer = b.ask("other", SELECT, config=fresh)
    assert answer.kind == "TOOL_DONE" and not answer.denials, answer
    assert b.ask("query", SELECT, config=fresh).error == "USAGE", "an old one not in the new"


def test_the_oldest_generation_is_given_up(start, config):
    b = start()
    texts = [b.config]
    before = len(b.descriptors()) if MODE == "root" else 0
    for i in range(9):
        texts.append(b.reload(config | {"drain_seconds": i + 1}, tag=i))
        assert wire.receive(b.control).tag == i
    answers = [b.ask("query", SELECT, config=text).kind for text in texts]
    assert answers == ["TOOL_FAILED"] * 2 + ["TOOL_DONE"] * 8
    if MODE == "root":
        wait_for("descriptors of seven more", lambda: len(b.descriptors()) == before + 7)


def test_a_generation_that_comes_again_is_kept_once(start, config):
    b = start()
    for i in range(20):
        b.reload(config | {"drain_seconds": i % 2 + 1}, tag=i)
        assert wire.receive(b.control).tag == i
    works(b)
    assert MODE != "root" or len([fd for fd in b.descriptors() if "memfd" in os.readlink(f"/proc/{b.pid}/fd/{fd}")]) == 3


@pytest.mark.parametrize("text,seals", [(b"", wire.SEALS), (b"{}", 0)], ids=["empty", "unsealed"])
def test_a_configuration_that_is_none_is_not_taken(start, config, text, seals):
    b = start()
    b.reload(text, seals=seals, tag=1)
    b.reload(config, tag=2)
    assert wire.receive(b.control).tag == 2, "no READY for the first"
    assert "not used" in b.log()
    works(b)


def test_the_parent_does_not_parse_the_configuration(start):
    """A bad one, which the supervisor would never hand down, costs a child."""
    b = start()
    fresh = b.reload(b'{"tools": 1', tag=1)
    assert wire.receive(b.control).tag == 1
    answer = b.ask("query", SELECT, config=fresh)
    assert answer.kind == "TOOL_FAILED" and "configuration" in answer.text, answer
    works(b)


# --- ends ---


def test_a_child_that_dies_is_answered_for(start):
    b = start()
    (call,), (pid,) = hanging(b)
    os.kill(pid, signal.SIGKILL)
    answer = call.answer()
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "INTERNAL") and "died" in answer.text, answer
    assert "signal 9" in b.log()
    works(b)


@pytest.mark.parametrize("leave", [lambda s: s.close(), lambda s: s.shutdown(socket.SHUT_WR), lambda s: s.send(b"x")], ids=["close", "half-close", "byte"])
def test_a_call_that_nobody_waits_for_is_ended(start, leave):
    b = start()
    (call, other), pids = hanging(b, 2)
    leave(call.socket)
    wait_for("the end of its process", lambda: len(b.children()) == 1)
    works(b)
    if call.socket.fileno() >= 0:
        assert call.answer().kind is None, "there is nothing to say"
    os.kill(b.children()[0], signal.SIGKILL)
    assert other.answer().error == "INTERNAL", "the other one went on"
    assert b.log().count("the process of a call died") == 1, "that it was ended is no failure"


def test_the_tools_own_time(start, silent):
    b = start({"tools": [hang_tool(silent, seconds=0.5)]})
    began = time.monotonic()
    answer = b.ask("hang", {})
    assert answer.failed or answer.error == "UPSTREAM", answer
    assert time.monotonic() - began < 30


def test_a_child_that_does_not_look_at_the_clock_is_ended(start, silent):
    """One that is stopped cannot look. When it goes on, its timer is what it meets first."""
    b = start({"tools": [hang_tool(silent, seconds=2)]})
    (call,), (pid,) = hanging(b)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(4.5)
    os.kill(pid, signal.SIGCONT)
    answer = call.answer()
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "UPSTREAM") and "time" in answer.text, answer
    assert "a call took too long" in b.log() and "signal 14" in b.log()


def test_an_answer_waits_until_it_can_be_sent(start):
    """It is a descriptor, and others of the same user have sent more than a call may have open: many calls that end at once, say."""
    b = start()
    works(b)
    uid = int(pathlib.Path(f"/proc/{b.process.pid}/status").read_text().split("Uid:")[1].split()[0])
    with under_way(hundreds=3, uid=uid if MODE == "root" else None) as others:
        call = b.call("query", SELECT)
        assert not select.select([call.socket], [], [], 1)[0]
        others.terminate()
        answer = call.answer()
    assert answer.kind == "TOOL_DONE" and "45" in str(answer.result), (answer, b.log())


def test_so_many_at_once(start, database, silent):
    """One more waits a second for a place, and is refused; or gets the place that is free by then."""
    b = start(running=2)
    calls, pids = hanging(b, 2)
    answer = b.ask("query", SELECT)
    assert (answer.kind, answer.error) == ("TOOL_FAILED", "BUSY") and "2" in answer.text, answer
    late = b.call("query", SELECT)
    os.kill(pids[0], signal.SIGKILL)
    assert calls[0].answer().error == "INTERNAL"
    answer = late.answer()
    assert answer.kind == "TOOL_DONE", answer
    works(b)
    calls[1].socket.close()


def test_a_reload_changes_how_many(start, config):
    b = start(running=1)
    b.reload(config, running=3, tag=1)
    assert wire.receive(b.control).tag == 1
    calls, _ = hanging(b, 3)
    assert b.ask("query", SELECT).error == "BUSY"
    for call in calls:
        call.socket.close()


def test_few_descriptors_mean_few_calls(start, config):
    """The broker would die of a message whose descriptors find no room."""
    b = start(running=4096, prefix="ulimit -n 65;")
    assert '"calls":11' in b.log()
    calls, _ = hanging(b, 11)
    assert b.ask("query", SELECT).error == "BUSY"
    for call in calls:
        call.socket.close()
    wait_for("places", lambda: not b.children())
    works(b)


def test_stop_waits_for_calls(start, silent):
    b = start({"tools": [hang_tool(silent, seconds=2)]})
    (call,), _ = hanging(b)
    b.stop()
    refused = b.call("hang", {})
    answer = call.answer()
    assert answer.kind in ("TOOL_DONE", "TOOL_FAILED") and answer.error != "INTERNAL", answer
    assert b.process.wait(60) == 0
    assert refused.answer().kind in (None, "TOOL_FAILED"), "what comes later is not begun"


def test_a_second_stop_does_not_wait(start):
    b = start()
    (call,), (pid,) = hanging(b)
    b.stop()
    b.stop()
    assert b.process.wait(60) == 0
    assert call.answer().kind is None and not stat_of(pid)


@pytest.mark.parametrize("who", ["control", "front"])
def test_without_its_peers_it_ends_with_all_children(start, who):
    b = start()
    calls, pids = hanging(b, 2)
    began = {pid: stat_of(pid)[3] for pid in pids}
    getattr(b, who).shutdown(socket.SHUT_RDWR)
    if who == "front":
        for call in calls:
            call.socket.close()
    assert b.process.wait(60) == 0
    wait_for("the end of its children", lambda: not [pid for pid in pids if alive(pid, began[pid])])


def test_children_die_with_it(start):
    b = start()
    _, pids = hanging(b, 2)
    began = {pid: stat_of(pid)[3] for pid in pids}
    b.process.kill()
    wait_for("the end of its children", lambda: not [pid for pid in pids if alive(pid, began[pid])])


def send_stream(b):
    with socket.socket(socket.AF_UNIX) as stream:
        wire.send(b.front, wire.message("TOOL", broker.tool_body("query", "0" * 64)), [stream.fileno(), 0])


GARBAGE = {
    "no message": lambda b: b.front.send(b"something else"),
    "a message of somebody else": lambda b: wire.send(b.front, wire.message("STOP", bytes(8))),
    "no descriptors": lambda b: wire.send(b.front, wire.message("TOOL", broker.tool_body("query", "0" * 64))),
    "no socket": lambda b: wire.send(b.front, wire.message("TOOL", broker.tool_body("query", "0" * 64)), [0, 0]),
    "a stream": send_stream,
    "a descriptor too many": lambda b: wire.send(b.front, wire.message("TOOL", broker.tool_body("query", "0" * 64)), [0, 0, 0]),
    "something behind it": lambda b: wire.send(b.front, wire.message("TOOL", broker.tool_body("query", "0" * 64), b"x"), [0, 0]),
    "no end of a text": lambda b: b.front.send(wire.message("TOOL", b"x" * 168)),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_front_that_breaks_the_protocol_is_left(start, what):
    b = start()
    GARBAGE[what](b)
    assert b.process.wait(60) == 1
    assert "the front sent" in b.log()


# --- what is left, and what a child holds ---


@pytest.mark.rootonly
def test_nothing_is_left_of_calls(start):
    b = start()
    works(b)
    wait_for("its process to be reaped", lambda: not b.children())
    before = b.descriptors()
    for i in range(30):
        works(b) if i % 3 else b.ask("query", b"{")
    calls, pids = hanging(b, 3)
    os.kill(pids[0], signal.SIGKILL)
    for call in calls:
        call.socket.close()
    wait_for("the end of all processes", lambda: not b.children())
    wait_for(lambda: f"descriptors {before}, not {b.descriptors()}", lambda: b.descriptors() == before)


@pytest.mark.rootonly
def test_a_child_holds_what_its_call_needs(start):
    """Not the front's channel, nor the supervisor's, nor another call's."""
    b = start()
    calls, pids = hanging(b, 2)
    unix = {f"socket:[{line.split()[6]}]" for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]}
    parents = {os.readlink(f"/proc/{b.pid}/fd/{fd}") for fd in b.descriptors()}
    sockets = set()
    for pid in pids:
        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int)][3:]
        # Of what the parent has: the call's socket. The arguments are the child's alone by now, the configuration is closed, and what else there
        # is the child has opened itself: its connection, a library's pair.
        assert len(set(held) & parents & unix) == 1, (held, parents)
        assert sum("memfd" in name for name in held) == 1 and all(name.startswith(("socket:", "/memfd:", "anon_inode:", "pipe:")) for name in held), held
        sockets |= set(held) & parents & unix
    assert len(sockets) == 2, "each has its own"
    for call in calls:
        call.socket.close()


def test_children_are_confined(start, config, database):
    b = start()
    calls, pids = hanging(b, 1)
    assert confined.missing(pids[0], "broker-net", MODE == "root") == []
    limits = dict(line.rsplit(maxsplit=3)[:2] for line in pathlib.Path(f"/proc/{pids[0]}/limits").read_text().splitlines()[1:] if len(line.split()) > 4)
    assert SANITIZED or limits["Max address space"] == str(512 << 20), limits
    calls[0].socket.close()


def memory_of(pid):
    """Everything that can be written, in one piece."""
    found = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin < 64 << 20:
                memory.seek(begin)
                found += memory.read(end - begin)
    return found


@pytest.mark.rootonly
@pytest.mark.unsanitized
def test_a_child_holds_the_secrets_of_its_own_tool(start, silent, database):
    """Neither those of others nor the service's own key; nor does the parent, which never reads them."""
    tool, words = hang_tool(silent), {name: f"{name}-{os.urandom(8).hex()}" for name in ["mine", "other", "third"]}
    tool["http"]["headers"] = {"X-Key": "{secret:mine}"}
    other = hang_tool(silent, "another")
    other["http"]["headers"] = {"X-Key": "{secret:other}"}
    key = os.urandom(24).hex()
    pem = {"certificate": "/c", "key": "/k", "certificate_pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}
    pem["key_pem"] = f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n"
    b = start({"tools": [tool, other], "secrets": {name: {"value": word} for name, word in words.items()}, "tls": pem})
    calls, (pid,) = hanging(b)
    memory = memory_of(pid)
    assert words["mine"].encode() in memory, "else nothing could be found"
    assert words["other"].encode() not in memory and words["third"].encode() not in memory and key.encode() not in memory
    assert not any(word.encode() in memory_of(b.pid) for word in words.values())
    calls[0].socket.close()


def test_it_is_not_for_the_command_line():
    done = subprocess.run([BUILD / "glovebox-broker"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, close_fds=True, text=True)
    assert done.returncode == 1 and "not for the command line" in done.stderr
