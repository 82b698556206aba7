/* The finished system call filters; gen-seccomp makes the table from profiles.def at build time. */
#pragma once

#include "base/err.h"

#include <linux/filter.h>
#include <stdint.h>

struct gb_seccomp_program {
    const struct sock_filter *code;
    unsigned len;
};

/* `nursery` and `rest` decide together as `full` does. To load a filter costs in proportion to its length,
 * and a box inherits that of its zygote: so the long part is loaded once for many boxes. */
struct gb_seccomp_filter {
    const char
            *without; /* "" for the real one; in test builds also one for each group that is switched off */
    struct gb_seccomp_program full, nursery, rest;
    uint32_t mark; /* under `nursery`, and nowhere else, this option of prctl fails with GB_SECCOMP_MARKED */
};

#define GB_SECCOMP_MARKED 4000 /* no error that there is; below MAX_ERRNO */

extern const struct gb_seccomp_filter gb_seccomp_filters[];
extern const unsigned gb_seccomp_filter_count;

/* The filter that a box gets. */
const struct gb_seccomp_filter *gb_seccomp_filter(void);
/* In a zygote, before it serves: binds it, and all that it will bear. */
int gb_seccomp_enter_nursery(struct gb_err *err);
/* What this process lacks to be filtered as a box: the rest if it is in the nursery of the same policy, else
 * all. */
const struct gb_seccomp_program *gb_seccomp_missing(void);
