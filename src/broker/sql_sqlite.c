/* SQLite: opens the file, has the statement checked, and runs it. */
#include "broker/sql_sqlite.h"

#include "base/auto.h"
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SQL_COMPILE_BYTES ((int64_t)16 << 20)
#define STEPS_PER_LOOK    100 /* virtual machine steps between two looks at the clock */

static const struct {
    int option, value;
} switches[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
        /* "x" is always a name: whether it is one must not depend on which columns there are. */
        {SQLITE_DBCONFIG_DQS_DML, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
};

static const struct {
    int id, value;
} limits[] = {
        {SQLITE_LIMIT_SQL_LENGTH, 1 << 20}, /* of the tables in a mirror; statements are bounded before */
        {SQLITE_LIMIT_EXPR_DEPTH, 200},      {SQLITE_LIMIT_COMPOUND_SELECT, 50},
        {SQLITE_LIMIT_VDBE_OP, 1000000},     {SQLITE_LIMIT_FUNCTION_ARG, 100},
        {SQLITE_LIMIT_ATTACHED, 0},          {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 256}, {SQLITE_LIMIT_TRIGGER_DEPTH, 10},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static int is_late(void *ctx)
{
    const struct sql *s = ctx;
    return gb_clock_us() >= s->deadline_us;
}

/* Codes do not name files, as SQLite's texts may. */
static int unusable(int code, struct gb_err *err)
{
    const int r =
            gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database cannot be used: %s", sqlite3_errstr(code));
    if ((code & 0xff) == SQLITE_CANTOPEN)
        gb_err_hint(err,
                    "in WAL mode it can be read only while a program that may write has it open, or with "
                    "write: true");
    return r;
}

int sql_sqlite_settle(struct sql *s, sqlite3 *db, struct gb_err *err)
{
    static const char *modules[] = {"json_each", "json_tree", "fts3",      "fts4",
                                    "fts5",      "rtree",     "rtree_i32", NULL};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        int is = -1;
        r |= sqlite3_db_config(db, switches[i].option, switches[i].value, &is) || is != switches[i].value;
    }
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        sqlite3_limit(db, limits[i].id, limits[i].value);
        r |= sqlite3_limit(db, limits[i].id, -1) > limits[i].value;
    }
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH,
                  (int)(s->max_bytes > SQL_VALUE_BYTES ? s->max_bytes : SQL_VALUE_BYTES));
    /* Tables that tell about the database itself: dbstat, sqlite_stmt and the like. */
    r |= sqlite3_drop_modules(db, modules);
    sqlite3_progress_handler(db, STEPS_PER_LOOK, is_late, s);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "SQLite does not take its settings");
    r = sqlite3_exec(db,
                     "PRAGMA temp_store = memory; PRAGMA mmap_size = 0; PRAGMA cell_size_check = on;"
                     "SELECT 1 FROM json_each('1'), json_tree('1')", /* see sql_guard.c */
                     NULL, NULL, NULL);
    return r ? unusable(r, err) : 0;
}

static int open_file(struct sql *s, const char *path, sqlite3 **ret, struct gb_err *err)
{
    AUTO_DB db = NULL;
    const int flags = (s->write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX |
                      SQLITE_OPEN_PRIVATECACHE;
    /* The limit counts only what is counted. Neither can fail before the first connection. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1);
    sqlite3_config(SQLITE_CONFIG_URI, 0); /* a path is a path */
    if (sqlite3_hard_heap_limit64(SQL_MEMORY_BYTES) < 0 || sqlite3_hard_heap_limit64(-1) != SQL_MEMORY_BYTES)
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "SQLite does not take its memory limit");
    const int r = sqlite3_open_v2(path, &db, flags, NULL);
    if (r)
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database cannot be opened: %s", sqlite3_errstr(r));
    sqlite3_busy_timeout(db, (int)sql_remaining_ms(s));
    *ret = TAKE_PTR(db);
    int settled = sql_sqlite_settle(s, *ret, err);
    return settled ? settled : sql_bounded_set(*ret, err);
}

/* --- compiling --- */

/* What went wrong, as an answer. SQLite's texts name tables and columns of the statement, never files. */
static void explain(struct sql *s, sqlite3 *db, const struct sql_guard *g, int code)
{
    static const char *const missing_table = "no such table: ", *const missing_column = "no such column: ";
    const char *text = sqlite3_errmsg(db);
    const bool in_mirror = g && g->stage == SQL_MIRROR;
    code &= 0xff;
    if (g && g->why[0])
        sql_deny(s, g->hint, "%s", g->why);
    else if (in_mirror && !strncmp(text, missing_table, strlen(missing_table)))
        sql_deny(s, NULL, "table %.200s is not allowed", text + strlen(missing_table));
    else if (in_mirror && sql_lists_columns(s) && strstr(text, "has no column named"))
        sql_deny(s, NULL, "%.200s, or it is not allowed", text);
    else if (in_mirror && sql_lists_columns(s) && !strncmp(text, missing_column, strlen(missing_column)))
        sql_deny(s, NULL, "column %.200s does not exist or is not allowed", text + strlen(missing_column));
    else if (code == SQLITE_INTERRUPT)
        sql_fail_time(s);
    else if (code == SQLITE_NOMEM)
        sql_fail(s, "the statement was stopped: it needs more than %d MiB of memory",
                 (int)((in_mirror ? SQL_COMPILE_BYTES : SQL_MEMORY_BYTES) >> 20));
    else if (!strncmp(text, missing_column, strlen(missing_column)))
        sql_fail(s, "%s (text goes in single quotes)", text);
    else
        sql_fail(s, "%s", text);
}

