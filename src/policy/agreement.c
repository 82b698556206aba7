/* What keys, principals, tools and profiles say about each other. */
#include "policy/build.h"

#include "base/auto.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>

/* --- keys and principals --- */

static bool has_row(const struct gb_config *config, const char *name)
{
    return json_object_get(config->principals, name) || json_object_get(config->principals, "default");
}

/* With principals listed, a caller that is none of them is most likely misspelt; somebody who should be let
 * in all the same has the row `default`. */
static int check_keys(struct gb_build *b)
{
    const struct gb_config *config = b->config;
    struct gb_build_names names = {0};
    const char *name;
    json_t *unused;
    json_object_foreach(config->principals, name, unused)
        gb_build_names_add(&names, name);
    for (size_t i = 0; config->principals && i < config->key_count; i++)
        if (!has_row(config, config->keys[i].principal))
            return gb_build_unknown(b, gb_build_path(b, "keys[%zu]", i),
                                    "principal (and no `default`) for the key's", config->keys[i].principal,
                                    &names);
    if (config->principals && !config->key_count && !has_row(config, "local"))
        return gb_build_fail(
                b, "principals",
                "there are no keys, so every caller is `local`, which is not listed; add it, or `default`");
    return 0;
}

/* A row that nobody can come to: its restrictions would hold for nobody. */
static int check_unused(struct gb_build *b)
{
    const struct gb_config *config = b->config;
    const char *name;
    json_t *unused;
    json_object_foreach(config->principals, name, unused) {
        size_t i = 0;
        while (i < config->key_count && strcmp(config->keys[i].principal, name) != 0)
            i++;
        if (i < config->key_count || !strcmp(name, "default") || !strcmp(name, "local"))
            continue;
        const char *path = gb_build_path(b, "principals.%s", name);
        struct gb_build_names names = {0};
        for (i = 0; i < config->key_count; i++)
            gb_build_names_add(&names, config->keys[i].principal);
        return config->key_count
                       ? gb_build_unknown(b, path, "key whose principal is", name, &names)
                       : gb_build_fail(b, path,
                                       "there are no keys, so every caller is `local`; add keys, or write "
                                       "`local`");
    }
    return 0;
}

/* --- tools and profiles --- */

/* A tool in a fixed language, which a profile that it runs under does not have. */
static int check_language(struct gb_build *b, size_t index)
{
    const struct gb_tool *tool = &b->p->tools[index];
    const char *language = json_string_value(json_object_get(tool->spec, "language"));
    if (tool->kind != GB_TOOL_CODE || !language)
        return 0;
    const uint32_t bit = 1U << (gb_runtime_find(language) - gb_runtimes);
    for (size_t i = 0; i < b->p->principal_count; i++) {
        const struct gb_principal *who = &b->p->principals[i];
        const struct gb_profile *profile = gb_policy_profile(who, tool);
        char path[GB_BUILD_PATH], other[300];
        if (!who->tools[index] || profile->runtimes & bit)
            continue;
        snprintf(path, sizeof(path), "profiles.%s.runtimes", profile->name);
        gb_build_other(b, path, other, sizeof(other));
        return gb_build_fail(b, gb_build_path(b, "tools[%zu].code.language", index),
                             "'%s' is not in %s, under which %s%s would run it", language, other,
                             tool->profile ? "everybody" : "the principal ", tool->profile ? "" : who->name);
    }
    return 0;
}

/* Without keys, whoever may call may decide. */
static bool has_approver(const struct gb_build *b)
{
    for (size_t i = 0; i < b->config->key_count; i++)
        if (gb_policy_principal(b->p, b->config->keys[i].principal)->approver)
            return true;
    return !b->config->key_count;
}

/* A tool that waits for somebody who does not exist. */
static int check_approver(struct gb_build *b, size_t index)
{
    const struct gb_tool *tool = &b->p->tools[index];
    if (tool->approval == GB_APPROVAL_NEVER || has_approver(b))
        return 0;
    const json_t *row = json_array_get(b->config->tools, index);
    const bool written = json_object_get(row, "approval");
    return gb_build_fail(
            b, gb_build_path(b, written ? "tools[%zu].approval" : "tools[%zu].sql.write", index),
            "a call would need an approval%s, and no key's principal has approver: true; give it to the "
            "principal of a person",
            written ? "" : " (unless `approval: never`)");
}

int gb_build_agreement(struct gb_build *b)
{
    int r = check_keys(b);
    r = r ? r : check_unused(b);
    for (size_t i = 0; !r && i < b->p->tool_count; i++)
        r = check_language(b, i) ? -EINVAL : check_approver(b, i);
    return r;
}
