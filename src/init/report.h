/* What a box tells its supervisor, over one SOCK_SEQPACKET pair. Shared with glovebox-init, which has no C
 * library: plain integers only. */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define GB_INIT_CHANNEL 3 /* the descriptor number of the channel once init runs */

enum gb_report_kind {
    GB_REPORT_SCRATCH,     /* set-up to parent: carries the scratch file system's descriptor */
    GB_REPORT_READY,       /* every step done; init follows */
    GB_REPORT_FAILED,      /* a step failed: err says which and why */
    GB_REPORT_EXEC_FAILED, /* from init: value is the errno of exec */
    GB_REPORT_EXIT,        /* from init: value is the wait status of the program */
};

struct gb_report {
    int32_t kind, value;
    uint64_t applied, degraded;
    int32_t landlock_abi, reserved;
    struct gb_err err;
};

/* Supervisor to set-up: the id maps are written. */
#define GB_GO_MAPPED 'M'
