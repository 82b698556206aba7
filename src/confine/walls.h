/* Single walls, for those who put them up in order: confine.c and narrow.c. Errors have the code
 * GB_ERR_LAYER. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Sets the error and returns -errnum. */
int gb_walls_fail(struct gb_err *err, int errnum, const char *what);
/* Soft and hard, as far as the hard limit allows. 0 or -1 with errno. */
int gb_walls_limit(int resource, rlim_t value);
/* SIGKILL when `parent` dies; an error if it is dead already. */
int gb_walls_die_with(pid_t parent, struct gb_err *err);
/* A landlock ruleset that refuses every file, abstract sockets and signals of others, and these kinds of TCP
 * use (GB_LL_BIND, GB_LL_CONNECT). *ret_ruleset is -1 if this kernel has no landlock and `degraded` (a comma
 * list, or NULL) allows it to be missing. */
int gb_walls_ruleset(const char *degraded, uint64_t tcp, int *ret_ruleset, struct gb_err *err);
/* The rights on files that this kernel's landlock knows, of those given. */
uint64_t gb_walls_known(uint64_t rights);
/* Loads the filter of that name. */
int gb_walls_filter(const char *name, struct gb_err *err);
