"""What a process of the service looks like from outside when all its walls stand: read from /proc, not from what the process says of itself."""

import os
import pathlib
import re

UIDS = {"front": 2000065537, "store": 2000065538} | dict.fromkeys(["broker", "broker-file", "broker-net", "broker-database"], 2000065539)
LAUNCH_CAPS = 1 << 0 | 1 << 1 | 1 << 6 | 1 << 7 | 1 << 31  # CHOWN, DAC_OVERRIDE, SETGID, SETUID, SETFCAP


def fields(text):
    return dict(re.findall(r"^(\w+):[ \t]*(.*?) *$", text, re.M))


def own_caps():
    return int(fields(pathlib.Path("/proc/self/status").read_text())["CapBnd"], 16)


def missing(pid, row, root=True):
    """Walls (names of steps in src/confine/confine.c) that process `pid`, which should be confined as `row`, does without."""
    proc = pathlib.Path("/proc", str(pid))
    status = fields((proc / "status").read_text())
    hard = dict(re.findall(r"^(Max .*?)  +\S+ +(\S+)", (proc / "limits").read_text(), re.M))
    servant, child, host = row != "launch", row.startswith("broker-"), row.startswith("broker")
    caps = LAUNCH_CAPS & own_caps() if not servant else 0
    # The owner of what /proc shows of a process that cannot be dumped is root, whoever it runs as.
    walls = {
        "nnp": status["NoNewPrivs"] == "1",
        "seccomp": status["Seccomp"] == "2",
        "rlimits": hard["Max core file size"] in ("0", "1") and (not servant or host or hard["Max processes"] == "0"),
        "hidden": status["Uid"].split()[0] == "0" or (proc / "environ").stat().st_uid == 0,
    }
    if child:
        parents = fields(pathlib.Path("/proc", status["PPid"], "status").read_text())
        walls |= {
            "narrow-rlimits": hard["Max processes"] == "0" and hard["Max open files"] == "64" and hard["Max cpu time"] != "unlimited",
            "narrow-seccomp": int(status["Seccomp_filters"]) > int(parents["Seccomp_filters"]),
        }
    if root:
        same = {name for name in ["net", "ipc", "uts", "mnt"] if os.readlink(proc / "ns" / name) == os.readlink(f"/proc/self/ns/{name}")}
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
        walls |= {
            "net": "net" not in same or host,
            "ipc": not same & {"ipc", "uts"},
            "caps": all(int(status[name], 16) == (caps if name in ("CapPrm", "CapEff") else 0) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")),
            "bounding": int(status["CapBnd"], 16) == caps,
        }
        if servant:
            walls["identity"] = set(status["Uid"].split()) == {str(UIDS[row])} == set(status["Gid"].split()) and not status["Groups"]
            flags = {"nosuid", "nodev", "noexec"} | ({"ro"} if row == "front" else set())
            walls["root"] = host or "mnt" not in same and len(mounts) == 1 and flags <= set(mounts[0][5].split(","))
        else:
            # The last mount of a place is the one that is seen.
            seen = {m[4]: m[5].split(",") for m in mounts}
            frozen = [place for place in seen if not re.match(r"/(proc|sys/fs/cgroup|run/glovebox)(/|$)", place)]
            walls["view"] = "mnt" not in same and all("ro" in seen[place] for place in frozen)
    return sorted(name for name, stands in walls.items() if not stands)
