/* The fields of a request's body: one row of a table and one function for each. */
#pragma once

#include "front/request.h"

/* The tool, its profile and defaults are in the request already. */
struct fields_reader {
    const json_t *body;
    struct request *r;
    struct gb_err *err;
};

/* Are these all fields that there are? */
int fields_check_names(const json_t *body, struct gb_err *err);
/* Takes those that are there, and refuses what the tool's kind has no use for. */
int fields_take(struct fields_reader *in);

/* A string without NUL, which nothing behind us could hold; else NULL. */
const char *fields_text(const json_t *value, size_t *ret_len);
