#include "init/attend.h"

#include "init/call.h"
#include "init/report.h"

#include <stddef.h>

#define EINTR           4
#define ENOENT          2
#define EEXIST          17
#define EINVAL          22
#define ENOTDIR         20
#define SIGCHLD         17
#define SIG_SETMASK     2
#define WALL            0x40000000
#define WNOHANG         1
#define O_WRONLY        1
#define O_CREAT         0100
#define O_EXCL          0200
#define O_CLOEXEC       02000000
#define O_NONBLOCK      04000
#define F_DUPFD_CLOEXEC 1030
#define PROT_READ       1
#define PROT_WRITE      2
#define MAP_PRIVATE     2
#define SEEK_END        2
#define POLLIN          1
#define SOL_SOCKET      1
#define SCM_RIGHTS      1
#define PATH_BYTES      4096
#define RLIMIT_NOFILE   7

struct poll_fd {
    int fd;
    short events, revents;
};

void gb_init_quit(int code)
{
    for (;;)
        gb_call(__NR_exit_group, code, 0, 0, 0, 0);
}

static struct gb_report report;
static long channel; /* if it is not in its place. No data that is not zero: that costs a page */
static int waits;    /* it was there before its call */

static void tell(enum gb_report_kind kind, long value)
{
    report.kind = (int32_t)kind;
    report.value = (int32_t)value;
    gb_call(__NR_write, channel ? channel : GB_INIT_CHANNEL, (long)&report, sizeof(report), 0, 0);
}

static size_t length(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}

/* --- starting a program --- */

static const char *path_of(char **env)
{
    for (; *env; env++)
        if ((*env)[0] == 'P' && (*env)[1] == 'A' && (*env)[2] == 'T' && (*env)[3] == 'H' && (*env)[4] == '=')
            return *env + 5;
    return "";
}

static int has_slash(const char *s)
{
    for (; *s; s++)
        if (*s == '/')
            return 1;
    return 0;
}

/* As execvp: tries each directory of PATH; the most telling error wins. Returns the errno if nothing could be
 * started. */
static long execute(char **argv, char **env)
{
    static char full[PATH_BYTES];
    if (has_slash(argv[0]))
        return -gb_call(__NR_execve, (long)argv[0], (long)argv, (long)env, 0, 0);
    long seen = ENOENT;
    for (const char *p = path_of(env); *p;) {
        size_t n = 0;
        for (; *p && *p != ':' && n < PATH_BYTES - 2; p++)
            full[n++] = *p;
        while (*p && *p != ':')
            p++;
        if (*p)
            p++;
        full[n++] = '/';
        for (const char *s = argv[0]; *s && n < PATH_BYTES - 1; s++)
            full[n++] = *s;
        full[n] = '\0';
        long error = -gb_call(__NR_execve, (long)full, (long)argv, (long)env, 0, 0);
        if (error != ENOENT && error != ENOTDIR)
            seen = error;
    }
    return seen;
}

void gb_init_give_back(void)
{
    unsigned long limit[2];
    if (gb_call(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, (long)limit, 0))
        gb_init_quit(127);
    limit[0] -= GB_INIT_SPARE;
    limit[1] -= GB_INIT_SPARE;
    if (gb_call(__NR_prlimit64, 0, RLIMIT_NOFILE, (long)limit, 0, 0))
        gb_init_quit(127);
}

long gb_init_spawn(char **argv, char **env, int words)
{
    long child = gb_call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        channel = gb_call(__NR_fcntl, GB_INIT_CHANNEL, F_DUPFD_CLOEXEC, GB_INIT_CONTROL + 1, 0, 0);
        if (waits)
            gb_init_give_back();
        if (words >= 0) { /* it is not to see the directory of the call before that has its files */
            gb_call(__NR_chdir, (long)"/", 0, 0, 0, 0);
            gb_call(__NR_dup3, words, GB_INIT_CHANNEL, 0, 0, 0);
        }
        gb_call(__NR_close_range, words >= 0 ? GB_INIT_WORDS : GB_INIT_CHANNEL, GB_INIT_CONTROL, 0, 0, 0);
        tell(GB_REPORT_EXEC_FAILED, execute(argv, env));
        gb_init_quit(127);
    }
    if (child < 0)
        tell(GB_REPORT_EXEC_FAILED, -child);
    return child < 0 ? -1 : child;
}

/* --- the call that comes to a waiting box --- */