/* Compiles the first statement. An empty one (a comment, a lone semicolon) is no statement. */
static bool compile(struct sql *s, sqlite3 *db, struct sql_guard *g, const char *from, const char *to,
                    sqlite3_stmt **ret, const char **ret_end)
{
    const char *tail = from;
    int r = SQLITE_OK;
    sql_guard_set(db, g);
    while (!r && !*ret && from < to) {
        r = sqlite3_prepare_v3(db, from, (int)(to - from), 0, ret, &tail);
        if (tail == from)
            break;
        from = tail;
    }
    if (r)
        explain(s, db, g, r);
    else if (!*ret)
        sql_deny(s, "write one SELECT statement", "there is no statement, only comments or white space");
    *ret_end = tail;
    return !r && *ret;
}

/* Nothing but comments, white space and semicolons may follow. */
static bool is_alone(struct sql *s, sqlite3 *db, const char *from, const char *to)
{
    while (from < to) {
        AUTO_STMT second = NULL;
        const char *tail = from;
        const int r = sqlite3_prepare_v2(db, from, (int)(to - from), &second, &tail);
        if (r || second) {
            sql_deny(s, "send each statement in a call of its own",
                     "there is a second statement after character %zu", (size_t)(from - s->text));
            return false;
        }
        if (tail == from)
            break;
        from = tail;
    }
    return true;
}

/* Compiles in a mirror. Gives the end of the statement. Not 0 for errors of the service only. */
static int check(struct sql *s, sqlite3 *db, enum sql_mirror what, struct sql_guard *g, const char **ret_end,
                 struct gb_err *err)
{
    AUTO_DB mirror = NULL;
    AUTO_STMT stmt = NULL;
    const char *to = s->text + s->len;
    int r = sql_mirror_open(s, db, what, &mirror, err);
    if (r)
        return r;
    g->whole = what == SQL_MIRROR_WHOLE;
    /* WITH clauses that each use the one before twice double what is compiled, and nothing looks at the clock
     * meanwhile. Memory ends it sooner. */
    sqlite3_hard_heap_limit64(SQL_COMPILE_BYTES);
    const bool compiled = compile(s, mirror, g, s->text, to, &stmt, ret_end);
    sqlite3_hard_heap_limit64(SQL_MEMORY_BYTES);
    if (!compiled)
        return 0;
    if (sqlite3_stmt_isexplain(stmt))
        sql_deny(s, NULL, "EXPLAIN is not allowed");
    else if (!g->may_write && !sqlite3_stmt_readonly(stmt))
        sql_deny(s, NULL, "the tool only reads");
    else if (!s->fixed && sqlite3_bind_parameter_count(stmt))
        sql_deny(s, "write the values into the statement",
                 "parameters (?, :name, @name, $name) are not available");
    else
        is_alone(s, mirror, *ret_end, to);
    return 0;
}

/* --- running --- */

static bool bind_one(struct sql *s, sqlite3_stmt *stmt, int at, const json_t *value)
{
    int r;
    (void)s;
    if (json_is_string(value))
        r = sqlite3_bind_text(stmt, at, json_string_value(value), (int)json_string_length(value),
                              SQLITE_TRANSIENT);
    else if (json_is_integer(value))
        r = sqlite3_bind_int64(stmt, at, json_integer_value(value));
    else if (json_is_real(value))
        r = sqlite3_bind_double(stmt, at, json_real_value(value));
    else if (json_is_boolean(value))
        r = sqlite3_bind_int(stmt, at, json_is_true(value));
    else
        r = sqlite3_bind_null(stmt, at);
    return !r;
}

static int bind_all(struct sql *s, sqlite3_stmt *stmt, struct gb_err *err)
{
    for (int i = 1; i <= sqlite3_bind_parameter_count(stmt); i++) {
        const char *name = sqlite3_bind_parameter_name(stmt, i);
        const json_t *value;
        if (!name || name[0] != ':')
            return gb_err_set(err, GB_ERR_CONFIG, 0,
                              "sql: `statement` may have parameters of the form :name only");
        if (!sql_argument(s, name + 1, &value))
            return 0;
        if (!bind_one(s, stmt, i, value))
            return gb_err_set(err, GB_ERR_INTERNAL, 0, "cannot bind the parameter %s", name);
    }
    return 0;
}

