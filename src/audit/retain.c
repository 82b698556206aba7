/* Retention. It cuts: records up to the cut go, the rest verifies from the hash of the last one before the
 * cut, which is in the table base and, so that nobody can move it unseen, in a RETENTION record at the end of
 * the chain.
 *
 * Calls overlap all the time under load, so there may be no place to cut that divides none. Records before
 * the cut whose call goes on behind it stay; the RETENTION record names their number and a digest over them,
 * and the next cut looks at them again. */
#include "audit/retain.h"

#include "base/text.h"

#include "audit/chain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STEP_ROWS  4000
#define STEP_BYTES ((int64_t)8 << 20)
#define STEP_PAGES 2048 /* given back to the file system */

struct room {
    int64_t pages, free_pages, page_bytes;
};

int gb_retain_kept(struct gb_audit *audit, int64_t through, int64_t *ret_count,
                   uint8_t ret_digest[GB_HASH_BYTES], struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_UP_TO);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, through);
    int r;
    *ret_count = 0;
    memset(ret_digest, 0, GB_HASH_BYTES);
    while ((r = gb_db_step(audit, stmt, err)) > 0) {
        struct gb_audit_record record;
        const char *fault = gb_db_row(stmt, &record);
        if (fault)
            return gb_db_bad(err, "record %" PRId64 ": %s", record.seq, fault);
        gb_chain_fold(ret_digest, &record);
        ++*ret_count;
    }
    return r;
}

size_t gb_retain_body(const struct gb_chain_point *base, int64_t kept, const uint8_t digest[GB_HASH_BYTES],
                      char ret_body[GB_RETENTION_BODY])
{
    char hash[2 * GB_HASH_BYTES + 1], kept_hash[2 * GB_HASH_BYTES + 1];
    gb_text_hex(base->hash, GB_HASH_BYTES, hash);
    gb_text_hex(digest, GB_HASH_BYTES, kept_hash);
    const int len = snprintf(ret_body, GB_RETENTION_BODY,
                             "{\"through\":%" PRId64 ",\"hash\":\"%s\",\"removed\":%" PRId64, base->seq, hash,
                             base->count);
    snprintf(ret_body + len, GB_RETENTION_BODY - (size_t)len, ",\"kept\":%" PRId64 ",\"kept_hash\":\"%s\"}",
             kept, kept_hash);
    return (size_t)len;
}

static int measure(struct gb_audit *audit, struct room *ret_room, struct gb_err *err)
{
    int r = gb_db_number(audit, "PRAGMA page_count", &ret_room->pages, err);
    if (!r)
        r = gb_db_number(audit, "PRAGMA freelist_count", &ret_room->free_pages, err);
    return r ? r : gb_db_number(audit, "PRAGMA page_size", &ret_room->page_bytes, err);
}

/* How many records must go for the size, by what a record takes on average; a little more than needed, so
 * that it is not every minute. */
static int64_t rows_too_many(const struct gb_audit *audit, const struct room *room, int64_t keep_bytes)
{
    if (keep_bytes <= 0 || room->pages * room->page_bytes <= keep_bytes)
        return 0;
    const int64_t used = (room->pages - room->free_pages) * room->page_bytes;
    const int64_t excess = used - keep_bytes / 16 * 15;
    const int64_t each = audit->head.count > 0 ? used / audit->head.count + 1 : used;
    return excess > 0 ? excess / each + 1 : 0;
}

/* The last record of this step that is too old or too much; base when there is none. */
static int find_cut(struct gb_audit *audit, int64_t older_us, int64_t rows, struct gb_chain_point *base,
                    struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_OLDEST);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, base->seq);
    sqlite3_bind_int64(stmt, 2, STEP_ROWS);
    int64_t bytes = 0;
    int r;
    while (bytes < STEP_BYTES && (r = gb_db_step(audit, stmt, err)) > 0) {
        struct gb_audit_record record;
        const char *fault = gb_db_row(stmt, &record);
        if (fault)
            return gb_db_bad(err, "the audit database was changed: record %" PRId64 ": %s", record.seq,
                             fault);
        if (record.time_us >= older_us && rows <= 0)
            return 0;
        rows--;
        bytes += (int64_t)record.body_bytes;
        base->seq = record.seq;
        memcpy(base->hash, record.hash, GB_HASH_BYTES);
    }
    return r < 0 ? r : 0;
}