static struct {
    char *argv[GB_PAYLOAD_STRINGS + 1], *given[GB_PAYLOAD_STRINGS], *env[2 * GB_PAYLOAD_STRINGS + 1];
    size_t argc, words, envc; /* words: of the environment that is given with the call */
    uint32_t items, files;    /* those of the payloads, and those that were put into the directory */
    struct held {
        char *data; /* NULL: there is none */
        size_t len;
        uint32_t number;
    } script, rules;
    int is_screened; /* by the interpreter that waits */
} call;

/* A descriptor that tells of children that have ended; the program itself is not to have them blocked. */
static long watch_children(void)
{
    const unsigned long mask = 1UL << (SIGCHLD - 1);
    gb_call(__NR_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask), 0);
    const long fd = gb_call(__NR_signalfd4, -1, (long)&mask, sizeof(mask), O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        gb_init_quit(1);
    return fd;
}

static void drain(long children)
{
    char info[1024];
    while (gb_call(__NR_read, children, (long)info, sizeof(info), 0, 0) > 0)
        ;
}

/* Until there is something to read on the channel. Its end, too, is. What has ended is reaped, so that it is
 * noticed if it was what waits for its call: a box without it is of no use. */
static void await_word(long children, const struct gb_init_waiting *waiting)
{
    struct poll_fd p[] = {{GB_INIT_CHANNEL, POLLIN, 0}, {(int)children, POLLIN, 0}};
    while (!p[0].revents) {
        gb_call(__NR_ppoll, (long)p, 2, 0, 0, 0);
        if (!p[1].revents)
            continue;
        drain(children); /* of a stop, say, we are told in the same way */
        if (gb_call(__NR_wait4, waiting->pid, 0, WNOHANG | WALL, 0, 0) == waiting->pid)
            gb_init_quit(1);
    }
}

/* The word, and the payloads that come with it; exits if there is nobody to say it. Returns their number. */
static int receive(int *fds)
{
    char word = 0;
    struct {
        size_t len;
        int level, type, fd[GB_GO_PAYLOADS];
    } control = {0};
    struct {
        char *base;
        size_t len;
    } iov = {&word, 1};
    struct {
        void *name;
        uint32_t name_len;
        void *iov;
        size_t iov_len;
        void *control;
        size_t control_len;
        int flags;
    } msg = {.iov = &iov, .iov_len = 1};
    long n;
    do {
        msg.control = &control;
        msg.control_len = sizeof(control);
        n = gb_call(__NR_recvmsg, GB_INIT_CHANNEL, (long)&msg, 0x40000000 /* MSG_CMSG_CLOEXEC */, 0, 0);
    } while (n == -EINTR);
    const size_t head = offsetof(__typeof__(control), fd);
    if (n != 1 || (word != GB_GO_START && word != GB_GO_SCREENED) || msg.control_len < head ||
        control.level != SOL_SOCKET || control.type != SCM_RIGHTS)
        gb_init_quit(1);
    call.is_screened = word == GB_GO_SCREENED;
    const int count = (int)((control.len - head) / sizeof(int));
    for (int i = 0; i < count; i++)
        fds[i] = control.fd[i];
    return count;
}

/* Makes the directories on the way to a file. */
static void make_parents(char *name)
{
    for (char *p = name; *p; p++)
        if (*p == '/') {
            *p = '\0';
            gb_call(__NR_mkdirat, GB_AT_FDCWD, (long)name, 0755, 0, 0);
            *p = '/';
        }
}

/* In an empty directory that nobody else can see yet, so that a name leads where it says. */
static long put_file(char *name, const char *data, size_t len, long mode)
{
    make_parents(name);
    const long fd =
            gb_call(__NR_openat, GB_AT_FDCWD, (long)name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode, 0);
    long r = fd < 0 ? fd : 0;
    while (r >= 0 && len) {
        r = gb_call(__NR_write, fd, (long)data, (long)len, 0, 0);
        if (r == -EINTR)
            r = 0;
        if (r > 0) {
            data += r;
            len -= (size_t)r;
        }
    }
    if (fd >= 0)
        gb_call(__NR_close, fd, 0, 0, 0, 0);
    return r < 0 ? -r : 0;
}

static void fail_file(uint32_t number, long error)
{
    report.number = number;
    tell(GB_REPORT_FILE_FAILED, error);
    gb_init_quit(1);
}

/* A name that leads nowhere but below the current directory. */
static int is_inside(const char *name)
{
    if (!*name || *name == '/')
        return 0;
    for (const char *p = name; *p;) {
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]))
            return 0;
        while (*p && *p != '/')
            p++;
        while (*p == '/')
            p++;
    }
    return 1;
}

