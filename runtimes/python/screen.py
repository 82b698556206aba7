"""Texts that are put together from constants, the files that they name, and files opened for writing."""


class Screen(Origins):
    def constant(self, node, scope):
        """The text that an expression surely is, or None."""
        text = self.fold(node, scope)
        return None if "\0" in text else text

    def fold(self, node, scope):
        """A text with NUL in place of what is not constant."""
        kind = node.__class__.__name__
        if kind == "Constant" or kind == "Str" or kind == "Bytes":
            value = node.value if kind == "Constant" else node.s
            return value if value.__class__ is str else value.decode("latin-1") if value.__class__ is bytes else "\0"
        self.depth += 1
        if self.depth > DEEPEST:
            raise Undecided(node.lineno)
        handler = FOLDS.get(kind)
        text = handler(self, node, scope) if handler else "\0"
        self.depth -= 1
        return text

    def fold_binop(self, node, scope):
        parts, op = [], node.op.__class__.__name__
        while node.__class__.__name__ == "BinOp" and node.op.__class__.__name__ == op and op != "Mod":
            parts.append(self.fold(node.right, scope))
            node = node.left
        if op == "Mod":
            return self.fold(node.left, scope).replace("%s", "\0")
        parts.append(self.fold(node, scope))
        parts.reverse()
        return "".join(parts) if op == "Add" else path(parts) if op == "Div" else "\0"

    def fold_joined(self, node, scope):
        text = []
        for one in node.values:
            if one.__class__.__name__ == "FormattedValue":
                plain = one.format_spec is None and one.conversion in (-1, 115)
                text.append(self.fold(one.value, scope) if plain else "\0")
            else:
                text.append(self.fold(one, scope))
        return "".join(text)

    def fold_call(self, node, scope):
        func, args = node.func, node.args
        if func.__class__.__name__ == "Attribute" and func.attr == "join" and len(args) == 1 and args[0].__class__.__name__ in ("List", "Tuple"):
            between = self.fold(func.value, scope)
            if "\0" not in between:
                self.take(args[0].elts)
                return between.join(self.fold(one, scope) for one in args[0].elts)
        found = self.origins(func, scope)
        if any(origin in PATHS for origin in found):
            self.take(args)
            front = [self.fold(func.value, scope)] if func.__class__.__name__ == "Attribute" and func.attr == "joinpath" else []
            return path(front + [self.fold(one, scope) for one in args])
        if "builtins.str" in found and len(args) == 1:
            return self.fold(args[0], scope)
        if "builtins.chr" in found and len(args) == 1:
            code = getattr(args[0], "value", None)
            return chr(code) if code.__class__ is int and 0 < code < 0x110000 else "\0"
        return "\0"

    def take(self, pieces):
        self.inside.update(map(id, pieces))

    def fold_name(self, node, scope):
        here = scope
        while here.parent and (node.id not in here.names or (here.kind == "class" and here is not scope)):
            here = here.parent
        values = here.names.get(node.id, ())
        if len(values) != 1 or values[0].__class__ is str:
            return "\0"
        key = id(values[0][0])
        if key not in self.folds:
            self.folds[key] = "\0"
            text = self.fold(*values[0])
            self.folds[key] = text if len(text) <= TEXT else "\0"
        return self.folds[key]

    def ask_text(self, node, scope):
        if id(node) in self.inside and node.__class__.__name__ == "Constant":
            return
        text = self.fold(node, scope)
        for word, rule in self.rules.paths:
            if word[1:] in text:
                at = find_path(text, word[1:])
                if at is not None:
                    shown = "".join(c if c.isprintable() else "?" for c in text[at : at + 60])
                    self.hit([rule], node.lineno, "names " + shown)

    # --- files opened for writing ---

    def ask_open(self, node, scope):
        func, args, keywords = node.func, node.args, node.keywords
        found = self.origins(func, scope)
        if "functools.partial" in found and args:
            found, args = self.origins(args[0], scope), args[1:]
        for origin in found:
            if origin in OPENERS:
                self.ask_mode(node, args, keywords, OPENERS[origin], scope)
            elif origin == "os.open":
                self.ask_flags(node, args)
            elif origin == "?" and func.__class__.__name__ == "Attribute" and func.attr == "open" and "pathlib" in self.imported:
                given = args[0] if args else next((k.value for k in keywords if k.arg == "mode"), None)
                mode = self.constant(given, scope) if given is not None else None
                if mode and not mode.strip("rwabxt+U") and mode.strip("rbtU"):
                    self.hit(self.rules.writes, node.lineno, "opens a file with mode " + mode)

    def ask_mode(self, node, args, keywords, index, scope):
        given = args[index] if len(args) > index else None
        known = not any(one.__class__.__name__ == "Starred" for one in args[: index + 1])
        for keyword in keywords:
            if keyword.arg == "mode":
                given = keyword.value
            known = known and keyword.arg is not None
        if given is None and known:
            return
        mode = self.constant(given, scope) if given is not None and known else None
        if mode is None:
            self.hit(self.rules.writes, node.lineno, "opens a file with a mode that is not constant")
        elif any(c in mode for c in "wax+"):
            self.hit(self.rules.writes, node.lineno, "opens a file with mode " + "".join(c for c in mode if c.isprintable())[:12])

    def ask_flags(self, node, args):
        pieces = [args[1]] if len(args) > 1 else [None]
        while pieces:
            one = pieces.pop()
            kind = one.__class__.__name__
            if kind == "BinOp":
                pieces += [one.left, one.right]
            elif (getattr(one, "attr", None) or getattr(one, "id", None)) not in READING:
                self.hit(self.rules.writes, node.lineno, "opens a file with flags that are not only for reading")
                return


HANDLERS = {name[3:]: function for name, function in vars(Walk).items() if name[:3] == "on_"}
CALLS = {
    "builtins.getattr": Screen.call_getattr,
    "inspect.getattr_static": Screen.call_getattr,
    "builtins.vars": Screen.call_vars,
    "builtins.globals": Screen.call_globals,
    "builtins.locals": Screen.call_globals,
    "builtins.__import__": Screen.call_import,
    "importlib.__import__": Screen.call_import,
    "importlib.import_module": Screen.call_import,
}
FOLDS = {"BinOp": Screen.fold_binop, "JoinedStr": Screen.fold_joined, "Call": Screen.fold_call, "Name": Screen.fold_name}


def path(parts):
    """As os.path.join: an absolute part begins anew."""
    text = ""
    for part in parts:
        text = part if not text or part[:1] == "/" else text + part if text[-1:] == "/" else text + "/" + part
    return text


def find_path(text, word):
    """Where a text names a file below /word: the offset, or None. Not in a longer path (/usr/etc), nor behind what is not known."""
    at = text.find(word)
    while at >= 0:
        end, i = at + len(word), at - 1
        if i >= 0 and text[i] == "/" and not (text[end : end + 1].isalnum() or text[end : end + 1] in tuple("_-.")):
            while i >= 0 and (text[i] == "/" or (text[i] == "." and text[i - 1 : i] == "/")):
                i -= 1
            if text[max(i - 1, 0) : i + 1] == "..":
                return i - 1
            if i < 0 or not (text[i].isalnum() or text[i] in "_-.~})]\0"):
                return i + 1
        at = text.find(word, end)
    return None
