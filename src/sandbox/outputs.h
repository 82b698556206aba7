/* Files that come back from a dead box. */
#pragma once

#include "sandbox/box.h"

#define GB_OUTPUT_FILES 256
#define GB_OUTPUT_BYTES (64 << 20) /* of all files together */

/* Adds to result->files every regular file beneath /sandbox that matches one of spec->outputs, and an entry
 * with a reason for each that matches but cannot be taken. */
int gb_outputs_collect(const struct gb_box *box, struct gb_result *result, struct gb_err *err);
/* A name without wildcards, asked for as such. */
bool gb_outputs_is_exact(const char *pattern);
/* May this pattern be asked for? */
int gb_outputs_check(const char *pattern, struct gb_err *err);
