/* Profiles: the service's own settings, narrowed. */
#include "policy/build.h"

#include "base/auto.h"
#include "base/text.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>

static int unknown_limit(struct gb_build *b, const char *path, const char *given)
{
    struct gb_build_names names = {0};
    for (size_t i = 0; i < gb_limit_count; i++)
        gb_build_names_add(&names, gb_limit_rows[i].key);
    return gb_build_unknown(b, path, "limit", given, &names);
}

/* One of `limits` and `ceilings`, over what is there. */
static int take_limits(struct gb_build *b, const char *name, const char *section, json_t *values,
                       struct gb_limits *ret)
{
    const char *key;
    json_t *value;
    json_object_foreach(values, key, value) {
        const char *path = gb_build_path(b, "profiles.%s.%s.%.64s", name, section, key);
        const struct gb_limit_row *row = gb_limits_find(key);
        if (!row)
            return unknown_limit(b, path, key);
        if (gb_config_set_limit(ret, row, value, b->err))
            return gb_build_fail_with(b, path);
    }
    return 0;
}

static void as_text(const struct gb_limits *limits, const struct gb_limit_row *row, char text[32])
{
    gb_text_decimal(gb_limits_get(limits, row), row->decimals, text, 32);
}

/* Where a number comes from that a profile has not set itself. */
static void place_of(struct gb_build *b, const json_t *own, const char *name, const char *section,
                     const struct gb_limit_row *row, char *buf, size_t size)
{
    char path[GB_BUILD_PATH];
    if (json_object_get(own, row->key))
        snprintf(path, sizeof(path), "profiles.%s.%s.%s", name, section, row->key);
    else
        snprintf(path, sizeof(path), "%s.%s", section, row->key);
    gb_build_other(b, path, buf, size);
}

/* A lowered ceiling lowers the limit that the profile has not set. */
static int check_limits(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile)
{
    const json_t *limits = json_object_get(row, "limits"), *ceilings = json_object_get(row, "ceilings");
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *limit = &gb_limit_rows[i];
        int64_t *own = (int64_t *)(void *)((char *)&profile->limits + limit->offset);
        const int64_t ceiling = gb_limits_get(&profile->ceilings, limit);
        char other[300], mine[32], theirs[32];
        as_text(&profile->ceilings, limit, mine);
        as_text(&b->config->ceilings, limit, theirs);
        if (ceiling > gb_limits_get(&b->config->ceilings, limit)) {
            place_of(b, NULL, name, "ceilings", limit, other, sizeof(other));
            return gb_build_fail(b, gb_build_path(b, "profiles.%s.ceilings.%s", name, limit->key),
                                 "%s is above the service's own ceiling of %s, %s; raise that, or lower this",
                                 mine, theirs, other);
        }
        if (*own <= ceiling)
            continue;
        if (!json_object_get(limits, limit->key)) {
            *own = ceiling;
            continue;
        }
        as_text(&profile->limits, limit, theirs);
        place_of(b, ceilings, name, "ceilings", limit, other, sizeof(other));
        return gb_build_fail(b, gb_build_path(b, "profiles.%s.limits.%s", name, limit->key),
                             "%s is above its ceiling of %s, %s", theirs, mine, other);
    }
    return 0;
}

static int take_runtimes(struct gb_build *b, const char *name, const json_t *list, struct gb_profile *profile)
{
    profile->runtimes = (uint32_t)((1ULL << gb_runtime_count) - 1);
    if (!list)
        return 0;
    profile->runtimes = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *given = json_string_value(json_array_get(list, i));
        const struct gb_runtime *runtime = gb_runtime_find(given);
        if (runtime) {
            profile->runtimes |= 1U << (runtime - gb_runtimes);
            continue;
        }
        struct gb_build_names names = {0};
        for (size_t k = 0; k < gb_runtime_count; k++)
            gb_build_names_add(&names, gb_runtimes[k].name);
        return gb_build_unknown(b, gb_build_path(b, "profiles.%s.runtimes[%zu]", name, i), "language", given,
                                &names);
    }
    return profile->runtimes
                   ? 0
                   : gb_build_fail(b, gb_build_path(b, "profiles.%s.runtimes", name),
                                   "an empty list: no code could run; leave it out to allow all languages");
}

static enum gb_screen_action action_of(const char *word)
{
    enum gb_screen_action action = GB_SCREEN_BLOCK;
    while (action < GB_SCREEN_OFF && strcmp(gb_screen_names[action], word) != 0)
        action++;
    return action;
}