/* NULL: no room, or no memory (then nothing is cut). */
static json_t *read_cell(struct sql *s, sqlite3_stmt *stmt, int i)
{
    const int type = sqlite3_column_type(stmt, i);
    const void *data = type == SQLITE_BLOB   ? sqlite3_column_blob(stmt, i)
                       : type == SQLITE_TEXT ? (const void *)sqlite3_column_text(stmt, i)
                                             : NULL;
    const size_t len = data ? (size_t)sqlite3_column_bytes(stmt, i) : 0;
    const double real = sqlite3_column_double(stmt, i);
    if (!sql_room(s, len))
        return NULL;
    if (type == SQLITE_INTEGER)
        return json_integer(sqlite3_column_int64(stmt, i));
    if (type == SQLITE_FLOAT)
        return isfinite(real) ? json_real(real)
                              : json_string(isnan(real) ? "NaN"
                                            : real > 0  ? "Infinity"
                                                        : "-Infinity");
    if (type == SQLITE_TEXT)
        return sql_text(data ? data : "", len);
    if (type == SQLITE_BLOB)
        return sql_blob(data, len);
    return json_null();
}

static bool read_row(struct sql *s, sqlite3_stmt *stmt)
{
    json_t *row = json_array();
    for (int i = 0; row && i < sqlite3_column_count(stmt); i++)
        if (json_array_append_new(row, read_cell(s, stmt, i))) {
            json_decref(row);
            row = NULL;
        }
    if (!row && s->cut_by)
        return false;
    return sql_add_row(s, row);
}

static void step(struct sql *s, sqlite3 *db, sqlite3_stmt *stmt)
{
    int r;
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        const char *name = sqlite3_column_name(stmt, i);
        json_array_append_new(s->columns, sql_text(name ? name : "", name ? strlen(name) : 0));
        s->values++;
    }
    while ((r = sqlite3_step(stmt)) == SQLITE_ROW) {
        /* What writes goes on to its end, whether or not its rows are still wanted. */
        if (!s->cut_by && !read_row(s, stmt) && s->affected < 0)
            return;
    }
    if (r != SQLITE_DONE)
        explain(s, db, NULL, r);
    else if (s->affected >= 0)
        s->affected = sqlite3_changes64(db);
}

static int run(struct sql *s, sqlite3 *db, struct sql_guard *g, const char *end, struct gb_err *err)
{
    AUTO_STMT stmt = NULL;
    const char *tail;
    g->stage = SQL_REAL;
    if (!compile(s, db, g, s->text, end, &stmt, &tail))
        return 0;
    if (g->may_write == (sqlite3_stmt_readonly(stmt) != 0) || sqlite3_stmt_isexplain(stmt))
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "the statement is not what was checked");
    const int r = bind_all(s, stmt, err);
    if (!r && !sql_answered(s))
        step(s, db, stmt);
    return r;
}

/* Runs one of our own statements outside of the guard. */
static int own(struct sql *s, sqlite3 *db, const char *sql, struct gb_err *err)
{
    sqlite3_set_authorizer(db, NULL, NULL);
    const int r = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (!r)
        return 0;
    if ((r & 0xff) == SQLITE_BUSY || (r & 0xff) == SQLITE_CONSTRAINT || (r & 0xff) == SQLITE_INTERRUPT) {
        explain(s, db, NULL, r);
        return 0;
    }
    return unusable(r, err);
}

/* What the statement says is decided in the mirror that has just what may be set, and in the one where names
 * resolve as in the database. */
static int run_write(struct sql *s, sqlite3 *db, struct gb_err *err)
{
    struct sql_guard g = {.s = s, .may_write = true};
    const char *end = NULL;
    int r = own(s, db, "ROLLBACK; PRAGMA foreign_keys = on; BEGIN IMMEDIATE", err);
    if (!r && !sql_answered(s))
        r = check(s, db, SQL_MIRROR_TARGET, &g, &end, err);
    if (!r && !sql_answered(s))
        r = check(s, db, SQL_MIRROR_WHOLE, &g, &end, err);
    s->affected = 0;
    if (!r && !sql_answered(s))
        r = run(s, db, &g, end, err);
    if (!r && !sql_answered(s))
        r = own(s, db, "COMMIT", err);
    return r;
}

int sql_sqlite_run(struct sql *s, const char *path, struct gb_err *err)
{
    AUTO_DB db = NULL;
    struct sql_guard g = {.s = s};
    const char *end = NULL;
    int r = open_file(s, path, &db, err);
    /* One transaction around all of it: the schema cannot change between check and use. */
    if (!r)
        r = own(s, db, "BEGIN; SELECT count(*) FROM sqlite_schema", err);
    if (r || sql_answered(s))
        return r;
    r = check(s, db, SQL_MIRROR_READ, &g, &end, err);
    if (!r && g.wants_write && s->write && s->call->denial_count == 1) {
        s->call->denial_count = 0;
        return run_write(s, db, err);
    }
    if (r || sql_answered(s))
        return r;
    r = sql_mirror_narrow(s, db, err);
    if (!r)
        r = own(s, db, "PRAGMA query_only = on", err);
    return r || sql_answered(s) ? r : run(s, db, &g, end, err);
}
