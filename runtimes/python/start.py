"""What runs in the box before the first instruction of a Python script.

It reads the script, asks the rules, writes the report to stderr, and takes away every trace of itself. Where an interpreter has
just been started, the script is then moved to where that looks for it. If anything fails on the way, it stays where nobody looks.

Two files end it, each of which says where it is (HOME, BOX, SCRIPT): cold.py, for an interpreter that has just been started, and
zygote.py, for one that was waiting.

Only modules that are built in or loaded anyway are used. The names of the language level (what may be imported, which
built-ins are hidden) are advice to whoever writes the script, not a wall.
"""

import posix
import sys

REPORT = "\x1eglovebox-screen "
CLEAN = (REPORT + '{"blocked":false,"findings":[]}\n').encode()
BLOCKED, FAILED, SMALL, MODULES = 126, 1, 1 << 14, 1 << 20
# Everything that is not part of a name becomes a space.
WORDS = bytes(c if chr(c).isalnum() or c == 95 else 32 for c in range(128)) + b" " * 128
# Encodings that are read line by line as they are read whole; others could hide from the parser what the interpreter sees.
PLAIN = ("utf8", "ascii", "usascii", "latin1", "isolatin1", "iso88591", "iso885915", "cp1252", "windows1252")


def read(name):
    fd = posix.open(name, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        pieces = []
        while True:
            piece = posix.read(fd, 1 << 20)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
    finally:
        posix.close(fd)


def write(text):
    data = text.encode()
    while data:
        data = data[posix.write(2, data) :]


def configure(text):
    """Lines of a letter and words: see src/screen/python.c."""
    rules, modules, builtins, rule = Rules(), None, [], None
    for line in text.split("\n"):
        kind, *words = line.split(" ")
        if kind == "R":
            rule = int(words[0])
            rules.block[rule] = words[1] == "block"
        elif kind == "C":
            rules.add_calls(words, rule)
        elif kind == "I":
            for name in words:
                rules.imports.setdefault(name, []).append(rule)
        elif kind == "P":
            rules.paths += [(word, rule) for word in words]
        elif kind == "W":
            rules.writes.append(rule)
        elif kind == "M":
            modules = words
        elif kind == "B":
            builtins = words
    rules.complete()
    return rules, modules, builtins


# --- what the script would do ---


def odd_encoding(source):
    """The encoding that the script declares, if it is not a plain one."""
    if b"coding" not in source:
        return None
    for text in (source, source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
        for line in text.split(b"\n", 2)[:2]:
            line = line.lstrip(b"\xef\xbb\xbf \t\x0c")
            at = line.find(b"coding")
            if line[:1] != b"#":
                continue
            while at >= 0:
                if line[at + 6 : at + 7] in (b":", b"="):
                    name = line[at + 7 :].lstrip(b" \t")
                    word = bytes(c for c in name.split(b" ")[0].split(b"\t")[0].lower() if chr(c).isalnum())
                    if word.decode("latin-1") not in PLAIN and word[:4] != b"utf8":
                        return ascii(name[:20].decode("latin-1"))[1:-1]
                at = line.find(b"coding", at + 1)
    return None


def is_text(source):
    """Then the interpreter, which reads the file by itself, finds the same errors."""
    try:
        return "\0" not in source.decode()
    except UnicodeDecodeError:
        return False


class Silence:
    """Takes the place of sys.stderr while the script is parsed: the interpreter will give the same warnings again."""

    def write(self, text):
        pass

    def flush(self):
        pass


def parse(source):
    """The syntax tree, or the exception. Goes a little deeper than the interpreter, so that what is too deep here is too deep for it."""
    deepest, stderr = sys.getrecursionlimit(), sys.stderr
    sys.setrecursionlimit(deepest + 1000)
    sys.stderr = Silence()
    try:
        return compile(source, SCRIPT, "exec", 0x400, True), None  # 0x400: only the tree
    except Exception as e:
        return None, e
    finally:
        sys.stderr = stderr
        sys.setrecursionlimit(deepest)


def tells_nothing(source, telling):
    """Has a small script no word that any rule could fire on, and no path? Then there need not be a tree: the first costs half a millisecond."""
    if len(source) > SMALL or not source.isascii() or b"/" in source or b"\\" in source:
        return False
    words = source.translate(WORDS).decode().split()
    if not telling.isdisjoint(words):
        return False
    if b"_" not in source:
        return True
    if any(word[:2] == "__" and word not in ("__name__", "__main__", "__init__") for word in words):
        return False
    return telling.isdisjoint(word.strip("_") for word in words)


def look(rules, source):
    """Findings, and the exception if there is no tree."""
    if not rules.block:
        return {}, None
    encoding = odd_encoding(source)
    if not encoding and tells_nothing(source, rules.telling):
        return {}, None
    screen = Screen(rules)
    if encoding:
        screen.hit_all(1, "declares the encoding " + encoding)
        return screen.hits, None
    tree, error = parse(source)
    if tree:
        try:
            screen.walk(tree)
            screen.ask()
        except Undecided as e:
            screen.hit_all(e.args[0], "cannot be decided: too deep or too much")
        except Exception as e:
            screen.hit_all(1, "cannot be decided: " + e.__class__.__name__)
    return screen.hits, error


# --- what it could import ---


def importable():
    """Files of the call that Python could import or run: name, size."""
    found, directories = [], [""]
    for directory in directories:  # grows meanwhile
        for entry in posix.scandir(BOX + directory):
            name = directory + "/" + entry.name
            if entry.is_dir(follow_symlinks=False):
                directories += [name] if BOX + name != HOME else []
            elif name.endswith((".py", ".pyc", ".so", ".pth")):
                found.append((name[1:], entry.stat(follow_symlinks=False).st_size))
    return sorted(found)


def pieces(name):
    """What Python compiles at once: a file, or each line of a .pth that it runs."""
    source = read(BOX + "/" + name)
    if name.endswith(".py"):
        return [(1, source)]
    lines = source.replace(b"\r", b"\n").split(b"\n")
    lines = [(number, line.lstrip(b"\xef\xbb\xbf")) for number, line in enumerate(lines, 1)]
    return [(number, line) for number, line in lines if line.startswith((b"import ", b"import\t"))]


def look_at(rules, name):
    found = Screen(rules)
    if not name.endswith((".py", ".pth")):
        found.hit_all(1, "is compiled: nobody can look at it")
        return found.hits
    for number, source in pieces(name):
        hits, error = look(rules, source)
        for rule, (line, reason) in hits.items():
            found.hits.setdefault(rule, (line + number - 1, reason))
        if error and not isinstance(error, (SyntaxError, ValueError)):  # these two an import would meet as well
            found.hit_all(number, "cannot be decided: " + error.__class__.__name__)
    return found.hits


def look_around(rules, hits, files):
    """The files of the call, as the script itself; where a rule fires first counts."""
    total = 0
    for name, size in files if rules.block else ():
        total += size
        if total > MODULES:
            found = dict.fromkeys(rules.block, (1, "more than 1 MiB of modules: the rest was not looked at"))
        else:
            found = look_at(rules, name)
        for rule, (line, reason) in found.items():
            shown = "".join(c if c.isprintable() else "?" for c in (name if len(name) <= 40 else "..." + name[-37:]))
            hits.setdefault(rule, (line, shown + ": " + reason))
        if total > MODULES:
            return


def quote(text):
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "".join("\\u%04x" % unit for unit in units(c)) for c in text)


def units(c):
    data = c.encode("utf-16-le", "surrogatepass")
    return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]


