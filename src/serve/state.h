/* The service's directories, and the lock that lets one service at a time use them. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct gb_state {
    int lock_fd, audit_fd; /* -1: none */
    bool after_kill;       /* the service before us did not end in order: its processes may still be dying */
};

/* Makes what is missing: state_dir, runtime_dir, and state_dir/audit, which is the store's alone. Takes the
 * lock; if another service has it, the error names its pid. The lock goes with the process, however it ends.
 * Release with gb_state_close. */
int gb_state_open(const char *state_dir, const char *runtime_dir, struct gb_state *ret, struct gb_err *err);
void gb_state_close(struct gb_state *state);
