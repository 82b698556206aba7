"""A warm Python against a native one: the same scripts, byte for byte the same outcome; what is known to differ, and that exactly.

Without boxes: the zygote has the stand-in for its extension module (warm_python.c), whose children are plain processes. What is beneath a script
(beneath.c) and the whole bootstrap are those that boxes have.
"""

import ast
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import screen_table
import test_screen
import warm
import warm_table as table

pytestmark = pytest.mark.rootonly  # it is the same whoever does it
SYSTEM = "/usr/bin/python3"
OTHERS = [str(path) for path in sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))]


@functools.lru_cache(None)
def facts(python):
    """Version, and the modules that this interpreter has from the start."""
    text = "import sys, json; print(json.dumps([list(sys.version_info[:2]), sorted(sys.modules)]))"
    version, modules = json.loads(subprocess.run([python, "-c", text], capture_output=True, check=True, timeout=60).stdout)
    return tuple(version), modules


PYTHONS = [SYSTEM] + [python for python in OTHERS if facts(python)[0] >= (3, 9)]


def scripts(python):
    version, modules = facts(python)
    rows = {name: row for name, row in table.SCRIPTS.items() if version < table.BEFORE.get(name, (99,))}
    for since, more in table.SINCE.items():
        rows.update(more if version >= since else {})
    if "threading" in modules:  # then what watches a script sees threads being joined at its end, though there are none
        for name in table.WATCHING:
            del rows[name]
    return rows


def call(row, python):
    code, options = row if isinstance(row, tuple) else (row, {})
    options = dict(options)
    version = "%d.%d" % facts(python)[0]
    files = {name.replace("%d.%d", version): text for name, text in options.pop("files", {}).items()}
    return code, options.pop("args", []), {"files": files, **options}


def plain(text):
    """Without addresses and process ids."""
    return re.sub(rb"\bpid=\d+", b"pid=", re.sub(rb"0x[0-9a-f]{6,}", b"0x", text))


def outcome(done):
    status, out, err, files = done.outcome()
    return {"status": status, "out": plain(out), "err": plain(err), "files": files}


class Zygotes:
    """One for each interpreter and set of preloaded modules, for as long as the tests of this file run."""

    def __init__(self, build, factory):
        self.build, self.factory, self.made = build, factory, {}

    def __call__(self, python=SYSTEM, preload=(), **kwargs):
        key = python, tuple(preload), repr(sorted(kwargs.items()))
        if key not in self.made:
            self.made[key] = warm.Warm(self.build, self.factory.mktemp("warm"), python, preload, **kwargs)
        return self.made[key]

    def close(self):
        for zygote in self.made.values():
            assert zygote.close() == 0, zygote.said()


@pytest.fixture(scope="module")
def zygotes(gb, tmp_path_factory):
    made = Zygotes(gb.build, tmp_path_factory)
    yield made
    made.close()


@pytest.fixture(scope="module")
def zygote(zygotes):
    return zygotes()


# --- the same as a native one ---


def test_there_are_enough():
    assert len(scripts(SYSTEM)) >= 400


@pytest.mark.parametrize("name", scripts(SYSTEM))
def test_as_native(zygote, name):
    code, args, options = call(scripts(SYSTEM)[name], SYSTEM)
    assert outcome(zygote.run(code, *args, **options)) == outcome(zygote.native(code, *args, **options))
    assert zygote.process.poll() is None


def wrong_elsewhere(zygote, python, part):
    for name, row in list(scripts(python).items())[part::8]:
        code, args, options = call(row, python)
        got, wanted = outcome(zygote.run(code, *args, **options)), outcome(zygote.native(code, *args, **options))
        if got != wanted:
            yield name, {what: (got[what], wanted[what]) for what in got if got[what] != wanted[what]}


