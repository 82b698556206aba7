"""A web server on loopback for the tests of the HTTP tool: what it answers is in its table, what it was asked is kept."""

import http.server
import json
import threading
import urllib.parse


class Upstream:
    """routes: path to a function(request) -> (status, headers, body bytes). request.asked has method, path, query, headers, body."""

    def __init__(self, host="127.0.0.1", port=0):
        self.routes, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                url = urllib.parse.urlsplit(self.path)
                self.asked = {
                    "method": self.command,
                    "path": url.path,
                    "query": urllib.parse.parse_qs(url.query, keep_blank_values=True),
                    "headers": dict(self.headers),
                    "body": self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                }
                outer.asked.append(self.asked)
                status, headers, body = outer.routes.get(url.path, lambda _: (404, {}, b"nothing here"))(self)
                if status is None:
                    return  # the route has written by itself
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def url(self, path="/", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def json(self, path, value, status=200):
        self.routes[path] = lambda _: (status, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def redirect(self, path, to, status=302):
        self.routes[path] = lambda _: (status, {"Location": to}, b"")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
