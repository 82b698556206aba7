#include "launch/run.h"

#include "base/auto.h"
#include "sandbox/steps.h"
#include "wire/payload.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(GB_RUN_FDS <= GB_MSG_FDS, "a run's descriptors come in one message");

void gb_run_take(struct gb_msg *msg, struct gb_run *ret)
{
    const struct gb_msg_run *ask = msg->body;
    *ret = (struct gb_run){.tag = msg->tag, .ask = *ask, .fd_count = msg->fd_count};
    for (unsigned i = 0; i < msg->fd_count; i++)
        ret->fd[i] = TAKE_FD(msg->fd[i]);
}

int gb_run_tell_output(const struct gb_run *run, int fds[2])
{
    const struct gb_msg_none none = {0};
    int r = gb_msg_send(run->fd[GB_RUN_SOCKET], GB_MSG_RUN_OUTPUT, run->tag, &none, NULL, 0, fds, 2);
    for (int i = 0; i < 2; i++)
        gb_close(&fds[i]);
    return r;
}

bool gb_run_is_left(const struct gb_run *run)
{
    struct pollfd p = {.fd = run->fd[GB_RUN_SOCKET]};
    return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

int gb_run_fail(const struct gb_run *run, const struct gb_err *err)
{
    const struct gb_msg_failed failed = {.err = *err};
    return gb_msg_send(run->fd[GB_RUN_SOCKET], GB_MSG_RUN_FAILED, run->tag, &failed, NULL, 0, NULL, 0);
}

/* --- the result --- */

/* The row that tells that the rest was not looked at carries the directory where that happened. */
static void add_name(struct gb_buf *b, const char *name)
{
    char text[1024];
    size_t len = strlen(name);
    while (len > 0 && name[len - 1] == '/')
        len--;
    snprintf(text, sizeof(text), "%.*s", (int)len, len ? name : ".");
    gb_payload_add_text(b, GB_ITEM_NAME, len ? text : "*");
}

/* The files as a payload, or -errno. Each is given back as soon as it is copied. */
static int pack_files(struct gb_result *result)
{
    struct gb_buf b = {.max = GB_PAYLOAD_BYTES};
    for (size_t i = 0; i < result->file_count; i++) {
        struct gb_output *f = &result->files[i];
        add_name(&b, f->name);
        if (f->skipped)
            gb_payload_add_text(&b, GB_ITEM_SKIPPED, f->skipped);
        else
            gb_payload_add(&b, GB_ITEM_DATA, f->data, f->len);
        free(TAKE_PTR(f->data));
    }
    int fd = gb_payload_seal(&b);
    gb_buf_done(&b);
    return fd;
}

/* As JSON. Most boxes of a keeper have the same, so that it is there already when a caller waits for it. */
static const struct gb_buf *receipt_of(const struct gb_receipt *receipt)
{
    static struct gb_receipt known;
    static struct gb_buf json;
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*): padding can only have it made anew */
    if (json.len && !memcmp(&known, receipt, sizeof(known)))
        return &json;
    gb_buf_done(&json);
    json = (struct gb_buf){.max = gb_msg_shapes[GB_MSG_RUN_DONE].tail_most};
    known = *receipt;
    if (*receipt->policy_hash)
        gb_receipt_to_json(receipt, gb_step_name, &json);
    else
        gb_buf_puts(&json, "null"); /* cancelled before the box was whole: nothing can be claimed */
    return &json;
}

int gb_run_answer(const struct gb_run *run, struct gb_result *r, const int out[2])
{
    struct gb_err err = {0};
    struct gb_msg_done done = {.status = (int32_t)r->status,
                               .exit_code = r->exit_code,
                               .signal = r->signal,
                               .file_count = (uint32_t)r->file_count,
                               .usage = r->usage,
                               .start = (uint32_t)r->enforced.start};
    snprintf(done.kill_reason, sizeof(done.kill_reason), "%s", r->kill_reason ? r->kill_reason : "");
    AUTO_FD files = r->file_count ? pack_files(r) : -1;
    if (r->file_count && files < 0) {
        gb_err_set(&err, GB_ERR_BUSY, -files, "bring back the files of the box");
        return gb_run_fail(run, &err);
    }
    const struct gb_buf *receipt = receipt_of(&r->enforced);
    int fds[3];
    unsigned count = 0;
    for (int i = 0; i < 2 && out[i] >= 0; i++)
        fds[count++] = out[i];
    if (files >= 0)
        fds[count++] = files;
    return gb_msg_send(run->fd[GB_RUN_SOCKET], GB_MSG_RUN_DONE, run->tag, &done, receipt->data, receipt->len,
                       fds, count);
}

void gb_run_drop(struct gb_run *run)
{
    for (unsigned i = 0; i < run->fd_count; i++)
        gb_close(&run->fd[i]);
    run->fd_count = 0;
}
