/* The regular expressions of JSON Schema: ECMA-262 with the flag u, run by PCRE2.
 *
 * A pattern is parsed here and written anew for PCRE2, so that what only one of the two knows is refused
 * rather than taken in another sense: \d and \w are ASCII, \s is what Unicode calls space, $ is the very end,
 * (?i), \Z and [[:alpha:]] do not exist. Beyond the standard, \ may stand before any ASCII punctuation, and a
 * hyphen next to \w in a class is a hyphen, as browsers have it. What cannot be searched within bounds is
 * refused: references back to a group.
 *
 * The search starts at every place in one attempt of PCRE2, whose counter thus counts all of it. No JIT: the
 * processes that use this may not make memory executable. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_ECMA_BYTES_MOST 8192 /* of a pattern */

struct gb_ecma;        /* a pattern: used by any number of searches */
struct gb_ecma_search; /* what searches share: memory and bounds */

/* The error is of the code GB_ERR_CONFIG and says what is wrong at which character. */
int gb_ecma_new(const char *pattern, size_t len, struct gb_ecma **ret, struct gb_err *err);
void gb_ecma_free(struct gb_ecma *p);
/* Whether it is one by the standard, those with references to groups included. */
bool gb_ecma_is_pattern(const char *pattern, size_t len);

struct gb_ecma_search *gb_ecma_search_new(void);
void gb_ecma_search_free(struct gb_ecma_search *s);
/* 1: found, 0: not, -ELOOP: not decided within the bounds, -ENOMEM. The bounds are some steps per byte of the
 * text, and a store of more for all searches together. text must be valid UTF-8. Adds to *steps. */
int gb_ecma_find(const struct gb_ecma *p, struct gb_ecma_search *s, const char *text, size_t len,
                 uint64_t *steps);
