#include "zygote/beneath.h"

#include "zygote/words.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_INPUT 257 /* Py_file_input, of Python's grammar */

extern PyObject *PyRun_FileExFlags(FILE *fp, const char *filename, int start, PyObject *globals,
                                   PyObject *locals, int closeit, void *flags);

/* --- calls with nothing beneath them --- */

/* Functions that trace or profile a script would see the bootstrap go on after it. */
struct watchers {
    PyObject *get[2], *set[2]; /* of sys, as they were before any script could replace them */
    PyObject *kept[2];         /* None most of the time */
};

static int watchers_find(struct watchers *w)
{
    static const char *const names[][2] = {{"gettrace", "settrace"}, {"getprofile", "setprofile"}};
    for (int i = 0; i < 2; i++) {
        w->get[i] = PySys_GetObject(names[i][0]);
        w->set[i] = PySys_GetObject(names[i][1]);
        if (!w->get[i] || !w->set[i]) {
            PyErr_SetString(PyExc_RuntimeError, "sys has no functions for tracing");
            return -1;
        }
        Py_INCREF(w->get[i]);
        Py_INCREF(w->set[i]);
        w->kept[i] = NULL;
    }
    return 0;
}

static int watchers_put(struct watchers *w)
{
    for (int i = 0; i < 2; i++) {
        PyObject *done = w->kept[i] ? PyObject_CallFunctionObjArgs(w->set[i], w->kept[i], NULL) : Py_None;
        if (!done)
            return -1;
        if (w->kept[i])
            Py_DECREF(done);
        Py_CLEAR(w->kept[i]);
    }
    return 0;
}

static int watchers_take(struct watchers *w)
{
    for (int i = 0; i < 2; i++) {
        PyObject *now = PyObject_CallFunctionObjArgs(w->get[i], NULL), *done;
        if (!now)
            return -1;
        if (now == Py_None) {
            Py_DECREF(now);
            continue;
        }
        w->kept[i] = now;
        done = PyObject_CallFunctionObjArgs(w->set[i], Py_None, NULL);
        if (!done)
            return -1;
        Py_DECREF(done);
    }
    return 0;
}

