"""Budgets: never one call too many, and not one too few, however many come at once, whoever is restarted."""

import concurrent.futures
import contextlib
import sqlite3
import time

import pytest

import api
from conftest import wait_for

pytestmark = pytest.mark.rootonly  # another user changes nothing about it

CODE = "print(1)"


@pytest.fixture(autouse=True)
def not_at_midnight():
    """A day's budget begins anew at midnight (UTC), and no test is about that moment."""
    left = 86400 - time.time() % 86400
    if left < 100:
        time.sleep(left + 1)


def config(principal=None, tools=None, **more):
    """A service without keys: the caller is the principal `local`."""
    tools = tools or {"t": {}}
    return {
        "principals": {"local": {"budget": principal or {}}},
        "tools": [{"name": name, "description": "runs code", "code": {"language": "python"}, **row} for name, row in tools.items()],
        "boxes": {"running": 8, "queued": 512, "wait_seconds": 200},
        **more,
    }


def call(service, tool="t", code=CODE, headers=None, **fields):
    reply = service.request("POST", f"/v1/tools/{tool}/call", {"arguments": {"code": code}, **fields}, headers, timeout=250)
    assert reply.status == 200, reply
    return reply.json()


def refused(result, *words):
    """True if it was by a budget, which the denial must explain; asserts that it succeeded otherwise."""
    if result["status"] == "success":
        assert result["denials"] == []
        return False
    assert result["status"] == "blocked", result
    (denial,) = result["denials"]
    assert denial["code"] == "budget_exceeded" and denial["stage"] == "decide" and "try again" in denial["hint"], denial
    assert all(word in denial["reason"] for word in words), denial
    return True


def crowd(jobs):
    """All at once; the results."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        return [f.result() for f in [pool.submit(job) for job in jobs]]


# --- a hundred at once ---


@pytest.mark.parametrize("budget", ["calls_per_minute", "calls_per_day"])
@pytest.mark.parametrize("whose", ["principal", "tool"])
def test_a_hundred_calls_at_once(start_service, budget, whose):
    limit = {budget: 17}
    service = start_service(config(limit if whose == "principal" else None, {"t": {"budget": limit} if whose == "tool" else {}}))
    begun = time.monotonic()
    results = crowd([lambda: call(service)] * 100)
    name = "principal local" if whose == "principal" else "tool t"
    denied = [r for r in results if refused(r, budget, name, "17 of 17")]
    assert time.monotonic() - begun < 60 or budget == "calls_per_day", "too slow to tell"
    assert len(denied) == 83
    assert refused(call(service), budget) or budget == "calls_per_minute"


def test_a_hundred_calls_share_what_runs_at_once(start_service):
    """Five run until we say so, so whoever comes meanwhile is one too many."""
    service = start_service(config({"concurrent": 5}))
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        jobs = [pool.submit(call, service, code="import time; time.sleep(200)") for _ in range(100)]
        wait_for("95 refusals", lambda: sum(job.done() for job in jobs) == 95)
        assert all(refused(job.result(), "concurrent", "principal local", "5 of 5") for job in jobs if job.done())
        running = service.request("GET", "/v1/executions").json()["running"]
        assert len(running) == 5
        for row in running:
            assert service.request("POST", f"/v1/executions/{row['id']}/cancel").status == 202
        left = [job.result()["status"] for job in jobs]
        assert sorted(left) == ["blocked"] * 95 + ["cancelled"] * 5
    assert not any(refused(r) for r in crowd([lambda: call(service)] * 5))  # all five places are free again


def test_refused_by_one_is_taken_from_none(start_service):
    """The tool has 10 of the principal's 25 calls: the refused ones cost the principal nothing."""
    service = start_service(config({"calls_per_day": 25}, {"t": {"budget": {"calls_per_day": 10}}, "u": {}}))
    assert sum(refused(r, "tool t", "10 of 10") for r in crowd([lambda: call(service)] * 50)) == 40
    assert sum(refused(r, "principal local", "25 of 25") for r in crowd([lambda: call(service, "u")] * 40)) == 25
    assert refused(call(service, "u")) and refused(call(service))


def test_principals_share_a_tool_and_nothing_else(start_service):
    service = start_service(
        config(tools={"t": {"budget": {"calls_per_day": 12}}, "u": {}}, keys=api.keys(alice={}, bob={}, carol={"principal": "bob"}))
        | {"principals": {"alice": {"budget": {"calls_per_day": 7}}, "bob": {"budget": {"calls_per_day": 9}}}}
    )
    jobs = [lambda who=who: call(service, headers=api.bearer(who)) for who in ["alice", "bob", "carol"] * 20]
    assert sum(not refused(r) for r in crowd(jobs)) == 12
    left = sum(not refused(r) for who in ("alice", "bob", "carol") for r in crowd([lambda who=who: call(service, "u", headers=api.bearer(who))] * 10))
    assert left == 7 + 9 - 12  # bob and carol are one principal


# --- what counts ---


def test_what_is_refused_otherwise_costs_nothing(start_service):
    settings = config({"calls_per_day": 2})
    settings["tools"].append({"name": "line", "description": "runs a command", "command": {}})
    service = start_service(settings)
    for _ in range(5):
        assert service.request("POST", "/v1/tools/t/call", {"arguments": {"code": 1}}).json()["denials"][0]["code"] == "invalid_arguments"
        assert service.request("POST", "/v1/tools/line/call", {"arguments": {"command": "rm x"}}).json()["denials"][0]["code"] == "command_not_allowed"
        assert service.request("POST", "/v1/tools/t/call", {"nothing": 1}).status == 422
    assert not refused(call(service))
    assert call(service, code="raise SystemExit(3)")["exit_code"] == 3  # what fails has run
    assert refused(call(service), "calls_per_day", "2 of 2")


