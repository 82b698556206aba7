"""Screening of Python: what the start-up code finds, that the script runs as if it were not there, and that nothing runs before it.

Most rows run the system's Python in a directory made as the front makes a box; a few run in real boxes.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import textwrap

import pytest
import screen_table as table

pytestmark = pytest.mark.rootonly  # but for the real boxes nothing here depends on who runs it
PYTHON = "/usr/bin/python3"
MARK = b"\x1eglovebox-screen "
BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "USER": "sandbox"}


class Kit:
    """Directories with a script and the start-up code, made by the same functions as the front's."""

    def __init__(self, program, home):
        self.program, self.home, self.made, self.names = program, home, {}, itertools.count()

    def template(self, options):
        if options not in self.made:
            at = self.home / f"template{next(self.names)}"
            at.mkdir()
            done = subprocess.run([self.program, "files", at, *options], input=b"", capture_output=True, timeout=60)
            assert done.returncode == 0, done.stderr
            assert done.stdout.decode().split() == ["PYTHONPATH=/sandbox/.glovebox", "PYTHONUSERBASE=/sandbox/.glovebox"]
            self.made[options] = at
        return self.made[options]

    def box(self, code, options=(), files=None):
        at = self.home / f"box{next(self.names)}"
        shutil.copytree(self.template(tuple(options)), at)
        (at / ".glovebox/main.py").write_bytes(code if isinstance(code, bytes) else code.encode())
        for name, text in (files or {}).items():
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_text(text)
        return at

    def start(self, at, *args, env=None, input=b"", flags=(), started=True):
        ours = {"PYTHONPATH": f"{at}/.glovebox", "PYTHONUSERBASE": f"{at}/.glovebox"} if started else {}
        return subprocess.run([PYTHON, *flags, f"{at}/main.py", *args], cwd=at, env={**BASE, "HOME": str(at), **(env or {}), **ours}, input=input,
                              capture_output=True, timeout=120)

    def run(self, code, *args, options=(), files=None, **kwargs):
        at = self.box(code, options, files)
        done = self.start(at, *args, **kwargs)
        done.box = at
        done.report, done.error = split(done.stderr)
        return done

    def plain(self, code, *args, files=None, **kwargs):
        at = self.home / f"plain{next(self.names)}"
        at.mkdir()
        (at / "main.py").write_bytes(code if isinstance(code, bytes) else code.encode())
        for name, text in (files or {}).items():
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_text(text)
        done = self.start(at, *args, started=False, **kwargs)
        done.box = at
        return done


def split(stderr):
    if not stderr.startswith(MARK):
        return None, stderr
    line, _, rest = stderr.partition(b"\n")
    return json.loads(line[len(MARK) :]), rest


def rules_of(done):
    assert done.report is not None, done.stderr
    return tuple(table.RULES[one["rule"]] for one in done.report["findings"])


@pytest.fixture(scope="module")
def kit(gb, tmp_path_factory):
    return Kit(gb.build / "screen-box", tmp_path_factory.mktemp("screen"))


def both(rows, work):
    """Two at a time: most of it is waiting for processes."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(zip(rows, pool.map(work, rows)))


# --- what fires ---




def test_the_table(kit):
    wrong = []
    rows = [(code, rules) for code, rules in table.ALL if rules]
    assert len(table.ALL) >= 250 and len(rows) >= 150
    for (code, rules), done in both(rows, lambda row: kit.run(row[0])):
        if rules_of(done) != rules or done.returncode != 126 or done.stdout or done.error or done.report["blocked"] is not True:
            wrong.append((code, rules, done.report, done.returncode))
    assert not wrong, wrong
    for rule in table.RULES:
        assert sum(rule in rules for _, rules in rows) >= 4, rule


def test_the_innocent_are_not_blocked(kit):
    """A rule that fires would block. What they do when they run (most of them fail) is theirs."""
    wrong = []
    rows = [code for code, rules in table.ALL if not rules] + table.MISSED
    for code, done in both(rows, lambda code: kit.run("raise SystemExit(7)\n" + code)):
        if done.report != {"blocked": False, "findings": []} or done.returncode != 7:
            wrong.append((code, done.report, done.returncode, done.error))
    assert not wrong, wrong


def test_lines_and_reasons(kit):
    for (code, rule, line, reason), done in both(table.LINES, lambda row: kit.run(row[0])):
        assert {"rule": table.RULES.index(rule), "line": line, "reason": reason} in done.report["findings"], (code, done.report)


def test_where_a_pattern_is_wrong(kit):
    """Both ways, against the seeds' own patterns."""
    import re

    seeds = [
        r"subprocess\.(run|call|Popen|check_output)", r"os\.(system|exec|spawn|popen)", r"shutil\.(rmtree|move)", r"socket\.", r"requests\.(get|post|put|delete)",
        r"urllib", r"__import__\(", r"eval\(|exec\(", r"open\(.*(w|a|x).*\)", r"/etc/|/proc/|/sys/",
    ]
    missed = [code for code, rules in table.ALL if rules and not any(re.search(p, code) for p in seeds)]
    false = [code for code, rules in table.ALL if not rules and any(re.search(p, code) for p in seeds)]
    assert len(missed) > 50 and len(false) > 25, (len(missed), len(false))


