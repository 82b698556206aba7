"""Cold starts: how long one takes, and how many a machine does in a second.

All subjects take turns, one call each, in a new order every round: whatever else the machine does, and what the kernel still clears away after
the call before (a network namespace, say), hits all of them alike. Read ratios, not milliseconds.
"""
import math
import os
import random
import struct
import time

DEVNULL = os.open("/dev/null", os.O_RDWR)
STDIO = [(os.POSIX_SPAWN_DUP2, DEVNULL, fd) for fd in range(3)]


class Failed(Exception):
    """A subject does not work here at all: its times would mean nothing."""


def call(argv, env):
    """Runs argv once; returns (nanoseconds, exit code)."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=STDIO)
    _, status = os.waitpid(pid, 0)
    return time.perf_counter_ns() - start, os.waitstatus_to_exitcode(status)


def warm_up(subjects):
    """Two calls of each, uncounted, that must succeed."""
    for name, (argv, env) in subjects.items():
        for _ in range(2):
            code = call(argv, env)[1]
            if code:
                raise Failed(f"exit code {code} from: {' '.join(argv)}")


def take_turns(subjects, rounds, pause_s=0.0):
    """subjects: {name: (argv, env)}. Returns {name: [ms of each round, or NaN where the run failed]}."""
    warm_up(subjects)
    times = {name: [] for name in subjects}
    order, shuffle = list(subjects.items()), random.Random(1).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name, (argv, env) in order:
            if pause_s:
                time.sleep(pause_s)
            ns, code = call(argv, env)
            times[name].append(math.nan if code else ns / 1e6)
    return times


def _client(argv, env, until, write_fd):
    runs = failed = 0
    while time.monotonic() < until:
        failed += call(argv, env)[1] != 0
        runs += 1
    os.write(write_fd, struct.pack("qq", runs, failed))


def _clients(subject, clients, seconds):
    """What that many client processes got done: runs, failed runs, seconds."""
    read_fd, write_fd = os.pipe()
    start = time.monotonic()
    pids = []
    for _ in range(clients):
        pid = os.fork()
        if not pid:
            try:
                _client(*subject, start + seconds, write_fd)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    elapsed = time.monotonic() - start
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as pipe:
        counts = list(struct.iter_unpack("qq", pipe.read()))
    return sum(runs for runs, _ in counts), sum(failed for _, failed in counts), elapsed


def per_second(subjects, clients, slices, seconds):
    """Returns {name: {"rate": runs per second, "runs": …, "failed": …}}; each subject gets `slices` turns of `seconds`."""
    warm_up(subjects)
    total = {name: {"runs": 0, "failed": 0, "seconds": 0.0} for name in subjects}
    for _ in range(slices):
        for name, subject in subjects.items():
            for key, value in zip(("runs", "failed", "seconds"), _clients(subject, clients, seconds)):
                total[name][key] += value
    for row in total.values():
        row["rate"] = (row["runs"] - row["failed"]) / row["seconds"]
    return total


def percentile(values, percent):
    ordered = sorted(v for v in values if not math.isnan(v))
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else math.nan
