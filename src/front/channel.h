/* A channel to another process of the service, with a queue for what it cannot take at the moment. */
#pragma once

#include "base/loop.h"
#include "wire/msg.h"

struct channel_item;

struct channel {
    struct gb_loop *loop;
    struct gb_source source;
    const char *peer;   /* "launch", "store" */
    struct gb_msg *msg; /* where to receive; not kept between handlers */
    void (*received)(struct channel *ch, struct gb_msg *msg);
    bool (*expects)(const struct channel *ch); /* is more to come? NULL: that is not known */
    void (*broken)(struct channel *ch, const char *why);
    struct channel_item *queue, **queue_end;
};

int channel_open(struct channel *ch, struct gb_loop *loop, int fd, const char *peer, struct gb_msg *msg);
/* Takes over the descriptors, whatever comes of it. -ENOMEM or 0: later trouble is told by `broken`. */
int channel_send(struct channel *ch, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                 size_t tail_bytes, const int *fds, unsigned fd_count);
/* The same without a queue and without descriptors: -EAGAIN if it cannot be sent at once. */
int channel_try(struct channel *ch, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                size_t tail_bytes);
/* Takes what has come by now, before the loop tells. */
void channel_read(struct channel *ch);
