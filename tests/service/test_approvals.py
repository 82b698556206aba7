"""Approvals: nothing runs without the person's word, and only what the person saw; each step is in the audit."""

import collections
import concurrent.futures
import contextlib
import json
import random
import re
import socket
import sqlite3
import time

import pytest

import api
from api import bearer, problem
from conftest import wait_for

pytestmark = pytest.mark.rootonly  # another user changes nothing about it

CODE = "print(6 * 7)"
AGENT, OTHER, BOSS, CHIEF = (bearer(name) for name in ("agent", "other", "boss", "chief"))


def config(**approvals):
    return {
        "keys": api.keys(agent={}, other={}, boss={}, chief={}),
        "principals": {"agent": {}, "other": {}, "boss": {"approver": True}, "chief": {"approver": True}},
        "tools": [
            {"name": "ask", "description": "needs a person", "code": {"language": "python"}, "approval": "always"},
            {"name": "ask2", "description": "needs a person", "code": {"language": "python"}, "approval": "always"},
            {"name": "free", "description": "needs nobody", "code": {"language": "python"}},
            {
                "name": "sometimes",
                "description": "needs a person for some",
                "code": {"language": "python"},
                "approval": {"when": {"properties": {"code": {"pattern": "danger"}}, "required": ["code"]}},
            },
            {
                "name": "hard",
                "description": "needs a person when the text is one long row",
                "code": {"language": "python"},
                "approval": {"when": {"properties": {"code": {"pattern": "^(a|aa)+$"}}, "required": ["code"]}},
            },
        ],
        "approvals": approvals,
    }


@pytest.fixture(scope="module")
def shared(request):
    from conftest import Service

    s = Service(config())
    try:
        s.start()
        yield s
        assert s.stop() == 0, s.log()
    finally:
        s.remove()


def call(service, code=CODE, tool="ask", headers=AGENT, **fields):
    reply = service.request("POST", f"/v1/tools/{tool}/call", {"arguments": {"code": code}, **fields}, headers, timeout=250)
    assert reply.status in (200, 202), reply
    result = reply.json()
    assert (reply.status == 202) == (result["status"] == "pending"), result
    return result


def denial(result, code):
    assert not result["success"] and [d["code"] for d in result["denials"]] == [code], result
    return result["denials"][0]["reason"]


def ask(service, code=CODE, tool="ask", headers=AGENT, **fields):
    """Asks without waiting; the approval's id."""
    result = call(service, code, tool, headers, wait=False, **fields)
    id = result["approval"]["id"]
    assert id in denial(result, "approval_pending") and result["approval"]["state"] == "pending"
    return id


def decide(service, id, decision="approve", headers=BOSS, **fields):
    return service.request("POST", f"/v1/approvals/{id}", {"decision": decision, **fields}, headers)


def listed(service, headers=BOSS):
    reply = service.request("GET", "/v1/approvals", headers=headers)
    assert reply.status == 200
    api.schema("Approvals").validate(reply.json())
    return {a["id"]: a for a in reply.json()["approvals"]}


def state(service, id, headers=BOSS):
    found = service.request("GET", f"/v1/approvals/{id}", headers=headers).json()
    api.schema("Approval").validate(found)
    return found["state"]


def events(service, execution):
    """What the audit has about one call, as `kind` or `approval:event`."""
    rows = json.loads(service.audit("show", execution, "--json").stdout)
    for row in rows:
        if row["kind"] == "approval":
            api.schema("ApprovalRecord").validate(row["body"])
    return [f"approval:{r['body']['event']}" if r["kind"] == "approval" else r["kind"] for r in rows]


@contextlib.contextmanager
def waiting(service, code=CODE, **fields):
    """A call that waits: (its future result, the approval's id)."""
    before = set(listed(service))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(call, service, code, **fields)
        (id,) = wait_for("the approval", lambda: set(listed(service)) - before)
        yield job, id
        job.result(60)


# --- waiting ---


