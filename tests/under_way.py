"""Descriptors that a user has sent and nobody has received: the kernel counts them for all of its processes together, and holds them against each sender's own limit
on open files (too_many_unix_fds() in net/core/scm.c)."""

import contextlib
import errno
import os
import resource
import socket
import subprocess
import sys

SEND = """
import socket, sys
pairs = []
for _ in range(int(sys.argv[1])):
    pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    socket.send_fds(pairs[-1][0], [b"x"], [0] * 100)
print("sent", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def under_way(hundreds, uid=None):
    """Until the end of the block, or of what is yielded, which has terminate()."""
    command = [sys.executable, "-I", "-c", SEND, str(hundreds)]
    with subprocess.Popen(command, user=uid, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"sent\n"
        try:
            yield process
        finally:
            process.terminate()


def is_felt(limit):
    """Can this user send no descriptor while it may have so many open? Root always can."""
    receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        with receiver, sender:
            socket.send_fds(sender, [b"x"], [0])
    except OSError as e:
        assert e.errno == errno.ETOOMANYREFS, os.strerror(e.errno)
        return True
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    return False
