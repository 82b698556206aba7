/* glovebox tools: what the service lets this caller use. */
#include "cli/client.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

#define EXIT_NOT 1 /* there is no such tool */

static const struct option_row options[] = {
        {"--url", "URL", "where the service is: unix:/path or http://127.0.0.1:8640; else as configured",
         client_option},
        {"--key-file", "FILE", "the key to call with, if not in $GLOVEBOX_KEY", client_option},
        {"--json", NULL, "print JSON, as function-calling APIs take it", client_option},
        {"--help", NULL, "this text (also -h)", client_option},
        {"-h", NULL, NULL, client_option},
};

static const json_t *function_of(const json_t *tools, size_t i)
{
    return json_object_get(json_array_get(tools, i), "function");
}

static int list(const struct client *c, const struct client_reply *reply, const json_t *tools)
{
    if (c->json)
        return client_print_json(reply);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        char name[64], text[128];
        client_text(function_of(tools, i), "name", name, sizeof(name));
        printf("%-24s %s\n", name, client_text(function_of(tools, i), "description", text, sizeof(text)));
    }
    if (!json_array_size(tools))
        printf("There is no tool that you may use.\n");
    return finish_output();
}

static int print_tool(const json_t *f)
{
    char name[64], text[4200];
    printf("%s\n\n", client_text(f, "name", name, sizeof(name)));
    client_text(f, "description", text, sizeof(text));
    if (strcmp(text, "-") != 0 && *text)
        printf("%s\n\n", text);
    printf("parameters:\n");
    client_print_value(json_object_get(f, "parameters"));
    return finish_output();
}

static int show(const struct client *c, const json_t *tools, const char *wanted)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = function_of(tools, i);
        const char *name = json_string_value(json_object_get(f, "name"));
        if (!name || strcmp(name, wanted) != 0)
            continue;
        if (!c->json)
            return print_tool(f);
        client_print_value(f);
        return finish_output();
    }
    complain("there is no tool '%.64s' that you may use; `glovebox tools` lists them", wanted);
    return EXIT_NOT;
}

static int help(void)
{
    printf("usage: glovebox tools [list | show NAME] [options]\n\n"
           "  list                         print the tools that you may use, one line each (the default)\n"
           "  show NAME                    print one, with the JSON Schema of its arguments\n\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: 0 done, 1 there is no such tool, 125 anything else\n");
    return finish_output();
}

int verb_tools(int argc, char **argv)
{
    struct client c = {0};
    bool dashes;
    const char *words[2] = {NULL, NULL};
    /* Options may stand before and behind the action. */
    for (int at = 0, count = 0; at < argc; count++) {
        argv[at] = argv[0];
        const int next = options_parse(options, ARRAY_LEN(options), argc - at, argv + at, &c, &dashes);
        if (next < 0)
            return EXIT_GLOVEBOX;
        at += next;
        if (at < argc && count == (int)ARRAY_LEN(words))
            return complain("what is '%.100s'? `glovebox tools --help` shows what it takes", argv[at]);
        if (at < argc)
            words[count] = argv[at];
    }
    if (c.help)
        return help();
    const bool shows = words[0] && !strcmp(words[0], "show");
    if ((words[0] && !shows && strcmp(words[0], "list") != 0) || shows != (words[1] != NULL))
        return complain("tools takes list, or show and the NAME of one; `glovebox tools --help` tells more");
    struct client_reply reply;
    int r = client_ask(&c, "GET", "/v1/tools", NULL, &reply);
    if (!r)
        r = client_refused(&reply);
    const json_t *tools = json_object_get(reply.json, "tools");
    if (!r)
        r = shows ? show(&c, tools, words[1]) : list(&c, &reply, tools);
    client_done(&reply);
    return r;
}
