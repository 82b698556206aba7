#include "front/reply.h"

#include "base/auto.h"
#include "base/text.h"
#include "front/idem.h"
#include "front/result.h"
#include "front/send.h"

#include <stdio.h>
#include <string.h>

#define REPLY_MOST   ((size_t)200 << 20)
#define EVENT_BYTES  ((size_t)16384) /* of output in one event */
#define PROBLEM_TYPE "application/problem+json"

/* --- problems --- */

static const char *title(const struct gb_err *err)
{
    static const char *const titles[GB_ERR_COUNT] = {
#define GB_ERROR(code, name, exit_code, http, text) [GB_ERR_##code] = (text),
#include "base/err.def"
#undef GB_ERROR
    };
    const char *text = (unsigned)err->code < GB_ERR_COUNT ? titles[err->code] : NULL;
    return text ? text : "unknown error";
}

static void problem_text(const char *request_id, int status, const struct gb_err *err, struct gb_buf *out)
{
    struct gb_json j = {.out = out, .first = true};
    char type[64];
    snprintf(type, sizeof(type), "urn:glovebox:error:%s", gb_err_name((enum gb_error_code)err->code));
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "type", type);
    gb_json_text(&j, "title", title(err));
    gb_json_int(&j, "status", status);
    gb_json_text(&j, "detail", err->text);
    gb_json_text(&j, "code", gb_err_name((enum gb_error_code)err->code));
    gb_json_text(&j, "request_id", request_id);
    gb_json_close(&j, '}');
    gb_buf_puts(out, "\n");
}

void reply_problem(struct conn *c, int status, const struct gb_err *err, const char *headers)
{
    AUTO_BUF text = {.max = 8192};
    status = status ? status : gb_err_http_status((enum gb_error_code)err->code);
    if (!*headers && (status == 429 || status == 503))
        headers = "Retry-After: 1\r\n";
    problem_text(c->x->id, status, err, &text);
    send_reply(c, status, PROBLEM_TYPE, headers, text.data, text.len);
}

void reply_later(struct conn *c, const struct gb_err *err, int retry_s)
{
    char header[48];
    snprintf(header, sizeof(header), "Retry-After: %d\r\n", retry_s);
    reply_problem(c, 0, err, header);
}

void reply_json(struct conn *c, int status, const struct gb_buf *body)
{
    if (body->failed || gb_buf_truncated(body)) {
        struct gb_err err;
        gb_err_set(&err, GB_ERR_BUSY, 0, "no memory for the reply");
        reply_later(c, &err, 1);
        return;
    }
    send_reply(c, status, "application/json", "", body->data, body->len);
}

/* --- events --- */

static void event(struct call *call, const char *name, const char *json, size_t len)
{
    AUTO_BUF text = {.max = REPLY_MOST};
    if (len && json[len - 1] == '\n')
        len--;
    if (call->stream == STREAM_SSE)
        gb_buf_printf(&text, "event: %s\ndata: ", name);
    gb_buf_add(&text, json, len);
    gb_buf_puts(&text, call->stream == STREAM_SSE ? "\n\n" : "\n");
    if (!text.failed)
        send_stream_add(call->conn, text.data, text.len);
}

void reply_start(struct call *call)
{
    static const char *const types[] = {
            [STREAM_SSE] = "text/event-stream", [STREAM_NDJSON] = "application/x-ndjson"};
    AUTO_BUF text = {.max = 1024};
    struct gb_json j = {.out = &text, .first = true};
    send_stream_start(call->conn, types[call->stream]);
    if (!call->conn)
        return;
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "type", "start");
    gb_json_text(&j, "id", call->id);
    gb_json_close(&j, '}');
    event(call, "start", text.data, text.len);
}

/* Whole characters only, so that no reader has to join them. */
static size_t whole(const struct gb_buf *b, size_t from, size_t len)
{
    size_t at = from;
    while (at < from + len) {
        const size_t n = gb_text_utf8_len(b->data + at, b->len - at);
        if (at + (n ? n : 1) > from + len)
            break;
        at += n ? n : 1;
    }
    return at - from;
}

void reply_output(struct call *call)
{
    static const char *const names[] = {"stdout", "stderr"};
    const struct gb_buf *const bufs[] = {&call->result.out, &call->result.err};
    for (int i = 0; i < 2; i++)
        while (call->sent[i] < bufs[i]->len) {
            const size_t left = bufs[i]->len - call->sent[i];
            const size_t n = whole(bufs[i], call->sent[i], left < EVENT_BYTES ? left : EVENT_BYTES);
            AUTO_BUF text = {.max = EVENT_BYTES * 8};
            struct gb_json j = {.out = &text, .first = true};
            gb_json_open(&j, NULL, '{');
            gb_json_text(&j, "type", names[i]);
            gb_json_bytes(&j, "text", bufs[i]->data + call->sent[i], n);
            gb_json_close(&j, '}');
            event(call, names[i], text.data, text.len);
            call->sent[i] += n;
        }
}

void reply_keep_alive(struct call *call)
{
    if (call->stream == STREAM_SSE)
        send_stream_add(call->conn, ":\n\n", 3);
}

/* {"type":"result","result":{…}} and {"type":"error","error":{…}} */
static void last_event(struct call *call, const char *name, const struct gb_buf *json)
{
    AUTO_BUF text = {.max = REPLY_MOST};
    struct gb_json j = {.out = &text, .first = true};
    const bool newline = json->len && json->data[json->len - 1] == '\n';
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "type", name);
    gb_json_raw(&j, name, json->data, json->len - newline);
    gb_json_close(&j, '}');
    event(call, name, text.data, text.len);
    send_stream_end(call->conn);
}

/* --- the end of a call --- */

static void reply_failure(struct call *call)
{
    const int status = gb_err_http_status((enum gb_error_code)call->err.code);
    AUTO_BUF text = {.max = 8192};
    if (call->stream == STREAM_NONE) {
        reply_problem(call->conn, status, &call->err, status == 409 ? "Retry-After: 1\r\n" : "");
        return;
    }
    problem_text(call->request_id, status, &call->err, &text);
    last_event(call, "error", &text);
}

void reply_prepare(struct call *call)
{
    if (call->reply.max || call->err.code != GB_ERR_NONE)
        return;
    call->reply.max = REPLY_MOST;
    result_text(call, &call->reply);
}

void reply_keep(struct call *call)
{
    reply_prepare(call);
    idem_keep(call->front->idem, TAKE_PTR(call->idem), call->reply.data, call->reply.len);
}

void reply_call(struct call *call)
{
    struct front *f = call->front;
    struct idem_entry *claim = TAKE_PTR(call->idem);
    if (call->stream != STREAM_NONE && !call->conn->x->streaming)
        reply_start(call); /* it ended before it began: blocked, say */
    if (!call->conn)
        return;
    if (call->err.code != GB_ERR_NONE) {
        if (claim)
            idem_drop(f->idem, claim);
        reply_failure(call);
        return;
    }
    const bool pending = call->result.status == GB_STATUS_PENDING;
    if (call->stream != STREAM_NONE)
        reply_output(call);
    reply_prepare(call);
    if (claim && result_may_change(call))
        idem_drop(f->idem, claim);
    else if (claim)
        idem_keep(f->idem, claim, call->reply.data, call->reply.len);
    if (call->stream != STREAM_NONE)
        last_event(call, "result", &call->reply);
    else
        reply_json(call->conn, pending ? 202 : 200, &call->reply);
}
