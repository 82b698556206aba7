/* glovebox-service: the verbs of the service. `glovebox` executes it with its own arguments; nobody need know
 * its name. */
#include "cli/cli.h"

#include "base/auto.h"

#include <string.h>
#include <sys/prctl.h>

#define BOX(function)     NULL
#define SERVICE(function) function

static const struct {
    const char *name;
    int (*main)(int argc, char **argv); /* NULL: in glovebox */
} verbs[] = {
#define VERB(program, name, summary) {#name, program(verb_##name)},
#include "cli/verbs.def"
#undef VERB
};

int main(int argc, char **argv)
{
    int r = begin();
    if (r)
        return r;
    prctl(PR_SET_NAME, "glovebox", 0, 0, 0); /* what operators look for, and have always found */
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
        if (verbs[i].main && !strcmp(argv[1], verbs[i].name))
            return verbs[i].main(argc - 1, argv + 1);
    return complain("glovebox-service is not called by hand; `glovebox --help` lists the verbs");
}
