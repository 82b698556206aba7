/* Test builds only: runs every box the way a pool does, from a zygote and with a wait, wherever a box is run.
 * So each test of a box, each probe and each mutant, is one of that path too. GLOVEBOX_TEST_PATH: plain (a
 * zygote whose boxes execute) or python (one whose boxes are warm; what is no script is then executed by it).
 */
#pragma once

#include "backend/backend.h"

bool gb_rehearsal_wanted(const struct gb_spec *spec);
int gb_rehearsal_run(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
                     struct gb_result *result, struct gb_err *err);
