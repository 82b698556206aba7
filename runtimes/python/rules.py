"""What a script would do, read from its syntax tree: which of the rules fire, where, and why.

A signal, not a wall: a language that can compute any name cannot be decided by reading it. What is followed: imports under
any name, assignments, getattr and its relatives, texts put together from constants, scopes. What is computed on a module
that rules speak of counts as a finding. Everything else that Python can do (objects that lead to modules by way of
__subclasses__, code that it reads and runs) is left to the box.

Two passes, without recursion over the tree: the first collects scopes, bindings and references, the second asks where each
reference comes from. An origin is a dotted name ("os.system"; an object has the name of its class), "" for what is known and
of no interest, "?" for what is not known. Work is linear in the size of the script; what is not decided
within its bounds is a finding.
"""

# Modules that are the same under another name.
SAME = {"posix": "os", "nt": "os", "_socket": "socket", "_io": "io", "__builtin__": "builtins", "posixpath": "os.path", "_posixsubprocess": "subprocess", "_ctypes": "ctypes"}
# Modules keep the ones that they use as attributes: random._os is os.
REACHED = {"os", "sys", "subprocess", "socket", "shutil", "builtins", "importlib", "posix", "io", "urllib", "requests"}
# What leads from one thing to another; rules need not name it.
LEADS = {"sys", "sys.modules", "importlib", "importlib.import_module", "importlib.__import__", "operator", "operator.attrgetter", "operator.methodcaller",
         "functools", "functools.partial", "os", "os.path", "os.path.join", "pathlib", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath",
         "pathlib.Path.joinpath", "globals()", "__main__", "builtins", "inspect", "inspect.getattr_static", "io", "codecs", "gzip", "bz2", "lzma", "tarfile",
         "zipfile"}
PATHS = {"os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "pathlib.Path.joinpath"}
# Functions that open files, and which argument is the mode.
OPENERS = {"builtins.open": 1, "io.open": 1, "io.FileIO": 1, "codecs.open": 1, "os.fdopen": 1, "gzip.open": 1, "bz2.open": 1, "lzma.open": 1,
           "tarfile.open": 1, "zipfile.ZipFile": 1, "pathlib.Path.open": 0}
READING = {"O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_NOCTTY", "O_PATH"}
# x.get("name") and the like, where x is a module's dictionary.
GETTERS = {"get", "pop", "setdefault", "__getitem__", "__getattribute__", "__getattr__"}
# Taking a module as first argument without handing it on.
LOOKERS = {"builtins.getattr", "builtins.hasattr", "builtins.setattr", "builtins.delattr", "builtins.vars", "builtins.dir", "builtins.type", "builtins.id",
           "builtins.isinstance", "builtins.help", "builtins.print", "builtins.repr", "builtins.str", "importlib.reload"}
# Words without which no rule can fire, besides those of the rules themselves.
TELLING = {"sys", "importlib", "os", "pathlib", "builtins", "chr", "open", "getattr", "vars", "globals", "locals", "eval", "exec", "compile"}
TELLING.update(SAME, REACHED, (name.partition(".")[0] for name in OPENERS))
ANY = "a module whose name is computed"
DEEPEST, ORIGINS, TEXT, ROUNDS = 120, 64, 4096, 8


class Scope:
    __slots__ = ("kind", "parent", "names", "known", "outer", "deleted", "stars", "firm")

    def __init__(self, kind, parent):
        self.kind, self.parent = kind, parent  # module, function, class, comprehension
        self.names = {}  # name -> values: an origin, or (expression, scope)
        self.known = {}  # name -> origins, once they were asked for
        self.outer = ()  # names that are declared global or nonlocal
        self.deleted = set()
        self.stars, self.firm = [], {}  # of the module: "from m import *"; name -> line from which it is surely bound


class Rules:
    """What is looked for."""

    def __init__(self):
        self.block = {}  # rule -> whether a finding of it blocks
        self.calls, self.wild, self.imports = {}, {}, {}  # dotted name -> rules; those that end with .* are in wild
        self.paths, self.writes = [], []
        self.prefixes = set(LEADS)
        self.telling = TELLING

    def complete(self):
        """Words of which a script must have at least one if a rule is to fire, unless it has a slash."""
        self.telling = TELLING.union(name.partition(".")[0] for names in (self.wild, self.imports) for name in names).union(
            name.split(".")[name.startswith("builtins.")] for name in self.calls
        )

    def add_calls(self, names, rule):
        calls, prefixes = self.calls, self.prefixes
        for name in names:
            home, _, last = name.rpartition(".")
            if not home:
                home, name = "builtins", "builtins." + name
            if last == "*":
                self.wild.setdefault(home, []).append(rule)
            else:
                calls.setdefault(name, []).append(rule)
            while home and home not in prefixes:
                prefixes.add(home)
                home = home.rpartition(".")[0]

    def with_last(self, last):
        """Calls that end so, as parts."""
        return [(name.split("."), rules) for name, rules in self.calls.items() if name.rpartition(".")[2] == last]

    def keeps(self, origin):
        if origin in self.prefixes or origin in self.calls or origin in OPENERS or origin in LOOKERS or origin == "os.open":
            return True
        return bool(self.wild) and any(origin.startswith(module + ".") for module in self.wild)


class Undecided(Exception):
    pass


def canonical(name):
    top, dot, rest = name.partition(".")
    return SAME[top] + dot + rest if top in SAME else name
