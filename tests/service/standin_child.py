#!/usr/bin/python3
"""Takes the place of a child of the supervisor, under the name of which it is started, and misbehaves as STANDIN tells it.

Speaks as much of src/wire/msg.def as that takes: a header (magic, kind, tag), a body of eight bytes, descriptors. The front of the
stand-ins answers every connection with 200.

    STANDIN="front:refuse launch:exit"      behaviour of each that is not to behave
"""

import os
import pathlib
import re
import select
import socket
import struct
import sys
import time

MAGIC = 0x31424C47
KINDS = re.findall(r"^GB_MSG\((\w+),", (pathlib.Path(__file__).resolve().parent.parent.parent / "src/wire/msg.def").read_text(), re.M)
NAME = os.path.basename(sys.argv[0]).removeprefix("glovebox-")
BEHAVIOUR = dict(word.split(":") for word in os.environ.get("STANDIN", "").split()).get(NAME, "")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

control = socket.socket(fileno=3)


def receive():
    data, fds, _, _ = socket.recv_fds(control, 1 << 17, 16)
    if not data:
        sys.exit(0)
    _, number, tag = struct.unpack_from("=IIQ", data)
    return KINDS[number], tag, fds


def say_ready(tag=0):
    control.send(struct.pack("=IIQQ", MAGIC, KINDS.index("READY"), tag, 0))


kind, _, fds = receive()
print(f"{NAME}: fds {sorted(map(int, os.listdir('/proc/self/fd')))} cwd {os.getcwd()} sid {os.getsid(0) == os.getpid()}", file=sys.stderr)
if BEHAVIOUR == "exit":
    sys.exit(3)
if BEHAVIOUR == "babble":
    control.send(b"something else")
say_ready()
if BEHAVIOUR == "hangup":
    os.closerange(0, 100)
    time.sleep(1000)
doors = [socket.socket(fileno=fd) for fd in fds[5:]] if kind == "START_FRONT" else []
while True:
    for ready in select.select([control, *doors], [], [])[0]:
        if ready is not control:
            client, _ = ready.accept()
            client.recv(4096)
            client.sendall(ANSWER)
            client.close()
            continue
        kind, tag, _ = receive()
        print(f"{NAME}: message {kind}", file=sys.stderr)
        if kind in ("CONFIG", "CONFIG_BROKER") and BEHAVIOUR != "refuse":
            say_ready(tag)
        if kind == "STOP" and BEHAVIOUR != "stay":
            sys.exit(0)
