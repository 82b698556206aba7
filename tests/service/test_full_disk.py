"""A service whose records find no room: calls are refused, not run without a record; results without a record are not given out; and it goes on when there is room."""

import collections
import json
import os
import pathlib
import subprocess
import threading

import pytest

import api
import conftest
from api import call, problem

pytestmark = pytest.mark.rootonly


class Disk:
    """A file system of four megabytes in the place of the service's records. It is in a mount namespace of its own, which a process holds: it lives until that ends, whatever becomes of the service or of us."""

    def __init__(self, place):
        script = f"mount -t tmpfs -o size=4m,mode=700 none {place} && cd {place} && echo ready && exec sleep 3600"
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script]
        self.holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"
        self.ballast = pathlib.Path(f"/proc/{self.holder.pid}/cwd/ballast")

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))

    def free(self):
        self.ballast.unlink()

    def remove(self):
        self.holder.kill()
        self.holder.communicate()


@pytest.fixture
def full(make_service, tmp_path):
    """(service, disk): a service that is not started yet; everything of it sees the small disk."""
    s = make_service()
    s.state_dir.mkdir(mode=0o755)
    (s.state_dir / "audit").mkdir(mode=0o700)
    disk = Disk(s.state_dir / "audit")
    enter = tmp_path / "glovebox"
    enter.write_text(f'#!/bin/sh\nexec nsenter --target {disk.holder.pid} --mount {s.program} "$@"\n')
    enter.chmod(0o755)
    s.program = str(enter)
    try:
        yield s, disk
        s.stop()
    finally:
        disk.remove()


def execute(s, code, headers=None, **fields):
    return s.request("POST", "/execute", call(code, **fields), headers)


def failures(s):
    return api.metrics(s)["glovebox_audit_failures_total", ""]


def fill(s, disk):
    """No room, and what the database had left is used up. Returns how many calls were answered on the way."""
    disk.fill()
    answered = refused = 0
    while refused < 5:
        reply = execute(s, "pass")
        answered, refused = (answered + 1, 0) if reply.status == 200 else (answered, refused + 1)
        assert answered < 500
    return answered


def records(s):
    done = s.audit("export")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_records(s):
    """The chain is sound, and each intent has one end. To be asked after a restart."""
    done = s.audit("verify")
    assert done.returncode == 0 and "chain is sound" in done.stdout, done
    found = records(s)
    intents = [r["id"] for r in found if r["kind"] == "intent"]
    ends = collections.Counter(r["id"] for r in found if r["kind"] in ("outcome", "lost"))
    assert intents and len(set(intents)) == len(intents)
    assert ends == {id: 1 for id in intents}
    launches = collections.Counter(r["id"] for r in found if r["kind"] == "launch")
    assert set(launches) <= set(intents) and set(launches.values()) <= {1}
    return found


def ids(found, kind):
    return {r["id"] for r in found if r["kind"] == kind}


def test_calls_are_refused_and_nothing_runs(full):
    s, disk = full
    s.start()
    assert s.execute("print(1)")["success"]
    fill(s, disk)
    before, failed, launched = api.executed(api.metrics(s)), failures(s), ids(records(s), "launch")
    for _ in range(5):
        # A box would take as long as its program sleeps, and longer than we wait.
        reply = s.request("POST", "/execute", call("import time; time.sleep(25)"), timeout=20)
        problem(reply, 503, "audit_unavailable")
        problem(s.request("GET", "/readyz"), 503, "audit_unavailable")
        problem(s.request("POST", "/v1/execute", {"code": "1", "stream": True}, timeout=20), 503, "audit_unavailable")
        assert not s.pool()["calls"]
    assert failures(s) >= failed + 10
    assert api.executed(api.metrics(s)) == before
    for path in ["/healthz", "/openapi.json", "/v1/executions"]:
        assert s.request("GET", path).status == 200, path
    assert execute(s, "1", limits={"max_pids": -1}).status == 422  # what is wrong is still told so
    assert ids(records(s), "launch") == launched

    disk.free()
    assert s.execute("print(2 + 2)")["output"] == "4\n"
    assert len(ids(records(s), "launch")) == len(launched) + 1
    assert s.log().count("records cannot be stored") >= 1 and "records can be stored again" in s.log()
    assert s.stop() == 0
    s.start()
    check_records(s)


def test_a_result_that_cannot_be_recorded_is_withheld(full):
    s, disk = full
    s.start()
    code = "import random, time\nprint('the result', random.random())\ntime.sleep(3)"
    replies = []
    caller = threading.Thread(target=lambda: replies.append(execute(s, code, {"Idempotency-Key": "again"})))
    caller.start()
    s.wait_call()
    disk.fill()
    caller.join(conftest.PATIENCE)
    problem(replies[0], 503, "audit_unavailable")
    assert b"the result" not in replies[0].body
    assert failures(s) >= 1

    # It has no end yet, and its key is free.
    found = records(s)
    (lost,) = ids(found, "intent") - ids(found, "outcome")
    assert lost in ids(found, "launch")
    problem(execute(s, code, {"Idempotency-Key": "again"}), 503, "audit_unavailable")
    disk.free()
    reply = execute(s, code, {"Idempotency-Key": "again"})
    assert reply.status == 200 and "idempotent-replayed" not in reply.headers and b"the result" in reply.body
    repeated = execute(s, code, {"Idempotency-Key": "again"})
    assert repeated.body == reply.body and repeated.headers["idempotent-replayed"] == "true"
    assert s.stop() == 0
    s.start()
    assert lost in ids(check_records(s), "lost")


def test_a_stream_ends_with_the_error(full):
    s, disk = full
    s.start()
    with api.Stream(s, "import time\nprint('on', flush=True)\ntime.sleep(2)\nprint('off')") as stream:
        stream.until("stdout")
        disk.fill()
        last = list(stream)[-1]
    assert last["type"] == "error" and last["error"]["code"] == "audit_unavailable", last
    disk.free()
    assert s.execute("print(1)")["success"]


def test_it_starts_without_room_and_waits_for_it(full):
    s, disk = full
    s.start()
    caller = threading.Thread(target=lambda: pytest.raises(Exception, execute, s, api.FOREVER))
    caller.start()
    s.wait_call()
    disk.fill()
    s.kill("serve")
    s.process.wait()
    caller.join(conftest.PATIENCE)
    s.start()
    problem(execute(s, "print(1)"), 503, "audit_unavailable")
    disk.free()
    assert s.execute("print(1)")["success"]
    assert len(ids(check_records(s), "lost")) == 1
