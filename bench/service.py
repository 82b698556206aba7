"""The service: requests per second and how long they take, beside the bare program; and beside a crowd of connections that want nothing.

The load generators (tests/load/pump.c, crowd.c) are C programs that cost far less than what they ask for. All subjects take turns in slices, so that
whatever else the machine does hits them alike.
"""
import array
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from subjects import CODE, ENV
from timing import Failed, call, percentile

CONNECTIONS = (1, 8, 64)
EXECUTE = json.dumps({"tool_name": "execute_code", "code": CODE})
REQUESTS = {"/healthz": [], "/execute": ["-b", EXECUTE, "-e", '"output":"4\\n"']}
CROWD = ["1000", "1000", "250"]  # idle, slow, ms between two bytes of a slow one
START_S = 30


class Service:
    """`glovebox serve` with directories of its own, on a port that the kernel chose."""

    def __init__(self, glovebox):
        self.dir = tempfile.mkdtemp(prefix="gb-bench-")
        self.tools = os.path.dirname(os.path.abspath(glovebox))
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            argv = [glovebox, "serve", "--listen", "127.0.0.1:0", "--set", f"state_dir={self.path('state')}", "--set", f"runtime_dir={self.path('run')}"]
            self.process = subprocess.Popen(argv, env=ENV, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def path(self, name):
        return os.path.join(self.dir, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def __enter__(self):
        end = time.monotonic() + START_S
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", self.text("out"))):
            if self.process.poll() is not None or time.monotonic() > end:
                why = self.text("err")[-400:]
                self.__exit__()
                raise Failed(f"the service does not start: {why}")
            time.sleep(0.02)
        self.port = found.group(1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def pump(self, path, connections, options):
        """One slice: (times in ms, seconds, how many were wrong)."""
        times = self.path("times")
        argv = [os.path.join(self.tools, "pump"), "-c", str(connections), "-o", times, *REQUESTS[path], *options, "127.0.0.1", self.port, path]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            raise Failed(f"pump: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        with open(times, encoding="ascii") as f:
            return [int(line) / 1000 for line in f], report["seconds"], report["wrong"] + report["broken"]

    @contextlib.contextmanager
    def crowd(self):
        """A thousand idle and a thousand slow connections, for as long as the block lasts."""
        argv = [os.path.join(self.tools, "crowd"), "127.0.0.1", self.port, *CROWD]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                if process.stdout.readline() != "ready\n":
                    raise Failed("crowd: cannot connect")
                yield
            finally:
                process.stdin.close()


# --- the bare program, from as many workers ---

def _worker(argv, env, until, fd):
    times, failed = array.array("d"), 0
    while time.monotonic() < until:
        ns, code = call(argv, env)
        times.append(ns / 1e6)
        failed += code != 0
    with os.fdopen(fd, "wb") as f:
        array.array("d", [failed, *times]).tofile(f)


def bare(subject, workers, seconds):
    """One slice, like Service.pump."""
    start = time.monotonic()
    times, failed, pids = [], 0, []
    with tempfile.TemporaryDirectory(prefix="gb-bench-") as directory:
        for n in range(workers):
            fd = os.open(os.path.join(directory, str(n)), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            pid = os.fork()
            if not pid:
                try:
                    _worker(*subject, start + seconds, fd)
                finally:
                    os._exit(0)
            os.close(fd)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        elapsed = time.monotonic() - start
        for n in range(workers):
            with open(os.path.join(directory, str(n)), "rb") as f:
                numbers = array.array("d", f.read())
            failed += int(numbers[0])
            times += numbers[1:]
    return times, elapsed, failed


# --- measuring ---

def row(slices):
    """Of the slices of one subject."""
    times = [ms for part, _, _ in slices for ms in part]
    failed = sum(bad for _, _, bad in slices)
    return {"rate": (len(times) - failed) / sum(seconds for _, seconds, _ in slices), "p50_ms": percentile(times, 50), "p99_ms": percentile(times, 99),
            "runs": len(times), "failed": failed}


def measure_rates(service, subject, slices, seconds):
    """{connections: {"bare" | path: row}}"""
    result = {}
    for connections in CONNECTIONS:
        taken = {"bare": [], **{path: [] for path in REQUESTS}}
        for path in REQUESTS:
            service.pump(path, connections, ["-n", str(connections)])  # so that nobody pays for a first time
        for _ in range(slices):
            taken["bare"].append(bare(subject, connections, seconds))
            for path in REQUESTS:
                taken[path].append(service.pump(path, connections, ["-t", str(seconds)]))
        result[connections] = {name: row(parts) for name, parts in taken.items()}
    return result


def measure_crowd(service, rounds, seconds):
    """{path: {"quiet" | "crowd": row}} of one polite client, in alternating rounds."""
    taken = {path: {"quiet": [], "crowd": []} for path in REQUESTS}
    pace = {"/healthz": ["-p", "2", "-n", "500"], "/execute": ["-t", str(seconds)]}
    for _ in range(rounds):
        for path, options in pace.items():
            taken[path]["quiet"].append(service.pump(path, 1, options))
        with service.crowd():
            for path, options in pace.items():
                taken[path]["crowd"].append(service.pump(path, 1, options))
        time.sleep(0.3)  # two thousand connections end
    return {path: {name: row(parts) for name, parts in both.items()} for path, both in taken.items()}


def measure(glovebox, subject, slices, seconds, rounds):
    with Service(glovebox) as service:
        return {"rates": measure_rates(service, subject, slices, seconds), "crowd": measure_crowd(service, rounds, seconds)}
