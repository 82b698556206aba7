/* Checking the chain. The question is not only whether it is sound: whoever asks wants to know where to look.
 */
#include "audit/chain.h"
#include "audit/journal.h"
#include "audit/retain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct walk {
    struct gb_chain_point base, head;
    int64_t seq, count;          /* the record that was checked last, and how many were */
    uint8_t hash[GB_HASH_BYTES]; /* its hash */
    int64_t suspect;             /* a record that does not follow; its successor tells what happened to it */
    uint8_t stored[GB_HASH_BYTES], computed[GB_HASH_BYTES];
    const uint8_t *noted;
    bool noted_seen;
};

static bool same(const uint8_t a[GB_HASH_BYTES], const uint8_t b[GB_HASH_BYTES])
{
    return !memcmp(a, b, GB_HASH_BYTES);
}

static int blame(const struct walk *w, bool follows_stored, bool follows_computed, struct gb_err *err)
{
    return gb_db_bad(
            err, "record %" PRId64 " %s", w->suspect,
            follows_stored ? "was changed: its contents do not give its hash"
            : follows_computed
                    ? "was changed: its hash is not that of its contents"
                    : "does not follow from the record before it: it was moved, inserted or replaced");
}

static int check_row(struct walk *w, const struct gb_audit_record *r, struct gb_err *err)
{
    uint8_t hash[GB_HASH_BYTES];
    if (w->suspect) {
        uint8_t other[GB_HASH_BYTES];
        gb_chain_hash(w->stored, r, hash);
        gb_chain_hash(w->computed, r, other);
        return blame(w, same(hash, r->hash), same(other, r->hash), err);
    }
    if (r->seq != w->seq + 1)
        return gb_db_bad(err, "record %" PRId64 " is missing: the next one is %" PRId64, w->seq + 1, r->seq);
    gb_chain_hash(w->hash, r, hash);
    if (!same(hash, r->hash)) {
        w->suspect = r->seq;
        memcpy(w->stored, r->hash, GB_HASH_BYTES);
        memcpy(w->computed, hash, GB_HASH_BYTES);
        return 0;
    }
    w->seq = r->seq;
    w->count++;
    memcpy(w->hash, hash, GB_HASH_BYTES);
    w->noted_seen |= w->noted && same(hash, w->noted);
    return 0;
}

static int walk_rows(struct gb_audit *audit, struct walk *w, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_FROM);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, w->base.seq);
    int r;
    while ((r = gb_db_step(audit, stmt, err)) > 0) {
        struct gb_audit_record record;
        const char *fault = gb_db_row(stmt, &record);
        if (fault && !w->suspect)
            return gb_db_bad(err, "record %" PRId64 " was changed: %s", record.seq, fault);
        if (fault)
            return blame(w, false, false, err);
        if ((r = check_row(w, &record, err)))
            return r;
    }
    if (r < 0) {
        gb_err_wrap(err, "behind record %" PRId64, w->seq);
        return r;
    }
    if (!w->suspect)
        return 0;
    const bool last = w->suspect == w->head.seq;
    return blame(w, last && same(w->head.hash, w->stored), last && same(w->head.hash, w->computed), err);
}

/* The cut must be the one that the last RETENTION record names, and what stands before it what was left
 * there. */
static int check_base(struct gb_audit *audit, struct walk *w, struct gb_err *err)
{
    static const uint8_t zeros[GB_HASH_BYTES];
    char body[GB_RETENTION_BODY];
    uint8_t digest[GB_HASH_BYTES];
    int64_t kept = 0;
    int r = gb_retain_kept(audit, w->base.seq, &kept, digest, err);
    if (r)
        return r;
    w->count += kept;
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_LAST_RETENTION);
    r = stmt ? gb_db_step(audit, stmt, err) : gb_db_fail(audit, err);
    if (r < 0)
        return r;
    if (!r && (w->base.seq || w->base.count || !same(w->base.hash, zeros)))
        return gb_db_bad(err,
                         "the table 'base' says that records up to %" PRId64
                         " were removed by retention, but no record says so",
                         w->base.seq);
    if (!r)
        return kept ? gb_db_bad(err, "%" PRId64 " records were inserted before record 1", kept) : 0;
    struct gb_audit_record record;
    const char *fault = gb_db_row(stmt, &record);
    const size_t named = gb_retain_body(&w->base, kept, digest, body);
    if (fault)
        return gb_db_bad(err, "record %" PRId64 " was changed: %s", record.seq, fault);
    if (record.body_bytes < named || memcmp(record.body, body, named) != 0)
        return gb_db_bad(err,
                         "the table 'base' says that records up to %" PRId64
                         " were removed by retention, but record %" PRId64 " says otherwise",
                         w->base.seq, record.seq);
    if (record.body_bytes != strlen(body) || memcmp(record.body, body, record.body_bytes) != 0)
        return gb_db_bad(err,
                         "the records up to %" PRId64
                         " that retention left are not those that record %" PRId64
                         " names: some were changed, dropped or inserted",
                         w->base.seq, record.seq);
    return 0;
}

