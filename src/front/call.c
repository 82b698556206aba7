#include "front/call.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/idem.h"
#include "front/pages.h"
#include "front/reply.h"
#include "front/route.h"
#include "front/sched.h"
#include "front/send.h"
#include "wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RECORD_MOST   60000
#define KEEP_ALIVE_US ((int64_t)15 * 1000000)
#define BACKLOG_MOST  ((size_t)256 << 10) /* a reader slower than the box: stop taking output */

static void finish(struct call *call);

/* --- making and ending --- */

/* NULL after a reply, when there is no memory for it. */
static struct call *call_new(struct conn *c)
{
    struct front *f = c->front;
    struct call *call = calloc(1, sizeof(*call));
    if (!call) {
        struct gb_err err;
        gb_err_set(&err, GB_ERR_BUSY, ENOMEM, "keep the call");
        reply_later(c, &err, 1);
        return NULL;
    }
    call->front = f;
    call->policy = policy_ref(c->policy);
    call->conn = c;
    call->run.socket.fd = call->run.stream[0].fd = call->run.stream[1].fd = -1;
    call->result.exit_code = -1;
    call->start_us = gb_clock_us();
    call->by_unix = c->listener->is_unix;
    gb_id_new(call->id);
    snprintf(call->request_id, sizeof(call->request_id), "%s", c->x->id);
    snprintf(call->principal, sizeof(call->principal), "%s", c->x->principal);
    call->next = f->calls;
    if (call->next)
        call->next->prev = call;
    f->calls = call;
    return call;
}

/* The box has its copy, or there will be none. */
static void drop_request(struct call *call)
{
    request_done(&call->request);
    call->front->held -= call->held;
    call->held = 0;
}

static void call_free(struct call *call)
{
    struct front *f = call->front;
    if (call->conn)
        call->conn->call = NULL;
    if (call->idem)
        idem_drop(f->idem, call->idem);
    gb_loop_at(f->loop, &call->timer, 0);
    run_done(call);
    sched_leave(call);
    drop_request(call);
    gb_result_done(&call->result);
    free(call->skipped);
    free(call->enforced);
    policy_unref(call->policy);
    if (call->prev)
        call->prev->next = call->next;
    else
        f->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    free(call);
    front_check_drained(f);
}

/* --- the records --- */

static void intent_text(const struct call *call, struct gb_buf *out)
{
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "tool", call->request.tool);
    gb_json_text(&j, "language", call->request.runtime->name);
    gb_json_text(&j, "route", call->seeds ? "/execute" : "/v1/execute");
    gb_json_text(&j, "client", call->by_unix ? "unix" : "tcp");
    gb_json_text(&j, "request_id", call->request_id);
    gb_json_text(&j, "arguments_sha256", call->request.sha256);
    gb_limits_to_json(&j, "limits", &call->request.limits);
    gb_json_text(&j, "decision", call->blocked ? "block" : "allow");
    gb_json_open(&j, "reasons", '[');
    for (size_t i = 0; i < call->finding_count; i++)
        gb_json_text(&j, NULL, call->findings[i].rule);
    gb_json_close(&j, ']');
    gb_json_close(&j, '}');
}

static void outcome_text(const struct call *call, struct gb_buf *out)
{
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "tool", call->request.tool);
    gb_json_text(&j, "language", call->request.runtime->name);
    gb_result_end_to_json(&j, &call->result);
    if (call->err.code != GB_ERR_NONE) {
        gb_json_text(&j, "error", gb_err_name((enum gb_error_code)call->err.code));
        gb_json_text(&j, "step", call->err.step);
    }
    gb_json_decimal(&j, "execution_time_ms", call->result.usage.wall_us, 3);
    gb_usage_to_json(&j, "resource_usage", &call->result.usage);
    gb_json_int(&j, "redactions", (int64_t)call->redactions);
    gb_json_bool(&j, "truncated", gb_buf_truncated(&call->result.out) || gb_buf_truncated(&call->result.err));
    gb_json_int(&j, "files", (int64_t)call->result.file_count);
    const char *enforced = call->enforced ? call->enforced : "null";
    gb_json_raw(&j, "enforced", enforced, strlen(enforced));
    gb_json_close(&j, '}');
}

