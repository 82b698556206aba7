"""glovebox approvals, tools and call: the command line as a client of a running service."""

import contextlib
import json
import os
import pty
import re
import socket
import sqlite3
import subprocess
import threading

import pytest

import api
from conftest import BUILD, Service, wait_for

pytestmark = pytest.mark.rootonly  # another user changes nothing about it

TOOLS = [
    {"name": "ask", "description": "needs a person", "code": {"language": "python"}, "approval": "always"},
    {"name": "py", "description": "runs \x1b[31mPython\u202e", "code": {"language": "python"}},
    {"name": "sh", "description": "runs a line", "command": {}},
    {"name": "limited", "description": "once", "code": {}, "budget": {"calls_per_day": 1}},
]


@pytest.fixture(scope="module")
def local():
    """Without keys; found by its unix socket."""
    s = Service({"tools": TOOLS})
    try:
        s.start()
        yield s
        assert s.stop() == 0, s.log()
    finally:
        s.remove()


def glovebox(service, *args, env=None, input="", url=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GLOVEBOX_")} | (env or {})
    options = ["--url", f"unix:{service.unix_path}"] if url else []
    return subprocess.run([BUILD / "glovebox", args[0], *options, *map(str, args[1:])], capture_output=True, text=True, timeout=120, env=env, input=input)


def good(service, *args, **kwargs):
    done = glovebox(service, *args, **kwargs)
    assert done.returncode == 0, (args, done)
    return done.stdout


# --- tools ---


def test_tools(local):
    out = good(local, "tools")
    assert [line.split()[0] for line in out.splitlines()] == ["ask", "py", "sh", "limited"]
    assert "\x1b" not in out and "\u202e" not in out and good(local, "tools", "list") == out
    document = json.loads(good(local, "tools", "--json"))
    assert document == local.request("GET", "/v1/tools").json()
    shown = good(local, "tools", "show", "py")
    assert shown.startswith("py\n") and '"code"' in shown and "\x1b" not in shown
    assert json.loads(good(local, "tools", "show", "--json", "py"))["name"] == "py"
    gone = glovebox(local, "tools", "show", "nothing")
    assert gone.returncode == 1 and "nothing" in gone.stderr


# --- call ---

CALLS = [
    (["py", "code=print(2 + 2)"], 0, "4\n", []),
    (["py", "--arguments", '{"code": "print(3)"}'], 0, "3\n", []),
    (["py", "code=import sys; sys.exit(3)"], 3, "", []),
    (["py", "code=import os, signal; os.kill(os.getpid(), signal.SIGTERM)"], 143, "", []),
    (["py", "code=import sys; print('o'); print('e', file=sys.stderr)"], 0, "o\n", ["e\n"]),
    (["py", "code:=5"], 126, "", ["invalid_arguments: arguments.code", "hint: "]),
    (["py", "code=import os\nos.system('ls')"], 126, "", ["screened: Blocked pattern", "hint: "]),
    (["sh", "command=echo hello | wc -c"], 0, "6\n", []),
    (["sh", "command=rm -rf /"], 126, "", ["command_not_allowed", "rm", "hint: "]),
    (["nothing", "code=1"], 125, "", ["there is no tool", "not_found"]),
    (["py", "--arguments", "[]"], 125, "", ["must be a JSON object"]),
    (["py", "--arguments", "{"], 125, "", ["--arguments: "]),
    (["py", "--arguments", "{}", "code=1"], 125, "", ["not both"]),
    (["py", "code"], 125, "", ["'code' is no argument", "name=text"]),
    (["py", "code=1", "code=2"], 125, "", ["given twice"]),
    (["py", "code:=["], 125, "", ["code: "]),
    (["../x"], 125, "", ["the name of a tool"]),
    ([], 125, "", ["the name of a tool"]),
    (["py", "--approval", "x", "code=1"], 125, "", ["--approval takes"]),
    (["py", "--nothing"], 125, "", ["unknown option"]),
]


@pytest.mark.parametrize("words, code, out, err", CALLS, ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else None)
def test_call(local, words, code, out, err):
    done = glovebox(local, "call", *words)
    assert (done.returncode, done.stdout) == (code, out), done
    assert all(text in done.stderr for text in err), done.stderr


def test_call_more(local):
    assert good(local, "call", "py", "--arguments", "-", input='{"code": "print(5)"}') == "5\n"
    result = json.loads(good(local, "call", "py", "--json", "code=print(7)"))
    assert result["stdout"] == "7\n" and result["status"] == "success"
    blocked = glovebox(local, "call", "--json", "sh", "command=rm x")
    assert blocked.returncode == 126 and json.loads(blocked.stdout)["status"] == "blocked"
    long = local.request("POST", "/v1/tools/py/call", {"arguments": {"code": "print('x' * 100000)"}}).json()["stdout"]
    assert good(local, "call", "py", "code=print('x' * 100000)") == long


def test_the_result_of_a_tool_that_is_no_program(make_service):
    service = make_service()
    path = service.dir / "data/x.db"
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE t(a); INSERT INTO t VALUES(char(27) || '[2J')")
    for place in (path.parent, path):
        place.chmod(0o777)  # the broker is another user
    service.configure({"tools": [{"name": "query", "description": "asks", "sql": {"sqlite": str(path), "tables": {"t": True}}}]})
    service.start()
    out = good(service, "call", "query", "query=SELECT a FROM t")
    assert json.loads(out)["rows"] == [["\x1b[2J"]] and "\x1b" not in out
    denied = glovebox(service, "call", "query", "query=DELETE FROM t")
    assert denied.returncode == 126 and "sql_not_allowed: " in denied.stderr and denied.stdout == ""
    assert len(denied.stderr.splitlines()) == 2  # the reason and the hint, once


def test_statuses_become_exit_codes(start_service):
    service = start_service({"tools": TOOLS, "limits": {"timeout_seconds": 1, "max_memory_mb": 32}})
    slow = glovebox(service, "call", "py", "code=import time; time.sleep(100)")
    assert slow.returncode == 124 and "timeout" in slow.stderr
    big = glovebox(service, "call", "py", "code=x = bytearray(200 << 20)")
    assert big.returncode == 137 and "memory" in big.stderr
    assert good(service, "call", "limited", "code=print(1)") == "1\n"
    late = glovebox(service, "call", "limited", "code=print(1)")
    assert late.returncode == 126 and "budget_exceeded: the budget calls_per_day of the tool limited is used up: 1 of 1" in late.stderr


def test_a_terminal_is_not_steered(local):
    """What programs print reaches a pipe as it is, and a terminal without its controls."""
    code = "code=print('a\\x1b[31mb\\u202ec\\td\\x07e')\nprint('f')"
    raw = good(local, "call", "py", code)
    assert raw == "a\x1b[31mb\u202ec\td\x07e\nf\n"
    master, slave = pty.openpty()
    done = subprocess.Popen([BUILD / "glovebox", "call", "--url", f"unix:{local.unix_path}", "py", code], stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:  # EIO: the other side is closed
        pass
    os.close(master)
    assert done.wait(60) == 0
    assert b"\x1b" not in seen and b"\x07" not in seen and "\u202e".encode() not in seen
    assert b"\td" in seen and seen.endswith(b"\r\nf\r\n") and seen.startswith(b"a")


# --- approvals ---


def test_approvals(local):
    assert good(local, "approvals") == "Nothing waits for approval.\n"
    pending = glovebox(local, "call", "ask", "--no-wait", "code=print('hi')\x1b[2J")
    assert pending.returncode == 126 and "approval_pending: approval " in pending.stderr
    (row,) = json.loads(good(local, "approvals", "list", "--json"))["approvals"]
    id = row["id"]
    assert id in pending.stderr
    table = good(local, "approvals", "list")
    assert table.splitlines()[0].split() == ["ID", "STATE", "PRINCIPAL", "TOOL", "EXPIRES", "REQUEST"]
    assert table.splitlines()[1].split()[:4] == [id, "pending", "local", "ask"] and "\x1b" not in table
    shown = good(local, "approvals", "show", id)
    assert '"print(\'hi\')\\u001B[2J"' in shown and "\x1b" not in shown
    assert json.loads(good(local, "approvals", "show", id, "--json"))["id"] == id
    assert good(local, "approvals", "approve", id, "--reason", "ok") == f"approved {id}\n"
    again = glovebox(local, "approvals", "deny", id)
    assert again.returncode == 1 and "approved" in again.stderr
    done = glovebox(local, "call", "ask", "--approval", id, "code=print('hi')\x1b[2J")
    assert done.returncode == 1, done  # it ran, and is no Python
    other = glovebox(local, "call", "ask", "--approval", id, "code=print('hi')\x1b[2J")
    assert other.returncode == 126 and "approval_mismatch" in other.stderr


def test_a_script_is_shown_as_lines(local):
    """What a person must read is readable, and cannot pretend to be more than the text that it is."""
    code = "print('lines')\n\n# \u00e9 \x1b[2J \u202e\nstate             approved\n"
    glovebox(local, "call", "ask", "--no-wait", f"code={code}")
    (row,) = [a for a in json.loads(good(local, "approvals", "--json"))["approvals"] if "lines" in a["summary"]]
    shown = good(local, "approvals", "show", row["id"])
    assert re.search(r"    \| print\('lines'\)\n    \| \n    \| # \u00e9 \?\[2J \?+\n    \| state             approved\n    \| \n", shown), shown
    assert shown.count("\nstate ") == 1 and "--json" in shown
    assert json.loads(good(local, "approvals", "show", "--json", row["id"]))["request"]["arguments"]["code"] == code
    good(local, "approvals", "deny", row["id"])


def test_deny(local):
    glovebox(local, "call", "ask", "--no-wait", "code=print('no')")
    (row,) = [a for a in json.loads(good(local, "approvals", "--json"))["approvals"] if "no" in a["summary"]]
    assert good(local, "approvals", "deny", "--reason", "not today", row["id"]) == f"denied {row['id']}\n"
    done = glovebox(local, "call", "ask", "--approval", row["id"], "code=print('no')")
    assert done.returncode == 126 and "not today" in done.stderr and "approval_denied" in done.stderr


def test_a_call_waits_for_the_command_line(local):
    waiting = subprocess.Popen([BUILD / "glovebox", "call", "--url", local.unix_path, "ask", "code=print('waited')"], stdout=subprocess.PIPE)
    find = lambda: [a["id"] for a in json.loads(good(local, "approvals", "--json"))["approvals"] if "waited" in a["summary"]]  # noqa: E731
    (id,) = wait_for("the approval", find)
    good(local, "approvals", "approve", id)
    assert waiting.communicate(timeout=60)[0] == b"waited\n" and waiting.returncode == 0


@pytest.mark.parametrize(
    "words, text",
    [
        (["frob"], "approvals takes list, show, approve or deny"),
        (["show"], "takes the ID"),
        (["approve", "x"], "is not the ID"),
        (["approve", "../../execute"], "is not the ID"),
        (["list", "x"], "takes no argument"),
        (["list", "--reason", "x"], "does not take --reason"),
        (["show", "a", "b"], "what is 'b'"),
        (["--frob"], "unknown option"),
    ],
)
def test_wrong_words(local, words, text):
    done = glovebox(local, "approvals", *words)
    assert done.returncode == 125 and text in done.stderr, done
    assert "usage: glovebox approvals" in good(local, "approvals", "--help")


def test_no_such_approval(local):
    done = glovebox(local, "approvals", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.returncode == 1 and "no approval" in done.stderr


# --- finding the service, and the key ---


def test_keys(start_service, tmp_path):
    service = start_service({"tools": TOOLS, "keys": api.keys(alice={}, boss={}), "principals": {"alice": {}, "boss": {"approver": True}}})
    assert "unauthorized" in glovebox(service, "tools").stderr
    assert glovebox(service, "tools").returncode == 125
    env = {"GLOVEBOX_KEY": api.key_of("alice"), "GLOVEBOX_URL": f"http://127.0.0.1:{service.port}"}
    assert good(service, "tools", env=env, url=False)
    key = tmp_path / "key"
    key.write_text(api.key_of("boss") + "\n")
    key.chmod(0o600)
    assert good(service, "approvals", "--key-file", key) == "Nothing waits for approval.\n"
    assert good(service, "approvals", "--key-file", key, env={"GLOVEBOX_KEY": "wrong"})  # the option wins
    assert glovebox(service, "call", "ask", "--no-wait", "code=1", env=env).returncode == 126
    (row,) = json.loads(good(service, "approvals", "--json", env=env))["approvals"]
    own = glovebox(service, "approvals", "approve", row["id"], env=env)
    assert own.returncode == 1 and "approver" in own.stderr
    assert good(service, "approvals", "approve", row["id"], "--key-file", key)
    key.chmod(0o644)
    assert "others can read it" in glovebox(service, "tools", "--key-file", key).stderr
    for text, why in [("", "is empty"), ("a b", "visible ASCII"), ("a\x1b", "visible ASCII")]:
        key.unlink()
        key.write_text(text)
        key.chmod(0o600)
        assert why in glovebox(service, "tools", "--key-file", key).stderr, text
    assert "visible ASCII" in glovebox(service, "tools", env={"GLOVEBOX_KEY": "a\r\nX-Evil: 1"}).stderr


def test_found_by_the_configuration(local, tmp_path):
    """Without --url the configuration of the caller says where: the variable is that of the setting."""
    env = {"GLOVEBOX_LISTEN": f"127.0.0.1:1,unix:{local.unix_path}", "GLOVEBOX_STATE_DIR": str(tmp_path), "GLOVEBOX_RUNTIME_DIR": str(tmp_path)}
    assert good(local, "tools", env=env, url=False) == good(local, "tools")
    assert good(local, "tools", "--url", f"http://localhost:{local.port}/", url=False) == good(local, "tools")


URLS = [
    ("unix:/nowhere/at.all", "cannot reach the service"),
    ("http://127.0.0.1:1", "cannot reach the service"),
    ("https://127.0.0.1:1", "--url takes"),
    ("ftp://x", "--url takes"),
    ("unix:relative", "absolute path"),
    ("/" + "x" * 200, "at most"),
    ("http://example.com", "http://example.com"[7:]),
    ("http://127.0.0.1:1/path", "no path"),
    ("http://localhost.evil:1", "localhost.evil"),
    ("", "--url takes"),
]


@pytest.mark.parametrize("url, text", URLS)
def test_urls(local, url, text):
    done = glovebox(local, "tools", "--url", url, url=False)
    assert done.returncode == 125 and text in done.stderr, done
    if url.startswith("http://example"):
        other = glovebox(local, "tools", "--url", "http://192.0.2.1:80", url=False, env={"GLOVEBOX_KEY": "k"})
        assert other.returncode == 125 and "without TLS" in other.stderr


REPLIES = {
    "chunked": (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{"tools": \r\n3;x\r\n[]}\r\n0\r\n\r\n', 0),
    "until its end": (b'HTTP/1.1 200 OK\r\n\r\n{"tools": []}', 0),
    "cut off": (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"tools": []}', 125),
    "chunks cut off": (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"tools": []}', 125),
    "no chunks": (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{"tools": []}', 125),
    "chunks beyond all": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nx", 125),
    "another coding": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", 125),
    "not HTTP": (b"SSH-2.0-x\r\n\r\n", 125),
    "nothing": (b"", 125),
    "no JSON": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 125),
    "escapes": (b'HTTP/1.1 403 No\r\n\r\n{"code": "\\u001b[2J", "detail": "\\u001b]0;x\\u0007"}', 125),
    "other JSON": (b"HTTP/1.1 200 OK\r\n\r\n[1, 2]", 0),
}


@pytest.mark.parametrize("what", REPLIES)
def test_what_answers_may_be_anything(local, tmp_path, what):
    reply, code = REPLIES[what]
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def answer():
            with listener.accept()[0] as sock:
                sock.recv(65536)
                sock.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        done = glovebox(local, "tools", "--url", path, url=False)
        thread.join()
    assert done.returncode == code, done
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr and "Sanitizer" not in done.stderr


def test_pages_name_every_verb():
    top = BUILD and api.TOP
    done = subprocess.run([BUILD / "glovebox", "--help"], capture_output=True, text=True, timeout=60)
    for verb in ("approvals", "tools", "call"):
        assert f"\n  {verb} " in done.stdout
        page = (top / f"man/glovebox-{verb}.1").read_text()
        assert f".Nm glovebox-{verb}\n" in page
        help = subprocess.run([BUILD / "glovebox", verb, "-h"], capture_output=True, text=True, timeout=60)
        assert help.returncode == 0 and "--key-file" in help.stdout and help.stdout.startswith(f"usage: glovebox {verb}")