# --- actions, rules of the operator ---


def test_actions(kit):
    code = "import os\nprint('ran')\nif 0: os.system('x'); eval('1')"
    assert kit.run(code).returncode == 126
    warned = kit.run(code, options=["action=warn"])
    assert (warned.returncode, warned.stdout, warned.error) == (0, b"ran\n", b"")
    assert rules_of(warned) == (table.COMMAND, table.CODE) and not warned.report["blocked"]
    some = kit.run(code, options=["OS command execution=warn", "dynamic code execution=off"])
    assert (some.returncode, rules_of(some)) == (0, (table.COMMAND,))
    mixed = kit.run(code, options=["OS command execution=warn"])
    assert (mixed.returncode, rules_of(mixed), mixed.stdout) == (126, (table.COMMAND, table.CODE), b"")


def test_nothing_to_tell(kit):
    done = subprocess.run([kit.program, "files", kit.home, "action=off"], input=b"", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, b"nothing to tell\n")


@pytest.mark.parametrize(
    "options, code, fires",
    [
        (["call=math.sqrt"], "import math as m\nm.sqrt(4)", "calls math.sqrt (as m.sqrt)"),
        (["call=math.sqrt"], "from math import sqrt\nsqrt(4)", "calls math.sqrt (as sqrt)"),
        (["call=math.sqrt"], "import math\nmath.sin(4)", None),
        (["call=print"], "print(1)", "calls print"),
        (["call=print"], "def print(x): pass\nprint(1)", None),
        (["call=json.*"], "import json\njson.dumps(1)", "calls json.dumps"),
        (["call=xml.dom.*"], "from xml.dom import minidom\nminidom.parseString('<a/>')", "calls xml.dom.minidom.parseString (as minidom.parseString)"),
        (["call=datetime.datetime.now"], "import datetime\ndatetime.datetime.now()", "calls datetime.datetime.now"),
        (["call=datetime.datetime.now"], "from datetime import datetime as d\nd.now()", "calls datetime.datetime.now (as d.now)"),
        (["import=xml.sax"], "from xml import sax", "imports xml.sax"),
        (["import=xml.sax"], "import xml.sax.handler", "imports xml.sax.handler"),
        (["import=xml.sax"], "import xml", None),
        (["import=json"], "import jsonschema", None),
        (["import=json", "dynamic import=off"], "__import__('json')", "imports json"),
    ],
)
def test_own_rules(kit, options, code, fires):
    done = kit.run("import sys\n" + code, options=options)
    reasons = [one["reason"] for one in done.report["findings"] if one["rule"] == len(table.RULES)]
    assert reasons == ([fires] if fires else [])
    assert done.returncode == (126 if fires else done.returncode)


# --- as if it were not there ---

