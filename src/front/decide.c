#include "front/decide.h"

#include "base/auto.h"
#include "front/approval.h"
#include "front/auth.h"
#include "front/budget.h"
#include "front/clean.h"
#include "wire/payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORD_BYTES  131071    /* the most that execve takes as one */
#define WORDS_BYTES (1 << 20) /* half of what it takes in all */

#define DENY(call, code, ...) gb_denial_add((call)->denials, &(call)->denial_count, (code), NULL, __VA_ARGS__)

/* --- tool and arguments --- */

static void check_tool(struct call *call)
{
    if (!gb_policy_may(call->policy->gb, call->who, call->tool))
        DENY(call, GB_DENIAL_TOOL, "%s may not use the tool %s", call->principal, call->tool->name);
}

static void check_arguments(struct call *call)
{
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    size_t count = gb_schema_check(call->tool->schema, call->request.arguments, "arguments", problems);
    for (size_t i = 0; i < count && i < GB_SCHEMA_PROBLEMS; i++)
        DENY(call, GB_DENIAL_ARGUMENTS, "%s: %s", problems[i].path, problems[i].text);
    if (!count && call->tool->kind == GB_TOOL_CODE && !call->request.code)
        DENY(call, GB_DENIAL_ARGUMENTS, "arguments.code: is missing; it must be a string");
}

static void name_languages(const struct gb_profile *profile, char *text, size_t size)
{
    *text = '\0';
    for (size_t i = 0; i < gb_runtime_count; i++)
        if (profile->runtimes >> i & 1)
            snprintf(text + strlen(text), size - strlen(text), "%s%s", *text ? ", " : "",
                     gb_runtimes[i].name);
}

static void check_language(struct call *call)
{
    const struct gb_runtime *rt = call->request.runtime;
    const char *own = json_string_value(json_object_get(call->tool->spec, "language"));
    char names[128];
    if (call->tool->kind != GB_TOOL_CODE)
        return;
    name_languages(call->profile, names, sizeof(names));
    if (!rt)
        DENY(call, GB_DENIAL_LANGUAGE, "there is no such language; there are: %s", names);
    else if (own && strcmp(own, rt->name))
        DENY(call, GB_DENIAL_LANGUAGE, "the tool %s runs %s, not %s", call->tool->name, own, rt->name);
    else if (!(call->profile->runtimes >> (rt - gb_runtimes) & 1))
        DENY(call, GB_DENIAL_LANGUAGE, "the profile %s does not have %s; it has: %s", call->profile->name,
             rt->name, *names ? names : "none");
}

/* --- commands --- */

/* What execve and the payload take, minus the words of the box itself. */
static void add_words(struct call *call, const char *const *argv, size_t count)
{
    struct gb_buf *program = &call->request.program;
    for (size_t i = 0; i < count; i++)
        gb_payload_add_text(program, GB_ITEM_ARG, argv[i]);
    if (count > GB_PAYLOAD_STRINGS || program->len + call->request.env.len > WORDS_BYTES)
        DENY(call, GB_DENIAL_ARGUMENTS, "the command has %zu words, with env %zu bytes; at most %d, and %d",
             count, program->len + call->request.env.len, GB_PAYLOAD_STRINGS, WORDS_BYTES);
}

/* A line: parsed, held against the lists, and what runs is made of what was parsed. */
static void check_line(struct call *call)
{
    const json_t *line = json_object_get(call->request.arguments, "command");
    struct gb_command *command = NULL;
    if (!json_is_string(line)) {
        DENY(call, GB_DENIAL_ARGUMENTS, "arguments.command: is missing; it must be a string");
        return;
    }
    int r = gb_command_parse(json_string_value(line), json_string_length(line), &command, call->denials,
                             &call->denial_count);
    if (!r)
        r = gb_command_check(command, &call->profile->commands, call->denials, &call->denial_count);
    const char *const *argv = r ? NULL : gb_command_argv(command);
    size_t count = 0;
    while (argv && argv[count])
        count++;
    if (!r)
        add_words(call, argv, count);
    else if (r == -ENOMEM)
        gb_err_set(&call->err, GB_ERR_BUSY, ENOMEM, "read the command");
    gb_command_free(command);
}

/* An argument as one word: text as it is, anything else as JSON. NULL: it cannot be one. */
static json_t *word_of(const json_t *value)
{
    if (json_is_string(value))
        return strlen(json_string_value(value)) == json_string_length(value) &&
                               json_string_length(value) <= WORD_BYTES
                       ? json_incref((json_t *)value)
                       : NULL;
    AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    return text && strlen(text) <= WORD_BYTES ? json_string(text) : NULL;
}

static const char *word_named(void *context, const char *name)
{
    return json_string_value(json_object_get(context, name));
}

