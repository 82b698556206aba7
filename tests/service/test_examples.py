"""conf/examples/agent.yaml, served as it ships but for hosts and paths: the three example tools of the documents that the project grew from, against
a web server, a real mail server, SQLite and a real PostgreSQL. Each call that they show works; each misuse that they show is refused, in the same
words everywhere, and nothing has happened. Then canaries: what must stay secret is put wherever a caller or an upstream can put it.
"""

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import pytest

import api
from conftest import BUILD, Service

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
EXAMPLE = api.TOP / "conf/examples/agent.yaml"
sys.path.append(str(TOOLS))

from mail_server import MailServer  # noqa: E402
from upstream import Upstream  # noqa: E402

pytestmark = [pytest.mark.rootonly, pytest.mark.xdist_group("examples")]  # the servers need root, and one set of them is enough

SHOP = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO products VALUES (1, 'item A'), (2, 'item B');
CREATE TABLE users_public (id INTEGER PRIMARY KEY, name TEXT, city TEXT, email TEXT);
INSERT INTO users_public VALUES (1, 'Ada', 'London', 'ada@example.org');
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO users VALUES (1, 'Ada');
CREATE TABLE credit_cards (number TEXT);
INSERT INTO credit_cards VALUES ('4111 1111 1111 1111');
"""
POSTGRES = "SELECT md5(string_agg(t, '|')) FROM (SELECT p::text AS t FROM products p UNION ALL SELECT u::text FROM users u UNION ALL SELECT c::text FROM credit_cards c ORDER BY 1) x"

# --- the servers, and the example around them ---


def tools_conftest():
    """tests/tools/conftest.py: its name is taken here."""
    spec = importlib.util.spec_from_file_location("tools_conftest", TOOLS / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class World:
    """What the tools of the example talk to, and the secrets they do it with."""

    def __init__(self, stack):
        self.secrets = {name: f"{name}-{hashlib.sha256(os.urandom(16)).hexdigest()}" for name in ("search", "smtp", "warehouse", "agent", "operator")}
        self.upstream = Upstream()
        stack.callback(self.upstream.close)
        self.mail = MailServer()
        stack.callback(self.mail.close)
        self.postgres = tools_conftest().Postgres()
        stack.callback(self.postgres.stop)
        self.postgres.psql("CREATE DATABASE shop", database="postgres")
        self.postgres.psql(SHOP + f"CREATE ROLE agent LOGIN PASSWORD '{self.secrets['warehouse']}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO agent")

    def make_files(self, directory):
        """The database and the files of secrets, where the configuration will look for them."""
        for path in ("etc/secrets", "shop"):
            (directory / path).mkdir(parents=True)
        for name, place in {"search": "secrets/search", "smtp": "secrets/smtp", "warehouse": "secrets/warehouse", "agent": "agent.key", "operator": "operator.key"}.items():
            (directory / "etc" / place).write_text(self.secrets[name] + "\n")
            (directory / "etc" / place).chmod(0o600)
        self.sqlite = directory / "shop/shop.db"
        with contextlib.closing(sqlite3.connect(self.sqlite)) as db:
            db.executescript(SHOP)
        for place in (self.sqlite.parent, self.sqlite):
            place.chmod(place.stat().st_mode | 0o055)  # the broker is another user

    def example(self, directory):
        """The file as it ships. Each replacement must find its place."""
        text = EXAMPLE.read_text()
        for old, new in {
            "https://search.example.com/v1/search": self.upstream.url("/v1/search"),
            "# private: [search.example.com]": f'private: ["127.0.0.1:{self.upstream.port}"]',
            "smtp://mail.example.com:587": self.mail.url,
            "tls: required": "tls: never",
            "      username: agent@example.com\n": "",
            '      password: "{secret:smtp_password}"\n': "",  # the server here has neither TLS nor users
            "/var/lib/shop/shop.db": str(self.sqlite),
            "host=db.example.com dbname=shop": f"host=127.0.0.1 port={self.postgres.port} dbname=shop",
            "sslmode=verify-full": "sslmode=disable",
            "calls_per_minute: 60": "calls_per_minute: 6000",  # we are in more of a hurry than an agent
        }.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        assert text.count("file: /etc/glovebox/") == 5
        return text.replace("file: /etc/glovebox/", f"file: {directory}/etc/")

    def state(self):
        """Everything that a call could have changed."""
        return hashlib.sha256(self.sqlite.read_bytes()).hexdigest(), os.listdir(self.sqlite.parent), self.postgres.psql(POSTGRES).stdout, len(self.upstream.asked), self.mail.is_empty

    def bearer(self, name):
        return {"Authorization": f"Bearer {self.secrets[name]}"}


@contextlib.contextmanager
def serving(world, change=("", ""), more="", env=None):
    """`more` belongs to the tools, with which the example ends."""
    s = Service(env=env)
    try:
        world.make_files(s.dir)
        settings = s.base | {"log": {"level": "debug", "format": "json"}}
        s.config_file.write_text(world.example(s.dir).replace(*change, 1) + more + "".join(f"\n{key}: {json.dumps(value)}" for key, value in settings.items()) + "\n")
        s.start()
        yield s
        assert s.stop() == 0, s.log()
    finally:
        s.remove()


@pytest.fixture(scope="module")
def world():
    with contextlib.ExitStack() as stack:
        yield World(stack)


@pytest.fixture(scope="module")
def agent(world):
    with serving(world) as s:
        yield s


def search(request):
    """As many results as were asked for."""
    query = request.asked["query"]
    results = [f"Result {i} for {query['q'][0]}" for i in range(int(query["count"][0]))]
    return 200, {"Content-Type": "application/json"}, json.dumps({"results": results}).encode()


@pytest.fixture(autouse=True)
def clean(world):
    world.upstream.routes = {"/v1/search": search}
    world.mail.clear()


def call(world, service, tool, arguments, who="agent", status=200, **fields):
    reply = service.request("POST", f"/v1/tools/{tool}/call", {"arguments": arguments, **fields}, world.bearer(who))
    assert reply.status == status, reply
    api.schema("V1ExecuteResult" if status == 200 else "Problem").validate(reply.json())
    return reply.json()


def good(*args, **kwargs):
    result = call(*args, **kwargs)
    assert (result["status"], result["success"], result["denials"]) == ("success", True, []), result
    return result["result"]


# --- the calls that the documents show ---

DATABASES = ["execute_database_query", "query_warehouse"]
MAIL = {"recipient": "support@example.com", "subject": "Issue with my account", "body": "My account is locked."}


def test_the_list(world, agent):
    found = agent.request("GET", "/v1/tools", headers=world.bearer("agent")).json()
    api.schema("Tools").validate(found)
    functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in found["tools"]}
    assert list(functions) == ["search_web", "send_restricted_email", *DATABASES]
    assert functions["search_web"]["properties"]["max_results"]["default"] == 5
    assert functions["query_warehouse"]["required"] == ["query"]
    assert not any(secret in json.dumps(found) for secret in world.secrets.values())


def test_the_banner_fits_the_tools(agent, world):
    """There is no execute_code in this file, so the line to try asks for the list."""
    line = agent.banner().splitlines()[1].removeprefix("Try:  ")
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, env={**os.environ, "KEY": world.secrets["agent"]}, check=True)
    assert [tool["function"]["name"] for tool in json.loads(done.stdout)["tools"]] == ["search_web", "send_restricted_email", *DATABASES]


def test_search(world, agent):
    body = good(world, agent, "search_web", {"query": "latest AI news", "max_results": 3})["body"]
    assert body == {"results": [f"Result {i} for latest AI news" for i in range(3)]}
    asked = world.upstream.asked[-1]
    assert (asked["method"], asked["path"], asked["query"]) == ("GET", "/v1/search", {"q": ["latest AI news"], "count": ["3"]})
    assert asked["headers"]["Authorization"] == f"Bearer {world.secrets['search']}"
    assert len(good(world, agent, "search_web", {"query": "five by default"})["body"]["results"]) == 5


@pytest.mark.parametrize("more", [{}, {"allowed_recipients": "support@example.com"}])
def test_mail(world, agent, more):
    result = good(world, agent, "send_restricted_email", MAIL | more)
    assert (result["status"], result["recipient"]) == ("sent", "support@example.com")
    (mail,) = world.mail.mails(1)
    assert (mail["To"], mail["From"], mail["Subject"], mail.get_content()) == ("support@example.com", "agent@example.com", MAIL["subject"], MAIL["body"])


@pytest.mark.parametrize("tool, more", [(DATABASES[0], {}), (DATABASES[0], {"allowed_tables": "products", "read_only": True}), (DATABASES[1], {})])
def test_query(world, agent, tool, more):
    result = good(world, agent, tool, {"query": "SELECT * FROM products ORDER BY id"} | more)
    assert (result["columns"], result["rows"]) == (["id", "name"], [[1, "item A"], [2, "item B"]])
    joined = "WITH u AS (SELECT name FROM users_public) SELECT count(*), max(u.name) FROM products, u"
    assert good(world, agent, tool, {"query": joined})["rows"] == [[2, "Ada"]]


# --- the misuse that they show, and its kin ---

MISUSE = {  # tool, arguments, code, stage, what reason and hint say
    "another recipient": ("send_restricted_email", {"recipient": "attacker@evil.example", "subject": "Urgent!", "body": "Send me all data."}, "recipient_not_allowed", "decide", ["recipient", "support@example.com, sales@example.com"]),
    "a recipient and a true list": (
        "send_restricted_email",
        {"recipient": "attacker@evil.example", "subject": "Urgent!", "body": "Send me all data.", "allowed_recipients": "support@example.com"},
        "recipient_not_allowed",
        "decide",
        ["recipient", "support@example.com, sales@example.com"],
    ),
    "a recipient and a false list": (
        "send_restricted_email",
        {"recipient": "attacker@evil.example", "subject": "Urgent!", "body": "Send me all data.", "allowed_recipients": "attacker@evil.example"},
        "invalid_arguments",
        "validate",
        ["allowed_recipients", "support@example.com"],
    ),
    "a list as a list": ("send_restricted_email", MAIL | {"allowed_recipients": ["attacker@evil.example"]}, "invalid_arguments", "validate", ["allowed_recipients"]),
    "a second recipient": ("send_restricted_email", MAIL | {"recipient": "support@example.com, attacker@evil.example"}, "recipient_not_allowed", "decide", ["recipient", "support@example.com, sales@example.com"]),
    "a header in the subject": ("send_restricted_email", MAIL | {"subject": "x\r\nBcc: attacker@evil.example"}, "mail_not_allowed", "validate", ["subject"]),
    "no recipient": ("send_restricted_email", {"subject": "x", "body": "y"}, "invalid_arguments", "validate", ["recipient"]),
    "DELETE, not read-only": (DATABASES[0], {"query": "DELETE FROM users;", "allowed_tables": "products", "read_only": False}, "invalid_arguments", "validate", ["read_only"]),
    "a table that is not there for it": (DATABASES[0], {"query": "SELECT 1", "allowed_tables": "credit_cards"}, "invalid_arguments", "validate", ["allowed_tables", "products"]),
    "too many results": ("search_web", {"query": "x", "max_results": 1000}, "invalid_arguments", "validate", ["max_results", "10"]),
    "a number as text": ("search_web", {"query": "x", "max_results": "3"}, "invalid_arguments", "validate", ["max_results", "whole number"]),
    "no query": ("search_web", {"max_results": 3}, "invalid_arguments", "validate", ["query"]),
    "an address of its own": ("search_web", {"query": "x", "url": "http://169.254.169.254/"}, "invalid_arguments", "validate", ["url", "query"]),
}
for database in DATABASES:
    MISUSE |= {
        f"{database}: {query}": (database, {"query": query}, "sql_not_allowed", "decide", words)
        for query, words in {
            "DELETE FROM users;": ["DELETE|users"],
            "DELETE FROM products": ["DELETE"],
            "SELECT * FROM credit_cards;": ["credit_cards"],
            "SELECT * FROM credit_cards -- products": ["credit_cards"],  # passes the documents' own check: the word is in it
            "SELECT (SELECT number FROM credit_cards) FROM products": ["credit_cards"],
            "SELECT email FROM users_public": ["email"],
            "SELECT 1; DELETE FROM products": ["statement"],
            "DROP TABLE products": ["DROP|products"],
        }.items()
    }


def records(service, world, id_):
    return [(r["kind"], r["record"]) for r in service.request("GET", f"/v1/executions/{id_}", headers=world.bearer("agent")).json()["records"]]


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(world, agent, name):
    tool, arguments, code, stage, words = MISUSE[name]
    before = world.state()
    result = call(world, agent, tool, arguments)
    assert (result["status"], result["success"], result["exit_code"]) == ("blocked", False, None), result
    (denial,) = result["denials"]
    assert (denial["code"], denial["stage"]) == (code, stage) and denial["hint"], denial
    for word in words:
        assert re.search(word, f"{denial['reason']}; {denial['hint']}", re.IGNORECASE), denial
    # The same in the audit, by the other door, and on the command line.
    kinds = dict(records(agent, world, result["id"]))
    assert set(kinds) == {"intent", "outcome"} and kinds["outcome"]["denials"] == [denial]
    assert kinds["intent"]["decision"] == ("allow" if kinds["intent"]["denials"] == [] else "block") and kinds["intent"]["denials"] in ([], [denial])
    old = agent.request("POST", "/execute", {"tool_name": tool, "arguments": arguments}, world.bearer("agent")).json()
    assert old["denials"] == [denial] and denial["reason"] in old["output"]
    command = [BUILD / "glovebox", "call", "--url", f"http://{agent.host}:{agent.port}", "--key-file", agent.dir / "etc/agent.key", tool, "--arguments", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 126 and done.stdout == "", done
    assert denial["hint"] in done.stderr and denial["code"] in done.stderr
    assert denial["reason"] in done.stderr or not denial["reason"].isprintable(), done
    assert world.state() == before


def test_tools_that_are_not_there(world, agent):
    """What the file does not list is no tool, not even those that exist without a list."""
    for tool in ("execute_code", "execute_command", "rm"):
        reply = agent.request("POST", f"/v1/tools/{tool}/call", {"arguments": {}}, world.bearer("agent"))
        api.problem(reply, 404, "not_found", "search_web")


def test_budgets_of_the_example(world):
    """So many mails a day (here three, not fifty). The next is refused, and is not sent."""
    with serving(world, ("calls_per_day: 50\n", "calls_per_day: 3\n")) as s:
        assert all(good(world, s, "send_restricted_email", MAIL) for _ in range(3))
        result = call(world, s, "send_restricted_email", MAIL)
        assert [d["code"] for d in result["denials"]] == ["budget_exceeded"] and "3 of 3" in result["denials"][0]["reason"]
        assert len(world.mail.mails(3)) == 3


# --- canaries ---

MORE = """
  - {name: run, code: {}}
  - {name: line, command: {}}
  - name: warehouse_away
    sql: {postgresql: "host=127.0.0.1 port=1 dbname=shop user=agent password={secret:warehouse_password}", tables: {products: true}}
  - name: post
    http: {method: POST, url: "URL", headers: {X-Given: "{given}"}, json: {given: "{given}", key: "{secret:search_key}"}, private: ["127.0.0.1"], redirects: 1}
    parameters: {type: object, properties: {given: {type: string, maxLength: 200}}, required: [given], additionalProperties: false}
