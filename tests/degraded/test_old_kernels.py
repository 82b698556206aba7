"""Kernels that lack something: what has an older way goes that way and holds just the same; what has none is refused by name, unless the operator allows it."""

import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.testbuild

# What the oldest supported kernel, 5.10, lacks: mount_setattr, open_tree_attr (467), landlock, and close_range with a flag.
LIKE_5_10 = "mount_setattr,467,landlock_create_ruleset,close_range:2=22"


def without(gb, calls, *args):
    return subprocess.run([gb.build / "without", calls, gb.program, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


def test_probes_hold_as_on_5_10(gb, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    probe = gb.build / "glovebox-probe"
    shown = ["--mount", f"{data}:/data"] if gb.path == "cold" else []
    done = without(gb, LIKE_5_10, "run", "--allow-degraded", "landlock", "--file", probe, *shown, "--", "/sandbox/glovebox-probe", "all")
    verdicts = dict(line.split("\t")[:2] for line in done.stdout.decode().splitlines())
    assert len(verdicts) > 40, done.stderr
    assert [name for name, verdict in verdicts.items() if verdict == "ESCAPED"] == ["second_wall"]  # landlock's own, and there is none
    assert verdicts["mount_flags"] == verdicts["descriptors"] == verdicts["root_flag"] == "held"


@pytest.mark.cold("a zygote has no directories of the host but the system's own")
def test_mounts_below_a_mount_are_read_only_as_on_5_10(gb, tmp_path):
    script = f"""
        mkdir -p {tmp_path}/data/below && mount -t tmpfs none {tmp_path}/data/below && chmod 777 {tmp_path}/data/below && chmod 755 {tmp_path} {tmp_path}/data
        exec {gb.build}/without {LIKE_5_10} {gb.program} run --allow-degraded landlock --mount {tmp_path}/data:/data --lang sh -c 'touch /data/below/x; grep -c " /data/below ro," /proc/self/mountinfo'
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "1\n" and "Read-only" in done.stderr, done


@pytest.mark.parametrize(
    "call,step",
    [
        ("landlock_create_ruleset", "landlock"),
        ("fsopen", "root"),
        ("open_tree,467", "root"),
        ("move_mount", "root"),
        ("pivot_root", "pivot"),
        ("setresuid=1", "identity"),
        ("sethostname=1", "hostname"),
        ("capset=1", "capabilities"),
        ("setsid=1", "process"),
        ("clone3", "ns"),
        ("memfd_create", ""),
    ],
)
def test_missing_call_refuses_the_run_and_names_the_step(gb, call, step):
    done = without(gb, call, "run", "-c", "print('it ran')")
    assert done.returncode == 125 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done
    if gb.path != "cold" and step in ("identity", "process"):
        step = ""  # the zygote needs these two for itself, before there is a box
    assert done.stderr.startswith(f"glovebox: {step}".encode()), done.stderr


@pytest.mark.cold("PID 1 of a waiting box makes its files in a directory that nobody else has")
def test_openat2_is_needed_for_names_with_directories(gb, tmp_path):
    """Only where a path of somebody else's is walked."""
    (tmp_path / "f").write_text("x")
    done = without(gb, "openat2", "run", "--file", f"{tmp_path}/f:a/b", "-c", "print('it ran')")
    assert done.returncode == 125 and done.stdout == b"" and b"a/b" in done.stderr, done
    assert without(gb, "openat2", "run", "-c", "print('it ran')").stdout == b"it ran\n"


def test_no_landlock_is_accepted_only_if_allowed(gb):
    done = without(gb, "landlock_create_ruleset", "run", "--json", "--allow-degraded", "landlock", "-c", "print(1)")
    enforced = json.loads(done.stdout)["enforced"]
    assert enforced["landlock_abi"] == 0 and enforced["degraded"] == ["landlock"]


def test_doctor_names_what_is_missing_and_says_no(gb):
    done = without(gb, "landlock_create_ruleset", "doctor", "--json")
    report = json.loads(done.stdout)
    missing = [row for row in report["steps"] if row["state"] == "MISSING"]
    assert done.returncode == 1 and not report["ok"]
    assert [row["step"] for row in missing] == ["landlock"] and missing[0]["remedy"] and missing[0]["why"]
    assert gb("doctor").returncode == 0
