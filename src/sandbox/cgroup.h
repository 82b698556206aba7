/* The box's cgroup: memory, pids and cpu limits, what was used, and when memory ran out.
 *
 * Both versions of the kernel interface are spoken. On v2 the box is born in its cgroup (CLONE_INTO_CGROUP).
 * On v1 its first act is to write "0" to the `tasks` files that we opened for it: a single thread that moves
 * itself is spared the lock, and the RCU grace period of 10 ms and more, that moving another process costs
 * (since 5.5).
 *
 * How max_memory_mb and max_disk_mb add up: scratch files live in a tmpfs whose pages the kernel charges as
 * memory. So the cgroup may use the sum of both, and the memory limit proper is enforced by us: woken by the
 * kernel or by the clock, we subtract scratch files and page cache from the usage, and kill what is over.
 * What holds a program that is faster than we are: v2: memory.high, which slows it down more and more; it is
 * set to the usage at which memory would be full if nothing but memory grew. v1: memory.limit_in_bytes, a
 * little above memory plus scratch files, with the OOM killer off: who meets it waits until we have looked,
 * and either killed the box or raised the limit because its files have grown. A legal program that fills its
 * disk does not die of it, and a greedy one takes little more than its limit. */
#pragma once

#include "spec/result.h"
#include "spec/spec.h"

#include <sys/types.h>

enum gb_controller { GB_CG_MEMORY, GB_CG_PIDS, GB_CG_CPU, GB_CG_CPUACCT, GB_CG_COUNT };

/* What is read while the box runs and when it has ended. */
enum gb_cgroup_file {
    GB_CG_CURRENT,
    GB_CG_KERNEL,
    GB_CG_PEAK,
    GB_CG_AT_END = GB_CG_PEAK, /* from here on: of every run, however short */
    GB_CG_EVENTS,
    GB_CG_CPU_USED,
    GB_CG_PIDS_PEAK,
    GB_CG_FILES
};

struct gb_cgroup {
    int version; /* 0 when there is none, else 1 or 2 */
    char name[48];
    int parent_fd[GB_CG_COUNT], fd[GB_CG_COUNT]; /* v2 uses only the first; -1 where unused */
    int tasks_fd[GB_CG_COUNT];                   /* v1: where the box enters */
    int event_fd;                                /* poll it: v1 POLLIN, v2 POLLPRI */
    int file_fd[GB_CG_FILES];                    /* open once there was time for it */
    dev_t hierarchy[GB_CG_COUNT];                /* v1: controllers mounted together have the same */
    int64_t memory_bytes, hard_bytes, limit_bytes, headroom_bytes;
    bool lifted; /* the cpu quota, so that its processes could die */
    bool used;   /* by a box before: then the kernel's peak of processes may be that one's, and is not told */
};

extern const char *const gb_cgroup_controllers[GB_CG_COUNT]; /* their names */

void gb_cgroup_init(struct gb_cgroup *cg);
/* Finds out the version, and opens the directory (v1: one of each controller) that the cgroup is made in. */
int gb_cgroup_open_parents(struct gb_cgroup *cg, const struct gb_spec *spec, struct gb_err *err);
/* Does this host have v2 alone? Then a box is born in its cgroup. */
bool gb_cgroup_is_v2(void);
/* Makes the cgroup and writes its limits. Fails if any needed controller is missing: there is no cgroup by
 * halves. */
int gb_cgroup_create(struct gb_cgroup *cg, const struct gb_spec *spec, struct gb_err *err);
/* Removes what runs that were killed have left behind, as far as their pids are not in use again. Not on the
 * way to a start: while the box sets itself up, its supervisor is idle. */
void gb_cgroup_sweep(const struct gb_cgroup *cg);
/* All of it, for a service: below `parent` as in gb_spec.cgroup_parent. Allocates nothing. */
int gb_cgroup_sweep_parent(const char *parent, struct gb_err *err);
/* Opens what will be read at the end, when there is time: reading alone is then a fifth of the work. */
void gb_cgroup_open_files(struct gb_cgroup *cg);
/* Sends SIGKILL to every process in it. The death of init kills all of them too, but init has to be scheduled
 * first, which takes its time in a fork storm. */
void gb_cgroup_kill(struct gb_cgroup *cg);
/* v1, called by the box: enters every hierarchy. */
int gb_cgroup_join(struct gb_cgroup *cg, struct gb_err *err);

/* What the box holds that counts as memory: not page cache, not scratch files. */
int64_t gb_cgroup_memory_used(const struct gb_cgroup *cg, int64_t scratch_bytes);
/* Call when event_fd fires and from time to time: true if the memory limit is passed or the kernel's OOM
 * killer struck. */
bool gb_cgroup_memory_exceeded(struct gb_cgroup *cg, int64_t scratch_bytes);
bool gb_cgroup_oom_killed(const struct gb_cgroup *cg);
int64_t gb_cgroup_memory_current(const struct gb_cgroup *cg);
int64_t gb_cgroup_cpu_us(const struct gb_cgroup *cg);
void gb_cgroup_usage(const struct gb_cgroup *cg, struct gb_usage *usage);
/* Makes it as new for the next box, with the same limits, after one that was not killed; the box must be
 * dead. To make one and remove it costs far more. False: something is left of the box before, or the kernel
 * cannot forget what was used; then it must be removed. */
bool gb_cgroup_recycle(struct gb_cgroup *cg);
/* Removes it; the box must be dead. */
void gb_cgroup_destroy(struct gb_cgroup *cg);
