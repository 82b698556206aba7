/* The keeper: one short-lived process for each box, forked by the launcher. It reads the payload, builds the
 * box, waits for its end and answers on the run's own socket. What can go wrong with one payload or one box
 * goes wrong here, and not in the launcher. */
#pragma once

#include "launch/run.h"
#include "spec/spec.h"

#include <sys/types.h>

/* The part of the box that comes from the message and the ceiling; argv, environment and files come from the
 * payload. Points into the run. */
void gb_keeper_spec(const struct gb_run *run, struct gb_spec *ret_spec);
/* Does all of it and exits: 0 when the run was answered, whatever became of it. Closes every descriptor that
 * is not the run's. */
void gb_keeper_main(const struct gb_run *run, pid_t launcher) __attribute__((noreturn));
