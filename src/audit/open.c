/* Opening the database. The file may have been prepared by somebody else: SQLite's defences are on, its
 * tables must be exactly ours, and nothing is written before that is known. */
#include "audit/journal.h"

#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define APPLICATION 0x47427841 /* "GBxA", so that file(1) and we can tell */
#define VERSION     2
/* Moving the write-ahead log into the file waits for the disk, and meanwhile nothing is acknowledged: so it
 * is left to a quiet moment, unless the log becomes as long as the second. */
#define LOG_PAGES      1000
#define LOG_PAGES_MOST 4000

static const char records_table[] =
        "CREATE TABLE records(seq INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, kind INTEGER NOT NULL, "
        "id TEXT NOT NULL, principal TEXT NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL) STRICT";

static const char usage_table[] =
        "CREATE TABLE usage(day INTEGER NOT NULL, principal TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER "
        "NOT NULL, cpu_us INTEGER NOT NULL, PRIMARY KEY(day, principal, tool)) STRICT, WITHOUT ROWID";

static const char *const schema[] = {
        records_table,
        "CREATE INDEX records_id ON records(id)",
        "CREATE INDEX records_end ON records(principal) WHERE kind IN (4, 5)",
        "CREATE TABLE head(seq INTEGER NOT NULL, hash BLOB NOT NULL, count INTEGER NOT NULL) STRICT",
        "CREATE TABLE base(seq INTEGER NOT NULL, hash BLOB NOT NULL, removed INTEGER NOT NULL) STRICT",
        "CREATE TABLE pending(id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
        usage_table,
};

/* Later layouts only add to the end: how many of the rows above each of them has. */
static const size_t layout_rows[VERSION + 1] = {[1] = 6, [2] = ARRAY_LEN(schema)};

static const struct {
    int option, value;
} defences[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},  {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},         {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
};

static const struct {
    int what, most;
} ceilings[] = {
        {SQLITE_LIMIT_LENGTH, 1 << 20}, {SQLITE_LIMIT_SQL_LENGTH, 4096},   {SQLITE_LIMIT_COLUMN, 32},
        {SQLITE_LIMIT_ATTACHED, 0},     {SQLITE_LIMIT_TRIGGER_DEPTH, 1},   {SQLITE_LIMIT_WORKER_THREADS, 0},
        {SQLITE_LIMIT_EXPR_DEPTH, 64},  {SQLITE_LIMIT_COMPOUND_SELECT, 8},
};

static int run(struct gb_audit *a, const char *text, struct gb_err *err)
{
    return sqlite3_exec(a->db, text, NULL, NULL, NULL) ? gb_db_fail(a, err) : 0;
}

static int connect_to(struct gb_audit *a, const char *name, int flags, struct gb_err *err)
{
    if (sqlite3_open_v2(name, &a->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL))
        return gb_db_fail(a, err);
    sqlite3_extended_result_codes(a->db, 1);
    for (size_t i = 0; i < ARRAY_LEN(defences); i++)
        if (sqlite3_db_config(a->db, defences[i].option, defences[i].value, NULL))
            return gb_err_set(err, GB_ERR_AUDIT, 0,
                              "this SQLite lacks a defence (option %d); it must be 3.37 or newer",
                              defences[i].option);
    for (size_t i = 0; i < ARRAY_LEN(ceilings); i++)
        sqlite3_limit(a->db, ceilings[i].what, ceilings[i].most);
    sqlite3_busy_timeout(a->db, 5000); /* somebody who closes it may be moving the log into the file */
    return run(a, "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON", err);
}

/* Its layout, if it is ours; 0: empty, so that it may become ours. */
static int check_schema(struct gb_audit *a, struct gb_err *err)
{
    int64_t application, version, things;
    int r = gb_db_number(a, "PRAGMA application_id", &application, err);
    if (!r)
        r = gb_db_number(a, "PRAGMA user_version", &version, err);
    if (!r)
        r = gb_db_number(a, "SELECT count(*) FROM sqlite_schema", &things, err);
    if (r)
        return r;
    if (!application && !version && !things)
        return 0;
    if (application != APPLICATION)
        return gb_db_bad(err, "this database is not an audit of Glovebox");
    if (version < 1 || version > VERSION)
        return gb_db_bad(err, "the audit database has layout %lld; this Glovebox knows layouts 1 to %d",
                         (long long)version, VERSION);
    const size_t rows = layout_rows[version];
    AUTO_FINALIZE stmt = NULL;
    if (sqlite3_prepare_v2(
                a->db,
                "SELECT sql FROM sqlite_schema WHERE NOT (type = 'table' AND name GLOB 'sqlite_stat*') "
                "ORDER BY rowid",
                -1, &stmt, NULL))
        return gb_db_fail(a, err);
    size_t at = 0;
    while ((r = gb_db_step(a, stmt, err)) > 0) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (at >= rows || !text || strcmp(text, schema[at++]) != 0)
            break;
    }
    if (r < 0)
        return r;
    if (r || at != rows)
        return gb_db_bad(err, "the audit database was changed: its tables are not those that Glovebox made");
    return (int)version;
}

