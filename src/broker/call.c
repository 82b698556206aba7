#include "broker/call.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Each process has a clock of its own, by what its tool may take. This one is for a process that does not
 * keep to it any more; no tool may take longer than 600 s. */
#define BACKSTOP_US (620 * 1000000LL)

static bool is_channel(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(domain);
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
           !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

struct call *call_take(struct broker *b, struct gb_msg *msg, bool *ret_broken)
{
    const struct gb_msg_tool *ask = msg->body;
    /* The socket's other end is the front's: it must not be able to make us wait for it. */
    *ret_broken = !is_channel(msg->fd[0]) || fcntl(msg->fd[0], F_SETFL, O_NONBLOCK);
    struct call *call = *ret_broken ? NULL : calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->broker = b;
    call->tag = msg->tag;
    call->ask = *ask;
    call->socket.fd = TAKE_FD(msg->fd[0]);
    call->arguments = TAKE_FD(msg->fd[1]);
    call->process.fd = -1;
    return call;
}

/* --- its end --- */

static void answer(const struct call *call, const struct gb_err *err)
{
    const struct gb_msg_failed failed = {.err = *err};
    /* Who has hung up wants no answer. */
    (void)gb_msg_send(call->socket.fd, GB_MSG_TOOL_FAILED, call->tag, &failed, NULL, 0, NULL, 0);
}

static void drop(struct call *call)
{
    gb_auto_close(&call->arguments);
    gb_auto_close(&call->socket.fd);
    gb_auto_close(&call->process.fd);
    free(call);
}

void call_refuse(struct call *call, const struct gb_err *err)
{
    gb_log(GB_LOG_WARN, "call refused", GB_S("id", call->ask.id), GB_S("tool", call->ask.tool),
           GB_S("error", err->text));
    answer(call, err);
    drop(call);
}

static void describe(const siginfo_t *info, char *buf, size_t size)
{
    if (info->si_code == CLD_EXITED)
        snprintf(buf, size, "exit code %d", info->si_status);
    else
        snprintf(buf, size, "signal %d (%s)%s", info->si_status, strsignal(info->si_status),
                 info->si_status == SIGSYS ? ": it made a system call that its filter does not have" : "");
}

/* A process that ends with 0 has answered. For every other the parent does, since nobody else is left. */
static void settle(const struct call *call, const siginfo_t *info)
{
    char how[128];
    struct gb_err err = {0};
    if ((info->si_code == CLD_EXITED && !info->si_status) || call->end == CALL_LEFT)
        return;
    describe(info, how, sizeof(how));
    const bool late = call->end == CALL_LATE || (info->si_code == CLD_KILLED && info->si_status == SIGALRM);
    gb_log(late ? GB_LOG_WARN : GB_LOG_ERROR, late ? "a call took too long" : "the process of a call died",
           GB_S("id", call->ask.id), GB_S("tool", call->ask.tool), GB_I("pid", call->pid), GB_S("how", how));
    if (late)
        gb_err_set(&err, GB_ERR_UPSTREAM, ETIMEDOUT, "the tool did not come to an end in its time");
    else
        gb_err_set(&err, GB_ERR_INTERNAL, 0,
                   "the process that did this call died; it may have been done in part");
    answer(call, &err);
}

static void process_ended(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct call *call = GB_OWNER(source, struct call, process);
    struct broker *b = call->broker;
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)source->fd, &info, WEXITED | WNOHANG) || !info.si_pid)
        return;
    settle(call, &info);
    gb_loop_forget(b->loop, &call->process);
    gb_loop_forget(b->loop, &call->socket);
    gb_loop_at(b->loop, &call->deadline, 0);
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    drop(call);
    broker_ended(b);
}

static void kill_process(struct call *call, enum call_end why)
{
    if (call->end == CALL_RUNS)
        call->end = why;
    (void)kill(call->pid, SIGKILL); /* nobody but us can have reaped it: the number is still its own */
}

void call_cancel(struct call *call)
{
    gb_loop_forget(call->broker->loop, &call->socket); /* a hang-up does not go away */
    kill_process(call, CALL_LEFT);
}

static void socket_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    call_cancel(GB_OWNER(source, struct call, socket));
}

static void too_late(struct gb_timer *timer)
{
    kill_process(GB_OWNER(timer, struct call, deadline), CALL_LATE);
}

/* --- its beginning --- */

static int watch(struct call *call)
{
    struct broker *b = call->broker;
    call->process =
            (struct gb_source){.fd = (int)syscall(SYS_pidfd_open, call->pid, 0), .ready = process_ended};
    call->socket.ready = socket_ready;
    call->deadline.fire = too_late;
    if (call->process.fd < 0)
        return -errno;
    int r = gb_loop_watch(b->loop, &call->process, EPOLLIN);
    if (!r)
        r = gb_loop_watch(b->loop, &call->socket, EPOLLIN | EPOLLRDHUP);
    return r ? r : gb_loop_at(b->loop, &call->deadline, gb_clock_us() + BACKSTOP_US);
}

/* It cannot be watched, so it must not run. */
static void abandon(struct call *call)
{
    struct broker *b = call->broker;
    gb_loop_forget(b->loop, &call->process);
    gb_loop_forget(b->loop, &call->socket);
    gb_auto_close(&call->process.fd);
    call->process.fd = -1;
    (void)kill(call->pid, SIGKILL);
    while (waitpid(call->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int call_start(struct call *call, int config_fd, struct gb_err *err)
{
    struct broker *b = call->broker;
    const struct child child = {.ask = &call->ask,
                                .tag = call->tag,
                                .socket = call->socket.fd,
                                .arguments = call->arguments,
                                .config = config_fd,
                                .parent = b->pid,
                                .degraded = b->limits.degraded};
    call->pid = fork();
    if (call->pid == 0)
        child_main(&child);
    if (call->pid < 0)
        return gb_err_set(err, GB_ERR_BUSY, errno, "start a process for the call");
    int r = watch(call);
    if (r) {
        abandon(call);
        return gb_err_set(err, GB_ERR_BUSY, -r, "watch the process of the call");
    }
    close(TAKE_FD(call->arguments));
    call->next = b->calls;
    call->link = &b->calls;
    if (call->next)
        call->next->link = &call->next;
    b->calls = call;
    return 0;
}
