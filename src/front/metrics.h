/* What Prometheus is told. No label holds anything that a caller chose. */
#pragma once

#include "base/buf.h"
#include "spec/denial.h"
#include "spec/result.h"

#include <stdint.h>

#define METRICS_BUCKETS 14
#define METRICS_KINDS   5 /* of tools */

enum {
    METRICS_RUNTIMES = 0
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a sum */
#define GB_RUNTIME(...) +1
#include "spec/runtimes.def"
#undef GB_RUNTIME
};

struct histogram {
    uint64_t count, bucket[METRICS_BUCKETS];
    int64_t sum_us;
};

struct metrics {
    uint64_t replies[6];                                      /* by the first digit of the status */
    uint64_t outcomes[METRICS_RUNTIMES + 1][GB_STATUS_COUNT]; /* the last: tools that run no code */
    uint64_t kinds[METRICS_KINDS][GB_STATUS_COUNT];
    uint64_t denials[GB_DENIAL_COUNT];
    uint64_t starts[GB_START_COUNT]; /* boxes of calls */
    uint64_t turned_away, rate_limited, queue_full, audit_failed, redactions, out_of_memory, timeouts;
    struct histogram duration; /* of a call, from its last byte to its reply */
    struct histogram start;    /* until its box was asked for */
};

static inline void metrics_count(uint64_t *counter)
{
    (*counter)++;
}
void metrics_reply(struct metrics *m, int status);
void metrics_observe(struct histogram *h, int64_t us);

struct call;
/* A call is over. */
void metrics_call(struct metrics *m, const struct call *call);

struct front;
void metrics_write(const struct front *f, struct gb_buf *out);
