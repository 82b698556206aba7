"""A warm Python without boxes, for tests: a zygote with the stand-in for its extension module, whose children are plain processes.

The directory that stands for /sandbox has one path for everybody, as in boxes: the zygote's own is moved away when it has started, and each
run gets a new one in its place. So what a warm and a native interpreter say of paths is the same, byte for byte.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "USER": "sandbox", "LOGNAME": "sandbox", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "SHELL": "/bin/sh"}


def embedded(file):
    """The bytes of the first array of a generated C file."""
    return bytes(int(word, 16) for word in re.findall(r"0x([0-9a-f]{2})", file.read_text().partition("};")[0]))


class Done:
    """What became of a run. Times are microseconds, faults page faults: before the call came, and from then on."""

    def __init__(self, status, out, err, box, **measured):
        self.status, self.out, self.err, self.box = status, out, err, box
        self.__dict__.update(measured)

    def outcome(self):
        return self.status, self.out, self.err, files_below(self.box)


def files_below(directory):
    found = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if "__pycache__" not in name:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


class Place:
    """The one path, and a directory for everything that was there."""

    def __init__(self, home):
        self.home, self.path, self.count = pathlib.Path(home), pathlib.Path(home) / "sandbox", 0

    def clear(self):
        """If it is there, as after a test that failed, it is moved away."""
        self.count += 1
        there = self.home / f"was{self.count}"
        if self.path.exists():
            self.path.rename(there)
        return there

    @contextlib.contextmanager
    def filled(self, files):
        self.path.mkdir(exist_ok=True)
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        there = self.home / f"was{self.count + 1}"
        try:
            yield there
        finally:
            self.clear()


def collect(fds, data=b""):
    """Three pipes for a process, one thread for each of ours; returns what is to be called when it has begun and when it has ended."""
    gathered = [b"", b""]

    def read(index, fd):
        with open(fd, "rb") as stream:
            gathered[index] = stream.read()

    def feed(fd):
        with contextlib.suppress(BrokenPipeError), open(fd, "wb") as stream:
            stream.write(data)

    threads = [threading.Thread(target=feed, args=(fds[0],)), threading.Thread(target=read, args=(0, fds[1])), threading.Thread(target=read, args=(1, fds[2]))]
    for thread in threads:
        thread.start()

    def end():
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a pipe is still open"
        return gathered

    return end


def as_init_puts_them(files):
    """PID 1 of a box: rules are said with the words of the call, the script that they are for is put where it runs, and what only an interpreter
    that has yet to start needs is left out. Returns rules, and files."""
    ours = {name: files[name] for name in files if name.startswith(".glovebox/")}
    files = {name: text for name, text in files.items() if name not in ours}
    if ".glovebox/main.py" in ours:
        files["main.py"] = ours[".glovebox/main.py"]
    return ours.get(".glovebox/start.txt"), files


class Warm:
    def __init__(self, build, home, interpreter="/usr/bin/python3", preload=(), extra=(), in_namespace=False):
        self.place, self.interpreter = Place(home), interpreter
        self.environment = {**ENVIRONMENT, "HOME": str(self.place.path)}
        self.place.path.mkdir()
        (self.place.path / "main.py").write_bytes(embedded(build / "python-zygote.c"))
        (self.place.path / "preload.txt").write_text("".join(name + "\n" for name in preload))
        for name, text in dict(extra).items():
            (self.place.path / name).write_text(text)
        shutil.copy(build / "warm_python.abi3.so", self.place.path / "_glovebox.abi3.so")
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control = ours
        self.err = open(self.place.home / "zygote.err", "w+b")
        around = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"] if in_namespace else []
        with its:
            self.process = subprocess.Popen(
                [*around, interpreter, str(self.place.path / "main.py")], cwd=self.place.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.err, stderr=self.err,
                close_fds=False, preexec_fn=lambda: os.dup2(its.fileno(), 3),
            )  # fmt: skip
        self.moved = False

    def said(self):
        return (self.place.home / "zygote.err").read_bytes()

    def close(self):
        self.control.close()
        code = self.process.wait(timeout=60)
        self.err.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def move_away(self):
        """What the zygote has read once is not there any more when boxes run."""
        if not self.moved:
            self.control.send(b"?")
            assert self.control.recv(10) == b"ready", self.said()
            self.place.path.rename(self.place.home / "template")
            self.moved = True

    def run(self, code, *args, files=None, env=None, input=b"", script=None, flag=""):
        """A child of the zygote."""
        self.move_away()
        rules, files = as_init_puts_them({**({"main.py": code} if code is not None else {}), **(files or {})})
        with self.place.filled(files) as there:
            argv = [self.interpreter, script or str(self.place.path / "main.py"), *args]
            words = self.words(argv, {**self.environment, **(env or {})}, rules, len(files), flag)
            status, out, err, measured = self.request(words, input)
        return Done(status, out, err, there, **measured)

    def words(self, argv, env, rules, files, flag=""):
        variables = [f"{name}={value}" for name, value in env.items() if value is not None]
        return [flag + str(self.place.path), f"{len(argv)} {int(rules is not None)} {files}", *argv, *([] if rules is None else [rules]), *variables]

    def request(self, words, data):
        pipes = [os.pipe() for _ in range(3)]
        given = [pipes[0][0], pipes[1][1], pipes[2][1]]
        end = collect((pipes[0][1], pipes[1][0], pipes[2][0]), data)
        try:
            status, measured = self.ask(words, given)
        finally:
            for fd in given:
                os.close(fd)
        return status, *end(), measured

    def ask(self, words, fds):
        socket.send_fds(self.control, [b"".join(os.fsencode(word) + b"\0" for word in words)], fds)
        reply = self.control.recv(200)
        assert reply, self.said()
        status, *numbers = map(int, reply.split())
        return os.waitstatus_to_exitcode(status), dict(zip(("faults_before", "faults", "cpu_before", "cpu", "wall"), numbers))

    def native(self, code, *args, files=None, env=None, input=b"", script=None):
        """The same, by an interpreter of its own."""
        self.move_away()
        with self.place.filled({**({"main.py": code} if code is not None else {}), **(files or {})}) as there:
            env = {name: value for name, value in {**self.environment, **(env or {})}.items() if value is not None}
            done = subprocess.run(
                [self.interpreter, script or str(self.place.path / "main.py"), *args], cwd=self.place.path, env=env, input=input,
                capture_output=True, timeout=120,
            )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr, there)
