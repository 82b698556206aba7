"""Where a benchmark works: a directory that is gone afterwards, the programs that were built, and what peers need of the host."""
import json
import os
import shutil
import subprocess
import tempfile

import proc
import tree


class Bench:
    """with Bench(glovebox) as bench: on disk, since images and root trees are large, and with a path that is short enough for sockets."""

    def __init__(self, glovebox):
        self.glovebox = os.path.abspath(glovebox)
        self.tools = os.path.dirname(self.glovebox)
        self.programs = {}
        self.directory = None

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="gb-bench-", dir="/var/tmp")
        os.chmod(self.directory, 0o755)  # the processes of the service, and boxes, are other users
        return self

    def __exit__(self, *_):
        unmount_below(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        if os.geteuid() == 0:
            proc.remove_cgroups(lambda name: name.startswith(self.name))

    @property
    def name(self):
        """Of cgroups and containers: no other run has it."""
        return os.path.basename(self.directory)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def tool(self, name):
        return os.path.join(self.tools, name)

    def root(self):
        """The root tree, built when it is first wanted."""
        path = self.path("root")
        if not os.path.isdir(path):
            tree.build(path, self.programs)
        return path

    @staticmethod
    def write_json(path, value):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(value, f, indent=2)


def unmount_below(directory):
    """What a daemon left mounted there, the innermost first."""
    lines = [line.split() for line in proc.read("/proc/self/mountinfo").splitlines()]
    for path in sorted((fields[4] for fields in lines if fields[4].startswith(directory + "/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)
