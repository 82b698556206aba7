/* What holds for a principal and a tool, in one object. Upstreams are named as far as a caller may know them:
 * not by connection strings, headers or paths. */
#include "policy/build.h"

#include "base/auto.h"
#include "policy/host.h"
#include "spec/spec.h"

#include <string.h>

static void write_texts(struct gb_json *out, const char *key, const char *const *texts, size_t count)
{
    gb_json_open(out, key, '[');
    for (size_t i = 0; i < count; i++)
        gb_json_text(out, NULL, texts[i]);
    gb_json_close(out, ']');
}

static void write_value(struct gb_json *out, const char *key, const json_t *value)
{
    AUTO_FREE char *text =
            value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text)
        gb_json_raw(out, key, text, strlen(text));
    else
        gb_json_null(out, key);
}

/* 0 means: no limit, and is null. */
static void write_limit(struct gb_json *out, const char *key, int64_t value, unsigned decimals)
{
    if (value)
        gb_json_decimal(out, key, value, decimals);
    else
        gb_json_null(out, key);
}

static void write_budget(struct gb_json *out, const struct gb_budget *budget)
{
    gb_json_open(out, "budget", '{');
    write_limit(out, "calls_per_minute", budget->calls_per_minute, 0);
    write_limit(out, "calls_per_day", budget->calls_per_day, 0);
    write_limit(out, "concurrent", budget->concurrent, 0);
    write_limit(out, "cpu_seconds_per_day", budget->cpu_ms_per_day, 3);
    gb_json_close(out, '}');
}

/* --- the profile --- */

static void write_rules(struct gb_json *out, const struct gb_policy *p, const struct gb_profile *profile)
{
    gb_json_open(out, "screening", '{');
    for (size_t i = 0; p->screen && i < gb_screen_rule_count(p->screen); i++)
        gb_json_text(out, gb_screen_rule_name(p->screen, i), gb_screen_names[profile->actions.action[i]]);
    gb_json_close(out, '}');
}

void gb_show_profile(struct gb_json *out, const struct gb_policy *p, const struct gb_profile *profile)
{
    gb_json_open(out, "profile", '{');
    gb_json_text(out, "name", profile->name);
    gb_json_open(out, "runtimes", '[');
    for (size_t i = 0; i < gb_runtime_count; i++)
        if (profile->runtimes & 1U << i)
            gb_json_text(out, NULL, gb_runtimes[i].name);
    gb_json_close(out, ']');
    gb_limits_to_json(out, "limits", &profile->limits);
    gb_limits_to_json(out, "ceilings", &profile->ceilings);
    write_rules(out, p, profile);
    gb_json_bool(out, "sanitise", profile->sanitise);
    gb_json_bool(out, "raw_output", profile->raw_output);
    if (profile->limits_modules)
        write_texts(out, "allowed_modules", profile->modules, profile->module_count);
    else
        gb_json_null(out, "allowed_modules");
    write_texts(out, "restricted_builtins", profile->builtins, profile->builtin_count);
    gb_json_open(out, "commands", '{');
    write_texts(out, "allow", profile->commands.allow, profile->commands.allow_count);
    write_texts(out, "block", profile->commands.block, profile->commands.block_count);
    gb_json_close(out, '}');
    gb_json_open(out, "python", '{');
    gb_json_text(out, "program", profile->python);
    write_texts(out, "preload", profile->preload, profile->preload_count);
    gb_json_close(out, '}');
    gb_json_close(out, '}');
}

/* Not a part of the profile: how many boxes wait changes nothing about what a call does, so that an approval
 * stays good when it is changed. */
static void write_pool(struct gb_json *out, const struct gb_profile *profile)
{
    gb_json_open(out, "pool", '{');
    gb_json_int(out, "low", profile->pool_low);
    gb_json_int(out, "high", profile->pool_high);
    gb_json_close(out, '}');
}

/* --- the tool --- */

/* A field as it is written, or its default. */
static void write_field(struct gb_json *out, const json_t *spec, const char *name, const char *otherwise)
{
    const json_t *value = json_object_get(spec, name);
    if (value)
        write_value(out, name, value);
    else
        gb_json_raw(out, name, otherwise, strlen(otherwise));
}

