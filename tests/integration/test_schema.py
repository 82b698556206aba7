"""The JSON Schema validator against the public suite of tests, for 2020-12 and draft-07; nothing is fetched, and nothing that is invalid passes.

The cases are not in the repository: files json_schema_*.jsonl and json_schema_remotes.json in the directory that $GB_CASES names, or in
../shared/cases beside the repository. What the texts are like, and that work stays in bounds, is in tests/unit/test_schema.c.
"""

import json
import os
import pathlib
import subprocess
import unicodedata

import pytest

pytestmark = pytest.mark.rootonly  # the same whoever runs it

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = pathlib.Path(os.environ.get("GB_CASES", TOP.parent / "shared" / "cases"))
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFTS = {"draft2020-12": 1299, "draft7": 927}  # how many required tests each has

# Schemas of the optional tests that we refuse to compile, or to read, by file: so that a change is seen.
REFUSED = {
    "optional/bignum.json": 5,  # integers beyond 64 bits: the JSON reader does not take them
    "optional/cross-draft.json": 1,  # refers to a draft that we do not know
    "optional/format/idn-hostname.json": 2,  # cannot be checked without tables of Unicode
}
# Optional tests in which we refuse what is valid. The other way round there are none.
STRICTER = {"optional/format/hostname.json": 15}  # names with xn--


def judge(gb, rows):
    """One process for all rows; an answer for each."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([gb.build / "schema-verdict"], input=lines.encode(), capture_output=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode(errors="replace")[-4000:]
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(rows)
    return answers


@pytest.fixture(scope="module", params=list(DRAFTS))
def results(request, gb):
    """The draft, and (row, answer) of its schemas."""
    path = CASES / f"json_schema_{request.param}.jsonl"
    if not path.exists():
        pytest.skip(f"no cases at {path}: set GB_CASES to the directory that has them")
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [{"schema": True, "values": [], "documents": json.loads((CASES / "json_schema_remotes.json").read_text())}]
    for case in cases:
        schema = case["schema"]
        if request.param == "draft7" and isinstance(schema, dict):
            schema = {"$schema": DRAFT_7, **schema}
        rows.append({"schema": schema, "values": [value for _, value, _ in case["tests"]], "format": "/format/" in case["file"]})
    return request.param, list(zip(cases, judge(gb, rows)[1:], strict=True))


def verdicts(results):
    """(file, optional, name of the test, must it be valid, was it): a schema that is refused makes nothing valid."""
    for case, answer in results:
        for number, (name, _, valid) in enumerate(case["tests"]):
            found = "problems" in answer and not answer["problems"][number]
            yield case["file"], case["optional"], f"{case['description']}: {name}", valid, found


def test_required(results):
    draft, answers = results
    required = [row for row in verdicts(answers) if not row[1]]
    assert len(required) == DRAFTS[draft]
    assert [(file, name) for file, _, name, valid, found in required if valid != found] == []


def test_nothing_invalid_passes(results):
    assert [(file, name) for file, _, name, valid, found in verdicts(results[1]) if found and not valid] == []


def test_optional(results):
    draft, answers = results
    refused, stricter = {}, {}
    for case, answer in answers:
        if "problems" not in answer:
            refused[case["file"]] = refused.get(case["file"], 0) + 1
            continue
        for number, (_, _, valid) in enumerate(case["tests"]):
            if valid and answer["problems"][number]:
                stricter[case["file"]] = stricter.get(case["file"], 0) + 1
    assert refused == (REFUSED if draft == "draft2020-12" else {})
    assert stricter == (STRICTER if draft == "draft2020-12" else {})


def test_every_problem_has_a_place_and_a_text(results):
    for case, answer in results[1]:
        for problems in answer.get("problems", []):
            for path, text in problems:
                assert path.startswith("value") and text and all(unicodedata.category(c) != "Cc" for c in path + text), case["description"]
                assert text != "does not fit the schema", case["description"]


def test_steps_stay_few(results):
    """No test of the suite is large; nor is the work that it makes."""
    for case, answer in results[1]:
        assert all(steps < 5000 for steps in answer.get("steps", [])), case["description"]


def test_metaschemas_take_what_compiles(gb, results):
    """A schema that we compile is one by its draft's own metaschema, as we have it."""
    draft, answers = results
    uri = DRAFT_7 if draft == "draft7" else "https://json-schema.org/draft/2020-12/schema"
    schemas = [case["schema"] for case, answer in answers if "problems" in answer]
    answer = judge(gb, [{"schema": {"$schema": uri, "$ref": uri}, "values": schemas}])[0]
    odd = [(schema, problems) for schema, problems in zip(schemas, answer["problems"], strict=True) if problems]
    assert odd == []


@pytest.mark.parametrize("name", ["src/policy/policy.schema.json", "conf/glovebox.schema.json"])
def test_our_own_schemas_compile(gb, name):
    answer = judge(gb, [{"schema": json.loads((TOP / name).read_text()), "values": [{}], "strict": True}])[0]
    assert "error" not in answer, answer
