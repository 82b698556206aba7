"""The JSON reader against a public suite of cases: what every reader must accept or refuse, and no crash on the rest.

The cases are not in the repository: a file json_parsing.jsonl, each line with id, expect (accept, reject, either) and body_b64, in the directory
that $GB_CASES names, or in ../shared/cases beside the repository.
"""

import base64
import json
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.rootonly  # the same whoever runs it

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = pathlib.Path(os.environ.get("GB_CASES", TOP.parent / "shared" / "cases")) / "json_parsing.jsonl"

# Legal JSON that we refuse on purpose: two readers could take different values.
DUPLICATES = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
# What the suite leaves open, and we accept; the rest of it is refused. So that a change of mind is seen.
OPEN_ACCEPTED = {
    "i_number_double_huge_neg_exp.json",  # too small for a double: 0
    "i_number_real_underflow.json",
    "transform_number_1e-999.json",
    "transform_number_-9223372036854775808.json",
    "transform_number_1.0.json",
    "transform_number_1.000000000000000005.json",
    "transform_number_1000000000000000.json",
    "transform_number_1e6.json",
    "transform_number_9223372036854775807.json",
    "transform_object_key_nfc_nfd.json",  # keys are bytes: what only looks alike is not the same
    "transform_object_key_nfd_nfc.json",
    "transform_string_with_escaped_NULL.json",
}


@pytest.fixture(scope="module")
def verdicts(gb, tmp_path_factory):
    """id: (expect, what the reader said)."""
    if not CASES.exists():
        pytest.skip(f"no cases at {CASES}: set GB_CASES to the directory that has them")
    folder = tmp_path_factory.mktemp("json")
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    for number, case in enumerate(cases):
        (folder / str(number)).write_bytes(base64.b64decode(case["body_b64"]))
    done = subprocess.run([gb.build / "json-verdict", *(folder / str(n) for n in range(len(cases)))], capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode(errors="replace")
    lines = done.stdout.decode().splitlines()  # one line each, of valid UTF-8: errors quote the input
    assert len(lines) == len(cases) > 300
    return {case["id"]: (case["expect"], line) for case, line in zip(cases, lines)}


def test_what_must_be_accepted(verdicts):
    refused = {name: line for name, (expect, line) in verdicts.items() if expect == "accept" and not line.startswith("accept")}
    assert set(refused) == DUPLICATES
    assert all("duplicate object key" in line for line in refused.values())


def test_what_must_be_refused(verdicts):
    assert {name for name, (expect, line) in verdicts.items() if expect == "reject" and not line.startswith("reject line ")} == set()


def test_what_is_left_open(verdicts):
    assert {name for name, (expect, line) in verdicts.items() if expect == "either" and line == "accept"} == OPEN_ACCEPTED


def test_texts_are_printable(verdicts):
    for name, (_, line) in verdicts.items():
        assert line.isprintable(), name
