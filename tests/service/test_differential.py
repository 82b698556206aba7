"""Our reader of requests against Node's: thousands of random requests, with faults, to both.

Request smuggling lives where two readers disagree. So: whatever we accept, Node reads the same, byte for byte (method, target, headers, body,
and where the next request begins). Where Node accepts and we refuse, the reason must be in the table STRICTER, with why we are right to refuse.

The inputs follow from a seed. More of them: GB_DIFFERENTIAL="SEED COUNT".
"""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

import pytest

import malformed

pytestmark = pytest.mark.rootonly  # the same whoever runs it

SEED, COUNT = map(int, os.environ.get("GB_DIFFERENTIAL", "8640 6000").split())
ORACLE = pathlib.Path(__file__).with_name("node_oracle.js")
MARKER = b"GET /marker HTTP/1.1\r\nHost: marker\r\n\r\n"

# Our reason to refuse (a part of its text) where Node accepts: why it is right to.
STRICTER = {
    # framing: here a reader like Node behind or in front of us could be made to see other requests than we do
    "HTTP/1.0 has no Transfer-Encoding": "Node decodes chunks in HTTP/1.0; RFC 9112 calls the framing faulty, and a reader that knows only 1.0 sees none",
    "the only Transfer-Encoding": "Node takes an empty one for none at all, passes 'gzip, chunked' on undecoded and forgives empty list elements",
    "Content-Length must not begin with 0": "octal to readers with strtol; no client writes it",
    "begin with its method": "Node skips empty lines before a request; they are what a body of wrong length leaves behind",
    "HTTP/2 is not spoken": "Node takes the preface of HTTP/2 for a request",
    "the request line must be": "Node takes several spaces before the version, and HTTP/0.9 lines without one",
    "only HTTP/1.1 and HTTP/1.0": "Node takes HTTP/0.9 and HTTP/2.0 as if they were 1.1",
    "CONNECT is not": "we are no proxy; Node hands the bytes behind a CONNECT to whoever listens, else closes",
    "TRACE is not": "it would show the headers that proxies add to whoever asks; Node leaves it to the application",
    "a line ends with LF": "Node ends a line of HTTP/0.9 at LF",
    "no white space may stand behind": "Node strips spaces there, but not tabs; so we take neither",
    "no body can be so large": "Node waits for more bytes than there are",
    "the body is larger than allowed": "ours has a limit",
    "a chunk": "Node's extensions may have white space and empty names, and its sizes any number of digits",
    "a trailer": "Node takes any name as a trailer, and bytes from 0x80 on in values",
    # what the request means
    "HTTP/1.1 needs a Host": "asked not to check (requireHostHeader): ours is about the reader's own rules",
    "Host must": "Node leaves Host to the application; ours decides on it, so there is one and it is a host",
    "must not be sent more than once": "Node takes the first or joins them; whoever decides on one must not be shown another",
    "Connection must be": "Node searches it for words that it knows",
    "a header's value": "Node takes bytes from 0x80 on as Latin-1; others as UTF-8",
    "a character in the target": "RFC 3986 has no such character in a path or query; a backslash is a slash to some",
    "a '%' in the target": "Node leaves escapes to the application",
    "the target must be a path": "Node takes absolute URLs; then there are two hosts to choose from",
    "the target must have no fragment": "Node takes it; it is never sent by a client",
    "the target * goes with OPTIONS": "Node takes it with any method",
    "expectation": "Node leaves it to the application",
}
# Of these, only the part that the explanation covers.
ONLY_IF = {
    "a header's value": lambda data, node: any(byte >= 0x80 for byte in data),
    "a line ends with LF": lambda data, node: re.search(rb"(?:^|\n|[^ ])[A-Z]+ +/[^ \r\n]*\n", data),
}

# What Node 18 (llhttp 6) takes besides. Newer ones refuse all of it too, and a disagreement with them would be news.
STRICTER_THAN_18 = {
    "a line ends with LF": "Node 18 ends lines at LF alone",
    "a CR that is not part": "Node 18 ends lines at CR alone",
    "between a header's name and its colon": "Node 18 keeps the space as part of the name",
    "a header's name": "Node 18 takes spaces inside names",
    "folded headers": "Node 18 unfolds headers",
    "behind the last chunk": "Node 18 takes spaces in names of trailers, and unfolds them",
    "an empty line": "Node 18 ends lines at CR alone",
}

