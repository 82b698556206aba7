"""What must be shown, as data: each goal with what was measured and whether it was met (None: not measured)."""

BARE = "bare"
OURS = COLD, CALL, HTTP = "glovebox run", "glovebox call", "glovebox HTTP"
OVERSHOOT_MS = 100
CROWD_TIMES = 2


def cell(results, program, clients, subject):
    """A row that was measured and in which something succeeded, or None."""
    row = results.get("calls", {}).get(program, {}).get(str(clients), {}).get(subject)
    return row if row and row.get("p50_ms") else None


def _times(results, program, clients, key, subject, base, base_key=None):
    """(ratio, text)"""
    ours, theirs = cell(results, program, clients, subject), cell(results, program, clients, base)
    if not ours or not theirs:
        return None, f"{subject if not ours else base} was not measured"
    ratio = ours[key] / theirs[base_key or key]
    unit = "/s" if key == "rate" else " ms"
    return ratio, f"{ratio:.3g} × ({ours[key]:.4g} against {theirs[base_key or key]:.4g}{unit})"


def _at_most(goal, most, *which):
    ratio, text = _times(*which)
    return goal, None if ratio is None else ratio <= most, text


def _at_least(goal, least, *which):
    ratio, text = _times(*which)
    return goal, None if ratio is None else ratio >= least, text


def _speed(r):
    what = "`POST /execute` `print(2+2)`, 1 client, whole reply"
    yield what, *_at_most("p50 ≤ 0.10 × bare `python3 -c`", 0.10, r, "python", 1, "p50_ms", HTTP, BARE)
    yield what, *_at_most("p99 ≤ 0.5 × bare `python3 -c`, its p50", 0.5, r, "python", 1, "p99_ms", HTTP, BARE, "p50_ms")
    what = "the same, sustained, 8 clients"
    for times, base in ((6, BARE), (8, "bubblewrap"), (150, "docker")):
        yield what, *_at_least(f"≥ {times} × the calls per second of {base}", times, r, "python", 8, "rate", HTTP, base)


def _bursts(r):
    rows = r.get("bursts", {})
    ours, bare = rows.get(HTTP), rows.get(BARE)
    what = "burst of 100 at once on an idle service"
    if not ours or not ours["last_ms"]:
        yield what, "100 % succeed", None, "not measured"
        return
    yield what, "100 % succeed", not ours["failed"], f"{ours['runs'] - ours['failed']} of {ours['runs']}"
    if bare and bare["p50_ms"]:
        ratio = ours["p50_ms"] / bare["p50_ms"]
        yield what, "last answer ≤ 0.25 × bare python3", ratio <= 0.25, f"{ratio:.3g} × ({ours['p50_ms']:.0f} against {bare['p50_ms']:.0f} ms)"


def _starts(r):
    yield "cold `glovebox run -- /bin/true`, back to back", *_at_most("p50 ≤ 0.8 × bubblewrap", 0.8, r, "true", 1, "p50_ms", COLD, "bubblewrap")
    slow = r.get("rhythm", {}).get("true", {})
    if all(slow.get(name, {}).get("p50_ms") for name in (COLD, "bubblewrap")):
        ours, theirs = slow[COLD]["p50_ms"], slow["bubblewrap"]["p50_ms"]
        yield "the same, 50 ms between calls", "told: on cgroup v1 the kernel's grace period is in it", None, f"{ours / theirs:.3g} × bubblewrap ({ours:.3g} against {theirs:.3g} ms)"
    yield "shell command `echo hi` over HTTP", *_at_most("p50 ≤ 0.5 × bubblewrap", 0.5, r, "sh", 1, "p50_ms", HTTP, "bubblewrap")
    # It cannot be forked: one is started ahead for each call, which takes as much of the processor as ever.
    node = r.get("rhythm", {}).get("node", {})
    what = "node `console.log(1)` over HTTP, 50 ms between calls"
    if all(node.get(name, {}).get("p50_ms") for name in (HTTP, BARE)):
        ours, bare = node[HTTP]["p50_ms"], node[BARE]["p50_ms"]
        yield what, "p50 ≤ 0.2 × bare node", ours <= 0.2 * bare, f"{ours / bare:.3g} × ({ours:.3g} against {bare:.3g} ms)"
    ratio, text = _times(r, "node", 1, "p50_ms", HTTP, BARE)
    if ratio is not None:
        yield "the same, back to back", "told: they are used up faster than the next ones start", None, text


def _memory(r):
    python = r.get("idle", {}).get("many", {}).get("kinds", {}).get("python")
    yield ("memory per idle waiting Python box", "≤ 1 MiB proportional set size", python and python["mean_kib"] <= 1024,
           f"{python['mean_kib']:.0f} KiB, mean of {python['boxes']}" if python else "no such box waits")
    grown = r.get("growth")
    if not grown:
        yield "10 000 calls at full load", "no growth", None, "not measured"
        return
    before, after = grown["before"], grown["after"]
    what = f"{grown['calls']} calls at full load"
    enough = grown["calls"] >= grown["wanted"] and grown["wanted"] >= 10000
    for name, key in (("memory, KiB of all processes", "own_kib"), ("descriptors", "descriptors"), ("cgroups", "cgroups")):
        allowed = grown["noise"][key]
        if key in before:
            good = after[key] <= before[key] + allowed
            yield (what, f"no growth in {name} (up to {allowed} are noise)", good if enough or not good else None,
                   f"{before[key]} before, {after[key]} after{'' if enough else '; fewer calls than wanted'}")


def _others(r):
    failed = list(failures(r))
    yield "every call of this benchmark", "succeeds", not failed, "; ".join(f"{what}: {n} failed" for what, n, _ in failed) or "no failure"
    beside = r.get("crowd", {}).get("/execute")
    if beside:
        quiet, crowd = beside["quiet"]["p99_ms"], beside["crowd"]["p99_ms"]
        yield ("a polite client beside 2 000 idle and slow connections", f"p99 ≤ {CROWD_TIMES} × quiet", crowd <= CROWD_TIMES * quiet,
               f"{crowd / quiet:.3g} × ({crowd:.3g} against {quiet:.3g} ms)")
    late = r.get("deadline")
    if late:
        p99 = late["all"]["p99_ms"] if late["all"] else None
        yield "hostile programs", f"overshoot of the deadline, p99 < {OVERSHOOT_MS} ms", p99 is not None and p99 < OVERSHOOT_MS, "none timed out" if p99 is None else f"{p99:.1f} ms"
        yield "hostile programs", "no survivor", late["survivors"] == 0, str(late["survivors"])


def goals(results):
    return [{"what": what, "goal": goal, "met": met, "measured": measured}
            for part in (_speed, _bursts, _starts, _memory, _others) for what, goal, met, measured in part(results)]


def failures(results):
    """(what, how many, the first) of calls that should have succeeded and did not."""
    rows = [(f"{program}, {subject}, {clients} clients", row) for program, by_clients in results.get("calls", {}).items()
            for clients, subjects in by_clients.items() for subject, row in subjects.items()]
    rows += [(f"{program}, {subject}, with pauses", row) for program, subjects in results.get("rhythm", {}).items() for subject, row in subjects.items()]
    rows += [(f"burst, {subject}", row) for subject, row in results.get("bursts", {}).items()]
    rows += [(f"{path}, {when}", row) for path, whens in results.get("crowd", {}).items() for when, row in whens.items()]
    rows += [("calls at full load", results["growth"])] if "growth" in results else []
    return ((what, row["failed"], row.get("why")) for what, row in rows if row.get("failed"))
