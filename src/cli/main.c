/* glovebox: the command line. A verb is a file. */
#include "cli/cli.h"

#include "glovebox.h"

#include "base/auto.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static const struct verb *const verbs[] = {&verb_run,    &verb_serve,     &verb_call,
                                           &verb_tools,  &verb_approvals, &verb_audit,
                                           &verb_config, &verb_doctor,    &verb_selftest};

static int help(void)
{
    printf("glovebox %s: runs the tool calls of LLM agents in kernel-enforced boxes\n\nusage: glovebox VERB "
           "…\n\n",
           gb_version());
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        printf("  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    printf("\n`glovebox VERB --help` tells more. Try: glovebox run -c 'print(2 + 2)'\n");
    return finish_output();
}

int main(int argc, char **argv)
{
    if (getauxval(AT_SECURE))
        return complain("glovebox must not be installed setuid, setgid or with file capabilities: it would "
                        "lend its rights to everybody");
    /* Descriptors 0 to 2 must exist, or what we open next would be taken for them. */
    for (int fd = open("/dev/null", O_RDWR | O_CLOEXEC); fd >= 0;
         fd = open("/dev/null", O_RDWR | O_CLOEXEC)) {
        if (fd > 2) {
            close(fd);
            break;
        }
        fcntl(fd, F_SETFD, 0);
    }
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
        if (!strcmp(argv[1], verbs[i]->name))
            return verbs[i]->main(argc - 1, argv + 1);
    return complain("there is no verb '%.64s'; `glovebox --help` lists them", argv[1]);
}
