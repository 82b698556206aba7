#include "front/run.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "front/decide.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define REPLY_FILES_BYTES ((size_t)16 << 20) /* of files that come back in one reply */

static struct gb_buf *buffer(struct call *call, int stream)
{
    return stream ? &call->result.err : &call->result.out;
}

/* --- output --- */

/* The limit does not fall into a character, and what follows does not fill the gap. */
static void cut_to_characters(struct gb_buf *out)
{
    size_t at = out->len;
    while (at && out->len - at < 3 && ((unsigned char)out->data[at - 1] & 0xC0) == 0x80)
        at--;
    if (at && !gb_text_utf8_len(out->data + at - 1, out->len - at + 1))
        out->len = out->max = at - 1;
}

/* Bytes of the program on their way out: sanitised, then cut. What can no longer be kept is only counted. */
static void pass(struct call *call, int stream, const char *data, size_t len, bool end)
{
    struct gb_buf *out = buffer(call, stream);
    call->run.seen[stream] += len;
    if (call->request.raw)
        gb_buf_add(&call->run.raw[stream], data, len);
    if (out->len == out->max && len && out->max) {
        out->seen += len;
        return;
    }
    if (gb_redact_feed(call->run.redact[stream], data, len, end, out))
        out->failed = true;
    if (gb_buf_truncated(out))
        cut_to_characters(out);
}

/* Before the script begins, our start-up code says on stderr what it has found. */
static void take_report(struct call *call, const char *data, size_t len, bool end)
{
    struct run *run = &call->run;
    const struct gb_screen *screen = call->policy->gb->screen;
    const size_t known = call->finding_count;
    size_t used = 0;
    bool blocked = false;
    run->head.max = GB_SCREEN_REPORT_MOST + FRONT_CHUNK;
    gb_buf_add(&run->head, data, len);
    const enum gb_report_state state =
            gb_screen_report(screen, &call->profile->actions, run->head.data, run->head.len, end, &used,
                             call->findings, &call->finding_count, &blocked);
    if (state == GB_REPORT_OPEN && !run->head.failed)
        return;
    run->reports = false;
    run->unreported = state != GB_REPORT_DONE;
    if (state == GB_REPORT_DONE)
        decide_findings(call, known);
    if (blocked && !call->denial_count) /* whatever it says, the script was not started */
        gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_SCREENED, NULL,
                      "the code was not started");
    used = state == GB_REPORT_DONE ? used : 0;
    pass(call, 1, run->head.data + used, run->head.len - used, false);
    gb_buf_done(&run->head);
}

static void feed(struct call *call, int stream, const char *data, size_t len, bool end)
{
    if (stream && call->run.reports) {
        take_report(call, data, len, end);
        if (!end || call->run.reports)
            return;
        len = 0;
    }
    pass(call, stream, data, len, end);
}

static void close_stream(struct call *call, int stream)
{
    struct gb_source *s = &call->run.stream[stream];
    if (s->fd < 0)
        return;
    gb_loop_forget(call->front->loop, s);
    close(TAKE_FD(s->fd));
}

/* Reads once. False if nothing was there. */
static bool take(struct call *call, int stream)
{
    struct front *f = call->front;
    ssize_t n = read(call->run.stream[stream].fd, f->chunk, sizeof(f->chunk));
    if (n > 0)
        feed(call, stream, f->chunk, (size_t)n, false);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_stream(call, stream);
    return n > 0;
}

static void stream_ready(struct call *call, int stream)
{
    if (take(call, stream))
        call_output(call);
}

static void stdout_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    stream_ready(GB_OWNER(source, struct call, run.stream[0]), 0);
}

static void stderr_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    stream_ready(GB_OWNER(source, struct call, run.stream[1]), 1);
}

/* The box is gone: what is in the pipe is all there will be. But it may have handed its end to another box
 * that lives, so no more is taken than a pipe holds; how much that is is asked when there is much. */
static void drain(struct call *call, int stream)
{
    const int *fd = &call->run.stream[stream].fd;
    const uint64_t before = call->run.seen[stream];
    uint64_t most = FRONT_CHUNK;
    while (*fd >= 0 && call->run.seen[stream] - before < most && take(call, stream))
        if (call->run.seen[stream] - before >= most && most == FRONT_CHUNK) {
            const int size = fcntl(*fd, F_GETPIPE_SZ);
            most = size > FRONT_CHUNK ? (uint64_t)size : most;
        }
    close_stream(call, stream);
    feed(call, stream, "", 0, true);
    call->redactions += gb_redact_hits(call->run.redact[stream]);
}

/* --- files that came back --- */

