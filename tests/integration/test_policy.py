"""The policy in glovebox.yaml: what is refused, with place and remedy; what holds for a principal and a tool; that no secret is shown."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import textwrap

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = TOP / "conf/examples/agent.yaml"
HASH = "00112233445566778899aabbccddeeff" * 2
SECRET = "s3cr3t-value-that-nobody-may-see"
pytestmark = pytest.mark.rootonly  # it is the same whoever asks


@pytest.fixture
def config(gb, tmp_path):
    """Calls `glovebox config` with a policy: text, or what becomes JSON. Nothing of the caller's environment gets in."""

    def call(action, content, *options, env=None, mode=0o600):
        file = tmp_path / "glovebox.yaml"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        file.chmod(mode)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GLOVEBOX_")}
        clean |= {"HOME": "/home/u", "XDG_CONFIG_HOME": str(tmp_path / "none"), **(env or {})}
        return subprocess.run([gb.program, "config", action, *options, str(file)], capture_output=True, env=clean, timeout=60, check=False)

    return call


def refused(done):
    error = done.stderr.decode()
    assert done.returncode == 1, (done.returncode, error, done.stdout.decode())
    assert error.startswith("glovebox: ") and error.count("\n") == 1 and error[:-1].isprintable(), error
    return error


# --- wrong policies ---

