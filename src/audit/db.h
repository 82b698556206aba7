/* The SQLite file beneath the audit: opening it without trusting it, statements that stay prepared, rows,
 * errors. For src/audit only. */
#pragma once

#include "audit/audit.h"

#include <errno.h>
#include <sqlite3.h>

enum gb_sql {
    GB_SQL_BEGIN,
    GB_SQL_SNAPSHOT,
    GB_SQL_COMMIT,
    GB_SQL_ROLLBACK,
    GB_SQL_HEAD,
    GB_SQL_SET_HEAD,
    GB_SQL_BASE,
    GB_SQL_SET_BASE,
    GB_SQL_LAST,
    GB_SQL_INSERT,
    GB_SQL_PEND,
    GB_SQL_SETTLE,
    GB_SQL_PENDING,
    GB_SQL_OLDEST,
    GB_SQL_WORTH,
    GB_SQL_REMOVE,
    GB_SQL_UP_TO,
    GB_SQL_FROM,
    GB_SQL_LAST_RETENTION,
    GB_SQL_CHARGE,
    GB_SQL_USAGE,
    GB_SQL_FORGET_USAGE,
    GB_SQL_OWNER,
    GB_SQL_COUNT
};

/* Where a chain ends (head: count is the number of records in the table) or begins (base: count is the number
 * of records that the last retention removed). */
struct gb_chain_point {
    int64_t seq, count;
    uint8_t hash[GB_HASH_BYTES];
};

/* journal.h has what is done with it. */
struct gb_journal {
    int fd, dir_fd;            /* -1: none; fd: of a writer */
    char *data;                /* as in the file */
    size_t settled, kept, len; /* bytes from the start that are in the tables; in the file; in memory only */
    struct gb_chain_point end; /* of the chain, with everything in memory. The count is not kept */
    struct gb_chain_point kept_end;
    bool known; /* what is in it: until then it is not removed */
};

struct gb_audit {
    sqlite3 *db;
    sqlite3_stmt *stmt[GB_SQL_COUNT];
    struct gb_chain_point head; /* within a transaction */
    struct gb_journal journal;
    bool writable;
    int log_pages; /* of the write-ahead log, after the last commit of a writer */
};

/* The statement, ready to be bound; NULL: see gb_db_fail. Given back by leaving the scope of its AUTO_RESET.
 */
sqlite3_stmt *gb_db_get(struct gb_audit *audit, enum gb_sql which);
/* 1: a row; 0: no more; or negative. */
int gb_db_step(struct gb_audit *audit, sqlite3_stmt *stmt, struct gb_err *err);
/* Runs a statement that gives no row; negative on failure. */
int gb_db_do(struct gb_audit *audit, enum gb_sql which, struct gb_err *err);
/* Reads the one row of head or base. */
int gb_db_point(struct gb_audit *audit, enum gb_sql which, struct gb_chain_point *ret_point,
                struct gb_err *err);
int gb_db_set_point(struct gb_audit *audit, enum gb_sql which, const struct gb_chain_point *point,
                    struct gb_err *err);
/* The one number that a statement without parameters gives. */
int gb_db_number(struct gb_audit *audit, const char *sql, int64_t *ret_value, struct gb_err *err);
/* A reader begins to read: the tables as they are at this moment, and the journal with what they lack. To be
 * ended by gb_audit_rollback. For a writer, which knows, nothing. */
int gb_audit_look(struct gb_audit *audit, struct gb_err *err);
/* Fills err from what SQLite says and returns the negative errno of it. */
int gb_db_fail(struct gb_audit *audit, struct gb_err *err);
/* The same, for what SQLite does not notice: the file is not as we left it. */
#define gb_db_bad(err, ...) (gb_err_set((err), GB_ERR_AUDIT, 0, __VA_ARGS__), -EBADMSG)

#define GB_DB_COLUMNS "seq, time_us, kind, id, principal, body, hash"
/* Reads a row of these columns; its texts live until the next step. Returns NULL, or what no record of ours
 * can have. */
const char *gb_db_row(sqlite3_stmt *stmt, struct gb_audit_record *ret_record);

static inline void gb_auto_reset(sqlite3_stmt **stmt)
{
    sqlite3_reset(*stmt);
    if (*stmt)
        sqlite3_clear_bindings(*stmt);
}
#define AUTO_RESET __attribute__((cleanup(gb_auto_reset))) sqlite3_stmt *

static inline void gb_auto_finalize(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
}
#define AUTO_FINALIZE __attribute__((cleanup(gb_auto_finalize))) sqlite3_stmt *
