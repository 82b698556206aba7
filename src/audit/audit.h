/* The audit's database: records in a chain of hashes. Used by the store, which appends, and by `glovebox
 * audit`, which only reads. docs/audit.md tells what the chain proves.
 *
 * Functions return 0 or a negative errno and fill err. -EBADMSG: the file is damaged, was changed behind our
 * back or is not ours, and nothing is written to it any more. Any other (-ENOSPC, -EIO, -EBUSY …) may pass.
 */
#pragma once

#include "base/err.h"
#include "wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#define GB_AUDIT_FILE    "audit.db"
#define GB_AUDIT_JOURNAL "audit.journal" /* beside it while a writer is at work; see journal.h */
#define GB_AUDIT_BODY    ((size_t)64 * 1024)
#define GB_HASH_BYTES    32

struct gb_audit;

struct gb_audit_record {
    int64_t seq, time_us;              /* wall clock; the order of records is that of seq */
    uint32_t kind;                     /* enum gb_record_kind */
    const char *id, *principal, *body; /* body: JSON */
    size_t body_bytes;
    uint8_t hash[GB_HASH_BYTES];
};

/* Opens dir/audit.db. Writable: creates it if it is not there or empty; one writer at a time is the caller's
 * affair. Not writable: works while a writer is at work and when none is. A reader that may write to the
 * directory tidies up after a writer that was killed (as its last user does), so it should run as the owner
 * of the files. */
int gb_audit_open(const char *dir, bool writable, bool sync_full, struct gb_audit **ret_audit,
                  struct gb_err *err);
/* The last to close a database moves what is in the write-ahead log into it; a writer, what is in the
 * journal.
 */
void gb_audit_close(struct gb_audit *audit);

/* Two ways in. The first is straight into the tables.
 *
 * Appends happen between begin and commit; nothing counts before commit has returned 0. On failure of any of
 * them everything since begin is undone, and begin may be tried again. */
int gb_audit_begin(struct gb_audit *audit, struct gb_err *err);
/* Takes kind, id, principal and body of the record, and time_us unless it is 0 (now). Text must be UTF-8
 * without NUL. */
int gb_audit_append(struct gb_audit *audit, const struct gb_audit_record *record, int64_t *ret_seq,
                    struct gb_err *err);
/* Appends a LOST record for every intent that has no outcome. */
int gb_audit_close_open(struct gb_audit *audit, int64_t *ret_count, struct gb_err *err);
int gb_audit_commit(struct gb_audit *audit, struct gb_err *err);
void gb_audit_rollback(struct gb_audit *audit);

/* What principals have used of tools, by days (UTC, since 1970): for budgets that outlive the service. It is
 * no record and not in the chain, but is written in the same transaction as the record that it belongs to. */
struct gb_audit_usage {
    int64_t day;
    const char *principal, *tool;
    int64_t calls, cpu_us;
};
#define GB_AUDIT_CPU_MOST ((int64_t)10000000000000) /* of one call */

/* Adds to the row of today, whatever `day` says; like an append, within a transaction. */
int gb_audit_charge(struct gb_audit *audit, const struct gb_audit_usage *usage, struct gb_err *err);
/* The rows of a day behind the one that is given by names, in order, at most so many. */
int gb_audit_each_usage(struct gb_audit *audit, const struct gb_audit_usage *behind, int64_t most,
                        int (*each)(void *context, const struct gb_audit_usage *usage), void *context,
                        struct gb_err *err);
/* The second way is the quick one, for a writer without sync_full: records are staged, then kept, which is
 * one write to the journal, and settled in the tables later. From when they are kept they are records like
 * all others: every reader sees them, and they survive the end of every process. Whatever else a writer does
 * settles them first. Usage is that of the record's principal. On failure what was staged and not kept is
 * undone. */
int gb_audit_stage(struct gb_audit *audit, const struct gb_audit_record *record,
                   const struct gb_audit_usage *usage, /* NULL: none */ int64_t *ret_seq, struct gb_err *err);
int gb_audit_keep(struct gb_audit *audit, struct gb_err *err);
/* Puts so many of them into the tables, oldest first, in one transaction. On failure they stay kept. */
int gb_audit_settle(struct gb_audit *audit, size_t most, struct gb_err *err);
/* What takes long and can wait for a quiet moment: the disk is waited for. Left undone, it happens in the
 * middle of some commit. */
bool gb_audit_wants_tidying(const struct gb_audit *audit);
void gb_audit_tidy(struct gb_audit *audit);
/* Bytes of records that are kept and not settled. */
size_t gb_audit_unsettled(const struct gb_audit *audit);
/* Bytes that can still be staged. More come only when all that is kept has been settled. */
size_t gb_audit_room(const struct gb_audit *audit);

/* Removes the rows of days that are older than records may become, but never those of the last two days. */
int gb_audit_forget_usage(struct gb_audit *audit, const struct gb_msg_retention *keep, struct gb_err *err);

/* One step of retention, in a transaction of its own: removes the oldest records beyond age and size, and
 * appends a RETENTION record from which the rest still verifies. Calls stay whole: what belongs to a call
 * that is under way or ends later is left. A step is bounded; call again while *ret_removed is not 0. */
int gb_audit_retain(struct gb_audit *audit, const struct gb_msg_retention *keep, int64_t *ret_removed,
                    struct gb_err *err);

/* Records in order of sequence (newest first if `newest`), filtered; `each` returns non-zero to stop, which
 * is then returned. */
struct gb_audit_filter {
    const char *id;        /* NULL: any */
    const char *principal; /* NULL: any; with an id: only if the call is this principal's */
    bool ends;             /* only OUTCOME and LOST */
    int64_t after, before; /* only sequence numbers above, below; 0: any */
    int64_t since_us;      /* 0: any */
    bool newest;
    int64_t most; /* 0: all */
};
int gb_audit_each(struct gb_audit *audit, const struct gb_audit_filter *filter,
                  int (*each)(void *context, const struct gb_audit_record *record), void *context,
                  struct gb_err *err);

/* Walks the whole chain as it is at one moment. 0: sound; the count and the newest hash are filled. Else err
 * names the first bad record and what is wrong with it. noted: a head that somebody wrote down earlier, which
 * must be in the chain; or NULL. */
int gb_audit_verify(struct gb_audit *audit, const uint8_t *noted, int64_t *ret_count,
                    uint8_t ret_head[GB_HASH_BYTES], struct gb_err *err);

/* Lower-case hexadecimal with a NUL. */
