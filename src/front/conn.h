/* One client's connection: reads requests one after the other, writes one reply to each, in order. */
#pragma once

#include "base/buf.h"
#include "front/front.h"
#include "front/http.h"
#include "wire/id.h"

enum conn_state {
    CONN_HEAD,   /* waiting for or reading a request's head */
    CONN_BODY,   /* reading its body */
    CONN_CALL,   /* somebody is working on the reply; only a client that leaves is noticed */
    CONN_REPLY,  /* writing the rest of it */
    CONN_LINGER, /* said all; lets the client read it before the connection goes */
};

/* A request while it is read and answered; an idle connection has none. */
struct exchange {
    struct gb_http_request http;
    char id[GB_ID_CHARS + 1];
    size_t head_bytes; /* 0: not complete yet */
    size_t in_len;     /* bytes in `in`: the head, then what came behind it */
    size_t known;      /* of them, when the head was last looked at */
    uint64_t body_left;
    struct gb_chunks chunks;
    struct gb_buf body;
    const struct route *route;
    struct gb_slice param; /* the variable part of the path */
    char principal[64];
    bool streaming, head_only;
    int status; /* of the reply */
    int64_t start_us;
    char in[GB_HTTP_HEAD_BYTES + 8192];
};

struct conn {
    struct front *front;
    struct policy *policy;
    const struct listener *listener;
    struct conn *next, *prev;
    struct gb_source source;
    struct gb_timer timer;
    SSL *tls;
    enum conn_state state;
    bool keep_alive, advancing, closed;
    bool want_write;  /* the TLS layer must write before it can read */
    int64_t peer_uid; /* -1: not known (yet) */
    char own[48]; /* the address that the client connected to, as it would be written in Host; "": likewise */
    struct exchange *x;
    struct gb_buf out;
    size_t out_at, taken; /* written; since the deadline was set */
    /* Who is to be told that the client has left, or that it can take more; NULL if nobody. */
    struct call *call;
    struct query *query;             /* a question to the store */
    const struct approval *deciding; /* waits until the decision on it is recorded */
    bool wants_ready;                /* waits for the probe that somebody else's question has started */
};

/* Takes over the descriptor. */
void conn_accept(struct front *f, const struct listener *listener, int fd);
/* To be called when a reply was made outside of the connection's own handlers. */
void conn_advance(struct conn *c);
void conn_set_state(struct conn *c, enum conn_state state);
/* The body was used, or is not wanted any more. */
void conn_drop_body(struct conn *c);
/* The connection that has idled longest makes room, if there is one. */
bool conn_evict(struct front *f);
/* Bytes that wait for a slow reader. */
size_t conn_backlog(const struct conn *c);
/* Ends idle connections and those that are idle next. */
void conn_drain_all(struct front *f);
/* Frees closed connections; the front's timer. */
void conn_sweep(struct gb_timer *timer);
