#include "front/request.h"

#include "base/auto.h"
#include "base/sha256.h"
#include "base/text.h"
#include "front/fields.h"
#include "wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SEEDS_OUTPUT_BYTES 10000

/* --- which tool --- */

/* "…; there are: a, b": only those that may be used by whoever asks. */
static void name_tools(const struct request_source *from, struct gb_err *err)
{
    const struct gb_policy *p = from->policy;
    const char *before = "; there are: ";
    for (size_t i = 0; i < p->tool_count; i++)
        if (gb_policy_may(p, from->who, &p->tools[i])) {
            snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text), "%s%s", before,
                     p->tools[i].name);
            before = ", ";
        }
}

/* On our own route the tool may be left out: what is given says which of the two built-in ones is meant. */
static const char *usual_tool(const json_t *body)
{
    return json_object_get(body, "command") ? "execute_command" : "execute_code";
}

static int find_tool(const struct request_source *from, const json_t *body, const struct gb_tool **ret,
                     struct gb_err *err)
{
    const json_t *field = json_object_get(body, "tool_name");
    const char *name = fields_text(field, NULL);
    if (field && !name)
        return gb_err_set(err, GB_ERR_USAGE, 0, "tool_name: must be a string");
    if (from->tool && name && strcmp(name, from->tool) != 0)
        return gb_err_set(err, GB_ERR_USAGE, 0, "tool_name: the path names another tool");
    if (from->tool)
        name = from->tool;
    else if (!name && !from->seeds)
        name = usual_tool(body);
    *ret = name ? gb_policy_tool(from->policy, name) : NULL;
    if (*ret)
        return 0;
    if (from->tool)
        gb_err_set(err, GB_ERR_NOT_FOUND, 0, "there is no tool '%s'", from->tool);
    else
        gb_err_set(err, GB_ERR_USAGE, 0, "tool_name: %s", field ? "there is no such tool" : "is missing");
    name_tools(from, err);
    return -EINVAL;
}

/* --- the arguments --- */

/* `code` and `command` are short for members of `arguments`; see also put_language. */
static int put_argument(struct request *r, const char *name, struct gb_err *err)
{
    json_t *value = json_object_get(r->json, name);
    const bool given = json_object_get(r->json, "arguments") != NULL;
    if (!value)
        return given ? 0 : gb_err_set(err, GB_ERR_USAGE, 0, "%s: is missing; it must be a string", name);
    if (!json_is_string(value))
        return gb_err_set(err, GB_ERR_USAGE, 0, "%s: must be a string", name);
    if (json_object_get(r->arguments, name))
        return gb_err_set(err, GB_ERR_USAGE, 0, "%s: is in arguments, too", name);
    return json_object_set(r->arguments, name, value)
                   ? gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the arguments")
                   : 0;
}

/* The script, as text that a runtime takes. */
static int take_code(struct request *r, struct gb_err *err)
{
    const json_t *code = json_object_get(r->arguments, "code");
    if (!json_is_string(code))
        return 0; /* the schema says so, or decide.c */
    r->code = json_string_value(code);
    r->code_len = json_string_length(code);
    int error = gb_runtime_check_code(r->code, r->code_len, err);
    if (error)
        gb_err_wrap(err, json_object_get(r->json, "code") ? "code" : "arguments.code");
    return error;
}

/* What runs if nobody says anything. */
static const struct gb_runtime *usual_runtime(const struct gb_tool *tool)
{
    const char *own = json_string_value(json_object_get(tool->spec, "language"));
    return own ? gb_runtime_find(own) : &gb_runtimes[0];
}

static int set_language(struct request *r, json_t *value, struct gb_err *err)
{
    return json_object_set_new(r->arguments, "language", value)
                   ? gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the arguments")
                   : 0;
}

/* `language` is short for an argument, too: the schema and the approval's conditions must see what will run.
 * Only what says nothing new is left out, where the schema has no such argument; and what a tool with a
 * language of its own does not have, which decide.c refuses. */
static int put_language(struct request *r, struct gb_err *err)
{
    json_t *value = json_object_get(r->json, "language");
    const json_t *other = json_object_get(r->arguments, "language");
    if (!value)
        return 0;
    if (other)
        return json_equal(value, other)
                       ? 0
                       : gb_err_set(err, GB_ERR_USAGE, 0, "language: arguments.language is another one");
    r->runtime = gb_runtime_find(json_string_value(value));
    if (json_object_get(r->tool->spec, "language") ||
        (r->runtime == usual_runtime(r->tool) && !gb_policy_takes(r->tool, "language")))
        return 0;
    return set_language(r, json_incref(value), err);
}

/* After the defaults. What runs is among the arguments from here on if the schema has a name for it. NULL if
 * there is no such language. */
static int take_runtime(struct request *r, struct gb_err *err)
{
    const json_t *asked = json_object_get(r->arguments, "language");
    const char *name = json_string_value(asked);
    if (asked)
        r->runtime = name ? gb_runtime_find(name) : NULL;
    else if (!r->runtime)
        r->runtime = usual_runtime(r->tool);
    return asked || !gb_policy_takes(r->tool, "language")
                   ? 0
                   : set_language(r, json_string(r->runtime->name), err);
}