static void write_code(struct gb_json *out, const json_t *spec)
{
    write_field(out, spec, "language", "null");
}

static void write_command(struct gb_json *out, const json_t *spec)
{
    write_field(out, spec, "argv", "null");
}

static void write_sql(struct gb_json *out, const json_t *spec)
{
    gb_json_text(out, "engine", json_object_get(spec, "sqlite") ? "sqlite" : "postgresql");
    write_field(out, spec, "tables", "{}");
    write_field(out, spec, "functions", "[]");
    write_field(out, spec, "statement", "null");
    write_field(out, spec, "write", "false");
    write_field(out, spec, "max_rows", "1000");
    write_field(out, spec, "max_bytes", "1000000");
    write_field(out, spec, "timeout_seconds", "10");
}

static void write_http(struct gb_json *out, const json_t *spec)
{
    struct gb_host_url url;
    const char *why;
    write_field(out, spec, "method", "\"GET\"");
    if (!gb_host_parse_url(json_string_value(json_object_get(spec, "url")), &url, &why))
        gb_json_text(out, "host", url.host.name);
    write_field(out, spec, "hosts", "[]");
    write_field(out, spec, "redirects", "3");
    write_field(out, spec, "max_bytes", "1000000");
    write_field(out, spec, "timeout_seconds", "10");
}

static void write_email(struct gb_json *out, const json_t *spec)
{
    write_field(out, spec, "from", "null");
    write_field(out, spec, "recipients", "[]");
    write_field(out, spec, "max_bytes", "100000");
    write_field(out, spec, "timeout_seconds", "30");
}

static void write_tool(struct gb_json *out, const struct gb_tool *tool)
{
    static void (*const write[GB_TOOL_KINDS])(struct gb_json * out,
                                              const json_t *spec) = {[GB_TOOL_CODE] = write_code,
                                                                     [GB_TOOL_COMMAND] = write_command,
                                                                     [GB_TOOL_SQL] = write_sql,
                                                                     [GB_TOOL_HTTP] = write_http,
                                                                     [GB_TOOL_EMAIL] = write_email};
    static const char *const approvals[] = {
            [GB_APPROVAL_NEVER] = "never", [GB_APPROVAL_ALWAYS] = "always", [GB_APPROVAL_WHEN] = "when"};
    gb_json_open(out, "tool", '{');
    gb_json_text(out, "name", tool->name);
    gb_json_text(out, "kind", gb_tool_kinds[tool->kind]);
    gb_json_text(out, "description", tool->description);
    gb_json_open(out, gb_tool_kinds[tool->kind], '{');
    write[tool->kind](out, tool->spec);
    gb_json_close(out, '}');
    gb_json_text(out, "approval", approvals[tool->approval]);
    write_budget(out, &tool->budget);
    write_value(out, "parameters", tool->parameters);
    gb_json_close(out, '}');
}

/* --- the whole --- */

void gb_policy_show(const struct gb_policy *p, const struct gb_principal *who, const struct gb_tool *tool,
                    struct gb_json *out)
{
    gb_json_open(out, NULL, '{');
    gb_json_text(out, "policy", p->sha256);
    gb_json_open(out, "principal", '{');
    gb_json_text(out, "name", who->name);
    gb_json_bool(out, "approver", who->approver);
    write_budget(out, &who->budget);
    gb_json_open(out, "tools", '[');
    for (size_t i = 0; i < p->tool_count; i++)
        if (who->tools[i])
            gb_json_text(out, NULL, p->tools[i].name);
    gb_json_close(out, ']');
    gb_json_close(out, '}');
    if (tool) {
        gb_json_bool(out, "allowed", gb_policy_may(p, who, tool));
        write_tool(out, tool);
    }
    const struct gb_profile *profile = tool ? gb_policy_profile(who, tool) : who->profile;
    gb_show_profile(out, p, profile);
    write_pool(out, profile);
    gb_json_close(out, '}');
}
