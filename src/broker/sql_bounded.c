/* SQLite looks at the clock between steps of its machine, and a call of a function is one step. Most
 * functions take time by the length of what they are given, which is bounded; these few take far more for
 * some arguments: printf('%.999999999c', 'x') counts to its number, and instr, replace and trim compare each
 * place of one text with all of the other. So they are ours: each looks at its arguments, and has SQLite's
 * own do the work, in a connection where that still has its name. */
#include "broker/sql_sqlite.h"

#include "base/auto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 100 /* as sql_sqlite.c has it */
#define MAX_COMPARES  ((int64_t)1 << 28)
#define FORMAT_DIGITS 6

struct bounded {
    const char *name;
    const char *(*check)(int count, sqlite3_value **values); /* what is wrong, or NULL */
};

struct plain {
    const struct bounded *function;
    sqlite3 *db;
    int count; /* of the arguments that the statement is for */
    sqlite3_stmt *stmt;
};

/* Numbers in a format are widths and precisions; a star has them among the arguments. */
static const char *check_format(int count, sqlite3_value **values)
{
    static const char digits[] = "0123456789", between[] = "-+ #,!l.*0123456789";
    const char *p = count ? (const char *)sqlite3_value_text(values[0]) : NULL;
    while (p && (p = strchr(p, '%'))) {
        const char *end = p + 1 + strspn(p + 1, between);
        for (p++; p < end;) {
            const size_t len = strspn(p, digits), zeros = strspn(p, "0");
            if (*p == '*')
                return "a width or precision must be a number in the format, not *";
            if (len > zeros + FORMAT_DIGITS)
                return "a width or precision has more than 6 digits";
            p += len ? len : 1;
        }
        p = *end ? end + 1 : end;
    }
    return NULL;
}

static const char *check_texts(int count, sqlite3_value **values)
{
    if (count < 2 || (int64_t)sqlite3_value_bytes(values[0]) * sqlite3_value_bytes(values[1]) <= MAX_COMPARES)
        return NULL;
    return "both texts are too long";
}

static const struct bounded functions[] = {
        {"printf", check_format}, {"format", check_format}, {"instr", check_texts}, {"replace", check_texts},
        {"trim", check_texts},    {"ltrim", check_texts},   {"rtrim", check_texts},
};

static int prepare(struct plain *p, sqlite3 *outer, int count)
{
    char sql[64 + 2 * MAX_ARGUMENTS];
    int r = p->db ? SQLITE_OK
                  : sqlite3_open_v2(":memory:", &p->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL);
    if (r || (p->stmt && p->count == count))
        return r;
    sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, sqlite3_limit(outer, SQLITE_LIMIT_LENGTH, -1));
    sqlite3_finalize(TAKE_PTR(p->stmt));
    p->count = count;
    int len = snprintf(sql, sizeof(sql), "SELECT %s(", p->function->name);
    for (int i = 0; i < count && i < MAX_ARGUMENTS; i++)
        len += snprintf(sql + len, sizeof(sql) - (size_t)len, i ? ",?" : "?");
    snprintf(sql + len, sizeof(sql) - (size_t)len, ")");
    return sqlite3_prepare_v2(p->db, sql, -1, &p->stmt, NULL);
}

static void refuse(sqlite3_context *ctx, const char *function, const char *wrong)
{
    char text[128];
    snprintf(text, sizeof(text), "%s: %s", function, wrong);
    sqlite3_result_error(ctx, text, -1);
}

static void call(sqlite3_context *ctx, int count, sqlite3_value **values)
{
    struct plain *p = sqlite3_user_data(ctx);
    const char *wrong = p->function->check(count, values);
    if (wrong) {
        refuse(ctx, p->function->name, wrong);
        return;
    }
    int r = prepare(p, sqlite3_context_db_handle(ctx), count);
    for (int i = 0; !r && i < count; i++)
        r = sqlite3_bind_value(p->stmt, i + 1, values[i]);
    r = r ? r : sqlite3_step(p->stmt);
    if (r == SQLITE_ROW)
        sqlite3_result_value(ctx, sqlite3_column_value(p->stmt, 0));
    else if (r == SQLITE_TOOBIG)
        sqlite3_result_error_toobig(ctx);
    else if (r == SQLITE_NOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        refuse(ctx, p->function->name, sqlite3_errmsg(p->db)); /* as for a wrong number of arguments */
    sqlite3_reset(p->stmt);
    if (p->stmt)
        sqlite3_clear_bindings(p->stmt);
}

static void plain_free(void *data)
{
    struct plain *p = data;
    sqlite3_finalize(p->stmt);
    sqlite3_close_v2(p->db);
    free(p);
}

int sql_bounded_set(sqlite3 *db, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        struct plain *p = calloc(1, sizeof(*p));
        if (!p)
            return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "cannot set up functions");
        p->function = &functions[i];
        /* What schemas use them for (views, indexes) they may still be used for. Should it fail, p is freed.
         */
        if (sqlite3_create_function_v2(db, functions[i].name, -1,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, p, call, NULL,
                                       NULL, plain_free))
            return gb_err_set(err, GB_ERR_INTERNAL, 0, "SQLite does not take its functions");
    }
    return 0;
}
