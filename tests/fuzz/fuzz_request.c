/* A request's body, as anybody may send it, to tools of three kinds. What is taken is what the launcher
 * takes, with the caller's own words as they were sent, within the ceilings of the profile; the contract of
 * the seeds takes no more than ours, and means the same; what is written anew, with its keys in order, is the
 * same call. What is refused is refused with a text. */
#include "fuzz.h"

#include "base/text.h"
#include "front/request.h"
#include "wire/payload.h"

/* --- a policy, made by hand: the reader needs no more of it than this --- */

const char *const gb_tool_kinds[GB_TOOL_KINDS] = {"code", "command", "sql", "http", "email"};

static const char *modules[] = {"json", "math"};
/* The reader must not rely on what the defaults are: some ceilings are the limits themselves, some far
 * above. */
static struct gb_profile profiles[] = {{.name = "default"},
                                       {.name = "narrow",
                                        .limits_modules = true,
                                        .modules = modules,
                                        .module_count = 2,
                                        .raw_output = true}};
static struct gb_tool tools[] = {{.name = "execute_code", .kind = GB_TOOL_CODE},
                                 {.name = "narrow", .kind = GB_TOOL_CODE, .profile = &profiles[1]},
                                 {.name = "execute_command", .kind = GB_TOOL_COMMAND},
                                 {.name = "fixed", .kind = GB_TOOL_COMMAND},
                                 {.name = "query", .kind = GB_TOOL_SQL}};
static struct gb_policy policy = {.tools = tools, .tool_count = sizeof(tools) / sizeof(tools[0])};
static struct gb_principal who = {.name = "somebody", .profile = &profiles[0]};

const struct gb_tool *gb_policy_tool(const struct gb_policy *p, const char *name)
{
    for (size_t i = 0; i < p->tool_count; i++)
        if (!strcmp(p->tools[i].name, name))
            return &p->tools[i];
    return NULL;
}

bool gb_policy_may(const struct gb_policy *p, const struct gb_principal *w, const struct gb_tool *tool)
{
    return p == &policy && w == &who && tool != NULL;
}

const struct gb_profile *gb_policy_profile(const struct gb_principal *w, const struct gb_tool *tool)
{
    return tool->profile ? tool->profile : w->profile;
}

int gb_policy_defaults(const struct gb_tool *tool, json_t *arguments)
{
    CHECK(tool && json_is_object(arguments));
    return 0;
}

bool gb_policy_takes(const struct gb_tool *tool, const char *name)
{
    CHECK(tool->kind == GB_TOOL_CODE && !strcmp(name, "language"));
    return tool == &tools[0];
}

static void set_up(void)
{
    for (size_t i = 0; i < 2; i++) {
        gb_limits_init(&profiles[i].limits);
        for (size_t k = 0; k < gb_limit_count; k++)
            *(int64_t *)(void *)((char *)&profiles[i].ceilings + gb_limit_rows[k].offset) =
                    gb_limit_rows[k].usual;
    }
    profiles[0].limits.timeout_ms = 2000;
    profiles[0].ceilings.timeout_ms = 2500;
    profiles[0].limits.memory_mb = profiles[0].ceilings.memory_mb = 100;
    for (size_t i = 0; i < policy.tool_count; i++)
        tools[i].spec = strcmp(tools[i].name, "fixed") ? json_object() : json_pack("{s:[s]}", "argv", "true");
}

/* --- what was taken --- */

static const json_t *field(const struct request *r, const char *name)
{
    return json_object_get(r->json, name);
}

static void check_limits(const struct request *r)
{
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        CHECK(gb_limits_get(&r->limits, row) >= row->least);
        CHECK(gb_limits_get(&r->limits, row) <= gb_limits_get(&r->profile->ceilings, row));
    }
}

static void check_env(const struct request *r, const struct gb_payload *p)
{
    CHECK(p->envc == json_object_size(field(r, "env")));
    for (size_t i = 0; i < p->envc; i++) {
        char name[131072];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p->env[i], "="), p->env[i]);
        CHECK(!strcmp(p->env[i] + strlen(name) + 1,
                      json_string_value(json_object_get(field(r, "env"), name))));
    }
}

static void check_files(const struct request *r, const struct gb_payload *p)
{
    CHECK(p->file_count == json_array_size(field(r, "files")));
    for (size_t i = 0; i < p->file_count; i++) {
        const json_t *file = json_array_get(field(r, "files"), i), *text = json_object_get(file, "text");
        CHECK(!strcmp(p->files[i].name, json_string_value(json_object_get(file, "name"))));
        CHECK(p->files[i].data && gb_text_is_relative_name(p->files[i].name));
        CHECK((p->files[i].mode == 0755) == json_is_true(json_object_get(file, "executable")));
        CHECK(!r->runtime || strcmp(p->files[i].name, r->runtime->script) != 0);
        if (text)
            CHECK(p->files[i].len == json_string_length(text) &&
                  !memcmp(p->files[i].data, json_string_value(text), p->files[i].len));
    }
}

