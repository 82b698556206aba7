"""Whatever is wrong with a call, the answer is one clear line, exit code 125, nothing on stdout, and no crash."""

import os
import shutil
import subprocess

import pytest

SHOWN = pytest.mark.cold("a zygote has no directories of the host but the system's own")
EXECUTES = pytest.mark.executes("a program that cannot be started")


def refused(done, *words):
    error = done.stderr.decode("utf-8", errors="replace")
    assert done.returncode == 125, (done.returncode, error)
    assert done.stdout == b"" and "Sanitizer" not in error and "runtime error" not in error
    assert error.startswith("glovebox: ") and error.endswith("\n") and error.count("\n") == 1, error
    assert all(c.isprintable() for c in error[:-1]), ascii(error)
    assert len(error) < 1200
    for word in words:
        assert word in error, error


CASES = {
    # what is called: (arguments, words that the line must have)
    "no arguments": ([], []),
    "unknown verb": (["frobnicate"], ["frobnicate"]),
    "option instead of a verb": (["--frobnicate"], ["--frobnicate"]),
    "empty verb": ([""], []),
    "nothing to run": (["run"], ["nothing to run"]),
    "only options": (["run", "--json"], ["nothing to run"]),
    "unknown option": (["run", "--frobnicate", "-c", "1"], ["--frobnicate"]),
    "unknown short option": (["run", "-z", "-c", "1"], ["-z"]),
    "a limit that is none": (["run", "--max-frob", "1", "-c", "1"], ["--max-frob"]),
    "an abbreviated option": (["run", "--timeout", "1", "-c", "1"], ["--timeout"]),
    "a value for a flag": (["run", "--json=yes", "-c", "1"], ["--json"]),
    "code without a value": (["run", "-c"], ["-c"]),
    "lang without a value": (["run", "--lang"], ["--lang"]),
    "limit without a value": (["run", "--max-pids"], ["--max-pids"]),
    "limit with an empty value": (["run", "--max-pids=", "-c", "1"], ["max_pids"]),
    "limit out of range": (["run", "--max-pids", "32769", "-c", "1"], ["max_pids", "32768"]),
    "code twice": (["run", "-c", "1", "-c", "2"], ["-c"]),
    "unknown language": (["run", "--lang", "cobol", "-c", "1"], ["cobol", "python", "node"]),
    "empty language": (["run", "--lang", "", "-c", "1"], ["python"]),
    "language of a program": (["run", "--lang", "sh", "--", "true"], ["--lang"]),
    "no program after dashes": (["run", "--"], ["--"]),
    "empty program": (["run", "--", ""], ["empty"]),
    "missing program": (["run", "--", "no-such-program"], ["no-such-program"]),
    "missing program by path": (["run", "--", "/no/such/program"], ["/no/such/program"]),
    "directory as a program": (["run", "--", "/usr"], ["/usr"]),
    "missing file": (["run", "no-such-file.py"], ["no-such-file.py", "No such file"]),
    "empty file name": (["run", ""], ["No such file"]),
    "directory as a file": (["run", "/usr"], ["/usr", "directory"]),
    "output above": (["run", "--out", "../x", "-c", "1"], ["../x"]),
    "output above, later": (["run", "--out", "a/../../x", "-c", "1"], ["a/../../x"]),
    "absolute output": (["run", "--out", "/etc/passwd", "-c", "1"], ["/etc/passwd"]),
    "output in the box's own terms": (["run", "--out", "/sandbox/x", "-c", "1"], ["relative"]),
    "empty output": (["run", "--out", "", "-c", "1"], ["output"]),
    "output directory that is not": (["run", "--out", "x", "--out-dir", "/no/such", "-c", "1"], ["/no/such"]),
    "output directory that is a file": (["run", "--out", "x", "--out-dir", "/etc/passwd", "-c", "1"], ["/etc/passwd"]),
    "input file missing": (["run", "--file", "no-such-input", "-c", "1"], ["no-such-input"]),
    "input file is a directory": (["run", "--file", "/usr", "-c", "1"], ["/usr", "regular file"]),
    "input file is a device": (["run", "--file", "/dev/zero:z", "-c", "1"], ["/dev/zero"]),
    "input name above": (["run", "--file", "/etc/hostname:../x", "-c", "1"], ["../x"]),
    "input name absolute": (["run", "--file", "/etc/hostname:/etc/x", "-c", "1"], ["/etc/x"]),
    "input name is the directory": (["run", "--file", "/etc/hostname:.", "-c", "1"], ["."]),
    "input name empty": (["run", "--file", "/etc/hostname:", "-c", "1"], ["name"]),
    "input name too long": (["run", "--file", "/etc/hostname:" + "x" * 300, "-c", "1"], ["xxx"]),
    "environment name with a digit first": (["run", "--env", "1A=2", "-c", "1"], ["1A"]),
    "environment name with a dash": (["run", "--env", "A-B=2", "-c", "1"], ["A-B"]),
    "environment name empty": (["run", "--env", "=2", "-c", "1"], []),
    "environment name not on the host": (["run", "--env", "NO_SUCH_NAME_HERE", "-c", "1"], ["NO_SUCH_NAME_HERE"]),
    "stdin missing": (["run", "--stdin", "/no/such", "-c", "1"], ["/no/such"]),
    "stdin is a directory": (["run", "--stdin", "/usr", "-c", "1"], ["/usr", "directory"]),
    "mount missing": (["run", "--mount", "/no/such:/data", "-c", "1"], ["/no/such"]),
    "mount is a file": (["run", "--mount", "/etc/passwd:/data", "-c", "1"], ["/etc/passwd"]),
    "mount over the system": (["run", "--mount", "/usr:/etc", "-c", "1"], ["/etc"]),
    "mount over the working directory": (["run", "--mount", "/usr:/sandbox/x", "-c", "1"], ["/sandbox/x"]),
    "mount above": (["run", "--mount", "/usr:/data/../etc", "-c", "1"], ["/data/../etc"]),
    "mount at a relative place": (["run", "--mount", "/usr:data", "-c", "1"], ["data"]),
    "mount at the root": (["run", "--mount", "/usr:/", "-c", "1"], ["/"]),
    "two mounts at one place": (["run", "--mount", "/usr:/data", "--mount", "/usr:/data", "-c", "1"], ["/data"]),
    "rootfs missing": (["run", "--rootfs", "/no/such", "-c", "1"], ["/no/such"]),
    "rootfs is a file": (["run", "--rootfs", "/etc/passwd", "-c", "1"], ["/etc/passwd"]),
    "unknown backend": (["run", "--backend", "magic", "-c", "1"], ["magic", "native"]),
    "degraded layer that must not be": (["run", "--allow-degraded", "seccomp", "-c", "1"], ["seccomp"]),
    "degraded layer unknown": (["run", "--allow-degraded", "magic", "-c", "1"], ["magic"]),
    "cgroup parent above": (["run", "--cgroup-parent", "../x", "-c", "1"], ["../x"]),
    "cgroup parent missing": (["run", "--cgroup-parent", "/no/such", "-c", "1"], ["/no/such"]),
    "control characters in an option": (["run", "--\x1b[31m\x07\r\n\x7fred", "-c", "1"], ["red"]),
    "control characters in a file name": (["run", "\x1b]0;title\x07.py"], ["title"]),
    "control characters in a limit": (["run", "--max-pids", "\x1b[2J", "-c", "1"], ["max_pids"]),
    "control characters in a language": (["run", "--lang", "\x9b31m\u202e", "-c", "1"], ["python"]),
    "control characters in a program": (["run", "--", "/bin/\x1b[1m\x85x"], ["/bin/"]),
    "a very long word": (["run", "--" + "x" * 100_000], ["xxx"]),
    "bytes that are no text": (["run", b"\xff\xfe\x9b31m.py"], [".py"]),
}


