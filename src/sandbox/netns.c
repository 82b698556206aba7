/* The network namespace takes the kernel as long as half of all other steps together, and needs nothing of
 * them. So a process beside the box's set-up makes it, on another processor if there is one.
 *
 * That process shares the set-up's memory and descriptors, has a stack of its own, and makes five system
 * calls: raw ones, since it also shares what a C library thinks belongs to one thread. It is in the box's
 * user namespace, so the network namespace belongs to that, as if the box had made it. It is gone before
 * the box gives up its capabilities. */
#include "sandbox/netns.h"

#include "base/auto.h"
#include "base/sys.h"
#include "init/call.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* Its pid in the box; the program, whose pid is the next free one, shall be 2 as if nobody had been there. */
#define HELPER_PID 300

/* No sanitizer: they watch the stack that they know. */
__attribute__((noreturn, no_sanitize("address", "undefined"))) static void make(void *context)
{
    const struct gb_box *box = context;
    long r = gb_call(__NR_unshare, CLONE_NEWNET, 0, 0, 0, 0);
    if (r >= 0)
        r = gb_call(__NR_openat, box->proc_fd, (long)"self/ns/net", O_RDONLY | O_CLOEXEC, 0, 0);
    if (r >= 0) {
        const long fd = r;
        r = gb_call(__NR_dup3, fd, box->net_fd, O_CLOEXEC, 0, 0);
        gb_call(__NR_close, fd, 0, 0, 0, 0);
    }
    for (;;)
        gb_call(__NR_exit, r < 0 ? -r : 0, 0, 0, 0, 0);
}

/* clone3 for a child with another stack, which calls run(context) and must not return. */
static long clone_onto(struct clone_args *args, void (*run)(void *), void *context)
{
#if defined(__x86_64__)
    long ret;
    register long r8 __asm__("r8") = (long)run;
    register long r9 __asm__("r9") = (long)context;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\tmov %%r9, %%rdi\n\tcall *%%r8\n\thlt\n1:"
                     : "=a"(ret)
                     : "a"(__NR_clone3), "D"(args), "S"(sizeof(*args)), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
#else
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = sizeof(*args);
    register long x8 __asm__("x8") = __NR_clone3;
    register long x9 __asm__("x9") = (long)run;
    register long x10 __asm__("x10") = (long)context;
    __asm__ volatile("svc 0\n\tcbnz x0, 1f\n\tmov x29, #0\n\tmov x0, x10\n\tblr x9\n\tbrk #0\n1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x8), "r"(x9), "r"(x10)
                     : "memory");
    return x0;
#endif
}

void gb_netns_begin(struct gb_box *box)
{
    static _Alignas(16) char stack[4096]; /* of this process, which is a copy of whoever links us */
    pid_t pid = HELPER_PID;
    struct clone_args args = {.flags = CLONE_VM | CLONE_FILES,
                              .stack = (uint64_t)(uintptr_t)stack,
                              .stack_size = sizeof(stack),
                              .set_tid = (uint64_t)(uintptr_t)&pid,
                              .set_tid_size = 1};
    /* A place in the table of descriptors, which it shall fill. No exit signal: whoever links us may have set
     * SIGCHLD to be ignored, and then its end could not be waited for. */
    box->net_fd = fcntl(box->proc_fd, F_DUPFD_CLOEXEC, 3);
    box->net_pid = box->net_fd < 0 ? -errno : clone_onto(&args, make, box);
    if (box->net_pid < 0 && box->net_fd >= 0) { /* then the program has another pid */
        args.set_tid_size = 0;
        args.set_tid = 0;
        box->net_pid = clone_onto(&args, make, box);
    }
}

/* ns-net. Should: give the box a network of its own, with nothing but a loopback device that is down. */
int gb_netns_join(struct gb_box *box, struct gb_err *err)
{
    int status = 0;
    pid_t got;
    if (box->net_pid < 0)
        return gb_err_set(err, GB_ERR_LAYER, (int)-box->net_pid, "start the process that makes a network");
    do
        got = waitpid((pid_t)box->net_pid, &status, __WALL);
    while (got < 0 && errno == EINTR);
    if (got < 0 || !WIFEXITED(status))
        return gb_err_set(err, GB_ERR_BUSY, got < 0 ? errno : ECHILD, "wait for the network namespace");
    if (WEXITSTATUS(status)) {
        int r = gb_err_set(err, GB_ERR_LAYER, WEXITSTATUS(status), "make a network namespace");
        if (r == -ENOSPC)
            gb_err_hint(err, "there are as many as sysctl user.max_net_namespaces allows");
        return r;
    }
    if (setns(box->net_fd, CLONE_NEWNET))
        return gb_err_set(err, GB_ERR_LAYER, errno, "enter the network namespace");
    close(TAKE_FD(box->net_fd));
    return 0;
}
