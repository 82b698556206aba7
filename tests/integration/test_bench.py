"""What `make bench` counts is what happened: its generators see every failure, its goals follow from its figures, and it finds the boxes that wait."""

import array
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import goals  # noqa: E402
import measure  # noqa: E402
import plot  # noqa: E402
import proc  # noqa: E402
import report  # noqa: E402

pytestmark = pytest.mark.rootonly

GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer"


class Server:
    """Answers each request of each connection with the next of the given bytes, the last for ever; None closes. Notes when connections and requests came."""

    def __init__(self, *replies, parts=1, family=socket.AF_INET, address=("127.0.0.1", 0)):
        self.replies, self.parts, self.events, self.lock = list(replies), parts, [], threading.Lock()
        self.listener = socket.socket(family)
        self.listener.bind(address)
        self.listener.listen(256)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            connection = self.listener.accept()[0]
            self.events.append("connection")
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            while connection.recv(65536):
                with self.lock:
                    self.events.append("request")
                    reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                if reply is None:
                    return
                step = -(-len(reply) // self.parts)
                for at in range(0, len(reply), step):
                    connection.sendall(reply[at : at + step])
                    time.sleep(0.002 if self.parts > 1 else 0)


def run(gb, name, *words, code=0):
    done = subprocess.run([str(gb.build / name), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done
    return json.loads(done.stdout), done.stderr


# --- bench-load ---


def test_load_counts_requests_on_kept_connections(gb, tmp_path):
    server = Server(GOOD)
    told, _ = run(gb, "bench-load", "-c", 3, "-n", 100, "-b", "{}", "-e", "answer", "-o", tmp_path / "times", server.address, "/x")
    assert (told["runs"], told["counted"], told["failed"]) == (100, 100, 0)
    assert server.events.count("connection") == 3 and server.events.count("request") == 100
    times = array.array("I", (tmp_path / "times").read_bytes())
    assert len(times) == 100 and max(times) == pytest.approx(told["max_ms"] * 1000, abs=1)


def test_load_puts_replies_together_that_come_in_pieces(gb):
    told, _ = run(gb, "bench-load", "-n", 5, "-e", "answer", Server(GOOD, parts=4).address, "/x")
    assert (told["runs"], told["failed"]) == (5, 0)


@pytest.mark.parametrize(
    "bad, why",
    [
        (GOOD.replace(b"200 OK", b"503 No"), "not 200"),
        (GOOD.replace(b"answer", b"excuse"), "not what was expected"),
        (None, "the connection ended"),
    ],
)
def test_load_sees_a_failure_and_goes_on(gb, bad, why):
    told, err = run(gb, "bench-load", "-n", 10, "-e", "answer", Server(GOOD, GOOD, bad, GOOD).address, "/x", code=1)
    assert (told["runs"], told["counted"], told["failed"]) == (10, 9, 1)
    assert err.startswith(f"first failure: {why}")


def test_load_opens_all_connections_of_a_burst_first(gb):
    server = Server(GOOD)
    told, _ = run(gb, "bench-load", "-c", 50, "-B", "-e", "answer", server.address, "/x")
    assert (told["runs"], told["failed"]) == (50, 0)
    assert server.events == ["connection"] * 50 + ["request"] * 50


def test_load_over_a_unix_socket(gb, tmp_path):
    Server(GOOD, family=socket.AF_UNIX, address=str(tmp_path / "s"))
    assert run(gb, "bench-load", "-n", 3, "-e", "answer", f"unix:{tmp_path}/s", "/x")[0]["runs"] == 3


def test_load_pauses(gb):
    told, _ = run(gb, "bench-load", "-p", 50, "-t", 400, "-e", "answer", Server(GOOD).address, "/x")
    assert 2 <= told["runs"] <= 8


@pytest.mark.parametrize("words", [(), ("-c", "0", "127.0.0.1:1", "/"), ("somewhere", "/"), ("-r", "10", "-t", "10", "127.0.0.1:1", "/")])
def test_load_refuses_what_it_does_not_understand(gb, words):
    done = subprocess.run([str(gb.build / "bench-load"), *words], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and done.stderr and not done.stdout


# --- bench-spawn ---


def test_spawn_runs_as_often_as_asked_each_with_its_name(gb, tmp_path):
    told, _ = run(gb, "bench-spawn", "-c", 4, "-n", 40, "-e", "hi\n", "--", "/bin/sh", "-c", f"echo x >{tmp_path}/{{}}; echo hi")
    assert (told["runs"], told["counted"], told["failed"]) == (40, 40, 0)
    assert len(list(tmp_path.iterdir())) == 40


@pytest.mark.parametrize("script, why", [("echo hi; exit 3", "exit code 3"), ("echo ho", "exit code 0, output: ho"), ("echo hi; kill -9 $$", "wait status 9")])
def test_spawn_sees_failures(gb, script, why):
    told, err = run(gb, "bench-spawn", "-c", 2, "-n", 6, "-e", "hi\n", "--", "/bin/sh", "-c", script, code=1)
    assert (told["runs"], told["counted"], told["failed"]) == (6, 0, 6)
    assert err.startswith(f"first failure: {why}") and err.count("first failure") == 1


def test_spawn_burst_is_one_run_each_measured_from_one_start(gb):
    told, _ = run(gb, "bench-spawn", "-c", 20, "-B", "--", "/bin/true")
    assert told["runs"] == 20 and told["max_ms"] == pytest.approx(told["seconds"] * 1000, abs=1)


def test_spawn_ramp_leaves_out_the_beginning(gb):
    told, _ = run(gb, "bench-spawn", "-t", 400, "-r", 200, "--", "/bin/true")
    assert 0 < told["counted"] < told["runs"] and told["seconds"] == pytest.approx(0.2)


def test_spawn_stops_when_told_and_lets_runs_finish(gb, tmp_path):
    process = subprocess.Popen(
        [str(gb.build / "bench-spawn"), "-c", "2", "--", "/bin/sh", "-c", f"echo begun >>{tmp_path}/log; sleep 0.2; echo done >>{tmp_path}/log"], stdout=subprocess.PIPE
    )
    while not (tmp_path / "log").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    lines = (tmp_path / "log").read_text().split()
    assert lines.count("begun") == lines.count("done") == json.loads(out)["runs"]


# --- the boxes that wait ---

ZYGOTE = """
import subprocess, time
with open("/proc/self/comm", "w") as f: f.write("glovebox-zygote")
for i in range(2): subprocess.Popen(["unshare", "--pid", "--fork", "/bin/sh", "-c", "sleep 60; :"])
print("ready", flush=True)
time.sleep(60)
"""


def test_boxes_that_wait_are_found(gb):
    with subprocess.Popen([sys.executable, "-c", ZYGOTE], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            end = time.monotonic() + 20
            while len(sum((pids for _, pids in proc.waiting_boxes(os.getpid())), [])) < 4:  # a shell and its sleep, twice
                assert time.monotonic() < end, proc.waiting_boxes(os.getpid())
                time.sleep(0.02)
            boxes = proc.waiting_boxes(os.getpid())
            assert [kind for kind, _ in boxes] == ["plain", "plain"]
            assert all(proc.pss_kib(pid) > 0 and proc.descriptors(pid) > 0 for _, pids in boxes for pid in pids)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


# --- what is made of the figures ---


def row(p50, rate, failed=0):
    return {"runs": 100, "counted": 100, "failed": failed, "rate": rate, "seconds": 1.0, "p50_ms": p50, "p99_ms": 2 * p50, "cpu_ms": 1.0, "why": "it broke" if failed else None}


def results(http_ms=1.0, failed=0):
    cells = {"bare": row(12, 140), "docker": row(290, 5), "glovebox HTTP": row(http_ms, 1000 / http_ms, failed)}
    return {
        "machine": {"date": "2026-01-01", "kernel": "6", "cpus": 2, "cpu": "x", "memory_mib": 1, "cgroup": "v1", "uid": 0, "busy_before": 0.0},
        "subjects": {name: ["what", "version"] for name in cells},
        "programs": {"python": "python `print(2+2)`"},
        "quick": False,
        "skipped": [["runsc", "not installed"]],
        "calls": {"python": {"1": cells, "8": cells}},
    }


def verdicts(r):
    return {g["goal"]: g["met"] for g in goals.goals(r)}


def test_goals_follow_from_the_figures():
    fast, slow = verdicts(results(1.0)), verdicts(results(20.0))
    for goal in ("p50 ≤ 0.10 × bare `python3 -c`", "p99 ≤ 0.5 × bare `python3 -c`, its p50", "≥ 6 × the calls per second of bare", "≥ 150 × the calls per second of docker"):
        assert (fast[goal], slow[goal]) == (True, False)
    assert fast["≥ 8 × the calls per second of bubblewrap"] is None  # it was not measured


def test_growth_is_seen():
    r = results()
    held = {"own_kib": 30000, "descriptors": 500, "cgroups": 70}
    for key, goal in (("own_kib", "memory"), ("descriptors", "descriptors"), ("cgroups", "cgroups")):
        for more, met in ((0, True), (10000, False)):
            r["growth"] = {"calls": 10000, "wanted": 10000, "failed": 0, "before": held, "after": {**held, key: held[key] + more}, "noise": measure.NOISE}
            assert {m for g, m in verdicts(r).items() if g.startswith(f"no growth in {goal}")} == {met}


@pytest.mark.parametrize("failed, code", [(0, 0), (1, 1)])
def test_a_failed_call_makes_it_fail(tmp_path, failed, code):
    (tmp_path / "r.json").write_text(json.dumps(results(failed=failed)))
    done = subprocess.run([str(BENCH / "run"), "--from", str(tmp_path / "r.json")], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done
    assert ("it broke" in done.stderr) == bool(failed)


def test_pages_name_what_was_skipped_and_the_picture_is_sound():
    r = results()
    r["goals"] = goals.goals(r)
    assert "skipped: runsc" in report.page(r) and "| glovebox HTTP |" in report.page(r)
    picture = xml.etree.ElementTree.fromstring(plot.draw(r))
    texts = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"bare", "docker", "glovebox HTTP", "python print(2+2)"} <= set(texts)
