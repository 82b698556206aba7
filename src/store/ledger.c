#include "store/ledger.h"

#include "base/auto.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

#define SETTLE_MOST 64                  /* records in one step: half a millisecond */
#define ROOM_LEAST  ((size_t)512 << 10) /* in the journal before a batch: half of it */
#define RECORD_MOST GB_MSG_BYTES_MOST   /* an entry is smaller: a record's message may be half of that */

static int open_audit(struct gb_ledger *l, struct gb_err *err)
{
    return l->audit ? 0 : gb_audit_open(".", true, l->keep.sync_full, &l->audit, err);
}

/* A full disk, a lock or lack of memory leave a database as usable as it was. For anything else only a new
 * start will do: descriptors may have gone stale, and recovery happens when it is opened. */
static int failed(struct gb_ledger *l, int r)
{
    if (r && r != -ENOSPC && r != -EBUSY && r != -ENOMEM && r != -EINVAL)
        gb_ledger_close(l);
    return r;
}

static int append_start(struct gb_ledger *l, struct gb_err *err)
{
    static const char body[] = "{\"version\":\"" GB_VERSION "\"}";
    const struct gb_audit_record start = {
            .kind = GB_RECORD_START, .id = "", .principal = "", .body = body, .body_bytes = sizeof(body) - 1};
    int64_t lost = 0;
    int r = gb_audit_append(l->audit, &start, NULL, err);
    if (!r)
        r = gb_audit_close_open(l->audit, &lost, err);
    if (!r && lost)
        gb_log(GB_LOG_WARN, "calls were cut off by the end of the service before this one",
               GB_I("calls", lost));
    return r;
}

static int settle(struct gb_ledger *l, size_t most, struct gb_err *err)
{
    int r = gb_audit_settle(l->audit, most, err);
    l->behind = r != 0;
    return r;
}

static int begin_direct(struct gb_ledger *l, struct gb_err *err)
{
    int r = gb_audit_begin(l->audit, err);
    if (!r && !l->begun)
        r = append_start(l, err);
    return r;
}

int gb_ledger_begin(struct gb_ledger *ledger, struct gb_err *err)
{
    int r = open_audit(ledger, err);
    if (r)
        return failed(ledger, r);
    ledger->direct = ledger->keep.sync_full || !ledger->begun;
    if (ledger->direct)
        r = begin_direct(ledger, err);
    else if (ledger->behind || gb_audit_room(ledger->audit) < ROOM_LEAST)
        r = settle(ledger, SIZE_MAX, err);
    return failed(ledger, r);
}

int gb_ledger_append(struct gb_ledger *ledger, const struct gb_audit_record *record,
                     const struct gb_audit_usage *usage, int64_t *ret_seq, struct gb_err *err)
{
    if (!ledger->direct)
        return failed(ledger, gb_audit_stage(ledger->audit, record, usage, ret_seq, err));
    int r = gb_audit_append(ledger->audit, record, ret_seq, err);
    if (!r && usage)
        r = gb_audit_charge(ledger->audit, usage, err);
    return failed(ledger, r);
}

bool gb_ledger_is_full(const struct gb_ledger *ledger)
{
    return ledger->audit && !ledger->direct && gb_audit_room(ledger->audit) < RECORD_MOST;
}

int gb_ledger_commit(struct gb_ledger *ledger, struct gb_err *err)
{
    int r = (ledger->direct ? gb_audit_commit : gb_audit_keep)(ledger->audit, err);
    if (!r)
        ledger->begun = true;
    return failed(ledger, r);
}

bool gb_ledger_is_unsettled(const struct gb_ledger *ledger)
{
    return ledger->audit && gb_audit_unsettled(ledger->audit);
}

int gb_ledger_settle(struct gb_ledger *ledger, bool *ret_more, struct gb_err *err)
{
    int r = gb_ledger_is_unsettled(ledger) ? settle(ledger, SETTLE_MOST, err) : 0;
    *ret_more = !r && gb_ledger_is_unsettled(ledger);
    return failed(ledger, r);
}

bool gb_ledger_wants_tidying(const struct gb_ledger *ledger)
{
    return ledger->audit && gb_audit_wants_tidying(ledger->audit);
}

void gb_ledger_tidy(struct gb_ledger *ledger)
{
    if (ledger->audit)
        gb_audit_tidy(ledger->audit);
}

int gb_ledger_each(struct gb_ledger *ledger, const struct gb_audit_filter *filter,
                   int (*each)(void *context, const struct gb_audit_record *record), void *context,
                   struct gb_err *err)
{
    int r = open_audit(ledger, err);
    return r ? r : gb_audit_each(ledger->audit, filter, each, context, err);
}

int gb_ledger_each_usage(struct gb_ledger *ledger, const struct gb_audit_usage *behind, int64_t most,
                         int (*each)(void *context, const struct gb_audit_usage *usage), void *context,
                         struct gb_err *err)
{
    int r = open_audit(ledger, err);
    return r ? r : gb_audit_each_usage(ledger->audit, behind, most, each, context, err);
}

int gb_ledger_retain(struct gb_ledger *ledger, int64_t *ret_removed, struct gb_err *err)
{
    *ret_removed = 0;
    int r = open_audit(ledger, err);
    if (!r)
        r = gb_audit_forget_usage(ledger->audit, &ledger->keep, err);
    if (!r)
        r = gb_audit_retain(ledger->audit, &ledger->keep, ret_removed, err);
    return failed(ledger, r);
}

void gb_ledger_set(struct gb_ledger *ledger, const struct gb_msg_retention *keep)
{
    if (keep->sync_full != ledger->keep.sync_full)
        gb_ledger_close(ledger); /* how to write is decided when it is opened */
    ledger->keep = *keep;
}

void gb_ledger_close(struct gb_ledger *ledger)
{
    gb_audit_close(TAKE_PTR(ledger->audit));
}
