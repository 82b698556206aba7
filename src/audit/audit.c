#include "audit/audit.h"

#include "audit/chain.h"
#include "audit/journal.h"
#include "audit/stage.h"
#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define LOST_BODY                                                                                            \
    "{\"status\":\"internal_error\",\"reason\":\"the service ended before the outcome was known\"}"

static int64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void gb_audit_rollback(struct gb_audit *audit)
{
    /* SQLite may have done it by itself, on a full disk for one. */
    if (!sqlite3_get_autocommit(audit->db))
        gb_db_do(audit, GB_SQL_ROLLBACK, NULL);
}

static int undone(struct gb_audit *audit, int r)
{
    if (r)
        gb_audit_rollback(audit);
    return r;
}

int gb_stage_begin(struct gb_audit *audit, struct gb_err *err)
{
    int r = gb_db_do(audit, GB_SQL_BEGIN, err);
    if (!r)
        r = gb_db_point(audit, GB_SQL_HEAD, &audit->head, err);
    return undone(audit, r);
}

int gb_audit_begin(struct gb_audit *audit, struct gb_err *err)
{
    int r = gb_audit_settle(audit, SIZE_MAX, err);
    return r ? r : gb_stage_begin(audit, err);
}

int gb_audit_commit(struct gb_audit *audit, struct gb_err *err)
{
    if (sqlite3_get_autocommit(audit->db))
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "there is nothing to commit: no transaction was begun");
    int r = gb_db_set_point(audit, GB_SQL_SET_HEAD, &audit->head, err);
    if (!r)
        r = gb_db_do(audit, GB_SQL_COMMIT, err);
    if (!r && audit->journal.settled == audit->journal.len)
        audit->journal.end = audit->journal.kept_end = audit->head;
    return undone(audit, r);
}

static const char *find_fault(const struct gb_audit_record *r)
{
    if (!r->kind || r->kind >= GB_RECORD_KINDS)
        return "its kind is none";
    if (strlen(r->id) >= GB_ID_BYTES || gb_text_find_binary(r->id, strlen(r->id)) != strlen(r->id))
        return "its id is too long or not UTF-8";
    if (strlen(r->principal) >= GB_PRINCIPAL ||
        gb_text_find_binary(r->principal, strlen(r->principal)) != strlen(r->principal))
        return "its principal is too long or not UTF-8";
    if (r->body_bytes > GB_AUDIT_BODY || gb_text_find_binary(r->body, r->body_bytes) != r->body_bytes)
        return "its body is longer than 64 KiB, not UTF-8, or holds a NUL";
    return NULL;
}

int gb_stage_complete(const struct gb_chain_point *end, struct gb_audit_record *r, struct gb_err *err)
{
    const char *fault = find_fault(r);
    if (fault)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "a record cannot be taken: %s", fault);
    r->seq = end->seq + 1;
    if (!r->time_us)
        r->time_us = wall_us();
    gb_chain_hash(end->hash, r, r->hash);
    return 0;
}

int gb_stage_insert(struct gb_audit *audit, const struct gb_audit_record *r, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_INSERT);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, r->seq);
    sqlite3_bind_int64(stmt, 2, r->time_us);
    sqlite3_bind_int64(stmt, 3, r->kind);
    sqlite3_bind_text(stmt, 4, r->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 5, r->principal, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 6, r->body, (int)r->body_bytes, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 7, r->hash, GB_HASH_BYTES, SQLITE_STATIC);
    const int rc = gb_db_step(audit, stmt, err);
    if (rc)
        return rc;
    audit->head.seq = r->seq;
    audit->head.count++;
    memcpy(audit->head.hash, r->hash, GB_HASH_BYTES);
    return 0;
}

/* Calls that wait for their outcome are in a table of their own, or a start after a kill would have to read
 * all records to find them. */
int gb_stage_pend(struct gb_audit *audit, const char *id, bool pends, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, pends ? GB_SQL_PEND : GB_SQL_SETTLE);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_text(stmt, 1, id, -1, SQLITE_STATIC);
    return gb_db_step(audit, stmt, err);
}

