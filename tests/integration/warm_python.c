/* A stand-in for the extension module of a warm interpreter, for tests without boxes: wait() forks plain
 * processes.
 *
 * Descriptor 3 of the zygote is a SOCK_SEQPACKET socket. A request is NUL-terminated words: a directory, and
 * those of words.h; with it come three descriptors. Flags before the directory:
 * '+' puts the child into user and pid namespaces of its own, where its pid is 1. The answer, when the child
 * has ended, is its wait status, page faults and microseconds: before it waits, and after the call has come.
 */
#include "zygote/beneath.h"
#include "zygote/words.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTROL 3

struct moment {
    long faults, cpu_us;
};

static struct moment *begun; /* shared with the child */

static struct moment used(const struct rusage *u)
{
    return (struct moment){u->ru_minflt, (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000L +
                                                 u->ru_utime.tv_usec + u->ru_stime.tv_usec};
}

static long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static ssize_t receive(char *text, size_t size, int fds[3])
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec piece = {text, size};
    struct msghdr m = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(CONTROL, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (n > 0 && c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), 3 * sizeof(int));
    return n;
}

static PyObject *begin(PyObject *ready, const char *text, size_t len, const int fds[3], int go)
{
    char byte;
    for (int i = 0; i < 3; i++)
        dup2(fds[i], i);
    PyOS_AfterFork_Child();
    PyObject *done = PyObject_CallFunctionObjArgs(ready, NULL);
    if (!done)
        return NULL;
    Py_DECREF(done);
    if (read(go, &byte, 1) < 0 || chdir(text))
        return PyErr_SetFromErrno(PyExc_OSError);
    closefrom(3);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    *begun = used(&u);
    const size_t directory = strlen(text) + 1;
    return gb_words_take(text + directory, len - directory);
}

static pid_t start(const char **text)
{
    if (**text != '+')
        return fork();
    ++*text;
    return (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void answer(pid_t pid, int go)
{
    int status = 0;
    struct rusage u = {0};
    usleep(2000); /* let it come to where it waits: what it does before is not what is measured */
    const long from = now_us();
    close(go);
    if (wait4(pid, &status, 0, &u) != pid)
        status = -1;
    const long until = now_us();
    char reply[160];
    const struct moment all = used(&u);
    const int n =
            snprintf(reply, sizeof(reply), "%d %ld %ld %ld %ld %ld", status, begun->faults,
                     all.faults - begun->faults, begun->cpu_us, all.cpu_us - begun->cpu_us, until - from);
    send(CONTROL, reply, (size_t)n, MSG_NOSIGNAL);
}

/* Returns in children only. */
static PyObject *wait_for_call(PyObject *module, PyObject *arguments)
{
    PyObject *ready;
    int bare; /* here it makes no difference */
    if (!PyArg_ParseTuple(arguments, "O|p:wait", &ready, &bare))
        return NULL;
    static char request[1 << 17];
    (void)module;
    begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (begun == MAP_FAILED)
        return PyErr_SetFromErrno(PyExc_OSError);
    for (;;) {
        int fds[3] = {-1, -1, -1}, go[2];
        const ssize_t n = receive(request, sizeof(request), fds);
        if (n == 1 && *request == '?') {
            send(CONTROL, "ready", 5, MSG_NOSIGNAL);
            continue;
        }
        if (n <= 0 || pipe2(go, O_CLOEXEC))
            _exit(n < 0);
        const char *text = request;
        PyOS_BeforeFork();
        const pid_t pid = start(&text);
        if (!pid) {
            close(go[1]);
            return begin(ready, text, (size_t)(request + n - text), fds, go[0]);
        }
        PyOS_AfterFork_Parent();
        for (int i = 0; i < 3; i++)
            close(fds[i]);
        close(go[0]);
        answer(pid, go[1]);
    }
}

PyMODINIT_FUNC PyInit__glovebox(void);

PyMODINIT_FUNC PyInit__glovebox(void)
{
    static PyMethodDef methods[] = {{"wait", wait_for_call, METH_VARARGS, "wait(ready, bare)"}, {0}};
    static struct PyModuleDef definition = {
            PyModuleDef_HEAD_INIT, "_glovebox", NULL, -1, methods, NULL, NULL, NULL, NULL};
    PyObject *module = PyModule_Create(&definition);
    if (module && gb_beneath_add(module))
        Py_CLEAR(module);
    return module;
}
