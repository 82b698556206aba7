/* Nests: the zygotes of the launcher, one for each kind of box that waits; see sandbox/zygote.h. */
#pragma once

#include "launch/slots.h"
#include "sandbox/zygote.h"
#include "spec/pool.h"
#include "wire/msg.h"

#include <poll.h>
#include <stdbool.h>

void gb_nest_init(struct gb_slots *shared);
/* Starts the zygote for that kind of box. */
int gb_nest_start(const struct gb_pool_want *want, const struct gb_msg_ceiling *ceiling, struct gb_err *err);
/* The one that bears boxes of this kind, or -1. */
int gb_nest_find(uint64_t key);
const struct gb_zygote *gb_nest_zygote(unsigned nest);
/* Does it still bear boxes? */
bool gb_nest_is_current(unsigned nest);
/* Has it borne one? Before, nobody can tell how long the first will take. */
bool gb_nest_is_warm(unsigned nest);
/* Room for another beside it, so that it can be replaced. */
bool gb_nest_has_room(void);
/* It bears no more, and ends with its last box; at once, if it has borne none. */
void gb_nest_retire(unsigned nest);
void gb_nest_retire_all(void);
/* It hangs: an end with all its boxes. */
void gb_nest_kill(unsigned nest);
/* What to poll for their ends; true if the descriptor was one of theirs, and has been looked after. ret_key:
 * of one that should have lived, else 0. */
unsigned gb_nest_watch(struct pollfd *ret, unsigned most);
bool gb_nest_look(int fd, uint64_t *ret_key);
/* A child has ended: true if it was one of them. One that has become an interpreter ends as any child does,
 * and may be met by whoever waits for others. */
bool gb_nest_reaped(pid_t pid, int status, uint64_t *ret_key);
/* A payload with our start-up code for interpreters that start in their boxes; -1: there was no memory. */
int gb_nest_start_code(void);
