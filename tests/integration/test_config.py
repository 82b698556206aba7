"""glovebox config: what it says about files, environment and flags; and that the schema, the commented default and the program agree."""

import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CONF = TOP / "conf"
HASH = "00112233445566778899aabbccddeeff" * 2


@pytest.fixture
def config(gb, tmp_path):
    """Calls `glovebox config` with a configuration: text, or what becomes JSON. Nothing of the caller's environment gets in."""

    def call(action, content, *options, env=None):
        names = []
        if content is not None:
            file = tmp_path / "glovebox.yaml"
            file.write_text(content if isinstance(content, str) else json.dumps(content))
            file.chmod(0o600)  # it may hold the value of a secret
            names = [file]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GLOVEBOX_")}
        clean |= {"HOME": "/home/u", "XDG_CONFIG_HOME": str(tmp_path / "none"), **(env or {})}
        return subprocess.run([gb.program, "config", action, *options, *map(str, names)], capture_output=True, env=clean, timeout=60, check=False)

    return call


def refused(done, *words, code=1):
    error = done.stderr.decode()
    assert done.returncode == code, (done.returncode, error)
    assert error.startswith("glovebox: ") and error.count("\n") == 1 and error[:-1].isprintable(), error
    for word in words:
        assert word in error, error


def effective(done):
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


# --- check ---


def test_check_says_what_it_read(config, tmp_path):
    done = config("check", "screen: off\n")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"ok: {tmp_path}/glovebox.yaml\n2 tools, 0 principals, 1 profiles, 0 keys, 0 secrets\n", b"")
    done = config("check", None)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ok: there is no file; the defaults are in force\n2 tools, 0 principals, 1 profiles, 0 keys, 0 secrets\n", b"")


def test_check_names_place_and_remedy(config, tmp_path):
    done = config("check", "log:\n  level: info\nboxes:\n  runing: 4\n")
    refused(done, f"{tmp_path}/glovebox.yaml:4: boxes.runing: there is no such setting", "did you mean boxes.running?", "running, queued, wait_seconds")
    assert done.stdout == b""
    refused(config("check", "boxes:\n  running: yes\n"), ':2: boxes.running: "yes"', "whole number from 1 to 4096")
    refused(config("check", "listen: ['0.0.0.0:8640']\n"), "0.0.0.0:8640", "keys", "glovebox config key")
    refused(config("check", None, env={"GLOVEBOX_BOXES_RUNNING": "many"}), "environment variable GLOVEBOX_BOXES_RUNNING: boxes.running: \"many\"")
    refused(config("check", None, env={"GLOVEBOX_BOX_RUNNING": "4"}), "GLOVEBOX_BOX_RUNNING", "did you mean boxes.running?")
    refused(config("check", None, "--set", "boxes.running=0"), "command line: boxes.running: 0")
    refused(config("check", "allow_degraded: [seccomp]\n"), "allow_degraded", "only these can")


