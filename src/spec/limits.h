/* The limits of a box, as plain numbers. limits.def is the table; this is its type. */
#pragma once

#include "base/err.h"
#include "base/json_write.h"

#include <stddef.h>
#include <stdint.h>

struct gb_limits {
#define GB_LIMIT(field, key, decimals, def, least, usual, ceiling, reached) int64_t field;
#include "spec/limits.def"
#undef GB_LIMIT
};

struct gb_limit_row {
    const char *key;
    unsigned decimals;
    int64_t def, least;
    int64_t usual;   /* ceiling of the service unless configured */
    int64_t ceiling; /* of everybody */
    const char *reached;
    size_t offset; /* of the field in struct gb_limits */
};

extern const struct gb_limit_row gb_limit_rows[];
extern const size_t gb_limit_count;

void gb_limits_init(struct gb_limits *limits);
const struct gb_limit_row *gb_limits_find(const char *key);
int64_t gb_limits_get(const struct gb_limits *limits, const struct gb_limit_row *row);
/* Sets one limit from text. The error names the limit, the value and the range that is allowed. */
int gb_limits_set(struct gb_limits *limits, const char *key, const char *text, struct gb_err *err);
/* As an object with a number for each. */
void gb_limits_to_json(struct gb_json *j, const char *key, const struct gb_limits *limits);
