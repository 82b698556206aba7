"""A stand-in for an exploited front, store, launcher, broker or child of the broker can do nothing that the real one does not need; and every wall is seen to hold something.

Each attack names the walls that hold it, as root. With all of them up, or any one of them, it is held; with all of them down it gets through: a green test that
could not go red would prove nothing. What no attack can show is looked at from outside, in /proc.
"""

import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

import confined

BUILD = pathlib.Path(os.environ.get("GB_BUILD", pathlib.Path(__file__).parent.parent.parent / "build")).resolve()
MODE = os.environ.get("GB_MODE", "root" if os.geteuid() == 0 else "user")
ROWS = ["front", "store", "launch"]
BROKERS = ["broker", "broker-file", "broker-net", "broker-database"]  # the broker, and its children by what they may touch
EVERY = [*ROWS, *BROKERS]
ABSENT = "-"  # the attack makes no sense against this process, or is what it is there for

# attack: walls of the front, the store, the launcher
ATTACKS = {
    "read_file": ("root+landlock+seccomp", "root+landlock", ABSENT),
    "climb": ("root+landlock+seccomp", "root+landlock", ABSENT),
    "climb_descriptor": (ABSENT, "root+landlock", ABSENT),
    "list_proc": ("root+landlock+seccomp", "root+landlock", ABSENT),
    "make_file": ("root+landlock+seccomp", "root+landlock", "view"),
    "make_directory": (ABSENT, "landlock+seccomp", ABSENT),
    "open_handle": ("root+landlock+caps+seccomp", "root+landlock+caps+seccomp", "caps+seccomp"),
    "tcp": ("net+landlock+seccomp", "net+landlock+seccomp", "net+seccomp"),
    "socket_option": ("seccomp", ABSENT, ABSENT),
    "fast_open_sendto": ("seccomp", ABSENT, ABSENT),
    "fast_open_sendmsg": ("seccomp", ABSENT, ABSENT),
    "fast_open_sendmmsg": ("seccomp", ABSENT, ABSENT),
    "unix_path": ("root+seccomp", "root+seccomp", ABSENT),
    "unix_abstract": ("net+landlock+seccomp", "net+landlock+seccomp", "net"),
    "datagram": ("root+seccomp", "root+seccomp", ABSENT),
    "netlink": ("seccomp", "seccomp", "seccomp"),
    "raw_socket": ("caps+seccomp", "caps+seccomp", "caps+seccomp"),
    "shared_memory": ("ipc+seccomp", "ipc+seccomp", "ipc"),
    "run_program": ("root+landlock+seccomp", "root+landlock+seccomp", ABSENT),
    "fork_child": ("seccomp+rlimits", "seccomp+rlimits", ABSENT),
    "trace": ("caps+landlock+seccomp", "caps+landlock+seccomp", "caps+seccomp"),
    "signal_parent": ("identity+landlock+seccomp", "identity+landlock+seccomp", ABSENT),
    "read_memory": ("caps+landlock+seccomp", "caps+landlock+seccomp", "caps+seccomp"),
    "take_descriptor": ("caps+landlock+seccomp", "caps+landlock+seccomp", "caps+seccomp"),
    "become_root": ("caps+seccomp", "caps+seccomp", ABSENT),
    "mount_something": ("caps+seccomp+landlock", "caps+seccomp+landlock", "caps"),
    "remount_writable": ("caps+seccomp+landlock", "caps+seccomp+landlock", "caps"),
    "new_namespace": ("seccomp", "seccomp", ABSENT),
    "make_code": ("seccomp", "seccomp", ABSENT),
    "turn_into_code": ("seccomp", "seccomp", ABSENT),
    "bpf": ("caps+seccomp", "caps+seccomp", "caps+seccomp"),
    "io_uring": ("seccomp", "seccomp", "seccomp"),
    "key_ring": ("seccomp", "seccomp", "seccomp"),
    "user_fault": ("seccomp", "seccomp", "seccomp"),
    "perf": ("caps+seccomp", "caps+seccomp", "caps+seccomp"),
    "set_clock": ("caps+seccomp", "caps+seccomp", "caps+seccomp"),
}
N = "+narrow-landlock+narrow-seccomp"
S = "+narrow-seccomp"
# attack: walls of the broker, its children for files, for the network, for PostgreSQL
BROKER_ATTACKS = {
    "read_file": (ABSENT, *["narrow-landlock"] * 3),
    "climb": (ABSENT, *["narrow-landlock"] * 3),
    "list_proc": (ABSENT, *["narrow-landlock"] * 3),
    "make_file": (ABSENT, *["narrow-landlock"] * 3),
    "make_directory_there": ("landlock+seccomp", *["landlock+seccomp" + N] * 3),
    "open_handle": ("caps+seccomp", *["caps+seccomp" + N] * 3),
    "tcp": (ABSENT, "narrow-landlock+narrow-seccomp", ABSENT, ABSENT),
    "unix_path": (ABSENT, "narrow-seccomp", "narrow-seccomp", ABSENT),
    "unix_abstract": ("landlock", "landlock" + N, "landlock" + N, "landlock+narrow-landlock"),
    "datagram": ("seccomp", *["seccomp" + S] * 3),
    "netlink": ("seccomp", *["seccomp" + S] * 3),
    "raw_socket": ("caps", "caps" + S, "caps", "caps"),
    "take_calls": ("landlock+seccomp", *["landlock+seccomp" + N] * 3),
    "socket_program": ("seccomp", *["seccomp" + S] * 3),
    "shared_memory": ("ipc+seccomp", *["ipc+seccomp" + S] * 3),
    "run_program": ("landlock+seccomp", *["landlock+seccomp" + N] * 3),
    "fork_child": (ABSENT, *["narrow-seccomp+narrow-rlimits"] * 3),
    "trace": ("caps+landlock+seccomp", *["caps+seccomp" + N] * 3),
    "signal_parent": ("identity+landlock", *["narrow-landlock+narrow-seccomp"] * 3),
    "stop_clock": (ABSENT, *["narrow-seccomp"] * 3),
    "become_dumpable": ("seccomp", *["seccomp" + S] * 3),
    "read_memory": ("caps+landlock+seccomp", *["caps+seccomp" + N] * 3),
    "take_descriptor": ("caps+landlock+seccomp", *["caps+seccomp" + N] * 3),
    "become_root": ("caps+seccomp", *["caps+seccomp" + S] * 3),
    "mount_something": ("caps+landlock+seccomp", *["caps+landlock+seccomp" + N] * 3),
    "remount_writable": ("caps+landlock+seccomp", *["caps+landlock+seccomp" + N] * 3),
    "new_namespace": ("seccomp", *["seccomp" + S] * 3),
    "make_code": ("seccomp", *["seccomp" + S] * 3),
    "turn_into_code": ("seccomp", *["seccomp" + S] * 3),
    "bpf": ("caps+seccomp", *["caps+seccomp" + S] * 3),
    "io_uring": ("seccomp", *["seccomp" + S] * 3),
    "key_ring": ("seccomp", *["seccomp" + S] * 3),
    "user_fault": ("seccomp", *["seccomp" + S] * 3),
    "perf": ("caps+seccomp", *["caps+seccomp" + S] * 3),
    "set_clock": ("caps+seccomp", *["caps+seccomp" + S] * 3),
}
# Walls that come down too in the control: they hold sometimes. A program of a user who has too many processes cannot be started.
ALSO = {"run_program": "rlimits+narrow-rlimits"}
CASES = [
    (row, attack, walls)
    for rows, attacks in ((ROWS, ATTACKS), (BROKERS, BROKER_ATTACKS))
    for attack, columns in attacks.items()
    for row, walls in zip(rows, columns, strict=True)
    if walls != ABSENT
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Things that must stay out of reach: a directory that anybody may write, sockets that listen, shared memory."""
    with tempfile.TemporaryDirectory(prefix="gb-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        directory = pathlib.Path(name)
        (directory / "store").mkdir()
        directory.chmod(0o777)
        (directory / "store").chmod(0o777)
        tcp = socket.create_server(("127.0.0.1", 0))
        listeners = [tcp]
        for kind, address in [(socket.SOCK_STREAM, f"{name}/stream"), (socket.SOCK_DGRAM, f"{name}/dgram"), (socket.SOCK_STREAM, f"\0{name}/abstract")]:
            sock = socket.socket(socket.AF_UNIX, kind)
            sock.bind(address)
            if kind == socket.SOCK_STREAM:
                sock.listen(16)
            if not address.startswith("\0"):
                os.chmod(address, 0o777)
            listeners.append(sock)
        shm = subprocess.run(["ipcmk", "-M", "4096", "-p", "0666"], capture_output=True, text=True, check=True).stdout.split()[-1]
        yield [name, str(tcp.getsockname()[1]), shm]
        subprocess.run(["ipcrm", "-m", shm], check=True)
        for sock in listeners:
            sock.close()


def without(walls):
    """The environment in which these are down, and those that `make mutants` has taken down already."""
    names = [wall if wall.startswith("narrow-") else "confine-" + wall for wall in walls.split("+") if wall]
    return {**os.environ, "GLOVEBOX_TEST_SKIP": ",".join([*names, os.environ.get("GLOVEBOX_TEST_SKIP", "")])}


def standin(planted, row, attack, skip="", **kwargs):
    return subprocess.run([BUILD / "standin", row, attack, *planted], env=without(skip), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **kwargs)


def held(done):
    assert done.returncode in (0, 1, -signal.SIGSYS), done  # anything else means that it was not even tried
    return done.returncode != 1


def can_hold(row, walls):
    """An ordinary user has no namespaces here, and the launcher of one can do what the user can, but for the calls that are refused."""
    usual = {"landlock", "seccomp", "narrow-landlock", "narrow-seccomp", "narrow-rlimits"}
    return MODE == "root" or (walls == "seccomp" if row == "launch" else bool(set(walls.split("+")) & usual))


@pytest.mark.parametrize("row,attack,walls", [case for case in CASES if can_hold(case[0], case[2])])
def test_attack_is_held(planted, row, attack, walls):
    assert held(standin(planted, row, attack))


WORK = {"front": "front_work", "store": "store_work", "broker": "broker_work", "broker-file": "file_work", "broker-net": "net_work", "broker-database": "database_work"}


@pytest.mark.parametrize("row,work", WORK.items())
def test_what_is_needed_works(planted, row, work):
    done = standin(planted, row, work)
    assert done.returncode == 0, done


@pytest.mark.testbuild
@pytest.mark.parametrize("row,attack,walls", CASES)
def test_it_gets_through_without_its_walls(planted, row, attack, walls):
    assert not held(standin(planted, row, attack, walls + "+" + ALSO.get(attack, "")))


@pytest.mark.testbuild
@pytest.mark.parametrize("row,attack,walls", [case for case in CASES if "+" in case[2]])
def test_each_wall_holds_alone(planted, row, attack, walls):
    for wall in walls.split("+"):
        others = "+".join(other for other in walls.split("+") if other != wall)
        assert held(standin(planted, row, attack, others)), wall


# --- looked at from outside ---


def confined_pid(pid, row):
    """The process that is confined as this row: of the broker's children, its child."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()) if row.startswith("broker-") else pid


class Staying:
    """A stand-in that is confined and waits."""

    def __init__(self, planted, row, skip=""):
        self.process = subprocess.Popen([BUILD / "standin", row, "stay", *planted], env=without(skip), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == b"in\n", self.process.communicate()
        self.pid = confined_pid(self.process.pid, row)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
        assert self.process.returncode == 0


@pytest.mark.parametrize("row", EVERY)
def test_every_wall_is_seen_from_outside(planted, row):
    with Staying(planted, row) as process:
        assert confined.missing(process.pid, row, MODE == "root") == []


NOT_ITS = {"front": ["view"], "store": ["view"], "launch": ["root", "identity"], "broker": ["net", "root", "view"]}  # walls that a process does not have
SEEN = [(row, wall) for wall in ["net", "ipc", "root", "view", "rlimits", "bounding", "identity", "caps", "nnp", "seccomp"] for row in NOT_ITS if wall not in NOT_ITS[row]]


@pytest.mark.testbuild
@pytest.mark.parametrize("row,wall", [*SEEN, *[(row, wall) for row in BROKERS[1:] for wall in ["narrow-rlimits", "narrow-seccomp"]]])
def test_a_wall_that_is_down_is_seen_from_outside(planted, row, wall):
    if wall == "nnp":  # without it, landlock takes the capability that is gone by then
        done = standin(planted, row, "stay", "nnp")
        assert (done.returncode, "confine-" in done.stderr) == (3, True), done
        return
    with Staying(planted, row, wall) as process:
        assert wall in confined.missing(process.pid, row)


@pytest.mark.testbuild
@pytest.mark.parametrize("row", EVERY)
def test_an_ordinary_users_process_is_hidden_from_the_user(planted, row):
    """As root a change of user hides a process anyway; for an ordinary user this wall is the only one."""
    program = pathlib.Path(planted[0], "standin")
    if not program.exists():
        shutil.copy2(BUILD / "standin", program)
    for skip in ["", "hidden"]:
        process = subprocess.Popen(
            ["setpriv", "--reuid", "20001", "--regid", "20001", "--clear-groups", program, row, "stay", *planted],
            env=without(skip), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"in\n"
        assert confined.missing(confined_pid(process.pid, row), row, root=False) == ([skip] if skip else [])
        process.communicate()


@pytest.mark.rootonly  # a user may not look
@pytest.mark.parametrize("row", EVERY)
def test_the_working_directory_is_not_where_it_was_started(planted, row):
    with Staying(planted, row) as process:
        assert os.readlink(f"/proc/{process.pid}/cwd") == "/"


@pytest.mark.testbuild
def test_without_that_wall_the_working_directory_stays(planted):
    with Staying(planted, "launch", "directory") as process:
        assert os.readlink(f"/proc/{process.pid}/cwd") == os.getcwd()


@pytest.mark.parametrize("row", EVERY)
def test_it_dies_with_its_supervisor(planted, row):
    """The shell stands for a supervisor that is killed; its output ends only when the stand-in, which has it too, is gone. A child dies with its parent."""
    assert survivors(planted, row) == 0


@pytest.mark.testbuild
@pytest.mark.parametrize("row", EVERY)
def test_without_that_wall_it_lives_on(planted, row):
    assert survivors(planted, row, "narrow-life" if row.startswith("broker-") else "life") == 1


def survivors(planted, row, skip=""):
    read, write = os.pipe()
    command = ["bash", "-c", f'"$@" <&{read} & wait', "bash", BUILD / "standin", row, "stay", *planted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[read], env=without(skip)) as shell:
        assert shell.stdout.readline() == b"in\n"
        shell.kill()
        gone, _, _ = select.select([shell.stdout], [], [], 1 if skip else 60)
        os.close(read)
        os.close(write)  # ends it, if it lives
        assert shell.stdout.read() == b""
    return 0 if gone else 1


@pytest.mark.parametrize("row", [*ROWS, "broker"])  # its children: test_broker.py
def test_the_real_processes_have_every_wall(service, row):
    """The stand-in is only worth something if the real ones confine themselves as it does."""
    assert confined.missing(service.pids()[row], row, MODE == "root") == []


def test_every_wall_has_a_test():
    """A step without an attack that it holds, or a look from outside, would be one that nobody misses."""
    source = pathlib.Path(__file__).resolve().parent.parent.parent / "src/confine"
    steps = set(re.findall(r'^ *\{"confine-(\w+)", ', (source / "confine.c").read_text(), re.M))
    narrow = set(re.findall(r'^ *\{"(narrow-\w+)", ', (source / "narrow.c").read_text(), re.M))
    held_by_attacks = {wall for _, _, walls in CASES for wall in walls.split("+")}
    seen = {"nnp", "bounding", "hidden", "directory", "life", "narrow-life"}
    assert len(steps) > 10 and len(narrow) > 3 and steps | narrow == held_by_attacks | seen


def verdicts(row):
    """{call: [lines]} of the golden file, without the row's name."""
    golden = (pathlib.Path(__file__).resolve().parent.parent / "golden/confine-x86_64.txt").read_text()
    calls = {}
    for name, rest in re.findall(rf"^{row} (\w+\(\d+\)) (.*)$", golden, re.M):
        calls.setdefault(name, []).append(rest)
    return calls


@pytest.mark.parametrize("row", BROKERS[1:])
def test_a_child_of_the_broker_is_allowed_nothing_that_its_parent_is_not(row):
    """Both filters hold for it: what only its own allows would be refused all the same, and nobody would know why."""
    parent, child = verdicts("broker"), verdicts(row)
    assert len(child) > 100
    for call, lines in child.items():
        if lines == ["kill"] or parent.get(call) == ["allow"] or lines == parent.get(call):
            continue
        allowed = lambda lines: set(re.findall(r"(\w+) allow", " ".join(lines)))  # noqa: E731
        assert allowed(lines) and allowed(lines) <= allowed(parent.get(call, [])), (call, lines, parent.get(call))


# --- a wall that the host cannot give ---


@pytest.mark.testbuild
@pytest.mark.parametrize(
    "call,step,rows",
    [
        ("landlock_create_ruleset", "confine-landlock", ["front", "store", "broker"]),
        ("unshare=1", "confine-net", ROWS),
        ("pivot_root", "confine-root", ["front", "store"]),
        ("open_tree", "confine-root", ["store"]),
        ("move_mount", "confine-view", ["launch"]),
        ("setresuid=1", "confine-identity", ["front", "store", "broker"]),
        ("capset=1", "confine-caps", [*ROWS, "broker"]),
        *([] if "ASAN_OPTIONS" in os.environ else [("prlimit64=1", "confine-rlimits", [*ROWS, "broker"])]),  # the sanitizer needs it before we do
    ],
)
def test_a_missing_wall_refuses_the_start_and_is_named(planted, call, step, rows):
    for row in rows:
        done = subprocess.run([BUILD / "without", call, BUILD / "standin", row, "stay", *planted], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 3 and done.stderr.startswith(step + ": ") and not done.stdout, (row, done)


@pytest.mark.testbuild
@pytest.mark.parametrize("row", BROKERS[1:])
def test_a_missing_wall_ends_a_child_and_is_named(planted, row):
    command = [BUILD / "without", "landlock_create_ruleset", BUILD / "standin", row, "stay", *planted]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=without("landlock"))
    assert done.returncode == 3 and done.stderr.startswith("narrow-landlock: ") and not done.stdout, done


@pytest.mark.testbuild
def test_no_landlock_is_accepted_only_if_allowed(planted):
    command = [BUILD / "without", "landlock_create_ruleset", BUILD / "standin", "front", "read_file", *planted]
    done = subprocess.run(command, env={**os.environ, "DEGRADED": "cgroup,landlock"}, capture_output=True)
    assert held(done), done


@pytest.mark.testbuild
@pytest.mark.parametrize("row", ROWS)
def test_an_old_kernel_without_mount_setattr_is_good_enough(planted, row):
    done = subprocess.run([BUILD / "without", "mount_setattr", BUILD / "standin", row, "stay", *planted], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and done.stdout == "in\n", done
