#include "broker/sql_sqlite.h"

#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <string.h>

#define DDL_BYTES ((size_t)1 << 20)

/* How a listed table is in the real database. */
struct shape {
    bool exists, is_view, has_rowid;
    bool names_rowid; /* one of the columns is the rowid */
    size_t listed;    /* how many of the listed columns it has */
};

static int broken(sqlite3 *db, struct gb_err *err)
{
    /* The message may name files; the code does not. */
    return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database's schema cannot be read: %s",
                      sqlite3_errstr(sqlite3_errcode(db)));
}

static int look(sqlite3 *db, const char *sql, const char *name, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v2(db, sql, -1, ret, NULL) ||
           sqlite3_bind_text(*ret, 1, name, -1, SQLITE_TRANSIENT);
}

static void quote(struct gb_buf *out, const char *name)
{
    gb_buf_puts(out, "\"");
    for (; *name; name++) {
        if (*name == '"')
            gb_buf_puts(out, "\"");
        gb_buf_add(out, name, 1);
    }
    gb_buf_puts(out, "\"");
}

static int find_shape(sqlite3 *db, const char *table, struct shape *ret, struct gb_err *err)
{
    AUTO_STMT stmt = NULL;
    if (look(db, "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE",
             table, &stmt))
        return broken(db, err);
    const int r = sqlite3_step(stmt);
    if (r == SQLITE_ROW) {
        const char *type = (const char *)sqlite3_column_text(stmt, 0);
        ret->exists = true;
        ret->is_view = !type || !strcmp(type, "view");
        ret->has_rowid = !ret->is_view && !sqlite3_column_int(stmt, 1);
    } else if (r != SQLITE_DONE) {
        return broken(db, err);
    }
    return 0;
}

/* The columns of the mirror's table: all, or the listed ones. The one that is the table's rowid says so,
 * since the authorizer then hears its name whenever a rowid is read. */
