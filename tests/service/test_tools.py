"""Tools end to end: which there are, who may use them, what they take, and what they answer when they do not."""

import base64
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

import api
from api import problem
from conftest import wait_for

NONE = "0" * 26


def call_tool(service, tool, arguments=None, headers=None, **fields):
    """The answer of POST /v1/tools/{name}/call, which must be one."""
    body = ({} if arguments is None else {"arguments": arguments}) | fields
    reply = service.request("POST", f"/v1/tools/{tool}/call", body, headers)
    assert reply.status == 200, reply
    result = reply.json()
    api.schema("V1ExecuteResult").validate(result)
    return result


def command(service, line, **fields):
    return call_tool(service, "execute_command", {"command": line}, **fields)


def denied(result, code, *words):
    """Refused for this one reason; returns its text."""
    assert (result["status"], result["success"], result["exit_code"]) == ("blocked", False, None), result
    assert [d["code"] for d in result["denials"]] == [code], result["denials"]
    (denial,) = result["denials"]
    assert denial["stage"] and denial["hint"]
    for word in words:
        assert word in denial["reason"], denial
    return denial["reason"]


def records(service, result, headers=None):
    return [(r["kind"], r["record"]) for r in service.request("GET", f"/v1/executions/{result['id']}", headers=headers).json()["records"]]


# --- what there is ---


def test_built_in_tools(service):
    found = service.request("GET", "/v1/tools").json()
    api.schema("Tools").validate(found)
    assert [tool["function"]["name"] for tool in found["tools"]] == ["execute_code", "execute_command"]
    for tool in found["tools"]:
        assert tool["type"] == "function" and tool["function"]["description"]
        assert tool["function"]["parameters"]["type"] == "object"
    other = service.request("GET", "/v1/tools?format=anthropic").json()
    api.schema("Tools").validate(other)
    assert [(t["name"], t["description"], t["input_schema"]) for t in other["tools"]] == [
        (t["function"]["name"], t["function"]["description"], t["function"]["parameters"]) for t in found["tools"]
    ]
    for query in ("format=", "format=xml", "x", "format=openai&x=1", "form"):
        problem(service.request("GET", f"/v1/tools?{query}"), 422, "invalid_request", "format=openai")


def test_the_list_is_a_call_away(service):
    """What the list says is what the call takes."""
    code = service.request("GET", "/v1/tools").json()["tools"][0]["function"]
    assert "code" in code["parameters"]["properties"]
    assert call_tool(service, code["name"], {"code": "print(2 + 2)"})["stdout"] == "4\n"


def test_unknown_tools(service):
    reply = service.request("POST", "/v1/tools/rm/call", {"arguments": {}})
    problem(reply, 404, "not_found", "execute_code, execute_command")
    problem(service.request("POST", f"/v1/tools/{'execute_code' + 'x' * 60}/call", {"arguments": {}}), 404, "not_found")
    problem(service.request("POST", "/v1/tools/execute%5Fcode/call", {"arguments": {}}), 404, "not_found")
    for path in ("/execute", "/v1/execute"):
        problem(service.request("POST", path, {"tool_name": "rm", "arguments": {}}), 422, "invalid_request", "tool_name", "execute_command")


def test_wrong_requests(service):
    """What is wrong with the request itself is a problem; what is wrong with the arguments is a refusal."""
    path = "/v1/tools/execute_code/call"
    problem(service.request("POST", path, {"tool_name": "execute_command", "code": "1"}), 422, "invalid_request", "tool_name", "path")
    assert service.request("POST", path, {"tool_name": "execute_code", "code": "print(1)"}).json()["stdout"] == "1\n"
    problem(service.request("POST", path, {}), 422, "invalid_request", "code: is missing")
    problem(service.request("POST", path, {"arguments": []}), 422, "invalid_request", "arguments: must be an object")
    problem(service.request("POST", path, {"arguments": {"code": "1"}, "code": "1"}), 422, "invalid_request", "code: is in arguments, too")
    problem(service.request("POST", path, {"arguments": {"code": "a\0b"}}), 422, "bad_input", "arguments.code")
    problem(service.request("POST", "/v1/tools/execute_command/call", {}), 422, "invalid_request", "command: is missing")
    for field, value in {"code": "x", "language": "sh", "args": ["x"], "allowed_modules": []}.items():
        reply = service.request("POST", "/v1/tools/execute_command/call", {"arguments": {"command": "ls"}, field: value})
        problem(reply, 422, "invalid_request", f"{field}: is not for execute_command, a tool of the kind command")


def test_arguments_that_do_not_fit(service):
    denied(call_tool(service, "execute_code", {}), "invalid_arguments", "code")
    denied(call_tool(service, "execute_code", {"code": 5}), "invalid_arguments", "arguments.code", "string")
    denied(call_tool(service, "execute_code", {"code": "1", "allowed_recipients": ["x"]}), "invalid_arguments", "'allowed_recipients'", "code")
    denied(call_tool(service, "execute_command", {"cmd": "ls", "command": "ls"}), "invalid_arguments", "'cmd'", "command")


# --- the same refusal at every door ---