static void note_ack(struct front *f, const struct gb_msg_ack *ack)
{
    const bool failed = ack->err.code != GB_ERR_NONE;
    f->unrecorded_us = failed ? gb_clock_us() : 0;
    f->metrics.audit_failed += failed;
}

static void outcome_done(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    struct call *call = GB_OWNER(wait, struct call, wait);
    struct front *f = call->front;
    note_ack(f, ack);
    if (ack->err.code != GB_ERR_NONE) {
        gb_log(GB_LOG_ERROR, "outcome not recorded", GB_S("id", call->id), GB_S("error", ack->err.text));
        call->err = ack->err; /* a result that has no record is not given out */
    }
    metrics_observe(&f->metrics.duration, gb_clock_us() - call->start_us);
    f->metrics.outcomes[call->request.runtime - gb_runtimes][call->result.status]++;
    f->metrics.redactions += call->redactions;
    const char *killed = call->result.kill_reason ? call->result.kill_reason : "";
    f->metrics.out_of_memory += !strcmp(killed, "memory");
    f->metrics.timeouts += !strcmp(killed, "timeout");
    gb_log(GB_LOG_INFO, "call", GB_S("id", call->id), GB_S("request_id", call->request_id),
           GB_S("principal", call->principal), GB_S("language", call->request.runtime->name),
           GB_S("status", gb_status_name(call->result.status)),
           GB_S("error", call->err.code ? gb_err_name((enum gb_error_code)call->err.code) : ""),
           GB_S("detail", call->err.text), GB_I("us", gb_clock_us() - call->start_us));
    struct conn *c = call->conn;
    if (c)
        reply_call(call);
    else if (call->idem && call->err.code == GB_ERR_NONE)
        reply_keep(call); /* it ran to its end: whoever repeats it gets that */
    call_free(call);
    if (c)
        conn_advance(c);
}

/* Whatever became of it is known: record it, then reply. */
static void finish(struct call *call)
{
    struct front *f = call->front;
    AUTO_BUF body = {.max = RECORD_MOST};
    gb_loop_at(f->loop, &call->timer, 0);
    sched_release(call);
    call->state = CALL_OUTCOME;
    if (call->cancelled && !call->ran && !call->blocked && call->err.code == GB_ERR_NONE) {
        call->result.status = GB_STATUS_CANCELLED;
        call->result.kill_reason = "cancelled";
    }
    if (call->err.code != GB_ERR_NONE) /* nothing was run: the caller's doing, or ours */
        call->result.status = gb_err_http_status((enum gb_error_code)call->err.code) < 500
                                      ? GB_STATUS_BLOCKED
                                      : GB_STATUS_INTERNAL;
    outcome_text(call, &body);
    call->wait.done = outcome_done;
    if (audit_append(f, &call->wait, GB_RECORD_OUTCOME, call->id, call->principal, &body)) {
        struct gb_msg_ack ack = {0};
        gb_err_set(&ack.err, GB_ERR_AUDIT, ENOMEM, "record the outcome");
        outcome_done(&call->wait, &ack);
    }
}

static void fail(struct call *call, const struct gb_err *err)
{
    call->err = *err;
    finish(call);
}

/* --- running --- */

static void timer_fired(struct gb_timer *timer)
{
    struct call *call = GB_OWNER(timer, struct call, timer);
    if (call->state == CALL_WAITING) {
        struct gb_err err;
        gb_err_set(&err, GB_ERR_QUEUE, 0, "no box came free in boxes.wait_seconds");
        metrics_count(&call->front->metrics.queue_full);
        fail(call, &err);
    } else if (call->conn && call->stream != STREAM_NONE) {
        reply_keep_alive(call);
        gb_loop_at(call->front->loop, timer, gb_clock_us() + KEEP_ALIVE_US);
        conn_advance(call->conn);
    }
}

