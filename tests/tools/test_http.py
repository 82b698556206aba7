"""The HTTP tool: one upstream, arguments put in as single words, secrets to nobody else, redirects judged hop by hop, nothing of ours reachable by any name."""

import base64
import json

import pytest
from upstream import Upstream

SECRET = "sesame-4711-open"


@pytest.fixture
def upstream():
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def call(tool):
    """Calls the tool with a specification in which this upstream may be at a private address."""

    def call(upstream, path, arguments=None, named=True, **spec):
        spec = {"url": upstream.url(path), **({"private": [f"127.0.0.1:{upstream.port}"]} if named else {}), **spec}
        return tool("http", spec, arguments or {}, {"search": SECRET})

    return call


def denied(answer, code="destination_not_allowed"):
    assert answer["denials"] and answer["denials"][0]["code"] == code, answer
    return answer["denials"][0]["reason"]


# --- what is sent ---


def test_the_seeds_search(upstream, call):
    upstream.routes["/search"] = lambda r: (200, {"Content-Type": "application/json"}, json.dumps([f"Result {i} for {r.asked['query']['q'][0]}" for i in range(int(r.asked["query"]["n"][0]))]).encode())
    answer = call(upstream, "/search", {"query": "latest AI news", "max_results": 3}, query={"q": "{query}", "n": "{max_results}"})
    assert not answer["failed"] and answer["result"]["status"] == 200
    assert answer["result"]["body"] == [f"Result {i} for latest AI news" for i in range(3)]


@pytest.mark.parametrize(
    "value", ["a&admin=1", "a#b", "a?b=c", "a/../../b", "ü€😀", "a b+c%20d", "\r\nHost: evil", '"quoted"', "a;b", "://", "{secret:search}", "{query}"]
)
def test_an_argument_is_one_word_of_the_query(upstream, call, value):
    upstream.json("/s", {})
    answer = call(upstream, "/s?fixed=1&q={query}", {"query": value})
    assert not answer["denials"], answer
    assert upstream.asked[-1]["query"] == {"fixed": ["1"], "q": [value]}
    assert SECRET not in json.dumps(answer)


@pytest.mark.parametrize("value, path", [("x", "/u/x/end"), ("a/b", "/u/a%2Fb/end"), ("a?b", "/u/a%3Fb/end"), ("...", "/u/.../end"), ("a b", "/u/a%20b/end")])
def test_an_argument_is_one_segment_of_the_path(upstream, call, value, path):
    call(upstream, "/u/{name}/end", {"name": value})
    assert upstream.asked[-1]["path"] == path


@pytest.mark.parametrize("value", [".", "..", "../x", "x/..", "x/../y", "..\\x", "x\\..", "a/./b", "/..", "../../etc/passwd", "..//", "x/.."])
@pytest.mark.parametrize("path", ["/u/{name}", "/u/{name}/end", "/u/{name}?q=1"])
def test_an_argument_cannot_climb(upstream, call, path, value):
    assert "path" in denied(call(upstream, path, {"name": value}), "invalid_arguments")
    assert not upstream.asked


@pytest.mark.parametrize("value", ["...", "a..b", "..a", "a..", ".hidden", "a/b", "x/...", "%2e%2e"])
def test_dots_that_climb_nowhere_are_fine(upstream, call, value):
    assert not call(upstream, "/u/{name}/end", {"name": value})["denials"]
    assert len(upstream.asked) == 1


def test_absent_arguments_are_left_out(upstream, call):
    upstream.json("/s", {})
    call(upstream, "/s", {"query": "x", "none": None}, query={"q": "{query}", "n": "{max_results}", "m": "{none}"}, headers={"X-Trace": "{trace}"})
    assert upstream.asked[-1]["query"] == {"q": ["x"]} and "X-Trace" not in upstream.asked[-1]["headers"]
    assert "{name}" in denied(call(upstream, "/s/{name}", {}), "invalid_arguments")


def test_a_body_of_json(upstream, call):
    upstream.json("/p", {"ok": True})
    template = {"text": "{text}", "n": "{n}", "list": ["{a}", "{gone}"], "mixed": "n is {n}", "gone": "{gone}", "key": "{secret:search}"}
    call(upstream, "/p", {"text": 'a"\nb', "n": 5, "a": {"x": [1, None]}}, method="POST", json=template)
    asked = upstream.asked[-1]
    assert asked["method"] == "POST" and asked["headers"]["Content-Type"] == "application/json"
    assert json.loads(asked["body"]) == {"text": 'a"\nb', "n": 5, "list": [{"x": [1, None]}], "mixed": "n is 5", "key": SECRET}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_methods(upstream, call, method):
    upstream.json("/m", {})
    assert not call(upstream, "/m", method=method)["failed"]
    assert upstream.asked[-1]["method"] == method


