#include "front/conn.h"

#include "base/auto.h"
#include "base/clock.h"
#include "front/call.h"
#include "front/pages.h"
#include "front/reply.h"
#include "front/route.h"
#include "front/io.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_MOST  ((size_t)256 << 20)
#define OUT_KEEP  65536 /* an output buffer that grew beyond this is not kept */
#define LINGER_MS 2000
/* What the kernel takes for a client who does not read; without this, megabytes of its memory for each. */
#define UNSENT_MOST 131072
#define TAKEN_LEAST 16384 /* that a client must take in http.write_seconds */

static void close_conn(struct conn *c);

/* --- time limits, one for each stage --- */

static void set_deadline(struct conn *c)
{
    const struct gb_config *config = c->policy->config;
    const bool idle = !(c->x && c->x->in_len);
    const int64_t ms[] = {[CONN_HEAD] = idle ? config->http.idle_ms : config->http.header_ms,
                          [CONN_BODY] = config->http.body_ms,
                          /* none, but for the reader of a stream who leaves it lying */
                          [CONN_CALL] = conn_backlog(c) ? config->http.write_ms : 0,
                          [CONN_REPLY] = config->http.write_ms,
                          [CONN_LINGER] = LINGER_MS};
    gb_loop_at(c->front->loop, &c->timer, ms[c->state] ? gb_clock_us() + ms[c->state] * 1000 : 0);
}

/* What each state waits for. Input that is not asked for stays with the kernel: that is the back-pressure.
 * But most clients send nothing before they have their reply, so reading is not given up for each call, only
 * for one during which something came. */
static uint32_t wanted(const struct conn *c)
{
    static const uint32_t wants[] = {[CONN_HEAD] = EPOLLIN | EPOLLRDHUP,
                                     [CONN_BODY] = EPOLLIN | EPOLLRDHUP,
                                     [CONN_CALL] = EPOLLRDHUP,
                                     [CONN_REPLY] = 0,
                                     [CONN_LINGER] = EPOLLIN};
    const uint32_t still = c->state == CONN_CALL ? c->source.events & EPOLLIN : 0;
    return wants[c->state] | still | (conn_backlog(c) || c->want_write ? EPOLLOUT : 0);
}

static void watch(struct conn *c)
{
    if (gb_loop_watch(c->front->loop, &c->source, wanted(c)))
        close_conn(c);
}

void conn_set_state(struct conn *c, enum conn_state state)
{
    c->state = state;
    set_deadline(c);
}

/* --- the end --- */

void conn_drop_body(struct conn *c)
{
    c->front->held -= c->x->body.len;
    gb_buf_done(&c->x->body);
}

static void end_exchange(struct conn *c)
{
    if (!c->x)
        return;
    conn_drop_body(c);
    free(c->x);
    c->x = NULL;
}

/* Handlers further up the stack may still look at it: it is freed when the loop has come round. */
static void close_conn(struct conn *c)
{
    struct front *f = c->front;
    if (c->closed)
        return;
    c->closed = true;
    if (c->call)
        call_client_left(TAKE_PTR(c->call));
    if (c->query)
        pages_client_left(TAKE_PTR(c->query));
    gb_loop_forget(f->loop, &c->source);
    gb_loop_at(f->loop, &c->timer, 0);
    io_end(c);
    close(c->source.fd);
    end_exchange(c);
    gb_buf_done(&c->out);
    policy_unref(c->policy);
    if (c->prev)
        c->prev->next = c->next;
    else
        f->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->next = f->closed_conns;
    f->closed_conns = c;
    gb_loop_at(f->loop, &f->sweep, gb_clock_us());
    f->conn_count--;
    front_check_drained(f);
}

void conn_sweep(struct gb_timer *timer)
{
    struct front *f = GB_OWNER(timer, struct front, sweep);
    while (f->closed_conns) {
        struct conn *c = f->closed_conns;
        f->closed_conns = c->next;
        free(c);
    }
}