def report(hits, blocked):
    if not hits:
        return posix.write(2, CLEAN)  # less than a pipe takes at once
    found = ['{"rule":%d,"line":%d,"reason":"%s"}' % (rule, line, quote(reason[:90])) for rule, (line, reason) in sorted(hits.items())]
    write(REPORT + '{"blocked":%s,"findings":[%s]}\n' % ("true" if blocked else "false", ",".join(found)))


# --- the language level ---


def allow(modules):
    """Imports that the script's own files ask for are held against the list; what the library imports for itself is not."""
    whole, get_frame, real, loaded = set(modules), sys._getframe, __import__, sys.modules
    library = tuple(p for p in sys.path if p and p != HOME and not (p + "/").startswith(BOX + "/")) + ("<frozen",)
    stat = posix.stat

    def is_allowed(name):
        while name:
            if name in whole:
                return True
            name = name.rpartition(".")[0]
        return False

    def leads_to(name):
        return any(one.startswith(name + ".") for one in whole)

    def is_own(name):
        """A module of the script's own files."""
        top = name.partition(".")[0]
        if top in loaded:
            return (getattr(loaded[top], "__file__", None) or "").startswith(BOX + "/") or top == "__main__"
        for file in (BOX + "/" + top + ".py", BOX + "/" + top):
            try:
                stat(file)
                return True
            except OSError:
                pass
        return False

    def refused(name, fromlist):
        if is_allowed(name) or is_own(name):
            return None
        if not leads_to(name):
            return name
        names = [name + "." + one for one in fromlist or ()]
        return next((one for one in names if not is_allowed(one) and not leads_to(one)), None)

    def import_allowed(name, globals=None, locals=None, fromlist=(), level=0):
        # C code imports with a list, in the name of whoever called it: datetime.strptime needs _strptime.
        if not level and fromlist.__class__ is not list and not get_frame(1).f_code.co_filename.startswith(library):
            bad = refused(name, fromlist)
            if bad:
                raise ImportError("the module '%s' is not allowed here; allowed_modules: %s" % (bad, ", ".join(modules) or "none"), name=bad)
        return real(name, globals, locals, fromlist, level)

    sys.modules["builtins"].__import__ = nameless(import_allowed)