FIDELITY = {
    "print": "print(2 + 2)",
    "names": "print(sorted(globals()), __name__, __file__[-8:], __doc__, __package__, __spec__, __cached__, __builtins__, type(__loader__), __annotations__)",
    "argv": "import sys; print(sys.argv[1:], sys.argv[0][-8:], len(sys.orig_argv), sys.flags, sys.executable, sys.warnoptions)",
    "path": "import sys; print([p.replace(sys.path[0], 'HERE') for p in sys.path])",
    "modules": "import sys; print(sorted(sys.modules))",
    "environment": "import os; print(sorted(os.environ.items() - {('HOME', os.environ['HOME'])})); print(sorted(os.listdir('.')), os.getcwd() == os.environ['HOME'])",
    "child environment": "import os, sys, posix\nprint(sorted(k for k in os.environb))\npid = os.fork()\nif not pid:\n    os._exit(len([k for k in os.environ if 'PYTHON' in k]))\nprint(os.waitpid(pid, 0)[1])",
    "caches": "import sys; print(sorted(k.replace(sys.path[0], 'HERE') for k in sys.path_importer_cache), sys.meta_path, len(sys.path_hooks))",
    "site": "import site, os; print(site.ENABLE_USER_SITE, site.USER_BASE.replace(os.environ['HOME'], '~'), site.USER_SITE.replace(os.environ['HOME'], '~'))",
    "frames": "import sys, traceback\nprint(sys._getframe().f_back)\ntraceback.print_stack()\nimport inspect\nprint(len(inspect.stack()))",
    "recursion": "import sys\ndef f(n):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return n\nprint(f(0), sys.getrecursionlimit())",
    "warning": "import warnings\nwarnings.warn('x', stacklevel=2)\nwarnings.warn('y')\nwarnings.warn('z', DeprecationWarning)",
    "syntax warning": "x = 1\nif x is 1: print('one')\nprint('\\d')",
    "traceback": "def f():\n    return g()\ndef g():\n    1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "notes": "e = ValueError('x')\ne.add_note('a note')\nraise e",
    "suggestion": "import math\nmath.sqr(4)",
    "missing name": "prin(1)",
    "missing module": "import nothing_of_the_kind",
    "syntax error": "x = 1\nprint('a'\ny = 2\n",
    "syntax error in text": "print('hällo', ü",
    "unclosed text": "x = '''abc\n",
    "bad indentation": "def f():\nreturn 1\n",
    "tabs": "if 1:\n\tx = 1\n        y = 2\n",
    "return outside": "return 5",
    "bad nonlocal": "nonlocal x",
    "bad escape": "x = '\\N{no such name}'",
    "too many parentheses": "(" * 300 + ")" * 300,
    "exit": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('because')",
    "exit none": "raise SystemExit",
    "exit big": "raise SystemExit(300)",
    "interrupt": "raise KeyboardInterrupt",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "own hook": "import sys\nsys.excepthook = lambda t, v, tb: print('hook', t, v, tb.tb_lineno, tb.tb_next)\n1 / 0",
    "atexit": "import atexit\natexit.register(print, 'last')\natexit.register(print, 'first')\nprint('body')\n1 / 0",
    "stdin": "import sys\nprint(sys.stdin.readline(), sys.stdin.read())",
    "input": "print(input(), input())",
    "classes": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))), A.__module__, A.__qualname__)",
    "spawn": "import multiprocessing as m\ndef f(x): return x * 2\nif __name__ == '__main__':\n    m.set_start_method('spawn')\n    with m.Pool(1) as p: print(p.map(f, [1, 2]))",
    "fork": "import multiprocessing as m\ndef f(x): return x * 2\nif __name__ == '__main__':\n    m.set_start_method('fork')\n    with m.Pool(1) as p: print(p.map(f, [1, 2]))",
    "getsource": "import inspect\ndef f():\n    return 42  # the answer\nprint(inspect.getsource(f), inspect.getsourcefile(f)[-8:])",
    "own file": "print(open(__file__).read())",
    "faulthandler": "import faulthandler, sys\nfaulthandler.dump_traceback(sys.stderr)",
    "crash": "import faulthandler, signal, os\nfaulthandler.enable()\nos.kill(os.getpid(), signal.SIGABRT)",
    "doc": "'''What it is.'''\nprint(__doc__)",
    "latin": b"# -*- coding: latin-1 -*-\nprint('\xc3\xa9')\n",
    "bom": b"\xef\xbb\xbfprint('x')\n",
    "crlf": b"x = 1\r\nif x:\r\n    print(x)\r\n1/0\r\n",
    "lone cr": b"x = 1\rprint(x)\r",
    "bad encoding": b"# coding: nothing-of-the-kind\nprint(1)\n",
    "empty": "",
    "comment": "# nothing",
    "threads": "import threading\nt = threading.Thread(target=lambda: print('t'))\nt.start()\nprint(threading.current_thread().name)",
    "asyncio": "import asyncio\nasync def f(): print('a')\nasyncio.run(f())",
    "future": "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
    "optimised": "assert 0, 'asserted'",
    "no gc": "import gc, sys\nprint('gc' in sys.modules, gc.isenabled())",
    "dir of sys": "import sys\nprint(sorted(vars(sys)))",
    "hash": "print(hash('x'))",
    "numbers": "import decimal, fractions, statistics\nprint(decimal.Decimal(1) / 3, fractions.Fraction(1, 3), statistics.mean([1, 2]))",
}
ENVIRONMENTS = {"optimised": {"PYTHONOPTIMIZE": "1"}, "hash": {"PYTHONHASHSEED": "3"}, "warning": {"PYTHONWARNINGS": ""}}


def same(kit, code, *args, **kwargs):
    plain, ours = kit.plain(code, *args, **kwargs), kit.run(code, *args, options=["action=warn"], **kwargs)
    assert ours.report is not None, ours.stderr
    wanted = [text.replace(str(plain.box).encode(), b"HERE") for text in (plain.stdout, plain.stderr)]
    got = [text.replace(str(ours.box).encode(), b"HERE") for text in (ours.stdout, ours.error)]
    addresses = lambda texts: [__import__("re").sub(rb"0x[0-9a-f]{6,}", b"0x", text) for text in texts]
    assert (addresses(got), ours.returncode) == (addresses(wanted), plain.returncode)
    assert sorted(os.listdir(ours.box)) == sorted(os.listdir(plain.box))
    return ours


@pytest.mark.parametrize("name", FIDELITY)
def test_runs_as_if_nothing_were_there(kit, name):
    same(kit, FIDELITY[name], "a", "b c", env=ENVIRONMENTS.get(name), input=b"line 1\nline 2\nrest")


def test_large_script_runs_as_if_nothing_were_there(kit):
    same(kit, "import sys\nprint('gc' in sys.modules)\nimport gc\nprint(gc.isenabled(), gc.get_count() is not None)\n" + "x = 1  # fill\n" * 4000)


def test_own_modules_and_packages(kit):
    files = {"helper.py": "x = 42\n", "json.py": "print('mine')\n", "pkg/__init__.py": "from . import a\n", "pkg/a.py": "y = 1\n"}
    same(kit, "import helper, pkg.a, json\nprint(helper.x, pkg.a.y, helper.__file__[-9:])", files=files)


