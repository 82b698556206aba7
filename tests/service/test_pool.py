"""Boxes that wait for calls: a call gets one that is its own, with its limits, and the service is none the worse for the death of any process."""

import concurrent.futures
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import shutil
import signal
import termios
import threading
import time

import pytest

import api
import conftest
from api import call, problem
from conftest import PATIENCE, cgroup_dirs, wait_for

MODE = os.environ.get("GB_MODE", "root" if os.geteuid() == 0 else "user")
CGROUPS = not (MODE == "user" and not os.environ.get("GLOVEBOX_CGROUP_PARENT"))
HAS_NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
SMALL = {"boxes": {"running": 4}, "pool": {"low": 1, "high": 4}}
ONE = {"boxes": {"running": 1}, "pool": {"low": 1, "high": 1}}
SH = {"language": "sh"}


def run(s, code, **fields):
    return s.execute(code, path="/v1/execute", **fields)


def start_of(result):
    return result["enforced"]["start"]


def waiting(s, kind):
    return len(s.pool()["waits"].get(kind, []))


def wait_waiting(s, **least):
    """Until so many boxes of each kind wait, and none is being built."""
    wait_for(lambda: f"{least} to wait: {s.pool()}; log:\n{s.log()[-3000:]}", lambda: all(waiting(s, kind) >= n for kind, n in least.items()) and not s.pool()["builds"])


def wait_start(s, start, code, **fields):
    """Calls until a call is served so, and returns that. A box that was just used takes a moment to be followed by another."""

    def served():
        result = run(s, code, **fields)
        return start_of(result) == start and result

    return wait_for(lambda: f"a call that is served {start}; {s.pool()}; log:\n{s.log()[-3000:]}", served)


@pytest.fixture(scope="module")
def pooled(service):
    """Without screening: scripts here do what is looked for."""
    with api.running(service, SMALL | {"screen": "off"}) as s:
        wait_waiting(s, plain=1, python=1)
        yield s


# --- who serves a call ---

STAY = {"python": "import time\nprint('on', flush=True)\ntime.sleep(600)", "sh": "echo on; sleep 600", "bash": "echo on; sleep 600"}
KINDS = {"python": "python", "sh": "plain", "bash": "plain"}


@pytest.mark.parametrize("language", KINDS)
def test_a_call_is_served_by_a_box_that_waited(pooled, language):
    """By one that was there before the call came, with its keeper and its PID 1."""
    wait_waiting(pooled, **{KINDS[language]: 1})
    before = pooled.pool()
    with api.Stream(pooled, STAY[language], language=language) as stream:
        assert stream.until("stdout")["text"] == "on\n"
        (keeper,) = pooled.pool()["calls"]
        assert keeper in before["waits"][KINDS[language]]
        assert set(before["boxes"]) & set(pooled.pool()["boxes"])
    pooled.wait_calm()
    assert start_of(wait_start(pooled, "waiting", "exit" if language != "python" else "pass", language=language)) == "waiting"


def test_metrics_tell_where_boxes_came_from(start_service):
    s = start_service(SMALL)
    wait_start(s, "waiting", "print(1)")
    wait_start(s, "built", "print(1)", limits={"max_memory_mb": 99})
    starts = lambda: {start: api.metrics(s)["glovebox_sandbox_starts_total", f'start="{start}"'] for start in ("waiting", "built", "cold")}  # noqa: E731
    before = starts()
    assert before["waiting"] >= 1 and before["built"] >= 1
    assert run(s, "import os\nprint(1)", env={"A": "b"})["success"] and run(s, "x = '", **SH)["status"] == "error"
    assert sum(starts().values()) == sum(before.values()) + 2
    assert s.request("GET", "/readyz").status == 200
    problem(s.request("POST", "/v1/execute", {"code": 1}), 422, "invalid_request")
    assert sum(starts().values()) == sum(before.values()) + 2, "neither a probe nor a refusal is a call's box"


def test_commands_and_tools_too(pooled):
    wait_waiting(pooled, plain=1)
    reply = pooled.request("POST", "/v1/tools/execute_command/call", {"arguments": {"command": "echo hello"}})
    assert reply.status == 200 and reply.json()["stdout"] == "hello\n" and start_of(reply.json()) == "waiting"


@pytest.mark.skipif(not HAS_NODE, reason="there is no node")
def test_node_waits_after_its_first_call(start_service):
    s = start_service(SMALL)
    wait_waiting(s, plain=1, python=1)
    assert waiting(s, "node") == 0, "nobody has asked for it: it would take memory"
    assert run(s, "console.log(6 * 7)", language="node")["stdout"] == "42\n"
    wait_waiting(s, node=1)
    result = wait_start(s, "waiting", "console.log(process.argv.length, require('fs').readdirSync('.').length)", language="node", args=["a"])
    assert result["stdout"] == "3 1\n", result


