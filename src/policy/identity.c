/* Hashes that tell whether two policies mean the same by a tool and by a profile. */
#include "policy/build.h"

#include "base/auto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WRITTEN_MOST ((size_t)16 << 20)

static int no_memory(struct gb_build *b)
{
    return gb_err_set(b->err, GB_ERR_INTERNAL, ENOMEM, "build the policy");
}

/* The order in which members are written makes no difference. */
static int hash_value(struct gb_build *b, const json_t *value, char ret[65])
{
    AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return no_memory(b);
    gb_policy_hash(text, strlen(text), ret);
    return 0;
}

int gb_build_tool_hash(struct gb_build *b, const json_t *row, struct gb_tool *tool)
{
    if (b->use != GB_POLICY_DECIDE)
        return 0;
    AUTO_JSON whole = json_copy((json_t *)row);
    if (!whole || json_object_set(whole, "parameters", (json_t *)tool->parameters))
        return no_memory(b);
    return hash_value(b, whole, tool->sha256);
}

/* What is shown of it is all of it, but for what the operator's own rules look for. */
static int hash_profile(struct gb_build *b, const char *rules, struct gb_profile *profile)
{
    AUTO_BUF text = {.max = WRITTEN_MOST};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "screening", rules);
    gb_show_profile(&j, b->p, profile);
    gb_json_close(&j, '}');
    if (text.failed || gb_buf_truncated(&text))
        return no_memory(b);
    gb_policy_hash(text.data, text.len, profile->sha256);
    return 0;
}

int gb_build_identity(struct gb_build *b)
{
    char rules[65] = "";
    if (b->use != GB_POLICY_DECIDE)
        return 0;
    int r = b->config->screening ? hash_value(b, b->config->screening, rules) : 0;
    for (size_t i = 0; !r && i < b->p->profile_count; i++)
        r = hash_profile(b, rules, &b->p->profiles[i]);
    return r;
}

void gb_policy_definition(const struct gb_principal *who, const struct gb_tool *tool, char ret[65])
{
    char both[2 * 64 + 1];
    snprintf(both, sizeof(both), "%s%s", tool->sha256, gb_policy_profile(who, tool)->sha256);
    gb_policy_hash(both, strlen(both), ret);
}
