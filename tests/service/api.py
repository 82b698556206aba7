"""What the tests of the API share: requests byte by byte, streams, problems, keys, metrics, and the OpenAPI document."""

import collections
import contextlib
import hashlib
import json
import pathlib
import re
import subprocess

import jsonschema

from conftest import BUILD

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT = json.loads((TOP / "src/front/openapi.json").read_text())
ID = r"[0-9A-HJKMNP-TV-Z]{26}"
JSON = {"Content-Type": "application/json"}
SSE, NDJSON = "text/event-stream", "application/x-ndjson"
FOREVER = "import time\nprint('on', flush=True)\ntime.sleep(600)"

Reply = collections.namedtuple("Reply", "status headers body")


@contextlib.contextmanager
def running(service, config):
    """A service with another configuration than `service`, for several tests: it is a fixture's business when it ends."""
    s = type(service)(config)
    try:
        s.start()
        yield s
        assert s.stop() == 0, s.log()
    finally:
        s.remove()


def call(code, **fields):
    return {"tool_name": "execute_code", "code": code, **fields}


# --- bytes ---


def request_bytes(method, path, body=None, headers=None, version="1.1", host="localhost"):
    body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    lines = [f"{method} {path} HTTP/{version}"] + ([f"Host: {host}"] if host else [])
    if body is not None:
        headers = JSON | {"Content-Length": len(body)} | (headers or {})
    lines += [f"{name}: {value}" for name, value in (headers or {}).items() if value is not None]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Wire:
    """One connection, spoken by hand."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def send(self, data):
        self.sock.sendall(data)

    def head(self):
        """(status, headers) of the next reply, interim ones included; None at the end of the connection."""
        line = self.file.readline()
        if not line:
            return None
        assert line.startswith(b"HTTP/1.1 ") and line.endswith(b"\r\n"), line
        headers = {}
        while (header := self.file.readline()) != b"\r\n":
            name, _, value = header.decode().partition(":")
            assert name.lower() not in headers, name
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers

    def reply(self, head_only=False):
        head = self.head()
        assert head, "the connection was closed without a reply"
        status, headers = head
        if head_only or status == 204:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.file.readline(), 16):
                body += self.file.read(size)
                assert self.file.read(2) == b"\r\n"
            assert self.file.readline() == b"\r\n"
        elif "content-length" in headers:
            body = self.file.read(int(headers["content-length"]))
        else:
            body = self.file.read()
        return Reply(status, headers, body)

    def ended(self):
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.file.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wire(service):
    return Wire(service.socket())


# --- streams ---


def parse_event(lines, kind):
    """One event; None for a comment."""
    if kind == NDJSON:
        (line,) = lines
        return json.loads(line)
    if all(line.startswith(b":") for line in lines):
        return None
    name, data = lines
    assert name.startswith(b"event: ") and data.startswith(b"data: "), lines
    event = json.loads(data[6:])
    assert event["type"] == name[7:].decode()
    return event


class Stream:
    """A call whose events are read as they come."""

    def __init__(self, service, code, accept=SSE, path="/v1/execute", headers=None, **fields):
        self.connection = service.connection()
        headers = JSON | ({"Accept": accept} if accept else {}) | (headers or {})
        self.connection.request("POST", path, json.dumps(call(code, **fields)), headers)
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        self.kind = self.reply.headers["Content-Type"]
        assert self.kind == (accept or SSE)

    def __iter__(self):
        lines = []
        for line in iter(self.reply.readline, b""):
            assert line.endswith(b"\n"), line
            if line != b"\n":
                lines.append(line[:-1])
            if lines and (line == b"\n" or self.kind == NDJSON):
                event = parse_event(lines, self.kind)
                lines = []
                if event:
                    yield event
        assert not lines, lines

    def until(self, type_):
        """The next event of that type."""
        return next(event for event in self if event["type"] == type_)

    def close(self):
        self.reply.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def events(service, code, **fields):
    """All of them."""
    with Stream(service, code, **fields) as stream:
        return list(stream)


# --- problems ---


def problem(reply, status, code, *words):
    """Is it this problem, in the shape that all have? Returns its detail."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json", reply
    found = json.loads(reply.body)
    assert list(found) == ["type", "title", "status", "detail", "code", "request_id"], found
    assert (found["status"], found["code"], found["type"]) == (status, code, f"urn:glovebox:error:{code}"), found
    assert re.fullmatch(ID, found["request_id"]) and found["request_id"] == reply.headers["x-request-id"]
    assert found["title"] and found["detail"]
    assert str(BUILD) not in found["detail"] and "/gb-" not in found["detail"], found  # nothing of the host: neither where we are nor where the service's directories are
    if status in (429, 503):
        assert re.fullmatch("[1-9][0-9]*", reply.headers["retry-after"]), reply.headers
    for word in words:
        assert word in found["detail"], (word, found["detail"])
    schema("Problem").validate(found)
    return found["detail"]