if OTHERS:  # there need not be any, and nothing is left out then

    @pytest.mark.parametrize("part", range(8))
    @pytest.mark.parametrize("python", PYTHONS[1:])
    def test_as_native_elsewhere(zygotes, python, part):
        assert not list(wrong_elsewhere(zygotes(python), python, part))


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", table.ANY_ORDER)
def test_as_native_in_any_order(zygotes, python, name):
    code, args, options = call(table.ANY_ORDER[name], python)
    warmed, native = (outcome(run(code, *args, **options)) for run in (zygotes(python).run, zygotes(python).native))
    for one in (warmed, native):
        one["out"] = sorted(one["out"].splitlines())
    assert warmed == native


@pytest.mark.parametrize("script", ["main.py", "./main.py", "other.py", "nothing.py", "-c", "-"])
def test_other_command_lines(zygote, script):
    """Those that the bootstrap was not made for begin anew."""
    code, args = "import sys\nprint(sys.argv, sys.orig_argv[1:], __name__, sys.path[0])\n1 / 0", ["print(5)", "b"]
    options = {"files": {"other.py": code}, "script": script, "input": b"print('from stdin')"}
    assert outcome(zygote.run(code, *args, **options)) == outcome(zygote.native(code, *args, **options))


def test_no_script(zygote):
    assert outcome(zygote.run(None)) == outcome(zygote.native(None))


def test_streams_that_are_no_pipes(zygote, tmp_path):
    """Descriptors of another kind get other streams."""
    code = "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.buffer.raw, s.line_buffering, s.seekable(), s.tell() if s.seekable() else None, s.name, s.mode)"
    zygote.move_away()
    outs = []
    for run in ("warm", "native"):
        with zygote.place.filled({"main.py": code, "in": "input"}), open(tmp_path / run, "w+b") as out, open(zygote.place.path / "in", "rb") as given:
            if run == "warm":
                words = zygote.words([SYSTEM, f"{zygote.place.path}/main.py"], zygote.environment, None, 2)
                status = zygote.ask(words, [given.fileno(), out.fileno(), out.fileno()])[0]
            else:
                status = subprocess.run([SYSTEM, f"{zygote.place.path}/main.py"], stdin=given, stdout=out, stderr=out, env=zygote.environment, cwd=zygote.place.path, timeout=60).returncode
            out.seek(0)
            outs.append((status, out.read()))
    assert outs[0] == outs[1] and b"name='<stdin>'" in outs[0][1]


# --- preloaded modules ---

PRELOAD = ("json", "random", "uuid", "tempfile", "logging", "ssl", "multiprocessing.synchronize", "secrets", "threading", "asyncio", "numpy")


def test_preloaded_modules_are_there(zygotes):
    done = zygotes(preload=PRELOAD).run(f"import sys\nprint([name for name in {PRELOAD!r} if name not in sys.modules])\nimport numpy\nprint(numpy.arange(3).sum())")
    assert (done.status, done.out, done.err) == (0, b"[]\n3\n", b"")


QUICK = [name for name, row in table.SCRIPTS.items() if not isinstance(row, tuple) or "env" not in row[1]]
# What says which modules are loaded, or what they have changed, or prints their work.
TELLING = {"modules", "order of modules", "importer cache", "warnings filters", "tracing", "tracing to the end", "tracing and error", "tracing and __del__", "profiling to the end",
           "atexit unregistered", "signals", "multiprocessing process", "limits of resources", "path", "import at the end"}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in QUICK if name not in TELLING and name in scripts(SYSTEM)])
def test_as_native_with_preloaded_modules(zygotes, name):
    """But for numpy, whose threads a native interpreter would not have."""
    zygote = zygotes(preload=PRELOAD[:-1])
    code, args, options = call(scripts(SYSTEM)[name], SYSTEM)
    assert outcome(zygote.run(code, *args, **options)) == outcome(zygote.native(code, *args, **options))


def test_nothing_of_the_bootstrap_is_among_modules(zygotes):
    code = "import sys, gc\nprint([name for name, m in sys.modules.items() if hasattr(m, 'KNOWN') or hasattr(m, 'become')], sys.modules['__mp_main__'] is sys.modules['__main__'])"
    done = zygotes(preload=PRELOAD).run(code)
    assert (done.out, done.err) == (b"[] True\n", b"")


