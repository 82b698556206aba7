/* PostgreSQL: runs what sql_check.c has made of the statement, alone, in a transaction of its own. */
#include "broker/sql.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/text.h"
#include "broker/sql_check.h"
#include "broker/sql_connect.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* The types whose values are not given as text. The numbers are fixed: they are in the server's catalog. */
enum {
    BOOL = 16,
    BYTEA = 17,
    INT8 = 20,
    INT2 = 21,
    INT4 = 23,
    OID = 26,
    FLOAT4 = 700,
    FLOAT8 = 701,
    NUMERIC = 1700
};

#define STATE_CANCELED  "57014"
#define STATE_LOCK      "55P03"
#define STATE_COLUMN    "42703"
#define STATE_FUNCTION  "42883"
#define STATE_READ_ONLY "25006"

/* --- one answer after the other --- */

/* The next result, or NULL at the end. Not 0: time is up or the connection is gone, as the call or err say.
 */
static int next_result(struct sql *s, PGconn *conn, PGresult **ret, struct gb_err *err)
{
    *ret = NULL;
    while (PQisBusy(conn)) {
        if (!sql_connect_wait(s, conn, POLLIN)) {
            sql_fail_time(s);
            return 0;
        }
        if (!PQconsumeInput(conn))
            return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the connection to the database was lost");
    }
    *ret = PQgetResult(conn);
    return 0;
}

static const char *field(const PGresult *result, int code)
{
    const char *text = PQresultErrorField(result, code);
    return text ? text : "";
}

/* The server's DETAIL and CONTEXT are left out: they show rows with columns that may not be listed. */
static void explain(struct sql *s, PGconn *conn, const PGresult *result)
{
    const char *state = field(result, PG_DIAG_SQLSTATE), *text = field(result, PG_DIAG_MESSAGE_PRIMARY),
               *hint = field(result, PG_DIAG_MESSAGE_HINT);
    if (!strcmp(state, STATE_CANCELED))
        sql_fail_time(s);
    else if (!strcmp(state, STATE_LOCK))
        sql_fail(s, "the statement was stopped: it waited too long for others (%s)", text);
    else if (!strcmp(state, STATE_READ_ONLY))
        sql_deny(s, NULL, "the tool only reads: %.200s", text);
    else if (!strcmp(state, STATE_COLUMN) && sql_lists_columns(s))
        sql_deny(s, NULL, "%.200s, or it is not allowed", text);
    else if (!strcmp(state, STATE_FUNCTION) && json_object_get(s->spec, "functions"))
        sql_fail(s, "%s; functions of the tables' schema are called with its name before theirs", text);
    else if (*text)
        sql_fail(s, "%s%s%s", text, *hint ? "; " : "", hint);
    else
        /* A row comes whole, and only then can be counted; the process has a limit. */
        sql_fail(s, "the database did not give a result%s",
                 strstr(PQerrorMessage(conn), "memory") ? ": a row is too large" : "");
}

/* Our own statements: no rows are wanted, except into ret_rows if given. */
static int own(struct sql *s, PGconn *conn, const char *sql, const char *param, PGresult **ret_rows,
               struct gb_err *err)
{
    PGresult *result = NULL;
    bool ok = param ? PQsendQueryParams(conn, sql, 1, NULL, &param, NULL, NULL, 0) : PQsendQuery(conn, sql);
    if (!ok)
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the connection to the database was lost");
    for (;;) {
        int r = next_result(s, conn, &result, err);
        if (r || !result)
            return r;
        const ExecStatusType status = PQresultStatus(result);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !sql_answered(s))
            explain(s, conn, result);
        if (status == PGRES_TUPLES_OK && ret_rows && !*ret_rows)
            *ret_rows = result;
        else
            PQclear(result);
        if (sql_answered(s))
            return 0; /* that is the end; and what is a COPY for libpq would come again and again */
    }
}

/* --- the transaction --- */

