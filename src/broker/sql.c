#include "broker/sql.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "json/json.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

/* The reply is read again by our JSON reader, with its cap; some values are those around the rows. */
#define MAX_VALUES (GB_JSON_VALUES - 4096)

static const struct function {
    const char *name;
    int engines, count;
} functions[] = {
#define SQL_FUNCTION(name, engines, count) {name, engines, count},
#include "broker/sql_functions.def"
#undef SQL_FUNCTION
};

static bool same(const char *a, const char *b, bool fold)
{
    return !(fold ? strcasecmp(a, b) : strcmp(a, b));
}

bool sql_has_column(const json_t *columns, const char *name, bool fold)
{
    size_t i;
    const json_t *column;
    if (!columns)
        return true;
    json_array_foreach(columns, i, column)
        if (same(json_string_value(column), name, fold))
            return true;
    return false;
}

bool sql_listed(const struct sql *s, const char *table, bool fold, const json_t **ret_columns)
{
    const char *name;
    json_t *columns;
    json_object_foreach((json_t *)s->tables, name, columns)
        if (same(name, table, fold)) {
            if (ret_columns)
                *ret_columns = json_is_array(columns) ? columns : NULL;
            return true;
        }
    return false;
}

bool sql_lists_columns(const struct sql *s)
{
    const char *name;
    json_t *columns;
    json_object_foreach((json_t *)s->tables, name, columns)
        if (json_is_array(columns))
            return true;
    return false;
}

bool sql_function_added(const struct sql *s, const char *name)
{
    const json_t *added = json_object_get(s->spec, "functions");
    return added && sql_has_column(added, name, true);
}

bool sql_function_allowed(const struct sql *s, enum sql_engine engine, const char *name, int *ret_count)
{
    *ret_count = 0;
    if (sql_function_added(s, name))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (functions[i].engines & (int)engine && same(functions[i].name, name, engine == SQL_SQLITE)) {
            *ret_count = functions[i].count;
            return true;
        }
    return false;
}

/* "allowed: products (id, name), orders"; a hint that is too long is cut, and ends with dots. */
static void list_tables(const struct sql *s, char *hint, size_t size)
{
    AUTO_BUF out = {.max = size - 1};
    const char *name, *sep = "allowed: ";
    json_t *columns;
    json_object_foreach((json_t *)s->tables, name, columns) {
        size_t i;
        const json_t *column;
        gb_buf_printf(&out, "%s%s", sep, name);
        sep = ", ";
        if (!json_is_array(columns))
            continue;
        json_array_foreach(columns, i, column)
            gb_buf_printf(&out, "%s%s", i ? ", " : " (", json_string_value(column));
        gb_buf_puts(&out, ")");
    }
    memcpy(hint, out.data ? out.data : "", out.len);
    hint[out.len] = '\0';
    if (gb_buf_truncated(&out))
        memcpy(hint + out.len - 4, " ...", 5);
}

void sql_deny(struct sql *s, const char *hint, const char *format, ...)
{
    char reason[sizeof(s->call->denials[0].reason)], tables[sizeof(s->call->denials[0].hint)];
    va_list ap;
    va_start(ap, format);
    vsnprintf(reason, sizeof(reason), format, ap);
    va_end(ap);
    list_tables(s, tables, sizeof(tables));
    gb_denial_add(s->call->denials, &s->call->denial_count, GB_DENIAL_SQL, hint ? hint : tables, "%s",
                  reason);
}

void sql_fail(struct sql *s, const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    int len = vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    json_decref(s->call->result);
    s->call->result = json_pack("{s:o}", "error",
                                sql_text(text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1));
    s->call->failed = true;
}

void sql_fail_time(struct sql *s)
{
    const json_t *seconds = json_object_get(s->spec, "timeout_seconds");
    sql_fail(s, "the statement was stopped: it took longer than %g seconds (timeout_seconds)",
             seconds ? json_number_value(seconds) : 10.0);
}

bool sql_answered(const struct sql *s)
{
    return s->call->denial_count || s->call->failed;
}

int64_t sql_remaining_ms(const struct sql *s)
{
    const int64_t left_us = s->deadline_us - gb_clock_us();
    return left_us > 0 ? left_us / 1000 + 1 : 0;
}

bool sql_room(struct sql *s, size_t bytes)
{
    if (!s->cut_by && (int64_t)(s->bytes + bytes) > s->max_bytes)
        s->cut_by = "max_bytes";
    return !s->cut_by;
}

json_t *sql_text(const char *text, size_t len)
{
    AUTO_BUF out = {.max = 3 * len + 1};
    json_t *whole = json_stringn(text, len);
    if (whole)
        return whole;
    for (size_t i = 0; i < len;) {
        const size_t n = gb_text_utf8_len(text + i, len - i);
        if (n)
            gb_buf_add(&out, text + i, n);
        else
            gb_buf_puts(&out, "\xEF\xBF\xBD");
        i += n ? n : 1;
    }
    return out.failed ? NULL : json_stringn(out.data ? out.data : "", out.len);
}

json_t *sql_blob(const void *data, size_t len)
{
    AUTO_BUF out = {.max = len / 3 * 4 + 8};
    struct gb_json j = {.out = &out, .first = true};
    gb_json_base64(&j, NULL, data, len);
    if (out.failed || out.len < 2)
        return NULL;
    return json_pack("{s:s#}", "base64", out.data + 1, (int)(out.len - 2));
}

