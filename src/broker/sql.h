/* One statement on a database: what both engines share. sql.c reads the tool's specification and the
 * arguments, and gives the result its form; sql_sqlite.c and sql_postgres.c decide and run.
 *
 * Whatever the engine, the order is the same: the statement is understood by the engine's own grammar, held
 * against the tables, columns and functions that the policy lists, and only then run, by itself, in a
 * transaction that cannot write unless the policy lets it, within rows, bytes, memory and time. */
#pragma once

#include "broker/tool.h"

#define SQL_TEXT_BYTES   65536
#define SQL_MEMORY_BYTES ((int64_t)128 << 20)
#define SQL_VALUE_BYTES                                                                                      \
    ((int64_t)1 << 20)      /* one value may always be this large, if max_bytes allows less                  \
                             */
#define SQL_FLOAT_DIGITS 15 /* how many digits of a number survive a double */
#define SQL_REPEAT_LIMIT 10000
/* A row has columns that are not listed: who may not touch those may not make it go. */
#define SQL_ROWS_REASON "%s of %.63s is not allowed: it would remove columns that are not listed"
#define SQL_ROWS_HINT   "change the listed columns with UPDATE, or INSERT with ON CONFLICT ... DO UPDATE"
#define SQL_WORDS_HINT  "use the common scalar, text, date, JSON, aggregate and window functions"

struct sql {
    struct tool_call *call;
    const json_t *spec, *tables; /* tables: name to true or to an array of columns */
    const char *text;
    size_t len;
    bool fixed; /* the statement is the policy's, and arguments take the place of its :names */
    bool write; /* the policy lets it change rows */
    int64_t max_rows, max_bytes, deadline_us;
    /* the rows so far */
    json_t *columns, *rows; /* owned */
    size_t bytes, values;
    const char *cut_by; /* the limit that ended it early, or NULL */
    int64_t affected;   /* -1: the statement changes nothing */
};

/* --- what the policy lists --- */

/* The columns of a listed table: an array, or NULL if all. Returns false if the table is not listed.
 * `fold`: names are compared without regard to case, as SQLite does. */
bool sql_listed(const struct sql *s, const char *table, bool fold, const json_t **ret_columns);
bool sql_has_column(const json_t *columns, const char *name, bool fold); /* true if columns is NULL */
bool sql_lists_columns(const struct sql *s);                             /* of any table */

enum sql_engine { SQL_SQLITE = 1, SQL_POSTGRESQL = 2 };
#define SQL_FORMAT (-1)
/* May it be called? `ret_count` gets the position, from 1, of the argument that must be a small number
 * because the result grows with it; SQL_FORMAT if the first is a format, whose widths do the same; or 0. */
bool sql_function_allowed(const struct sql *s, enum sql_engine engine, const char *name, int *ret_count);
bool sql_function_added(const struct sql *s, const char *name); /* by the policy's `functions` */

/* --- answers --- */

/* Refused. Without a hint of its own it gets the tables and columns that may be used. */
void sql_deny(struct sql *s, const char *hint, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Tried, and the engine says no. */
void sql_fail(struct sql *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sql_fail_time(struct sql *s);
bool sql_answered(const struct sql *s); /* refused or failed */
int64_t sql_remaining_ms(const struct sql *s);

/* --- rows --- */

/* Whether a value of this many bytes still fits; if not, the result is cut here. */
bool sql_room(struct sql *s, size_t bytes);
json_t *sql_text(const char *text, size_t len); /* with U+FFFD for what is no UTF-8 */
json_t *sql_blob(const void *data, size_t len); /* {"base64": "..."} */
json_t *sql_number(const char *text);           /* as a number if none of it is lost, else as text */
/* Takes the row; NULL says that memory ran out. False: no more rows are wanted. */
bool sql_add_row(struct sql *s, json_t *row);

/* What the argument for a :name of a fixed statement is. False, and refused, if it is no plain value. */
bool sql_argument(struct sql *s, const char *name, const json_t **ret_value);

int sql_sqlite_run(struct sql *s, const char *path, struct gb_err *err);
int sql_postgres_run(struct sql *s, const char *conninfo, struct gb_err *err);
