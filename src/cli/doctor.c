#include "cli/cli.h"
static int doctor_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 0;
}
const struct verb verb_doctor = {"doctor", "show which layers this host can give", doctor_main};