# Where we say less than Node: what it may be. Nothing about framing is in here.
OTHERS = {
    "same": "both understand the same, or both refuse",
    "upgrade": "a request that asks for an upgrade is the last that we read, since others may expect another protocol behind it; Node goes on if it lacks the Upgrade header",
    "close and keep-alive": "of an HTTP/1.0 client that asks for both; we close, Node goes on",
    "proxy-connection": "Node obeys Proxy-Connection: close, which was never a standard, and stops; we read on",
    "unknown method": "we accept any token as a method, and leave it to the routes; Node has a list",
    "unfinished head": "the input ends in a head: we judge a line when it is complete, and a head when it is; Node has refused it by then (or Node 18 has taken a bare CR for its end)",
}


# --- the grammar, with faults ---


class Grammar:
    """Each part is right most of the time, and picked from the wrong ones otherwise."""

    METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"PATCH"], [b"get", b"G T", b"", b"CONNECT", b"TRACE", b"BREW", b"GE\x00T", b"GET\t", b"P\xc3\x96ST", b"PRI", b"(x)", b"A" * 40]
    TARGETS = [b"/", b"/execute", b"/a/b?c=d&e=%20f", b"/%41", b"//a", b"/a;b=c", b"/?"], [
        b"*", b"", b"http://a/b", b"a:80", b"/a b", b"/a#b", b"/%", b"/%zz", b"/\xc3\xa4", b"/a\x00b", b"/a\tb", b"/\\", b'/"', b"/a|b", b"?a", b"/<b>", b"/\x7f", b"\\a",
    ]
    VERSIONS = [b"HTTP/1.1"] * 6 + [b"HTTP/1.0"], [b"HTTP/1.2", b"HTTP/0.9", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 ", b"HTTP/11", b"HTTP/1.", b"", b"HTTP/01.1", b"HTP/1.1", b"HTTP/1.1\t"]
    HOSTS = [b"a", b"localhost:8640", b"127.0.0.1", b"[::1]:80"], [b"", b"a b", b"a@b", b"a/b", b"a:", b"a:x", b"a:99999", b"[::1", b"a,b", b"\x00", b"\xc3\xa4"]
    LENGTHS = [None], [b"+%d", b"-%d", b"0%d", b"%d,%d", b"%d, %d", b"0x%x", b"%d ", b" %d", b"%d a", b"", b"%d.0", b'"%d"', b"9" * 30, b"18446744073709551616", b"%d\t", b"\x0b%d", b"%d;", b"\xa0%d"]
    CODINGS = [b"chunked"] * 6 + [b"Chunked", b"CHUNKED"], [
        b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"chunked,", b",chunked", b"xchunked", b"chunkedx", b'"chunked"', b"chunked;a", b"\x0bchunked", b"chunked\x0b",
        b"", b"chu nked", b"chunked\x00", b"\tchunked", b"chunked\t", b"identity, chunked", b"x\r\n chunked", b"\r\n chunked", b"\xa0chunked",
    ]
    NAMES = [b"%s"], [b"%s ", b"%s\t", b" %s", b"%s\x00", b"\x0b%s", b"%s\xa0", b"X\r%s", b"X: y\n%s", b"X: y\r%s", b"%s:", b"\xef\xbb\xbf%s"]
    ENDS = [b"\r\n"], [b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b"\r\n\t", b"", b"\x0b\r\n", b"\0\r\n"]
    COLONS = [b": ", b":", b":\t", b":   "], [b" : ", b"", b" ", b"=", b"::", b":\x00", b":\x0c"]
    EXTRAS = [
        (b"Accept", b"*/*"), (b"User-Agent", b"x"), (b"X", b""), (b"X", b"a \t b "), (b"Connection", b"keep-alive"), (b"Content-Type", b"application/json"), (b"X-Y_z.1", b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    ], [
        (b"Connection", b"close"), (b"Connection", b"upgrade"), (b"Upgrade", b"h2c"), (b"Connection", b"x, close"), (b"Connection", b"a b"), (b"Expect", b"100-continue"), (b"Expect", b"more"),
        (b"X", b"\xc3\xa4"), (b"X", b"\x01"), (b"X", b"\x00"), (b"X", b"a\x7f"), (b"X Y", b"a"), (b"X\xc3", b"a"), (b"", b"a"), (b"Content_Length", b"5"), (b"Proxy-Connection", b"close"), (b"Keep-Alive", b"5"),
        (b"Content-Type", b"a"), (b"Authorization", b"a"), (b"Authorization", b"b"), (b"X-API-Key", b"a"), (b"Connection", b"Keep-Alive"), (b"Connection", b"keep-alive, close"), (b"HTTP2-Settings", b"a"),
    ]
    SIZES = [b"%x"] * 4 + [b"%X", b"0%x"], [b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x;a", b"%x;a=b", b'%x;a="b;\\"c"', b"%x ;a", b"%x; a", b"%x;", b"%x;a\n", b"%x;\x00", b"%x;\xc3\xa4", b"", b"000000000000000000%x", b"1%016x", b"%x\x00", b"%xg", b"%x,", b'%x;a="', b"%x\xa0"]
    TRAILERS = [b"X: y", b"X-Sum: abc"], [b"X", b" X: y", b"X : y", b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: b", b"X: \x00", b"X: \xc3\xa4", b"X: y\nZ: z", b"X: y\r Z", b": y"]
    BODIES = [b"", b"{}", b'{"code": "1"}', b"GET /inner HTTP/1.1\r\nHost: x\r\n\r\n", b"0\r\n\r\n", b"\r\n", b"a" * 20]
    BYTES = [b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b"\0", b":", b",", b";", b'"', b"0", b"5", b"a", b"\x0b", b"\x7f", b"\x80", b"\xff", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1"]

    def __init__(self, rng, fault):
        self.rng, self.fault = rng, fault

    def pick(self, options):
        good, bad = options
        return self.rng.choice(bad if bad and self.rng.random() < self.fault else good)

    def end(self):
        return self.pick((self.ENDS[0], self.ENDS[1] if self.rng.random() < 0.3 else None))

    def header(self, name, value):
        return self.pick(self.NAMES).replace(b"%s", name) + self.pick(self.COLONS) + value + self.end()

    def chunks(self, body):
        out = b""
        while body:
            n = self.rng.randint(1, len(body))
            size = n if self.rng.random() > self.fault / 2 else self.rng.choice([n + 1, max(n - 1, 0), n * 16])
            out += self.number(self.pick(self.SIZES), size) + self.end() + body[:n] + self.end()
            body = body[n:]
        out += self.pick(([b"0"], [b"00", b"0;a", b"", b"0 ", b"-0", b"0x0"])) + self.end()
        while self.rng.random() < 0.15:
            out += self.pick(self.TRAILERS) + self.end()
        return out + self.end()

    @staticmethod
    def number(form, n):
        return form % ((n,) * (form.count(b"%d") + form.count(b"%x") + form.count(b"%X") + form.count(b"%016x")))

    def request(self):
        rng = self.rng
        version = self.pick(self.VERSIONS)
        line = self.pick(([b" "], [b"  ", b"\t", b""])).join([self.pick(self.METHODS), self.pick(self.TARGETS)]) + self.pick(([b" "], [b"  ", b"\t"])) + version + self.end()
        headers = [] if rng.random() < self.fault / 2 else [self.header(b"Host", self.pick(self.HOSTS))]
        body = rng.choice(self.BODIES)
        framing = rng.choice(["none", "length", "length", "chunked", "chunked", "both"] if rng.random() < 0.3 else ["none", "length", "chunked"])
        if framing in ("length", "both"):
            form = self.pick(self.LENGTHS) if rng.random() < 0.5 else None
            length = len(body) if rng.random() > self.fault / 3 else rng.choice([0, 1, len(body) + 3, max(len(body) - 1, 0)])
            headers += [self.header(rng.choice([b"Content-Length", b"content-length"]), b"%d" % length if form is None else self.number(form, length))]
        if framing in ("chunked", "both"):
            headers += [self.header(rng.choice([b"Transfer-Encoding", b"transfer-encoding"]), self.pick(self.CODINGS))]
            body = self.chunks(body)
        while rng.random() < 0.4:
            headers += [self.header(*self.pick(self.EXTRAS))]
        if rng.random() < self.fault / 2 and headers:
            headers += [rng.choice(headers)]
        rng.shuffle(headers)
        return line + b"".join(headers) + self.end() + (body if framing != "none" else b"")

    def mutate(self, data):
        """A few edits that no grammar knows of."""
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.randint(0, len(data))
            kind = self.rng.randrange(4)
            if kind == 0:
                data = data[:at] + self.rng.choice(self.BYTES) + data[at:]
            elif kind == 1:
                data = data[:at] + data[at + self.rng.randint(1, 3) :]
            elif kind == 2:
                data = data[:at] + bytes([self.rng.randrange(256)]) + data[at + 1 :]
            else:
                upto = min(len(data), at + self.rng.randint(1, 20))
                data = data[:upto] + data[at:upto] + data[upto:]
        return data


def inputs():
    """Random ones, and the table of malformed requests; a request that both understand behind each, to see where they think that it begins."""
    rng = random.Random(SEED)
    for _ in range(COUNT):
        grammar = Grammar(rng, rng.choice([0.01, 0.03, 0.08, 0.2]))
        data = b"".join(grammar.request() for _ in range(rng.choice([1, 1, 1, 2, 3])))
        if rng.random() < 0.3:
            data = grammar.mutate(data)
        yield data[: rng.randint(0, len(data))] if rng.random() < 0.03 else data + MARKER
    for row in malformed.ROWS:
        if isinstance(row.raw, bytes):
            yield row.raw + MARKER


# --- the two readers ---


def run(command, data):
    frames = b"".join(struct.pack(">I", len(item)) + item for item in data)
    done = subprocess.run([str(part) for part in command], input=frames, stdout=subprocess.PIPE, timeout=250, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def explain(data, ours, node, about):
    """('same' or the name of a class of disagreement that is explained) or (None, what is wrong)."""
    mine, theirs = ours["messages"], node["messages"]
    is_18 = about["version"].startswith("v18.")
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
        shared += 1
    if shared < min(len(mine), len(theirs)):
        return None, "read differently"
    here = "message" if len(mine) > shared else ours["end"]
    there = "message" if len(theirs) > shared else node["end"]
    if here == there or (here == "closed" and there in ("reject", "clean")):
        return "same", ""
    last = {bytes.fromhex(text).lower() for text in mine[shared - 1]["headers"]} if shared else set()
    if here == "closed" and any(b"upgrade" in text for text in last):
        return "upgrade", ""
    if here == "closed" and mine[shared - 1]["minor"] == 0 and any(b"close" in text for text in last):
        return "close and keep-alive", ""
    if b"proxy-connection" in last and (there == "clean" or node["code"] == "HPE_CLOSED_CONNECTION"):
        return "proxy-connection", ""
    if here == "reject":
        for part in STRICTER:
            if part in ours["why"] and ONLY_IF.get(part, lambda *_: True)(data, node):
                return part, ""
        for part in STRICTER_THAN_18 if is_18 else ():
            if part in ours["why"]:
                return part, ""
        return None, f"we refuse and Node does not: {ours['status']} {ours['why']}"
    method = bytes.fromhex(mine[shared]["method"] if here == "message" else ours["method"]).decode()
    if node["code"] == "HPE_INVALID_METHOD" and method and method not in about["methods"]:
        return "unknown method", ""
    if here == "incomplete" and ours["where"] == "head" and (there == "reject" or (is_18 and re.search(rb"\r[^\n]", data))):
        return "unfinished head", ""
    return None, f"{here} here, {there} there"


@pytest.mark.testbuild
def test_node_reads_the_same(gb):
    node = shutil.which("node")
    assert node, "node is not installed: the comparison cannot be made"
    data = list(inputs())
    assert len(data) >= 3000
    ours = run([gb.build / "tests/fuzz/http-verdict"], data)
    about, *theirs = run([node, ORACLE], data)
    assert len(ours) == len(theirs) == len(data)
    classes, wrong = collections.Counter(), []
    for item, mine, other in zip(data, ours, theirs):
        name, problem = explain(item, mine, other, about)
        classes[name or "NOT EXPLAINED"] += 1
        if not name:
            wrong.append(f"{problem}\n  input: {item!r}\n  ours:  {json.dumps(mine)}\n  node:  {json.dumps(other)}")
    print(f"\n{len(data)} inputs, seed {SEED}, Node {about['version']}; {sum(bool(m['messages']) for m in ours)} with a request that we accept")
    for name, count in classes.most_common():
        print(f"{count:6} {name}: {(STRICTER_THAN_18 | STRICTER | OTHERS).get(name, '')}")
    reasons = collections.Counter(w.split("\n")[0] for w in wrong)
    assert not wrong, f"{len(wrong)} not explained: {reasons}\n" + "\n".join(wrong[:5])
    # The comparison means something only if both halves are well fed.
    assert sum(bool(m["messages"]) for m in ours) > len(data) // 5
    assert sum(m["end"] == "reject" for m in ours) > len(data) // 5
