"""A small root file system from the host's own files, for peers that want one: the programs, the libraries that they load, Python with numpy."""
import json
import os
import re
import shutil
import subprocess

LEFT_OUT = shutil.ignore_patterns("test", "tests", "config-*", "idlelib", "ensurepip", "lib2to3", "tkinter", "_tkinter*", "*.a")
DIRECTORIES = ("proc", "dev", "sys", "tmp", "etc", "run")


def _python_directories(python):
    code = "import sysconfig; print(sysconfig.get_path('stdlib'))\ntry:\n    import numpy; print(numpy.__path__[0])\nexcept ImportError: pass"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def _put(root, path):
    into = root + path
    if not os.path.lexists(into):
        os.makedirs(os.path.dirname(into), exist_ok=True)
        shutil.copy2(path, into)


def build(root, programs):
    """Fills the directory. Compiled Python files come along, and keep the times by which Python knows them: peers start as fast as the host does."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink("/" + name):
            os.makedirs(os.path.join(root, "usr", name), exist_ok=True)
            os.symlink(os.readlink("/" + name), os.path.join(root, name))
    binaries = sorted({p.argv[0] for p in programs.values()})
    trees = _python_directories(programs["python"].argv[0]) if "python" in programs or "numpy" in programs else []
    for path in trees:
        shutil.copytree(path, root + path, ignore=LEFT_OUT)
    for path in binaries:
        _put(root, path)
    objects = binaries + [os.path.join(place, f) for path in trees for place, _, files in os.walk(root + path) for f in files if f.endswith(".so")]
    told = subprocess.run(["ldd", *objects], capture_output=True, text=True, check=False).stdout
    for path in sorted(set(re.findall(r"(?:=> |^\t)(/\S+)", told, re.M))):
        _put(root, path)
    for name in DIRECTORIES:
        os.makedirs(os.path.join(root, name), exist_ok=True)


# --- the same as an OCI bundle: what `runc spec` writes, without a terminal ---

CAPABILITIES = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"]
MOUNTS = [
    ("/proc", "proc", "proc", []),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
    ("/dev/shm", "tmpfs", "shm", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
    ("/dev/mqueue", "mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"]),
]
MASKED = ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
          "/sys/firmware", "/proc/scsi"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


def write_bundle(directory, root, program):
    config = {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": program.argv, "env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "cwd": "/",
                    "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "ambient"), CAPABILITIES),
                    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}], "noNewPrivileges": True},
        "root": {"path": root, "readonly": True},
        "hostname": "bench",
        "mounts": [{"destination": at, "type": kind, "source": source, "options": options} for at, kind, source, options in MOUNTS],
        "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}, "namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")],
                  "maskedPaths": MASKED, "readonlyPaths": READ_ONLY},
    }
    os.makedirs(directory)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
