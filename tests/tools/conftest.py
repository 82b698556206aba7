"""Tools that are no boxes, called without a service around them; and the servers that they talk to, started here.

`call` runs the program tool-call, which calls a tool in a process of its own, as the broker does. `postgres` is a real server in a temporary
directory, one for each worker, on a Unix socket and a loopback port, as an ordinary user (PostgreSQL refuses to be root).
"""

import collections
import ctypes
import glob
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import shop

BUILD = pathlib.Path(os.environ.get("GB_BUILD", pathlib.Path(__file__).parent.parent.parent / "build")).resolve()


class Answer(collections.namedtuple("Answer", "result failed denials error raw")):
    """What a call gave: a result, a refusal, a failure, or an error of the service."""

    @property
    def denied(self):
        return bool(self.denials)

    @property
    def rows(self):
        assert not self.failed and not self.denials and not self.error and self.result is not None, self.raw
        return self.result["rows"]


def call_tool(kind, spec, arguments, secrets=None, env=None, timeout=120):
    line = json.dumps({"kind": kind, "spec": spec, "arguments": arguments, "secrets": secrets or {}})
    done = subprocess.run([BUILD / "tool-call"], input=line + "\n", capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})}, check=False)
    assert done.returncode == 0 and done.stdout, done
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    raw = json.loads(done.stdout)
    assert "exit" not in raw, (raw, done.stderr)
    return Answer(raw.get("result"), raw.get("failed"), raw.get("denials"), raw.get("error"), raw)


@pytest.fixture(scope="session")
def call():
    return call_tool


@pytest.fixture(scope="session")
def tool():
    """The same, for those who want the answer as it came."""
    return lambda *args, **kwargs: call_tool(*args, **kwargs).raw


def end_with_us():
    """In the child: a test run that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


class Postgres:
    """A server that is ours. Its superuser comes in by the socket; who comes by TCP needs a password."""

    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        assert found, "no PostgreSQL server under /usr/lib/postgresql: install postgresql"
        self.bin = pathlib.Path(found[-1])
        place = tempfile.gettempdir()
        if len(place) > 60 or not os.stat(place).st_mode & 1:  # a socket's path has 107 bytes at most, and the server is another user
            place = "/tmp"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gbpg-", dir=place))
        self.user = {}
        if os.geteuid() == 0:
            shutil.chown(self.dir, "postgres", "postgres")
            self.user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self.env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.dir)}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.run("initdb", "--no-sync", "--username=root", "--encoding=UTF8", "--auth-local=trust", "--auth-host=scram-sha-256", "-D", self.dir / "data")
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.dir, "fsync": "off", "shared_buffers": "16MB", "max_connections": 40}
        arguments = [item for name, value in settings.items() for item in ("-c", f"{name}={value}")]
        self.log = open(self.dir / "log", "wb")  # pylint: disable=consider-using-with
        self.server = subprocess.Popen([self.bin / "postgres", "-D", self.dir / "data", *arguments], stdout=self.log, stderr=self.log, env=self.env, preexec_fn=end_with_us, **self.user)  # pylint: disable=consider-using-with
        deadline = time.monotonic() + 60
        while self.psql("SELECT 1", database="postgres", check=False).returncode:
            assert self.server.poll() is None and time.monotonic() < deadline, (self.dir / "log").read_text()
            time.sleep(0.1)

    def run(self, program, *arguments, **kwargs):
        return subprocess.run([self.bin / program, *map(str, arguments)], env=self.env, cwd="/", check=True, capture_output=True, timeout=120, **self.user, **kwargs)

    def psql(self, sql, database="shop", check=True):
        command = [self.bin / "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.dir, "-p", str(self.port), "-U", "root", "-d", database]
        return subprocess.run(command, input=sql, text=True, env=self.env, cwd="/", capture_output=True, timeout=120, check=check)

    def dsn(self, database="shop"):
        """As the superuser: nothing but the tool stands between a statement and the server."""
        return f"host={self.dir} port={self.port} user=root dbname={database}"

    def stop(self):
        self.server.send_signal(signal.SIGINT)  # without waiting for clients
        self.server.wait(60)
        self.log.close()
        shutil.rmtree(self.dir)


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def shop_database(postgres):
    """The server with the shop in it, and what STATE says of it."""
    postgres.psql("CREATE DATABASE shop", database="postgres")
    postgres.psql(shop.POSTGRES + shop.COMMON)
    return postgres, postgres.psql(shop.STATE).stdout
