"""A real glovebox-launch with a stand-in for a captured front: what is over the ceiling, malformed or not a front's to ask starts nothing; what is legal still works."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest

import confined
import wire
from wire import ARG, DATA, ENV, NAME, OUTPUT, PROGRAM, SKIPPED, item, memfd, message, payload, run_body, text

BUILD = pathlib.Path(os.environ.get("GB_BUILD", pathlib.Path(__file__).parent.parent.parent / "build")).resolve()
MODE = os.environ.get("GB_MODE", "root" if os.geteuid() == 0 else "user")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUPS / "cgroup.controllers").exists()
CONTROLLERS = [""] if V2 else ["memory", "pids", "cpu", "cpuacct"]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def parent():
    """A cgroup for this module's boxes alone, so that what is left behind is seen."""
    name = os.environ.get("GLOVEBOX_CGROUP_PARENT", "") + f"/launcher-test-{os.getpid()}"
    dirs = [CGROUPS / c / name.lstrip("/") for c in CONTROLLERS]
    for directory in dirs:
        if V2:
            (directory.parent / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        directory.mkdir()
    yield name
    with wire.Launcher(BUILD, parent=name):  # those before were killed, perhaps with runs under way
        wait_for(lambda: not boxes(name))
    for directory in dirs:
        directory.rmdir()


@pytest.fixture
def launcher(parent):
    with wire.Launcher(BUILD, parent=parent) as l:
        yield l
        if l.process.poll() is None:
            works(l)  # whatever the test did to it


def boxes(parent):
    """Cgroups of boxes below the parent, dead or alive."""
    return [d for c in CONTROLLERS for d in (CGROUPS / c / parent.lstrip("/")).glob("glovebox.box-*")]


def pids_of(marker):
    """Host pids whose command line has the marker, but for those that we started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def works(launcher):
    """The positive control: a legal run."""
    run = launcher.run(payload("sh", "-c", "echo works"))
    answer = run.answer()
    assert answer and answer.done()["status"] == "success" and run.output() == b"works\n"
    run.close()


def sleeper(launcher, **body):
    """A run whose program is found by its name."""
    marker = "marker-" + uuid.uuid4().hex
    run = launcher.run(payload("sh", "-c", "echo started; sleep 300 & sleep 300", marker), **body)
    assert os.read(run.out, 64) == b"started\n"
    return run, marker


def refused(launcher, run, code, *words):
    answer = run.answer()
    assert answer, launcher.process.poll()
    found, _, why = answer.failure()
    assert found == code and all(word in why for word in words), (found, why)
    run.close()


# --- what a front may ask ---


def test_a_legal_run_gives_all_that_it_should(launcher):
    content = payload(
        "sh", "-c", 'cat; cat dir/in; echo "$A $PATH $HOME"; echo err >&2; echo new > out.txt; ln -s /etc/passwd link.txt; exit 3',
        env=["A=b c", "PATH=/usr/bin:/bin"], files=[("dir/in", b"file\n")], outputs=["*.txt", "absent"])
    run = launcher.run(content, stdin=b"input\n")
    answer = run.answer()
    assert answer.done() == {"status": "error", "exit_code": 3, "signal": 0, "files": 3, "kill_reason": ""} and answer.tag == 7
    assert run.output() == b"input\nfile\nb c /usr/bin:/bin /sandbox\n"
    assert wire.read_all(run.err) == b"err\n"
    items = wire.unpack(os.pread(answer.fds[0], 1 << 20, 0))
    assert sorted(zip(items[::2], items[1::2])) == [
        ((NAME, b"absent\0"), (SKIPPED, b"is not there\0")),
        ((NAME, b"link.txt\0"), (SKIPPED, b"is a symbolic link\0")),
        ((NAME, b"out.txt\0"), (DATA, b"new\n")),
    ]
    with pytest.raises(OSError):
        os.ftruncate(answer.fds[0], 0)  # sealed, as what comes in must be
    assert json.loads(answer.receipt())["network"] == "none"


def test_an_executable_file_runs(launcher):
    run = launcher.run(payload("./tool") + text(NAME, "tool") + item(PROGRAM, b"#!/bin/sh\necho ran\n"))
    assert run.answer().done()["status"] == "success" and run.output() == b"ran\n"


def test_the_launch_has_a_second_witness(launcher):
    content = payload("true")
    answer = launcher.run(content, runtime=1, memory_mb=64).answer()
    (record,) = [json.loads(body) for body in launcher.records()]
    assert record["payload_sha256"] == hashlib.sha256(content).hexdigest() and record["payload_bytes"] == len(content)
    assert record["runtime"] == "python" and record["limits"]["max_memory_mb"] == 64
    assert record["policy_hash"] == json.loads(answer.receipt())["policy_hash"]


def test_a_missing_runtime_is_named(launcher):
    refused(launcher, launcher.run(payload("no-such-interpreter"), runtime=4), "RUNTIME", "'node'", "no-such-interpreter")
    refused(launcher, launcher.run(payload("no-such-program")), "RUNTIME", "no-such-program")


def test_the_start_up_code_is_the_launchers_to_add(launcher):
    """In front of the script, and only where it is asked for: the front does not send it."""
    listing = payload("sh", "-c", "find .glovebox -type f | sort; wc -c < .glovebox/sitecustomize.py", files=[(".glovebox/main.py", b""), (".glovebox/start.txt", b"")])
    run = launcher.run(listing, runtime=1, flags=wire.START_CODE)
    assert run.answer().done()["status"] == "success"
    *names, size = run.output().decode().split()
    assert names[0].startswith(".glovebox/__pycache__/sitecustomize.") and names[1:] == [".glovebox/main.py", ".glovebox/sitecustomize.py", ".glovebox/start.txt"]
    assert int(size) > 1000
    run = launcher.run(payload("sh", "-c", "ls -A"), runtime=1)
    assert run.answer().done()["status"] == "success" and run.output() == b""


def test_the_start_up_code_runs_before_the_script(launcher):
    files = [(".glovebox/main.py", b"print('ran')"), (".glovebox/start.txt", b"R 0 block\nC os.system\n")]
    env = ["PYTHONPATH=/sandbox/.glovebox", "PYTHONUSERBASE=/sandbox/.glovebox"]
    run = launcher.run(payload("python3", "/sandbox/main.py", env=env, files=files), runtime=1, flags=wire.START_CODE)
    assert run.answer().done()["status"] == "success" and run.output() == b"ran\n"
    assert wire.read_all(run.err).startswith(b"\x1eglovebox-screen ")


@pytest.mark.parametrize("runtime", [0, 2, 3, 4])
def test_the_start_up_code_is_for_python_only(launcher, runtime):
    refused(launcher, launcher.run(payload("true"), runtime=runtime, flags=wire.START_CODE), "USAGE", "python only")
    assert launcher.records() == []


def test_a_box_that_nobody_keeps_waiting_is_built(launcher):
    """A key is a wish: the front can name what it likes, and gets what it could have had without."""
    run = launcher.run(payload("sh", "-c", "echo built"), pool=0xDEADBEEF)
    assert run.answer().done()["status"] == "success" and run.output() == b"built\n"


def test_pools_can_be_asked_for_at_any_time(launcher):
    for wants in ([], [wire.want(1), wire.want(2, 1, program=b"python3", preload=b"json")], [wire.want(i + 1, i % 3) for i in range(wire.POOLS)], []):
        wire.send(launcher.control, message("POOLS", wire.pools(*wants)))
        works(launcher)


def test_a_pool_above_the_ceiling_is_left_out(launcher):
    wire.send(launcher.control, message("POOLS", wire.pools(wire.want(1, memory_mb=257), wire.want(2))))
    works(launcher)
    launcher.control.shutdown(socket.SHUT_WR)
    launcher.wait()
    assert "max_memory_mb" in (log := launcher.process.stderr.read().decode()) and "above the ceiling" in log, log


@pytest.mark.parametrize("body", [wire.pools(count=wire.POOLS + 1), wire.pools(count=1), wire.pools(wire.want(kind=3)), wire.pools(wire.want(low=3)), wire.pools(wire.want(program=b"x" * 256)), wire.pools()[:-1]])
def test_pools_that_are_none_end_it(launcher, body):
    """Not the supervisor's any more, or a broken one."""
    wire.send(launcher.control, message("POOLS", body))
    assert launcher.wait() == 1


def test_a_probe_runs_nothing_of_the_fronts_and_leaves_no_record(launcher):
    run = launcher.run(payload("sh", "-c", "echo mine"), id="", flags=wire.PROBE, memory_mb=-1)
    assert run.answer().done()["status"] == "success" and run.output() == b""
    assert launcher.records() == []


def test_a_probe_needs_no_place(parent):
    with wire.Launcher(BUILD, parent=parent, running=1) as launcher:
        run, _ = sleeper(launcher)
        assert launcher.run(b"", flags=wire.PROBE).answer().done()["status"] == "success"
        run.close()


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_a_front_that_wants_no_more_ends_the_run(launcher, how):
    run, marker = sleeper(launcher)
    if how == "close":
        run.socket.close()
    else:
        run.socket.shutdown(socket.SHUT_WR)
        assert run.answer().done()["kill_reason"] == "cancelled"
    wait_for(lambda: not pids_of(marker))


def test_a_box_cannot_fill_the_front_more_than_a_pipe_holds(launcher):
    """Nobody reads: the program waits in its write, its deadline ends it, and the answer comes all the same."""
    run = launcher.run(payload("sh", "-c", "yes"), timeout_ms=500)
    assert run.answer().done()["status"] == "timeout"
    run.close()


# --- what it may not ---


@pytest.mark.parametrize("name", wire.LIMITS)
@pytest.mark.parametrize("value", ["above", -1, -(1 << 63), (1 << 63) - 1])
def test_a_limit_outside_the_ceiling_is_refused_by_name(launcher, name, value):
    row = next(line for line in (wire.SRC / "spec/limits.def").read_text().splitlines() if line.startswith(f"GB_LIMIT({name},"))
    changes = {name: wire.DEFAULTS[name] + 1 if value == "above" else value}
    refused(launcher, launcher.run(payload("true"), **changes), "USAGE", row.split('"')[1])
    assert launcher.records() == []


def test_the_ceiling_itself_is_allowed_and_can_be_lowered(launcher, parent):
    assert launcher.run(payload("true"), **wire.DEFAULTS).answer().done()["status"] == "success"
    wire.send(launcher.control, message("CEILING", wire.ceiling(parent=parent, memory_mb=100)))
    wait_for(lambda: launcher.run(payload("true"), memory_mb=101).answer().kind == "RUN_FAILED")
    assert launcher.run(payload("true"), memory_mb=100).answer().done()["status"] == "success"
    wire.send(launcher.control, message("CEILING", wire.ceiling(parent=parent)))
    wait_for(lambda: launcher.run(payload("true")).answer().kind == "RUN_DONE")


def test_no_more_boxes_than_the_ceiling(parent):
    with wire.Launcher(BUILD, parent=parent, running=2) as launcher:
        runs = [sleeper(launcher)[0] for _ in range(2)]
        refused(launcher, launcher.run(payload("true")), "BUSY", "2 boxes")
        waiting = launcher.run(payload("true"))  # a place that becomes free is taken at once
        runs.pop().close()
        assert waiting.answer().done()["status"] == "success"
        runs.pop().close()


def test_many_runs_one_after_the_other_in_one_place(parent):
    """The front sends the next one as soon as it has the answer: a moment before the launcher has seen the end of the last."""
    with wire.Launcher(BUILD, parent=parent, running=1) as launcher:
        for _ in range(30):
            run = launcher.run(payload("true"))
            assert run.answer().done()["status"] == "success"
            run.close()


def test_output_that_is_followed_is_handed_out_before_the_end(launcher):
    run = launcher.run(payload("sh", "-c", "echo first; read line"), flags=wire.FOLLOWED, stdin=b"")
    assert run.has_output() and os.read(run.out, 6) == b"first\n"
    run.close()


@pytest.mark.parametrize("flags", [0, wire.FOLLOWED])
@pytest.mark.parametrize("count", [0, 1, 40_000, 1_000_000])
def test_output_is_all_there_however_much_it_is(launcher, flags, count):
    """Most of it is read when the program has ended; what does not fit into a pipe, before."""
    run = launcher.run(payload("sh", "-c", f"head -c {count} /dev/zero; head -c {count} /dev/zero >&2"), flags=flags)
    assert run.has_output()
    errors = []
    reader = threading.Thread(target=lambda: errors.append(wire.read_all(run.err)))
    reader.start()
    out = wire.read_all(run.out)
    reader.join(60)
    assert run.answer().done()["status"] == "success"
    assert (len(out), len(errors[0])) == (count, count)


@pytest.mark.parametrize("body,word", [({"flags": 8}, "flags"), ({"flags": 1 << 31}, "flags"), ({"runtime": 99}, "runtime"), ({"id": "x"}, "id"), ({"id": ""}, "id"), ({"id": "../" + wire.ID[3:]}, "id")])
def test_what_is_not_known_is_refused(launcher, body, word):
    refused(launcher, launcher.run(payload("true"), **body), "USAGE", word)


BAD_PAYLOADS = {
    "nothing at all": b"",
    "no program": text(ENV, "A=b"),
    "an empty program": text(ARG, ""),
    "an absolute file": payload("true", files=[("/etc/cron.d/x", b"")]),
    "a file above": payload("true", files=[("../x", b"")]),
    "a file above, hidden": payload("true", files=[("a/../../x", b"")]),
    "a file without a name": payload("true", files=[("", b"")]),
    "a name too long": payload("true", files=[("x" * 256, b"")]),
    "two files of one name": payload("true", files=[("x", b""), ("x", b"")]),
    "a name without bytes": payload("true") + text(NAME, "x"),
    "a name, then something else": payload("true") + text(NAME, "x") + text(ARG, "y"),
    "bytes without a name": payload("true") + item(DATA, b"x"),
    "a file that was skipped": payload("true") + text(NAME, "x") + text(SKIPPED, "why"),
    "an absolute output": payload("true", outputs=["/etc/shadow"]),
    "an output above": payload("true", outputs=["../*"]),
    "a variable without a value": payload("true", env=["A"]),
    "a variable without a name": payload("true", env=["=x"]),
    "a variable with a digit first": payload("true", env=["1A=x"]),
    "a variable with a dash": payload("true", env=["A-B=x"]),
    "text without an end": item(ARG, b"true"),
    "text with two ends": item(ARG, b"tr\0ue\0"),
    "text of no bytes": item(ARG, b""),
    "kind 0": payload("true") + item(0, b"x\0"),
    "kind 99": payload("true") + item(99, b"x\0"),
    "a head that is cut off": payload("true") + b"\1\0\0",
    "an item longer than the payload": payload("true") + b"\1\0\0\0\xff\xff\xff\xff",
    "too many arguments": payload(*["true"] * 1025),
    "too many files": payload("true", files=[(f"f{i}", b"") for i in range(257)]),
}


@pytest.mark.parametrize("name", BAD_PAYLOADS)
def test_a_bad_payload_runs_nothing(launcher, name):
    refused(launcher, launcher.run(BAD_PAYLOADS[name]), "USAGE")


@pytest.mark.parametrize("seals", [0, *[wire.SEALS & ~bit for bit in (1, 2, 4, 8)]])
def test_a_payload_that_could_change_is_refused(launcher, seals):
    refused(launcher, launcher.run(payload("true"), seals=seals), "USAGE", "sealed")


@pytest.mark.parametrize("bytes", [0, 1, 1 << 40, (1 << 64) - 1])
def test_a_payload_of_another_size_is_refused(launcher, bytes):
    refused(launcher, launcher.run(payload("true"), bytes=bytes), "USAGE", "payload")


def send_run(launcher, payload_fd, *more, size=None, **body):
    """A RUN with descriptors of our choice."""
    size = len(payload("true")) if size is None else size
    return wire.Run(launcher.run_raw(message("RUN", run_body(size, **body)), [payload_fd, *more]))


def test_a_payload_that_is_no_memfd_is_refused(launcher, tmp_path):
    path = tmp_path / "payload"
    path.write_bytes(payload("true"))
    read, write = os.pipe()
    with open(path, "rb") as file:
        refused(launcher, send_run(launcher, file.fileno()), "USAGE", "memfd")
    refused(launcher, send_run(launcher, read), "USAGE", "memfd")
    for fd in (read, write):
        os.close(fd)


def test_input_is_a_file_in_memory_only(launcher):
    """A read of anything else could wait, and nobody would look at the box's clock."""
    read, write = os.pipe()
    good = memfd(payload("cat"))
    refused(launcher, send_run(launcher, good, read, size=len(payload("cat"))), "USAGE", "memfd")
    for fd in (read, write, good):
        os.close(fd)


# --- no box before its record ---


@pytest.fixture
def slow_store(parent):
    """A launcher whose records are answered by the test."""
    with wire.Launcher(BUILD, parent=parent, by_hand=True) as launcher:
        yield launcher


def ask(launcher, *words, **body):
    """A run that tells when its program has started, and the record that the launcher has sent for it."""
    run = launcher.run(payload("sh", "-c", "echo started", *words), **body)
    record = launcher.record()
    assert record.kind == "APPEND"
    return run, record


def has_started(run, seconds=0.3):
    """Has anything been heard of it?"""
    return bool(select.select([run.socket], [], [], seconds)[0])


def test_a_box_waits_for_its_record(slow_store):
    run, record = ask(slow_store)
    assert not has_started(run, 1) and keepers(slow_store) == []
    slow_store.store.send(wire.ack(record.tag))
    assert run.answer().done()["status"] == "success" and run.output() == b"started\n"


def test_a_record_that_cannot_be_written_refuses_the_run(slow_store):
    run, record = ask(slow_store)
    slow_store.store.send(wire.ack(record.tag, "AUDIT", "the disk is full"))
    refused(slow_store, run, "AUDIT", "not recorded", "the disk is full")
    run, record = ask(slow_store)
    slow_store.store.send(wire.ack(record.tag, "INTERNAL", "whatever"))  # to the caller it is the same
    refused(slow_store, run, "AUDIT", "whatever")
    run, record = ask(slow_store)
    slow_store.store.send(wire.ack(record.tag))
    assert run.answer().done()["status"] == "success"


def test_a_store_that_does_not_answer_refuses_the_run(slow_store):
    run, record = ask(slow_store)
    begun = time.monotonic()
    assert slow_store.run(b"", flags=wire.PROBE).answer().done()["status"] == "success"  # which needs no record
    answer = run.answer()
    assert answer.failure()[0] == "AUDIT" and "does not answer" in answer.failure()[2]
    assert time.monotonic() - begun > 4
    # Its answer was late, and is not taken for another's.
    other, second = ask(slow_store)
    slow_store.store.send(wire.ack(record.tag))
    assert not has_started(other) and run.output() == b""
    slow_store.store.send(wire.ack(second.tag))
    assert other.answer().done()["status"] == "success"


def test_who_hangs_up_before_the_record_is_written_gets_no_box(slow_store):
    run, record = ask(slow_store)
    run.socket.close()
    slow_store.store.send(wire.ack(record.tag))
    wait_for(lambda: keepers(slow_store) == [])
    run, record = ask(slow_store)
    run.socket.shutdown(socket.SHUT_WR)  # a cancelled run is answered
    slow_store.store.send(wire.ack(record.tag))
    assert run.answer().done()["kill_reason"] == "cancelled"


def test_runs_that_wait_for_their_records_have_places(parent):
    with wire.Launcher(BUILD, parent=parent, by_hand=True, running=2) as launcher:
        waiting = [ask(launcher) for _ in range(2)]
        refused(launcher, launcher.run(payload("true")), "BUSY", "2 boxes")
        for run, record in waiting:
            launcher.store.send(wire.ack(record.tag))
            assert run.answer().done()["status"] == "success"


def test_more_records_than_the_launcher_waits_for(parent):
    most = int(re.search(r"define GB_WITNESS_RUNS (\d+)", (wire.SRC / "launch/witness.h").read_text())[1])
    with wire.Launcher(BUILD, parent=parent, by_hand=True, running=most + 10) as launcher:
        waiting = [ask(launcher) for _ in range(most)]
        refused(launcher, launcher.run(payload("true")), "AUDIT", "does not answer")
        assert len({record.tag for _, record in waiting}) == most
        for run, record in waiting:
            launcher.store.send(wire.ack(record.tag, "AUDIT", "full"))
            refused(launcher, run, "AUDIT", "full")
        run, record = ask(launcher)
        launcher.store.send(wire.ack(record.tag))
        assert run.answer().done()["status"] == "success"


def test_a_new_ceiling_does_not_change_a_run_that_is_recorded(slow_store, parent):
    run, record = ask(slow_store, memory_mb=100)
    wire.send(slow_store.control, message("CEILING", wire.ceiling(parent=parent + "/elsewhere", memory_mb=50)))
    time.sleep(0.2)
    slow_store.store.send(wire.ack(record.tag))
    answer = run.answer()
    assert answer.done()["status"] == "success"
    assert json.loads(record.body[wire.APPEND.size :])["policy_hash"] == json.loads(answer.receipt())["policy_hash"]


def test_stop_waits_for_records(slow_store):
    run, record = ask(slow_store)
    wire.send(slow_store.control, message("STOP", b"\0" * 8))
    time.sleep(0.2)
    slow_store.store.send(wire.ack(record.tag))
    assert run.answer().done()["status"] == "success"
    assert slow_store.wait() == 0


@pytest.mark.parametrize("what", ["a tag to come", "a tag twice", "a tag out of order", "no question", "not an answer"])
def test_an_answer_that_nobody_asked_for_ends_the_launcher(slow_store, what):
    waiting = [ask(slow_store) for _ in range(2)] if what != "no question" else []
    tags = [record.tag for _, record in waiting]
    answers = {
        "a tag to come": lambda: [wire.ack(tags[1] + 1)],
        "a tag twice": lambda: [wire.ack(tags[0]), wire.ack(tags[0])],
        "a tag out of order": lambda: [wire.ack(tags[1])],
        "no question": lambda: [wire.ack(0)],
        "not an answer": lambda: [message("ROW", bytes(120))],
    }[what]()
    for answer in answers:
        slow_store.store.send(answer)
    assert slow_store.wait() == 1
    assert b"no answer" in slow_store.process.stderr.read()
    assert all(run.output() in (b"", b"started\n") for run, _ in waiting[:1]) and all(run.output() == b"" for run, _ in waiting[1:])


@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_without_a_store_nothing_runs(slow_store, when):
    run = ask(slow_store)[0] if when == "while it waits" else None
    slow_store.hang_up()
    refused(slow_store, run or slow_store.run(payload("true")), "AUDIT")
    refused(slow_store, slow_store.run(payload("true")), "AUDIT")
    assert slow_store.run(b"", flags=wire.PROBE).answer().done()["status"] == "success"


# --- boxes that wait, and a front that wants more of them than there is ---

PLAIN_KEY, PYTHON_KEY = 11, 12


@pytest.fixture
def pooled(parent):
    """A launcher with a box of each kind that waits."""
    with wire.Launcher(BUILD, parent=parent) as l:
        wire.send(l.control, message("POOLS", wire.pools(wire.want(PLAIN_KEY, 0), wire.want(PYTHON_KEY, 1, program=b"python3"))))
        wait_for(lambda: served(l, PLAIN_KEY, payload("true")) == "waiting" and served(l, PYTHON_KEY, SCRIPT, runtime=1) == "waiting")
        yield l
        assert l.process.poll() is None
        works(l)


SCRIPT = payload("python3", "/sandbox/main.py", files=[("main.py", b"print('ran')")])


def served(launcher, key, content, **body):
    """Where its box came from. Its output is read."""
    run = launcher.run(content, pool=key, **body)
    run.output()
    start = json.loads(run.answer().receipt())["start"]
    run.close()
    return start


def test_a_waiting_box_gives_all_that_a_new_one_does(pooled):
    for key in (PLAIN_KEY, 0, 99):
        content = payload("sh", "-c", "cat; cat dir/in; echo $A; echo new > out; exit 3", env=["A=b c"], files=[("dir/in", b"file\n")], outputs=["out"])
        run = pooled.run(content, stdin=b"input\n", pool=key)
        assert run.output() == b"input\nfile\nb c\n"
        answer = run.answer()
        assert answer.done() == {"status": "error", "exit_code": 3, "signal": 0, "files": 1, "kill_reason": ""} and answer.tag == 7
        run.close()


@pytest.mark.parametrize("words", [("sh", "-c", "echo ran"), ("/bin/echo", "ran"), ("python3", "-c", "print('ran')"), ("no-such-program",)])
def test_what_is_no_script_in_a_box_for_scripts(pooled, words):
    """A captured front can have run there what it could have had run anywhere, or nothing; the next call is served."""
    run = pooled.run(payload(*words), pool=PYTHON_KEY, runtime=1)
    said = run.output()
    answer = run.answer()
    assert said in (b"ran\n", b""), said
    assert answer.kind in ("RUN_DONE", "RUN_FAILED")
    run.close()
    assert served(pooled, PYTHON_KEY, SCRIPT, runtime=1) in ("waiting", "built", "cold")


def test_a_script_in_a_box_for_anything(pooled):
    run = pooled.run(SCRIPT, pool=PLAIN_KEY, runtime=1)
    assert run.output() == b"ran\n" and run.answer().done()["status"] == "success"


@pytest.mark.parametrize("key", [PLAIN_KEY, PYTHON_KEY, 99])
def test_the_start_up_code_of_whatever_box(pooled, key):
    """It runs before the script, wherever that runs: blocked there is blocked here. Without its rules there is no script."""
    env = ["PYTHONPATH=/sandbox/.glovebox", "PYTHONUSERBASE=/sandbox/.glovebox"]
    files = [(".glovebox/main.py", b"import os\nprint('ran')\nos.system('true')"), (".glovebox/start.txt", b"R 0 block\nC os.system\n")]
    run = pooled.run(payload("python3", "/sandbox/main.py", env=env, files=files), pool=key, runtime=1, flags=wire.START_CODE)
    assert run.output() == b""
    assert wire.read_all(run.err).startswith(b"\x1eglovebox-screen ") and run.answer().done()["status"] == "error"
    refused(pooled, pooled.run(payload("true"), pool=key, runtime=2, flags=wire.START_CODE), "USAGE", "python only")


@pytest.mark.parametrize("key", [PLAIN_KEY, PYTHON_KEY, 99])
@pytest.mark.parametrize("missing", [0, 1])
def test_without_script_or_rules_nothing_runs(pooled, key, missing):
    env = ["PYTHONPATH=/sandbox/.glovebox", "PYTHONUSERBASE=/sandbox/.glovebox"]
    files = [(".glovebox/main.py", b"print('ran')"), (".glovebox/start.txt", b"R 0 block\nC os.system\n")]
    del files[missing]
    run = pooled.run(payload("python3", "/sandbox/main.py", env=env, files=files), pool=key, runtime=1, flags=wire.START_CODE)
    run.answer()
    assert run.output() == b""


@pytest.mark.parametrize("key", [PLAIN_KEY, PYTHON_KEY])
def test_files_of_that_name_are_files_where_nobody_screens(pooled, key):
    files = [("main.py", b"import os\nprint(sorted(os.listdir('.glovebox')))"), (".glovebox/main.py", b""), (".glovebox/start.txt", b"")]
    run = pooled.run(payload("python3", "/sandbox/main.py", files=files), pool=key, runtime=1)
    assert run.answer().done()["status"] == "success" and run.output() == b"['main.py', 'start.txt']\n"


@pytest.mark.parametrize("key", [PLAIN_KEY, PYTHON_KEY])
def test_a_bad_payload_runs_nothing_in_a_waiting_box(pooled, key):
    for content in BAD_PAYLOADS.values():
        refused(pooled, pooled.run(content, pool=key, runtime=1), "USAGE")
    for seals in [0, *[wire.SEALS & ~bit for bit in (1, 2, 4, 8)]]:
        refused(pooled, pooled.run(payload("true"), seals=seals, pool=key), "USAGE", "sealed")


def test_a_waiting_box_has_no_limits_but_its_own(pooled):
    """Who asks for others gets others, within the ceiling; and a waiting box is no way around that."""
    assert served(pooled, PLAIN_KEY, payload("true"), memory_mb=100) == "built"
    for name in wire.LIMITS:
        refused(pooled, pooled.run(payload("true"), pool=PLAIN_KEY, **{name: wire.DEFAULTS[name] + 1}), "USAGE")


def test_no_more_boxes_than_the_ceiling_with_pools(pooled):
    runs = [sleeper(pooled, pool=PLAIN_KEY)[0] for _ in range(2)]
    for key in (PLAIN_KEY, PYTHON_KEY, 0):
        refused(pooled, pooled.run(SCRIPT, pool=key, runtime=1), "BUSY", "2 boxes")
    for run in runs:
        run.close()
    wait_for(lambda: served(pooled, PLAIN_KEY, payload("true")) == "waiting")


def test_a_waiting_box_gets_no_call_before_its_record(parent):
    with wire.Launcher(BUILD, parent=parent, by_hand=True) as launcher:
        wire.send(launcher.control, message("POOLS", wire.pools(wire.want(PLAIN_KEY, 0))))
        wait_for(lambda: [pid for pid in keepers(launcher) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "gb-waits-plain\n"])
        run, record = ask(launcher, pool=PLAIN_KEY)
        assert not has_started(run, 1)
        launcher.store.send(wire.ack(record.tag))
        answer = run.answer()
        assert json.loads(answer.receipt())["start"] == "waiting" and run.output() == b"started\n"
        assert json.loads(record.body[wire.APPEND.size :])["policy_hash"] == json.loads(answer.receipt())["policy_hash"]
        run, record = ask(launcher, pool=PLAIN_KEY)
        launcher.store.send(wire.ack(record.tag, "AUDIT", "full"))
        refused(launcher, run, "AUDIT", "full")


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_a_front_that_wants_no_more_ends_a_waiting_boxes_run(pooled, how):
    run, marker = sleeper(pooled, pool=PLAIN_KEY)
    if how == "close":
        run.socket.close()
    else:
        run.socket.shutdown(socket.SHUT_WR)
        assert run.answer().done()["kill_reason"] == "cancelled"
    wait_for(lambda: not pids_of(marker))
    wait_for(lambda: served(pooled, PLAIN_KEY, payload("true")) == "waiting")


def test_a_keeper_that_waits_holds_little(pooled):
    """No channel of the launcher's but its own, nothing of a call."""
    if MODE == "user":
        return
    wait_for(lambda: [pid for pid in keepers(pooled) if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("gb-waits-")])
    channels = {name for fd, name in descriptors(pooled.process.pid) if fd > 2}
    front = {f"socket:[{os.fstat(pooled.front.fileno()).st_ino}]", f"socket:[{os.fstat(pooled.store.fileno()).st_ino}]"}
    for pid in keepers(pooled):
        if not pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("gb-waits-"):
            continue
        names = [name for _, name in descriptors(pid)]
        assert sum(name.startswith("/memfd:payload") for name in names) <= 1, names  # the start-up code
        assert not front & set(names)
        # It shares with the launcher: the zygote's socket, the start-up code, stdio.
        assert len([n for n in channels & set(names) if n.startswith("socket:")]) <= 1, channels & set(names)


# --- what is no message ends the launcher, and everything with it ---

RUN = message("RUN", run_body(len(payload("true"))))


def malformed(launcher, name):
    _, out = os.pipe()
    good = [memfd(payload("true"))]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fds = [theirs.fileno(), *good]
    data, fds = {
        "one byte": (b"x", []),
        "garbage": (os.urandom(400), []),
        "garbage with descriptors": (os.urandom(400), fds),
        "another magic": (message("RUN", run_body(20), magic=1), fds),
        "an unknown kind": (message(len(wire.KINDS), run_body(20)), fds),
        "a huge kind": (message(0xFFFFFFFF, run_body(20)), fds),
        "a body cut short": (RUN[:-1], fds),
        "a header alone": (RUN[:16], fds),
        "a body too long": (RUN + b"x", fds),
        "a tail where none belongs": (RUN + b"x" * 100000, fds),
        "no descriptors": (RUN, []),
        "a socket alone": (RUN, fds[:1]),
        "a place for output": (RUN, [*fds, out, out]),
        "more descriptors than any message": (RUN, [out] * 40),
        "an id without an end": (message("RUN", b"x" * 32 + run_body(20)[32:]), fds),
        "a message of the supervisor": (message("STOP", b"\0" * 8), []),
        "a new ceiling": (message("CEILING", wire.ceiling(memory_mb=1 << 20)), []),
        "a start": (message("START_LAUNCH", wire.ceiling()), fds[:2]),
        "a call for a keeper": (message("SERVE", run_body(len(payload("true"))) + wire.ceiling() + bytes(8)), fds),
        "pools": (message("POOLS", wire.pools(wire.want())), []),
        "an acknowledgement": (message("ACK", b"\0" * 528), []),
        "a run without a socket": (RUN, [out, *good]),
        "a run with a stream socket": (RUN, [socket.socketpair()[0].detach(), *good]),
    }[name]
    wire.send(launcher.front, data, fds)
    return ours, theirs


@pytest.mark.parametrize(
    "name",
    ["one byte", "garbage", "garbage with descriptors", "another magic", "an unknown kind", "a huge kind", "a body cut short", "a header alone", "a body too long",
     "a tail where none belongs", "no descriptors", "a socket alone", "a place for output", "more descriptors than any message", "an id without an end",
     "a message of the supervisor", "a new ceiling", "a start", "a call for a keeper", "pools", "an acknowledgement", "a run without a socket", "a run with a stream socket"])
def test_a_malformed_message_ends_the_launcher_and_its_boxes(parent, name):
    with wire.Launcher(BUILD, parent=parent) as launcher:
        works(launcher)
        _, marker = sleeper(launcher)
        malformed(launcher, name)
        assert launcher.wait() == 1
        assert b'"level":"error"' in launcher.process.stderr.read()
        wait_for(lambda: not pids_of(marker))
    with wire.Launcher(BUILD, parent=parent):
        wait_for(lambda: not boxes(parent))


# --- life and death ---


def test_stop_lets_runs_finish_and_takes_no_new_ones(parent):
    with wire.Launcher(BUILD, parent=parent) as launcher:
        run = launcher.run(payload("sh", "-c", "echo started; sleep 1; echo ended"))
        assert os.read(run.out, 64) == b"started\n"
        wire.send(launcher.control, message("STOP", b"\0" * 8))
        assert run.answer().done()["status"] == "success" and run.output() == b"ended\n"
        assert launcher.wait() == 0
    assert boxes(parent) == []


@pytest.mark.parametrize("how", ["killed", "supervisor gone"])
def test_the_launchers_end_is_the_end_of_every_box(parent, how):
    with wire.Launcher(BUILD, parent=parent, running=4) as launcher:
        markers = [sleeper(launcher)[1] for _ in range(3)]
        if how == "killed":
            launcher.process.kill()
        else:
            launcher.control.close()
        launcher.wait()
        wait_for(lambda: not [pid for marker in markers for pid in pids_of(marker)])
    with wire.Launcher(BUILD, parent=parent) as launcher:  # and the next one cleans up
        wait_for(lambda: not boxes(parent))
        works(launcher)


def keepers(launcher):
    return [int(pid) for pid in pathlib.Path(f"/proc/{launcher.process.pid}/task/{launcher.process.pid}/children").read_text().split()]


def test_a_killed_keeper_takes_its_box_along_and_nothing_else(parent):
    with wire.Launcher(BUILD, parent=parent) as launcher:
        run, marker = sleeper(launcher)
        other, _ = sleeper(launcher)
        os.kill(keepers(launcher)[0], signal.SIGKILL)
        assert run.answer() is None  # the socket's end tells the front
        wait_for(lambda: not pids_of(marker) and len(boxes(parent)) == len(CONTROLLERS))
        works(launcher)
        wait_for(lambda: len(keepers(launcher)) == 1)
        other.close()


def descriptors(pid):
    """(number, what it is); one that is closed while we look is none."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield int(fd), os.readlink(f"/proc/{pid}/fd/{fd}")


def test_a_keeper_holds_its_own_descriptors_only(launcher):
    other, _ = sleeper(launcher)
    run, _ = sleeper(launcher)
    if MODE != "user":
        names = [link for _, link in descriptors(keepers(launcher)[-1])]
        assert sum(name.startswith("/memfd:payload") for name in names) == 1
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in (other.out, other.err)}
        assert not ours & set(names)  # nothing of the other run
        channels = {link for fd, link in descriptors(launcher.process.pid) if fd > 2}
        bell = {"anon_inode:[eventfd]"}  # they all look alike; the keeper has one that tells of memory
        assert not (channels - bell) & set(names) and sum(name in bell for name in names) <= 1  # nothing of the launcher's
    run.close()
    other.close()


def test_the_launcher_is_confined(launcher):
    assert confined.missing(launcher.process.pid, "launch", MODE == "root") == []


def test_a_box_of_the_service_is_as_tight_as_any(launcher):
    """The launcher's own filter lies below the box's: no verdict of a probe may differ from that of `glovebox run`."""
    program = (BUILD / "glovebox-probe").read_bytes()
    run = launcher.run(payload("/sandbox/glovebox-probe", "all") + text(NAME, "glovebox-probe") + item(PROGRAM, program))
    ours = run.output().decode()
    assert run.answer().done()["status"] == "success"
    plain = subprocess.run([BUILD / "glovebox", "run", "--file", BUILD / "glovebox-probe", "--", "/sandbox/glovebox-probe", "all"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    verdicts = [[line.split("\t")[:2] for line in output.splitlines()] for output in (ours, plain)]
    assert verdicts[0] == verdicts[1] and len(verdicts[0]) > 40


# --- what it is made of ---

PARSERS = ("json_load", "json_object", "yaml_", "pcre2_", "sqlite3_", "SSL_", "EVP_", "regcomp", "regexec", "gb_http", "gb_json_read", "gb_config", "inflate", "getaddrinfo", "dlopen")


def symbols(program):
    """Every function that is in the program or that it asks a library for."""
    plain = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True).stdout
    dynamic = subprocess.run(["nm", "-D", program], capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in (plain + dynamic).splitlines() if line}


def parsers(program):
    return {prefix for prefix in PARSERS if any(name.startswith(prefix) for name in symbols(program))}


def test_the_launcher_links_no_parser():
    assert len(symbols(BUILD / "glovebox-launch")) > 100
    assert parsers(BUILD / "glovebox-launch") <= {"dlopen"} and parsers(BUILD / "glovebox-init") == set()
    libraries = subprocess.run(["readelf", "-d", BUILD / "glovebox-launch"], capture_output=True, text=True).stdout
    assert not [name for name in ("jansson", "yaml", "pcre", "sqlite", "ssl", "crypto") if f"lib{name}" in libraries]


def test_the_check_would_see_one():
    assert {"json_object", "pcre2_", "SSL_"} <= parsers(BUILD / "glovebox-front")
    assert "sqlite3_" in parsers(BUILD / "glovebox-store")
