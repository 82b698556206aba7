#include "wire/begin.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#define START_MS 10000

static int set_flags(int fd)
{
    return fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK) ? -errno : 0;
}

int gb_begin_receive(const char *name, enum gb_msg_kind kind, struct gb_msg *ret_msg)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP,
                                  SIGPIPE}; /* the last: OpenSSL writes without MSG_NOSIGNAL */
    struct pollfd p = {.fd = GB_CONTROL, .events = POLLIN};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        sigaction(ignored[i], &ignore, NULL);
    if (poll(&p, 1, START_MS) != 1)
        return -ETIMEDOUT;
    int r = gb_msg_receive(GB_CONTROL, "serve", name, ret_msg);
    if (r)
        return r;
    r = ret_msg->kind == kind ? set_flags(GB_CONTROL) : -EPROTO;
    for (unsigned i = 0; !r && i < ret_msg->fd_count; i++)
        r = set_flags(ret_msg->fd[i]);
    if (r)
        gb_msg_done(ret_msg);
    return r;
}
