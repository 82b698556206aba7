/* The process of one call. */
#pragma once

#include "wire/msg.h"

#include <sys/types.h>

struct child {
    const struct gb_msg_tool *ask;
    uint64_t tag;
    int socket, arguments, config;
    pid_t parent;
    const char *degraded; /* see confine/confine.h */
};

/* Does all of it and exits: 0 when the call was answered, whatever became of it. Closes every descriptor that
 * is not the call's. */
void child_main(const struct child *child) __attribute__((noreturn));
