/* What a policy owns besides what it shows: blocks of memory, and the trees that its pointers point into.
 * Private to src/policy. */
#pragma once

#include "json/json.h"

struct gb_owned {
    void **blocks;
    size_t count, size;
    json_t *trees; /* an array */
};
