#include "policy/policy.h"

#include "base/auto.h"
#include "base/text.h"
#include "policy/build.h"
#include "policy/owned.h"

#include <errno.h>
#include <sha2.h>
#include <string.h>

#define WRITTEN_MOST ((size_t)16 << 20)

const char *const gb_tool_kinds[GB_TOOL_KINDS] = {"code", "command", "sql", "http", "email"};

/* --- made and freed --- */

/* The configuration may be freed before the policy: what its pointers point into is held here. */
static int hold_trees(struct gb_build *b)
{
    json_t *const trees[] = {b->config->profiles,  b->config->principals, b->config->tools,
                             b->config->screening, b->config->sanitising, b->config->sanitising_off};
    for (size_t i = 0; i < ARRAY_LEN(trees); i++)
        if (trees[i] && !gb_build_keep(b, json_incref(trees[i])))
            return -ENOMEM;
    return 0;
}

static int hash(struct gb_build *b)
{
    AUTO_BUF text = {.max = WRITTEN_MOST};
    int r = gb_config_write(b->config, true, &text, b->err);
    if (!r)
        gb_policy_hash(text.data, text.len, b->p->sha256);
    if (text.data)
        explicit_bzero(text.data, text.size);
    return r;
}

static int (*const steps[])(struct gb_build *b) = {
        hold_trees,        hash,           gb_build_document,   gb_build_secrets,   gb_build_rules,
        gb_build_profiles, gb_build_tools, gb_build_principals, gb_build_agreement, gb_build_identity};

int gb_policy_new(const struct gb_config *config, enum gb_policy_use use, struct gb_policy **ret,
                  struct gb_err *err)
{
    struct gb_err own = {0};
    struct gb_policy *p = calloc(1, sizeof(*p));
    struct gb_owned *owned = calloc(1, sizeof(*owned));
    if (p)
        p->owned = owned;
    if (owned)
        owned->trees = json_array();
    struct gb_build b = {.config = config, .use = use, .p = p, .err = err ? err : &own};
    int r = p && owned && owned->trees ? 0 : gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "build the policy");
    for (size_t i = 0; !r && i < ARRAY_LEN(steps); i++)
        r = steps[i](&b);
    if (!r) {
        *ret = p;
        return 0;
    }
    gb_text_defuse(b.err->text); /* it quotes the file */
    if (p)
        gb_policy_free(p);
    else
        free(owned);
    return r;
}

void gb_policy_free(struct gb_policy *p)
{
    if (!p)
        return;
    struct gb_owned *owned = p->owned;
    for (size_t i = 0; i < p->tool_count; i++) {
        gb_schema_free(p->tools[i].schema);
        gb_schema_free(p->tools[i].approval_when);
    }
    for (size_t i = 0; i < p->secret_count; i++)
        if (p->secrets[i].value)
            explicit_bzero((char *)p->secrets[i].value, strlen(p->secrets[i].value));
    gb_screen_free(p->screen);
    gb_rules_free(p->rules);
    for (size_t i = 0; owned && i < owned->count; i++)
        free(owned->blocks[i]);
    if (owned) {
        json_decref(owned->trees);
        free(owned->blocks);
    }
    free(owned);
    free(p);
}

void gb_policy_hash(const char *text, size_t len, char ret[65])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)text, len);
    SHA256Final(digest, &ctx);
    gb_text_hex(digest, sizeof(digest), ret);
}

/* --- asked --- */

const struct gb_tool *gb_policy_tool(const struct gb_policy *p, const char *name)
{
    for (size_t i = 0; i < p->tool_count; i++)
        if (!strcmp(p->tools[i].name, name))
            return &p->tools[i];
    return NULL;
}

const struct gb_principal *gb_policy_principal(const struct gb_policy *p, const char *name)
{
    for (size_t i = 0; i + 1 < p->principal_count; i++)
        if (!strcmp(p->principals[i].name, name))
            return &p->principals[i];
    return &p->principals[p->principal_count - 1];
}

bool gb_policy_may(const struct gb_policy *p, const struct gb_principal *who, const struct gb_tool *tool)
{
    return who->tools[tool - p->tools];
}

const struct gb_profile *gb_policy_profile(const struct gb_principal *who, const struct gb_tool *tool)
{
    return tool->profile ? tool->profile : who->profile;
}

const char *gb_policy_secret(const struct gb_policy *p, const char *name)
{
    for (size_t i = 0; i < p->secret_count; i++)
        if (!strcmp(p->secrets[i].name, name))
            return p->secrets[i].value;
    return NULL;
}
