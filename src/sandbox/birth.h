/* What a zygote is asked for: one message of fixed size, with the descriptors that the new box gets. */
#pragma once

#include "spec/limits.h"

#include <stdint.h>

/* The channel, stdin, stdout, stderr; then where the box enters its cgroup: `tasks` files, or `cgroup.procs`.
 * In front of all that, if it is the zygote that is asked: the socket over which its cradle takes the next.
 */
#define GB_BIRTH_FDS   9
#define GB_BIRTH_LEAST 4

struct gb_birth {
    uint32_t uid; /* in the zygote's user namespace */
    int32_t cgroup_version;
    struct gb_limits limits;
    char degraded[128];
};

/* As execvp with the PATH of a box. Returns only on failure. */
void gb_birth_execute(char *const *argv, char *const *env);