# --- keys ---


def keys(**rows):
    """Configuration of keys: keys(alice={}, bob={"rate_per_minute": 3}); the key of alice is "key of alice"."""
    return [{"name": name, "sha256": hashlib.sha256(key_of(name).encode()).hexdigest(), **row} for name, row in rows.items()]


def key_of(name):
    return f"the-key-of-{name}"


def bearer(name):
    return {"Authorization": f"Bearer {key_of(name)}"}


# --- metrics ---


def parse_metrics(text):
    """{(name, labels): value} of a Prometheus text, strictly."""
    values, types, helps = {}, {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP ([a-z_]+) (\S.*)", line):
            assert match[1] not in helps
            helps.add(match[1])
        elif match := re.fullmatch(r"# TYPE ([a-z_]+) (counter|gauge|histogram)", line):
            assert match[1] in helps and match[1] not in types
            types[match[1]] = match[2]
        else:
            match = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)*)\})? ([0-9.e+-]+)', line)
            assert match, line
            family = match[1] if match[1] in types else re.sub("_(bucket|sum|count)$", "", match[1])
            assert family in types, line
            assert (types[family] == "counter") == match[1].endswith("_total"), line
            sample = match[1], match[2] or ""
            assert sample not in values, line
            values[sample] = float(match[3])
    for family in [name for name, kind in types.items() if kind == "histogram"]:
        counts = [value for (name, _), value in values.items() if name == f"{family}_bucket"]
        assert counts == sorted(counts) and counts[-1] == values[f"{family}_count", ""]
    return values


def metrics(service, headers=None):
    reply = service.request("GET", "/metrics", headers=headers)
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse_metrics(reply.body.decode())


def executed(values):
    """How many calls have ended, by outcome."""
    found = collections.Counter()
    for (name, labels), value in values.items():
        if name == "glovebox_executions_total":
            found[re.search('outcome="([a-z_]+)"', labels)[1]] += int(value)
    return found


# --- the document ---


def resolve(node):
    while "$ref" in node:
        at = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part.replace("~1", "/").replace("~0", "~")]
        node = at
    return node


def validator(node):
    """For a schema of the document: references in it mean the document."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator({**node, "components": DOCUMENT["components"]}, format_checker=checker)


def schema(name):
    return validator({"$ref": f"#/components/schemas/{name}"})


# --- pages for people ---


def command_lines(lines):
    """How many lines the command has that begins with the first: up to where a shell is content with it."""
    count = 1
    if word := re.search(r"<<'?(\w+)", lines[0]):
        return lines.index(word[1]) + 1
    while lines[count - 1].endswith("\\") or subprocess.run(["sh", "-nc", "\n".join(lines[:count])], stderr=subprocess.DEVNULL).returncode:
        count += 1
    return count


def console(page):
    """(command, output) of all that the console blocks of a page show, in order. What has no prompt has no command."""
    for block in re.findall(r"^```console\n(.*?)^```", (TOP / page).read_text(), re.S | re.M):
        if not block.startswith("$ "):
            yield "", block
            continue
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines()
            count = command_lines(lines)
            yield "\n".join(lines[:count]), "\n".join(lines[count:])
