"""Every row of parts A to E and G of the checklist has a test that exists, or a reason."""

import pathlib
import re

from rows import NOT_HERE, ROWS

TOP = pathlib.Path(__file__).parent.parent
ALL = [f"{part}{n}" for part, last in [("A", 14), ("B", 10), ("C", 8), ("D", 8), ("E", 13), ("G", 16)] for n in range(1, last + 1)]


def probe_rows():
    text = (TOP.parent / "src/probe/probes.def").read_text()
    return {row for rows in re.findall(r'^GB_PROBE\(\w+, "([^"]+)"', text, re.M) for row in rows.split()}


def test_every_row_has_a_test_or_a_reason():
    assert [row for row in ALL if row not in ROWS and row not in probe_rows() and row not in NOT_HERE] == []


def test_every_named_test_exists():
    there = {f"{path.name}::{name}" for path in TOP.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    assert [name for names in ROWS.values() for name in names if name not in there] == []
