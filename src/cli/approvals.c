/* glovebox approvals: what waits for a person's decision, and the decision. */
#include "cli/client.h"

#include "base/auto.h"
#include "base/text.h"
#include "wire/id.h"

#include <stdio.h>
#include <string.h>

#define EXIT_NOT 1 /* there is no such approval, or it cannot be decided by this caller any more */
#define ROW      "%-26s  %-9s  %-16.16s  %-16.16s  %-20.20s  %s\n"

struct settings {
    struct client client;
    const char *reason, *id;
};

static int set_reason(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    ((struct settings *)context)->reason = value;
    return 0;
}

static const struct option_row options[] = {
        {"--reason", "TEXT", "approve, deny: why; who called is told", set_reason},
        {"--url", "URL", "where the service is: unix:/path or http://127.0.0.1:8640; else as configured",
         client_option},
        {"--key-file", "FILE", "the key to call with, if not in $GLOVEBOX_KEY", client_option},
        {"--json", NULL, "print JSON", client_option},
        {"--help", NULL, "this text (also -h)", client_option},
        {"-h", NULL, NULL, client_option},
};

/* 403, 404 and 409 are answers about the approval; anything else is trouble. */
static int exit_code(const struct client_reply *reply)
{
    return reply->status == 403 || reply->status == 404 || reply->status == 409 ? EXIT_NOT : EXIT_GLOVEBOX;
}

static int print_table(const json_t *reply)
{
    const json_t *approvals = json_object_get(reply, "approvals");
    size_t i;
    json_t *a;
    json_array_foreach((json_t *)approvals, i, a) {
        char id[32], state[16], principal[64], tool[64], expires[32], summary[128];
        if (!i)
            printf(ROW, "ID", "STATE", "PRINCIPAL", "TOOL", "EXPIRES", "REQUEST");
        client_text(a, "expires", expires, sizeof(expires));
        if (strlen(expires) > 19) /* to the second: 2026-11-15T09:30:00Z */
            snprintf(expires + 19, sizeof(expires) - 19, "Z");
        printf(ROW, client_text(a, "id", id, sizeof(id)), client_text(a, "state", state, sizeof(state)),
               client_text(a, "principal", principal, sizeof(principal)),
               client_text(a, "tool", tool, sizeof(tool)), expires,
               client_text(a, "summary", summary, sizeof(summary)));
    }
    if (!json_array_size(approvals))
        printf("Nothing waits for approval.\n");
    return finish_output();
}

static int list(const struct settings *s, struct client_reply *reply)
{
    int r = client_ask(&s->client, "GET", "/v1/approvals", NULL, reply);
    if (r)
        return r;
    if (client_refused(reply))
        return EXIT_GLOVEBOX;
    return s->client.json ? client_print_json(reply) : print_table(reply->json);
}

/* A text of several lines, each behind a mark that it cannot pretend to be outside of. */
static bool print_lines(const char *text)
{
    bool altered = false;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        AUTO_FREE char *copy = strndup(line, strcspn(line, "\n"));
        if (!copy)
            return true;
        AUTO_FREE char *before = strdup(copy);
        gb_text_defuse(copy);
        altered = altered || !before || strcmp(before, copy) != 0;
        printf("    | %s\n", copy);
    }
    return altered;
}

/* Scripts as lines that can be read, everything else as JSON. */
static void print_request(const json_t *request)
{
    const json_t *arguments = json_object_get(request, "arguments"), *with = json_object_get(request, "with");
    const char *name;
    json_t *value;
    bool altered = false;
    printf("arguments:\n");
    json_object_foreach((json_t *)arguments, name, value) {
        const char *text = json_string_value(value);
        char shown[128];
        snprintf(shown, sizeof(shown), "%s", name);
        gb_text_defuse(shown);
        printf("  %s:%s", shown, text && strchr(text, '\n') ? "\n" : " ");
        if (text && strchr(text, '\n'))
            altered = print_lines(text) || altered;
        else
            client_print_value(value);
    }
    if (with) {
        printf("with:\n");
        client_print_value(with);
    }
    if (altered)
        printf("Some characters are shown as ?, since a terminal could act on them; --json has them as they "
               "are.\n");
}

