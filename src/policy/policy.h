/* Who may do what: the resolved policy. Built from a checked configuration, by the front (which decides), by
 * the broker's children (which hold each call against their own copy) and by `glovebox config check`. It does
 * not change; a reload makes a new one, and calls that are under way keep theirs.
 *
 * policy.schema.json has every field, and each configuration is checked against it; here names are resolved,
 * contradictions refused, schemas and rules compiled. Errors have the code GB_ERR_CONFIG and name the place.
 */
#pragma once

#include "command/command.h"
#include "config/config.h"
#include "redact/redact.h"
#include "schema/schema.h"
#include "screen/screen.h"
#include "spec/pool.h"

#include <string.h>

enum gb_tool_kind { GB_TOOL_CODE, GB_TOOL_COMMAND, GB_TOOL_SQL, GB_TOOL_HTTP, GB_TOOL_EMAIL, GB_TOOL_KINDS };
extern const char *const gb_tool_kinds[GB_TOOL_KINDS]; /* "code", … : the member of the tool that says it */

/* 0: no limit. */
struct gb_budget {
    int64_t calls_per_minute, calls_per_day, concurrent, cpu_ms_per_day;
};

struct gb_profile {
    const char *name;
    uint32_t runtimes; /* a bit for each row of gb_runtimes */
    struct gb_limits limits, ceilings;
    struct gb_screen_actions actions; /* of each rule of the policy's screen */
    bool sanitise, raw_output;
    bool limits_modules;
    const char **modules; /* Python: what may be imported, if limits_modules */
    size_t module_count;
    const char **builtins; /* Python: what is hidden */
    size_t builtin_count;
    struct gb_command_rules commands;
    const char *python;   /* the program that runs scripts of Python */
    const char **preload; /* modules that a Python which waits has imported */
    size_t preload_count;
    int64_t pool_low, pool_high;       /* boxes of each kind that wait for calls */
    uint64_t pool_keys[GB_POOL_KINDS]; /* what these boxes are known by */
    char preload_text[GB_POOL_PRELOAD];
    char sha256[65]; /* of all that it says; see gb_policy_definition */
};

/* May scripts under this profile import this module: one of the list, or one inside of such? */
static inline bool gb_profile_may_import(const struct gb_profile *profile, const char *module)
{
    bool found = !profile->limits_modules;
    for (size_t i = 0; !found && i < profile->module_count; i++) {
        const size_t len = strlen(profile->modules[i]);
        found = !strncmp(module, profile->modules[i], len) && (!module[len] || module[len] == '.');
    }
    return found;
}

enum gb_approval { GB_APPROVAL_NEVER, GB_APPROVAL_ALWAYS, GB_APPROVAL_WHEN };

struct gb_tool {
    const char *name, *description;
    enum gb_tool_kind kind;
    const json_t *parameters; /* as it is shown to models: the operator's, or made from the rest */
    struct gb_schema *schema; /* of the same */
    const json_t *spec; /* the kind's own object, as in policy.schema.json: checked, defaults not filled in */
    const struct gb_profile *profile; /* NULL: the principal's */
    struct gb_budget budget;
    enum gb_approval approval;
    struct gb_schema *approval_when;
    char sha256[65]; /* of all that is written about it; likewise */
};

struct gb_principal {
    const char *name;
    const struct gb_profile *profile;
    bool *tools; /* for each tool: may use it */
    struct gb_budget budget;
    bool approver;
};

struct gb_secret {
    const char *name, *value;
};

struct gb_policy {
    char sha256[65]; /* of the configuration as it was handed down: gb_policy_hash */
    struct gb_profile *profiles;
    size_t profile_count;
    struct gb_principal *principals; /* the last is for whoever has no row */
    size_t principal_count;
    struct gb_tool *tools;
    size_t tool_count;
    struct gb_secret *secrets;
    size_t secret_count;
    struct gb_screen *screen; /* built-in rules and the operator's; NULL if built without rules */
    struct gb_rules *rules;   /* likewise; with every secret */
    void *owned;              /* policy.c's */
};

/* What a policy is built for. The broker's children need no rules, and build them not. */
enum gb_policy_use { GB_POLICY_DECIDE, GB_POLICY_BROKER };

int gb_policy_new(const struct gb_config *config, enum gb_policy_use use, struct gb_policy **ret,
                  struct gb_err *err);
void gb_policy_free(struct gb_policy *p);

const struct gb_tool *gb_policy_tool(const struct gb_policy *p, const char *name);           /* or NULL */
const struct gb_principal *gb_policy_principal(const struct gb_policy *p, const char *name); /* never NULL */
bool gb_policy_may(const struct gb_policy *p, const struct gb_principal *who, const struct gb_tool *tool);
/* What a call of this tool by this principal runs under: the tool's profile or the principal's. */
const struct gb_profile *gb_policy_profile(const struct gb_principal *who, const struct gb_tool *tool);
/* argv[0] of a script in this language. */
const char *gb_policy_program(const struct gb_profile *profile, const struct gb_runtime *runtime);
/* Which boxes shall wait for calls: of each profile under which somebody may run code or commands, the kinds
 * that these can be, with the limits that a call gets if it says nothing; what is the same under several
 * profiles is one. The first GB_POOLS, in the order of the profiles, into ret; the names of profiles that
 * have boxes for which there was no room, with commas, are added to left_out. Returns how many there are. */
size_t gb_policy_pools(const struct gb_policy *p, struct gb_pool_want ret[GB_POOLS], struct gb_buf *left_out);
/* The value of a secret, or NULL. */
const char *gb_policy_secret(const struct gb_policy *p, const char *name);

/* Do the parameters name this argument? */
bool gb_policy_takes(const struct gb_tool *tool, const char *name);
/* Puts the defaults that the tool's parameters name (at the top: {"max_results": {"default": 5}}) where an
 * argument is absent, so that everybody behind sees the same call. 0 or -ENOMEM. */
int gb_policy_defaults(const struct gb_tool *tool, json_t *arguments);

/* What a call of this tool by this principal would do, as a hash: everything that is written about the tool,
 * and the profile. If a new policy has the same, a person who agreed to a call under the old one has agreed
 * to what would run now. Values of secrets are not in it, only where they go. Not for GB_POLICY_BROKER. */
void gb_policy_definition(const struct gb_principal *who, const struct gb_tool *tool, char ret[65]);

/* The sha256 of a configuration as text, in hexadecimal: how front and broker know that they mean the same.
 */
void gb_policy_hash(const char *text, size_t len, char ret[65]);

/* Everything that holds for a principal and a tool (NULL: without one), as one JSON object: `glovebox config
 * check` TOOL` and GET /v1/policy. No secrets. */
void gb_policy_show(const struct gb_policy *p, const struct gb_principal *who, const struct gb_tool *tool,
                    struct gb_json *out);

static inline void gb_auto_policy(struct gb_policy **p)
{
    gb_policy_free(*p);
}
#define AUTO_POLICY __attribute__((cleanup(gb_auto_policy))) struct gb_policy *
