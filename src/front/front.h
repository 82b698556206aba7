/* The front: everything untrusted is parsed here, by a process that holds nothing. One thread, one event
 * loop.
 *
 *   conn.c    bytes of a client       -> requests, and replies -> bytes     (http.c reads heads, tls.c wraps
 * sockets) route.c   a request               -> the function that answers it       (auth.c: who asks, and may
 * they) request.c JSON                    -> a call that is well-formed and within its ceilings call.c    a
 * call's life           admitted (sched.c), screened, recorded, run, cleaned, recorded, answered run.c one
 * box                 asked for at the launcher; its output collected and sanitised reply.c   what came of it
 * -> JSON, or a stream of events audit.c   records and questions   to the store and back
 *
 * Names in this folder are static or start with the file's name: it is a program, not a library. */
#pragma once

#include "base/loop.h"
#include "config/config.h"
#include "front/channel.h"
#include "front/metrics.h"
#include "redact/redact.h"
#include "screen/screen.h"

#include <openssl/ssl.h>

#define FRONT_LISTENERS GB_CONFIG_LISTEN
#define FRONT_CHUNK     65536

/* One generation of the configuration. Calls and connections that began under it keep it. */
struct policy {
    unsigned refs;
    struct gb_config *config;
    SSL_CTX *tls; /* NULL: plain */
};

struct front;
struct conn;
struct call;

struct listener {
    struct gb_source source;
    struct front *front;
    bool is_unix, is_loopback;
};

/* What one principal has used. */
struct usage {
    char name[64];
    int64_t active;       /* calls admitted and not yet over */
    int64_t tokens_micro; /* calls left of the rate, in millionths */
    int64_t filled_us;
};

struct front {
    struct gb_loop *loop;
    struct policy *policy;
    struct listener listeners[FRONT_LISTENERS];
    size_t listener_count;
    struct gb_source control;
    struct channel launch, store;
    int diag_fd;  /* asks the kernel who is behind a loopback connection */
    int spare_fd; /* given up for a moment when descriptors run out, to turn a client away properly */

    struct conn *conns, *closed_conns;
    struct gb_timer sweep;
    int64_t conn_count;
    struct call *calls;                  /* all, newest first */
    struct call *waiting, **waiting_end; /* for a slot, oldest first */
    int64_t active, running;             /* calls admitted; boxes asked for */
    struct usage users[GB_CONFIG_KEYS + 1];
    size_t user_count;
    uint64_t next_tag;
    struct audit_wait *waits, **waits_end;
    struct idem *idem;

    struct gb_screen *screen;
    struct gb_rules *rules;
    struct metrics metrics;
    int64_t box_seen_us; /* when a box was last started with success */
    bool probing;        /* a box is being started to see that it can be done */
    bool draining;
    uid_t own_uid; /* the user that started the service */
    char chunk[FRONT_CHUNK];
};

struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p);

/* Nothing is left to do after a stop was asked for. */
void front_check_drained(struct front *f);
/* A peer process is gone or broken: say so and end; the supervisor starts everything anew. */
void front_fail(const char *what) __attribute__((noreturn));