@pytest.mark.skipif(not HAS_NODE, reason="there is no node")
@pytest.mark.parametrize("kind", ["module", "commonjs", None])
def test_a_package_of_the_call_is_seen_by_a_node_that_waited(start_service, kind):
    """By itself: a process that had begun anew would have another id than the first of its box."""
    s = start_service(SMALL)
    run(s, "0", language="node")
    wait_waiting(s, node=1)
    code = "console.log(typeof require, process.cwd(), process.pid); import('./own.js').then((m) => console.log(m.x ?? m.default.x))"
    own = "export const x = 5" if kind == "module" else "exports.x = 5"
    files = [{"name": "own.js", "text": own}] + ([{"name": "package.json", "text": json.dumps({"type": kind})}] if kind else [])
    result = wait_start(s, "waiting", code, language="node", files=files)
    assert result["stdout"] == f"{'undefined' if kind == 'module' else 'function'} /sandbox 2\n5\n"


def test_all_that_a_call_can_bring_and_take(pooled):
    code = "import json, os, sys\nprint(sys.stdin.read(), sys.argv[1:], os.environ['A'], open('d/in').read())\nprint('e', file=sys.stderr)\nopen('out.txt', 'w').write('new')\nsys.exit(3)"
    for _ in range(5):
        result = run(pooled, code, stdin="in", args=["x", "y z"], env={"A": "b c"}, files=[{"name": "d/in", "text": "file"}], outputs=["*.txt"])
        assert (result["stdout"], result["stderr"], result["exit_code"]) == ("in ['x', 'y z'] b c file\n", "e\n", 3), result
        assert result["files"] == [{"name": "out.txt", "bytes": 3, "text": "new"}]


def test_what_an_interpreter_reads_at_its_start_is_read(pooled):
    """A variable that a warm interpreter could not heed gets one that has yet to start."""
    result = run(pooled, "import time\nprint(time.strftime('%z', time.localtime(0)))", env={"TZ": "Asia/Kolkata"})
    assert result["stdout"] == "+0530\n"
    result = run(pooled, "import sys\nprint(sys.flags.hash_randomization, hash('a') == hash('a'))", env={"PYTHONHASHSEED": "0"})
    assert result["stdout"] == "0 True\n"


def test_screening_in_a_box_that_waited(service):
    wait_waiting(service, python=1)
    result = wait_start(service, "waiting", "import os\nprint('ran')\nos.system('id')")
    assert result["status"] == "blocked" and result["stdout"] == "" and result["screen"]["findings"][0]["line"] == 3
    result = wait_start(service, "waiting", "import math as m\nprint(1)", allowed_modules=["json"])
    assert result["status"] == "error" and "math" in result["stderr"], result
    result = wait_start(service, "waiting", "print(1)")
    assert result["stdout"] == "1\n" and result["screen"]["findings"] == []


# --- one box, one call ---

LEAVE = """
import ctypes, os, sys, mmap, builtins
name = 'left-by-the-call'
found = []
for path in ('/sandbox/' + name, '/tmp/' + name, '/dev/shm/' + name):
    if os.path.exists(path):
        found.append(path)
    try:
        open(path, 'w').write(name)
    except OSError:
        pass
libc = ctypes.CDLL(None)
if libc.shmget(0x6c65, 4096, 0o600) >= 0:
    found.append('shared memory')
libc.shmget(0x6c65, 4096, 0o1600)
if hasattr(builtins, name) or name in sys.modules or 'LEFT' in os.environ:
    found.append('the interpreter')
setattr(builtins, name, 1)
sys.modules[name] = sys
os.environ['LEFT'] = '1'
others = [p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]
if others:
    found.append('processes ' + ' '.join(others))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        import time
        time.sleep(600)
    os._exit(0)
os.umask(0)
print(found, os.getpid(), sorted(os.listdir('/sandbox')))
"""


def test_nothing_of_a_call_is_there_for_the_next(start_service):
    """One box at a time, and one keeper: each call comes right after another in what that has."""
    s = start_service(ONE | {"screen": "off"})
    wait_waiting(s, python=1)
    starts, uids = [], set()
    for _ in range(12):
        result = run(s, LEAVE)
        assert result["success"], result
        found, _, rest = result["stdout"].partition("] ")
        assert found == "[" and rest.endswith("['left-by-the-call', 'main.py']\n"), result["stdout"]
        assert result["resource_usage"]["disk_bytes"] < 65536
        starts.append(start_of(result))
        uids.add(result["enforced"]["host_uid"])
        wait_for("a box", lambda: s.is_calm() and waiting(s, "python"))
    assert starts.count("waiting") >= 10, starts


