/* How a child of the broker gives up what its one call does not need: the broker's walls are around it
 * already (confine.h), these are within. Called after the configuration was read and before the first byte of
 * a caller's. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gb_narrow {
    const char *name; /* the row of confine/profiles.def: "broker-file", "broker-net", "broker-database" */
    const char *const *read; /* files and directories that may be read, NULL at the end; those that this host
                              * has not are left out */
    const char *dir;         /* a directory whose files may be read; NULL: none */
    bool write;              /* and written */
    bool tcp;                /* may connect */
    uint64_t memory_bytes;   /* RLIMIT_AS; 0: as it is */
    unsigned cpu_seconds, open_files;
    const char *degraded; /* as in struct gb_confine */
};

/* parent: the broker's pid. The error names the step. */
int gb_narrow_enter(const struct gb_narrow *n, pid_t parent, struct gb_err *err);
