/* A request's body, as anybody may send it. What is taken is what the launcher takes, with the runtime's
 * program and the caller's code as it was sent, within the ceilings; the contract of the seeds takes no more
 * than ours, and means the same; what is written anew, with its keys in order, is the same call. What is
 * refused is refused with a text. */
#include "fuzz.h"

#include "base/text.h"
#include "front/request.h"
#include "wire/payload.h"

/* The reader must not rely on what the defaults are: some ceilings are the limits themselves, some far
 * above. */
static const char settings[] = "{\"limits\": {\"timeout_seconds\": 2, \"max_memory_mb\": 100}, "
                               "\"ceilings\": {\"timeout_seconds\": 2.5, \"max_memory_mb\": 100}}";
static struct gb_config *config;

static void check_limits(const struct gb_limits *limits)
{
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        CHECK(gb_limits_get(limits, row) >= row->least);
        CHECK(gb_limits_get(limits, row) <= gb_limits_get(&config->ceilings, row));
    }
}

static void check_argv(const struct request *r, const struct gb_payload *p)
{
    char script[64];
    size_t at = 0;
    snprintf(script, sizeof(script), "%s/%s", GB_WORKDIR, r->runtime->script);
    CHECK(!strcmp(p->argv[at++], r->runtime->program));
    if (*r->runtime->option)
        CHECK(!strcmp(p->argv[at++], r->runtime->option));
    CHECK(!strcmp(p->argv[at++], script));
    const json_t *args = json_object_get(r->json, "args");
    CHECK(p->argc == at + json_array_size(args));
    for (size_t i = 0; at < p->argc; i++)
        CHECK(!strcmp(p->argv[at++], json_string_value(json_array_get(args, i))));
}

static void check_env(const struct request *r, const struct gb_payload *p)
{
    const json_t *env = json_object_get(r->json, "env");
    CHECK(p->envc == json_object_size(env));
    for (size_t i = 0; i < p->envc; i++) {
        char name[131072];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p->env[i], "="), p->env[i]);
        CHECK(!strcmp(p->env[i] + strlen(name) + 1, json_string_value(json_object_get(env, name))));
    }
}

static void check_files(const struct request *r, const struct gb_payload *p)
{
    const json_t *files = json_object_get(r->json, "files");
    CHECK(p->file_count == 1 + json_array_size(files));
    CHECK(!strcmp(p->files[0].name, r->runtime->script) && p->files[0].mode == 0644);
    CHECK(p->files[0].len == r->code_len && !memcmp(p->files[0].data, r->code, r->code_len));
    for (size_t i = 1; i < p->file_count; i++) {
        const json_t *file = json_array_get(files, i - 1), *text = json_object_get(file, "text");
        CHECK(!strcmp(p->files[i].name, json_string_value(json_object_get(file, "name"))));
        CHECK(p->files[i].data && gb_text_is_relative_name(p->files[i].name));
        CHECK((p->files[i].mode == 0755) == json_is_true(json_object_get(file, "executable")));
        if (text)
            CHECK(p->files[i].len == json_string_length(text) &&
                  !memcmp(p->files[i].data, json_string_value(text), p->files[i].len));
    }
}

static void check_request(const struct request *r)
{
    static struct gb_payload payload; /* too large for the stack */
    const json_t *code = json_object_get(r->json, "code"), *input = json_object_get(r->json, "stdin");
    CHECK(r->code_len == json_string_length(code) && !memcmp(r->code, json_string_value(code), r->code_len));
    CHECK(gb_text_find_binary(r->code, r->code_len) == r->code_len && r->code_len <= GB_CODE_BYTES);
    CHECK(!input == !r->input && r->input_len == json_string_length(input));
    CHECK(!strcmp(r->tool, "execute_code") && strlen(r->sha256) == 64);
    check_limits(&r->limits);
    CHECK(!gb_payload_read(r->payload.data, r->payload.len, &payload, NULL));
    check_argv(r, &payload);
    check_env(r, &payload);
    check_files(r, &payload);
    CHECK(payload.output_count == json_array_size(json_object_get(r->json, "outputs")));
}

/* A client that sorts its keys asks for the same, but for the order of variables: programs can see that. */
static void check_again(const struct request *r, bool seeds)
{
    struct request again;
    struct gb_err err = {0};
    char *text = json_dumps(r->json, JSON_SORT_KEYS | JSON_INDENT(1));
    CHECK(text && !request_read(config, seeds, text, strlen(text), &again, &err));
    CHECK(again.payload.len == r->payload.len);
    CHECK(json_object_size(json_object_get(r->json, "env")) > 1 || !strcmp(again.sha256, r->sha256));
    CHECK(again.runtime == r->runtime && again.stream == r->stream);
    CHECK(!memcmp(&again.limits, &r->limits, sizeof(r->limits)));
    request_done(&again);
    free(text);
}

static int check_read(const char *data, size_t size, bool seeds, struct request *ret)
{
    struct gb_err err = {0};
    int r = request_read(config, seeds, data, size, ret, &err);
    if (r) {
        const int status = gb_err_http_status((enum gb_error_code)err.code);
        CHECK(r < 0 && *err.text && (status == 400 || status == 422)); /* never our fault */
        return r;
    }
    check_request(ret);
    check_again(ret, seeds);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request ours, seeds;
    char *copy = fuzz_copy(data, size);
    if (!config)
        CHECK(!gb_config_read(settings, sizeof(settings) - 1, &config, NULL));
    int r = check_read(copy, size, false, &ours);
    if (!check_read(copy, size, true, &seeds)) {
        CHECK(!r && ours.payload.len == seeds.payload.len);
        CHECK(!memcmp(ours.payload.data, seeds.payload.data, ours.payload.len));
        CHECK(seeds.limits.output_bytes <= ours.limits.output_bytes);
        const bool same = seeds.limits.output_bytes == ours.limits.output_bytes;
        CHECK(same == !strcmp(ours.sha256, seeds.sha256)); /* what runs, and within which limits */
    }
    request_done(&ours);
    request_done(&seeds);
    free(copy);
    return 0;
}