def test_the_same_denial_everywhere(service):
    arguments = {"command": "nmap -sS 10.0.0.0/8"}
    result = call_tool(service, "execute_command", arguments)
    reason = denied(result, "command_not_allowed", "nmap")
    assert result["stderr"] == f"Command blocked: {reason}" and result["stdout"] == ""
    old = service.request("POST", "/execute", {"tool_name": "execute_command", "arguments": arguments}).json()
    assert old["output"] == f"Command blocked: {reason}" and old["denials"] == result["denials"]
    (intent_kind, intent), (outcome_kind, outcome) = records(service, result)
    assert (intent_kind, outcome_kind) == ("intent", "outcome")
    assert intent["decision"] == "block" and intent["denials"] == outcome["denials"] == result["denials"]
    assert (intent["tool"], intent["kind"], intent["route"]) == ("execute_command", "command", "/v1/tools/{name}/call")
    assert intent["policy"] == outcome["policy"] == result["policy"] and len(result["policy"]) == 64
    assert intent["arguments_sha256"] == outcome["arguments_sha256"]
    for kind in (api.SSE, api.NDJSON):
        connection = service.connection()
        connection.request("POST", "/v1/tools/execute_command/call", json.dumps({"arguments": arguments}), api.JSON | {"Accept": kind})
        text = connection.getresponse().read().decode()
        connection.close()
        lines = [line.removeprefix("data: ") for line in text.splitlines() if '"type":"result"' in line]
        (event,) = map(json.loads, lines)
        api.schema("V1ExecuteEvent").validate(event)
        assert event["result"]["denials"] == result["denials"]
    before = api.metrics(service)["glovebox_denials_total", 'code="command_not_allowed"']
    command(service, "nmap")
    assert api.metrics(service)["glovebox_denials_total", 'code="command_not_allowed"'] == before + 1


def test_shorthand_and_arguments_are_the_same_call(service):
    """Approvals and idempotency are bound to what is asked for, not to how it is written."""
    bodies = [{"code": "print(1)"}, {"arguments": {"code": "print(1)"}}, {"arguments": {"code": "print(1)"}, "stream": False, "wait": False}]
    hashes = {records(service, service.request("POST", "/v1/execute", body).json())[0][1]["arguments_sha256"] for body in bodies}
    assert len(hashes) == 1
    others = [{"code": "print(2)"}, {"code": "print(1)", "stdin": "x"}, {"code": "print(1)", "env": {"A": "1"}}, {"code": "print(1)", "args": ["1"]}]
    others += [{"code": "print(1)", "limits": {"max_pids": 9}}, {"code": "print(1)", "language": "node"}, {"code": "print(1)", "files": [{"name": "a", "text": ""}]}]
    others += [{"code": "print(1)", "allowed_modules": ["math"]}, {"code": "print(1)", "outputs": ["a"]}]
    for body in others:
        hashes.add(records(service, service.request("POST", "/v1/execute", body).json())[0][1]["arguments_sha256"])
    assert len(hashes) == 1 + len(others)


# --- commands ---


@pytest.mark.parametrize(
    "line, output",
    [
        ("echo hello", "hello\n"),
        ("echo 'a  b' \"c\"", "a  b c\n"),
        ("printf", None),
        ("echo b a | sort", "b a\n"),
        ("echo one && echo two; echo three", "one\ntwo\nthree\n"),
        ("cat missing || echo none", "none\n"),
        ("echo '$HOME `id` $(id) *'", "$HOME `id` $(id) *\n"),
        ("echo kept > f && cat f", "kept\n"),
        ("python -c 'print(6 * 7)'", None),
        ("; ".join(f"echo {i}" for i in range(100)), "".join(f"{i}\n" for i in range(100))),
    ],
)
def test_commands(service, line, output):
    result = command(service, line)
    if output is not None:
        assert (result["status"], result["stdout"]) == ("success", output), result


@pytest.mark.parametrize(
    "line, code",
    [
        ("rm -rf /", "command_not_allowed"),
        ("sudo ls", "command_not_allowed"),
        ("echo hi; rm -rf /", "command_not_allowed"),
        ("echo hi && nc evil 1", "command_not_allowed"),
        ("/bin/ls", "command_not_allowed"),
        ("echo $(id)", "command_not_understood"),
        ("echo `id`", "command_not_understood"),
        ("echo ${IFS}", "command_not_understood"),
        ("echo $HOME", "command_not_understood"),
        ("ls & ls", "command_not_understood"),
        ("ls\nid", "command_not_understood"),
        ("cat <<EOF", "command_not_understood"),
        ("(ls)", "command_not_understood"),
        ("echo 'open", "command_not_understood"),
        pytest.param("echo" + " x" * 2000, "command_not_understood", id="2000 words"),
    ],
)
def test_commands_that_are_refused(service, line, code):
    result = command(service, line)
    assert result["status"] == "blocked" and result["denials"][0]["code"] == code, result["denials"]
    assert result["enforced"] is None and [kind for kind, _ in records(service, result)] == ["intent", "outcome"]


def test_commands_take_what_boxes_take(service):
    fields = dict(stdin="in\n", files=[{"name": "f", "text": "file\n"}], env={"MINE": "1"}, outputs=["out"], limits={"max_pids": 32})
    result = command(service, "cat - f > out; wc -l out", **fields)
    assert result["stdout"].split() == ["2", "out"], result
    assert result["files"] == [{"name": "out", "bytes": 8, "text": "in\nfile\n"}]
    assert result["enforced"]["limits"]["max_pids"] == 32
    assert "language" not in records(service, result)[0][1]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "BASH_ENV", "SHELLOPTS", "PYTHONSTARTUP", "PYTHONPYCACHEPREFIX", "OPENSSL_CONF", "CURL_HOME"])
