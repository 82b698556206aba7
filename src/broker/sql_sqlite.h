/* SQLite: the parts of sql_sqlite.c.
 *
 * The authorizer is asked about every table, column and function, but cannot be told apart by it: what a view
 * reads, and what a WITH clause of the same name as a view reads. So a statement is compiled twice. First in
 * a mirror: an empty database in memory that has nothing but the listed tables, with views as plain tables,
 * and in which every name has to resolve. Then in the real database, whose authorizer allows besides what
 * views and triggers do inside. In both, names mean the same. */
#pragma once

#include "broker/sql.h"

#include <sqlite3.h>

/* What a statement is held against, as it is compiled. */
enum sql_stage {
    SQL_MIRROR, /* nothing is trusted */
    SQL_REAL,   /* inside of views and triggers, the schema is */
};

struct sql_guard {
    const struct sql *s;
    enum sql_stage stage;
    bool may_write;
    bool whole;       /* mirror with columns that are not listed: they may not be read */
    bool wants_write; /* out: it would change rows */
    char why[256];    /* out: what was refused */
    const char *hint; /* out: what to do instead, or NULL */
};

void sql_guard_set(sqlite3 *db, struct sql_guard *g);

/* What a mirror has. */
enum sql_mirror {
    SQL_MIRROR_READ,   /* listed columns; tables of which only some are listed have no schema name */
    SQL_MIRROR_TARGET, /* listed columns: what may be set */
    SQL_MIRROR_WHOLE,  /* all columns, so that names resolve as in the real database */
};

/* In SQL_MIRROR_WHOLE, tables of which only some columns are listed have a trigger for rows that go, whose
 * name begins with this: the guard hears of it when OR REPLACE is compiled, which it is told nothing of. */
#define SQL_MIRROR_KEEPER "glovebox_keep_"

int sql_mirror_open(struct sql *s, sqlite3 *db, enum sql_mirror what, sqlite3 **ret, struct gb_err *err);
/* In the real database, before the guard: narrows each table of which only some columns are listed to a view
 * of those, which hides the table; and uses each table once. */
int sql_mirror_narrow(struct sql *s, sqlite3 *db, struct gb_err *err);

/* Puts a bound to what functions do in one step, during which nothing looks at the clock. */
int sql_bounded_set(sqlite3 *db, struct gb_err *err);

/* Settings and limits that every connection gets before anything else. */
int sql_sqlite_settle(struct sql *s, sqlite3 *db, struct gb_err *err);

static inline void sql_auto_db(sqlite3 **db)
{
    sqlite3_close_v2(*db);
}
static inline void sql_auto_stmt(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
}
#define AUTO_DB   __attribute__((cleanup(sql_auto_db))) sqlite3 *
#define AUTO_STMT __attribute__((cleanup(sql_auto_stmt))) sqlite3_stmt *
