"""The end of a script in a warm interpreter: everything of Py_FinalizeEx() that a script can notice, and nothing else.

A whole finalisation would take apart modules and types that the zygote has loaded, page by page of memory that was shared until
then: more than most scripts cost. So this joins threads, calls what was registered with atexit, flushes, lets go of the script's
own objects in the order of CPython, and ends the process. Deliberately not done:

- the modules of the zygote are not taken apart, nor are types, interned texts, the allocator, the runtime itself; what a script has
  put into one of these modules is let go of, but not what hides in a cache of theirs (functools.lru_cache, re, a registry)
- sys.is_finalizing() stays False, and signals keep their Python handlers until the end
- daemon threads are not stopped before the process is: they get no processor any more unless the end waits for something
- exit functions of C libraries run only if the script has loaded an extension module, buffers of C streams are always written

Generators, because whatever may run code of the script is yielded to beneath.c: then no frame of ours is beneath it.
"""

import _signal
import _thread
import _weakref
import atexit
import builtins
import gc

import _glovebox

KEPT = sys.modules  # the interpreter's own, whatever a script puts in its place
FLUSH_FAILED, INTERRUPTED = 120, 130
# Attributes of sys that go first, since they could keep the script's objects alive.
GONE = ("path", "argv", "ps1", "ps2", "last_exc", "last_type", "last_value", "last_traceback", "path_hooks", "path_importer_cache", "meta_path",
        "__interactivehook__")  # fmt: skip


def generator():
    yield


def harmless_types():
    """Types of which no object does anything when it is let go of."""
    def outer():
        return generator, lambda: outer

    try:
        raise KeyError
    except KeyError as e:
        trace = e.__traceback__
    values = [generator, len, [].append, generator.__get__(0), outer.__closure__[0], generator.__code__, trace, trace.tb_frame, sys.flags, type.__dict__,
              type.__dict__["__mro__"], list.append, list.__add__, [].__add__, {}.keys(), {}.items(), {}.values()]  # fmt: skip
    values += [iter(one) for one in ([], (), {}, set(), "", {}.items(), {}.values(), generator.__code__.co_code)]
    errors = {one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, BaseException)}
    return errors.union(map(type, values), (bytearray, classmethod, dict, enumerate, filter, frozenset, list, map, memoryview, property, reversed, set,
                                            slice, staticmethod, super, tuple, zip))  # fmt: skip


TYPES = harmless_types()
HARMLESS = frozenset(map(id, TYPES))  # as addresses: a class may have a hash of its own, which would be code of the script's
GENERATOR, WEAK = type(generator()), _weakref.ref
NOTHING, SILENT, SPEAKING = range(3)


def plain_end():
    """What beneath.c asks for at the end of each script. Before 3.10 each object of the module atexit has functions of its own."""
    threading = KEPT.get("threading")
    functions = (atexit._ncallbacks, atexit._run_exitfuncs) if sys.version_info >= (3, 10) else (None, None)
    exits = threading._threading_atexits if threading else []
    return KEPT, *functions, threading, exits, len(exits), _thread._count, _thread._count(), gc.get_objects, HARMLESS, sys.stdout, sys.stderr


def speaks(kind):
    """Does an object of this class run code when it goes? Classes with the interpreter's own code for that, as files, count as well:
    it calls methods, warns, and what not."""
    return issubclass(kind, WEAK) or any("__del__" in type.__getattribute__(one, "__dict__") for one in type.__getattribute__(kind, "__mro__"))


def left(own=()):
    """What a script leaves behind: nothing that would notice its end, something that goes in silence, something that speaks. Objects of the
    zygote are not asked: they are frozen."""
    objects = gc.get_objects()
    odd = set(map(id, map(type, objects))).difference(HARMLESS, map(id, own))
    if id(WEAK) in odd and not any(type(one) is WEAK and one.__callback__ is not None for one in objects):
        odd.discard(id(WEAK))
    kinds = {}
    for one in objects if odd else ():
        if id(type(one)) in odd:
            kinds[id(type(one))] = type(one)
            if issubclass(type(one), type) and speaks(one):  # perhaps it has objects that are in no collection
                return SPEAKING
    if any(map(speaks, kinds.values())):
        return SPEAKING
    return SILENT if kinds else NOTHING


def unraisable_type():
    """What a hook for exceptions that nobody can catch is called with; it has no name."""
    found = []
    hook, sys.unraisablehook = sys.unraisablehook, found.append
    _glovebox.unraisable(ValueError(), None)
    sys.unraisablehook = hook
    return type(found[0])


UNRAISABLE = unraisable_type()


# --- how it ends ---


def exit_code(error):
    """What the interpreter makes of SystemExit."""
    try:
        value = error.code
    except BaseException:
        value = error
    error = None
    if value is None:
        return 0
    if isinstance(value, int):
        return int.__and__(value, 255) if -(1 << 63) <= int.__add__(value, 0) < 1 << 63 else 255
    text, failure = yield str, value
    stream = getattr(sys, "stderr", None)
    for piece in ("" if failure else text, "\n"):
        _, error = (yield stream.write, piece) if stream is not None else (None, True)
        if error and (stream is None or piece == "\n"):
            posix.write(2, os.fsencode(piece))
    return 1