NAMESPACES = "import os, json\nprint(json.dumps({n: os.readlink('/proc/self/ns/' + n) for n in os.listdir('/proc/self/ns')}), flush=True)\nimport time\ntime.sleep(600)"


def test_boxes_of_one_zygote_share_no_namespace_uid_or_cgroup(start_service):
    s = start_service({"boxes": {"running": 4}, "pool": {"low": 4, "high": 4}, "screen": "off"})
    wait_waiting(s, python=4)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(api.Stream(s, NAMESPACES)) for _ in range(4)]
        seen = [json.loads(stream.until("stdout")["text"]) for stream in streams]
        for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
            assert len({spaces[name] for spaces in seen}) == 4, (name, [spaces[name] for spaces in seen])
        pool = s.pool()
        assert len(pool["calls"]) == 4
        if MODE == "root":
            uids = [os.stat(f"/proc/{pid}").st_uid for pid in pool["boxes"]]
            assert len(set(uids)) == len(uids)
        if CGROUPS:
            paths = [pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in pool["boxes"]]
            assert len(set(paths)) == len(paths)
            usage = [sum(1 for d in cgroup_dirs(s.cgroup)[:1] for c in d.iterdir() if c.is_dir() and str(pid) in (c / "cgroup.procs").read_text().split()) for pid in pool["boxes"]]
            assert usage == [1] * len(usage), "each is in one cgroup of its own"


def test_usage_is_of_the_call_alone(start_service):
    """A greedy call before it, in the same keeper, leaves no trace in what is counted."""
    s = start_service(ONE | {"screen": "off"})
    for _ in range(3):
        greedy = run(s, "x = bytearray(100 << 20)\nopen('f', 'wb').write(bytes(20 << 20))\nfor i in range(3000000): pass")
        assert greedy["resource_usage"]["memory_peak_mb"] > 90 and greedy["resource_usage"]["disk_bytes"] > 20 << 20
        wait_for("a box", lambda: s.is_calm() and waiting(s, "python"))
        modest = run(s, "pass")["resource_usage"]
        assert modest["memory_peak_mb"] < 40 and modest["disk_bytes"] < 65536 and modest["cpu_ms"] < greedy["resource_usage"]["cpu_ms"], modest
        wait_for("a box", lambda: s.is_calm() and waiting(s, "python"))


# --- limits ---

LIMITS = {
    "max_memory_mb": (40, "x = bytearray(80 << 20)\nprint('had it')", lambda r: r["status"] == "resource_exceeded" and r["kill_reason"] == "memory"),
    "max_pids": (
        5,
        "import os, time\nn = 0\ntry:\n    while n < 50:\n        if os.fork() == 0:\n            time.sleep(60)\n        n += 1\nexcept BlockingIOError:\n    pass\nprint(n)",
        lambda r: r["stdout"] == "4\n",
    ),
    "max_disk_mb": (
        3,
        "n = 0\ntry:\n    f = open('f', 'wb', 0)\n    while n < 50:\n        f.write(bytes(1 << 18))\n        n += 1\nexcept OSError as e:\n    print(e.errno, n <= 12)",
        lambda r: r["stdout"] == "28 True\n",
    ),
    "max_open_files": (
        40,
        "import resource\nfiles = []\ntry:\n    while len(files) < 300:\n        files.append(open('/dev/null'))\nexcept OSError as e:\n    n, e = len(files), e.errno\n    files.clear()\n    print(e, n, resource.getrlimit(resource.RLIMIT_NOFILE))",
        lambda r: r["stdout"] == "24 37 (40, 40)\n",
    ),
    "max_cpu_seconds": (1, "while True: pass", lambda r: r["kill_reason"] == "cpu" and 900 < r["resource_usage"]["cpu_ms"] < 5000),
    "max_cpu_percent": (30, "import time\nprint('on', flush=True)\ntime.sleep(1)", lambda r: r["success"]),
}


@pytest.mark.skipif(not CGROUPS, reason="limits of a box need a cgroup")
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("warm", [True, False])
def test_a_call_has_its_own_limits(pooled, name, warm):
    """Others than the profile's: no box that waits has them, and none that has other ones is taken. The same whether or not a zygote bears it."""
    value, code, holds = LIMITS[name]
    wait_waiting(pooled, python=1, plain=1)
    result = run(pooled, code, limits={name: value}, **({} if warm else {"env": {"TZ": "UTC"}}))
    assert holds(result), result
    assert result["enforced"]["limits"][name] == value and start_of(result) == "built", result
    result = run(pooled, "print(1)")
    assert result["stdout"] == "1\n" and result["enforced"]["limits"][name] != value


