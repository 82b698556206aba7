#include "front/call.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/approval.h"
#include "front/budget.h"
#include "front/decide.h"
#include "front/idem.h"
#include "front/pages.h"
#include "front/record.h"
#include "front/reply.h"
#include "front/result.h"
#include "front/route.h"
#include "front/sched.h"
#include "front/send.h"
#include "front/tool.h"
#include "wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
    approval_leave(call);
    budget_done(call);
    sched_leave(call);
    drop_request(call);
    gb_result_done(&call->result);
    gb_buf_done(&call->run.raw[0]);
    gb_buf_done(&call->run.raw[1]);
    gb_buf_done(&call->reply);
    free(call->skipped);
    free(call->enforced);
    json_decref(call->answer);
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

/* --- the end --- */

static void note_ack(struct front *f, const struct gb_msg_ack *ack)
{
    const bool failed = ack->err.code != GB_ERR_NONE;
    f->unrecorded_us = failed ? gb_clock_us() : 0;
    f->metrics.audit_failed += failed;
}

static void log_call(const struct call *call)
{
    gb_log(GB_LOG_INFO, "call", GB_S("id", call->id), GB_S("request_id", call->request_id),
           GB_S("principal", call->principal), GB_S("tool", call->tool->name),
           GB_S("language", call->request.runtime ? call->request.runtime->name : ""),
           GB_S("status", gb_status_name(call->result.status)),
           GB_S("denied", call->denial_count ? gb_denial_name(call->denials[0].code) : ""),
           GB_S("error", call->err.code ? gb_err_name((enum gb_error_code)call->err.code) : ""),
           GB_S("detail", call->err.text), GB_I("us", gb_clock_us() - call->start_us));
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
    metrics_call(&f->metrics, call);
    struct conn *c = call->conn;
    if (c)
        reply_call(call);
    else if (call->idem && call->err.code == GB_ERR_NONE && !result_may_change(call))
        reply_keep(call); /* it ran to its end: whoever repeats it gets that */
    call_free(call);
    if (c)
        conn_advance(c);
}

