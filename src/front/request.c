#include "front/request.h"

#include "base/auto.h"
#include "base/text.h"
#include "wire/payload.h"

#include <errno.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define SEEDS_OUTPUT_BYTES 10000
#define TEXTS_MOST         256    /* args, env, outputs: of each */
#define TEXT_BYTES         131071 /* the most that execve takes as one */
#define ARGS_KB            1024   /* args and env together: half of what it takes in all */
#define FILES_MOST         64
#define TOOL               "execute_code"
#define LATER              "command,arguments,allowed_modules,session_id"
#define TEXT(macro)        TEXT_OF(macro)
#define TEXT_OF(value)     #value

struct reader {
    const struct gb_config *config;
    struct request *r;
    struct gb_buf args, env, files,
            outputs; /* items of the payload, each kind by itself: fields come in any order */
    struct gb_err *err;
};

static int wrong(struct reader *in, const char *path, const char *allowed)
{
    return gb_err_set(in->err, GB_ERR_USAGE, 0, "%.100s: %s", path, allowed);
}

/* A string without NUL, which nothing behind us could hold. */
static const char *text_of(const json_t *value, size_t *ret_len)
{
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return NULL;
    if (ret_len)
        *ret_len = json_string_length(value);
    return json_string_value(value);
}

/* --- fields --- */

static int take_tool(struct reader *in, const json_t *value)
{
    in->r->tool = text_of(value, NULL);
    if (!in->r->tool || strcmp(in->r->tool, TOOL))
        return wrong(in, "tool_name", "there is one tool: \"" TOOL "\"");
    return 0;
}

static int take_code(struct reader *in, const json_t *value)
{
    if (!json_is_string(value))
        return wrong(in, "code", "must be a string");
    in->r->code = json_string_value(value);
    in->r->code_len = json_string_length(value);
    int r = gb_runtime_check_code(in->r->code, in->r->code_len, in->err);
    if (r)
        gb_err_wrap(in->err, "code");
    return r;
}

static int take_language(struct reader *in, const json_t *value)
{
    const char *name = text_of(value, NULL);
    in->r->runtime = name ? gb_runtime_find(name) : NULL;
    if (in->r->runtime)
        return 0;
    char names[128] = "";
    for (size_t i = 0; i < gb_runtime_count; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "",
                 gb_runtimes[i].name);
    return gb_err_set(in->err, GB_ERR_USAGE, 0, "language: must be one of %s", names);
}

static int take_stdin(struct reader *in, const json_t *value)
{
    if (!json_is_string(value))
        return wrong(in, "stdin", "must be a string");
    in->r->input = json_string_value(value);
    in->r->input_len = json_string_length(value);
    return 0;
}

static int take_texts(struct reader *in, const json_t *value, const char *name, enum gb_item_kind kind,
                      struct gb_buf *items, bool (*good)(const char *), const char *allowed)
{
    char path[64];
    if (!json_is_array(value) || json_array_size(value) > TEXTS_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "%s: must be an array of at most %d strings", name,
                          TEXTS_MOST);
    for (size_t i = 0; i < json_array_size(value); i++) {
        size_t len;
        const char *text = text_of(json_array_get(value, i), &len);
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        if (!text || len > TEXT_BYTES)
            return wrong(in, path, "must be a string of at most " TEXT(TEXT_BYTES) " bytes, without NUL");
        if (good && !good(text))
            return wrong(in, path, allowed);
        gb_payload_add(items, kind, text, len + 1);
    }
    return 0;
}

static int take_args(struct reader *in, const json_t *value)
{
    return take_texts(in, value, "args", GB_ITEM_ARG, &in->args, NULL, "");
}

static int take_outputs(struct reader *in, const json_t *value)
{
    return take_texts(in, value, "outputs", GB_ITEM_OUTPUT, &in->outputs, gb_text_is_relative_name,
                      "must be a name or glob relative to " GB_WORKDIR ", without '..'");
}

static int take_env(struct reader *in, const json_t *value)
{
    const char *name;
    json_t *item;
    if (!json_is_object(value) || json_object_size(value) > TEXTS_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "env: must be an object of at most %d strings",
                          TEXTS_MOST);
    json_object_foreach((json_t *)value, name, item) {
        size_t len;
        const char *text = text_of(item, &len);
        char path[96];
        snprintf(path, sizeof(path), "env.%.80s", name);
        if (!gb_spec_is_env_name(name, strlen(name)))
            return wrong(in, path, "names are letters, digits and _, no digit first");
        if (!text || strlen(name) + 1 + len > TEXT_BYTES)
            return wrong(
                    in, path,
                    "must be a string, with its name of at most " TEXT(TEXT_BYTES) " bytes, without NUL");
        AUTO_FREE char *both = NULL;
        int n = asprintf(&both, "%s=%s", name, text);
        if (n < 0)
            return gb_err_set(in->err, GB_ERR_BUSY, ENOMEM, "env");
        gb_payload_add(&in->env, GB_ITEM_ENV, both, (size_t)n + 1);
    }
    return 0;
}