static int check_end(const struct walk *w, struct gb_err *err)
{
    if (w->head.seq > w->seq)
        return gb_db_bad(err, "record %" PRId64 " is missing: the chain went up to %" PRId64, w->seq + 1,
                         w->head.seq);
    if (w->head.seq < w->seq)
        return gb_db_bad(err, "record %" PRId64 " was inserted: the chain went up to %" PRId64,
                         w->head.seq + 1, w->head.seq);
    if (!same(w->head.hash, w->hash))
        return gb_db_bad(err,
                         "record %" PRId64
                         " is not the one that was written last: the table 'head' has another hash",
                         w->seq);
    return 0;
}

static int check_totals(const struct walk *w, struct gb_err *err)
{
    if (w->head.count != w->count)
        return gb_db_bad(err, "there are %" PRId64 " records; the table 'head' says %" PRId64, w->count,
                         w->head.count);
    return 0;
}

/* Those that are not in the tables yet. They are taken from the journal for following, so nothing can be
 * wrong with them but the file. */
static int walk_journal(struct gb_audit *audit, struct walk *w, struct gb_err *err)
{
    struct gb_journal_entry e;
    int r = 0;
    for (size_t at = audit->journal.settled; !r && at < audit->journal.kept; at += e.bytes) {
        gb_journal_at(&audit->journal, at, &e);
        r = check_row(w, &e.record, err);
    }
    return r;
}

static int check_noted(const struct walk *w, struct gb_err *err)
{
    return !w->noted || w->noted_seen
                   ? 0
                   : gb_db_bad(err, "the head that you noted is not in the chain: the records up to it were "
                                    "rewritten, or removed by retention since");
}

/* What the chain does not see: indexes that hide or invent records, pages that nobody reads. */
static int check_file(struct gb_audit *audit, struct gb_err *err)
{
    AUTO_FINALIZE stmt = NULL;
    if (sqlite3_prepare_v2(audit->db, "PRAGMA integrity_check(1)", -1, &stmt, NULL))
        return gb_db_fail(audit, err);
    int r = gb_db_step(audit, stmt, err);
    if (r < 0)
        return r;
    const char *text = r ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    return text && !strcmp(text, "ok") ? 0
                                       : gb_db_bad(err, "the chain is sound, but the file is damaged: %s",
                                                   text ? text : "SQLite could not check it");
}

static int verify(struct gb_audit *audit, struct walk *w, struct gb_err *err)
{
    int r = gb_db_point(audit, GB_SQL_HEAD, &w->head, err);
    if (!r)
        r = gb_db_point(audit, GB_SQL_BASE, &w->base, err);
    if (r)
        return r;
    w->seq = w->base.seq;
    memcpy(w->hash, w->base.hash, GB_HASH_BYTES);
    w->noted_seen = w->noted && w->base.seq && same(w->base.hash, w->noted);
    r = walk_rows(audit, w, err);
    /* When not even the first record follows, the place where the chain begins may be what was changed. */
    struct gb_err other = {0};
    if (r == -EBADMSG && w->seq == w->base.seq && check_base(audit, w, &other) == -EBADMSG) {
        if (err)
            *err = other;
        return r;
    }
    if (!r)
        r = check_end(w, err);
    if (!r)
        r = check_base(audit, w, err);
    if (!r)
        r = check_totals(w, err);
    if (!r)
        r = walk_journal(audit, w, err);
    if (!r)
        r = check_noted(w, err);
    return r ? r : check_file(audit, err);
}

int gb_audit_verify(struct gb_audit *audit, const uint8_t *noted, int64_t *ret_count,
                    uint8_t ret_head[GB_HASH_BYTES], struct gb_err *err)
{
    struct walk w = {.noted = noted};
    int r = audit->writable ? gb_db_do(audit, GB_SQL_SNAPSHOT, err) : gb_audit_look(audit, err);
    if (r)
        return r;
    r = verify(audit, &w, err);
    gb_audit_rollback(audit);
    if (r)
        return r;
    *ret_count = w.count;
    memcpy(ret_head, w.hash, GB_HASH_BYTES);
    return 0;
}