def test_a_call_waits_and_runs_when_it_is_approved(shared):
    with waiting(shared) as (job, id):
        shown = shared.request("GET", f"/v1/approvals/{id}", headers=BOSS).json()
        assert shown["state"] == "pending" and shown["principal"] == "agent" and shown["tool"] == "ask"
        assert shown["request"] == {"arguments": {"code": CODE}} and shown["decided_by"] is None
        running = shared.request("GET", "/v1/executions", headers=AGENT).json()["running"]
        assert [r["state"] for r in running] == ["approval"]
        assert api.metrics(shared, BOSS)["glovebox_sandboxes_active", ""] == 0  # it holds no box
        assert not job.done()
        reply = decide(shared, id, reason="fine")
        assert reply.status == 200 and reply.json()["state"] == "approved" and reply.json()["decided_by"] == "boss"
        result = job.result(60)
    assert result["success"] and result["stdout"] == "42\n" and result["denials"] == []
    assert result["approval"]["id"] == id and state(shared, id) == "used" and id not in listed(shared)
    assert shown["execution"] == result["id"]
    assert events(shared, result["id"]) == ["intent", "approval:asked", "approval:approved", "approval:used", "launch", "outcome"]
    rows = {r["body"].get("event"): r for r in json.loads(shared.audit("show", result["id"], "--json").stdout)}
    assert rows["approved"]["body"]["decided_by"] == "boss" and rows["approved"]["body"]["reason"] == "fine"
    assert {r["body"]["arguments_sha256"] for r in rows.values() if "event" in r["body"]} == {shown["arguments_sha256"]}
    assert "print" not in json.dumps([r["body"] for r in rows.values() if "event" in r["body"]])  # the hash, not the code
    assert shared.audit("verify").returncode == 0


def test_a_call_that_is_denied(shared):
    with waiting(shared, "print('denied')") as (job, id):
        assert decide(shared, id, "deny", reason="not on a Friday").status == 200
        result = job.result(60)
    assert result["status"] == "blocked"
    reason = denial(result, "approval_denied")
    assert id in reason and "boss" in reason and "not on a Friday" in reason
    assert events(shared, result["id"]) == ["intent", "approval:asked", "approval:denied", "outcome"]
    assert "Friday" in denial(call(shared, "print('denied')", approval=id), "approval_denied")


def test_who_leaves_withdraws(shared):
    before = set(listed(shared))
    body = json.dumps({"arguments": {"code": "print('left')"}}).encode()
    with socket.create_connection((shared.host, shared.port)) as sock:
        sock.sendall(api.request_bytes("POST", "/v1/tools/ask/call", body, AGENT))
        (id,) = wait_for("the approval", lambda: set(listed(shared)) - before)
        execution = listed(shared)[id]["execution"]
    wait_for("the withdrawal", lambda: state(shared, id) == "withdrawn")
    assert id not in listed(shared)
    problem(decide(shared, id), 409, "conflict", "withdrawn")
    assert "withdrawn" in denial(call(shared, "print('left')", approval=id), "approval_expired")
    wait_for("the record", lambda: events(shared, execution)[-2:] in (["approval:withdrawn", "outcome"], ["outcome", "approval:withdrawn"]))


def test_who_cancels_withdraws(shared):
    with waiting(shared, "print('cancelled')") as (job, id):
        execution = listed(shared)[id]["execution"]
        assert shared.request("POST", f"/v1/executions/{execution}/cancel", headers=AGENT).status == 202
        assert job.result(60)["status"] == "cancelled"
    wait_for("the withdrawal", lambda: state(shared, id) == "withdrawn")


def test_a_stream_waits_too(shared):
    before = set(listed(shared))
    with api.Stream(shared, "print('s')", headers=AGENT, tool_name="ask") as stream:
        assert next(iter(stream))["type"] == "start"
        (id,) = wait_for("the approval", lambda: set(listed(shared)) - before)
        assert decide(shared, id).status == 200
        assert stream.until("result")["result"]["stdout"] == "s\n"


