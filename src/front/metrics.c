#include "front/metrics.h"

#include "base/auto.h"
#include "base/clock.h"
#include "front/call.h"
#include "spec/spec.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(METRICS_KINDS == GB_TOOL_KINDS, "a row for each kind of tool");

static const int64_t bounds_us[METRICS_BUCKETS] = {500,     1000,     2500,     5000,     10000,
                                                   25000,   50000,    100000,   250000,   1000000,
                                                   2500000, 10000000, 30000000, 300000000};

void metrics_reply(struct metrics *m, int status)
{
    m->replies[status / 100 < 6 ? status / 100 : 5]++;
}

void metrics_observe(struct histogram *h, int64_t us)
{
    h->count++;
    h->sum_us += us;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        h->bucket[i] += us <= bounds_us[i];
}

void metrics_call(struct metrics *m, const struct call *call)
{
    const struct gb_runtime *rt = call->request.runtime;
    const char *killed = call->result.kill_reason ? call->result.kill_reason : "";
    metrics_observe(&m->duration, gb_clock_us() - call->start_us);
    m->outcomes[rt ? rt - gb_runtimes : METRICS_RUNTIMES][call->result.status]++;
    m->kinds[call->tool->kind][call->result.status]++;
    for (size_t i = 0; i < call->denial_count; i++)
        m->denials[call->denials[i].code]++;
    if (call->enforced)
        m->starts[call->result.enforced.start]++;
    m->redactions += call->redactions;
    m->out_of_memory += !strcmp(killed, "memory");
    m->timeouts += !strcmp(killed, "timeout");
}

static void write_histogram(struct gb_buf *out, const char *name, const char *help, const struct histogram *h)
{
    gb_buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        gb_buf_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)bounds_us[i] / 1e6,
                      h->bucket[i]);
    gb_buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n%s_count %" PRIu64 "\n", name,
                  h->count, name, (double)h->sum_us / 1e6, name, h->count);
}

static void write_outcomes(struct gb_buf *out, const struct metrics *m)
{
    gb_buf_puts(out, "# HELP glovebox_executions_total Calls that ended, by language and outcome.\n"
                     "# TYPE glovebox_executions_total counter\n");
    for (size_t r = 0; r <= METRICS_RUNTIMES; r++)
        for (int s = 0; s < GB_STATUS_COUNT; s++)
            gb_buf_printf(out, "glovebox_executions_total{language=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                          r < METRICS_RUNTIMES ? gb_runtimes[r].name : "none",
                          gb_status_name((enum gb_status)s), m->outcomes[r][s]);
    gb_buf_puts(out, "# HELP glovebox_tool_calls_total Calls that ended, by the tool's kind and outcome.\n"
                     "# TYPE glovebox_tool_calls_total counter\n");
    for (size_t k = 0; k < METRICS_KINDS; k++)
        for (int s = 0; s < GB_STATUS_COUNT; s++)
            gb_buf_printf(out, "glovebox_tool_calls_total{kind=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                          gb_tool_kinds[k], gb_status_name((enum gb_status)s), m->kinds[k][s]);
    gb_buf_puts(out, "# HELP glovebox_denials_total Reasons for which calls were refused.\n"
                     "# TYPE glovebox_denials_total counter\n");
    for (int d = GB_DENIAL_NONE + 1; d < GB_DENIAL_COUNT; d++)
        gb_buf_printf(out, "glovebox_denials_total{code=\"%s\"} %" PRIu64 "\n",
                      gb_denial_name((enum gb_denial_code)d), m->denials[d]);
}

/* Calls that wait for a person. */
static int64_t parked(const struct front *f)
{
    int64_t sum = 0;
    for (size_t i = 0; i < f->user_count; i++)
        sum += f->users[i].parked;
    return sum;
}

void metrics_write(const struct front *f, struct gb_buf *out)
{
    const struct metrics *m = &f->metrics;
    const struct {
        const char *name, *type, *help;
        int64_t value;
    } plain[] = {
            {"glovebox_sandboxes_active", "gauge", "Boxes that run now.", f->running},
            {"glovebox_queue_depth", "gauge", "Calls that wait for a box or for the audit.",
             f->active - f->running},
            {"glovebox_approvals_waiting", "gauge", "Calls that wait for a person to agree.", parked(f)},
            {"glovebox_connections", "gauge", "Open client connections.", f->conn_count},
            {"glovebox_connections_refused_total", "counter", "Connections turned away for want of a place.",
             (int64_t)m->turned_away},
            {"glovebox_rate_limited_total", "counter", "Calls refused because of their key's rate or boxes.",
             (int64_t)m->rate_limited},
            {"glovebox_queue_full_total", "counter", "Calls refused because too many waited.",
             (int64_t)m->queue_full},
            {"glovebox_audit_failures_total", "counter", "Records that could not be written.",
             (int64_t)m->audit_failed},
            {"glovebox_redactions_total", "counter", "Pieces of output that were replaced.",
             (int64_t)m->redactions},
            {"glovebox_timeouts_total", "counter", "Boxes that ran out of time.", (int64_t)m->timeouts},
            {"glovebox_oom_kills_total", "counter", "Boxes that ran out of memory.",
             (int64_t)m->out_of_memory},
    };
    gb_buf_puts(out, "# HELP glovebox_build_info What this is.\n# TYPE glovebox_build_info gauge\n"
                     "glovebox_build_info{version=\"" GB_VERSION "\"} 1\n");
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        gb_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRId64 "\n", plain[i].name, plain[i].help,
                      plain[i].name, plain[i].type, plain[i].name, plain[i].value);
    gb_buf_puts(out, "# HELP glovebox_http_replies_total Replies, by class of status.\n"
                     "# TYPE glovebox_http_replies_total counter\n");
    for (int i = 1; i < 6; i++)
        gb_buf_printf(out, "glovebox_http_replies_total{class=\"%dxx\"} %" PRIu64 "\n", i, m->replies[i]);
    gb_buf_puts(out, "# HELP glovebox_sandbox_starts_total Boxes of calls, by where they came from.\n"
                     "# TYPE glovebox_sandbox_starts_total counter\n");
    for (int i = 0; i < GB_START_COUNT; i++)
        gb_buf_printf(out, "glovebox_sandbox_starts_total{start=\"%s\"} %" PRIu64 "\n",
                      gb_start_name((enum gb_start)i), m->starts[i]);
    write_outcomes(out, m);
    write_histogram(out, "glovebox_execution_duration_seconds", "From a call's last byte to its reply.",
                    &m->duration);
    write_histogram(out, "glovebox_sandbox_wait_seconds",
                    "From a call's last byte until its box was asked for.", &m->start);
}