def test_little_memory_is_kept_away_from_zygotes(start_service):
    """A box shares its zygote's while it sets itself up: what ends the one could end the other."""
    s = start_service(ONE | {"profiles": {"small": {"limits": {"max_memory_mb": 15}}}, "tools": [{"name": "execute_code", "code": {}}, {"name": "little", "code": {}, "profile": "small"}]})
    wait_waiting(s, plain=1, python=1)
    assert run(s, "echo 1", **SH, limits={"max_memory_mb": 15})["enforced"]["start"] == "cold"
    assert run(s, "echo 1", **SH, limits={"max_memory_mb": 16})["enforced"]["start"] == "built"
    assert len(s.pool()["zygotes"]) == 2


@pytest.mark.skipif(not CGROUPS, reason="without cgroups there is no share of cpu")
def test_the_share_of_cpu_is_the_boxes_own(pooled):
    with api.Stream(pooled, api.FOREVER, limits={"max_cpu_percent": 30}) as stream:
        stream.until("stdout")
        (keeper,) = pooled.pool()["calls"]
        quotas = set()
        for directory in cgroup_dirs(pooled.cgroup):
            for child in directory.glob(f"glovebox.box-{keeper}-*"):
                for file in ("cpu.cfs_quota_us", "cpu.max"):
                    if (child / file).exists():
                        quotas.add(int((child / file).read_text().split()[0]))
        assert quotas == {30000}
    pooled.wait_calm()


def test_time_and_output_need_no_box_of_their_own(pooled):
    result = wait_start(pooled, "waiting", "import time\ntime.sleep(600)", limits={"timeout_seconds": 0.5})
    assert result["status"] == "timeout" and result["enforced"]["limits"]["timeout_seconds"] == 0.5
    result = wait_start(pooled, "waiting", "print('x' * 5000)", limits={"max_output_bytes": 100})
    assert len(result["stdout"]) == 100 and result["truncated"] and result["enforced"]["limits"]["max_output_bytes"] == 100
    result = wait_start(pooled, "waiting", "echo 0123456789", language="sh", limits={"max_output_bytes": 5, "timeout_seconds": 7})
    assert result["stdout"] == "01234" and result["enforced"]["limits"]["timeout_seconds"] == 7


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.rootonly  # who puts a process into the cgroup of a box
def test_what_was_used_before_the_call_is_not_the_calls(start_service):
    """Somebody burns a second and a half in the cgroup of a box that waits; the call may use one, and uses a third."""
    s = start_service(ONE | {"limits": {"max_cpu_seconds": 1}})
    wait_waiting(s, python=1)
    (keeper,) = s.pool()["waits"]["python"]
    box = next(child for d in cgroup_dirs(s.cgroup)[-1:] for child in d.glob(f"glovebox.box-{keeper}-*") if (child / "cgroup.procs").read_text())
    pid = os.fork()
    if pid == 0:
        (box / "cgroup.procs").write_text(str(os.getpid()))
        burn(1.5)
        os._exit(0)
    os.waitpid(pid, 0)
    result = run(s, "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(0.2)\nprint(1)")
    assert result["success"] and start_of(result) == "waiting" and 250 < result["resource_usage"]["cpu_ms"] < 1000, result


# --- profiles ---


def tools(**profiles):
    return {"profiles": {"default": {}, **profiles}, "tools": [{"name": name, "code": {"language": "python"}, "profile": name} for name in profiles]}


def call_tool(s, name, code, **fields):
    reply = s.request("POST", f"/v1/tools/{name}/call", {"arguments": {"code": code}, **fields})
    assert reply.status == 200, (reply, s.log()[-3000:])
    return reply.json()


def test_each_profile_has_its_own_interpreter(start_service):
    s = start_service(SMALL | tools(bare={}, loaded={"python": {"preload": ["fractions", "xml.dom.minidom"]}}, named={"python": {"program": "/usr/bin/python3"}}))
    code = "import sys\nprint([m in sys.modules for m in ('fractions', 'xml.dom.minidom')], sys.orig_argv[0])"
    expected = {"bare": "[False, False] python3\n", "loaded": "[True, True] python3\n", "named": "[False, False] /usr/bin/python3\n"}
    for name, said in expected.items():
        wait_for(name, lambda name=name, said=said: (r := call_tool(s, name, code))["stdout"] == said and start_of(r) == "waiting")
    assert len(s.pool()["zygotes"]) == 3  # and nobody could call anything but Python


