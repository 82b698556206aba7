"""The first lines of a warm interpreter's main.py, which the interpreter runs as a script; the rest of it is BOOTSTRAP.

What it has here is what every script has here: it is written down before anything of ours is loaded. BOOTSTRAP is compiled in a process
of its own, since what a compiler leaves behind in memory would be copied, page tables at least, for each box.
"""

import sys

NATIVE = dict(sys.modules)
NAMES = {name: value for name, value in globals().items() if name[:2] == "__"}  # of __main__, in order
__name__ = "glovebox"  # since 3.12 Python warns of forks with threads, but only whoever is __main__

import marshal  # noqa: E402  the interpreter itself has loaded both of these
import posix  # noqa: E402


def compiled(text):
    ends = posix.pipe()
    child = posix.fork()
    if not child:
        code = marshal.dumps(compile(text, __file__, "exec", dont_inherit=True, optimize=2))
        while code:
            code = code[posix.write(ends[1], code) :]
        posix._exit(0)
    posix.close(ends[1])
    pieces = [posix.read(ends[0], 1 << 20)]
    while pieces[-1]:
        pieces.append(posix.read(ends[0], 1 << 20))
    posix.close(ends[0])
    posix.waitpid(child, 0)
    return marshal.loads(b"".join(pieces))


exec(compiled(BOOTSTRAP))
