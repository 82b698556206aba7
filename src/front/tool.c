#include "front/tool.h"

#include "base/auto.h"
#include "front/call.h"
#include "front/clean.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define ANSWER_MOST ((off_t)64 << 20)

/* --- the answer --- */

static int read_answer(int fd, json_t **ret, struct gb_err *err)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > ANSWER_MOST)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the broker's answer is empty or too large");
    AUTO_FREE char *text = malloc((size_t)size);
    if (!text)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "take the result");
    if (gb_payload_check(fd, (uint64_t)size, err) || pread(fd, text, (size_t)size, 0) != size)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the broker's answer cannot be read");
    int r = gb_json_read(text, (size_t)size, ret, err);
    if (r) {
        err->code = GB_ERR_INTERNAL; /* not the caller's JSON */
        gb_err_wrap(err, "the broker's answer");
    }
    return r;
}

/* The result for those who know it, and the same as text for those who only know output. */
static int keep_answer(struct call *call, json_t *answer, struct gb_err *err)
{
    struct cleaner c = {.rules = call->profile->sanitise ? call->policy->gb->rules : call->policy->secrets,
                        .secrets = call->policy->secrets};
    call->answer = clean_value(&c, answer);
    AUTO_FREE char *text =
            c.failed || !call->answer
                    ? NULL
                    : json_dumps(call->answer, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!text)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the result");
    call->redactions += c.hits;
    call->result.out.max = strlen(text);
    gb_buf_puts(&call->result.out, text);
    call->result.usage.stdout_bytes = call->result.out.len;
    return call->result.out.failed ? gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the result") : 0;
}

static int take_done(struct call *call, const struct gb_msg *msg, struct gb_err *err)
{
    const struct gb_msg_tool_done *done = msg->body;
    call->result.usage.wall_us = done->wall_us;
    call->result.usage.pids_peak = -1;
    for (size_t i = 0; i < done->denial_count && i < GB_DENIALS; i++) {
        struct gb_denial d = done->denials[i];
        if (d.code <= GB_DENIAL_NONE || d.code >= GB_DENIAL_COUNT)
            return gb_err_set(err, GB_ERR_INTERNAL, 0, "the broker refused without a reason that we know");
        clean_field(call->policy->secrets, d.reason, sizeof(d.reason));
        clean_field(call->policy->secrets, d.hint, sizeof(d.hint));
        gb_denial_add(call->denials, &call->denial_count, d.code, d.hint, "%s", d.reason);
    }
    if (call->denial_count)
        return 0;
    if (!msg->fd_count)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the broker gave no result");
    AUTO_JSON answer = NULL;
    int r = read_answer(msg->fd[0], &answer, err);
    if (!r)
        r = keep_answer(call, answer, err);
    call->result.status = done->failed ? GB_STATUS_ERROR : GB_STATUS_SUCCESS;
    return r;
}

static void broker_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct call *call = GB_OWNER(source, struct call, run.socket);
    struct gb_msg *msg = &call->front->msg;
    struct gb_err err = {0};
    bool answered = false;
    int r = gb_msg_receive(source->fd, "broker", "front", msg);
    if (r == -EAGAIN)
        return;
    if (r && !call->cancelled) {
        gb_err_set(&err, GB_ERR_INTERNAL, 0, "the broker's process for this call died");
    } else if (!r) {
        if (msg->kind == GB_MSG_TOOL_FAILED) {
            err = ((const struct gb_msg_failed *)msg->body)->err;
            clean_field(call->policy->secrets, err.text, sizeof(err.text));
        } else {
            answered = true;
            take_done(call, msg, &err);
        }
        gb_msg_done(msg);
    }
    if (call->cancelled && !answered) { /* that it was ended is no failure of the tool */
        err = (struct gb_err){0};
        call->result.status = GB_STATUS_CANCELLED;
        call->result.kill_reason = "cancelled";
    }
    run_done(call);
    call_ran(call, &err);
}

/* --- its beginning --- */

static int seal_arguments(const struct call *call)
{
    AUTO_FREE char *text = json_dumps(call->request.arguments, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    const struct gb_buf whole = {.data = text, .len = strlen(text)};
    return gb_payload_seal(&whole);
}

static int open_all(struct call *call, int fds[2])
{
    int pair[2];
    int r = gb_msg_pair(pair);
    if (r)
        return r;
    call->run.socket = (struct gb_source){.fd = pair[0], .ready = broker_ready};
    fds[0] = pair[1];
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK))
        return -errno;
    fds[1] = seal_arguments(call);
    if (fds[1] < 0)
        return fds[1];
    return gb_loop_watch(call->front->loop, &call->run.socket, EPOLLIN);
}

int tool_start(struct call *call, struct gb_err *err)
{
    int fds[2] = {-1, -1};
    struct gb_msg_tool m = {0};
    int r = open_all(call, fds);
    if (r) {
        gb_auto_close(&fds[0]);
        gb_auto_close(&fds[1]);
        run_done(call);
        return gb_err_set(err, GB_ERR_BUSY, -r, "prepare a call of the broker");
    }
    snprintf(m.id, sizeof(m.id), "%s", call->id);
    snprintf(m.policy, sizeof(m.policy), "%s", call->policy->gb->sha256);
    snprintf(m.tool, sizeof(m.tool), "%s", call->tool->name);
    r = channel_send(&call->front->broker, GB_MSG_TOOL, 0, &m, NULL, 0, fds, 2);
    if (r) {
        run_done(call);
        return gb_err_set(err, GB_ERR_BUSY, -r, "ask the broker");
    }
    return 0;
}
