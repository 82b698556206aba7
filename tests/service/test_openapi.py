"""openapi.json is true to the code: to its tables, and to what the service answers."""

import json
import re
import subprocess

import jsonschema
import pytest

import api
from api import DOCUMENT, TOP, call, resolve

pytestmark = pytest.mark.rootonly  # the same whoever runs it

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")


def source(path):
    return (TOP / "src" / path).read_text()


def operations():
    return [(method, path, op) for path, item in DOCUMENT["paths"].items() for method, op in item.items()]


def nodes(node):
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


# --- the document by itself ---


def test_shape():
    assert DOCUMENT["openapi"] == "3.1.0"
    assert set(DOCUMENT) <= {"openapi", "info", "servers", "security", "tags", "paths", "components"}
    assert {"title", "version", "license"} <= set(DOCUMENT["info"])
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    ids = [op["operationId"] for _, _, op in operations()]
    assert len(ids) == len(set(ids))
    for method, path, op in operations():
        assert path.startswith("/") and method in METHODS
        assert op["summary"] and set(op["tags"]) <= tags
        declared = {p["name"] for p in map(resolve, op.get("parameters", [])) if p["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path)), path
        for parameter in map(resolve, op.get("parameters", [])):
            assert {"name", "in", "schema", "description"} <= set(parameter)
        assert re.fullmatch("20[02]", next(iter(op["responses"])))
        for status, response in op["responses"].items():
            response = resolve(response)
            assert re.fullmatch("[2-5][0-9][0-9]", status) and response["description"] and response["content"]
            assert "X-Request-Id" in response["headers"]


def test_references_have_targets_and_components_are_used():
    used = set()
    for node in nodes(DOCUMENT):
        if isinstance(node, dict) and "$ref" in node:
            assert resolve(node)
            used.add(node["$ref"])
    for kind in ("schemas", "responses", "headers", "parameters"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in used, name


def test_schemas_are_valid():
    schemas = [s for s in nodes(DOCUMENT) if isinstance(s, dict) and "schema" in s]
    for node in [*DOCUMENT["components"]["schemas"].values(), *(s["schema"] for s in schemas)]:
        jsonschema.Draft202012Validator.check_schema(node)


def test_objects_say_what_they_hold():
    """Every object of ours is closed, but env, whose names are the caller's, and the document itself."""
    for name, node in DOCUMENT["components"]["schemas"].items():
        for part in nodes(node):
            if isinstance(part, dict) and part.get("type") == "object" and "properties" in part:
                closed = part.get("additionalProperties") is False or part.get("unevaluatedProperties") is False
                assert closed or name == "Result", (name, part)  # Result is the part that two closed ones share
                assert set(part.get("required", [])) <= set(part["properties"])


def test_errors_of_every_route():
    for method, path, op in operations():
        statuses = set(op["responses"])
        assert {"400", "403"} <= statuses
        assert ("401" in statuses) == (op.get("security") != [])
        calls = {"$ref": "#/components/parameters/IdempotencyKey"} in op.get("parameters", [])
        if "requestBody" in op:
            assert {"413", "415", "422", "503"} <= statuses
        if calls:
            assert {"202", "409", "429", "500", "502"} <= statuses
        for status in statuses - {"200", "202"}:
            response = resolve(op["responses"][status])
            assert response["content"] == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
            later = status in ("429", "503") or (status == "409" and calls)
            assert ("Retry-After" in response["headers"]) == later, (path, status)


# --- the document and the tables of the code ---


def test_routes():
    table = re.search(r"routes\[\] = \{(.*?)\n\};", source("front/route.c"), re.S)[1]
    rows = re.findall(r'\{"(\w+)", "([^"]*)", (true|false), (true|false),', table)
    assert len(rows) == len(re.findall(r'\{"[A-Z]', table))
    routes = {(method.lower(), path): (is_open == "true", takes_json == "true") for method, path, is_open, takes_json in rows}
    documented = {(m, p): (op.get("security") == [], "requestBody" in op) for m, p, op in operations()}
    assert documented == routes


def test_request_fields():
    code = source("front/fields.c")
    table = re.search(r"fields\[\] = \{(.*?)\n\};", code, re.S)[1]
    schema = DOCUMENT["components"]["schemas"]["ExecuteRequest"]
    assert list(schema["properties"]) == re.findall(r'\{"(\w+)",', table)
    files = re.search(r"static int take_file\(.*?\n\}\n", code, re.S)[0]
    assert list(DOCUMENT["components"]["schemas"]["InputFile"]["properties"]) == re.findall(r'!strcmp\(key, "(\w+)"\)', files)
    numbers = {name: int(value) for name, value in re.findall(r"#define (\w+) +(\d+)\b", code)}
    fields = schema["properties"]
    assert {fields[f]["maxItems"] for f in ("args", "outputs")} | {fields["env"]["maxProperties"]} == {numbers["TEXTS_MOST"]}
    assert fields["files"]["maxItems"] == numbers["FILES_MOST"]
    assert fields["args"]["items"]["maxLength"] == numbers["TEXT_BYTES"]
    assert fields["code"]["maxLength"] == 1 << int(re.search(r"GB_CODE_BYTES \(1 << (\d+)\)", source("spec/spec.h"))[1])


def test_limits():
    rows = re.findall(r'^GB_LIMIT\(\w+, "(\w+)", (\d), (\d+), (\d+), (\d+), (\d+),', source("spec/limits.def"), re.M)
    assert len(rows) == source("spec/limits.def").count("\nGB_LIMIT(")
    properties = DOCUMENT["components"]["schemas"]["Limits"]["properties"]
    assert list(properties) == [row[0] for row in rows]
    for key, decimals, default, least, usual, most in rows:
        value = lambda text: int(text) / 10 ** int(decimals)  # noqa: B023, E731
        limit = properties[key]
        assert limit["type"] == ("number" if int(decimals) else "integer")
        assert (limit["minimum"], limit["maximum"]) == (value(least), value(most)), key
        assert f"Default {value(default):g}" in limit["description"].replace("1000000", "1e+06"), key
        assert f"usual ceiling {value(usual):.0f}" in limit["description"], key
        for name in ("AppliedLimits", "Receipt"):
            applied = DOCUMENT["components"]["schemas"][name]["properties"]
            applied = applied["limits"]["properties"] if name == "Receipt" else applied
            assert (applied[key]["minimum"], applied[key]["maximum"]) == (value(least), value(most))


def test_words():
    """Statuses, languages and errors are those of the code."""
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Result"]["properties"]["status"]["enum"] == re.findall(r'^GB_STATUS\(\w+, "(\w+)"', source("spec/status.def"), re.M)
    languages = re.findall(r'^GB_RUNTIME\("(\w+)"', source("spec/runtimes.def"), re.M)
    assert schemas["ExecuteRequest"]["properties"]["language"]["enum"] == languages
    assert schemas["Problem"]["properties"]["code"]["enum"] == re.findall(r'^GB_ERROR\(\w+, "(\w+)"', source("base/err.def"), re.M)
    denials = re.findall(r'^GB_DENIAL\(\w+, "(\w+)", "(\w+)"', source("spec/denials.def"), re.M)
    assert schemas["Denial"]["properties"]["code"]["enum"] == [code for code, _ in denials]
    assert set(schemas["Denial"]["properties"]["stage"]["enum"]) == {stage for _, stage in denials}
    kinds = re.search(r"gb_tool_kinds\[[^]]*\] = \{(.*?)\}", source("policy/policy.c"), re.S)[1]
    assert schemas["IntentRecord"]["properties"]["kind"]["enum"] == re.findall('"(\\w+)"', kinds)


# --- the document and the service ---


def check(service, method, path, reply, template=None):
    """The reply is one that the document has, with its headers and of its schema."""
    response = resolve(DOCUMENT["paths"][template or path][method.lower()]["responses"][str(reply.status)])
    assert reply.headers["content-type"] in response["content"], reply
    for name, header in response["headers"].items():
        header = resolve(header)
        value = reply.headers.get(name.lower())
        assert value is not None or not header.get("required"), name
        if value is not None:
            api.validator(header["schema"]).validate(int(value) if header["schema"].get("type") == "integer" else value)
    schema = api.validator(response["content"][reply.headers["content-type"]]["schema"])
    schema.validate(json.loads(reply.body) if reply.headers["content-type"].endswith("json") else reply.body.decode())
    return reply


@pytest.fixture(scope="module")
def guarded(service):
    with api.running(service, {"keys": api.keys(alice={}, slow={"rate_per_minute": 1}), "boxes": {"running": 1, "queued": 0}}) as s:
        yield s


def test_it_is_served(service):
    reply = check(service, "GET", "/openapi.json", service.request("GET", "/openapi.json"))
    assert json.loads(reply.body) == DOCUMENT
    version = subprocess.run([service.program, "--version"], capture_output=True, text=True).stdout
    assert DOCUMENT["info"]["version"] in version.split()


@pytest.mark.parametrize("path", [path for path, item in DOCUMENT["paths"].items() if "get" in item and "{" not in path])
def test_pages(service, path):
    service.execute("print(1)")
    assert check(service, "GET", path, service.request("GET", path)).status == 200


CALLS = {
    "success": dict(code="print(1)"),
    "error": dict(code="import sys; print('no', file=sys.stderr); sys.exit(3)"),
    "signal": dict(code="import os; os.abort()"),
    "timeout": dict(code="while True: pass", limits={"timeout_seconds": 0.3}),
    "memory": dict(code="x = b'x' * (200 << 20)", limits={"max_memory_mb": 32}),
    "blocked": dict(code="import subprocess; subprocess.run(['ls'])"),
    "truncated": dict(code="print('x' * 100)", limits={"max_output_bytes": 10}),
    "files": dict(
        code="cp b c; mkdir d",
        language="sh",
        files=[{"name": "a", "text": "A"}, {"name": "b", "base64": "AP8=", "executable": True}],
        outputs=["a", "c", "d", "none", "*.none"],
    ),
    "secrets": dict(code="print('10.0.0.1')"),
    "everything": dict(code="cat", language="bash", stdin="in", args=["x"], env={"A": "b"}, network=False, stream=False, limits={"max_pids": 8}),
    "arguments": dict(arguments={"code": "print(1)"}, allowed_modules=["math"], wait=True, raw=False),
    "wrong arguments": dict(arguments={"code": 1, "more": 2}),
    "command": dict(tool_name="execute_command", command="echo a | cat"),
    "wrong command": dict(tool_name="execute_command", command="echo $(id)"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("path", ["/execute", "/v1/execute"])
def test_results(service, path, name):
    body = {"tool_name": "execute_code", **CALLS[name]}
    api.validator(DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]).validate(body)
    result = json.loads(check(service, "POST", path, service.request("POST", path, body)).body)
    one = service.request("GET", f"/v1/executions/{result['id']}")
    assert check(service, "GET", "", one, "/v1/executions/{id}").status == 200
    assert check(service, "GET", "/v1/executions", service.request("GET", "/v1/executions?limit=100")).status == 200


@pytest.mark.parametrize("kind", [api.SSE, api.NDJSON])
@pytest.mark.parametrize("path", ["/execute", "/v1/execute"])
@pytest.mark.parametrize("name", ["success", "error", "blocked"])
def test_events(service, path, kind, name):
    content = DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]
    schema = api.validator(content[kind]["x-event-schema"])
    found = api.events(service, path=path, accept=kind, **CALLS[name])
    for event in found:
        schema.validate(event)
    assert [event["type"] for event in found if event["type"] not in ("stdout", "stderr")] == ["start", "result"]


def test_error_event(start_service):
    service = start_service({"boxes": {"running": 1, "wait_seconds": 0.2}})
    with api.Stream(service, api.FOREVER) as first:
        first.until("stdout")
        *_, last = api.events(service, "print(1)")
        api.schema("V1ExecuteEvent").validate(last)
        assert last["type"] == "error" and last["error"]["code"] == "queue_full"


def test_running_and_cancel(service):
    with api.Stream(service, api.FOREVER) as stream:
        id_ = stream.until("start")["id"]
        page = check(service, "GET", "/v1/executions", service.request("GET", "/v1/executions"))
        assert id_ in [row["id"] for row in json.loads(page.body)["running"]]
        reply = service.request("POST", f"/v1/executions/{id_}/cancel")
        assert check(service, "POST", "", reply, "/v1/executions/{id}/cancel").status == 202
        api.schema("V1ExecuteEvent").validate(stream.until("result"))


def test_problems(service, guarded):
    """Each status that the document promises, where a client can bring it about."""
    alice, post = api.bearer("alice"), ("POST", "/execute")
    expect = lambda status, s, method, path, *args, template=None: (  # noqa: E731
        check(s, method, path, s.request(method, path, *args), template).status == status
    )
    assert expect(400, service, *post, b"{", api.JSON)
    assert expect(401, guarded, *post, call("1"))
    assert expect(403, service, *post, call("1"), {"Host": "evil.example"})
    assert expect(413, service, *post, None, {**api.JSON, "Content-Length": str(1 << 40)})
    assert expect(415, service, *post, b"{}", {"Content-Type": "text/plain"})
    assert expect(422, service, *post, {})
    assert expect(200, guarded, *post, call("1"), api.bearer("slow"))
    assert expect(429, guarded, *post, call("1"), api.bearer("slow"))
    none = "/v1/executions/" + "0" * 26
    assert expect(404, service, "GET", none, template="/v1/executions/{id}")
    assert expect(404, service, "POST", none + "/cancel", template="/v1/executions/{id}/cancel")
    assert expect(422, service, "GET", "/v1/executions?limit=0", template="/v1/executions")
    with api.Stream(guarded, api.FOREVER, headers=alice) as stream:
        stream.until("stdout")
        assert expect(503, guarded, *post, call("1"), alice)
    for method, path, op in operations():
        template, path = path, path.replace("{id}", "0" * 26).replace("{name}", "execute_code")
        assert expect(403, service, method.upper(), path, None, {"Host": "evil.example"}, template=template)
        if op.get("security") != []:
            assert expect(401, guarded, method.upper(), path, template=template)
        if method == "get":
            assert expect(422, service, "GET", path, b"body", template=template)
