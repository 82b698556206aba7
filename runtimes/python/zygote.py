"""The bootstrap of a warm interpreter: it prepares whatever a script needs, waits, and becomes the interpreter of one script.

`python3 main.py` is started where the root of a box is already in place, and this is main.py. It imports what the profile wants
(preload.txt beside it has one name in each line), makes the first steps of a few scripts so that nothing is done for the first
time in a box, and calls _glovebox.wait(). The zygote never returns from that, and runs nothing of anybody. A box's own process, a
fork, returns from it with arguments and environment when its call has come and the call's files are in place; it looks at the
script if there are rules for that, runs it, and ends.
"""

SAMPLES = (
    b"print(2 + 2)\n",
    b"import sys, os\nx = [i * 2 for i in range(10) if i % 2]\nprint(x, len(x), sum(x), {'a': 1, 'b': (1, 2.5, None)})\n",
    b"""
import colorsys
class Thing(object):
    '''A thing.'''
    kind = "thing"
    def __init__(self, name, *rest, size=1, **more):
        self.name, self.size = name, size
    def __repr__(self):
        return f"<{self.name!r:>10} {self.size:.2f}>"
    @property
    def twice(self):
        return self.size * 2
def walk(n):
    for i in range(n):
        yield i, n - i
def outer(a, b=2):
    c = a + b
    def inner(d):
        nonlocal c
        c += d
        return c
    return inner
try:
    raise ValueError("no")
except (ValueError, KeyError) as e:
    print("caught", e, type(e).__name__)
else:
    pass
finally:
    done = True
with open(os.devnull) as f:
    text = f.read()
things = sorted([Thing("a", size=2), Thing("b")], key=lambda t: t.size)
print(*things, sep=", ", end="\\n")
total = 0
while total < 5:
    total += outer(1)(2)
    if total > 3: break
    elif not total: continue
print("%d %s" % (total, "x".join(str(i) for i, _ in walk(3))), {k: v for k, v in walk(2)}, {1, 2} | {3}, "a" in "abc", 10 ** 20, 7 // 2, -1.5e3)
print("{:,} {}".format(1234567, "h\\u00e4".upper()), [*range(3)][::-1], "a,b".split(","), " x ".strip(), file=sys.stderr)
assert done, "never"
del things
lines = [line for line in "a\\nb".splitlines()]
print(round(3.14159, 2), max(1, 2), isinstance(1, int), any([0, 1]), list(zip("ab", [1, 2])), list(map(str, [1])), abs(-1), bytes(2))
""",
    b"def f(x):\n    return x / 0\nf(1)\n",
    b"raise SystemExit(0)\n",
)


PRELOADED = set()  # top-level names
TIMES = 8  # from then on the interpreter has specialised what it runs often
KNOWN = [b"", None]  # rules as a text, and what configure makes of it
SAMPLE_RULES = b"R 0 block\nC os.system eval\nI socket\nP /etc\nW\n"


def stop(text):
    write("the zygote cannot start: %s\n" % text)
    posix._exit(FAILED)


# --- what the profile wants to be loaded ---


def preload():
    try:
        names = read(BOX + "/preload.txt").decode().split("\n")
    except FileNotFoundError:
        return
    for name in filter(None, names):
        try:
            __import__(name)
        except BaseException as e:
            stop("the module '%s' cannot be preloaded: %s: %s" % (name, e.__class__.__name__, e))
    if _thread._count():
        stop("a preloaded module has started a thread, which no box would have")
    PRELOADED.update({name.partition(".")[0] for name in sys.modules}.difference(name.partition(".")[0] for name in NATIVE))


# --- warming up ---


def with_pipes():
    """Pipes in the place of the zygote's own stdin, stdout and stderr, as boxes have them. Returns what was there."""
    own = [posix.dup(number) for number in (0, 1, 2)]
    ends = posix.pipe()
    posix.set_blocking(ends[0], False)
    for number, end in ((0, 0), (1, 1), (2, 1)):
        posix.dup2(ends[end], number)
    for end in ends:
        posix.close(end)
    return own


def without_pipes(own):
    for number, fd in enumerate(own):
        posix.dup2(fd, number)
        posix.close(fd)


def drain():
    """Takes what was printed out of the pipe, which may have room for no more than a page."""
    try:
        posix.read(0, 1 << 16)
    except BlockingIOError:
        pass


def end_library_threads():
    """Libraries that keep threads of their own (OpenBLAS) end them before a fork of the C library's, and start new ones when they
    need them. Whatever else makes processes of this one does not tell them."""
    stderr, sys.stderr = sys.stderr, Silence()  # since 3.12 Python warns of forks with threads
    child = posix.fork()
    if not child:
        posix._exit(0)
    sys.stderr = stderr
    posix.waitpid(child, 0)


def look_at_samples(rules):
    """So that the code of screening is warm, too."""
    for source in SAMPLES:
        look(rules, source)
        look(rules, source + b"import os\nos.path.join('/a', 'b')\n")


