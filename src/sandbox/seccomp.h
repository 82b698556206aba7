/* The finished system call filters; gen-seccomp makes the table from profiles.def at build time. */
#pragma once

#include <linux/filter.h>

struct gb_seccomp_filter {
    const char
            *without; /* "" for the real one; in test builds also one for each group that is switched off */
    const struct sock_filter *code;
    unsigned len;
};

extern const struct gb_seccomp_filter gb_seccomp_filters[];
extern const unsigned gb_seccomp_filter_count;

/* The filter that a box gets. */
const struct gb_seccomp_filter *gb_seccomp_filter(void);
