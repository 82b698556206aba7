/* SQLite's authorizer: asked about every table, column, function and kind of statement while a statement is
 * compiled. What it does not know, it refuses. */
#include "broker/sql_sqlite.h"

#include "base/auto.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

/* What is refused, in words. What is in no table of this file is refused as "this". */
static const struct {
    int action;
    const char *words;
} refusals[] = {
        {SQLITE_CREATE_INDEX, "CREATE INDEX"},
        {SQLITE_CREATE_TABLE, "CREATE TABLE"},
        {SQLITE_CREATE_TEMP_INDEX, "CREATE TEMP INDEX"},
        {SQLITE_CREATE_TEMP_TABLE, "CREATE TEMP TABLE"},
        {SQLITE_CREATE_TEMP_TRIGGER, "CREATE TEMP TRIGGER"},
        {SQLITE_CREATE_TEMP_VIEW, "CREATE TEMP VIEW"},
        {SQLITE_CREATE_TRIGGER, "CREATE TRIGGER"},
        {SQLITE_CREATE_VIEW, "CREATE VIEW"},
        {SQLITE_CREATE_VTABLE, "CREATE VIRTUAL TABLE"},
        {SQLITE_DROP_INDEX, "DROP INDEX"},
        {SQLITE_DROP_TABLE, "DROP TABLE"},
        {SQLITE_DROP_TEMP_INDEX, "DROP INDEX"},
        {SQLITE_DROP_TEMP_TABLE, "DROP TABLE"},
        {SQLITE_DROP_TEMP_TRIGGER, "DROP TRIGGER"},
        {SQLITE_DROP_TEMP_VIEW, "DROP VIEW"},
        {SQLITE_DROP_TRIGGER, "DROP TRIGGER"},
        {SQLITE_DROP_VIEW, "DROP VIEW"},
        {SQLITE_DROP_VTABLE, "DROP TABLE"},
        {SQLITE_ALTER_TABLE, "ALTER TABLE"},
        {SQLITE_REINDEX, "REINDEX"},
        {SQLITE_ANALYZE, "ANALYZE"},
        {SQLITE_PRAGMA, "PRAGMA"},
        {SQLITE_ATTACH, "ATTACH"},
        {SQLITE_DETACH, "DETACH"},
        {SQLITE_TRANSACTION, "BEGIN, COMMIT or ROLLBACK"},
        {SQLITE_SAVEPOINT, "SAVEPOINT"},
};

static int __attribute__((format(printf, 2, 3))) refuse(struct sql_guard *g, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (!g->why[0]) /* the first is the cause, and SQLite ends there */
        vsnprintf(g->why, sizeof(g->why), format, ap);
    va_end(ap);
    return SQLITE_DENY;
}

static int refuse_rows(struct sql_guard *g, const char *what, const char *table)
{
    g->hint = SQL_ROWS_HINT;
    return refuse(g, SQL_ROWS_REASON, what, table);
}

/* Tables that functions make: they read nothing but their arguments. */
static bool is_function_table(const char *name)
{
    return !strcasecmp(name, "json_each") || !strcasecmp(name, "json_tree");
}

/* A full-text or R-tree table keeps its content in others, whose names begin with its own. */
static bool is_index_table(const struct sql *s, const char *name)
{
    char owner[64];
    const char *end = strrchr(name, '_');
    if (!end || (size_t)(end - name) >= sizeof(owner))
        return false;
    snprintf(owner, sizeof(owner), "%.*s", (int)(end - name), name);
    return sql_listed(s, owner, true, NULL);
}