/* The exception that is set, as an object with its traceback; it is not set any more. */
static PyObject *take_error(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* One step: what is sent back is a pair, the result and the exception, one of which is None. */
static PyObject *step(PyObject *item)
{
    PyObject *function = PyTuple_GetItem(item, 0);
    PyObject *arguments = function ? PyTuple_GetSlice(item, 1, PyTuple_Size(item)) : NULL;
    PyObject *result = arguments ? PyObject_CallObject(function, arguments) : NULL;
    PyObject *error = result ? NULL : take_error();
    PyObject *pair = PyTuple_Pack(2, result ? result : Py_None, error ? error : Py_None);
    Py_XDECREF(arguments);
    Py_XDECREF(result);
    Py_XDECREF(error);
    return pair;
}

/* Returns when the generator ends or raises. In a thread that it was started in by _thread.start_new_thread
 * there is no Python frame beneath it; the interpreter counts the call of this function itself as one level
 * of recursion, which a native script does not have beneath it. */
static PyObject *run(PyObject *module, PyObject *steps)
{
    (void)module;
    struct watchers watchers;
    if (watchers_find(&watchers))
        return NULL;
    Py_LeaveRecursiveCall();
    PyObject *item = PyObject_CallMethod(steps, "send", "(O)", Py_None);
    while (item) {
        PyObject *pair = watchers_put(&watchers) ? NULL : step(item);
        Py_DECREF(item);
        if (!pair || watchers_take(&watchers)) {
            Py_XDECREF(pair);
            break;
        }
        item = PyObject_CallMethod(steps, "send", "(O)", pair);
        Py_DECREF(pair);
    }
    if (Py_EnterRecursiveCall(" beneath a script"))
        return NULL;
    for (int i = 0; i < 2; i++) {
        Py_DECREF(watchers.get[i]);
        Py_DECREF(watchers.set[i]);
        Py_XDECREF(watchers.kept[i]);
    }
    return NULL;
}

/* --- how does it end most of the time? --- */

/* In C for the reason that words.c gives. */

/* strangers(modules, kept): names of modules whose address is not in `kept`. */
static PyObject *strangers(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *modules, *kept, *name, *value;
    if (!PyArg_ParseTuple(args, "O!O!:strangers", &PyDict_Type, &modules, &PyDict_Type, &kept))
        return NULL;
    PyObject *names = PyList_New(0);
    bool good = names != NULL;
    for (Py_ssize_t at = 0; good && PyDict_Next(modules, &at, &name, &value);) {
        PyObject *address = PyLong_FromVoidPtr(value);
        good = address && (PyDict_GetItemWithError(kept, address) || !PyList_Append(names, name));
        Py_XDECREF(address);
    }
    if (!good)
        Py_CLEAR(names);
    return names;
}

/* How a script can end without much being left to do; made by finish.py. */
struct plain_end {
    PyObject *modules; /* the interpreter's dictionary of modules */
    PyObject *callbacks,
            *exits;         /* atexit._ncallbacks and _run_exitfuncs, or None where there may be others */
    PyObject *threading;    /* the module, if the zygote has loaded it, or None */
    PyObject *thread_exits; /* the list of functions that it calls before it joins threads */
    Py_ssize_t thread_exit_count;
    PyObject *threads;     /* _thread._count */
    PyObject *own_threads; /* what it says if the script has none */
    PyObject *objects;     /* gc.get_objects */
    PyObject *harmless;    /* addresses of types of which no object does anything when it goes */
    PyObject *out, *err;   /* sys.stdout and sys.stderr, as they were */
};

static bool says(PyObject *function, PyObject *wanted)
{
    PyObject *number = PyObject_CallObject(function, NULL);
    const bool is = number && PyObject_RichCompareBool(number, wanted, Py_EQ) == 1;
    Py_XDECREF(number);
    return is;
}

static bool are_harmless(const struct plain_end *e)
{
    PyObject *objects = PyObject_CallObject(e->objects, NULL);
    if (!objects)
        return false;
    const PyTypeObject *last = NULL;
    bool good = true;
    const Py_ssize_t count = PyList_Size(objects);
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyTypeObject *type = Py_TYPE(PyList_GetItem(objects, i));
        if (type == last)
            continue;
        PyObject *address = PyLong_FromVoidPtr(type);
        good = address && PySet_Contains(e->harmless, address) == 1;
        Py_XDECREF(address);
        last = type;
    }
    Py_DECREF(objects);
    return good;
}

/* Whatever sys.stderr and sys.stdout are by now; an error comes up once more at the end. An exception that is
 * set stays so. */
