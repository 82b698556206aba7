#include "sandbox/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define GB_CHANNEL_FDS 9
#define READY_TRIES    10000 /* a millisecond each */

int gb_channel_open(struct gb_box *box, struct gb_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return gb_err_set(err, GB_ERR_BUSY, errno, "make the channel to the box");
    box->channel = pair[0];
    box->box_channel = pair[1];
    return 0;
}

int gb_channel_await(struct gb_box *box, char what)
{
    char got = 0;
    ssize_t n;
    do
        n = recv(box->box_channel, &got, 1, 0);
    while (n < 0 && errno == EINTR);
    return n == 1 && got == what ? 0 : -EPIPE;
}

int gb_channel_send(int socket, const void *data, size_t len, const int *fds, unsigned fd_count)
{
    struct iovec iov = {(void *)data, len};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * GB_CHANNEL_FDS)];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > GB_CHANNEL_FDS)
        return -E2BIG;
    if (fd_count) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EPIPE;
}

/* With the descriptors: stdin, stdout, stderr, the image; on v1 then the `tasks` files. */
struct equipment {
    int32_t cgroup_version;
    int32_t leased; /* the box has a uid of its own on the host */
};
#define EQUIPMENT_LEAST 4

int gb_channel_equip(struct gb_box *box, struct gb_err *err)
{
    const struct equipment e = {box->cgroup.version, box->lease_fd >= 0};
    int fds[GB_CHANNEL_FDS] = {box->box_stdio[0], box->box_stdio[1], box->box_stdio[2], box->image_fd};
    unsigned count = EQUIPMENT_LEAST;
    for (size_t i = 0; i < GB_CG_COUNT; i++)
        if (box->cgroup.tasks_fd[i] >= 0)
            fds[count++] = box->cgroup.tasks_fd[i];
    int r = gb_channel_send(box->channel, &e, sizeof(e), fds, count);
    return r ? gb_err_set(err, r == -EPIPE ? GB_ERR_INTERNAL : GB_ERR_BUSY, -r, "equip the box") : 0;
}

int gb_channel_take_equipment(struct gb_box *box)
{
    struct equipment e;
    struct iovec iov = {&e, sizeof(e)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * GB_CHANNEL_FDS)];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    if (!box->unequipped)
        return 0;
    ssize_t n;
    do
        n = recvmsg(box->box_channel, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *c = n == (ssize_t)sizeof(e) ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(sizeof(int) * EQUIPMENT_LEAST))
        return -EPIPE;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    int fds[GB_CHANNEL_FDS];
    memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    memcpy(box->box_stdio, fds, sizeof(box->box_stdio));
    box->image_fd = fds[EQUIPMENT_LEAST - 1];
    for (size_t i = EQUIPMENT_LEAST; i < count; i++)
        box->cgroup.tasks_fd[i - EQUIPMENT_LEAST] = fds[i];
    box->cgroup.version = e.cgroup_version;
    box->leased = e.leased;
    box->unequipped = false;
    return 0;
}

static int report(struct gb_box *box, enum gb_report_kind kind, const int *fds, unsigned count,
                  const struct gb_err *err)
{
    struct gb_report report = {
            .kind = (int32_t)kind,
            .applied = box->receipt.applied,
            .degraded = box->receipt.degraded,
            .landlock_abi = box->receipt.landlock_abi,
    };
    if (err)
        report.err = *err;
    return gb_channel_send(box->box_channel, &report, sizeof(report), fds, count);
}

int gb_channel_report(struct gb_box *box, enum gb_report_kind kind, const struct gb_err *err)
{
    return report(box, kind, NULL, 0, err);
}

/* The kernel counts the descriptors that are on their way, of all processes of a user together, and holds
 * them against the sender's limit on open files: by now that of the box. Where a box has no uid of its own,
 * the messages of others can exceed it for a moment. */
int gb_channel_ready(struct gb_box *box, const int *fds, unsigned count, struct gb_err *err)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int r = report(box, GB_REPORT_READY, fds, count, NULL);
    for (int i = 0; r == -ETOOMANYREFS && i < READY_TRIES; i++) {
        nanosleep(&moment, NULL);
        r = report(box, GB_REPORT_READY, fds, count, NULL);
    }
    if (r == -ETOOMANYREFS)
        return gb_err_set(err, GB_ERR_BUSY, 0,
                          "hand out the box: processes of this user have sent more descriptors that nobody "
                          "has received yet than a box may have open");
    return r ? gb_err_set(err, GB_ERR_BUSY, -r, "hand out the box") : 0;
}

int gb_channel_receive(struct gb_box *box, struct gb_report *ret_report, int ret_fds[GB_REPORT_FDS])
{
    struct iovec iov = {ret_report, sizeof(*ret_report)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * GB_REPORT_FDS)];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    /* A box that dies with a message of ours unread shows as ECONNRESET once, before its own last words. */
    while ((n = recvmsg(box->channel, &msg, MSG_CMSG_CLOEXEC)) < 0 && (errno == EINTR || errno == ECONNRESET))
        box->unheard |= errno == ECONNRESET;
    for (int i = 0; i < GB_REPORT_FDS; i++)
        ret_fds[i] = -1;
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0)); /* there was room for no more */
    return n == (ssize_t)sizeof(*ret_report) ? 0 : -EPIPE;
}
