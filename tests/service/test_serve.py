"""The supervisor: start, stop, reload, death of its children and its own, and what it says to people and to systemd."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import conftest
import pytest
from conftest import CHILDREN, Service, wait_for

SLOW = "import time\nprint('begun', flush=True)\ntime.sleep({})\nprint('done')"


def serve(*args, **kwargs):
    return subprocess.run([Service.program, "serve", *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs)


def fails(s):
    """Starts a service that shall not start; returns its exit code and what it said."""
    s.start(wait=False)
    return s.process.wait(120), s.log()


class Call(threading.Thread):
    """A call that takes a while, made in the background; `running` says when its box is up."""

    def __init__(self, s, seconds):
        super().__init__(daemon=True)
        self.s, self.seconds, self.reply, self.error = s, seconds, None, None
        self.start()

    def run(self):
        try:
            self.reply = self.s.execute(SLOW.format(self.seconds))
        except (OSError, http.client.HTTPException, AssertionError) as e:
            self.error = e

    def wait_running(self):
        self.s.wait_call()

    def result(self):
        self.join(conftest.PATIENCE)
        assert not self.is_alive()
        return self.reply


# --- start and stop ---


def test_start_and_stop(start_service):
    s = start_service()
    assert s.request("GET", "/healthz").status == 200
    assert s.request("GET", "/healthz", unix=True).status == 200
    assert s.execute("print(2 + 2)")["output"] == "4\n"
    assert sorted(s.pids()) == sorted(CHILDREN)
    assert s.stop() == 0
    assert not os.path.exists(s.unix_path)
    with pytest.raises(OSError):
        s.socket()


def test_sigint_stops_too(start_service):
    s = start_service()
    family = s.family()
    s.signal(signal.SIGINT)
    assert s.process.wait(60) == 0
    s.check_gone(family)


def test_the_banner_can_be_pasted(start_service):
    s = start_service()
    assert s.banner().startswith("Glovebox ")
    assert f"http://127.0.0.1:{s.port} and unix:{s.unix_path}" in s.banner()
    line = s.banner().splitlines()[1].removeprefix("Try:  ")
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert '"output":"4\\n"' in done.stdout.replace(" ", ""), done


def test_a_second_service_is_refused(start_service, make_service):
    s = start_service()
    other = make_service({"state_dir": str(s.state_dir)})
    code, said = fails(other)
    assert code == 1
    assert f"process {s.pid}" in said and str(s.state_dir) in said
    assert s.request("GET", "/healthz").status == 200


def test_the_lock_goes_with_its_holder(start_service):
    s = start_service()
    family = s.family()
    s.kill("serve")
    s.process.wait()
    s.start()
    s.wait_healthy()
    assert s.stop() == 0
    s.check_gone(family)


def test_a_port_that_is_taken(make_service):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = fails(make_service({"listen": [f"127.0.0.1:{port}"]}))
    assert code == 1
    assert f"127.0.0.1:{port}" in said and "ss -ltnp" in said and "--listen" in said


def test_an_address_that_is_not_ours(make_service):
    code, said = fails(make_service({"listen": ["192.0.2.1:0"], "keys": [{"name": "a", "sha256": "00" * 32}]}))
    assert code == 1 and "192.0.2.1" in said and "no such address" in said


@pytest.mark.parametrize("config", [{"nonsense": 1}, {"boxes": {"running": 0}}, {"listen": ["0.0.0.0:0"]}, {"listen": ["localhost:1"]}, {"listen": []}])
def test_a_bad_configuration(make_service, config):
    code, said = fails(make_service(config))
    assert code == 125
    assert next(iter(config)) in said


def test_check(make_service):
    s = make_service()
    done = serve("--config", s.config_file, "--check")
    assert done.returncode == 0 and str(s.config_file) in done.stdout, done
    s.configure({"boxes": {"running": "many"}})
    done = serve("--config", s.config_file, "--check")
    assert done.returncode == 125 and "boxes.running" in done.stderr, done


def test_options(gb):
    help = gb("serve", "--help")
    assert help.returncode == 0 and b"--set PATH=VALUE" in help.stdout
    for args in [["--nonsense"], ["extra"], ["--set", "boxes.running"], ["--set", "=4"], ["--set", "nonsense=1"], ["--config", "/nonexistent"]]:
        done = gb("serve", *args)
        assert done.returncode == 125 and done.stderr.startswith(b"glovebox: "), args


def test_flags_go_over_the_file(start_service):
    s = start_service(args=["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--set", "drain_seconds=0.5"])
    assert "unix:" not in s.banner().splitlines()[0]
    assert "[::1]:" in s.banner()
    assert s.stop() == 0
    assert s.log_lines("stopping")[0]["drain_ms"] == 500


def test_listening_on_ipv6(start_service):
    s = start_service({"listen": ["[::1]:0"]})
    assert s.host == "::1"
    assert s.execute("print(1)")["success"]


def test_directories_and_their_modes(start_service, gb):
    s = start_service()
    state, audit, run = os.stat(s.state_dir), os.stat(s.state_dir / "audit"), os.stat(s.dir / "run")
    assert stat.S_IMODE(state.st_mode) == stat.S_IMODE(run.st_mode) == (0o755 if os.geteuid() == 0 else 0o700)
    assert state.st_uid == os.geteuid()
    assert stat.S_IMODE(audit.st_mode) == 0o700
    if gb.mode == "root":
        assert audit.st_uid not in (0, 65534)
    else:
        assert audit.st_uid == os.geteuid()
    assert stat.S_IMODE(os.stat(s.unix_path).st_mode) == 0o666
    assert (s.state_dir / "lock").read_text() == f"{s.pid}\n"


def test_a_directory_that_others_can_write_is_refused(make_service):
    s = make_service()
    s.state_dir.mkdir()
    s.state_dir.chmod(0o777)
    code, said = fails(s)
    assert code == 1 and str(s.state_dir) in said and "0777" in said


def test_a_host_without_cgroups_for_us_says_what_to_do(make_service):
    code, said = fails(make_service({"cgroup_parent": "/no/such/cgroup"}))
    assert code == 1 and "cannot start a box" in said and "/no/such/cgroup" in said


# --- unix sockets ---


def test_a_dead_socket_is_replaced(start_service):
    s = start_service()
    family = s.family()
    s.kill("serve")
    s.process.wait()
    s.check_gone(family, cgroups=False)
    assert stat.S_ISSOCK(os.stat(s.unix_path).st_mode)
    s.start()
    assert s.request("GET", "/healthz", unix=True).status == 200


def test_a_live_socket_is_not(make_service):
    s = make_service()
    (s.dir / "run").mkdir(mode=0o755)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(s.unix_path)
        other.listen()
        code, said = fails(s)
    assert code == 1 and s.unix_path in said
    assert os.path.exists(s.unix_path)


@pytest.mark.parametrize("what", ["file", "link", "directory"])
def test_nothing_but_a_socket_is_replaced(make_service, what):
    s = make_service()
    path = pathlib.Path(s.unix_path)
    path.parent.mkdir(mode=0o755)
    target = s.dir / "precious"
    target.write_text("precious")
    {"file": lambda: path.write_text("precious"), "link": lambda: path.symlink_to(target), "directory": path.mkdir}[what]()
    code, said = fails(s)
    assert code == 1 and "no socket of ours" in said
    assert target.read_text() == "precious" and os.path.lexists(path)


def test_a_socket_in_a_directory_of_everybody_is_refused(make_service):
    s = make_service()
    everybody = s.dir / "everybody"
    everybody.mkdir()
    everybody.chmod(0o777)
    s.configure({"listen": [f"unix:{everybody}/s"]})
    code, said = fails(s)
    assert code == 1 and "others must not" in said


def test_the_path_of_another_is_left_alone_at_the_end(start_service):
    s = start_service()
    os.unlink(s.unix_path)
    pathlib.Path(s.unix_path).write_text("somebody else's")
    assert s.stop() == 0
    assert pathlib.Path(s.unix_path).read_text() == "somebody else's"


# --- reload ---


def test_a_good_configuration_is_taken(start_service):
    s = start_service()
    before = s.pids()
    limit = {"limits": {"timeout_seconds": 1}}
    s.reload(limit)
    s.wait_log("the new configuration is in force")
    assert s.execute("while True: pass")["status"] == "timeout"
    assert s.pids() == before
    # It outlives a restart of the children.
    s.kill("front")
    s.wait_children(but=before.values())
    s.wait_healthy()
    assert s.execute("while True: pass")["status"] == "timeout"


def test_the_ceiling_is_taken_too(start_service):
    s = start_service({"ceilings": {"timeout_seconds": 40}})
    assert s.request("POST", "/execute", {"tool_name": "execute_code", "code": "1", "limits": {"timeout_seconds": 50}}).status == 422
    s.reload({"ceilings": {"timeout_seconds": 60}})
    s.wait_log("the new configuration is in force")
    assert s.execute("print(1)", limits={"timeout_seconds": 50})["success"]


def test_a_bad_configuration_changes_nothing(start_service):
    s = start_service({"limits": {"timeout_seconds": 1}})
    before = s.pids()
    s.reload({"limits": {"timeout_seconds": "soon"}})
    s.wait_log("the new configuration is refused")
    assert "limits.timeout_seconds" in s.log_lines("the new configuration is refused, the old one stays")[0]["error"]
    assert s.execute("while True: pass")["status"] == "timeout"
    assert s.pids() == before
    s.kill("store")
    s.wait_children(but=before.values())
    s.wait_healthy()
    assert s.execute("while True: pass")["status"] == "timeout"


def test_what_is_open_waits_for_the_next_start(start_service):
    s = start_service()
    old = s.port
    s.reload({"listen": ["127.0.0.1:0"], "state_dir": str(s.dir / "other")})
    s.wait_log("the new configuration is in force")
    told = {line["setting"] for line in s.log_lines("takes effect at the next start")}
    assert told == {"listen", "state_dir"}
    assert s.port == old and s.request("GET", "/healthz", unix=True).status == 200
    assert not (s.dir / "other").exists()


def test_a_call_survives_a_reload(start_service):
    s = start_service()
    call = Call(s, 2)
    call.wait_running()
    s.reload({"boxes": {"running": 3}})
    s.wait_log("the new configuration is in force")
    assert call.result()["output"] == "begun\ndone\n", (call.error, s.log())


def test_reloads_that_come_faster_than_they_are_taken(start_service):
    s = start_service()
    for n in range(2, 12):
        s.reload({"boxes": {"running": n}})
    s.wait_log("the new configuration is in force")
    wait_for("the last of them", lambda: s.execute("print(1)")["success"])
    assert s.stop() == 0


def test_sighup_of_a_terminal_that_was_closed_stops(make_service):
    s = make_service()
    terminal, stderr = os.openpty()
    s.start(wait=False, stderr=stderr)
    os.close(stderr)
    wait_for("the banner", s.has_banner)
    family = s.family()
    os.close(terminal)
    s.signal(signal.SIGHUP)
    assert s.process.wait(60) == 0
    s.check_gone(family)


# --- stopping under load ---


def test_a_stop_waits_for_calls(start_service):
    s = start_service({"drain_seconds": 50})
    call = Call(s, 3)
    call.wait_running()
    s.signal(signal.SIGTERM)
    s.wait_log('"stopping"')
    with pytest.raises((OSError, http.client.HTTPException)):
        # Refused by the kernel as soon as the front has closed its sockets as well.
        for _ in range(200):
            s.request("GET", "/healthz")
            time.sleep(0.05)
    assert call.result()["output"] == "begun\ndone\n", (call.error, s.log())
    assert s.process.wait(60) == 0


def test_but_not_for_ever(start_service):
    s = start_service({"drain_seconds": 1})
    family = s.family()
    call = Call(s, 25)
    call.wait_running()
    family |= s.family()
    start = time.monotonic()
    s.signal(signal.SIGTERM)
    assert s.process.wait(60) == 0
    assert time.monotonic() - start < 20
    assert not (call.result() or {}).get("success")
    s.check_gone(family)


def test_a_second_signal_ends_it_at_once(start_service):
    s = start_service({"drain_seconds": 100})
    call = Call(s, 25)
    call.wait_running()
    family = s.family()
    s.signal(signal.SIGTERM)
    s.wait_log('"stopping"')
    start = time.monotonic()
    s.signal(signal.SIGTERM)
    s.process.wait(60)
    assert time.monotonic() - start < 15
    left = [pid for pid, began in family.items() if conftest.alive(pid, began)]
    assert not left, "the supervisor has waited for every process before it ended"


# --- deaths ---


@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_that_dies_comes_back(start_service, name):
    s = start_service()
    call = Call(s, 25)
    call.wait_running()
    before, family, cgroups = s.pids(), s.family(), set(conftest.cgroup_children(s.cgroup))
    assert cgroups
    s.kill(name)
    after = s.wait_children(but=before.values())
    s.wait_healthy()
    assert s.execute("print(2 + 2)")["output"] == "4\n"
    assert not set(before.values()) & set(after.values())
    assert not (call.result() or {}).get("success"), "its caller hears that it came to nothing"
    wait_for("old boxes to be gone", lambda: not [p for p, began in family.items() if p != s.pid and conftest.alive(p, began)])
    wait_for(lambda: f"the end of old cgroups: {cgroups & set(conftest.cgroup_children(s.cgroup))}", lambda: not cgroups & set(conftest.cgroup_children(s.cgroup)))
    # The others may notice, and end, before we hear of it.
    deaths = s.log_lines("a process of the service ended") + s.log_lines("ended as well")
    assert [d for d in deaths if d["process"] == name and "signal 9" in d["how"]], deaths


def test_callers_wait_while_children_are_restarted(start_service):
    s = start_service()
    s.kill("front")
    # No retry: the listening socket never closes, so that a new connection waits for the new front.
    wait_for("the old front's death", lambda: "front" not in s.pids() or s.log_lines("a process of the service ended"))
    with contextlib.suppress(ConnectionError):  # one that the old front had taken and not answered
        s.request("GET", "/healthz")
    assert s.request("GET", "/healthz").status == 200


def test_many_deaths_in_a_row_slow_it_down_but_not_much(start_service):
    s = start_service()
    killed = []
    for _ in range(10):
        killed.append(wait_for("a new store", lambda: (pid := s.pids().get("store")) not in killed and pid))
        before = s.pids()
        os.kill(killed[-1], signal.SIGKILL)
    s.wait_children(but=[*killed, *before.values()])  # the last front answers until it is told
    s.wait_healthy()
    assert s.execute("print(2 + 2)")["output"] == "4\n"
    pauses = [line["ms"] for line in s.log_lines("waiting before the next start")]
    assert 1 <= len(pauses) <= 5 and pauses == [1000, 2000, 4000, 5000, 5000][: len(pauses)], pauses


def test_a_death_now_and_then_costs_no_pause(start_service):
    s = start_service()
    for _ in range(4):
        before = s.pids()
        s.kill("front")
        s.wait_children(but=before.values())
        s.wait_healthy()
    assert s.log_lines("waiting before the next start") == []


def test_a_supervisor_that_is_killed_takes_all_with_it(start_service):
    s = start_service()
    call = Call(s, 25)
    call.wait_running()
    family, cgroups = s.family(), set(conftest.cgroup_children(s.cgroup))
    assert len(family) > 4 and cgroups
    s.kill("serve")
    s.process.wait()
    left = lambda: [pid for pid, began in family.items() if conftest.alive(pid, began)]  # noqa: E731
    wait_for("all of them to end", lambda: not left())
    assert call.result() is None
    s.start()
    s.wait_healthy()
    wait_for("cgroups of dead boxes to be swept", lambda: not cgroups & set(conftest.cgroup_children(s.cgroup)))


def test_children_get_four_descriptors_and_a_session(start_service):
    s = start_service()
    for name, pid in s.pids().items():
        assert os.getsid(pid) == pid, name
        if os.geteuid() == 0:
            assert os.readlink(f"/proc/{pid}/fd/0") == os.readlink(f"/proc/{pid}/fd/1") == "/dev/null"


def test_the_supervisor_holds_little(start_service):
    s = start_service()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{s.pid}/status").read_text().splitlines())
    assert status["NoNewPrivs"] == "1"
    limits = pathlib.Path(f"/proc/{s.pid}/limits").read_text()
    assert "Max core file size        1 " in limits
    if os.geteuid() != 0:
        assert os.stat(f"/proc/{s.pid}/environ").st_uid == 0 or os.geteuid() == 0, "not dumpable"


# --- systemd ---


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path_factory):
    """What systemd is for a service: a datagram socket that is told how it goes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        if request.param == "path":
            directory = tmp_path_factory.mktemp("n")
            name = address = str(directory / "notify")
        else:
            name = f"@glovebox-test-{os.getpid()}-{time.monotonic_ns()}"
            address = "\0" + name[1:]
        s.bind(address)
        s.settimeout(conftest.PATIENCE)
        yield s, name


