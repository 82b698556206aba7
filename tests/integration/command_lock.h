/* Shells as oracles are given lines that somebody means to break out with. This takes from the process, and
 * from all that it starts, every right to write outside `dir`, and to run anything but what is in dir, the
 * shell itself and the loader: a line that we read wrongly must not be able to harm the machine that tests
 * it. */
#pragma once

#include "base/auto.h"
#include "base/landlock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/prctl.h>

static inline bool command_lock_allow(int ruleset, const char *path, uint64_t access)
{
    AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);
    return fd < 0 || !gb_landlock_allow(ruleset, fd, access); /* not every machine has every loader */
}

static inline bool command_lock(const char *dir, const char *shell)
{
    const int version = gb_landlock_version();
    struct gb_landlock_attr attr = {.fs = GB_LL_ABI1 & ~(uint64_t)(GB_LL_READ_FILE | GB_LL_READ_DIR)};
    if (version < 1)
        return false;
    attr.fs |= (version >= 2 ? GB_LL_REFER : 0) | (version >= 3 ? GB_LL_TRUNCATE : 0);
    AUTO_FD ruleset = gb_landlock_create(&attr);
    const uint64_t write = GB_LL_WRITE_FILE | (version >= 3 ? GB_LL_TRUNCATE : 0);
    return ruleset >= 0 && command_lock_allow(ruleset, dir, attr.fs) &&
           command_lock_allow(ruleset, "/dev/null", write) &&
           command_lock_allow(ruleset, shell, GB_LL_EXECUTE) &&
           command_lock_allow(ruleset, "/lib", GB_LL_EXECUTE) &&
           command_lock_allow(ruleset, "/lib64", GB_LL_EXECUTE) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !gb_landlock_enter(ruleset);
}
