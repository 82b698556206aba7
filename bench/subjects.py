"""Who runs a program: a command line that is started, or the service that is asked. Each gives slices: what so many clients got in so long."""
import array
import json
import os
import subprocess
from typing import NamedTuple

from programs import ENV, Failed

PATIENCE_S = 300
STOP_S = 60


class Slice(NamedTuple):
    us: array.array  # latencies of the calls that count
    seconds: float  # in which these ended
    runs: int  # all
    failed: int
    cpu_s: float  # of the whole machine for all runs, without the generator's own
    why: str  # the first failure


def busy_seconds():
    """Time that all processors have spent on anything; what the kernel clears away later is in it, whoever it is booked on."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def run_generator(argv, env):
    """Its output. In a session of its own: Ctrl-C is for us, who let it finish the runs that are under way."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except BaseException:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode not in (0, 1) or not out.startswith("{"):
        raise Failed(f"{os.path.basename(argv[0])}: exit code {process.returncode}: {err.strip()[-500:]}")
    return json.loads(out), err.strip()


class Subject:
    """A name, where the generators are and where they may write."""

    ramp_ms = 0  # of those that have boxes in store, which a short slice would live on: what comes before its end does not count
    gap_s = 0.05  # before each slice
    is_peer = False  # one that may be missing, and is not waited for too long

    def __init__(self, name, bench):
        self.name, self.bench = name, bench

    def _slice(self, before, after, env, *, clients=1, ms=None, runs=None, pause_ms=0, burst=False, ramp=False):
        times = self.bench.path("times")
        options = ["-c", str(clients), "-o", times]
        options += ["-t", str(ms)] if ms else []
        options += ["-n", str(runs)] if runs else []
        options += ["-p", str(pause_ms)] if pause_ms else []
        options += ["-r", str(self.ramp_ms)] if ramp and self.ramp_ms else []
        options += ["-B"] if burst else []
        start = busy_seconds()
        report, why = run_generator([*before, *options, *after], env)
        cpu = busy_seconds() - start - report["own_cpu_seconds"]
        us = array.array("I")
        with open(times, "rb") as f:
            us.frombytes(f.read())
        return Slice(us, report["seconds"], report["runs"], report["failed"], cpu, why)


class Spawned(Subject):
    """command(program): its arguments. prefix: what the generator is started under, for a peer that needs another view of the host."""

    def __init__(self, name, bench, command, prefix=(), env=None, ramp_ms=0):
        super().__init__(name, bench)
        self.command, self.prefix, self.env, self.ramp_ms = command, list(prefix), ENV | (env or {}), ramp_ms

    def slice(self, program, **how):
        return self._slice([*self.prefix, self.bench.tool("bench-spawn"), "-e", program.output], ["--", *self.command(program)], self.env, **how)

    def check(self, program):
        """One call; why it does not work, or None."""
        argv = [*self.prefix, *(word.replace("{}", f"{os.getpid()}-check") for word in self.command(program))]
        try:
            done = subprocess.run(argv, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode or done.stdout != program.output:
            return f"exit code {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-300:]}"
        return None


class Http(Subject):
    """Connections that are kept alive, over TCP on loopback."""

    ramp_ms = 150

    def __init__(self, name, bench, service):
        super().__init__(name, bench)
        self.service = service

    def slice(self, program, **how):
        body = json.dumps({"tool_name": program.tool, "arguments": program.arguments})
        expect = f'"output":{json.dumps(program.output)}' if program.output else '"success":true'
        return self._slice([self.bench.tool("bench-load"), "-b", body, "-e", expect], [self.service.address, "/execute"], ENV, **how)

    def get(self, path, **how):
        return self._slice([self.bench.tool("bench-load")], [self.service.address, path], ENV, **how)

    def check(self, program):
        done = self.slice(program, runs=1)
        return done.why if done.failed else None