def test_modules_that_end_the_interpreter(start_service):
    """By exit or by what they do to it: calls are served from nothing."""
    s = start_service(SMALL | tools(odd={"python": {"preload": ["unittest.__main__"]}}))
    for _ in range(5):
        assert call_tool(s, "odd", "print(6 * 7)")["stdout"] == "42\n"


def test_a_module_that_cannot_be_preloaded(start_service):
    """Said once for each try, with its name; calls are served all the same; the tries become rare."""
    s = start_service(SMALL | tools(odd={"python": {"preload": ["no_such_module_anywhere"]}}))
    for _ in range(5):
        result = call_tool(s, "odd", "print(6 * 7)")
        assert result["stdout"] == "42\n"
    wait_for("its name in the log", lambda: "no_such_module_anywhere" in s.log())
    before = s.log().count("no_such_module_anywhere")
    time.sleep(3)
    for _ in range(5):
        assert call_tool(s, "odd", "print(6 * 7)")["stdout"] == "42\n"
    assert s.log().count("no_such_module_anywhere") - before <= 12, "it is not tried all the time"


def test_an_interpreter_that_is_not_there(start_service):
    s = start_service(SMALL | tools(there={}, absent={"python": {"program": "/usr/bin/nopython"}}))
    for _ in range(4):
        problem(s.request("POST", "/v1/tools/absent/call", {"arguments": {"code": "print(1)"}}), 422, "runtime_missing", "/usr/bin/nopython")
    assert call_tool(s, "there", "print(1)")["stdout"] == "1\n"


# --- how many ---


def test_marks(start_service):
    s = start_service({"boxes": {"running": 16}, "pool": {"low": 2, "high": 5, "idle_seconds": 1}})
    wait_for("two of each", lambda: s.pool()["waits"].keys() == {"plain", "python"} and all(len(v) == 2 for v in s.pool()["waits"].values()))
    most = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            most.append({kind: len(found) for kind, found in s.pool()["waits"].items()} | {"boxes": len(s.pool()["boxes"])})

    watcher = threading.Thread(target=watch)
    watcher.start()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        starts = [start_of(r) for r in pool.map(lambda _: run(s, "import time\ntime.sleep(0.05)"), range(120))]
    grown = wait_for("more to wait", lambda: waiting(s, "python") > 2)
    done.set()
    watcher.join()
    assert "waiting" in starts and "cold" not in starts, starts
    assert max(m.get("python", 0) for m in most) <= 5 + 16 and grown
    assert max(m["boxes"] for m in most) <= (5 + 16) * 2 + 4
    wait_for(lambda: f"low again: {s.pool()}", lambda: s.is_calm() and {kind: len(v) for kind, v in s.pool()["waits"].items()} == {"plain": 2, "python": 2})


def test_boxes_built_for_nobody_do_not_stay(start_service):
    """Calls with odd limits that are given up at once: what was built for them goes."""
    s = start_service({"boxes": {"running": 8}, "pool": {"low": 1, "high": 2, "idle_seconds": 0.5}})
    wait_waiting(s, plain=1, python=1)
    for i in range(30):
        with api.wire(s) as w:
            w.send(api.request_bytes("POST", "/v1/execute", {"code": "print(1)", "limits": {"max_memory_mb": 100 + i}}))
            time.sleep(0.002 * (i % 4))
    wait_for(lambda: f"low again: {s.pool()}", lambda: s.is_calm() and {kind: len(v) for kind, v in s.pool()["waits"].items()} == {"plain": 1, "python": 1})
    wait_for(lambda: f"no stray cgroups: {s.stray_cgroups()}", lambda: not s.stray_cgroups())
    assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"


def test_without_pools(start_service):
    s = start_service({"pool": {"high": 0}})
    for fields in ({}, SH, {"env": {"TZ": "UTC"}}, {"limits": {"max_memory_mb": 100}}):
        result = run(s, "print(1)" if "language" not in fields else "echo 1", **fields)
        assert result["stdout"] == "1\n" and start_of(result) == "cold"
    assert s.pool()["zygotes"] == [] and s.pool()["waits"] == {}
    s.reload(SMALL)
    wait_waiting(s, plain=1, python=1)
    s.reload({"pool": {"high": 0}})
    wait_for(lambda: f"none to wait: {s.pool()}", lambda: not s.pool()["waits"] and not s.pool()["zygotes"] and not s.pool()["boxes"])
    assert start_of(run(s, "print(1)")) == "cold"


def test_a_hundred_at_once(start_service):
    s = start_service()
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        results = list(pool.map(lambda i: run(s, f"print({i})"), range(100)))
    assert [r["stdout"] for r in results] == [f"{i}\n" for i in range(100)]


