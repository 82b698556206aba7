"""What runs: the same few programs everywhere, in the words of each subject."""
import os
import shutil
import subprocess
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


def _cpu_ms(argv, runs=5):
    """The least processor time that it takes, which other work on the machine hardly changes; and what it prints."""
    least = None
    for _ in range(runs):
        with subprocess.Popen(argv, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            output, error = process.stdout.read(), process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise Failed(error.strip().rsplit("\n", maxsplit=1)[-1])
        took = (usage.ru_utime + usage.ru_stime) * 1000
        least = took if least is None else min(least, took)
    return least, output


def _numpy(python):
    """A job that works for WORK_MS on this machine; importing numpy comes on top of that."""
    loops = 4000
    start, _ = _cpu_ms([python, "-c", NUMPY.format(0)])
    some, _ = _cpu_ms([python, "-c", NUMPY.format(loops)])
    if some <= start:
        raise Failed(f"cannot find out how large a job of {WORK_MS} ms is")
    code = NUMPY.format(max(1, int(loops * WORK_MS / (some - start))))
    whole, output = _cpu_ms([python, "-c", code], 3)
    return (_code(f"numpy, {WORK_MS} ms of work", [python, "-c", code], output, code, "python", (1, 2, 8, 64), 1),
            {"import_ms": start, "whole_ms": whole, "code": code})


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
            missing.append(("numpy", str(failure)))
    found["sh"] = _code("sh `echo hi`", ["/bin/sh", "-c", "echo hi"], "hi\n", "echo hi", "sh", (1, 8), 1)
    if node:
        found["node"] = _code("node `console.log(1)`", [node, "-e", "console.log(1)"], "1\n", "console.log(1)", "node", (1, 8), 1)
    else:
        missing.append(("node", f"no node in {BOX_PATH}"))
    return {name: p for name, p in found.items() if wanted is None or name in wanted}, missing, numpy
