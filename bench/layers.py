"""Where the time goes: the same run with one confinement step left out at a time (only a test build can do that)."""
import json
import os
import subprocess

from programs import ENV
from subjects import Spawned

WHOLE, AGAIN = "(nothing)", "(nothing, again: the noise)"


def build(source, directory):
    """The test build, made if missing and brought up to date; returns its program, or None with the reason."""
    steps = [["ninja", "-C", directory]]
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        steps.insert(0, ["meson", "setup", directory, source, "-Dtesting=true"])
    for argv in steps:
        try:
            done = subprocess.run(argv, cwd=source, capture_output=True, text=True, check=False)
        except OSError as error:
            return None, f"{argv[0]}: {error}"
        if done.returncode:
            return None, f"{' '.join(argv)}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}"
    return os.path.join(directory, "glovebox"), None


def step_names(glovebox):
    """The steps that a run on this host takes, as its own receipt tells."""
    done = subprocess.run([glovebox, "run", "--json", "--", "/bin/true"], env=ENV, capture_output=True, check=True)
    return json.loads(done.stdout)["enforced"]["steps"]


def measure(bench, glovebox, program, turns, seconds):
    """Returns {step: median cost in ms, or None if the box does not start without it}, and the median of the whole."""
    def command(program):
        return [glovebox, "run", *program.run]

    subjects = [Spawned(WHOLE, bench, command), Spawned(AGAIN, bench, command)]
    cost = {}
    for step in step_names(glovebox):
        subject = Spawned(step, bench, command, env={"GLOVEBOX_TEST_SKIP": step})
        if subject.check(program):
            cost[step] = None
        else:
            subjects.append(subject)
    for subject in subjects:
        subject.gap_s = 0
    rows = turns.take(subjects, "layers", program, 1, seconds)
    whole = rows.pop(WHOLE)["p50_ms"]
    return {"whole_p50_ms": whole, "cost_ms": cost | {name: whole - row["p50_ms"] for name, row in rows.items()}}
