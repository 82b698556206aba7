"""Requests that are malformed, ambiguous, too large or too slow: a table. Each must get one answer with an error status, and then the end
of the connection: behind bytes that two readers could cut differently, nothing can be trusted to be a request.

test_malformed.py sends them to a live service, test_differential.py shows them to Node's reader as well.
"""

import dataclasses
from collections.abc import Callable

BODY_MOST = 65536  # http.body_bytes of the service that gets these
JSON = b"Content-Type: application/json\r\n"
HOST = b"Host: localhost\r\n"


@dataclasses.dataclass(frozen=True)
class Row:
    id: str
    raw: bytes | Callable[[], bytes]  # callable: large, so made when it is needed
    statuses: frozenset
    why: str
    reader: bool = True  # refused by the reader; else by the service, which knows the limits of its configuration

    def data(self):
        return self.raw if isinstance(self.raw, bytes) else self.raw()


@dataclasses.dataclass(frozen=True)
class Slow:
    """Sends `first`, then `drop` again and again with short pauses, and never comes to an end."""

    id: str
    first: bytes
    drop: bytes
    why: str


ROWS: list[Row] = []


def row(id, raw, statuses, why, **kwargs):
    ROWS.append(Row(id, raw, frozenset([statuses] if isinstance(statuses, int) else statuses), why, **kwargs))


def get(line=b"GET /healthz HTTP/1.1", headers=HOST):
    return line + b"\r\n" + headers + b"\r\n"


def post(headers, body=b""):
    return b"POST /execute HTTP/1.1\r\n" + HOST + JSON + headers + b"\r\n" + body


def chunked(body):
    return post(b"Transfer-Encoding: chunked\r\n", body)


# --- Content-Length against Transfer-Encoding ---

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

