"""Command lines: what is understood, what is refused and where, and what runs. The table is command_table.py; what shells say to the same lines is in test_command_bash.py."""

import json
import re
import shutil
import struct
import subprocess

import command_table as table
import pytest

pytestmark = pytest.mark.rootonly  # the same whoever runs it


class Verdict:
    def __init__(self, program, *rules):
        self.process = subprocess.Popen([program, *rules], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, line):
        data = line if isinstance(line, bytes) else line.encode()
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def verdict(gb):
    helper = Verdict(gb.build / "command-verdict")
    yield helper
    helper.close()


def name(row):
    return repr(row[0])[:60]


def flat(parts):
    """Parts as the table writes them; redirections behind the words."""
    for part in parts:
        if part["join"]:
            yield part["join"]
        yield part["words"] + [tuple(r) for r in part["redirections"]]


def sort_words(expected):
    return [part if isinstance(part, str) else sorted(part, key=lambda item: isinstance(item, tuple)) for part in expected]


def place(denial):
    """Column and byte of the reason."""
    found = re.match(r"column (\d+) \(byte (\d+)\), ", denial["reason"])
    assert found, denial
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("row", table.LEGAL, ids=name)
def test_legal(verdict, row):
    line, *expected = row
    answer = verdict(line)
    assert answer["denials"] == []
    assert list(flat(answer["parts"])) == sort_words(expected)
    simple = len(expected) == 1 and all(isinstance(item, str) for item in expected[0])
    if simple:  # no shell
        program = {"python": ["python3"], "curl": ["curl", "-q"]}.get(expected[0][0], expected[0][:1])
        assert answer["argv"] == [*program, *expected[0][1:]]
    else:
        assert answer["argv"][:2] == ["sh", "-c"] and len(answer["argv"]) == 3


def check_refused(verdict, row, code):
    line, byte, text = row
    answer = verdict(line)
    told = [d for d in answer["denials"] if d["code"] == code and text in d["reason"]]
    assert told, answer["denials"]
    data = line if isinstance(line, bytes) else line.encode()
    column = len(data[:byte].decode(errors="replace")) + 1
    if text != "more than 65536":
        assert place(told[0]) == (column, byte), told
    for denial in answer["denials"]:
        assert denial["stage"] and denial["hint"]
        assert all(c.isprintable() for c in denial["reason"] + denial["hint"])
    return answer


@pytest.mark.parametrize("row", table.NOT_UNDERSTOOD, ids=name)
def test_not_understood(verdict, row):
    answer = check_refused(verdict, row, table.SYNTAX)
    assert len(answer["denials"]) == 1
    assert "parts" not in answer and "argv" not in answer


@pytest.mark.parametrize("row", table.NOT_ALLOWED, ids=name)
def test_not_allowed(verdict, row):
    answer = check_refused(verdict, row, table.COMMAND)
    assert all(d["code"] == table.COMMAND for d in answer["denials"])


def test_table_is_large():
    assert len(table.LEGAL) + len(table.NOT_UNDERSTOOD) + len(table.NOT_ALLOWED) >= 200
    lines = [row[0] if isinstance(row[0], bytes) else row[0].encode() for rows in (table.LEGAL, table.NOT_UNDERSTOOD, table.NOT_ALLOWED) for row in rows]
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("pattern", table.PATTERNS)
def test_seeds_patterns(verdict, pattern):
    """As in the seeds, each pattern as a line of its own, whatever follows, is refused by that pattern."""
    line = {"| sh": "ls | sh", "| bash": "ls | bash", "> /dev/": "ls > /dev/sda"}.get(pattern, pattern + "x" if pattern.endswith("=") else pattern + " x")
    assert any(f"'{pattern}' is blocked" in d["reason"] for d in verdict(line)["denials"])