def test_receipts_are_of_their_own_call(start_service):
    """A keeper knows the last one by heart; that must not be the next one's, if that has other limits."""
    s = start_service(ONE)
    seen = {}
    for seconds in (5, 7, 5, 5, 7, 9):
        wait_for("a box", lambda: s.is_calm() and waiting(s, "python"))
        enforced = run(s, "print(1)", limits={"timeout_seconds": seconds})["enforced"]
        assert enforced["limits"]["timeout_seconds"] == seconds
        assert seen.setdefault(seconds, enforced["policy_hash"]) == enforced["policy_hash"]
    assert len(set(seen.values())) == 3


# --- zygotes ---


def test_a_zygote_is_replaced(start_service):
    s = start_service({"boxes": {"running": 2}, "pool": {"low": 1, "high": 2, "zygote_boxes": 5, "idle_seconds": 0.5}})
    wait_waiting(s, plain=1, python=1)
    first = set(s.pool()["zygotes"])
    seen = set(first)
    for i in range(60):
        assert run(s, f"print({i})")["stdout"] == f"{i}\n"
        assert run(s, f"echo {i}", **SH)["stdout"] == f"{i}\n"
        seen |= set(s.pool()["zygotes"])
        if i % 10 == 9:
            time.sleep(0.15)
    assert len(seen) >= 6, "others came"

    def replaced():
        """A box that waits keeps its zygote: one call later that is gone, too."""
        run(s, "print(1)")
        run(s, "echo 1", **SH)
        return not first & set(s.pool()["zygotes"]) and len(s.pool()["zygotes"]) <= 6

    wait_for(lambda: f"the first ones to be gone: {first}, {s.pool()}", replaced)


# --- deaths ---


def interpreter_of(pid):
    """The process that waits in the box of this PID 1."""
    children = [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children[0] if children else None


def victims(s, name):
    pool = s.pool()
    by_python = {z: "python" in pathlib.Path(f"/proc/{z}/cmdline").read_bytes().decode().split("\0")[0].rpartition("/")[2] for z in pool["zygotes"]}
    parents = {pid: conftest.stat_of(pid)[2] for pid in pool["boxes"] + pool["cradles"]}
    python_cradles = [pid for pid in pool["cradles"] if by_python.get(parents[pid])]
    python_boxes = [pid for pid in pool["boxes"] if parents[pid] in python_cradles]
    plain_boxes = [pid for pid in pool["boxes"] if parents[pid] not in python_cradles]
    return {
        "pid 1 of a python box": lambda: python_boxes,
        "pid 1 of a plain box": lambda: plain_boxes,
        "an interpreter that waits": lambda: [interpreter_of(pid) for pid in python_boxes],
        "cradles of python": lambda: python_cradles,
        "keepers that wait": lambda: [pid for found in pool["waits"].values() for pid in found],
        "the zygote of python": lambda: [z for z, python in by_python.items() if python],
        "the zygote of all else": lambda: [z for z, python in by_python.items() if not python],
    }[name]()


@pytest.mark.parametrize("name", ["pid 1 of a python box", "pid 1 of a plain box", "an interpreter that waits", "cradles of python", "keepers that wait", "the zygote of python", "the zygote of all else"])
def test_what_waits_is_killed(start_service, name):
    """Calls that come in the same moment, and later ones, are served; others wait again; nothing is left of the dead."""
    s = start_service(SMALL)
    for round_ in range(2):
        wait_waiting(s, plain=1, python=1)
        dead = {pid: conftest.stat_of(pid)[3] for pid in victims(s, name)}
        assert dead
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        answers = []
        for fields in ({}, SH, {}, SH):
            reply = s.request("POST", "/v1/execute", call("print(1)", **fields) if not fields else call("echo 1", **fields))
            answers.append((reply.status, reply.json().get("status"), reply.json().get("stdout")))
        # One that was handed over in the very moment of the kill has had a box, or a keeper, that was killed: it says so.
        assert all(a == (200, "success", "1\n") or a[1] in ("internal_error", "error", 500) for a in answers) and answers[-1][:2] == (200, "success"), (answers, s.log()[-3000:])
        wait_for("the end of the dead", lambda dead=dead: not [pid for pid, began in dead.items() if conftest.alive(pid, began)])
        wait_waiting(s, plain=1, python=1)
        s.wait_calm()
        wait_for(lambda: f"no stray cgroups: {s.stray_cgroups()}", lambda: not s.stray_cgroups())
        assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"
        assert start_of(wait_start(s, "waiting", "true", **SH)) == "waiting"
        del round_


def test_a_zygote_that_hangs_holds_nobody_up_for_long(start_service):
    s = start_service(ONE | {"boxes": {"running": 4}})
    wait_waiting(s, plain=1, python=1)
    stopped = victims(s, "the zygote of python") + victims(s, "cradles of python")
    for pid in stopped:
        conftest.stop(pid)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: run(s, f"print({i})"), range(4)))
    assert [r["stdout"] for r in results] == ["0\n", "1\n", "2\n", "3\n"]
    assert "cold" in map(start_of, results), "they were built from nothing after a while"
    assert run(s, "echo 1", **SH)["stdout"] == "1\n"
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"


