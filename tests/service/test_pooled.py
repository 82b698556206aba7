"""The walls of boxes that waited, in a real service: every probe in each kind of box, again and again in what others have used and left; and that
nothing outlives whoever it belongs to."""

import base64
import contextlib
import http.client
import os
import signal
import threading

import pytest
from conftest import BUILD, alive, processes, wait_for

FIELDS = {"path": "/v1/execute"}
PROBE = {"name": "glovebox-probe", "base64": base64.b64encode((BUILD / "glovebox-probe").read_bytes()).decode(), "executable": True}
RUN = {
    "sh": "exec ./glovebox-probe all",
    "python": "import os, signal\nfor s in signal.SIGPIPE, signal.SIGXFSZ: signal.signal(s, signal.SIG_DFL)\nos.execv('./glovebox-probe', ['glovebox-probe', 'all'])",
    "node": "const r = require('child_process').spawnSync('./glovebox-probe', ['all'], {encoding: 'utf8'}); console.log(r.stdout)",
}
# What a caller leaves who does not tidy up: sockets in flight, files, memory, somebody who would not go.
MESS = r"""
import os, socket, time
print(os.readlink('/proc/self/ns/net'), os.getpid(), open('/proc/self/net/sockstat').readline().strip(), os.listdir('/tmp') + os.listdir('/dev/shm'))
for i in range(20):
    a, b, c = socket.socketpair(), socket.socketpair(), socket.socket(socket.AF_UNIX)
    c.bind('\0mess-%d' % i)
    for x, y in (a, b), (b, a):
        for s in (*y, c): socket.send_fds(x[0], [b'x'], [s.fileno()])
for d in ('/tmp', '/dev/shm', '/sandbox'): open(d + '/mess', 'w').write('mess' * 1000)
held = bytes(20 << 20)
if os.fork() == 0:
    os.close(1); os.close(2); os.setsid(); time.sleep(1000)
"""
# Not the box's: what node gives to a program that it starts, and node itself.
OF_NODE = {"descriptors", "inherited", "see_processes"}


@pytest.fixture
def messy(start_service):
    """One box of each kind waits, so that each has what the one before has left."""
    return start_service({"screen": "off", "boxes": {"running": 2}, "pool": {"low": 1, "high": 1}})


def test_probes_hold_in_boxes_that_waited(messy):
    for _ in range(3):
        for language, code in RUN.items():
            reply = messy.execute(code, language=language, files=[PROBE], limits={"timeout_seconds": 60}, **FIELDS)
            verdicts = [line.split("\t") for line in reply["stdout"].splitlines() if line]
            assert len(verdicts) > 40, reply
            assert [row for row in verdicts if row[1] == "ESCAPED" and not (language == "node" and row[0] in OF_NODE)] == [], language
        left = messy.execute(MESS, **FIELDS)
        assert left["stdout"].endswith("2 sockets: used 0 []\n"), left
    messy.wait_calm()
    assert messy.stray_cgroups() == []


def warm(start_service):
    """With a box of both kinds that waits: a call that came before would get one without a zygote."""
    service = start_service({"boxes": {"running": 4}, "pool": {"low": 2, "high": 2}})
    wait_for(lambda: service.pool(), lambda: all(len(service.pool()["waits"].get(kind, [])) == 2 for kind in ("plain", "python")))
    return service


class Call(threading.Thread):
    """A call that sleeps, whatever becomes of it."""

    def __init__(self, service, language="python"):
        super().__init__()
        code = {"python": "import time; time.sleep(300)", "sh": "sleep 300"}[language]
        before = set(service.pool()["calls"])
        self.run = lambda: self.call(service, {"code": code, "language": language})
        self.start()
        (self.keeper,) = wait_for(lambda: f"a call: {service.pool()}", lambda: set(service.pool()["calls"]) - before)


    @staticmethod
    def call(service, body):
        with contextlib.suppress(OSError, http.client.HTTPException):
            service.request("POST", "/v1/execute", body)


def descendants(pids):
    table = processes()
    found = list(pids)
    for pid in found:
        found += [p for p, (_, _, parent, _) in table.items() if parent == pid and p not in found]
    return {pid: table[pid][3] for pid in found if pid in table}


def boxes(service):
    """{PID 1 of each box: {all of its processes: start}}."""
    return {pid: descendants([pid]) for pid in service.pool()["boxes"]}


def end(what, living):
    wait_for(lambda: f"the end of {what}: {living}", lambda: not [pid for pid, start in living.items() if alive(pid, start)])


@pytest.mark.parametrize("language", ["python", "sh"])
def test_a_box_ends_with_its_keeper(start_service, language):
    service = warm(start_service)
    call, other = Call(service, language), Call(service, language)
    before = boxes(service)
    os.kill(call.keeper, signal.SIGKILL)
    call.join()
    gone = wait_for(lambda: f"one box less: {before}", lambda: {pid: all_of for pid, all_of in before.items() if not any(alive(*p) for p in all_of.items())})
    assert len(gone) == 1 and other.is_alive()
    os.kill(other.keeper, signal.SIGKILL)
    other.join()
    assert service.execute("print(1)", **FIELDS)["stdout"] == "1\n"
    service.wait_calm()
    wait_for(lambda: service.stray_cgroups(), lambda: not service.stray_cgroups())


def test_boxes_end_with_their_zygote(start_service):
    service = warm(start_service)
    calls = [Call(service, "python"), Call(service, "sh")]
    for zygote in service.pool()["zygotes"]:
        living = descendants([zygote])
        assert len(living) > 1
        os.kill(zygote, signal.SIGKILL)
        end("a zygote and its boxes", living)
    for call in calls:
        call.join()
    assert [service.execute(code, language=language, **FIELDS)["stdout"] for language, code in (("python", "print(1)"), ("sh", "echo 1"))] == ["1\n"] * 2
    service.wait_calm()
    wait_for(lambda: service.stray_cgroups(), lambda: not service.stray_cgroups())


def test_everything_ends_with_the_launcher(start_service):
    service = warm(start_service)
    calls = [Call(service, "python"), Call(service, "sh")]
    living = descendants([service.pids()["launch"]])
    assert len(living) > 8
    service.kill("launch")
    end("the launcher and all below it", living)
    for call in calls:
        call.join()
    service.wait_healthy()