static void take_file(char *name, const char *data, size_t len, long mode, uint32_t number)
{
    const long error = put_file(name, data, len, mode);
    if (error)
        fail_file(number, error);
    call.files++;
}

static int is_same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* A script that is to be looked at comes in a directory that is gone when it runs, with the rules: there an
 * interpreter that has yet to start finds them. One that waits is told the rules, and needs no more than the
 * script, where it runs. True if that is what this file is for. */
static int hold_file(const char *name, char *data, size_t len)
{
    static const char home[] = ".glovebox/";
    for (size_t i = 0; i < sizeof(home) - 1; i++)
        if (name[i] != home[i])
            return 0;
    name += sizeof(home) - 1;
    const struct held held = {data, len, call.items};
    if (is_same(name, "main.py"))
        call.script = held;
    else if (is_same(name, "start.txt"))
        call.rules = held;
    return 1;
}

/* The script comes last, as if it had been moved to its place. Without rules nothing runs. */
static void put_script(void)
{
    char name[] = "main.py"; /* which make_parents writes to */
    if (!call.script.data || !call.rules.data)
        fail_file(GB_PAYLOAD_ITSELF, EINVAL);
    take_file(name, call.script.data, call.script.len, 0644, call.script.number);
}

/* One item. False: it is not what it should be. */
static int take_item(uint32_t kind, char *data, size_t len, char **name)
{
    const int text = kind != GB_ITEM_DATA && kind != GB_ITEM_PROGRAM;
    if (text && (!len || data[len - 1]))
        return 0;
    if (text == (*name != NULL)) /* after a name come its bytes, and only there */
        return 0;
    if (kind == GB_ITEM_ARG && call.argc < GB_PAYLOAD_STRINGS)
        call.argv[call.argc++] = data;
    else if (kind == GB_ITEM_ENV && call.words < GB_PAYLOAD_STRINGS)
        call.given[call.words++] = data;
    else if (kind == GB_ITEM_NAME && is_inside(data))
        *name = data;
    else if (!text) {
        if (!call.is_screened || !hold_file(*name, data, len))
            take_file(*name, data, len, kind == GB_ITEM_PROGRAM ? 0755 : 0644, call.items);
        call.items++;
        *name = NULL;
    } else
        return kind == GB_ITEM_OUTPUT; /* those are for the supervisor */
    return 1;
}