static int add_columns(sqlite3 *db, const char *table, const json_t *columns, struct shape *shape,
                       const char *constraint, struct gb_buf *out, struct gb_err *err)
{
    AUTO_STMT stmt = NULL;
    int r;
    if (look(db,
             "SELECT x.name, x.pk = 1 AND upper(x.type) = 'INTEGER' AND (SELECT count(*) FROM"
             " pragma_table_xinfo(?1, 'main') WHERE pk) = 1 FROM pragma_table_xinfo(?1, 'main') AS x",
             table, &stmt))
        return broken(db, err);
    while ((r = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        if (!name || !sql_has_column(columns, name, true))
            continue;
        gb_buf_puts(out, shape->listed++ ? ", " : "");
        quote(out, name);
        if (shape->has_rowid && sqlite3_column_int(stmt, 1)) {
            gb_buf_puts(out, " INTEGER PRIMARY KEY");
            shape->names_rowid = true;
        }
        gb_buf_puts(out, constraint);
    }
    return r == SQLITE_DONE ? 0 : broken(db, err);
}

/* What ON CONFLICT may name: unique columns, if all of them are there. */
static int add_unique(sqlite3 *db, const char *table, const json_t *columns, struct gb_buf *out,
                      struct gb_err *err)
{
    AUTO_STMT indexes = NULL;
    int r;
    if (look(db, "SELECT name FROM pragma_index_list(?1, 'main') WHERE \"unique\" AND NOT partial", table,
             &indexes))
        return broken(db, err);
    while ((r = sqlite3_step(indexes)) == SQLITE_ROW) {
        AUTO_STMT parts = NULL;
        AUTO_BUF names = {.max = DDL_BYTES};
        bool whole = true;
        if (look(db, "SELECT name FROM pragma_index_info(?1, 'main')",
                 (const char *)sqlite3_column_text(indexes, 0), &parts))
            return broken(db, err);
        while (sqlite3_step(parts) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(parts, 0);
            whole = whole && name && sql_has_column(columns, name, true);
            gb_buf_puts(&names, names.len ? ", " : "");
            quote(&names, name ? name : "");
        }
        if (whole && names.len)
            gb_buf_printf(out, ", UNIQUE (%.*s)", (int)names.len, names.data);
    }
    return r == SQLITE_DONE ? 0 : broken(db, err);
}

/* The first column, as the key that a table without rowid needs. */
static int add_key(sqlite3 *db, const char *table, const json_t *columns, struct gb_buf *out,
                   struct gb_err *err)
{
    AUTO_STMT stmt = NULL;
    int r;
    if (look(db, "SELECT name FROM pragma_table_xinfo(?1, 'main')", table, &stmt))
        return broken(db, err);
    while ((r = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        if (!name || !sql_has_column(columns, name, true))
            continue;
        gb_buf_puts(out, ", PRIMARY KEY (");
        quote(out, name);
        gb_buf_puts(out, ")");
        return 0;
    }
    return broken(db, err);
}

static int run_ddl(sqlite3 *db, struct gb_buf *ddl, struct gb_err *err)
{
    gb_buf_add(ddl, "", 1);
    if (ddl->failed || gb_buf_truncated(ddl))
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database has tables that are too wide to be checked");
    return sqlite3_exec(db, ddl->data, NULL, NULL, NULL) ? broken(db, err) : 0;
}

/* With each column unique, every INSERT and UPDATE that says OR REPLACE has rows to remove. Whether the real
 * table has such an index does not matter, then. */
static int add_keeper(sqlite3 *mirror, const char *table, struct gb_err *err)
{
    AUTO_BUF ddl = {.max = DDL_BYTES};
    char name[128];
    snprintf(name, sizeof(name), SQL_MIRROR_KEEPER "%.64s", table);
    gb_buf_puts(&ddl, "PRAGMA recursive_triggers = on; CREATE TRIGGER ");
    quote(&ddl, name);
    gb_buf_puts(&ddl, " BEFORE DELETE ON ");
    quote(&ddl, table);
    gb_buf_puts(&ddl, " BEGIN SELECT 1; END");
    return run_ddl(mirror, &ddl, err);
}

static int missing(const char *table, const json_t *columns, size_t found, struct gb_err *err)
{
    if (columns && found != json_array_size(columns))
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "sql: `tables` lists columns of %s that the table does not have", table);
    return 0;
}

static int mirror_table(sqlite3 *db, sqlite3 *mirror, enum sql_mirror what, const char *table,
                        const json_t *listed, struct gb_err *err)
{
    AUTO_BUF ddl = {.max = DDL_BYTES};
    struct shape shape = {0};
    const json_t *columns = what == SQL_MIRROR_WHOLE ? NULL : listed;
    const bool narrow = what == SQL_MIRROR_READ && listed, keep = what == SQL_MIRROR_WHOLE && listed;
    int r = find_shape(db, table, &shape, err);
    if (r || !shape.exists)
        return r;
    shape.has_rowid = shape.has_rowid && !narrow; /* a view has none */
    gb_buf_puts(&ddl, narrow ? "CREATE TEMP TABLE " : "CREATE TABLE ");
    quote(&ddl, table);
    gb_buf_puts(&ddl, " (");
    r = add_columns(db, table, columns, &shape, keep ? " UNIQUE" : "", &ddl, err);
    if (r && shape.is_view)
        return 0; /* it does not compile, or SQLite does not trust what it uses: it cannot be used */
    if (!r)
        r = missing(table, columns, shape.listed, err);
    if (columns && !shape.names_rowid)
        shape.has_rowid = false; /* it is not listed */
    if (!r && what != SQL_MIRROR_READ)
        r = add_unique(db, table, columns, &ddl, err);
    if (!r && !shape.has_rowid)
        r = add_key(db, table, columns, &ddl, err);
    gb_buf_puts(&ddl, shape.has_rowid ? ")" : ") WITHOUT ROWID");
    if (!r)
        r = run_ddl(mirror, &ddl, err);
    return r || !keep ? r : add_keeper(mirror, table, err);
}

int sql_mirror_open(struct sql *s, sqlite3 *db, enum sql_mirror what, sqlite3 **ret, struct gb_err *err)
{
    AUTO_DB mirror = NULL;
    const char *table;
    json_t *columns;
    if (sqlite3_open_v2(":memory:", &mirror, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL))
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "cannot set up the check of the statement");
    int r = sql_sqlite_settle(s, mirror, err);
    json_object_foreach((json_t *)s->tables, table, columns) {
        if (r)
            return r;
        r = mirror_table(db, mirror, what, table, json_is_array(columns) ? columns : NULL, err);
    }
    if (!r)
        *ret = TAKE_PTR(mirror);
    return r;
}

/* Compiles a query of it: a virtual table must have been used before the guard is there. What does not
 * compile will not compile in a statement either. */
static void use_once(sqlite3 *db, const char *table)
{
    AUTO_BUF sql = {.max = DDL_BYTES};
    AUTO_STMT stmt = NULL;
    gb_buf_puts(&sql, "SELECT 1 FROM main.");
    quote(&sql, table);
    sqlite3_prepare_v2(db, sql.data, (int)sql.len, &stmt, NULL);
}

static int narrow_table(sqlite3 *db, const char *table, const json_t *columns, struct gb_err *err)
{
    AUTO_BUF ddl = {.max = DDL_BYTES};
    struct shape shape = {0};
    int r = find_shape(db, table, &shape, err);
    if (r || !shape.exists)
        return r;
    use_once(db, table);
    if (!columns)
        return 0;
    gb_buf_puts(&ddl, "CREATE TEMP VIEW ");
    quote(&ddl, table);
    gb_buf_puts(&ddl, " AS SELECT ");
    shape.has_rowid = false;
    r = add_columns(db, table, columns, &shape, "", &ddl, err);
    gb_buf_puts(&ddl, " FROM main.");
    quote(&ddl, table);
    if (r && shape.is_view)
        return 0;
    return r ? r : run_ddl(db, &ddl, err);
}

int sql_mirror_narrow(struct sql *s, sqlite3 *db, struct gb_err *err)
{
    const char *table;
    json_t *columns;
    int r = 0;
    json_object_foreach((json_t *)s->tables, table, columns) {
        r = narrow_table(db, table, json_is_array(columns) ? columns : NULL, err);
        if (r)
            break;
    }
    return r;
}
