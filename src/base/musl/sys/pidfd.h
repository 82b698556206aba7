/* musl has no such header. */
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int pidfd_send_signal(int fd, int sig, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, fd, sig, info, flags);
}