/* Two files of one name would leave open which of them runs. */
static int check_files(const struct request *r, struct gb_err *err)
{
    const json_t *files = json_object_get(r->json, "files");
    for (size_t i = 0; r->runtime && i < json_array_size(files); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(files, i), "name"));
        if (!strcmp(name, r->runtime->script))
            return gb_err_set(err, GB_ERR_USAGE, 0, "files[%zu]: %s is the name of the script itself", i,
                              name);
    }
    return 0;
}

static int take_arguments(struct request *r, struct gb_err *err)
{
    json_t *given = json_object_get(r->json, "arguments");
    int error = 0;
    if (given && !json_is_object(given))
        return gb_err_set(err, GB_ERR_USAGE, 0, "arguments: must be an object");
    r->arguments = given ? json_copy(given) : json_object();
    if (!r->arguments)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the arguments");
    if (r->tool->kind == GB_TOOL_CODE) {
        error = put_argument(r, "code", err);
        error = error ? error : take_code(r, err);
        error = error ? error : put_language(r, err);
    } else if (r->tool->kind == GB_TOOL_COMMAND && !json_object_get(r->tool->spec, "argv")) {
        error = put_argument(r, "command", err);
    } else if (json_object_get(r->json, "command")) {
        error = gb_err_set(err, GB_ERR_USAGE, 0, "command: %s has a fixed one; use arguments", r->tool->name);
    }
    if (!error && gb_policy_defaults(r->tool, r->arguments))
        error = gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the arguments");
    return error || r->tool->kind != GB_TOOL_CODE ? error : take_runtime(r, err);
}

/* --- the hash --- */

static int add_bytes(const char *data, size_t len, void *context)
{
    gb_sha256_add(context, data, len);
    return 0;
}

/* Over who asks for what: the tool and its arguments, and everything else that changes what runs. White
 * space, the order of fields, and whether `code` or `arguments.code` was written, make no difference. An
 * approval is for exactly this. */
static int hash_request(const struct request_source *from, struct request *r, struct gb_err *err)
{
    static const char *const others[] = {"stdin",           "args", "env", "files", "outputs",
                                         "allowed_modules", "raw"};
    AUTO_JSON all =
            json_pack("{s:s, s:s, s:O, s:s, s:{}}", "principal", from->principal, "tool", r->tool->name,
                      "arguments", r->arguments, "language", r->runtime ? r->runtime->name : "", "limits");
    bool good = all != NULL;
    for (size_t i = 0; good && i < ARRAY_LEN(others); i++) {
        json_t *value = json_object_get(r->json, others[i]);
        good = !value || !json_object_set(all, others[i], value);
    }
    for (size_t i = 0; good && i < gb_limit_count; i++)
        good = !json_object_set_new(json_object_get(all, "limits"), gb_limit_rows[i].key,
                                    json_integer(gb_limits_get(&r->limits, &gb_limit_rows[i])));
    struct gb_sha256 ctx;
    uint8_t hash[GB_SHA256_BYTES];
    gb_sha256_init(&ctx);
    if (!good || json_dump_callback(all, add_bytes, &ctx, JSON_SORT_KEYS | JSON_COMPACT))
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "hash the request");
    gb_sha256_end(&ctx, hash);
    gb_text_hex(hash, sizeof(hash), r->sha256);
    return 0;
}

/* --- the whole --- */

static int read_all(const struct request_source *from, struct request *r, struct gb_err *err)
{
    if (!json_is_object(r->json))
        return gb_err_set(err, GB_ERR_USAGE, 0, "the body must be a JSON object");
    int error = fields_check_names(r->json, err);
    if (!error)
        error = find_tool(from, r->json, &r->tool, err);
    if (error)
        return error;
    r->profile = gb_policy_profile(from->who, r->tool);
    r->limits = r->profile->limits;
    if (from->seeds && r->limits.output_bytes > SEEDS_OUTPUT_BYTES)
        r->limits.output_bytes = SEEDS_OUTPUT_BYTES;
    struct fields_reader in = {.body = r->json, .r = r, .err = err};
    error = fields_take(&in);
    if (!error)
        error = take_arguments(r, err);
    if (!error && r->limits_modules && r->runtime != &gb_runtimes[0])
        error = gb_err_set(err, GB_ERR_USAGE, 0, "allowed_modules: is for python only");
    if (!error)
        error = check_files(r, err);
    if (!error && (r->args.failed || r->env.failed || r->outputs.failed || r->files.failed))
        error = gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the request");
    return error ? error : hash_request(from, r, err);
}

int request_read(const struct request_source *from, const char *body, size_t len, struct request *ret,
                 struct gb_err *err)
{
    const size_t most = GB_PAYLOAD_BYTES;
    *ret = (struct request){.wait = true,
                            .program.max = most,
                            .start_text.max = most,
                            .args.max = most,
                            .env.max = most,
                            .files.max = most,
                            .outputs.max = most,
                            .payload.max = most};
    int r = gb_json_read(body, len, &ret->json, err);
    return r ? r : read_all(from, ret, err);
}

void request_done(struct request *r)
{
    struct gb_buf *const bufs[] = {&r->program, &r->args,       &r->env,    &r->files,
                                   &r->outputs, &r->start_text, &r->payload};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        gb_buf_done(bufs[i]);
    json_decref(TAKE_PTR(r->json));
    json_decref(TAKE_PTR(r->arguments));
    free(TAKE_PTR(r->modules));
    r->code = r->input = NULL;
    r->code_len = r->input_len = 0;
}