json_t *sql_number(const char *text)
{
    size_t digits = 0;
    bool leading = true, exponent = false;
    for (const char *p = text; *p; p++) {
        exponent = exponent || *p == 'e' || *p == 'E';
        leading = leading && (*p < '1' || *p > '9');
        digits += !leading && !exponent && *p >= '0' && *p <= '9';
    }
    if (digits <= SQL_FLOAT_DIGITS || !strpbrk(text, ".eE")) {
        /* The reader refuses what is no JSON number (NaN, Infinity) and integers that fit no int64. */
        json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
        if (json_is_number(number))
            return number;
        json_decref(number);
    }
    return sql_text(text, strlen(text));
}

static size_t count_values(const json_t *row)
{
    size_t i, count = 1;
    const json_t *cell;
    json_array_foreach(row, i, cell)
        count += 1 + json_object_size(cell);
    return count;
}

bool sql_add_row(struct sql *s, json_t *row)
{
    const size_t bytes = json_dumpb(row, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(SQL_FLOAT_DIGITS)) + 1,
                 values = count_values(row);
    if ((int64_t)json_array_size(s->rows) >= s->max_rows)
        s->cut_by = s->cut_by ? s->cut_by : "max_rows";
    else if (s->values + values > MAX_VALUES)
        s->cut_by = s->cut_by ? s->cut_by : "the number of values in a reply";
    if (!sql_room(s, bytes)) {
        json_decref(row);
        return false;
    }
    s->bytes += bytes;
    s->values += values;
    if (json_array_append_new(s->rows, row))
        s->cut_by = "memory";
    return !s->cut_by;
}

bool sql_argument(struct sql *s, const char *name, const json_t **ret_value)
{
    static const json_t *nothing;
    const json_t *value = json_object_get(s->call->arguments, name);
    if (!nothing)
        nothing = json_null();
    if (json_is_object(value) || json_is_array(value) ||
        (json_is_string(value) && (json_string_length(value) > SQL_TEXT_BYTES ||
                                   strlen(json_string_value(value)) != json_string_length(value)))) {
        gb_denial_add(s->call->denials, &s->call->denial_count, GB_DENIAL_ARGUMENTS, NULL,
                      "%s: must be a text of at most %d bytes without NUL, a number, true, false or null",
                      name, SQL_TEXT_BYTES);
        return false;
    }
    *ret_value = value ? value : nothing;
    return true;
}

/* --- the tool --- */

static int64_t limit(const json_t *spec, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(spec, name);
    return value ? json_integer_value(value) : otherwise;
}

static bool find_text(struct sql *s)
{
    const json_t *fixed = json_object_get(s->spec, "statement"),
                 *text = fixed ? fixed : json_object_get(s->call->arguments, "query");
    s->fixed = fixed;
    s->text = json_string_value(text);
    s->len = json_string_length(text);
    if (s->text && s->len && s->len <= SQL_TEXT_BYTES && strlen(s->text) == s->len)
        return true;
    gb_denial_add(s->call->denials, &s->call->denial_count, GB_DENIAL_ARGUMENTS, NULL,
                  "query: must be one SQL statement of 1 to %d bytes of text, without NUL", SQL_TEXT_BYTES);
    return false;
}

static int give_result(struct sql *s, struct gb_err *err)
{
    json_t *result = json_object();
    const size_t count = json_array_size(s->rows);
    if (s->affected >= 0)
        json_object_set_new(result, "rows_affected", json_integer(s->affected));
    if (s->affected < 0 || json_array_size(s->columns)) {
        json_object_set_new(result, "columns", TAKE_PTR(s->columns));
        json_object_set_new(result, "rows", TAKE_PTR(s->rows));
        json_object_set_new(result, "row_count", json_integer((json_int_t)count));
        json_object_set_new(result, "truncated", json_boolean(s->cut_by != NULL));
        if (s->cut_by)
            json_object_set_new(result, "truncated_by", json_string(s->cut_by));
    }
    if (!result)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "cannot hold the result");
    s->call->result = result;
    return 0;
}

int tool_sql(struct tool_call *call, struct gb_err *err)
{
    const json_t *spec = call->tool->spec, *seconds = json_object_get(spec, "timeout_seconds");
    const char *path = json_string_value(json_object_get(spec, "sqlite")),
               *conninfo = json_string_value(json_object_get(spec, "postgresql"));
    struct sql s = {.call = call, .spec = spec, .tables = json_object_get(spec, "tables"), .affected = -1};
    int r = 0;
    if (!path == !conninfo || !json_object_size(s.tables))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "sql: needs `tables`, and either `sqlite` or `postgresql`");
    s.write = json_is_true(json_object_get(spec, "write"));
    s.max_rows = limit(spec, "max_rows", 1000);
    s.max_bytes = limit(spec, "max_bytes", 1000000);
    s.deadline_us = gb_clock_us() + (int64_t)((seconds ? json_number_value(seconds) : 10) * 1e6);
    if (call->deadline_us && call->deadline_us < s.deadline_us)
        s.deadline_us = call->deadline_us;
    if (!find_text(&s))
        return 0;
    s.columns = json_array();
    s.rows = json_array();
    if (!s.columns || !s.rows)
        r = gb_err_set(err, GB_ERR_BUSY, ENOMEM, "cannot hold the result");
    else
        r = path ? sql_sqlite_run(&s, path, err) : sql_postgres_run(&s, conninfo, err);
    if (!r && !sql_answered(&s))
        r = give_result(&s, err);
    json_decref(s.columns);
    json_decref(s.rows);
    return r;
}