/* Standard base64, padded, nothing else. Returns bytes or -1. */
static ssize_t decode_base64(const char *text, size_t len, unsigned char *ret)
{
    const size_t pad = len && text[len - 1] == '=' ? (len > 1 && text[len - 2] == '=' ? 2 : 1) : 0;
    if (len % 4 ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") != len - pad)
        return -1;
    int n = len ? EVP_DecodeBlock(ret, (const unsigned char *)text, (int)len) : 0;
    return n < 0 ? -1 : n - (ssize_t)pad;
}

static int take_file(struct reader *in, const json_t *value, size_t index)
{
    char path[64];
    const char *key, *name = NULL, *text = NULL, *base64 = NULL;
    size_t len = 0;
    bool executable = false;
    json_t *item;
    snprintf(path, sizeof(path), "files[%zu]", index);
    if (!json_is_object(value))
        return wrong(in, path, "must be an object with name, and text or base64");
    json_object_foreach((json_t *)value, key, item) {
        if (!strcmp(key, "name")) {
            name = text_of(item, NULL);
        } else if (!strcmp(key, "text") && json_is_string(item)) {
            text = json_string_value(item);
            len = json_string_length(item);
        } else if (!strcmp(key, "base64")) {
            base64 = text_of(item, &len);
        } else if (!strcmp(key, "executable") && json_is_boolean(item)) {
            executable = json_is_true(item);
        } else {
            return wrong(in, path, "takes name, text or base64 (strings), and executable (true or false)");
        }
    }
    if (!name || !gb_text_is_relative_name(name))
        return wrong(in, path, "name must be relative to " GB_WORKDIR ", without '..'");
    if (!text == !base64)
        return wrong(in, path, "needs either text or base64");
    AUTO_FREE unsigned char *bytes = NULL;
    if (base64) {
        bytes = malloc(len / 4 * 3 + 4);
        ssize_t n = bytes ? decode_base64(base64, len, bytes) : -1;
        if (n < 0)
            return wrong(in, path, "base64 is not valid: standard alphabet, with padding");
        len = (size_t)n;
    }
    gb_payload_add(&in->files, GB_ITEM_NAME, name, strlen(name) + 1);
    gb_payload_add(&in->files, executable ? GB_ITEM_PROGRAM : GB_ITEM_DATA,
                   bytes ? (const char *)bytes : text, len);
    return 0;
}

static int take_files(struct reader *in, const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) > FILES_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "files: must be an array of at most %d files",
                          FILES_MOST);
    int r = 0;
    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = take_file(in, json_array_get(value, i), i);
    return r;
}

static int take_limits(struct reader *in, const json_t *value)
{
    const char *name;
    json_t *item;
    if (!json_is_object(value))
        return wrong(in, "limits", "must be an object");
    json_object_foreach((json_t *)value, name, item) {
        const struct gb_limit_row *row = gb_limits_find(name);
        if (!row) {
            /* the library's own words, which list the names */
            int r = gb_limits_set(&in->r->limits, name, "0", in->err);
            gb_err_wrap(in->err, "limits");
            return r;
        }
        const int64_t least = row->least, most = gb_limits_get(&in->config->ceilings, row);
        double scaled = json_is_number(item) ? json_number_value(item) : NAN;
        for (unsigned i = 0; i < row->decimals; i++)
            scaled *= 10;
        /* What has more digits than the limit keeps is not rounded in silence. */
        const bool in_range = scaled >= (double)least && scaled <= (double)most;
        const int64_t whole = in_range ? (int64_t)(scaled + 0.5) : 0;
        if (!in_range || fabs(scaled - (double)whole) > 1e-6) {
            char low[32], high[32];
            gb_text_decimal(least, row->decimals, low, sizeof(low));
            gb_text_decimal(most, row->decimals, high, sizeof(high));
            return gb_err_set(in->err, GB_ERR_USAGE, 0, "limits.%s: takes a %s from %s to %s", name,
                              row->decimals ? "number" : "whole number", low, high);
        }
        *(int64_t *)(void *)((char *)&in->r->limits + row->offset) = whole;
    }
    return 0;
}

static int take_network(struct reader *in, const json_t *value)
{
    if (!json_is_false(value) && !(json_is_string(value) && !strcmp(json_string_value(value), "none")))
        return wrong(in, "network", "only false: boxes have no network");
    return 0;
}

static int take_stream(struct reader *in, const json_t *value)
{
    if (!json_is_boolean(value))
        return wrong(in, "stream", "must be true or false");
    in->r->stream = json_is_true(value);
    return 0;
}

static const struct field {
    const char *name;
    int (*take)(struct reader *in, const json_t *value);
} fields[] = {
        {"tool_name", take_tool},  {"code", take_code},       {"language", take_language},
        {"stdin", take_stdin},     {"args", take_args},       {"env", take_env},
        {"files", take_files},     {"outputs", take_outputs}, {"limits", take_limits},
        {"network", take_network}, {"stream", take_stream},
};

