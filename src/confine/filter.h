/* The finished system call filters of the service's processes; gen-seccomp makes the table from profiles.def
 * at build time. */
#pragma once

#include <linux/filter.h>

struct gb_confine_filter {
    const char *name; /* "front", "broker-file", … */
    const struct sock_filter *code;
    unsigned len;
};

extern const struct gb_confine_filter gb_confine_filters[];
extern const unsigned gb_confine_filter_count;