row("cl-te", post(b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\nG"), 400, "one reader goes by the length, the next by the chunks")
row("te-cl", post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"2c\r\n" + SMUGGLED + b"\r\n0\r\n\r\n"), 400, "the same in the other order")
row("cl-0-te", post(b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "even where both give an empty body")
row("te-identity-cl", post(b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n", b"{}"), {400, 501}, "identity is no coding any more")
row("te-in-http-1.0", b"POST /execute HTTP/1.0\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, "HTTP/1.0 has no chunks; Node decodes them")
row("te-twice", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "decoded once or twice?")
row("te-te-first-wins", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", b"0\r\n\r\n"), {400, 501}, "one reader takes the first, another the last")
row("te-te-last-wins", post(b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), {400, 501}, "the same the other way")
row("te-gzip-chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 501, "a coding that we do not decode")
row("te-chunked-gzip", post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n"), {400, 501}, "chunked must be the last")
row("te-chunked-twice-in-list", post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"), {400, 501}, "chunked twice")
row("te-empty", post(b"Transfer-Encoding:\r\n", b"0\r\n\r\n"), {400, 501}, "Node takes this for a request without a body")
row("te-comma-first", post(b"Transfer-Encoding: ,chunked\r\n", b"0\r\n\r\n"), {400, 501}, "an empty element")
row("te-comma-last", post(b"Transfer-Encoding: chunked,\r\n", b"0\r\n\r\n"), {400, 501}, "an empty element")
row("te-prefix", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), {400, 501}, "found by readers that search")
row("te-suffix", post(b"Transfer-Encoding: chunkedx\r\n", b"0\r\n\r\n"), {400, 501}, "found by readers that compare a prefix")
row("te-space-behind", post(b"Transfer-Encoding: chunked \r\n", b"0\r\n\r\n"), 400, "stripped by some")
row("te-tab-behind", post(b"Transfer-Encoding: chunked\t\r\n", b"0\r\n\r\n"), 400, "legal, and yet Node does not understand it")
row("te-quoted", post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"), {400, 501}, "quotes are no part of a coding's name")
row("te-parameter", post(b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n"), {400, 501}, "chunked has no parameters")
row("te-vertical-tab", post(b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"), 400, "white space to some")
row("te-form-feed-behind", post(b"Transfer-Encoding: chunked\x0c\r\n", b"0\r\n\r\n"), 400, "white space to some")
row("te-nbsp", post(b"Transfer-Encoding: \xa0chunked\r\n", b"0\r\n\r\n"), 400, "white space in Latin-1")
row("te-nul", post(b"Transfer-Encoding: chunked\x00\r\n", b"0\r\n\r\n"), 400, "the end of the text to readers in C")
row("te-space-before-colon", post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400, "another header's name to some")
row("te-tab-before-colon", post(b"Transfer-Encoding\t: chunked\r\n", b"0\r\n\r\n"), 400, "another header's name to some")
row("te-folded", post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"), 400, "an empty value to readers that do not unfold")
row("te-indented", post(b" Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "part of the header before it, to some")
row("te-behind-bare-lf", post(b"X: y\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "a header of its own to readers that end lines at LF")
row("te-behind-bare-cr", post(b"X: y\rTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "a header of its own to readers that end lines at CR")
row("te-behind-bom", post(b"\xef\xbb\xbfTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "bytes that some strip")

# --- Content-Length ---

row("cl-twice-different", post(b"Content-Length: 2\r\nContent-Length: 46\r\n", b"{}" + SMUGGLED), 400, "which of them?")
row("cl-twice-same", post(b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"), 400, "no honest client sends this")
row("cl-twice-other-case", post(b"Content-Length: 2\r\ncontent-length: 3\r\n", b"{} "), 400, "names have no case")
row("cl-list", post(b"Content-Length: 2, 2\r\n", b"{}"), 400, "RFC 9112 lets a recipient merge these; we need not")
row("cl-list-different", post(b"Content-Length: 2,46\r\n", b"{}" + SMUGGLED), 400, "which of them?")
row("cl-plus", post(b"Content-Length: +2\r\n", b"{}"), 400, "strtol takes a sign")
row("cl-minus", post(b"Content-Length: -2\r\n", b"{}"), 400, "a huge number when it wraps")
row("cl-minus-zero", post(b"Content-Length: -0\r\n"), 400, "strtol takes a sign")
row("cl-hex", post(b"Content-Length: 0x2\r\n", b"{}"), 400, "0 to some, 2 to others")
row("cl-octal", post(b"Content-Length: 010\r\n", b'{"a": 1}  '), 400, "8 or 10")
row("cl-space-inside", post(b"Content-Length: 2 2\r\n", b"{}"), 400, "2 or 22 or nothing")
row("cl-tab-behind", post(b"Content-Length: 2\t\r\n", b"{}"), 400, "legal, and yet Node does not understand it")
row("cl-fraction", post(b"Content-Length: 2.0\r\n", b"{}"), 400, "digits only")
row("cl-exponent", post(b"Content-Length: 2e0\r\n", b"{}"), 400, "digits only")
row("cl-empty", post(b"Content-Length:\r\n", b"{}"), 400, "0, or none at all")
row("cl-quoted", post(b'Content-Length: "2"\r\n', b"{}"), 400, "digits only")
row("cl-underscore", post(b"Content-Length: 1_0\r\n", b"0123456789"), 400, "Python's int() takes these")
row("cl-other-digits", post("Content-Length: ٢\r\n".encode(), b"{}"), 400, "so are these digits to it")
row("cl-letters-behind", post(b"Content-Length: 2abc\r\n", b"{}"), 400, "atoi stops there")
row("cl-nul-behind", post(b"Content-Length: 2\x000\r\n", b"{}"), 400, "the end of the text to readers in C")
row("cl-vertical-tab", post(b"Content-Length:\x0b2\r\n", b"{}"), 400, "strtol skips it")
row("cl-2-to-the-64", post(b"Content-Length: 18446744073709551618\r\n", b"{}"), {400, 413}, "2, when it wraps")
row("cl-2-to-the-63", post(b"Content-Length: 9223372036854775810\r\n", b"{}"), {400, 413}, "negative, when it wraps")
row("cl-endless", post(b"Content-Length: " + b"9" * 400 + b"\r\n", b"{}"), {400, 413}, "no integer holds it")
row("cl-space-before-colon", post(b"Content-Length : 2\r\n", b"{}"), 400, "another header's name to some")
row("cl-folded", post(b"Content-Length:\r\n 2\r\n", b"{}"), 400, "an empty value to readers that do not unfold")
row("cl-folded-continued", post(b"Content-Length: 4\r\n 6\r\n", b"{}  " + SMUGGLED), 400, "4, or '4 6', or 46")

# --- line ends and header syntax ---

row("lf-request-line", b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n", 400, "a bare LF is no line end")
row("lf-header", get(headers=b"Host: localhost\nX: y\r\n"), 400, "a bare LF is no line end")
row("lf-everywhere", b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400, "a bare LF is no line end")
row("lf-end-of-head", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", 400, "does the head end here?")
row("cr-request-line", b"GET /healthz HTTP/1.1\rHost: localhost\r\n\r\n", 400, "a bare CR is no line end")
row("cr-in-value", get(headers=HOST + b"X: a\rb\r\n"), 400, "a bare CR is no line end")
row("cr-cr-lf", get(headers=HOST + b"X: a\r\r\n"), 400, "one CR too many")
row("cr-cr-lf-end-of-head", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\r\n", 400, "does the head end here?")
row("empty-line-first", b"\r\n" + get(), 400, "what a body of wrong length leaves behind; servers may skip it, we do not")
row("empty-lf-first", b"\n" + get(), 400, "the same")
row("space-first", b" " + get(), 400, "no method begins with a space")
row("fold", get(headers=HOST + b"X: a\r\n b\r\n"), 400, "folded headers are obsolete")
row("fold-tab", get(headers=HOST + b"X: a\r\n\tY: b\r\n"), 400, "folded headers are obsolete")
row("fold-first", get(headers=b" X: a\r\n" + HOST), 400, "folds the request line, to some")
row("white-line", get(headers=HOST + b" \r\n"), 400, "an empty line to readers that strip")
row("name-space-before-colon", get(headers=HOST + b"X : a\r\n"), 400, "RFC 9112 demands 400")
row("name-space-inside", get(headers=HOST + b"X Y: a\r\n"), 400, "names are tokens")
row("name-empty", get(headers=HOST + b": a\r\n"), 400, "names are not empty")
row("name-without-colon", get(headers=HOST + b"Xabc\r\n"), 400, "a header has a colon")
row("name-nul", get(headers=HOST + b"X\x00: a\r\n"), 400, "the end of the text to readers in C")
row("name-control", get(headers=HOST + b"X\x1b: a\r\n"), 400, "names are tokens")
row("name-high-byte", get(headers=HOST + b"X\xe4: a\r\n"), 400, "names are tokens")
row("name-utf8", get(headers=HOST + "Ä: a\r\n".encode()), 400, "names are tokens")
row("name-separator", get(headers=HOST + b"X(a): b\r\n"), 400, "names are tokens")
row("value-nul", get(headers=HOST + b"X: a\x00b\r\n"), 400, "the end of the text to readers in C")
row("value-control", get(headers=HOST + b"X: a\x08b\r\n"), 400, "control characters")
row("value-delete", get(headers=HOST + b"X: a\x7fb\r\n"), 400, "control characters")
row("value-high-byte", get(headers=HOST + b"X: \xff\r\n"), 400, "in which character set?")
row("value-utf8", get(headers=HOST + "X: ä\r\n".encode()), 400, "in which character set?")
row("type-twice", post(JSON + b"Content-Length: 2\r\n", b"{}"), 400, "which of them?")
row("authorization-twice", get(headers=HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400, "whose request is it?")
row("key-twice", get(headers=HOST + b"X-API-Key: a\r\nX-API-Key: b\r\n"), 400, "whose request is it?")
row("origin-twice", get(headers=HOST + b"Origin: http://a\r\nOrigin: http://b\r\n"), 400, "one that is allowed hides one that is not")
row("expect-other", post(b"Expect: 200-ok\r\nContent-Length: 2\r\n", b"{}"), 417, "an expectation that cannot be met")
row("expect-twice", post(b"Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 2\r\n", b"{}"), 400, "one is enough")
row("connection-tab-behind", get(headers=HOST + b"Connection: close\t\r\n"), 400, "legal, and yet Node does not understand it")
row("connection-no-token", get(headers=HOST + b"Connection: close now\r\n"), 400, "close, or not?")

# --- request lines ---

row("http-0.9", b"GET /healthz\r\n", 400, "no version: HTTP/0.9")
row("version-0.9", get(b"GET /healthz HTTP/0.9"), 505, "not spoken here")
row("version-1.2", get(b"GET /healthz HTTP/1.2"), 505, "not spoken here")
row("version-2.0", get(b"GET /healthz HTTP/2.0"), 505, "not spoken here")
row("http-2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2 without asking")
row("version-lower-case", get(b"GET /healthz http/1.1"), 400, "the name of the protocol is in capitals")
row("version-long", get(b"GET /healthz HTTP/1.10"), 400, "one digit each")
row("version-zero-first", get(b"GET /healthz HTTP/01.1"), 400, "one digit each")
row("version-tab-behind", get(b"GET /healthz HTTP/1.1\t"), 400, "nothing behind it")
row("version-space-behind", get(b"GET /healthz HTTP/1.1 "), 400, "nothing behind it")
row("version-missing", get(b"GET /healthz "), 400, "HTTP/0.9, to some")
row("line-two-spaces", get(b"GET  /healthz HTTP/1.1"), 400, "an empty target, to some")
row("line-two-spaces-later", get(b"GET /healthz  HTTP/1.1"), 400, "Node takes this")
row("line-tabs", get(b"GET\t/healthz\tHTTP/1.1"), 400, "white space to some")
row("line-four-words", get(b"GET /healthz x HTTP/1.1"), 400, "where does the target end?")
row("method-separator", get(b"G@T /healthz HTTP/1.1"), 400, "methods are tokens")
row("method-nul", get(b"GET\x00 /healthz HTTP/1.1"), 400, "methods are tokens")
row("method-high-byte", get(b"G\xc4T /healthz HTTP/1.1"), 400, "methods are tokens")
row("method-long", get(b"A" * 2000 + b" /healthz HTTP/1.1"), {400, 501}, "no method is that long")
row("method-connect", get(b"CONNECT localhost:80 HTTP/1.1"), 501, "we are no proxy; behind it comes no HTTP")
row("method-trace", get(b"TRACE /healthz HTTP/1.1"), 501, "we are no mirror")
row("target-empty", get(b"GET  HTTP/1.1"), 400, "no target")
row("target-absolute", get(b"GET http://localhost/healthz HTTP/1.1"), 400, "which host, this or the header's?")
row("target-absolute-other-host", get(b"GET http://evil.example/healthz HTTP/1.1"), 400, "which host, this or the header's?")
row("target-authority", get(b"GET localhost:80 HTTP/1.1"), 400, "for CONNECT only")
row("target-star", get(b"GET * HTTP/1.1"), 400, "for OPTIONS only")
row("target-relative", get(b"GET healthz HTTP/1.1"), 400, "begins with '/'")
row("target-backslash", get(b"GET \\healthz HTTP/1.1"), 400, "a '/' to some")
row("target-fragment", get(b"GET /healthz#a HTTP/1.1"), 400, "never sent by a client")
row("target-escape-short", get(b"GET /healthz?a=%4 HTTP/1.1"), 400, "decoded differently")
row("target-escape-not-hex", get(b"GET /healthz?a=%zz HTTP/1.1"), 400, "decoded differently")
row("target-escape-unicode", get(b"GET /healthz?a=%u0041 HTTP/1.1"), 400, "one vendor's invention")
row("target-high-byte", get(b"GET /healthz?\xe4 HTTP/1.1"), 400, "in which character set?")
row("target-nul", get(b"GET /healthz\x00 HTTP/1.1"), 400, "the end of the text to readers in C")
row("target-control", get(b"GET /healthz?\x1b[2J HTTP/1.1"), 400, "steers the terminal of whoever reads the log")
row("target-quote", get(b'GET /healthz?" HTTP/1.1'), 400, "breaks out of whoever quotes it")
row("tls-hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, 400, "TLS, spoken to a port without")

# --- Host ---

row("host-missing", get(headers=b"X: y\r\n"), 400, "HTTP/1.1 demands it")
row("host-twice", get(headers=HOST + HOST), 400, "which of them?")
row("host-twice-different", get(headers=HOST + b"Host: evil.example\r\n"), 400, "one that is allowed hides one that is not")
row("host-empty", get(headers=b"Host:\r\n"), 400, "a name or an address")
row("host-userinfo", get(headers=b"Host: localhost@evil.example\r\n"), 400, "a name or an address")
row("host-path", get(headers=b"Host: localhost/evil\r\n"), 400, "a name or an address")
row("host-list", get(headers=b"Host: localhost, evil.example\r\n"), 400, "a name or an address")
row("host-space", get(headers=b"Host: localhost evil.example\r\n"), 400, "a name or an address")
row("host-port-empty", get(headers=b"Host: localhost:\r\n"), 400, "a port has digits")
row("host-port-large", get(headers=b"Host: localhost:65536\r\n"), 400, "there is no such port")
row("host-port-letters", get(headers=b"Host: localhost:http\r\n"), 400, "a port has digits")
row("host-v6-bare", get(headers=b"Host: ::1\r\n"), 400, "where does the port begin?")
row("host-v6-open", get(headers=b"Host: [::1\r\n"), 400, "no closing bracket")
row("host-v6-zone", get(headers=b"Host: [fe80::1%25eth0]\r\n"), 400, "means something to one host only")
row("host-nul", get(headers=b"Host: localhost\x00.evil.example\r\n"), 400, "the end of the text to readers in C")
row("host-url", get(headers=b"Host: http://localhost\r\n"), 400, "a name or an address")

# --- chunks ---

row("chunk-size-empty", chunked(b"\r\n{}\r\n0\r\n\r\n"), 400, "a chunk has a size")
row("chunk-size-hex-prefix", chunked(b"0x2\r\n{}\r\n0\r\n\r\n"), 400, "0 or 2: strtol takes the prefix")
row("chunk-size-plus", chunked(b"+2\r\n{}\r\n0\r\n\r\n"), 400, "strtol takes a sign")
row("chunk-size-minus", chunked(b"-2\r\n{}\r\n0\r\n\r\n"), 400, "huge when it wraps")
row("chunk-size-space-first", chunked(b" 2\r\n{}\r\n0\r\n\r\n"), 400, "strtol skips it")
row("chunk-size-space-behind", chunked(b"2 \r\n{}\r\n0\r\n\r\n"), 400, "skipped by some")
row("chunk-size-not-hex", chunked(b"2g\r\n{}\r\n0\r\n\r\n"), 400, "strtol stops there")
row("chunk-size-underscore", chunked(b"0_2\r\n{}\r\n0\r\n\r\n"), 400, "Python's int() takes these")
row("chunk-size-nul", chunked(b"2\x00\r\n{}\r\n0\r\n\r\n"), 400, "the end of the text to readers in C")
row("chunk-size-wraps-64", chunked(b"10000000000000002\r\n{}\r\n0\r\n\r\n"), {400, 413}, "2, when it wraps")
row("chunk-size-wraps-32", chunked(b"100000002\r\n{}\r\n0\r\n\r\n"), {400, 413}, "2, when it wraps")
row("chunk-size-zeros", chunked(b"0" * 40 + b"2\r\n{}\r\n0\r\n\r\n"), 400, "some count digits, some do not")
row("chunk-size-lf", chunked(b"2\n{}\r\n0\r\n\r\n"), 400, "a bare LF is no line end")
row("chunk-size-cr", chunked(b"2\r{}\r\n0\r\n\r\n"), 400, "a bare CR is no line end")
row("chunk-data-lf", chunked(b"2\r\n{}\n0\r\n\r\n"), 400, "a bare LF is no line end")
row("chunk-data-long", chunked(b"1\r\n{}\r\n0\r\n\r\n"), 400, "longer than its size")
row("chunk-data-short", chunked(b"3\r\n{}\r\n0\r\n\r\n"), 400, "shorter than its size")
row("chunk-extension-lf", chunked(b"2;a\n{}\r\n0\r\n\r\n"), 400, "skipped up to CRLF by some, up to LF by others (CVE-2025-55315)")
row("chunk-extension-cr", chunked(b"2;a\rb\r\n{}\r\n0\r\n\r\n"), 400, "the same with CR")
row("chunk-extension-empty", chunked(b"2;\r\n{}\r\n0\r\n\r\n"), 400, "an extension has a name")
row("chunk-extension-nul", chunked(b"2;a\x00b\r\n{}\r\n0\r\n\r\n"), 400, "control characters")
row("chunk-extension-quoted-crlf", chunked(b'2;a="\r\n{}\r\n0\r\n\r\n"\r\n'), 400, "does the line end inside the quotes?")
row("chunk-extension-space", chunked(b"2 ; a\r\n{}\r\n0\r\n\r\n"), 400, "white space that RFC 9112 calls bad")
row("chunk-end-lf", chunked(b"2\r\n{}\r\n0\r\n\n"), 400, "does the body end here?")
row("chunk-end-missing", chunked(b"2\r\n{}\r\n0\r\n"), 400, "the next request would become a trailer")
row("trailer-length", chunked(b"2\r\n{}\r\n0\r\nContent-Length: 46\r\n\r\n" + SMUGGLED), 400, "framing behind the body")
row("trailer-coding", chunked(b"2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "framing behind the body")
row("trailer-host", chunked(b"2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n"), 400, "routing behind the body")
row("trailer-authorization", chunked(b"2\r\n{}\r\n0\r\nAuthorization: Bearer a\r\n\r\n"), 400, "a key behind the body")
row("trailer-fold", chunked(b"2\r\n{}\r\n0\r\nX: a\r\n b\r\n\r\n"), 400, "folded headers are obsolete")
row("trailer-lf", chunked(b"2\r\n{}\r\n0\r\nX: a\n\r\n"), 400, "a bare LF is no line end")
row("trailer-space-before-colon", chunked(b"2\r\n{}\r\n0\r\nX : a\r\n\r\n"), 400, "names are tokens")

# --- too large ---

row("large-line", lambda: get(b"GET /healthz?" + b"a" * 9000 + b" HTTP/1.1"), 414, "8192 bytes at most")
row("large-line-endless", lambda: b"GET /healthz?" + b"a" * 100000, 414, "refused before it ends")
row("large-header", lambda: get(headers=HOST + b"X: " + b"a" * 40000 + b"\r\n"), 431, "32768 bytes at most")
row("large-head-many", lambda: get(headers=HOST + b"".join(b"X%d: %s\r\n" % (i, b"a" * 500) for i in range(90))), 431, "32768 bytes at most")
row("large-name", lambda: get(headers=HOST + b"a" * 40000 + b": b\r\n"), 431, "32768 bytes at most")
row("many-headers", lambda: get(headers=HOST + b"X: y\r\n" * 100), 431, "100 at most")
row("many-headers-empty", lambda: get(headers=HOST + b"X:\r\n" * 5000), 431, "100 at most")
row("large-body-length", post(b"Content-Length: %d\r\n" % (BODY_MOST + 1), b"{}"), 413, "refused before it comes", reader=False)
row("large-body-length-huge", post(b"Content-Length: 999999999999999999\r\n", b"{}"), 413, "refused before it comes", reader=False)
row("large-chunk", lambda: chunked(b"%x\r\n" % (BODY_MOST + 1)), 413, "refused before it comes", reader=False)
row("large-chunk-32-bits", chunked(b"ffffffff\r\n{}"), 413, "refused before it comes")
row("large-chunks", lambda: chunked(b"1000\r\n" + b" " * 4096 + b"\r\n") + b"1000\r\n%s\r\n" % (b" " * 4096) * 16, 413, "they add up", reader=False)
row("large-extension", lambda: chunked(b"2;" + b"a" * 300 + b"\r\n{}\r\n0\r\n\r\n"), 400, "256 bytes a line at most")
row("large-extensions", lambda: chunked(b"".join(b"1;%s\r\n \r\n" % (b"a" * 200) for _ in range(50)) + b"0\r\n\r\n"), 400, "8192 bytes a body at most")
row("large-trailer", lambda: chunked(b"2\r\n{}\r\n0\r\nX: " + b"a" * 9000 + b"\r\n\r\n"), 431, "8192 bytes at most")
row("large-trailers", lambda: chunked(b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 2000 + b"\r\n"), 431, "8192 bytes at most")

# --- too slow ---

SLOW = [
    Slow("line", b"G", b"E", "a request line that never ends"),
    Slow("head", get()[:-2], b"X: y\r\n", "one header after the other"),
    Slow("header", get()[:-2] + b"X: ", b"a", "a header that never ends"),
    Slow("silent", get()[:-2], b"", "half a head, and then nothing"),
    Slow("body", post(b"Content-Length: 1000\r\n"), b" ", "a body that comes in drops"),
    Slow("body-silent", post(b"Content-Length: 1000\r\n", b"{"), b"", "half a body, and then nothing"),
    Slow("chunks", chunked(b""), b"1\r\n \r\n", "chunk after chunk"),
    Slow("chunk-size", chunked(b"2"), b"", "half a size line"),
    Slow("extension", chunked(b"2;a"), b"a", "an extension that comes in drops"),
    Slow("trailers", chunked(b"2\r\n{}\r\n0\r\n"), b"X: y\r\n", "trailer after trailer"),
]

assert len({r.id for r in ROWS}) == len(ROWS)
