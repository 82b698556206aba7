/* The check of PostgreSQL statements. What it lets pass is looked at by another reader, the parser's JSON
 * form, which knows nothing of the check's own rules: one SELECT, only listed tables, each with its schema,
 * of users nothing but the listed columns, only listed functions. And it passes again. */
#include "fuzz.h"

#include "base/text.h"
#include "broker/sql_check.h"
#include "json/json.h"

#include <pg_query.h>

#define POLICY "{\"tables\": {\"products\": true, \"users\": [\"id\", \"name\"]}, \"functions\": [\"vat\"]}"

/* tool_sql is not called. */
int sql_sqlite_run(struct sql *s, const char *path, struct gb_err *err)
{
    (void)s, (void)path, (void)err;
    return -1;
}

int sql_postgres_run(struct sql *s, const char *conninfo, struct gb_err *err)
{
    (void)s, (void)conninfo, (void)err;
    return -1;
}

/* Is `name` the name of a WITH clause anywhere? */
static bool has_cte(const json_t *node, const char *name)
{
    const char *key, *cte = json_string_value(json_object_get(node, "ctename"));
    size_t i;
    json_t *child;
    if (cte && !strcmp(cte, name))
        return true;
    json_object_foreach((json_t *)node, key, child)
        if (has_cte(child, name))
            return true;
    json_array_foreach(node, i, child)
        if (has_cte(child, name))
            return true;
    return false;
}

static const char *text_of(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

static const char *last_name(const json_t *list)
{
    return text_of(json_object_get(json_array_get(list, json_array_size(list) - 1), "String"), "sval");
}

static void check_table(const json_t *root, const json_t *table, bool narrow)
{
    const char *name = text_of(table, "relname"), *schema = text_of(table, "schemaname");
    CHECK(!*text_of(table, "catalogname") && json_is_true(json_object_get(table, "inh")));
    if (!*schema)
        CHECK(has_cte(root, name) && strncmp(name, "pg_", 3) != 0);
    else
        CHECK(!strcmp(schema, "public") && (!strcmp(name, "products") || (!strcmp(name, "users") && narrow)));
}

/* SELECT id, name FROM public.users, in any order, and nothing else. */
static bool is_narrow(const json_t *select)
{
    static const char *const keys[] = {"targetList", "fromClause", "limitOption", "op"};
    const json_t *from = json_object_get(select, "fromClause"), *list = json_object_get(select, "targetList");
    const char *key;
    size_t i;
    json_t *value;
    json_object_foreach((json_t *)select, key, value) {
        bool known = false;
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            known = known || !strcmp(keys[k], key);
        if (!known)
            return false;
    }
    json_array_foreach(list, i, value) {
        const json_t *ref = json_object_get(json_object_get(json_object_get(value, "ResTarget"), "val"),
                                            "ColumnRef"),
                     *fields = json_object_get(ref, "fields");
        if (json_array_size(fields) != 1 ||
            (strcmp(last_name(fields), "id") != 0 && strcmp(last_name(fields), "name") != 0))
            return false;
    }
    return json_array_size(list) && json_array_size(from) == 1 &&
           json_object_get(json_array_get(from, 0), "RangeVar");
}

static void check_function(const struct sql *s, const json_t *call)
{
    const json_t *name = json_object_get(call, "funcname");
    int count;
    CHECK(json_array_size(name) <= 2 && sql_function_allowed(s, SQL_POSTGRESQL, last_name(name), &count));
    CHECK(strncmp(last_name(name), "pg_", 3) != 0 && strncmp(last_name(name), "lo_", 3) != 0);
}

static void check_node(const struct sql *s, const json_t *root, const json_t *node, bool narrow)
{
    const char *key;
    size_t i;
    json_t *child;
    json_object_foreach((json_t *)node, key, child) {
        const size_t len = strlen(key);
        CHECK(len < 4 || strcmp(key + len - 4, "Stmt") != 0 || !strcmp(key, "SelectStmt"));
        CHECK(strcmp(key, "intoClause") != 0 && strcmp(key, "lockingClause") != 0 &&
              strcmp(key, "ParamRef") != 0);
        if (!strcmp(key, "RangeVar"))
            check_table(root, child, narrow);
        if (!strcmp(key, "FuncCall"))
            check_function(s, child);
        if (!strcmp(key, "TypeName") || !strcmp(key, "typeName"))
            CHECK(strncmp(last_name(json_object_get(child, "names")), "reg", 3) != 0);
        check_node(s, root, child,
                   !strcmp(key, "SelectStmt") || !strcmp(key, "larg") || !strcmp(key, "rarg")
                           ? is_narrow(child)
                           : narrow);
    }
    json_array_foreach(node, i, child)
        check_node(s, root, child, narrow);
}

static void look_again(const struct sql *s, const char *text)
{
    PgQueryParseResult parsed = pg_query_parse(text);
    CHECK(!parsed.error);
    json_t *root = json_loads(parsed.parse_tree, 0, NULL);
    if (root) { /* deeper than jansson goes: nothing to compare */
        const json_t *list = json_object_get(root, "stmts");
        CHECK(json_array_size(list) == 1 &&
              json_object_get(json_object_get(json_array_get(list, 0), "stmt"), "SelectStmt"));
        check_node(s, root, root, false);
    }
    json_decref(root);
    pg_query_free_parse_result(parsed);
}

/* Whether the text passes; the text that would run, if so. */
static char *check(const json_t *spec, const char *text, bool *ret_too_long)
{
    struct tool_call call = {0};
    struct sql s = {.call = &call,
                    .spec = spec,
                    .tables = json_object_get(spec, "tables"),
                    .text = text,
                    .len = strlen(text)};
    struct sql_checked checked = {0};
    char *run = NULL;
    if (sql_check(&s, "public", &checked)) {
        CHECK(!checked.writes && !call.denial_count && !call.failed);
        look_again(&s, checked.text);
        run = checked.text;
        checked.text = NULL;
    } else {
        CHECK(call.denial_count || call.failed);
        *ret_too_long = call.denial_count && (strstr(call.denials[0].reason, "more than") ||
                                              strstr(call.denials[0].reason, "too"));
    }
    sql_check_done(&checked);
    json_decref(call.result);
    return run;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    json_t *spec = json_loads(POLICY, 0, NULL);
    bool too_long = false;
    CHECK(text && spec);
    if (size)
        memcpy(text, data, size);
    if (size && size <= SQL_TEXT_BYTES && gb_text_find_binary(text, size) == size) {
        char *run = check(spec, text, &too_long);
        if (run && strlen(run) <= SQL_TEXT_BYTES) {
            char *again = check(spec, run, &too_long);
            CHECK(again || too_long);
            free(again);
        }
        free(run);
    }
    free(text);
    json_decref(spec);
    return 0;
}
