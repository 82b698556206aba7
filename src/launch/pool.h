/* Boxes that wait for calls, and the zygotes that bear them.
 *
 * A slot is a keeper (keeper.h) that has one box after the other, each for one call. A nest is a zygote. A
 * call gets a slot whose box waits, is of its kind, and has its limits; if there is none, one is built with
 * its limits, and the call waits for that. What cannot be had from a zygote at all is not taken here: the
 * launcher then builds the box from nothing.
 *
 * How many wait follows the load: `low` of each kind always, more when calls come that found none, `high` at
 * most; after a time without calls it is `low` again. */
#pragma once

#include "launch/run.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#define GB_POOL_POLL_MOST 64

/* `cold` starts a run for which no box can be had here after all. */
void gb_pool_init(pid_t launcher, void (*cold)(struct gb_run *run));
/* What shall wait from now on. All that waits now is given up, and its zygotes: they were made under another
 * configuration, and perhaps of programs that have changed since. */
void gb_pool_set(const struct gb_msg_pools *pools, const struct gb_msg_ceiling *ceiling);
/* Takes the run (true), or leaves it to the caller. */
bool gb_pool_take(struct gb_run *run);
/* Calls that it has now, waiting for a box or in one. */
unsigned gb_pool_calls(void);
/* Keepers of its boxes, whatever they do. */
unsigned gb_pool_keepers(void);
/* A child has ended: true if it was a keeper of the pool's, or a zygote. */
bool gb_pool_reaped(pid_t pid, int status);
bool gb_pool_reaped_zygote(pid_t pid, int status);
/* What to poll; looks after each, in the same order, and after the clock. */
unsigned gb_pool_watch(struct pollfd *ret, unsigned most);
void gb_pool_look(const struct pollfd *p, unsigned count);
int64_t gb_pool_next_us(void);
/* No box waits any more, and none will. */
void gb_pool_stop(void);