def nameless(function):
    """Tracebacks show it as one line, without a file that is long gone."""
    function.__code__ = function.__code__.replace(co_filename="<glovebox>")
    return function


class Hidden(dict):
    """Built-ins of the script: a dictionary that says why a name is not there."""

    @nameless
    def __missing__(self, name):
        if name in self["__hidden__"]:
            raise NameError("name '%s' is not defined: it is one of restricted_builtins" % name, **({"name": name} if sys.version_info >= (3, 10) else {}))
        raise KeyError(name)


def hide(names):
    builtins = Hidden(vars(sys.modules["builtins"]))
    builtins["__hidden__"] = frozenset(names)
    real = builtins["__import__"]

    def import_statement(name, globals=None, locals=None, fromlist=(), level=0):
        if globals is None:
            builtins.__missing__("__import__")
        return real(name, globals, locals, fromlist, level)

    for name in names:
        if name == "__import__":  # the import statement needs it
            builtins[name] = nameless(import_statement)
        else:
            builtins.pop(name, None)
    vars(sys.modules["__main__"])["__builtins__"] = builtins


# --- as if nothing had been ---


def user_packages(site):
    """The user's own packages, which `site` did not find: they come before those of the system."""
    site.USER_BASE = site.USER_SITE = None
    if not site.ENABLE_USER_SITE:
        return
    home = site.getusersitepackages()
    try:
        posix.stat(home)
    except OSError:
        return
    before = list(sys.path)
    site.addsitedir(home)
    added = [p for p in sys.path if p not in before]
    system = [i for i, p in enumerate(before) if p in site.getsitepackages()]
    at = system[0] if system else len(before)
    sys.path[:] = before[:at] + added + before[at:]


def restrict(modules, builtins):
    if modules is not None:
        allow(modules)
    if builtins:
        hide(builtins)


def withdraw():
    """The script, if it is in its place already: what may not run is not among the files that a call brings back."""
    try:
        posix.unlink(SCRIPT)
    except OSError:
        pass


def examine(rules, source, files):
    """Looks at the script and the files that came with it, and reports. Does not return if the script may not run."""
    hits, error = look(rules, source)
    if files:
        look_around(rules, hits, files)
    blocked = any(rules.block[rule] for rule in hits) if hits else False
    report(hits, blocked)
    if blocked:
        withdraw()
        posix._exit(BLOCKED)
    if error and not (isinstance(error, SyntaxError) and is_text(source)):
        sys.excepthook(error.__class__, error, None)
        posix._exit(FAILED)


def remove_files():
    """Ours, that is: all but the script."""
    for name in posix.listdir(HOME):
        if name == "__pycache__":
            for one in posix.listdir(HOME + "/__pycache__"):
                posix.unlink(HOME + "/__pycache__/" + one)
            posix.rmdir(HOME + "/__pycache__")
        elif name != "main.py":
            posix.unlink(HOME + "/" + name)


def place():
    """The script goes where the interpreter looks for it."""
    posix.rename(HOME + "/main.py", SCRIPT)
    posix.rmdir(HOME)


def failed(error):
    """The end, whatever it was that failed."""
    write("the start-up code failed: %s: %s\n" % (error.__class__.__name__, error))
    posix._exit(FAILED)
