#include "front/pages.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "front/audit.h"
#include "front/call.h"
#include "front/reply.h"
#include "front/send.h"

#include <stdio.h>
#include <string.h>

#define READY_US      2000000 /* a box that was started so recently is proof enough */
#define UNRECORDED_US 5000000 /* then it is worth another try */
#define PAGE_BYTES    ((size_t)8 << 20)
#define LIST_MOST     100
#define LIST_USUAL    20

/* --- about the service --- */

static void status_reply(struct conn *c, const char *status)
{
    AUTO_BUF text = {.max = 256};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "status", status);
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}

void pages_health(struct conn *c)
{
    status_reply(c, "ok");
}

void pages_is_ready(struct conn *c)
{
    status_reply(c, "ready");
}

/* Whoever is busy making boxes can make boxes: the queue, not a load balancer, is for that. */
static bool has_proof(const struct front *f)
{
    const bool busy = f->running >= f->policy->config->boxes.running && f->box_failed_us <= f->box_seen_us;
    return !f->draining && (busy || (f->box_seen_us && gb_clock_us() - f->box_seen_us < READY_US));
}

void pages_ready(struct conn *c)
{
    struct front *f = c->front;
    if (f->unrecorded_us && gb_clock_us() - f->unrecorded_us < UNRECORDED_US) {
        struct gb_err err;
        gb_err_set(&err, GB_ERR_AUDIT, 0, "calls are refused: their records could not be written");
        reply_problem(c, 0, &err, "");
    } else if (has_proof(f))
        pages_is_ready(c);
    else if (f->probing)
        c->wants_ready = true; /* a box for everybody who asks, key or no key, would use them up */
    else
        call_probe(c);
}

void pages_metrics(struct conn *c)
{
    AUTO_BUF text = {.max = PAGE_BYTES};
    metrics_write(c->front, &text);
    send_reply(c, 200, "text/plain; version=0.0.4; charset=utf-8", "", text.data, text.len);
}

void pages_openapi(struct conn *c)
{
    send_reply(c, 200, "application/json", "", (const char *)gb_openapi, gb_openapi_bytes);
}

/* --- executions: questions to the store --- */

struct query {
    struct audit_wait wait;
    struct conn *conn; /* NULL: the client has left */
    struct gb_buf text;
    struct gb_json j;
    bool one; /* records of one execution, not a list of many */
    int64_t rows, last_seq, most;
};

void pages_client_left(struct query *query)
{
    query->conn = NULL;
}

static void add_row(struct audit_wait *wait, const struct gb_msg_row *row, const char *body, size_t len)
{
    struct query *q = GB_OWNER(wait, struct query, wait);
    char when[GB_TIME_BYTES];
    gb_text_time(row->time_us, when, sizeof(when));
    gb_json_open(&q->j, NULL, '{');
    if (!q->one)
        gb_json_text(&q->j, "id", row->id);
    gb_json_text(&q->j, "kind", gb_record_kind_name(row->kind));
    gb_json_int(&q->j, "seq", row->seq);
    gb_json_text(&q->j, "time", when);
    gb_json_raw(&q->j, "record", body, len); /* as the front or the launcher wrote it */
    gb_json_close(&q->j, '}');
    q->rows++;
    q->last_seq = row->seq;
}

static void answer_query(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    struct query *q = GB_OWNER(wait, struct query, wait);
    struct conn *c = q->conn;
    if (c) {
        struct gb_err err = ack->err;
        c->query = NULL;
        if (err.code == GB_ERR_NONE && q->one && !q->rows)
            gb_err_set(&err, GB_ERR_NOT_FOUND, 0, "there is no execution with this id");
        gb_json_close(&q->j, ']');
        if (!q->one && q->rows == q->most)
            gb_json_int(&q->j, "next", q->last_seq);
        else if (!q->one)
            gb_json_null(&q->j, "next");
        gb_json_close(&q->j, '}');
        gb_buf_puts(&q->text, "\n");
        if (err.code != GB_ERR_NONE)
            reply_problem(c, 0, &err, "");
        else
            reply_json(c, 200, &q->text);
    }
    gb_buf_done(&q->text);
    free(q);
    if (c)
        conn_advance(c);
}

static struct query *query_new(struct conn *c)
{
    struct query *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    q->wait.done = answer_query;
    q->wait.row = add_row;
    q->conn = c;
    q->text.max = PAGE_BYTES;
    q->j = (struct gb_json){.out = &q->text, .first = true};
    c->query = q;
    return q;
}

