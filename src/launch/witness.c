#include "launch/witness.h"

#include "backend/backend.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/sha256.h"
#include "base/text.h"
#include "launch/keeper.h"
#include "wire/payload.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define ANSWER_US    5000000
#define RECORD_BYTES 4096
#define HASH_CHUNK   16384

/* --- the record --- */

/* Of the sealed bytes themselves: what the keeper will read is what was recorded. */
static int hash_payload(int fd, uint64_t bytes, char *ret_hex)
{
    struct gb_sha256 ctx;
    uint8_t chunk[HASH_CHUNK], digest[GB_SHA256_BYTES];
    gb_sha256_init(&ctx);
    for (uint64_t at = 0; at < bytes;) {
        ssize_t n = pread(fd, chunk, sizeof(chunk), (off_t)at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        gb_sha256_add(&ctx, chunk, (size_t)n);
        at += (uint64_t)n;
    }
    gb_sha256_end(&ctx, digest);
    gb_text_hex(digest, sizeof(digest), ret_hex);
    return 0;
}

static void write_record(const struct gb_run *run, const char *payload_hash, struct gb_buf *out)
{
    struct gb_spec spec;
    char policy[2 * GB_SHA256_BYTES + 1];
    gb_keeper_spec(run, &spec);
    gb_native_hash_policy(&spec, policy);
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "runtime", spec.runtime ? spec.runtime : "");
    gb_json_int(&j, "payload_bytes", (int64_t)run->ask.payload_bytes);
    gb_json_text(&j, "payload_sha256", payload_hash);
    gb_limits_to_json(&j, "limits", &run->ask.limits);
    gb_json_text(&j, "policy_hash", policy);
    gb_json_close(&j, '}');
}

int gb_witness_tell(struct gb_witness *w, struct gb_run *run, struct gb_err *err)
{
    char hash[2 * GB_SHA256_BYTES + 1], text[RECORD_BYTES];
    /* A buffer that never grows: it has its size from the start. */
    struct gb_buf record = {.data = text, .size = sizeof(text), .max = sizeof(text) - 1};
    int r = gb_payload_check(run->fd[GB_RUN_PAYLOAD], run->ask.payload_bytes, err);
    if (r)
        return r;
    r = hash_payload(run->fd[GB_RUN_PAYLOAD], run->ask.payload_bytes, hash);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "read the payload");
    struct gb_msg_append append = {.kind = GB_RECORD_LAUNCH};
    memcpy(append.id, run->ask.id, sizeof(append.id));
    write_record(run, hash, &record);
    r = w->store < 0 ? -EPIPE
        : gb_witness_is_full(w)
                ? -EAGAIN
                : gb_msg_send(w->store, GB_MSG_APPEND, w->sent, &append, record.data, record.len, NULL, 0);
    if (r)
        return gb_err_set(err, GB_ERR_AUDIT, -r, "the launch cannot be recorded");
    w->ring[w->sent % GB_WITNESS_RUNS].run = *run;
    w->ring[w->sent % GB_WITNESS_RUNS].until_us = gb_clock_us() + ANSWER_US;
    w->sent++;
    return 0;
}

/* --- the answer --- */

/* The one that has waited longest. */
static void settle(struct gb_witness *w, const struct gb_err *err)
{
    w->settled(&w->ring[w->settled_to++ % GB_WITNESS_RUNS].run, err);
}

static void give_up(struct gb_witness *w, int64_t now_us, const char *why)
{
    struct gb_err err = {0};
    gb_err_set(&err, GB_ERR_AUDIT, 0, "the launch was not recorded: %s", why);
    while (gb_witness_waiting(w) && w->ring[w->settled_to % GB_WITNESS_RUNS].until_us <= now_us)
        settle(w, &err);
}

int gb_witness_hear(struct gb_witness *w)
{
    int r = gb_msg_receive(w->store, "store", "launch", &w->msg);
    if (r == -EAGAIN || r == -EPROTO)
        return r;
    if (r) {
        w->store = -1;
        give_up(w, INT64_MAX, "the store is gone");
        w->answered = w->sent; /* nothing more will come */
        return r;
    }
    if (w->answered == w->sent || w->msg.tag != w->answered)
        return -EPROTO;
    const struct gb_msg_ack *ack = w->msg.body;
    struct gb_err err = {0};
    if (ack->err.code != GB_ERR_NONE)
        gb_err_set(&err, GB_ERR_AUDIT, 0, "the launch was not recorded: %.400s", ack->err.text);
    if (w->settled_to == w->answered++)
        settle(w, &err);
    gb_msg_done(&w->msg);
    return 0;
}

void gb_witness_expire(struct gb_witness *w)
{
    give_up(w, gb_clock_us(), "the store does not answer");
}

int64_t gb_witness_next_us(const struct gb_witness *w)
{
    return gb_witness_waiting(w) ? w->ring[w->settled_to % GB_WITNESS_RUNS].until_us : INT64_MAX;
}

unsigned gb_witness_waiting(const struct gb_witness *w)
{
    return (unsigned)(w->sent - w->settled_to);
}

bool gb_witness_is_full(const struct gb_witness *w)
{
    return w->sent - w->answered >= GB_WITNESS_RUNS;
}
