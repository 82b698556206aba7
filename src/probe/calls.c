/* Probes of the system call filter. A refused call says EPERM or ENOSYS; one that came through says something
 * else, since its arguments are bad. */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BAD      ((void *)8) /* no pointer */

/* Runs a raw call in a child; returns its errno, 0 if it worked, or -1 if the child was killed. */
static int try_call(long n, long a, long b, long c, long d, long e, long f)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(syscall(n, a, b, c, d, e, f) < 0 ? errno & 0xff : 0);
    int status = 0;
    waitpid(pid, &status, 0);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_wall(int error)
{
    return error == EPERM || error == ENOSYS || error == -1;
}

enum verdict probe_new_namespace(void)
{
    if (!try_call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0, 0))
        return escaped("unshared a user namespace");
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    return pid > 0 ? escaped("cloned into a user namespace") : HELD;
}

enum verdict probe_namespace_calls(void)
{
    static const long flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                 CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < COUNT(flags); i++) {
        /* CLONE_SIGHAND without CLONE_VM is EINVAL for a call that is let through: nothing is made. */
        if (!is_wall(try_call(SYS_clone, flags[i] | CLONE_SIGHAND, 0, 0, 0, 0, 0)))
            return escaped("clone with 0x%lx came through", (unsigned long)flags[i]);
        if (!is_wall(try_call(SYS_unshare, flags[i] | 0x100, 0, 0, 0, 0, 0)))
            return escaped("unshare with 0x%lx came through", (unsigned long)flags[i]);
    }
    if (!is_wall(try_call(SYS_clone3, (long)BAD, sizeof(struct clone_args), 0, 0, 0, 0)))
        return escaped("clone3 came through");
    return is_wall(try_call(SYS_setns, -1, 0, 0, 0, 0, 0)) ? HELD : escaped("setns came through");
}

/* Visible only where the filter is off: then the count must say no (ENOSPC). Behind the filter it cannot be
 * seen. */
enum verdict probe_nested_count(void)
{
    int error = try_call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0, 0);
    if (error == ENOSPC)
        return HELD;
    return error == 0 ? escaped("a nested user namespace was made")
                      : unclear("hidden behind the system call filter");
}

enum verdict probe_chroot_climb(void)
{
    mkdir("/sandbox/jail", 0755);
    if (!refused(chroot("/sandbox/jail")))
        return escaped("chroot worked");
    return HELD;
}

enum verdict probe_handle_scan(void)
{
    int mount_id;
    uint64_t handle[16] = {8 | (1ULL << 32)};
    if (!is_wall(
                try_call(SYS_name_to_handle_at, AT_FDCWD, (long)"/usr", (long)handle, (long)&mount_id, 0, 0)))
        return escaped("name_to_handle_at came through");
    return is_wall(try_call(SYS_open_by_handle_at, AT_FDCWD, (long)BAD, 0, 0, 0, 0))
                   ? HELD
                   : escaped("open_by_handle_at came through");
}

enum verdict probe_terminal(void)
{
    static const unsigned long requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS};
    for (size_t i = 0; i < COUNT(requests); i++)
        for (int high = 0; high < 2; high++) {
            unsigned long request = requests[i] | (high ? 0xdeadbeef00000000UL : 0);
            if (try_call(SYS_ioctl, 0, (long)request, (long)BAD, 0, 0, 0) != EPERM)
                return escaped("ioctl 0x%lx came through", request);
        }
    return HELD;
}

enum verdict probe_tracing(void)
{
    static const struct {
        long n, a, b;
        const char *name;
    } calls[] = {
            {SYS_ptrace, 0x4206, 1, "ptrace(SEIZE, init)"},
            {SYS_ptrace, 0, 0, "ptrace(TRACEME)"},
            {SYS_process_vm_readv, 1, 0, "process_vm_readv"},
            {SYS_process_vm_writev, 1, 0, "process_vm_writev"},
            {SYS_kcmp, 1, 1, "kcmp"},
            {SYS_pidfd_getfd, -1, 3, "pidfd_getfd"},
            {SYS_process_madvise, -1, 0, "process_madvise"},
    };
    for (size_t i = 0; i < COUNT(calls); i++)
        if (!is_wall(try_call(calls[i].n, calls[i].a, calls[i].b, 0, 0, 0, 0)))
            return escaped("%s came through", calls[i].name);
    return HELD;
}

enum verdict probe_keyring(void)
{
    if (!is_wall(try_call(SYS_add_key, (long)"user", (long)"probe", (long)"x", 1, -3, 0)))
        return escaped("add_key came through");
    if (!is_wall(try_call(SYS_request_key, (long)BAD, (long)BAD, 0, 0, 0, 0)))
        return escaped("request_key came through");
    return is_wall(try_call(SYS_keyctl, 0, -3, 1, 0, 0, 0)) ? HELD : escaped("keyctl came through");
}

