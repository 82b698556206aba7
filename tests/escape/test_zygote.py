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
        self.process = subprocess.Popen([BUILD / "nursery", self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **self.env}, close_fds=False)
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


OF_CRADLES = {"user", "net", "uts"}  # what boxes have one after the other


def cradle_of(box):
    return int(status(init_of(box), "PPid"))


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
        # The zygote is in none of theirs either, but for the network: the thread that bears stays in the one that it gave away last, without a socket.
        assert shared([nursery.pid, a.pid, b.pid]) == set()
        # Its cradle is in those that its boxes have one after the other, and in no other box's. Only root may look.
        for box, other in ((a, b), (b, c), (c, a)) if MODE == "root" else ():
            assert shared([cradle_of(box), box.pid]) == OF_CRADLES and shared([cradle_of(box), other.pid]) == set()
        for box in boxes:
            assert namespaces(init_of(box)) == namespaces(box.pid)
            for pid in (box.pid, init_of(box)):  # real, effective, saved, file system: nothing is left of who bore it
                assert len(set(status(pid, "Uid").split() + status(pid, "Gid").split())) == 1
        uids = {status(pid, "Uid").split()[0] for pid in [nursery.pid, *(box.pid for box in boxes)]}
        assert len(uids) == (4 if MODE == "root" else 1)


def test_namespaces_that_are_used_again_are_so_by_one_box_each(gb, nursery):
    """Four at once, three times: those of the second and third time have what the first have left."""
    seen = []
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            boxes = [stack.enter_context(Sleeper(gb, env=nursery.env)) for _ in range(4)]
            assert shared([box.pid for box in boxes]) == set()
            seen.append([namespaces(box.pid) for box in boxes])
            nets = {one["net"] for ones in seen for one in ones}
            mains = [os.readlink(f"/proc/{nursery.pid}/task/{tid}/ns/net") for tid in os.listdir(f"/proc/{nursery.pid}/task")]
            assert sum(name in nets for name in mains) <= 1
    for before, after in zip(seen, seen[1:]):
        again = {name for name in NAMESPACES if {one[name] for one in before} & {one[name] for one in after}}
        assert OF_CRADLES <= again, "some were used again"


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
@pytest.mark.parametrize("skip,want", [("", "refused"), ("net-own,net-clean", "refused"), ("net-own,landlock-scope", "no box"), ("net-own,net-clean,landlock-scope", "connected")])
def test_abstract_sockets_do_not_meet(gb, nurseries, skip, want):
    nursery = nurseries(skip)
    with running(gb, LISTEN, nursery):
        done = gb.run("-c", CONNECT, env=nursery.env)
    assert done.returncode == (125 if want == "no box" else 0), done
    assert (done.stdout == b"connected\n") == (want == "connected"), done
    assert (b"has sockets" in done.stderr) == (want == "no box"), done


@pytest.mark.testbuild
@pytest.mark.parametrize("skip,seen", [("net-own", False), ("net-own,net-clean", True)])
def test_no_box_enters_a_network_namespace_with_sockets(gb, nurseries, skip, seen):
    """What is seen of sockets that live is seen of those that nobody holds any more, too: this is the control of the tests below."""
    nursery = nurseries(skip)
    with running(gb, LISTEN, nursery):
        done = gb.run("-c", NET, env=nursery.env)
        assert (b"glovebox-meeting" in done.stdout) == seen and done.returncode == (0 if seen else 125), done


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
        if n == 'sockstat': text = text.splitlines()[0]
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
    assert look() == [first, fresh], "it is used again: else all of this would show nothing"
    for _ in range(4):
        gb.python(NOISE.replace("END", ENDS[end]), "--timeout-seconds", 1 if end == "timeout" else 30, env=nursery.env)
        assert look()[1] == fresh


@pytest.mark.testbuild
@pytest.mark.parametrize("skip", ["", "net-clean"])
def test_a_cradle_with_sockets_is_given_up(gb, nurseries, skip):
    """Those that are in flight between each other outlive all processes that had them, for a while."""
    nursery = nurseries(skip)
    look = lambda: gb.ok("import os; print(os.readlink('/proc/self/ns/net'))", env=nursery.env)

    def is_given_up():
        before = look()
        gb.python(NOISE.replace("END", ENDS["exit"]), env=nursery.env)
        return look() != before

    if skip:
        assert not any(is_given_up() for _ in range(6))
    else:
        wait_for(is_given_up)  # not if the kernel has been quick


