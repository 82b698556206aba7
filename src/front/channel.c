#include "front/channel.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

struct channel_item {
    struct channel_item *next;
    enum gb_msg_kind kind;
    uint64_t tag;
    int fd[GB_MSG_FDS];
    unsigned fd_count;
    size_t tail_bytes;
    _Alignas(16) char bytes[]; /* body, then tail */
};

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

static void flush(struct channel *ch)
{
    while (ch->queue) {
        struct channel_item *item = ch->queue;
        const size_t body = gb_msg_shapes[item->kind].body_bytes;
        int r = gb_msg_send(ch->source.fd, item->kind, item->tag, item->bytes, item->bytes + body,
                            item->tail_bytes, item->fd, item->fd_count);
        if (r == -EAGAIN)
            return;
        if (r) {
            ch->broken(ch, strerrordesc_np(-r));
            return;
        }
        ch->queue = item->next;
        if (!ch->queue)
            ch->queue_end = &ch->queue;
        close_all(item->fd, item->fd_count);
        free(item);
    }
    gb_loop_watch(ch->loop, &ch->source, EPOLLIN);
}

static void ready(struct gb_source *source, uint32_t events)
{
    struct channel *ch = GB_OWNER(source, struct channel, source);
    if (events & EPOLLOUT)
        flush(ch);
    for (int i = 0; i < 64; i++) { /* then let the others have their turn */
        int r = gb_msg_receive(source->fd, ch->peer, "front", ch->msg);
        if (r == -EAGAIN)
            return;
        if (r) {
            ch->broken(ch, r == -EPROTO ? "sent a message that is none" : "is gone");
            return;
        }
        ch->received(ch, ch->msg);
        gb_msg_done(ch->msg);
        if (ch->expects && !ch->expects(ch))
            return; /* what comes unasked, its end for one, the loop tells */
    }
}

int channel_open(struct channel *ch, struct gb_loop *loop, int fd, const char *peer, struct gb_msg *msg)
{
    if (fcntl(fd, F_SETFL, O_NONBLOCK))
        return -errno;
    ch->loop = loop;
    ch->peer = peer;
    ch->msg = msg;
    ch->source = (struct gb_source){.fd = fd, .ready = ready};
    ch->queue = NULL;
    ch->queue_end = &ch->queue;
    return gb_loop_watch(loop, &ch->source, EPOLLIN);
}

void channel_read(struct channel *ch)
{
    ready(&ch->source, 0);
}

int channel_try(struct channel *ch, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                size_t tail_bytes)
{
    int r = ch->queue ? -EAGAIN : gb_msg_send(ch->source.fd, kind, tag, body, tail, tail_bytes, NULL, 0);
    if (!r || r == -EAGAIN)
        return r;
    ch->broken(ch, strerrordesc_np(-r));
    return 0;
}

int channel_send(struct channel *ch, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                 size_t tail_bytes, const int *fds, unsigned fd_count)
{
    int r = ch->queue ? -EAGAIN
                      : gb_msg_send(ch->source.fd, kind, tag, body, tail, tail_bytes, fds, fd_count);
    if (r != -EAGAIN) {
        close_all(fds, fd_count);
        if (r)
            ch->broken(ch, strerrordesc_np(-r));
        return 0;
    }
    const size_t body_bytes = gb_msg_shapes[kind].body_bytes;
    struct channel_item *item = malloc(sizeof(*item) + body_bytes + tail_bytes);
    if (!item) {
        close_all(fds, fd_count);
        return -ENOMEM;
    }
    item->next = NULL;
    item->kind = kind;
    item->tag = tag;
    item->fd_count = fd_count;
    item->tail_bytes = tail_bytes;
    if (fd_count)
        memcpy(item->fd, fds, fd_count * sizeof(int));
    memcpy(item->bytes, body, body_bytes);
    if (tail_bytes)
        memcpy(item->bytes + body_bytes, tail, tail_bytes);
    *ch->queue_end = item;
    ch->queue_end = &item->next;
    gb_loop_watch(ch->loop, &ch->source, EPOLLIN | EPOLLOUT);
    return 0;
}