/* Copied if it is short, as most are: a mapping costs more. */
static char *bytes_of(int fd, long bytes)
{
    static char small[2 * PATH_BYTES];
    static int used;
    if (!used && bytes <= (long)sizeof(small) &&
        gb_call(__NR_pread64, fd, (long)small, bytes, 0, 0) == bytes) {
        used = 1;
        return small;
    }
    char *map = (char *)gb_call6(__NR_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if ((unsigned long)map > -4096UL)
        fail_file(GB_PAYLOAD_ITSELF, -(long)map);
    return map;
}

/* The supervisor has checked it; here nothing is trusted. The mapping is private, and stays: argv and env
 * point into it. */
static void take_payload(int fd)
{
    const long bytes = gb_call(__NR_lseek, fd, 0, SEEK_END, 0, 0);
    char *map = bytes > 0 ? bytes_of(fd, bytes) : NULL;
    char *name = NULL;
    long at = 0;
    gb_call(__NR_close, fd, 0, 0, 0, 0);
    while (bytes - at >= 8) {
        uint32_t head[2];
        __builtin_memcpy(head, map + at, sizeof(head));
        char *const data = map + at + 8;
        at += 8;
        if (head[1] > (unsigned long)(bytes - at) || !take_item(head[0], data, head[1], &name))
            fail_file(GB_PAYLOAD_ITSELF, EINVAL);
        at += head[1];
    }
    if (at != bytes || name)
        fail_file(GB_PAYLOAD_ITSELF, EINVAL);
}

static int same_name(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (*a == '=')
            return 1;
    return 0;
}

/* The environment of every box, but for what the call replaces; then the call's own. */
static void make_env(char **base)
{
    size_t count = 0;
    for (; *base && count < GB_PAYLOAD_STRINGS; base++) {
        int replaced = 0;
        for (size_t i = 0; i < call.words; i++)
            replaced |= same_name(*base, call.given[i]);
        if (!replaced)
            call.env[count++] = *base;
    }
    for (size_t i = 0; i < call.words; i++)
        call.env[count++] = call.given[i];
    call.envc = count;
}

static void write_all(int fd, const char *data, size_t len)
{
    while (len) {
        const long n = gb_call(__NR_write, fd, (long)data, (long)len, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0) /* it has died while it waited: its end is reported as any other */
            return;
        data += n;
        len -= (size_t)n;
    }
}

/* Words are gathered here: what fits into one write goes in one, which wakes the reader once. */
static struct {
    char text[2 * PATH_BYTES];
    size_t len;
    int fd;
} said;

static void say(const char *text, size_t len)
{
    if (len > sizeof(said.text) - said.len) {
        write_all(said.fd, said.text, said.len);
        said.len = 0;
    }
    if (len > sizeof(said.text)) {
        write_all(said.fd, text, len);
        return;
    }
    for (size_t i = 0; i < len; i++)
        said.text[said.len++] = text[i];
}

static void say_number(size_t number, char after)
{
    char digits[16];
    size_t at = sizeof(digits);
    digits[--at] = after;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    say(digits + at, sizeof(digits) - at);
}

static size_t length_of_words(void)
{
    size_t len = call.rules.data ? call.rules.len + 1 : 0;
    for (size_t i = 0; i < call.argc; i++)
        len += length(call.argv[i]) + 1;
    for (size_t i = 0; i < call.envc; i++)
        len += length(call.env[i]) + 1;
    return len;
}

/* zygote/words.h says how. */
static void send_words(int control)
{
    said.fd = control;
    say_number(call.argc, ' ');
    say_number(call.rules.data != NULL, ' ');
    say_number(call.files, ' ');
    say_number(length_of_words(), '\0');
    for (size_t i = 0; i < call.argc; i++)
        say(call.argv[i], length(call.argv[i]) + 1);
    if (call.rules.data) {
        say(call.rules.data, call.rules.len);
        say("", 1);
    }
    for (size_t i = 0; i < call.envc; i++)
        say(call.env[i], length(call.env[i]) + 1);
    write_all(control, said.text, said.len);
    gb_call(__NR_close, control, 0, 0, 0, 0);
}

void gb_init_wait(void)
{
    waits = 1;
}

long gb_init_await(char **env, const struct gb_init_waiting *waiting)
{
    int fds[GB_GO_PAYLOADS];
    if (waiting) {
        const long children = watch_children();
        await_word(children, waiting);
        gb_call(__NR_close, children, 0, 0, 0, 0);
    }
    const int count = receive(fds);
    for (int i = 0; i < count; i++)
        take_payload(fds[i]);
    if (call.is_screened)
        put_script();
    if (!call.argc)
        fail_file(GB_PAYLOAD_ITSELF, EINVAL);
    make_env(env);
    if (waiting) {
        send_words(waiting->control);
        return waiting->pid;
    }
    return gb_init_spawn(call.argv, call.env, -1);
}

/* --- until the end --- */

static int64_t to_us(const long *time)
{
    return (int64_t)time[0] * 1000000 + time[1];
}

static void reap(long program, long options)
{
    for (;;) {
        int status = 0;
        long usage[18] = {0}; /* struct rusage: two times, then the resident set in KiB */
        const long pid = gb_call(__NR_wait4, -1, (long)&status, WALL | options, (long)usage, 0);
        if (pid == program) {
            report.cpu_us = to_us(usage) + to_us(usage + 2);
            report.memory_bytes = (int64_t)usage[4] * 1024;
            tell(GB_REPORT_EXIT, status);
            gb_init_quit(0);
        }
        if (pid == 0)
            return;
        if (pid < 0 && pid != -EINTR)
            gb_init_quit(1);
    }
}

void gb_init_attend(long program, int watch)
{
    if (program < 0)
        gb_init_quit(1);
    for (int fd = 0; fd < 3; fd++)
        gb_call(__NR_close, fd, 0, 0, 0, 0);
    if (!watch)
        reap(program, 0);
    /* Our parent is the cradle, not the supervisor, so the kernel does not tell us of that one's death: the
     * channel does. */
    const long children = watch_children();
    struct poll_fd p[] = {{(int)children, POLLIN, 0}, {GB_INIT_CHANNEL, POLLIN, 0}};
    for (;;) {
        reap(program, WNOHANG);
        gb_call(__NR_ppoll, (long)p, 2, 0, 0, 0);
        if (p[1].revents) /* nothing more is ever said to us */
            gb_init_quit(1);
        drain(children);
    }
}
