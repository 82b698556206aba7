"""What processes and cgroups hold, read from /proc and /sys/fs/cgroup."""
import os
import re

CGROUPS = "/sys/fs/cgroup"
ZYGOTE, CRADLE = "glovebox-zygote", "glovebox-cradle"


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:  # it ended meanwhile
        return ""


def table():
    """{pid: (name, parent)} of all processes that are alive."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        stat = read(f"/proc/{pid}/stat")
        if stat and (rest := stat[stat.rindex(")") + 2:].split())[0] not in "ZX":
            found[int(pid)] = (stat[stat.index("(") + 1:stat.rindex(")")], int(rest[1]))
    return found


def family(root, processes=None):
    """The process and all its descendants."""
    processes = processes or table()
    found = [root]
    for pid in found:
        found += [p for p, (_, parent) in processes.items() if parent == pid]
    return [pid for pid in found if pid in processes]


def pss_kib(pid, key="Pss"):
    match = re.search(rf"^{key}:\s+(\d+)", read(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(match.group(1)) if match else 0


def own_kib(pid):
    """Proportional set size without pages of files: of a library that others map, too, its share changes with them."""
    return pss_kib(pid) - pss_kib(pid, "Pss_File")


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def is_first(pid):
    """Is it PID 1 of a pid namespace of its own?"""
    match = re.search(r"^NSpid:\s+\d+.*\t1$", read(f"/proc/{pid}/status"), re.M)
    return bool(match)


def waiting_boxes(root):
    """[(kind, [pids])]: a box is the first process of a pid namespace below a zygote, with all its descendants, and the cradle that is there for it. Its kind is the
    interpreter in it."""
    processes = table()
    below = {p for z in family(root, processes) if processes[z][0].startswith(ZYGOTE) for p in family(z, processes)[1:]}
    boxes = []
    for pid in sorted(below):
        if is_first(pid):
            pids = family(pid, processes)
            names = {program(p) for p in pids}
            kind = next((kind for kind in ("python", "node") if any(name.startswith(kind) for name in names)), "plain")
            boxes.append((kind, pids + [p for p in [processes[pid][1]] if processes[p][0] == CRADLE]))
    return boxes


# --- cgroups ---

def is_v2():
    return os.path.exists(os.path.join(CGROUPS, "cgroup.controllers"))


def hierarchies(name):
    """The directories of a cgroup: one on v2, one for each hierarchy on v1."""
    if is_v2():
        return [os.path.join(CGROUPS, name)]
    return [os.path.join(entry.path, name) for entry in os.scandir(CGROUPS) if entry.is_dir(follow_symlinks=False)]


def make_cgroup(name):
    """For boxes, with the controllers that they need; as root."""
    for path in hierarchies(name):
        if is_v2():
            with open(os.path.join(os.path.dirname(path), "cgroup.subtree_control"), "w", encoding="ascii") as f:
                f.write("+memory +pids +cpu")
        os.makedirs(path, exist_ok=True)


def cgroups_below(name):
    return sum(len(directories) for path in hierarchies(name) for _, directories, _ in os.walk(path))


def remove_cgroups(test):
    """Those whose name passes the test, with what is below them, if nobody is in them any more."""
    for top in hierarchies(""):
        for path, directories, _ in os.walk(top, topdown=False):
            if any(map(test, os.path.relpath(path, top).split("/"))):
                try:
                    os.rmdir(path)
                except OSError:
                    pass