static int add_file(struct call *call, const struct gb_file *file, const char *skipped, size_t *bytes)
{
    struct gb_output *out = &call->result.files[call->result.file_count];
    *out = (struct gb_output){.name = strdup(file->name)};
    if (!out->name)
        return -ENOMEM;
    call->result.file_count++;
    if (skipped) { /* the reasons are few and ours; a copy lives as long as the call */
        snprintf(call->skipped[call->result.file_count - 1], sizeof(call->skipped[0]), "%s", skipped);
        out->skipped = call->skipped[call->result.file_count - 1];
        return 0;
    }
    if (file->len > REPLY_FILES_BYTES - *bytes) {
        out->skipped = "is more than the 16 MiB that come back in one reply";
        return 0;
    }
    /* Text is sanitised as output is; what is not text comes back as it is. */
    AUTO_BUF clean = {.max = REPLY_FILES_BYTES - *bytes};
    if (call->profile->sanitise && gb_text_find_binary(file->data, file->len) == file->len) {
        struct gb_redact *r = gb_redact_new(call->policy->gb->rules, GB_REDACT_HOLD);
        int error = r ? gb_redact_feed(r, file->data, file->len, true, &clean) : -ENOMEM;
        call->redactions += r ? gb_redact_hits(r) : 0;
        gb_redact_free(r);
        if (error || clean.failed)
            return -ENOMEM;
        if (gb_buf_truncated(&clean)) { /* marks can be longer than what they stand for */
            out->skipped = "is more than the 16 MiB that come back in one reply";
            return 0;
        }
        out->len = clean.len;
        out->data = clean.data ? TAKE_PTR(clean.data) : strdup("");
    } else {
        out->len = file->len;
        out->data = malloc(file->len + 1);
        if (out->data)
            memcpy(out->data, file->data, file->len);
    }
    *bytes += out->len;
    return out->data ? 0 : -ENOMEM;
}

static int take_files(struct call *call, int fd, uint32_t count, struct gb_err *err)
{
    struct gb_payload *payload = &call->front->files;
    off_t size = lseek(fd, 0, SEEK_END);
    int r = gb_payload_open(fd, size < 0 ? 0 : (uint64_t)size, payload, err);
    if (r)
        return r;
    size_t bytes = 0;
    call->result.files = calloc(payload->file_count + 1, sizeof(*call->result.files));
    call->skipped = calloc(payload->file_count + 1, sizeof(*call->skipped));
    r = call->result.files && call->skipped && payload->file_count == count ? 0 : -ENOMEM;
    for (size_t i = 0; !r && i < payload->file_count; i++)
        r = add_file(call, &payload->files[i], payload->skipped[i], &bytes);
    gb_payload_done(payload);
    return r ? gb_err_set(err, GB_ERR_BUSY, -r, "take the files that came back") : 0;
}

/* --- its end --- */

/* A second time, if the box had ended before the call was in it: then that must have said nothing. */
static int take_streams(struct call *call, struct gb_msg *msg, struct gb_err *err)
{
    static void (*const ready[])(struct gb_source *, uint32_t) = {stdout_ready, stderr_ready};
    if (call->run.seen[0] || call->run.seen[1] || call->run.head.len)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the box spoke before its call came, and ended");
    for (int i = 0; i < 2; i++) {
        close_stream(call, i);
        call->run.stream[i] = (struct gb_source){.fd = TAKE_FD(msg->fd[i]), .ready = ready[i]};
    }
    return 0;
}

static int take_result(struct call *call, struct gb_msg *msg, struct gb_err *err)
{
    const struct gb_msg_done *done = msg->body;
    struct gb_result *r = &call->result;
    const unsigned streams = msg->fd_count & 2; /* most boxes end before anybody had to be told of them */
    if (streams && take_streams(call, msg, err))
        return -EPROTO;
    for (int stream = 0; stream < 2; stream++)
        drain(call, stream);
    if (done->status < 0 || done->status >= GB_STATUS_COUNT || done->start >= GB_START_COUNT ||
        r->out.failed || r->err.failed)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the result cannot be kept");
    r->status = (enum gb_status)done->status;
    r->exit_code = done->exit_code;
    r->signal = done->signal;
    snprintf(call->kill_reason, sizeof(call->kill_reason), "%s", done->kill_reason);
    r->kill_reason = *call->kill_reason ? call->kill_reason : NULL;
    r->usage = done->usage;
    r->enforced.start = (enum gb_start)done->start;
    r->usage.stdout_bytes = call->run.seen[0];
    r->usage.stderr_bytes = call->run.seen[1];
    call->enforced = strndup(msg->tail, msg->tail_bytes);
    if (!call->enforced)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the receipt");
    int error = msg->fd_count > streams ? take_files(call, msg->fd[streams], done->file_count, err) : 0;
    if (!error && call->run.unreported)
        decide_unreported(call);
    return error;
}

static void watch(struct call *call)
{
    for (int i = 0; i < 2 && !call->run.paused; i++)
        if (call->run.stream[i].fd >= 0)
            gb_loop_watch(call->front->loop, &call->run.stream[i], EPOLLIN);
}