def test_variables_that_change_what_runs(service, name):
    denied(command(service, "echo a", env={name: "/sandbox"}), "environment_not_allowed", f"env.{name}")
    if name not in ("BASH_ENV", "SHELLOPTS"):
        denied(call_tool(service, "execute_code", {"code": "print(1)"}, env={name: "/sandbox"}), "environment_not_allowed", f"env.{name}")


@pytest.mark.parametrize("name", [".glovebox/encodings/__init__.py", ".glovebox", "main.py/__main__.py", ".curlrc"])
def test_files_that_change_what_runs(service, name):
    denied(call_tool(service, "execute_code", {"code": "print(1)"}, files=[{"name": name, "text": ""}]), "environment_not_allowed", f"files[0]: {name}")


def test_files_that_the_script_imports_are_screened(service):
    result = call_tool(service, "execute_code", {"code": "import helper"}, files=[{"name": "helper.py", "text": "import os\nos.system('id')"}])
    assert result["screen"]["findings"] == [{"rule": "OS command execution", "line": 2, "reason": "helper.py: calls os.system", "action": "block"}], result
    assert result["status"] == "blocked" and not result["stdout"]


# --- a policy of one's own ---

TOOLS = [
    {"name": "python_only", "description": "Python", "code": {"language": "python"}},
    {"name": "any_code", "code": {}, "profile": "narrow"},
    {"name": "run", "command": {}, "profile": "narrow"},
    {
        "name": "greet",
        "description": "Greets",
        "command": {"argv": ["printf", "%s|", "{greeting}", "to {name}", "{count}", "{missing}"]},
        "parameters": {
            "type": "object",
            "properties": {"greeting": {"type": "string"}, "name": {"type": "string", "maxLength": 20}, "count": {"type": "integer", "minimum": 1}, "missing": {"type": "string"}},
            "required": ["greeting", "name"],
        },
    },
]
POLICY = {
    "tools": TOOLS,
    "profiles": {
        "narrow": {
            "runtimes": ["bash", "python"],
            "limits": {"max_memory_mb": 64, "timeout_seconds": 5},
            "ceilings": {"max_memory_mb": 128, "timeout_seconds": 10},
            "commands": {"allow": ["echo", "id"], "block": ["echo secret"]},
            "raw_output": True,
            "sanitise": False,
            "allowed_modules": ["math", "json"],
            "screen": "warn",
            "rules": {"dynamic code execution": "block", "dynamic import": "off"},
        }
    },
    "principals": {"default": {}, "bob": {"tools": ["greet"]}, "carol": {"profile": "narrow"}},
    "screening": [{"name": "no foo", "pattern": "f[o]{2}", "action": "warn"}, {"name": "no bar", "pattern": "bar", "hint": "say baz"}],
    "sanitising": [{"name": "codeword", "pattern": "swordfish", "mark": "[FISH]"}],
    "keys": api.keys(alice={}, bob={}, carol={}),
}
ALICE, BOB, CAROL = (api.bearer(name) for name in ("alice", "bob", "carol"))


INTERPRETERS = {
    "profiles": {
        "default": {},
        "named": {"python": {"program": "/usr/bin/python3", "preload": ["json"]}},
        "absent": {"python": {"program": "/opt/no-such-python"}},
    },
    "tools": [{"name": name, "code": {"language": "python"}, "profile": name} for name in ("default", "named", "absent")],
}


@pytest.mark.parametrize("screen", ["block", "off"])
def test_the_interpreter_of_a_profile(service, screen):
    """Whether or not a box can wait for it, and whether or not the script is looked at before."""
    code = "import os, sys\nprint(sys.orig_argv[0], sorted(set(os.environ) & {'A', 'PYTHONHASHSEED'}), os.path.exists('.glovebox'))"
    with api.running(service, {"screen": screen} | INTERPRETERS) as s:
        for env in ({}, {"A": "b"}, {"PYTHONHASHSEED": "1"}):
            for tool, program in (("default", "python3"), ("named", "/usr/bin/python3")):
                result = call_tool(s, tool, {"code": code}, env=env)
                assert result["stdout"] == f"{program} {sorted(env)} False\n", result
            reply = s.request("POST", "/v1/tools/absent/call", {"arguments": {"code": code}, "env": env})
            problem(reply, 422, "runtime_missing", "/opt/no-such-python")


@pytest.fixture(scope="module")
def own(service):
    with api.running(service, POLICY) as s:
        yield s


def test_who_may_use_what(own):
    names = lambda headers: [t["function"]["name"] for t in own.request("GET", "/v1/tools", headers=headers).json()["tools"]]  # noqa: E731
    assert names(ALICE) == [tool["name"] for tool in TOOLS] and names(BOB) == ["greet"]
    assert own.request("GET", "/v1/capabilities", headers=BOB).json()["tools"] == ["greet"]
    result = call_tool(own, "python_only", {"code": "print(1)"}, BOB)
    denied(result, "tool_not_allowed", "bob", "python_only")
    assert result["stderr"].startswith("Call blocked: ")
    problem(own.request("POST", "/v1/tools/execute_code/call", {"arguments": {}}, BOB), 404, "not_found", "there are: greet")
    assert call_tool(own, "python_only", {"code": "print(1)"}, ALICE)["stdout"] == "1\n"
    # It is not told what is wrong with arguments of what it may not use.
    denied(call_tool(own, "python_only", {"code": 1}, BOB), "tool_not_allowed")


