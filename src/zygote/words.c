/* What could be Python, but is done for each call: Python that runs writes to hundreds of objects (it counts
 * references), whose pages then have to be copied. This only reads them. */
#define PY_SSIZE_T_CLEAN
#include "zygote/words.h"

#include "zygote/beneath.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL (1 << 14) /* as in start.py: larger scripts are always parsed */

struct text {
    const char *at;
    Py_ssize_t len;
};

/* What most calls have; see expect. */
static struct {
    PyObject *kept; /* what all of this points into; NULL: not known */
    struct text words, front, rules, report;
    const char *script, *absent;
    int argc, preloads;
    const char **telling; /* sorted */
    size_t telling_count;
} usual;

/* --- taking them apart --- */

struct call {
    long argc, files;
    bool has_rules;
    struct text args, rules, env;
};

static struct text skip_words(const char *from, const char *end, long count)
{
    const char *at = from;
    while (count-- > 0 && at < end)
        at += strnlen(at, (size_t)(end - at)) + 1;
    return (struct text){from, at - from};
}

long gb_words_number(const char **at)
{
    long number = 0;
    while (**at == ' ')
        (*at)++;
    for (; **at >= '0' && **at <= '9' && number < LONG_MAX / 10 - 1; (*at)++)
        number = number * 10 + (**at - '0');
    return number;
}

static struct call split(const char *words, size_t len)
{
    const char *end = words + len, *next = words;
    struct call c = {.argc = gb_words_number(&next)};
    const long rules = gb_words_number(&next);
    c.files = gb_words_number(&next);
    const char *at = words + strnlen(words, len) + 1;
    c.args = skip_words(at, end, c.argc);
    c.rules = skip_words(c.args.at + c.args.len, end, rules);
    c.has_rules = c.rules.len > 0;
    at = c.rules.at + c.rules.len;
    c.env = (struct text){at, end - at};
    return c;
}

static PyObject *list_of(struct text words)
{
    PyObject *list = PyList_New(0);
    for (const char *at = words.at; list && at < words.at + words.len;) {
        const size_t len = strnlen(at, (size_t)(words.at + words.len - at));
        PyObject *text = PyUnicode_DecodeFSDefaultAndSize(at, (Py_ssize_t)len);
        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
        at += len + 1;
    }
    return list;
}

static PyObject *as_objects(const struct call *c, bool like_most)
{
    PyObject *argv = list_of(c->args), *env = argv ? list_of(c->env) : NULL, *rules = NULL, *all = NULL;
    if (env)
        rules = c->has_rules ? PyBytes_FromStringAndSize(c->rules.at, c->rules.len - 1) : Py_BuildValue("");
    if (rules)
        all = Py_BuildValue("OOOlO", argv, env, rules, c->files, like_most ? Py_True : Py_False);
    Py_XDECREF(argv);
    Py_XDECREF(env);
    Py_XDECREF(rules);
    return all;
}

/* --- is it like most? --- */

static bool same(struct text a, struct text b)
{
    return a.len == b.len && !memcmp(a.at, b.at, (size_t)a.len);
}

static bool has_word(struct text words, const char *word, size_t len)
{
    for (const char *at = words.at; at < words.at + words.len; at += strlen(at) + 1)
        if (strlen(at) == len && !memcmp(at, word, len))
            return true;
    return false;
}

/* The same words in the same order, but for those of `but` in the first list. */
static bool same_but(struct text given, struct text wanted, struct text but)
{
    const char *end = given.at + given.len, *next = wanted.at, *last = wanted.at + wanted.len;
    for (const char *at = given.at; at < end;) {
        const size_t len = strnlen(at, (size_t)(end - at));
        if (!has_word(but, at, len)) {
            if ((size_t)(last - next) < len + 1 || memcmp(next, at, len) || next[len])
                return false;
            next += len + 1;
        }
        at += len + 1;
    }
    return next == last;
}

static bool are_pipes(void)
{
    for (int fd = 0; fd < 3; fd++) {
        struct stat st;
        if (fstat(fd, &st) || !S_ISFIFO(st.st_mode))
            return false;
    }
    return true;
}

static bool is_usual(const struct call *c)
{
    const struct text none = {0};
    const struct text usual_args = skip_words(usual.words.at, usual.words.at + usual.words.len, usual.argc);
    const struct text usual_env = {usual_args.at + usual_args.len, usual.words.len - usual_args.len};
    return usual.kept && c->argc == usual.argc && same(c->args, usual_args) &&
           same_but(c->env, usual_env, c->has_rules ? usual.front : none) && are_pipes() &&
           access(usual.absent, F_OK) != 0;
}

/* --- the script --- */

static int compare(const void *word, const void *telling)
{
    const struct text *w = word;
    const char *t = *(const char *const *)telling;
    const int order = strncmp(w->at, t, (size_t)w->len);
    return order ? order : t[w->len] ? -1 : 0;
}

