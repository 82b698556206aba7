"""`glovebox run`: what goes in, what comes out, and how it ends."""

import contextlib
import glob
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

import pytest

# --- what runs ---


def test_file_runs_by_its_ending_with_arguments(gb, tmp_path):
    scripts = {
        "a.py": "import sys; print('python', sys.argv[1:])",
        "a.sh": 'echo sh "$@"; test -z "$BASH_VERSION"',
        "a.bash": 'echo bash "${@:1}" ${BASH_VERSION:+yes}',
        "a.js": "console.log('node', process.argv.slice(2).join(' '))",
        "noending": "print('python by default')",
    }
    wanted = ["python ['-x', 'b c']\n", "sh -x b c\n", "bash -x b c yes\n", "node -x b c\n", "python by default\n"]
    for (name, text), output in zip(scripts.items(), wanted):
        (tmp_path / name).write_text(text)
        done = gb.run(tmp_path / name, "-x", "b c")
        assert (done.returncode, done.stdout.decode(), done.stderr) == (0, output, b"")


def test_lang_overrides_the_ending(gb, tmp_path):
    (tmp_path / "a.py").write_text("echo $((40 + 2))")
    assert gb.run("--lang", "sh", tmp_path / "a.py").stdout == b"42\n"


def test_code_is_a_script_file_in_the_working_directory(gb):
    assert gb.ok("import sys, os; print(__file__, sys.argv, os.getcwd(), os.listdir('.'))") == "/sandbox/main.py ['/sandbox/main.py'] /sandbox ['main.py']\n"
    assert gb.json("-c", "import sys; print(sys.argv[1:])", "a", "--json", "-c")["stdout"] == "['a', '--json', '-c']\n"
    assert gb.json("-c", "import sys; print(sys.argv[1:])", "--", "--x", "y")["stdout"] == "['--x', 'y']\n"