def marks(name):
    if name == "two mounts at one place":  # the only one of the kind that gets as far as the box
        return SHOWN
    return EXECUTES if name in ("missing program", "missing program by path", "directory as a program", "control characters in a program") else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
def test_refused_with_one_line(gb, name):
    args, words = CASES[name]
    # Not through gb(): it makes text of its arguments, and one of these is bytes.
    done = subprocess.run([gb.program, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    refused(done, *words)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"print(1)\x00", ["byte 8"]),
        (b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)), ["not text"]),
        (b"print('caf\xe9')", ["byte 10"]),
        (b"\xef\xbb\xbfprint('\xed\xa0\x80')", ["not text"]),
        (b"#" * (10 << 20), ["larger", "1048576"]),
        (b"#" * ((1 << 20) + 1), ["larger", "1048576"]),
    ],
    ids=["NUL", "binary", "latin-1", "surrogate", "10 MiB", "one byte too long"],
)
def test_code_that_is_no_text_or_too_long(gb, tmp_path, data, words):
    (tmp_path / "code.py").write_bytes(data)
    refused(gb.run(tmp_path / "code.py"), "code.py", *words)


def test_code_up_to_the_limit_and_empty_code_run(gb, tmp_path):
    (tmp_path / "code.py").write_bytes(b"print('ran')\n".ljust(1 << 20, b"#"))
    assert gb.run(tmp_path / "code.py").stdout == b"ran\n"
    (tmp_path / "code.py").write_bytes(b"")
    for args in ([tmp_path / "code.py"], ["-c", ""], ["--lang", "sh", "-c", ""]):
        done = gb.run(*args)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_endless_code_is_not_read_for_ever(gb):
    refused(gb.run("/dev/zero", timeout=30), "/dev/zero")