/* `accessor` is the innermost view, trigger or WITH clause, or NULL. */
static int check_read(struct sql_guard *g, const char *table, const char *column, const char *db,
                      const char *accessor)
{
    const json_t *columns = NULL;
    if (g->stage == SQL_REAL && (accessor || g->may_write || !*column))
        return SQLITE_OK; /* the mirror has decided about every name in the statement */
    if (is_function_table(table))
        return SQLITE_OK;
    if (!sql_listed(g->s, table, true, &columns)) {
        if (g->stage == SQL_REAL && is_index_table(g->s, table))
            return SQLITE_OK;
        /* A table of which no column is used comes with "". So does the name of a WITH clause; nothing
         * else that is not listed can be in the mirror but the schema's own tables. */
        if (!*column && strncasecmp(table, "sqlite_", 7) != 0 && strncasecmp(table, "pragma_", 7) != 0)
            return SQLITE_OK;
        return refuse(g, "table %.80s is not allowed", table);
    }
    const bool narrowed = g->stage == SQL_REAL ? db && !strcmp(db, "temp") : !g->whole;
    if (*column && !narrowed && !sql_has_column(columns, column, true))
        return refuse(g, "column %.80s.%.80s is not allowed", table, column);
    return SQLITE_OK;
}

static int check_function(struct sql_guard *g, const char *name, const char *accessor)
{
    int count;
    if ((g->stage == SQL_REAL && accessor) || sql_function_allowed(g->s, SQL_SQLITE, name, &count))
        return SQLITE_OK;
    g->hint = SQL_WORDS_HINT;
    return refuse(g, "function %.80s is not allowed", name);
}

static int check_write(struct sql_guard *g, int action, const char *table, const char *column,
                       const char *accessor)
{
    const json_t *columns = NULL;
    g->wants_write = true;
    if (!g->may_write)
        return refuse(g, "the tool only reads: %s of %.80s is not allowed",
                      action == SQLITE_INSERT   ? "INSERT"
                      : action == SQLITE_UPDATE ? "UPDATE"
                                                : "DELETE",
                      table);
    if (g->stage == SQL_REAL && accessor)
        return SQLITE_OK; /* a trigger of the schema */
    if (!sql_listed(g->s, table, true, &columns))
        return refuse(g, "table %.80s is not allowed", table);
    if (action == SQLITE_DELETE && columns)
        return refuse_rows(g, "DELETE", table);
    if (action == SQLITE_UPDATE && !sql_has_column(columns, column, true))
        return refuse(g, "column %.80s.%.80s is not allowed", table, column);
    return SQLITE_OK;
}

static int authorize(void *ctx, int action, const char *first, const char *second, const char *db,
                     const char *accessor)
{
    struct sql_guard *g = ctx;
    const char *words = "this";
    const size_t keeper = strlen(SQL_MIRROR_KEEPER);
    if (g->stage == SQL_MIRROR && accessor && !strncmp(accessor, SQL_MIRROR_KEEPER, keeper))
        return refuse_rows(g, "REPLACE", accessor + keeper);
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: /* bounded by time */
        return SQLITE_OK;
    case SQLITE_READ:
        return check_read(g, first ? first : "", second ? second : "", db, accessor);
    case SQLITE_FUNCTION:
        return check_function(g, second ? second : "", accessor);
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
        /* CREATE, DROP and the like come as changes of the schema's tables; so does the first use of a table
         * that is a function or otherwise virtual, which is why those that are allowed have been used before.
         */
        if (first && strncasecmp(first, "sqlite_", 7) != 0)
            return check_write(g, action, first, second ? second : "", accessor);
        return refuse(g, "a change of the schema, or a table that is a function, is not allowed");
    case SQLITE_PRAGMA:
        /* What the full-text index asks for by itself. A statement with PRAGMA never got past the mirror. */
        if (g->stage == SQL_REAL && first && !second && !strcasecmp(first, "data_version"))
            return SQLITE_OK;
        break;
    default:
        break;
    }
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (refusals[i].action == action)
            words = refusals[i].words;
    return refuse(g, "%s is not allowed", words);
}

void sql_guard_set(sqlite3 *db, struct sql_guard *g)
{
    g->why[0] = '\0';
    g->hint = NULL;
    sqlite3_set_authorizer(db, authorize, g);
}
