#include "front/send.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/auth.h"

#include <stdio.h>
#include <time.h>

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
            {200, "OK"},
            {202, "Accepted"},
            {204, "No Content"},
            {400, "Bad Request"},
            {401, "Unauthorized"},
            {403, "Forbidden"},
            {404, "Not Found"},
            {405, "Method Not Allowed"},
            {408, "Request Timeout"},
            {409, "Conflict"},
            {413, "Content Too Large"},
            {414, "URI Too Long"},
            {415, "Unsupported Media Type"},
            {417, "Expectation Failed"},
            {422, "Unprocessable Content"},
            {429, "Too Many Requests"},
            {431, "Request Header Fields Too Large"},
            {500, "Internal Server Error"},
            {501, "Not Implemented"},
            {502, "Bad Gateway"},
            {503, "Service Unavailable"},
            {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Unknown";
}

static void write_head(struct conn *c, int status, const char *type, const char *headers)
{
    char date[64];
    const time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (c->front->draining)
        c->keep_alive = false;
    gb_buf_printf(&c->out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, reason(status), date);
    if (*type)
        gb_buf_printf(&c->out, "Content-Type: %s\r\n", type);
    gb_buf_printf(&c->out,
                  "X-Request-Id: %s\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s",
                  c->x->id, c->keep_alive ? "" : "Connection: close\r\n", headers);
    const struct gb_http_header *origin = c->x->head_bytes ? gb_http_find(&c->x->http, "Origin", NULL) : NULL;
    if (origin && auth_origin_listed(c->policy->config, origin->value)) {
        gb_buf_puts(&c->out, "Access-Control-Allow-Origin: ");
        gb_buf_add(&c->out, origin->value.data, origin->value.len);
        gb_buf_puts(&c->out, "\r\nVary: Origin\r\n");
    }
    c->x->status = status;
    metrics_reply(&c->front->metrics, status);
}

static void log_reply(const struct conn *c)
{
    const struct exchange *x = c->x;
    char line[256];
    snprintf(line, sizeof(line), "%.*s %.*s", (int)(x->http.method.len > 16 ? 16 : x->http.method.len),
             x->http.method.data ? x->http.method.data : "-",
             (int)(x->http.path.len > 200 ? 200 : x->http.path.len),
             x->http.path.data ? x->http.path.data : "");
    gb_log(GB_LOG_DEBUG, "reply", GB_S("request_id", x->id), GB_S("request", line), GB_I("status", x->status),
           GB_S("principal", x->principal), GB_I("us", x->start_us ? gb_clock_us() - x->start_us : 0));
}

void send_reply(struct conn *c, int status, const char *type, const char *headers, const char *body,
                size_t len)
{
    c->call = NULL;
    write_head(c, status, type, headers);
    if (status != 204) /* which has no length: RFC 9110, 8.6 */
        gb_buf_printf(&c->out, "Content-Length: %zu\r\n", len);
    gb_buf_puts(&c->out, "\r\n");
    if (!c->x->head_only)
        gb_buf_add(&c->out, body, len);
    log_reply(c);
    conn_set_state(c, CONN_REPLY);
}

void send_stream_start(struct conn *c, const char *type)
{
    /* HTTP/1.0 has no chunks: there the end of the connection is the end of the reply. */
    const bool chunked = c->x->http.minor > 0;
    c->keep_alive = c->keep_alive && chunked;
    write_head(c, 200, type,
               chunked ? "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n"
                       : "X-Accel-Buffering: no\r\n");
    gb_buf_puts(&c->out, "\r\n");
    c->x->streaming = true;
}

void send_stream_add(struct conn *c, const char *data, size_t len)
{
    const bool chunked = c->x->http.minor > 0;
    if (!len)
        return;
    if (chunked)
        gb_buf_printf(&c->out, "%zx\r\n", len);
    gb_buf_add(&c->out, data, len);
    if (chunked)
        gb_buf_puts(&c->out, "\r\n");
}

void send_stream_end(struct conn *c)
{
    c->call = NULL;
    if (c->x->http.minor > 0)
        gb_buf_puts(&c->out, "0\r\n\r\n");
    log_reply(c);
    conn_set_state(c, CONN_REPLY);
}