def test_files_of_the_call_come_before_preloaded_modules(zygotes):
    zygote = zygotes(preload=PRELOAD)
    for files in ({"json.py": "x = 'mine'\n"}, {"json/__init__.py": "x = 'mine'\n"}, {"json.txt": "", "json2.py": ""}, {".local/lib/python%d.%d/site-packages/x.py" % facts(SYSTEM)[0]: ""}):
        code = "import json\nprint(getattr(json, 'x', 'the library')), sorted(n for n in vars(json))"
        done, native = zygote.run(code, files=files), zygote.native(code, files=files)
        assert outcome(done) == outcome(native)


def test_threads_of_libraries(zygotes):
    """OpenBLAS starts threads when it is loaded; in a fork they are not there, and must not be waited for."""
    done = zygotes(preload=["numpy"]).run("import numpy as n\na = n.ones((600, 600))\nprint((a @ a).sum(), n.linalg.svd(n.eye(200))[1].sum())")
    assert (done.status, done.out, done.err) == (0, b"216000000.0 200.0\n", b"")


@pytest.mark.parametrize(
    "name, extra, says",
    [
        ("nothing_of_the_kind", {}, "the module 'nothing_of_the_kind' cannot be preloaded: ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("broken", {"broken.py": "1 / 0\n"}, "the module 'broken' cannot be preloaded: ZeroDivisionError: division by zero"),
        ("leaving", {"leaving.py": "raise SystemExit(0)\n"}, "the module 'leaving' cannot be preloaded: SystemExit: 0"),
        ("busy", {"busy.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"}, "a preloaded module has started a thread, which no box would have"),
    ],
)  # fmt: skip
def test_what_cannot_be_preloaded(gb, tmp_path, name, extra, says):
    zygote = warm.Warm(gb.build, tmp_path, preload=["json", name], extra=extra)
    assert zygote.process.wait(timeout=60) == 1
    assert zygote.said().decode() == f"the zygote cannot start: {says}\n"
    zygote.close()


# --- what no two may share ---

SECRETS = """
import json, os, random, secrets, ssl, sys, tempfile, time, uuid
import multiprocessing.process, multiprocessing.synchronize
import numpy
from numpy.random import default_rng
print(json.dumps({
    "random": random.random(), "bits": random.getrandbits(64), "shuffled": random.sample(range(10 ** 6), 4),
    "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()), "node": uuid._random_getnode(),
    "temporary file": next(tempfile._get_candidate_names()), "second": next(tempfile._get_candidate_names()),
    "semaphore": next(multiprocessing.synchronize.SemLock._rand), "authkey": multiprocessing.process.current_process().authkey.hex(),
    "numpy": numpy.random.rand(), "numpy integers": numpy.random.randint(0, 2 ** 62), "generator": default_rng().random(),
    "ssl": ssl.RAND_bytes(16).hex(), "secrets": secrets.token_hex(8), "urandom": os.urandom(8).hex(),
    "started": __import__("logging")._startTime,
}))
print(os.getpid())
"""


@pytest.mark.parametrize("where", ["processes", "namespaces", "zygote in a namespace"])
def test_children_share_no_secret(zygotes, where):
    """In pid namespaces of their own all have the same process id, and so may the zygote: nobody may take the id for a sign."""
    zygote = zygotes(preload=PRELOAD, in_namespace=where == "zygote in a namespace")
    seen, pids = {}, set()
    for _ in range(20):
        done = zygote.run(SECRETS, flag="+" if where != "processes" else "")
        assert (done.status, done.err) == (0, b""), done.err
        values, pid = done.out.splitlines()
        pids.add(int(pid))
        for name, value in json.loads(values).items():
            seen.setdefault(name, set()).add(str(value))
    assert {name: len(values) for name, values in seen.items()} == dict.fromkeys(seen, 20)
    assert len(pids) == 20 if where == "processes" else pids == {1}


PROBE = """
import builtins, gc, os, signal, sys, warnings
def small(x): return x if isinstance(x, (int, str, bytes, tuple, type(None))) else type(x).__name__
state = {
    "modules": sorted((name, type(m).__name__, len(vars(m))) for name, m in sys.modules.items() if m and name not in ("__main__", "gc", "signal", "enum", "re")),
    "names": sorted((name, sorted(vars(m))) for name, m in list(sys.modules.items()) if name in ("builtins", "os", "posix", "io", "codecs", "time", "site")),
    "sys": sorted((name, small(value)) for name, value in vars(sys).items()),
    "environment": list(os.environ.items()), "of C": __import__("subprocess").run(["env"], capture_output=True).stdout,
    "directory": os.getcwd(), "files": os.listdir("."), "umask": os.umask(0o22), "path": sys.path, "cache": sorted(sys.path_importer_cache),
    "signals": [str(signal.getsignal(n)) for n in range(1, 32)], "filters": str(warnings.filters), "limits": sys.getrecursionlimit(), "gc": gc.get_threshold(),
    "frozen": gc.get_freeze_count(), "same": [id(x) for x in (None, int, os, sys, print, os.environ, sys.stdout)], "print": repr(print),
    "one": 1 + 1, "text": "abc".upper(), "list": sorted([3, 1, 2]), "priority": os.getpriority(0, 0), "descriptors": sorted(fd + os.readlink("/proc/self/fd/" + fd)[:5] for fd in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + fd)),
}
for name, value in state.items(): print(name, value)
"""
HOSTILE = [
    "import builtins\nbuiltins.print = None\nbuiltins.open = None\nbuiltins.__import__ = None",
    "import sys\nsys.modules.clear()\nsys.path.clear()\nsys.meta_path.clear()\nsys.path_hooks.clear()\nsys.path_importer_cache.clear()",
    "import os\nos.environ.clear()\nos.environ['LD_PRELOAD'] = 'x'\nos.putenv('HOME', '/')\nos.unsetenv('PATH')",
    "import os\nos.chdir('/')\nos.umask(0)\nos.nice(5)\nos.setsid()",
    "import os\nfor fd in range(100):\n    try: os.close(fd)\n    except OSError: pass",
    "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
    "import gc\ngc.unfreeze()\ngc.collect()\ngc.disable()\ngc.set_threshold(1)\nfor o in gc.get_objects():\n    if type(o) is dict and '_glovebox' in o: o.clear()",
    "import gc\nfor o in gc.get_objects() + gc.get_referrers(len):\n    if type(o).__name__ == 'generator': o.close()",
    "import ctypes\nctypes.memset(id(5), 0xff, 8)",
    "import ctypes\nfor a in (id(None), id(int), id('a')): ctypes.memset(a, 1, 4)",
    "import os\nos.abort()", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "import os\nos.kill(0, 9) if os.getpgid(0) == os.getpid() else os._exit(9)",
    "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nx = []\nfor i in range(10 ** 6): x = [x]\nrepr(x)",
    "import threading, time\nfor i in range(20): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    "import os\nfor i in range(5):\n    if not os.fork(): os._exit(i)",
    "x = bytearray(200 << 20)", "import sys\nsys.stdout.write('x' * 10 ** 6)", "raise MemoryError", "import posix\nvars(posix).clear()", "import sys\nvars(sys).clear()",
    "import builtins\nvars(builtins).clear()", "import warnings, linecache\nwarnings.simplefilter('error')\nlinecache.cache.clear()", "import time, os\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()",
]  # fmt: skip


def descriptors(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def test_the_zygote_stays_as_it_is(zygotes):
    """Whatever its children do. What a child finds afterwards, and the process itself, are as before."""
    zygote = zygotes(preload=("json", "logging"))
    zygote.move_away()  # it has begun

    def look():
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{zygote.process.pid}/status").read_text().splitlines())
        process = {name: status[name].strip() for name in ("Threads", "Umask", "SigIgn", "SigCgt", "SigBlk", "Uid", "NSpid")}
        done = zygote.run(PROBE)
        assert (done.status, done.err) == (0, b""), done.err
        template = {path.name: path.read_bytes() for path in (zygote.place.home / "template").iterdir() if path.is_file()}
        return done.out.decode().split("\n"), process, descriptors(zygote.process.pid), os.readlink(f"/proc/{zygote.process.pid}/cwd"), template

    before = look()
    statuses = {zygote.run(HOSTILE[i % len(HOSTILE)] if i % len(HOSTILE) != 13 else HOSTILE[0]).status for i in range(50)}
    assert len(statuses) >= 4  # they did something
    after = look()
    assert [(a, b) for a, b in zip(before[0], after[0]) if a != b] == []
    assert after[1:] == before[1:]
    assert zygote.said() == b""


def test_nothing_of_a_call_is_there_for_the_next(zygote):
    first = zygote.run("import sys, os, builtins\nsys.mine = builtins.mine = os.mine = 1\nopen('x.py', 'w').write('x = 1')\nimport x\nprint('written')", env={"MINE": "1"}, files={"own.py": "x = 5"})
    assert (first.status, first.out) == (0, b"written\n")
    done = zygote.run("import sys, os, builtins\nprint([hasattr(m, 'mine') for m in (sys, os, builtins)], 'x' in sys.modules, 'MINE' in os.environ, os.listdir('.'))\nimport own")
    assert done.out == b"[False, False, False] False False ['main.py']\n" and b"No module named 'own'" in done.err


# --- known differences: docs/warm.md has them all ---

KNOWN = {  # name: script, what a native interpreter prints, what a warm one prints
    "finalizing": ("import sys\nclass A:\n    def __del__(self): print(sys.is_finalizing())\na = A()", "True\n", "False\n"),
    "frozen objects": ("import gc\nprint(gc.get_freeze_count() > 0, len(gc.get_objects()) > 1000)", "False True\n", "True False\n"),
    "count of threads": ("import _thread\nprint(_thread._count())", "0\n", "1\n"),
    "command line in /proc": ("print(open('/proc/self/cmdline').read().split('\\0')[2:-1])", "['a', 'b']\n", "[]\n"),
    "environment in /proc": ("print('MINE=1' in open('/proc/self/environ').read().split('\\0'))", "True\n", "False\n"),
    "cache of a function that was preloaded": (
        "import fnmatch\nclass A(str):\n    def __del__(self): print('gone')\nfnmatch._compile_pattern(A('x'))", "gone\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_known_differences(zygotes, name):
    zygote = zygotes(preload=["fnmatch"] if "preloaded" in name else ())
    code, native, warmed = KNOWN[name]
    options = {"env": {"MINE": "1"}}
    assert zygote.native(code, "a", "b", **options).out.decode() == native
    done = zygote.run(code, "a", "b", **options)
    assert (done.status, done.out.decode(), done.err) == (0, warmed, b"")


def test_children_of_one_zygote_share_its_hash_secret_and_its_addresses(zygote):
    """Neither can be renewed; a zygote that is replaced now and then bounds what knowing them is good for."""
    code = "print(hash('x'), id(None), id(open), id(__builtins__))"
    assert len({zygote.run(code).out for _ in range(5)}) == 1
    assert len({zygote.native(code).out for _ in range(5)}) == 5


def test_archives_are_not_run(zygote, tmp_path):
    """A native interpreter runs an archive, or compiled code, under any name. The service takes only text."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("__main__.py", "print('from the archive')\n")
    data = (tmp_path / "x.zip").read_bytes()
    assert zygote.native(data).out == b"from the archive\n"
    done = zygote.run(data)
    assert (done.status, done.out) == (1, b"") and b"SyntaxError" in done.err


def test_the_stack_has_the_size_that_it_had_at_the_start(zygote):
    code = "import os, resource, sys\nresource.setrlimit(resource.RLIMIT_STACK, (100 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))\n"
    code += "sys.setrecursionlimit(10 ** 6)\nx = []\nfor i in range(60000): x = [x]\nprint(len(repr(x)), flush=True)\nos._exit(0)"
    assert zygote.native(code).out == b"120002\n"
    assert zygote.run(code).status == -11


# --- screening ---


@pytest.fixture(scope="module")
def kit(gb, tmp_path_factory):
    return test_screen.Kit(gb.build / "screen-box", tmp_path_factory.mktemp("screen"))


class Screened:
    """The same call, cold and warm, with the rules of some options."""

    def __init__(self, kit, zygote):
        self.kit, self.zygote = kit, zygote
        home = f"{zygote.place.path}/.glovebox"
        self.env = {"PYTHONPATH": home, "PYTHONUSERBASE": home}

    def rules(self, options):
        return (self.kit.template(tuple(options)) / ".glovebox/start.txt").read_bytes()

    def warm(self, code, options=(), files=None, env=None, **kwargs):
        ours = {".glovebox/start.txt": self.rules(options), ".glovebox/main.py": code}
        return self.split(self.zygote.run(None, files={**(files or {}), **ours}, env={**(env or {}), **self.env}, **kwargs))

    def cold(self, code, options=(), files=None, env=None, **kwargs):
        template = self.kit.template(tuple(options))
        ours = {str(path.relative_to(template)): path.read_bytes() for path in template.rglob("*") if path.is_file()}
        return self.split(self.zygote.native(None, files={**(files or {}), **ours, ".glovebox/main.py": code}, env={**(env or {}), **self.env}, **kwargs))

    @staticmethod
    def split(done):
        done.report, done.error = test_screen.split(done.err)
        return done


@pytest.fixture(scope="module")
def screened(kit, zygote):
    return Screened(kit, zygote)


def shown(done):
    found = outcome(done)
    if done.status == 126:  # then what is ours stays where it is
        found["files"] = {name: data for name, data in found["files"].items() if not name.startswith(".glovebox")}
    found["err"] = re.sub(rb'"<glovebox>", line \d+', b'"<glovebox>", line', found["err"])  # of which file is not known
    return found


def test_the_table_of_screening(screened):
    wrong = []
    for code, rules in screen_table.ALL:
        done = screened.warm(code if rules else "raise SystemExit(7)\n" + code)
        good = done.report and test_screen.rules_of(done) == rules and done.status == (126 if rules else 7) and not done.out and not done.error
        wrong += [] if good else [(code, rules, done.report, done.status, done.error)]
    assert not wrong, wrong


def test_lines_and_reasons(screened):
    for code, rule, line, reason in screen_table.LINES:
        assert {"rule": screen_table.RULES.index(rule), "line": line, "reason": reason} in screened.warm(code).report["findings"], code


@pytest.mark.parametrize("name", [name for name in test_screen.FIDELITY if name not in test_screen.ENVIRONMENTS])
def test_screened_as_cold(screened, name):
    code, options = test_screen.FIDELITY[name], {"options": ["action=warn"], "input": b"line 1\nline 2\nrest"}
    assert shown(screened.warm(code, **options)) == shown(screened.cold(code, **options))


@pytest.mark.parametrize("name", test_screen.BROUGHT)
def test_files_that_could_be_imported(screened, name):
    files, found = test_screen.BROUGHT[name]
    done = screened.warm("print('ran')", files=files)
    assert shown(done) == shown(screened.cold("print('ran')", files=files))
    assert done.status == (126 if found else 0)


@pytest.mark.parametrize("row", range(len(test_screen.LEVEL)))
def test_language_level(screened, row):
    options, code, _, _ = test_screen.LEVEL[row]
    given = {"options": [*options, "action=warn"], "files": {"helper.py": "import math\nx = 42\n", "nosy.py": "import os\n"}}
    assert shown(screened.warm(code, **given)) == shown(screened.cold(code, **given))


@pytest.mark.parametrize("name", [*test_screen.HIDING, *test_screen.DEEP])
def test_what_hides_or_is_too_deep(screened, name):
    code = test_screen.HIDING[name] if name in test_screen.HIDING else "raise SystemExit(5)\n" + test_screen.DEEP[name] + "\n"
    if code is not None:
        warmed, cold = screened.warm(code), screened.cold(code)
        assert (warmed.status, warmed.out, warmed.report) == (cold.status, cold.out, cold.report)
        assert warmed.error.splitlines()[-1:] == cold.error.splitlines()[-1:]


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONHASHSEED": "7"}, {"LANG": "C"}, {"OTHER": "1"}, {"HOME": "/x"}, {"TZ": "Asia/Tokyo"}])
@pytest.mark.parametrize("options", [(), ("module=math",), ("builtin=open", "module=math")])
def test_screened_with_variables(screened, env, options):
    """Where the interpreter has to begin anew, so do the walls of the language."""
    for code in ("import math\nprint(math.pi, sorted(globals()))", "import os, sys\nprint(sorted(os.environ), sys.flags, sys.stdout.encoding)", "open('x', 'w')", "import subprocess\nsubprocess.run(['ls'])"):
        assert shown(screened.warm(code, options=options, env=env)) == shown(screened.cold(code, options=options, env=env))


def test_user_packages_come_after_the_report(screened):
    home = ".local/lib/python%d.%d/site-packages" % facts(SYSTEM)[0]
    files = {home + "/mine.py": "x = 1\n", home + "/early.pth": "import sys; sys.stderr.write('early\\n')\n", home + "/usercustomize.py": "import sys; sys.stderr.write('custom\\n')\n"}
    done = screened.warm("import sys, mine\nprint(mine.x, sys.path)", files=files)
    assert shown(done) == shown(screened.cold("import sys, mine\nprint(mine.x, sys.path)", files=files))
    assert done.error == b"early\ncustom\n"


def test_nothing_is_left_of_it(screened):
    code = "import os, sys\nprint(sorted(os.listdir('.')), [n for n in os.environ if 'PYTHON' in n], [m for m in sys.modules if 'glove' in m or 'custom' in m], sys.path)"
    assert shown(screened.warm(code)) == shown(screened.cold(code))


def test_files_of_a_cold_start_may_be_there(screened):
    """A front that does not know where its call will run sends them."""
    template = screened.kit.template(())
    files = {str(path.relative_to(template)): path.read_bytes() for path in template.rglob("*") if path.is_file()}
    done = screened.warm("import os\nprint(os.listdir('.'))", files=files)
    assert (done.status, done.out, done.error) == (0, b"['main.py']\n", b"")


@pytest.mark.parametrize("damage", ["no script", "bad rules", "a directory in place of the script"])
def test_start_up_code_that_fails_runs_nothing(screened, damage):
    files = {".glovebox/main.py": "print('ran')", ".glovebox/start.txt": screened.rules(())}
    if damage == "no script":
        del files[".glovebox/main.py"]
    elif damage == "bad rules":
        files[".glovebox/start.txt"] = "R x y\n"
    else:
        files["main.py/__main__.py"] = files.pop(".glovebox/main.py")
    done = screened.zygote.run(None, files=files, env=screened.env)
    assert done.status != 0 and not done.out and b"start-up code failed" in done.err


def test_knows_the_built_in_rules(gb, screened):
    """Byte for byte as the front writes them; or each call would read them anew."""
    constants = {}
    for line in warm.embedded(gb.build / "python-zygote.c").decode().split("\n"):
        name, _, value = line.partition(" = ")
        if name == "DEFAULT_RULES":
            constants[name] = ast.literal_eval(value)
    assert constants == {"DEFAULT_RULES": screened.rules(())}


def test_rules_of_the_profile(kit, zygotes):
    """Beside the bootstrap, if they are not the built-in ones."""
    rules = (kit.template(("call=math.sqrt",)) / ".glovebox/start.txt").read_text()
    own = Screened(kit, zygotes(extra=(("start.txt", rules),)))
    for options in (["call=math.sqrt"], [], ["call=math.sqrt", "module=math"], ["action=warn", "call=math.sqrt"]):
        for code in ("import math\nprint(math.sqrt(4))", "import os\nos.system('x')", "print(1)", "import json"):
            assert shown(own.warm(code, options=options)) == shown(own.cold(code, options=options))


@pytest.mark.parametrize("code", ["print(2+2)", "x = 'os'", "a_os_ = 1", "_os = 1", "__os__ = 1", "__name__", "__init__ = 1", "__x = 1", "print('/')", "a\\\nb",
                                  "# coding: x", "h\u00e4", "\0", "osx = os2 = 1", "eval", "", "_", "__", "x" * 16384, "x" * 16385, "#" * 16385])  # fmt: skip
def test_scripts_that_need_not_be_parsed(screened, code):
    """What C decides for most calls, and Python for the others: nobody can tell which it was."""
    assert shown(screened.warm(code)) == shown(screened.cold(code))


def test_reads_rules_that_it_does_not_know(screened):
    """The usual ones are read once by the zygote; a call may have others."""
    done = screened.warm("import math\nmath.sqrt(4)", options=["call=math.sqrt"])
    assert [one["reason"] for one in done.report["findings"]] == ["calls math.sqrt"] and done.status == 126


# --- figures ---


def test_figures(screened, zygote):
    """Not a measurement of time: what it costs in pages. A warm child that touches hundreds more than it needs has lost what it is for."""
    done = min((zygote.run("print(2 + 2)") for _ in range(5)), key=lambda done: done.faults)
    looked = min((screened.warm("print(2 + 2)") for _ in range(5)), key=lambda done: done.faults)
    sys.stderr.write(f"page faults: {done.faults_before} before the call, {done.faults} after it, {looked.faults} with screening\n")
    assert done.faults_before + done.faults < 400 and looked.faults_before + looked.faults < 400


# --- what C passes without a look ---


def test_what_is_passed_without_a_look_tells_nothing(gb):
    """words.c decides on its own that a script needs no parser; start.py is who knows. Never the other way round."""
    code = r"""
import ast, random, sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("_glovebox", sys.argv[1])
c = module_from_spec(spec)
spec.loader.exec_module(c)
tree = ast.parse(open(sys.argv[2]).read())
wanted = [node for node in tree.body if getattr(node, "name", None) == "tells_nothing" or isinstance(node, ast.Assign) and {"SMALL", "WORDS"} & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}]
python = {}
exec(compile(ast.Module(wanted, []), "start.py", "exec"), python)
telling = {"os", "eval", "sys", "open", "subprocess", "o"}
c.expect(0, b"", b"", b"/absent", b"/script", False, None, b"".join(word.encode() + bytes(1) for word in sorted(telling)), b"")
assert c.is_clean(b"print(2 + 2)") and not c.is_clean(b"import os") and not c.is_clean(b"# coding: utf-7") and not c.is_clean("\u00ba".encode())
pieces = [b"os", b"_os_", b"__os", b"o", b"os1", b"eval", b"__name__", b"__x__", b"print", b"(", b" ", b"\n", b"/", b"\\", b"_", b".", b"\xff", b"subproces", b"subprocess", b"s", bytes(1)]
draw, passed = random.Random(5), 0
for _ in range(100000):
    source = b"".join(draw.choices(pieces, k=draw.randint(1, 6)))
    if c.is_clean(source):
        passed += 1
        assert python["tells_nothing"](source, telling), source
assert passed > 1000, passed
"""
    start = pathlib.Path(__file__).parent.parent.parent / "runtimes/python/start.py"
    subprocess.run([SYSTEM, "-c", code, gb.build / "warm_python.abi3.so", start], check=True, timeout=120)
