/* _glovebox: the extension by which a warm Python becomes a zygote. On the stable ABI, so that one build is
 * right for every interpreter that a profile may name.
 *
 * wait() turns the interpreter into a server that bears boxes (sandbox/birth.c), and returns in each of its
 * boxes, once, when the call has come. The zygote itself never comes back to Python. */
#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/wall.h"
#include "init/attend.h"
#include "init/report.h"
#include "sandbox/zygote.h"
#include "zygote/beneath.h"
#include "zygote/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_THREADS 2                 /* the one that waits, and the one that began and sleeps for ever */
#define WORDS_MOST  ((size_t)8 << 20) /* no payload has more */

static struct {
    char name[16]; /* of the interpreter */
    int words;     /* the reading end */
    PyObject *ready;
    int bare; /* nothing of anybody's is loaded */
} kept;

/* fork() has the C library and others put their locks in order, and copies a dozen pages by that. Our other
 * thread sleeps and has none; libraries that were preloaded may have more to do. */
static pid_t fork_interpreter(void)
{
    return kept.bare ? _Fork() : fork();
}

/* In the interpreter: before it waits. What is not to be done at all costs no pages either. */
static void get_ready(void)
{
    if (kept.bare)
        return;
    PyObject *done = PyObject_CallFunctionObjArgs(kept.ready, NULL);
    if (!done) {
        PyErr_Print();
        _exit(1);
    }
    Py_DECREF(done);
}

/* In PID 1 of a box: forks the interpreter that waits. */
static long born(int *ret_control)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    PyOS_BeforeFork();
    const pid_t pid = fork_interpreter();
    if (pid == 0) {
        /* Of what PID 1 has, the interpreter gets one pipe, and not even that when it runs. */
        kept.words = dup2(ends[0], GB_INIT_CHANNEL);
        if (GB_WALL("close-fds"))
            close_range(GB_INIT_CHANNEL + 1, ~0U, 0);
        else
            close(ends[1]);                 /* or the words would have no end */
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* a script may look into its own process */
        gb_init_give_back();
        prctl(PR_SET_NAME, kept.name, 0, 0, 0);
        PyOS_AfterFork_Child();
        get_ready();
        return 0;
    }
    PyOS_AfterFork_Parent(); /* the cradle's memory is still ours */
    close(ends[0]);
    *ret_control = ends[1];
    return pid;
}

/* --- the words of the call --- */

static bool is_whole(const char *text, size_t len)
{
    const size_t head = strnlen(text, len);
    const char *last = head < len ? memrchr(text, ' ', head) : NULL;
    return last && len - head - 1 >= (size_t)gb_words_number(&last);
}

static char *read_words(size_t *ret_len)
{
    size_t size = 16384, len = 0;
    char *text = malloc(size);
    while (text) {
        ssize_t n = read(kept.words, text + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
        if (is_whole(text, len))
            break;
        if (len < size)
            continue;
        char *more = size < WORDS_MOST ? realloc(text, size *= 2) : NULL;
        if (!more)
            free(text);
        text = more;
    }
    close(kept.words);
    *ret_len = len;
    return text;
}

/* --- wait() --- */

static int thread_count(void)
{
    struct stat st;
    return fstatat(GB_ZYGOTE_PROC, "self/task", &st, 0) ? -1 : (int)st.st_nlink - 2;
}

/* A clone has one thread. Libraries that keep some of their own (OpenBLAS does) put them away before a fork
 * and start new ones when they need them, if one asks the way they expect: by fork(). */
static int put_threads_away(void)
{
    if (thread_count() <= OWN_THREADS)
        return 0;
    PyOS_BeforeFork();
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    PyOS_AfterFork_Parent();
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        return -1;
    return thread_count() <= OWN_THREADS ? 0 : -1;
}

/* For whoever looks at a list of processes: that has the name of the first thread, which sleeps. */
static void name_process(void)
{
    const int fd = openat(GB_ZYGOTE_PROC, "self/comm", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, GB_ZYGOTE_NAME, sizeof(GB_ZYGOTE_NAME) - 1);
    close(fd);
}

static PyObject *wait_for_call(PyObject *self, PyObject *arguments)
{
    struct gb_nursery n = {.socket = GB_ZYGOTE_SOCKET,
                           .proc_fd = GB_ZYGOTE_PROC,
                           .image_fd = GB_ZYGOTE_PROC + 1,
                           .born = born};
    size_t len = 0;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O|p:wait", &kept.ready, &kept.bare))
        return NULL;
    if (put_threads_away())
        return PyErr_Format(PyExc_RuntimeError,
                            "%d threads run: a module that was preloaded has started some, and they would be "
                            "missing in every box",
                            thread_count());
    prctl(PR_GET_NAME, kept.name, 0, 0, 0);
    prctl(PR_SET_NAME, GB_ZYGOTE_NAME, 0, 0, 0);
    name_process();
    if (!gb_nursery_serve(&n))
        _exit(0);
    char *text = read_words(&len);
    if (!len) /* nobody will come any more */
        _exit(1);
    PyObject *call = text ? gb_words_take(text, len) : PyErr_NoMemory();
    free(text);
    return call;
}

static PyMethodDef methods[] = {
        {"wait", wait_for_call, METH_VARARGS,
         "wait(ready, bare=False): bears boxes. Returns in each of them, when its call has come, what "
         "words.c "
         "makes of it. ready() is called in each before that, unless nothing is loaded that could mind "
         "(bare)."},
        {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
        PyModuleDef_HEAD_INIT, "_glovebox", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__glovebox(void);
__attribute__((visibility("default"))) PyObject *PyInit__glovebox(void)
{
    PyObject *m = PyModule_Create(&module);
    if (m && gb_beneath_add(m))
        Py_CLEAR(m);
    return m;
}