def test_user_packages(kit):
    """Packages in the box's home directory, as pip install --user puts them; what they do at the start of Python happens after the report."""
    packages = ".local/lib/python%d.%d/site-packages" % __import__("sys").version_info[:2]
    files = {
        packages + "/mine.py": "x = 1\n",
        packages + "/early.pth": "import sys; sys.stderr.write('early\\n')\n",
        packages + "/usercustomize.py": "import sys; sys.stderr.write('custom\\n')\n",
    }
    done = same(kit, "import sys, mine\nprint(mine.x, [p.rpartition('/')[2] for p in sys.path[1:]])", files=files)
    assert done.error == b"early\ncustom\n"
    blocked = kit.run("import os; os.system('x')", files=files)
    assert (blocked.returncode, blocked.error) == (126, b"")


def test_same_without_the_compiled_form(kit):
    """Another version of Python takes the source."""
    at = kit.box("import sys\nprint(sorted(sys.modules))\nimport os\nprint(os.listdir('.'))", ["action=warn"])
    shutil.rmtree(at / ".glovebox/__pycache__")
    (at / ".glovebox/__pycache__").mkdir()
    done = kit.start(at)
    want = kit.run("import sys\nprint(sorted(sys.modules))\nimport os\nprint(os.listdir('.'))", options=["action=warn"])
    assert (done.returncode, done.stdout, done.stderr) == (0, want.stdout, want.stderr)


# --- nothing runs before it, nothing runs without it ---


def test_files_of_the_call_do_not_run_before(kit):
    evil = "import os\nos.write(2, b'evil\\n')\n"
    names = ["os.py", "site.py", "sitecustomize.py", "usercustomize.py", "posix.py", "encodings/__init__.py", "codecs.py", "json.py", "gc.py", "readline.py", "io.py", "_ast.py"]
    done = kit.run("import os; os.system('x')", files=dict.fromkeys(names, evil))
    assert (done.returncode, done.error, rules_of(done)) == (126, b"", (table.COMMAND,))


@pytest.mark.parametrize("flags", [["-S"], ["-E"], ["-I"], ["-s"]])
def test_without_the_start_up_code_there_is_no_script(kit, flags):
    done = kit.start(kit.box("print('ran')"), flags=flags)
    if flags == ["-s"]:
        assert done.stdout == b"ran\n"
    else:
        assert done.returncode == 2 and b"can't open file" in done.stderr and not done.stdout


@pytest.mark.parametrize("damage", ["start.txt", "main.py", "both"])
def test_start_up_code_that_fails_runs_nothing(kit, damage):
    at = kit.box("print('ran')")
    if damage == "both":
        (at / ".glovebox/start.txt").write_bytes(b"R x y\n")
    else:
        (at / ".glovebox" / damage).unlink()
    done = kit.start(at)
    assert done.returncode != 0 and not done.stdout and b"start-up code failed" in done.stderr


