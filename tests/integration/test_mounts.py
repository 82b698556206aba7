"""What the operator shows to a box: another root file system, host directories read-only, host directories that may be changed."""

import contextlib
import json
import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.cold("a zygote has no directories of the host but the system's own")

# --- root file systems ---


@pytest.fixture
def rootfs(tmp_path):
    """A small tree with a static shell, and with links that lead a careless mount astray."""
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "etc").mkdir()
    (tree / "data").mkdir()
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for name in ("sh", "cat", "ls", "touch", "id", "readlink", "echo", "env"):
        (tree / "bin" / name).symlink_to("busybox")
    (tree / "etc/own").write_text("the tree's own\n")
    (tree / "etc/x").symlink_to("/etc/passwd")
    (tree / "data/up").symlink_to("../../../../../../../etc/passwd")
    for name, target in {"dev": "/etc", "proc": "/", "sys": "/", "tmp": "/root", "sandbox": "/home", "run": "/run", "usr": "../../../../usr"}.items():
        (tree / name).symlink_to(target)
    return tree


def snapshot(tree):
    return sorted((str(p), os.lstat(p).st_mode, os.lstat(p).st_mtime_ns) for p in tree.rglob("*"))


def test_rootfs_is_the_whole_world_and_its_links_lead_nowhere(gb, rootfs):
    before, host_etc = snapshot(rootfs), os.stat("/etc").st_mtime_ns
    code = """
cat /etc/own; for f in /etc/x /data/up /usr/bin/env /etc/hostname; do cat $f > /dev/null 2>&1 && echo "leak $f"; done
echo dev; ls /dev; touch /tmp/t /sandbox/s /dev/shm/m && echo writable; for p in /etc/w /bin/w /data/w /w /dev/w; do touch $p 2>/dev/null && echo "wrote $p"; done
readlink /proc/self > /dev/null && echo proc; ls /sys /run /root /home 2>/dev/null; id -u; true"""
    done = gb.run("--json", "--rootfs", rootfs, "--", "/bin/sh", "-c", code)
    result = json.loads(done.stdout)
    assert result["status"] == "success", result
    devices = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert result["stdout"].splitlines() == ["the tree's own", "dev", *devices, "writable", "proc", "1000"]
    assert result["enforced"]["root"] == "rootfs" and snapshot(rootfs) == before and os.stat("/etc").st_mtime_ns == host_etc


def test_rootfs_runs_code_in_its_own_runtimes_only(gb, rootfs):
    assert gb.json("--rootfs", rootfs, "--lang", "sh", "-c", "echo $0 $1", "a")["stdout"] == "/sandbox/main.sh a\n"
    done = gb.run("--rootfs", rootfs, "-c", "print(1)")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1) and b"python" in done.stderr


# --- mounts ---


@pytest.fixture
def shown(tmp_path):
    place = tmp_path / "shown"
    (place / "nested").mkdir(parents=True)
    (place / "f").write_text("host file\n")
    (place / "run").write_text("#!/bin/sh\necho ran\n")
    for path, mode in {place: 0o777, place / "nested": 0o777, place / "f": 0o666, place / "run": 0o755}.items():
        path.chmod(mode)
    return place


def test_mount_is_read_only(gb, shown):
    code = """cat /data/f; /data/run; (echo x > /data/f) 2>/dev/null
for c in 'touch /data/n' 'rm /data/f' 'chmod 777 /data/f' 'mv /data/f /data/g' 'mkdir /data/d' 'touch /data/nested/n'; do
    $c 2>/dev/null && echo "$c"
done; true"""
    result = gb.sh(code, "--mount", f"{shown}:/data")
    assert result["stdout"] == "host file\nran\n" and "mounts" in result["enforced"]["steps"]
    assert (shown / "f").read_text() == "host file\n" and sorted(os.listdir(shown)) == ["f", "nested", "run"]


def test_what_is_mounted_below_a_mount_is_read_only_too(gb, shown):
    """The nested mount is made in a mount namespace of its own: the host sees nothing of it."""
    inner = 'mount -t tmpfs t "$1/nested" && echo inner > "$1/nested/i" && chmod 777 "$1/nested" "$1/nested/i" && shift && exec "$@"'
    box = "cat /data/nested/i; (echo x > /data/nested/i) 2>/dev/null && echo wrote; touch /data/nested/n 2>/dev/null && echo made; true"
    unshare = ["unshare", "--mount"] if gb.mode != "user" else ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*unshare, "sh", "-c", inner, "sh", shown, gb.program, "run", "--mount", f"{shown}:/data", "--", "sh", "-c", box]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"inner\n", b"")


def test_writable_is_the_hosts_own_directory(gb, shown):
    result = gb.sh("echo changed > /data/f; echo new > /data/n; ls -l /data/n | cut -c1-10; touch /ro 2>/dev/null || echo root stays", "--writable", f"{shown}:/data")
    assert result["stdout"] == "-rw-r--r--\nroot stays\n"
    assert (shown / "f").read_text() == "changed\n" and (shown / "n").read_text() == "new\n"
    assert os.stat(shown / "n").st_uid == result["enforced"]["host_uid"]


def test_several_mounts_at_deep_places(gb, shown, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "o").write_text("other\n")
    options = ["--mount", f"{shown}:/srv/deep/a", "--mount", f"{other}:/srv/deep/b"]
    assert gb.json(*options, "--", "cat", "/srv/deep/a/f", "/srv/deep/b/o")["stdout"] == "host file\nother\n"


def test_a_device_or_setuid_file_in_a_mount_has_no_effect(gb, shown):
    shutil.copy("/usr/bin/id", shown / "suid")
    (shown / "suid").chmod(0o4755)
    with contextlib.suppress(PermissionError):
        os.mknod(shown / "null", 0o20666, os.makedev(1, 3))  # only real root can make it
        (shown / "null").chmod(0o666)
    for kind in ("--mount", "--writable"):
        result = gb.sh("/data/suid -u; cat /data/null 2>/dev/null && echo opened; true", kind, f"{shown}:/data")
        assert result["stdout"] == "1000\n"
