/* The interpreter of a profile and the boxes that wait for its calls. */
#include "policy/build.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

#define PRELOAD_BYTES 500 /* of all names together, with a blank between two */

_Static_assert(PRELOAD_BYTES < GB_POOL_PRELOAD, "they fit with their end");

/* --- of one profile --- */

static bool has_kind(const struct gb_profile *profile, enum gb_pool_kind kind)
{
    for (size_t i = 0; i < gb_runtime_count; i++)
        if (profile->runtimes >> i & 1 && gb_pool_kind_for(&gb_runtimes[i]) == kind)
            return true;
    return false;
}

static int take_preload(struct gb_build *b, const char *name, const json_t *list, struct gb_profile *profile)
{
    size_t len = 0;
    profile->preload = gb_build_texts(b, list);
    profile->preload_count = json_array_size(list);
    if (!profile->preload)
        return -ENOMEM;
    for (size_t i = 0; i < profile->preload_count; i++) {
        const char *module = profile->preload[i];
        if (!gb_profile_may_import(profile, module))
            return gb_build_fail(b, gb_build_path(b, "profiles.%s.python.preload[%zu]", name, i),
                                 "'%s' is not in allowed_modules, so that no script could import it", module);
        if (len + (i > 0) + strlen(module) > PRELOAD_BYTES)
            return gb_build_fail(b, gb_build_path(b, "profiles.%s.python.preload", name),
                                 "the names are together more than %d bytes", PRELOAD_BYTES);
        len += (size_t)snprintf(profile->preload_text + len, sizeof(profile->preload_text) - len, "%s%s",
                                i ? " " : "", module);
    }
    return 0;
}

static int take_interpreter(struct gb_build *b, const char *name, const json_t *row,
                            struct gb_profile *profile)
{
    const json_t *program = json_object_get(row, "program");
    const char *path = gb_build_path(b, "profiles.%s.python", name);
    profile->python = program ? json_string_value(program) : gb_runtime_find("python")->program;
    if (row && !has_kind(profile, GB_POOL_PYTHON))
        return gb_build_fail(b, path, "the profile's runtimes do not have python");
    if (strlen(profile->python) >= GB_POOL_PROGRAM)
        return gb_build_fail(b, gb_build_path(b, "profiles.%s.python.program", name),
                             "it takes at most %d bytes", GB_POOL_PROGRAM - 1);
    return take_preload(b, name, json_object_get(row, "preload"), profile);
}

/* A lowered high mark lowers the low one that the profile has not set. */
static int take_marks(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile)
{
    const json_t *low = json_object_get(row, "low"), *high = json_object_get(row, "high");
    char path[GB_BUILD_PATH], other[300];
    profile->pool_low = low ? (int64_t)json_number_value(low) : b->config->pool.low;
    profile->pool_high = high ? (int64_t)json_number_value(high) : b->config->pool.high;
    if (profile->pool_low <= profile->pool_high)
        return 0;
    if (!low) {
        profile->pool_low = profile->pool_high;
        return 0;
    }
    snprintf(path, sizeof(path), high ? "profiles.%s.pool.high" : "pool.high", name);
    gb_build_other(b, path, other, sizeof(other));
    return gb_build_fail(b, gb_build_path(b, "profiles.%s.pool.low", name),
                         "%lld is above the high mark of %lld, %s", (long long)profile->pool_low,
                         (long long)profile->pool_high, other);
}

/* The program that a box of this kind has started, and what it has imported. */
static const char *program_of(const struct gb_profile *profile, enum gb_pool_kind kind)
{
    const char *runtime = gb_pool_kinds[kind].runtime;
    return runtime ? gb_policy_program(profile, gb_runtime_find(runtime)) : "";
}

static const char *preload_of(const struct gb_profile *profile, enum gb_pool_kind kind)
{
    return kind == GB_POOL_PYTHON ? profile->preload_text : "";
}

int gb_build_pool(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile)
{
    int r = take_interpreter(b, name, json_object_get(row, "python"), profile);
    r = r ? r : take_marks(b, name, json_object_get(row, "pool"), profile);
    for (int kind = 0; !r && kind < GB_POOL_KINDS; kind++)
        profile->pool_keys[kind] =
                gb_pool_key((enum gb_pool_kind)kind, program_of(profile, kind), preload_of(profile, kind));
    return r;
}

const char *gb_policy_program(const struct gb_profile *profile, const struct gb_runtime *runtime)
{
    return gb_pool_kind_for(runtime) == GB_POOL_PYTHON ? profile->python : runtime->program;
}

/* --- of all --- */

/* A bit for each kind that calls of this tool under this profile can be. */
static unsigned kinds_of_tool(const struct gb_tool *tool, const struct gb_profile *profile)
{
    const char *own = json_string_value(json_object_get(tool->spec, "language"));
    unsigned kinds = 0;
    if (tool->kind == GB_TOOL_COMMAND)
        return 1U << GB_POOL_PLAIN;
    for (size_t i = 0; tool->kind == GB_TOOL_CODE && i < gb_runtime_count; i++)
        if (profile->runtimes >> i & 1 && (!own || !strcmp(own, gb_runtimes[i].name)))
            kinds |= 1U << gb_pool_kind_for(&gb_runtimes[i]);
    return kinds;
}

static unsigned kinds_of(const struct gb_policy *p, const struct gb_profile *profile)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < p->principal_count; i++)
        for (size_t k = 0; k < p->tool_count; k++)
            if (p->principals[i].tools[k] && gb_policy_profile(&p->principals[i], &p->tools[k]) == profile)
                kinds |= kinds_of_tool(&p->tools[k], profile);
    return kinds;
}

static void fill(struct gb_pool_want *want, const struct gb_profile *profile, enum gb_pool_kind kind)
{
    *want = (struct gb_pool_want){.key = profile->pool_keys[kind],
                                  .kind = kind,
                                  .low = (uint32_t)profile->pool_low,
                                  .high = (uint32_t)profile->pool_high,
                                  .limits = profile->limits};
    snprintf(want->program, sizeof(want->program), "%s", program_of(profile, kind));
    snprintf(want->preload, sizeof(want->preload), "%s", preload_of(profile, kind));
}

/* What several profiles share serves all of them: the greater marks count. False if there is no room. */
static bool add(struct gb_pool_want all[GB_POOLS], size_t *count, const struct gb_pool_want *one)
{
    for (size_t i = 0; i < *count; i++)
        if (all[i].key == one->key && gb_pool_has_limits(&all[i].limits, &one->limits)) {
            all[i].low = all[i].low > one->low ? all[i].low : one->low;
            all[i].high = all[i].high > one->high ? all[i].high : one->high;
            return true;
        }
    if (*count == GB_POOLS)
        return false;
    all[(*count)++] = *one;
    return true;
}

size_t gb_policy_pools(const struct gb_policy *p, struct gb_pool_want ret[GB_POOLS], struct gb_buf *left_out)
{
    size_t count = 0;
    for (size_t i = 0; i < p->profile_count; i++) {
        const struct gb_profile *profile = &p->profiles[i];
        const unsigned kinds = profile->pool_high ? kinds_of(p, profile) : 0;
        bool room = true;
        for (int kind = 0; kind < GB_POOL_KINDS; kind++) {
            struct gb_pool_want want;
            if (!(kinds >> kind & 1))
                continue;
            fill(&want, profile, kind);
            room = add(ret, &count, &want) && room;
        }
        if (!room)
            gb_buf_printf(left_out, "%s%s", left_out->len ? ", " : "", profile->name);
    }
    return count;
}
