/* The JSON Schema validator, on a schema and a value with a NUL between them. The same input gets the same
 * answer; work and texts are in bounds; what is valid by a reference to the schema is so by the schema
 * itself, and is not by its `not`. */
#include "fuzz.h"

#include "base/text.h"
#include "schema/schema.h"

#define STEPS_MOST 11000000 /* of the verdict and the reasons */

enum verdict { VALID, INVALID, UNDECIDED, NO_SCHEMA };

static void check_text(const char *text, size_t size)
{
    char copy[512];
    CHECK(size <= sizeof(copy));
    CHECK(memchr(text, 0, size) && *text);
    memcpy(copy, text, size);
    gb_text_defuse(copy);
    CHECK(!strcmp(copy, text));
}

static enum verdict judge(const struct gb_schema *s, const json_t *value)
{
    struct gb_schema_problem first[GB_SCHEMA_PROBLEMS], second[GB_SCHEMA_PROBLEMS];
    uint64_t steps = 0, again = 0;
    const size_t count = gb_schema_check_steps(s, value, "value", first, &steps);
    CHECK(steps <= STEPS_MOST);
    CHECK(count == gb_schema_check_steps(s, value, "value", second, &again) && steps == again);
    CHECK(count <= GB_SCHEMA_PROBLEMS);
    for (size_t i = 0; i < count; i++) {
        check_text(first[i].path, sizeof(first[i].path));
        check_text(first[i].text, sizeof(first[i].text));
        CHECK(!strcmp(first[i].path, second[i].path) && !strcmp(first[i].text, second[i].text));
    }
    if (!count)
        return VALID;
    return strncmp(first[0].text, "cannot be checked", 17) && strncmp(first[0].text, "has more than", 13)
                   ? INVALID
                   : UNDECIDED;
}

/* The schema as a document that another refers to. */
static enum verdict judge_within(const char *outer, const json_t *schema, const json_t *value, bool lenient)
{
    json_t *documents = json_pack("{sO}", "doc:s", schema), *json = NULL;
    const struct gb_schema_options options = {.ignore_unknown = lenient, .documents = documents};
    struct gb_schema *s = NULL;
    enum verdict verdict = NO_SCHEMA;
    CHECK(!gb_json_read(outer, strlen(outer), &json, NULL));
    if (!gb_schema_new(json, &options, &s, NULL))
        verdict = judge(s, value);
    gb_schema_free(s);
    json_decref(json);
    json_decref(documents);
    return verdict;
}

static void compare(const json_t *schema, const json_t *value, bool lenient, enum verdict plain)
{
    static const struct {
        const char *outer;
        bool same;
    } rows[] = {
            {"{\"allOf\":[{\"$ref\":\"doc:s\"},{\"$ref\":\"doc:s\"}]}", true},
            {"{\"not\":{\"$ref\":\"doc:s\"}}", false},
            {"{\"oneOf\":[{\"$ref\":\"doc:s\"},false]}", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const enum verdict found = judge_within(rows[i].outer, schema, value, lenient);
        if (found == VALID || found == INVALID)
            CHECK((found == plain) == rows[i].same);
    }
}

static void run(const json_t *schema, const json_t *value, bool lenient)
{
    const struct gb_schema_options options = {
            .ignore_unknown = lenient, .assert_format = false, .closed = false, .documents = NULL};
    struct gb_schema *s = NULL;
    struct gb_err err = {0};
    if (gb_schema_new(schema, &options, &s, &err)) {
        CHECK(!s && err.code == GB_ERR_CONFIG);
        check_text(err.text, sizeof(err.text));
        return;
    }
    const enum verdict verdict = judge(s, value);
    gb_schema_free(s);
    if (verdict == VALID || verdict == INVALID)
        compare(schema, value, lenient, verdict);
}

/* The stricter options refuse more, never less. */
static void run_strictly(const json_t *schema, const json_t *value)
{
    const struct gb_schema_options strict = {.assert_format = true, .closed = true};
    const struct gb_schema_options loose = {.ignore_unknown = true};
    struct gb_schema *s = NULL, *l = NULL;
    if (!gb_schema_new(schema, &strict, &s, NULL)) {
        CHECK(!gb_schema_new(schema, &loose, &l, NULL));
        CHECK(judge(s, value) != VALID || judge(l, value) != INVALID);
    }
    gb_schema_free(s);
    gb_schema_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *split = size ? memchr(data, 0, size) : NULL;
    json_t *schema = NULL, *value = NULL;
    if (!split)
        return 0;
    const size_t n = (size_t)(split - data);
    char *first = fuzz_copy(data, n), *second = fuzz_copy(split + 1, size - n - 1);
    if (!gb_json_read(first, n, &schema, NULL) && !gb_json_read(second, size - n - 1, &value, NULL)) {
        run(schema, value, false);
        run(schema, value, true);
        run_strictly(schema, value);
    }
    json_decref(schema);
    json_decref(value);
    free(first);
    free(second);
    return 0;
}