/* Makes what a layout (0: an empty file) lacks, in one transaction: who is killed in the middle leaves it as
 * it was. */
static int make_schema(struct gb_audit *a, int layout, struct gb_err *err)
{
    AUTO_BUF text = {.max = 4096};
    gb_buf_puts(&text, "BEGIN IMMEDIATE;");
    for (size_t i = layout_rows[layout]; i < ARRAY_LEN(schema); i++)
        gb_buf_printf(&text, "%s;", schema[i]);
    if (!layout)
        gb_buf_puts(&text, "INSERT INTO head VALUES(0, zeroblob(32), 0);"
                           "INSERT INTO base VALUES(0, zeroblob(32), 0);");
    gb_buf_printf(&text, "PRAGMA application_id = %d;PRAGMA user_version = %d;COMMIT", APPLICATION, VERSION);
    gb_buf_add(&text, "", 1);
    if (text.failed || gb_buf_truncated(&text))
        return gb_err_set(err, GB_ERR_AUDIT, ENOMEM, "making the audit database");
    int r = run(a, text.data, err);
    if (r)
        gb_audit_rollback(a);
    return r;
}

/* A tail that was cut off or put on would be hidden by what we append. */
static int check_end(struct gb_audit *a, struct gb_err *err)
{
    struct gb_audit_record last;
    int r = gb_db_point(a, GB_SQL_HEAD, &a->head, err);
    if (r)
        return r;
    AUTO_RESET stmt = gb_db_get(a, GB_SQL_LAST);
    r = stmt ? gb_db_step(a, stmt, err) : gb_db_fail(a, err);
    if (r < 0)
        return r;
    const bool same = r ? !gb_db_row(stmt, &last) && last.seq == a->head.seq &&
                                      !memcmp(last.hash, a->head.hash, GB_HASH_BYTES)
                        : a->head.seq == 0;
    if (!same) {
        r = gb_db_bad(
                err,
                "the audit database was changed: its newest record is not the one that was written last");
        gb_err_hint(err, "`glovebox audit verify` tells more; move the file away to begin a new chain");
        return r;
    }
    return 0;
}