def test_only_some_arguments_need_it(shared):
    assert call(shared, "print('harmless')", "sometimes")["stdout"] == "harmless\n"
    assert call(shared, CODE, "free")["stdout"] == "42\n"
    id = ask(shared, "print('danger')", "sometimes")
    assert decide(shared, id).status == 200
    assert call(shared, "print('danger')", "sometimes", approval=id)["stdout"] == "danger\n"


def test_what_cannot_be_decided_needs_it(shared):
    """A text that the pattern takes too long for is not let through: it may be what the pattern is about."""
    assert call(shared, "a = 1", "hard")["success"]
    ask(shared, "a" * 40, "hard")
    ask(shared, "a" * 60_000 + "b", "hard")  # "cannot be checked", says the schema


# --- coming back ---


def test_ask_then_come_back(shared):
    id = ask(shared, "print('later')")
    assert ask(shared, "print('later')") == id  # a person is not asked twice
    denial(call(shared, "print('later')", approval=id, wait=False), "approval_pending")
    asked = listed(shared)[id]["execution"]
    assert events(shared, asked) == ["intent", "approval:asked", "outcome"]
    assert decide(shared, id).status == 200
    assert "granted" in denial(call(shared, "print('later')", wait=False), "approval_pending")  # without its id it is not used
    result = call(shared, "print('later')", approval=id)
    assert result["stdout"] == "later\n"
    assert events(shared, result["id"]) == ["intent", "approval:used", "launch", "outcome"]
    assert events(shared, asked) == ["intent", "approval:asked", "outcome", "approval:approved"]
    assert "used before" in denial(call(shared, "print('later')", approval=id), "approval_mismatch")  # once
    assert ask(shared, "print('later')") != id


def test_come_back_and_wait(shared):
    id = ask(shared, "print('join')")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(call, shared, "print('join')", approval=id)
        wait_for("the call", lambda: [r["state"] for r in shared.request("GET", "/v1/executions", headers=AGENT).json()["running"]] == ["approval"])
        assert "under way" in denial(call(shared, "print('join')", approval=id), "approval_mismatch")
        assert decide(shared, id).status == 200
        assert job.result(60)["stdout"] == "join\n"


CHANGES = {
    "the code": {"code": "print('x' )"},
    "the tool": {"tool": "ask2"},
    "another's": {"headers": OTHER},
    "standard input": {"stdin": "x"},
    "arguments of the program": {"args": ["x"]},
    "a file": {"files": [{"name": "a", "text": "x"}]},
    "the environment": {"env": {"A": "x"}},
    "a limit": {"limits": {"timeout_seconds": 31}},
}


def test_approve_then_change(shared):
    """What was approved is what runs: with anything changed it does not, and the approval stays good for what was shown."""
    id = ask(shared, "print('x')")
    assert decide(shared, id).status == 200
    for what, change in CHANGES.items():
        reason = denial(call(shared, **{"code": "print('x')", "approval": id, **change}), "approval_mismatch")
        assert id in reason, (what, reason)
    assert "you have no approval" in denial(call(shared, "print('x')", headers=OTHER, approval=id), "approval_mismatch")
    assert state(shared, id) == "approved"
    assert call(shared, "print('x')", approval=id)["stdout"] == "x\n"


def test_the_same_call_written_otherwise_is_the_same(shared):
    id = ask(shared, "print('same')")
    assert decide(shared, id).status == 200
    reply = shared.request("POST", "/v1/execute", {"tool_name": "ask", "code": "print('same')", "approval": id}, AGENT)
    assert reply.json()["stdout"] == "same\n"


def test_an_idempotency_key_does_not_keep_it_pending(shared):
    """Whoever repeats the call with its approval wants it to run, not to hear again that it waits."""
    key = AGENT | {"Idempotency-Key": "approved-once"}
    id = ask(shared, "print('idem')", headers=key)
    assert decide(shared, id).status == 200
    first = call(shared, "print('idem')", headers=key, approval=id)
    assert first["stdout"] == "idem\n", first
    again = call(shared, "print('idem')", headers=key, approval=id)
    assert again == first  # and this one is repeated


