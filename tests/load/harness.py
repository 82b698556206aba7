"""What the load tests share: services to load, what a service holds, and results that are counted."""

import json
import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "service"))
import conftest  # noqa: E402
from conftest import BUILD, Service, cgroup_children, wait_for  # noqa: E402, F401

PROCESSES = ["serve", "store", "launch", "broker", "front"]
POOLS = {"plain": 2, "python": 2}  # boxes that wait when nothing happens: pool.low of each kind that needs no first call
PYTHON = json.dumps({"tool_name": "execute_code", "code": "print(2 + 2)"})
TRUE = json.dumps({"tool_name": "execute_code", "language": "sh", "code": "true"})

SANITIZED = b"__asan_init" in (BUILD / "glovebox-front").read_bytes()  # keeps what was freed: its memory tells nothing

results = {"ok": 0, "not ok": 0}


def say(text):
    print(text, flush=True)


def check(good, text):
    """One line of the result. Returns what it was given."""
    word = "ok" if good else "not ok"
    results[word] += 1
    say(f"{word} {text}")
    return good


def finish():
    """Ends the program."""
    say(f"{results['ok']} passed, {results['not ok']} failed")
    sys.exit(1 if results["not ok"] or not results["ok"] else 0)


# --- asking ---


def ask(service, path, *options, body=None, expect=None):
    """Runs the load generator of `make bench`; returns its report. Whether replies failed is for the caller to judge."""
    command = [str(BUILD / "bench-load"), *map(str, options), *(["-b", body] if body else []), *(["-e", expect] if expect else []), f"{service.host}:{service.port}", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout.startswith("{"), (command, done)
    return json.loads(done.stdout)


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


def metric(service, name):
    for line in service.request("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


# --- what a service holds ---


def pids_of(service):
    return {"serve": service.pid, **service.pids()}


def status_kib(pid, key="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} is gone")


def pss_kib(service):
    """Of all its processes, boxes that wait included; what they share counts once. Without files: these are shared with whoever else runs the same programs."""
    total = 0
    for pid in service.family():
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total


def holdings(service):
    """All that may not grow: {what: number}."""
    held = {}
    for name, pid in pids_of(service).items():
        if not SANITIZED:
            held[f"KiB of {name}"] = status_kib(pid)
        held[f"descriptors of {name}"] = len(os.listdir(f"/proc/{pid}/fd"))
        held[f"mounts that {name} sees"] = len(pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    if not SANITIZED:
        held["KiB of all processes"] = pss_kib(service)
    held["processes"] = len(service.family())
    held["cgroups of nobody"] = len(service.stray_cgroups())
    held["entries of its directories"] = sum(len(d) + len(f) for _, d, f in os.walk(service.dir))
    return held


def zombies(service):
    """A zygote reaps its dead before it bears the next, or a second later."""
    table = conftest.processes()
    return [pid for pid in service.family() if pid in table and table[pid][1] == "Z"]


def settle(service, seconds=30):
    """Until no call is under way, and no more boxes wait than do in quiet times: what was given up must end soon, by itself."""
    start = time.monotonic()

    def quiet():
        return (
            metric(service, "glovebox_sandboxes_active") == 0
            and metric(service, "glovebox_queue_depth") == 0
            and metric(service, "glovebox_connections") <= 1
            and service.is_calm()
            and {kind: len(found) for kind, found in service.pool()["waits"].items()} == POOLS
            and not service.stray_cgroups()
            and not zombies(service)
        )

    wait_for(lambda: f"quiet; cgroups {cgroup_children(service.cgroup)}, boxes {service.pool()}", quiet, seconds)
    return time.monotonic() - start


def complaints(service):
    """What it logged beside the calls: none of its processes may have died on the way, and no sanitizer may have spoken."""
    return [line for line in service.log().splitlines() if '"level":"info"' not in line]


class Running:
    """with Running(config) as service: started, and at the end stopped, checked and removed."""

    def __init__(self, config=None):
        self.service = Service(config)

    def __enter__(self):
        try:
            return self.service.start()
        except BaseException:
            self.service.remove()
            raise

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                check(self.service.stop() == 0, "the service stops, and nothing of it is left")
                told = complaints(self.service)
                check(not told, f"it had nothing to complain of {told[:3] if told else ''}")
            else:
                say("\n".join(complaints(self.service)[-20:]))
        finally:
            self.service.remove()
