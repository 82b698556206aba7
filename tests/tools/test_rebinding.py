"""Names whose answers change between one question and the next, or are private and public at once, lead nowhere private; a name that the policy lists does."""

import json
import pathlib
import subprocess
import sys

import pytest

ROUNDS = 200


@pytest.mark.rootonly
def test_rebinding(gb):
    inside = pathlib.Path(__file__).with_name("rebind.py")
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, inside, gb.build / "tool-call", str(ROUNDS)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    named = seen["verdicts"].pop("named.test")
    assert named == {"reached": 3} and seen["reached"] == 3, seen  # the control: the same name server, the same listener
    for name, verdicts in seen["verdicts"].items():
        assert "reached" not in verdicts and sum(verdicts.values()) == ROUNDS, (name, verdicts)
        assert verdicts.get("refused", 0) >= (ROUNDS // 3 if name == "alternating.test" else ROUNDS), (name, verdicts)
    assert seen["asked"] >= 5 * ROUNDS
