#include "front/fields.h"

#include "base/auto.h"
#include "base/text.h"
#include "wire/payload.h"

#include <errno.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TEXTS_MOST     256    /* args, env, outputs: of each */
#define TEXT_BYTES     131071 /* the most that execve takes as one */
#define ARGS_KB        1024   /* args and env together: half of what it takes in all */
#define FILES_MOST     64
#define NAME_BYTES     255 /* of a module */
#define LATER          "session_id"
#define TEXT(macro)    TEXT_OF(macro)
#define TEXT_OF(value) #value

static int wrong(struct fields_reader *in, const char *path, const char *allowed)
{
    return gb_err_set(in->err, GB_ERR_USAGE, 0, "%.100s: %s", path, allowed);
}

const char *fields_text(const json_t *value, size_t *ret_len)
{
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return NULL;
    if (ret_len)
        *ret_len = json_string_length(value);
    return json_string_value(value);
}

/* --- fields --- */

static int take_language(struct fields_reader *in, const json_t *value)
{
    const char *name = fields_text(value, NULL);
    if (name && gb_runtime_find(name))
        return 0; /* request.c puts it into the arguments */
    char names[128] = "";
    for (size_t i = 0; i < gb_runtime_count; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "",
                 gb_runtimes[i].name);
    return gb_err_set(in->err, GB_ERR_USAGE, 0, "language: must be one of %s", names);
}

static int take_stdin(struct fields_reader *in, const json_t *value)
{
    if (!json_is_string(value))
        return wrong(in, "stdin", "must be a string");
    in->r->input = json_string_value(value);
    in->r->input_len = json_string_length(value);
    return 0;
}

static int take_texts(struct fields_reader *in, const json_t *value, const char *name, enum gb_item_kind kind,
                      struct gb_buf *items, bool (*good)(const char *), const char *allowed)
{
    char path[64];
    if (!json_is_array(value) || json_array_size(value) > TEXTS_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "%s: must be an array of at most %d strings", name,
                          TEXTS_MOST);
    for (size_t i = 0; i < json_array_size(value); i++) {
        size_t len;
        const char *text = fields_text(json_array_get(value, i), &len);
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        if (!text || len > TEXT_BYTES)
            return wrong(in, path, "must be a string of at most " TEXT(TEXT_BYTES) " bytes, without NUL");
        if (good && !good(text))
            return wrong(in, path, allowed);
        gb_payload_add(items, kind, text, len + 1);
    }
    return 0;
}

static int take_args(struct fields_reader *in, const json_t *value)
{
    return take_texts(in, value, "args", GB_ITEM_ARG, &in->r->args, NULL, "");
}

static int take_outputs(struct fields_reader *in, const json_t *value)
{
    return take_texts(in, value, "outputs", GB_ITEM_OUTPUT, &in->r->outputs, gb_text_is_relative_name,
                      "must be a name or glob relative to " GB_WORKDIR ", without '..'");
}

static int take_env(struct fields_reader *in, const json_t *value)
{
    const char *name;
    json_t *item;
    if (!json_is_object(value) || json_object_size(value) > TEXTS_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "env: must be an object of at most %d strings",
                          TEXTS_MOST);
    json_object_foreach((json_t *)value, name, item) {
        size_t len;
        const char *text = fields_text(item, &len);
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
        gb_payload_add(&in->r->env, GB_ITEM_ENV, both, (size_t)n + 1);
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

static int take_file(struct fields_reader *in, const json_t *value, size_t index)
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
            name = fields_text(item, NULL);
        } else if (!strcmp(key, "text") && json_is_string(item)) {
            text = json_string_value(item);
            len = json_string_length(item);
        } else if (!strcmp(key, "base64")) {
            base64 = fields_text(item, &len);
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
    gb_payload_add(&in->r->files, GB_ITEM_NAME, name, strlen(name) + 1);
    gb_payload_add(&in->r->files, executable ? GB_ITEM_PROGRAM : GB_ITEM_DATA,
                   bytes ? (const char *)bytes : text, len);
    return 0;
}

static int take_files(struct fields_reader *in, const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) > FILES_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "files: must be an array of at most %d files",
                          FILES_MOST);
    int r = 0;
    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = take_file(in, json_array_get(value, i), i);
    return r;
}

static int take_limits(struct fields_reader *in, const json_t *value)
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
        const int64_t least = row->least, most = gb_limits_get(&in->r->profile->ceilings, row);
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

static int take_network(struct fields_reader *in, const json_t *value)
{
    if (!json_is_false(value) && !(json_is_string(value) && !strcmp(json_string_value(value), "none")))
        return wrong(in, "network", "only false: boxes have no network");
    return 0;
}

static int take_flag(struct fields_reader *in, const char *name, const json_t *value, bool *ret)
{
    if (!json_is_boolean(value))
        return wrong(in, name, "must be true or false");
    *ret = json_is_true(value);
    return 0;
}

