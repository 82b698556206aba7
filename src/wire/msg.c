#include "wire/msg.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC 0x31424c47U /* "GLB1" */

struct header {
    uint32_t magic, kind;
    uint64_t tag;
};
_Static_assert(sizeof(struct header) == 16, "bodies stay aligned");

const struct gb_msg_shape gb_msg_shapes[GB_MSG_COUNT] = {
#define GB_MSG(name, body, tail, fewest, most, from, to, why)                                                \
    [GB_MSG_##name] = {#name, from, to, sizeof(struct body), tail, fewest, most},
#include "wire/msg.def"
#undef GB_MSG
};
#define GB_MSG(name, body, tail, fewest, most, from, to, why)                                                \
    _Static_assert(sizeof(struct header) + sizeof(struct body) + (tail) <= GB_MSG_BYTES_MOST &&              \
                           (most) <= GB_MSG_FDS,                                                             \
                   #name " fits");
#include "wire/msg.def"
#undef GB_MSG

/* Text inside bodies, so that a receiver may treat it as a C string. */
static const struct text {
    enum gb_msg_kind kind;
    size_t offset, size;
} texts[] = {
#define TEXT(kind, body, field)                                                                              \
    {                                                                                                        \
        GB_MSG_##kind, offsetof(struct body, field), sizeof(((struct body *)0)->field)                       \
    }
        TEXT(START_LAUNCH, gb_msg_ceiling, cgroup_parent),
        TEXT(START_LAUNCH, gb_msg_ceiling, degraded),
        TEXT(CEILING, gb_msg_ceiling, cgroup_parent),
        TEXT(CEILING, gb_msg_ceiling, degraded),
        TEXT(START_STORE, gb_msg_retention, degraded),
        TEXT(RETENTION, gb_msg_retention, degraded),
        TEXT(RUN, gb_msg_run, id),
        TEXT(SERVE, gb_msg_serve, ask.id),
        TEXT(SERVE, gb_msg_serve, ceiling.cgroup_parent),
        TEXT(SERVE, gb_msg_serve, ceiling.degraded),
        TEXT(RUN_DONE, gb_msg_done, kill_reason),
        TEXT(RUN_FAILED, gb_msg_failed, err.step),
        TEXT(RUN_FAILED, gb_msg_failed, err.text),
        TEXT(START_BROKER, gb_msg_broker, degraded),
        TEXT(CONFIG_BROKER, gb_msg_broker, degraded),
        TEXT(TOOL, gb_msg_tool, id),
        TEXT(TOOL, gb_msg_tool, policy),
        TEXT(TOOL, gb_msg_tool, tool),
        TEXT(TOOL_FAILED, gb_msg_failed, err.step),
        TEXT(TOOL_FAILED, gb_msg_failed, err.text),
        TEXT(APPEND, gb_msg_append, id),
        TEXT(APPEND, gb_msg_append, principal),
        TEXT(APPEND, gb_msg_append, tool),
        TEXT(ACK, gb_msg_ack, err.step),
        TEXT(ACK, gb_msg_ack, err.text),
        TEXT(FIND, gb_msg_find, id),
        TEXT(FIND, gb_msg_find, principal),
        TEXT(ROW, gb_msg_row, id),
        TEXT(ROW, gb_msg_row, principal),
        TEXT(END, gb_msg_ack, err.step),
        TEXT(END, gb_msg_ack, err.text),
        TEXT(USAGE, gb_msg_usage, principal),
        TEXT(USAGE, gb_msg_usage, tool),
#undef TEXT
};

/* What came of a tool has a list in it: how many there are, codes and texts. */
static bool is_done(const struct gb_msg_tool_done *done)
{
    if (done->denial_count > GB_DENIALS)
        return false;
    for (size_t i = 0; i < GB_DENIALS; i++) {
        const struct gb_denial *d = &done->denials[i];
        /* As a number: whatever came over the wire is not yet one of the codes. */
        uint32_t code;
        memcpy(&code, &d->code, sizeof(code));
        if (code >= GB_DENIAL_COUNT || (i < done->denial_count && code == GB_DENIAL_NONE) ||
            !memchr(d->reason, '\0', sizeof(d->reason)) || !memchr(d->hint, '\0', sizeof(d->hint)))
            return false;
    }
    return true;
}

/* Likewise. What is behind the last is not looked at by anybody, but is to have its ends, too. */
static bool is_pools(const struct gb_msg_pools *pools)
{
    if (pools->count > GB_POOLS)
        return false;
    for (size_t i = 0; i < GB_POOLS; i++) {
        const struct gb_pool_want *w = &pools->want[i];
        if (!memchr(w->program, '\0', sizeof(w->program)) || !memchr(w->preload, '\0', sizeof(w->preload)))
            return false;
        if (i < pools->count && (!w->key || w->kind >= GB_POOL_KINDS || w->low > w->high))
            return false;
    }
    return true;
}

const char *gb_record_kind_name(uint32_t kind)
{
    static const char *const kinds[GB_RECORD_KINDS] = {
            [GB_RECORD_START] = "start",       [GB_RECORD_INTENT] = "intent",
            [GB_RECORD_LAUNCH] = "launch",     [GB_RECORD_OUTCOME] = "outcome",
            [GB_RECORD_LOST] = "lost",         [GB_RECORD_RETENTION] = "retention",
            [GB_RECORD_APPROVAL] = "approval",
    };
    return kind < ARRAY_LEN(kinds) && kinds[kind] ? kinds[kind] : "unknown";
}

/* Is `word` one of the words of `list`, which are separated by spaces? */
static bool has_word(const char *list, const char *word)
{
    const size_t len = strlen(word);
    for (const char *p = list; *p;) {
        const char *end = strchrnul(p, ' ');
        if ((size_t)(end - p) == len && !memcmp(p, word, len))
            return true;
        p = *end ? end + 1 : end;
    }
    return false;
}

int gb_msg_pair(int ret_fd[2])
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -errno;
    ret_fd[0] = pair[0];
    ret_fd[1] = pair[1];
    return 0;
}

int gb_msg_send(int fd, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                size_t tail_bytes, const int *fds, unsigned fd_count)
{
    static const struct gb_msg_none nothing;
    const struct gb_msg_shape *shape = &gb_msg_shapes[kind];
    if (tail_bytes > shape->tail_most || fd_count < shape->fds_least || fd_count > shape->fds_most)
        return -EINVAL;
    struct header header = {.magic = MAGIC, .kind = (uint32_t)kind, .tag = tag};
    struct iovec iov[] = {{&header, sizeof(header)},
                          {(void *)(body ? body : &nothing), shape->body_bytes},
                          {(void *)tail, tail_bytes}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(GB_MSG_FDS * sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov)};
    if (fd_count) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int gb_msg_check(const char *from, const char *to, struct gb_msg *msg, size_t bytes, unsigned fd_count)
{
    struct header header;
    if (bytes < sizeof(header))
        return -EPROTO;
    memcpy(&header, msg->bytes, sizeof(header));
    if (header.magic != MAGIC || header.kind >= GB_MSG_COUNT)
        return -EPROTO;
    const struct gb_msg_shape *shape = &gb_msg_shapes[header.kind];
    const size_t fixed = sizeof(header) + shape->body_bytes;
    if (bytes < fixed || bytes - fixed > shape->tail_most || fd_count < shape->fds_least ||
        fd_count > shape->fds_most || !has_word(shape->from, from) || !has_word(shape->to, to))
        return -EPROTO;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i].kind == header.kind &&
            !memchr(msg->bytes + sizeof(header) + texts[i].offset, '\0', texts[i].size))
            return -EPROTO;
    if (header.kind == GB_MSG_TOOL_DONE && !is_done((const void *)(msg->bytes + sizeof(header))))
        return -EPROTO;
    if (header.kind == GB_MSG_POOLS && !is_pools((const void *)(msg->bytes + sizeof(header))))
        return -EPROTO;
    msg->kind = (enum gb_msg_kind)header.kind;
    msg->tag = header.tag;
    msg->body = msg->bytes + sizeof(header);
    msg->tail = msg->bytes + fixed;
    msg->tail_bytes = bytes - fixed;
    return 0;
}

static void take_fds(struct msghdr *m, struct gb_msg *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && msg->fd_count < GB_MSG_FDS; i++)
            memcpy(&msg->fd[msg->fd_count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

int gb_msg_receive(int fd, const char *from, const char *to, struct gb_msg *ret_msg)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(GB_MSG_FDS * sizeof(int))];
    } control;
    struct iovec iov = {ret_msg->bytes, sizeof(ret_msg->bytes)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    /* A peer that goes with a message of ours unread shows as ECONNRESET once, before its own last words. */
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0)
        return errno == EAGAIN ? -EAGAIN : -EPIPE;
    ret_msg->fd_count = 0;
    take_fds(&msg, ret_msg);
    int r = n == 0 ? -EPIPE
            : msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)
                    ? -EPROTO
                    : gb_msg_check(from, to, ret_msg, (size_t)n, ret_msg->fd_count);
    if (r)
        gb_msg_done(ret_msg);
    return r;
}

void gb_msg_done(struct gb_msg *msg)
{
    for (unsigned i = 0; i < msg->fd_count; i++)
        if (msg->fd[i] >= 0)
            close(TAKE_FD(msg->fd[i]));
    msg->fd_count = 0;
}
