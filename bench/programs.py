"""What runs: the same few programs everywhere, in the words of each subject."""
import os
import shutil
import subprocess
import time
from typing import NamedTuple

BOX_PATH = "/usr/local/bin:/usr/bin:/bin"
ENV = {"PATH": BOX_PATH} | {k: v for k, v in os.environ.items() if k.startswith("GLOVEBOX_") and "TEST" not in k}
CODE = "print(2+2)"
NAMES = ("true", "python", "numpy", "sh", "node")
WORK_MS = 50
# Arrays that fit into a cache, again and again: work that is numpy's, not that of the kernel's page tables.
NUMPY = "import numpy\nx = numpy.arange(10000.0)\nfor _ in range({}):\n    x = numpy.sqrt(x * x + 1)\nprint(int(x.sum()))"


class Failed(Exception):
    """Something does not work here at all: its times would mean nothing."""


class Program(NamedTuple):
    title: str
    argv: list  # bare
    output: str
    run: list  # what `glovebox run` takes
    tool: str  # of the service
    arguments: dict
    clients: tuple
    weight: float  # how much of the time it gets


def _code(title, argv, output, code, language, clients, weight):
    run = ["-c", code] if language == "python" else ["--lang", language, "-c", code]
    arguments = {"code": code} if language == "python" else {"code": code, "language": language}
    return Program(title, argv, output, run, "execute_code", arguments, clients, weight)


def _least_ms(argv, runs=7):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(argv, env=ENV, capture_output=True, text=True, check=False)
        times.append((time.perf_counter() - start) * 1000)
        if done.returncode:
            raise Failed(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")
    return min(times), done.stdout


def _numpy(python):
    """A job that works for WORK_MS on this machine, now; importing numpy comes on top of that."""
    least, _ = _least_ms([python, "-c", NUMPY.format(0)])
    some, _ = _least_ms([python, "-c", NUMPY.format(1000)])
    code = NUMPY.format(max(1, int(1000 * WORK_MS / max(some - least, 1))))
    whole, output = _least_ms([python, "-c", code])
    title = f"numpy, {WORK_MS} ms of work"
    return _code(title, [python, "-c", code], output, code, "python", (1, 2, 8, 64), 1), {"import_ms": least, "whole_ms": whole, "code": code}


def find(wanted=None):
    """Returns ({name: Program}, [(what, why it is missing)], what was found out about the numpy job)."""
    python, node = (shutil.which(name, path=BOX_PATH) for name in ("python3", "node"))
    found = {"true": Program("`/bin/true`", ["/bin/true"], "", ["--", "/bin/true"], "true", {}, (1, 2, 8, 64), 1)}
    missing, numpy = [], None
    if not python:
        raise Failed(f"no python3 in {BOX_PATH}")
    found["python"] = _code(f"python `{CODE}`", [python, "-c", CODE], "4\n", CODE, "python", (1, 2, 8, 64), 2)
    if wanted is None or "numpy" in wanted:
        try:
            found["numpy"], numpy = _numpy(python)
        except Failed as failure:
            missing.append(("numpy", str(failure).rsplit("\n", maxsplit=1)[-1]))
    found["sh"] = _code("sh `echo hi`", ["/bin/sh", "-c", "echo hi"], "hi\n", "echo hi", "sh", (1, 8), 1)
    if node:
        found["node"] = _code("node `console.log(1)`", [node, "-e", "console.log(1)"], "1\n", "console.log(1)", "node", (1, 8), 1)
    else:
        missing.append(("node", f"no node in {BOX_PATH}"))
    return {name: p for name, p in found.items() if wanted is None or name in wanted}, missing, numpy
