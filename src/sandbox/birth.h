/* What a zygote is asked for: one message of fixed size, with the descriptors that the new box gets. */
#pragma once

#include "spec/limits.h"

#include <stdint.h>

/* The channel, stdin, stdout, stderr; then where the box enters its cgroup: `tasks` files, or `cgroup.procs`.
 */
#define GB_BIRTH_FDS 8

struct gb_birth {
    uint32_t uid; /* in the zygote's user namespace */
    int32_t cgroup_version;
    uint32_t leisure,
            reserved; /* no call waits for this box yet: what can be done before one comes, should be */
    struct gb_limits limits;
    char degraded[128];
};

/* As execvp with the PATH of a box. Returns only on failure. */
void gb_birth_execute(char *const *argv, char *const *env);
