/* Principals: who has which profile, tools and budget. */
#include "policy/build.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

/* Which tools; NULL: all. */
static int take_tools(struct gb_build *b, const char *name, const json_t *list, struct gb_principal *who)
{
    who->tools = gb_build_alloc(b, b->p->tool_count, sizeof(*who->tools));
    if (!who->tools)
        return -ENOMEM;
    for (size_t i = 0; !list && i < b->p->tool_count; i++)
        who->tools[i] = true;
    if (list && !json_array_size(list))
        return gb_build_fail(b, gb_build_path(b, "principals.%s.tools", name),
                             "an empty list: it could use no tool; leave it out to allow all tools");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *given = json_string_value(json_array_get(list, i));
        const struct gb_tool *tool = gb_policy_tool(b->p, given);
        if (tool) {
            who->tools[tool - b->p->tools] = true;
            continue;
        }
        struct gb_build_names names = {0};
        for (size_t k = 0; k < b->p->tool_count; k++)
            gb_build_names_add(&names, b->p->tools[k].name);
        return gb_build_unknown(b, gb_build_path(b, "principals.%s.tools[%zu]", name, i), "tool", given,
                                &names);
    }
    return 0;
}

static int take_principal(struct gb_build *b, const char *name, const json_t *row)
{
    struct gb_principal *who = &b->p->principals[b->p->principal_count++];
    const char *profile = json_string_value(json_object_get(row, "profile"));
    char path[GB_BUILD_PATH];
    snprintf(path, sizeof(path), "principals.%s.profile", name);
    *who = (struct gb_principal){.name = name, .approver = json_is_true(json_object_get(row, "approver"))};
    gb_build_budget(json_object_get(row, "budget"), &who->budget);
    int r = gb_build_profile(b, path, profile ? profile : "default", &who->profile);
    return r ? r : take_tools(b, name, json_object_get(row, "tools"), who);
}

/* The last is for whoever has no row; if others have rows and nobody wrote one for them, they may do nothing.
 */
static int take_default(struct gb_build *b)
{
    const json_t *row = json_object_get(b->config->principals, "default");
    int r = take_principal(b, "default", row);
    if (!r && b->config->principals && !row)
        memset(b->p->principals[b->p->principal_count - 1].tools, 0, b->p->tool_count * sizeof(bool));
    return r;
}

int gb_build_principals(struct gb_build *b)
{
    struct gb_policy *p = b->p;
    const char *name;
    json_t *row;
    p->principals = gb_build_alloc(b, json_object_size(b->config->principals) + 1, sizeof(*p->principals));
    if (!p->principals)
        return -ENOMEM;
    json_object_foreach(b->config->principals, name, row) {
        int r = strcmp(name, "default") ? take_principal(b, name, row) : 0;
        if (r)
            return r;
    }
    return take_default(b);
}
