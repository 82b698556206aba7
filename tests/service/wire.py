"""The messages of src/wire, spoken from Python: a stand-in for the front or the supervisor that can also say what those never would."""

import array
import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading

SRC = pathlib.Path(__file__).resolve().parent.parent.parent / "src"
MAGIC = 0x31424C47
KINDS = [name for name in re.findall(r"^GB_MSG\((\w+),", (SRC / "wire/msg.def").read_text(), re.M)]
LIMITS = [name for name in re.findall(r"^GB_LIMIT\((\w+),", (SRC / "spec/limits.def").read_text(), re.M)]
DEFAULTS = dict(timeout_ms=30000, cpu_ms=10000, cpu_percent=100, memory_mb=256, disk_mb=100, pids=64, open_files=256, output_bytes=1000000)
SEALS = 1 | 2 | 4 | 8  # SEAL, SHRINK, GROW, WRITE
F_ADD_SEALS = 1033
ARG, ENV, OUTPUT, NAME, DATA, PROGRAM, SKIPPED = range(1, 8)
PROBE, START_CODE, FOLLOWED = 1, 2, 4
APPEND = struct.Struct("=IIq32s64s64sII")  # kind, calls, cpu_us, id, principal, tool, quiet; a record's JSON follows
POOLS = int(re.search(r"^#define GB_POOLS\s+(\d+)", (SRC / "spec/pool.h").read_text(), re.M)[1])
ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ERRORS = ["NONE", *re.findall(r"^GB_ERROR\((\w+),", (SRC / "base/err.def").read_text(), re.M)]
STATUSES = re.findall(r'^GB_STATUS\(\w+, "(\w+)"', (SRC / "spec/status.def").read_text(), re.M)
assert len(KINDS) > 10 and set(LIMITS) == set(DEFAULTS)


def limits(**changes):
    return struct.pack("=8q", *({**DEFAULTS, **changes}[name] for name in LIMITS))


def ceiling(running=2, parent="", degraded="", **changes):
    return limits(**changes) + struct.pack("=IIII256s128s", running, 1, 1, 0, parent.encode(), degraded.encode())  # log: info, JSON


def run_body(payload_bytes, id=ID, flags=0, runtime=0, pool=0, **changes):
    return struct.pack("=32s", id.encode()) + limits(**changes) + struct.pack("=IIQQ", flags, runtime, payload_bytes, pool)


def want(key=1, kind=0, low=1, high=2, program=b"", preload=b"", **changes):
    """One row of POOLS."""
    return struct.pack("=QIIII", key, kind, low, high, 0) + limits(**changes) + struct.pack("=256s512s", program, preload)


def pools(*wants, count=None, zygote_boxes=10000, idle_ms=10000):
    body = struct.pack("=IIII", len(wants) if count is None else count, zygote_boxes, idle_ms, 0) + b"".join(wants)
    return body + b"\0" * len(want()) * (POOLS - len(wants))


def message(kind, body, tail=b"", tag=7, magic=MAGIC):
    return struct.pack("=IIQ", magic, KINDS.index(kind) if isinstance(kind, str) else kind, tag) + body + tail


def send(sock, data, fds=()):
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


class Message:
    def __init__(self, data, fds):
        magic, kind, self.tag = struct.unpack_from("=IIQ", data)
        assert magic == MAGIC
        self.kind, self.body, self.fds = KINDS[kind], data[16:], fds

    def failure(self):
        """(code, step, text) of a RUN_FAILED."""
        assert self.kind == "RUN_FAILED", self.kind
        code, _, _, step, text = struct.unpack_from("=iii24s480s", self.body)
        return ERRORS[code], step.split(b"\0")[0].decode(), text.split(b"\0")[0].decode()

    def done(self):
        assert self.kind == "RUN_DONE", self.failure()
        status, exit_code, signal, files, reason = struct.unpack_from("=iiiI16s", self.body)
        return {"status": STATUSES[status], "exit_code": exit_code, "signal": signal, "files": files, "kill_reason": reason.split(b"\0")[0].decode()}

    def receipt(self):
        return self.body[32 + 7 * 8 + 8 :]


def receive(sock, timeout=60):
    """A message, or None when the other end is gone."""
    sock.settimeout(timeout)
    try:
        data, control, _, _ = sock.recvmsg(1 << 17, 1024)
    except ConnectionResetError:
        return None
    fds = array.array("i")
    for _, kind, content in control:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % 4])
    return Message(data, list(fds)) if data else None


def item(kind, data):
    return struct.pack("=II", kind, len(data)) + data


def text(kind, value):
    return item(kind, (value if isinstance(value, bytes) else value.encode()) + b"\0")


