"""glovebox-store with us as its supervisor, front and launcher, and a second opinion on its chain by the text of docs/audit.md."""

import contextlib
import hashlib
import os
import re
import socket
import sqlite3
import struct
import subprocess

import wire

START, INTENT, LAUNCH, OUTCOME, LOST, RETENTION, APPROVAL = range(1, 8)
UID = int(re.search(r"GB_UID_STORE +(\d+)U", (wire.SRC / "confine/confine.h").read_text()).group(1))
APPEND, FIND, KEEP = struct.Struct("=IIq32s64s64sII"), struct.Struct("=32s64sqII"), struct.Struct("=qqIIII128s")
ENTRY = struct.Struct("=4sIqqqqIIIIII32s")  # of the journal
ACK, ROW, USAGE = struct.Struct("=qiii24s480s4x"), struct.Struct("=qqII32s64s"), struct.Struct("=64s64sqqq")


def append_body(kind, id, principal=b"", tool=b"", calls=0, cpu_us=0, quiet=0):
    return APPEND.pack(kind, calls, cpu_us, id, principal, tool, quiet, 0)


def keep_body(seconds=0, bytes=0, sync_full=0, degraded=""):
    return KEEP.pack(seconds, bytes, sync_full, 1, 1, 0, degraded.encode())  # log: info, JSON


class Gone(Exception):
    pass


def text(field):
    return field.split(b"\0")[0].decode()


class Channel:
    """One end of a channel: sends what it is told, right or wrong."""

    def __init__(self, sock):
        self.sock, self.timeout = sock, 20
        sock.settimeout(self.timeout)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def send(self, kind, body=bytes(8), tag=0, fds=()):
        wire.send(self.sock, wire.message(kind, body, tag=tag), fds)

    def append(self, kind, id, body='{"tool":"t","status":"success"}', principal="alice", tag=0, tool="", calls=0, cpu_us=0, quiet=0):
        body = body if isinstance(body, bytes) else body.encode()
        self.send("APPEND", append_body(kind, id.encode(), principal.encode(), tool.encode(), calls, cpu_us, quiet) + body, tag)

    def find(self, id="", principal="", before=0, most=100, tag=0):
        self.send("FIND", FIND.pack(id.encode(), principal.encode(), before, most, 0), tag)

    def usage(self, day, tag=0):
        """What is told of a day: [(principal, tool, calls, cpu_us)]"""
        self.send("FIND_USAGE", struct.pack("=q", day), tag)
        found = []
        while True:
            kind, told, answer = self.receive()
            assert told == tag
            if kind == "END":
                assert answer["error"] == "NONE" and answer["seq"] == len(found), answer
                return found
            assert kind == "USAGE" and answer["day"] == day
            found.append(tuple(answer[name] for name in ("principal", "tool", "calls", "cpu_us")))

    def receive(self):
        """(kind, tag, what it says)"""
        m = wire.receive(self.sock, self.timeout)
        if not m:
            raise Gone
        if m.kind in ("ACK", "END"):
            seq, code, _, _, _, why = ACK.unpack(m.body)
            return m.kind, m.tag, {"seq": seq, "error": wire.ERRORS[code], "text": text(why)}
        if m.kind == "ROW":
            seq, when, kind, _, id, principal = ROW.unpack_from(m.body)
            return m.kind, m.tag, {"seq": seq, "time": when, "kind": kind, "id": text(id), "principal": text(principal), "body": m.body[ROW.size :].decode()}
        if m.kind == "USAGE":
            principal, tool, day, calls, cpu_us = USAGE.unpack(m.body)
            return m.kind, m.tag, {"principal": text(principal), "tool": text(tool), "day": day, "calls": calls, "cpu_us": cpu_us}
        return m.kind, m.tag, {}

    def ack(self):
        kind, tag, answer = self.receive()
        assert kind == "ACK"
        return tag, answer

    def store(self, *args, **kwargs):
        """Appends one record and waits for its number."""
        self.append(*args, **kwargs)
        answer = self.ack()[1]
        assert answer["error"] == "NONE", answer
        return answer["seq"]

    def rows(self):
        found = []
        while True:
            kind, _, answer = self.receive()
            if kind == "END":
                assert answer["error"] == "NONE", answer
                assert answer["seq"] == len(found)
                return found
            assert kind == "ROW"
            found.append(answer)


