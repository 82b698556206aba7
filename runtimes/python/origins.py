"""The second pass: where each reference comes from, and whether a rule speaks of it."""


class Origins(Walk):
    def ask(self):
        self.settle()
        for node, scope in self.refs:
            self.ask_one(node, scope)
        for node, scope in reversed(self.texts):
            self.ask_text(node, scope)
        for node in self.loose:
            self.ask_loose(node)
        for module, line in self.escaped.items():
            if module in self.rules.wild:
                self.hit(self.rules.wild[module], line, "hands on " + module)

    def settle(self):
        """Asks every reference once, in the order of the text. Names that are bound to each other need a few rounds."""
        for _ in range(ROUNDS):
            self.cut = False
            for node, scope in reversed(self.refs):
                self.origins(node, scope)
            if not self.cut:
                return
            last = {(id(scope), name): found for scope in self.scopes for name, found in scope.known.items()}
            if last == self.last:
                return
            self.last = last
            self.memo.clear()
            for scope in self.scopes:
                scope.known.clear()
        raise Undecided(1)

    def ask_one(self, node, scope):
        kind = node.__class__.__name__
        found = self.origins(node, scope)
        if kind == "Call":
            if self.rules.writes:
                self.ask_open(node, scope)
            if found == self.origins(node.func, scope):
                return  # the function is a reference of its own
        for origin in found:
            if origin == "?":
                self.loose.append(node)
            elif origin:
                self.match(node, origin)
                if origin in self.rules.prefixes and id(node) not in self.quiet and kind != "Call":
                    self.escape(origin, node.lineno)

    def match(self, node, origin):
        rules = self.rules.calls.get(origin)
        if rules:
            self.hit_name(rules, node, origin)
        at = origin.find(".")
        while at > 0:
            rules = self.rules.wild.get(origin[:at])
            if rules:
                self.hit_name(rules, node, origin)
            at = origin.find(".", at + 1)

    def ask_loose(self, node):
        """An attribute of something unknown, which could be a module that was handed on."""
        if node.__class__.__name__ != "Attribute":
            return
        for parts, rules in self.ending(node.attr):
            method = len(parts) > 2 and parts[-2][:1].isupper()
            if (parts[0] in self.imported) if method else (".".join(parts[:-1]) in self.escaped):
                self.hit_name(rules, node, ".".join(parts))

    def ending(self, last):
        if last not in self.lasts:
            self.lasts[last] = self.rules.with_last(last)
        return self.lasts[last]

    def origins(self, node, scope):
        chain = []
        self.depth += 1
        if self.depth > DEEPEST:
            raise Undecided(node.lineno)
        while True:
            found = self.memo.get(id(node))
            if found is not None:
                break
            kind = node.__class__.__name__
            if kind == "Attribute" or kind == "Subscript":
                chain.append(node)
                node = node.value
            elif kind == "Call":
                chain.append(node)
                node = node.func
            elif kind == "NamedExpr" or kind == "Await":
                node = node.value
            elif kind == "Name":
                found = self.lookup(scope, node)
                break
            elif kind == "IfExp":
                found = join([self.origins(node.body, scope), self.origins(node.orelse, scope)])
                break
            elif kind == "BoolOp":
                found = join([self.origins(one, scope) for one in node.values])
                break
            elif kind == "BinOp" and node.op.__class__.__name__ == "Div":
                chain.append(node)  # a path, perhaps
                node = node.left
            else:
                found = ("",) if kind in ("Constant", "Str", "Num", "JoinedStr", "BinOp", "Compare") else ("?",)
                break
        for node in reversed(chain):
            self.memo[id(node)] = found = self.step(node, found, scope)
        self.depth -= 1
        return found

    def step(self, node, base, scope):
        kind = node.__class__.__name__
        if kind == "Attribute":
            return self.each(base, node.attr)
        if kind == "Subscript":
            return self.subscript(base, node.slice, scope)
        if kind == "Call":
            return self.call(node, base, scope)
        return base  # a path divided

    def each(self, base, name):
        if base == ("",) and name.strip("_") not in REACHED and name not in ("__globals__", "__builtins__"):
            return base
        return join([self.attribute(origin, name) for origin in base])

    def attribute(self, origin, name):
        if name == "__globals__":
            return ("globals()",)
        if name == "__builtins__":
            return ("builtins",)
        if origin == "?":
            return ("?",)
        if origin == ANY:
            return tuple(".".join(parts) for parts, _ in self.ending(name) if len(parts) == 2) or ("?",)
        if name == "__dict__" or name == "__class__":
            return (origin,)
        if name == "__self__" and origin.startswith("builtins."):
            return ("builtins",)
        if origin == "__main__" or origin == "globals()":
            return self.of_module(name)
        if origin == "sys.modules":
            return ("?",) if name in GETTERS else ("",)
        new = canonical(origin + "." + name) if origin else ""
        if origin and self.rules.keeps(new):
            return (new,)
        if name.strip("_") in REACHED:
            return (canonical(name.strip("_")),)
        return ("",)

    def member(self, base, name, node):
        """base["name"], where base may be the dictionary of a module; name None: computed."""
        found = []
        for origin in base:
            if origin == "sys.modules":
                if name is None:
                    found.append((ANY,))
                else:
                    self.hit_import(name, node)
                    found.append((canonical(name),))
            elif name is None:
                found.append(("?",))
                if origin in self.rules.prefixes:
                    self.computed(node, origin)
            else:
                found.append(self.attribute(origin, name))
        return join(found)

    def computed(self, node, origin):
        if origin == "globals()" or origin == "__main__":
            return
        for name, rules in self.rules.calls.items():
            if name.rpartition(".")[0] == origin:
                self.hit(rules, node.lineno, "takes a name that it computes from " + origin)
        if origin in self.rules.wild:
            self.hit(self.rules.wild[origin], node.lineno, "takes a name that it computes from " + origin)

    def subscript(self, base, index, scope):
        if index.__class__.__name__ == "Index":  # before Python 3.9
            index = index.value
        if not any(origin for origin in base):
            return base
        if not any(origin in self.rules.prefixes for origin in base):
            return ("?",)
        return self.member(base, self.constant(index, scope), index)

    def call(self, node, base, scope):
        func, args = node.func, node.args
        kind = func.__class__.__name__
        found = []
        if kind == "Attribute" and args and func.attr in GETTERS:
            found.append(self.get(node, func, args, scope))
        elif base == ("",):
            return ("?",)
        if kind == "Call" and args:
            found.append(self.getter(func, args[0], scope))
        for origin in base:
            handler = CALLS.get(origin)
            found.append(handler(self, node, args, scope) if handler else (origin,) if origin in self.rules.prefixes else ("?",))
        return join(found)

    def get(self, node, func, args, scope):
        """os.__dict__.get("system"), object.__getattribute__(os, "system")"""
        owner, name = (args[0], args[1]) if func.attr[:2] == "__" and len(args) > 1 else (func.value, args[0])
        base = self.origins(owner, scope)
        if not any(origin in self.rules.prefixes for origin in base):
            return ()
        self.quiet.add(id(owner))
        return self.member(base, self.constant(name, scope), node)

    def getter(self, func, arg, scope):
        """operator.attrgetter("system")(os)"""
        made = self.origins(func.func, scope)
        if func.args and ("operator.attrgetter" in made or "operator.methodcaller" in made):
            return self.member(self.origins(arg, scope), self.constant(func.args[0], scope), func)
        return ()

    def call_getattr(self, node, args, scope):
        if not args:
            return ("?",)
        self.quiet.add(id(args[0]))
        return self.member(self.origins(args[0], scope), self.constant(args[1], scope) if len(args) > 1 else None, node)

    def call_vars(self, node, args, scope):
        if not args:
            return ("globals()",)
        return self.origins(args[0], scope)

    def call_globals(self, node, args, scope):
        return ("globals()",)

    def call_import(self, node, args, scope):
        given = args[0] if args else next((k.value for k in node.keywords if k.arg == "name"), None)
        name = self.constant(given, scope) if given is not None else None
        if name is None:
            return (ANY,)
        self.hit_import(name, node)
        whole = canonical(name)
        if "." in name and "importlib.import_module" not in self.origins(node.func, scope) and len(args) < 4 and not node.keywords:
            whole = canonical(name.split(".")[0])
        return (whole,)

    # --- names ---

    def lookup(self, scope, node):
        name = node.id
        here, found = scope, []
        while here.parent:
            if (here.kind != "class" or here is scope) and name in here.names:
                found.append(self.values(here, name))
                if here.kind != "class":
                    return join(found)
            here = here.parent
        if name in here.names:
            found.append(self.values(here, name))
            if here.firm.get(name, node.lineno) < node.lineno and name not in here.deleted:
                return join(found)
        return join(found + self.builtin(name))

    def builtin(self, name):
        if name == "__builtins__":
            return [("builtins",)]
        found = [(module + "." + name,) for module in self.module.stars if self.rules.keeps(module + "." + name)]
        return found + [("builtins." + name,)]

    def of_module(self, name):
        if name in self.module.names:
            return self.values(self.module, name)
        return join(self.builtin(name))

    def values(self, scope, name):
        known = scope.known.get(name)
        if known is not None:
            return known
        key = (id(scope), name)
        if key in self.busy:  # x = y, y = x: what the last round found
            self.cut = True
            return self.last.get(key, ())
        self.busy.add(key)
        found = []
        for value in scope.names[name]:
            found.append((value if value == "?" or self.rules.keeps(value) else "",) if value.__class__ is str else self.origins(*value))
        self.busy.discard(key)
        scope.known[name] = known = join(found)
        return known


def join(found):
    if len(found) == 1:
        return found[0]
    all_of_them = tuple({origin: None for one in found for origin in one})
    if len(all_of_them) > ORIGINS:
        raise Undecided(1)
    return all_of_them
