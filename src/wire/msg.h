/* How our processes talk: one SOCK_SEQPACKET message is a header, a body of fixed size, perhaps a tail of
 * bytes, and perhaps descriptors. msg.def is the whole vocabulary. Bodies are plain integers and arrays, so
 * that a receiver needs no parser; both ends are built together, so there is no version in them but the
 * magic. */
#pragma once

#include "base/err.h"
#include "spec/denial.h"
#include "spec/limits.h"
#include "spec/pool.h"
#include "spec/result.h"

#include <stddef.h>
#include <stdint.h>

#define GB_MSG_FDS        13
#define GB_MSG_BYTES_MOST ((size_t)128 * 1024)
#define GB_ID_BYTES       32 /* an execution's id with its NUL; see wire/id.h */
#define GB_PRINCIPAL      64 /* a principal's name with its NUL */
#define GB_TOOL_NAME      64 /* a tool's */

struct gb_msg_none {
    uint64_t nothing;
};

/* How much to log, and how; see base/log.h. */
struct gb_msg_log {
    uint32_t level, format;
};

/* What the launcher holds every request against. Strings are NUL-terminated; empty means none. */
struct gb_msg_ceiling {
    struct gb_limits limits;
    uint32_t running; /* boxes at once */
    struct gb_msg_log log;
    uint32_t reserved;
    char cgroup_parent[256];
    char degraded[128]; /* comma list of layers that may be missing on this host */
};

struct gb_msg_retention {
    int64_t keep_seconds, keep_bytes; /* 0: without end */
    uint32_t sync_full;               /* wait for the disk at each commit */
    struct gb_msg_log log;
    uint32_t reserved;
    char degraded[128]; /* as in the ceiling, for the store's own confinement */
};

/* Which boxes shall wait for calls, in place of those that did before. Without one, none. */
struct gb_msg_pools {
    uint32_t count;
    uint32_t zygote_boxes; /* so many boxes come from one zygote before a fresh one takes its place */
    uint32_t idle_ms;      /* so long without a call of its kind, and only `low` of them are kept */
    uint32_t reserved;
    struct gb_pool_want want[GB_POOLS]; /* behind count: nothing */
};

#define GB_RUN_PROBE                                                                                         \
    1U /* not a call: start a box with nothing of anybody's in it, to see that it can be done */
#define GB_RUN_START_CODE                                                                                    \
    2U /* Python: our start-up code must run before the script; it is not in the payload */
#define GB_RUN_FOLLOWED 4U /* output is wanted as it comes, not only when there is much of it or all */

struct gb_msg_run {
    char id[GB_ID_BYTES];
    struct gb_limits limits;
    uint32_t flags;
    uint32_t runtime; /* index into gb_runtimes + 1 for messages about a missing one; 0: a plain program */
    uint64_t payload_bytes;
    uint64_t pool; /* key of the kind of box that may wait for such a call; 0: one is built for it alone */
};

struct gb_msg_serve {
    struct gb_msg_run ask;
    struct gb_msg_ceiling ceiling;
    uint32_t again; /* build another box afterwards */
    uint32_t start; /* enum gb_start */
};

struct gb_msg_done {
    int32_t status; /* enum gb_status */
    int32_t exit_code, signal;
    uint32_t file_count;
    char kill_reason[16];
    struct gb_usage usage; /* without the bytes of the streams: the front counts those */
    uint32_t start;        /* enum gb_start, as in the receipt */
    uint32_t reserved;
    /* the tail is the receipt, written by gb_receipt_to_json: only the launcher knows the steps */
};

struct gb_msg_broker {
    struct gb_msg_log log;
    uint32_t running; /* calls at once */
    uint32_t reserved;
    char degraded[128];
};

struct gb_msg_tool {
    char id[GB_ID_BYTES];
    char policy[72]; /* sha256 of the configuration under which it was decided, in hexadecimal */
    char tool[GB_TOOL_NAME];
};

struct gb_msg_tool_done {
    int32_t failed; /* it was tried and went wrong: the result says how */
    uint32_t denial_count;
    int64_t wall_us;
    struct gb_denial denials[GB_DENIALS]; /* if there are any, nothing was done */
};

struct gb_msg_failed {
    struct gb_err err;
};

