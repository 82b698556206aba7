"""Runs inside network and mount namespaces of its own (test_rebinding.py): a name server on port 53 whose answers change with every question, a listener at a
private address behind the name, and the tool. Prints one JSON object: how often the listener was reached, and what the tool said.

    rebind.py TOOL-CALL ROUNDS
"""

import fcntl
import itertools
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"
PUBLIC_V6, PRIVATE_V6 = "2606:2800:220:1::1", "::1"
# For each name, the sets of addresses that it has in turn.
NAMES = {
    "alternating.test": [[PUBLIC], [PRIVATE]],
    "mixed.test": [[PUBLIC, PRIVATE], [PRIVATE, PUBLIC]],
    "mixed6.test": [[PUBLIC, PRIVATE_V6], [PRIVATE, PUBLIC_V6]],
    "metadata.test": [["169.254.169.254"], ["fd00:ec2::254"]],
    "private.test": [[PRIVATE]],
    "named.test": [[PRIVATE]],
}
TYPES = {1: (socket.AF_INET, "."), 28: (socket.AF_INET6, ":")}


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))


def own_resolver():
    """Only we see these: the mount namespace is ours."""
    directory = pathlib.Path(tempfile.mkdtemp())
    for name, text in [("resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:3\n"), ("nsswitch.conf", "hosts: files dns\n")]:
        (directory / name).write_text(text)
        target = pathlib.Path("/etc") / name
        subprocess.run(["mount", "--bind", directory / name, target.resolve()], check=True)


def name_server(asked):
    turns = {name: itertools.cycle(sets) for name, sets in NAMES.items()}
    current = {}
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        data, peer = server.recvfrom(4096)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += data[at] + 1
        name, kind = ".".join(labels).lower(), struct.unpack(">H", data[at + 1 : at + 3])[0]
        asked.append(name)
        if name in turns and kind == 1:
            current[name] = next(turns[name])
        family, mark = TYPES.get(kind, (None, None))
        answers = [address for address in current.get(name, []) if mark and mark in address and (mark == ":" or ":" not in address)]
        records = b"".join(struct.pack(">HHHIH", 0xC00C, kind, 1, 0, 4 if kind == 1 else 16) + socket.inet_pton(family, address) for address in answers)
        head = data[:2] + struct.pack(">HHHHH", 0x8180 if name in turns else 0x8183, 1, len(answers), 0, 0)
        server.sendto(head + data[12 : at + 5] + records, peer)


def listener(family, address, reached):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, 8080))
    server.listen(64)
    while True:
        client, _ = server.accept()
        reached.append(address)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        client.close()


def main():
    program, rounds = sys.argv[1], int(sys.argv[2])
    loopback_up()
    own_resolver()
    asked, reached, verdicts = [], [], {}
    for target, args in [(name_server, (asked,)), (listener, (socket.AF_INET, PRIVATE, reached)), (listener, (socket.AF_INET6, PRIVATE_V6, reached))]:
        threading.Thread(target=target, args=args, daemon=True).start()
    calls, names = "", []
    for name in NAMES:
        for _ in range(rounds if name != "named.test" else 3):
            spec = {"url": f"http://{name}:8080/", "timeout_seconds": 5, **({"private": ["named.test"]} if name == "named.test" else {})}
            calls += json.dumps({"kind": "http", "spec": spec, "arguments": {}, "secrets": {}}) + "\n"
            names.append(name)
    done = subprocess.run([program], input=calls, capture_output=True, text=True, check=True)
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        verdict = "refused" if answer["denials"] else "failed" if answer["failed"] else "reached"
        verdicts.setdefault(name, {}).setdefault(verdict, 0)
        verdicts[name][verdict] += 1
    print(json.dumps({"reached": len(reached), "asked": len(asked), "verdicts": verdicts}))


main()
