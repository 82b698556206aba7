"""glovebox audit: what it prints, what it refuses, and that it leaves the records and their directory as they are."""

import contextlib
import json
import os
import sqlite3
import subprocess

import pytest
import store as driver
from store import INTENT, LAUNCH, OUTCOME, Store

BODIES = {
    INTENT: {"tool": "execute_code", "language": "python", "route": "/execute", "decision": "allow", "reasons": [], "client": "tcp"},
    LAUNCH: {"runtime": "python"},
    OUTCOME: {"tool": "execute_code", "status": "success", "exit_code": 0, "execution_time_ms": 12.34, "redactions": 0},
}


def add(store, id, principal="alice", **outcome):
    store.front.store(INTENT, id, json.dumps(BODIES[INTENT]), principal)
    store.launch.store(LAUNCH, id, json.dumps(BODIES[LAUNCH]), "")
    store.front.store(OUTCOME, id, json.dumps({**BODIES[OUTCOME], **outcome}, ensure_ascii=False), principal)


@pytest.fixture(scope="module")
def folder(gb, tmp_path_factory):
    """Records of a life: calls of two principals, one with text that would steer a terminal, one that was cut off."""
    path = driver.make_folder(gb, tmp_path_factory.mktemp("audit"))
    store = Store(gb, path).ready()
    add(store, "call-1")
    add(store, "call-2", "bob", status="timeout", exit_code=None, execution_time_ms=1000)
    add(store, "call-3", tool="\x1b[31mred\u202e\x7f", status="error", exit_code=7, extra="\u009b2J")
    store.front.store(INTENT, "call-4", json.dumps(BODIES[INTENT]))
    store.front.store(INTENT, "call-5", "this is not JSON\n")
    store.process.kill()
    store.end()
    Store(gb, path).ready().stop()
    return path


def audit(gb, folder, *args, code=0, **kwargs):
    done = gb("audit", *args, "--dir", folder, **kwargs)
    assert "Sanitizer" not in done.stderr.decode()
    assert done.returncode == code, (done.returncode, done.stderr.decode())
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def test_list(gb, folder):
    out = audit(gb, folder, "list")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["TIME", "ID", "PRINCIPAL", "TOOL", "STATUS", "EXIT", "MS"]
    by_id = {line[1]: line for line in lines[1:]}
    assert [line[1] for line in lines[1:]][-3:] == ["call-3", "call-2", "call-1"]  # the newest first
    assert by_id["call-1"][2:] == ["alice", "execute_code", "success", "0", "12.3"]
    assert by_id["call-2"][2:] == ["bob", "execute_code", "timeout", "-", "1000"]
    assert by_id["call-4"][2:] == ["alice", "-", "lost", "-", "-"]
    assert all(c.isprintable() or c == "\n" for c in out)
    assert [line.split()[1] for line in audit(gb, folder, "list", "--principal", "bob").splitlines()[1:]] == ["call-2"]
    assert len(audit(gb, folder, "list", "--limit", "2").splitlines()) == 3
    assert len(audit(gb, folder, "list", "--since", "1h").splitlines()) == len(lines)
    assert audit(gb, folder, "list", "--since", "2100-01-01") == "No calls yet that match.\n"
    rows = json.loads(audit(gb, folder, "list", "--json"))
    assert [r["id"] for r in rows] == [line[1] for line in lines[1:]]
    assert rows[-1]["kind"] == "outcome" and rows[-1]["body"] == BODIES[OUTCOME]
    assert json.loads(audit(gb, folder, "list", "--json", "--principal", "nobody")) == []


def test_since_takes_the_times_that_are_printed(gb, folder):
    rows = [json.loads(line) for line in audit(gb, folder, "export").splitlines()]
    for row in rows[::4]:
        later = [json.loads(line)["seq"] for line in audit(gb, folder, "export", "--since", row["time"]).splitlines()]
        assert later == [r["seq"] for r in rows if r["time"] >= row["time"]]
    assert audit(gb, folder, "export", "--since", rows[0]["time"][:10]) == audit(gb, folder, "export")


def test_show(gb, folder):
    out = audit(gb, folder, "show", "call-1")
    assert [line.split()[0] for line in out.splitlines() if "  record " in line] == ["intent", "launch", "outcome"]
    assert '"status": "success"' in out and "by alice" in out
    hostile = audit(gb, folder, "show", "call-3")
    assert all(c.isprintable() or c == "\n" for c in hostile)
    records = json.loads(audit(gb, folder, "show", "--json", "call-3"))
    assert [r["kind"] for r in records] == ["intent", "launch", "outcome"]
    assert records[2]["body"]["tool"] == "\x1b[31mred\u202e\x7f"
    assert "call-9" in audit(gb, folder, "show", "call-9", code=1)


def test_export_can_be_verified_by_others(gb, folder):
    lines = audit(gb, folder, "export").splitlines()
    rows = driver.records(folder)
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows):
        got = json.loads(line)
        assert (got["seq"], got["id"], got["principal"], got["hash"]) == (row["seq"], row["id"], row["principal"], row["hash"].hex())
        if "not JSON" in row["body"]:
            assert got["body_text"] == row["body"] and "body" not in got
        else:
            assert got["body"] == json.loads(row["body"]) and row["body"] in line  # to the letter: that is what was hashed
    alice = [json.loads(line) for line in audit(gb, folder, "export", "--principal", "alice").splitlines()]
    assert {r["principal"] for r in alice} == {"alice"}


