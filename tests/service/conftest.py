"""Services for the tests: each has directories, ports and a cgroup of its own, and must leave nothing behind.

    def test_it(service):                       # shared by a worker's tests; do not stop or kill it
        assert service.execute("print(2 + 2)")["output"] == "4\n"

    def test_that(start_service):               # one's own; stopped, and checked, at the end of the test
        s = start_service({"boxes": {"running": 1}})
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

BUILD = pathlib.Path(os.environ.get("GB_BUILD", pathlib.Path(__file__).parent.parent.parent / "build")).resolve()
PATIENCE = 60  # seconds for what takes one on a quiet machine
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CHILDREN = ["store", "launch", "broker", "front"]


def wait_for(what, condition, seconds=PATIENCE):
    """Polls until condition() is true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s for: {what() if callable(what) else what}"
        time.sleep(0.02)


# --- processes ---


def stat_of(pid):
    """(comm, state, ppid, start time), or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as f:  # the cheapest way: this is asked often, and of all processes
            text = os.fsdecode(f.read())
    except (FileNotFoundError, ProcessLookupError):
        return None
    comm, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return comm, rest[0], int(rest[1]), int(rest[19])


def processes():
    return {int(p): s for p in os.listdir("/proc") if p.isdigit() and (s := stat_of(p))}


def alive(pid, start):
    """Is it still this process, and not a zombie that somebody else has to reap?"""
    now = stat_of(pid)
    return now is not None and now[3] == start and now[1] not in "ZX"


def stop(pid):
    """Returns when it stands still: one that was only told to may take what comes for it before it does."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: f"process {pid} to stop: {stat_of(pid)}", lambda: stat_of(pid)[1] == "T")


# --- cgroups ---


def cgroup_dirs(name):
    """The directories of a cgroup: one on v2, one for each controller on v1."""
    v2 = (CGROUPS / "cgroup.controllers").exists()
    return [CGROUPS / name.strip("/")] if v2 else [CGROUPS / c / name.strip("/") for c in ("memory", "pids", "cpu", "cpuacct")]


