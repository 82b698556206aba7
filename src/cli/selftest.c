#include "cli/cli.h"
static int selftest_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 0;
}
const struct verb verb_selftest = {"selftest", "run the escape probes on this host", selftest_main};
