/* What a box tells its supervisor, over one SOCK_SEQPACKET pair, and what it is told. Shared with
 * glovebox-init, which has no C library: plain integers only. */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define GB_INIT_CHANNEL 3 /* the descriptor number of the channel once init runs */
/* A pipe to a program that is started before its call comes: its reading and its writing end. */
#define GB_INIT_WORDS   4
#define GB_INIT_CONTROL 5

enum gb_report_kind {
    GB_REPORT_READY,       /* every step done, init follows; with descriptors, see enum gb_ready_fd */
    GB_REPORT_FAILED,      /* a step failed: err says which and why */
    GB_REPORT_FILE_FAILED, /* from init: a file of the call cannot be made; value is the errno, number which
                            */
    GB_REPORT_EXEC_FAILED, /* from init: value is the errno of exec */
    GB_REPORT_EXIT,        /* from init: value is the wait status of the program */
};

struct gb_report {
    int32_t kind, value;
    uint64_t applied, degraded;
    int32_t landlock_abi;
    uint32_t number;
    int64_t cpu_us, memory_bytes; /* of the program and those it has waited for */
    struct gb_err err;
};

/* Supervisor to set-up: the id maps are written. */
#define GB_GO_MAPPED 'M'
/* Supervisor to PID 1 of a waiting box: start. Comes with one or two sealed payloads (wire/payload.h). */
#define GB_GO_START    'S'
#define GB_GO_SCREENED 'L' /* the same, for an interpreter that waits and looks at its script by itself */
#define GB_GO_PAYLOADS 2
/* PID 1 of a waiting box may have as many descriptors more than its program, for what comes with that word.
 */
#define GB_INIT_SPARE 8

/* The kinds of items in a payload; see wire/payload.h. Each is preceded by two 32-bit numbers: kind, bytes.
 */
enum gb_item_kind {
    GB_ITEM_ARG = 1, /* NUL-terminated */
    GB_ITEM_ENV,     /* NAME=VALUE, NUL-terminated */
    GB_ITEM_OUTPUT,  /* a name or glob, NUL-terminated */
    GB_ITEM_NAME,    /* a file's name, NUL-terminated; its bytes or a reason follow */
    GB_ITEM_DATA,    /* the bytes of the file named before */
    GB_ITEM_PROGRAM, /* the same, executable */
    GB_ITEM_SKIPPED, /* why the file named before did not come back, NUL-terminated */
    GB_ITEM_KINDS
};
#define GB_PAYLOAD_STRINGS 1024       /* of each kind */
#define GB_PAYLOAD_ITSELF  UINT32_MAX /* in place of a file's number: the payload is not what it should be */
