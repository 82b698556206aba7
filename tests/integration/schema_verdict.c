/* What the JSON Schema validator says. Lines on standard input, each a JSON object: `schema`, `values`, and
 * perhaps `documents`, `closed`, `strict`, `format`. For each line one line of JSON: {"error": "why the
 * schema was refused"} or
 * {"problems": [[["path", "text"]...]...], "steps": [...]}, a list for each value, empty if it is valid. For
 * test_schema.py. */
#include "base/auto.h"
#include "schema/schema.h"

#include <string.h>

static json_t *check_all(const struct gb_schema *s, const json_t *values, json_t *steps)
{
    json_t *all = json_array(), *value;
    size_t i;
    json_array_foreach((json_t *)values, i, value) {
        struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
        uint64_t count = 0;
        json_t *list = json_array();
        const size_t n = gb_schema_check_steps(s, value, "value", problems, &count);
        for (size_t j = 0; j < n; j++)
            json_array_append_new(list, json_pack("[ss]", problems[j].path, problems[j].text));
        json_array_append_new(all, list);
        json_array_append_new(steps, json_integer((json_int_t)count));
    }
    return all;
}

static json_t *answer(const char *line, size_t len, json_t **documents)
{
    AUTO_JSON row = NULL;
    AUTO_SCHEMA s = NULL;
    struct gb_err err = {0};
    if (gb_json_read(line, len, &row, &err))
        return json_pack("{ss}", "unreadable", err.text);
    json_t *given = json_object_get(row, "documents");
    if (given) { /* for this line and those that follow */
        json_decref(*documents);
        *documents = json_incref(given);
    }
    const struct gb_schema_options options = {
            .ignore_unknown = !json_is_true(json_object_get(row, "strict")),
            .closed = json_is_true(json_object_get(row, "closed")),
            .assert_format = json_is_true(json_object_get(row, "format")),
            .documents = *documents,
    };
    if (gb_schema_new(json_object_get(row, "schema"), &options, &s, &err))
        return json_pack("{ss}", "error", err.text);
    json_t *steps = json_array();
    json_t *problems = check_all(s, json_object_get(row, "values"), steps);
    return json_pack("{soso}", "problems", problems, "steps", steps);
}

int main(void)
{
    AUTO_FREE char *line = NULL;
    AUTO_JSON documents = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, stdin)) > 0) {
        AUTO_JSON reply = answer(line, (size_t)n, &documents);
        if (!reply || json_dumpf(reply, stdout, JSON_COMPACT))
            return 1;
        putchar('\n');
    }
    return 0;
}
