/* Tools: kind, parameters, budget, approval. What each kind needs is in kinds.c and its neighbours. */
#include "policy/build.h"

#include "base/auto.h"
#include "policy/kinds.h"

#include <errno.h>
#include <string.h>

/* What there is if nobody says anything: the seeds' two. */
static const char builtin_tools[] = "[{\"name\":\"execute_code\",\"code\":{},\"description\":\"Runs code in "
                                    "a fresh sandbox without network and "
                                    "returns what it prints. Files are kept in /sandbox while it runs.\"},"
                                    "{\"name\":\"execute_command\",\"command\":{},\"description\":\"Runs a "
                                    "command line of allowed programs in a "
                                    "fresh sandbox without network and returns what it prints.\"}]";

/* --- what principals and tools share --- */

void gb_build_budget(const json_t *row, struct gb_budget *ret)
{
    *ret = (struct gb_budget){
            .calls_per_minute = json_integer_value(json_object_get(row, "calls_per_minute")),
            .calls_per_day = json_integer_value(json_object_get(row, "calls_per_day")),
            .concurrent = json_integer_value(json_object_get(row, "concurrent")),
            .cpu_ms_per_day =
                    (int64_t)(json_number_value(json_object_get(row, "cpu_seconds_per_day")) * 1000 + 0.5)};
}

int gb_build_profile(struct gb_build *b, const char *path, const char *name, const struct gb_profile **ret)
{
    struct gb_build_names names = {0};
    for (size_t i = 0; i < b->p->profile_count; i++) {
        if (!strcmp(b->p->profiles[i].name, name)) {
            *ret = &b->p->profiles[i];
            return 0;
        }
        gb_build_names_add(&names, b->p->profiles[i].name);
    }
    return gb_build_unknown(b, path, "profile", name, &names);
}

/* --- one tool --- */

static int check_name(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const struct gb_tool *first = gb_policy_tool(b->p, tool->name);
    char where[GB_BUILD_PATH], other[300];
    if (first == tool)
        return 0;
    snprintf(where, sizeof(where), "tools[%zu].name", (size_t)(first - b->p->tools));
    gb_build_other(b, where, other, sizeof(other));
    return gb_build_fail(b, gb_build_path(b, "%s.name", path),
                         "there are two tools with the name '%s'; the first is %s", tool->name, other);
}

static enum gb_tool_kind kind_of(const json_t *row)
{
    enum gb_tool_kind kind = GB_TOOL_CODE;
    while (kind + 1 < GB_TOOL_KINDS && !json_object_get(row, gb_tool_kinds[kind]))
        kind++;
    return kind;
}

/* A schema that is the operator's: the error begins with its place in the file, then with that in the schema.
 */
static int compile(struct gb_build *b, const char *path, const json_t *schema, bool closed,
                   struct gb_schema **ret)
{
    const struct gb_schema_options options = {.closed = closed};
    return gb_schema_new(schema, &options, ret, b->err) ? gb_build_fail_with(b, path) : 0;
}

static int take_parameters(struct gb_build *b, const json_t *row, const char *path, struct gb_tool *tool)
{
    char where[GB_BUILD_PATH];
    snprintf(where, sizeof(where), "%s.parameters", path);
    tool->parameters = json_object_get(row, "parameters");
    if (!tool->parameters)
        tool->parameters = gb_build_keep(b, gb_kind_parameters(tool->kind, tool->spec));
    if (!tool->parameters)
        return -ENOMEM;
    return compile(b, where, tool->parameters, true, &tool->schema);
}

/* Writing to a database needs a person unless it was said that it does not. */
static int take_approval(struct gb_build *b, const json_t *row, const char *path, struct gb_tool *tool)
{
    const json_t *approval = json_object_get(row, "approval");
    const char *word = json_string_value(approval);
    char where[GB_BUILD_PATH];
    if (!approval)
        tool->approval =
                json_is_true(json_object_get(tool->spec, "write")) ? GB_APPROVAL_ALWAYS : GB_APPROVAL_NEVER;
    else if (word)
        tool->approval = strcmp(word, "always") ? GB_APPROVAL_NEVER : GB_APPROVAL_ALWAYS;
    else
        tool->approval = GB_APPROVAL_WHEN;
    if (tool->approval != GB_APPROVAL_WHEN)
        return 0;
    snprintf(where, sizeof(where), "%s.approval.when", path);
    return compile(b, where, json_object_get(approval, "when"), false, &tool->approval_when);
}

static int take_tool(struct gb_build *b, const json_t *row, const char *path)
{
    struct gb_tool *tool = &b->p->tools[b->p->tool_count++];
    const char *description = json_string_value(json_object_get(row, "description"));
    const char *profile = json_string_value(json_object_get(row, "profile"));
    char where[GB_BUILD_PATH];
    *tool = (struct gb_tool){.name = json_string_value(json_object_get(row, "name")),
                             .description = description ? description : "",
                             .kind = kind_of(row)};
    tool->spec = json_object_get(row, gb_tool_kinds[tool->kind]);
    gb_build_budget(json_object_get(row, "budget"), &tool->budget);
    snprintf(where, sizeof(where), "%s.profile", path);
    int r = check_name(b, tool, path);
    if (!r && profile)
        r = gb_build_profile(b, where, profile, &tool->profile);
    r = r ? r : take_parameters(b, row, path, tool);
    r = r ? r : gb_kind_check(b, tool, path);
    r = r ? r : take_approval(b, row, path, tool);
    return r ? r : gb_build_tool_hash(b, row, tool);
}

int gb_build_tools(struct gb_build *b)
{
    const json_t *list = b->config->tools;
    if (!list) {
        json_t *builtin = NULL;
        int r = gb_json_read(builtin_tools, strlen(builtin_tools), &builtin, b->err);
        list = r ? NULL : gb_build_keep(b, builtin);
    }
    if (!list)
        return -ENOMEM;
    const size_t count = json_array_size(list);
    if (!count)
        return gb_build_fail(b, "tools",
                             "an empty list: nothing could be called; leave it out to have execute_code "
                             "and execute_command");
    b->p->tools = gb_build_alloc(b, count, sizeof(*b->p->tools));
    if (!b->p->tools)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof(path), "tools[%zu]", i);
        int r = take_tool(b, json_array_get(list, i), path);
        if (r)
            return r;
    }
    return 0;
}