def test_ids_that_are_none(shared):
    assert "no approval" in denial(call(shared, approval="01ARZ3NDEKTSV4RRFFQ69G5FAV"), "approval_mismatch")
    for id in ("x", "", "01ARZ3NDEKTSV4RRFFQ69G5FAVX", "01ARZ3NDEKTSV4RRFFQ69G5FA/", "../../../etc/passwd"):
        problem(shared.request("POST", "/v1/tools/ask/call", {"arguments": {"code": "1"}, "approval": id}, AGENT), 422, "invalid_request", "approval")
        if id and "/" not in id:
            problem(shared.request("GET", f"/v1/approvals/{id}", headers=BOSS), 404, "not_found")


def test_two_that_use_it_at_once(shared):
    """A hundred try; one gets it."""
    id = ask(shared, "print('once')")
    assert decide(shared, id).status == 200
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        results = list(pool.map(lambda _: call(shared, "print('once')", approval=id), range(50)))
    assert sum(r["success"] for r in results) == 1
    assert all(r["denials"][0]["code"] == "approval_mismatch" for r in results if not r["success"])


# --- who decides, who sees ---


def test_who_may_decide(shared):
    id = ask(shared, "print('who')")
    for headers in (AGENT,):
        problem(decide(shared, id, headers=headers), 403, "forbidden", "approver")
    problem(decide(shared, id, headers=OTHER), 404, "not_found")  # who cannot see it cannot ask about it
    problem(shared.request("POST", f"/v1/approvals/{id}", {"decision": "approve"}), 401, "unauthorized")
    own = ask(shared, "print('own')", headers=BOSS)
    problem(decide(shared, own), 403, "forbidden", "own")
    assert decide(shared, own, headers=CHIEF).status == 200
    assert state(shared, id) == "pending"
    assert decide(shared, id, "deny", headers=CHIEF).status == 200
    problem(decide(shared, id), 409, "conflict", "denied")
    problem(decide(shared, own), 403, "forbidden")
    assert state(shared, own, CHIEF) == "approved"


def test_deciding_twice_at_once(shared):
    id = ask(shared, "print('twice')")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        codes = list(pool.map(lambda i: decide(shared, id, ("approve", "deny")[i % 2], (BOSS, CHIEF)[i % 2]).status, range(20)))
    assert sorted(codes) == [200] + [409] * 19


def test_who_sees_what(shared):
    mine, theirs = ask(shared, "print('mine')"), ask(shared, "print('theirs')", headers=OTHER)
    assert {mine, theirs} <= set(listed(shared))
    assert mine in listed(shared, AGENT) and theirs not in listed(shared, AGENT)
    assert theirs in listed(shared, OTHER) and mine not in listed(shared, OTHER)
    assert {a["principal"] for a in listed(shared, AGENT).values()} == {"agent"}
    assert shared.request("GET", f"/v1/approvals/{mine}", headers=AGENT).json()["request"] == {"arguments": {"code": "print('mine')"}}
    problem(shared.request("GET", f"/v1/approvals/{mine}", headers=OTHER), 404, "not_found")
    assert shared.request("GET", "/v1/approvals", headers=AGENT).json()["may_decide"] is False
    assert shared.request("GET", "/v1/approvals", headers=BOSS).json()["may_decide"] is True
    problem(shared.request("GET", "/v1/approvals?x=1", headers=BOSS), 422, "invalid_request", "query")