IPC = """
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget(7, 4096, MODE), libc.semget(7, 4, MODE), libc.msgget(7, MODE))
"""
LOOK, MAKE = IPC.replace("MODE", "0o666"), IPC.replace("MODE", "0o1666")


def test_objects_of_system_v_end_with_their_box(gb, nursery):
    """Their namespace is each box's own: also the numbers that they get tell nothing of boxes before."""
    made, found = gb.ok(MAKE + LOOK, env=nursery.env).splitlines()
    assert made == found and "-1" not in made.split()
    for _ in range(3):
        assert gb.ok(LOOK, env=nursery.env) == "-1 -1 -1\n"
        assert gb.ok(MAKE, env=nursery.env) == made + "\n"


@pytest.mark.testbuild
@pytest.mark.parametrize("off,locked", [("", "-1 1"), ("shm_lock", "0 0")])
def test_memory_of_system_v_is_not_locked(gb, off, locked):
    """It would be counted in the user namespace, which the next box of the cradle has, too."""
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
shared = libc.shmget(0, 4096, 0o1666)
print(libc.shmctl(shared, 11, None), ctypes.get_errno())
"""
    assert gb.ok(code, env={"GLOVEBOX_TEST_SECCOMP_OFF": off} if off else {}) == locked + "\n"


def memory_of(pid):
    """All that a process has mapped and may read."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("r") and "[v" not in line:
                with contextlib.suppress(OSError):
                    memory.seek(start)
                    yield memory.read(end - start)


def holds(pid, secret):
    return any(secret in part for part in memory_of(pid))


@pytest.mark.rootonly  # only root can look into all of them
def test_no_memory_of_one_call_is_in_another(gb, nursery, tmp_path):
    """Arguments, environment, files, input and the heap of a call: in its own box, and nowhere else, while it lives and afterwards."""
    secrets = [os.urandom(16).hex().encode() for _ in range(5)]
    (tmp_path / "file").write_bytes(secrets[2] * 100)
    code = "import sys, time; text = sys.stdin.read(); data = open('file', 'rb').read(); heap = bytes.fromhex(sys.argv[2]).hex() * 1000; print('has it', flush=True); time.sleep(300)"
    command = [gb.program, "run", "--env", f"SECRET={secrets[1].decode()}", "--file", tmp_path / "file", "-c", code, secrets[0].decode(), secrets[4].decode(), uuid.uuid4().hex]
    found = lambda pid: [secret for secret in secrets if holds(pid, secret)]
    with subprocess.Popen(command, env={**os.environ, **nursery.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(secrets[3] * 100)
        process.stdin.close()
        assert process.stdout.readline() == b"has it\n"
        owner = next(pid for pid in children(nursery.pid, deep=True) if box_pid(pid) == 2 and status(int(status(pid, "PPid")), "Name") == "glovebox-init")
        with Sleeper(gb, env=nursery.env) as other:
            assert found(owner) == secrets, "the search finds what is there"
            assert secrets[0] in found(int(status(owner, "PPid"))), "PID 1 has the words of its own call"
            cradle = int(status(int(status(owner, "PPid")), "PPid"))
            assert [found(pid) for pid in (nursery.pid, cradle, other.pid, init_of(other), cradle_of(other))] == [[]] * 5
        process.terminate()
    for _ in range(3):
        with Sleeper(gb, env=nursery.env) as after:
            assert [found(pid) for pid in (nursery.pid, cradle_of(after), after.pid, init_of(after))] == [[]] * 4


def test_no_memory_of_one_call_is_found_by_the_next(gb, nursery):
    """The same from inside: a box looks at all that it can read. The needle is put together when it is looked for, and overwritten in place."""
    secret = os.urandom(16).hex()
    hoard = f"import mmap, os\ntext = ('{secret}' * 4000).encode()\nm = mmap.mmap(-1, 1 << 20); m.write(text)\nopen('/dev/shm/x', 'wb').write(text); open('/tmp/x', 'wb').write(text)\nr, w = os.pipe(); os.write(w, text[:60000])\nmain = [text + b'x' for _ in range(200)]\nprint(len(main))"
    search = f"""
import os
half = (bytes.fromhex('{bytes(b ^ 0x55 for b in secret.encode()).hex()}'))
found = 0
with open('/proc/self/mem', 'rb', 0) as memory:
    for line in open('/proc/self/maps').read().splitlines():
        start, end = (int(w, 16) for w in line.split()[0].split('-'))
        if not line.split()[1].startswith('r') or '[v' in line: continue
        try: memory.seek(start); part = memory.read(end - start)
        except OSError: continue
        needle = bytes(b ^ 0x55 for b in half)
        found += part.count(needle)
        del part, needle
print(found, os.listdir('/tmp'), os.listdir('/dev/shm'), os.listdir('/sandbox'))
"""
    seen = set()
    for _ in range(4):
        assert gb.ok(hoard, env=nursery.env) == "200\n"
        said = gb.ok(search, "--max-memory-mb", 1024, env=nursery.env).split(" ", 1)
        assert said[1] == "[] [] ['main.py']\n"
        seen.add(int(said[0]))
    # Its own needle may be caught in a buffer of its own; what others have left would be there 4000 times and more.
    assert max(seen) < 10
    both = hoard + "\nopen('search.py', 'w').write(" + repr(search) + ")\nexec(open('search.py').read())"
    assert int(gb.ok(both, "--max-memory-mb", 1024, env=nursery.env).splitlines()[1].split(" ", 1)[0]) > 4000, "the search finds what is there"


# --- from a box to the zygote, and to its own PID 1 ---


def children(pid, deep=False):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(word) for word in (task / "children").read_text().split()]
    return found + [grandchild for child in found if deep for grandchild in children(child, True)]


def descriptors(pid):
    return {int(name): os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}


def kinds(links):
    return sorted(re.sub(r":?\[.*|:.*| \(deleted\)$", "", link) for link in links)


@pytest.mark.rootonly
@pytest.mark.testbuild
@pytest.mark.parametrize("skip", ["", "zygote-fds"])
def test_what_the_zygote_and_pid_1_hold(gb, nurseries, skip):
    with open(os.devnull, "rb") as leak:
        os.set_inheritable(leak.fileno(), True)
        os.dup2(leak.fileno(), 40)
        nursery = nurseries(skip)
        os.close(40)
    with Sleeper(gb, env=nursery.env) as box, Sleeper(gb, env=nursery.env):
        held = descriptors(nursery.pid)
        assert {held.pop(0), held.pop(1)} == {"/dev/null"} and held.pop(3).startswith("socket:") and held.pop(4) in ("/", "/proc")
        held.pop(2)
        assert "memfd:glovebox-init" in held.pop(5)
        # Of the root that it has in common with its boxes; landlock's rules name them.
        rest = kinds(link for link in held.values() if link not in ("/", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev"))
        assert (rest == []) == (not skip), held
        own = kinds(descriptors(cradle_of(box)).values())
        assert own.count("socket") == 1 or skip, own  # over which it is asked, and not that of the zygote
        # A pipe to the zygote's stderr, say, would be a pipe from box to box.
        assert kinds(descriptors(init_of(box)).values()) == ["anon_inode", "socket"]
        assert kinds(descriptors(box.pid).values()) == ["pipe"] * 3


@pytest.mark.testbuild
def test_pid_1_cannot_be_looked_into(gb, nurseries):
    code = """
import os
print([n for n in ('mem', 'maps', 'environ', 'auxv', 'fd', 'exe', 'root', 'cwd', 'map_files', 'syscall', 'stack', 'pagemap') if
       not os.system(f'ls /proc/1/{n}/ > /dev/null 2>&1 || head -c 1 /proc/1/{n} > /dev/null 2>&1')], os.path.exists('/proc/1/status'))
"""
    seen = gb.ok(code, env=nurseries("proc-hidepid").env)
    assert seen == "[] True\n"  # glovebox-init sees to it by itself, and by the mode of its image
    assert "environ" in gb.ok(code.replace("/proc/1/", "/proc/self/"), env=nurseries("proc-hidepid").env)


ATTACKS = {
    "signals": "for s in range(1, 65):\n    try: os.kill(1, s)\n    except OSError: pass",
    "queued": "libc = ctypes.CDLL(None)\nfor i in range(5000): libc.syscall(129 if os.uname().machine == 'x86_64' else 138, 1, 17, ctypes.create_string_buffer(128))",
    "descriptors": "held = []\ntry:\n    while True: held.append(os.open('/dev/null', os.O_RDONLY))\nexcept OSError: pass",
    "processes": "try:\n    while True:\n        if os.fork() == 0: time.sleep(1000)\nexcept OSError: pass",
    "orphans": "for _ in range(2000):\n    if os.fork() == 0:\n        if os.fork() == 0: os._exit(3)\n        os._exit(0)\n    os.wait()",
    "limits": "libc = ctypes.CDLL(None)\nfor r in range(16): libc.prlimit(1, r, (ctypes.c_ulong * 2)(0, 0), None)",
    "schedule": "libc = ctypes.CDLL(None)\nlibc.setpriority(0, 1, 19); libc.sched_setscheduler(1, 5, (ctypes.c_int * 1)(0)); libc.sched_setaffinity(1, 8, (ctypes.c_ulong * 1)(1))",
    "disk": "try:\n    with open('fill', 'wb') as f:\n        while True: f.write(bytes(1 << 20))\nexcept OSError: pass",
    "stdio": "os.closerange(0, 256)",
    "groups": "os.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None\ntry: os.setsid()\nexcept OSError: pass",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_pid_1_reports_what_happened(gb, nursery, name):
    code = f"import ctypes, os, signal, sys, time\n{ATTACKS[name]}\nos._exit(7)"
    result = gb.python(code, "--timeout-seconds", 60, "--max-cpu-seconds", 60, env=nursery.env)
    assert (result["status"], result["exit_code"], result["signal"]) == ("error", 7, None), result
    stopped = gb.python(code.replace("os._exit(7)", "os.kill(os.getpid(), 11)"), "--timeout-seconds", 60, "--max-cpu-seconds", 60, env=nursery.env)
    assert stopped["signal"] in (11, "SIGSEGV"), stopped
    assert gb.ok("print('the next')", env=nursery.env) == "the next\n"


def test_memory_that_is_full_is_reported_as_that(gb, nursery):
    result = gb.python("x = []\nwhile True: x.append(bytes(1 << 20))", "--max-memory-mb", 64, env=nursery.env)
    assert (result["status"], result["kill_reason"]) == ("resource_exceeded", "memory"), result


# --- the filter of system calls, of which the zygote has the long part ---


def filters(pid):
    """Of each of its threads, without those that we have ourselves."""
    counts = {int(status(f"{pid}/task/{tid}", "Seccomp_filters")) for tid in os.listdir(f"/proc/{pid}/task")}
    assert len(counts) == 1
    return counts.pop() - int(status(os.getpid(), "Seccomp_filters"))


@pytest.mark.testbuild
@pytest.mark.parametrize("skip,of_zygote,of_box", [("", 1, 2), ("zygote-seccomp", 0, 1), ("seccomp", 0, 0)])
def test_zygote_and_boxes_are_filtered(gb, nurseries, skip, of_zygote, of_box):
    """A box has the two parts, or the whole if its zygote lacks the long part; the short part alone would be one filter, too, but the probes would get through."""
    nursery = nurseries(skip)
    with Sleeper(gb, env=nursery.env) as box:
        assert [filters(pid) for pid in (nursery.pid, init_of(box), box.pid)] == [of_zygote, of_box, of_box]
    done = gb.run("--file", BUILD / "glovebox-probe", "--", "/sandbox/glovebox-probe", "all", env=nursery.env, timeout=120)
    assert (b"ESCAPED" in done.stdout) == (skip == "seccomp") and done.stdout.count(b"\n") > 40, done


@pytest.mark.testbuild
@pytest.mark.parametrize("off,open_calls", [("", []), ("mount", ["open_tree"]), ("namespaces", ["setns"]), ("tracing", ["kcmp"]), ("clone3", ["clone3"]), ("prctl", ["prctl"])])
def test_a_rule_that_is_off_is_so_in_both_parts(gb, off, open_calls):
    """Each call with arguments that the kernel refuses otherwise than the filter does: what comes through is what is off, and nothing else."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == 'x86_64'
calls = dict(open_tree=(428, -1, 0, 0xffff), setns=(308 if X86 else 268, -1, 0), kcmp=(312 if X86 else 272, 1 << 30, 1 << 30, 99), clone3=(435, 0, 0), prctl=(157 if X86 else 167, 22, 99))
def passes(name):
    assert libc.syscall(*calls[name]) == -1
    return ctypes.get_errno() != (38 if name == 'clone3' else 1)
print([name for name in calls if passes(name)])
"""
    env = {"GLOVEBOX_TEST_SECCOMP_OFF": off} if off else {}
    assert gb.ok(code, env=env) == f"{open_calls}\n"


# --- below the box's own mounts ---

UNCOVER = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == 'x86_64'
MOUNT, UMOUNT, PIVOT, CHROOT, SETNS = (165, 166, 155, 161, 308) if X86 else (40, 39, 41, 51, 268)
OPEN_TREE, MOVE_MOUNT = 428, 429
def call(*args):
    return libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
def state():
    return [(p, os.stat(p).st_dev, os.stat(p).st_ino) for p in ('/', '/proc', '/sandbox', '/tmp', '/dev/shm', '/etc')]
before, done = state(), []
def tried(name, r):
    if r >= 0: done.append(name)
for place in (b'/proc', b'/sandbox', b'/tmp', b'/dev/shm'):
    tried(f'detach {place}', call(UMOUNT, place, 2))
    tried(f'umount {place}', call(UMOUNT, place, 0))
    tried(f'remount {place}', call(MOUNT, 0, place, 0, 32, 0))
changed = state() != before
found = [n for root in ('/', '/sandbox', '/tmp') for n in os.listdir(root) if n.startswith('_glovebox')]
kernel = os.path.exists('/proc/sys')
# Even so: what of the zygote's could be opened, and what be written?
opened = []
for d in os.listdir('/proc'):
    if d.isdigit() and d != os.readlink('/proc/self'):
        for n in ('mem', 'environ', 'maps', 'root', 'fd'):
            try: opened.append((d, n, os.listdir(f'/proc/{d}/{n}') if n in ('root', 'fd') else open(f'/proc/{d}/{n}', 'rb').read(1)))
            except OSError: pass
for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '/x', '/etc/x', '/dev/x', *(('/sandbox/_glovebox.abi3.so',) if found else ())):
    try: open(path, 'r+b' if os.path.exists(path) else 'xb').close(); opened.append(path)
    except OSError: pass
# The rest would make a muddle of the tree, if it worked.
for place in (b'/proc', b'/sandbox', b'/'):
    tried(f'open_tree {place}', call(OPEN_TREE, -100, place, 1))
    tried(f'move_mount {place}', call(MOVE_MOUNT, -100, place, -100, b'/tmp', 0))
    tried(f'move {place}', call(MOUNT, place, b'/tmp', 0, 8192, 0))
    tried(f'bind {place}', call(MOUNT, place, b'/tmp', 0, 4096 | 16384, 0))
for name in ('mnt', 'pid', 'net'):
    try: tried(f'setns {name}', call(SETNS, os.open(f'/proc/self/ns/{name}', os.O_RDONLY), 0))
    except OSError: pass
for path in ('..', '../..', '/..', '/sandbox/..', '/proc/..', '/proc/self/root/..', '/proc/self/cwd/..', '/proc/1/root', '/proc/1/cwd'):
    try: os.chdir(path); here = sorted(os.listdir('.'))
    except OSError: continue
    if not {'etc', 'usr', 'sandbox'} <= set(here): done.append(f'{path} {here}')
    os.chdir('/sandbox')
tried('pivot', call(PIVOT, b'/tmp', b'/tmp'))
tried('chroot', call(CHROOT, b'/tmp'))
print(repr(dict(done=done, changed=changed, found=found, kernel=kernel, opened=opened)))
"""


@pytest.mark.testbuild
@pytest.mark.parametrize("skip", ["", "seccomp,landlock", "caps,landlock", "seccomp,caps,landlock", "seccomp,caps,landlock,cradle-dumpable"])
def test_what_lies_below_cannot_be_uncovered(gb, nurseries, skip):
    """The zygote's /proc and its files lie below the box's own mounts. Neither the filter nor the lack of rights is needed twice."""
    said = eval(gb.ok(UNCOVER, env=nurseries(skip).env))
    if not skip.startswith("seccomp,caps,landlock"):
        assert said == {"done": [], "changed": False, "found": [], "kernel": False, "opened": []}
        return
    # With both walls down it comes to light: so it is there, and they hold it.
    assert {"detach b'/proc'", "detach b'/sandbox'", "chroot"} <= set(said["done"]) and said["changed"] and said["kernel"], said
    assert said["found"] == (["_glovebox.abi3.so"] if PATH == "python" else []), said
    # And then it is read-only, and no process in it lets itself be looked into.
    assert bool(said["opened"]) == ("cradle-dumpable" in skip), said


# --- files that boxes of a zygote share ---

WRITE = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
done = []
def attempt(name, function, *args):
    try: r = function(*args)
    except OSError: return
    done.append((name, args))
for path in ('/', '/etc', '/etc/passwd', '/etc/hostname', '/dev', '/dev/null', '/usr', '/usr/bin/env', '/proc', '/etc/ssl/openssl.cnf'):
    attempt('chmod', os.chmod, path, 0o777)
    attempt('chown', os.chown, path, 1000, 1000)
    attempt('utime', os.utime, path)
    attempt('setxattr', os.setxattr, path, 'user.glovebox', b'x')
    attempt('truncate', os.truncate, path, 0)
    attempt('rename', os.rename, path, '/sandbox/x')
    attempt('link', os.link, path, '/sandbox/l')
    attempt('unlink', os.unlink, path)
    attempt('rmdir', os.rmdir, path)
    attempt('open', os.open, path, os.O_WRONLY) if path != '/dev/null' else None
    attempt('mmap', lambda p: __import__('mmap').mmap(os.open(p, os.O_RDWR), 1), path) if path != '/dev/null' else None
    if os.path.isdir(path):
        for call in (os.mkdir, os.mkfifo): attempt(call.__name__, call, path + '/left')
        attempt('symlink', os.symlink, 'x', path + '/left')
        attempt('create', os.open, path + '/left', os.O_CREAT | os.O_WRONLY)
        attempt('tmpfile', os.open, path, os.O_TMPFILE | os.O_RDWR)
    else:
        open(path, 'rb').read(1)
    os.listdir(path) if os.path.isdir(path) else None
print(done)
"""
STATE = "import os\nfor d in ('/', '/etc', '/dev'):\n    for n in ['.'] + sorted(os.listdir(d)):\n        s = os.lstat(os.path.join(d, n)); print(d, n, s.st_mode, s.st_uid, s.st_size * (n not in ('.', 'sandbox', 'tmp', 'shm')), s.st_nlink * (n not in 'proc'), *((s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns) if n not in ('sandbox', 'tmp', 'shm', 'proc', 'null', 'zero', 'full', 'random', 'urandom') else ()))"


def test_no_file_can_be_changed_for_others(gb, nursery):
    """A template is shared: neither contents, names, modes, attributes nor times of it change."""
    before = gb.ok(STATE, env=nursery.env)
    assert "/etc passwd" in before
    assert gb.ok(WRITE, env=nursery.env) == "[]\n"
    assert gb.ok(STATE, env=nursery.env) == before


@pytest.mark.testbuild
def test_control_a_template_that_can_be_changed(gb, nurseries):
    nursery = nurseries("read-only,root-mode,landlock-fs,proc-ro")
    assert "('mkdir', ('//left',))" in gb.ok(WRITE, env=nursery.env)
    assert "/ left" in gb.ok(STATE, env=nursery.env)


def test_locks_are_a_channel_no_worse_than_elsewhere(gb, nursery):
    """Locks on files that all may read can be seen by all, on every path, since the files are the host's (SECURITY.md). They end with the box."""
    lock = "import fcntl, time\nf = open('/usr/bin/env'); g = open('/etc/passwd')\nfcntl.flock(f, 2); fcntl.flock(g, 2)\nprint('locked', flush=True); time.sleep(300)"
    look = "import fcntl\ndef free(p):\n    try: fcntl.flock(open(p), 2 | 4); return True\n    except BlockingIOError: return False\nprint(free('/usr/bin/env'), free('/etc/passwd'))"
    with running(gb, lock, nursery):
        assert gb.ok(look, env={"GLOVEBOX_TEST_PATH": "cold"}) == "False True\n"
        assert gb.ok(look, env=nursery.env) == "False False\n"
    assert gb.ok(look, env=nursery.env) == "True True\n"


# --- ends ---


def is_gone(pid):
    try:
        return status(pid, "State").startswith(("Z", "X"))
    except (OSError, TypeError):
        return True


def all_gone(box):
    return not find_processes(box.marker)


@pytest.mark.testbuild
@pytest.mark.parametrize("skip", ["", "channel-watch"])
def test_a_box_ends_with_its_supervisor_and_no_other_does(gb, nurseries, skip):
    nursery = nurseries(skip)
    with Sleeper(gb, env=nursery.env) as box, Sleeper(gb, env=nursery.env) as other:
        init = init_of(box)
        box.process.kill()
        box.process.wait()
        if not skip:
            wait_for(lambda: all_gone(box) and is_gone(init))
            assert not all_gone(other)
            gb.ok("print(1)", env=nursery.env)  # takes away the cgroup that nobody could
            assert not [d for d, _, _ in os.walk("/sys/fs/cgroup") if f"/glovebox.box-{box.process.pid}-" in d]
        else:  # the zygote, its parent, lives; so does the box
            gb.ok("print(1)", env=nursery.env)
            assert not all_gone(box)
            os.kill(init, signal.SIGKILL)
            wait_for(lambda: all_gone(box))


def test_all_boxes_end_with_their_zygote(gb, nurseries):
    nursery, others = nurseries(), nurseries()
    with Sleeper(gb, env=nursery.env) as a, Sleeper(gb, env=nursery.env) as b, Sleeper(gb, env=others.env) as c:
        os.kill(nursery.pid, signal.SIGKILL)
        wait_for(lambda: all_gone(a) and all_gone(b))
        for box in (a, b):
            assert box.process.wait(60) not in (0, 130)
        assert not all_gone(c)
    done = gb.run("-c", "print('it ran')", env=nursery.env)
    assert done.returncode == 125 and done.stdout == b"" and b"zygote" in done.stderr, done


@pytest.mark.testbuild
@pytest.mark.parametrize("skip", ["", pytest.param("zygote-death", marks=pytest.mark.executes("a Python zygote has a second thread whose wish nothing undoes"))])
def test_zygote_and_boxes_end_with_the_launcher(gb, nurseries, skip):
    """Their supervisors live on here, which those of a launcher do not: nothing but the zygote's own death ends them."""
    nursery = nurseries(skip)
    with Sleeper(gb, env=nursery.env) as box:
        nursery.process.kill()
        if skip and MODE == "root":  # an ordinary user's zygote changes no uid, so that its wish is not undone
            wait_for(lambda: nursery.process.poll() is not None)
            assert not is_gone(nursery.pid) and not all_gone(box)
        else:
            wait_for(lambda: is_gone(nursery.pid) and all_gone(box))
    wait_for(lambda: is_gone(nursery.pid) and all_gone(box))


# --- what comes to PID 1 ---

ARG, ENV, OUTPUT, NAME, DATA, PROGRAM = range(1, 7)


def item(kind, data, length=None):
    return kind.to_bytes(4, "little") + (len(data) if length is None else length).to_bytes(4, "little") + data


RUN = item(ARG, b"sh\0") + item(ARG, b"-c\0") + item(ARG, b"echo it ran; ls -A /sandbox; cat /sandbox/* /tmp/* /dev/shm/* 2>/dev/null; :\0")
EVIL = item(DATA, b"evil\n")
PAYLOADS = {
    "nothing": b"",
    "no arguments": item(NAME, b"a\0") + EVIL,
    "a length beyond the end": RUN + item(ARG, b"x\0", 100),
    "a length of all ones": RUN + item(ARG, b"x\0", 0xFFFFFFFF),
    "half a head": RUN + b"\1\0\0",
    "a name without bytes": RUN + item(NAME, b"a\0"),
    "bytes without a name": RUN + EVIL,
    "a string without an end": item(ARG, b"sh") * 3,
    "a string of no bytes": RUN + item(ENV, b""),
    "a kind that there is not": RUN + item(99, b"x\0"),
    "kind 0": RUN + item(0, b"x\0"),
    "a name that climbs": RUN + item(NAME, b"../tmp/evil\0") + EVIL,
    "a name that climbs later": RUN + item(NAME, b"a/../../tmp/evil\0") + EVIL,
    "a name that ends in a climb": RUN + item(NAME, b"a/..\0") + EVIL,
    "an absolute name": RUN + item(NAME, b"/tmp/evil\0") + EVIL,
    "no name": RUN + item(NAME, b"\0") + EVIL,
    "a directory's name": RUN + item(NAME, b"a/\0") + EVIL,
    "a name twice": RUN + (item(NAME, b"a\0") + EVIL) * 2,
    "a file where a directory was": RUN + item(NAME, b"a\0") + EVIL + item(NAME, b"a/b\0") + EVIL,
    "a name that is too long": RUN + item(NAME, b"a" * 300 + b"\0") + EVIL,
    "a path that is too long": RUN + item(NAME, b"a/" * 3000 + b"b\0") + EVIL,
    "1025 arguments": RUN + item(ARG, b"x\0") * 1022,
    "1025 variables": RUN + item(ENV, b"A=1\0") * 1025,
    "a file over the disk limit": RUN + item(NAME, b"a\0") + item(DATA, bytes(3 << 20)),
    "noise": bytes(range(256)) * 64,
}
FINE = {
    "an argument of 100 KB": item(ARG, b"sh\0") + item(ARG, b"-c\0") + item(ARG, b"echo it ran #" + b"x" * 100_000 + b"\0"),
    "1024 arguments": RUN + item(ARG, b"x\0") * 1021,
    "1024 variables": RUN + item(ENV, b"A=1\0") * 1024,
    "outputs": RUN + item(OUTPUT, b"x\0"),
    "dots": RUN + item(NAME, b"..a/...\0") + EVIL,
    "an empty file": RUN + item(NAME, b"a\0") + item(DATA, b""),
}


def send(gb, nursery, tmp_path, payload):
    (tmp_path / "payload").write_bytes(payload)
    return gb.run("--max-disk-mb", 2, "--", "true", env={**nursery.env, "GLOVEBOX_TEST_PAYLOAD": str(tmp_path / "payload")}, timeout=60)


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_bad_payload_runs_nothing(gb, nursery, tmp_path, name):
    done = send(gb, nursery, tmp_path, PAYLOADS[name])
    assert done.returncode == 125 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done


@pytest.mark.parametrize("name", FINE)
def test_control_a_good_payload_runs(gb, nursery, tmp_path, name):
    done = send(gb, nursery, tmp_path, FINE[name])
    assert done.returncode == 0 and done.stdout.startswith(b"it ran\n"), done


# --- what a box before has used ---

DISK = "import os, time\nwith open('/tmp/x', 'wb') as f:\n    for _ in range(90): f.write(bytes(1 << 20)); time.sleep(0.005)\ntime.sleep(0.2); os.unlink('/tmp/x')"
CROWD = "import os, time\nfor _ in range(8):\n    if os.fork() == 0: time.sleep(0.1); os._exit(0)\nfor _ in range(8): os.wait()\ntime.sleep(0.1)"
# Dying under a small share of a processor takes longer than a moment: the quota is lifted.
LINGER = "import os, time\nfor _ in range(8):\n    while os.fork() == 0:\n        while True: pass"


def cgroup_of(box):
    where = dict(line.split(":", 2)[1:] for line in box.read("cgroup").splitlines())
    return lambda controller, name: pathlib.Path("/sys/fs/cgroup", controller, where[controller].lstrip("/"), name).read_text().strip()


def is_as_new(gb, noise, *options, quota="100000"):
    """Looks at the cgroup of a box that comes after this noise. Returns whether it is the same one."""
    with Sleeper(gb, *options, env={"GLOVEBOX_TEST_NOISE": noise}) as box:
        read = cgroup_of(box)
        assert read("memory", "memory.limit_in_bytes") == str(281 << 20)
        assert read("cpu", "cpu.cfs_quota_us") == quota
        assert int(read("memory", "memory.max_usage_in_bytes")) < 32 << 20
        assert int(read("cpuacct", "cpuacct.usage")) < 100_000_000
        return int(read("pids", "pids.peak")) > 7


V1 = pathlib.Path("/sys/fs/cgroup/memory").exists()  # on v2 no cgroup is used again


@pytest.mark.pooled
def test_a_used_cgroup_is_as_new(gb):
    if V1:
        wait_for(lambda: is_as_new(gb, CROWD))  # not if the kernel still counts what was the crowd's
        wait_for(lambda: is_as_new(gb, DISK + "\n" + CROWD))
        wait_for(lambda: gb.python("0", env={"GLOVEBOX_TEST_NOISE": CROWD})["resource_usage"]["pids_peak"] is None)


@pytest.mark.pooled
def test_the_cgroup_of_a_box_that_lingered_is_not_used_again(gb):
    if V1:
        wait_for(lambda: not is_as_new(gb, LINGER, "--max-cpu-percent", "10", "--timeout-seconds", "60", quota="10000"))  # unless it was quick, for once


@pytest.mark.pooled
def test_the_cgroup_of_a_box_that_was_killed_is_not_used_again(gb):
    with Sleeper(gb, env={"GLOVEBOX_TEST_NOISE": CROWD + "\nx = []\nwhile True: x.append(bytes(1 << 20))"}) as box:
        if V1:
            assert int(cgroup_of(box)("pids", "pids.peak")) < 7
            assert cgroup_of(box)("cpu", "cpu.cfs_quota_us") == "100000"