/* Everything is said. Closing at once, with bytes of the client unread, would make the kernel send a reset
 * that can overtake our last words: so half-close, and read on for a moment. */
static void linger(struct conn *c)
{
    end_exchange(c);
    io_end(c);
    shutdown(c->source.fd, SHUT_WR);
    c->want_write = false;
    conn_set_state(c, CONN_LINGER);
    watch(c);
}

static void discard(struct conn *c)
{
    ssize_t n = recv(c->source.fd, c->front->chunk, sizeof(c->front->chunk), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_conn(c);
}

/* --- writing --- */

size_t conn_backlog(const struct conn *c)
{
    return c->out.len - c->out_at;
}

/* The reply is out: on to the next request, or good-bye. */
static void finish_reply(struct conn *c)
{
    struct exchange *x = c->x;
    if (!c->keep_alive || c->front->draining) {
        linger(c);
        return;
    }
    conn_drop_body(c);
    const size_t rest = x->in_len - x->head_bytes;
    if (!rest && !io_pending(c)) {
        end_exchange(c);
    } else {
        memmove(x->in, x->in + x->head_bytes, rest);
        memset(x, 0, offsetof(struct exchange, in));
        x->in_len = rest;
    }
    conn_set_state(c, CONN_HEAD);
}

/* What is written makes room: a reader who is never quite done must not make the buffer as long as the
 * stream. */
static void compact(struct conn *c)
{
    if (c->out_at < OUT_KEEP || c->out_at < conn_backlog(c))
        return;
    memmove(c->out.data, c->out.data + c->out_at, conn_backlog(c));
    c->out.len -= c->out_at;
    c->out.seen -= c->out_at;
    c->out_at = 0;
}

/* Writes what it can. False if the connection is gone. */
static bool flush(struct conn *c)
{
    if (c->out.failed ||
        gb_buf_truncated(&c->out)) { /* bytes are missing: better no reply than half of one */
        close_conn(c);
        return false;
    }
    while (conn_backlog(c)) {
        ssize_t n = io_write(c, c->out.data + c->out_at, conn_backlog(c));
        if (n == -EAGAIN) {
            compact(c);
            if (!c->timer.at_us)
                set_deadline(c);
            return true;
        }
        if (n < 0) {
            close_conn(c);
            return false;
        }
        c->out_at += (size_t)n;
        c->taken += (size_t)n;
        /* A client that reads has time again, but not for every byte. */
        if ((c->state == CONN_REPLY || c->state == CONN_CALL) &&
            (c->taken >= TAKEN_LEAST || !conn_backlog(c))) {
            c->taken = 0;
            set_deadline(c);
        }
    }
    if (c->out.size > OUT_KEEP)
        gb_buf_done(&c->out);
    c->out.len = c->out_at = 0;
    c->out.seen = 0;
    c->out.max = OUT_MOST;
    return true;
}

/* A request that cannot be trusted to end where we think: one answer, and no more from this connection. */
static void refuse(struct conn *c, int status, enum gb_error_code code, const char *why)
{
    struct gb_err err;
    c->keep_alive = false;
    gb_err_set(&err, code, 0, "%s", why);
    reply_problem(c, status, &err, "");
}

/* --- reading --- */

/* The head is complete: may this be asked, by this caller? Everything that can be refused without the body
 * is. */
static void take_head(struct conn *c)
{
    struct exchange *x = c->x;
    if (c->policy != c->front->policy) { /* a key that was taken away is gone for old connections too */
        policy_unref(c->policy);
        c->policy = policy_ref(c->front->policy);
    }
    const uint64_t most = (uint64_t)c->policy->config->http.body_bytes;
    x->start_us = gb_clock_us();
    x->head_only = gb_slice_is(x->http.method, "HEAD");
    x->body.max = (size_t)most;
    x->body_left = x->http.content_length;
    const bool has_body = x->http.chunked || x->body_left;
    if (x->body_left > most) {
        refuse(c, 413, GB_ERR_TOO_LARGE, "the body is larger than http.body_bytes");
        return;
    }
    c->keep_alive = x->http.keep_alive && !has_body; /* if refused now, the body is still to come */
    if (!route_find(c))
        return;
    c->keep_alive = x->http.keep_alive;
    conn_set_state(c, CONN_BODY);
    if (has_body && x->http.expect_continue && x->in_len == x->head_bytes)
        gb_buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Moves what has arrived of the body to its place. True when it is complete. */
static bool take_body(struct conn *c)
{
    struct exchange *x = c->x;
    char *data = x->in + x->head_bytes;
    const size_t have = x->in_len - x->head_bytes;
    size_t used = 0, decoded = 0;
    if (x->http.chunked) {
        struct gb_http_error error;
        long n = x->chunks.done
                         ? 0
                         : gb_chunks_decode(&x->chunks, data, have, (uint64_t)x->body.max, &decoded, &error);
        if (n < 0) {
            refuse(c, error.status, error.status == 413 ? GB_ERR_TOO_LARGE : GB_ERR_HTTP, error.why);
            return false;
        }
        used = (size_t)n;
    } else {
        used = decoded = have < x->body_left ? have : (size_t)x->body_left;
        x->body_left -= used;
    }
    c->front->held += gb_buf_add(&x->body, data, decoded);
    memmove(data, data + used, have - used);
    x->in_len -= used;
    if (x->body.failed || c->front->held > FRONT_HELD) {
        refuse(c, 503, GB_ERR_BUSY, "too many large requests at once");
        return false;
    }
    return x->http.chunked ? x->chunks.done : !x->body_left;
}

/* True when it is complete, or refused. */
static bool read_head(struct conn *c)
{
    struct exchange *x = c->x;
    struct gb_http_error error = {0};
    /* A head that comes byte by byte is not read anew for each of them. */
    const size_t known = x->known;
    x->known = x->in_len;
    if (!gb_http_worth_reading(x->in, known, x->in_len))
        return false;
    if (!*x->id)
        gb_id_new(x->id);
    long n = gb_http_read_head(x->in, x->in_len, &x->http, &error);
    if (n > 0) {
        x->head_bytes = (size_t)n;
        take_head(c);
    } else if (n < 0) {
        x->http = (struct gb_http_request){.minor = 1};
        refuse(c, error.status, GB_ERR_HTTP, error.why);
    }
    return n != 0;
}

/* Reads once. False if there is nothing to read now, or no connection any more. */
static bool fill(struct conn *c)
{
    if (!c->x) {
        c->x = malloc(sizeof(*c->x));
        if (!c->x) {
            close_conn(c);
            return false;
        }
        memset(c->x, 0, offsetof(struct exchange, in));
    }
    struct exchange *x = c->x;
    const bool was_idle = c->state == CONN_HEAD && !x->in_len;
    ssize_t n = io_read(c, x->in + x->in_len, sizeof(x->in) - x->in_len);
    if (n == -EAGAIN) {
        if (was_idle)
            end_exchange(c);
        return false;
    }
    if (n <= 0) {
        close_conn(c);
        return false;
    }
    x->in_len += (size_t)n;
    if (was_idle)
        set_deadline(c); /* from idle to reading a head */
    return true;
}

/* --- the states --- */

/* One step, if the bytes that are here allow one. */
static bool step(struct conn *c)
{
    switch (c->state) {
    case CONN_HEAD:
        return c->x && c->x->in_len && read_head(c);
    case CONN_BODY:
        if (!take_body(c))
            return c->state != CONN_BODY; /* refused */
        conn_set_state(c, CONN_CALL);
        route_call(c);
        return true;
    case CONN_REPLY:
        if (!flush(c) || conn_backlog(c))
            return false;
        finish_reply(c);
        return c->state == CONN_HEAD;
    case CONN_CALL:
    case CONN_LINGER:
        break;
    }
    return false;
}

static bool is_reading(const struct conn *c)
{
    return c->state == CONN_HEAD || c->state == CONN_BODY;
}

/* Goes on as far as it can. Also called by whoever has made a reply; if that happens further down this very
 * stack, the loop that runs already sees the new state. */
void conn_advance(struct conn *c)
{
    if (c->advancing || c->closed)
        return;
    c->advancing = true;
    do {
        while (!c->closed && step(c))
            ;
    } while (!c->closed && is_reading(c) && io_pending(c) && fill(c));
    c->advancing = false;
    if (c->closed || !flush(c) || c->state == CONN_LINGER)
        return;
    watch(c);
    if (c->call)
        call_client_reads(c->call);
}

static void ready(struct gb_source *source, uint32_t events)
{
    struct conn *c = GB_OWNER(source, struct conn, source);
    if (c->state == CONN_LINGER) {
        discard(c);
        return;
    }
    /* While somebody works on the reply, a client that closes its side has left. */
    if (events & (EPOLLERR | EPOLLHUP) || (c->state == CONN_CALL && events & EPOLLRDHUP)) {
        close_conn(c);
        return;
    }
    if (c->state == CONN_CALL && events & EPOLLIN &&
        gb_loop_watch(c->front->loop, &c->source, wanted(c) & ~(uint32_t)EPOLLIN)) {
        close_conn(c);
        return;
    }
    if (events & EPOLLOUT && conn_backlog(c)) {
        if (!flush(c))
            return;
        if (c->call)
            call_client_reads(c->call);
    }
    if (is_reading(c) && !fill(c) && c->closed)
        return;
    conn_advance(c);
}

static void too_late(struct gb_timer *timer)
{
    struct conn *c = GB_OWNER(timer, struct conn, timer);
    if (is_reading(c) && c->x && c->x->in_len) {
        if (c->state == CONN_HEAD)
            c->x->http = (struct gb_http_request){.minor = 1};
        refuse(c, 408, GB_ERR_HTTP, "the request did not arrive in time");
        conn_advance(c);
    } else {
        close_conn(c);
    }
}

/* --- the beginning --- */

static const char turned_away[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";

bool conn_evict(struct front *f)
{
    struct conn *oldest = NULL;
    for (struct conn *c = f->conns; c; c = c->next)
        if (c->state == CONN_HEAD && !c->x && (!oldest || c->timer.at_us < oldest->timer.at_us))
            oldest = c;
    if (oldest)
        close_conn(oldest);
    return oldest != NULL;
}

void conn_accept(struct front *f, const struct listener *listener, int fd)
{
    struct conn *c = f->conn_count < f->conn_most || conn_evict(f) ? calloc(1, sizeof(*c)) : NULL;
    if (!c) {
        (void)!send(fd, turned_away, sizeof(turned_away) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        metrics_count(&f->metrics.turned_away);
        return;
    }
    const int on = 1, unsent = UNSENT_MOST;
    if (!listener->is_unix) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    }
    c->front = f;
    c->policy = policy_ref(f->policy);
    c->listener = listener;
    c->source = (struct gb_source){.fd = fd, .ready = ready};
    c->timer.fire = too_late;
    c->peer_uid = -1;
    c->out.max = OUT_MOST;
    c->next = f->conns;
    if (c->next)
        c->next->prev = c;
    f->conns = c;
    f->conn_count++;
    if (io_begin(c)) {
        close_conn(c);
        return;
    }
    conn_set_state(c, CONN_HEAD);
    /* Most clients send at once. */
    if (fill(c))
        conn_advance(c);
    else if (!c->closed)
        watch(c);
}

void conn_drain_all(struct front *f)
{
    for (struct conn *c = f->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == CONN_HEAD && !(c->x && c->x->in_len))
            close_conn(c);
    }
}