class Store:
    """A running glovebox-store and the three that talk to it."""

    def __init__(self, gb, folder, keep=(), command=None):
        control, front, launch = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3))
        self.process = subprocess.Popen(
            command or [gb.build / "glovebox-store"],
            cwd=folder,
            pass_fds=(3,),
            preexec_fn=lambda: os.dup2(control[1].fileno(), 3, inheritable=True),
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.control, self.front, self.launch = Channel(control[0]), Channel(front[0]), Channel(launch[0])
        self.control.send("START_STORE", keep_body(*keep), fds=[front[1].fileno(), launch[1].fileno()])
        for pair in (control, front, launch):
            pair[1].close()

    def ready(self):
        try:
            assert self.control.receive()[0] == "READY"
        except Gone:
            raise AssertionError(f"the store did not start: {self.end()}") from None
        return self

    def end(self):
        """Waits for its end. Returns the exit code and what it has logged."""
        _, log = self.process.communicate(timeout=60)
        for channel in (self.control, self.front, self.launch):
            channel.sock.close()
        log = log.decode()
        assert "Sanitizer" not in log and "runtime error" not in log, log
        return self.process.returncode, log

    def stop(self):
        self.control.send("STOP")
        code, log = self.end()
        assert code == 0, log
        return log


def make_folder(gb, parent):
    """The directory as the supervisor makes it: as root it is the store's own."""
    path = parent / "audit"
    path.mkdir(mode=0o700)
    if gb.mode == "root":
        os.chown(path, UID, UID)
    return path


def number(n):
    return n.to_bytes(8, "big", signed=True)


def counted(data):
    data = data.encode() if isinstance(data, str) else data
    return number(len(data)) + data


def chained(previous, row):
    data = counted("glovebox audit record 1") + previous + number(row["seq"]) + number(row["time_us"]) + number(row["kind"])
    return hashlib.sha256(data + counted(row["id"]) + counted(row["principal"]) + counted(row["body"])).digest()


def journal(folder):
    """What the entries of the journal hold, whether it counts or not."""
    try:
        data = (folder / "audit.journal").read_bytes()
    except FileNotFoundError:
        return
    while len(data) >= ENTRY.size and data.startswith(b"GBj1"):
        _, size, seq, time_us, _, _, kind, _, *lengths, digest = ENTRY.unpack_from(data)
        at, texts = ENTRY.size, []
        for length in lengths:
            texts.append(data[at : at + length])
            at += length + 1
        if at > size or size > len(data):
            return
        id, principal, _, body = texts
        with contextlib.suppress(UnicodeDecodeError):
            yield {"seq": seq, "time_us": time_us, "kind": kind, "id": id.decode(), "principal": principal.decode(), "body": body.decode(), "hash": digest}
        data = data[size:]


def records(folder):
    """All records, after having checked the chain by ourselves: those of the tables, and those of the journal that follow them."""
    waiting = list(journal(folder))
    with contextlib.closing(sqlite3.connect(folder / "audit.db")) as db:
        db.row_factory = sqlite3.Row
        db.execute("BEGIN")
        rows = [dict(row) for row in db.execute("SELECT * FROM records ORDER BY seq")]
        base, head = db.execute("SELECT * FROM base").fetchone(), db.execute("SELECT * FROM head").fetchone()
    previous, seq = base["hash"], base["seq"]
    for row in rows:
        if row["seq"] > base["seq"]:
            seq += 1
            assert row["seq"] == seq
            assert row["hash"] == chained(previous, row)
            previous = row["hash"]
    assert (head["seq"], head["hash"], head["count"]) == (seq, previous, len(rows))
    for row in waiting:
        if row["seq"] == seq + 1 and row["hash"] == chained(previous, row):
            rows.append(row)
            seq, previous = seq + 1, row["hash"]
    return rows


def verify(gb, folder, *options):
    done = gb("audit", "verify", "--dir", folder, *options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
