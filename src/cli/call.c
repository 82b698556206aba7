/* glovebox call: one call of a tool at a running service. */
#include "cli/client.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/text.h"
#include "spec/result.h"
#include "wire/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MOST ((size_t)64 << 20)
#define EXIT_FAILED    1 /* the tool failed, and has no exit code of its own */

struct settings {
    struct client client;
    const char *arguments, *approval;
    bool no_wait;
};

static int set_text(void *context, const struct option_row *row, const char *value)
{
    struct settings *s = context;
    *(strcmp(row->name, "--approval") ? &s->arguments : &s->approval) = value;
    return 0;
}

static int set_no_wait(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    (void)value;
    ((struct settings *)context)->no_wait = true;
    return 0;
}

static const struct option_row options[] = {
        {"--arguments", "JSON", "the arguments as one object; - reads it from standard input", set_text},
        {"--approval", "ID", "use this approval, which was granted for exactly this call", set_text},
        {"--no-wait", NULL, "if an approval is needed, do not wait for it", set_no_wait},
        {"--url", "URL", "where the service is: unix:/path or http://127.0.0.1:8640; else as configured",
         client_option},
        {"--key-file", "FILE", "the key to call with, if not in $GLOVEBOX_KEY", client_option},
        {"--json", NULL, "print the whole result as JSON", client_option},
        {"--help", NULL, "this text (also -h)", client_option},
        {"-h", NULL, NULL, client_option},
};

/* --- the arguments --- */

static int read_input(struct gb_buf *ret)
{
    char chunk[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
        if (gb_buf_add(ret, chunk, (size_t)n) != (size_t)n)
            return complain("--arguments -: more than %zu bytes", ARGUMENTS_MOST);
    return n < 0 ? complain("cannot read standard input: %s", strerror(errno)) : 0;
}

static int parse_object(const char *text, json_t **ret)
{
    struct gb_err err = {0};
    AUTO_BUF input = {.max = ARGUMENTS_MOST};
    const bool from_stdin = !strcmp(text, "-");
    if (from_stdin && read_input(&input))
        return EXIT_GLOVEBOX;
    if (gb_json_read(from_stdin ? (input.data ? input.data : "") : text,
                     from_stdin ? input.len : strlen(text), ret, &err))
        return complain("--arguments: %s", err.text);
    return json_is_object(*ret) ? 0
                                : complain("--arguments must be a JSON object, such as '{\"query\": \"x\"}'");
}

/* name=text, or name:=json */
static int add_word(json_t *arguments, const char *word)
{
    struct gb_err err = {0};
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || (equals == word + 1 && *word == ':'))
        return complain("'%.100s' is no argument: name=text, or name:=JSON", word);
    const bool is_json = equals[-1] == ':';
    char name[128];
    json_t *value = NULL;
    if (snprintf(name, sizeof(name), "%.*s", (int)(equals - word) - is_json, word) >= (int)sizeof(name))
        return complain("the name of an argument has at most %zu bytes", sizeof(name) - 1);
    if (json_object_get(arguments, name))
        return complain("the argument %.100s is given twice", name);
    if (is_json && gb_json_read(equals + 1, strlen(equals + 1), &value, &err))
        return complain("%.100s: %s", name, err.text);
    if (!is_json)
        value = json_string(equals + 1);
    return json_object_set_new(arguments, name, value) ? complain("%.100s: must be UTF-8", name) : 0;
}

/* --- the result --- */

/* What a program printed may hold anything. A terminal gets lines and tabs of it, and no other control. */
static int print_output(FILE *to, int fd, const json_t *value)
{
    const char *text = json_string_value(value);
    const size_t len = json_string_length(value);
    if (!text)
        return 0;
    if (!isatty(fd)) {
        fwrite(text, 1, len, to);
        return 0;
    }
    AUTO_FREE char *copy = malloc(len + 1);
    if (!copy)
        return complain("out of memory");
    for (size_t from = 0; from < len;) {
        const size_t n = strcspn(text + from, "\n\t");
        memcpy(copy, text + from, n);
        copy[n] = '\0';
        gb_text_defuse(copy);
        fputs(copy, to);
        from += n;
        if (from < len)
            fputc(text[from] ? text[from] : '?', to);
        from++;
    }
    return 0;
}

static void print_denials(const json_t *denials)
{
    size_t i;
    json_t *d;
    json_array_foreach((json_t *)denials, i, d) {
        char code[64], reason[600], hint[300];
        complain("%s: %s", client_text(d, "code", code, sizeof(code)),
                 client_text(d, "reason", reason, sizeof(reason)));
        complain("  hint: %s", client_text(d, "hint", hint, sizeof(hint)));
    }
}

