/* A refusal that a model can read: the same in replies, on the command line and in the audit. denials.def has
 * the codes. */
#pragma once

#include "base/json_write.h"

#define GB_DENIALS 8

enum gb_denial_code {
    GB_DENIAL_NONE,
#define GB_DENIAL(code, name, stage, hint) GB_DENIAL_##code,
#include "spec/denials.def"
#undef GB_DENIAL
    GB_DENIAL_COUNT
};

struct gb_denial {
    enum gb_denial_code code;
    char reason[384]; /* what was wrong, with path or position */
    char hint[256];   /* what is allowed instead; "": the code's own hint */
};

const char *gb_denial_name(enum gb_denial_code code);  /* "budget_exceeded"; NULL if there is no such code */
const char *gb_denial_stage(enum gb_denial_code code); /* "validate", "decide", "screen", "run" */
/* Puts it behind those that are there, if there is room. Control characters in the reason become '?'. */
void gb_denial_add(struct gb_denial denials[GB_DENIALS], size_t *count, enum gb_denial_code code,
                   const char *hint, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* As an array of objects with code, stage, reason, hint. */
void gb_denials_to_json(struct gb_json *j, const char *key, const struct gb_denial *denials, size_t count);