/* pg_temp stands last: it would be searched first if it were not named. */
static int begin(struct sql *s, PGconn *conn, bool writes, struct gb_err *err)
{
    AUTO_BUF sql = {.max = 4096};
    const long long ms = sql_remaining_ms(s);
    gb_buf_printf(&sql, "BEGIN TRANSACTION READ %s;", writes ? "WRITE" : "ONLY");
    gb_buf_puts(&sql, "SET LOCAL search_path = pg_catalog, pg_temp;"
                      "SET LOCAL standard_conforming_strings = on;"
                      "SET LOCAL client_min_messages = error;"
                      "SET LOCAL bytea_output = hex;"
                      "SET LOCAL extra_float_digits = 1;"
                      "SET LOCAL DateStyle = ISO;"
                      "SET LOCAL work_mem = '16MB';"
                      "SET LOCAL max_parallel_workers_per_gather = 0;");
    gb_buf_printf(&sql,
                  "SET LOCAL statement_timeout = %lld; SET LOCAL lock_timeout = %lld;"
                  "SET LOCAL idle_in_transaction_session_timeout = %lld",
                  ms, ms, ms + 1000);
    gb_buf_add(&sql, "", 1);
    return own(s, conn, sql.data, NULL, NULL, err);
}

/* What not every server and not every role has: temp_file_limit is for superusers (others may be given it by
 * ALTER ROLE), client_connection_check_interval came with version 14. They are set where that is possible. */
static int settle(struct sql *s, PGconn *conn, struct gb_err *err)
{
    AUTO_RESULT rows = NULL;
    return own(s, conn,
               "SELECT set_config(s.name, v.value, true) FROM (VALUES ('temp_file_limit', '262144'),"
               " ('client_connection_check_interval', '1000'), ('jit', 'off')) AS v (name, value)"
               " JOIN pg_settings AS s USING (name) WHERE s.context = 'user' OR (s.context = 'superuser' AND"
               " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user))",
               NULL, &rows, err);
}

/* In a.b, b is a column or, if there is no such column, a function that is called with a. So b must not be
 * the name of a function that may not be called. Only the server knows which there are. */
static int check_names(struct sql *s, PGconn *conn, const json_t *names, struct gb_err *err)
{
    AUTO_BUF list = {.max = (size_t)4 * SQL_TEXT_BYTES};
    AUTO_RESULT rows = NULL;
    struct gb_json j = {.out = &list, .first = true};
    size_t i;
    const json_t *name;
    gb_json_open(&j, NULL, '[');
    json_array_foreach(names, i, name)
        gb_json_bytes(&j, NULL, json_string_value(name), json_string_length(name));
    gb_json_close(&j, ']');
    gb_buf_add(&list, "", 1);
    int r = own(s, conn,
                "SELECT DISTINCT proname::text FROM pg_proc WHERE proname IN (SELECT "
                "json_array_elements_text($1::json))"
                " AND pronamespace = 'pg_catalog'::regnamespace AND pronargs >= 1"
                " AND (pronargs - pronargdefaults <= 1 OR provariadic <> 0)",
                list.data, &rows, err);
    for (int row = 0; !r && rows && row < PQntuples(rows); row++) {
        int count;
        const char *function = PQgetvalue(rows, row, 0);
        if (!sql_function_allowed(s, SQL_POSTGRESQL, function, &count) || count)
            sql_deny(s, "use a column of that name without its table before it, or rename it in a subquery",
                     "the name %.63s behind a dot could call a function, which is not allowed", function);
    }
    return r;
}

/* --- rows --- */

static json_t *read_bytea(const char *text, size_t len)
{
    AUTO_FREE uint8_t *bytes = malloc(len / 2 + 1);
    if (len < 2 || strncmp(text, "\\x", 2) != 0 || !bytes || gb_text_unhex(text + 2, bytes, (len - 2) / 2))
        return sql_text(text, len);
    return sql_blob(bytes, (len - 2) / 2);
}

static json_t *read_cell(struct sql *s, const PGresult *result, int column)
{
    const char *text = PQgetvalue(result, 0, column);
    const size_t len = (size_t)PQgetlength(result, 0, column);
    if (PQgetisnull(result, 0, column))
        return json_null();
    if (!sql_room(s, len))
        return NULL;
    switch (PQftype(result, column)) {
    case BOOL:
        return json_boolean(text[0] == 't');
    case BYTEA:
        return read_bytea(text, len);
    case INT2:
    case INT4:
    case INT8:
    case OID:
    case NUMERIC:
        return sql_number(text);
    case FLOAT4:
    case FLOAT8: { /* all of it, or NaN and Infinity as text */
        json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
        return number ? number : sql_text(text, len);
    }
    default:
        return sql_text(text, len);
    }
}