def make_cgroup(name):
    parent = os.environ.get("GLOVEBOX_CGROUP_PARENT", "/").rstrip("/")
    for directory in cgroup_dirs(f"{parent}/{name}"):
        if (directory.parent / "cgroup.subtree_control").exists():
            (directory.parent / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        directory.mkdir(exist_ok=True)
    return f"{parent}/{name}"


def cgroup_children(name):
    return sorted({child.name for d in cgroup_dirs(name) if d.exists() for child in d.iterdir() if child.is_dir()})


class Reply(collections.namedtuple("Reply", "status headers body")):
    """headers: names in small letters."""

    def json(self):
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Service:
    """A running `glovebox serve`."""

    program = str(BUILD / "glovebox")

    def __init__(self, config=None, env=None, args=()):
        # A short path: that of a unix socket has 107 bytes at most.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gb-"))
        self.dir.chmod(0o755)
        self.state_dir = self.dir / "state"
        self.unix_path = str(self.dir / "run/s.sock")
        self.cgroup = make_cgroup(self.dir.name)
        self.config_file = self.dir / "glovebox.yaml"
        self.env = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "GLOVEBOX_CGROUP_PARENT")} | (env or {})
        self.args = list(args)
        self.process = self.host = self.port = None
        self.base = {
            "listen": ["127.0.0.1:0", f"unix:{self.unix_path}"],
            "state_dir": str(self.state_dir),
            "runtime_dir": str(self.dir / "run"),
            "cgroup_parent": self.cgroup,
        }
        self.configure(config or {})

    def configure(self, config):
        """Writes the file: JSON is YAML. What the service needs for itself is added. Takes effect at start or reload."""
        self.config_file.write_text(json.dumps(self.base | config))
        self.config_file.chmod(0o600)

    # --- life ---

    def start(self, wait=True, stderr=None):
        command = [self.program, "serve", "--config", str(self.config_file), *self.args]
        with open(self.dir / "out", "wb") as out, open(self.dir / "err", "ab") as err:
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err if stderr is None else stderr)
        if wait:
            wait_for(lambda: f"the banner; log:\n{self.log()}", self.has_banner)
            self.read_banner()
        return self

    def has_banner(self):
        assert self.process.poll() is None, f"exit code {self.process.returncode}; log:\n{self.log()}"
        return "Try:" in self.banner()

    def banner(self):
        return (self.dir / "out").read_text()

    def read_banner(self):
        match = re.search(r"https?://(\[[0-9a-f:]+\]|[0-9.]+):(\d+)", self.banner())
        if match:
            self.host, self.port = match.group(1).strip("[]"), int(match.group(2))

    def log(self):
        path = self.dir / "err"
        return path.read_text(errors="replace") if path.exists() else ""

    def log_lines(self, msg=None):
        """What was logged as JSON, perhaps only the lines with this message."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if msg in (None, line["msg"])]

    def wait_log(self, text, count=1, seconds=PATIENCE):
        wait_for(lambda: f"'{text}' in the log:\n{self.log()}", lambda: self.log().count(text) >= count, seconds)

    @property
    def pid(self):
        return self.process.pid

    def pids(self):
        """The children: {"store": pid, "launch": pid, …}, those of CHILDREN that there are."""
        return {
            comm.removeprefix("glovebox-"): pid
            for pid, (comm, state, parent, _) in sorted(processes().items())
            if parent == self.pid and comm.removeprefix("glovebox-") in CHILDREN and state not in "ZX"
        }

    def family(self):
        """The supervisor and all its descendants, keepers and boxes included: {pid: start time}."""
        table = processes()
        found = [self.pid]
        for pid in found:
            found += [p for p, (_, _, parent, _) in table.items() if parent == pid and p not in found]
        return {pid: table[pid][3] for pid in found if pid in table}

    def pool(self):
        """How the boxes do: keepers that have a call, build a box, or wait with one, by kind; zygotes; their cradles; PID 1 of the boxes that these bore."""
        table = processes()
        launcher = self.pids().get("launch")
        children = {pid: comm for pid, (comm, state, parent, _) in table.items() if parent == launcher and state not in "ZX"}
        zygotes = sorted(pid for pid, comm in children.items() if comm.startswith(("glovebox-zygote", "python")))
        below = lambda parents: sorted(pid for pid, (_, state, parent, _) in table.items() if parent in parents and state not in "ZX")  # noqa: E731
        cradles = below(zygotes)
        return {
            "calls": sorted(pid for pid, comm in children.items() if comm == "glovebox-keeper"),
            "builds": sorted(pid for pid, comm in children.items() if comm.startswith(("gb-build-", "glovebox-launch"))),  # the latter: just forked
            "waits": {kind: found for kind in ("plain", "python", "node") if (found := sorted(pid for pid, comm in children.items() if comm == f"gb-waits-{kind}"))},
            "zygotes": zygotes,
            "cradles": cradles,
            "boxes": below(cradles),
        }

    def is_calm(self):
        """No call has a box, and each box that is there waits for one."""
        pool = self.pool()
        return not pool["calls"] and not pool["builds"] and len(pool["boxes"]) == len(pool["cradles"]) == sum(map(len, pool["waits"].values()))

    def wait_calm(self, seconds=PATIENCE):
        wait_for(lambda: f"boxes that wait only: {self.pool()}; log:\n{self.log()[-4000:]}", self.is_calm, seconds)

    def stray_cgroups(self):
        """Those of boxes that no keeper has any more. A keeper that waits has that of its box, and perhaps that of the box before, to be used again."""
        pool = self.pool()
        living = {*pool["calls"], *pool["builds"], *(pid for found in pool["waits"].values() for pid in found)}
        mine = collections.defaultdict(list)
        for name in cgroup_children(self.cgroup):
            mine[int(name.split("-")[1])].append(name)
        return [name for pid, names in mine.items() for name in (names[2:] if pid in living else names)]

    def wait_call(self):
        """Until a call has a box."""
        wait_for(lambda: f"a box; {self.pool()}", lambda: self.pool()["calls"])

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self, name):
        """kill -9 of "serve" or one of CHILDREN. Returns its pid."""
        pid = self.pid if name == "serve" else self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def reload(self, config=None):
        if config is not None:
            self.configure(config)
        self.signal(signal.SIGHUP)

    def wait_healthy(self, seconds=PATIENCE):
        """Until it answers again, after something was done to it."""

        def healthy():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/healthz").status == 200

        wait_for(lambda: f"/healthz; log:\n{self.log()}", healthy, seconds)

    def wait_children(self, but=()):
        """Until there are all children, none of which is in `but`."""

        def fresh():
            pids = self.pids()
            return len(pids) == len(CHILDREN) and not set(pids.values()) & set(but) and pids

        return wait_for(lambda: f"all children; log:\n{self.log()}", fresh)

    def stop(self, check=True):
        """SIGTERM if it runs; then nothing of it may be left. Returns the exit code."""
        if self.process is None:
            return None
        family = self.family() if self.process.poll() is None else {}
        if family:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"did not stop; log:\n{self.log()}") from None
        if check:
            self.check_gone(family)
        return self.process.returncode

    def check_gone(self, family, cgroups=True):
        """No process of `family` and no cgroup of a box is left. After a kill of the supervisor the cgroups are for the next one to remove."""
        left = lambda: [pid for pid, start in family.items() if alive(pid, start)]  # noqa: E731
        wait_for(lambda: f"the end of processes {left()}; log:\n{self.log()}", lambda: not left())
        if cgroups:
            wait_for(lambda: f"the end of cgroups {cgroup_children(self.cgroup)}", lambda: not cgroup_children(self.cgroup))

    def remove(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for directory in cgroup_dirs(self.cgroup):
            for child in [d for d in directory.iterdir() if d.is_dir()] if directory.exists() else []:
                with contextlib.suppress(OSError):
                    child.rmdir()
            with contextlib.suppress(OSError):
                directory.rmdir()
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- calls ---

    def socket(self, timeout=PATIENCE):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def connection(self, unix=False, timeout=PATIENCE):
        return UnixConnection(self.unix_path, timeout) if unix else http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, unix=False, timeout=PATIENCE):
        """One request over a connection of its own. A dict or list becomes a JSON body."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = self.connection(unix, timeout)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def execute(self, code, path="/execute", headers=None, **fields):
        """Runs code that the service must take; returns its answer."""
        body = {"tool_name": "execute_code", "code": code, **fields}
        reply = self.request("POST", path, body, headers)
        assert reply.status == 200, (reply, self.log()[-4000:])
        return reply.json()

    def audit(self, *args, timeout=PATIENCE):
        """`glovebox audit …` on its records."""
        command = [self.program, "audit", *map(str, args), "--dir", str(self.state_dir / "audit")]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.env)


@contextlib.contextmanager
def keeping_log(made):
    """A failing check shows what the services said."""
    try:
        yield
    except BaseException:
        for s in made:
            print(f"--- log of {s.dir.name}:\n{s.log()[-8000:]}")
        raise


@pytest.fixture(scope="session")
def service():
    """One for all tests of a worker that only call it."""
    s = Service()
    try:
        with keeping_log([s]):
            s.start()
            yield s
            assert s.stop() == 0, s.log()
    finally:
        s.remove()


@pytest.fixture
def make_service():
    """make_service(config: dict, env: dict, args: list) -> Service, not yet started; as many as a test wants."""
    made = []

    def make(config=None, env=None, args=()):
        made.append(Service(config, env, args))
        return made[-1]

    try:
        with keeping_log(made):
            yield make
            for s in made:
                s.stop()
    finally:
        for s in made:
            s.remove()


@pytest.fixture
def start_service(make_service):
    """The same, started and ready. At the end of the test it is stopped, and nothing of it may be left."""
    return lambda config=None, env=None, args=(): make_service(config, env, args).start()
