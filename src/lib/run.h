/* For our own programs, which are built with the library's insides; not installed, not exported. */
#pragma once

#include "glovebox.h"

#include "spec/result.h"

/* The result of a run that was started with success. */
const struct gb_result *gb_run_result(const struct gb_run *run);