@EXECUTES
def test_a_program_that_cannot_be_executed(gb, tmp_path):
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "bad").write_bytes(b"\x7fELF" + bytes(60))
    (tmp_path / "noexec").write_text("#!/no/such/interpreter\n")
    for name in ("bad", "noexec"):
        (tmp_path / name).chmod(0o755)
    for name in ("plain", "bad", "noexec"):
        refused(gb.run("--file", tmp_path / name, "--", f"./{name}"), f"./{name}")


@SHOWN
def test_a_runtime_that_is_not_installed_is_named(gb, tmp_path):
    (tree := tmp_path / "tree").mkdir()
    for lang, program in {"python": "python3", "node": "node", "bash": "bash", "sh": "sh"}.items():
        refused(gb.run("--rootfs", tree, "--lang", lang, "-c", "1"), f"'{lang}'", program, "not installed")


def test_what_the_caller_may_not_read_or_write(gb, tmp_path):
    """Root may read anything, so there the same calls run; an ordinary user gets the one line."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "a.py").write_text("print('ran')")
    (tmp_path / "secret.py").write_text("print('ran')")
    (tmp_path / "secret.py").chmod(0)
    closed.chmod(0)
    calls = {
        "file in a closed directory": [closed / "a.py"],
        "closed file": [tmp_path / "secret.py"],
        "input file": ["--file", closed / "a.py:in.py", "-c", "print('ran')"],
        "stdin": ["--stdin", tmp_path / "secret.py", "-c", "print('ran')"],
        "output directory": ["--out", "*.png", "--out-dir", closed, "-c", "print('ran')"],
    }
    if gb.path == "cold":  # no zygote shows directories of the host
        calls |= {"mount": ["--mount", f"{closed}:/data", "-c", "print('ran')"], "rootfs": ["--rootfs", closed, "-c", "print('ran')"]}
    try:
        for name, args in calls.items():
            done = gb.run(*args)
            if gb.mode == "user" or name == "rootfs":  # there is no python in it
                refused(done)
            else:
                assert (done.returncode, done.stdout, done.stderr) == (0, b"ran\n", b""), name
    finally:
        closed.chmod(0o700)


def test_too_much_of_everything(gb, tmp_path):
    (tmp_path / "f").write_text("x")
    many = lambda option, value, count: [word for i in range(count) for word in (option, value.format(i))]
    refused(gb.run(*many("--out", "f{}", 300), "-c", "1"), "--out")
    refused(gb.run(*many("--file", f"{tmp_path}/f:f{{}}", 1100), "-c", "1"))
    refused(gb.run(*many("--mount", f"{tmp_path}:/m{{}}", 40), "-c", "1"), "mounts")
    refused(gb.run(*many("--env", "A{}=1", 5000), "-c", "1"))
    refused(gb.run("-c", "1", *map(str, range(5000))))


def test_a_missing_layer_names_itself_and_the_remedy(gb):
    done = gb.run("--cgroup-parent", "/no/such", "--", "true")
    refused(done, "cgroup", ";")
    result = gb.json("--cgroup-parent", "/no/such", "--allow-degraded", "cgroup", "--", "true")
    assert result["status"] == "success" and "cgroup" in result["enforced"]["degraded"] and result["enforced"]["cgroup"]["version"] == 0


@pytest.mark.parametrize("verb", ["run", "doctor", "selftest"])
def test_help_is_no_error(gb, verb):
    done = gb(verb, "--help")
    assert done.returncode == 0 and done.stdout.startswith(b"usage: glovebox " + verb.encode()) and done.stderr == b""
    assert b"--help" in done.stdout


def test_general_help_and_version(gb):
    for word in ("--help", "-h", "help"):
        done = gb(word)
        assert done.returncode == 0 and b"usage: glovebox" in done.stdout and done.stderr == b""
        assert all(verb in done.stdout for verb in (b"run", b"doctor", b"selftest"))
    assert gb("--version").stdout.startswith(b"glovebox ")


def test_help_that_cannot_be_written_is_an_error(gb):
    with open("/dev/full", "w") as full:
        done = subprocess.run([gb.program, "run", "--help"], stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 125 and done.stderr.startswith(b"glovebox: ")


def test_every_limit_is_in_the_help(gb):
    text = gb.run("--help").stdout.decode()
    limits = gb.json("--", "true")["enforced"]["limits"]
    for name, default in limits.items():
        line = next(line for line in text.splitlines() if "--" + name.replace("_", "-") in line)
        assert str(default) in line


def test_nothing_is_opened_by_a_refused_call(gb, tmp_path):
    done = gb.run("--out", "x", "--max-pids", "0", "-c", "open('x', 'w')", cwd=tmp_path)
    refused(done, "max_pids")
    assert os.listdir(tmp_path) == []


def test_the_program_that_runs_boxes_needs_no_other(gb, tmp_path):
    """`glovebox` has what boxes need and no parser; verbs of the service are in another program, which is looked for beside it and nowhere else."""
    alone = tmp_path / "glovebox"
    shutil.copy2(gb.program, alone)
    call = lambda *args: subprocess.run([alone, *args], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, env={**os.environ, "PATH": str(gb.build)})
    assert call("run", "--", "/bin/echo", "hello").stdout == b"hello\n"
    for verb in ("serve", "call", "tools", "approvals", "audit", "config"):
        refused(call(verb, "--help"), "glovebox-service", verb)
    shutil.copy2(gb.build / "glovebox-service", tmp_path)
    done = call("config", "--help")
    assert done.returncode == 0 and done.stdout.startswith(b"usage: glovebox config"), done
    names = subprocess.run(["nm", "--defined-only", gb.program], capture_output=True, text=True).stdout.split()
    assert "gb_run_start" in names
    assert not [name for name in names if name.startswith(("json_", "yaml_", "pcre2_", "sqlite3_", "gb_config", "gb_http"))]


def test_the_service_program_is_not_for_hands(gb):
    for words in ([], ["run", "--", "true"], ["frobnicate"]):
        done = subprocess.run([gb.build / "glovebox-service", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        refused(done, "glovebox --help")