def test_the_refusal_is_recorded_and_is_no_call(start_service):
    service = start_service(config({"calls_per_day": 1}))
    assert not refused(call(service))
    result = call(service)
    assert refused(result)
    records = service.request("GET", f"/v1/executions/{result['id']}").json()["records"]
    assert [r["kind"] for r in records] == ["intent", "outcome"]
    assert records[0]["record"]["decision"] == "block" and records[0]["record"]["denials"] == result["denials"]
    assert records[1]["record"]["status"] == "blocked"
    assert service.audit("verify").returncode == 0


# --- restarts and reloads ---


def test_a_restart_gives_nobody_a_second_day(start_service):
    service = start_service(config({"calls_per_day": 8}, {"t": {"budget": {"calls_per_day": 6}}, "u": {}}))
    assert not any(refused(r) for r in crowd([lambda: call(service)] * 3))
    assert service.stop() == 0
    service.start()
    assert not refused(call(service))
    for name in ["front", "store"]:
        before = service.pids()
        service.kill(name)  # and all with it
        service.wait_children(but=before.values())
        service.wait_healthy()
        assert not refused(call(service))
    assert refused(call(service), "tool t", "6 of 6")
    assert not refused(call(service, "u")) and not refused(call(service, "u"))
    assert refused(call(service, "u"), "principal local", "8 of 8")
    assert service.audit("verify").returncode == 0


def test_what_cannot_be_known_is_not_guessed(start_service):
    """A table that somebody has damaged: no calls, until it can be read again."""
    service = start_service(config({"calls_per_day": 3}))
    assert not refused(call(service))
    assert service.stop() == 0

    def change(sql):
        with contextlib.closing(sqlite3.connect(service.state_dir / "audit/audit.db", timeout=60)) as db:
            db.execute(sql)
            db.commit()

    change("UPDATE usage SET calls = -calls")
    service.start()
    for _ in range(3):
        api.problem(service.request("POST", "/v1/tools/t/call", {"arguments": {"code": CODE}}), 503, "audit_unavailable", "budgets")
    api.problem(service.request("GET", "/readyz"), 503, "audit_unavailable")
    assert service.request("GET", "/healthz").status == 200
    change("UPDATE usage SET calls = 2")
    wait_for("calls", lambda: service.request("GET", "/readyz").status == 200)
    assert not refused(call(service))
    assert refused(call(service), "3 of 3")
    assert service.log().count("what was used today is not known") == 1


def test_a_reload_changes_limits_and_keeps_counts(start_service):
    service = start_service(config())
    loaded = 0

    def reload(limit):
        nonlocal loaded
        loaded += 1
        service.reload(config({"calls_per_day": limit} if limit else None))
        service.wait_log("new configuration in use", loaded)

    assert not any(refused(r) for r in crowd([lambda: call(service)] * 4))  # without a budget
    reload(5)
    assert not refused(call(service))
    assert refused(call(service), "5 of 5")
    reload(3)
    assert refused(call(service), "5 of 3")
    reload(7)
    assert sum(refused(r) for r in crowd([lambda: call(service)] * 20)) == 18
    reload(None)
    assert not refused(call(service))


# --- cpu time ---

BURN = "while True: pass"


def test_cpu_time_is_narrowed_and_paid(start_service):
    service = start_service(config({"cpu_seconds_per_day": 1}))
    first = call(service, limits={"max_cpu_seconds": 30})
    assert first["status"] == "success" and first["enforced"]["limits"]["max_cpu_seconds"] == 1
    second = call(service, limits={"max_cpu_seconds": 30})
    assert 0 < second["enforced"]["limits"]["max_cpu_seconds"] < 1  # what the first has used is gone
    third = call(service, code=BURN, limits={"max_cpu_seconds": 30, "timeout_seconds": 60})
    assert third["status"] == "resource_exceeded" and third["kill_reason"] == "cpu"
    assert refused(call(service), "cpu_seconds_per_day", "principal local", "of 1")
    assert service.stop() == 0
    service.start()
    assert refused(call(service), "cpu_seconds_per_day")  # paid is paid
    service.stop()


def test_cpu_time_is_set_aside_for_what_runs(start_service):
    """Each may use 2 seconds, so only two can be under way, whatever they really use."""
    service = start_service(config(tools={"t": {"budget": {"cpu_seconds_per_day": 4.5}}}))
    sleeper = "import time; time.sleep(200)"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(call, service, code=sleeper, limits={"max_cpu_seconds": 2, "timeout_seconds": 250}) for _ in range(2)]
        wait_for("two calls", lambda: len(service.request("GET", "/v1/executions").json()["running"]) == 2)
        third = call(service, limits={"max_cpu_seconds": 2})
        assert third["status"] == "success" and third["enforced"]["limits"]["max_cpu_seconds"] <= 0.5
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            last = other.submit(call, service, code=sleeper, limits={"timeout_seconds": 250})
            wait_for("three calls", lambda: len(service.request("GET", "/v1/executions").json()["running"]) == 3)
            assert refused(call(service), "cpu_seconds_per_day", "tool t", "set aside")
            for row in service.request("GET", "/v1/executions").json()["running"]:
                service.request("POST", f"/v1/executions/{row['id']}/cancel")
            assert last.result()["status"] == "cancelled"
        assert [job.result()["status"] for job in jobs] == ["cancelled"] * 2
    assert call(service, limits={"max_cpu_seconds": 2})["enforced"]["limits"]["max_cpu_seconds"] == 2  # given back
