#include "policy/kinds.h"

#include "base/auto.h"
#include "policy/template.h"
#include "spec/spec.h"

#include <string.h>

/* --- texts with places --- */

static bool has_control(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return true;
    return false;
}

static int unknown_secret(struct gb_build *b, const char *path, const char *given)
{
    struct gb_build_names names = {0};
    for (size_t i = 0; i < b->p->secret_count; i++)
        gb_build_names_add(&names, b->p->secrets[i].name);
    return gb_build_unknown(b, path, "secret", given, &names);
}

static int unknown_argument(struct gb_build *b, const struct gb_tool *tool, const char *path,
                            const char *given)
{
    struct gb_build_names names = {0};
    const char *name;
    json_t *unused;
    json_object_foreach(json_object_get(tool->parameters, "properties"), name, unused)
        gb_build_names_add(&names, name);
    return gb_build_unknown(b, path, "argument in `parameters` called", given, &names);
}

static int check_secret(struct gb_build *b, const char *path, const struct gb_template_item *item,
                        unsigned may)
{
    if (item->bad)
        return gb_build_fail(b, path, "a secret is written {secret:NAME}, without spaces");
    if (!(may & GB_TEXT_SECRETS))
        return gb_build_fail(b, path, "{secret:%s}: a secret must not be put here", item->name);
    const char *value = gb_policy_secret(b->p, item->name);
    if (!value)
        return unknown_secret(b, path, item->name);
    if ((may & GB_TEXT_ONE_LINE) && has_control(value))
        return gb_build_fail(b, path, "{secret:%s}: its value has a line end or another control character",
                             item->name);
    return 0;
}

static int check_argument(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *name,
                          bool whole, unsigned may)
{
    const json_t *property = gb_kind_property(tool->parameters, name);
    if (!(may & GB_TEXT_ARGUMENTS))
        return gb_build_fail(b, path, "{%s}: an argument must not be put here", name);
    if (!property)
        return unknown_argument(b, tool, path, name);
    if (!(whole && (may & GB_TEXT_ANY_TYPE)) && !gb_kind_takes(property, "string") &&
        !gb_kind_takes(property, "number") && !gb_kind_takes(property, "boolean"))
        return gb_build_fail(
                b, path,
                "{%s} is a list, object or null in `parameters`; only text, a number or a boolean "
                "can be put here",
                name);
    const bool may_miss = (may & GB_TEXT_ABSENT) || (whole && (may & GB_TEXT_OPTIONAL));
    if (!may_miss && !gb_kind_is_sure(tool->parameters, name))
        return gb_build_fail(
                b, path,
                "{%s} is needed here, and `parameters` lets it be absent; put it into `required`, "
                "or give it a default",
                name);
    return 0;
}

int gb_kind_check_text(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *text,
                       unsigned may)
{
    struct gb_template_item item;
    size_t at = 0;
    if ((may & GB_TEXT_ONE_LINE) && has_control(text))
        return gb_build_fail(b, path, "it has a line end or another control character");
    while (gb_template_next(text, &at, &item)) {
        if (item.literal)
            continue;
        int r = item.secret
                        ? check_secret(b, path, &item, may)
                        : check_argument(b, tool, path, item.name, gb_template_is_whole(text, &item), may);
        if (r)
            return r;
    }
    return 0;
}

bool gb_kind_has_secret(const char *text)
{
    struct gb_template_item item;
    size_t at = 0;
    while (gb_template_next(text, &at, &item))
        if (item.secret && !item.literal)
            return true;
    return false;
}

int gb_kind_need_text(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *name)
{
    const json_t *property = gb_kind_property(tool->parameters, name);
    const char *kind = gb_tool_kinds[tool->kind];
    char where[GB_BUILD_PATH];
    snprintf(where, sizeof(where), "%s.parameters", path);
    if (!property)
        return gb_build_fail(b, where,
                             "a tool of the kind %s takes the argument `%s`, which is not in `properties`",
                             kind, name);
    if (!gb_kind_takes(property, "string"))
        return gb_build_fail(b, gb_build_path(b, "%s.properties.%s.type", where, name),
                             "a tool of the kind %s takes text as `%s`", kind, name);
    if (!gb_kind_is_sure(tool->parameters, name))
        return gb_build_fail(b, where, "a tool of the kind %s cannot do without `%s`: put it into `required`",
                             kind, name);
    return 0;
}

/* --- code and command --- */

static int check_code(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const char *language = json_string_value(json_object_get(tool->spec, "language"));
    if (language && !gb_runtime_find(language)) {
        struct gb_build_names names = {0};
        for (size_t i = 0; i < gb_runtime_count; i++)
            gb_build_names_add(&names, gb_runtimes[i].name);
        return gb_build_unknown(b, gb_build_path(b, "%s.code.language", path), "language", language, &names);
    }
    if (language && gb_kind_property(tool->parameters, "language"))
        return gb_build_fail(
                b, gb_build_path(b, "%s.code.language", path),
                "it is fixed here, and `parameters` has an argument `language`; leave one of them out");
    return gb_kind_need_text(b, tool, path, "code");
}

/* A word of argv, as gb_command_fill reads it. */
struct word {
    struct gb_build *b;
    const struct gb_tool *tool;
    const char *path, *text;
};

static int check_word(void *context, const char *name)
{
    const struct word *w = context;
    const bool whole = strlen(w->text) == strlen(name) + 2;
    return check_argument(w->b, w->tool, w->path, name, whole, GB_TEXT_ARGUMENTS | GB_TEXT_OPTIONAL);
}

static int refuse_name(void *context, const char *name)
{
    (void)name;
    const struct word *w = context;
    return gb_build_fail(w->b, w->path, "the program is fixed: it takes a name without {…}");
}

static int check_command(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const json_t *argv = json_object_get(tool->spec, "argv");
    if (!argv)
        return gb_kind_need_text(b, tool, path, "command");
    int r = 0;
    for (size_t i = 0; !r && i < json_array_size(argv); i++) {
        char where[GB_BUILD_PATH];
        snprintf(where, sizeof(where), "%s.command.argv[%zu]", path, i);
        struct word w = {b, tool, where, json_string_value(json_array_get(argv, i))};
        if (!i && !*w.text)
            return gb_build_fail(b, where, "it takes the name of a program");
        if (gb_kind_has_secret(w.text))
            return gb_build_fail(b, where, "a secret must not be put here: boxes have none");
        r = gb_command_each_name(w.text, i ? check_word : refuse_name, &w);
    }
    return r;
}

int gb_kind_check(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    static int (*const check[GB_TOOL_KINDS])(struct gb_build * b, const struct gb_tool *tool,
                                             const char *path) = {[GB_TOOL_CODE] = check_code,
                                                                  [GB_TOOL_COMMAND] = check_command,
                                                                  [GB_TOOL_SQL] = gb_kind_check_sql,
                                                                  [GB_TOOL_HTTP] = gb_kind_check_http,
                                                                  [GB_TOOL_EMAIL] = gb_kind_check_email};
    return check[tool->kind](b, tool, path);
}
