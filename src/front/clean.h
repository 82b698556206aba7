/* Sanitising of what is no stream: JSON, and short texts of our own. */
#pragma once

#include "json/json.h"
#include "redact/redact.h"

struct cleaner {
    const struct gb_rules *rules;   /* NULL: nothing is to be removed */
    const struct gb_rules *secrets; /* those of them that are about secrets; NULL: there are none */
    uint64_t hits;
    bool failed; /* no memory: what came of it is not to be used */
};

/* A copy in which every text, names of members too, is sanitised; a number of which something had to be
 * removed is a text then. NULL or `failed` if there is no memory. */
json_t *clean_value(struct cleaner *c, json_t *value);
/* A text of fixed size that may quote somebody, in place; cut if it grows. */
void clean_field(const struct gb_rules *rules, char *text, size_t size);
