/* Walls that a test can take down.
 *
 * GB_WALL("name") stands where a single defence is decided inside a step. In a release build it is the
 * constant 1 and no trace of it is left. In a test build (-Dtesting=true) it is 0 if GLOVEBOX_TEST_SKIP lists
 * the name: positive controls and `make mutants` use it to show that some test notices each missing wall.
 * Names are unique; tests/mutants finds them by this macro. */
#pragma once

#ifdef GB_TESTING
#include "base/text.h"

#include <stdlib.h>

static inline bool gb_wall_stands(const char *name)
{
    const char *off = getenv("GLOVEBOX_TEST_SKIP");
    return !off || !gb_text_in_list(off, name);
}
#define GB_WALL(name) gb_wall_stands(name)
#else
#define GB_WALL(name) 1
#endif

/* The flag if its wall stands, else none. */
#define GB_WALL_FLAG(name, flag) (GB_WALL(name) ? (flag) : 0)