def know_rules():
    """The rules of the profile, if they are here: most calls bring the same, which need not be read again."""
    try:
        text = read(BOX + "/start.txt")
    except FileNotFoundError:
        text = SAMPLE_RULES
    KNOWN[:] = text, configure(text.decode())


def settle(modules, directories):
    """Leaves sys as it was, and every object where no collection finds it: memory that nobody writes to stays shared."""
    for name in set(sys.modules).difference(modules):
        del sys.modules[name]
    for name in set(sys.path_importer_cache).difference(directories):
        del sys.path_importer_cache[name]
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
    gc.freeze()


def rehearse():
    """What every call does, for the extension to see which memory that writes to: a box that has the time has it copied beforehand."""
    look(KNOWN[1][0], SAMPLES[0])
    _glovebox.script(SCRIPT, {"__name__": "__main__", "__builtins__": builtins}, SAMPLES[0], None)


# --- one script ---


def is_shadowed():
    """Does a file of the call come before a module that was preloaded?"""
    names = (name.partition(".") for name in posix.listdir(BOX))
    return any(top in PRELOADED and (not dot or rest.endswith(("py", "pyc", "so"))) for top, dot, rest in names)


def become(argv, env):
    """Everything between the call and its script."""
    packages, given = False, _glovebox.take(HOME_BYTES)
    if not _glovebox.is_usual(argv, env, ARGUMENTS, ENVIRONMENT, FRONT if given else (), USER_SITE):
        packages = adapt(argv, env, given)
    elif PRELOADED and is_shadowed():
        begin_cold(argv, env, given)
    if given:
        text, source = given
        rules, modules, builtins = KNOWN[1] if text == KNOWN[0] else configure(text.decode())
        examine(rules, source, () if _glovebox.is_alone(BOX_BYTES, ".glovebox") else importable())
    if packages:
        add_user_packages()
    if given:
        restrict(modules, builtins)
        if not _glovebox.place(HOME_BYTES, SCRIPT_BYTES):
            remove_files()  # those of a cold start, which are not needed here
            posix.rmdir(HOME)
    gc.enable()


def adapt(argv, env, is_screened):
    """To a call that is not like most. Returns whether there are packages of the user's own."""
    given = env
    if is_screened:
        env = [variable for variable in env if variable not in FRONT]
    if must_begin_anew(argv, env):
        begin_cold(argv, given, is_screened)
    set_environment(env)
    set_arguments(argv)
    packages = has_user_packages()
    if PRELOADED and (packages or is_shadowed()):
        begin_cold(argv, given, is_screened)
    if not are_pipes():
        open_streams()
    return packages


def begin_cold(argv, env, is_screened):
    if is_screened:
        fd = posix.open(HOME + "/sitecustomize.py", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o644)
        with io.open(fd, "wb") as file:
            file.write((BOOTSTRAP[SHARED_AT[0] : SHARED_AT[1]] + COLD_ENDING).encode())
    begin_anew(argv, env)


def life(slot, modules):
    """Of the thread that boxes are forks of. What it yields is called by beneath.c, with no frame of this beneath it."""
    own, directories = with_pipes(), set(sys.path_importer_cache) - {BOX}
    try:
        open_streams()
        for sample in SAMPLES * TIMES:
            yield _glovebox.script, SCRIPT, {"__name__": "__main__", "__builtins__": builtins}, sample, None
            drain()
        know_rules()
        for _ in range(TIMES):
            look_at_samples(KNOWN[1][0])
            is_plain()
        end_library_threads()
    finally:
        without_pipes(own)
    space = fresh_main()
    kept = {id(module): (module, dict(vars(module))) for name, module in sys.modules.items() if name in modules and vars(module) is not space}
    ending, plan = finish(slot, kept, _thread._count()), plain_end()
    settle(modules, directories)
    fill_main(space)
    argv, env = _glovebox.wait(renew, rehearse)
    become(argv, env)
    end, error = yield _glovebox.script, SCRIPT, space, None, plan
    if error:
        begin_anew(argv, env)
    slot[:] = end, space
    argv = env = end = space = plan = None
    yield from ending


def guard(slot, steps):
    """If anything fails in the zygote, it ends; if in a box before the script, the script does not begin; if after it, it has ended."""
    try:
        yield from steps
    except BaseException as e:
        if not slot:
            failed(e)
        _glovebox.unraisable(e, None)
        _glovebox.leave(1, False)


def begin():
    for name in set(sys.modules).difference(NATIVE):  # ours, which what is preloaded may import for itself
        del sys.modules[name]
    gc.disable()
    preload()
    slot = []
    _thread.start_new_thread(_glovebox.run, (guard(slot, life(slot, frozenset(sys.modules))),))
    hold = _thread.allocate_lock()
    hold.acquire()
    hold.acquire()  # for ever: the thread ends the process


begin()
