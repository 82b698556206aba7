"""docs/quickstart.md and docs/policy.md, typed in as they stand: a terminal for the service, a shell for the calls, and what comes is what the page shows.

The tree is copied, build and all, so that `make serve` finds nothing to do: no package to install, nothing to compile.
"""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import termios

import pytest

import api
import conftest
from conftest import BUILD, wait_for

pytestmark = [pytest.mark.rootonly, pytest.mark.xdist_group("quickstart")]  # the page was walked as root, and becomes nobody
TREE = ["Makefile", "meson.build", "meson_options.txt", "bench", "completions", "conf", "include", "man", "packaging", "runtimes", "src", "tests", "tools"]
FORBIDDEN = ["apt-get", "sudo", "meson"]


@pytest.fixture(scope="module")
def tree():
    """A copy, as a clone that was built a moment ago; programs that must not be needed fail."""
    if BUILD.parent != api.TOP:
        pytest.skip(f"a build outside its tree cannot be copied with it: {BUILD}")
    with tempfile.TemporaryDirectory(prefix="gb-") as name:
        top = pathlib.Path(name, "glovebox")
        top.mkdir()
        for each in TREE:
            source = api.TOP / each
            shutil.copytree(source, top / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")) if source.is_dir() else shutil.copy2(source, top)
        shutil.copytree(BUILD, top / "build", symlinks=True)
        (top / "forbidden").mkdir()
        for program in FORBIDDEN:
            (top / "forbidden" / program).write_text(f"#!/bin/sh\necho {program} was called >&2\nexit 1\n")
            (top / "forbidden" / program).chmod(0o755)
        yield top


class Walk:
    """A place to try the page: where the page has a port and directories of the host, this has its own."""

    def __init__(self, top):
        self.top = top
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gb-"))
        self.dir.chmod(0o755)
        self.cgroup = conftest.make_cgroup(self.dir.name)
        self.port, self.names, self.terminal = None, {}, None
        with socket.socket() as probe:  # for what a page starts beside the service
            probe.bind(("127.0.0.1", 0))
            self.other_port = probe.getsockname()[1]
        clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "NOTIFY_SOCKET", "SERVE_ARGS", "MESON_ARGS")}
        self.env = clean | {
            "PATH": f"{top}/forbidden:{os.environ['PATH']}",
            "GLOVEBOX_LISTEN": f"127.0.0.1:0,unix:{self.dir}/run/glovebox.sock",
            "GLOVEBOX_STATE_DIR": f"{self.dir}/state",
            "GLOVEBOX_RUNTIME_DIR": f"{self.dir}/run",
            "GLOVEBOX_CGROUP_PARENT": self.cgroup,
        }
        self.shell = subprocess.Popen(["sh"], cwd=top, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def here(self, text):
        """The page's text with the names of this walk."""
        text = text.replace("/tmp/", f"{self.dir}/").replace("8641", str(self.other_port))  # first: ours are below /tmp, too
        text = text.replace("/run/glovebox", f"{self.dir}/run").replace("/var/lib/glovebox", f"{self.dir}/state").replace(":8640", f":{self.port}")
        for name, ours in self.names.items():
            text = text.replace(name, ours)
        return text

    def type(self, command):
        """Into the shell for the calls. Returns what it prints."""
        self.shell.stdin.write(f"{command}\necho :end:\n".encode())
        self.shell.stdin.flush()
        lines = []
        while not (line := self.shell.stdout.readline()).endswith(b":end:\n"):
            assert line, "the shell is gone"
            lines.append(line)
        return b"".join([*lines, line.removesuffix(b":end:\n")]).decode()

    def has_waiting(self):
        """Does a box for Python wait? A moment after the start one does, which is what the pages show."""
        table = conftest.processes()

        def is_ours(pid):
            while pid in table and pid != self.terminal.process.pid:
                pid = table[pid][2]
            return pid == self.terminal.process.pid

        return any(comm == "gb-waits-python" and is_ours(pid) for pid, (comm, *_) in table.items())

    def serve(self, command):
        """Into the terminal for the service, up to the banner."""
        if self.terminal:
            wait_for("the end of the last service", lambda: self.terminal.process.poll() is not None)
            self.terminal.close()
        self.terminal = Terminal(command, self.top, self.env)
        wait_for(lambda: f"the banner:\n{self.terminal.text()}", lambda: "Try:" in self.terminal.text())
        self.port = re.search(r"http://127\.0\.0\.1:(\d+)", self.terminal.text())[1]
        wait_for("a box that waits", self.has_waiting)

    def follow(self, shown, seen):
        """Is this what the page shows? … stands for anything, and what differs from run to run for its like; an id, a hash or a key for the same one from then on."""
        pieces, at, known = self.here(shown).strip().split("…"), 0, {ours: ours for ours in self.names.values()}
        for i, piece in enumerate(pieces):
            pattern, groups = like(piece, known)
            last = i == len(pieces) - 1 and piece
            match = re.compile(("" if i else r"\s*") + pattern + (r"\s*\Z" if last else ""))
            match = match.search(seen, at) if i else match.match(seen)
            assert match, f"the page shows {piece!r}, here is {seen[at:]!r}"
            known |= {name: match[group] for name, group in groups.items()}
            at = match.end()
        self.names |= known

    def close(self):
        if self.terminal:
            self.terminal.close()
        self.shell.stdin.close()
        os.killpg(self.shell.pid, signal.SIGTERM)  # and what it has in the background
        self.shell.wait()
        self.shell.stdout.close()
        left = conftest.cgroup_children(self.cgroup)
        for directory in conftest.cgroup_dirs(self.cgroup):
            if not left:
                directory.rmdir()
        shutil.rmtree(self.dir)
        assert not left


NAME = rf"gbx_[0-9a-f]{{64}}|\b[0-9a-f]{{64}}\b|\b{api.ID}\b"
TIME = r"(?<!\d)(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z|\d\d:\d\d:\d\d)"
NUMBER = r"(?<![\d.])\d+\.\d{1,3}(?![\d.])"
TOKEN = re.compile(rf"(?P<name>{NAME})|(?P<time>{TIME})|(?P<number>{NUMBER})|(?P<space>\s+)|(?P<other>.)", re.S)


def like(text, known):
    """A pattern for a text of the page, and its names that are not known yet with the group for each. Lines may be broken elsewhere."""
    pattern, groups = "", {}
    for token in TOKEN.finditer(text):
        kind, found = token.lastgroup, token[0]
        if kind == "name" and found in known:
            pattern += re.escape(known[found])
        elif kind == "name" and found in groups:
            pattern += f"(?P={groups[found]})"
        elif kind == "name":
            groups[found] = f"n{len(groups)}"
            pattern += f"(?P<{groups[found]}>{NAME})"
        elif kind == "time":
            pattern += f"(?:{TIME})"
        elif kind == "number":
            pattern += r"\d+(?:\.\d+)?"
        else:
            pattern += r"\s*" if kind == "space" else re.escape(found)
    return pattern, groups


class Terminal:
    """A process with a terminal of its own, on which Ctrl-C can be typed."""

    def __init__(self, command, top, env):
        self.fd, theirs = os.openpty()
        os.set_blocking(self.fd, False)
        control = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # noqa: E731
        self.process = subprocess.Popen(["sh", "-c", command], cwd=top, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=control)
        os.close(theirs)
        self.seen, self.at = b"", 0

    def text(self):
        """What it shows that was not looked at yet."""
        try:
            while part := os.read(self.fd, 65536):
                self.seen += part
        except OSError:  # nothing now, or the other end is closed
            pass
        return self.seen.decode(errors="replace").replace("\r\n", "\n")[self.at :]

    def looked(self):
        self.at += len(self.text())

    def type(self, keys):
        os.write(self.fd, keys)

    def close(self):
        if self.process.poll() is None:
            self.type(b"\x03")
            try:
                self.process.wait(conftest.PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                raise
        os.close(self.fd)


@pytest.fixture
def walk(tree):
    walk = Walk(tree)
    try:
        yield walk
    finally:
        walk.close()


def test_make_serve_is_all_it_takes(walk):
    """And the line that it prints can be pasted."""
    walk.serve("make serve")
    assert "was called" not in walk.terminal.text()
    line = re.search(r"^Try:  (.*)$", walk.terminal.text(), re.M)[1]
    assert '"output":"4\\n"' in walk.type(line)
    pid = int((walk.dir / "state/lock").read_text())
    walk.terminal.type(b"\x03")
    wait_for("its end", lambda: walk.terminal.process.poll() is not None)
    assert conftest.stat_of(pid) is None and "stopped" in walk.terminal.text()


def on_terminal(walk, shown):
    """What the service's terminal shows next. It may take a moment."""

    def as_shown():
        nonlocal problem
        try:
            walk.follow(shown, walk.terminal.text())
        except AssertionError as e:
            problem = e
            return False
        walk.terminal.looked()
        return True

    problem = None
    wait_for(lambda: problem, as_shown, 20)


@pytest.mark.parametrize("page, least", [("docs/quickstart.md", 20), ("docs/policy.md", 20)])
def test_the_page(walk, page, least):
    count = 0
    for command, shown in api.console(page):
        count += 1
        if command.startswith("git clone"):
            continue  # here it is
        if command.startswith(("make serve", "build/glovebox serve")):
            walk.serve(walk.here(command))
            on_terminal(walk, shown)
        elif command:
            seen = walk.type(walk.here(command))
            try:
                walk.follow(shown, seen)
            except AssertionError as e:
                raise AssertionError(f"$ {command}\n{e}") from None
        else:
            if shown.startswith("^C"):
                walk.terminal.looked()
                walk.terminal.type(b"\x03")
            on_terminal(walk, shown)
    assert count >= least
