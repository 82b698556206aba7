/* The trees as a whole, against policy.schema.json. What people get wrong most (a misspelt name, none or two
 * of what must be one) is looked for first, by the same schema, because it can then be told better. */
#include "policy/build.h"

#include "base/auto.h"
#include "policy/embedded.h"

#include <errno.h>
#include <string.h>

#define ROOT "policy"

/* A value on its way through the schema. */
struct walk {
    struct gb_build *b;
    const json_t *definitions;
    char path[GB_BUILD_PATH];
};

static int walk(struct walk *w, const json_t *schema, json_t *value);

static const json_t *definition(const struct walk *w, const json_t *schema)
{
    static const char prefix[] = "#/$defs/";
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    while (ref && !strncmp(ref, prefix, strlen(prefix))) {
        schema = json_object_get(w->definitions, ref + strlen(prefix));
        ref = json_string_value(json_object_get(schema, "$ref"));
    }
    return schema;
}

static int unknown_member(struct walk *w, const json_t *properties, const char *name)
{
    struct gb_build_names names = {0};
    const char *known;
    json_t *unused;
    char path[GB_BUILD_PATH + 80];
    json_object_foreach((json_t *)properties, known, unused)
        gb_build_names_add(&names, known);
    snprintf(path, sizeof(path), "%s.%.64s", w->path, name);
    return gb_build_unknown(w->b, path, "field", name, &names);
}

/* The way down and back up again. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as policy.schema.json */
static int enter(struct walk *w, const json_t *schema, json_t *value, const char *name, size_t index)
{
    const size_t len = strlen(w->path);
    if (name)
        snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "." : "", name);
    else
        snprintf(w->path + len, sizeof(w->path) - len, "[%zu]", index);
    int r = walk(w, schema, value);
    if (!r)
        w->path[len] = '\0';
    return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as policy.schema.json */
static int walk_object(struct walk *w, const json_t *schema, json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member) {
        const json_t *inner = json_object_get(properties, name);
        if (!inner && json_is_false(more))
            return unknown_member(w, properties, name);
        inner = inner ? inner : more;
        int r = json_is_object(inner) ? enter(w, inner, member, name, 0) : 0;
        if (r)
            return r;
    }
    return 0;
}

/* oneOf and anyOf whose parts say only which members there must be. */
static int check_choice(struct walk *w, const json_t *parts, const json_t *value, bool exactly_one)
{
    char all[160] = "", found[160] = "";
    size_t i, count = 0;
    json_t *part;
    json_array_foreach((json_t *)parts, i, part) {
        const char *name = json_string_value(json_array_get(json_object_get(part, "required"), 0));
        if (!name || json_object_size(part) != 1)
            return 0;
        size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", used ? ", " : "", name);
        if (!json_object_get(value, name))
            continue;
        used = strlen(found);
        snprintf(found + used, sizeof(found) - used, "%s%s", used ? " and " : "", name);
        count++;
    }
    if (!i || (exactly_one ? count == 1 : count >= 1))
        return 0;
    return gb_build_fail(w->b, w->path, "it takes %s of: %s; it has %s",
                         exactly_one ? "exactly one" : "at least one", all, count ? found : "none of them");
}

/* Alternatives, of which an object can only mean the one for objects. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as policy.schema.json */
static int walk_alternatives(struct walk *w, const json_t *parts, json_t *value)
{
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        int r = type && !strcmp(type, "object") ? walk(w, part, value) : 0;
        if (r)
            return r;
    }
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as policy.schema.json */
static int walk(struct walk *w, const json_t *schema, json_t *value)
{
    schema = definition(w, schema);
    const json_t *items = json_object_get(schema, "items");
    size_t i;
    json_t *item;
    int r = 0;
    if (json_is_object(value)) {
        r = walk_object(w, schema, value);
        r = r ? r : check_choice(w, json_object_get(schema, "oneOf"), value, true);
        r = r ? r : check_choice(w, json_object_get(schema, "anyOf"), value, false);
        r = r ? r : walk_alternatives(w, json_object_get(schema, "oneOf"), value);
    }
    if (items && json_is_array(value))
        json_array_foreach(value, i, item) {
            r = r ? r : enter(w, items, item, NULL, i);
        }
    return r;
}

/* What a secret takes. The validator quotes what it found, and that may be the secret. */
static const char *secret_takes(const char *path)
{
    static const struct {
        const char *end, *text;
    } rows[] = {
            {".file", "it takes the absolute path of a file that holds the secret"},
            {".env", "it takes the name of an environment variable that holds the secret"},
            {".value", "it takes text, in quotes, of 1 to 65536 characters"},
            {"",
             "it takes names with one of file: /path, env: NAME and value: text each; names have up to 63 "
             "letters, digits, '_', '.' and '-', and there are up to 64"}};
    size_t i = 0;
    while (strlen(path) < strlen(rows[i].end) ||
           strcmp(path + strlen(path) - strlen(rows[i].end), rows[i].end))
        i++;
    return rows[i].text;
}

/* The first problem, by its place; the number of the others. */
static int report(struct gb_build *b, const struct gb_schema_problem *problem, size_t count)
{
    const char *path = problem->path;
    char more[48] = "";
    if (!strncmp(path, ROOT, strlen(ROOT)))
        path += strlen(ROOT) + (path[strlen(ROOT)] == '.');
    if (count > 1)
        snprintf(more, sizeof(more), " (and %zu more)", count - 1);
    const bool secret = !strncmp(path, "secrets", strlen("secrets"));
    return gb_build_fail(b, path, "%s%s", secret ? secret_takes(path) : problem->text, more);
}

static json_t *document_of(const struct gb_config *c)
{
    const struct {
        const char *name;
        json_t *tree;
    } parts[] = {{"profiles", c->profiles},     {"principals", c->principals},
                 {"tools", c->tools},           {"screening", c->screening},
                 {"sanitising", c->sanitising}, {"sanitising_off", c->sanitising_off},
                 {"secrets", c->secrets}};
    json_t *document = json_object();
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i].tree && json_object_set(document, parts[i].name, parts[i].tree)) {
            json_decref(document);
            return NULL;
        }
    return document;
}

int gb_build_document(struct gb_build *b)
{
    AUTO_JSON schema = NULL;
    AUTO_SCHEMA compiled = NULL;
    AUTO_JSON document = document_of(b->config);
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    if (!document)
        return gb_err_set(b->err, GB_ERR_INTERNAL, ENOMEM, "check the policy");
    if (!json_object_size(document))
        return 0; /* nothing was configured */
    int r = gb_json_read((const char *)gb_policy_schema, gb_policy_schema_bytes, &schema, b->err);
    r = r ? r : gb_schema_new(schema, &(struct gb_schema_options){0}, &compiled, b->err);
    if (r) {
        gb_err_wrap(b->err, "policy.schema.json");
        return r;
    }
    struct walk w = {.b = b, .definitions = json_object_get(schema, "$defs")};
    r = walk(&w, schema, document);
    const size_t count = r ? 0 : gb_schema_check(compiled, document, ROOT, problems);
    return count ? report(b, problems, count) : r;
}
