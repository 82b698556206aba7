/* Records to the store, and questions about them. */
#pragma once

#include "front/front.h"

/* One question that is on its way; embedded in whoever asks, who must live until it is answered. */
struct audit_wait {
    struct audit_wait *next;
    uint64_t tag;
    /* The answer: err.code GB_ERR_NONE if all is well. */
    void (*done)(struct audit_wait *wait, const struct gb_msg_ack *ack);
    /* A row that was found; NULL for appends. */
    void (*row)(struct audit_wait *wait, const struct gb_msg_row *row, const char *body, size_t len);
};

/* 0, or -ENOMEM: then nothing was sent and `done` will not be called. */
int audit_append(struct front *f, struct audit_wait *wait, enum gb_record_kind kind, const char *id,
                 const char *principal, const struct gb_buf *body);
int audit_find(struct front *f, struct audit_wait *wait, const char *id, const char *principal,
               int64_t before, unsigned most);
/* The store's channel has something to say. */
void audit_received(struct channel *ch, struct gb_msg *msg);
