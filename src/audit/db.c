#include "audit/db.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

/* A record that retention must leave although it is old: its call is under way, or has records behind the
 * cut. */
#define SPANS                                                                                                \
    "(r.id <> '' AND (EXISTS (SELECT 1 FROM pending p WHERE p.id = r.id)"                                    \
    " OR EXISTS (SELECT 1 FROM records l WHERE l.id = r.id AND l.seq > ?1)))"

static const char *const sql[GB_SQL_COUNT] = {
        [GB_SQL_BEGIN] = "BEGIN IMMEDIATE",
        [GB_SQL_SNAPSHOT] = "BEGIN",
        [GB_SQL_COMMIT] = "COMMIT",
        [GB_SQL_ROLLBACK] = "ROLLBACK",
        [GB_SQL_HEAD] = "SELECT seq, hash, count FROM head",
        [GB_SQL_SET_HEAD] = "UPDATE head SET seq = ?1, hash = ?2, count = ?3",
        [GB_SQL_BASE] = "SELECT seq, hash, removed FROM base",
        [GB_SQL_SET_BASE] = "UPDATE base SET seq = ?1, hash = ?2, removed = ?3",
        [GB_SQL_LAST] = "SELECT " GB_DB_COLUMNS " FROM records ORDER BY seq DESC LIMIT 1",
        [GB_SQL_INSERT] = "INSERT INTO records(" GB_DB_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [GB_SQL_PEND] = "INSERT OR IGNORE INTO pending(id) VALUES(?1)",
        [GB_SQL_SETTLE] = "DELETE FROM pending WHERE id = ?1",
        [GB_SQL_PENDING] =
                "SELECT p.id, ifnull((SELECT r.principal FROM records r WHERE r.id = p.id AND r.kind = 2 "
                "LIMIT 1), '') FROM pending p LIMIT 1",
        [GB_SQL_OLDEST] = "SELECT " GB_DB_COLUMNS " FROM records WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        [GB_SQL_WORTH] = "SELECT count(*) FROM records r WHERE r.seq <= ?1 AND r.kind <> 6 AND NOT " SPANS,
        [GB_SQL_REMOVE] = "DELETE FROM records AS r WHERE r.seq <= ?1 AND NOT " SPANS,
        [GB_SQL_UP_TO] = "SELECT " GB_DB_COLUMNS " FROM records WHERE seq <= ?1 ORDER BY seq",
        [GB_SQL_FROM] = "SELECT " GB_DB_COLUMNS " FROM records WHERE seq > ?1 ORDER BY seq",
        [GB_SQL_LAST_RETENTION] =
                "SELECT " GB_DB_COLUMNS " FROM records WHERE kind = 6 ORDER BY seq DESC LIMIT 1",
        /* A sum that stops growing before it overflows: STRICT would take what overflows for damage. */
        [GB_SQL_CHARGE] = "INSERT INTO usage(day, principal, tool, calls, cpu_us) VALUES(?1, ?2, ?3, ?4, ?5) "
                          "ON CONFLICT(day, principal, tool) DO UPDATE SET calls = calls + excluded.calls, "
                          "cpu_us = min(cpu_us + excluded.cpu_us, 1000000000000000000)",
        [GB_SQL_USAGE] = "SELECT day, principal, tool, calls, cpu_us FROM usage WHERE day = ?1 AND "
                         "(principal, tool) > (?2, ?3) ORDER BY principal, tool LIMIT ?4",
        [GB_SQL_FORGET_USAGE] = "DELETE FROM usage WHERE day < ?1",
        [GB_SQL_OWNER] = "SELECT 1 FROM records WHERE id = ?1 AND principal = ?2 LIMIT 1",
};

_Static_assert(GB_RECORD_INTENT == 2 && GB_RECORD_OUTCOME == 4 && GB_RECORD_LOST == 5 &&
                       GB_RECORD_RETENTION == 6,
               "these numbers are written in SQL and in files");

/* --- errors --- */

static const struct {
    int code, errnum;
} errnums[] = {
        {SQLITE_FULL, ENOSPC},     {SQLITE_IOERR, EIO},    {SQLITE_BUSY, EBUSY},
        {SQLITE_LOCKED, EBUSY},    {SQLITE_NOMEM, ENOMEM}, {SQLITE_READONLY, EROFS},
        {SQLITE_CANTOPEN, EACCES}, {SQLITE_PERM, EACCES},  {SQLITE_INTERRUPT, EINTR},
        {SQLITE_TOOBIG, E2BIG},
};

