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
    /* A row of usage; NULL for everything else. */
    void (*usage)(struct audit_wait *wait, const struct gb_msg_usage *usage);
};

/* 0, or -ENOMEM: then nothing was sent and `done` will not be called. */
int audit_append(struct front *f, struct audit_wait *wait, enum gb_record_kind kind, const char *id,
                 const char *principal, const struct gb_buf *body);
/* The same for a record that counts: what->tool, calls and cpu_us say what it adds to the day's usage. */
int audit_append_use(struct front *f, struct audit_wait *wait, const struct gb_msg_append *what,
                     const struct gb_buf *body);
/* A record that nobody waits for; call_unrecorded is called if it cannot be stored. It is with the store
 * before anything that is sent to others later. 0, -ENOMEM, or -EAGAIN: then it is not. */
int audit_append_quiet(struct front *f, struct gb_msg_append *what, const struct gb_buf *body,
                       uint64_t *ret_tag);
int audit_find(struct front *f, struct audit_wait *wait, const char *id, const char *principal,
               int64_t before, unsigned most);
int audit_find_usage(struct front *f, struct audit_wait *wait, int64_t day);
/* The store's channel has something to say. */
void audit_received(struct channel *ch, struct gb_msg *msg);
/* Are there questions without an answer? */
bool audit_expects(const struct channel *ch);