static bool tells(struct text word)
{
    return bsearch(&word, usual.telling, usual.telling_count, sizeof(*usual.telling), compare) != NULL;
}

static bool is_harmless_name(struct text word)
{
    static const struct text names[] = {{"__name__", 8}, {"__main__", 8}, {"__init__", 8}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (same(word, names[i]))
            return true;
    return false;
}

static bool tells_nothing(struct text word)
{
    if (tells(word))
        return false;
    if (word.len >= 2 && word.at[0] == '_' && word.at[1] == '_' && !is_harmless_name(word))
        return false;
    while (word.len && *word.at == '_') {
        word.at++;
        word.len--;
    }
    while (word.len && word.at[word.len - 1] == '_')
        word.len--;
    return !tells(word);
}

static bool is_of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* As tells_nothing() and odd_encoding() of start.py: such a script need not be parsed. When in doubt, no. */
static bool is_clean(struct text source)
{
    if (source.len > SMALL || memmem(source.at, (size_t)source.len, "coding", 6))
        return false;
    for (Py_ssize_t i = 0; i < source.len;) {
        struct text word = {source.at + i, 0};
        while (i < source.len && is_of_word(source.at[i])) {
            i++;
            word.len++;
        }
        if (word.len && !tells_nothing(word))
            return false;
        if (i < source.len && ((source.at[i] & 0x80) || source.at[i] == '/' || source.at[i] == '\\'))
            return false;
        i += word.len == 0;
    }
    return true;
}

static bool is_clean_file(const char *path)
{
    static char source[SMALL + 1]; /* not on the stack, of which the compiler would touch all of it */
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    struct text text = {source, 0};
    while (fd >= 0 && n > 0 && text.len <= SMALL) {
        n = read(fd, source + text.len, sizeof(source) - (size_t)text.len);
        text.len += n > 0 ? n : 0;
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && !n && is_clean(text);
}

/* Whatever the script is, and whatever else came with it, Python need not look at it. */
static bool needs_no_look(const struct call *c)
{
    if (c->files != 1 && (c->has_rules || usual.preloads))
        return false;
    const struct text rules = {c->rules.at, c->rules.len - 1};
    return !c->has_rules || (usual.rules.at && same(rules, usual.rules) && is_clean_file(usual.script));
}

PyObject *gb_words_take(const char *words, size_t len)
{
    gb_pages_pack();
    const struct call c = split(words, len);
    const bool like_most = is_usual(&c);
    if (!like_most || !needs_no_look(&c))
        return as_objects(&c, like_most);
    if (c.has_rules && write(2, usual.report.at, (size_t)usual.report.len) != usual.report.len)
        _exit(1); /* whoever waits for the report would take what follows for it */
    Py_RETURN_NONE;
}

/* --- for the bootstrap --- */

static bool find_words(struct text words)
{
    const char *end = words.at + words.len;
    size_t count = 0;
    for (const char *at = words.at; at < end; at += strlen(at) + 1)
        count++;
    usual.telling = malloc((count + 1) * sizeof(*usual.telling));
    for (const char *at = words.at; usual.telling && at < end; at += strlen(at) + 1)
        usual.telling[usual.telling_count++] = at;
    return usual.telling != NULL;
}

/* expect(argc, words, front, absent, script, preloads, rules, telling, report): what most calls have. `words`
 * are arguments and variables; `front` the variables that come with rules; `absent` a file that is not there;
 * `preloads` whether files of the call could come before what is loaded; `rules` bytes or None; `telling` the
 * words that a script needs if any of them is to fire, sorted; `report` what is said of one that has none. */
static PyObject *expect(PyObject *module, PyObject *args)
{
    (void)module;
    struct text telling;
    if (!PyArg_ParseTuple(args, "iy#y#yypz#y#y#:expect", &usual.argc, &usual.words.at, &usual.words.len,
                          &usual.front.at, &usual.front.len, &usual.absent, &usual.script, &usual.preloads,
                          &usual.rules.at, &usual.rules.len, &telling.at, &telling.len, &usual.report.at,
                          &usual.report.len))
        return NULL;
    if (usual.kept || !find_words(telling))
        return PyErr_Format(PyExc_RuntimeError, "it is known already, or there is no memory");
    Py_INCREF(args);
    usual.kept = args;
    Py_RETURN_NONE;
}

static PyObject *looks_clean(PyObject *module, PyObject *source)
{
    (void)module;
    if (!PyBytes_Check(source))
        return PyErr_Format(PyExc_TypeError, "source must be bytes");
    return PyBool_FromLong(is_clean((struct text){PyBytes_AsString(source), PyBytes_Size(source)}));
}

int gb_words_add(PyObject *module)
{
    static PyMethodDef methods[] = {{"expect", expect, METH_VARARGS, "expect(...)"},
                                    {"is_clean", looks_clean, METH_O, "is_clean(source)"},
                                    {0}};
    return PyModule_AddFunctions(module, methods);
}
