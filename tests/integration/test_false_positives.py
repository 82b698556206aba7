"""What sanitising touches that it should not: real source code, headers and change logs of the host, and blobs that look like credentials but are none.

The formats of credentials must leave all of it alone, but for a line in ten thousand. The seeds' rules are broader by design ("key: value" is a secret
to them); what they touch is counted and printed (docs/testing.md has the figures).
"""

import base64
import gzip
import hashlib
import json
import pathlib
import random
import uuid

import pytest
from test_content import Content

MIB = 1 << 20
pytestmark = pytest.mark.rootonly  # who runs it makes no difference


@pytest.fixture(scope="module")
def content(gb):
    helper = Content(gb.build / "content-filter")
    yield helper
    helper.process.stdin.close()
    assert helper.process.wait(timeout=10) == 0


def files(pattern, most, root="/usr"):
    """Lines of the files of a host, as many bytes as wanted."""
    size = 0
    for path in sorted(pathlib.Path(root).glob(pattern)):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        text = data.decode(errors="replace")
        size += len(text)
        yield from text.splitlines()
        if size > most:
            return


def blobs(most):
    rng = random.Random(4)
    size = 0
    makers = [
        lambda: base64.b64encode(rng.randbytes(57)).decode(),
        lambda: base64.urlsafe_b64encode(rng.randbytes(300)).decode(),
        lambda: hashlib.sha256(rng.randbytes(8)).hexdigest() + "  ./build/objects/" + rng.randbytes(8).hex() + ".o",
        lambda: "commit " + rng.randbytes(20).hex(),
        lambda: str(uuid.UUID(bytes=rng.randbytes(16))),
        lambda: json.dumps({"id": rng.randrange(1 << 40), "trace": rng.randbytes(16).hex(), "data": base64.b64encode(rng.randbytes(48)).decode()}),
        lambda: f"[{rng.randrange(100):3d}%] Building C object CMakeFiles/core.dir/src/{rng.randbytes(4).hex()}.c.o -DVERSION={rng.randrange(9)}.{rng.randrange(99)}",
        lambda: f"index {rng.randbytes(4).hex()}..{rng.randbytes(4).hex()} 100644",
        lambda: "integrity sha512-" + base64.b64encode(rng.randbytes(64)).decode(),
    ]
    while size < most:
        line = rng.choice(makers)()
        size += len(line)
        yield line


CORPORA = {
    "blobs": lambda: blobs(4 * MIB),
    "Python sources": lambda: files("lib/python3*/**/*.py", 4 * MIB),
    "C headers": lambda: files("include/**/*.h", 4 * MIB),
    "change logs": lambda: files("share/doc/*/changelog*.gz", 2 * MIB),
}


@pytest.mark.parametrize("name", CORPORA)
def test_ordinary_text_is_left_alone(content, name, record_property):
    lines = list(CORPORA[name]())
    assert len(lines) > 1000
    touched = {}
    for kind in [b"c", b"r"]:
        kept = set(content.ask(kind, "\n".join(lines)).split("\n"))
        touched[kind] = [line for line in lines if line not in kept]
    print(f"{name}: {len(lines)} lines; touched by credential formats: {len(touched[b'c'])}, by all rules: {len(touched[b'r'])}")
    record_property("touched", {kind.decode(): len(found) for kind, found in touched.items()})
    assert len(touched[b"c"]) <= len(lines) / 10000, touched[b"c"][:20]
    if name == "blobs":
        assert len(touched[b"r"]) <= len(lines) / 100, touched[b"r"][:20]