def test_a_list_replaces_the_built_in_ones(own):
    problem(own.request("POST", "/v1/execute", {"code": "1"}, ALICE), 422, "invalid_request", "tool_name: is missing", "python_only")
    problem(own.request("POST", "/execute", {"tool_name": "execute_code", "code": "1"}, ALICE), 422, "invalid_request", "no such tool")
    body = {"tool_name": "python_only", "code": "print(1)"}
    assert own.request("POST", "/execute", body, ALICE).json()["output"] == "1\n"


def test_templates(own):
    greet = lambda **arguments: call_tool(own, "greet", arguments, BOB)  # noqa: E731
    assert greet(greeting="hi", name="you")["stdout"] == "hi|to you|"
    assert greet(greeting="$(id) `id`; rm -rf / | 'x' \"y\" *\n", name="{count}", count=3)["stdout"] == "$(id) `id`; rm -rf / | 'x' \"y\" *\n|to {count}|3|"
    assert greet(greeting="", name="")["stdout"] == "|to |"
    denied(greet(greeting="hi"), "invalid_arguments", "name")
    denied(greet(greeting="hi", name="x" * 21), "invalid_arguments", "arguments.name", "20")
    denied(greet(greeting="hi", name="x", count=0), "invalid_arguments", "arguments.count")
    denied(greet(greeting="hi", name="x", more=1), "invalid_arguments", "'more'")
    denied(greet(greeting="a\0b", name="x"), "invalid_arguments", "arguments.greeting", "NUL")
    several = greet(greeting=1, name=2, count="x")
    assert sorted(d["reason"].split(":")[0] for d in several["denials"]) == ["arguments.count", "arguments.greeting", "arguments.name"]
    problem(own.request("POST", "/v1/tools/greet/call", {"command": "ls"}, BOB), 422, "invalid_request", "command", "fixed")


def test_languages_of_a_profile(own):
    assert call_tool(own, "any_code", {"code": "echo 1"}, ALICE, language="bash")["stdout"] == "1\n"
    denied(call_tool(own, "any_code", {"code": "1"}, ALICE, language="node"), "language_not_allowed", "narrow", "node", "python, bash")
    denied(call_tool(own, "python_only", {"code": "1"}, ALICE, language="bash"), "language_not_allowed", "runs python, not bash")
    assert call_tool(own, "python_only", {"code": "print(1)"}, ALICE, language="python")["stdout"] == "1\n"
    problem(own.request("POST", "/v1/tools/any_code/call", {"code": "1", "language": "ruby"}, ALICE), 422, "invalid_request", "language")


def code_tool(name, language=None, **more):
    """One whose parameters are the operator's; `language` is what they say of that argument."""
    properties = {"code": {"type": "string"}} | ({"language": language} if language else {})
    return {"name": name, "code": {}, "parameters": {"type": "object", "properties": properties, "required": ["code"]}, **more}


@pytest.mark.rootonly
def test_a_language_is_an_argument(start_service):
    """Wherever it is written, and also if it is not: the schema and the approval's condition see what would run."""
    when = lambda language: {"when": {"properties": {"language": {"const": language}}, "required": ["language"]}}  # noqa: E731
    tools = [
        code_tool("only_python", {"enum": ["python"]}),
        code_tool("only_bash", {"enum": ["bash"]}),
        code_tool("usually_bash", {"enum": ["python", "bash"], "default": "bash"}),
        code_tool("silent"),
        code_tool("ask_bash", {"enum": ["python", "bash"]}, approval=when("bash")),
        code_tool("ask_python", {"enum": ["python", "bash"]}, approval=when("python")),
        {"name": "built_in", "code": {}, "approval": when("bash")},
        {"name": "fixed", "code": {"language": "bash"}},
    ]
    service = start_service({"tools": tools})
    run = lambda tool, code="echo 1", arguments=None, **fields: call_tool(service, tool, {"code": code} | (arguments or {}), **fields)  # noqa: E731
    python, bash = {"language": "python"}, {"language": "bash"}
    for arguments, fields in (({}, bash), (bash, {}), (bash, bash)):
        denied(run("only_python", "echo 1", arguments, **fields), "invalid_arguments", "arguments.language", '"bash"')
        assert run("only_bash", "echo 1", arguments, **fields)["stdout"] == "1\n"
        assert run("usually_bash", "echo 1", arguments, **fields)["stdout"] == "1\n"
        assert run("ask_python", "echo 1", arguments, **fields)["stdout"] == "1\n"
        for tool in ("ask_bash", "built_in"):
            reply = service.request("POST", f"/v1/tools/{tool}/call", {"arguments": {"code": "echo 1"} | arguments, "wait": False} | fields)
            assert reply.status == 202, (tool, arguments, fields, reply)
            shown = service.request("GET", f"/v1/approvals/{reply.json()['approval']['id']}").json()["request"]
            assert shown["arguments"] == {"code": "echo 1", "language": "bash"}
    for arguments, fields in (({}, {}), ({}, python), (python, {}), (python, python)):
        for tool in ("only_python", "ask_bash", "built_in"):
            assert run(tool, "print(1)", arguments, **fields)["stdout"] == "1\n", (tool, arguments, fields)
        denied(run("only_bash", "print(1)", arguments, **fields), "invalid_arguments", "arguments.language", '"python"')
        body = {"arguments": {"code": "print(1)"} | arguments, "wait": False} | fields
        assert service.request("POST", "/v1/tools/ask_python/call", body).status == 202
    # Two that differ are no call, whatever the tool would take.
    for tool in ("only_python", "only_bash", "ask_bash", "built_in"):
        for arguments, fields in ((python, bash), (bash, python), ({"language": 1}, bash)):
            reply = service.request("POST", f"/v1/tools/{tool}/call", {"arguments": {"code": "1"} | arguments} | fields)
            problem(reply, 422, "invalid_request", "language: arguments.language is another one")
    # A default is what runs.
    assert run("usually_bash")["stdout"] == "1\n" and run("usually_bash", "print(2)", python)["stdout"] == "2\n"
    # A schema that has no such argument leaves no choice; to say what runs anyway does no harm.
    assert run("silent", "print(1)")["stdout"] == run("silent", "print(1)", **python)["stdout"] == "1\n"
    denied(run("silent", **bash), "invalid_arguments", "language")
    denied(run("silent", arguments=bash), "invalid_arguments", "language")
    # Nor does a tool that has a language of its own.
    assert run("fixed")["stdout"] == run("fixed", **bash)["stdout"] == "1\n"
    denied(run("fixed", "print(1)", **python), "language_not_allowed", "runs bash, not python")
    denied(run("fixed", arguments=python), "invalid_arguments", "language")


