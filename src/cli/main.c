/* glovebox: the command line. A verb is a file; those of the service are in a program of their own. */
#include "cli/cli.h"

#include "glovebox.h"

#include "base/auto.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BOX(function)     function
#define SERVICE(function) NULL

static const struct {
    const char *name, *summary;
    int (*main)(int argc, char **argv); /* NULL: in glovebox-service */
} verbs[] = {
#define VERB(program, name, summary) {#name, summary, program(verb_##name)},
#include "cli/verbs.def"
#undef VERB
};

static int help(void)
{
    printf("glovebox %s: runs the tool calls of LLM agents in kernel-enforced boxes\n\nusage: glovebox VERB "
           "…\n\n",
           gb_version());
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n`glovebox VERB --help` tells more. Try: glovebox run -c 'print(2 + 2)'\n");
    return finish_output();
}

/* The same words, the same process: whoever watches us sees `glovebox VERB` go on. */
static int execute_service(char **argv)
{
    char path[PATH_MAX];
    if (!find_sibling("glovebox-service", path, sizeof(path)))
        return complain("glovebox-service, which has the verb '%s', is not installed beside glovebox",
                        argv[1]);
    execv(path, argv);
    return complain("cannot start %.200s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
    int r = begin();
    if (r)
        return r;
    if (argc < 2)
        return complain(
                "what shall it do? `glovebox --help` lists the verbs; try: glovebox run -c 'print(2 + 2)'");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help();
    if (!strcmp(argv[1], "--version")) {
        printf("glovebox %s\n", gb_version());
        return finish_output();
    }
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (!strcmp(argv[1], verbs[i].name))
            return verbs[i].main ? verbs[i].main(argc - 1, argv + 1) : execute_service(argv);
    return complain("there is no verb '%.64s'; `glovebox --help` lists them", argv[1]);
}