def flush_streams():
    """Returns whether it succeeded."""
    good = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None:
            continue
        closed, _ = yield getattr, stream, "closed", False
        if closed:
            continue
        flush, error = yield getattr, stream, "flush"
        if not error:
            _, error = yield (flush,)
        if error:
            good = False
            if name == "stdout" and sys.version_info < (3, 13):
                yield _glovebox.unraisable, error, stream
            elif name == "stdout":
                yield sys.unraisablehook, UNRAISABLE((type(error), error, error.__traceback__, "Exception ignored on flushing sys.stdout", None))
    return good


def run_exit_functions():
    threading = KEPT.get("threading")
    if threading is not None:
        shutdown, error = yield getattr, threading, "_shutdown"
        if not error:
            _, error = yield (shutdown,)
        if error:
            yield _glovebox.unraisable, error, threading
    # Before 3.10 each module object has functions of its own.
    module = atexit if sys.version_info >= (3, 10) else KEPT.get("atexit")
    if module is not None:
        yield (module._run_exitfuncs,)


# --- the script's own objects ---


def has_extension(own):
    return any(isinstance(vars(module).get("__file__"), str) and vars(module)["__file__"].endswith(".so") for module in own)


def own_modules(kept):
    return [KEPT[name] for name in _glovebox.strangers(KEPT, kept) if isinstance(KEPT[name], type(sys))]


def let_go_in_silence(kept):
    """Nobody notices in which order."""
    has_libraries = has_extension(own_modules(kept))
    for name in _glovebox.strangers(KEPT, kept):
        KEPT[name] = None
    for name in GONE[4:8]:
        setattr(sys, name, None)
    gc.collect()
    return has_libraries


def let_go(kept):
    """As finalize_modules(). `kept` has the zygote's modules with copies of their namespaces. Whether C libraries have come is returned."""
    yield (gc.collect,)
    yield setattr, builtins, "_", None
    for name in GONE:
        yield setattr, sys, name, None
    for name in ("stdin", "stdout", "stderr"):
        yield setattr, sys, name, getattr(sys, "__%s__" % name, None)
    own = own_modules(kept)
    has_libraries = has_extension(own)
    own = [_weakref.ref(module) for module in own]
    for name in list(KEPT):
        yield KEPT.__setitem__, name, None
    KEPT.clear()
    yield from restore(vars(builtins), kept[id(builtins)][1])
    yield (gc.collect,)
    for reference in reversed(own):
        yield from clear_module(reference)
    own = reference = None
    if left((GENERATOR,)):  # something is left: perhaps it hangs on a module of the zygote
        for module, names in reversed([one for one in kept.values() if one[0] not in (sys, builtins)]):
            if is_changed(vars(module), names):
                yield from clear_names(vars(module))
        yield from clear_names(vars(sys))
        yield (gc.collect,)
    return has_libraries


def clear_module(reference):
    """One that something else still refers to."""
    module = reference()
    if module is not None:
        space, module = vars(module), None
        yield from clear_names(space)


def clear_names(space):
    """As _PyModule_ClearDict()."""
    for names in ([name for name in space if name[:1] == "_" and name[1:2] != "_"], list(space)):
        for name in names:
            if name != "__builtins__" and space.get(name) is not None:
                yield space.__setitem__, name, None


def is_changed(space, names):
    return len(space) != len(names) or any(names.get(name, space) is not value for name, value in space.items())


def restore(space, names):
    """What was changed, or was not there."""
    for name in list(space):
        if name not in names:
            yield space.pop, name
        elif names[name] is not space[name]:
            yield space.__setitem__, name, names[name]


# --- all of it ---


def finish(slot, kept, threads):
    """`slot` has what beneath.c says of the script, and its namespace. Made before the zygote's objects are frozen, so that it is one of them."""
    end, space = slot
    slot[:] = ("begun",)
    leave, interrupted = _glovebox.leave, end is KeyboardInterrupt
    if end is None or end is False or interrupted:
        code = 0 if end is None else 1
        space.pop("__file__", None)
        space.pop("__cached__", None)
    else:
        code = yield from exit_code(end)
    end = space = None
    yield (bool,)  # when beneath.c gets this, the exception, with all that it keeps alive, is let go of
    yield from run_exit_functions()
    if _thread._count() > threads:
        # Those that are left are daemons, for which no native interpreter waits. Not for ever: one that computes would
        # not give back what it gets while we write.
        sys.setswitchinterval(0.05)
    if not (yield from flush_streams()):
        code = FLUSH_FAILED
    rest, has_libraries = left(), False
    if rest is SILENT:
        has_libraries = let_go_in_silence(kept)
    elif rest is SPEAKING:
        has_libraries = yield from let_go(kept)
    for stream in STREAMS:  # at whose own end nobody asks any more whether they could be written
        yield stream.flush,
    if interrupted:
        die()
    leave(code, has_libraries)


def die(signal=_signal.signal, number=_signal.SIGINT, usual=_signal.SIG_DFL, kill=posix.kill, own=posix.getpid, leave=_glovebox.leave):
    """As whoever sent the interrupt expects. With names of its own: those of modules may be gone."""
    signal(number, usual)
    kill(own(), number)
    leave(INTERRUPTED, False)