WRONG = [
    ({}, "decision"),
    ({"decision": "yes"}, "decision"),
    ({"decision": True}, "decision"),
    ({"decision": "approve", "reason": 1}, "reason"),
    ({"decision": "approve", "reason": None}, "reason"),
    ({"decision": "approve", "reason": "x" * 256}, "reason"),
    ({"decision": "approve", "reason": "two\nlines"}, "reason"),
    ({"decision": "approve", "reason": "\x1b[2J"}, "reason"),
    ({"decision": "approve", "reason": "\u202egnp.exe"}, "reason"),
    ({"decision": "approve", "reason": "a\0b"}, "reason"),
    ({"decision": "approve", "until": "tomorrow"}, "until"),
    ([], "object"),
]


def test_decisions_that_are_none(shared):
    id = ask(shared, "print('wrong')")
    for body, word in WRONG:
        problem(shared.request("POST", f"/v1/approvals/{id}", body, BOSS), 422, "invalid_request", word)
    problem(shared.request("POST", f"/v1/approvals/{id}", b"{", BOSS | api.JSON), 400, "malformed_json")
    assert state(shared, id) == "pending"
    assert decide(shared, id, reason="\u00e9" * 100).status == 200


def test_what_a_person_is_shown_steers_nothing(shared):
    code = "# \x1b[2J \u202e \u0085 \u200b\nprint('shown')"
    id = ask(shared, code, stdin="in", args=["--flag"], files=[{"name": "a.txt", "text": "file"}], limits={"timeout_seconds": 5})
    raw = shared.request("GET", f"/v1/approvals/{id}", headers=BOSS).body
    assert raw.isascii() and b"\x1b" not in raw
    shown = json.loads(raw)["request"]
    assert shown["arguments"] == {"code": code}
    assert shown["with"] == {"stdin": "in", "args": ["--flag"], "files": [{"name": "a.txt", "text": "file"}], "limits": {"timeout_seconds": 5}}
    assert len(listed(shared)[id]["summary"]) <= 200


def test_too_long_to_be_read(shared):
    result = call(shared, "#" * 70_000, wait=False)
    assert "too long" in denial(result, "approval_denied") and "approval" not in result
    assert ask(shared, "#" * 60_000)


# --- the configuration changes meanwhile ---


@pytest.fixture(scope="module")
def changing(request):
    """A service, and how to give it another configuration; it has its own back after each test."""
    from conftest import Service

    s = Service(config())
    try:
        s.start()
        s.loads = 0
        yield s
        assert s.stop() == 0, s.log()
    finally:
        s.remove()


@contextlib.contextmanager
def changed(service, change):
    def load(this):
        service.loads += 1
        service.reload(this)
        service.wait_log("new configuration in use", service.loads)

    other = config()
    change(other)
    load(other)
    try:
        yield
    finally:
        load(config())


def edit(**fields):
    """A change of the tool `ask`."""
    return lambda c: c["tools"][0].update(fields)


PARAMETERS = {"type": "object", "properties": {"code": {"type": "string"}, "more": {"type": "string"}}, "required": ["code"]}
# What a person was shown would mean something else.
DEFINITIONS = {
    "the description": edit(description="does another thing"),
    "the parameters": edit(parameters=PARAMETERS),
    "the profile": lambda c: c.update(profiles={"wide": {}}) or edit(profile="wide")(c),
    "limits of the profile": lambda c: c.update(profiles={"default": {"ceilings": {"timeout_seconds": 99}}}),
    "what the profile screens": lambda c: c.update(profiles={"default": {"screen": "warn"}}),
    "a rule of screening": lambda c: c.update(screening=[{"name": "no foo", "pattern": "foo"}]),
    "modules of the profile": lambda c: c.update(profiles={"default": {"allowed_modules": ["math"]}}),
}
# It would mean the same.
OTHERS = {
    "another tool": lambda c: c["tools"][1].update(description="does another thing"),
    "another profile": lambda c: c.update(profiles={"other": {"screen": "off"}}),
    "another principal": lambda c: c["principals"].update(other={"tools": ["free"]}),
    "the order of tools": lambda c: c["tools"].reverse(),
}
# It would not be allowed any more.
RIGHTS = {
    "the principal's tools": lambda c: c["principals"].update(agent={"tools": ["free"]}),
    "the key": lambda c: (c["keys"].pop(0), c["principals"].pop("agent")),
    "the tool": lambda c: c["tools"].pop(0),
}


