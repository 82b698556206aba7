/* The cgroup that a service manager has handed to us (cgroup v2, systemd's Delegate=yes). */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* The kernel allows no processes in a cgroup whose children have controllers on. So, if our own cgroup is
 * ours to divide, this moves us into a leaf of it, and puts the path of the cgroup itself into ret_parent:
 * boxes go beside the leaf. Elsewhere (v1, not ours, other processes in it) nothing changes, ret_parent is
 * "", and where boxes go is left to the library. Never an error: the first box tells whether it works. */
void gb_delegate(char *ret_parent, size_t size);
