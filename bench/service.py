"""`glovebox serve`, with directories, a port and a cgroup of its own."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import proc
from programs import ENV, Failed

START_S = 30
STOP_S = 60
# What a newcomer gets, and one more tool that runs /bin/true and nothing else.
CONFIG = {"tools": [{"name": "execute_code", "code": {}}, {"name": "execute_command", "command": {}}, {"name": "true", "command": {"argv": ["true"]}}]}


class Service:
    """with Service(bench) as service: it runs."""

    def __init__(self, bench):
        self.bench = bench
        self.cgroup = os.path.join(os.environ.get("GLOVEBOX_CGROUP_PARENT", "").strip("/"), bench.name) if os.geteuid() == 0 else None
        self.socket = bench.path("glovebox.sock")
        self.config = CONFIG | {"listen": ["127.0.0.1:0", f"unix:{self.socket}"], "state_dir": bench.path("state"), "runtime_dir": bench.path("run")}
        if self.cgroup:
            proc.make_cgroup(self.cgroup)
            self.config["cgroup_parent"] = "/" + self.cgroup
        self.write(self.config)
        self.process = self.address = None

    def __enter__(self):
        env = {name: value for name, value in ENV.items() if name != "GLOVEBOX_CGROUP_PARENT"}
        with open(self.bench.path("serve.out"), "wb") as out, open(self.bench.path("serve.err"), "wb") as err:
            argv = [self.bench.glovebox, "serve", "--config", self.bench.path("glovebox.yaml")]
            self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        end = time.monotonic() + START_S
        while not (found := re.search(r"http://(127\.0\.0\.1:\d+)", proc.read(self.bench.path("serve.out")))):
            if self.process.poll() is not None or time.monotonic() > end:
                why = proc.read(self.bench.path("serve.err"))[-400:]
                self.__exit__()
                raise Failed(f"the service does not start: {why}")
            time.sleep(0.02)
        self.address = found.group(1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.cgroup:
            proc.remove_cgroups(lambda name: name == os.path.basename(self.cgroup))

    # --- how it is configured ---

    def write(self, config):
        new = self.bench.path("glovebox.yaml.new")
        with open(new, "w", encoding="utf-8") as f:
            json.dump(config, f)
        os.chmod(new, 0o600)
        os.rename(new, self.bench.path("glovebox.yaml"))

    @contextlib.contextmanager
    def configured(self, **changes):
        """While the block lasts, it has this besides, or in place of what it had."""
        self.write(self.config | changes)
        self.process.send_signal(signal.SIGHUP)
        try:
            yield
        finally:
            self.write(self.config)
            self.process.send_signal(signal.SIGHUP)

    # --- what it holds ---

    def holdings(self):
        pids = proc.family(self.process.pid)
        held = {"processes": len(pids), "pss_kib": sum(map(proc.pss_kib, pids)), "own_kib": sum(map(proc.own_kib, pids)), "descriptors": sum(map(proc.descriptors, pids)),
                "boxes": len(proc.waiting_boxes(self.process.pid))}
        if self.cgroup:
            held["cgroups"] = proc.cgroups_below(self.cgroup)
        return held

    def settle(self, seconds=20.0, processes=None):
        """Until the number of its processes has not changed for a second (and is no more than this)."""
        end, since, last = time.monotonic() + seconds, time.monotonic(), None
        while time.monotonic() < end:
            now = len(proc.family(self.process.pid))
            if now != last:
                since, last = time.monotonic(), now
            if time.monotonic() - since > 1 and (processes is None or now <= processes):
                return
            time.sleep(0.1)