/* Is there anything before the cut but records of earlier retentions? They alone are not worth a new one, or
 * they would replace each other for ever. */
static int is_worth(struct gb_audit *audit, int64_t through, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_WORTH);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, through);
    int r = gb_db_step(audit, stmt, err);
    return r < 0 ? r : r && sqlite3_column_int64(stmt, 0) > 0;
}

static int delete_up_to(struct gb_audit *audit, struct gb_chain_point *base, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_REMOVE);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, base->seq);
    int r = gb_db_step(audit, stmt, err);
    base->count = sqlite3_changes64(audit->db);
    audit->head.count -= base->count;
    return r;
}

/* Within a transaction: removes, notes the cut, and appends the record of it. */
static int cut(struct gb_audit *audit, struct gb_chain_point *base, struct gb_err *err)
{
    char body[GB_RETENTION_BODY];
    uint8_t digest[GB_HASH_BYTES];
    int64_t kept = 0;
    int r = delete_up_to(audit, base, err);
    if (!r)
        r = gb_retain_kept(audit, base->seq, &kept, digest, err);
    if (!r)
        r = gb_db_set_point(audit, GB_SQL_SET_BASE, base, err);
    if (r)
        return r;
    gb_retain_body(base, kept, digest, body);
    const struct gb_audit_record record = {
            .kind = GB_RECORD_RETENTION, .id = "", .principal = "", .body = body, .body_bytes = strlen(body)};
    return gb_audit_append(audit, &record, NULL, err);
}

/* Free pages are used again by records to come; they are given back when the file is too large or mostly air.
 */
static int shrink(struct gb_audit *audit, int64_t keep_bytes, struct gb_err *err)
{
    struct room room;
    char text[64];
    int r = measure(audit, &room, err);
    const bool too_large = keep_bytes > 0 && room.pages * room.page_bytes > keep_bytes;
    if (r || !room.free_pages || (!too_large && room.free_pages <= room.pages / 8))
        return r;
    snprintf(text, sizeof(text), "PRAGMA incremental_vacuum(%d)", STEP_PAGES);
    return sqlite3_exec(audit->db, text, NULL, NULL, NULL) ? gb_db_fail(audit, err) : 0;
}

static int64_t oldest_us(int64_t keep_seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (keep_seconds <= 0 || keep_seconds > now.tv_sec)
        return INT64_MIN;
    return ((int64_t)now.tv_sec - keep_seconds) * 1000000 + now.tv_nsec / 1000;
}

int gb_audit_retain(struct gb_audit *audit, const struct gb_msg_retention *keep, int64_t *ret_removed,
                    struct gb_err *err)
{
    struct room room;
    struct gb_chain_point base = {0};
    *ret_removed = 0;
    if (keep->keep_seconds <= 0 && keep->keep_bytes <= 0)
        return 0;
    int r = gb_audit_begin(audit, err);
    if (r)
        return r;
    int64_t before = 0;
    if (!(r = measure(audit, &room, err)) && !(r = gb_db_point(audit, GB_SQL_BASE, &base, err))) {
        before = base.seq;
        r = find_cut(audit, oldest_us(keep->keep_seconds), rows_too_many(audit, &room, keep->keep_bytes),
                     &base, err);
    }
    const int worth = r || base.seq == before ? r : is_worth(audit, base.seq, err);
    if (worth <= 0) {
        gb_audit_rollback(audit);
        return worth ? worth : shrink(audit, keep->keep_bytes, err);
    }
    if ((r = cut(audit, &base, err))) {
        gb_audit_rollback(audit);
        return r;
    }
    if ((r = gb_audit_commit(audit, err)))
        return r;
    *ret_removed = base.count;
    return shrink(audit, keep->keep_bytes, err);
}
