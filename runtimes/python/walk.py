"""The first pass over the syntax tree: scopes, what is bound in them, and everything that the second pass asks about."""


class Walk:
    def __init__(self, rules):
        self.rules = rules
        self.hits = {}  # rule -> (line, reason)
        self.refs, self.opens, self.texts = [], [], []
        self.quiet, self.called, self.inside = set(), set(), set()
        self.scopes = []
        self.memo, self.folds, self.busy, self.last = {}, {}, set(), {}
        self.escaped, self.loose = {}, []  # modules handed on -> line; attributes of what is not known
        self.imported, self.lasts = set(), {}
        self.depth, self.cut = 0, False

    # --- what was found ---

    def hit(self, rules, line, reason):
        for rule in rules:
            if rule not in self.hits or line < self.hits[rule][0]:
                self.hits[rule] = (line, reason)

    def hit_name(self, rules, node, name):
        shown = name[9:] if name.startswith("builtins.") else name
        seen = spell(node)
        verb = "calls " if id(node) in self.called else "uses "
        self.hit(rules, node.lineno, verb + shown + (" (as " + seen + ")" if seen not in (shown, name) else ""))

    def hit_import(self, module, node):
        self.imported.add(module.split(".")[0])
        parts = module.split(".")[:6]
        for i in range(1, len(parts) + 1):
            rules = self.rules.imports.get(".".join(parts[:i]))
            if rules:
                self.hit(rules, node.lineno, "imports " + module)

    def hit_all(self, line, reason):
        """What cannot be decided."""
        self.hit(self.rules.block, line, reason)

    # --- the walk ---

    def walk(self, tree):
        module = Scope("module", None)
        self.module = module
        self.scopes.append(module)
        for node in tree.body:
            for name in surely_bound(node):
                module.firm.setdefault(name, node.lineno)
        stack = [(tree, module)]
        while stack:
            node, scope = stack.pop()
            handler = HANDLERS.get(node.__class__.__name__)
            if handler:
                handler(self, node, scope, stack)
            else:
                push(stack, node, scope)
        for scope in self.scopes:
            self.redirect(scope)

    def redirect(self, scope):
        """Names declared global or nonlocal are bound elsewhere."""
        for name, where in scope.outer or ():
            target = self.module
            if where == "Nonlocal" and scope.parent:
                target = scope.parent
                while target.parent and (target.kind == "class" or name not in target.names):
                    target = target.parent
            if target is not scope:
                target.names.setdefault(name, []).extend(scope.names.pop(name, ()))

    def escape(self, module, line):
        self.escaped[module] = min(line, self.escaped.get(module, line))

    def bind(self, scope, name, value):
        scope.names.setdefault(name, []).append(value)

    def bind_target(self, target, value, scope, stack):
        kind = target.__class__.__name__
        if kind == "Name":
            self.bind(scope, target.id, (value, scope))
            if scope.kind != "class":
                self.quiet.add(id(value))
        elif kind in ("Tuple", "List") and value.__class__.__name__ in ("Tuple", "List") and len(target.elts) == len(value.elts) and not any(
            e.__class__.__name__ == "Starred" for e in target.elts + value.elts
        ):
            for one, its in zip(target.elts, value.elts):
                self.bind_target(one, its, scope, stack)
        else:
            stack.append((target, scope))

    def on_Assign(self, node, scope, stack):
        for target in node.targets:
            self.bind_target(target, node.value, scope, stack)
        stack.append((node.value, scope))

    def on_AnnAssign(self, node, scope, stack):
        stack.append((node.annotation, scope))
        if node.value is None:
            return
        self.bind_target(node.target, node.value, scope, stack)
        stack.append((node.value, scope))

    def on_NamedExpr(self, node, scope, stack):
        home = scope
        while home.kind == "comprehension":
            home = home.parent
        self.bind(home, node.target.id, (node.value, scope))
        self.quiet.add(id(node.value))
        stack.append((node.value, scope))

    def on_Expr(self, node, scope, stack):
        if node.value.__class__.__name__ not in ("Constant", "Str"):  # a text alone is a comment
            self.quiet.add(id(node.value))
            stack.append((node.value, scope))

    def on_Delete(self, node, scope, stack):
        for target in node.targets:
            if target.__class__.__name__ == "Name":
                scope.deleted.add(target.id)
            else:
                stack.append((target, scope))

    def on_Global(self, node, scope, stack):
        scope.outer = tuple(scope.outer) + tuple((name, node.__class__.__name__) for name in node.names)

    on_Nonlocal = on_Global

    def on_Import(self, node, scope, stack):
        for alias in node.names:
            module = canonical(alias.name)
            self.hit_import(alias.name, node)
            top = canonical(alias.name.split(".")[0])
            self.bind(scope, alias.asname or alias.name.split(".")[0], module if alias.asname else top)
            if scope.kind == "class":
                self.escape(top, node.lineno)

    def on_ImportFrom(self, node, scope, stack):
        module = canonical(node.module or "")
        for alias in node.names:
            if node.level:
                self.bind(scope, alias.asname or alias.name, "?")
            elif alias.name == "*":
                self.hit_import(node.module, node)
                self.module.stars.append(module)
            else:
                self.hit_import(node.module + "." + alias.name, node)
                self.bind(scope, alias.asname or alias.name, canonical(module + "." + alias.name))

    def function(self, node, scope, stack, body):
        inner = Scope("function", scope)
        self.scopes.append(inner)
        a = node.args
        plain = a.posonlyargs + a.args
        defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
        for arg, default in list(zip(plain, defaults)) + list(zip(a.kwonlyargs, a.kw_defaults)) + [(a.vararg, None), (a.kwarg, None)]:
            if arg is None:
                continue
            self.bind(inner, arg.arg, "?")
            if arg.annotation:
                stack.append((arg.annotation, scope))
            if default:
                self.bind(inner, arg.arg, (default, scope))
                self.quiet.add(id(default))
                stack.append((default, scope))
        stack.extend((one, inner) for one in body)

    def on_FunctionDef(self, node, scope, stack):
        self.bind(scope, node.name, "?")
        stack.extend((one, scope) for one in node.decorator_list)
        if node.returns:
            stack.append((node.returns, scope))
        self.function(node, scope, stack, node.body)

    on_AsyncFunctionDef = on_FunctionDef

    def on_Lambda(self, node, scope, stack):
        self.function(node, scope, stack, [node.body])

    def on_ClassDef(self, node, scope, stack):
        self.bind(scope, node.name, "?")
        inner = Scope("class", scope)
        self.scopes.append(inner)
        stack.extend((one, scope) for one in node.decorator_list + node.bases)
        stack.extend((one.value, scope) for one in node.keywords)
        stack.extend((one, inner) for one in node.body)

    def on_ListComp(self, node, scope, stack):
        inner = Scope("comprehension", scope)
        self.scopes.append(inner)
        push(stack, node, inner)

    on_SetComp = on_DictComp = on_GeneratorExp = on_ListComp

    def on_ExceptHandler(self, node, scope, stack):
        if node.name:
            self.bind(scope, node.name, "?")
        push(stack, node, scope)

    def on_MatchAs(self, node, scope, stack):
        if node.name:
            self.bind(scope, node.name, "?")
        push(stack, node, scope)

    on_MatchStar = on_MatchAs

    def on_MatchMapping(self, node, scope, stack):
        if node.rest:
            self.bind(scope, node.rest, "?")
        push(stack, node, scope)

    def on_Name(self, node, scope, stack):
        if node.ctx.__class__.__name__ == "Load":
            self.refs.append((node, scope))
        else:
            self.bind(scope, node.id, "?")

    def on_Attribute(self, node, scope, stack):
        self.quiet.add(id(node.value))
        if node.ctx.__class__.__name__ == "Load":
            self.refs.append((node, scope))
        stack.append((node.value, scope))

    def on_Subscript(self, node, scope, stack):
        self.quiet.add(id(node.value))
        self.refs.append((node, scope))
        stack.append((node.value, scope))
        stack.append((node.slice, scope))

    def on_Call(self, node, scope, stack):
        self.called.add(id(node.func))
        self.quiet.add(id(node.func))
        self.refs.append((node, scope))
        if self.rules.paths and id(node) not in self.inside and (node.args or node.func.__class__.__name__ == "Attribute"):
            self.text(node, scope)
        push(stack, node, scope)

    def on_Compare(self, node, scope, stack):
        self.quiet.update(map(id, node.comparators))
        self.quiet.add(id(node.left))
        push(stack, node, scope)

    def on_Constant(self, node, scope, stack):
        if id(node) not in self.inside and node.value.__class__ in (str, bytes):
            self.texts.append((node, scope))

    on_Str = on_Bytes = on_Constant

    def text(self, node, scope):
        """An expression that may put a text together: its pieces are not looked at by themselves."""
        self.texts.append((node, scope))

    def on_BinOp(self, node, scope, stack):
        if self.rules.paths and id(node) not in self.inside and node.op.__class__.__name__ in ("Add", "Div", "Mod"):
            self.text(node, scope)
            one = node
            while one.__class__.__name__ == "BinOp":  # the same text: once is enough
                self.inside.add(id(one.left))
                self.inside.add(id(one.right))
                one = one.left
        push(stack, node, scope)

    def on_JoinedStr(self, node, scope, stack):
        if self.rules.paths and id(node) not in self.inside:
            self.text(node, scope)
        for one in node.values:
            self.inside.add(id(one))
            if one.__class__.__name__ == "FormattedValue":
                self.inside.add(id(one.value))
        push(stack, node, scope)


def push(stack, node, scope):
    for field in node._fields:
        value = getattr(node, field, None)
        if value.__class__ is list:
            for one in value:
                if getattr(one, "_fields", None):  # None in a dictionary of **, a name of global; Load and Add have no fields
                    stack.append((one, scope))
        elif getattr(value, "_fields", None):
            stack.append((value, scope))


def spell(node):
    """An expression as it could be written, in short."""
    parts = []
    while len(parts) < 8:
        kind = node.__class__.__name__
        if kind == "Attribute":
            parts.append("." + node.attr)
            node = node.value
        elif kind == "Call":
            parts.append("(...)")
            node = node.func
        elif kind == "Subscript":
            parts.append("[...]")
            node = node.value
        else:
            parts.append(node.id if kind == "Name" else "...")
            break
    text = "".join(reversed(parts))
    return text if len(text) <= 48 else text[:45] + "..."


def surely_bound(node):
    kind = node.__class__.__name__
    if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
        return [node.name]
    if kind == "Assign":
        return [one.id for one in node.targets if one.__class__.__name__ == "Name"]
    if kind in ("Import", "ImportFrom"):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return []