def test_check_as_json(config, tmp_path):
    done = config("check", "screen: off\n", "--json")
    assert done.returncode == 0 and json.loads(done.stdout).items() >= {"ok": True, "file": f"{tmp_path}/glovebox.yaml", "error": ""}.items()
    done = config("check", "screen: of\n", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["ok"] is False and "block,warn,off" in json.loads(done.stdout)["error"]


def test_wrong_calls(gb):
    refused(gb("config"), "check, show or key", code=125)
    refused(gb("config", "frob"), "frob", code=125)
    refused(gb("config", "check", "--frob"), "--frob", "glovebox config --help", code=125)
    refused(gb("config", "check", "a", "b"), "'b'", code=125)
    refused(gb("config", "show", "--set", "boxes.running"), "PATH=VALUE", code=125)
    refused(gb("config", "key"), "name", code=125)
    refused(gb("config", "key", "a b"), "name", code=125)
    refused(gb("config", "check", "/no/such/file"), "/no/such/file", "No such file")
    for arguments in (["--help"], ["check", "--help"], ["-h"]):
        done = gb("config", *arguments)
        assert done.returncode == 0 and b"usage: glovebox config" in done.stdout


# --- show ---


def test_show_says_who_set_what(config, tmp_path):
    env = {"GLOVEBOX_BOXES_QUEUED": "7", "GLOVEBOX_HOSTS": "a.example,B.example"}
    text = config("show", "boxes:\n  running: 5\nlog: {level: warn}\n", "--set", "log.level=error", env=env).stdout.decode()
    assert f"  running: 5  # {tmp_path}/glovebox.yaml:2\n" in text
    assert "  queued: 7  # environment variable GLOVEBOX_BOXES_QUEUED\n" in text
    assert 'hosts: ["a.example", "b.example"]  # environment variable GLOVEBOX_HOSTS\n' in text
    assert '  level: "error"  # command line\n' in text
    assert "  wait_seconds: 30\n" in text


def test_show_can_be_read_back(config):
    content = {"boxes": {"running": 5, "wait_seconds": 0.5}, "screen": "off", "state_dir": "/a #b: \"c\"", "limits": {"timeout_seconds": 1.001}}
    first = config("show", content)
    assert first.returncode == 0
    again = config("show", first.stdout.decode(), "--json")
    assert effective(again) == effective(config("show", content, "--json"))


def test_no_secret_is_shown(config, tmp_path):
    key = tmp_path / "key"
    key.write_text("a-key-that-nobody-may-see\n")
    key.chmod(0o600)
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("-----BEGIN SECRET-----\nMIIabc\n-----END SECRET-----\n")
        (tmp_path / name).chmod(0o600)
    content = {
        "keys": [{"name": "alice", "sha256": HASH}, {"name": "bob", "key_file": str(key), "max_running": 2}],
        "tls": {"certificate": str(tmp_path / "cert.pem"), "key": str(tmp_path / "key.pem")},
    }
    shown = effective(config("show", content, "--json"))
    assert [k["name"] for k in shown["keys"]] == ["alice", "bob"] and shown["keys"][1]["max_running"] == 2
    for options in ([], ["--json"]):
        out = config("show", content, *options).stdout.decode()
        for secret in (HASH[:16], hashlib.sha256(b"a-key-that-nobody-may-see").hexdigest()[:16], "nobody-may-see", "MIIabc", "BEGIN"):
            assert secret not in out
        assert "alice" in out and "bob" in out


# --- keys ---


def test_key_can_be_used(gb, config):
    done = gb("config", "key", "alice")
    text = done.stdout.decode()
    key = re.search(r"gbx_[0-9a-f]{64}", text)[0]
    assert done.returncode == 0 and hashlib.sha256(key.encode()).hexdigest() in text
    assert effective(config("show", text, "--json"))["keys"][0]["name"] == "alice"  # what it prints is a configuration
    one, two = (json.loads(gb("config", "key", "--json", "bob").stdout) for _ in range(2))
    assert one["key"] != two["key"] and hashlib.sha256(one["key"].encode()).hexdigest() == one["sha256"]


def test_key_file_must_be_private(config, tmp_path):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    content = {"keys": [{"name": "a", "key_file": str(key)}]}
    for mode in (0o640, 0o604, 0o644):
        key.chmod(mode)
        refused(config("check", content), "key 'a'", str(key), "chmod 600")
    key.chmod(0o600)
    assert config("check", content).returncode == 0
    key.write_text("short")
    refused(config("check", content), "5 bytes", "16")


def test_file_that_everybody_can_write(config, tmp_path, gb):
    file = tmp_path / "open.yaml"
    file.write_text("screen: off\n")
    file.chmod(0o666)
    refused(gb("config", "check", file), "written by others")
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert gb("config", "check", file).returncode == 0


# --- the commented default, the schema, and the program ---

needs_conf = pytest.mark.skipif(not CONF.exists(), reason="this copy of the tree has no conf/")


@needs_conf
def test_commented_default_changes_nothing(config):
    shipped = (CONF / "glovebox.yaml").read_text()
    everything = re.sub(r"^(\s*)#(?=[a-z_]+:)", r"\1", shipped, flags=re.M)
    defaults = effective(config("show", None, "--json"))
    assert effective(config("show", shipped, "--json")) == defaults
    assert effective(config("show", everything, "--json")) == defaults

    def paths(tree, prefix=""):
        return {p for k, v in tree.items() for p in (paths(v, f"{prefix}{k}.") if isinstance(v, dict) else {prefix + k})}

    section, found = "", set()
    for line in everything.splitlines():  # every setting is in it
        m = re.match(r"(  )?([a-z_]+):", line)
        if m:
            section = section if m[1] else m[2]
            found.add(f"{section}.{m[2]}" if m[1] else m[2])
    assert paths(defaults) <= found


GOOD = [
    {},
    {"listen": ["127.0.0.1:8640", "[::1]:0", "unix:/run/x.sock"]},
    {"listen": ["0.0.0.0:80"], "keys": [{"name": "a", "sha256": HASH}]},
    {"listen": None, "boxes": None, "screen": None, "http": {"body_bytes": None}},
    {"keys": []},
    {"keys": [{"name": "a.b_c-1", "sha256": HASH.upper(), "rate_per_minute": 0, "max_running": 4096, "key_file": None}]},
    {"hosts": ["sandbox.example.com", "[2001:db8::1]", "HOST"], "origins": ["https://app.example.com:8443", "http://localhost"]},
    {"http": {"body_bytes": 1024, "connections": 65536, "header_seconds": 0.1, "idle_seconds": 3600, "write_seconds": 1.5}},
    {"boxes": {"running": 1, "queued": 0, "wait_seconds": 0}},
    {"boxes": {"running": 4.0}},
    {"pool": {"low": 256, "high": 1024, "idle_seconds": 0.1, "zygote_boxes": 1}},
    {"pool": {"low": 0, "high": 0, "zygote_boxes": 1000000000}},
    {"pool": {"low": 256}},
    {"limits": {"timeout_seconds": 0.001, "max_output_bytes": 0}, "ceilings": {"max_pids": 32768}},
    *({"screen": word} for word in ("block", "warn", "off")),
    {"sanitise": False},
    {"audit": {"keep_days": 0, "keep_mb": 0, "sync": "full"}, "log": {"level": "debug", "format": "text"}},
    {"drain_seconds": 2.5, "state_dir": "/a b/c", "runtime_dir": "/r", "cgroup_parent": "/a/b", "allow_degraded": ["cgroup", "landlock"]},
    {"tls": {"certificate": None, "key": None}},
    {"keys": [{"name": "a", "sha256": HASH, "principal": "b.c_d-1"}, {"name": "x", "sha256": HASH[::-1], "principal": None}]},
    {"approvals": {"wait_seconds": 0, "expires_seconds": 1.5, "most": 1}},
    {"profiles": None, "principals": None, "tools": None, "screening": None, "sanitising": None, "sanitising_off": None, "secrets": None},
    {"profiles": {"p": {"runtimes": ["python"], "limits": {"timeout_seconds": 0.5}, "ceilings": {"max_pids": 5}, "screen": "warn", "rules": {}, "allowed_modules": []}}},
    {"profiles": {"p": {"python": {"program": "/opt/a b/python", "preload": ["json", "os.path", "_a1"]}, "pool": {"low": 0, "high": 1024}}, "q": {"python": {"program": "pypy3.10"}, "pool": {}}}},
    {"principals": {"local": {"tools": ["execute_code"], "budget": {"calls_per_day": 1, "cpu_seconds_per_day": 0.5}, "approver": True}, "default": {}}},
    {"tools": [{"name": "a", "code": {"language": "node"}}, {"name": "b", "command": {"argv": ["ls", "{dir}"]}, "approval": "always"}]},
    {"tools": [{"name": "a", "sql": {"sqlite": "/x", "tables": {"t": True, "u": ["a", "b"]}, "max_rows": 5}, "approval": {"when": {"minProperties": 1}}}]},
    {"tools": [{"name": "a", "http": {"url": "https://a.example/", "json": [None, {"a": 1}], "method": "PUT", "redirects": 0}}]},
    {"tools": [{"name": "a", "email": {"server": "smtps://mail.example:465", "from": "a@b.example", "recipients": ["c@d.example"]}}]},
    {"screening": [{"name": "a", "pattern": "x", "action": "warn"}, {"name": "b", "calls": ["os.*"], "imports": ["a.b"], "language": "python"}]},
    {"sanitising": [{"name": "a", "pattern": "x+y", "mark": "[X]"}], "sanitising_off": []},
    {"secrets": {"a": {"value": "12345678"}}},
]

# What a schema can say is wrong.
BAD = [
    [],
    "text",
    {"frob": 1},
    {"boxes": {"runing": 4}},
    {"boxes": 4},
    {"boxes": {"running": 0}},
    {"boxes": {"running": 4097}},
    {"boxes": {"running": 4.5}},
    {"boxes": {"running": "4"}},
    {"boxes": {"running": True}},
    {"boxes": {"wait_seconds": -1}},
    {"http": {"header_seconds": 0.09}},
    {"http": {"body_bytes": 1023}},
    {"limits": {"max_memory": 1}},
    {"limits": {"timeout_seconds": 86401}},
    {"ceilings": {"max_open_files": 3}},
    {"screen": "Block"},
    {"screen": False},
    {"sanitise": "yes"},
    {"sanitise": 1},
    {"audit": {"sync": "half"}},
    {"listen": []},
    {"listen": "127.0.0.1:80"},
    {"listen": ["localhost:80"]},
    {"listen": ["127.0.0.1"]},
    {"listen": ["unix:relative"]},
    {"listen": [f"127.0.0.1:{n}" for n in range(1, 10)]},
    {"hosts": ["a.example:80"]},
    {"hosts": [5]},
    {"hosts": [f"h{n}" for n in range(65)]},
    {"origins": ["https://a.example/path"]},
    {"origins": ["*"]},
    {"state_dir": "relative"},
    {"state_dir": "/a\nb"},
    {"state_dir": 5},
    {"cgroup_parent": ""},
    {"allow_degraded": ["a,b"]},
    {"allow_degraded": "cgroup"},
    {"tls": {"certificate": "/x"}},
    {"tls": {"key": "/x"}},
    {"tls": {"key_pem": "-----BEGIN X-----"}},
    {"keys": {}},
    {"keys": [{}]},
    {"keys": [{"name": "a"}]},
    {"keys": [{"sha256": HASH}]},
    {"keys": [{"name": "a b", "sha256": HASH}]},
    {"keys": [{"name": "a", "sha256": HASH[:-1]}]},
    {"keys": [{"name": "a", "sha256": HASH, "key_file": "/x"}]},
    {"keys": [{"name": "a", "sha256": HASH, "rate_per_minute": -1}]},
    {"keys": [{"name": "a", "sha256": HASH, "frob": 1}]},
    {"keys": [{"name": f"k{n}", "sha256": f"{n:064x}"} for n in range(257)]},
    {"keys": [{"name": "a", "sha256": HASH, "principal": "x y"}]},
    {"approvals": {"most": 0}},
    {"pool": {"low": 257}},
    {"pool": {"high": -1}},
    {"pool": {"zygote_boxes": 0}},
    {"profiles": {"p": {"python": {"program": "a/b"}}}},
    {"profiles": {"p": {"python": {"preload": ["a b"]}}}},
    {"profiles": {"p": {"pool": {"high": 1025}}}},
    {"profiles": []},
    {"profiles": {"a b": {}}},
    {"profiles": {"p": {"limits": {"frob": 1}}}},
    {"profiles": {"p": {"limits": {"max_pids": 40000}}}},
    {"profiles": {"p": {"limits": {"max_pids": 1.5}}}},
    {"profiles": {"p": {"rules": {"a": "deny"}}}},
    {"principals": {"default": {"tools": "execute_code"}}},
    {"principals": {"default": {"budget": {"calls_per_day": 0}}}},
    {"tools": {}},
    {"tools": [{"name": "a"}]},
    {"tools": [{"name": "a", "code": {}, "command": {}}]},
    {"tools": [{"name": "a", "sql": {"tables": {"t": True}}}]},
    {"tools": [{"name": "a", "http": {}}]},
    {"tools": [{"name": "a", "email": {"server": "smtp://a", "from": "a@b.example"}}]},
    {"tools": [{"name": "a", "code": {}, "approval": {"when": 5}}]},
    {"screening": [{"name": "a"}]},
    {"sanitising": [{"name": "a", "pattern": ""}]},
    {"sanitising_off": ["a", "a"]},
    {"secrets": {"a": {}}},
    {"secrets": {"a": {"file": "relative"}}},
]


@pytest.fixture(scope="module")
def schema():
    jsonschema = pytest.importorskip("jsonschema")
    if not CONF.exists():
        pytest.skip("this copy of the tree has no conf/")
    content = json.loads((CONF / "glovebox.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("content", GOOD, ids=lambda c: json.dumps(c)[:60])
def test_schema_and_program_take(schema, config, content):
    assert [e.message for e in schema.iter_errors(content)] == []
    assert config("check", content).returncode == 0, config("check", content).stderr


@pytest.mark.parametrize("content", BAD, ids=lambda c: json.dumps(c)[:60])
def test_schema_and_program_refuse(schema, config, content):
    assert not schema.is_valid(content)
    refused(config("check", content))


@needs_conf
def test_schema_has_every_setting_with_its_default(schema, config):
    defaults = effective(config("show", None, "--json"))
    host = {"listen", "boxes.running", "pool.high", "state_dir", "runtime_dir", "tls.certificate", "tls.key", "cgroup_parent"}
    seen = set()
    for name, part in schema.schema["properties"].items():
        for path, value in {f"{name}.{k}": v for k, v in part["properties"].items()}.items() if "properties" in part else [(name, part)]:
            section, _, leaf = path.rpartition(".")
            default = (defaults[section] if section else defaults)[leaf]
            assert path in host and "default" not in value or value.get("default") == default, path
            seen.add(path)
    assert seen == {f"{k}.{i}" if isinstance(v, dict) else k for k, v in defaults.items() for i in (v if isinstance(v, dict) else [""])}
