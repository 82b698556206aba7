"""Steps whose proof is seen from outside the box, and where: read by tools/check-tree, which wants every step of steps.c to have one."""

OUTSIDE = {
    "uid": "test_outside.py: two boxes at once have different uids on the host, neither of them ours",
    "cgroup": "test_outside.py and integration/test_limits.py: the limits hold for all processes together",
    "cgroup-join": "test_outside.py: the program is in the box's cgroup",
    "ns-user": "test_outside.py: capabilities during set-up are not the host's (the box's user namespace is its own)",
    "ns-mount": "test_outside.py: the host's mount table is the same before and after",
    "ns-uts": "test_outside.py: its namespace is its own, and the host's name is unchanged",
    "mount-private": "probe propagation, through the wall of that name inside the step",
    "root": "probes mount_flags and system_write, through the wall mount-ro inside the step",
    "etc": "probe etc_contents, through the wall etc-made",
    "dev": "probe dev_contents, through the wall dev-made",
    "scratch": "probe scratch_size, through the wall scratch-size",
    "proc": "probes proc_contents, proc_write and init_secrets, through the walls proc-subset, proc-ro and proc-hidepid",
    "idmap": "probes id_map and set_groups, through the walls idmap-one and setgroups",
    "capabilities": "probe capabilities, through the wall caps",
    "descriptors": "probe descriptors, through the wall close-fds",
    "mounts": "probe system_write with a directory at /data, through the wall mount-ro",
    "files": "delivers the call's own files and confines nothing; integration/test_run.py",
    "die-with-parent": "test_outside.py: SIGKILL of glovebox takes the box along",
}