def test_every_program_is_checked(verdict):
    """One bad program among many, wherever it stands and whatever joins it."""
    for join in (" | ", " && ", " || ", " ; "):
        for count in (2, 51, 256):
            for at in {0, 1, count // 2, count - 1}:
                programs = ["ls"] * count
                programs[at] = "nasty"
                denials = verdict(join.join(programs))["denials"]
                assert len(denials) == 1 and "'nasty'" in denials[0]["reason"], (join, count, at)


def test_reasons_are_bounded(verdict):
    """More bad programs than there is room for, and words longer than a reason."""
    answer = verdict(" ; ".join(f"bad{i}" for i in range(100)))
    assert len(answer["denials"]) == 8
    answer = verdict("x" * 60000)
    assert len(answer["denials"]) == 1 and len(answer["denials"][0]["reason"]) < 384
    assert len(verdict("ä" * 60 + " ; rm x")["denials"]) == 2
    assert len(verdict("rm x ; ls ; rm y | rm z")["denials"]) == 1  # a program is told once


def test_words_of_bash(verdict):
    """bash itself says which words are its own; none of them is taken for a program, and all of them are fine as arguments."""
    words = subprocess.run(["/bin/bash", "-c", "compgen -k"], capture_output=True, text=True, check=True).stdout.split()
    assert len(words) >= 20
    for word in words:
        for line in (f"{word} x", word, f"ls;{word};ls", f">f {word} x"):
            assert [d["code"] for d in verdict(line)["denials"]] == [table.SYNTAX], line
        if not set(word) & set("{}[]!"):
            assert verdict(f"ls {word}")["denials"] == []
            assert [d["code"] for d in verdict(f"'{word}' x")["denials"]] == [table.COMMAND]


def test_hint_lists_programs(verdict):
    hint = verdict("rm x")["denials"][0]["hint"]
    assert hint == "allowed programs: " + " ".join(table.ALLOWED)


def test_long_hint(gb):
    names = [f"program-number-{i}" for i in range(100)]
    helper = Verdict(gb.build / "command-verdict", *[f"allow={n}" for n in names])
    hint = helper("ls")["denials"][0]["hint"]
    helper.close()
    shown = re.fullmatch(r"allowed programs: (.*) and (\d+) more", hint)
    assert shown and shown[1].split() == names[: 100 - int(shown[2])] and len(hint) < 256


OTHER_RULES = [
    # block, line, blocked?
    ("a b c", "ls a b c", True),
    ("a b c", "ls a b", False),
    ("a b c", "ls a b ; ls c", False),
    ("b ; ls c", "ls a b ; ls c", True),
    ("b;ls c", "ls a b ; ls c", True),
    ("&& ls", "ls && ls", True),
    ("&& ls", "ls || ls", False),
    ("|| ls", "ls || ls", True),
    ("| ls", "ls || ls", False),
    ("| ls", "ls | ls", True),
    ("< secret", "ls < secret", True),
    ("< secret", "ls < secrets", False),
    ("</etc/", "ls < /etc/shadow", True),
    ("2> x", "ls 2> x", True),
    ("2> x", "ls > x", False),
    (">> x", "ls > x", False),
    (">> x", "ls >> x", True),
    ("> x", "ls 2>> x", True),
    ("2>&1", "ls 2>&1", True),
    ("2>&1", "ls >&2", False),
    ("> /dev/null", "ls 2> /dev/null", False),
    ("&", "ls", False),
    ("/etc/", "ls /etc/x", True),
    ("/etc/", "ls /x/etc/", False),
    ("--upload-file=", "ls --upload-file=x", True),
    ("--upload-file=", "ls --upload-file x", False),
    ("-X POST", "ls -x post", True),
    ("grüße", "ls grüße", True),
    ("ls", "ls", True),
    ("a > f", "ls a ; >f ls", False),
    ("", "ls x", False),
    ("  ", "ls x", False),
]


@pytest.mark.parametrize("block,line,blocked", OTHER_RULES)
def test_other_patterns(gb, block, line, blocked):
    helper = Verdict(gb.build / "command-verdict", "allow=ls", f"block={block}")
    answer = helper(line)
    helper.close()
    assert bool(answer["denials"]) == blocked, answer


def test_same_program(gb):
    """python and python3 are one program, whichever of them is allowed."""
    for listed in ("python", "python3"):
        helper = Verdict(gb.build / "command-verdict", f"allow={listed}")
        for written in ("python", "python3"):
            assert helper(f"{written} -c 1")["argv"] == ["python3", "-c", "1"]
        assert helper("python3.11")["denials"] and helper("pythonx")["denials"]
        assert helper("python | python3")["argv"] == ["sh", "-c", "(exec 'python3') | (exec 'python3')"]
        helper.close()


def test_curl_reads_no_options_from_files(verdict, tmp_path):
    """Whoever wrote .curlrc: its options could load a library."""
    (tmp_path / ".curlrc").write_text('write-out = "read"\n')
    (tmp_path / "f").write_text("text")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    if not shutil.which("curl", path=env["PATH"]):
        pytest.skip("there is no curl")
    line = f"curl -s file://{tmp_path}/f"
    plain = subprocess.run(line.split(), env=env, capture_output=True, timeout=60)
    assert plain.stdout == b"textread"
    for suffix, wanted in (("", b"text"), (" | cat", b"text"), (" ; curl -s file:///f", b"text")):
        answer = verdict(line + suffix)
        assert answer["denials"] == []
        assert subprocess.run(answer["argv"], env=env, capture_output=True, timeout=60).stdout == wanted
    longest = " ".join(["curl"] + ["a"] * 999)
    assert len(verdict(longest)["argv"]) == 1001 and verdict(longest + " a")["denials"]


def test_allowing_more(gb):
    """What an operator allows is allowed by that name only; words of the shell's language never are, unquoted."""
    helper = Verdict(gb.build / "command-verdict", "allow=time", "allow=cd", "allow=g++", "allow=x.y_z")
    assert helper("'time' x")["denials"] == [] and helper("g++ x")["denials"] == [] and helper("x.y_z")["denials"] == []
    assert helper("time x")["denials"][0]["code"] == table.SYNTAX
    assert helper("ls")["denials"][0]["code"] == table.COMMAND
    helper.close()


@pytest.mark.parametrize(
    "line,shell_line",
    [
        ("ls|wc", "(exec 'ls') | (exec 'wc')"),
        ("ls a>b 2>&1;date", "(exec 'ls' 'a' >'b' 2>&1) ; (exec 'date')"),
        ("echo \"it's\" '' >&2", "(exec 'echo' 'it'\"'\"'s' '' >&2)"),
        ("<a cat >>b 2>c", "(exec <'a' 'cat' >>'b' 2>'c')"),
        ("<a curl x | curl", "(exec <'a' 'curl' -q 'x') | (exec 'curl' -q)"),
        ("ls && ls || ls 2>>x", "(exec 'ls') && (exec 'ls') || (exec 'ls' 2>>'x')"),
    ],
)
def test_line_for_the_shell(verdict, line, shell_line):
    assert verdict(line)["argv"] == ["sh", "-c", shell_line]


IN_A_BOX = [
    # line, what it prints
    ("echo a b", "a b\n"),
    ("echo 'a\\nb'", "a\\nb\n"),
    ("echo 'a\\nb' | cat", "a\\nb\n"),  # not the shell's echo, which would print two lines
    ("echo '{\"a\": \"x\\ny\"}' | jq -c .", '{"a":"x\\ny"}\n'),
    ("python -c 'print(6 * 7)'", "42\n"),
    ("python -c 'print(6 * 7)' | cat", "42\n"),
    ("echo '$HOME' \"\\$x\" '`id`' | cat", "$HOME $x `id`\n"),
    ("echo \"it's\" > 'a b' && cat 'a b'", "it's\n"),
    ("echo 1 > f ; echo 2 >> f ; cat < f", "1\n2\n"),
    ("ls /nowhere 2>/dev/null || echo none", "none\n"),
    ("ls /nowhere 2>&1 | grep -c nowhere", "1\n"),
    ("echo b a | awk '{print $2, $1}'", "a b\n"),
    ("echo x >&2 2>/dev/null | wc -c", "0\n"),
    ("echo '' a ''", " a \n"),
    (" ; ".join(f"echo {i}" for i in range(100)), "".join(f"{i}\n" for i in range(100))),
    ("echo a" + " | cat" * 30, "a\n"),
]


def test_in_a_box(gb, verdict, tmp_path):
    """What we build does what the line says, in a real box."""
    for line, output in IN_A_BOX:
        answer = verdict(line)
        assert answer["denials"] == [], line
        done = gb.run("--", *answer["argv"], cwd=tmp_path)
        assert done.stdout.decode() == output, (line, done)


def test_programs_not_builtins(gb, verdict):
    """A shell's own commands do not exist, alone or among others."""
    helper = Verdict(gb.build / "command-verdict", "allow=cd", "allow=echo", "allow=eval", "allow=exec")
    for line in ("cd / ; echo done", "eval 'echo bad' ; echo done", "exec echo bad ; echo done"):
        done = gb.run("--", *helper(line)["argv"])
        assert done.stdout == b"done\n" and b"not found" in done.stderr, (line, done)
    helper.close()
