"""glovebox-store, driven as the supervisor, the front and the launcher would: what it acknowledges is on disk, in a chain that somebody else can verify."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time

import pytest
import store as driver
import wire
from store import APPROVAL, INTENT, LAUNCH, LOST, OUTCOME, RETENTION, START, Gone, Store, append_body, records, verify


@pytest.fixture
def folder(gb, tmp_path):
    return driver.make_folder(gb, tmp_path)


@pytest.fixture
def start(gb, folder):
    running = []

    def start(**kwargs):
        running.append(Store(gb, folder, **kwargs))
        return running[-1].ready()

    yield start
    for store in running:
        if store.process.poll() is None:
            store.process.kill()
            store.end()


# --- what it does ---


def test_records_are_acknowledged_found_and_chained(gb, folder, start):
    store = start()
    front, launch = store.front, store.launch
    assert front.store(INTENT, "call1", '{"tool":"execute_code"}') == 2  # 1 is START
    assert launch.store(LAUNCH, "call1", "{}", principal="") == 3
    assert front.store(OUTCOME, "call1", '{"status":"success","x":"é"}') == 4
    assert front.store(INTENT, "call2", "{}", principal="bob") == 5
    assert front.store(OUTCOME, "call2", "{}", principal="bob") == 6

    front.find(id="call1", tag=7)
    rows = front.rows()
    assert [(r["seq"], r["kind"], r["id"], r["principal"]) for r in rows] == [(2, INTENT, "call1", "alice"), (3, LAUNCH, "call1", ""), (4, OUTCOME, "call1", "alice")]
    assert rows[2]["body"] == '{"status":"success","x":"é"}' and abs(rows[2]["time"] / 1e6 - time.time()) < 60
    for question, answer in [
        ({"id": "call1", "principal": "alice"}, [2, 3, 4]),
        ({"id": "call1", "principal": "bob"}, []),
        ({"id": "call"}, []),
        ({}, [6, 4]),
        ({"most": 1}, [6]),
        ({"most": 0}, []),
        ({"most": 4_000_000_000}, [6, 4]),
        ({"principal": "alice"}, [4]),
        ({"before": 6}, [4]),
        ({"before": 4}, []),
        ({"principal": "x' OR 1 --"}, []),
    ]:
        front.find(**question)
        assert [r["seq"] for r in front.rows()] == answer, question

    assert verify(gb, folder).startswith("6 records, chain is sound, head ")  # while it runs
    store.stop()
    assert [r["kind"] for r in records(folder)] == [START, INTENT, LAUNCH, OUTCOME, INTENT, OUTCOME]
    assert json.loads(records(folder)[0]["body"])["version"]
    assert sorted(p.name for p in folder.iterdir()) == ["audit.db"]  # the log has been moved into it
    owner = driver.UID if gb.mode == "root" else os.geteuid()
    stat = (folder / "audit.db").stat()
    assert stat.st_mode & 0o777 == 0o600 and stat.st_uid == owner
    verify(gb, folder)
    assert sorted(p.name for p in folder.iterdir()) == ["audit.db"]


def test_a_flood_is_stored_in_order(gb, folder, start):
    store = start()
    got, launched = [], []
    for i in range(3000):
        store.front.append(INTENT if i % 2 else OUTCOME, f"f{i // 2}", tag=i)
        if i % 3 == 0:
            store.launch.append(LAUNCH, f"f{i // 2}", tag=i)
        if i % 300 == 299:
            got += [store.front.ack() for _ in range(300)]
            launched += [store.launch.ack() for _ in range(100)]
    assert [tag for tag, _ in got] == list(range(3000)) and [tag for tag, _ in launched] == list(range(0, 3000, 3))
    numbers = [a["seq"] for _, a in got]
    assert numbers == sorted(numbers) and sorted(numbers + [a["seq"] for _, a in launched]) == list(range(2, 4002))
    store.stop()
    assert len(records(folder)) == 4001
    verify(gb, folder)


def test_a_flood_of_large_records_is_more_than_a_journal(gb, folder, start):
    """More at once than there is room for in the journal: that is no reason to refuse."""
    store = start()
    big = json.dumps({"x": "y" * 60_000})
    for round in range(20):  # a socket holds ten records
        for _ in range(7):
            store.front.store(OUTCOME, f"f{round}", big)
        store.process.send_signal(signal.SIGSTOP)
        for i in range(8):
            store.front.append(OUTCOME, f"f{round}", big, tag=i)
            store.launch.append(LAUNCH, f"f{round}", big, tag=i)
        store.process.send_signal(signal.SIGCONT)
        for channel in store.front, store.launch:
            answers = [channel.ack() for _ in range(8)]
            assert [tag for tag, _ in answers] == list(range(8))
            assert {a["error"] for _, a in answers} == {"NONE"}, answers
    store.stop()
    assert len(records(folder)) == 20 * 23 + 1
    verify(gb, folder)


def test_records_keep_coming_and_the_journal_does_not_fill(gb, folder, start):
    store = start()
    body = json.dumps({"x": "y" * 3000})
    for i in range(100):  # always some on their way: what is settled is never all
        store.front.append(OUTCOME, "f", body, tag=i)
    for i in range(100, 4000):
        store.front.append(OUTCOME, "f", body, tag=i)
        assert store.front.ack()[1]["error"] == "NONE"
    for _ in range(100):
        assert store.front.ack()[1]["error"] == "NONE"
    store.stop()
    assert len(records(folder)) == 4001


def test_usage_adds_up_and_outlives_the_store(gb, folder, start):
    days = {int(time.time()) // 86400}
    store = start()
    store.front.store(INTENT, "a", tool="t", calls=1)
    store.front.store(APPROVAL, "a")
    store.front.store(OUTCOME, "a", tool="t", cpu_us=1500)
    store.front.store(INTENT, "b", principal="bob", tool="t", calls=1)
    store.front.store(INTENT, "c")  # names no tool: counts for nothing
    for i in range(200):  # more than one turn sends
        store.front.append(INTENT, f"m{i}", tool=f"tool{i:03}", calls=1, tag=i)
    assert all(store.front.ack()[1]["error"] == "NONE" for _ in range(200))
    store.process.kill()
    store.end()
    store = start()
    days.add(int(time.time()) // 86400)
    told = [row for day in days for row in store.front.usage(day, tag=5)]  # two, if midnight was in between
    total = {}
    for principal, tool, calls, cpu_us in told:
        old = total.get((principal, tool), (0, 0))
        total[principal, tool] = (old[0] + calls, old[1] + cpu_us)
    assert total.pop(("alice", "t")) == (1, 1500) and total.pop(("bob", "t")) == (1, 0)
    assert total == {("alice", f"tool{i:03}"): (1, 0) for i in range(200)}
    assert store.front.usage(0) == store.front.usage(min(days) - 1) == store.front.usage(1 << 62) == []
    store.front.store(OUTCOME, "a", tool="t", cpu_us=1)  # and answers go on
    store.stop()
    assert len(records(folder)) == 2 + 5 + 200 + 1 + 202  # two starts, and the lost ones
    verify(gb, folder)


def test_an_older_database_is_taken_over(gb, folder, start):
    store = start()
    store.front.store(OUTCOME, "old")
    store.stop()
    with contextlib.closing(sqlite3.connect(folder / "audit.db")) as db:
        db.executescript("DROP TABLE usage; PRAGMA user_version = 1")
    verify(gb, folder)
    store = start()
    store.front.store(INTENT, "new", tool="t", calls=1)
    assert [row[:2] for day in (0, 1) for row in store.front.usage(int(time.time()) // 86400 - day)] == [("alice", "t")]
    store.stop()
    verify(gb, folder)
    assert [r["id"] for r in records(folder)] == ["", "old", "", "new"]


def test_who_does_not_read_waits(folder, start):
    store = start()
    big = json.dumps({"x": "y" * 60_000})
    for i in range(200):
        assert store.front.store(OUTCOME, f"big{i}", big) > 0
    store.front.sock.settimeout(1)
    asked = 0
    with contextlib.suppress(TimeoutError):
        for _ in range(100_000):
            store.front.find(most=1000)
            asked += 1
    assert asked < 100_000  # its socket is full of questions, and the store keeps none of the answers
    with open(f"/proc/{store.process.pid}/statm") as f:
        assert int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") < 300 << 20
    store.front.sock.settimeout(20)
    assert len(store.front.rows()) == 200  # and then goes on where it was
    assert len(store.front.rows()) == 200


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13]))


def test_the_launcher_does_not_overtake_the_front(folder, start):
    """What the front has sent before it asked for a box is stored before the launcher is told that it may start it."""
    store = start()
    big = json.dumps({"x": "y" * 60_000})
    for i in range(200):
        assert store.front.store(OUTCOME, f"big{i}", big) > 0
    for _ in range(2):
        store.front.find(most=1000)  # it does not read the answers, and what comes behind waits
    store.front.append(INTENT, "call", quiet=1)
    store.launch.append(LAUNCH, "call")
    before = cpu_ticks(store.process.pid)
    with pytest.raises(TimeoutError):
        wire.receive(store.launch.sock, 1)
    assert cpu_ticks(store.process.pid) - before < 50, "it waits, and does not turn in circles"
    for _ in range(2):
        assert len(store.front.rows()) == 200
    assert store.launch.ack()[1]["error"] == "NONE"
    store.stop()
    assert [(r["kind"], r["id"]) for r in records(folder)][-2:] == [(INTENT, "call"), (LAUNCH, "call")]


def test_a_quiet_intent_is_answered_only_if_it_fails(folder, start):
    store = start()
    for i in range(50):
        store.front.append(INTENT, f"q{i}", quiet=1, tag=1000 + i)
        store.launch.append(LAUNCH, f"q{i}", tag=i)
        assert store.launch.ack()[0] == i
    assert store.front.store(OUTCOME, "q0", tag=7) > 100  # no other answer comes before this one's
    store.stop()
    assert [r["kind"] for r in records(folder)][1:101] == [INTENT, LAUNCH] * 50


WRONG = {
    "an outcome that it does not wait for": lambda s: s.front.append(OUTCOME, "x", quiet=1),
    "a quietness that is none": lambda s: s.front.append(INTENT, "x", quiet=2),
    "a launch from the front": lambda s: s.front.append(LAUNCH, "x"),
    "a start from the front": lambda s: s.front.append(START, "x"),
    "a lost call from the front": lambda s: s.front.append(LOST, "x"),
    "a retention from the front": lambda s: s.front.append(RETENTION, "x"),
    "no kind": lambda s: s.front.append(0, "x"),
    "a kind beyond all": lambda s: s.front.append(8, "x"),
    "an approval from the launcher": lambda s: s.launch.append(APPROVAL, "x"),
    "usage from the launcher": lambda s: s.launch.append(LAUNCH, "x", tool="t", calls=1),
    "two calls in one record": lambda s: s.front.append(INTENT, "x", tool="t", calls=2),
    "less than no cpu time": lambda s: s.front.append(OUTCOME, "x", tool="t", cpu_us=-1),
    "more cpu time than there is": lambda s: s.front.append(OUTCOME, "x", tool="t", cpu_us=10**13 + 1),
    "usage of nobody": lambda s: s.front.append(INTENT, "x", principal="", tool="t", calls=1),
    "usage of a tool that does not end": lambda s: s.front.append(INTENT, "x", tool="t" * 64, calls=1),
    "usage of a tool that is not UTF-8": lambda s: s.front.send("APPEND", append_body(INTENT, b"x", b"a", b"\xff", 1) + b"{}"),
    "a question about usage from the launcher": lambda s: s.launch.send("FIND_USAGE"),
    "a kind of 2^31": lambda s: s.front.append(1 << 31 | INTENT, "x"),
    "an intent from the launcher": lambda s: s.launch.append(INTENT, "x"),
    "an outcome from the launcher": lambda s: s.launch.append(OUTCOME, "x"),
    "a question from the launcher": lambda s: s.launch.find(),
    "no id": lambda s: s.front.append(INTENT, ""),
    "an id that does not end": lambda s: s.front.append(INTENT, "x" * 32),
    "a principal that does not end": lambda s: s.front.append(INTENT, "x", principal="x" * 64),
    "a body that is not UTF-8": lambda s: s.front.append(INTENT, "x", b'{"a":"\xff"}'),
    "a body with a NUL": lambda s: s.front.append(INTENT, "x", b'{"a":1}\0'),
    "an id that is not UTF-8": lambda s: s.front.send("APPEND", append_body(INTENT, b"\xff") + b"{}"),
    "another's message": lambda s: s.front.send("READY"),
    "the supervisor's message": lambda s: s.front.send("STOP"),
    "a message that is too short": lambda s: s.front.send("APPEND", b"x"),
    "not a message": lambda s: s.launch.sock.send(b"hello"),
    "a second start": lambda s: s.control.send("START_STORE", driver.keep_body(), fds=[0, 0]),
    "a descriptor that nobody asked for": lambda s: s.front.send("APPEND", append_body(INTENT, b"x") + b"{}", fds=[0]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_peer_that_breaks_the_protocol_ends_it(folder, start, what):
    store = start()
    assert store.front.store(INTENT, "before") == 2
    WRONG[what](store)
    code, log = store.end()
    assert code == 1 and "broke the protocol" in log, log
    assert [r["id"] for r in records(folder)] == ["", "before"]


def test_when_the_front_dies_what_it_had_sent_is_stored(folder, start):
    store = start()
    store.process.send_signal(signal.SIGSTOP)
    for i in range(50):
        store.front.append(INTENT, f"c{i}")
    store.front.sock.close()
    store.process.send_signal(signal.SIGCONT)
    assert store.launch.store(LAUNCH, "x") > 0  # the supervisor decides what comes next
    store.stop()
    assert sum(r["kind"] == INTENT for r in records(folder)) == 50


def test_without_a_supervisor_it_ends_and_keeps_everything(folder, start):
    store = start()
    store.process.send_signal(signal.SIGSTOP)
    for i in range(400):
        store.front.append(INTENT, f"c{i}")
    store.control.sock.close()
    store.process.send_signal(signal.SIGCONT)
    code, log = store.end()
    assert code == 0, log
    assert sum(r["kind"] == INTENT for r in records(folder)) == 400


def test_signals_to_the_group_are_for_the_supervisor(start):
    store = start()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        store.process.send_signal(sig)
    assert store.front.store(INTENT, "x") == 2
    store.stop()


def test_it_starts_nobody_by_itself(gb, folder):
    done = subprocess.run([gb.build / "glovebox-store"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, close_fds=True)
    assert done.returncode == 1 and b"glovebox serve" in done.stderr
    assert list(folder.iterdir()) == []


def test_killed_at_any_moment_it_loses_nothing_acknowledged(gb, folder, start):
    chance = random.Random(1)
    acknowledged = {}
    for round in range(40):
        store = start()
        sent = 0
        deadline = time.monotonic() + chance.random() * 0.1
        with contextlib.suppress(Gone, OSError):
            while time.monotonic() < deadline:
                for _ in range(chance.randrange(1, 20)):
                    store.front.append(INTENT if sent % 3 else OUTCOME, f"r{round}-{sent}", tag=sent)
                    sent += 1
                for _ in range(chance.randrange(1, 20)):
                    if len([t for t in acknowledged if t[0] == round]) < sent:
                        tag, answer = store.front.ack()
                        acknowledged[round, tag] = answer["seq"]
        os.kill(store.process.pid, signal.SIGKILL)
        store.process.wait()
        with contextlib.suppress(Gone):
            while True:
                tag, answer = store.front.ack()
                acknowledged[round, tag] = answer["seq"]
        store.end()
    start().stop()
    rows = {r["seq"]: r for r in records(folder)}
    assert len(acknowledged) > 200
    for (round, tag), seq in acknowledged.items():
        assert rows[seq]["id"] == f"r{round}-{tag}"
    opened = {r["id"] for r in rows.values() if r["kind"] == INTENT}
    assert {r["id"] for r in rows.values() if r["kind"] == LOST} == opened  # nobody will finish them
    verify(gb, folder)


def test_retention_by_message(gb, folder, start):
    store = start()
    for i in range(2000):
        store.front.append(INTENT, f"c{i}", json.dumps({"x": "y" * 500}))
        store.front.append(OUTCOME, f"c{i}")
        store.front.ack()
        store.front.ack()
    head = verify(gb, folder).split()[-1]
    store.control.send("RETENTION", driver.keep_body(bytes=1 << 20, sync_full=1))
    deadline = time.monotonic() + 20
    while len(records(folder)) > 3000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert store.front.store(INTENT, "after") > 4000
    store.stop()
    rows = records(folder)
    assert 500 < len(rows) < 3000 and RETENTION in {r["kind"] for r in rows}
    assert (folder / "audit.db").stat().st_size <= (1 << 20) + (1 << 18)
    verify(gb, folder, "--head", head)
    for call in {r["id"] for r in rows} - {"", "after"}:
        assert sum(r["id"] == call for r in rows) == 2


def test_damaged_and_foreign_databases_are_left_alone(gb, folder):
    for content in (b"this is not a database " * 100, None):
        file = folder / "audit.db"
        if content:
            file.write_bytes(content)
        else:
            file.unlink()
            with contextlib.closing(sqlite3.connect(file)) as db:
                db.executescript("CREATE TABLE diary(x); INSERT INTO diary VALUES('dear')")
        if gb.mode == "root":
            os.chown(file, driver.UID, driver.UID)
        before = file.read_bytes()
        code, log = Store(gb, folder).end()
        assert code == 1 and "audit" in log, log
        assert file.read_bytes() == before


@pytest.fixture
def small_disk(folder):
    """A process that holds a view of the file system in which the directory is a tmpfs of two megabytes, a third of it ballast."""
    script = (
        f"mount -t tmpfs -o size=2m,mode=700,uid={driver.UID},gid={driver.UID} none {folder} && cd {folder}"
        " && dd if=/dev/zero of=ballast bs=64k count=10 status=none && echo ready && exec sleep 600"
    )
    command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as holder:
        try:
            assert holder.stdout.readline() == b"ready\n"
            yield holder.pid
        finally:
            holder.kill()


@pytest.mark.rootonly
def test_a_full_disk_refuses_and_recovers(gb, folder, small_disk):
    store = Store(gb, folder, command=["nsenter", "-t", str(small_disk), "-m", "--wd", gb.build / "glovebox-store"]).ready()
    big = json.dumps({"x": "y" * 30_000})
    stored, refused = [], None
    for i in range(500):
        store.front.append(OUTCOME, f"c{i}", big)
        answer = store.front.ack()[1]
        if answer["error"] != "NONE":
            refused = answer
            break
        stored.append(answer["seq"])
    assert refused and "full" in refused["text"] and refused["seq"] == 0
    assert refused["error"] == "AUDIT"
    for _ in range(20):  # it goes on refusing, and does not go away
        store.front.append(OUTCOME, "again", big)
        assert store.front.ack()[1]["error"] == "AUDIT"
    store.front.append(INTENT, "unheard", big, quiet=1, tag=77)
    assert store.front.ack() == (77, {**refused, "text": refused["text"]})
    store.front.find(most=3)
    assert len(store.front.rows()) == 3
    os.unlink(f"/proc/{small_disk}/cwd/ballast")
    for i in range(5):
        stored.append(store.front.store(OUTCOME, f"later{i}", big))
    store.launch.append(LAUNCH, "unheard")  # its intent was not stored, so it must not be started
    answer = store.launch.ack()[1]
    assert answer["error"] == "AUDIT" and "intent" in answer["text"] and answer["seq"] == 0
    stored.append(store.launch.store(LAUNCH, "later0"))
    assert stored == list(range(stored[0], stored[0] + len(stored)))  # no hole
    log = store.stop()
    subprocess.run(["cp", "-a", f"/proc/{small_disk}/cwd/.", folder], check=True)
    assert log.count("cannot be stored") == 1 and "can be stored again" in log
    assert len(records(folder)) == len(stored) + 1
    verify(gb, folder)


@pytest.mark.rootonly
def test_it_starts_on_a_full_disk_and_refuses_until_there_is_room(gb, folder, small_disk):
    with open(f"/proc/{small_disk}/cwd/more", "wb", buffering=0) as more, contextlib.suppress(OSError):
        while True:
            more.write(bytes(4096))
    store = Store(gb, folder, command=["nsenter", "-t", str(small_disk), "-m", "--wd", gb.build / "glovebox-store"]).ready()
    for i in range(3):
        store.front.append(INTENT, f"c{i}")
        assert store.front.ack()[1]["error"] == "AUDIT"
    os.unlink(f"/proc/{small_disk}/cwd/more")
    assert store.front.store(INTENT, "later") == 2  # behind START
    store.stop()
    subprocess.run(["cp", "-a", f"/proc/{small_disk}/cwd/.", folder], check=True)
    assert [r["kind"] for r in records(folder)] == [START, INTENT]