def test_limits_of_a_profile(own):
    result = call_tool(own, "any_code", {"code": "print(1)"}, ALICE)
    assert (result["enforced"]["limits"]["max_memory_mb"], result["enforced"]["limits"]["timeout_seconds"]) == (64, 5)
    raised = call_tool(own, "any_code", {"code": "print(1)"}, ALICE, limits={"max_memory_mb": 128})
    assert raised["enforced"]["limits"]["max_memory_mb"] == 128
    reply = own.request("POST", "/v1/tools/any_code/call", {"code": "1", "limits": {"max_memory_mb": 129}}, ALICE)
    problem(reply, 422, "invalid_request", "limits.max_memory_mb", "to 128")
    # The principal's profile holds for tools that have none of their own.
    assert call_tool(own, "python_only", {"code": "print(1)"}, CAROL)["enforced"]["limits"]["max_memory_mb"] == 64
    assert call_tool(own, "python_only", {"code": "print(1)"}, ALICE)["enforced"]["limits"]["max_memory_mb"] == 256


def test_commands_of_a_profile(own):
    assert call_tool(own, "run", {"command": "echo hi; id -u"}, ALICE)["stdout"] == "hi\n1000\n"
    denied(call_tool(own, "run", {"command": "ls"}, ALICE), "command_not_allowed", "ls")
    denied(call_tool(own, "run", {"command": "echo secret"}, ALICE), "command_not_allowed", "echo secret")


def test_modules(own):
    run = lambda code, **fields: call_tool(own, "any_code", {"code": code}, ALICE, **fields)  # noqa: E731
    assert run("import math, json; print(math.floor(2.5))")["stdout"] == "2\n"
    assert "ImportError" in run("import csv")["stderr"]
    assert "ImportError" in run("import math", allowed_modules=["json"])["stderr"]
    assert run("import json; print(1)", allowed_modules=["json"])["stdout"] == "1\n"
    reply = own.request("POST", "/v1/tools/any_code/call", {"code": "1", "allowed_modules": ["json", "os"]}, ALICE)
    problem(reply, 422, "invalid_request", "allowed_modules[1]", "narrow")


def test_modules_by_the_request(service):
    run = lambda code, **fields: service.execute(code, path="/v1/execute", **fields)  # noqa: E731
    assert run("import math; print(1)", allowed_modules=["math"])["stdout"] == "1\n"
    assert "ImportError" in run("import csv", allowed_modules=["math"])["stderr"]
    assert run("import csv; print(1)")["stdout"] == "1\n"


# --- screening by profile ---


def test_actions(own):
    run = lambda code, headers=ALICE, tool="any_code", **fields: call_tool(own, tool, {"code": code}, headers, **fields)  # noqa: E731
    result = run("# foo\nprint('bar')")
    assert result["stdout"] == "bar\n" and result["denials"] == []
    assert [(f["rule"], f["line"], f["action"]) for f in result["screen"]["findings"]] == [("no foo", 1, "warn"), ("no bar", 2, "warn")]
    blocked = run("eval('1')")
    denied(blocked, "screened", "Blocked pattern: dynamic code execution")
    assert [(f["rule"], f["action"]) for f in blocked["screen"]["findings"]] == [("dynamic code execution", "block")]
    assert run("print(__import__('math').pi > 3)")["screen"]["findings"] == []  # off
    # With the default profile what has no action of its own blocks.
    result = run("print('bar')", tool="python_only")
    assert denied(result, "screened") == "Blocked pattern: no bar" and result["denials"][0]["hint"] == "say baz"
    assert result["stderr"] == "Code blocked: Blocked pattern: no bar"
    assert run("print('foo')", tool="python_only")["stdout"] == "foo\n"


def test_findings_are_in_the_audit(own):
    result = call_tool(own, "any_code", {"code": "print('bar')"}, ALICE)
    kinds = dict(records(own, result, ALICE))
    assert set(kinds) == {"intent", "launch", "outcome"}
    assert kinds["outcome"]["findings"] == [{"rule": "no bar", "line": 1, "action": "warn"}]
    assert kinds["intent"]["decision"] == "allow" and kinds["intent"]["profile"] == "narrow"


