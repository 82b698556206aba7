/* Keepers: processes of the launcher, each with one box at a time. What can go wrong with one payload or one
 * box goes wrong here, and not in the launcher.
 *
 * One kind is forked for a call that no box waits for, builds its box from nothing, and ends with it. The
 * other has a zygote bear a box, waits with it for a call, serves that one call, and has the next box borne.
 */
#pragma once

#include "launch/run.h"
#include "launch/slots.h"
#include "sandbox/zygote.h"
#include "spec/pool.h"
#include "spec/spec.h"

#include <sys/types.h>

/* Exit codes besides 0. */
#define GB_KEEPER_NO_BOX 3 /* no box could be built, or what should wait in it does not */
#define GB_KEEPER_STUCK  4 /* one was asked for, and its set-up never ended */

/* The part of the box that comes from the message and the ceiling; argv, environment and files come from the
 * payload. Points into the run. */
void gb_keeper_spec(const struct gb_run *run, struct gb_spec *ret_spec);
/* Does all of it and exits: 0 when the run was answered, whatever became of it. Closes every descriptor that
 * is not the run's. */
void gb_keeper_main(const struct gb_run *run, pid_t launcher) __attribute__((noreturn));

/* What boxes a keeper has, and how it talks with the launcher. */
struct gb_keeper_post {
    struct gb_slots *slots; /* shared with the launcher */
    unsigned slot, nest;    /* its own row, and that of its zygote */
    int socket;             /* calls come over it; its end: no more */
    int bell;               /* an eventfd, rung when a box waits and so does a call */
    int start_code;         /* payload with our start-up code, for interpreters that start in the box */
    struct gb_zygote zygote;
    enum gb_pool_kind kind;
    struct gb_limits limits;
    struct gb_msg_ceiling ceiling;
};

void gb_keeper_wait(const struct gb_keeper_post *post, pid_t launcher) __attribute__((noreturn));
