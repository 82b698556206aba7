"""Shells as the oracle: what bash runs for a line that we accept is exactly what we checked, and what runs in the box does the same.

Every accepted line is given to bash as it came, and as the line that we build from it to bash and to dash. Programs are stand-ins that write down their words and
where their input, output and error go. All three traces must be what our parsed form says: the same programs with the same words and files, in the same order,
whatever they end with. The shells are locked up (command_lock.h), for a line that we read wrongly.

GB_COMMAND_LINES sets how many random lines there are, GB_COMMAND_SEED which ones.
"""

import os
import pathlib
import random
import shutil
import subprocess

import command_table as table
import pytest
from test_command import Verdict

pytestmark = pytest.mark.rootonly  # a parser is the same for everybody

LINES = int(os.environ.get("GB_COMMAND_LINES", "1500"))
SEED = int(os.environ.get("GB_COMMAND_SEED", "20261115"))
STATUSES = ["0", "1", "odd"]

# A line of two fields: what programs end with, and the line to run. In bash, `enable -n` takes its own echo away, so that the stand-in is seen.
SCRIPT = """
%s
while IFS= read -r STATUS && IFS= read -r line; do
    export STATUS
    (cd work && eval "$line") 9>>trace </dev/null >/dev/null 2>&1
    printf 'done\\n'
done
"""


