"""Programs that do not want to die, each under a timeout of 0.2 s: how late is the end, and is anybody left?"""
import collections
import glob
import json
import os
import secrets
import subprocess
from concurrent.futures import ThreadPoolExecutor

from programs import ENV, Failed
from turns import percentile

TIMEOUT_S = 0.2
PARALLEL = 4

KINDS = {
    "sleep": "import time; time.sleep(1000)",
    "setsid, double fork": """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
""",
    "all signals ignored": """
import signal, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1)
""",
    "stops itself": "import os, signal; os.fork(); os.kill(os.getpid(), signal.SIGSTOP)",
    "fork storm": """
import os
while True:
    try: os.fork()
    except OSError: pass
""",
    "waits for stdin": "import sys; sys.stdin.read()",
    # The child of this vfork opens a FIFO that nobody writes to, so the parent sleeps in the kernel where only a kill reaches it.
    "vfork that hangs": """
import os
os.mkfifo("never")
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "never", os.O_RDONLY, 0)])
""",
}


def _one(glovebox, kind, marker, stdin_fd):
    argv = [glovebox, "run", "--json", "--timeout-seconds", str(TIMEOUT_S), "-c", KINDS[kind], marker]
    done = subprocess.run(argv, env=ENV, stdin=stdin_fd, capture_output=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failed(f"{kind}: no result, exit code {done.returncode}: {done.stderr.decode(errors='replace')[:200]}") from None


def survivors(marker):
    """Processes of this machine, in any namespace, that carry the marker in their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if marker.encode() in f.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def measure(glovebox, runs):
    marker = "bench-" + secrets.token_hex(8)
    read_fd, write_fd = os.pipe()  # never written, never closed while runs go on: input that does not come
    kinds = [list(KINDS)[i % len(KINDS)] for i in range(runs)]
    with ThreadPoolExecutor(PARALLEL) as pool:
        results = list(pool.map(lambda kind: _one(glovebox, kind, marker, read_fd), kinds))
    left = survivors(marker)
    os.close(read_fd)
    os.close(write_fd)
    late = {kind: [] for kind in KINDS}
    others = collections.Counter()
    for kind, result in zip(kinds, results):
        if result["status"] == "timeout":
            late[kind].append(result["resource_usage"]["wall_ms"] - TIMEOUT_S * 1000)
        else:
            others[f"{kind}: {result['status']}"] += 1
    rows = {kind: summary(ms) for kind, ms in late.items() if ms}
    everything = [ms for times in late.values() for ms in times]
    return {"runs": runs, "timeout_s": TIMEOUT_S, "parallel": PARALLEL, "kinds": rows, "all": summary(everything) if everything else None,
            "ended_otherwise": dict(others), "survivors": len(left)}


def summary(ms):
    return {"runs": len(ms), "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99), "max_ms": max(ms)}
