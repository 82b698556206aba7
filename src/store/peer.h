/* One of the two that the store works for: what it may send, and what is still to be sent to it. While
 * anything is, nothing more is read from it: a peer that does not read its answers waits with its questions
 * in its own socket. */
#pragma once

#include "base/loop.h"
#include "store/ledger.h"

#define GB_BATCH 256 /* records that are committed together at most */

struct gb_peer {
    struct gb_source source; /* fd -1: gone */
    const char *name;        /* as in msg.def */
    uint32_t kinds;          /* bits of the kinds of records that it may append */
    bool charges;            /* its records may add to the day's usage */
    bool deaf;               /* it is gone for writing, but may have left records to read */
    bool ended;              /* reading has failed once */
    bool ready;              /* there may be something to read */
    struct {
        uint64_t tag;
        int64_t seq;
        bool quiet;   /* of interest only if it failed */
        bool refused; /* whatever became of the others */
    } acks[GB_BATCH];
    unsigned ack_count, ack_at;
    struct gb_err ack_err;    /* of the batch that the acks are for */
    bool finding, find_usage; /* a question is being answered: about records, or about usage */
    struct gb_msg_find find;
    struct gb_msg_usage last_usage; /* the row sent last: only the day before the first */
    uint64_t find_tag;
    int64_t found, at; /* rows sent, sequence number of the last of them */
};

bool gb_peer_is_busy(const struct gb_peer *peer);
/* Sends what is to be sent, as far as the socket takes it. */
void gb_peer_flush(struct gb_peer *peer, struct gb_ledger *ledger);
/* Watches for what the peer is waited for now; if it is held up by another, for nothing. */
int gb_peer_watch(struct gb_peer *peer, bool held, struct gb_loop *loop);
