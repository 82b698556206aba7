/* glovebox-init: PID 1 of a box.
 *
 * It starts the program, reaps whatever the program leaves behind, tells the supervisor how the program
 * ended, and exits: the kernel then kills everything else in the box before the supervisor sees init gone. It
 * holds one descriptor, parses nothing, and has no C library, so that its memory contains nothing that a box
 * could want. Its arguments and environment are the program's own.
 *
 * By the time it runs, every confinement step is done and binds it too. */
#include "init/report.h"

#include <asm/unistd.h>
#include <stddef.h>

#define EINTR           4
#define ENOENT          2
#define ENOTDIR         20
#define SIGCHLD         17
#define F_SETFD         2
#define FD_CLOEXEC      1
#define PR_SET_DUMPABLE 4
#define PR_SET_NAME     15
#define WALL            0x40000000
#define PATH_BYTES      4096

#if defined(__x86_64__)
static long call(long n, long a, long b, long c, long d, long e)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return ret;
}
/* The kernel enters with argc at the stack pointer; hand that on as a C argument. */
__asm__(".globl _start\n_start:\n xor %rbp,%rbp\n mov %rsp,%rdi\n and $-16,%rsp\n call gb_init_main\n hlt\n");
#elif defined(__aarch64__)
static long call(long n, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
__asm__(".globl _start\n_start:\n mov x29,#0\n mov x0,sp\n bl gb_init_main\n");
#else
#error "glovebox-init knows x86-64 and arm64"
#endif

void gb_init_main(long *stack) __attribute__((noreturn));

/* The compiler may ask for this even without a C library. */
void *memset(void *p, int c, size_t n);
void *memset(void *p, int c, size_t n)
{
    for (volatile char *d = p; n--;)
        *d++ = (char)c;
    return p;
}

static void quit(int code) __attribute__((noreturn));
static void quit(int code)
{
    for (;;)
        call(__NR_exit_group, code, 0, 0, 0, 0);
}

static void tell(enum gb_report_kind kind, long value)
{
    static struct gb_report report;
    report.kind = (int32_t)kind;
    report.value = (int32_t)value;
    call(__NR_write, GB_INIT_CHANNEL, (long)&report, sizeof(report), 0, 0);
}

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
static long start(char **argv, char **env)
{
    static char full[PATH_BYTES];
    if (has_slash(argv[0]))
        return -call(__NR_execve, (long)argv[0], (long)argv, (long)env, 0, 0);
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
        long error = -call(__NR_execve, (long)full, (long)argv, (long)env, 0, 0);
        if (error != ENOENT && error != ENOTDIR)
            seen = error;
    }
    return seen;
}

void gb_init_main(long *stack)
{
    char **argv = (char **)(stack + 1), **env = argv + *stack + 1;
    /* Out of reach for /proc, before anybody else is here to look. */
    call(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    call(__NR_prctl, PR_SET_NAME, (long)"glovebox-init", 0, 0, 0);
    long child = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        call(__NR_fcntl, GB_INIT_CHANNEL, F_SETFD, FD_CLOEXEC, 0, 0);
        tell(GB_REPORT_EXEC_FAILED, start(argv, env));
        quit(127);
    }
    if (child < 0) {
        tell(GB_REPORT_EXEC_FAILED, -child);
        quit(1);
    }
    for (int fd = 0; fd < 3; fd++)
        call(__NR_close, fd, 0, 0, 0, 0);
    for (;;) {
        int status = 0;
        long pid = call(__NR_wait4, -1, (long)&status, WALL, 0, 0);
        if (pid == child) {
            tell(GB_REPORT_EXIT, status);
            quit(0);
        }
        if (pid < 0 && pid != -EINTR)
            quit(1);
    }
}