"""


def forms(secret):
    """What the sanitiser promises to find: as it is, percent-encoded, in JSON, in hexadecimal, in base64 wherever it stands."""
    raw = secret.encode()
    yield from (secret, "".join(f"%{byte:02X}" for byte in raw), json.dumps(secret)[1:-1], raw.hex(), raw.hex().upper())
    yield from (base64.b64encode(b"x" * shift + raw + b"yz").decode() for shift in range(3))


@pytest.fixture(scope="module")
def canary(world):
    """The example with boxes beside it; a secret from the environment, too."""
    extra = 'secrets:\n  from_env: {env: CANARY_SECRET}\n'
    with serving(world, ("secrets:\n", extra), more=MORE.replace("URL", world.upstream.url("/post")), env={"CANARY_SECRET": "from-env-" + "q7" * 16}) as s:
        yield s


def everything_kept(world, service):
    """The log at its most talkative, all records, metrics, and the files of the audit as bytes."""
    text = service.log() + service.audit("export").stdout + service.request("GET", "/metrics", headers=world.bearer("operator")).body.decode()
    files = b"".join(path.read_bytes() for path in (service.state_dir / "audit").iterdir())
    return text.encode() + files


# Where a caller can put something that is nobody else's business. Twenty places; each has a canary of its own.
PLACES = {
    "code": lambda c: ("run", {"code": f"x = {c!r}"}, {}),
    "a comment that is blocked": lambda c: ("run", {"code": f"import os; os.system('{c}')"}, {}),
    "environment": lambda c: ("run", {"code": "pass"}, {"env": {"CANARY": c}}),
    "stdin": lambda c: ("run", {"code": "pass"}, {"stdin": c}),
    "arguments of the program": lambda c: ("run", {"code": "pass"}, {"args": [c]}),
    "a file": lambda c: ("run", {"code": "pass"}, {"files": [{"name": "f", "text": c}]}),
    "a file's name": lambda c: ("run", {"code": "pass"}, {"files": [{"name": c, "text": ""}], "outputs": [c]}),
    "output": lambda c: ("run", {"code": f"print({c!r})"}, {}),
    "error output": lambda c: ("run", {"code": f"raise ValueError({c!r})"}, {}),
    "a command line": lambda c: ("line", {"command": f"echo {c}"}, {}),
    "a command that fails": lambda c: ("line", {"command": f"cat {c}"}, {}),
    "the text of a statement": lambda c: ("execute_database_query", {"query": f"SELECT '{c}'"}, {}),
    "a statement for the other engine": lambda c: ("query_warehouse", {"query": f"SELECT '{c}'"}, {}),
    "a statement that is refused": lambda c: ("execute_database_query", {"query": f"DELETE FROM products WHERE name = '{c}'"}, {}),
    "a statement that fails": lambda c: ("query_warehouse", {"query": f"SELECT '{c}'::integer"}, {}),
    "a search": lambda c: ("search_web", {"query": c}, {}),
    "a body and a header": lambda c: ("post", {"given": c}, {}),
    "a mail": lambda c: ("send_restricted_email", MAIL | {"subject": c, "body": c}, {}),
    "a recipient": lambda c: ("send_restricted_email", MAIL | {"recipient": f"{c}@example.com"}, {}),
    "an upstream that is not there": lambda c: ("warehouse_away", {"query": f"SELECT '{c}'"}, {"status": 502}),
}


def test_nothing_of_a_call_is_kept(world, canary):
    """Twenty calls; then four requests that are none."""
    assert len(PLACES) == 20
    world.upstream.routes["/post"] = lambda request: (200, {"Content-Type": "application/json"}, request.asked["body"])
    canaries = {place: f"canary{i:02}x{hashlib.sha256(os.urandom(16)).hexdigest()[:24]}" for i, place in enumerate([*PLACES, "header", "query", "key", "body"])}
    for place, make in PLACES.items():
        tool, arguments, fields = make(canaries[place])
        call(world, canary, tool, arguments, "operator", **fields)
    operator = world.bearer("operator")
    canary.request("GET", "/v1/tools", headers=operator | {"X-Canary": canaries["header"]})
    assert canary.request("GET", f"/v1/executions?{canaries['query']}", headers=operator).status == 422
    assert canary.request("GET", "/v1/tools", headers={"Authorization": f"Bearer {canaries['key']}"}).status == 401
    assert canary.request("POST", "/v1/execute", f'{{"{canaries["body"]}": "{canaries["body"]}"'.encode(), operator | api.JSON).status == 400
    kept = everything_kept(world, canary)
    assert b"canary" not in kept.replace(b"CANARY", b""), [place for place, text in canaries.items() if text.encode() in kept]
    assert kept.count(b'"outcome"') >= 20  # the positive control: these are the records


def test_secrets_of_the_policy_are_nowhere(world, canary):
    """Every secret, in every form, by every way there is: from the upstream, from a box, from a database, in arguments, in refusals."""
    secrets = [world.secrets["search"], world.secrets["smtp"], world.secrets["warehouse"], "from-env-" + "q7" * 16]
    told, operator = [], "operator"
    every = " ".join(form for secret in secrets for form in forms(secret))
    echo = lambda request: (200, {"Content-Type": "application/json"}, json.dumps({"all": every, every: 1, "asked": request.asked["headers"]}).encode())  # noqa: E731
    world.upstream.routes |= {"/v1/search": echo, "/post": lambda _: (502, {"Content-Type": "text/plain"}, every.encode())}
    told.append(call(world, canary, "search_web", {"query": "x"}, operator))
    told.append(call(world, canary, "post", {"given": "x"}, operator))
    for secret in secrets:
        world.upstream.redirect("/post", f"http://127.0.0.1:1/{secret}")
        told.append(call(world, canary, "post", {"given": "x"}, operator))
        told.append(call(world, canary, "post", {"given": secret * 8}, operator))  # too long: the reason shows what it is
        told.append(call(world, canary, "search_web", {"query": "x", "max_results": secret}, operator))
        told.append(call(world, canary, "search_web", {"query": "x", secret: 1}, operator))
        told.append(call(world, canary, "run", {"code": f"import sys\nprint({secret!r})\nprint({secret!r}, file=sys.stderr)"}, operator))
        slow = f"import sys, time\nfor c in {secret!r}: print(c, end='', flush=True); time.sleep(0.001)"
        told.append(call(world, canary, "run", {"code": slow}, operator))
        told.append(call(world, canary, "run", {"code": f"printf %s {secret} > f"}, operator, language="bash", outputs=["f"]))
        assert told[-1]["files"][0]["text"] == "[REDACTED_SECRET]"
        told.append(call(world, canary, "line", {"command": f"cat {secret}"}, operator))
        told.append(call(world, canary, "line", {"command": secret}, operator))
        for database in DATABASES:
            told.append(call(world, canary, database, {"query": f"SELECT '{secret}'"}, operator))
            told.append(call(world, canary, database, {"query": f'SELECT "{secret}" FROM products'}, operator))
    told.append(call(world, canary, "warehouse_away", {"query": "SELECT 1"}, operator, status=502))
    text = json.dumps(told, ensure_ascii=False)
    found = {(secret[:8], form) for secret in secrets for form in forms(secret) if form in text}
    assert not found and text.count("[REDACTED") > 50, found
    kept = everything_kept(world, canary)
    assert not [secret for secret in secrets for form in forms(secret) if form.encode() in kept]


def test_what_is_not_found_is_documented(world, canary):
    """The positive control of the above: the sanitiser knows forms, not meaning. A secret that is turned round goes through, and SECURITY.md says so."""
    secret = world.secrets["search"]
    result = call(world, canary, "run", {"code": f"print({secret!r}[::-1])"}, "operator")
    assert result["stdout"].strip() == secret[::-1]
    assert "reversed" in (api.TOP / "SECURITY.md").read_text()
