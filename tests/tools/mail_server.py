"""OpenSMTPD on loopback, with a mount namespace of its own, so that it keeps its queue and its socket to itself. Whatever it takes becomes a file."""

import email
import email.policy
import pathlib
import shutil
import signal
import smtplib
import socket
import subprocess
import tempfile
import time

CONF = """
listen on 127.0.0.1 port {port}
action "keep" mda "{keep}" virtual {{ "@" = nobody }}
match from any for rcpt-to regex {{ "^full@" }} reject
match from any for any action "keep"
"""
KEEP = """#!/bin/sh
cat > {box}/$$.part && mv {box}/$$.part {box}/$$.mail
"""
START = """set -e
mount -t tmpfs -o mode=0755 none /run
mount -t tmpfs -o mode=0755 none /var/spool
mkdir -m 711 /var/spool/smtpd
exec /usr/sbin/smtpd -d -f "$1"
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class MailServer:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-mail-"))
        self.directory.chmod(0o755)
        self.box = self.directory / "box"
        self.box.mkdir()
        self.box.chmod(0o777)
        self.port = free_port()
        conf, keep = self.directory / "smtpd.conf", self.directory / "keep"
        keep.write_text(KEEP.format(box=self.box))
        keep.chmod(0o755)
        conf.write_text(CONF.format(port=self.port, keep=keep))
        self.log = open(self.directory / "log", "wb")  # noqa: SIM115
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", START, "sh", conf], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        self.wait_for("its greeting", self.greets)

    def wait_for(self, what, done, seconds=60):
        end = time.monotonic() + seconds
        while not (result := done()):
            assert time.monotonic() < end and self.process.poll() is None, f"no {what}: {(self.directory / 'log').read_text()}"
            time.sleep(0.05)
        return result

    def greets(self):
        try:
            with smtplib.SMTP("127.0.0.1", self.port, timeout=5):
                return True
        except OSError:
            return False

    @property
    def url(self):
        return f"smtp://127.0.0.1:{self.port}"

    def mails(self, count):
        """Waits for so many mails; all that came, parsed."""
        found = self.wait_for(f"{count} mails", lambda: len(files := list(self.box.glob("*.mail"))) >= count and files)
        return [email.message_from_bytes(file.read_bytes(), policy=email.policy.default) for file in found]

    @property
    def is_empty(self):
        return not any(self.box.iterdir())

    def clear(self):
        for file in self.box.iterdir():
            file.unlink()

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.log.close()
        shutil.rmtree(self.directory)