enum verdict probe_rare_calls(void)
{
#define CALL(name)                                                                                           \
    {                                                                                                        \
        SYS_##name, #name                                                                                    \
    }
    static const struct {
        long n;
        const char *name;
    } calls[] = {
            CALL(io_uring_setup),
            CALL(io_uring_enter),
            CALL(io_uring_register),
            CALL(bpf),
            CALL(userfaultfd),
            CALL(perf_event_open),
            CALL(init_module),
            CALL(finit_module),
            CALL(delete_module),
            CALL(kexec_load),
            CALL(quotactl),
            CALL(acct),
            CALL(swapon),
            CALL(swapoff),
            CALL(mbind),
            CALL(set_mempolicy),
            CALL(migrate_pages),
            CALL(move_pages),
            CALL(get_mempolicy),
            CALL(fanotify_init),
            CALL(mount),
            CALL(umount2),
            CALL(pivot_root),
            CALL(fsopen),
            CALL(fsmount),
            CALL(open_tree),
            CALL(move_mount),
            CALL(mount_setattr),
            CALL(sethostname),
            CALL(settimeofday),
            CALL(clock_settime),
            CALL(adjtimex),
            CALL(clock_adjtime),
            CALL(syslog),
            CALL(vhangup),
            CALL(syncfs),
            CALL(seccomp),
#ifdef __x86_64__
            CALL(iopl),
            CALL(ioperm),
            CALL(modify_ldt),
            CALL(uselib),
            CALL(ustat),
            CALL(sysfs),
#endif
    };
#undef CALL
    for (size_t i = 0; i < COUNT(calls); i++)
        if (!is_wall(try_call(calls[i].n, -1, (long)BAD, (long)BAD, (long)BAD, (long)BAD, 0)))
            return escaped("%s came through", calls[i].name);
    return HELD;
}

enum verdict probe_unknown_calls(void)
{
    /* Calls of kernels newer than the policy: memfd_secret, map_shadow_stack, the lsm calls, mseal, the
     * xattrat calls; and numbers that no kernel has. */
    static const long numbers[] = {447, 453, 459, 460, 461, 462, 463, 464,
                                   465, 466, 468, 480, 511, 600, 1023};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        int error = try_call(numbers[i], -1, -1, -1, -1, -1, -1);
        if (error != ENOSYS)
            return escaped("call %ld says %d", numbers[i], error);
    }
    return HELD;
}

enum verdict probe_call_arguments(void)
{
    static const struct {
        long n, a, b, c;
        const char *name;
    } calls[] = {
            {SYS_socket, (long)(AF_INET | 0x100000000), SOCK_STREAM, 0, "socket(AF_INET)"},
            {SYS_socketpair, (long)(AF_INET6 | 0x100000000), SOCK_STREAM, 0, "socketpair(AF_INET6)"},
            {SYS_prctl, (long)(PR_SET_SECUREBITS | 0x100000000), 0, 0, "prctl(SET_SECUREBITS)"},
            {SYS_prctl, (long)(PR_SET_MM | 0x100000000), 0, 0, "prctl(SET_MM)"},
            {SYS_personality, (long)(0x0400000 | 0x100000000), 0, 0, "personality(READ_IMPLIES_EXEC)"},
            {SYS_clone, (long)(CLONE_NEWNET | CLONE_SIGHAND | 0x100000000), 0, 0, "clone(NEWNET)"},
            {SYS_mknodat, AT_FDCWD, (long)BAD, (long)(S_IFCHR | 0x100000000), "mknodat(char device)"},
            {SYS_mknodat, AT_FDCWD, (long)BAD, (long)(S_IFBLK), "mknodat(block device)"},
            {SYS_prlimit64, (long)(1 | 0x100000000), 7, 0, "prlimit(init)"},
            {SYS_prlimit64, 1, 7, 0, "prlimit(init)"},
    };
    for (size_t i = 0; i < COUNT(calls); i++)
        if (!is_wall(try_call(calls[i].n, calls[i].a, calls[i].b, calls[i].c, 0, 0, 0)))
            return escaped("%s came through", calls[i].name);
#ifdef __x86_64__
    if (!is_wall(try_call(SYS_mknod, (long)BAD, S_IFCHR, 0, 0, 0, 0)))
        return escaped("mknod(char device) came through");
#endif
    return HELD;
}

enum verdict probe_socket_families(void)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_PACKET};
    for (int family = 0; family < 64; family++)
        for (size_t t = 0; t < COUNT(types); t++) {
            int fd = socket(family, types[t], 0);
            if (family != AF_UNIX && !(fd < 0 && errno == EPERM))
                return escaped("socket family %d type %d: %s", family, types[t],
                               fd < 0 ? strerror(errno) : "opened");
            if (fd >= 0)
                close(fd);
        }
    return HELD;
}

enum verdict probe_tcp(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof(any)) ? escaped("bound a TCP port") : HELD;
}

#ifdef __x86_64__
/* A child that calls through int 0x80 (getpid there is 20), or sets the x32 bit; the filter kills it. */
static bool survives(bool x32)
{
    pid_t pid = fork();
    if (pid == 0) {
        long r = 0x40000000L + SYS_getpid;
        if (x32)
            __asm__ volatile("syscall" : "+a"(r) : : "rcx", "r11", "memory");
        else
            __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return !(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
}
#endif

enum verdict probe_other_abi(void)
{
#ifdef __x86_64__
    if (survives(false))
        return escaped("a call through int 0x80 came through");
    return survives(true) ? escaped("a call with the x32 bit came through") : HELD;
#else
    return unclear("this architecture has no second ABI to try");
#endif
}