enum gb_record_kind {
    GB_RECORD_START = 1, /* the store has begun or resumed the chain */
    GB_RECORD_INTENT,    /* from the front: a call is about to run, or was refused */
    GB_RECORD_LAUNCH,    /* from the launcher: a box was started for it */
    GB_RECORD_OUTCOME,   /* from the front: what came of it */
    GB_RECORD_LOST,      /* from the store: the service ended before the outcome was known */
    GB_RECORD_RETENTION, /* from the store: older records were removed */
    GB_RECORD_APPROVAL,  /* from the front: a person was asked, has decided, or did not in time */
    GB_RECORD_KINDS
};
const char *gb_record_kind_name(uint32_t kind); /* "intent", …; "unknown" */

struct gb_msg_append {
    uint32_t kind;  /* enum gb_record_kind */
    uint32_t calls; /* that this record adds to the day's usage of principal and tool: 0 or 1 */
    int64_t cpu_us; /* likewise */
    char id[GB_ID_BYTES];
    char principal[GB_PRINCIPAL];
    char tool[GB_TOOL_NAME]; /* "": nothing is added */
    uint32_t quiet;          /* answer only if it cannot be stored */
    uint32_t reserved;
};

struct gb_msg_ack {
    int64_t seq;       /* of the record; for END: how many rows there were */
    struct gb_err err; /* code GB_ERR_NONE: done */
};

struct gb_msg_find {
    char id[GB_ID_BYTES];         /* "": the newest outcomes */
    char principal[GB_PRINCIPAL]; /* "": of all */
    int64_t before;               /* only records with a smaller sequence number; 0: from the newest */
    uint32_t most;                /* rows */
    uint32_t reserved;
};

struct gb_msg_row {
    int64_t seq, time_us; /* wall clock */
    uint32_t kind, reserved;
    char id[GB_ID_BYTES];
    char principal[GB_PRINCIPAL];
};

struct gb_msg_find_usage {
    int64_t day; /* days since 1970, UTC */
};

struct gb_msg_usage {
    char principal[GB_PRINCIPAL];
    char tool[GB_TOOL_NAME];
    int64_t day, calls, cpu_us;
};

enum gb_msg_kind {
#define GB_MSG(name, body, tail, fewest, most, from, to, why) GB_MSG_##name,
#include "wire/msg.def"
#undef GB_MSG
    GB_MSG_COUNT
};

struct gb_msg_shape {
    const char *name, *from, *to;
    size_t body_bytes, tail_most;
    unsigned fds_least, fds_most;
};

extern const struct gb_msg_shape gb_msg_shapes[GB_MSG_COUNT];

/* One message as it arrived. `bytes` holds it; body and tail point into it. Owns its descriptors. */
struct gb_msg {
    enum gb_msg_kind kind;
    uint64_t tag;
    const void *body; /* of the struct that msg.def names, aligned */
    const char *tail;
    size_t tail_bytes;
    int fd[GB_MSG_FDS];
    unsigned fd_count;
    _Alignas(16) char bytes[GB_MSG_BYTES_MOST];
};

/* Makes a connected pair of sockets for such messages, close-on-exec. */
int gb_msg_pair(int ret_fd[2]);
/* Sends one message whole, and never waits: a peer that does not read must not stop us. 0, -EAGAIN (it is
 * slow), or another negative errno: it is gone. Descriptors stay the caller's. */
int gb_msg_send(int fd, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                size_t tail_bytes, const int *fds, unsigned fd_count);
/* Receives one message that `to` may get from `from` (names as in msg.def). 0, -EAGAIN, -EPIPE when the peer
 * is gone, -EPROTO for anything that is not of the shape that msg.def gives it (its descriptors are closed).
 * Text fields of the body are checked to be NUL-terminated. After 0, release with gb_msg_done. */
int gb_msg_receive(int fd, const char *from, const char *to, struct gb_msg *ret_msg);
/* The check alone, on bytes as received: what the fuzz target drives. Fills kind, tag, body and tail. */
int gb_msg_check(const char *from, const char *to, struct gb_msg *msg, size_t bytes, unsigned fd_count);
/* Closes the descriptors that nobody has taken (set msg->fd[i] to -1 to take one). */
void gb_msg_done(struct gb_msg *msg);