/* Whatever became of it is known: record it, then reply. */
static void finish(struct call *call)
{
    struct front *f = call->front;
    gb_loop_at(f->loop, &call->timer, 0);
    sched_release(call);
    call->state = CALL_OUTCOME;
    if (call->denial_count) {
        const bool pending = call->denials[0].code == GB_DENIAL_APPROVAL_PENDING;
        call->result.status = pending ? GB_STATUS_PENDING : GB_STATUS_BLOCKED;
        call->result.exit_code = -1;
        call->result.signal = 0;
        call->result.kill_reason = NULL;
    } else if (call->cancelled && !call->ran && call->err.code == GB_ERR_NONE) {
        call->result.status = GB_STATUS_CANCELLED;
        call->result.kill_reason = "cancelled";
    }
    if (call->err.code != GB_ERR_NONE) /* nothing was run: the caller's doing, or ours */
        call->result.status = gb_err_http_status((enum gb_error_code)call->err.code) < 500
                                      ? GB_STATUS_BLOCKED
                                      : GB_STATUS_INTERNAL;
    call->wait.done = outcome_done;
    const bool failed = record_outcome(call) != 0;
    /* The store is at work meanwhile. */
    log_call(call);
    if (failed) {
        struct gb_msg_ack ack = {0};
        gb_err_set(&ack.err, GB_ERR_AUDIT, ENOMEM, "record the outcome");
        outcome_done(&call->wait, &ack);
    } else if (call->stream == STREAM_NONE) { /* else output that was not sent yet comes first */
        reply_prepare(call);
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

/* A slot, or a place in the queue. */
static void want_slot(struct call *call)
{
    call->state = CALL_WAITING;
    gb_loop_at(call->front->loop, &call->timer, gb_clock_us() + call->policy->config->boxes.wait_ms * 1000);
    sched_request(call);
}

/* False: the client left while we wrote, and the call is over. */
static bool begin_stream(struct call *call)
{
    if (call->stream == STREAM_NONE)
        return true;
    reply_start(call);
    if (call->conn)
        conn_advance(call->conn);
    if (call->cancelled)
        finish(call);
    return !call->cancelled;
}

/* It may be done, unless a person must agree first, has agreed to exactly this before, or is only to be
 * asked. */
static void go_on(struct call *call)
{
    if (!call->approval) {
        if (call->denial_count)
            finish(call);
        else
            want_slot(call);
        return;
    }
    call->state = CALL_APPROVAL;
    sched_park(call);
    gb_loop_at(call->front->loop, &call->timer,
               call->stream != STREAM_NONE ? gb_clock_us() + KEEP_ALIVE_US : 0);
    approval_wait(call);
}

void call_decided(struct call *call, bool granted)
{
    sched_return(call);
    if (granted && !call->denial_count && decide_again(call))
        want_slot(call);
    else
        finish(call);
}

void call_stop_waiting(struct front *f)
{
    struct gb_err err;
    gb_err_set(&err, GB_ERR_STOPPING, 0, "the service is going down; nobody has agreed to this call yet");
    for (struct call *call = f->calls, *next; call; call = next) {
        next = call->next;
        if (call->state == CALL_APPROVAL)
            fail(call, &err);
    }
}

/* Not recorded, so not run; and there is no intent that an outcome could belong to. */
static void end_unrecorded(struct call *call, const struct gb_err *err)
{
    struct conn *c = call->conn;
    gb_log(GB_LOG_ERROR, "intent not recorded", GB_S("id", call->id), GB_S("error", err->text));
    if (c)
        reply_later(c, err, 5);
    sched_release(call);
    budget_undo(call);
    call_free(call);
    if (c)
        conn_advance(c);
}

static void intent_done(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    struct call *call = GB_OWNER(wait, struct call, wait);
    note_ack(call->front, ack);
    if (ack->err.code != GB_ERR_NONE) {
        end_unrecorded(call, &ack->err);
        return;
    }
    if (call->decision == CALL_BLOCK || call->cancelled)
        finish(call);
    else if (begin_stream(call))
        go_on(call);
}

void call_start(struct call *call)
{
    struct gb_err err = {0};
    if (!call->probe && !decide_again(call)) { /* it may have waited for long */
        finish(call);
        return;
    }
    call->state = CALL_RUNNING;
    gb_loop_at(call->front->loop, &call->timer,
               call->stream != STREAM_NONE ? gb_clock_us() + KEEP_ALIVE_US : 0);
    if (!call->probe)
        metrics_observe(&call->front->metrics.start, gb_clock_us() - call->start_us);
    int r = call_is_boxed(call) ? run_start(call, call->probe, &err) : tool_start(call, &err);
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

void call_unrecorded(struct front *f, uint64_t tag, const struct gb_err *err)
{
    struct call *call = f->calls;
    const struct gb_msg_ack ack = {.err = *err};
    note_ack(f, &ack);
    while (call && !(call->unawaited && call->intent_tag == tag))
        call = call->next;
    if (!call || call->state == CALL_OUTCOME)
        return;
    if (call->state != CALL_RUNNING) {
        end_unrecorded(call, err);
        return;
    }
    call->unrecorded = true;
    call->err = *err;
    run_cancel(call);
}

void call_ran(struct call *call, const struct gb_err *err)
{
    /* The launch could not be recorded: was it the intent already? That was told before. */
    if (call->unawaited && err->code == GB_ERR_AUDIT)
        channel_read(&call->front->store);
    if (call->probe)
        probe_ran(call, err);
    else if (call->unrecorded)
        end_unrecorded(call, &call->err);
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
    if (call->state == CALL_WAITING || call->state == CALL_APPROVAL)
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
    snprintf(what, sizeof(what), "%s %s", call->seeds ? "/execute" : "/v1", call->arguments_sha256);
    int r = count > 1 ? gb_err_set(&err, GB_ERR_USAGE, 0, "Idempotency-Key: is given twice")
            : call->stream != STREAM_NONE
                    ? gb_err_set(&err, GB_ERR_USAGE, 0, "Idempotency-Key: a stream cannot be repeated")
                    : idem_claim(call->front->idem, call->principal, key->value, what, &call->idem, &stored,
                                 &err);
    if (r < 0)
        reply_problem(c, 0, &err, err.code == GB_ERR_CONFLICT ? "Retry-After: 1\r\n" : "");
    else if (stored && !decide_may(call))
        return true; /* what was its own once is not any more: it is refused like any other */
    else if (stored)
        send_reply(c, 200, "application/json", "Idempotent-Replayed: true\r\n", stored->data, stored->len);
    return r == 0;
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

static int read_request(struct call *call, struct gb_err *err)
{
    struct conn *c = call->conn;
    char tool[GB_TOOL_NAME] = ""; /* no tool has a longer name, and none has this one */
    if (c->x->param.len < sizeof(tool))
        snprintf(tool, sizeof(tool), "%.*s", (int)c->x->param.len, c->x->param.data ? c->x->param.data : "");
    call->who = gb_policy_principal(call->policy->gb, call->principal);
    const struct request_source from = {.policy = call->policy->gb,
                                        .who = call->who,
                                        .principal = call->principal,
                                        .seeds = call->seeds,
                                        .tool = c->x->param.len ? tool : NULL};
    int r = request_read(&from, c->x->body.data ? c->x->body.data : "", c->x->body.len, &call->request, err);
    if (r)
        return r;
    call->tool = call->request.tool;
    call->profile = call->request.profile;
    snprintf(call->arguments_sha256, sizeof(call->arguments_sha256), "%s", call->request.sha256);
    gb_policy_definition(call->who, call->tool, call->definition);
    call->held = 2 * c->x->body.len; /* as JSON, and for the launcher */
    call->front->held += call->held;
    conn_drop_body(c);
    call->stream = wanted_stream(c, &call->request);
    return 0;
}

/* Decides, and makes ready what is to run. */
static int settle(struct call *call, struct gb_err *err)
{
    decide(call);
    if (call->err.code != GB_ERR_NONE) {
        *err = call->err;
        return -EBUSY;
    }
    return call->decision != CALL_BLOCK && call_is_boxed(call) ? decide_payload(call, err) : 0;
}

void call_begin(struct conn *c, const char *route)
{
    struct gb_err err = {0};
    int retry_s;
    struct call *call = call_new(c);
    if (!call)
        return;
    call->route = route;
    call->seeds = !strcmp(route, "/execute");
    /* First whether it may run, then what it is: reading is work, too. */
    if (sched_admit(call, &retry_s, &err)) {
        refuse(call, &err, retry_s);
        return;
    }
    if (read_request(call, &err)) {
        refuse(call, &err, 0);
        return;
    }
    if (!claim_key(call)) {
        call_free(call);
        return;
    }
    if (settle(call, &err)) {
        refuse(call, &err, 1);
        return;
    }
    c->call = call;
    call->timer.fire = timer_fired;
    call->wait.done = intent_done;
    call->unawaited = call_is_boxed(call) && call->decision == CALL_ALLOW && call->stream == STREAM_NONE;
    if (record_intent(call)) {
        gb_err_set(&err, GB_ERR_AUDIT, ENOMEM, "record the call");
        budget_undo(call);
        refuse(call, &err, 1);
    } else if (call->unawaited) {
        go_on(call);
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
    call->request = (struct request){.limits = call->policy->config->limits, .payload.max = 64};
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