static bool read_row(struct sql *s, const PGresult *result)
{
    json_t *row = json_array();
    for (int i = 0; row && i < PQnfields(result); i++)
        if (json_array_append_new(row, read_cell(s, result, i))) {
            json_decref(row);
            row = NULL;
        }
    if (!row && s->cut_by)
        return false;
    return sql_add_row(s, row);
}

static void read_columns(struct sql *s, const PGresult *result)
{
    for (int i = (int)json_array_size(s->columns); i < PQnfields(result); i++) {
        const char *name = PQfname(result, i);
        json_array_append_new(s->columns, sql_text(name, strlen(name)));
        s->values++;
    }
}

static void read_affected(struct sql *s, PGresult *result)
{
    int64_t count;
    if (s->affected >= 0 && !gb_text_parse_decimal(PQcmdTuples(result), 0, &count))
        s->affected = count;
}

/* Reads row by row. Once no more is wanted, what only reads is left where it is: closing the connection ends
 * it. What writes goes on to its end. */
static int read_all(struct sql *s, PGconn *conn, bool *ret_done, struct gb_err *err)
{
    *ret_done = false;
    for (;;) {
        AUTO_RESULT result = NULL;
        int r = next_result(s, conn, &result, err);
        if (r || !result) {
            *ret_done = !r && !sql_answered(s);
            return r;
        }
        switch (PQresultStatus(result)) {
        case PGRES_SINGLE_TUPLE:
            read_columns(s, result);
            if (!s->cut_by && !read_row(s, result) && s->affected < 0)
                return 0;
            break;
        case PGRES_TUPLES_OK:
            read_columns(s, result);
            read_affected(s, result);
            break;
        case PGRES_COMMAND_OK:
            read_affected(s, result);
            break;
        default:
            explain(s, conn, result);
            return 0;
        }
    }
}

/* --- parameters --- */

struct params {
    const char **values;
    char **texts; /* of numbers */
    size_t count;
};

static void params_done(struct params *p)
{
    for (size_t i = 0; p->texts && i < p->count; i++)
        free(p->texts[i]);
    free(p->texts);
    free(p->values);
}
#define AUTO_PARAMS __attribute__((cleanup(params_done))) struct params

static bool fill_params(struct sql *s, const json_t *names, struct params *p)
{
    size_t i;
    const json_t *name;
    p->count = json_array_size(names);
    p->values = calloc(p->count + 1, sizeof(*p->values));
    p->texts = calloc(p->count + 1, sizeof(*p->texts));
    if (!p->values || !p->texts) {
        sql_fail(s, "out of memory");
        return false;
    }
    json_array_foreach(names, i, name) {
        const json_t *value;
        if (!sql_argument(s, json_string_value(name), &value))
            return false;
        if (json_is_string(value))
            p->values[i] = json_string_value(value);
        else if (json_is_boolean(value))
            p->values[i] = json_is_true(value) ? "true" : "false";
        else if (json_is_number(value))
            p->values[i] = p->texts[i] = json_dumps(value, JSON_ENCODE_ANY);
    }
    return true;
}

/* The extended protocol takes one statement and no more. */
static int run(struct sql *s, PGconn *conn, const struct sql_checked *c, const struct params *p,
               struct gb_err *err)
{
    bool done = false;
    if (!PQsendQueryParams(conn, c->text, (int)p->count, NULL, p->values, NULL, NULL, 0) ||
        !PQsetSingleRowMode(conn))
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the connection to the database was lost");
    s->affected = c->writes ? 0 : -1;
    int r = read_all(s, conn, &done, err);
    if (!r && done && c->writes)
        r = own(s, conn, "COMMIT", NULL, NULL, err);
    return r;
}

int sql_postgres_run(struct sql *s, const char *conninfo, struct gb_err *err)
{
    const json_t *schema = json_object_get(s->spec, "schema");
    AUTO_CHECKED checked = {0};
    AUTO_PARAMS params = {0};
    AUTO_CONN conn = NULL;
    if (!sql_check(s, schema ? json_string_value(schema) : "public", &checked) ||
        !fill_params(s, checked.params, &params))
        return 0;
    int r = sql_connect(s, conninfo, &conn, err);
    if (!r)
        r = begin(s, conn, checked.writes, err);
    if (!r && !sql_answered(s))
        r = settle(s, conn, err);
    if (!r && !sql_answered(s) && json_array_size(checked.names))
        r = check_names(s, conn, checked.names, err);
    if (!r && !sql_answered(s))
        r = run(s, conn, &checked, &params, err);
    return r;
}
