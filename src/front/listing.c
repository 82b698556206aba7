#include "front/listing.h"

#include "base/auto.h"
#include "front/reply.h"

#include <string.h>

#define PAGE_BYTES ((size_t)16 << 20)

/* --- tools --- */

/* Each API that lets models call functions has its own words for the same three things. */
static const struct form {
    const char *name;
    const char *wrapper; /* the member that holds them, or NULL: they stand in the item itself */
    const char *schema;  /* what the schema is called */
} forms[] = {{"openai", "function", "parameters"}, {"anthropic", NULL, "input_schema"}};

static void write_tool(struct gb_json *j, const struct gb_tool *tool, const struct form *form)
{
    AUTO_FREE char *schema = json_dumps(tool->parameters, JSON_COMPACT);
    gb_json_open(j, NULL, '{');
    if (form->wrapper) {
        gb_json_text(j, "type", form->wrapper);
        gb_json_open(j, form->wrapper, '{');
    }
    gb_json_text(j, "name", tool->name);
    gb_json_text(j, "description", tool->description ? tool->description : "");
    if (schema)
        gb_json_raw(j, form->schema, schema, strlen(schema));
    else
        j->out->failed = true;
    if (form->wrapper)
        gb_json_close(j, '}');
    gb_json_close(j, '}');
}

/* "format=NAME", or nothing. */
static const struct form *wanted_form(struct gb_slice query)
{
    static const char key[] = "format=";
    const size_t len = sizeof(key) - 1;
    if (!query.len)
        return &forms[0];
    if (query.len <= len || memcmp(query.data, key, len) != 0)
        return NULL;
    const struct gb_slice value = {query.data + len, query.len - len};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (gb_slice_is(value, forms[i].name))
            return &forms[i];
    return NULL;
}

void listing_tools(struct conn *c)
{
    const struct gb_policy *p = c->policy->gb;
    const struct gb_principal *who = gb_policy_principal(p, c->x->principal);
    const struct form *form = wanted_form(c->x->http.query);
    AUTO_BUF text = {.max = PAGE_BYTES};
    struct gb_json j = {.out = &text, .first = true};
    if (!form) {
        struct gb_err err;
        gb_err_set(&err, GB_ERR_USAGE, 0, "the query takes format=openai or format=anthropic");
        reply_problem(c, 0, &err, "");
        return;
    }
    gb_json_open(&j, NULL, '{');
    gb_json_open(&j, "tools", '[');
    for (size_t i = 0; i < p->tool_count; i++)
        if (gb_policy_may(p, who, &p->tools[i]))
            write_tool(&j, &p->tools[i], form);
    gb_json_close(&j, ']');
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}

/* --- what holds --- */

/* Of the caller alone, for every tool that it may use. */
void listing_policy(struct conn *c)
{
    const struct gb_policy *p = c->policy->gb;
    const struct gb_principal *who = gb_policy_principal(p, c->x->principal);
    AUTO_BUF text = {.max = PAGE_BYTES};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "principal", c->x->principal);
    gb_json_text(&j, "policy", p->sha256);
    gb_json_open(&j, "tools", '[');
    for (size_t i = 0; i < p->tool_count; i++)
        if (gb_policy_may(p, who, &p->tools[i])) {
            AUTO_BUF one = {.max = PAGE_BYTES};
            struct gb_json inner = {.out = &one, .first = true};
            gb_policy_show(p, who, &p->tools[i], &inner);
            text.failed = text.failed || one.failed;
            gb_json_raw(&j, NULL, one.data, one.len);
        }
    gb_json_close(&j, ']');
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}

void listing_capabilities(struct conn *c)
{
    const struct gb_config *config = c->policy->config;
    const struct gb_policy *p = c->policy->gb;
    const struct gb_principal *who = gb_policy_principal(p, c->x->principal);
    AUTO_BUF text = {.max = PAGE_BYTES};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "version", GB_VERSION);
    gb_json_text(&j, "principal", c->x->principal);
    gb_json_open(&j, "tools", '[');
    for (size_t i = 0; i < p->tool_count; i++)
        if (gb_policy_may(p, who, &p->tools[i]))
            gb_json_text(&j, NULL, p->tools[i].name);
    gb_json_close(&j, ']');
    gb_json_text(&j, "profile", who->profile->name);
    gb_json_open(&j, "languages", '[');
    for (size_t i = 0; i < gb_runtime_count; i++)
        if (who->profile->runtimes >> i & 1)
            gb_json_text(&j, NULL, gb_runtimes[i].name);
    gb_json_close(&j, ']');
    gb_json_text(&j, "network", "none");
    gb_limits_to_json(&j, "limits", &who->profile->limits);
    gb_limits_to_json(&j, "ceilings", &who->profile->ceilings);
    gb_json_open(&j, "boxes", '{');
    gb_json_int(&j, "running", config->boxes.running);
    gb_json_int(&j, "queued", config->boxes.queued);
    gb_json_close(&j, '}');
    gb_json_bool(&j, "sanitise", who->profile->sanitise);
    gb_json_bool(&j, "raw_output", who->profile->raw_output);
    gb_json_bool(&j, "approver", who->approver);
    gb_json_open(&j, "streaming", '[');
    gb_json_text(&j, NULL, "text/event-stream");
    gb_json_text(&j, NULL, "application/x-ndjson");
    gb_json_close(&j, ']');
    gb_json_int(&j, "body_bytes", config->http.body_bytes);
    gb_json_int(&j, "code_bytes", GB_CODE_BYTES);
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}