static void move_log(struct gb_audit *a)
{
    a->log_pages = 0;
    /* What fails now is done the next time. */
    (void)sqlite3_wal_checkpoint_v2(a->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static int committed(void *context, sqlite3 *db, const char *name, int pages)
{
    struct gb_audit *a = context;
    (void)db;
    (void)name;
    a->log_pages = pages;
    if (pages >= LOG_PAGES_MOST)
        move_log(a);
    return SQLITE_OK;
}

bool gb_audit_wants_tidying(const struct gb_audit *audit)
{
    return audit->log_pages >= LOG_PAGES;
}

void gb_audit_tidy(struct gb_audit *audit)
{
    if (gb_audit_wants_tidying(audit))
        move_log(audit);
}

static int settle_writer(struct gb_audit *a, bool sync_full, struct gb_err *err)
{
    int r = check_schema(a, err);
    if (r < 0)
        return r;
    /* The vacuum mode can only be chosen before the first table. */
    if (!r && (r = run(a, "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL", err)))
        return r;
    AUTO_FINALIZE stmt = NULL;
    if (sqlite3_prepare_v2(a->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL))
        return gb_db_fail(a, err);
    if ((r = gb_db_step(a, stmt, err)) < 0)
        return r;
    const char *mode = r ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (!mode || strcmp(mode, "wal") != 0)
        return gb_err_set(err, GB_ERR_AUDIT, EIO, "the audit database cannot have a write-ahead log here");
    sqlite3_finalize(TAKE_PTR(stmt));
    r = run(a, sync_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    sqlite3_wal_hook(a->db, committed, a);
    /* What retention removes shall be gone from the file. */
    if (!r)
        r = run(a, "PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 16777216", err);
    if (!r)
        r = check_schema(a, err);
    if (r < 0)
        return r;
    if (r != VERSION && (r = make_schema(a, r, err)))
        return r;
    return check_end(a, err);
}

static int settle_reader(struct gb_audit *a, struct gb_err *err)
{
    int r = run(a, "PRAGMA query_only = ON", err);
    if (!r)
        r = check_schema(a, err);
    if (!r)
        return gb_db_bad(err, "the audit database is empty: no record was ever written to it");
    return r < 0 ? r : 0;
}

static int open_writer(struct gb_audit *a, const char *path, bool sync_full, struct gb_err *err)
{
    int r = connect_to(a, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
    return r ? r : settle_writer(a, sync_full, err);
}

/* The file as it lies there, without lock or log: for a copy on a medium that cannot be written to. */
static int open_copy(struct gb_audit *a, const char *path, struct gb_err *err)
{
    AUTO_BUF uri = {.max = 16384};
    gb_buf_puts(&uri, "file:");
    for (const char *p = path; *p; p++)
        gb_buf_printf(&uri, strchr("%?#", *p) ? "%%%02x" : "%c", (unsigned char)*p);
    gb_buf_add(&uri, "?immutable=1", sizeof("?immutable=1"));
    int r = uri.failed || gb_buf_truncated(&uri)
                    ? gb_err_set(err, GB_ERR_AUDIT, ENOMEM, "opening the audit database")
                    : connect_to(a, uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err);
    return r ? r : settle_reader(a, err);
}

static bool has_log(const char *path)
{
    struct stat st;
    char log[PATH_MAX + 8];
    snprintf(log, sizeof(log), "%s-wal", path);
    return !lstat(log, &st) && st.st_size > 0;
}

/* Read-write where we may: only so can the log of a writer that was killed be read, and is nothing left
 * behind. */
static int open_reader(struct gb_audit *a, const char *path, struct gb_err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return gb_err_set(err, GB_ERR_AUDIT, errno, "there is no audit database %s", path);
    if (!S_ISREG(st.st_mode))
        return gb_db_bad(err, "%s is not a regular file", path);
    int r = connect_to(a, path, SQLITE_OPEN_READWRITE, err);
    if (!r)
        r = settle_reader(a, err);
    if (r && r != -EBADMSG && a->db && sqlite3_db_readonly(a->db, "main") == 1 && !has_log(path)) {
        sqlite3_close_v2(TAKE_PTR(a->db));
        return open_copy(a, path, err);
    }
    return r;
}

/* What a writer that was killed has left in it, the next one settles. */
static int open_journal(struct gb_audit *a, const char *dir, struct gb_err *err)
{
    int r = gb_journal_open(dir, a->writable, &a->journal, err);
    if (r || !a->writable)
        return r;
    if ((r = gb_journal_read(&a->journal, err)))
        return r;
    gb_journal_follow(&a->journal, &a->head);
    return 0;
}

int gb_audit_open(const char *dir, bool writable, bool sync_full, struct gb_audit **ret_audit,
                  struct gb_err *err)
{
    /* SQLite refuses every link on the way, so that audit.db can be none; those of the directory are for us
     * to follow. */
    AUTO_FREE char *real = realpath(dir, NULL);
    if (!real)
        return gb_err_set(err, GB_ERR_AUDIT, errno, "the audit's directory %s", dir);
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/" GB_AUDIT_FILE, strcmp(real, "/") ? real : "") >= (int)sizeof(path))
        return gb_err_set(err, GB_ERR_AUDIT, ENAMETOOLONG, "the audit's directory %s", dir);
    struct gb_audit *a = calloc(1, sizeof(*a));
    if (!a)
        return gb_err_set(err, GB_ERR_AUDIT, ENOMEM, "opening the audit database");
    a->journal.fd = a->journal.dir_fd = -1;
    a->writable = writable;
    int r = writable ? open_writer(a, path, sync_full, err) : open_reader(a, path, err);
    if (!r)
        r = open_journal(a, real, err);
    if (r) {
        gb_audit_close(a);
        return r;
    }
    *ret_audit = a;
    return 0;
}

void gb_audit_close(struct gb_audit *audit)
{
    if (!audit)
        return;
    if (audit->writable && audit->db)
        (void)gb_audit_settle(audit, SIZE_MAX, NULL); /* what fails stays in the journal, for the next */
    gb_journal_close(&audit->journal);
    for (size_t i = 0; i < ARRAY_LEN(audit->stmt); i++)
        sqlite3_finalize(audit->stmt[i]);
    sqlite3_close_v2(audit->db);
    free(audit);
}