static void ask(struct conn *c, struct query *q, const char *id, int64_t before, unsigned most)
{
    struct gb_err err;
    if (q && !audit_find(c->front, &q->wait, id, c->x->principal, before, most))
        return;
    if (q) {
        gb_buf_done(&q->text);
        free(q);
    }
    c->query = NULL;
    gb_err_set(&err, GB_ERR_BUSY, 0, "no memory for the question");
    reply_later(c, &err, 1);
}

/* "limit=20&before=17": numbers only, nothing else. */
static int read_query(struct gb_slice query, int64_t *limit, int64_t *before, struct gb_err *err)
{
    while (query.len) {
        const char *end = memchr(query.data, '&', query.len);
        const size_t len = end ? (size_t)(end - query.data) : query.len;
        char pair[48] = "";
        if (len < sizeof(pair))
            memcpy(pair, query.data, len);
        int64_t *target = !strncmp(pair, "limit=", 6) ? limit : !strncmp(pair, "before=", 7) ? before : NULL;
        if (!target || gb_text_parse_decimal(strchr(pair, '=') + 1, 0, target))
            return gb_err_set(err, GB_ERR_USAGE, 0, "the query takes limit=N (1 to %d) and before=SEQ",
                              LIST_MOST);
        query.data += len + (end ? 1 : 0);
        query.len -= len + (end ? 1 : 0);
    }
    if (*limit < 1 || *limit > LIST_MOST)
        return gb_err_set(err, GB_ERR_USAGE, 0, "limit: takes a whole number from 1 to %d", LIST_MOST);
    return 0;
}

static void running_list(struct query *q, struct front *f, const char *principal)
{
    gb_json_open(&q->j, "running", '[');
    for (const struct call *call = f->calls; call; call = call->next)
        if (!call->probe && !strcmp(call->principal, principal)) {
            gb_json_open(&q->j, NULL, '{');
            gb_json_text(&q->j, "id", call->id);
            gb_json_text(&q->j, "tool", call->tool->name);
            if (call->request.runtime)
                gb_json_text(&q->j, "language", call->request.runtime->name);
            gb_json_text(&q->j, "state",
                         call->state == CALL_APPROVAL  ? "approval"
                         : call->state == CALL_RUNNING ? "running"
                                                       : "waiting");
            gb_json_decimal(&q->j, "ms", gb_clock_us() - call->start_us, 3);
            gb_json_close(&q->j, '}');
        }
    gb_json_close(&q->j, ']');
}

void pages_executions(struct conn *c)
{
    struct gb_err err;
    int64_t limit = LIST_USUAL, before = 0;
    if (read_query(c->x->http.query, &limit, &before, &err)) {
        reply_problem(c, 0, &err, "");
        return;
    }
    struct query *q = query_new(c);
    if (q) {
        q->most = limit;
        gb_json_open(&q->j, NULL, '{');
        running_list(q, c->front, c->x->principal);
        gb_json_open(&q->j, "executions", '[');
    }
    ask(c, q, "", before, (unsigned)limit);
}

/* The id in the path, or "" after a reply. */
static const char *id_of(struct conn *c, char buf[GB_ID_CHARS + 1])
{
    struct gb_err err;
    snprintf(buf, GB_ID_CHARS + 1, "%.*s", (int)c->x->param.len, c->x->param.data);
    if (c->x->param.len == GB_ID_CHARS && gb_id_is_valid(buf))
        return buf;
    gb_err_set(&err, GB_ERR_NOT_FOUND, 0, "there is no execution with this id");
    reply_problem(c, 0, &err, "");
    return NULL;
}

void pages_execution(struct conn *c)
{
    char id[GB_ID_CHARS + 1];
    if (!id_of(c, id))
        return;
    struct query *q = query_new(c);
    if (q) {
        q->one = true;
        gb_json_open(&q->j, NULL, '{');
        gb_json_text(&q->j, "id", id);
        gb_json_bool(&q->j, "running", call_find(c->front, id, c->x->principal) != NULL);
        gb_json_open(&q->j, "records", '[');
    }
    ask(c, q, id, 0, 16);
}

void pages_cancel(struct conn *c)
{
    char id[GB_ID_CHARS + 1];
    struct gb_err err;
    if (!id_of(c, id))
        return;
    struct call *call = call_find(c->front, id, c->x->principal);
    if (!call || call->state == CALL_OUTCOME) {
        gb_err_set(&err, GB_ERR_NOT_FOUND, 0, "there is no running execution with this id");
        reply_problem(c, 0, &err, "");
        return;
    }
    AUTO_BUF text = {.max = 256};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "id", id);
    gb_json_text(&j, "status", "cancelling");
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    call_cancel(call);
    reply_json(c, 202, &text);
}