/* A fixed argv with words for arguments: each stays one word, whatever is in it. */
static void fill_template(struct call *call, const json_t *argv)
{
    AUTO_JSON words = json_object();
    const char *name, *parts[256];
    const size_t count = json_array_size(argv);
    AUTO_BUF out = {.max = GB_PAYLOAD_BYTES};
    struct gb_err err = {0};
    json_t *value;
    size_t filled = 0;
    json_object_foreach(call->request.arguments, name, value) {
        if (json_is_null(value))
            continue;
        json_t *word = word_of(value);
        if (!word)
            DENY(call, GB_DENIAL_ARGUMENTS, "arguments.%.100s: must be at most %d bytes, without NUL", name,
                 WORD_BYTES);
        else
            json_object_set_new(words, name, word);
    }
    if (call->denial_count || count > ARRAY_LEN(parts))
        return;
    for (size_t i = 0; i < count; i++)
        parts[i] = json_string_value(json_array_get(argv, i));
    if (gb_command_fill(parts, count, word_named, words, &out, &filled, &err))
        DENY(call, GB_DENIAL_ARGUMENTS, "%s", err.text);
    const char *at = out.data;
    for (size_t i = 0; !call->denial_count && i < filled; i++, at += strlen(at) + 1)
        parts[i] = at;
    if (!call->denial_count)
        add_words(call, parts, filled);
}

static void check_command(struct call *call)
{
    const json_t *argv = json_object_get(call->tool->spec, "argv");
    if (call->tool->kind != GB_TOOL_COMMAND)
        return;
    if (argv)
        fill_template(call, argv);
    else
        check_line(call);
}

/* --- what else comes along --- */

/* Where there is something to look at or to hide before a Python script begins, our own code comes first. */
static void prepare_python(struct call *call)
{
    struct request *r = &call->request;
    const struct gb_profile *p = call->profile;
    const struct gb_screen_python level = {
            .limits_modules = p->limits_modules || r->limits_modules,
            .modules = r->limits_modules ? r->modules : p->modules,
            .module_count = r->limits_modules ? r->module_count : p->module_count,
            .builtins = p->builtins,
            .builtin_count = p->builtin_count,
    };
    if (r->runtime && !strcmp(r->runtime->name, "python"))
        call->run.reports =
                gb_screen_python_text(call->policy->gb->screen, &p->actions, &level, &r->start_text);
}

/* What was checked is what must run: nothing may come before it, or stand in its place. */
static void check_company(struct call *call)
{
    const json_t *files = json_object_get(call->request.json, "files");
    const char *name;
    json_t *value;
    if (!call->run.reports && call->tool->kind != GB_TOOL_COMMAND)
        return;
    json_object_foreach(json_object_get(call->request.json, "env"), name, value)
        if (!gb_screen_env_is_safe(name))
            DENY(call, GB_DENIAL_ENVIRONMENT, "env.%.100s: could change what runs", name);
    for (size_t i = 0; i < json_array_size(files); i++) {
        name = json_string_value(json_object_get(json_array_get(files, i), "name"));
        if (!gb_screen_file_is_safe(name))
            gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_ENVIRONMENT,
                          "give the file another name", "files[%zu]: %.100s could change what runs", i, name);
    }
}

void decide_findings(struct call *call, size_t from)
{
    for (size_t i = from; i < call->finding_count; i++) {
        const struct gb_finding *f = &call->findings[i];
        if (f->action == GB_SCREEN_BLOCK)
            gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_SCREENED, f->hint,
                          "Blocked pattern: %s", f->rule);
    }
}

/* A report that came late: the script may have run after it. */
static bool has_report(const struct gb_buf *err)
{
    return err->len && memmem(err->data, err->len, GB_SCREEN_REPORT, sizeof(GB_SCREEN_REPORT) - 1);
}

/* Without a report the script should not have begun: the interpreter was ended or failed before, as under a
 * low memory limit. Where anything speaks against that, nobody knows what has run, and that is not passed
 * over in silence. */
void decide_unreported(struct call *call)
{
    const struct gb_result *r = &call->result;
    const bool began = r->status == GB_STATUS_SUCCESS || call->run.seen[0] || r->file_count ||
                       has_report(&r->err) || has_report(&call->run.raw[1]);
    struct gb_finding f = {.rule = "screening",
                           .line = 1,
                           .action = GB_SCREEN_WARN,
                           .reason = "the report of the start-up code is missing"};
    for (size_t i = 0; began && i < gb_screen_rule_count(call->policy->gb->screen); i++)
        if (call->profile->actions.action[i] == GB_SCREEN_BLOCK)
            f.action = GB_SCREEN_BLOCK;
    if (call->finding_count < GB_FINDINGS)
        call->findings[call->finding_count++] = f;
    if (f.action == GB_SCREEN_BLOCK)
        DENY(call, GB_DENIAL_SCREENED, "%s", f.reason);
}