def told(manager, wanted):
    """Reads up to the message that has `wanted` in it, and returns its fields."""
    while True:
        fields = dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())
        if wanted in fields:
            return fields


def test_systemd_is_told(manager, start_service):
    manager, name = manager
    s = start_service(env={"NOTIFY_SOCKET": name})
    assert told(manager, "READY")["STATUS"].startswith("Listening on 127.0.0.1")
    s.reload({"boxes": {"running": 2}})
    assert int(told(manager, "RELOADING")["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert told(manager, "READY")["READY"] == "1"
    s.reload({"boxes": {"running": "x"}})
    told(manager, "RELOADING")
    assert "refused" in told(manager, "READY")["STATUS"]
    s.signal(signal.SIGTERM)
    assert told(manager, "STOPPING")["STOPPING"] == "1"
    assert s.process.wait(60) == 0


def test_the_unit_is_well_formed(gb, tmp_path):
    unit = tmp_path / "glovebox.service"
    text = (gb.build / "glovebox.service").read_text()
    assert "/bin/glovebox serve\n" in text and not re.search(r"@\w+@", text)
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={gb.program}", text))
    try:
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("no systemd-analyze here")
    assert done.returncode == 0 and not done.stderr, done


def test_signals_for_the_supervisor_end_no_child(start_service):
    """A service manager may signal the whole group; who stops, and in which order, is the supervisor's to say."""
    s = start_service()
    before = s.pids()
    for pid in before.values():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
    assert s.execute("print(1)")["output"] == "1\n"
    assert s.pids() == before and "ended" not in s.log()


# --- children that misbehave ---


@pytest.fixture
def standins(make_service, tmp_path):
    """A service whose children are stand-ins (standin_child.py)."""
    for name in CHILDREN:
        (tmp_path / f"glovebox-{name}").symlink_to(pathlib.Path(__file__).parent / "standin_child.py")

    def make(behaviour="", config=None):
        return make_service(config, {"GLOVEBOX_TEST_LIBEXEC": str(tmp_path), "STANDIN": behaviour})

    return make


@pytest.mark.testbuild
def test_standins_serve(standins):
    s = standins().start()
    assert s.request("GET", "/").status == 200
    assert "store: fds [0, 1, 2, 3, 4, 5" in s.log() and f"cwd {s.state_dir}/audit sid True" in s.log()
    assert "launch: fds [0, 1, 2, 3, 4, 5" in s.log() and "cwd / sid True" in s.log()
    assert "broker: fds [0, 1, 2, 3, 4, 5" in s.log()


@pytest.mark.testbuild
@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_that_refuses_to_start_ends_the_start(standins, name):
    s = standins(f"{name}:exit")
    code, said = fails(s)
    assert code == 1 and f"{name}: exit code 3" in said and s.banner() == ""
    assert said.count("a process of the service ended") == 1


@pytest.mark.testbuild
def test_a_child_that_babbles_is_killed(standins):
    code, said = fails(standins("store:babble"))
    assert code == 1 and "no message of ours" in said


@pytest.mark.testbuild
def test_a_child_that_hangs_up_is_replaced(standins):
    s = standins("launch:hangup").start(wait=False)
    s.wait_log("ended", count=2)


@pytest.mark.testbuild
def test_the_old_configuration_comes_back_after_a_death(standins):
    s = standins("front:refuse").start()
    before = s.pids()
    s.reload({"nonsense": 1})
    s.wait_log("refused")
    s.reload({"log": {"level": "debug"}})
    s.wait_log("front: message CONFIG")
    s.kill("front")
    s.wait_children(but=before.values())
    s.wait_log("a process ended while it was taken over")


@pytest.mark.testbuild
def test_a_configuration_that_the_front_refuses(standins):
    s = standins("front:refuse").start()
    s.reload({"boxes": {"running": 2}})
    s.wait_log("the new configuration is refused")
    s.wait_log("launch: message CEILING", count=2)  # the new ceiling, and the old one again
    s.wait_log("launch: message POOLS", count=3)  # after the start, and after each of them
    s.wait_log("store: message RETENTION", count=2)
    s.wait_log("broker: message CONFIG_BROKER", count=2)


@pytest.mark.testbuild
def test_a_configuration_that_the_broker_refuses_never_reaches_the_front(standins):
    s = standins("broker:refuse").start()
    s.reload({"boxes": {"running": 2}})
    s.wait_log("the broker has not taken it")
    assert "front: message" not in s.log()
    s.wait_log("launch: message CEILING", count=2)


def test_profiles_whose_boxes_cannot_wait_are_named(start_service):
    """More kinds of boxes than there is room for: those of the last profiles are built when they are called for."""
    few = [f"p{i}" for i in range(18)]
    config = {
        "profiles": {name: {"limits": {"max_pids": i + 20}, "runtimes": ["sh"]} for i, name in enumerate(few)},
        "tools": [{"name": f"t{i}", "code": {"language": "sh"}, "profile": name} for i, name in enumerate(few)],
    }
    s = start_service(config)
    (line,) = [line for line in s.log_lines() if "too many kinds of boxes" in line["msg"]]
    assert line["profiles"] == "p16, p17" and line["most"] == 16, line
    reply = s.request("POST", "/v1/tools/t17/call", {"arguments": {"code": "echo works"}})
    assert reply.json()["stdout"] == "works\n", reply


@pytest.mark.testbuild
def test_the_front_gets_a_configuration_after_the_broker(standins):
    s = standins().start()
    s.reload({"boxes": {"running": 2}})
    s.wait_log("the new configuration is in force")
    assert s.log().index("broker: message CONFIG_BROKER") < s.log().index("front: message CONFIG")


@pytest.mark.testbuild
@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_that_does_not_stop_is_killed(standins, name):
    s = standins(f"{name}:stay", {"drain_seconds": 1}).start()
    family = s.family()
    s.signal(signal.SIGTERM)
    assert s.process.wait(60) == 0
    assert "killing what is left" in s.log()
    s.check_gone(family)


@pytest.mark.testbuild
def test_children_are_stopped_one_after_the_other(standins):
    s = standins().start()
    assert s.stop() == 0
    at = [s.log().index(f"{name}: message STOP") for name in reversed(CHILDREN)]
    assert at == sorted(at)
