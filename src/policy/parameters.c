/* Schemas of arguments: made for tools that come without, and asked what they say. */
#include "policy/kinds.h"

#include "base/auto.h"
#include "policy/template.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>

#define REF_MOST 8

/* --- made --- */

/* An object of exactly these properties, all of them required but those of `optional`. Takes both over. */
static json_t *object_of(json_t *required, json_t *optional)
{
    AUTO_JSON names = json_array();
    const char *name;
    json_t *property;
    json_object_foreach(required, name, property)
        if (json_array_append_new(names, json_string(name))) {
            json_decref(required);
            json_decref(optional);
            return NULL;
        }
    if (optional && json_object_update(required, optional)) {
        json_decref(required);
        required = NULL;
    }
    json_decref(optional);
    return json_pack("{s:s, s:o, s:O, s:b}", "type", "object", "properties", required, "required", names,
                     "additionalProperties", 0);
}

static json_t *parameters_code(const json_t *spec)
{
    json_t *language = NULL;
    if (!json_object_get(spec, "language")) {
        AUTO_JSON names = json_array();
        for (size_t i = 0; i < gb_runtime_count; i++)
            if (json_array_append_new(names, json_string(gb_runtimes[i].name)))
                return NULL;
        language = json_pack("{s:{s:s, s:O, s:s}}", "language", "type", "string", "enum", names,
                             "description", "the language of the code; python if it is left out");
    }
    return object_of(json_pack("{s:{s:s, s:s}}", "code", "type", "string", "description", "the code to run"),
                     language);
}

static int add_text(void *properties, const char *name)
{
    return json_object_set_new(properties, name, json_pack("{s:s}", "type", "string"));
}

static json_t *parameters_command(const json_t *spec)
{
    const json_t *argv = json_object_get(spec, "argv");
    if (!argv)
        return object_of(
                json_pack("{s:{s:s, s:s}}", "command", "type", "string", "description",
                          "the command line: programs with their words, |, &&, ||, ; and redirections"),
                NULL);
    AUTO_JSON properties = json_object();
    for (size_t i = 0; i < json_array_size(argv); i++)
        if (gb_command_each_name(json_string_value(json_array_get(argv, i)), add_text, properties))
            return NULL;
    return object_of(TAKE_PTR(properties), NULL);
}

static json_t *parameters_sql(const json_t *spec)
{
    const char *statement = json_string_value(json_object_get(spec, "statement")), *name;
    json_t *unused;
    if (statement) {
        AUTO_JSON properties = json_object();
        struct gb_template_item item;
        for (size_t at = 0; gb_template_next_sql(statement, &at, &item);)
            if (json_object_set_new(
                        properties, item.name,
                        json_pack("{s:[s,s,s,s]}", "type", "string", "number", "boolean", "null")))
                return NULL;
        return object_of(TAKE_PTR(properties), NULL);
    }
    AUTO_BUF text = {.max = 4096};
    gb_buf_printf(&text, "one %s statement; tables:",
                  json_is_true(json_object_get(spec, "write")) ? "SQL" : "SELECT");
    json_object_foreach(json_object_get(spec, "tables"), name, unused)
        gb_buf_printf(&text, " %s", name);
    return object_of(
            json_pack("{s:{s:s, s:s}}", "query", "type", "string", "description", text.data ? text.data : ""),
            NULL);
}

static json_t *parameters_email(const json_t *spec)
{
    return object_of(json_pack("{s:{s:s, s:O}, s:{s:s, s:i}, s:{s:s}}", "recipient", "type", "string", "enum",
                               json_object_get(spec, "recipients"), "subject", "type", "string", "maxLength",
                               900, "body", "type", "string"),
                     NULL);
}

/* What the arguments of an upstream are, only the operator can say. */
static json_t *parameters_http(const json_t *spec)
{
    (void)spec;
    return object_of(json_object(), NULL);
}