static int exit_code(const json_t *result)
{
    const char *status = json_string_value(json_object_get(result, "status"));
    const json_t *code = json_object_get(result, "exit_code"), *signal = json_object_get(result, "signal");
    struct gb_result r = {.status = GB_STATUS_INTERNAL,
                          .exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1,
                          .signal = (int)json_integer_value(signal)};
    for (int i = 0; status && i < GB_STATUS_COUNT; i++)
        if (!strcmp(gb_status_name((enum gb_status)i), status))
            r.status = (enum gb_status)i;
    if (r.status == GB_STATUS_SUCCESS)
        return 0;
    const int found = gb_result_exit_code(&r);
    return found > 0 ? found : EXIT_FAILED; /* tools that are no programs have no code */
}

static int print_result(const json_t *result)
{
    char reason[32], status[32];
    const json_t *answer = json_object_get(result, "result"), *denials = json_object_get(result, "denials");
    if (json_array_size(denials)) { /* nothing ran: the output is the same in other words */
        print_denials(denials);
        return 0;
    }
    if (answer) /* stdout has it, too, as text */
        client_print_value(answer);
    else
        print_output(stdout, STDOUT_FILENO, json_object_get(result, "stdout"));
    const int output = finish_output();
    print_output(stderr, STDERR_FILENO, json_object_get(result, "stderr"));
    if (json_is_true(json_object_get(result, "truncated")))
        complain("output truncated at max_output_bytes");
    if (json_is_string(json_object_get(result, "kill_reason")))
        complain("the program was killed: %s (%s)", client_text(result, "status", status, sizeof(status)),
                 client_text(result, "kill_reason", reason, sizeof(reason)));
    return output;
}

/* --- the verb --- */

static int help(void)
{
    printf("usage: glovebox call TOOL [options] [name=text | name:=JSON]...\n\n"
           "Calls a tool of a running service and prints what it gives. `glovebox tools` lists them.\n\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: the program's own; 1 the tool failed, 124 timeout, 125 Glovebox itself, 126 refused "
           "or "
           "waits for approval, 137 resource limit\n");
    return finish_output();
}

static int send_call(const struct settings *s, const char *tool, json_t *arguments)
{
    AUTO_JSON body = json_pack("{s:O}", "arguments", arguments);
    char path[128];
    struct client_reply reply;
    if (s->no_wait)
        json_object_set_new(body, "wait", json_false());
    if (s->approval)
        json_object_set_new(body, "approval", json_string(s->approval));
    AUTO_FREE char *text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return complain("out of memory");
    snprintf(path, sizeof(path), "/v1/tools/%s/call", tool);
    if (client_ask(&s->client, "POST", path, text, &reply))
        return EXIT_GLOVEBOX;
    int r = client_refused(&reply);
    if (!r)
        r = s->client.json ? client_print_json(&reply) : print_result(reply.json);
    if (!r)
        r = exit_code(reply.json);
    client_done(&reply);
    return r;
}

static bool is_tool_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t len = strlen(text);
    return len && len < 64 && strspn(text, letters) == len;
}

int verb_call(int argc, char **argv)
{
    struct settings s = {0};
    bool dashes = false;
    const char *tool = NULL;
    AUTO_JSON given = NULL;
    AUTO_JSON arguments = json_object();
    for (int at = 0; at < argc;) {
        argv[at] = argv[0];
        const int next = options_parse(options, ARRAY_LEN(options), argc - at, argv + at, &s, &dashes);
        if (next < 0)
            return EXIT_GLOVEBOX;
        at += next;
        if (at < argc && !tool)
            tool = argv[at];
        else if (at < argc && add_word(arguments, argv[at]))
            return EXIT_GLOVEBOX;
    }
    if (s.client.help)
        return help();
    if (!tool || !is_tool_name(tool))
        return complain("call takes the name of a tool; `glovebox tools` lists them");
    if (s.approval && !gb_id_is_valid(s.approval))
        return complain("--approval takes the ID of an approval, not '%.64s'", s.approval);
    if (s.arguments && json_object_size(arguments))
        return complain("either --arguments or name=text, not both");
    if (s.arguments && parse_object(s.arguments, &given))
        return EXIT_GLOVEBOX;
    return send_call(&s, tool, given ? given : arguments);
}