static int take_stream(struct fields_reader *in, const json_t *value)
{
    return take_flag(in, "stream", value, &in->r->stream);
}

static int take_wait(struct fields_reader *in, const json_t *value)
{
    return take_flag(in, "wait", value, &in->r->wait);
}

static int take_raw(struct fields_reader *in, const json_t *value)
{
    int r = take_flag(in, "raw", value, &in->r->raw);
    if (!r && in->r->raw && !in->r->profile->raw_output)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "raw: the profile \"%s\" does not have raw_output: true",
                          in->r->profile->name);
    return r;
}

static int take_approval(struct fields_reader *in, const json_t *value)
{
    const char *id = fields_text(value, NULL);
    if (!id || !gb_id_is_valid(id))
        return wrong(in, "approval",
                     "must be the id of an approval, as the answer to the first call gave it");
    snprintf(in->r->approval_text, sizeof(in->r->approval_text), "%s", id);
    in->r->approval = in->r->approval_text;
    return 0;
}

/* Fewer than the profile allows; never more. */
static int take_modules(struct fields_reader *in, const json_t *value)
{
    struct request *r = in->r;
    if (!json_is_array(value) || json_array_size(value) > TEXTS_MOST)
        return gb_err_set(in->err, GB_ERR_USAGE, 0, "allowed_modules: must be an array of at most %d strings",
                          TEXTS_MOST);
    r->modules = calloc(json_array_size(value) + 1, sizeof(*r->modules));
    if (!r->modules)
        return gb_err_set(in->err, GB_ERR_BUSY, ENOMEM, "allowed_modules");
    r->limits_modules = true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        char path[32];
        size_t len;
        const char *name = fields_text(json_array_get(value, i), &len);
        snprintf(path, sizeof(path), "allowed_modules[%zu]", i);
        if (!name || !len || len > NAME_BYTES)
            return wrong(in, path, "must be the name of a module, of at most " TEXT(NAME_BYTES) " bytes");
        if (!gb_profile_may_import(r->profile, name))
            return gb_err_set(in->err, GB_ERR_USAGE, 0,
                              "%s: the profile \"%s\" does not allow it, and a request may only narrow", path,
                              r->profile->name);
        r->modules[r->module_count++] = name;
    }
    return 0;
}

/* These three are request.c's: they make the arguments. */
static int take_nothing(struct fields_reader *in, const json_t *value)
{
    (void)in;
    (void)value;
    return 0;
}

#define ON_CODE    (1U << GB_TOOL_CODE)
#define ON_COMMAND (1U << GB_TOOL_COMMAND)
#define ON_BOXES   (ON_CODE | ON_COMMAND)
#define ON_ALL     (~0U)

static const struct field {
    const char *name;
    unsigned kinds; /* of tools that take it */
    int (*take)(struct fields_reader *in, const json_t *value);
} fields[] = {
        {"tool_name", ON_ALL, take_nothing},
        {"arguments", ON_ALL, take_nothing},
        {"code", ON_CODE, take_nothing},
        {"command", ON_COMMAND, take_nothing},
        {"language", ON_CODE, take_language},
        {"stdin", ON_BOXES, take_stdin},
        {"args", ON_CODE, take_args},
        {"env", ON_BOXES, take_env},
        {"files", ON_BOXES, take_files},
        {"outputs", ON_BOXES, take_outputs},
        {"limits", ON_BOXES, take_limits},
        {"network", ON_BOXES, take_network},
        {"allowed_modules", ON_CODE, take_modules},
        {"raw", ON_BOXES, take_raw},
        {"stream", ON_ALL, take_stream},
        {"approval", ON_ALL, take_approval},
        {"wait", ON_ALL, take_wait},
};

static const struct field *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i];
    return NULL;
}

int fields_check_names(const json_t *body, struct gb_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)body, name, value) {
        if (find(name))
            continue;
        if (gb_text_in_list(LATER, name))
            return gb_err_set(err, GB_ERR_USAGE, 0,
                              "%s: this version cannot do that yet, and does not pretend to", name);
        gb_err_set(err, GB_ERR_USAGE, 0, "%.100s: there is no such field; there are:", name);
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
            snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text), " %s",
                     fields[i].name);
        return -EINVAL;
    }
    return 0;
}

int fields_take(struct fields_reader *in)
{
    const char *name;
    json_t *value;
    const struct gb_tool *tool = in->r->tool;
    json_object_foreach((json_t *)in->body, name, value) {
        const struct field *field = find(name);
        if (!(field->kinds >> tool->kind & 1))
            return gb_err_set(in->err, GB_ERR_USAGE, 0, "%s: is not for %s, a tool of the kind %s", name,
                              tool->name, gb_tool_kinds[tool->kind]);
        int r = field->take(in, value);
        if (r)
            return r;
    }
    if (in->r->args.len + in->r->env.len > (size_t)ARGS_KB << 10)
        return wrong(in, "args", "with env at most " TEXT(ARGS_KB) " KiB");
    return 0;
}