json_t *gb_kind_parameters(enum gb_tool_kind kind, const json_t *spec)
{
    static json_t *(*const make[GB_TOOL_KINDS])(const json_t *spec) = {[GB_TOOL_CODE] = parameters_code,
                                                                       [GB_TOOL_COMMAND] = parameters_command,
                                                                       [GB_TOOL_SQL] = parameters_sql,
                                                                       [GB_TOOL_HTTP] = parameters_http,
                                                                       [GB_TOOL_EMAIL] = parameters_email};
    return make[kind](spec);
}

/* --- defaults --- */

int gb_policy_defaults(const struct gb_tool *tool, json_t *arguments)
{
    const char *name;
    json_t *property;
    json_object_foreach(json_object_get(tool->parameters, "properties"), name, property) {
        const json_t *value = json_object_get(property, "default");
        if (value && !json_object_get(arguments, name) &&
            json_object_set_new(arguments, name, json_deep_copy(value)))
            return -ENOMEM;
    }
    return 0;
}

/* --- asked --- */

/* "#/$defs/a": what it refers to, within the same schema; itself if it refers to nothing. */
static const json_t *follow(const json_t *root, const json_t *schema)
{
    for (int i = 0; i < REF_MOST; i++) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        const char *slash = ref && !strncmp(ref, "#/", 2) ? strchr(ref + 2, '/') : NULL;
        char container[32];
        if (!slash || (size_t)(slash - ref - 2) >= sizeof(container))
            return schema;
        snprintf(container, sizeof(container), "%.*s", (int)(slash - ref - 2), ref + 2);
        const json_t *target = json_object_get(json_object_get(root, container), slash + 1);
        if (!target)
            return schema;
        schema = target;
    }
    return schema;
}

/* The schema itself and the parts of its allOf, anyOf and oneOf: calls look() for each until it returns
 * something. */
static const json_t *each_part(const json_t *root, const char *name,
                               const json_t *(*look)(const json_t *part, const char *name), bool sure)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    const json_t *top = follow(root, root);
    const json_t *found = look(top, name);
    if (!found && top != root)
        found = look(root, name);
    for (size_t l = 0; !found && l < (sure ? 1 : ARRAY_LEN(lists)); l++) {
        const json_t *list = json_object_get(top, lists[l]);
        for (size_t i = 0; !found && i < json_array_size(list); i++)
            found = look(follow(root, json_array_get(list, i)), name);
    }
    return found;
}

static const json_t *look_property(const json_t *part, const char *name)
{
    return json_object_get(json_object_get(part, "properties"), name);
}

static const json_t *look_required(const json_t *part, const char *name)
{
    const json_t *required = json_object_get(part, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *text = json_string_value(json_array_get(required, i));
        if (text && !strcmp(text, name))
            return required;
    }
    return NULL;
}

const json_t *gb_kind_property(const json_t *parameters, const char *name)
{
    const json_t *property = each_part(parameters, name, look_property, false);
    return property ? follow(parameters, property) : NULL;
}

bool gb_policy_takes(const struct gb_tool *tool, const char *name)
{
    return gb_kind_property(tool->parameters, name) != NULL;
}

bool gb_kind_is_sure(const json_t *parameters, const char *name)
{
    return each_part(parameters, name, look_required, true) ||
           json_object_get(look_property(parameters, name), "default"); /* see gb_policy_defaults */
}

bool gb_kind_takes(const json_t *property, const char *type)
{
    const json_t *types = json_object_get(property, "type");
    const char *one = json_string_value(types);
    if (!types)
        return true;
    if (one)
        return !strcmp(one, type) || (!strcmp(one, "integer") && !strcmp(type, "number"));
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *text = json_string_value(json_array_get(types, i));
        if (text && (!strcmp(text, type) || (!strcmp(text, "integer") && !strcmp(type, "number"))))
            return true;
    }
    return false;
}