static void intent_done(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    struct call *call = GB_OWNER(wait, struct call, wait);
    note_ack(call->front, ack);
    if (ack->err.code != GB_ERR_NONE) {
        /* Not recorded, so not run; and there is no intent that an outcome could belong to. */
        struct conn *c = call->conn;
        gb_log(GB_LOG_ERROR, "intent not recorded", GB_S("id", call->id), GB_S("error", ack->err.text));
        if (c)
            reply_later(c, &ack->err, 5);
        call_free(call);
        if (c)
            conn_advance(c);
        return;
    }
    if (call->blocked) {
        call->result.status = GB_STATUS_BLOCKED;
        finish(call);
        return;
    }
    if (call->cancelled) {
        finish(call);
        return;
    }
    if (call->stream != STREAM_NONE) {
        reply_start(call);
        if (call->conn)
            conn_advance(call->conn);
        if (call->cancelled) { /* the client left while we wrote */
            finish(call);
            return;
        }
    }
    call->state = CALL_WAITING;
    gb_loop_at(call->front->loop, &call->timer, gb_clock_us() + call->policy->config->boxes.wait_ms * 1000);
    sched_request(call);
}

void call_start(struct call *call)
{
    struct gb_err err = {0};
    call->state = CALL_RUNNING;
    gb_loop_at(call->front->loop, &call->timer,
               call->stream != STREAM_NONE ? gb_clock_us() + KEEP_ALIVE_US : 0);
    if (!call->probe)
        metrics_observe(&call->front->metrics.start, gb_clock_us() - call->start_us);
    int r = run_start(call, call->probe, &err);
    drop_request(call);
    if (r)
        call_ran(call, &err);
}

static void tell_ready(struct conn *c, const struct gb_err *err)
{
    c->wants_ready = false;
    if (err->code == GB_ERR_NONE)
        pages_is_ready(c);
    else
        reply_problem(c, 503, err, "");
    conn_advance(c);
}

static void probe_ran(struct call *call, const struct gb_err *err)
{
    struct front *f = call->front;
    struct conn *c = call->conn;
    f->probing = false;
    call_free(call);
    if (c)
        tell_ready(c, err);
    do { /* from the start each time: an answer can change the list */
        for (c = f->conns; c && !c->wants_ready; c = c->next)
            ;
        if (c)
            tell_ready(c, err);
    } while (c);
}

void call_ran(struct call *call, const struct gb_err *err)
{
    if (call->probe)
        probe_ran(call, err);
    else if (err->code != GB_ERR_NONE)
        fail(call, err);
    else {
        call->ran = true;
        finish(call);
    }
}

void call_output(struct call *call)
{
    if (call->stream == STREAM_NONE || !call->conn)
        return;
    reply_output(call);
    conn_advance(call->conn);
    if (call->conn && conn_backlog(call->conn) > BACKLOG_MOST)
        run_pause(call, true);
}

void call_client_reads(struct call *call)
{
    if (call->conn && conn_backlog(call->conn) < BACKLOG_MOST / 2)
        run_pause(call, false);
}

/* --- cancelling --- */

void call_cancel(struct call *call)
{
    call->cancelled = true;
    if (call->state == CALL_WAITING)
        finish(call);
    else if (call->state == CALL_RUNNING)
        run_cancel(call);
}

void call_client_left(struct call *call)
{
    call->conn = NULL;
    if (call->idem && call->state != CALL_OUTCOME)
        idem_drop(call->front->idem, TAKE_PTR(call->idem));
    run_pause(call, false);
    if (!call->probe) /* which is over soon, and others may wait for it */
        call_cancel(call);
}

struct call *call_find(struct front *f, const char *id, const char *principal)
{
    for (struct call *call = f->calls; call; call = call->next)
        if (!call->probe && !strcmp(call->id, id) && !strcmp(call->principal, principal))
            return call;
    return NULL;
}

/* --- the beginning --- */

static enum call_stream wanted_stream(const struct conn *c, const struct request *r)
{
    size_t count = 0;
    const struct gb_http_header *accept = gb_http_find(&c->x->http, "Accept", &count);
    if (accept && route_accepts(accept->value, "text/event-stream"))
        return STREAM_SSE;
    if (accept && route_accepts(accept->value, "application/x-ndjson"))
        return STREAM_NDJSON;
    return r->stream ? STREAM_SSE : STREAM_NONE;
}