def test_an_approval_is_for_the_definition_that_was_shown(changing):
    id = ask(changing, "print('definition')")
    assert decide(changing, id).status == 200
    for what, change in DEFINITIONS.items():
        with changed(changing, change):
            reason = denial(call(changing, "print('definition')", approval=id), "approval_mismatch")
            assert "definition" in reason, (what, reason)
            assert ask(changing, "print('definition')") != id, what  # a person is asked anew
    assert state(changing, id) == "approved"
    for change in OTHERS.values():
        with changed(changing, change):
            assert state(changing, id) == "approved"
    with changed(changing, lambda c: [change(c) for change in OTHERS.values()]):
        assert call(changing, "print('definition')", approval=id)["stdout"] == "definition\n"


@pytest.mark.parametrize("what", ["the description", "limits of the profile"])
def test_the_definition_changes_while_a_call_waits(changing, what):
    with waiting(changing, "print('waits')") as (job, id), changed(changing, DEFINITIONS[what]):
        assert decide(changing, id).status == 200
        result = job.result(60)
    assert "was changed while the call waited" in denial(result, "approval_mismatch")
    assert result["stdout"] == "" and "launch" not in events(changing, result["id"])
    wait_for("its end", lambda: state(changing, id) == "withdrawn")  # it was not used


@pytest.mark.parametrize("what", RIGHTS)
def test_rights_are_taken_away_while_a_call_waits(changing, what):
    with waiting(changing, "print('waits')") as (job, id), changed(changing, RIGHTS[what]):
        assert decide(changing, id).status == 200
        result = job.result(60)
    assert "may not use the tool ask any more" in denial(result, "tool_not_allowed")
    assert result["stdout"] == "" and "launch" not in events(changing, result["id"])


def test_something_else_changes_while_a_call_waits(changing):
    with waiting(changing, "print('waits')") as (job, id), changed(changing, lambda c: [change(c) for change in OTHERS.values()]):
        assert decide(changing, id).status == 200
        assert job.result(60)["stdout"] == "waits\n"


def test_rights_are_taken_away_while_a_call_waits_for_a_box(start_service):
    """What runs keeps its policy; what has not begun is asked about again."""
    mine = config() | {"boxes": {"running": 1}}
    service = start_service(mine)
    running = lambda: sorted(r["state"] for r in service.request("GET", "/v1/executions", headers=AGENT).json()["running"])  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(call, service, "import time\ntime.sleep(5)\nprint('first')", "free")
        wait_for("the first", lambda: running() == ["running"])
        second = pool.submit(call, service, "print('second')", "free")
        wait_for("the second", lambda: running() == ["running", "waiting"])
        service.reload(mine | {"principals": mine["principals"] | {"agent": {"tools": ["ask"]}}})
        service.wait_log("new configuration in use")
        assert first.result(60)["stdout"] == "first\n"
        assert "any more" in denial(second.result(60), "tool_not_allowed")


# --- time, room, restarts ---


def test_time_runs_out(start_service):
    service = start_service(config(wait_seconds=1, expires_seconds=4))
    result = call(service, "print('wait')")  # nobody comes: the call is answered, the approval stays
    id = result["approval"]["id"]
    assert id in denial(result, "approval_pending")
    wait_for("the end", lambda: state(service, id) == "expired")
    assert id not in listed(service)
    problem(decide(service, id), 409, "conflict", "expired")
    denial(call(service, "print('wait')", approval=id), "approval_expired")
    other = ask(service, "print('granted')")
    assert decide(service, other).status == 200
    wait_for("the end", lambda: state(service, other) == "expired")  # granted, and not used in time
    denial(call(service, "print('granted')", approval=other), "approval_expired")
    assert events(service, result["id"])[-1] == "approval:expired"
    assert service.audit("verify").returncode == 0