static int print_one(const json_t *a)
{
    static const char *const names[] = {"id",      "state",     "principal",        "tool",       "asked",
                                        "expires", "execution", "arguments_sha256", "decided_by", "reason"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = json_string_value(json_object_get(a, names[i]));
        char buf[600];
        if (text && *text)
            printf("%-18s%s\n", names[i], client_text(a, names[i], buf, sizeof(buf)));
    }
    const json_t *request = json_object_get(a, "request");
    if (json_is_object(request))
        print_request(request);
    return finish_output();
}

static int show(const struct settings *s, struct client_reply *reply)
{
    char path[64];
    snprintf(path, sizeof(path), "/v1/approvals/%s", s->id);
    int r = client_ask(&s->client, "GET", path, NULL, reply);
    if (r)
        return r;
    if (client_refused(reply))
        return exit_code(reply);
    return s->client.json ? client_print_json(reply) : print_one(reply->json);
}

static int decide(const struct settings *s, const char *decision, struct client_reply *reply)
{
    char path[64];
    AUTO_JSON body = json_pack("{s:s, s:s}", "decision", decision, "reason", s->reason ? s->reason : "");
    AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (!text)
        return complain("--reason must be UTF-8");
    snprintf(path, sizeof(path), "/v1/approvals/%s", s->id);
    int r = client_ask(&s->client, "POST", path, text, reply);
    if (r)
        return r;
    if (client_refused(reply))
        return exit_code(reply);
    if (s->client.json)
        return client_print_json(reply);
    char state[16];
    printf("%s %s\n", client_text(reply->json, "state", state, sizeof(state)), s->id);
    return finish_output();
}

static int approve(const struct settings *s, struct client_reply *reply)
{
    return decide(s, "approve", reply);
}

static int deny(const struct settings *s, struct client_reply *reply)
{
    return decide(s, "deny", reply);
}

static const struct {
    const char *name, *argument, *help;
    bool takes_reason;
    int (*run)(const struct settings *s, struct client_reply *reply);
} actions[] = {
        {"list", "", "print what waits, one line each", false, list},
        {"show", "ID", "print one, with all that the call would do", false, show},
        {"approve", "ID", "agree: exactly this call may run, once", true, approve},
        {"deny", "ID", "refuse it", true, deny},
};

static int help(void)
{
    printf("usage: glovebox approvals list|show ID|approve ID|deny ID [options]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        printf("  %-8s %-19s %s\n", actions[i].name, actions[i].argument, actions[i].help);
    printf("\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: 0 done, 1 there is no such approval or it is not yours to decide, 125 anything "
           "else\n");
    return finish_output();
}

static int run_action(size_t action, struct settings *s)
{
    struct client_reply reply;
    const bool wants_id = *actions[action].argument != '\0';
    if (s->reason && !actions[action].takes_reason)
        return complain("approvals %s does not take --reason", actions[action].name);
    if (wants_id != (s->id != NULL))
        return complain(
                wants_id ? "approvals %s takes the ID of an approval; `glovebox approvals list` shows them"
                         : "approvals %s takes no argument",
                actions[action].name);
    if (wants_id && !gb_id_is_valid(s->id))
        return complain("'%.64s' is not the ID of an approval; `glovebox approvals list` shows them", s->id);
    const int code = actions[action].run(s, &reply);
    client_done(&reply);
    return code;
}

int verb_approvals(int argc, char **argv)
{
    struct settings s = {0};
    bool dashes;
    const char *words[2] = {NULL, NULL};
    /* Options may stand before and behind the action. */
    for (int at = 0, count = 0; at < argc; count++) {
        argv[at] = argv[0]; /* what messages call us */
        const int next = options_parse(options, ARRAY_LEN(options), argc - at, argv + at, &s, &dashes);
        if (next < 0)
            return EXIT_GLOVEBOX;
        at += next;
        if (at < argc && count == (int)ARRAY_LEN(words))
            return complain("what is '%.100s'? `glovebox approvals --help` shows what it takes", argv[at]);
        if (at < argc)
            words[count] = argv[at];
    }
    if (s.client.help)
        return help();
    s.id = words[1];
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        if (!strcmp(words[0] ? words[0] : "list", actions[i].name))
            return run_action(i, &s);
    return complain("approvals takes list, show, approve or deny; `glovebox approvals --help` tells more");
}
