"""Every escape probe is held, and gets through once its own walls are down: a green probe that could not go red would prove nothing."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BUILD, MODE, PATH

PROBE = BUILD / "glovebox-probe"
LISTENER = b"\0glovebox-probe-listener"

# What must come down too, for the program to start at all without the walls that a probe names.
ALSO = {
    "see_processes": "proc",  # a /proc of somebody else's pid namespace cannot be mounted
    "new_privileges": "landlock,seccomp",  # neither can be entered without it
    "make_device": "idmap,identity,no-nested-userns",  # without a user namespace there is nothing to map, and the count is the host's
    "scheduling": "idmap,identity,no-nested-userns,rlimits,seccomp",
    "nested_count": "seccomp",  # the filter would hide it
}
# The same for boxes of a zygote, which stands behind a few walls of its own.
ALSO_WARM = {
    "root_write": "root-mode",  # the root is the zygote's, not the box's
    "descriptors": "zygote-fds",  # boxes have what the zygote has left
}
# Other walls that the control takes down there.
INSTEAD_WARM = {
    "inherited": "session",  # a part of `process`: without all of that the call's files find no directory, and nothing is run
}
# Walls without which no box starts at all: taking them down fails closed.
CANNOT_START = {"identity"} if PATH == "cold" else set()


def probes():
    """The table itself, so that a new probe is in here without being listed twice."""
    text = (pathlib.Path(__file__).parent.parent.parent / "src/probe/probes.def").read_text()
    rows = [line.split('"') for line in text.splitlines() if line.startswith("GB_PROBE(")]
    return [(row[0].removeprefix("GB_PROBE(").rstrip(", "), row[3]) for row in rows]


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """Things on the host that a box must not find: a socket, shared memory, a directory that anybody may write, an open file."""
    shm = subprocess.run(["ipcmk", "-M", "4096"], capture_output=True, text=True, check=True).stdout.split()[-1]
    directory = tmp_path_factory.mktemp("data")
    shutil.copy(PROBE, directory)
    directory.chmod(0o777)
    base = tmp_path_factory.getbasetemp()
    for parent in [p for p in directory.parents if p == base or p == base.parent or base in p.parents]:
        parent.chmod(0o755)  # the box's uid must be able to get there
    yield directory
    subprocess.run(["ipcrm", "-m", shm], check=True)


@contextlib.contextmanager
def listening():
    """A socket of the host's, unless another worker of this suite has it just now."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(LISTENER)
            listener.listen(64)
        except OSError:
            for _ in range(600):  # until it is gone there: then it is ours
                with socket.socket(socket.AF_UNIX) as other:
                    if other.connect_ex(LISTENER):
                        break
                time.sleep(0.1)
            listener.bind(LISTENER)
            listener.listen(64)
        yield


def run_probe(gb, planted, name, skip=""):
    env = {**os.environ, "GLOVEBOX_TEST_SKIP": skip + "," + os.environ.get("GLOVEBOX_TEST_SKIP", "")}
    program = "./glovebox-probe" if "pivot" in skip else "/sandbox/glovebox-probe"
    files, shown = ["--file", PROBE], ["--mount", f"{planted}:/data"]
    if PATH != "cold":  # no zygote shows directories of the host, but for what is mounted below the system's own
        shown = []
        if name == "work_dir" and skip:  # no file comes to a box whose working directory is not its own
            files, program = [], "/usr/src/glovebox-probe"
    command = [gb.program, "run", *files, *shown, "--", program, name]
    if MODE == "root":  # a mount table whose changes spread, but not to the host
        script = f'mount --make-rshared / && mount --bind {planted} /usr/src && exec "$@"'
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *command]
    with open(os.devnull, "rb") as leak, listening() if name in ("abstract_socket", "all") else contextlib.nullcontext():
        os.set_inheritable(leak.fileno(), True)
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, close_fds=False, timeout=120)


def test_selftest_holds(gb, planted):
    done = gb("selftest", "--json")
    rows = json.loads(done.stdout)
    assert done.returncode == 0, [row for row in rows if row["verdict"] == "fail"]
    assert [row["probe"] for row in rows if row["verdict"] == "unclear"] in ([], ["nested_count"])
    assert len(rows) == len(probes()) + 10


def test_probes_hold_with_everything_planted(gb, planted):
    done = run_probe(gb, planted, "all")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == len(probes()), done
    assert [line for line in lines if line[1] == "ESCAPED"] == []


def test_nothing_of_the_callers_state_comes_in(gb):
    """Signals ignored and blocked, another umask, personality, priority and core limit: all things that a caller may have and a box must not."""
    script = f"""
        trap '' HUP USR1 USR2 CHLD PIPE; umask 0777; ulimit -c $(ulimit -Hc); cd {BUILD}
        exec setarch -R {'nice -n -5' if MODE == 'root' else ''} "$@"
    """
    for name in ["inherited", "limits", "work_dir"]:
        command = ["sh", "-c", script, "sh", gb.program, "run", "--file", str(PROBE), "--", "/sandbox/glovebox-probe", name]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=block_signals)
        assert done.returncode == 0, (name, done)


def block_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGRTMIN, signal.SIGTERM})


@pytest.mark.testbuild
@pytest.mark.parametrize("name,walls", [(name, walls) for name, walls in probes() if "+" in walls])
def test_each_wall_holds_alone(gb, planted, name, walls):
    """Defence in depth is only worth something if each wall would hold without the others."""
    for wall in walls.split("+"):
        others = [other for other in walls.split("+") if other != wall]
        if "ns-user" in others:
            others += ["idmap", "identity", "no-nested-userns"]
        done = run_probe(gb, planted, name, ",".join(others))
        assert done.returncode == 0, (wall, done)


@pytest.mark.testbuild
@pytest.mark.parametrize("name,walls", probes())
def test_positive_control(gb, planted, name, walls):
    skip = walls.replace("+", ",") + "," + ALSO.get(name, "")
    if PATH != "cold":
        skip = INSTEAD_WARM.get(name, skip) + "," + ALSO_WARM.get(name, "")
    done = run_probe(gb, planted, name, skip)
    if name in CANNOT_START:
        assert done.returncode == 125 and not done.stdout, done
    else:
        assert done.returncode == 1 and done.stdout.strip(), done
