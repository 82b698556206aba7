/* The policy: whatever a configuration says, it is refused in text that is safe to print, or it becomes a
 * policy that keeps what must hold, shows no secret, and is the same for those that it is handed to. */
#include "fuzz.h"

#include "base/text.h"
#include "policy/policy.h"

#define MARK "FUZZ-SECRET"

/* The secret is in the input once, as the value of one, and must be in nothing that is printed. */
static bool has_one_secret(const struct gb_config *config, const char *data, size_t size)
{
    const char *name, *first = memmem(data, size, MARK, strlen(MARK));
    json_t *secret;
    if (!first || memmem(first + 1, size - (size_t)(first + 1 - data), MARK, strlen(MARK)))
        return false;
    json_object_foreach(config->secrets, name, secret) {
        const char *value = json_string_value(json_object_get(secret, "value"));
        if (value && strstr(value, MARK))
            return true;
    }
    return false;
}

static void check_limits(const struct gb_config *config, const struct gb_policy *p)
{
    for (size_t i = 0; i < p->profile_count; i++)
        for (size_t k = 0; k < gb_limit_count; k++) {
            const struct gb_limit_row *row = &gb_limit_rows[k];
            const int64_t limit = gb_limits_get(&p->profiles[i].limits, row);
            const int64_t ceiling = gb_limits_get(&p->profiles[i].ceilings, row);
            CHECK(limit >= row->least && limit <= ceiling);
            CHECK(ceiling <= gb_limits_get(&config->ceilings, row));
        }
}

/* What is shown is JSON, and has no secret in it. */
static void check_shown(const struct gb_policy *p, bool secret)
{
    for (size_t i = 0; i < p->tool_count; i++) {
        const struct gb_tool *tool = &p->tools[i];
        struct gb_buf text = {.max = (size_t)8 << 20};
        struct gb_json out = {.out = &text, .first = true};
        json_t *shown = NULL;
        CHECK(tool->name && *tool->name && tool->schema && tool->spec && tool->parameters);
        CHECK((tool->approval == GB_APPROVAL_WHEN) == (tool->approval_when != NULL));
        CHECK(gb_policy_tool(p, tool->name) == tool);
        gb_policy_show(p, &p->principals[i % p->principal_count], tool, &out);
        CHECK(!gb_buf_truncated(&text) && !gb_json_read(text.data, text.len, &shown, NULL));
        CHECK(!secret || !strstr(text.data, MARK));
        json_decref(shown);
        gb_buf_done(&text);
    }
}

static void check_policy(const struct gb_config *config, const struct gb_policy *p, bool secret)
{
    CHECK(p->tool_count >= 1 && p->principal_count >= 1 && p->profile_count >= 1);
    CHECK(!strcmp(p->principals[p->principal_count - 1].name, "default"));
    CHECK(gb_policy_principal(p, "no such name") == &p->principals[p->principal_count - 1]);
    check_limits(config, p);
    check_shown(p, secret);
    for (size_t i = 0; i < p->secret_count; i++)
        CHECK(strlen(p->secrets[i].value) >= GB_SECRET_LEAST);
}

/* Handed down and read again, it is the same policy. */
static void check_handed(const struct gb_config *config, const struct gb_policy *p)
{
    struct gb_config *again = NULL;
    struct gb_policy *same = NULL;
    struct gb_buf text = {.max = (size_t)16 << 20};
    char hash[65];
    CHECK(!gb_config_write(config, true, &text, NULL));
    gb_policy_hash(text.data, text.len, hash);
    CHECK(!gb_config_from_json(text.data, text.len, &again, NULL));
    CHECK(!gb_policy_new(again, GB_POLICY_BROKER, &same, NULL));
    CHECK(!strcmp(hash, p->sha256) && !strcmp(hash, same->sha256));
    CHECK(same->tool_count == p->tool_count && same->principal_count == p->principal_count);
    gb_policy_free(same);
    gb_config_free(again);
    gb_buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gb_err err = {0};
    struct gb_config *config = NULL;
    struct gb_policy *p = NULL;
    char *copy = fuzz_copy(data, size);
    if (!gb_config_read(copy, size, &config, NULL)) {
        /* Rules take long to compile: only if there are any, and now and then. */
        const bool rules =
                config->screening || config->sanitising || config->sanitising_off || config->profiles;
        const enum gb_policy_use use =
                rules && fuzz_position(data, size) % 4 == 0 ? GB_POLICY_DECIDE : GB_POLICY_BROKER;
        const bool secret = has_one_secret(config, copy, size);
        int r = gb_policy_new(config, use, &p, &err);
        if (r) {
            char shown[sizeof(err.text)];
            CHECK(r < 0 && !p && err.code == GB_ERR_CONFIG && *err.text);
            CHECK(!secret || !strstr(err.text, MARK));
            memcpy(shown, err.text, sizeof(shown));
            gb_text_defuse(shown);
            CHECK(!strcmp(shown, err.text));
        } else {
            check_policy(config, p, secret);
            check_handed(config, p);
        }
    }
    gb_policy_free(p);
    gb_config_free(config);
    free(copy);
    return 0;
}