def test_it_expires_while_the_call_waits(start_service):
    service = start_service(config(wait_seconds=100, expires_seconds=1))
    result = call(service)
    denial(result, "approval_expired")
    assert events(service, result["id"]) == ["intent", "approval:asked", "approval:expired", "outcome"]


def test_no_waiting_at_all(start_service):
    service = start_service(config(wait_seconds=0))
    id = call(service)["approval"]["id"]
    assert decide(service, id).status == 200
    assert call(service, approval=id)["stdout"] == "42\n"


def test_as_many_as_may(start_service):
    service = start_service(config(most=4))
    ids = [ask(service, f"print({i})") for i in range(2)]
    assert "half" in denial(call(service, "print(9)", wait=False), "approval_denied")
    others = [ask(service, f"print({i})", headers=OTHER) for i in range(2)]
    assert "as many" in denial(call(service, "print(9)", headers=BOSS, wait=False), "approval_denied")
    assert decide(service, ids[0], "deny").status == 200  # what is over makes room
    assert ask(service, "print(8)", headers=BOSS)
    assert set(ids[1:] + others) <= set(listed(service))
    denial(call(service, "print(0)", approval=ids[0]), "approval_mismatch")  # and is forgotten


def test_a_restart_forgets(start_service):
    service = start_service(config())
    id = ask(service)
    assert decide(service, id).status == 200
    before = service.pids()
    service.kill("front")
    service.wait_children(but=before.values())
    service.wait_healthy()
    assert listed(service) == {}
    denial(call(service, approval=id), "approval_mismatch")


def test_a_stop_does_not_wait_for_people(start_service):
    service = start_service(config() | {"drain_seconds": 200})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(service.request, "POST", "/v1/tools/ask/call", {"arguments": {"code": CODE}}, AGENT, timeout=250)
        wait_for("the approval", lambda: listed(service))
        assert service.stop() == 0
        problem(job.result(60), 503, "shutting_down")


def test_without_keys_the_one_principal_decides(start_service):
    service = start_service({"tools": config()["tools"]})
    id = ask(service, headers=None)
    assert decide(service, id, headers=None).status == 200
    assert call(service, headers=None, approval=id)["stdout"] == "42\n"


def test_a_database_is_written_when_a_person_agrees(make_service):
    """A tool that is no box: a write needs an approval unless the policy says otherwise, and nothing is written before."""
    service = make_service()
    path = service.dir / "data/orders.db"
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE orders(id INTEGER, state TEXT); INSERT INTO orders VALUES(1, 'open')")
    for place in (path.parent, path):
        place.chmod(0o777)  # the broker is another user
    settings = config()
    settings["tools"] += [
        {"name": "change", "description": "changes orders", "sql": {"sqlite": str(path), "tables": {"orders": True}, "write": True}},
    ]
    service.configure(settings)
    service.start()
    query = "UPDATE orders SET state = 'closed' WHERE id = 1"

    def change(query, **fields):
        reply = service.request("POST", "/v1/tools/change/call", {"arguments": {"query": query}, **fields}, AGENT)
        return reply.json()

    def rows():
        with contextlib.closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT * FROM orders").fetchall()

    id = change(query, wait=False)["approval"]["id"]
    assert rows() == [(1, "open")] and listed(service)[id]["tool"] == "change"
    assert decide(service, id).status == 200
    assert rows() == [(1, "open")]
    denial(change("UPDATE orders SET state = 'stolen' WHERE id = 1", approval=id), "approval_mismatch")
    assert rows() == [(1, "open")]
    result = change(query, approval=id)
    assert result["success"] and rows() == [(1, "closed")]
    assert events(service, result["id"]) == ["intent", "approval:used", "outcome"]
    denial(change(query, approval=id), "approval_mismatch")


# --- with budgets ---