static void keeper_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct call *call = GB_OWNER(source, struct call, run.socket);
    struct gb_msg *msg = &call->front->msg;
    struct gb_err err = {0};
    int r = gb_msg_receive(source->fd, "launch", "front", msg);
    while (!r && msg->kind == GB_MSG_RUN_OUTPUT) {
        r = take_streams(call, msg, &err) ? -EPROTO : 0;
        gb_msg_done(msg);
        r = r ? r : gb_msg_receive(source->fd, "launch", "front", msg);
    }
    if (r == -EAGAIN) {
        watch(call);
        return;
    }
    if (r) {
        if (!err.code)
            gb_err_set(&err, GB_ERR_INTERNAL, 0, "the box's keeper died");
    } else {
        if (msg->kind == GB_MSG_RUN_FAILED)
            err = ((const struct gb_msg_failed *)msg->body)->err;
        else
            take_result(call, msg, &err);
        gb_msg_done(msg);
    }
    const int status = gb_err_http_status((enum gb_error_code)err.code);
    if (status < 500)
        call->front->box_seen_us = gb_clock_us();
    else
        call->front->box_failed_us = gb_clock_us();
    run_done(call);
    call_ran(call, &err);
}

/* --- its beginning --- */

static int input_fd(const struct call *call)
{
    const struct gb_buf text = {.data = (char *)call->request.input, .len = call->request.input_len};
    return gb_payload_seal(&text);
}

static int open_streams(struct call *call)
{
    for (int i = 0; i < 2; i++) {
        const bool clean = call->profile && call->profile->sanitise;
        call->run.redact[i] = gb_redact_new(clean ? call->policy->gb->rules : NULL, GB_REDACT_HOLD);
        if (!call->run.redact[i])
            return -ENOMEM;
        buffer(call, i)->max = call->run.raw[i].max = (size_t)call->request.limits.output_bytes;
    }
    return 0;
}

static int open_all(struct call *call, int fds[3], unsigned *count)
{
    int pair[2];
    int r = gb_msg_pair(pair);
    if (r)
        return r;
    call->run.socket = (struct gb_source){.fd = pair[0], .ready = keeper_ready};
    fds[0] = pair[1];
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK))
        return -errno;
    fds[1] = gb_payload_seal(&call->request.payload);
    if (fds[1] < 0)
        return fds[1];
    r = open_streams(call);
    *count = 2;
    if (!r && call->request.input) {
        fds[2] = input_fd(call);
        r = fds[2] < 0 ? fds[2] : 0;
        *count = 3;
    }
    return r ? r : gb_loop_watch(call->front->loop, &call->run.socket, EPOLLIN);
}

int run_start(struct call *call, bool probe, struct gb_err *err)
{
    int fds[3] = {-1, -1, -1};
    unsigned count = 0;
    const struct gb_runtime *rt = call->request.runtime;
    int r = open_all(call, fds, &count);
    if (r) {
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
            gb_auto_close(&fds[i]);
        run_done(call);
        return gb_err_set(err, GB_ERR_BUSY, -r, "prepare a box");
    }
    const uint32_t start_code = call->run.reports ? GB_RUN_START_CODE : 0;
    const uint32_t followed = call->stream != STREAM_NONE ? GB_RUN_FOLLOWED : 0;
    struct gb_msg_run m = {.limits = call->request.limits,
                           .flags = probe ? GB_RUN_PROBE : start_code | followed,
                           .runtime = rt ? (uint32_t)(rt - gb_runtimes) + 1 : 0,
                           .payload_bytes = call->request.payload.len,
                           .pool = probe ? 0 : call->run.pool};
    snprintf(m.id, sizeof(m.id), "%s", call->id);
    r = channel_send(&call->front->launch, GB_MSG_RUN, 0, &m, NULL, 0, fds, count);
    if (r) {
        run_done(call);
        return gb_err_set(err, GB_ERR_BUSY, -r, "ask for a box");
    }
    return 0;
}

void run_cancel(struct call *call)
{
    /* Not a byte: one that the keeper leaves unread would turn its answer into ECONNRESET. */
    if (call->run.socket.fd >= 0)
        shutdown(call->run.socket.fd, SHUT_WR);
}

void run_pause(struct call *call, bool pause)
{
    if (call->run.paused == pause)
        return;
    call->run.paused = pause;
    for (int i = 0; i < 2; i++)
        if (call->run.stream[i].fd >= 0) {
            if (pause)
                gb_loop_forget(call->front->loop, &call->run.stream[i]);
            else
                gb_loop_watch(call->front->loop, &call->run.stream[i], EPOLLIN);
        }
}

void run_done(struct call *call)
{
    struct run *run = &call->run;
    if (run->socket.fd >= 0) {
        gb_loop_forget(call->front->loop, &run->socket);
        close(TAKE_FD(run->socket.fd));
    }
    for (int i = 0; i < 2; i++) {
        close_stream(call, i);
        gb_redact_free(TAKE_PTR(run->redact[i]));
    }
    gb_buf_done(&run->head);
}
