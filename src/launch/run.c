#include "launch/run.h"

#include "base/auto.h"

#include <poll.h>

_Static_assert(GB_RUN_FDS <= GB_MSG_FDS, "a run's descriptors come in one message");

void gb_run_take(struct gb_msg *msg, struct gb_run *ret)
{
    const struct gb_msg_run *ask = msg->body;
    *ret = (struct gb_run){.tag = msg->tag, .ask = *ask, .fd_count = msg->fd_count};
    for (unsigned i = 0; i < msg->fd_count; i++)
        ret->fd[i] = TAKE_FD(msg->fd[i]);
}

int gb_run_tell_output(const struct gb_run *run, int fds[2])
{
    const struct gb_msg_none none = {0};
    int r = gb_msg_send(run->fd[GB_RUN_SOCKET], GB_MSG_RUN_OUTPUT, run->tag, &none, NULL, 0, fds, 2);
    for (int i = 0; i < 2; i++)
        gb_close(&fds[i]);
    return r;
}

bool gb_run_is_left(const struct gb_run *run)
{
    struct pollfd p = {.fd = run->fd[GB_RUN_SOCKET]};
    return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

int gb_run_fail(const struct gb_run *run, const struct gb_err *err)
{
    const struct gb_msg_failed failed = {.err = *err};
    return gb_msg_send(run->fd[GB_RUN_SOCKET], GB_MSG_RUN_FAILED, run->tag, &failed, NULL, 0, NULL, 0);
}

void gb_run_drop(struct gb_run *run)
{
    for (unsigned i = 0; i < run->fd_count; i++)
        gb_close(&run->fd[i]);
    run->fd_count = 0;
}