def test_python_is_read_by_its_own_parser(service):
    """Aliases are seen through; comments and texts are not code."""
    run = lambda code: service.execute(code, path="/v1/execute")  # noqa: E731
    for code in ("import os as o\no.system('id')", "from subprocess import run as r\nr(['id'])", "import os\ngetattr(os, 'system')('id')"):
        result = run(code)
        assert result["status"] == "blocked" and result["screen"]["findings"][0]["line"] in (1, 2), (code, result)
        assert result["stdout"] == "" and result["stderr"].startswith("Code blocked: Blocked pattern: ")
    for code in ("# os.system('id')\nprint(1)", "print(len('eval(1)') and 1)", "x = 'subprocess.run'\nprint(1)"):
        assert run(code)["stdout"] == "1\n", run(code)


def test_a_report_that_is_missing(service):
    """The interpreter had no memory to begin with: nothing ran, and that nobody looked at the script is not passed over in silence."""
    # TZ: so that it starts in its box. One that has waited needs next to nothing, and does report.
    result = service.execute("print(1)", path="/v1/execute", limits={"max_memory_mb": 1}, env={"TZ": "UTC"})
    assert result["status"] != "blocked" and not result["success"] and result["stdout"] == "" and result["denials"] == []
    found = [(f["rule"], f["action"], f["reason"]) for f in result["screen"]["findings"]]
    assert found == [("screening", "warn", "the report of the start-up code is missing")], result
    assert dict(records(service, result))["outcome"]["findings"] == [{"rule": "screening", "line": 1, "action": "warn"}]


def test_screening_off_leaves_the_script_alone(service):
    with api.running(service, {"screen": "off"}) as s:
        shown = s.execute("import sys, os; print(sys.argv, sorted(os.listdir('.')), __file__, __name__)", path="/v1/execute", args=["a"])
        assert shown["stdout"] == "['/sandbox/main.py', 'a'] ['main.py'] /sandbox/main.py __main__\n"


def test_the_script_sees_itself(service):
    """Our start-up code leaves no trace, and stderr is the script's own."""
    code = "import sys, os; print(sys.argv, sorted(os.listdir('.')), __file__, __name__); print('err', file=sys.stderr)"
    shown = service.execute(code, path="/v1/execute", args=["a"])
    assert shown["stdout"] == "['/sandbox/main.py', 'a'] ['main.py'] /sandbox/main.py __main__\n"
    assert shown["stderr"] == "err\n" and shown["resource_usage"]["stderr_bytes"] == 4


# --- output ---


def test_raw_output(own):
    code = "import json\nprint('10.0.0.1 swordfish')\nprint(chr(0xdc80).encode('utf-8', 'surrogatepass') and '')"
    result = call_tool(own, "any_code", {"code": "printf '\\377 10.0.0.1'; printf 'e\\0' >&2"}, ALICE, language="bash", raw=True)
    assert base64.b64decode(result["stdout_base64"]) == b"\xff 10.0.0.1" and base64.b64decode(result["stderr_base64"]) == b"e\0"
    assert result["stdout"] == "\ufffd 10.0.0.1"
    assert "stdout_base64" not in call_tool(own, "any_code", {"code": code}, ALICE)
    cut = call_tool(own, "any_code", {"code": "printf 1234567890"}, ALICE, language="bash", raw=True, limits={"max_output_bytes": 4})
    assert base64.b64decode(cut["stdout_base64"]) == b"1234" and cut["truncated"]
    assert dict(records(own, result, ALICE))["intent"]["raw"] is True
    problem(own.request("POST", "/v1/tools/python_only/call", {"code": "1", "raw": True}, ALICE), 422, "invalid_request", "raw", "default")


def test_sanitising_of_a_profile(own):
    code = "print('10.0.0.1 swordfish')"
    assert call_tool(own, "python_only", {"code": code}, ALICE)["stdout"] == "[IP_ADDR] [FISH]\n"
    assert call_tool(own, "any_code", {"code": code}, ALICE)["stdout"] == "10.0.0.1 swordfish\n"


# --- policy ---


def test_policy_page(own):
    found = own.request("GET", "/v1/policy", headers=BOB).json()
    api.schema("Policy").validate(found)
    assert found["principal"] == "bob" and len(found["tools"]) == 1
    everything = own.request("GET", "/v1/policy", headers=ALICE).json()
    assert len(everything["tools"]) == len(TOOLS) and everything["policy"] == found["policy"]
    assert api.key_of("alice") not in json.dumps(everything)


def test_reload_while_a_call_runs(start_service):
    """The call keeps the policy that it began with; the next has the new one."""
    before = {"sanitising": [{"name": "w", "pattern": "mango", "mark": "[OLD]"}]}
    after = {"sanitising": [{"name": "w", "pattern": "mango", "mark": "[NEW]"}], "tools": [{"name": "only_this", "code": {}}]}
    service = start_service(before)
    with api.Stream(service, "import sys\nprint('on', flush=True)\nimport time\ntime.sleep(2)\nprint('mango')") as stream:
        first = stream.until("stdout")
        assert first["text"] == "on\n"
        service.reload(after)
        service.wait_log("new configuration in use")
        problem(service.request("POST", "/v1/tools/execute_code/call", {"code": "1"}), 404, "not_found", "only_this")
        result = stream.until("result")["result"]
    assert result["stdout"] == "on\n[OLD]\n"
    fresh = call_tool(service, "only_this", {"code": "print('mango')"})
    assert fresh["stdout"] == "[NEW]\n" and fresh["policy"] != result["policy"]