class Shell:
    """A shell that runs line after line in a directory of its own."""

    def __init__(self, build, directory, shell, prelude):
        self.directory = directory
        self.work = directory / "work"
        self.trace = directory / "trace"
        (directory / "bin").mkdir(parents=True)
        for name in [*table.ALLOWED, "python3"]:
            shutil.copy(build / "command-oracle", directory / "bin" / name)
        self.process = subprocess.Popen(
            [build / "command-oracle", directory, shell, "-c", SCRIPT % prelude],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=directory, env={"PATH": str(directory / "bin"), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip

    def start(self, line, status, inputs):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        for name in inputs:
            (self.work / name).touch()
        self.trace.write_bytes(b"")
        self.process.stdin.write(f"{status}\n{line}\n".encode())
        self.process.stdin.flush()

    def finish(self):
        """What ran, in order, and which files there are."""
        assert self.process.stdout.readline() == b"done\n"
        records = [record[:-1].decode().split("\0") for record in self.trace.read_bytes().split(b"\n")[:-1]]
        for record in records:
            record[3] = "python3" if record[3] == "python" else record[3]
        return records, sorted(p.name for p in self.work.iterdir())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Shells:
    def __init__(self, build, top):
        rows = [("bash", "/bin/bash", "enable -n echo"), ("built-bash", "/bin/bash", ""), ("built-dash", "/bin/dash", "")]
        self.all = [Shell(build, top / name, shell, prelude) for name, shell, prelude in rows]

    def run(self, line, built, status, inputs):
        for shell, text in zip(self.all, (line, built, built)):
            shell.start(text, status, inputs)
        return [shell.finish() for shell in self.all]


@pytest.fixture(scope="module")
def shells(gb, tmp_path_factory):
    top = tmp_path_factory.mktemp("shells")
    if subprocess.run([gb.build / "command-oracle", top, "/bin/bash", "-c", ":"], check=False).returncode == 77:
        pytest.skip("the kernel has no Landlock to lock the shells up with")
    helpers = Shells(gb.build, top)
    yield helpers
    for shell in helpers.all:
        shell.close()


@pytest.fixture(scope="module")
def verdict(gb):
    helper = Verdict(gb.build / "command-verdict")
    yield helper
    helper.close()


# --- what our parsed form says ---


def descriptors(part, piped_in, piped_out):
    """Where input, output and error of a simple command go, as the stand-ins write it."""
    fds = ["|" if piped_in else "-", "|" if piped_out else "-", "-"]
    for kind, *name in part["redirections"]:
        file = "-" if name == ["/dev/null"] else "".join(name)
        if kind == "<":
            fds[0] = file
        elif kind in (">", ">>"):
            fds[1] = file
        elif kind in ("2>", "2>>"):
            fds[2] = file
        elif kind == "2>&1":
            fds[2] = fds[1]
        else:
            fds[1] = fds[2]
    return fds


def ends_with(part, status):
    return (len(part["words"]) - 1) % 2 if status == "odd" else int(status)


def pipelines(parts):
    """(join, parts) of each pipeline."""
    found = []
    for part in parts:
        if part["join"] == "|":
            found[-1][1].append(part)
        else:
            found.append((part["join"], [part]))
    return found


def expected(parts, status):
    """The records of each pipeline that runs, and the files that are there in the end."""
    groups, files, last = [], set(), 0
    for join, members in pipelines(parts):
        if (join == "&&" and last) or (join == "||" and not last):
            continue
        last = ends_with(members[-1], status)
        groups.append([[*descriptors(p, i > 0, i + 1 < len(members)), p["program"], *p["words"][1:]] for i, p in enumerate(members)])
        files |= {name for p in members for kind, *name in p["redirections"] for name in name if name != "/dev/null"}
    return groups, files


def as_groups(records, groups):
    """Members of one pipeline write in any order; pipelines come one after the other."""
    found, at = [], 0
    for group in groups:
        found.append(sorted(records[at : at + len(group)]))
        at += len(group)
    return found, records[at:]


def targets(parts):
    return [(kind, name) for part in parts for kind, *names in part["redirections"] for name in names]


def is_plain(name):
    return "/" not in name and name not in (".", "..") and len(name.encode()) <= 255


def compare(shells, answer, line, status):
    parts = answer["parts"]
    # One simple command runs without a shell: written with quotes, it is the same line.
    built = answer["argv"][2] if answer["argv"][0] == "sh" else " ".join("'" + word.replace("'", "'\\''") + "'" for word in answer["argv"])
    built = built.replace("'curl' -q", "'curl'").replace("'curl' '-q'", "'curl'", 1)  # of our own, see test_command.py
    if answer["argv"][0] == "echo":
        built = "exec " + built  # else it would be the shell's own
    inputs = {name for kind, name in targets(parts) if kind == "<" and is_plain(name)}
    results = shells.run(line, built, status, inputs)
    if not all(is_plain(name) or name == "/dev/null" for _, name in targets(parts)):
        # Whether such files can be opened is not for us to say, but it is the same for all.
        assert sorted(results[0][0]) == sorted(results[1][0]) == sorted(results[2][0]), line
        return
    groups, files = expected(parts, status)
    for shell, (records, names) in zip(("bash", "bash, what we build", "dash, what we build"), results):
        found, rest = as_groups(records, groups)
        assert found == [sorted(group) for group in groups] and not rest, (shell, line, built, status)
        assert set(names) == files | inputs, (shell, line, built)


# --- lines ---

NASTY = ["$", "`", "\\", "'", '"', "*", "?", "[", "]", "{", "}", "~", "#", "!", "(", ")", "&", "|", ";", "<", ">", "=", ":", "%", "^", ",", "@", "+", "-", ".", "\t", " ",
         "$x", "${x}", "$(ls)", "`ls`", "$((1))", "$'a'", "{a,b}", "~root", "2>&1", ">&2", "2>", "&>", "|&", "<<", "<(ls)", ";;", "a=b", "A=", "1", "2", "0", "-n", "--", "é", "日", "\u00a0",
         "if", "!", "[[", "{}", "\\ ", "\\\\", "''", '""', "x=~", ":~", "#a", "a#"]  # fmt: skip
LETTERS = "abcxyz019._-/=:,+@%^~#!"
ESCAPABLE = "".join(chr(c) for c in range(32, 127))


class Maker:
    """Lines of which most are legal, and all are near something that is not."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def text(self, alphabet, most):
        return "".join(self.rng.choice(alphabet) for _ in range(self.rng.randint(0, most)))

    def piece(self):
        kind = self.rng.random()
        if kind < 0.45:
            return self.text(LETTERS[:16], 4) or "w"
        if kind < 0.6:
            return "'" + "".join(self.rng.choice(NASTY) for _ in range(self.rng.randint(0, 3))).replace("'", "") + "'"
        if kind < 0.75:
            inner = "".join(self.rng.choice(["a", "\\\\", '\\"', "\\$", "\\`", "\\a", "'", "*", ";", "|", "~", "!", " ", "é"]) for _ in range(self.rng.randint(0, 4)))
            return '"' + inner + '"'
        if kind < 0.88:
            return "\\" + self.rng.choice(ESCAPABLE)
        if kind < 0.97:
            return self.rng.choice(["a=b", "=", "~", "#", "!", "é", "-x", "0", "1", "2", "]", "^", "%1", "a!", "if"])
        return self.rng.choice(NASTY)

    def word(self):
        return "".join(self.piece() for _ in range(self.rng.choice([1, 1, 1, 2, 3])))

    def redirection(self):
        kind = self.rng.choice(["<", ">", ">>", "2>", "2>>", "1>", "0<", "2>&1", ">&2", "1>&2"])
        if "&" in kind:
            return " " + kind + " "
        name = self.rng.choice(["f", "g", "'a b'", "2", "\\*", '"&1"', "/dev/null", self.word()])
        return self.rng.choice([" ", " ", ""]) + kind + self.rng.choice(["", " "]) + name + self.rng.choice([" ", ""])

    def simple(self):
        program = self.rng.choice(table.ALLOWED)
        if self.rng.random() < 0.2:
            cut = self.rng.randint(0, len(program))
            program = self.rng.choice([f"'{program}'", f'"{program}"', "\\" + program, program[:cut] + "''" + program[cut:], program[:cut] + '""' + program[cut:]])
        items = [program] + [self.redirection() if self.rng.random() < 0.25 else self.word() for _ in range(self.rng.randint(0, 4))]
        if self.rng.random() < 0.1:
            items.insert(0, self.redirection())
        return self.rng.choice([" ", "  ", "\t"]).join(items)

    def mutate(self, line):
        for _ in range(self.rng.choice([1, 1, 2])):
            at = self.rng.randint(0, len(line))
            line = line[:at] + self.rng.choice(NASTY) + line[at + self.rng.choice([0, 0, 1]) :]
        return line

    def line(self):
        line = self.simple()
        for _ in range(self.rng.choice([0, 0, 1, 1, 2, 4])):
            line += self.rng.choice(["|", " | ", "&&", " && ", "||", " || ", ";", " ; "]) + self.simple()
        line += self.rng.choice(["", "", "", ";", " "])
        return self.mutate(line) if self.rng.random() < 0.3 else line


def test_table(verdict, shells):
    """The legal lines of the table; where it makes a difference, with every kind of end."""
    for line, *_ in table.LEGAL:
        if line.count("ls a") > 60 or len(line) > 30000:
            continue  # slow; test_many has some
        answer = verdict(line)
        for status in STATUSES if 1 < len(answer["parts"]) < 20 else STATUSES[:1]:
            compare(shells, answer, line, status)


@pytest.mark.parametrize("join", [" | ", " && ", " || ", " ; "])
def test_many(verdict, shells, join):
    line = join.join(["ls a"] * 256)
    compare(shells, verdict(line), line, "0")


def test_random_lines(verdict, shells):
    maker = Maker(SEED)
    accepted = shell_lines = 0
    for number in range(LINES):
        line = maker.line()
        answer = verdict(line)
        if answer["denials"]:
            continue
        compare(shells, answer, line, STATUSES[number % 3])
        accepted += 1
        shell_lines += answer["argv"][0] == "sh"
    assert accepted > LINES // 4 and shell_lines > LINES // 8, (accepted, shell_lines)
    print(f"{LINES} random lines, {accepted} accepted, {shell_lines} of them with a shell")


def test_oracle_sees_a_difference(verdict, shells):
    """If our form and the line differed, the comparison would fail: the traces are real."""
    for line, other in [
        ("ls a b", "ls a  'b '"), ("ls a", "ls \"$STATUS\""), ("ls | cat", "ls ; cat"), ("ls && cat", "ls || cat"),
        ("ls > f", "ls >> f 2>&1"), ("ls > f", "ls > g"), ("ls", "ls ; ls"), ("ls 2>f", "ls '2' >f"), ("echo a", "echo a >f"),
    ]:  # fmt: skip
        with pytest.raises(AssertionError):
            compare(shells, verdict(line), other, "0")


def test_lock_holds(shells):
    """A line that we read wrongly could write nowhere else, and run nothing else."""
    shell = shells.all[0]
    outside = pathlib.Path(shell.directory).parent / "outside"
    shell.start(f"ls >{outside}; /bin/touch {outside}; /usr/bin/env ls", "0", [])
    assert shell.finish() == ([], [])
    assert not outside.exists()