# Every variable that the interpreter knows, with values that do the most.
VALUES = {
    "PYTHONIOENCODING": ["utf-16", "utf-8:replace", "punycode", "idna", "rot13", "bogus", "utf-8:bogus", "os", "../x", "cp037", "utf_7", ":", "ascii:strict"],
    "PYTHONHASHSEED": ["0", "4294967295", "x", "-1", "random"],
    "PYTHONOPTIMIZE": ["1", "2", "9", "x"],
    "PYTHONUTF8": ["0", "1", "x"],
}
LOCALES = [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LC_ALL": "POSIX", "LANG": "xx"}, {"LC_ALL": "nothing_of_the_kind"}, {"LANG": "de_DE.ISO-8859-1"}]
KEPT = ["PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONNOUSERSITE", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "PYTHONUTF8"]


def safe(kit, what, names):
    return subprocess.run([kit.program, what, *names], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_few_variables_of_python_may_be_set(kit):
    import re

    program = pathlib.Path(PYTHON).read_bytes()
    known = {name.decode() for name in re.findall(rb"PYTHON[A-Z_0-9]+(?=\0)", program)}
    assert {"PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONCOERCECLOCALE"} <= known
    assert safe(kit, "env", sorted(known | {"PYTHONHOME", "PYTHONWARNINGS", "PYTHONPERFSUPPORT", "PYTHONEXECUTABLE", *KEPT})) == KEPT


def test_variables_that_may_be_set_change_nothing_before_the_script(kit):
    """Either the report is the first thing, or Python does not begin."""
    rows = [{**locale, name: value} for name in KEPT for value in VALUES.get(name, ["1", "x"]) for locale in LOCALES[:2]] + LOCALES
    rows += [{"TZ": ":/etc/passwd"}, {"HOME": "/nonexistent"}, {"TMPDIR": "x"}, {"LANGUAGE": "xx"}, {"__PYVENV_LAUNCHER__": "/sandbox/x"}, {"VIRTUAL_ENV": "/sandbox"}]
    began = 0
    for env, done in both(rows, lambda env: kit.run("import os; os.system('echo ran')", options=["action=warn"], env=env)):
        if done.report is None:
            assert b"ran" not in done.stdout and done.returncode != 0, (env, done.stderr)
        else:
            assert rules_of(done) == (table.COMMAND,), env
            began += b"ran" in done.stdout
    assert began > len(rows) // 2


def test_names_that_python_would_find_first(kit):
    names = [".glovebox", ".glovebox/x", ".glovebox/encodings/__init__.py", ".glovebox/__pycache__/sitecustomize.cpython-311.pyc", ".glovebox/lib/python3.11/site-packages/x.pth",
             "main.py", "main.py/__main__.py", ".curlrc", "x/.curlrc", ".config/curlrc"]
    other = ["x", "helper.py", "x/main.py", ".gloveboxes", "x/.glovebox/y", "main.pyc", "main.py.txt", "curlrc.txt"]
    assert safe(kit, "names", names + other) == other


def test_a_directory_in_place_of_the_script_does_not_run(kit):
    done = kit.run("print('script')", files={"main.py/__main__.py": "print('ran')\n"}, options=["action=warn"])
    assert (done.stdout, done.returncode) == (b"", 1) and b"start-up code failed" in done.error


def test_what_is_written_before_the_report_hides_nothing(kit):
    """A variable that makes Python say something first, were it not refused."""
    at = kit.box("import os\nos.system('echo ran')", ["action=warn"])
    done = kit.start(at, env={"PYTHONCOERCECLOCALE": "warn", "LC_CTYPE": "C", "LANG": "C"})
    assert done.stderr.startswith(b"Python detected LC_CTYPE=C") and MARK in done.stderr
    read = subprocess.run([kit.program, "report", "action=warn"], input=done.stderr + b"more\n", capture_output=True, timeout=60).stdout.decode()
    assert read == (
        "done blocked\n2\tOS command execution\twarn\tcalls os.system\n"
        "1\tscreening\tblock\tsomething was written before the report from inside the box\n\nmore\n"
    )


# --- the files that came along ---

SYSTEM_CALL = "import os\n\nos.system('x')\n"
BROUGHT = {  # files, and what is found: rule, line, reason
    "module": ({"helper.py": SYSTEM_CALL}, [(table.COMMAND, 3, "helper.py: calls os.system")]),
    "package": ({"pkg/__init__.py": "", "pkg/deep/er.py": "eval('1')\n"}, [(table.CODE, 1, "pkg/deep/er.py: calls eval")]),
    "in order": ({"b.py": SYSTEM_CALL, "a.py": "\n" + SYSTEM_CALL}, [(table.COMMAND, 4, "a.py: calls os.system")]),
    "nothing": ({"helper.py": "x = 1\n", "data.csv": "os.system('x')", "x.py.txt": SYSTEM_CALL, "data.zip": "PK"}, []),
    "not python": ({"broken.py": "os.system('x'\n", "nul.py": "a\0b"}, []),
    "of the user": ({".local/lib/python3.11/site-packages/usercustomize.py": SYSTEM_CALL}, [(table.COMMAND, 3, "...on3.11/site-packages/usercustomize.py: calls os.system")]),
    "line of a .pth": ({"a/x.pth": "lib\nimport (\r\ufeffimport os; os.system('x')\n"}, [(table.COMMAND, 3, "a/x.pth: calls os.system")]),
    "text of a .pth": ({"x.pth": "# os.system('x')\nlib/os.system('x')\n"}, []),
    "long name": ({"é" * 60 + ".py": SYSTEM_CALL}, [(table.COMMAND, 3, "..." + "é" * 34 + ".py: calls os.system")]),
    "odd name": ({"a\n\x1b\"\\.py": SYSTEM_CALL}, [(table.COMMAND, 3, 'a??"\\.py: calls os.system')]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROUGHT)
def test_files_that_could_be_imported(kit, name):
    files, found = BROUGHT[name]
    done = kit.run("print('ran')", files=files)
    assert [(table.RULES[one["rule"]], one["line"], one["reason"]) for one in done.report["findings"]] == found
    assert (done.returncode, done.stdout) == ((126, b"") if found else (0, b"ran\n"))


def test_the_script_comes_before_its_files(kit):
    done = kit.run("import helper\neval('1')", options=["action=warn"], files={"helper.py": SYSTEM_CALL + "eval('1')\n"})
    assert [(one["line"], one["reason"]) for one in done.report["findings"]] == [(3, "helper.py: calls os.system"), (2, "calls eval")]


@pytest.mark.parametrize(
    "files, reason",
    [
        ({"helper.pyc": "x"}, "helper.pyc: is compiled: nobody can look at it"),
        ({"__pycache__/helper.cpython-311.pyc": "x", "helper.py": ""}, "__pycache__/helper.cpython-311.pyc: is compiled: nobody can look at it"),
        ({"helper.abi3.so": "x"}, "helper.abi3.so: is compiled: nobody can look at it"),
        ({"helper.py": "# coding: utf-7\n"}, "helper.py: declares the encoding utf-7"),
        ({"a.py": "x = 1\n" * 100000, "b.py": "x = 1\n" * 100000}, "b.py: more than 1 MiB of modules: the rest was not looked at"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_looked_at(kit, files, reason):
    done = kit.run("print('ran')", files=files)
    assert rules_of(done) == tuple(table.RULES) and {one["reason"] for one in done.report["findings"]} == {reason}
    assert done.returncode == 126 and not done.stdout


def test_files_matter_only_where_there_are_rules(kit):
    done = kit.run("print('ran')", options=["action=off", "module=math"], files={"helper.pyc": "x", "helper.py": SYSTEM_CALL})
    assert (done.stdout, done.report["findings"]) == (b"ran\n", [])


HIDING = {  # what a parser of texts and the interpreter could read differently
    "utf-7": b"# coding: utf-7\n#+AAo-import os+ADs-os.system('echo ran')\n",
    "escapes": b"# coding: unicode_escape\n#\\nimport os; os.system('echo ran')\n",
    "raw escapes": b"# coding: raw-unicode-escape\n#\\u000aimport os; os.system('echo ran')\n",
    "in the second line": b"#!/usr/bin/python3\n# vim: set fileencoding=utf-7 :\n#+AAo-import os+ADs-os.system('echo ran')\n",
    "after a bom": b"\xef\xbb\xbf# coding: utf-7\n#+AAo-import os\n",
    "behind a carriage return": b"x = 1\r# coding: utf-7\n#+AAo-import os+ADs-os.system('echo ran')\n",
    "iso-2022": b"# coding: iso2022_jp\nprint('ran')\n",
    "punycode": b"# coding: punycode\nprint('ran')\n",
    "nul": b"print('a')\0\nimport os; os.system('echo ran')\n",
    "not utf-8": b"# coding: utf-8\n#\xff\nimport os; os.system('echo ran')\n",
    "compiled": None,
}


@pytest.mark.parametrize("name", HIDING)
def test_nothing_hides_from_the_parser(kit, name):
    code = HIDING[name]
    if code is None:
        import importlib.util
        import marshal

        code = importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(compile("import os; os.system('echo ran')", "x", "exec"))
    done = kit.run(code)
    assert b"ran" not in done.stdout, done
    assert done.returncode != 0


def test_plain_encodings_are_plain(kit):
    for name in ("utf-8", "UTF8", "latin-1", "iso-8859-15", "ascii", "us-ascii", "cp1252", "utf-8-sig", "utf_8"):
        done = kit.run(f"# -*- coding: {name} -*-\nprint('x')\n")
        assert (done.stdout, done.error) == (b"x\n", b""), name
    done = kit.run("encoding=1\nprint('x', encoding)\n# coding: utf-7\n")
    assert done.stdout == b"x 1\n"


def test_a_report_in_output_is_output(kit):
    forged = MARK + b'{"blocked":false,"findings":[]}\n'
    done = kit.run(f"import sys\nsys.stderr.buffer.write({forged!r})\nsys.stdout.buffer.write({forged!r})")
    assert (done.stdout, done.error) == (forged, forged)
    read = subprocess.run([kit.program, "report"], input=done.stderr, capture_output=True, timeout=60).stdout
    assert read == b"done\n\n" + forged


def test_what_the_front_reads(kit):
    done = kit.run("import os as o\n\no.system('x')\nx = '/etc/\\x1b[31mé'", options=["system file access=warn"])
    read = subprocess.run([kit.program, "report", "system file access=warn"], input=done.stderr + b"more\n", capture_output=True, timeout=60).stdout.decode()
    assert read == "done blocked\n3\tOS command execution\tblock\tcalls os.system (as o.system)\n4\tsystem file access\twarn\tnames /etc/?[31mé\n\nmore\n"


def test_long_names_in_reasons(kit):
    code = "import os as " + "ö" * 300 + "\n" + "ö" * 300 + ".system('x')\nx = '/etc/" + "\U0001f600\"\\\\" * 200 + "'"
    done = kit.run(code)
    assert rules_of(done) == (table.COMMAND, table.SYSTEM)
    read = subprocess.run([kit.program, "report"], input=done.stderr, capture_output=True, timeout=60).stdout.decode()
    assert read.startswith("done blocked\n2\tOS command execution\tblock\tcalls os.system (as öööö")


# --- bounds ---

BIG = {
    "statements": "1;" * 400000,
    "list": "x = [" + "1," * 400000 + "]",
    "assignments": "raise SystemExit\n" + "x = o\no = x\n" * 60000,
    "calls": "raise SystemExit\nimport os\n" + "f(g(h(os.path.join('a', 'b'))))\n" * 20000,
    "attributes": "raise SystemExit\n" + ("x = a" + ".b" * 800 + "\n") * 400,
    "texts": "raise SystemExit\n" + ("x = '/a'" + " + '/e'" * 400 + "\n") * 200,
    "doubling": "raise SystemExit\nx0 = '/a'\n" + "".join(f"x{i + 1} = x{i} + x{i}\n" for i in range(5000)) + "open(x5000)",
    "many values": "raise SystemExit\n" + "".join(f"x = m{i}.y\n" for i in range(20000)) + "x.z",
}


@pytest.mark.parametrize("name", BIG)
def test_large_scripts(kit, name):
    done = kit.run(BIG[name])
    assert (done.returncode, done.report, done.error) == (0, {"blocked": False, "findings": []}, b"")


def test_last_line_of_a_large_script(kit):
    done = kit.run("x = 1\n" * 150000 + "import os\nos.system('x')")
    assert done.report["findings"] == [{"rule": 1, "line": 150002, "reason": "calls os.system"}]


DEEP = {
    "parentheses": "(" * 150 + "1" + ")" * 150,
    "sums": "x = " + "1+" * 900 + "1",
    "sums, too deep": "x = " + "1+" * 100000 + "1",
    "minus": "x = " + "-" * 100000 + "1",
    "not": "x = " + "not " * 50000 + "1",
    "lambda": "x = " + "lambda: " * 5000 + "1",
    "attributes": "x = a" + ".b" * 100000,
    "calls": "x = a" + "()" * 100000,
    "if": "\n".join(" " * i + "if 1:" for i in range(99)) + "\n" + " " * 99 + "pass",
    "elif": "if 0: pass\n" + "elif 0: pass\n" * 5000,
    "ternary": "x = " + "1 if 1 else " * 5000 + "1",
    "power": "x = " + "1**" * 5000 + "1",
    "brackets": "[" * 100000,
    "f-strings": "x = " + "f'{" * 150 + "1" + "}'" * 150,
    "decorators": "@a\n" * 5000 + "def f(): pass",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_scripts_are_decided_as_python_does(kit, name):
    """Either it runs and was looked at, or it fails as it does without us: the script is never run unseen."""
    code = "raise SystemExit(5)\n" + DEEP[name] + "\n"
    plain, done = kit.plain(code), kit.run(code, options=["action=warn"])
    assert done.report is not None, done.stderr
    if plain.returncode == 5:
        assert done.returncode == 5 or done.report["findings"], done.error[:300]
    else:
        assert done.returncode == plain.returncode
        assert done.error.splitlines()[-1].split(b":")[0] == plain.stderr.splitlines()[-1].split(b":")[0]
        assert done.report["findings"] == []


def test_deep_names_are_found_or_said_to_be_undecided(kit):
    chain = "import os\nx0 = os\n" + "".join(f"x{i + 1} = x{i}\n" for i in range(3000)) + "x3000.system('ls')"
    assert rules_of(kit.run(chain)) == (table.COMMAND,)
    backwards = "def f():\n x0.system('ls')\n" + "".join(f"x{i} = x{i + 1}\n" for i in range(3000)) + "import os\nx3000 = os"
    assert table.COMMAND in rules_of(kit.run(backwards))
    nested = "import os\n" + "getattr(" * 90 + "os" + ", 'path')" * 90 + ".os.system('ls')"
    assert table.COMMAND in rules_of(kit.run(nested))


# --- the language level ---

SAFE = ["module=math", "module=json", "module=re"]
LEVEL = [  # the seeds' safe_execute_python_code first
    (SAFE, "import math; print(math.sqrt(16))", b"4.0\n", None),
    (SAFE, "import json, re; print(json.dumps({'a': 1}), re.sub('a', 'b', 'aa'))", b'{"a": 1} bb\n', None),
    (SAFE, "import os; print(os.listdir('/'))", b"", b"ImportError: the module 'os' is not allowed here; allowed_modules: math, json, re"),
    (SAFE, "import sys", b"", b"ImportError: the module 'sys' is not allowed here"),
    (SAFE, "from os import path", b"", b"ImportError: the module 'os' is not allowed"),
    (SAFE, "import os.path", b"", b"ImportError: the module 'os.path' is not allowed"),
    (SAFE, "def f():\n    import os\ntry:\n    f()\nexcept ImportError as e:\n    print(e.name)", b"os\n", None),
    (SAFE, "import helper\nprint(helper.x)", b"42\n", None),
    (SAFE, "import nosy", b"", b"ImportError: the module 'os' is not allowed"),
    (SAFE, "import nothing_of_the_kind", b"", b"ImportError: the module 'nothing_of_the_kind' is not allowed"),
    (SAFE, "import json.decoder; from json import encoder; print(json.decoder.JSONDecoder().decode('1'))", b"1\n", None),
    (SAFE, "open('os.py', 'w').write('')\nimport os", b"", b"ImportError: the module 'os' is not allowed"),
    (["module=xml.etree"], "import xml.etree.ElementTree as e; print(e.fromstring('<a/>').tag)", b"a\n", None),
    (["module=xml.etree"], "from xml.etree import ElementTree; print('ok')", b"ok\n", None),
    (["module=xml.etree"], "from xml import dom", b"", b"ImportError: the module 'xml.dom' is not allowed"),
    (["module=xml.etree"], "from xml import etree; print('ok')", b"ok\n", None),
    (["module=datetime"], "import datetime; print(datetime.datetime.strptime('2026', '%Y').year)", b"2026\n", None),
    (["module=collections"], "import collections; print(collections.namedtuple('A', 'x')(1))", b"A(x=1)\n", None),
    (["module=dataclasses"], "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 1\nprint(A())", b"A(x=1)\n", None),
    (["module=decimal", "module=statistics"], "import decimal, statistics; print(statistics.mean([decimal.Decimal(1), 2]))", b"1.5\n", None),
    (["module=importlib"], "import importlib\nprint(importlib.import_module('os').name)", b"posix\n", None),  # advice, not a wall
    (["builtin=open"], "with open('/etc/passwd', 'r') as f: print(f.read())", b"", b"NameError: name 'open' is not defined: it is one of restricted_builtins"),
    (["builtin=open"], "try:\n    open\nexcept NameError as e:\n    print(e.name)", b"open\n", None),
    (["builtin=open"], "def f():\n    return open('x')\nf()", b"", b"NameError: name 'open' is not defined: it is one of restricted_builtins"),
    (["builtin=open"], "print(len([1]), max(1, 2), sorted({3, 1}))\nclass A: pass\nprint([i for i in range(3)])", b"1 2 [1, 3]\n[0, 1, 2]\n", None),
    (["builtin=open"], "import json, tempfile, inspect\nf = tempfile.TemporaryFile()\nf.write(b'x')\nprint('ok')", b"ok\n", None),
    (["builtin=open"], "def open(x): return x\nprint(open(1))", b"1\n", None),
    (["builtin=open"], "prin(1)", b"", b"NameError: name 'prin' is not defined"),
    (["builtin=open"], "'open' in dir(__builtins__)\nprint('open' in __builtins__, '__import__' in __builtins__)", b"False True\n", None),
    (["builtin=eval", "builtin=exec"], "exec('print(1)')", b"", b"NameError: name 'exec' is not defined: it is one of restricted_builtins"),
    (["builtin=__import__"], "import json\nprint(json.dumps(1))\n__import__('os')", b"1\n", b"NameError: name '__import__' is not defined: it is one of restricted_builtins"),
    (SAFE + ["builtin=open"], "import math\nprint(math.pi > 3)\nopen('x')", b"True\n", b"NameError: name 'open'"),
    (SAFE + ["builtin=print"], "import os", b"", b"ImportError: the module 'os' is not allowed"),
]


@pytest.mark.parametrize("row", range(len(LEVEL)))
def test_language_level(kit, row):
    options, code, printed, error = LEVEL[row]
    files = {"helper.py": "import math\nx = 42\n", "nosy.py": "import os\n"}
    done = kit.run(code, options=[*options, "action=warn"], files=files)
    assert done.stdout == printed, done.error
    assert (error in done.error.splitlines()[-1]) if error else not done.error, done.error
    assert done.returncode == (1 if error else 0)


def test_tracebacks_of_the_language_level(kit):
    done = kit.run("import os", options=["module=math"])
    assert [line.strip().replace(str(done.box).encode(), b"HERE") for line in done.error.splitlines()] == [
        b"Traceback (most recent call last):",
        b'File "HERE/main.py", line 1, in <module>',
        b"import os",
        b'File "<glovebox>", line %d, in import_allowed' % int(done.error.partition(b'"<glovebox>", line ')[2].partition(b",")[0]),
        b"ImportError: the module 'os' is not allowed here; allowed_modules: math",
    ]


def test_language_level_without_rules(kit):
    done = kit.run("import os", options=["action=off", "module=math"])
    assert done.report == {"blocked": False, "findings": []} and b"ImportError" in done.error


# --- in real boxes ---


def boxed(gb, kit, code, *options, kit_options=()):
    at = kit.box(code, kit_options)
    files = [f"{path}:{path.relative_to(at)}" for path in sorted(at.rglob("*")) if path.is_file()]
    given = [word for file in files for word in ("--file", file)]
    env = ["--env", "PYTHONPATH=/sandbox/.glovebox", "--env", "PYTHONUSERBASE=/sandbox/.glovebox"]
    result = gb.json(*given, *env, *options, "--", "python3", "/sandbox/main.py", "a")
    return result, *split(result["stderr"].encode())


def test_in_a_box(gb, kit):
    result, report, error = boxed(gb, kit, "import os, sys\nprint(os.listdir('.'), sys.argv, sys.path[0])\n1/0")
    assert result["stdout"] == "['main.py'] ['/sandbox/main.py', 'a'] /sandbox\n"
    assert report == {"blocked": False, "findings": []} and result["exit_code"] == 1
    assert error.decode() == textwrap.dedent(
        '''\
        Traceback (most recent call last):
          File "/sandbox/main.py", line 2, in <module>
            1/0
            ~^~
        ZeroDivisionError: division by zero
        '''
    ).replace("line 2", "line 3")


def test_blocked_in_a_box(gb, kit):
    result, report, error = boxed(gb, kit, "import subprocess as s\ns.run(['touch', 'x'])", "--out", "*")
    assert (result["exit_code"], result["stdout"], error, result.get("files", [])) == (126, "", b"", [])
    assert report["blocked"] and report["findings"][0]["rule"] == 0


def test_packages_in_a_box(gb, kit):
    result, report, error = boxed(gb, kit, "import json, sqlite3, ssl, decimal\nprint(json.dumps(1))", kit_options=["module=json", "module=sqlite3", "module=ssl", "module=decimal"])
    assert (result["stdout"], error) == ("1\n", b"")


def test_large_script_in_a_box(gb, kit):
    """A script of the greatest length, of ordinary density, within the default limits of a box."""
    line = "def f%d(a, b=None):\n    '''Adds, or joins with the name of the thing.'''\n    return [x.name + str(b) for x in a if x.value > %d] or None\n"
    code = "import os\n" + "".join(line % (i, i) for i in range(7400))
    assert 1000000 < len(code) <= 1 << 20
    result, report, error = boxed(gb, kit, code + "print('ran')")
    assert (result["status"], result["stdout"], error) == ("success", "ran\n", b""), (result["status"], result.get("kill_reason"), error[:500])