def test_headers_take_no_line_ends(upstream, call):
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "a\x7f"]:
        denied(call(upstream, "/", {"v": value}, headers={"X-Value": "{v}"}), "invalid_arguments")
    assert not upstream.asked


# --- secrets ---


def test_secrets_reach_the_upstream_and_nobody_else(upstream, call):
    other = Upstream()
    try:
        upstream.redirect("/start", other.url("/end"))
        other.json("/end", {"ok": 1})
        spec = {"headers": {"Authorization": "Bearer {secret:search}", "X-Plain": "yes"}, "hosts": [f"127.0.0.1:{other.port}"]}
        answer = call(upstream, "/start", private=["127.0.0.1"], **spec)
        assert answer["result"]["body"] == {"ok": 1}
        assert upstream.asked[-1]["headers"]["Authorization"] == f"Bearer {SECRET}"
        assert "Authorization" not in other.asked[-1]["headers"] and other.asked[-1]["headers"]["X-Plain"] == "yes"
        assert SECRET not in json.dumps(answer)
    finally:
        other.close()


def test_what_was_posted_goes_to_nobody_else(upstream, call):
    other = Upstream()
    try:
        upstream.redirect("/start", other.url("/end"), 307)
        spec = {"method": "POST", "json": {"key": "{secret:search}"}, "hosts": [f"127.0.0.1:{other.port}"]}
        denied(call(upstream, "/start", private=["127.0.0.1"], **spec))
        assert not other.asked
        upstream.redirect("/start", other.url("/end"), 303)
        other.json("/end", {})
        assert not call(upstream, "/start", private=["127.0.0.1"], **spec)["denials"]
        assert other.asked[-1]["method"] == "GET" and other.asked[-1]["body"] == b""
    finally:
        other.close()


# --- where it may lead ---

PRIVATE = """127.0.0.1 127.8.8.8 0.0.0.0 10.0.0.1 100.64.0.1 100.100.100.200 100.96.0.96 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.168.1.1
192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 [::1] [::] [fe80::1] [fc00::1] [fd00:ec2::254] [ff02::1] [64:ff9b::7f00:1]
[2002:7f00:1::] [2001:0:7f00:1::] [2001:db8::1] [100::1] [fec0::1] [3fff::1]""".split()


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_are_refused(tool, host):
    assert host.strip("[]") in denied(tool("http", {"url": f"http://{host}:9/"}, {}))


def test_a_name_at_a_private_address_is_refused(tool, upstream):
    reason = denied(tool("http", {"url": upstream.url("/", "localhost")}, {}))
    assert "localhost is at a loopback address" in reason and not upstream.asked


def test_a_named_host_may_be_private(tool, upstream):
    upstream.json("/", {})
    assert not tool("http", {"url": upstream.url("/", "localhost"), "private": ["localhost"]}, {})["denials"]
    assert len(upstream.asked) == 1
    denied(tool("http", {"url": upstream.url("/"), "private": [f"127.0.0.1:{upstream.port + 1}"]}, {}))  # another port was named
    assert len(upstream.asked) == 1


REDIRECTS = [
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://10.0.0.1/",
    "http://localhost:{port}/end",
    "http://127.1:{other}/end",
    "http://2130706433:{other}/end",
    "http://0x7f.1:{other}/end",
    "http://017700000001:{other}/end",
    "http://[::ffff:127.0.0.1]:{port}/end",
    "http://127.0.0.1.:{port}/end",
    "http://127.0.0.1:{other}/end",
    "http://127.0.0.1/end",
    "https://127.0.0.1:{port}/end",
    "http://user:pass@127.0.0.1:{port}/end",
    "http://127.0.0.1:{port}@evil.example/end",
    "//evil.example/end",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
    "ftp://127.0.0.1:{port}/x",
    "dict://127.0.0.1:22/",
    "scp://127.0.0.1/x",
    "data:text/plain,x",
    "http://127.0.0.1:22/",
    "http://evil.example/",
]


@pytest.mark.parametrize("to", REDIRECTS)
def test_redirects_elsewhere_are_refused(upstream, call, to):
    upstream.redirect("/start", to.replace("{port}", str(upstream.port)).replace("{other}", str(upstream.port ^ 1)))
    upstream.json("/end", {"reached": True})
    answer = call(upstream, "/start")
    assert "reached" not in json.dumps(answer), answer
    denied(answer)
    assert [asked["path"] for asked in upstream.asked] == ["/start"]