static bool flush_streams(void)
{
    static const char *const names[] = {"stderr", "stdout"};
    PyObject *type, *value, *traceback;
    bool good = true;
    PyErr_Fetch(&type, &value, &traceback);
    for (int i = 0; i < 2; i++) {
        PyObject *stream = PySys_GetObject(names[i]), *done;
        if (!stream)
            continue;
        Py_INCREF(stream);
        done = PyObject_CallMethod(stream, "flush", NULL);
        good = good && done;
        Py_XDECREF(done);
        Py_DECREF(stream);
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
    return good;
}

/* No thread that would be joined, and nothing to be called before. */
static bool has_no_threads(const struct plain_end *e)
{
    PyObject *name = PyUnicode_FromString("threading");
    PyObject *threading = name ? PyDict_GetItemWithError(e->modules, name) : NULL;
    Py_XDECREF(name);
    return says(e->threads, e->own_threads) &&
           (!threading ||
            (threading == e->threading && PyList_Size(e->thread_exits) == e->thread_exit_count));
}

/* As the interpreter does it before it calls anything. */
static void forget_file(PyObject *space)
{
    static const char *const names[] = {"__file__", "__cached__"};
    for (int i = 0; i < 2; i++)
        if (PyDict_DelItemString(space, names[i]))
            PyErr_Clear();
}

/* No thread to be joined, no stream that cannot be flushed, no object that would notice: then all else that
 * the interpreter would do now is for itself alone. If it says no, what it has done already is not done
 * again. */
static bool ends_plainly(PyObject *plan, PyObject *space, PyObject *end)
{
    struct plain_end e;
    PyObject *zero = PyLong_FromLong(0), *called = NULL;
    bool plain = zero && PyArg_ParseTuple(plan, "O!OOOO!nOOOO!OO", &PyDict_Type, &e.modules, &e.callbacks,
                                          &e.exits, &e.threading, &PyList_Type, &e.thread_exits,
                                          &e.thread_exit_count, &e.threads, &e.own_threads, &e.objects,
                                          &PyFrozenSet_Type, &e.harmless, &e.out, &e.err);
    plain = plain && e.callbacks != Py_None && has_no_threads(&e) && PySys_GetObject("stdout") == e.out &&
            PySys_GetObject("stderr") == e.err;
    if (plain && !says(e.callbacks, zero)) {
        if (end == Py_None || end == Py_False)
            forget_file(space);
        called = PyObject_CallObject(e.exits, NULL);
        plain = called != NULL;
    }
    if (plain && (called || end == Py_False)) /* it, or a hook for errors, may have printed */
        plain = flush_streams();
    plain = plain && are_harmless(&e);
    Py_XDECREF(zero);
    Py_XDECREF(called);
    PyErr_Clear();
    return plain;
}

/* --- a script --- */

static PyObject *same(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* In place of a hook that has failed: raises the same once more. */
static PyObject *fail_again(PyObject *error, PyObject *args)
{
    (void)args;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    return NULL;
}

static PyMethodDef fail_again_method = {"excepthook", fail_again, METH_VARARGS, NULL};

/* As PyErr_Print() does; sys.last_exc is there since 3.12. */
static void set_last(PyObject *error, PyObject *traceback)
{
    const struct {
        const char *name;
        PyObject *value;
        long since;
    } last[] = {{"last_exc", error, 0x030c0000},
                {"last_type", (PyObject *)Py_TYPE(error), 0},
                {"last_value", error, 0},
                {"last_traceback", traceback, 0}};
    PyObject *version = PySys_GetObject("hexversion");
    const long now = version && PyLong_Check(version) ? PyLong_AsLong(version) : 0;
    for (size_t i = 0; i < sizeof(last) / sizeof(*last); i++)
        if (now >= last[i].since && PySys_SetObject(last[i].name, last[i].value))
            PyErr_Clear();
}

/* Prints the exception that is set, as PyErr_Print() does; but if a hook of the script's own ends in
 * SystemExit, that is returned, and not the end of the interpreter. NULL otherwise. */
static PyObject *print_error(void)
{
    PyObject *hook = PySys_GetObject("excepthook");
    if (!hook || hook == PySys_GetObject("__excepthook__")) {
        PyErr_Print();
        return NULL;
    }
    Py_INCREF(hook);
    PyObject *error = take_error(), *traceback = PyException_GetTraceback(error);
    if (!traceback)
        traceback = same(Py_None);
    set_last(error, traceback);
    PyObject *done = PyObject_CallFunctionObjArgs(hook, (PyObject *)Py_TYPE(error), error, traceback, NULL);
    PyObject *exit = NULL;
    if (!done) {
        PyObject *second = take_error();
        if (PyErr_GivenExceptionMatches(second, PyExc_SystemExit)) {
            exit = second;
        } else { /* the interpreter has words for this */
            PyObject *again = PyCFunction_New(&fail_again_method, second);
            PySys_SetObject("excepthook", again);
            PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            PyErr_Print();
            PySys_SetObject("excepthook", hook);
            Py_XDECREF(again);
            Py_DECREF(second);
        }
    }
    Py_XDECREF(done);
    Py_DECREF(hook);
    Py_DECREF(error);
    Py_DECREF(traceback);
    return exit;
}

/* What became of it; see script. */
static PyObject *run_file(FILE *file, const char *path, PyObject *space, bool *ret_flushed)
{
    PyObject *result = PyRun_FileExFlags(file, path, FILE_INPUT, space, space, 1, NULL);
    *ret_flushed = flush_streams();
    if (result) {
        Py_DECREF(result);
        return same(Py_None);
    }
    if (PyErr_ExceptionMatches(PyExc_SystemExit))
        return take_error();
    const bool interrupted = PyErr_Occurred() == PyExc_KeyboardInterrupt;
    PyObject *exit = print_error();
    return exit ? exit : same(interrupted ? PyExc_KeyboardInterrupt : Py_False);
}

/* The exit code, if it needs no more than a number: -1 otherwise. */
static int plain_code(PyObject *end)
{
    if (end == Py_None || end == Py_False)
        return end == Py_False;
    if ((PyObject *)Py_TYPE(end) != PyExc_SystemExit)
        return -1;
    PyObject *code = PyObject_GetAttrString(end, "code");
    const long value = !code ? -1 : code == Py_None ? 0 : PyLong_CheckExact(code) ? PyLong_AsLong(code) : -1;
    Py_XDECREF(code);
    PyErr_Clear();
    return value >= 0 && value <= 255 ? (int)value : -1;
}

/* script(name, namespace, source, plan): as pymain_run_file() does, read by the file tokenizer, run, errors
 * printed by sys.excepthook. What it returns: None if the script ended well, False if with an error,
 * KeyboardInterrupt if with that one, since then the process has to end by the signal; the exception if it
 * was SystemExit. To print the latter would be the end of the interpreter, with a finalisation that costs
 * more than most scripts. If there is a plan and the script ends plainly, the process has ended and nothing
 * is returned. OSError is raised if the file cannot be read. `source`, if not None, is read in place of the
 * file: the bootstrap warms up with it. */
static PyObject *script(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *name = NULL, *space, *source, *plan;
    if (!PyArg_ParseTuple(args, "O&O!OO:script", PyUnicode_FSConverter, &name, &PyDict_Type, &space, &source,
                          &plan))
        return NULL;
    const char *path = PyBytes_AsString(name);
    FILE *file = source != Py_None ? fmemopen(PyBytes_AsString(source), (size_t)PyBytes_Size(source), "r")
                                   : fopen(path, "rbe");
    if (!file) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
        Py_DECREF(name);
        return NULL;
    }
    bool flushed = false;
    Py_LeaveRecursiveCall(); /* of this function, as in run */
    PyObject *end = run_file(file, path, space, &flushed);
    Py_DECREF(name);
    if (Py_EnterRecursiveCall(" after a script")) {
        Py_DECREF(end);
        return NULL;
    }
    const int code = flushed && plan != Py_None ? plain_code(end) : -1;
    if (code >= 0 && ends_plainly(plan, space, end)) {
        fflush(NULL);
        _exit(code);
    }
    return end;
}

/* --- the end --- */

/* What the interpreter prints of an exception that nobody can catch any more. */
static PyObject *unraisable(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *error, *object;
    if (!PyArg_ParseTuple(args, "OO:unraisable", &error, &object))
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    PyErr_WriteUnraisable(object);
    Py_RETURN_NONE;
}

/* Ends the process. What C libraries have buffered is written in any case; their own exit functions run only
 * if the script has loaded any. */
static PyObject *leave(PyObject *module, PyObject *args)
{
    (void)module;
    int code, whole;
    if (!PyArg_ParseTuple(args, "ip:leave", &code, &whole))
        return NULL;
    if (whole)
        exit(code);
    fflush(NULL);
    _exit(code);
}

/* Symbols that a fork is the first to need, in the library and in the program: looked up in each child they
 * cost a dozen page faults. */
static void bind_symbols(void)
{
    Py_tss_t *key = PyThread_tss_alloc();
    if (key && !PyThread_tss_create(key))
        PyThread_tss_delete(key);
    PyThread_tss_free(key);
}

int gb_beneath_add(PyObject *module)
{
    static PyMethodDef methods[] = {{"run", run, METH_O, "run(steps)"},
                                    {"strangers", strangers, METH_VARARGS, "strangers(modules, kept)"},
                                    {"script", script, METH_VARARGS, "script(name, namespace, source, plan)"},
                                    {"unraisable", unraisable, METH_VARARGS, "unraisable(error, object)"},
                                    {"leave", leave, METH_VARARGS, "leave(code, whole)"},
                                    {0}};
    bind_symbols();
    return PyModule_AddFunctions(module, methods) || gb_words_add(module) ? -1 : gb_pages_add(module);
}
