"""Fail closed: a step that cannot be set up refuses the run and is named, whatever the step, and nothing is left behind."""

import os
import pathlib
import re
import subprocess

import pytest

STEPS = re.findall(r'^        \{"([a-z-]+)", "', (pathlib.Path(__file__).parent.parent.parent / "src/sandbox/steps.c").read_text(), re.M)
DEGRADABLE = ["cgroup", "ns-cgroup", "no-nested-userns", "landlock"]


def dead_cgroups(pid):
    """That a run with this process id has left. Others' may be there: tests beside this one kill theirs."""
    return [str(p) for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"] for p in pathlib.Path(base).glob(f"glovebox.box-{pid}-*")]


def test_the_table_was_read():
    assert len(STEPS) >= 30 and "seccomp" in STEPS and set(DEGRADABLE) <= set(STEPS)


@pytest.mark.testbuild
@pytest.mark.parametrize("step", STEPS)
def test_failed_step_refuses_the_run(gb, step, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    shown = ["--mount", f"{data}:/data"] if gb.path == "cold" else []
    done = gb.run(*shown, "-c", "print('it ran')", env={"GLOVEBOX_TEST_FAIL": step})
    assert done.returncode == 125 and done.stdout == b"", done
    message = done.stderr.decode()
    assert message.count("\n") == 1
    assert message.startswith(f"glovebox: {step}: "), message


@pytest.mark.testbuild
@pytest.mark.parametrize("step", DEGRADABLE)
def test_degraded_only_if_allowed_and_said_so(gb, step):
    env = {"GLOVEBOX_TEST_FAIL": step}
    assert gb.run("-c", "0", env=env).returncode == 125
    result = gb.json("--allow-degraded", step, "-c", "print('it ran')", env=env)
    assert result["stdout"] == "it ran\n"
    assert step in result["enforced"]["degraded"] and step not in result["enforced"]["steps"]


@pytest.mark.parametrize("layers", ["seccomp", "pivot", "nonsense", "landlock,seccomp", "ns-net"])
def test_other_layers_cannot_be_left_out(gb, layers):
    done = gb.run("--allow-degraded", layers, "-c", "print('it ran')")
    assert done.returncode == 125 and done.stdout == b"" and b"cannot be left out" in done.stderr


@pytest.mark.testbuild
def test_failed_steps_leave_nothing(gb):
    for step in STEPS:
        with subprocess.Popen([gb.program, "run", "-c", "0"], env={**os.environ, "GLOVEBOX_TEST_FAIL": step}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            assert run.communicate(timeout=120)[0] == b"" and run.returncode == 125
        assert dead_cgroups(run.pid) == [], step


def test_release_builds_ignore_the_test_switches(gb):
    if gb.build.name != "build":
        return  # the others are test builds, which are meant to obey them
    result = gb.python("print(open('/proc/self/status').read())", env={"GLOVEBOX_TEST_SKIP": "seccomp,landlock", "GLOVEBOX_TEST_FAIL": "pivot"})
    assert "Seccomp:\t2" in result["stdout"]