int gb_db_fail(struct gb_audit *audit, struct gb_err *err)
{
    const int code = audit->db ? sqlite3_extended_errcode(audit->db) : SQLITE_NOMEM;
    const int os = audit->db ? sqlite3_system_errno(audit->db) : 0;
    int errnum = EBADMSG;
    for (size_t i = 0; i < ARRAY_LEN(errnums); i++)
        if ((code & 0xff) == errnums[i].code)
            errnum = errnums[i].errnum;
    /* The operating system knows better why a file could not be opened, grown or mapped. */
    if ((errnum == EIO || errnum == EACCES) && (os == ENOSPC || os == EDQUOT || os == ENOENT || os == EROFS))
        errnum = os == EDQUOT ? ENOSPC : os;
    gb_err_set(err, GB_ERR_AUDIT, 0, "the audit database %s: %s (SQLite error %d)",
               errnum == EBADMSG ? "is damaged or was changed" : "cannot be used",
               audit->db ? sqlite3_errmsg(audit->db) : sqlite3_errstr(code), code);
    if (err)
        err->errnum = errnum;
    return -errnum;
}

/* --- statements --- */

sqlite3_stmt *gb_db_get(struct gb_audit *audit, enum gb_sql which)
{
    sqlite3_stmt **stmt = &audit->stmt[which];
    if (!*stmt)
        sqlite3_prepare_v3(audit->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
    return *stmt;
}

int gb_db_step(struct gb_audit *audit, sqlite3_stmt *stmt, struct gb_err *err)
{
    const int code = sqlite3_step(stmt);
    return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : gb_db_fail(audit, err);
}

int gb_db_do(struct gb_audit *audit, enum gb_sql which, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, which);
    return stmt ? gb_db_step(audit, stmt, err) : gb_db_fail(audit, err);
}

int gb_db_number(struct gb_audit *audit, const char *text, int64_t *ret_value, struct gb_err *err)
{
    AUTO_FINALIZE stmt = NULL;
    if (sqlite3_prepare_v2(audit->db, text, -1, &stmt, NULL))
        return gb_db_fail(audit, err);
    const int r = gb_db_step(audit, stmt, err);
    if (r < 0)
        return r;
    *ret_value = r ? sqlite3_column_int64(stmt, 0) : 0;
    return 0;
}

/* --- rows --- */

static bool read_hash(sqlite3_stmt *stmt, int column, uint8_t ret_hash[GB_HASH_BYTES])
{
    const void *blob = sqlite3_column_blob(stmt, column);
    if (!blob || sqlite3_column_bytes(stmt, column) != GB_HASH_BYTES)
        return false;
    memcpy(ret_hash, blob, GB_HASH_BYTES);
    return true;
}

int gb_db_point(struct gb_audit *audit, enum gb_sql which, struct gb_chain_point *ret_point,
                struct gb_err *err)
{
    const char *name = which == GB_SQL_HEAD ? "head" : "base";
    AUTO_RESET stmt = gb_db_get(audit, which);
    if (!stmt)
        return gb_db_fail(audit, err);
    int r = gb_db_step(audit, stmt, err);
    if (r < 0)
        return r;
    if (!r || !read_hash(stmt, 1, ret_point->hash))
        return gb_db_bad(err, "the audit database was changed: the table '%s' does not hold its one row",
                         name);
    ret_point->seq = sqlite3_column_int64(stmt, 0);
    ret_point->count = sqlite3_column_int64(stmt, 2);
    r = gb_db_step(audit, stmt, err);
    if (r > 0)
        return gb_db_bad(err, "the audit database was changed: the table '%s' has more than one row", name);
    return r;
}

int gb_db_set_point(struct gb_audit *audit, enum gb_sql which, const struct gb_chain_point *point,
                    struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, which);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, point->seq);
    sqlite3_bind_blob(stmt, 2, point->hash, GB_HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, point->count);
    return gb_db_step(audit, stmt, err);
}

/* What a C string would hide (a NUL and what is behind it) must not escape the hash. */
static const char *read_text(sqlite3_stmt *stmt, int column, size_t *ret_bytes)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    *ret_bytes = (size_t)sqlite3_column_bytes(stmt, column);
    return text && strlen(text) == *ret_bytes ? text : NULL;
}

const char *gb_db_row(sqlite3_stmt *stmt, struct gb_audit_record *ret_record)
{
    struct gb_audit_record *r = ret_record;
    size_t bytes;
    const int64_t kind = sqlite3_column_int64(stmt, 2);
    r->seq = sqlite3_column_int64(stmt, 0);
    r->time_us = sqlite3_column_int64(stmt, 1);
    if (kind <= 0 || kind >= GB_RECORD_KINDS)
        return "its kind is none";
    r->kind = (uint32_t)kind;
    if (!(r->id = read_text(stmt, 3, &bytes)))
        return "its id is not text";
    if (!(r->principal = read_text(stmt, 4, &bytes)))
        return "its principal is not text";
    if (!(r->body = read_text(stmt, 5, &r->body_bytes)))
        return "its body is not text";
    return read_hash(stmt, 6, r->hash) ? NULL : "its hash has not 32 bytes";
}
