/* Screening: a signal, not a wall (the box is the wall). Rules are data (rules.def). */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define GB_FINDINGS 16 /* at least as many as there are rules */

struct gb_finding {
    const char *rule; /* its name, such as "subprocess execution"; static */
    unsigned line;    /* from 1: where it fires first */
};

struct gb_screen; /* compiled once; not changed by use */

/* Compiles the rules. NULL with err on failure. */
struct gb_screen *gb_screen_new(struct gb_err *err);
void gb_screen_free(struct gb_screen *screen);
/* Finds rules that fire on code of this runtime, in the order of rules.def, each once; returns how many of
 * ret were filled. runtime NULL (a command line): only the rules for every language. What cannot be decided
 * (the match limit is reached, or there is no memory) counts as a finding. Linear in the length of the code.
 */
size_t gb_screen_code(const struct gb_screen *screen, const char *runtime, const char *code, size_t len,
                      struct gb_finding ret[GB_FINDINGS]);