def test_a_program_is_found_in_path_or_by_name(gb, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool $0 $1\n")
    (tmp_path / "tool").chmod(0o755)
    assert gb.run("--", "echo", "-n", "--", "x").stdout == b"-- x"
    assert gb.run("--", "/usr/bin/env", "true").returncode == 0
    assert gb.run("--file", tmp_path / "tool", "--", "./tool", "1").stdout == b"tool ./tool 1\n"


def test_long_arguments_and_many(gb):
    result = gb.json("-c", "import sys; print(len(sys.argv[1]), len(sys.argv))", "x" * 100_000, *map(str, range(1000)))
    assert result["stdout"] == "100000 1002\n"


def test_nothing_of_one_run_is_seen_by_the_next(gb):
    look = "import os; print(sorted(os.listdir('/tmp') + os.listdir('/dev/shm') + os.listdir('.')))"
    gb.ok("for p in ('/tmp/t', '/dev/shm/s', 'w'): open(p, 'w').write('x')")
    assert gb.ok(look) == "['main.py']\n"


def test_many_runs_at_once_do_not_disturb_each_other(gb):
    """Each sweeps what dead runs left behind; none may take a run that is just being born for a dead one."""
    start = lambda i: subprocess.Popen([gb.program, "run", "--", "echo", str(i)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(3):
        ended = [p.communicate(timeout=60) for p in [start(i) for i in range(24)]]
        assert ended == [(b"%d\n" % i, b"") for i in range(24)]


# --- stdin ---

HASH = "import sys, hashlib; b = sys.stdin.buffer.read(); print(len(b), hashlib.sha256(b).hexdigest()[:8])"


def test_stdin_reaches_the_program_whole(gb, tmp_path):
    for data in (b"", b"\x00\xff\n", os.urandom(3 << 20)):
        wanted = f"{len(data)} {hashlib.sha256(data).hexdigest()[:8]}\n"
        assert gb.ok(HASH, input=data) == wanted
        (tmp_path / "in").write_bytes(data)
        assert gb.ok(HASH, "--stdin", tmp_path / "in") == wanted


def test_stdin_that_nobody_reads_does_not_hold_up_the_run(gb):
    big = b"x" * (10 << 20)
    assert gb.ok("print('unread')", input=big) == "unread\n"
    assert gb.ok("import os; os.close(0); print('closed')", input=big) == "closed\n"
    assert gb.ok("import sys; print(sys.stdin.read(3))", input=big) == "xxx\n"


def test_an_open_stdin_does_not_outlast_the_program(gb):
    read, write = os.pipe()
    with os.fdopen(write, "wb"), os.fdopen(read, "rb") as stdin:
        done = subprocess.run([gb.program, "run", "-c", "print('ended')"], stdin=stdin, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"ended\n")


def test_closed_descriptors_are_no_trouble(gb):
    script = f"exec {gb.program} run -c 'import sys; print(repr(sys.stdin.read()))'"
    assert subprocess.run(["sh", "-c", script + " <&-"], capture_output=True, timeout=60).stdout == b"''\n"
    assert subprocess.run(["sh", "-c", script + " <&- >&- 2>&-"], timeout=60).returncode == 0


def test_interactive_input_arrives_as_it_is_written(gb):
    code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    with subprocess.Popen([gb.program, "run", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        for word in (b"one\n", b"two\n"):
            p.stdin.write(word)
            p.stdin.flush()
            assert p.stdout.readline() == word.upper()
        p.stdin.close()
        assert p.wait(60) == 0


# --- environment ---


def test_environment_is_only_what_was_named(gb):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    env = {"SECRET_TOKEN": "s3cret", "PASSED": "from host", "LD_PRELOAD": "/nonexistent.so"}
    inside = json.loads(gb.ok(code, "--env", "A=1", "--env", "B=x=y z", "--env", "EMPTY=", "--env", "A=2", "--env", "PASSED", env=env))
    base = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL"}
    assert set(inside) - base - {"LC_CTYPE"} == {"A", "B", "EMPTY", "PASSED"}
    assert (inside["A"], inside["B"], inside["EMPTY"], inside["PASSED"], inside["HOME"]) == ("2", "x=y z", "", "from host", "/sandbox")


def test_path_can_be_set_and_is_used(gb, tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "mine").chmod(0o755)
    assert gb.run("--env", "PATH=/sandbox/bin:/bin", "--file", f"{tmp_path}/mine:bin/mine", "--", "mine").stdout == b"mine\n"


# --- files in ---


def test_files_arrive_with_name_bytes_and_exec_bit(gb, tmp_path):
    data = os.urandom(200_000)
    (tmp_path / "data.bin").write_bytes(data)
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "link").symlink_to("data.bin")
    code = """
import os, stat, subprocess, hashlib
for n in ('data.bin', 'deep/er/d', 'link', 'naïve name'): print(n, hashlib.sha256(open(n, 'rb').read()).hexdigest(), oct(os.lstat(n).st_mode))
print(subprocess.check_output('./run.sh').decode(), end='')
open('data.bin', 'a').write('x'); os.remove('deep/er/d'); open('deep/er/new', 'w')
"""
    files = [f"{tmp_path}/data.bin", f"{tmp_path}/data.bin:deep/er/d", f"{tmp_path}/link", f"{tmp_path}/data.bin:naïve name", f"{tmp_path}/run.sh"]
    digest = hashlib.sha256(data).hexdigest()
    out = gb.ok(code, *(word for f in files for word in ("--file", f)))
    assert out == "".join(f"{n} {digest} 0o100644\n" for n in ("data.bin", "deep/er/d", "link", "naïve name")) + "ran\n"
    assert (tmp_path / "data.bin").read_bytes() == data


@pytest.mark.parametrize("names", [("a", "a"), ("main.py", "b"), ("a", "a/b"), ("a/b", "a")])
def test_two_files_of_one_name_are_refused(gb, tmp_path, names):
    (tmp_path / "f").write_text("x")
    done = gb.run("--file", f"{tmp_path}/f:{names[0]}", "--file", f"{tmp_path}/f:{names[1]}", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.count(b"\n") == 1 and any(f"'{n}'".encode() in done.stderr for n in names)
    assert b"max_disk_mb" not in done.stderr  # more disk would not help


def test_a_file_too_large_for_the_disk_is_refused_by_name(gb, tmp_path):
    (tmp_path / "big").write_bytes(bytes(3 << 20))
    done = gb.run("--max-disk-mb", 2, "--file", tmp_path / "big", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"'big'" in done.stderr and b"max_disk_mb" in done.stderr and done.stderr.count(b"\n") == 1
    assert gb.run("--max-disk-mb", 4, "--file", tmp_path / "big", "-c", "print(1)").returncode == 0


# --- files out ---

MAKE_OUTPUTS = """
import os, socket
for n in ('one.txt', 'two.csv', '.hidden.txt', 'sub/deep/a.txt', 'sub/b.csv'):
    os.makedirs(os.path.dirname(n) or '.', exist_ok=True); open(n, 'w').write(n)
open('raw.bin', 'wb').write(bytes(range(256)))
open('empty', 'w'); os.chmod('one.txt', 0o1777)
"""


def bring(gb, tmp_path, code, *patterns, options=(), fresh=True):
    """Runs code, brings files back; returns (finished process, result, what is in the directory now)."""
    there = tmp_path / "out"
    there.mkdir(exist_ok=not fresh)
    words = [word for p in patterns for word in ("--out", p)]
    done = gb.run("--json", *options, *words, "--out-dir", there, "-c", code)
    result = json.loads(done.stdout) if done.stdout else None
    return done, result, {str(p.relative_to(there)): p.read_bytes() for p in there.rglob("*") if p.is_file() and not p.is_symlink()}


def test_outputs_by_name_and_by_glob(gb, tmp_path):
    done, result, got = bring(gb, tmp_path, MAKE_OUTPUTS, "one.txt", "*.csv", "sub/*/*.txt", "raw.bin", "empt?")
    assert done.returncode == 0 and done.stderr == b""
    assert got == {"one.txt": b"one.txt", "two.csv": b"two.csv", "sub/deep/a.txt": b"sub/deep/a.txt", "raw.bin": bytes(range(256)), "empty": b""}
    assert sorted((f["name"], f["bytes"]) for f in result["files"]) == sorted((n, len(d)) for n, d in got.items())
    modes = {p.stat().st_mode & 0o7777 for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert all(mode & 0o7133 == 0 for mode in modes)  # never executable, never writable by others, whatever the box said


def test_outputs_come_to_the_current_directory_by_default(gb, tmp_path):
    done = gb.run("--out", "one.txt", "-c", MAKE_OUTPUTS, cwd=tmp_path)
    assert done.returncode == 0 and os.listdir(tmp_path) == ["one.txt"]


def test_outputs_of_a_failed_or_killed_program_still_come_back(gb, tmp_path):
    done, result, got = bring(gb, tmp_path, "open('log', 'w').write('partial'); import time; time.sleep(60)", "log", options=("--timeout-seconds", 0.5))
    assert (done.returncode, result["status"], got) == (124, "timeout", {"log": b"partial"})
    done, result, got = bring(gb, tmp_path, "open('log2', 'w').write('x'); raise SystemExit(3)", "log2", fresh=False)
    assert (done.returncode, got["log2"]) == (3, b"x")


def test_an_output_by_name_that_does_not_come_is_told(gb, tmp_path):
    """Who asks for a file by its exact name must not learn from its absence alone."""
    code = MAKE_OUTPUTS + "os.symlink('sub', 'alias')"
    done, result, got = bring(gb, tmp_path, code, "missing.txt", "sub", "alias/b.csv", "one.txt")
    assert got == {"one.txt": b"one.txt"} and done.returncode == 125
    assert {f["name"] for f in result["files"] if f.get("skipped")} == {"missing.txt", "sub", "alias/b.csv"}
    assert all(name in done.stderr for name in (b"missing.txt", b"'sub'", b"alias/b.csv"))


def test_a_file_that_the_program_closed_to_itself(gb, tmp_path):
    """Root can read it all the same; an ordinary user's box has the user's own uid, so he cannot, and is told."""
    done, result, got = bring(gb, tmp_path, "import os; open('shut', 'w').write('x'); os.chmod('shut', 0)", "shut")
    assert (done.returncode, got) == ((125, {}) if gb.mode == "user" else (0, {"shut": b"x"}))
    assert ("skipped" in result["files"][0]) == (b"'shut'" in done.stderr) == (gb.mode == "user")


def test_a_glob_that_matches_nothing_is_no_error(gb, tmp_path):
    done, result, got = bring(gb, tmp_path, "print(1)", "*.png")
    assert (done.returncode, got, result["files"]) == (0, {}, [])


def test_only_plain_files_come_back_the_rest_is_told_and_nothing_waits(gb, tmp_path):
    code = """
import os, socket
open('good.x', 'w').write('good'); open('twin.x', 'w'); os.link('twin.x', 'hard.x')
os.symlink('/etc/passwd', 'abs.x'); os.symlink('good.x', 'rel.x'); os.symlink('loop.x', 'loop.x'); os.mkfifo('fifo.x'); os.mkdir('dir.x')
socket.socket(socket.AF_UNIX).bind('sock.x'); os.symlink('/etc', 'up'); os.symlink('/proc/self', 'self')
"""
    start = time.monotonic()
    done, result, got = bring(gb, tmp_path, code, "*.x", "up/*", "self/*")
    assert time.monotonic() - start < 20
    assert got == {"good.x": b"good"} and done.returncode == 125
    reasons = {f["name"]: f["skipped"] for f in result["files"] if "skipped" in f}
    assert set(reasons) == {"twin.x", "hard.x", "abs.x", "rel.x", "loop.x", "fifo.x", "dir.x", "sock.x"}
    assert all("link" in reasons[n] for n in ("twin.x", "hard.x", "abs.x", "rel.x", "loop.x"))
    assert all("not a regular file" in reasons[n] for n in ("fifo.x", "sock.x", "dir.x"))
    assert done.stderr.count(b"\n") == len(reasons) and all(line.startswith(b"glovebox: ") for line in done.stderr.splitlines())


def test_names_with_control_characters_are_not_echoed_raw(gb, tmp_path):
    done, result, got = bring(gb, tmp_path, "import os; os.mkfifo('a\\x1b[31m\\n.x'); open(b'\\xff.x', 'w').write('bad name')", "*.x")
    assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1
    assert result and len(result["files"]) == 2


def test_an_existing_file_is_kept_unless_replace_is_given(gb, tmp_path):
    there = tmp_path / "out"
    there.mkdir()
    (there / "one.txt").write_text("mine")
    done, result, _ = bring(gb, tmp_path, MAKE_OUTPUTS, "one.txt", fresh=False)
    assert (done.returncode, result) == (125, None) and b"--replace" in done.stderr  # known beforehand, so nothing ran
    done, result, got = bring(gb, tmp_path, MAKE_OUTPUTS, "*.txt", fresh=False)
    assert done.returncode == 125 and b"--replace" in done.stderr and got == {"one.txt": b"mine"}
    done, result, got = bring(gb, tmp_path, MAKE_OUTPUTS, "one.txt", options=["--replace"], fresh=False)
    assert (done.returncode, got) == (0, {"one.txt": b"one.txt"})
    assert os.listdir(there) == ["one.txt"]


def test_a_link_at_the_destination_is_never_followed(gb, tmp_path):
    there, victim, elsewhere = tmp_path / "out", tmp_path / "victim", tmp_path / "elsewhere"
    there.mkdir(), elsewhere.mkdir()
    victim.write_text("untouched")
    (there / "one.txt").symlink_to(victim)
    (there / "sub").symlink_to(elsewhere)
    for options in ([], ["--replace"]):
        done, _, _ = bring(gb, tmp_path, MAKE_OUTPUTS, "sub/*.csv", "sub/deep/*", options=options, fresh=False)
        assert done.returncode == 125 and b"sub/b.csv" in done.stderr
    done, _, _ = bring(gb, tmp_path, MAKE_OUTPUTS, "*.txt", fresh=False)
    assert done.returncode == 125 and (there / "one.txt").is_symlink()
    done, _, got = bring(gb, tmp_path, MAKE_OUTPUTS, "*.txt", options=["--replace"], fresh=False)
    assert done.returncode == 0 and got["one.txt"] == b"one.txt"  # the link itself was replaced
    assert victim.read_text() == "untouched" and os.listdir(elsewhere) == []


def test_a_directory_at_the_destination_is_refused(gb, tmp_path):
    (tmp_path / "out" / "one.txt").mkdir(parents=True)
    done, _, _ = bring(gb, tmp_path, MAKE_OUTPUTS, "*.txt", options=["--replace"], fresh=False)
    assert done.returncode == 125 and b"one.txt" in done.stderr and os.listdir(tmp_path / "out") == ["one.txt"]


def test_too_many_and_too_large_outputs_are_bounded(gb, tmp_path):
    code = "open('huge.x', 'wb').truncate(70 << 20)\nfor i in range(400): open(f'{i}.x', 'w')"
    done, result, got = bring(gb, tmp_path, code, "*.x", "huge.x")
    assert done.returncode == 125 and len(got) <= 256 and "huge.x" not in got
    assert any("too many" in f.get("skipped", "") for f in result["files"]) and len(done.stderr.splitlines()) <= 3


# --- the result as JSON ---

FIELDS = {
    "success": bool, "status": str, "exit_code": int, "signal": type(None), "was_killed": bool, "kill_reason": type(None), "stdout": str, "stderr": str,
    "truncated": bool, "resource_usage": dict, "files": list, "enforced": dict,
}  # fmt: skip


def test_json_has_every_field(gb):
    result = gb.python("import sys, time; print('out'); print('err', file=sys.stderr); open('f', 'wb').write(bytes(200000)); time.sleep(0.1)")
    assert {k: type(result[k]) for k in FIELDS} == FIELDS
    assert (result["success"], result["status"], result["exit_code"], result["was_killed"], result["truncated"]) == (True, "success", 0, False, False)
    assert (result["stdout"], result["stderr"], result["files"]) == ("out\n", "err\n", [])
    used = result["resource_usage"]
    assert set(used) == {"cpu_ms", "wall_ms", "memory_peak_mb", "pids_peak", "disk_bytes", "stdout_bytes", "stderr_bytes"}
    assert 0 < used["cpu_ms"] < 10_000 and 100 <= used["wall_ms"] < 30_000 and 1 < used["memory_peak_mb"] < 256
    assert used["pids_peak"] in (1, None) and 200_000 <= used["disk_bytes"] < 300_000 and (used["stdout_bytes"], used["stderr_bytes"]) == (4, 4)


def test_json_receipt_tells_what_was_enforced(gb):
    e = gb.json("--", "true")["enforced"]
    assert (e["backend"], e["network"], e["seccomp"], e["root"], e["degraded"]) == ("native", "none", "default", "system", [])
    assert e["cgroup"]["version"] in (1, 2) and set(e["cgroup"]["controllers"].split(",")) >= {"memory", "pids", "cpu"}
    assert {"ns-user", "ns-mount", "ns-pid", "ns-net", "ns-ipc", "ns-uts", "ns-cgroup", "seccomp", "landlock", "capabilities", "pivot", "rlimits"} <= set(e["steps"])
    assert e["landlock_abi"] >= 1 and len(e["policy_hash"]) == 64 and e["supplementary_groups"] == 0
    assert ("uid" in e["steps"]) == (gb.mode == "root")
    assert e["host_uid"] >= 2_000_000_000 if gb.mode == "root" else e["host_uid"] == os.geteuid()


def test_policy_hash_changes_with_what_is_allowed(gb, tmp_path):
    runs = [[], [], ["--max-pids", 5]]
    if gb.path == "cold":  # no zygote shows directories of the host
        runs += [["--mount", f"{tmp_path}:/data"], ["--writable", f"{tmp_path}:/data"]]
    hashes = [gb.json(*options, "--", "true")["enforced"]["policy_hash"] for options in runs]
    assert hashes[0] == hashes[1] and len(set(hashes)) == len(runs) - 1


def test_json_is_valid_for_any_bytes(gb):
    code = r"""
import os, sys
os.write(2, b'\xed\xa0\x80\x00')
sys.stdout.buffer.write(bytes(range(256)) * 4 + os.urandom(50000) + '\u2028é😀\ufeff'.encode() + b'\xf0\x9f')"""
    done = gb.run("--json", "-c", code)
    result = json.loads(done.stdout.decode("utf-8", errors="strict"), strict=True)
    assert done.stdout.endswith(b"}\n") and done.stdout.count(b"\n") == 1
    assert "\x00" in result["stderr"] and "\ufffd" in result["stderr"] and "é😀\ufeff" in result["stdout"] and "\x7f" in result["stdout"]
    result["stdout"].encode("utf-8")  # no lone surrogates


def test_without_json_bytes_pass_unchanged(gb):
    done = gb.run("-c", "import os; b = bytes(range(256)) * 300; os.write(1, b); os.write(2, b[::-1])")
    assert (done.returncode, done.stdout, done.stderr) == (0, bytes(range(256)) * 300, (bytes(range(256)) * 300)[::-1])


# --- how it ends ---


@pytest.mark.parametrize(
    "code, status, exit_code, number, returncode",
    [
        ("pass", "success", 0, None, 0),
        ("raise SystemExit(7)", "error", 7, None, 7),
        ("raise SystemExit(255)", "error", 255, None, 255),
        ("import os; os._exit(124)", "error", 124, None, 124),
        ("import os; os.kill(os.getpid(), 15)", "error", None, 15, 143),
        ("import os; os.abort()", "error", None, 6, 134),
        ("import os; os.kill(os.getpid(), 9)", "error", None, 9, 137),
        ("import ctypes; ctypes.string_at(0)", "error", None, 11, 139),
    ],
)
def test_exit_code_is_the_programs_own(gb, code, status, exit_code, number, returncode):
    done = gb.run("--json", "-c", code)
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["exit_code"], result["signal"]) == (returncode, status, exit_code, number)
    assert (result["was_killed"], result["kill_reason"], result["success"]) == (False, None, status == "success")


def test_what_the_program_leaves_running_ends_with_it(gb):
    start = time.monotonic()
    result = gb.sh("setsid sleep 300 & (trap '' TERM HUP; nohup sleep 300 > /dev/null 2>&1 &) ; echo gone")
    assert result["status"] == "success" and result["stdout"] == "gone\n" and time.monotonic() - start < 30


# --- the caller ---


@contextlib.contextmanager
def running(gb, *options, shell="sleep {marker} & exec sleep {marker}", **kwargs):
    """A box that sleeps, up and running: (glovebox, a word that is in its processes' arguments)."""
    marker = f"{300 + uuid.uuid4().int % 10**12 / 10**12:.12f}"
    command = [gb.program, "run", *options, "--lang", "sh", "-c", "echo up; " + shell.format(marker=marker)]
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs})
    try:
        deadline = time.monotonic() + 30
        while not (found := boxed(marker)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found, "the box did not start"
        yield p, marker
    finally:
        p.kill()
        p.wait()
        for pipe in (p.stdout, p.stderr):
            if pipe:
                pipe.close()


def boxed(marker):
    """Pids, as the host sees them, of the box's processes that carry the marker as an argument of their own."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in pathlib.Path(path).read_bytes().split(b"\0"):
                found.append(int(path.split("/")[2]))
    return found


def gone(marker):
    deadline = time.monotonic() + 20
    while boxed(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not boxed(marker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_glovebox_cancels_the_run(gb, number):
    with running(gb, "--json") as (p, marker):
        p.send_signal(number)
        out, err = p.communicate(timeout=30)
        assert p.returncode == 130 and gone(marker)
        result = json.loads(out)
        assert (result["status"], result["kill_reason"], result["was_killed"], result["stdout"]) == ("cancelled", "cancelled", True, "up\n")


def cgroups_of(pid):
    """Names of the cgroups that glovebox made for this process."""
    names = {os.path.basename(line.rstrip("\n").split(":", 2)[2]) for line in open(f"/proc/{pid}/cgroup")}
    return {name for name in names if name.startswith("glovebox.box-")}


def cgroup_dirs(names):
    return [d for d, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(d) in names]


def test_sigkill_of_glovebox_leaves_no_process_and_the_next_run_sweeps_the_cgroup(gb):
    with running(gb, shell="trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; sleep {marker}' & sleep {marker}; sleep {marker}") as (p, marker):
        names = cgroups_of(boxed(marker)[0])
        assert names and cgroup_dirs(names)
        p.kill()
        p.wait()
        assert gone(marker)
    deadline = time.monotonic() + 20  # a run at the same moment may hold the sweep up; the kernel lets go of dead tasks a little later
    while cgroup_dirs(names) and time.monotonic() < deadline:
        assert gb.run("--", "true").returncode == 0
    assert not cgroup_dirs(names)


def test_sigkill_of_glovebox_at_any_moment_of_the_set_up_leaves_no_process(gb):
    marker = f"{uuid.uuid4().int % 10**12 + 10**12}"
    for ms in range(0, 20):
        p = subprocess.Popen([gb.program, "run", "--", "sleep", marker], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(ms / 1000)
        p.kill()
        p.wait()
    assert gone(marker)


def test_a_run_removes_its_own_cgroup(gb):
    with running(gb, "--timeout-seconds", "2") as (p, marker):
        names = cgroups_of(boxed(marker)[0])
        assert p.wait(60) == 124
        assert names and not cgroup_dirs(names)


def test_output_arrives_before_the_end(gb):
    with running(gb) as (p, marker):
        assert p.stdout.readline() == b"up\n"
        assert p.poll() is None and boxed(marker)


def test_a_slow_reader_does_not_stop_the_deadline(gb):
    with running(gb, "--timeout-seconds", "1.5", shell="sleep {marker} & exec yes") as (p, marker):
        start = time.monotonic()
        assert gone(marker) and time.monotonic() - start < 15  # nothing was read yet
        assert len(p.stdout.read()) == 1_000_000
        assert p.wait(30) == 124


def test_glovebox_obeys_a_signal_while_it_waits_for_a_slow_reader(gb):
    with running(gb, "--timeout-seconds", "3", shell="sleep {marker} & exec yes") as (p, marker):
        assert gone(marker)
        time.sleep(0.2)
        p.send_signal(signal.SIGTERM)
        p.wait(10)


def test_a_reader_that_goes_away_costs_nothing_but_the_output(gb, tmp_path):
    """As in `glovebox run … | head -1`: the program's files still come back, nothing is left behind."""
    code = "print('x' * 200000, flush=True)\nimport time; time.sleep(0.3)\nprint('y' * 200000)\nopen('f', 'w').write('kept')"
    p = subprocess.Popen([gb.program, "run", "--out", "f", "--out-dir", tmp_path, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.close()
    err = p.stderr.read()
    p.stderr.close()
    assert p.wait(60) in (0, 125, 141, -signal.SIGPIPE) and b"Sanitizer" not in err
    assert (tmp_path / "f").read_text() == "kept"


def test_output_that_cannot_be_written_is_an_error(gb):
    for options in ("", "--json"):
        done = subprocess.run(["sh", "-c", f"exec {gb.program} run {options} -c 'print(1)' < /dev/null > /dev/full"], stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 125 and done.stderr.startswith(b"glovebox: ") and done.stderr.count(b"\n") == 1
