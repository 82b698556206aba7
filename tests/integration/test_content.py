"""Screening and sanitising against the seeds: what our rules decide is what Python's re decides with the seeds' patterns, on thousands of random texts."""

import itertools
import random
import re
import struct
import subprocess

import pytest

pytestmark = pytest.mark.rootonly  # the same whoever runs it

BLOCKED = [
    (r"subprocess\.(run|call|Popen|check_output)", "subprocess execution"),
    (r"os\.(system|exec|spawn|popen)", "OS command execution"),
    (r"shutil\.(rmtree|move)", "filesystem modification"),
    (r"socket\.", "network socket access"),
    (r"requests\.(get|post|put|delete)", "HTTP requests"),
    (r"urllib", "URL access"),
    (r"__import__\(", "dynamic import"),
    (r"eval\(|exec\(", "dynamic code execution"),
    (r"open\(.*(w|a|x).*\)", "file write access"),
    (r"/etc/|/proc/|/sys/", "system file access"),
]
SENSITIVE = [
    (r"/home/\w+", "[HOME_DIR]"),
    (r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}", "[IP_ADDR]"),
    (r"(?i)(password|secret|token|key)\s*[:=]\s*\S+", "[REDACTED_SECRET]"),
    (r"/tmp/tmp[\w]+", "[TEMP_DIR]"),
]


class Content:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, text):
        data = text.encode()
        self.process.stdin.write(kind + struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        (length,) = struct.unpack("<I", self.process.stdout.read(4))
        return self.process.stdout.read(length).decode()

    def screen(self, code):
        return [(name, int(line)) for line, name in (found.split(" ", 1) for found in self.ask(b"s", code).splitlines())]

    def redact(self, text):
        return self.ask(b"r", text)


@pytest.fixture(scope="module")
def content(gb):
    helper = Content(gb.build / "content-filter")
    yield helper
    helper.process.stdin.close()
    assert helper.process.wait(timeout=10) == 0


def texts(seed, count, pieces, alphabet):
    """Pieces that matter, whole, cut and mutated, with noise between them."""
    rng = random.Random(seed)
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(1, 14)):
            piece = rng.choice(pieces) if rng.random() < 0.7 else "".join(rng.choices(alphabet, k=rng.randrange(1, 4)))
            if piece and rng.random() < 0.2:
                at = rng.randrange(len(piece))
                piece = rng.choice([piece[:at], piece[at:], piece[:at] + rng.choice(alphabet) + piece[at + 1 :], piece.upper()])
            text += piece
        yield text


def by_seeds(text):
    for pattern, mark in SENSITIVE:
        text = re.sub(pattern, mark, text)
    return text


def spans(text):
    return sorted((m.start(), order, m.end()) for order, (pattern, _) in enumerate(SENSITIVE) for m in re.finditer(pattern, text))


def by_union(text):
    """Our meaning, in a few lines: every rule reads the raw text alone, and all that they match goes."""
    out, covered = "", 0
    for start, order, end in spans(text):
        if end > covered:
            out += text[covered:start] + SENSITIVE[order][1]
            covered = end
    return out + text[covered:]


def cross(text):
    """Does a match begin inside one of another rule and end behind it? Then the seeds' rules, one after the other, cut each other's matches."""
    return any(a[0] <= b[0] < a[2] < b[2] for a, b in itertools.combinations(spans(text), 2))


CODE_PIECES = """subprocess . .run .call .Popen .check_output os. system exec spawn popen shutil .rmtree .move socket socket. requests .get .post .put
    .delete urllib __import__ ( ) open( open eval( exec( w a x ' , / /etc/ /proc/ /sys/ /etc proc/ é 日""".split() + ["\n", " ", "\r", "\u2028", "\0", "open('f', 'w')", "open('d')", "subprocess.run", "os.spawn", "shutil.move", "requests.put", "__import__("]


def test_screening_decides_as_the_seeds_do(content):
    """With the seeds' patterns as rules: for Python the built-in ones look at syntax instead (test_screen.py)."""
    fired = dict.fromkeys((name for _, name in BLOCKED), 0)
    for code in texts(4, 6000, CODE_PIECES, "owax()/.\n 'ep"):
        wanted = [(name, code.count("\n", 0, m.start()) + 1) for pattern, name in BLOCKED if (m := re.search(pattern, code))]
        assert content.screen(code) == wanted, repr(code)
        for name, _ in wanted:
            fired[name] += 1
    assert min(fired.values()) > 50, fired


OUTPUT_PIECES = """/home/ /home/bob /tmp/tmp /tmp/tmpx9 password secret token key KEY Password : = :: == 1.2.3.4 127.0.0.1 10. 255 . 1 /
    [HOME_DIR] [REDACTED_SECRET] _ abc""".split() + [" ", "\n", "\t ", "\r\n", "\x1c", "\x1f", "\v\f", "\0", "  ", "key=", "token: ", "password = x"]
BEYOND_ASCII = ["é", "日本", "\u00a0", "\u0085", "\u1680", "\u2000", "\u2009", "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "’", "😀", "\ufeff", "\u2060"]


def test_sanitising_ascii_is_exact(content):
    seen = {"equal": 0, "cross": 0, "changed": 0}
    for text in texts(5, 8000, OUTPUT_PIECES, "k=: /1.eyz\n"):
        got = content.redact(text)
        assert got == by_union(text), repr(text)
        if got != by_seeds(text):
            assert cross(text), repr(text)
        seen["cross" if cross(text) else "equal"] += 1
        seen["changed"] += got != text
        assert by_seeds(got) == got, repr(text)
    assert min(seen.values()) > 100, seen


def test_sanitising_beyond_ascii_leaves_nothing_to_the_seeds(content):
    """Rules are for bytes: a character beyond ASCII counts as part of a word and of a value, so that more goes than with the seeds, never less."""
    changed = 0
    for text in texts(6, 6000, OUTPUT_PIECES + BEYOND_ASCII * 2, "k=: /1.é\u00a0"):
        got = content.redact(text)
        assert by_seeds(got) == got, repr(text)
        changed += got != text
    assert changed > 1000


def test_the_seeds_own_examples(content):
    assert content.screen("import subprocess\nsubprocess.run(['rm', '-rf', '/'])") == [("subprocess execution", 2)]
    assert content.redact("API_KEY=sk-123 at 10.1.2.3 in /home/alice/x and /tmp/tmpabc\n") == "API_[REDACTED_SECRET] at [IP_ADDR] in [HOME_DIR]/x and [TEMP_DIR]\n"