@pytest.mark.testbuild
def test_a_zygote_that_never_comes_back_is_replaced(start_service):
    """A cradle sleeps while a box sets itself up; if that never ends, only an end of all helps."""
    s = start_service(ONE | {"boxes": {"running": 4}}, env={"GLOVEBOX_TEST_SETUP_MS": "1000"})
    wait_waiting(s, plain=1, python=1)
    stuck = victims(s, "the zygote of python")
    for pid in victims(s, "cradles of python"):
        conftest.stop(pid)
    assert [run(s, f"print({i})")["stdout"] for i in range(3)] == ["0\n", "1\n", "2\n"]
    wait_for(lambda: f"another zygote: {s.pool()}", lambda: len(s.pool()["zygotes"]) == 2 and not set(stuck) & set(s.pool()["zygotes"]))
    assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", ["pid 1 of a python box", "pid 1 of a plain box"])
def test_a_box_ends_before_it_takes_its_call(start_service, name, streamed):
    """Nothing of the call was in it: another box has the call, with all that belongs to it."""
    s = start_service(ONE)
    wait_waiting(s, plain=1, python=1)
    (box,) = victims(s, name)
    code, fields = ("print(input() + 'end')", {}) if "python" in name else ("cat; echo end", SH)
    text = "input " * 1000
    conftest.stop(box)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(api.events if streamed else run, s, code, stdin=text, **fields)
        s.wait_call()
        time.sleep(0.2)
        os.kill(box, signal.SIGKILL)
        answer = answer.result(PATIENCE)
    result = answer[-1]["result"] if streamed else answer
    assert (result["status"], result["stdout"], start_of(result)) == ("success", text + "end\n", "cold")
    assert not streamed or "".join(e["text"] for e in answer if e["type"] == "stdout") == text + "end\n"
    wait_waiting(s, plain=1, python=1)