static int take_field(struct reader *in, const char *name, const json_t *value)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!strcmp(fields[i].name, name))
            return fields[i].take(in, value);
    if (gb_text_in_list(LATER, name))
        return wrong(in, name, "this version cannot do that yet, and does not pretend to");
    gb_err_set(in->err, GB_ERR_USAGE, 0, "%.100s: there is no such field; there are:", name);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        snprintf(in->err->text + strlen(in->err->text), sizeof(in->err->text) - strlen(in->err->text), " %s",
                 fields[i].name);
    return -EINVAL;
}

/* --- the whole --- */

static int read_fields(struct reader *in, bool seeds)
{
    const char *name;
    json_t *value;
    if (!json_is_object(in->r->json))
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "the body must be a JSON object");
    json_object_foreach(in->r->json, name, value) {
        int r = take_field(in, name, value);
        if (r)
            return r;
    }
    if (seeds && !in->r->tool)
        return wrong(in, "tool_name", "is missing; there is one tool: \"" TOOL "\"");
    if (!in->r->code)
        return wrong(in, "code", "is missing; it must be a string");
    if (in->args.len + in->env.len > (size_t)ARGS_KB << 10)
        return wrong(in, "args", "with env at most " TEXT(ARGS_KB) " KiB");
    in->r->tool = TOOL;
    return 0;
}

/* The order that wire/payload.h wants: the program, its arguments, then the rest. */
static int build_payload(struct reader *in)
{
    const struct gb_runtime *rt = in->r->runtime;
    struct gb_buf *p = &in->r->payload;
    char script[64];
    snprintf(script, sizeof(script), "%s/%s", GB_WORKDIR, rt->script);
    gb_payload_add(p, GB_ITEM_ARG, rt->program, strlen(rt->program) + 1);
    if (*rt->option)
        gb_payload_add(p, GB_ITEM_ARG, rt->option, strlen(rt->option) + 1);
    gb_payload_add(p, GB_ITEM_ARG, script, strlen(script) + 1);
    gb_buf_add(p, in->args.data, in->args.len);
    gb_buf_add(p, in->env.data, in->env.len);
    gb_buf_add(p, in->outputs.data, in->outputs.len);
    gb_payload_add(p, GB_ITEM_NAME, rt->script, strlen(rt->script) + 1);
    gb_payload_add(p, GB_ITEM_DATA, in->r->code, in->r->code_len);
    gb_buf_add(p, in->files.data, in->files.len);
    const bool lost =
            in->args.failed || in->env.failed || in->outputs.failed || in->files.failed || p->failed;
    return lost ? gb_err_set(in->err, GB_ERR_BUSY, ENOMEM, "keep the request") : 0;
}

/* Over what will run and within which limits, so that white space and the order of fields make no difference.
 */
static int hash_request(struct request *r, struct gb_err *err)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) &&
                      EVP_DigestUpdate(ctx, &r->limits, sizeof(r->limits)) &&
                      EVP_DigestUpdate(ctx, &r->payload.len, sizeof(r->payload.len)) &&
                      EVP_DigestUpdate(ctx, r->payload.data, r->payload.len) &&
                      EVP_DigestUpdate(ctx, r->input ? "+" : "-", 1) &&
                      (!r->input || EVP_DigestUpdate(ctx, r->input, r->input_len)) &&
                      EVP_DigestFinal_ex(ctx, hash, &len);
    EVP_MD_CTX_free(ctx);
    if (!good)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "hash the request");
    gb_text_hex(hash, len, r->sha256);
    return 0;
}

int request_read(const struct gb_config *config, bool seeds, const char *body, size_t len,
                 struct request *ret, struct gb_err *err)
{
    const size_t most = GB_PAYLOAD_BYTES;
    struct reader in = {.config = config,
                        .r = ret,
                        .err = err,
                        .args.max = most,
                        .env.max = most,
                        .files.max = most,
                        .outputs.max = most};
    *ret = (struct request){.runtime = &gb_runtimes[0], .limits = config->limits, .payload.max = most};
    if (seeds && ret->limits.output_bytes > SEEDS_OUTPUT_BYTES)
        ret->limits.output_bytes = SEEDS_OUTPUT_BYTES;
    int r = gb_json_read(body, len, &ret->json, err);
    if (!r)
        r = read_fields(&in, seeds);
    if (!r)
        r = build_payload(&in);
    if (!r)
        r = hash_request(ret, err);
    gb_buf_done(&in.args);
    gb_buf_done(&in.env);
    gb_buf_done(&in.files);
    gb_buf_done(&in.outputs);
    return r;
}

void request_done(struct request *r)
{
    gb_buf_done(&r->payload);
    json_decref(r->json);
    r->json = NULL;
    r->code = r->input = NULL;
    r->code_len = r->input_len = 0;
}