/* As the front puts them together. */
static void check_payload(const struct request *r)
{
    static struct gb_payload payload; /* too large for the stack */
    const struct gb_buf *const items[] = {&r->args, &r->env, &r->outputs, &r->files};
    struct gb_buf all = {.max = GB_PAYLOAD_BYTES};
    const json_t *args = field(r, "args");
    gb_payload_add_text(&all, GB_ITEM_ARG, "program");
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
        gb_buf_add(&all, items[i]->data, items[i]->len);
    CHECK(!gb_payload_read(all.data, all.len, &payload, NULL));
    CHECK(payload.argc == 1 + json_array_size(args));
    for (size_t i = 1; i < payload.argc; i++)
        CHECK(!strcmp(payload.argv[i], json_string_value(json_array_get(args, i - 1))));
    check_env(r, &payload);
    check_files(r, &payload);
    CHECK(payload.output_count == json_array_size(field(r, "outputs")));
    gb_buf_done(&all);
}

static void check_arguments(const struct request *r)
{
    const json_t *code = json_object_get(r->arguments, "code"), *given = field(r, "arguments");
    CHECK(json_is_object(r->arguments));
    CHECK((r->tool->kind == GB_TOOL_CODE && json_is_string(code)) == (r->code != NULL));
    if (r->code) {
        CHECK(r->code_len == json_string_length(code) &&
              !memcmp(r->code, json_string_value(code), r->code_len));
        CHECK(gb_text_find_binary(r->code, r->code_len) == r->code_len && r->code_len <= GB_CODE_BYTES);
    }
    const json_t *language = r->tool->kind == GB_TOOL_CODE ? json_object_get(r->arguments, "language") : NULL;
    CHECK(json_object_size(r->arguments) == json_object_size(given) + (field(r, "code") != NULL) +
                                                    (field(r, "command") != NULL) +
                                                    (language && !json_object_get(given, "language")));
    CHECK(!r->runtime || r->tool->kind == GB_TOOL_CODE);
    /* What the schema sees is what runs. */
    CHECK(r->tool != &tools[0] || language);
    CHECK(!language || !r->runtime || !strcmp(json_string_value(language), r->runtime->name));
    CHECK(language || !r->runtime || r->runtime == &gb_runtimes[0]);
    CHECK(!language || !field(r, "language") || json_equal(language, field(r, "language")));
}

static void check_request(const struct request *r)
{
    const json_t *input = field(r, "stdin");
    CHECK(!input == !r->input && r->input_len == json_string_length(input));
    CHECK(r->tool && r->profile && strlen(r->sha256) == 64);
    CHECK(!r->approval || gb_id_is_valid(r->approval));
    CHECK(!r->raw || r->profile->raw_output);
    CHECK(r->limits_modules == (field(r, "allowed_modules") != NULL));
    for (size_t i = 0; r->profile->limits_modules && i < r->module_count; i++)
        CHECK(!strncmp(r->modules[i], "json", 4) || !strncmp(r->modules[i], "math", 4));
    check_limits(r);
    check_arguments(r);
    if (r->tool->kind == GB_TOOL_CODE || r->tool->kind == GB_TOOL_COMMAND)
        check_payload(r);
    else
        CHECK(!r->args.len && !r->env.len && !r->files.len && !r->outputs.len && !r->input);
}

/* A client that sorts its keys asks for the same. */
static void check_again(const struct request_source *from, const struct request *r)
{
    struct request again;
    struct gb_err err = {0};
    char *text = json_dumps(r->json, JSON_SORT_KEYS | JSON_INDENT(1));
    CHECK(text && !request_read(from, text, strlen(text), &again, &err));
    CHECK(!strcmp(again.sha256, r->sha256) && json_equal(again.arguments, r->arguments));
    CHECK(again.runtime == r->runtime && again.stream == r->stream && again.tool == r->tool);
    CHECK(!memcmp(&again.limits, &r->limits, sizeof(r->limits)));
    request_done(&again);
    free(text);
}

static int check_read(const struct request_source *from, const char *data, size_t size, struct request *ret)
{
    struct gb_err err = {0};
    int r = request_read(from, data, size, ret, &err);
    if (r) {
        const int status = gb_err_http_status((enum gb_error_code)err.code);
        CHECK(r < 0 && *err.text && (status == 400 || status == 422)); /* never our fault */
        return r;
    }
    check_request(ret);
    check_again(from, ret);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_source from = {.policy = &policy, .who = &who, .principal = "somebody"};
    struct request ours, seeds, fixed;
    char *copy = fuzz_copy(data, size);
    if (!tools[0].spec)
        set_up();
    int r = check_read(&from, copy, size, &ours);
    from.seeds = true;
    if (!check_read(&from, copy, size, &seeds)) {
        CHECK(!r && ours.tool == seeds.tool && json_equal(ours.arguments, seeds.arguments));
        CHECK(seeds.limits.output_bytes <= ours.limits.output_bytes);
        const bool same = seeds.limits.output_bytes == ours.limits.output_bytes;
        CHECK(same == !strcmp(ours.sha256, seeds.sha256)); /* what runs, and within which limits */
    }
    from = (struct request_source){.policy = &policy, .who = &who, .principal = "somebody", .tool = "query"};
    check_read(&from, copy, size, &fixed);
    request_done(&ours);
    request_done(&seeds);
    request_done(&fixed);
    free(copy);
    return 0;
}