static int take_screening(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile)
{
    const char *usual = json_string_value(json_object_get(row, "screen")), *rule;
    json_t *action;
    if (!b->p->screen)
        return 0;
    gb_screen_actions_init(b->p->screen, usual ? action_of(usual) : b->config->screen, &profile->actions);
    json_object_foreach(json_object_get(row, "rules"), rule, action) {
        const int index = gb_screen_find(b->p->screen, rule);
        if (index >= 0) {
            profile->actions.action[index] = (unsigned char)action_of(json_string_value(action));
            continue;
        }
        struct gb_build_names names = {0};
        for (size_t i = 0; i < gb_screen_rule_count(b->p->screen); i++)
            gb_build_names_add(&names, gb_screen_rule_name(b->p->screen, i));
        return gb_build_unknown(b, gb_build_path(b, "profiles.%s.rules.%.64s", name, rule), "screening rule",
                                rule, &names);
    }
    return 0;
}

static int take_commands(struct gb_build *b, const char *name, const json_t *commands,
                         struct gb_profile *profile)
{
    const json_t *allow = json_object_get(commands, "allow"), *block = json_object_get(commands, "block");
    profile->commands = gb_command_defaults;
    if (allow && !json_array_size(allow))
        return gb_build_fail(b, gb_build_path(b, "profiles.%s.commands.allow", name),
                             "an empty list: no command could run; to have none, leave the tool out");
    if (allow) {
        profile->commands.allow = gb_build_texts(b, allow);
        profile->commands.allow_count = json_array_size(allow);
    }
    if (block) {
        profile->commands.block = gb_build_texts(b, block);
        profile->commands.block_count = json_array_size(block);
    }
    if ((allow && !profile->commands.allow) || (block && !profile->commands.block))
        return -ENOMEM;
    return gb_command_rules_check(&profile->commands, b->err)
                   ? gb_build_fail_with(b, gb_build_path(b, "profiles.%s.commands", name))
                   : 0;
}

static int take_python(struct gb_build *b, const json_t *row, struct gb_profile *profile)
{
    const json_t *modules = json_object_get(row, "allowed_modules");
    const json_t *builtins = json_object_get(row, "restricted_builtins");
    profile->limits_modules = modules != NULL;
    profile->modules = gb_build_texts(b, modules);
    profile->module_count = json_array_size(modules);
    profile->builtins = gb_build_texts(b, builtins);
    profile->builtin_count = json_array_size(builtins);
    return profile->modules && profile->builtins ? 0 : -ENOMEM;
}

/* row NULL: the profile `default` of which nothing was written. */
static int take_profile(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile)
{
    const json_t *sanitise = json_object_get(row, "sanitise");
    *profile = (struct gb_profile){.name = name,
                                   .limits = b->config->limits,
                                   .ceilings = b->config->ceilings,
                                   .sanitise = sanitise ? json_is_true(sanitise) : b->config->sanitise,
                                   .raw_output = json_is_true(json_object_get(row, "raw_output"))};
    int r = take_limits(b, name, "ceilings", json_object_get(row, "ceilings"), &profile->ceilings);
    r = r ? r : take_limits(b, name, "limits", json_object_get(row, "limits"), &profile->limits);
    r = r ? r : check_limits(b, name, row, profile);
    r = r ? r : take_runtimes(b, name, json_object_get(row, "runtimes"), profile);
    r = r ? r : take_screening(b, name, row, profile);
    r = r ? r : take_commands(b, name, json_object_get(row, "commands"), profile);
    r = r ? r : take_python(b, row, profile);
    return r ? r : gb_build_pool(b, name, row, profile);
}

int gb_build_profiles(struct gb_build *b)
{
    struct gb_policy *p = b->p;
    const char *name;
    json_t *row;
    int r = 0;
    p->profiles = gb_build_alloc(b, json_object_size(b->config->profiles) + 1, sizeof(*p->profiles));
    if (!p->profiles)
        return -ENOMEM;
    json_object_foreach(b->config->profiles, name, row) {
        r = take_profile(b, name, row, &p->profiles[p->profile_count]);
        if (r)
            return r;
        p->profile_count++;
    }
    if (!json_object_get(b->config->profiles, "default"))
        r = take_profile(b, "default", NULL, &p->profiles[p->profile_count++]);
    return r;
}
