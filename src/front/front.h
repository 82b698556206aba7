/* The front: everything untrusted is parsed here, by a process that holds nothing. One thread, one loop.
 *
 *   conn.c     a client's connection: one request after the other (io.c: its bytes, http.c: heads and chunks)
 *   route.c    a request, to the function that answers it (auth.c, peer.c: who asks, and may they)
 *   request.c  JSON, to a call that is well-formed and within its ceilings (fields.c: its fields)
 *   decide.c   may it be done? Tool, arguments, command, screening, budget.c, approval.c; then what is to run
 *   call.c     a call's life: admitted (sched.c), decided, recorded (record.c, audit.c), run, recorded, over
 *   run.c      one box: asked for at the launcher, its output collected and sanitised
 *   tool.c     the same for tools that are no box: asked for at the broker
 *   result.c   what came of it, as JSON
 *   reply.c    the same, as a reply or as a stream of events (send.c: as bytes of HTTP)
 *   pages.c    answers that need no box (listing.c: tools and policy)
 *
 * Names in this folder are static or start with the file's name: it is a program, not a library. */
#pragma once

#include "base/loop.h"
#include "config/config.h"
#include "front/channel.h"
#include "front/metrics.h"
#include "policy/policy.h"
#include "wire/payload.h"

#include <openssl/ssl.h>

#define FRONT_LISTENERS GB_CONFIG_LISTEN
#define FRONT_CHUNK     65536
#define FRONT_HELD      ((size_t)256 << 20) /* of bodies that are read and requests that wait, together */

/* One generation of the configuration. Calls and connections that began under it keep it. */
struct policy {
    unsigned refs;
    struct gb_config *config;
    struct gb_policy *gb;
    /* Of the policy's rules only the secrets: for results of tools that use them, where nothing else is to be
     * sanitised. NULL: there are none. */
    struct gb_rules *secrets;
    SSL_CTX *tls; /* NULL: plain */
};

struct front;
struct conn;
struct call;

struct listener {
    struct gb_source source;
    struct front *front;
    bool is_unix;
};

/* What one principal has used. */
struct usage {
    char name[64];
    int64_t active;       /* calls admitted and not yet over */
    int64_t parked;       /* those of them that wait for a person, and are not counted */
    int64_t tokens_micro; /* calls left of the rate, in millionths */
    int64_t filled_us;
};

struct front {
    struct gb_loop *loop;
    struct policy *policy;
    struct listener listeners[FRONT_LISTENERS];
    size_t listener_count;
    struct gb_source control;
    struct channel launch, store, broker;
    int diag_fd;  /* asks the kernel who is behind a loopback connection */
    int spare_fd; /* given up for a moment when descriptors run out, to turn a client away properly */

    struct conn *conns, *closed_conns;
    struct gb_timer sweep, opening;
    int64_t conn_count, conn_most;
    size_t held;                         /* see FRONT_HELD */
    struct call *calls;                  /* all, newest first */
    struct call *waiting, **waiting_end; /* for a slot, oldest first */
    int64_t active, running;             /* calls admitted; boxes asked for */
    struct usage users[GB_CONFIG_KEYS + 1];
    size_t user_count;
    uint64_t next_tag;
    struct audit_wait *waits, **waits_end;
    struct idem *idem;
    struct budget *budget;
    struct approvals *approvals;

    struct metrics metrics;
    int64_t unrecorded_us;              /* when a record was last refused; 0: the last one was written */
    int64_t box_seen_us, box_failed_us; /* when a box last ran, and last could not be made */
    bool probing;                       /* a box is being started to see that it can be done */
    bool draining, handing_out;
    uid_t own_uid; /* the user that started the service */
    /* too large for a stack; used within one handler at a time */
    struct gb_msg msg;
    struct gb_payload files;
    char chunk[FRONT_CHUNK];
};

struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p);

/* Nothing is left to do after a stop was asked for. */
void front_check_drained(struct front *f);
/* A peer process is gone or broken: say so and end; the supervisor starts everything anew. */
void front_fail(const char *what) __attribute__((noreturn));