def test_verify(gb, folder):
    out = audit(gb, folder, "verify")
    count, head = len(driver.records(folder)), out.split()[-1]
    assert out == f"{count} records, chain is sound, head {head}\n"
    assert audit(gb, folder, "verify", "--head", head) == out
    early = driver.records(folder)[2]["hash"].hex()
    assert audit(gb, folder, "verify", "--head", early) == out
    assert "noted" in audit(gb, folder, "verify", "--head", "0" * 64, code=1)
    assert json.loads(audit(gb, folder, "verify", "--json")) == {"sound": True, "records": count, "head": head, "error": ""}


def test_verify_names_the_bad_record(gb, folder, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", folder, copy], check=True)
    with contextlib.closing(sqlite3.connect(copy / "audit.db")) as db:
        db.execute("UPDATE records SET principal = 'mallory' WHERE seq = 5")
        db.commit()
    assert "record 5 was changed" in audit(gb, copy, "verify", code=1)
    done = gb("audit", "verify", "--json", "--dir", copy)
    assert done.returncode == 1 and "record 5" in json.loads(done.stdout)["error"]
    (copy / "audit.db").write_bytes(b"x" * 5000)
    assert "not a database" in audit(gb, copy, "verify", code=1)
    assert "not a database" in audit(gb, copy, "list", code=125)


def test_reading_leaves_no_trace(gb, folder):
    before = {p.name: (p.stat().st_uid, p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}
    for args in (["list"], ["show", "call-1"], ["verify"], ["export"]):
        audit(gb, folder, *args)
    assert {p.name: (p.stat().st_uid, p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()} == before
    empty = folder.parent / "empty"
    empty.mkdir(exist_ok=True)
    assert "no audit" in audit(gb, empty, "verify", code=125)
    assert list(empty.iterdir()) == []


def test_the_log_of_a_killed_store_is_read(gb, tmp_path):
    path = driver.make_folder(gb, tmp_path)
    store = Store(gb, path).ready()
    add(store, "call-1")
    store.process.kill()
    store.end()
    assert (path / "audit.db-wal").stat().st_size > 0
    assert audit(gb, path, "verify").startswith("4 records")
    owner = driver.UID if gb.mode == "root" else os.geteuid()
    assert {p.stat().st_uid for p in path.iterdir()} == {owner}
    store = Store(gb, path).ready()  # and the next one can still use it
    add(store, "call-2")
    store.stop()
    assert audit(gb, path, "verify").startswith("8 records")


@pytest.mark.rootonly
def test_a_copy_that_cannot_be_written_to(gb, folder, tmp_path):
    subprocess.run(["cp", "-r", folder, tmp_path / "copy?x#%41"], check=True)
    script = f"mount -o bind,ro '{tmp_path}/copy?x#%41' /mnt && {gb.program} audit verify --dir /mnt"
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "chain is sound" in done.stdout, done.stderr
    other = 20002  # may read the file, but not write to it or beside it
    (tmp_path / "copy?x#%41").chmod(0o755)
    (tmp_path / "copy?x#%41" / "audit.db").chmod(0o644)
    script = f"mount -o bind '{tmp_path}/copy?x#%41' /mnt && exec setpriv --reuid {other} --regid {other} --clear-groups {gb.program} audit verify --dir /mnt"
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "chain is sound" in done.stdout, done.stderr


WRONG = {
    "no action": ([], "list, show, verify or export"),
    "an unknown action": (["frob"], "list, show, verify or export"),
    "an unknown option": (["list", "--frob"], "glovebox audit --help"),
    "an id for list": (["list", "x"], "no argument"),
    "no id for show": (["show"], "ID"),
    "two ids for show": (["show", "a", "b"], "'b'"),
    "a limit for verify": (["verify", "--limit", "1"], "--limit"),
    "a head for list": (["list", "--head", "0" * 64], "--head"),
    "json for export": (["export", "--json"], "--json"),
    "a limit of nothing": (["list", "--limit", "0"], "--limit"),
    "a limit that is no number": (["list", "--limit", "-1"], "--limit"),
    "a head that is none": (["verify", "--head", "0" * 63], "64"),
    "a head with a letter that is no digit": (["verify", "--head", "g" * 64], "64"),
    "a time that is none": (["list", "--since", "yesterday"], "--since"),
    "a time with a zone": (["list", "--since", "2026-11-15T09:30:00+01:00"], "--since"),
    "a time without a zone": (["list", "--since", "2026-11-15T09:30:00"], "--since"),
    "a time with seven digits": (["list", "--since", "2026-11-15T09:30:00.1234567Z"], "--since"),
    "an age without a number": (["list", "--since", "d"], "--since"),
    "no directory": (["list", "--dir", "/no/such"], "/no/such"),
    "a file as directory": (["list", "--dir", "/etc/passwd"], "/etc/passwd"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(gb, what):
    args, word = WRONG[what]
    done = gb("audit", *args)
    assert done.returncode == 125 and done.stdout == b""
    assert word in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_help(gb):
    out = gb("audit", "--help").stdout.decode()
    for word in ("list", "show", "verify", "export", "--dir", "--since", "--head"):
        assert word in out


def test_nobody_reads_on(gb, folder):
    """A reader that goes away ends it at once, and is no crash."""
    done = subprocess.run(["bash", "-c", f"{gb.program} audit export --dir {folder} | head -c 1"], capture_output=True, timeout=60)
    assert b"Sanitizer" not in done.stderr
