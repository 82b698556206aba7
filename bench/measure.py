"""The sections of the benchmark that compare subjects, and what the service holds."""
import contextlib
import subprocess
import time

import proc
from programs import Failed
from turns import MOST_S, percentile, together

PAUSE_MS = 50
BURST = 100
IDLE_S = 1.0
MANY = 32  # boxes of each kind that wait, where memory is measured
MANY_S = 30
NOISE = {"own_kib": 2048, "descriptors": 16, "cgroups": 8}  # a pool that makes and ends boxes is never quite still; what leaks with each call is far more
CROWD = ["1000", "1000", "250"]  # idle, slow, ms between two bytes of a slow one


def note_ratios(rows):
    """To each other subject of the same cell: what this one takes, and how many it does, by what that one does."""
    for name, row in rows.items():
        others = {other: r for other, r in rows.items() if other != name and r.get("p50_ms") and r.get("rate")}
        if row.get("p50_ms"):
            row["ratios"] = {other: {"p50": row["p50_ms"] / r["p50_ms"], "rate": row["rate"] / r["rate"]} for other, r in others.items()}
    return rows


def calls(able, programs, turns, clients, seconds, note):
    """{program: {clients: {subject: row}}}, back to back."""
    result = {}
    for name, program in programs.items():
        for count in (c for c in program.clients if c in clients):
            note(f"{program.title}, {count} client{'s' if count > 1 else ''}")
            rows = turns.take(able[name], name, program, count, seconds * program.weight)
            result.setdefault(name, {})[str(count)] = note_ratios(rows)
    return result


def rhythm(able, programs, turns, seconds, note):
    """{program: {subject: row}}: one client that makes a pause after each call, as an agent does."""
    result = {}
    for name in ("true", "python", "sh", "node"):
        if name in programs:
            note(f"{programs[name].title}, {PAUSE_MS} ms between calls")
            result[name] = note_ratios(turns.take(able[name], name, programs[name], 1, seconds, PAUSE_MS))
    return result


def bursts(subjects, program, turns, rounds, most_s, note):
    """{subject: {"last_ms": [of each burst], "failed": …, "runs": …}}: so many at once, on an idle machine and, where there is one, an idle service."""
    result = {}
    for turn in range(rounds):
        for subject in subjects:
            row = result.setdefault(subject.name, {"last_ms": [], "runs": 0, "failed": 0, "why": None})
            rate = turns.rates.get((subject.name, "python"))
            if subject.is_peer and rate and BURST / rate > most_s:
                row["skipped"] = f"{BURST} at once would take {BURST / rate:.0f} s"
                continue
            if turn and row["last_ms"][0] > 1000 * MOST_S / rounds:
                continue  # once is enough
            note(f"burst of {BURST}, {subject.name}, {turn + 1} of {rounds}")
            time.sleep(IDLE_S)
            part = subject.slice(program, clients=BURST, burst=True)
            row["last_ms"].append(part.seconds * 1000)
            row["runs"] += part.runs
            row["failed"] += part.failed + (BURST - part.runs)
            row["why"] = row["why"] or (part.why if part.failed else None)
    for row in result.values():
        row["p50_ms"] = percentile(row["last_ms"], 50)
    return result


# --- what the service holds ---

def _waiting(service):
    service.settle()
    boxes = proc.waiting_boxes(service.process.pid)
    kinds = {}
    for kind, pids in boxes:
        kinds.setdefault(kind, []).append(sum(map(proc.pss_kib, pids)))
    total = sum(map(proc.pss_kib, proc.family(service.process.pid)))
    return {"boxes": len(boxes), "service_pss_kib": total, "service_pss_kib_per_box": total / len(boxes) if boxes else None,
            "kinds": {kind: {"boxes": len(kib), "mean_kib": sum(kib) / len(kib), "most_kib": max(kib)} for kind, kib in kinds.items()}}


def idle_boxes(service):
    """Memory of the boxes that wait, by their kind, and of everything divided by their number: of as many as there are, and of MANY. What they share is divided by those who share it."""
    few = _waiting(service)
    with service.configured(pool={"low": MANY}):
        end = time.monotonic() + MANY_S
        while time.monotonic() < end and len(proc.waiting_boxes(service.process.pid)) < 2 * MANY:  # plain ones and Python's
            time.sleep(0.2)
        many = _waiting(service)
    service.settle()
    return {"few": few, "many": many}


def growth(http, program, warm, runs, most_s):
    """What the service holds before and after so many calls at full load."""
    service = http.service
    first = http.slice(program, clients=8, runs=warm)
    service.settle()
    before = service.holdings()
    part = http.slice(program, clients=8, runs=runs, ms=int(most_s * 1000))
    service.settle(processes=before["processes"])
    return {"calls": part.runs, "wanted": runs, "failed": part.failed + first.failed, "why": part.why or first.why, "rate": part.runs / part.seconds,
            "before": before, "after": service.holdings(), "noise": NOISE}


# --- beside a crowd ---

@contextlib.contextmanager
def crowd_around(bench, address):
    """A thousand idle and a thousand slow connections, for as long as the block lasts."""
    with subprocess.Popen([bench.tool("crowd"), *address.split(":"), *CROWD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout.readline() != "ready\n":
                raise Failed("crowd: cannot connect")
            yield
        finally:
            process.stdin.close()


def crowd(http, program, rounds, seconds):
    """{request: {"quiet" | "crowd": row}} of one polite client, in alternating rounds."""
    taken = {path: {"quiet": [], "crowd": []} for path in ("/healthz", "/execute")}

    def both(when):
        taken["/healthz"][when].append(http.get("/healthz", clients=1, runs=500, pause_ms=2))
        taken["/execute"][when].append(http.slice(program, clients=1, ms=int(seconds * 1000)))

    for _ in range(rounds):
        both("quiet")
        with crowd_around(http.bench, http.service.address):
            both("crowd")
        time.sleep(0.3)  # two thousand connections end
    return {path: {when: together(parts) for when, parts in whens.items()} for path, whens in taken.items()}