static void check_patterns(struct call *call)
{
    const struct request *r = &call->request;
    const json_t *line = json_object_get(r->arguments, "command");
    const char *text = r->code, *runtime = r->runtime ? r->runtime->name : NULL;
    size_t len = r->code_len;
    if (call->tool->kind == GB_TOOL_COMMAND && !json_object_get(call->tool->spec, "argv")) {
        text = json_string_value(line);
        len = json_string_length(line);
    }
    if (text)
        call->finding_count = gb_screen_code(call->policy->gb->screen, &call->profile->actions, runtime, text,
                                             len, call->findings);
    decide_findings(call, 0);
}

static void check_budget(struct call *call)
{
    (void)budget_take(call); /* the denial says it all */
}

static void check_approval(struct call *call)
{
    call->asks = approval_check(call) == APPROVAL_WAITS ||
                 (call->denial_count && call->denials[0].code == GB_DENIAL_APPROVAL_PENDING);
}

/* --- the order --- */

/* The first that refuses is the last that is asked. Before the budget nothing is used up; an approval is
 * asked for last, so that nobody is asked about what would be refused anyway. */
static void (*const stages[])(struct call *call) = {
        check_tool,    check_arguments, check_language, check_command,  prepare_python,
        check_company, check_patterns,  check_budget,   check_approval,
};

void decide(struct call *call)
{
    for (size_t i = 0; i < ARRAY_LEN(stages) && !call->denial_count && call->err.code == GB_ERR_NONE; i++)
        stages[i](call);
    for (size_t i = 0; i < call->denial_count;
         i++) /* a reason can quote the caller, and goes into the audit */
        clean_field(call->policy->secrets, call->denials[i].reason, sizeof(call->denials[i].reason));
    call->decision = call->asks ? CALL_ASK : call->denial_count ? CALL_BLOCK : CALL_ALLOW;
}

/* --- decided, and time has passed --- */

bool decide_may(const struct call *call)
{
    const struct policy *now = call->front->policy;
    const struct gb_tool *tool = gb_policy_tool(now->gb, call->tool->name);
    return tool && auth_is_known(now->config, call->principal) &&
           gb_policy_may(now->gb, gb_policy_principal(now->gb, call->principal), tool);
}

bool decide_again(struct call *call)
{
    const struct gb_policy *now = call->front->policy->gb;
    char definition[65] = "";
    if (call->front->policy == call->policy)
        return true;
    if (!decide_may(call)) {
        DENY(call, GB_DENIAL_TOOL,
             "%s may not use the tool %s any more: that was changed while the call waited", call->principal,
             call->tool->name);
        return false;
    }
    gb_policy_definition(gb_policy_principal(now, call->principal), gb_policy_tool(now, call->tool->name),
                         definition);
    if (!call->approval || !strcmp(definition, call->definition))
        return true;
    DENY(call, GB_DENIAL_APPROVAL_MISMATCH,
         "the definition of the tool %s was changed while the call waited; what was approved is not what "
         "would "
         "run",
         call->tool->name);
    return false;
}

/* --- what runs --- */

/* The kind of box that can serve it: one whose interpreter waits, unless the call sets a variable that this
 * would have had to know when it started. Those that we add ourselves are known to it. */
static uint64_t pool_of(const struct call *call)
{
    enum gb_pool_kind kind = gb_pool_kind_for(call->request.runtime);
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(call->request.json, "env"), name, value)
        if (!gb_pool_takes_env(kind, name))
            kind = GB_POOL_PLAIN;
    return call->profile->pool_keys[kind];
}

/* The order that wire/payload.h wants: the program, its arguments, then the rest. */
int decide_payload(struct call *call, struct gb_err *err)
{
    struct request *r = &call->request;
    struct gb_buf *p = &r->payload;
    if (r->runtime) {
        char script[64];
        snprintf(script, sizeof(script), "%s/%s", GB_WORKDIR, r->runtime->script);
        gb_payload_add_text(p, GB_ITEM_ARG, gb_policy_program(call->profile, r->runtime));
        if (*r->runtime->option)
            gb_payload_add_text(p, GB_ITEM_ARG, r->runtime->option);
        gb_payload_add_text(p, GB_ITEM_ARG, script);
    }
    const struct gb_buf *const items[] = {&r->program, &r->args, &r->env, &r->outputs};
    bool lost = r->start_text.failed || r->files.failed;
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        gb_buf_add(p, items[i]->data, items[i]->len);
        lost = lost || items[i]->failed;
    }
    if (call->run.reports) {
        gb_screen_python_env(p);
        gb_screen_python_files(&r->start_text, r->code, r->code_len, p);
    } else if (r->runtime) {
        gb_payload_add(p, GB_ITEM_NAME, r->runtime->script, strlen(r->runtime->script) + 1);
        gb_payload_add(p, GB_ITEM_DATA, r->code, r->code_len);
    }
    gb_buf_add(p, r->files.data, r->files.len);
    call->run.pool = pool_of(call);
    lost = lost || p->failed || gb_buf_truncated(p);
    return lost ? gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the request") : 0;
}
