"""The figures as Markdown."""
from goals import BARE, HTTP, cell
from programs import CODE

BUSY = 0.1  # from here on the machine is not idle
WORDS = {True: "yes", False: "**no**", None: "–"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] * len(head)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def figure(value, unit=""):
    """Three digits that mean something."""
    if value is None:
        return "–"
    return (f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}") + unit


def ratio(row, base, key):
    return figure(row.get("ratios", {}).get(base, {}).get(key)) if base in row.get("ratios", {}) else "–"


def machine(results):
    m = results["machine"]
    text = (f"# Benchmark\n\n{m['date']}, Linux {m['kernel']}, {m['cpus']} CPUs ({m['cpu']}), {m['memory_mib']} MiB, cgroup {m['cgroup']}, uid {m['uid']}. "
            f"Read ratios, not milliseconds: all subjects of a table took turns.\n\n")
    if results["quick"]:
        text += "**A short run** (`--quick`): rough figures.\n\n"
    if m["busy_before"] > BUSY:
        text += f"**The machine was not idle** (processors busy before it began: {100 * m['busy_before']:.0f} %): other work is in these figures.\n\n"
    text += table(["subject", "what it is", "version"], [[name, *words] for name, words in results["subjects"].items()])
    if results.get("numpy"):
        text += f"\nThe numpy job: bare, the whole takes {figure(results['numpy']['whole_ms'])} ms of processor time, of which to start Python and import numpy {figure(results['numpy']['import_ms'])}.\n"
    text += "".join(f"\n- **skipped: {what}**: {why}" for what, why in results["skipped"])
    return text + ("\n" if results["skipped"] else "")


def calls(results):
    """Everything, a table for each program."""
    text = ("## Calls, back to back\n\nEach client makes its next call when the last is done. CPU: time of the whole machine for each call, the client's own taken off. "
            f"The last two columns are {HTTP} against this row.\n")
    for name, by_clients in results["calls"].items():
        rows = []
        for clients, subjects in by_clients.items():
            for subject, row in subjects.items():
                if "skipped" in row:
                    rows.append([clients, subject, f"skipped: {row['skipped']}", *[""] * 9])
                    continue
                ours = subjects.get(HTTP, {})
                rows.append([clients, subject, str(row["runs"]), str(row["failed"]), figure(row["p50_ms"]), figure(row["p99_ms"]), figure(row["rate"]), figure(row["cpu_ms"]),
                             ratio(row, BARE, "p50"), ratio(row, BARE, "rate"), ratio(ours, subject, "p50"), ratio(ours, subject, "rate")])
        head = ["clients", "subject", "runs", "failed", "p50 ms", "p99 ms", "per second", "CPU ms", "p50 ÷ bare", "rate ÷ bare", "HTTP's p50 ÷ this", "HTTP's rate ÷ this"]
        text += f"\n### {results['programs'][name]}\n\n" + table(head, rows)
    return text


def overview(results):
    """Two small tables of the large ones."""
    programs = [name for name in results["programs"] if name in results["calls"]]
    subjects = [name for name in results["subjects"] if any(cell(results, p, 1, name) for p in programs)]
    text = "## Overview\n\nOne client, p50 in ms (× bare):\n\n"

    def line(subject, clients, key):
        for program in programs:
            row, bare = cell(results, program, clients, subject), cell(results, program, clients, BARE)
            yield figure(row[key]) + (f" ({figure(row[key] / bare[key])})" if bare else "") if row else "–"

    text += table(["", *(results["programs"][p] for p in programs)], [[s, *line(s, 1, "p50_ms")] for s in subjects])
    text += "\n8 clients, calls per second (× bare):\n\n"
    return text + table(["", *(results["programs"][p] for p in programs)], [[s, *line(s, 8, "rate")] for s in subjects])


def rhythm(results):
    rows = [[results["programs"][name], subject, str(row["runs"]), figure(row["p50_ms"]), figure(row["p99_ms"]), ratio(row, BARE, "p50"), ratio(row, "bubblewrap", "p50")]
            for name, subjects in results["rhythm"].items() for subject, row in subjects.items() if "skipped" not in row]
    text = "## An agent's rhythm: one client, 50 ms between calls\n\n"
    if results["machine"]["cgroup"] == "v1":
        text += ("Who moves a process into a v1 cgroup waits for a grace period of the kernel: 10 to 15 ms while the machine idles, next to nothing while it is busy. It is in "
                 "the lines of those that make a cgroup for the call, and not in those of bare, bubblewrap, or a box that was there before.\n\n")
    return text + table(["program", "subject", "runs", "p50 ms", "p99 ms", "p50 ÷ bare", "p50 ÷ bubblewrap"], rows)


def bursts(results):
    rows = []
    bare = results["bursts"].get(BARE, {}).get("p50_ms")
    for subject, row in results["bursts"].items():
        if row["last_ms"]:
            rows.append([subject, str(len(row["last_ms"])), f"{row['runs'] - row['failed']} of {row['runs']}", figure(row["p50_ms"]), " ".join(figure(ms) for ms in row["last_ms"]),
                         figure(row["p50_ms"] / bare) if bare else "–"])
        else:
            rows.append([subject, "", f"skipped: {row['skipped']}", "", "", ""])
    return f"## Bursts of 100 at once, `{CODE}`\n\nTime from the first start to the last answer.\n\n" + table(["subject", "bursts", "succeeded", "last answer ms", "each", "÷ bare"], rows)


