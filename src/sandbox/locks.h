/* File locks: the one kernel object that a box can make without end and that no memory cgroup counts. */
#pragma once

#include "sandbox/cgroup.h"

/* Do the processes of the box hold more locks than any honest program? Looks at /proc/locks, so it costs next
 * to nothing where there are few. */
bool gb_locks_exceeded(const struct gb_cgroup *cg);
