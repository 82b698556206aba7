"""Every row of the checklist has a test that exists, or a reason; and no row has both."""

import pathlib
import re

from rows import NOT_HERE, ROWS

TESTS = pathlib.Path(__file__).parent.parent
PARTS = {"A": 14, "B": 10, "C": 8, "D": 8, "E": 13, "F": 16, "G": 16, "H": 6, "I": 11, "J": 15, "K": 8, "L": 8}
ALL = [f"{part}{n}" for part, last in PARTS.items() for n in range(1, last + 1)]


def probe_rows():
    text = (TESTS.parent / "src/probe/probes.def").read_text()
    return {row for rows in re.findall(r'^GB_PROBE\(\w+, "([^"]+)"', text, re.M) for row in rows.split()}


def functions():
    """FILE::FUNCTION of every test: in Python, in C, and of the programs under load."""
    for path in [*TESTS.rglob("*.py"), *TESTS.rglob("*.c"), TESTS / "load/load", TESTS / "load/kills"]:
        yield from (f"{path.name}::{name}" for name in re.findall(r"^(?:def|(?:static )?(?:void|int)) (\w+)\(", path.read_text(), re.M))


def test_every_row_has_a_test_or_a_reason():
    tested = set(ROWS) | probe_rows()
    assert [row for row in ALL if row not in tested and row not in NOT_HERE] == []
    assert [row for row in NOT_HERE if row in tested] == []
    assert [row for row in tested | set(NOT_HERE) if row not in ALL] == []


def test_every_named_test_exists():
    there = set(functions())
    assert len(there) > 500
    assert [name for names in ROWS.values() for name in names if name not in there] == []