int gb_audit_append(struct gb_audit *audit, const struct gb_audit_record *record, int64_t *ret_seq,
                    struct gb_err *err)
{
    struct gb_audit_record r = *record;
    if (sqlite3_get_autocommit(audit->db))
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "a record can only be appended within a transaction");
    int rc = gb_stage_complete(&audit->head, &r, err);
    if (!rc)
        rc = gb_stage_insert(audit, &r, err);
    if (!rc && (gb_stage_opens(r.kind) || gb_stage_ends(r.kind)))
        rc = gb_stage_pend(audit, r.id, gb_stage_opens(r.kind), err);
    if (rc)
        return undone(audit, rc);
    if (ret_seq)
        *ret_seq = r.seq;
    return 0;
}

/* One call that waits; 0: there is none. */
static int next_pending(struct gb_audit *audit, char ret_id[GB_ID_BYTES], char ret_principal[GB_PRINCIPAL],
                        struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_PENDING);
    int r = stmt ? gb_db_step(audit, stmt, err) : gb_db_fail(audit, err);
    if (r <= 0)
        return r;
    const char *id = (const char *)sqlite3_column_text(stmt, 0);
    const char *principal = (const char *)sqlite3_column_text(stmt, 1);
    if (!id || !principal || strlen(id) >= GB_ID_BYTES || strlen(principal) >= GB_PRINCIPAL)
        return gb_db_bad(err,
                         "the audit database was changed: the table 'pending' holds what no call is named");
    snprintf(ret_id, GB_ID_BYTES, "%s", id);
    snprintf(ret_principal, GB_PRINCIPAL, "%s", principal);
    return 1;
}

int gb_audit_close_open(struct gb_audit *audit, int64_t *ret_count, struct gb_err *err)
{
    char id[GB_ID_BYTES], principal[GB_PRINCIPAL];
    int64_t count = 0;
    int r;
    while ((r = next_pending(audit, id, principal, err)) > 0) {
        const struct gb_audit_record lost = {.kind = GB_RECORD_LOST,
                                             .id = id,
                                             .principal = principal,
                                             .body = LOST_BODY,
                                             .body_bytes = sizeof(LOST_BODY) - 1};
        if ((r = gb_audit_append(audit, &lost, NULL, err)))
            return r;
        count++;
    }
    if (!r && ret_count)
        *ret_count = count;
    return undone(audit, r);
}

/* Only what is asked for is in the statement, so that SQLite sees which index serves. */
static void write_query(const struct gb_audit_filter *f, char *text, size_t size)
{
    const char *whose = !f->principal ? ""
                        : f->id ? " AND EXISTS (SELECT 1 FROM records o WHERE o.id = ?1 AND o.principal = ?2)"
                                : " AND principal = ?2";
    snprintf(text, size, "SELECT " GB_DB_COLUMNS " FROM records WHERE 1%s%s%s%s%s%s ORDER BY seq%s%s",
             f->id ? " AND id = ?1" : "", whose, f->ends ? " AND kind IN (4, 5)" : "",
             f->after ? " AND seq > ?3" : "", f->before ? " AND seq < ?4" : "",
             f->since_us ? " AND time_us >= ?5" : "", f->newest ? " DESC" : "", f->most ? " LIMIT ?6" : "");
}

/* Records of the tables. */
static int each_settled(struct gb_audit *audit, const struct gb_audit_filter *filter,
                        int (*each)(void *context, const struct gb_audit_record *record), void *context,
                        int64_t *count, struct gb_err *err)
{
    char text[512];
    AUTO_FINALIZE stmt = NULL;
    write_query(filter, text, sizeof(text));
    if (sqlite3_prepare_v2(audit->db, text, -1, &stmt, NULL))
        return gb_db_fail(audit, err);
    /* A parameter that the statement does not have is refused, and that is fine. */
    sqlite3_bind_text(stmt, 1, filter->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, filter->principal, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, filter->after);
    sqlite3_bind_int64(stmt, 4, filter->before);
    sqlite3_bind_int64(stmt, 5, filter->since_us);
    sqlite3_bind_int64(stmt, 6, filter->most - *count);
    int r;
    while ((r = gb_db_step(audit, stmt, err)) > 0) {
        struct gb_audit_record record;
        const char *fault = gb_db_row(stmt, &record);
        if (fault)
            return gb_db_bad(err, "the audit database was changed: record %lld: %s", (long long)record.seq,
                             fault);
        if ((r = each(context, &record)))
            return r;
        ++*count;
    }
    return r;
}

