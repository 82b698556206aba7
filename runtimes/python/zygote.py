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
RENEWALS = []  # functions, and the modules that they are for
UNFILLED = []  # the namespace of a script, if it is to be filled in its own process
STACK = 256 << 20  # where there is no limit
POOL, POOL_HEAD, MOST_HOLES = 1 << 14 if sys.version_info >= (3, 10) else 1 << 12, 48, 1 << 12
FILLING = []
PACKED = 1 << 16
KNOWN = [b"", None]  # rules as a text, and what configure makes of it


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


def look_at_samples(rules):
    """So that the code of screening is warm, too."""
    for source in SAMPLES:
        look(rules, source)
        look(rules, source + b"import os\nos.path.join('/a', 'b')\n")


def know_rules():
    """Those of the profile, if they are here, or the built-in ones: most calls bring the same, which need not be read again."""
    try:
        text = read(BOX + "/start.txt")
    except FileNotFoundError:
        text = DEFAULT_RULES
    KNOWN[:] = text, configure(text.decode())


def words_of(*lists):
    return b"".join(os.fsencode(word) + b"\0" for words in lists for word in words)


def tell_what_is_usual():
    """Tells words.c what most calls are like: with those Python has nothing to do."""
    rules, modules, builtins = KNOWN[1]
    known = KNOWN[0] if modules is None and not builtins else None
    _glovebox.expect(len(ARGUMENTS), words_of(ARGUMENTS, ENVIRONMENT), words_of(FRONT), USER_SITE, SCRIPT_BYTES, bool(PRELOADED), known,
                     words_of(sorted(rules.telling)), CLEAN)  # fmt: skip


def rules_of(text):
    """What configure makes of it. Modules and built-ins come after the rules."""
    if text == KNOWN[0]:
        return KNOWN[1]
    if text.startswith((KNOWN[0] + b"M", KNOWN[0] + b"B")):
        return (KNOWN[1][0],) + configure(text[len(KNOWN[0]) :].decode())[1:]
    return configure(text.decode())


def fill_holes():
    """Takes what is free between objects of the zygote, for ever: a box that used it would have to copy the page. From then on objects are made
    in memory that nobody has, next to each other. A block at the beginning of a pool is one from a pool that was empty."""
    for size in range(48, 513, 16):
        for _ in range(MOST_HOLES):
            FILLING.append(bytes(size - 33))  # that many bytes with the object's head
            if id(FILLING[-1]) % POOL == POOL_HEAD:
                del FILLING[-1]
                break
        else:
            FILLING.clear()  # there are no pools, but another allocator
            return
    _glovebox.fill_holes()
    _glovebox.pack(PACKED)


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
    fill_holes()
    gc.freeze()


def ready():
    """In a box's own process, before it waits."""
    if UNFILLED:
        for function, module in RENEWALS:
            function(module)
        gc.freeze()  # what was made since the fork: threading makes a main thread
        fill_main(UNFILLED.pop())


# --- one script ---


def is_shadowed():
    """Does a file of the call come before a module that was preloaded?"""
    names = (name.partition(".") for name in posix.listdir(BOX))
    return any(top in PRELOADED and (not dot or rest.endswith(("py", "pyc", "so"))) for top, dot, rest in names)


def become(argv, env, text, files, is_usual):
    """Everything between a call that is not like most and its script. `text` has the rules, or is None."""
    packages = adapt(argv, env, text) if not is_usual or PRELOADED and is_shadowed() else False
    if text is not None:
        rules, modules, builtins = rules_of(text)
        examine(rules, read(SCRIPT), () if files == 1 else [one for one in importable() if one[0] != "main.py"])
    if packages:
        add_user_packages()
    if text is not None:
        restrict(modules, builtins)


def adapt(argv, env, text):
    """To other arguments or variables. Returns whether there are packages of the user's own."""
    given = env
    if text is not None:
        env = [variable for variable in env if variable not in FRONT]
    if must_begin_anew(argv, env):
        begin_cold(argv, given, text)
    if env != ENVIRONMENT:
        set_environment(env)
    set_arguments(argv)
    packages = has_user_packages()
    if PRELOADED and (packages or is_shadowed()):
        begin_cold(argv, given, text)
    if not are_pipes():
        open_streams()
    return packages


def begin_cold(argv, env, text):
    """With the files that a cold interpreter would find."""
    if text is not None:
        posix.mkdir(HOME, 0o755)
        posix.rename(SCRIPT, HOME + "/main.py")
        put(HOME + "/start.txt", text)
        put(HOME + "/sitecustomize.py", (BOOTSTRAP[SHARED_AT[0] : SHARED_AT[1]] + COLD_ENDING).encode())
    begin_anew(argv, env)


def put(name, data):
    fd = posix.open(name, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o644)
    with io.open(fd, "wb") as file:
        file.write(data)


def life(slot, modules):
    """Of the thread that boxes are forks of. What it yields is called by beneath.c, with no frame of this beneath it."""
    own, directories = with_pipes(), set(sys.path_importer_cache) - {BOX}
    try:
        open_streams()
        for sample in SAMPLES * TIMES:
            yield _glovebox.script, SCRIPT, {"__name__": "__main__", "__builtins__": builtins}, sample, None
            drain()
        yield (bool,)  # with this, what became of the last one is let go of: not in each box
        know_rules()
        tell_what_is_usual()
        for _ in range(TIMES):
            look_at_samples(KNOWN[1][0])
            left()
    finally:
        without_pipes(own)
    RENEWALS.extend((function, sys.modules[name]) for name, function in RENEWED.items() if name in sys.modules)
    space = fresh_main()
    kept = {id(module): (module, dict(vars(module))) for name, module in sys.modules.items() if name in modules and vars(module) is not space}
    ending, plan = finish(slot, kept, _thread._count()), plain_end()
    settle(modules, directories)
    if RENEWALS or "threading" in modules:
        UNFILLED.append(space)
    else:
        fill_main(space)
    _glovebox.huge_code()
    _glovebox.huge_data()
    call = _glovebox.wait(ready, not PRELOADED and not UNFILLED)
    if call:
        become(*call)
    gc.enable()
    end, error = yield _glovebox.script, SCRIPT, space, None, plan
    if error:
        begin_anew(*call[:2] if call else (ARGUMENTS, ENVIRONMENT))
    slot[:] = end, space
    call = end = space = plan = None
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


def is_stack_unlimited():
    """Then the C library gives threads a small one; otherwise as much as the main thread may have."""
    try:
        return any(line.split()[3] == b"unlimited" for line in read("/proc/self/limits").split(b"\n") if line.startswith(b"Max stack size"))
    except OSError:
        return False


def begin():
    for name in set(sys.modules).difference(NATIVE):  # ours, which what is preloaded may import for itself
        del sys.modules[name]
    gc.disable()
    preload()
    slot = []
    _thread.stack_size(STACK if is_stack_unlimited() else 0)
    _thread.start_new_thread(_glovebox.run, (guard(slot, life(slot, frozenset(sys.modules))),))
    _thread.stack_size(0)
    hold = _thread.allocate_lock()
    hold.acquire()
    hold.acquire()  # for ever: the thread ends the process


begin()