@pytest.mark.rootonly  # who else could write to a box's pipes
def test_what_a_box_said_before_its_call_is_not_the_calls(start_service):
    """Nobody could tell it from what the next box says: so there is no answer but that."""
    s = start_service(ONE)
    wait_waiting(s, plain=1, python=1)
    (box,) = victims(s, "pid 1 of a python box")
    conftest.stop(box)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(s.request, "POST", "/v1/execute", call("print(1)"))
        s.wait_call()
        with open(f"/proc/{box}/fd/2", "r+b", buffering=0) as pipe:
            pipe.write(b"early words\n")
            wait_for("the front to read them", lambda: fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4))
        os.kill(box, signal.SIGKILL)
        reply = answer.result(PATIENCE)
    assert reply.status == 500 and b"early" not in reply.body, reply
    assert run(s, "print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("name", ["its keeper", "pid 1 of its box", "its interpreter", "its cradle", "its zygote", "the launcher"])
def test_what_serves_is_killed(start_service, name):
    """The caller hears of it, the place is free again, and nothing is left."""
    s = start_service(ONE)
    wait_waiting(s, python=1)
    family, before = s.family(), s.pids()
    answer = {}

    def calling():
        try:
            answer["reply"] = s.request("POST", "/v1/execute", call(api.FOREVER))
        except (OSError, http.client.HTTPException) as e:
            answer["error"] = e

    caller = threading.Thread(target=calling)
    boxes = set(s.pool()["boxes"])
    caller.start()
    s.wait_call()
    pool = s.pool()
    (keeper,) = pool["calls"]
    python = [pid for pid in pool["boxes"] if pid in boxes and interpreter_of(pid)]
    target = {
        "its keeper": lambda: keeper,
        "pid 1 of its box": lambda: python[0],
        "its interpreter": lambda: interpreter_of(python[0]),
        "its cradle": lambda: conftest.stat_of(python[0])[2],
        "its zygote": lambda: conftest.stat_of(conftest.stat_of(python[0])[2])[2],
        "the launcher": lambda: before["launch"],
    }[name]()
    wait_for("the program to run", lambda: (pathlib.Path(f"/proc/{interpreter_of(python[0]) or 0}/wchan").exists()))
    time.sleep(0.2)
    os.kill(target, signal.SIGKILL)
    caller.join(PATIENCE)
    assert not caller.is_alive()
    if name == "its zygote":  # only then is it certain that all that it bore is dead, and no call comes to it
        wait_for("its end", lambda: not conftest.alive(target, family[target]))
    if name == "the launcher":
        s.wait_children(but=before.values())
        s.wait_healthy()
    else:
        reply = answer["reply"]
        assert (reply.status, reply.json().get("status")) in [(200, "internal_error"), (200, "error"), (500, 500)], (reply, s.log()[-3000:])
        assert name != "its interpreter" or reply.json()["signal"] == 9
    assert run(s, "print(1)")["stdout"] == "1\n"
    wait_waiting(s, plain=1, python=1)
    s.wait_calm()
    wait_for(lambda: f"no stray cgroups: {s.stray_cgroups()}", lambda: not s.stray_cgroups())
    gone = {pid: began for pid, began in family.items() if pid in (keeper, target)}
    wait_for("the end of the dead", lambda: not [pid for pid, began in gone.items() if pid == target and conftest.alive(pid, began)])
    assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"


def test_many_deaths_are_one_reason_to_wait(start_service):
    """With a zygote eight boxes end: the next tries follow soon, and not after eight times as long."""
    s = start_service({"boxes": {"running": 8}, "pool": {"low": 8, "high": 8}})
    for _ in range(3):
        wait_waiting(s, plain=8, python=8)
        dead = s.pool()["zygotes"]
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        wait_for("others", lambda dead=dead: len(s.pool()["zygotes"]) == 2 and not set(dead) & set(s.pool()["zygotes"]))
        began = time.monotonic()
        wait_waiting(s, plain=8, python=8)
        assert time.monotonic() - began < 25  # by eight failures in a row, each twice as long as the last, it would have been more
    assert start_of(wait_start(s, "waiting", "print(1)")) == "waiting"


# --- reload and stop ---


def test_a_reload_replaces_what_waits(start_service):
    """Boxes of before are gone, a call under way ends as it began, and the next has the new limits and modules."""
    s = start_service(SMALL | tools(odd={}))
    wait_waiting(s, python=1)
    with api.Stream(s, "import time\nprint('on', flush=True)\ntime.sleep(3)\nprint('off')", tool_name="odd") as stream:
        assert stream.until("stdout")["text"] == "on\n"
        old = s.pool()
        s.reload(SMALL | {"limits": {"max_pids": 20}} | tools(odd={"python": {"preload": ["fractions"]}}))
        s.wait_log("new configuration in use")
        code = "import sys\nprint('fractions' in sys.modules)"
        served = wait_for("the new modules", lambda: (r := call_tool(s, "odd", code))["stdout"] == "True\n" and start_of(r) == "waiting" and r)
        assert served["enforced"]["limits"]["max_pids"] == 20
        events = list(stream)
        assert events[0]["text"] == "off\n" and events[-1]["result"]["success"] and events[-1]["result"]["enforced"]["limits"]["max_pids"] == 64
    left = lambda: [pid for pid in [*old["zygotes"], *old["boxes"], *old["calls"], *sum(old["waits"].values(), [])] if pid in s.family()]  # noqa: E731
    wait_for(lambda: f"what waited before to be gone: {left()}", lambda: not left())


def test_reloads_under_load(start_service):
    """Each throws away what waits; no call is lost by it."""
    s = start_service(SMALL)
    done = threading.Event()
    results = []

    def calling(language):
        while not done.is_set():
            results.append(run(s, "print(1)" if language == "python" else "echo 1", language=language)["stdout"])

    threads = [threading.Thread(target=calling, args=(language,)) for language in ("python", "sh", "python")]
    for thread in threads:
        thread.start()
    for n in range(10):
        s.reload(SMALL | {"boxes": {"running": 4 + n % 2}})
        s.wait_log("new configuration in use", n + 1)
        time.sleep(0.05)
    done.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(results) > 20 and set(results) == {"1\n"}, s.log()[-3000:]
    wait_waiting(s, plain=1, python=1)
    s.wait_calm()
    wait_for(lambda: f"two zygotes: {s.pool()}", lambda: len(s.pool()["zygotes"]) == 2)
    wait_for(lambda: f"no stray cgroups: {s.stray_cgroups()}", lambda: not s.stray_cgroups())


def test_a_stop_leaves_nothing(start_service):
    s = start_service({"boxes": {"running": 16}, "pool": {"low": 10, "high": 16}})
    wait_waiting(s, plain=10, python=10)
    family = s.family()
    began = time.monotonic()
    assert s.stop() == 0
    assert time.monotonic() - began < 30
    s.check_gone(family)
    assert not [line for line in s.log_lines() if line["level"] in ("warn", "error")], s.log()