def test_who_waits_keeps_nobody_from_running(start_service):
    """A budget of one call at once is not used by a call that waits; what was approved still needs its place."""
    settings = config()
    settings["principals"]["agent"] = {"budget": {"concurrent": 1, "calls_per_day": 5, "cpu_seconds_per_day": 100}}
    service = start_service(settings)
    with waiting(service, "print('first')") as (job, id):
        assert call(service, "print('free')", "free")["stdout"] == "free\n"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            long = pool.submit(call, service, "import time; time.sleep(200)", "free", limits={"timeout_seconds": 250})
            wait_for("the box", lambda: api.metrics(service, BOSS)["glovebox_sandboxes_active", ""] == 1)
            assert decide(service, id).status == 200
            result = job.result(60)
            assert [d["code"] for d in result["denials"]] == ["budget_exceeded", "approval_pending"]
            running = service.request("GET", "/v1/executions", headers=AGENT).json()["running"]
            for row in running:
                service.request("POST", f"/v1/executions/{row['id']}/cancel", headers=AGENT)
            assert long.result()["status"] == "cancelled"
    assert state(service, id) == "approved"
    assert call(service, "print('first')", approval=id)["stdout"] == "first\n"
    assert call(service, "print('free')", "free")["success"]
    assert call(service, "print('free')", "free")["denials"][0]["code"] == "budget_exceeded"  # that were five


# --- everything at once ---


def test_a_crowd(start_service):
    """Callers that wait, leave, come back and change their minds, and deciders who race each other and the clock: what ran was approved, once."""
    service = start_service(config(most=40, wait_seconds=1, expires_seconds=2) | {"boxes": {"running": 8, "queued": 512, "wait_seconds": 200}})
    end = time.monotonic() + 4

    def caller(number):
        chance, done = random.Random(number), []
        headers = (AGENT, OTHER)[number % 2]
        for turn in range(1000):
            if time.monotonic() > end:
                return done
            code, what = f"print({number}, {turn})", chance.randrange(4)
            if what == 0:  # leaves at some moment
                with contextlib.suppress(OSError), service.socket() as sock:
                    sock.sendall(api.request_bytes("POST", "/v1/tools/ask/call", {"arguments": {"code": code}}, headers))
                    time.sleep(chance.random() / 10)
                continue
            result = call(service, code, headers=headers, wait=what != 1)
            if "approval" in result and not result["success"]:
                time.sleep(chance.random() / 4)
                result = call(service, code, headers=headers, approval=result["approval"]["id"], wait=what == 3)
            done.append(result)
        return done

    def decider(number):
        chance, headers, answers = random.Random(number), (BOSS, CHIEF)[number % 2], []
        while time.monotonic() < end + 2:
            for id in list(listed(service, headers))[:5]:
                answers.append(decide(service, id, "deny" if chance.random() < 0.2 else "approve", headers).status)
        return answers

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        callers = [pool.submit(caller, i) for i in range(14)]
        deciders = [pool.submit(decider, i) for i in range(3)]
        answers = {status for job in deciders for status in job.result()}
        results = [r for job in callers for r in job.result()]
    assert 200 in answers and answers <= {200, 404, 409}
    assert {r["status"] for r in results} <= {"success", "blocked", "pending"}
    wait_for("nothing open", lambda: not listed(service))
    assert service.stop() == 0
    assert service.audit("verify").returncode == 0
    steps, launched = {}, collections.Counter()
    for line in service.audit("export").stdout.splitlines():
        row = json.loads(line)
        if row["kind"] == "approval":
            steps.setdefault(row["body"]["approval"], []).append((row["body"]["event"], row["id"]))
        launched[row["id"]] += row["kind"] == "launch"
    users = {id for events in steps.values() for event, id in events if event == "used"}
    assert {r["id"] for r in results if r["success"]} <= users and len(users) > 5
    assert {id for id, count in launched.items() if count} <= users and set(launched.values()) <= {0, 1}
    order = re.compile("asked( denied| expired| withdrawn| approved( used| expired| withdrawn)?)?")
    for events in steps.values():
        assert order.fullmatch(" ".join(event for event, _ in events)), events
