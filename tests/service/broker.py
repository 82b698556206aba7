"""glovebox-broker with us as its supervisor and front."""

import hashlib
import json
import os
import pathlib
import socket
import struct
import subprocess

import wire
from wire import ID, memfd, message, receive, send

RUNNING = 4


def limits(running=RUNNING, degraded=""):
    return struct.pack("=IIII128s", 1, 1, running, 0, degraded.encode())  # log: info, JSON


def tool_body(tool, policy, id=ID):
    return struct.pack("=32s72s64s", id.encode(), policy.encode(), tool.encode())


def hash_of(text):
    return hashlib.sha256(text).hexdigest()


class Answer:
    """What came over the call's socket: TOOL_DONE, TOOL_FAILED, or nothing (kind None)."""

    DENIAL = struct.Struct("=I384s256s")

    def __init__(self, msg):
        self.kind, self.error, self.text, self.failed, self.denials, self.result = msg and msg.kind, None, None, None, [], None
        if self.kind == "TOOL_FAILED":
            code, _, _, _, text = struct.unpack_from("=iii24s480s", msg.body)
            self.error, self.text = wire.ERRORS[code], text.split(b"\0")[0].decode()
        if self.kind == "TOOL_DONE":
            self.failed, count, self.wall_us = struct.unpack_from("=iIq", msg.body)
            rows = [self.DENIAL.unpack_from(msg.body, 16 + i * self.DENIAL.size) for i in range(count)]
            self.denials = [(code, reason.split(b"\0")[0].decode()) for code, reason, _ in rows]
            for fd in msg.fds:
                os.lseek(fd, 0, os.SEEK_SET)
                self.result = json.loads(wire.read_all(fd))
        for fd in msg.fds if msg else []:
            os.close(fd)

    def __repr__(self):
        return f"{self.kind}: {self.error} {self.text} {self.denials} {str(self.result)[:500]}"


class Call:
    def __init__(self, ours):
        self.socket = ours

    def answer(self, timeout=60):
        try:
            return Answer(receive(self.socket, timeout))
        finally:
            self.socket.close()


class Broker:
    """A real glovebox-broker."""

    def __init__(self, build, config, running=RUNNING, env=None, log=None, prefix=""):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.front, front = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        # Descriptor 3 and nothing else, as the supervisor does it.
        command = ["bash", "-c", prefix + ('exec "$0"' if number == 3 else f'exec 3<&{number} {number}<&-; exec "$0"'), str(build / "glovebox-broker")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log or subprocess.DEVNULL, pass_fds=[number], env={**os.environ, **(env or {})}
        )
        theirs.close()
        self.config = config if isinstance(config, bytes) else json.dumps(config).encode()
        fd = memfd(self.config)
        send(self.control, message("START_BROKER", limits(running)), [front.fileno(), fd])
        os.close(fd)
        front.close()
        ready = receive(self.control)
        assert ready and ready.kind == "READY", self.process.wait(60)

    @property
    def pid(self):
        return self.process.pid

    def reload(self, config, running=RUNNING, seals=wire.SEALS, tag=9):
        """Hands over another configuration; calls are made under it from now on if it is taken. Does not wait."""
        text = config if isinstance(config, bytes) else json.dumps(config).encode()
        fd = memfd(text, seals)
        send(self.control, message("CONFIG_BROKER", limits(running), tag=tag), [fd])
        os.close(fd)
        return text

    def call(self, tool, arguments, config=None, policy=None, seals=wire.SEALS, id=ID):
        """arguments: bytes, or a value that becomes JSON."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = memfd(arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode(), seals)
        body = tool_body(tool, hash_of(config or self.config) if policy is None else policy, id)
        send(self.front, message("TOOL", body), [theirs.fileno(), fd])
        os.close(fd)
        theirs.close()
        return Call(ours)

    def ask(self, *args, **kwargs):
        return self.call(*args, **kwargs).answer()

    def children(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def descriptors(self):
        return sorted(os.listdir(f"/proc/{self.pid}/fd"), key=int)

    def stop(self):
        send(self.control, message("STOP", bytes(8)))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.control.close()
        self.front.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