/* Is the call this principal's? Its intent, which says so, can be in the tables already. */
static int is_owner(struct gb_audit *audit, const struct gb_audit_filter *f, struct gb_err *err)
{
    const struct gb_journal *j = &audit->journal;
    struct gb_journal_entry e;
    for (size_t at = j->settled; at < j->kept; at += e.bytes) {
        gb_journal_at(j, at, &e);
        if (!strcmp(e.record.id, f->id) && !strcmp(e.record.principal, f->principal))
            return 1;
    }
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_OWNER);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_text(stmt, 1, f->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, f->principal, -1, SQLITE_STATIC);
    return gb_db_step(audit, stmt, err);
}

static bool is_wanted(const struct gb_audit_record *r, const struct gb_audit_filter *f)
{
    return (!f->id || !strcmp(r->id, f->id)) &&
           (f->id || !f->principal || !strcmp(r->principal, f->principal)) &&
           (!f->ends || gb_stage_ends(r->kind)) && (!f->after || r->seq > f->after) &&
           (!f->before || r->seq < f->before) && (!f->since_us || r->time_us >= f->since_us);
}

/* Records of the journal. */
static int each_kept(struct gb_audit *audit, const struct gb_audit_filter *filter,
                     int (*each)(void *context, const struct gb_audit_record *record), void *context,
                     int64_t *count, struct gb_err *err)
{
    const struct gb_journal *j = &audit->journal;
    struct gb_journal_entry e;
    size_t found = 0;
    if (!gb_audit_unsettled(audit))
        return 0;
    int r = filter->id && filter->principal ? is_owner(audit, filter, err) : 1;
    if (r <= 0)
        return r;
    AUTO_FREE size_t *places = calloc(j->kept / GB_JOURNAL_LEAST + 1, sizeof(*places));
    if (!places)
        return gb_err_set(err, GB_ERR_AUDIT, ENOMEM, "read the audit's journal");
    for (size_t at = j->settled; at < j->kept; at += e.bytes) {
        gb_journal_at(j, at, &e);
        if (is_wanted(&e.record, filter))
            places[found++] = at;
    }
    r = 0;
    for (size_t i = 0; !r && i < found && (!filter->most || *count < filter->most); i++, ++*count) {
        gb_journal_at(j, places[filter->newest ? found - 1 - i : i], &e);
        r = each(context, &e.record);
    }
    return r;
}

int gb_audit_look(struct gb_audit *audit, struct gb_err *err)
{
    if (audit->writable)
        return 0;
    int r = gb_journal_read(&audit->journal, err);
    if (!r)
        r = gb_db_do(audit, GB_SQL_SNAPSHOT, err);
    if (r || !audit->journal.len)
        return r;
    if ((r = gb_db_point(audit, GB_SQL_HEAD, &audit->head, err)))
        gb_audit_rollback(audit);
    else
        gb_journal_follow(&audit->journal, &audit->head);
    return r;
}

int gb_audit_each(struct gb_audit *audit, const struct gb_audit_filter *filter,
                  int (*each)(void *context, const struct gb_audit_record *record), void *context,
                  struct gb_err *err)
{
    typedef int part(struct gb_audit *, const struct gb_audit_filter *,
                     int (*)(void *, const struct gb_audit_record *), void *, int64_t *, struct gb_err *);
    part *const parts[2] = {filter->newest ? each_kept : each_settled,
                            filter->newest ? each_settled : each_kept};
    int64_t count = 0;
    int r = gb_audit_look(audit, err);
    if (r)
        return r;
    for (size_t i = 0; !r && i < 2 && (!filter->most || count < filter->most); i++)
        r = parts[i](audit, filter, each, context, &count, err);
    if (!audit->writable)
        gb_audit_rollback(audit);
    return r;
}