/* Returns true if the call may go on; otherwise the reply is made. */
static bool claim_key(struct call *call)
{
    struct conn *c = call->conn;
    size_t count = 0;
    struct gb_err err;
    const struct gb_buf *stored = NULL;
    const struct gb_http_header *key = gb_http_find(&c->x->http, "Idempotency-Key", &count);
    if (!key)
        return true;
    char what[80];
    snprintf(what, sizeof(what), "%s %s", call->seeds ? "/execute" : "/v1", call->request.sha256);
    int r = count > 1 ? gb_err_set(&err, GB_ERR_USAGE, 0, "Idempotency-Key: is given twice")
            : call->stream != STREAM_NONE
                    ? gb_err_set(&err, GB_ERR_USAGE, 0, "Idempotency-Key: a stream cannot be repeated")
                    : idem_claim(call->front->idem, call->principal, key->value, what, &call->idem, &stored,
                                 &err);
    if (r < 0)
        reply_problem(c, 0, &err, err.code == GB_ERR_CONFLICT ? "Retry-After: 1\r\n" : "");
    else if (stored)
        send_reply(c, 200, "application/json", "Idempotent-Replayed: true\r\n", stored->data, stored->len);
    return r == 0;
}

static void screen(struct call *call)
{
    const enum gb_screen_action action = call->policy->config->screen;
    const struct request *r = &call->request;
    if (action == GB_SCREEN_OFF)
        return;
    call->finding_count =
            gb_screen_code(call->front->screen, r->runtime->name, r->code, r->code_len, call->findings);
    call->blocked = call->finding_count && action == GB_SCREEN_BLOCK;
}

/* Replies why not, and forgets the call. */
static void refuse(struct call *call, const struct gb_err *err, int retry_s)
{
    if (retry_s)
        reply_later(call->conn, err, retry_s);
    else
        reply_problem(call->conn, 0, err, "");
    call_free(call);
}

void call_begin(struct conn *c, bool seeds)
{
    struct gb_err err = {0};
    int retry_s;
    struct call *call = call_new(c);
    if (!call)
        return;
    call->seeds = seeds;
    call->request.runtime = &gb_runtimes[0];
    /* First whether it may run, then what it is: reading is work, too. */
    if (sched_admit(call, &retry_s, &err)) {
        refuse(call, &err, retry_s);
        return;
    }
    if (request_read(call->policy->config, seeds, c->x->body.data ? c->x->body.data : "", c->x->body.len,
                     &call->request, &err)) {
        refuse(call, &err, 0);
        return;
    }
    call->held = 2 * c->x->body.len; /* as JSON, and for the launcher */
    call->front->held += call->held;
    conn_drop_body(c);
    call->stream = wanted_stream(c, &call->request);
    if (!claim_key(call)) {
        call_free(call);
        return;
    }
    screen(call);
    c->call = call;
    call->timer.fire = timer_fired;
    AUTO_BUF body = {.max = RECORD_MOST};
    intent_text(call, &body);
    call->wait.done = intent_done;
    if (audit_append(call->front, &call->wait, GB_RECORD_INTENT, call->id, call->principal, &body)) {
        gb_err_set(&err, GB_ERR_AUDIT, ENOMEM, "record the call");
        refuse(call, &err, 1);
    }
}

void call_probe(struct conn *c)
{
    struct gb_err err = {0};
    int retry_s;
    struct call *call = call_new(c);
    if (!call)
        return;
    call->probe = true;
    snprintf(call->principal, sizeof(call->principal), "(probe)");
    call->request = (struct request){
            .runtime = &gb_runtimes[0], .limits = call->policy->config->limits, .payload.max = 64};
    gb_payload_add(&call->request.payload, GB_ITEM_ARG, "true", sizeof("true"));
    call->timer.fire = timer_fired;
    if (sched_admit(call, &retry_s, &err)) {
        refuse(call, &err, retry_s);
        return;
    }
    c->call = call;
    call->state = CALL_WAITING;
    call->front->probing = true;
    sched_request(call);
}
