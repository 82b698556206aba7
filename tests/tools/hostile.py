"""A server on loopback that does whatever a script says, byte for byte: what no decent server would."""

import contextlib
import socket
import threading


class Hostile:
    """script(conn) is run for each connection, in a thread of its own. What clients sent and scripts read is in .got."""

    def __init__(self, script, host="127.0.0.1"):
        self.script, self.got, self.connections = script, b"", 0
        self.server = socket.create_server((host, 0), backlog=16)
        self.port = self.server.getsockname()[1]
        self.stopping = threading.Event()
        self.threads, self.open = [], []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            conn.settimeout(30)
            self.connections += 1
            self.open.append(conn)
            thread = threading.Thread(target=self.run, args=(conn,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def run(self, conn):
        with contextlib.suppress(OSError), conn:
            self.script(Line(self, conn))

    def close(self):
        self.stopping.set()
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for conn in self.open:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        for thread in [self.thread, *self.threads]:
            thread.join(60)
            assert not thread.is_alive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Line:
    """A connection, with what scripts need."""

    def __init__(self, server, conn):
        self.server, self.conn = server, conn

    def send(self, data):
        self.conn.sendall(data)

    def read(self, size=65536):
        data = self.conn.recv(size)
        self.server.got += data
        if not data:
            raise OSError("the client is gone")
        return data

    def until(self, end):
        """Reads up to and with these bytes."""
        data = b""
        while end not in data:
            data += self.read()
        return data

    def flood(self, data, most=1 << 40):
        """The same again and again, until the client has gone or it was so many bytes."""
        sent = 0
        while sent < most and not self.server.stopping.is_set():
            self.conn.sendall(data)
            sent += len(data)

    def drip(self, data, seconds=0.05):
        """Byte by byte, until the client has gone."""
        for i in range(len(data)):
            if self.server.stopping.wait(seconds):
                return
            self.conn.sendall(data[i : i + 1])

    def wait(self):
        """Says nothing until the client has gone."""
        while True:
            self.read()