def test_redirects_within_the_upstream_are_followed(upstream, call):
    upstream.redirect("/a", "/b")
    upstream.redirect("/b", "c")
    upstream.json("/c", {"end": 1})
    assert call(upstream, "/a")["result"]["body"] == {"end": 1}
    answer = call(upstream, "/a", redirects=1)
    assert answer["failed"] and "too often" in answer["result"]["error"]
    upstream.redirect("/loop", "/loop")
    assert call(upstream, "/loop", redirects=10)["failed"] and len([a for a in upstream.asked if a["path"] == "/loop"]) == 11


def test_a_listed_host_that_is_private_is_refused_all_the_same(upstream, tool):
    upstream.redirect("/start", upstream.url("/end", "localhost"))
    spec = {"url": upstream.url("/start"), "private": ["127.0.0.1"], "hosts": ["localhost"]}
    assert "localhost is at" in denied(tool("http", spec, {}))


# --- what comes back ---


def test_answers(upstream, call):
    rows = [
        ("application/json", b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        ("application/problem+json; charset=utf-8", b'{"title": "x"}', {"title": "x"}),
        ("application/json", b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),  # no JSON as we take it: the text of it
        ("application/json", b"{broken", "{broken"),
        ("text/plain", "grüße".encode(), "grüße"),
        ("text/html", b"\xff<p>", "\ufffd<p>"),
        ("application/octet-stream", b"\x00\x01\xff", {"base64": "AAH/"}),
        ("", b"", ""),
    ]
    for kind, body, wanted in rows:
        upstream.routes["/x"] = lambda _, kind=kind, body=body: (200, {"Content-Type": kind}, body)
        assert call(upstream, "/x")["result"]["body"] == wanted, kind


@pytest.mark.parametrize("status", [400, 401, 404, 418, 500, 503, 304])
def test_what_the_upstream_refuses_is_told(upstream, call, status):
    upstream.json("/x", {"why": "no"}, status)
    answer = call(upstream, "/x")
    assert answer["failed"] and answer["result"]["status"] == status and not answer["denials"]


def test_long_answers_are_cut(upstream, call):
    upstream.routes["/big"] = lambda _: (200, {"Content-Type": "text/plain"}, b"x" * 5_000_000)
    answer = call(upstream, "/big", max_bytes=2048)
    assert answer["result"]["truncated"] and answer["result"]["body"] == "x" * 2048


@pytest.mark.parametrize("form", [SECRET, SECRET.replace("-", "%2D"), SECRET.encode().hex(), json.dumps(SECRET)[1:-1]])
@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
def test_no_part_of_a_secret_is_left_by_a_cut(upstream, call, form, kind):
    """Wherever the cut falls in what an upstream sends back of a secret."""
    for room in range(len(form) + 1):
        filler = ("\x00" if kind != "text/plain" else "x") * (1024 - room)
        upstream.routes["/echo"] = lambda _, filler=filler: (200, {"Content-Type": kind}, (filler + form + "y" * 100).encode())
        body = call(upstream, "/echo", max_bytes=1024, headers={"X-Key": "{secret:search}"})["result"]["body"]
        text = body if kind == "text/plain" else base64.b64decode(body["base64"]).decode(errors="replace")
        assert not text.strip("x\x00") or text.strip("x\x00") == "[REDACTED_SECRET]" or kind != "text/plain" and not any(form[:n] in text for n in range(4, len(form))), (room, text[-40:])


def test_endless_answers_end(upstream, call):
    def endless(request):
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        try:
            for _ in range(100000):
                request.wfile.write(b"400\r\n" + b"y" * 1024 + b"\r\n")
        except OSError:
            pass
        return None, None, None

    upstream.routes["/endless"] = endless
    assert call(upstream, "/endless", max_bytes=10000)["result"]["truncated"]


def test_a_flood_of_headers_ends(upstream, call):
    upstream.routes["/h"] = lambda _: (200, {f"X-{i}": "v" * 1000 for i in range(90)}, b"")
    answer = call(upstream, "/h")
    assert answer["failed"] and "headers" in answer["result"]["error"]


def test_a_body_that_looks_compressed_is_left_alone(upstream, call):
    upstream.routes["/gz"] = lambda _: (200, {"Content-Encoding": "gzip", "Content-Type": "application/octet-stream"}, b"\x1f\x8b\x08\x00bomb")
    assert "base64" in call(upstream, "/gz")["result"]["body"]


def test_nobody_there(tool, upstream):
    upstream.close()
    answer = tool("http", {"url": upstream.url("/"), "private": ["127.0.0.1"]}, {})
    assert answer["failed"] and "127.0.0.1" in answer["result"]["error"]
    answer = tool("http", {"url": "http://no-such-host.invalid/"}, {})
    assert answer["failed"] and "no-such-host.invalid" in answer["result"]["error"]