# Each: a name, the file, and what the message must say. The line that the message must name ends with "#!", the other place of a
# contradiction with "#2". $SECRET is a file that holds a good secret.
WRONG = [
    # the shape
    ("profiles is a list", "profiles: []  #!", "profiles:", "object"),
    ("profiles is a number", "profiles: 5  #!", "profiles:", "object"),
    ("secrets is text", "secrets: hunter2hunter2  #!", "secrets:", "file: /path"),
    ("tools is a map", "tools: {}  #!", "tools:", "array"),
    ("empty tools", "tools: []  #!", "tools: an empty list", "execute_code"),
    ("unknown field of a profile", "profiles:\n  default:\n    limit: {}  #!", "profiles.default.limit", "did you mean 'limits'", "ceilings"),
    ("unknown field of a principal", "principals:\n  local:\n    tool: [a]  #!", "principals.local.tool", "did you mean 'tools'"),
    ("unknown field of a tool", "tools:\n  - name: a\n    code: {}\n    budgets: {}  #!", "tools[0].budgets", "did you mean 'budget'"),
    ("unknown field of sql", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      table: {a: true}  #!", "tools[0].sql.table", "did you mean 'tables'"),
    ("unknown field of http", "tools:\n  - name: a\n    http:\n      URL: https://a.example/  #!", "tools[0].http.URL", "did you mean 'url'"),
    ("unknown field of email", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example],\n      recipient: x}  #!", "email.recipient", "did you mean 'recipients'"),
    ("unknown field of approval", "tools:\n  - name: a\n    code: {}\n    approval:\n      if: {}  #!", "approval.if", "when"),
    ("unknown field of a secret", "secrets:\n  a:\n    path: /x  #!", "secrets.a.path", "file, env, value"),
    ("no kind", "tools:\n  - name: a  #!\n    description: x", "tools[0]", "exactly one of: code, command, sql, http, email", "none of them"),
    ("two kinds", "tools:\n  - name: a  #!\n    code: {}\n    command: {}", "tools[0]", "it has code and command"),
    ("kind without a value", "tools:\n  - name: a\n    code:  #!", "tools[0].code", "object"),
    ("no name", "tools:\n  - code: {}  #!", "tools[0]", "name"),
    ("bad name of a tool", "tools:\n  - name: a.b  #!\n    code: {}", "tools[0].name"),
    ("bad name of a profile", "profiles:  #!\n  'a b': {}", "profiles", "a b"),
    ("number as text", "principals:\n  local:\n    budget: {calls_per_day: '5'}  #!", "principals.local.budget.calls_per_day", "whole number"),
    ("budget of nothing", "principals:\n  local:\n    budget: {calls_per_day: 0}  #!", "budget.calls_per_day", "1"),
    ("unknown action", "profiles:\n  default:\n    screen: deny  #!", "profiles.default.screen", "block"),
    ("NUL in a text", 'tools: [{name: a, code: {}, description: "a\\0b"}]  #!', "tools:", "NUL"),
    # profiles
    ("unknown limit", "profiles:\n  default:\n    limits:\n      max_memory: 5  #!", "profiles.default.limits.max_memory", "did you mean 'max_memory_mb'"),
    ("limit out of range", "profiles:\n  default:\n    limits: {max_pids: 0}  #!", "limits.max_pids: 0 is not allowed", "from 1 to 32768"),
    ("limit with too many decimals", "profiles:\n  default:\n    limits: {timeout_seconds: 0.0001}  #!", "limits.timeout_seconds"),
    ("limit above the service's ceiling", "ceilings: {max_memory_mb: 512}  #2\nprofiles:\n  big:\n    limits: {max_memory_mb: 600}  #!", "600", "512", "ceilings.max_memory_mb"),
    ("limit above the profile's ceiling", "profiles:\n  big:\n    limits:\n      max_pids: 20  #!\n    ceilings:\n      max_pids: 10  #2", "20 is above its ceiling of 10", "profiles.big.ceilings.max_pids"),
    ("ceiling above the service's", "profiles:\n  big:\n    ceilings: {max_memory_mb: 8192}  #!", "8192 is above the service's own ceiling of 4096"),
    ("unknown language", "profiles:\n  default:\n    runtimes: [python, pyton]  #!", "runtimes[1]", "did you mean 'python'"),
    ("no language", "profiles:\n  default:\n    runtimes: []  #!", "runtimes: an empty list"),
    ("language twice", "profiles:\n  default:\n    runtimes: [sh, sh]  #!", "profiles.default.runtimes"),
    ("unknown rule", "profiles:\n  default:\n    rules: {subproces execution: off}  #!", "there is no screening rule", "did you mean 'subprocess execution'"),
    ("no command", "profiles:\n  default:\n    commands: {allow: []}  #!", "commands.allow: an empty list"),
    ("an option as a command", "profiles:\n  default:\n    commands: {allow: [ls, -x]}  #!", "'-x' is not the name of a program"),
    ("a pattern without words", "profiles:\n  default:\n    commands: {block: [' ']}  #!", "a blocked pattern has no words"),
    ("a path as a command", "profiles:\n  default:\n    commands: {allow: [/bin/ls]}  #!", "commands.allow[0]"),
    # principals
    ("unknown profile", "profiles: {fast: {}}\nprincipals:\n  local:\n    profile: fats  #!", "there is no profile 'fats'", "did you mean 'fast'", "default"),
    ("unknown tool", "principals:\n  local:\n    tools: [execute_cod]  #!", "there is no tool 'execute_cod'", "did you mean 'execute_code'"),
    ("no tool", "principals:\n  local:\n    tools: []  #!", "an empty list: it could use no tool"),
    ("tool twice", "principals:\n  local:\n    tools: [execute_code, execute_code]  #!", "principals.local.tools"),
    ("principal without a key", f"keys: [{{name: alice, sha256: {HASH}}}]\nprincipals:\n  default: {{}}\n  alcie: {{}}  #!", "principals.alcie", "did you mean 'alice'"),
    ("principal without any keys", "principals:\n  default: {}\n  alice: {}  #!", "principals.alice", "`local`"),
    ("principal that is null", "principals:\n  default:  #!", "principals.default: must be an object"),
    ("nobody for callers without keys", "keys: []\nprincipals: {}  #!", "every caller is `local`, which is not listed"),
    ("key without a principal", f"principals: {{alice: {{}}}}\nkeys:\n  - name: alice\n    sha256: {HASH}\n  - name: bob  #!\n    sha256: {HASH[::-1]}", "keys[1]", "'bob'", "alice"),
    ("key whose principal is unknown", f"principals: {{alice: {{}}}}\nkeys:\n  - name: k1  #!\n    principal: alise\n    sha256: {HASH}", "'alise'", "did you mean 'alice'"),
    ("keys of one principal with other rates", f"keys:  #!\n  - {{name: a, principal: p, sha256: {HASH}, rate_per_minute: 5}}\n  - {{name: b, principal: p, sha256: {HASH[::-1]}}}", "'a' and 'b' have the same principal"),
    ("bad principal of a key", f"keys:  #!\n  - {{name: a, principal: 'x y', sha256: {HASH}}}", "principal", "63 letters"),
    # tools in general
    ("two tools of a name", "tools:\n  - name: a  #2\n    code: {}\n  - name: a  #!\n    command: {}", "tools[1].name", "two tools with the name 'a'", "tools[0].name"),
    ("unknown profile of a tool", "tools:\n  - name: a\n    code: {}\n    profile: x  #!", "tools[0].profile: there is no profile 'x'"),
    ("parameters that are no schema", "tools:\n  - name: a\n    code: {}\n    parameters: {type: objekt}  #!", "tools[0].parameters"),
    ("unknown keyword in parameters", "tools:\n  - name: a\n    code: {}\n    parameters:  #!\n      type: object\n      propertys: {code: {type: string}}", "tools[0].parameters", "propertys"),
    ("reference to elsewhere", "tools:\n  - name: a\n    code: {}\n    parameters: {$ref: 'https://a.example/s.json'}  #!", "tools[0].parameters", "a.example"),
    ("approval.when that is no schema", "tools:\n  - name: a\n    code: {}\n    approval:\n      when: {minimum: x}  #!", "tools[0].approval.when"),
    ("approval of another kind", "tools:\n  - name: a\n    code: {}\n    approval: sometimes  #!", "tools[0].approval"),
    ("approval that nobody can give", f"keys: [{{name: a, sha256: {HASH}}}]\ntools:\n  - name: a\n    code: {{}}\n    approval: always  #!", "tools[0].approval", "approver: true"),
    ("writing that nobody can approve", f"keys: [{{name: a, sha256: {HASH}}}]\ntools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables: {{a: true}}\n      write: true  #!", "tools[0].sql.write", "approval: never"),
    # code and command
    ("code without code", "tools:\n  - name: a\n    code: {}\n    parameters: {type: object, properties: {script: {type: string}}}  #!", "takes the argument `code`"),
    ("code that may be absent", "tools:\n  - name: a\n    code: {}\n    parameters: {type: object, properties: {code: {type: string}}}  #!", "cannot do without `code`", "required"),
    ("code that is a number", "tools:\n  - name: a\n    code: {}\n    parameters:\n      required: [code]\n      properties: {code: {type: integer}}  #!", "takes text as `code`"),
    ("unknown language of a tool", "tools:\n  - name: a\n    code: {language: pyhton}  #!", "there is no language 'pyhton'", "did you mean 'python'"),
    ("language that is fixed and asked for", "tools:\n  - name: a\n    code: {language: sh}  #!\n    parameters: {required: [code], properties: {code: {type: string}, language: {type: string}}}", "it is fixed here"),
    ("language that the profile has not", "profiles:\n  p:\n    runtimes: [sh]  #2\ntools:\n  - name: a\n    profile: p\n    code: {language: node}  #!", "'node' is not in profiles.p.runtimes"),
    ("language that a principal's profile has not", "profiles:\n  p:\n    runtimes: [sh]  #2\nprincipals: {local: {profile: p}}\ntools:\n  - name: a\n    code: {language: node}  #!", "the principal local"),
    ("command without command", "tools:\n  - name: a\n    command: {}\n    parameters: {type: object}  #!", "takes the argument `command`"),
    ("program from an argument", "tools:\n  - name: a\n    command:\n      argv: ['{x}', b]  #!", "argv[0]", "the program is fixed"),
    ("word that is no argument", "tools:\n  - name: a\n    command:\n      argv: [ls, '{fil}']  #!\n    parameters: {required: [file], properties: {file: {type: string}}}", "argv[1]", "'fil'", "did you mean 'file'"),
    ("half a word that may be absent", "tools:\n  - name: a\n    command:\n      argv: [ls, '--x={f}']  #!\n    parameters: {properties: {f: {type: string}}}", "argv[1]: {f} is needed here", "default"),
    ("word that is a list", "tools:\n  - name: a\n    command:\n      argv: [ls, '{f}']  #!\n    parameters: {required: [f], properties: {f: {type: array}}}", "argv[1]: {f} is a list"),
    ("secret in a box", "secrets: {k: {file: $SECRET}}\ntools:\n  - name: a\n    command:\n      argv: [curl, '{secret:k}']  #!", "a secret must not be put here"),
    # sql
    ("no database", "tools:\n  - name: a\n    sql:  #!\n      tables: {a: true}", "tools[0].sql", "exactly one of: sqlite, postgresql"),
    ("two databases", "tools:\n  - name: a\n    sql: {sqlite: /x, postgresql: host=a, tables: {a: true}}  #!", "it has sqlite and postgresql"),
    ("no tables", "tools:\n  - name: a\n    sql: {sqlite: /x}  #!", "tools[0].sql", "tables"),
    ("empty tables", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {}}  #!", "tools[0].sql.tables"),
    ("relative database", "tools:\n  - name: a\n    sql: {sqlite: shop.db, tables: {a: true}}  #!", "tools[0].sql.sqlite"),
    ("bad name of a table", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {'a;b': true}}  #!", "tools[0].sql.tables"),
    ("system table", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables:\n        sqlite_master: true  #!", "sql.tables.sqlite_master", "database system itself"),
    ("table twice", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {Users: true, users: true}}  #!", "'Users', too"),
    ("schema of SQLite", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {a: true}, schema: b}  #!", "SQLite has no schemas"),
    ("password in a connection string", "tools:\n  - name: a\n    sql:\n      postgresql: host=a password=hunter2  #!\n      tables: {a: true}", "it holds a password", "{secret:NAME}"),
    ("password in a connection URL", "tools:\n  - name: a\n    sql:\n      postgresql: postgresql://u:hunter2@a/b  #!\n      tables: {a: true}", "it holds a password"),
    ("argument in a connection string", "tools:\n  - name: a\n    sql:\n      postgresql: 'host={host}'  #!\n      tables: {a: true}", "{host}: an argument must not be put here"),
    ("unknown secret", "secrets: {db_pass: {file: $SECRET}}\ntools:\n  - name: a\n    sql:\n      postgresql: 'password={secret:dbpass}'  #!\n      tables: {a: true}", "there is no secret 'dbpass'", "did you mean 'db_pass'"),
    ("sql without query", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {a: true}}\n    parameters: {properties: {q: {type: string}}}  #!", "takes the argument `query`"),
    ("statement that writes", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables: {a: true}\n      statement: DELETE FROM a  #!", "it changes rows", "write: true"),
    ("writing that only reads", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables: {a: true}\n      write: true  #2\n      statement: SELECT 1 FROM a  #!", "it only reads"),
    ("statement with an unknown argument", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables: {a: true}\n      statement: SELECT b FROM a WHERE c = :idd AND d = ':no' -- :no  #!\n    parameters: {required: [id], properties: {id: {type: integer}}}", "'idd'", "did you mean 'id'"),
    ("statement with an argument that may be absent", "tools:\n  - name: a\n    sql:\n      sqlite: /x\n      tables: {a: true}\n      statement: 'SELECT b FROM a WHERE c = :id'  #!\n    parameters: {properties: {id: {type: integer}}}", "{id} is needed here"),
    ("limit of rows", "tools:\n  - name: a\n    sql: {sqlite: /x, tables: {a: true}, max_rows: 1000000}  #!", "tools[0].sql.max_rows", "100000"),
    # http
    ("other scheme", "tools:\n  - name: a\n    http: {url: 'ftp://a.example/'}  #!", "tools[0].http.url"),
    ("host from an argument", "tools:\n  - name: a\n    http: {url: 'https://{host}.example/'}  #!\n    parameters: {required: [host], properties: {host: {type: string}}}", "host and port are fixed"),
    ("user name in a URL", "tools:\n  - name: a\n    http: {url: 'https://u:p@a.example/'}  #!", "no user name and password"),
    ("fragment", "tools:\n  - name: a\n    http: {url: 'https://a.example/#x'}  #!", "#fragment"),
    ("space in a URL", "tools:\n  - name: a\n    http: {url: 'https://a.example/a b'}  #!", "%XX"),
    ("no host", "tools:\n  - name: a\n    http: {url: 'https:///x'}  #!", "no name or address"),
    ("number as a host", "tools:\n  - name: a\n    http: {url: 'http://2130706433/'}  #!", "no name or address"),
    ("hexadecimal host", "tools:\n  - name: a\n    http: {url: 'http://0x7f.1/'}  #!", "no name or address"),
    ("bad port", "tools:\n  - name: a\n    http: {url: 'http://a.example:70000/'}  #!", "its port is none"),
    ("brace in a URL", "tools:\n  - name: a\n    http: {url: 'https://a.example/{ q }'}  #!", "tools[0].http.url"),
    ("unknown argument in a URL", "tools:\n  - name: a\n    http:\n      url: https://a.example/{qery}  #!\n    parameters: {required: [query], properties: {query: {type: string}}}", "'qery'", "did you mean 'query'"),
    ("http without parameters", "tools:\n  - name: a\n    http:\n      url: https://a.example/{q}  #!", "`parameters`", "'q'", "there are none"),
    ("argument in a path that may be absent", "tools:\n  - name: a\n    http:\n      url: https://a.example/{q}  #!\n    parameters: {properties: {q: {type: string}}}", "{q} is needed here"),
    ("argument in a query that is an object", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      query: {q: '{q}'}  #!\n    parameters: {properties: {q: {type: object}}}", "http.query.q: {q} is a list, object"),
    ("header that is ours", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      headers: {Host: b.example}  #!", "headers.Host", "leave it out"),
    ("header with a line end", 'tools:\n  - name: a\n    http:\n      url: https://a.example/\n      headers: {X-A: "a\\nB: c"}  #!', "headers.X-A", "line end"),
    ("credential in the file", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      headers: {Authorization: Bearer abcdef}  #!", "put the credential under `secrets`"),
    ("secret that is not whole", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      headers: {Authorization: 'Bearer {secret: a}'}  #!", "{secret:NAME}, without spaces"),
    ("secret over plain HTTP", "secrets: {k: {file: $SECRET}}\ntools:\n  - name: a\n    http:\n      url: http://a.example/  #!\n      headers: {Authorization: 'Bearer {secret:k}'}", "unencrypted", "private"),
    ("body of a GET", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      json: {a: 1}  #!", "a GET has no body"),
    ("unknown argument in a body", "tools:\n  - name: a\n    http:\n      method: POST\n      url: https://a.example/\n      json:\n        a: [x, '{b}']  #!", "http.json.a[1]"),
    ("URL as a host", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      hosts: ['https://b.example']  #!", "hosts[0]", "host:port"),
    ("wildcard as a host", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      hosts: ['*.example']  #!", "hosts[0]"),
    ("private host that is not reached", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      private: [b.example]  #!", "private[0]", "never goes there"),
    ("private host with another port", "tools:\n  - name: a\n    http:\n      url: https://a.example/\n      private: ['a.example:8443']  #!", "never goes there"),
    # email
    ("no recipients", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: []}  #!", "email.recipients"),
    ("recipient with a name", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: ['A <a@b.example>']}  #!", "email.recipients[0]", "is no address"),
    ("recipient with a line end", 'tools:\n  - name: a\n    email: {server: \'smtp://a:25\', from: a@b.example, recipients: ["a@b.example\\nBcc: c@d.example"]}  #!', "is no address"),
    ("recipient that looks like another", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@bаd.example]}  #!", "is no address"),
    ("recipient twice", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example, A@b.example]}  #!", "recipients[1]: it is there twice"),
    ("bad sender", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: nobody, recipients: [a@b.example]}  #!", "email.from", "is no address"),
    ("bad server", "tools:\n  - name: a\n    email: {server: 'http://a:25', from: a@b.example, recipients: [a@b.example]}  #!", "email.server"),
    ("bad port of a server", "tools:\n  - name: a\n    email: {server: 'smtp://a:port', from: a@b.example, recipients: [a@b.example]}  #!", "email.server", "port"),
    ("offered recipient that is not listed", "tools:\n  - name: a\n    email:\n      server: smtp://a:25\n      from: a@b.example\n      recipients: [a@b.example]  #2\n    parameters:\n      required: [recipient, subject, body]\n      properties:\n        recipient: {enum: [a@b.example, c@b.example]}  #!\n        subject: {type: string}\n        body: {type: string}", "'c@b.example' is not in"),
    ("email without a body", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example]}\n    parameters: {required: [recipient, subject], properties: {recipient: {}, subject: {}}}  #!", "takes the argument `body`"),
    ("user name without password", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example],\n      username: u}  #!", "there is no password"),
    ("password in the file", "tools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example], username: u,\n      password: hunter2}  #!", "put the password under `secrets`"),
    ("password without TLS", "secrets: {k: {file: $SECRET}}\ntools:\n  - name: a\n    email: {server: 'smtp://a:25', from: a@b.example, recipients: [a@b.example], username: u, password: '{secret:k}',\n      tls: try}  #!", "unencrypted"),
    ("tls of smtps", "tools:\n  - name: a\n    email: {server: 'smtps://a:465', from: a@b.example, recipients: [a@b.example],\n      tls: required}  #!", "smtps:// is TLS from the first byte"),
    # interpreters and pools
    ("unknown field of python", "profiles:\n  a:\n    python:\n      programm: x  #!", "profiles.a.python.programm", "did you mean 'program'"),
    ("relative program", "profiles:\n  a:\n    python: {program: bin/python3}  #!", "profiles.a.python.program", "pattern"),
    ("program with a line end", 'profiles:\n  a:\n    python: {program: "/usr/bin/python3\\n"}  #!', "profiles.a.python.program"),
    ("empty program", "profiles:\n  a:\n    python: {program: ''}  #!", "profiles.a.python.program"),
    ("program of too many bytes", "profiles:\n  a:\n    python:\n      program: /" + "\u20ac" * 100 + "  #!", "profiles.a.python.program", "255 bytes"),
    ("preload that is no list", "profiles:\n  a:\n    python: {preload: json}  #!", "profiles.a.python.preload", "array"),
    ("preload that is no module", "profiles:\n  a:\n    python: {preload: ['os; x']}  #!", "profiles.a.python.preload[0]", "pattern"),
    ("preload with a star", "profiles:\n  a:\n    python: {preload: [json, 'os.*']}  #!", "profiles.a.python.preload[1]"),
    ("preload twice", "profiles:\n  a:\n    python: {preload: [json, json]}  #!", "profiles.a.python.preload"),
    ("too many modules", f"profiles:\n  a:\n    python: {{preload: [{', '.join(f'm{i}' for i in range(65))}]}}  #!", "profiles.a.python.preload", "64"),
    ("modules of too many bytes", f"profiles:\n  a:\n    python: {{preload: [{', '.join(f'module_number_{i}' for i in range(40))}]}}  #!", "profiles.a.python.preload", "more than 500 bytes"),
    ("preload that no script may import", "profiles:\n  a:\n    allowed_modules: [math]\n    python:\n      preload: [math, json]  #!", "profiles.a.python.preload[1]", "'json' is not in allowed_modules"),
    ("python without Python", "profiles:\n  a:\n    runtimes: [sh]\n    python: {program: python3}  #!", "profiles.a.python", "do not have python"),
    ("unknown field of pool", "profiles:\n  a:\n    pool: {hihg: 3}  #!", "profiles.a.pool.hihg", "did you mean 'high'"),
    ("mark that is too high", "profiles:\n  a:\n    pool: {high: 1025}  #!", "profiles.a.pool.high", "1024"),
    ("mark that is no whole number", "profiles:\n  a:\n    pool: {low: 1.5}  #!", "profiles.a.pool.low"),
    ("low above high", "profiles:\n  a:\n    pool:\n      low: 3  #!\n      high: 2  #2", "3 is above the high mark of 2", "profiles.a.pool.high"),
    ("low above the service's high", "pool:\n  high: 2  #2\nprofiles:\n  a:\n    pool: {low: 3}  #!", "3 is above the high mark of 2"),
    # rules
    ("rule without anything", "screening:\n  - name: a  #!", "screening[0]", "at least one of: pattern, calls, imports"),
    ("rule that is no pattern", "screening:\n  - name: a\n    pattern: '('  #!", "screening[0].pattern"),
    ("rule twice", "screening:\n  - name: a  #2\n    pattern: a\n  - name: a  #!\n    pattern: b", "two with the name 'a'"),
    ("calls in a shell", "screening:\n  - name: a\n    language: sh\n    calls: [os.system]  #!", "python only"),
    ("rule for an unknown language", "screening:\n  - name: a\n    language: perl  #!\n    pattern: x", "there is no language 'perl'"),
    ("call that is no name", "screening:\n  - name: a\n    calls: ['os.system()']  #!", "screening[0].calls[0]"),
    ("sanitising rule without a pattern", "sanitising:\n  - name: a  #!", "sanitising[0]", "pattern"),
    ("sanitising rule that is no pattern", "sanitising:\n  - name: a\n    pattern: '['  #!", "sanitising[0].pattern"),
    ("sanitising rule that matches nothing at all", "sanitising:\n  - name: a\n    pattern: 'x*'  #!", "sanitising[0].pattern"),
    ("sanitising rule that looks behind", "sanitising:\n  - name: a\n    pattern: '(?<=a)b'  #!", "sanitising[0].pattern"),
    ("unknown rule switched off", "sanitising_off: [ipv5]  #!", "sanitising_off[0]", "there is no built-in sanitising rule 'ipv5'"),
    # secrets
    ("secret without a source", "secrets:\n  a: {}  #!", "secrets.a", "exactly one of: file, env, value"),
    ("secret with two sources", "secrets:\n  a: {file: /x, env: X}  #!", "it has file and env"),
    ("secret without a file", "secrets:\n  a: {file: /no/such/file}  #!", "secrets.a", "/no/such/file", "No such file"),
    ("secret without a variable", "secrets:\n  a: {env: GB_NO_SUCH_VARIABLE}  #!", "secrets.a", "GB_NO_SUCH_VARIABLE", "not set"),
    ("short secret", "secrets:\n  a: {value: hunter2}  #!", "secrets.a", "it has 7 bytes; it takes 8 or more"),
    ("secret that is a number", "secrets:\n  a: {value: 12345678}  #!", "secrets.a.value", "it takes text"),
    ("secret that is only text", "secrets:\n  a: hunter2hunter2  #!", "secrets.a", "file: /path"),
]


@pytest.mark.parametrize("text,words", [(row[1], row[2:]) for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_policy(config, tmp_path, text, words):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    text = text.replace("$SECRET", str(secret))
    lines = text.splitlines()
    error = refused(config("check", re.sub(r"  #[!2]$", "", text, flags=re.M)))
    assert f"/glovebox.yaml:{1 + next(i for i, l in enumerate(lines) if l.endswith('#!'))}: " in error, error
    for i, line in enumerate(lines):
        if line.endswith("#2"):
            assert f"/glovebox.yaml:{1 + i})" in error, error
    for word in words:
        assert word in error, error
    assert "hunter2" not in error and "12345678" not in error and SECRET not in error, error


def test_there_are_enough_of_them():
    assert len(WRONG) >= 60 and len({row[0] for row in WRONG}) == len(WRONG)
    assert all(sum(line.endswith("#!") for line in row[1].splitlines()) == 1 for row in WRONG)


def test_wrong_policy_from_elsewhere(config):
    error = refused(config("check", "{}", env={"GLOVEBOX_TOOLS": '[{"name": "a", "code": {}, "x": 1}]'}))
    assert "environment variable GLOVEBOX_TOOLS: tools[0].x: there is no field" in error
    error = refused(config("check", "tools: []\n", "--set", "tools=[{}]"))
    assert "command line: tools[0]: it takes exactly one of" in error
    assert "it takes JSON" in refused(config("check", "{}", "--set", "profiles={"))
    assert config("check", "tools: []\n", "--set", "tools=").returncode == 0  # back to the default
    error = refused(config("check", "{}", "--set", 'secrets={"a": {"value": "hunter2hunter2"}}'))
    assert "every user of this host can see" in error and "hunter2" not in error
    error = refused(config("check", "{}", env={"GLOVEBOX_SECRETS": '{"a": {"value": hunter2hunter2}}'}))
    assert "JSON" in error and "hunter2" not in error


# --- secrets ---


def test_secret_file_must_be_private(config, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    for mode in (0o640, 0o604, 0o644):
        secret.chmod(mode)
        error = refused(config("check", {"secrets": {"a": {"file": str(secret)}}}))
        assert "secrets.a" in error and "chmod 600" in error and SECRET not in error
    secret.chmod(0o600)
    assert config("check", {"secrets": {"a": {"file": str(secret)}}}).returncode == 0
    for content, words in ((b"", "is empty"), (b"\n", "is empty"), (b"ab\xff12345678", "UTF-8"), (b"ab\x0012345678", "UTF-8"), (b"x" * 65537, "larger than 65536"), (b"1234567\n", "7 bytes")):
        secret.write_bytes(content)
        assert words in refused(config("check", {"secrets": {"a": {"file": str(secret)}}}))


def test_value_of_a_secret_in_a_file_that_others_can_read(config):
    content = {"secrets": {"a": {"value": SECRET}}}
    for mode in (0o644, 0o640, 0o604):
        error = refused(config("check", content, mode=mode))
        assert "secrets.a" in error and "can be read by others" in error and "chmod 600" in error and SECRET not in error
    assert config("check", content, mode=0o600).returncode == 0
    assert config("check", {"secrets": {"a": {"env": "GB_A"}}}, env={"GB_A": SECRET}, mode=0o644).returncode == 0
    assert config("check", "{}", env={"GLOVEBOX_SECRETS": json.dumps(content["secrets"])}, mode=0o644).returncode == 0


def test_no_secret_is_shown(config, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "-file\n")
    secret.chmod(0o600)
    content = {
        "secrets": {"f": {"file": str(secret)}, "e": {"env": "GB_SECRET"}, "v": {"value": SECRET + "-value"}},
        "tools": [{"name": "a", "http": {"url": "https://a.example/", "headers": {"X-Key": "{secret:f}{secret:e}{secret:v}"}}}],
    }
    env = {"GB_SECRET": SECRET + "-env"}
    for call in (["show"], ["show", "--json"], ["check"], ["check", "--json"], ["check", "--tool", "a"], ["check", "--tool", "a", "--json"]):
        done = config(call[0], content, *call[1:], env=env)
        assert done.returncode == 0, done.stderr.decode()
        assert SECRET not in done.stdout.decode() + done.stderr.decode()
    shown = json.loads(config("show", content, "--json", env=env).stdout)
    assert shown["secrets"] == {"f": {"file": str(secret)}, "e": {"env": "GB_SECRET"}, "v": {"value": "(not shown)"}}
    assert shown["tools"] == content["tools"]


def test_secret_with_a_line_end(config, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("first-line\nsecond-line\n")
    secret.chmod(0o600)
    content = {"secrets": {"k": {"file": str(secret)}}, "tools": [{"name": "a", "http": {"url": "https://a.example/", "headers": {"X-Key": "{secret:k}"}}}]}
    assert "control character" in refused(config("check", content))
    content["tools"][0]["http"] = {"url": "https://a.example/", "method": "POST", "json": {"k": "{secret:k}"}}
    assert config("check", content).returncode == 0


# --- what holds ---


def policy(config, content, *options, **kwargs):
    done = config("check", content, "--json", *options, **kwargs)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_defaults(config):
    p = policy(config, "{}", "--tool", "execute_code")
    assert p["allowed"] is True and p["tool"]["kind"] == "code" and p["tool"]["approval"] == "never"
    assert p["tool"]["parameters"]["required"] == ["code"] and p["tool"]["parameters"]["additionalProperties"] is False
    assert p["tool"]["parameters"]["properties"]["language"]["enum"] == p["profile"]["runtimes"]
    assert p["principal"] == {"name": "default", "approver": False, "tools": ["execute_code", "execute_command"], "budget": dict.fromkeys(["calls_per_minute", "calls_per_day", "concurrent", "cpu_seconds_per_day"])}
    settings = json.loads(config("show", "{}", "--json").stdout)
    assert p["profile"]["limits"] == settings["limits"] and p["profile"]["ceilings"] == settings["ceilings"]
    assert set(p["profile"]["screening"].values()) == {"block"} and p["profile"]["sanitise"] is True and p["profile"]["raw_output"] is False
    assert p["profile"]["allowed_modules"] is None and "python" in p["profile"]["commands"]["allow"]


def test_profile_narrows(config):
    content = """
        screen: warn
        sanitise: false
        limits: {timeout_seconds: 20, max_pids: 10}
        ceilings: {max_memory_mb: 1024}
        profiles:
          small:
            runtimes: [sh]
            limits: {timeout_seconds: 2.5}
            ceilings: {max_memory_mb: 128, timeout_seconds: 3}
            screen: off
            rules: {subprocess execution: block}
            sanitise: true
            raw_output: true
            allowed_modules: []
            restricted_builtins: [eval]
            commands: {allow: [ls], block: []}
        principals:
          local: {profile: small, tools: [b, a], budget: {calls_per_minute: 5, cpu_seconds_per_day: 0.25}, approver: true}
          default: {}
        tools:
          - {name: a, code: {}}
          - {name: b, code: {}, profile: default, budget: {concurrent: 1}}
          - {name: c, code: {language: sh}}
    """
    p = policy(config, textwrap.dedent(content), "--principal", "local", "--tool", "a")
    profile = p["profile"]
    assert profile["name"] == "small" and profile["runtimes"] == ["sh"] and p["principal"]["approver"] is True
    assert profile["limits"]["timeout_seconds"] == 2.5 and profile["limits"]["max_pids"] == 10
    assert profile["limits"]["max_memory_mb"] == 128 and profile["ceilings"]["max_memory_mb"] == 128  # a lower ceiling lowers what was not set
    assert profile["screening"].pop("subprocess execution") == "block" and set(profile["screening"].values()) == {"off"}
    assert (profile["sanitise"], profile["raw_output"], profile["allowed_modules"], profile["restricted_builtins"]) == (True, True, [], ["eval"])
    assert profile["commands"] == {"allow": ["ls"], "block": []}
    assert p["principal"]["tools"] == ["a", "b"] and p["principal"]["budget"]["cpu_seconds_per_day"] == 0.25
    p = policy(config, textwrap.dedent(content), "--principal", "local", "--tool", "b")
    assert p["profile"]["name"] == "default" and p["profile"]["limits"]["timeout_seconds"] == 20 and set(p["profile"]["screening"].values()) == {"warn"}
    assert p["profile"]["sanitise"] is False and p["tool"]["budget"]["concurrent"] == 1
    assert policy(config, textwrap.dedent(content), "--principal", "local", "--tool", "c")["allowed"] is False
    p = policy(config, textwrap.dedent(content), "--principal", "default")
    assert p["principal"]["tools"] == ["a", "b", "c"] and "tool" not in p and "allowed" not in p


def test_python_and_pool_of_a_profile(config):
    settings = json.loads(config("show", "boxes: {running: 6}", "--json").stdout)
    assert settings["pool"] == {"low": 2, "high": 6, "idle_seconds": 10, "zygote_boxes": 10000}
    p = policy(config, "{}", "--tool", "execute_code")
    assert p["profile"]["python"] == {"program": "python3", "preload": []} and p["pool"]["low"] == 2
    content = {
        "pool": {"low": 3, "high": 8},
        "profiles": {
            "default": {"python": {"program": "/usr/bin/python3.11", "preload": ["numpy", "os.path", "_io"]}, "pool": {"low": 0}},
            "few": {"pool": {"high": 1}, "runtimes": ["sh"]},
            "none": {"pool": {"high": 0}, "allowed_modules": ["os"], "python": {"preload": ["os.path"]}},
        },
        "tools": [{"name": "a", "code": {}}, {"name": "b", "code": {}, "profile": "few"}, {"name": "c", "code": {}, "profile": "none"}],
    }
    p = policy(config, content, "--tool", "a")
    assert p["profile"]["python"] == {"program": "/usr/bin/python3.11", "preload": ["numpy", "os.path", "_io"]}
    assert p["pool"] == {"low": 0, "high": 8}
    assert policy(config, content, "--tool", "b")["pool"] == {"low": 1, "high": 1}  # a lower high mark lowers what was not set
    p = policy(config, content, "--tool", "c")
    assert p["pool"] == {"low": 0, "high": 0} and p["profile"]["python"] == {"program": "python3", "preload": ["os.path"]}


def test_approval(config):
    def approval(**tool):
        return policy(config, {"tools": [{"name": "a", **tool}]}, "--tool", "a")["tool"]["approval"]

    sql = {"sqlite": "/x", "tables": {"t": True}}
    assert approval(sql=sql) == "never"
    assert approval(sql={**sql, "write": True}) == "always"
    assert approval(sql={**sql, "write": True}, approval="never") == "never"
    assert approval(sql=sql, approval="always") == "always"
    assert approval(sql=sql, approval={"when": {"required": ["query"]}}) == "when"


def test_parameters_that_are_made(config):
    def made(**tool):
        return policy(config, {"tools": [{"name": "a", **tool}]}, "--tool", "a")["tool"]["parameters"]

    assert set(made(code={"language": "sh"})["properties"]) == {"code"}
    assert made(command={})["required"] == ["command"]
    assert made(command={"argv": ["ls", "-l", "{a}", "x{b}y{{c}}", "{print $1}"]})["required"] == ["a", "b"]
    sql = {"sqlite": "/x", "tables": {"goods": True}}
    assert "goods" in made(sql=sql)["properties"]["query"]["description"]
    assert made(sql={**sql, "statement": "SELECT a::text, ':x' FROM goods WHERE b = :one OR c = :two /* :no */"})["required"] == ["one", "two"]
    mail = made(email={"server": "smtp://a:25", "from": "a@b.example", "recipients": ["c@d.example"]})
    assert mail["required"] == ["recipient", "subject", "body"] and mail["properties"]["recipient"]["enum"] == ["c@d.example"]
    assert made(http={"url": "https://a.example/"})["properties"] == {}


def test_principals_of_keys(config):
    content = {
        "keys": [{"name": "k1", "sha256": HASH, "principal": "team"}, {"name": "k2", "sha256": HASH[::-1], "principal": "team"}, {"name": "eve", "sha256": HASH[1:] + "0"}],
        "principals": {"team": {"tools": ["execute_code"]}, "default": {"tools": ["execute_command"]}},
    }
    assert policy(config, content, "--principal", "team")["principal"]["tools"] == ["execute_code"]
    assert policy(config, content, "--principal", "eve")["principal"]["tools"] == ["execute_command"]
    assert b"no key and no principal called 'k1'" in config("check", content, "--principal", "k1").stderr
    assert b"there is no tool called 'x'" in config("check", content, "--tool", "x").stderr
    assert [k["principal"] for k in json.loads(config("show", content, "--json").stdout)["keys"]] == ["team", "team", "eve"]


def test_as_text(config):
    text = config("check", "profiles: {default: {limits: {timeout_seconds: 7}}}\n", "--tool", "execute_command").stdout.decode()
    assert "  timeout_seconds: 7\n" in text and 'kind: "command"\n' in text and "allowed: true\n" in text and text.isascii()


def test_summary(config, tmp_path):
    done = config("check", {"profiles": {"a": {}}, "principals": {"local": {}}})
    assert done.stdout.decode() == f"ok: {tmp_path}/glovebox.yaml\n2 tools, 1 principals, 2 profiles, 0 keys, 0 secrets\n"
    p = policy(config, {"profiles": {"a": {}}})
    assert (p["ok"], p["tools"], p["principals"], p["profiles"]) == (True, 2, 0, 2) and re.fullmatch("[0-9a-f]{64}", p["policy"])


def test_policy_hash_follows_the_policy(config):
    first = policy(config, {"profiles": {"a": {}}})["policy"]
    assert first == policy(config, "profiles:\n  a: {}\n")["policy"]
    assert first != policy(config, {"profiles": {"b": {}}})["policy"]
    secret = {"secrets": {"a": {"env": "GB_A"}}}
    assert policy(config, secret, env={"GB_A": "12345678a"})["policy"] != policy(config, secret, env={"GB_A": "12345678b"})["policy"]


def test_show_can_be_read_back(config, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    content = {
        "secrets": {"k": {"file": str(secret)}},
        "profiles": {"p.1": {"limits": {"timeout_seconds": 0.001}, "rules": {"subprocess execution": "off"}}},
        "principals": {"local": {"profile": "p.1", "budget": {"cpu_seconds_per_day": 0.1}}},
        "tools": [{"name": "a", "http": {"url": "https://a.example/", "headers": {"X": "\u20ac # {secret:k}"}, "timeout_seconds": 0.3}, "description": "two\nlines: \"x\" #"}],
        "sanitising": [{"name": "a", "pattern": "C-[0-9]+"}],
    }
    first = config("show", content)
    assert first.returncode == 0, first.stderr.decode()
    again = config("show", first.stdout.decode(), "--json")
    assert json.loads(again.stdout) == json.loads(config("show", content, "--json").stdout)
    assert policy(config, first.stdout.decode())["policy"] == policy(config, content)["policy"]


# --- the example ---


@pytest.fixture
def example(tmp_path):
    """The shipped example, with its files beneath a directory of ours."""
    if not EXAMPLE.exists():
        pytest.skip("this copy of the tree has no conf/examples")
    text = EXAMPLE.read_text()
    files = re.findall(r"file: (/[\w./]+)", text)
    assert len(files) == 5 and "value:" not in text and "sha256:" not in text  # every secret is in a file
    for file in files:
        path = tmp_path / file[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(hashlib.sha256(file.encode()).hexdigest() + "\n")
        path.chmod(0o600)
    return text.replace("file: /", f"file: {tmp_path}/")


def test_example_is_right(config, example):
    assert config("check", example).returncode == 0, config("check", example).stderr
    p = policy(config, example, "--principal", "agent")
    assert p["principal"]["tools"] == ["search_web", "send_restricted_email", "execute_database_query", "query_warehouse"]
    p = policy(config, example, "--principal", "agent", "--tool", "query_warehouse")
    assert p["tool"]["sql"]["engine"] == "postgresql" and p["tool"]["sql"]["write"] is False and p["tool"]["parameters"]["required"] == ["query"]
    assert policy(config, example, "--principal", "operator")["principal"]["approver"] is True


def test_example_takes_the_calls_of_the_seeds(config, example):
    jsonschema = pytest.importorskip("jsonschema")

    def valid(tool, arguments):
        schema = policy(config, example, "--principal", "agent", "--tool", tool)["tool"]["parameters"]
        return jsonschema.Draft202012Validator(schema).is_valid(arguments)

    assert valid("search_web", {"query": "latest AI news", "max_results": 3}) and valid("search_web", {"query": "x"})
    assert not valid("search_web", {"query": "x", "max_results": 50}) and not valid("search_web", {"max_results": 3})
    mail = {"recipient": "support@example.com", "subject": "Issue with my account", "body": "My account is locked."}
    assert valid("send_restricted_email", mail) and valid("send_restricted_email", {**mail, "allowed_recipients": "support@example.com"})
    assert not valid("send_restricted_email", {**mail, "allowed_recipients": "attacker@evil.example"})
    query = {"query": "SELECT * FROM products"}
    assert valid("execute_database_query", query) and valid("execute_database_query", {**query, "allowed_tables": "users_public", "read_only": True})
    assert not valid("execute_database_query", {**query, "read_only": False}) and not valid("execute_database_query", {**query, "allowed_tables": "credit_cards"})