def test_bad_policy_is_not_loaded(start_service):
    service = start_service()
    service.reload({"tools": [{"name": "x", "code": {}, "profile": "missing"}]})
    service.wait_log("missing")
    assert service.execute("print(1)")["output"] == "1\n"


# --- many at once ---


def test_different_tools_at_once(own):
    """Nothing of one call is in another: neither its policy nor its findings."""
    results, jobs = {}, []

    def job(i):
        kind = i % 3
        if kind == 0:
            results[i] = call_tool(own, "any_code", {"code": f"print('foo', {i})"}, ALICE)
        elif kind == 1:
            results[i] = call_tool(own, "run", {"command": f"echo {i}"}, CAROL)
        else:
            results[i] = call_tool(own, "greet", {"greeting": str(i), "name": "n"}, BOB)

    for i in range(24):
        jobs.append(threading.Thread(target=job, args=(i,)))
        jobs[-1].start()
    for j in jobs:
        j.join()
    for i in range(24):
        expected = [f"foo {i}\n", f"{i}\n", f"{i}|to n|"][i % 3]
        assert results[i]["stdout"] == expected, results[i]
        assert len(results[i]["screen"]["findings"]) == (i % 3 == 0)


# --- the broker's kinds ---


@pytest.fixture(scope="module")
def database():
    """Where the broker's own user can read it."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gb-db-"))
    directory.chmod(0o755)
    path = directory / "shop.db"
    sql = "CREATE TABLE items(id INTEGER, name TEXT, note TEXT); INSERT INTO items VALUES (1, 'pen', 'at 10.0.0.1'), (2, 'ink', 'hunter2hunter2'); CREATE TABLE users(secret TEXT);"
    subprocess.run(["/usr/bin/python3", "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])", str(path), sql], check=True)
    path.chmod(0o644)
    yield path
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def brokered(service, database):
    sql = {"sqlite": str(database), "tables": {"items": True}}
    config = {
        "tools": [{"name": "shop", "description": "The shop", "sql": sql}, {"name": "shop_raw", "sql": sql, "profile": "open"}],
        "profiles": {"open": {"sanitise": False}},
        "secrets": {"known": {"value": "hunter2hunter2"}, "number": {"value": "1829104829104829"}},
    }
    with api.running(service, config) as s:
        yield s


def test_sql(brokered):
    result = call_tool(brokered, "shop", {"query": "SELECT name, note FROM items ORDER BY id"})
    assert result["status"] == "success" and result["enforced"] is None
    text = json.dumps(result["result"])
    assert "pen" in text and "[IP_ADDR]" in text and "10.0.0.1" not in text and "hunter2" not in text
    assert json.loads(result["stdout"]) == result["result"] and result["redactions"] >= 2
    old = brokered.request("POST", "/execute", {"tool_name": "shop", "arguments": {"query": "SELECT name FROM items WHERE id = 1"}}).json()
    assert old["success"] and json.loads(old["output"]) == old["result"]
    kinds = dict(records(brokered, result))
    assert set(kinds) == {"intent", "outcome"} and kinds["intent"]["kind"] == "sql" and "limits" not in kinds["intent"]


def test_secrets_stay_even_where_nothing_is_sanitised(brokered):
    text = json.dumps(call_tool(brokered, "shop_raw", {"query": "SELECT note FROM items ORDER BY id"})["result"])
    assert "10.0.0.1" in text and "hunter2" not in text


@pytest.mark.parametrize("tool", ["shop", "shop_raw"])
def test_secrets_that_are_numbers(brokered, tool):
    """A number with the digits of a secret is a text with a mark; others stay numbers."""
    for number in ("1829104829104829", "-1829104829104829", "118291048291048299", "1829104829104829.5", "1829104829104829.0"):
        result = call_tool(brokered, tool, {"query": f"SELECT {number} AS n, 1829104829104828 AS m, 0.5 AS f FROM items WHERE id = 1"})
        assert result["status"] == "success" and result["redactions"] >= 1, result
        row = json.dumps(result["result"]) + result["stdout"]
        assert "[REDACTED_SECRET]" in row and "1829104829104829" not in row and "1.82910482910483" not in row, row
        assert "1829104829104828" in row and "0.5" in row


def test_sql_that_is_refused(brokered):
    for query in ("DELETE FROM items", "SELECT * FROM users", "DROP TABLE items"):
        result = call_tool(brokered, "shop", {"query": query})
        assert result["status"] == "blocked" and result["denials"][0]["code"] == "sql_not_allowed", result
        outcome = dict(records(brokered, result))["outcome"]
        assert outcome["denials"] == result["denials"]


def test_fields_that_are_for_boxes(brokered):
    for field, value in {"stdin": "x", "env": {}, "files": [], "outputs": [], "limits": {}, "language": "sh", "code": "x", "raw": False}.items():
        problem(brokered.request("POST", "/v1/tools/shop/call", {"arguments": {}, field: value}), 422, "invalid_request", f"{field}: is not for shop")


def test_sql_in_a_stream(brokered):
    connection = brokered.connection()
    connection.request("POST", "/v1/tools/shop/call", json.dumps({"arguments": {"query": "SELECT 1 FROM items"}}), api.JSON | {"Accept": api.NDJSON})
    found = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert [e["type"] for e in found if e["type"] != "stdout"] == ["start", "result"]
    for event in found:
        api.schema("V1ExecuteEvent").validate(event)


SLOW = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c, items"


def slow_call(service):
    connection = service.connection()
    connection.request("POST", "/v1/tools/shop/call", json.dumps({"arguments": {"query": SLOW}}), api.JSON)
    row = wait_for("the call", lambda: next((r for r in service.request("GET", "/v1/executions").json()["running"] if r["state"] == "running"), None))
    assert row["tool"] == "shop" and "language" not in row
    return connection, row["id"]


def test_cancel_of_a_call_at_the_broker(brokered):
    connection, id_ = slow_call(brokered)
    assert brokered.request("POST", f"/v1/executions/{id_}/cancel").status == 202
    result = json.loads(connection.getresponse().read())
    connection.close()
    assert (result["status"], result["kill_reason"], result["was_killed"]) == ("cancelled", "cancelled", True)
    assert dict(records(brokered, result))["outcome"]["status"] == "cancelled"


def test_a_client_of_the_broker_that_leaves(brokered):
    connection, id_ = slow_call(brokered)
    connection.close()
    record = lambda: dict(records(brokered, {"id": id_})).get("outcome")  # noqa: E731
    assert wait_for("its outcome", record)["status"] == "cancelled"
    assert call_tool(brokered, "shop", {"query": "SELECT 1 FROM items"})["status"] == "success"


# --- a person must agree ---


def test_pending(start_service):
    service = start_service({"tools": [{"name": "ask", "code": {}, "approval": "always"}]})
    body = {"arguments": {"code": "print('agreed')"}, "wait": False}
    reply = service.request("POST", "/v1/tools/ask/call", body, {"Idempotency-Key": "k"})
    assert reply.status == 202, reply
    pending = reply.json()
    api.schema("V1ExecuteResult").validate(pending)
    assert (pending["status"], pending["success"], pending["approval"]["state"]) == ("pending", False, "pending")
    assert [d["code"] for d in pending["denials"]] == ["approval_pending"]
    kinds = dict(records(service, pending))
    assert kinds["intent"]["decision"] == "ask" and kinds["outcome"]["status"] == "pending"
    assert kinds["intent"]["approval"] == kinds["outcome"]["approval"] == pending["approval"]["id"]
    for kind, record in kinds.items():
        api.schema({"intent": "IntentRecord", "outcome": "OutcomeRecord", "approval": "ApprovalRecord"}[kind]).validate(record)
    path = f"/v1/approvals/{pending['approval']['id']}"
    api.schema("Approvals").validate(service.request("GET", "/v1/approvals").json())
    api.schema("Approval").validate(service.request("GET", path).json())
    api.schema("Approval").validate(service.request("POST", path, {"decision": "approve"}).json())
    problem(service.request("POST", path, {"decision": "approve"}), 409, "conflict")
    # The same call, with the same Idempotency-Key: what was pending is no answer to repeat.
    again = service.request("POST", "/v1/tools/ask/call", body | {"approval": pending["approval"]["id"]}, {"Idempotency-Key": "k"})
    assert again.status == 200 and again.json()["stdout"] == "agreed\n", again
    assert again.json()["approval"]["state"] == "used"


def test_a_stop_does_not_wait_for_people(start_service):
    service = start_service({"tools": [{"name": "ask", "code": {}, "approval": "always"}]})
    connection = service.connection()
    connection.request("POST", "/v1/tools/ask/call", json.dumps({"arguments": {"code": "1"}}), api.JSON)
    wait_for("the question", lambda: service.request("GET", "/v1/approvals").json()["approvals"])
    waiting = api.metrics(service)
    assert waiting["glovebox_approvals_waiting", ""] == 1 and waiting["glovebox_queue_depth", ""] == 0 and waiting["glovebox_sandboxes_active", ""] == 0
    start = time.monotonic()
    service.signal(signal.SIGTERM)
    reply = connection.getresponse()
    problem(api.Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()), 503, "shutting_down")
    connection.close()
    service.process.wait(60)
    assert time.monotonic() - start < 20  # and not drain_seconds


def test_waiting_calls_take_no_place(start_service):
    """One box, no queue, and three calls that wait for a person: others are served all the while."""
    tools = [{"name": "ask", "code": {}, "approval": "always"}, {"name": "py", "code": {}}]
    service = start_service({"tools": tools, "boxes": {"running": 1, "queued": 0}})
    waiting = []
    for i in range(3):
        waiting.append(service.connection())
        waiting[-1].request("POST", "/v1/tools/ask/call", json.dumps({"arguments": {"code": f"print({i})"}}), api.JSON)
        rows = lambda: service.request("GET", "/v1/approvals").json()["approvals"]  # noqa: E731
        wait_for("the question", lambda: len(rows()) == i + 1)  # noqa: B023
    assert call_tool(service, "py", {"code": "print('now')"})["stdout"] == "now\n"
    for row in rows():
        assert service.request("POST", f"/v1/approvals/{row['id']}", {"decision": "approve"}).status == 200
    assert [json.loads(c.getresponse().read())["stdout"] for c in waiting] == ["0\n", "1\n", "2\n"]
    for c in waiting:
        c.close()