def payload(*argv, env=(), files=(), outputs=()):
    parts = [text(ARG, a) for a in argv] + [text(ENV, e) for e in env] + [text(OUTPUT, o) for o in outputs]
    for name, data in files:
        parts += [text(NAME, name), item(DATA, data)]
    return b"".join(parts)


def unpack(data):
    """Items of a payload as (kind, bytes)."""
    items = []
    while data:
        kind, size = struct.unpack_from("=II", data)
        items.append((kind, data[8 : 8 + size]))
        data = data[8 + size :]
    return items


def memfd(data, seals=SEALS):
    fd = os.memfd_create("payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def read_all(fd):
    data = b""
    while chunk := os.read(fd, 65536):
        data += chunk
    return data


class Run:
    """One RUN message that was sent, and what comes of it: perhaps where its output comes from, then its answer."""

    def __init__(self, socket_):
        self.socket, self.streams, self.ended, self.end = socket_, None, False, None

    def take(self, timeout=60):
        """One message."""
        try:
            message = receive(self.socket, timeout)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            message = None  # we have hung up ourselves
        told = message and (message.kind == "RUN_OUTPUT" or message.kind == "RUN_DONE" and len(message.fds) >= 2)
        if told:
            assert not self.streams and not self.ended
            self.streams, message.fds = message.fds[:2], message.fds[2:]
            for fd in self.streams:
                os.set_blocking(fd, True)
        if not told or message.kind == "RUN_DONE":
            self.ended, self.end = True, message

    def has_output(self):
        """Has its program started, or will it never?"""
        while not self.streams and not self.ended:
            self.take()
        return self.streams is not None

    @property
    def out(self):
        assert self.has_output(), self.end and self.end.failure()
        return self.streams[0]

    @property
    def err(self):
        assert self.has_output(), self.end and self.end.failure()
        return self.streams[1]

    def answer(self, timeout=60):
        while not self.ended:
            self.take(timeout)
        return self.end

    def output(self):
        return read_all(self.out) if self.has_output() else b""

    def close(self):
        self.socket.close()
        for fd in self.streams or ():
            os.close(fd)


def ack(tag, error="NONE", why=""):
    """The store's answer to a record."""
    return message("ACK", struct.pack("=qiii24s480s4x", 1, ERRORS.index(error), 0, 0, b"", why.encode()), tag=tag)


class Launcher:
    """A real glovebox-launch, with us as its supervisor, front and store. by_hand: what it asks the store is the test's to answer, too."""

    def __init__(self, build, env=None, by_hand=False, **limit):
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control = control
        self.front, front = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.store, store = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Descriptor 3 and nothing else, as the supervisor does it.
        number = theirs.fileno()
        command = ["bash", "-c", 'exec "$0"' if number == 3 else f'exec 3<&{number} {number}<&-; exec "$0"', str(build / "glovebox-launch")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()], env={**os.environ, **(env or {})})
        theirs.close()
        limit.setdefault("parent", os.environ.get("GLOVEBOX_CGROUP_PARENT", ""))
        send(self.control, message("START_LAUNCH", ceiling(**limit)), [front.fileno(), store.fileno()])
        front.close()
        store.close()
        ready = receive(self.control)
        if not ready:
            raise AssertionError(self.process.communicate()[1].decode())
        assert ready.kind == "READY"
        self.recorded = []
        self.answering = threading.Thread(target=self.answer_all, daemon=True)
        if not by_hand:
            self.answering.start()

    def answer_all(self):
        """What the store does on a good day."""
        while record := self.record(timeout=None):
            self.recorded.append(record)
            try:
                self.store.send(ack(record.tag))
            except OSError:
                return

    def record(self, timeout=60):
        """The next record, or None when the launcher is gone or we have hung up."""
        try:
            return receive(self.store, timeout)
        except (OSError, ValueError):
            return None

    def run_raw(self, data, fds):
        """Sends bytes as a RUN, with a socket in front of the other descriptors."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        send(self.front, data, [theirs.fileno(), *fds])
        theirs.close()
        return ours

    def run(self, content, *, stdin=None, seals=SEALS, bytes=None, **body):
        fds = [memfd(content, seals)] + ([memfd(stdin, 0)] if stdin is not None else [])
        data = message("RUN", run_body(len(content) if bytes is None else bytes, **body))
        ours = self.run_raw(data, fds)
        for fd in fds:
            os.close(fd)
        return Run(ours)

    def records(self):
        """Bodies of the records so far."""
        return [record.body[APPEND.size :] for record in self.recorded]

    def hang_up(self):
        """As the store, for the launcher and for the thread that reads."""
        self.store.shutdown(socket.SHUT_RDWR)
        self.store.close()

    def wait(self, timeout=60):
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if self.answering.is_alive():
            self.answering.join()  # the launcher's end is the end of its channel
        for sock in [self.control, self.front, self.store]:
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