def idle(results):
    text = "## Boxes that wait\n\nMemory is the proportional set size: what several share is divided by their number. As many wait as by default, and as with `pool.low` raised.\n\n"
    rows = []
    for i in results["idle"].values():
        rows += [[str(i["boxes"]), kind, str(k["boxes"]), figure(k["mean_kib"]), figure(k["most_kib"])] for kind, k in i["kinds"].items()]
        rows.append([str(i["boxes"]), "the whole service", "", figure(i["service_pss_kib"]), ""])
    return text + table(["boxes", "kind", "of it", "KiB each", "at most"], rows)


def growth(results):
    g = results["growth"]
    words = {"pss_kib": "PSS of all processes, KiB", "own_kib": "of that not of files", "descriptors": "descriptors", "cgroups": "cgroups", "processes": "processes", "boxes": "boxes that wait"}
    rows = [[words[key], str(g["before"][key]), str(g["after"][key])] for key in words if key in g["before"]]
    return (f"## {g['calls']} calls at full load\n\n`{CODE}` over 8 connections, {figure(g['rate'])} a second, {g['failed']} failed; before and after, when nothing is under way:\n\n"
            + table(["", "before", "after"], rows))


def crowd(results):
    rows = [[path, when, str(row["runs"]), figure(row["p50_ms"]), figure(row["p99_ms"]), figure(row["p99_ms"] / whens["quiet"]["p99_ms"])]
            for path, whens in results["crowd"].items() for when, row in whens.items()]
    return ("## Beside a crowd\n\nOne polite client, alone and beside 1 000 idle connections and 1 000 that send a byte every 250 ms, in alternating rounds.\n\n"
            + table(["request", "", "calls", "p50 ms", "p99 ms", "p99 ÷ quiet"], rows))


def sanitising(results):
    rows = [[("hostile to: " if r["hostile"] else "") + r["text"], f"{r['mb_per_s']:.0f}", f"{r['halves']:.2f}"] for r in results["sanitising"]]
    return ("## Sanitising\n\nAll rules at once and one known secret, in writes of 64 KiB, one thread. Hostile text is the nearest miss of one rule, over and over. "
            "Halves: speed of the second half of the text divided by that of the first; about 1 is linear.\n\n" + table(["text", "MB/s", "halves"], rows))


def layers(results):
    whole, cost = results["layers"]["whole_p50_ms"], results["layers"]["cost_ms"]
    known = sorted(((ms, step) for step, ms in cost.items() if ms is not None), reverse=True)
    rows = [[step, f"{ms:.3f}", f"{100 * ms / whole:.1f} %"] for ms, step in known] + [[step, "n/a", ""] for step, ms in cost.items() if ms is None]
    return (f"## Where the time goes\n\n`glovebox run -- /bin/true` of the test build takes {whole:.2f} ms; without one step it takes less by (difference of medians; a box that "
            "does not start without the step: n/a):\n\n" + table(["left out", "saves ms", "of the whole"], rows))


def deadline(results):
    d = results["deadline"]
    rows = [[kind, str(r["runs"]), *(f"{r[key]:.1f}" for key in ("p50_ms", "p99_ms", "max_ms"))]
            for kind, r in [*d["kinds"].items(), *([("**all**", d["all"])] if d["all"] else [])]]
    text = (f"## Deadline overshoot\n\n{d['runs']} hostile runs, {d['parallel']} at a time, timeout {d['timeout_s']} s; time from the deadline to the death of the last process:\n\n"
            + table(["program", "runs", "p50 ms", "p99 ms", "max ms"], rows))
    text += "".join(f"\n- ended otherwise than by timeout: {what} ({count})" for what, count in d["ended_otherwise"].items())
    return text + f"\nSurvivors: {d['survivors']}\n"


def goals(results):
    return "## Goals\n\n" + table(["what", "goal", "measured", "met"], [[g["what"], g["goal"], g["measured"], WORDS[g["met"]]] for g in results["goals"]])


# In the order in which they are measured and told.
SECTIONS = {"calls": calls, "rhythm": rhythm, "bursts": bursts, "idle": idle, "growth": growth, "crowd": crowd, "sanitising": sanitising, "layers": layers, "deadline": deadline}
# What docs/ shows: what a reader wants first, and of the rest what changes with the machine.
SHOWN = {"overview": overview, **{name: SECTIONS[name] for name in ("rhythm", "bursts", "idle", "growth", "crowd", "layers", "deadline", "calls")}}


def page(results):
    """docs/performance-table.md"""
    parts = [machine(results), goals(results)]
    parts += [write(results) for name, write in SHOWN.items() if results.get("calls" if name == "overview" else name)]
    return "<!-- Made by `make bench-docs` from build/bench.json. -->\n\n" + "\n".join(parts)
