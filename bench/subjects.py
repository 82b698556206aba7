"""What is compared: the same program bare, in bubblewrap and in Glovebox."""
import os
import shutil

BOX_PATH = "/usr/local/bin:/usr/bin:/bin"
ENV = {"PATH": BOX_PATH} | {k: v for k, v in os.environ.items() if k.startswith("GLOVEBOX_") and "TEST" not in k}
CODE = "print(2+2)"


def bubblewrap(bwrap, program):
    """A sensible everyday box: all namespaces, system directories read-only, own /proc, /dev and /tmp. It has no cgroup, no seccomp filter, no
    landlock and no limits: there is no more to be had from bubblewrap's own options."""
    argv = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = "/" + name
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    return argv + ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "--"] + program


def find(glovebox):
    """Returns ({"true": {runner: (argv, env)}, "python": …}, [what is missing])."""
    bwrap = shutil.which("bwrap")
    python = shutil.which("python3", path=BOX_PATH)
    programs = {"true": (["/bin/true"], ["--", "/bin/true"])}
    missing = []
    if python:
        programs["python"] = ([python, "-c", CODE], ["-c", CODE])
    else:
        missing.append(f"python3 (not in {BOX_PATH})")
    if not bwrap:
        missing.append("bubblewrap (apt-get install bubblewrap)")
    found = {}
    for name, (bare, boxed) in programs.items():
        found[name] = {"bare": (bare, ENV)}
        if bwrap:
            found[name]["bubblewrap"] = (bubblewrap(bwrap, bare), ENV)
        found[name]["glovebox"] = ([glovebox, "run", *boxed], ENV)
    return found, missing
