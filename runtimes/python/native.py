"""A warm interpreter as a native one: what a script finds when `python3 main.py` has just begun.

What cannot be made the same is in docs/warm.md.
"""

import io
import os
import site
import time

BOX = __file__.rpartition("/")[0]
HOME = BOX + "/.glovebox"
SCRIPT = BOX + "/main.py"
SCRIPT_BYTES = os.fsencode(SCRIPT)
# Arguments and environment that the interpreter was started with.
ARGUMENTS = getattr(sys, "orig_argv", [sys.executable] + sys.argv)  # before 3.10 only a guess, with which no call agrees
ENVIRONMENT = [os.fsdecode(name + b"=" + value) for name, value in os.environb.items()]
# What the front adds so that a cold interpreter finds its start-up code.
FRONT = ("PYTHONPATH=" + HOME, "PYTHONUSERBASE=" + HOME)
# A file that is not there: then the user has no packages of his own.
USER_SITE = os.fsencode(site.getusersitepackages()) if site.ENABLE_USER_SITE else b"/dev/null/none"
# Variables that an interpreter, its C library or its loader reads once, when it begins: with another value of these it has to begin anew.
DECIDING = ("PYTHON", "PATH=", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "LOCPATH=")


# --- __main__ ---


def fresh_main():
    """A module in the place of ours, under every name (multiprocessing has one). Its namespace, which is returned, is still empty."""
    ours, module = sys.modules["__main__"], type(sys)("__main__")
    vars(module).clear()
    for name in [name for name, value in sys.modules.items() if value is ours]:
        sys.modules[name] = module
    return vars(module)


def fill_main(space):
    """As the interpreter does it for a script. Not before objects are frozen: what a script defines refers to its namespace, and no
    collection would find that if the namespace were frozen; an empty one is not looked at."""
    space.update(NAMES)
    space["__doc__"] = None
    if "__annotations__" in space:
        space["__annotations__"] = {}


# --- sys.stdin, sys.stdout, sys.stderr ---


STREAMS = []  # stdout and stderr, whatever a script makes of them


def open_stream(number, like):
    """As create_stdio() of the interpreter, with the encoding that it has chosen."""
    buffer = io.open(number, "wb" if number else "rb", -1, closefd=False)
    buffer.raw.name = like.name
    stream = io.TextIOWrapper(buffer, like.encoding, like.errors, "\n", line_buffering=number == 2 or number == 1 and buffer.raw.isatty())
    stream.mode = like.mode
    return stream


def open_streams():
    STREAMS.clear()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open_stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
        if number:
            STREAMS.append(stream)


def are_pipes():
    return all(posix.fstat(number).st_mode >> 12 == 1 for number in (0, 1, 2))


# --- arguments, environment ---


def has(file):
    try:
        posix.stat(file)
        return True
    except OSError:
        return False


def must_begin_anew(argv, env):
    """Is it something that only a new interpreter can do?"""
    if len(argv) < 2 or argv[1] not in ("main.py", SCRIPT):
        return True
    decides = [[one for one in list if one.startswith(DECIDING)] for list in (env, ENVIRONMENT)]
    return sorted(decides[0]) != sorted(decides[1])


def begin_anew(argv, env):
    """The interpreter that a cold start would find, under the same process id."""
    import _signal

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    pairs = [variable.partition("=")[::2] for variable in env]
    os.execvpe(argv[0], argv, dict(pairs))


def set_environment(env):
    """os.environ, os.environb, posix.environ and the C library's, in the same order."""
    data, encode = os.environ._data, os.fsencode
    new = {}
    for variable in env:
        name, _, value = encode(variable).partition(b"=")
        new.setdefault(name, value)
    if list(new.items())[: len(data)] != list(data.items()):
        for name in data:
            posix.unsetenv(name)
        data.clear()
    for name, value in new.items():
        if name not in data:
            posix.putenv(name, value)
            data[name] = value
    if any(one.startswith("TZ=") for one in env + ENVIRONMENT):
        time.tzset()
    if [one for one in env if one.startswith("HOME=")] != [one for one in ENVIRONMENT if one.startswith("HOME=")]:
        site.USER_BASE = site.USER_SITE = None


def set_arguments(argv):
    sys.argv = argv[1:]
    if hasattr(sys, "orig_argv"):  # since 3.10
        sys.orig_argv = argv


def has_user_packages():
    return bool(site.ENABLE_USER_SITE) and has(site.getusersitepackages())


def add_user_packages():
    """As `site` does, at whose time the directory of the script is not on the path yet."""
    first = sys.path.pop(0)
    user_packages(site)
    site.execusercustomize()
    sys.path.insert(0, first)


# --- what no two processes may share ---


def renew_authkey(process):
    process._current_process._config["authkey"] = process.AuthenticationString(posix.urandom(32))


def renew_semaphores(synchronize):
    synchronize.SemLock._rand = sys.modules["tempfile"]._RandomNameSequence()


def renew_logging(logging):
    now = getattr(time, "time_ns" if isinstance(logging._startTime, int) else "time")
    logging._startTime = now()


def renew_uuid(uuid):
    uuid._node = uuid._last_timestamp = None


def renew_tempfile(tempfile):
    tempfile._name_sequence = tempfile.tempdir = None


# Modules that have state which Python does not renew after a fork by itself (as random does), or only if the process id is another:
# in namespaces of their own, processes have the same one. Modules that keep such state and are not here must not be preloaded.
RENEWED = {
    "linecache": lambda linecache: linecache.clearcache(),
    "logging": renew_logging,
    "multiprocessing.process": renew_authkey,
    "multiprocessing.synchronize": renew_semaphores,
    "numpy.random": lambda random: random.seed(),
    "ssl": lambda ssl: ssl.RAND_add(posix.urandom(48), 48.0),
    "tempfile": renew_tempfile,
    "uuid": renew_uuid,
}

