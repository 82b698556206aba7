/* Pools: boxes that are built before anybody calls, and wait. A box that waits can serve a call if it is of
 * the kind that the call wants (its key) and has the limits of the call.
 *
 * The supervisor tells the launcher which boxes to have (wire/msg.def: POOLS), made from the policy; the
 * front names one in each RUN by its key, made from the same policy. Nobody has to trust the other: a key
 * that the launcher does not know is one for which no box waits, and the box is built then. */
#pragma once

#include "spec/limits.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

enum gb_pool_kind {
    GB_POOL_PLAIN,  /* nothing runs yet but the box's own PID 1: any program can be started in it */
    GB_POOL_PYTHON, /* an interpreter has started, has imported what the profile preloads, and waits */
    GB_POOL_NODE,   /* the same for Node */
    GB_POOL_KINDS
};

struct gb_pool_kind_row {
    const char *name;
    const char *runtime; /* row of runtimes.def whose scripts it is for; NULL: for all else */
    const char *what;
};
extern const struct gb_pool_kind_row gb_pool_kinds[GB_POOL_KINDS];

#define GB_POOLS              16 /* so many kinds of boxes wait at once, each with its limits */
#define GB_POOL_PROGRAM       256
#define GB_POOL_PRELOAD       512
#define GB_POOL_PRELOAD_NAMES 64

/* One kind of box that shall wait. Texts are NUL-terminated. */
struct gb_pool_want {
    uint64_t key; /* gb_pool_key of kind, program and preload */
    uint32_t kind, low, high;
    uint32_t reserved;
    struct gb_limits limits;       /* that it is built with; see gb_pool_has_limits */
    char program[GB_POOL_PROGRAM]; /* the interpreter, as a call names it; "" for a plain box */
    char preload[GB_POOL_PRELOAD]; /* modules, separated by one blank */
};

/* What supervisor and front know a kind of box by; never 0, which in a RUN means: none that waits. */
uint64_t gb_pool_key(enum gb_pool_kind kind, const char *program, const char *preload);
/* The kind for scripts of this runtime; NULL: for a program. */
enum gb_pool_kind gb_pool_kind_for(const struct gb_runtime *runtime);
/* Can a box of this kind serve a call that sets this variable? Not if that counts only when an interpreter
 * starts, and it has started. */
bool gb_pool_takes_env(enum gb_pool_kind kind, const char *name);
/* Does a box that was built with limits `a` have those of `b`? Time and output are not the box's: they begin
 * with the call. */
bool gb_pool_has_limits(const struct gb_limits *a, const struct gb_limits *b);
