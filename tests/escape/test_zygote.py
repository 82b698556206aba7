"""Boxes of one zygote: at the same time they cannot meet, one after the other they leave each other nothing, and nothing leads from them to the zygote.

The nursery has the zygote; each `glovebox run` is a supervisor of its own, as a keeper of the launcher is.
"""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import uuid

import pytest
from test_outside import NAMESPACES, Sleeper, box_pid, find_processes, wait_for

from conftest import BUILD, MODE, PATH

pytestmark = pytest.mark.warm


class Nursery:
    """A zygote that several `glovebox run` share."""

    def __init__(self, directory, skip=""):
        self.path = directory / f"{uuid.uuid4().hex[:8]}.sock"
        walls = ",".join(filter(None, [skip, os.environ.get("GLOVEBOX_TEST_SKIP", "")]))
        self.env = {"GLOVEBOX_TEST_ZYGOTE": str(self.path), "GLOVEBOX_TEST_SKIP": walls, "GLOVEBOX_TEST_PATH": "python" if PATH == "python" else "plain"}
        self.process = subprocess.Popen([BUILD / "nursery", self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **self.env})
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.pid = int(line)

    def close(self):
        self.process.communicate(timeout=60)


@pytest.fixture
def nurseries(tmp_path_factory):
    """Starts zygotes; afterwards they are gone, and so is all that they have borne."""
    directory = tmp_path_factory.mktemp("n")
    with contextlib.ExitStack() as stack:

        def start(skip=""):
            nursery = Nursery(directory, skip)
            stack.callback(nursery.close)
            return nursery

        yield start


@pytest.fixture
def nursery(nurseries):
    return nurseries()


def status(pid, field):
    return re.search(rf"^{field}:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]


def init_of(box):
    return int(status(box.pid, "PPid"))


def namespaces(pid):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


# --- at the same time ---


def shared(pids):
    """Names of namespaces that two of these are both in."""
    seen = [namespaces(pid) for pid in pids]
    return {name for name in NAMESPACES if len({s[name] for s in seen}) < len(seen)}


def test_boxes_of_a_zygote_share_no_namespace(gb, nursery):
    with Sleeper(gb, env=nursery.env) as a, Sleeper(gb, env=nursery.env) as b, Sleeper(gb, env=nursery.env) as c:
        boxes = [a, b, c]
        assert shared([box.pid for box in boxes] + [os.getpid()]) == set()
        # The zygote is in none of theirs either, but for the network: it stays in the one that it gave away last, without a socket.
        assert shared([nursery.pid, a.pid, b.pid]) == set()
        for box in boxes:
            assert namespaces(init_of(box)) == namespaces(box.pid)
            for pid in (box.pid, init_of(box)):  # real, effective, saved, file system: nothing is left of who bore it
                assert len(set(status(pid, "Uid").split() + status(pid, "Gid").split())) == 1
        uids = {status(pid, "Uid").split()[0] for pid in [nursery.pid, *(box.pid for box in boxes)]}
        assert len(uids) == (4 if MODE == "root" else 1)


@pytest.mark.testbuild
def test_control_one_network_namespace_for_all(gb, nurseries):
    nursery = nurseries("net-own")
    with Sleeper(gb, env=nursery.env) as a, Sleeper(gb, env=nursery.env) as b:
        assert shared([a.pid, b.pid]) == {"net"}


LISTEN = r"""
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind('\0glovebox-meeting'); s.listen()
print('listens', flush=True); time.sleep(300)
"""
CONNECT = r"""
import socket
s = socket.socket(socket.AF_UNIX)
try: s.connect('\0glovebox-meeting'); print('connected')
except OSError as e: print(type(e).__name__)
"""


@contextlib.contextmanager
def running(gb, code, nursery, *options):
    """A box that has said its first word."""
    process = subprocess.Popen([gb.program, "run", *options, "-c", code], env={**os.environ, **nursery.env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert select.select([process.stdout], [], [], 60)[0] and process.stdout.readline(), process.stderr.read()
        yield process
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.testbuild
@pytest.mark.parametrize("skip,want", [("", "refused"), ("net-own,net-clean", "refused"), ("net-own,landlock-scope", "refused"), ("net-own,net-clean,landlock-scope", "connected")])
def test_abstract_sockets_do_not_meet(gb, nurseries, skip, want):
    nursery = nurseries(skip)
    with running(gb, LISTEN, nursery):
        said = gb.ok(CONNECT, env=nursery.env)
    assert (said == "connected\n") == (want == "connected"), said


@pytest.mark.testbuild
@pytest.mark.parametrize("skip,seen", [("net-own", False), ("net-own,net-clean", True)])
def test_no_box_enters_a_network_namespace_with_sockets(gb, nurseries, skip, seen):
    """What is seen of sockets that live is seen of those that nobody holds any more, too: this is the control of the tests below."""
    nursery = nurseries(skip)
    with running(gb, LISTEN, nursery):
        assert ("glovebox-meeting" in gb.ok(NET, env=nursery.env)) == seen


# --- one after the other ---

# Every file below /proc/self/net, without what differs between any two namespaces (addresses and inodes of the kernel's own sockets) or is the host's own.
NET = r"""
import os, re
print(os.readlink('/proc/self/ns/net'))
for d, _, names in sorted(os.walk('/proc/self/net')):
    for n in sorted(names):
        try: text = open(os.path.join(d, n), 'rb').read().decode()
        except OSError as e: text = repr(e.errno)
        if n == 'netlink': text = re.sub(r'(?m)^[0-9a-f]{8,} |\d+\s*$', '', text)
        if n == 'softnet_stat': text = ''
        if n == 'sockstat': text = re.sub(r' (alloc|mem) \d+', '', text)
        if n == 'protocols': text = '\n'.join(' '.join(line.split()[:3]) for line in text.splitlines())
        print(os.path.join(d, n), repr(text))
"""
NOISE = r"""
import os, socket, sys, time
held = []
for i in range(40):
    a, b, c, d = socket.socketpair(), socket.socketpair(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    c.bind('\0left-%d' % i); c.listen(); d.bind('\0letters-%d' % i)
    e = socket.socket(socket.AF_UNIX); e.connect('\0left-%d' % i); e.send(b'left behind')
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'left behind', '\0letters-%d' % i)
    socket.socket(socket.AF_UNIX).bind('/tmp/%d' % i)
    for x, y in (a, b), (b, a):
        for s in (*y, c, d, e): socket.send_fds(x[0], [b'x'], [s.fileno()])
    held.append((a, b, c, d, e))
print('noisy', flush=True)
END
"""
ENDS = {
    "closed": "for s in sum(held, ()):\n    for t in (s if type(s) is tuple else (s,)): t.close()",
    "exit": "os._exit(0)",
    "killed": "os.kill(os.getpid(), 9)",
    "orphans": "for _ in range(8):\n    if os.fork() == 0: time.sleep(1000)",
    "timeout": "time.sleep(1000)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_used_network_namespace_is_as_a_fresh_one(gb, nursery, end):
    look = lambda: gb.ok(NET, env=nursery.env).split("\n", 1)
    first, fresh = look()
    assert "/proc/self/net/unix" in fresh and "/proc/self/net/sockstat" in fresh and "left" not in fresh
    for _ in range(4):
        gb.python(NOISE.replace("END", ENDS[end]), "--timeout-seconds", 1 if end == "timeout" else 30, env=nursery.env)
        assert look()[1] == fresh

    def again():  # when the kernel has taken away what was left, it is used again: else all of this would have shown nothing
        name, seen = look()
        assert seen == fresh
        return name == first

    wait_for(again)
