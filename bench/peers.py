"""Other ways to put a program into a box. Each is here as it comes, with the least that makes it a box without network; one that cannot be had is named."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import proc
import tree
from programs import Failed
from subjects import Spawned

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
DOCKER_START_S = 60
DOCKER_STOP_S = 60
IMAGE = "glovebox-bench"


class Skipped(Exception):
    """This peer cannot be had here; the text says why."""


def find(bench, name, package):
    path = shutil.which(name, path=SYSTEM_PATH)
    if path:
        return path
    told = proc.read(os.path.join(bench.tools, f"apt-{package}.log")).strip().splitlines()
    raise Skipped(f"{name} is not installed" + (f"; apt-get install {package}: {told[-1]}" if told else f" (apt-get install {package})"))


def as_root():
    if os.geteuid():
        raise Skipped("needs root")


def first_line(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout.strip() or done.stderr.strip()).split("\n")[0]


# --- bubblewrap ---

def bubblewrap(bench, _stack):
    """A sensible everyday box: all namespaces, system directories read-only, own /proc, /dev and /tmp (numpy's libraries are found by way of
    /etc/alternatives). It has no cgroup, no seccomp filter, no
    landlock and no limits: there is no more to be had from bubblewrap's own options."""
    bwrap = find(bench, "bwrap", "bubblewrap")
    argv = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = "/" + name
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    argv += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "--"]
    return Spawned("bubblewrap", bench, lambda program: argv + program.argv), first_line(bwrap, "--version")


# --- runtimes that take an OCI bundle ---

def bundles(bench):
    """{command line of a program: its bundle}"""
    places = {}
    for name, program in bench.programs.items():
        places[tuple(program.argv)] = bench.path("bundle", name)
        if not os.path.isdir(places[tuple(program.argv)]):
            tree.write_bundle(places[tuple(program.argv)], bench.root(), program)
    return places


def oci(bench, stack, name, path, options=(), prefix=()):
    state = bench.path("state-" + name)
    os.makedirs(state, exist_ok=True)
    places = bundles(bench)
    argv = [path, *options, "--root", state]
    stack.callback(lambda: [subprocess.run([*prefix, *argv, "delete", "--force", left], capture_output=True, check=False) for left in os.listdir(state)])
    return Spawned(name, bench, lambda program: [*argv, "run", "--bundle", places[tuple(program.argv)], bench.name + "-{}"], prefix)


def crun(bench, stack):
    """Debian's refuses a host that has v1 controllers and a v2 hierarchy with others. So it does not see the latter."""
    as_root()
    path = find(bench, "crun", "crun")
    unified = os.path.join(proc.CGROUPS, "unified")
    hybrid = proc.read(os.path.join(unified, "cgroup.controllers")).strip()
    prefix = [shutil.which("unshare", path=SYSTEM_PATH), "--mount", "--propagation", "private", "/bin/sh", "-c", f'umount {unified} && exec "$@"', "sh"] if hybrid else []
    return oci(bench, stack, "crun", path, prefix=prefix), first_line(path, "--version")


def runc(bench, stack):
    as_root()
    path = find(bench, "runc", "runc")
    return oci(bench, stack, "runc", path), first_line(path, "--version")


def runsc(bench, stack):
    """On the first of its platforms that works here and needs no hardware."""
    as_root()
    path = find(bench, "runsc", "runsc")
    program = next(iter(bench.programs.values()))
    for platform in ("systrap", "ptrace"):
        subject = oci(bench, stack, "runsc", path, ["--platform=" + platform, "--network=none"])
        why = subject.check(program)
        if not why:
            return subject, f"{first_line(path, '--version')}, platform {platform}"
    raise Skipped(why)


# --- docker ---

@contextlib.contextmanager
def dockerd(bench, path):
    """A daemon with everything in our directory, which touches no firewall and makes no bridge. Yields the words of its client."""
    home = bench.path("docker")
    os.makedirs(home)
    socket, config = os.path.join(home, "docker.sock"), os.path.join(home, "daemon.json")
    bench.write_json(config, {
        "iptables": False, "ip6tables": False, "bridge": "none", "storage-driver": "overlay2", "data-root": os.path.join(home, "data"),
        "exec-root": os.path.join(home, "exec"), "hosts": ["unix://" + socket], "pidfile": os.path.join(home, "pid"), "cgroup-parent": "/" + bench.name + "-docker",
        "containerd-namespace": bench.name, "containerd-plugins-namespace": bench.name + "-plugins"})
    client = [find(bench, "docker", "docker.io"), "--config", home, "-H", "unix://" + socket]
    env = dict(os.environ) | {"PATH": SYSTEM_PATH}
    with open(os.path.join(home, "log"), "wb") as log:
        process = subprocess.Popen([path, "--config-file", config], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        end = time.monotonic() + DOCKER_START_S
        while subprocess.run([*client, "version"], capture_output=True, check=False).returncode:
            if process.poll() is not None or time.monotonic() > end:
                raise Skipped(f"dockerd does not start: {proc.read(os.path.join(home, 'log')).strip()[-300:]}")
            time.sleep(0.1)
        yield client
    finally:
        process.terminate()
        try:
            process.wait(DOCKER_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end_those_of(home)


def end_those_of(directory):
    """Processes that have a path below this directory in their arguments: shims of a daemon that did not stop by itself."""
    for pid in proc.table():
        if directory + "/" in proc.read(f"/proc/{pid}/cmdline"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def docker(bench, stack):
    as_root()
    client = stack.enter_context(dockerd(bench, find(bench, "dockerd", "docker.io")))
    with subprocess.Popen(["tar", "-C", bench.root(), "-c", "."], stdout=subprocess.PIPE) as tar:
        done = subprocess.run([*client, "import", "-", IMAGE], stdin=tar.stdout, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"docker import: {done.stderr.strip()[-300:]}")
    version = first_line(*client, "version", "--format", "client {{.Client.Version}}, server {{.Server.Version}}")
    return Spawned("docker", bench, lambda program: [*client, "run", "--rm", "--network", "none", IMAGE, *program.argv]), version


PEERS = {"bubblewrap": bubblewrap, "crun": crun, "runc": runc, "docker": docker, "runsc": runsc}


def start(bench, stack, wanted):
    """([subject], {name: version}, [(name, why it is missing)])"""
    subjects, versions, missing = [], {}, []
    for name in wanted:
        try:
            subject, versions[name] = PEERS[name](bench, stack)
            subject.is_peer = True
            subjects.append(subject)
        except (Skipped, Failed, OSError, subprocess.SubprocessError) as why:
            missing.append((name, str(why)))
    return subjects, versions, missing
