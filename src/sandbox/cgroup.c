#include "sandbox/cgroup.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/wall.h"
#include "sandbox/channel.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CG_PREFIX   "glovebox.box-" /* nobody else's cgroup has such a name */
#define MIB         ((int64_t)1 << 20)
#define PERIOD_US   100000 /* the kernel's own default for the cpu quota */
#define KERNEL_MUCH (16 * MIB)
#define SMALL_STEP  (MIB / 4)
#define HEADROOM    (24 * MIB) /* v1: what may be used between two looks */
#define STAT_BYTES  8192
#define RESIDUE_MOST                                                                                         \
    (MIB / 2) /* what the kernel may still count when a box is gone: a batch of each processor */

const char *const gb_cgroup_controllers[GB_CG_COUNT] = {"memory", "pids", "cpu", "cpuacct"};

/* The two versions differ in file names more than in meaning. */
static const struct {
    const char *file, *shmem;
} names[] = {
        [1] = {"total_cache", "total_shmem"},
        [2] = {"file", "shmem"},
};

static const struct {
    enum gb_controller controller;
    const char *name[3]; /* by version; NULL: it has none */
} files[GB_CG_FILES] = {
        [GB_CG_CURRENT] = {GB_CG_MEMORY, {[1] = "memory.usage_in_bytes", [2] = "memory.current"}},
        [GB_CG_PEAK] = {GB_CG_MEMORY, {[1] = "memory.max_usage_in_bytes", [2] = "memory.peak"}},
        [GB_CG_EVENTS] = {GB_CG_MEMORY, {[1] = "memory.oom_control", [2] = "memory.events"}},
        [GB_CG_CPU_USED] = {GB_CG_CPUACCT, {[1] = "cpuacct.usage", [2] = "cpu.stat"}},
        [GB_CG_PIDS_PEAK] = {GB_CG_PIDS, {[1] = "pids.peak", [2] = "pids.peak"}},
        [GB_CG_KERNEL] = {GB_CG_MEMORY, {[1] = "memory.kmem.usage_in_bytes"}},
};

static int dir_of(const struct gb_cgroup *cg, enum gb_controller c)
{
    return cg->version == 2 ? cg->fd[0] : cg->fd[c];
}

void gb_cgroup_init(struct gb_cgroup *cg)
{
    *cg = (struct gb_cgroup){.event_fd = -1};
    for (size_t i = 0; i < GB_CG_COUNT; i++)
        cg->fd[i] = cg->parent_fd[i] = cg->tasks_fd[i] = -1;
    for (size_t i = 0; i < GB_CG_FILES; i++)
        cg->file_fd[i] = -1;
}

/* --- making it --- */

/* Removes the directory of that name in every hierarchy; the first, which carries the lock, only when the
 * others are gone, so that none is ever forgotten. */
static int remove_all(const struct gb_cgroup *cg, const char *name)
{
    int r = 0;
    for (size_t i = GB_CG_COUNT; i-- > 0;)
        if (cg->parent_fd[i] >= 0 && (i > 0 || !r) && unlinkat(cg->parent_fd[i], name, AT_REMOVEDIR) &&
            errno != ENOENT)
            r = -errno;
    return r;
}

/* A run that was killed with SIGKILL cannot remove its cgroup; the next one does. The lock that each run
 * holds on its directory tells the living from the dead. */
static int sweep_one(void *context, const char *name)
{
    const struct gb_cgroup *cg = context;
    if (strncmp(name, CG_PREFIX, strlen(CG_PREFIX)))
        return 0;
    AUTO_FD box = gb_fd_open_dir(cg->parent_fd[0], name);
    if (box >= 0 && !flock(box, LOCK_EX | LOCK_NB))
        remove_all(cg, name);
    return 0;
}

/* The same where time counts and many boxes may live: whose supervisor's pid is taken, most likely by itself,
 * is not worth a look at its lock. */
static int sweep_dead(void *context, const char *name)
{
    if (strncmp(name, CG_PREFIX, strlen(CG_PREFIX)))
        return 0;
    const long pid = strtol(name + strlen(CG_PREFIX), NULL, 10);
    return pid > 0 && !(kill((pid_t)pid, 0) && errno == ESRCH) ? 0 : sweep_one(context, name);
}

static void sweep(const struct gb_cgroup *cg, int (*each)(void *context, const char *name))
{
    AUTO_FD dir = cg->version ? gb_fd_open_dir(cg->parent_fd[0], ".") : -1;
    if (dir >= 0)
        (void)gb_fd_each(dir, each, (void *)cg);
}

void gb_cgroup_sweep(const struct gb_cgroup *cg)
{
    sweep(cg, sweep_dead);
}

int gb_cgroup_sweep_parent(const char *parent, struct gb_err *err)
{
    const struct gb_spec spec = {.cgroup_parent = parent};
    struct gb_cgroup cg;
    gb_cgroup_init(&cg);
    int r = gb_cgroup_open_parents(&cg, &spec, err);
    if (!r)
        sweep(&cg, sweep_one);
    gb_cgroup_destroy(&cg);
    return r;
}

/* Another hierarchy mounted at the same place (cpu and cpuacct usually are) already has our directory. */
static bool same_hierarchy(const struct gb_cgroup *cg, size_t c)
{
    for (size_t i = 0; i < c; i++)
        if (cg->hierarchy[i] == cg->hierarchy[c])
            return true;
    return false;
}

static int make_dirs(struct gb_cgroup *cg, size_t count)
{
    uint64_t salt = 0;
    if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) < 0)
        salt = (uint64_t)(uintptr_t)cg;
    snprintf(cg->name, sizeof(cg->name), CG_PREFIX "%d-%016" PRIx64, getpid(), salt);
    for (size_t i = 0; i < count; i++) {
        if (mkdirat(cg->parent_fd[i], cg->name, 0755) && !(errno == EEXIST && same_hierarchy(cg, i)))
            return -errno;
        cg->fd[i] = gb_fd_open_dir(cg->parent_fd[i], cg->name);
        if (cg->fd[i] == -EACCES &&
            !fchmodat(cg->parent_fd[i], cg->name, 0755, 0)) /* an odd umask of the caller's */
            cg->fd[i] = gb_fd_open_dir(cg->parent_fd[i], cg->name);
        /* Until the first directory is locked, a sweeper may take it for a dead one's. */
        struct stat st;
        if (i == 0 &&
            (cg->fd[0] == -ENOENT || (cg->fd[0] >= 0 && (flock(cg->fd[0], LOCK_EX | LOCK_NB) ||
                                                         fstatat(cg->parent_fd[0], cg->name, &st, 0)))))
            return -EAGAIN;
        if (cg->fd[i] < 0)
            return cg->fd[i];
    }
    return 0;
}

struct setting {
    enum gb_controller controller;
    const char *file;
    int64_t value, second; /* second < 0: one number */
    bool optional;         /* absent on some kernels without harm */
    bool stands;
};

static int write_settings(struct gb_cgroup *cg, const struct setting *s, size_t count, struct gb_err *err)
{
    for (size_t i = 0; i < count; i++) {
        char text[64];
        if (!s[i].stands)
            continue;
        if (s[i].second < 0)
            snprintf(text, sizeof(text), "%" PRId64, s[i].value);
        else
            snprintf(text, sizeof(text), "%" PRId64 " %" PRId64, s[i].value, s[i].second);
        int r = gb_fd_put(dir_of(cg, s[i].controller), s[i].file, text);
        if (r && !(s[i].optional && (r == -ENOENT || r == -EACCES)))
            return gb_err_set(err, GB_ERR_LAYER, -r, "write '%s' to the cgroup's %s", text, s[i].file);
    }
    return 0;
}

static int write_limits(struct gb_cgroup *cg, const struct gb_limits *l, struct gb_err *err)
{
    /* One more process than the program may have: init. */
    const int64_t pids = l->pids + 1, quota = l->cpu_percent * (PERIOD_US / 100);
    const struct setting v1[] = {
            {GB_CG_MEMORY, "memory.limit_in_bytes", cg->limit_bytes, -1, false, GB_WALL("cgroup-memory")},
            {GB_CG_MEMORY, "memory.memsw.limit_in_bytes", cg->hard_bytes, -1, true, GB_WALL("cgroup-swap")},
            {GB_CG_MEMORY, "memory.swappiness", 0, -1, true, GB_WALL("cgroup-swap")},
            {GB_CG_PIDS, "pids.max", pids, -1, false, GB_WALL("cgroup-pids")},
            /* of a period that is PERIOD_US in every new cgroup */
            {GB_CG_CPU, "cpu.cfs_quota_us", quota, -1, false, GB_WALL("cgroup-cpu")},
    };
    const struct setting v2[] = {
            {GB_CG_MEMORY, "memory.max", cg->hard_bytes, -1, false, GB_WALL("cgroup-memory")},
            {GB_CG_MEMORY, "memory.high", cg->memory_bytes, -1, false, GB_WALL("cgroup-memory")},
            {GB_CG_MEMORY, "memory.swap.max", 0, -1, true, GB_WALL("cgroup-swap")},
            {GB_CG_MEMORY, "memory.oom.group", 1, -1, false, GB_WALL("cgroup-memory")},
            {GB_CG_PIDS, "pids.max", pids, -1, false, GB_WALL("cgroup-pids")},
            {GB_CG_CPU, "cpu.max", quota, PERIOD_US, false, GB_WALL("cgroup-cpu")},
    };
    return cg->version == 2 ? write_settings(cg, v2, ARRAY_LEN(v2), err)
                            : write_settings(cg, v1, ARRAY_LEN(v1), err);
}

static void open_file(struct gb_cgroup *cg, enum gb_cgroup_file f)
{
    /* On v1 some are set back to zero for the next box, and one takes an order. */
    const bool both = cg->version == 1 && (f == GB_CG_PEAK || f == GB_CG_CPU_USED || f == GB_CG_EVENTS);
    if (cg->file_fd[f] < 0 && files[f].name[cg->version])
        cg->file_fd[f] = openat(dir_of(cg, files[f].controller), files[f].name[cg->version],
                                (both ? O_RDWR : O_RDONLY) | O_CLOEXEC);
}

/* v1 lets who needs more memory wait for us, and tells through an eventfd that somebody does. (It has marks
 * on usage too, but setting one waits for an RCU grace period.) */
static int v1_watch_oom(struct gb_cgroup *cg)
{
    open_file(cg, GB_CG_EVENTS);
    cg->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cg->file_fd[GB_CG_EVENTS] < 0 || cg->event_fd < 0 ||
        (GB_WALL("cgroup-oom-wait") && write(cg->file_fd[GB_CG_EVENTS], "1", 1) != 1))
        return -errno;
    char text[32];
    snprintf(text, sizeof(text), "%d %d", cg->event_fd, cg->file_fd[GB_CG_EVENTS]);
    return gb_fd_put(cg->fd[GB_CG_MEMORY], "cgroup.event_control", text);
}

/* v1: the box enters by itself, through files that we open: the kernel asks who opened them. */
static int v1_open_tasks(struct gb_cgroup *cg)
{
    for (size_t i = 0; i < GB_CG_COUNT; i++) {
        if (same_hierarchy(cg, i))
            continue;
        cg->tasks_fd[i] = openat(cg->fd[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (cg->tasks_fd[i] < 0)
            return -errno;
    }
    return 0;
}

static int watch_memory(struct gb_cgroup *cg, struct gb_err *err)
{
    int r = 0;
    if (cg->version == 2) {
        cg->event_fd = openat(cg->fd[0], "memory.events", O_RDONLY | O_CLOEXEC);
        char text[512];
        /* The first read arms the notification. */
        r = cg->event_fd < 0 ? -errno : read(cg->event_fd, text, sizeof(text)) < 0 ? -errno : 0;
    } else {
        r = v1_watch_oom(cg);
        if (r == 0)
            r = v1_open_tasks(cg);
    }
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "watch the cgroup's memory events") : 0;
}

/* Before there are files. */
static int64_t first_limit(const struct gb_cgroup *cg)
{
    const int64_t limit = cg->memory_bytes + cg->headroom_bytes;
    return limit < cg->hard_bytes ? limit : cg->hard_bytes;
}

int gb_cgroup_create(struct gb_cgroup *cg, const struct gb_spec *spec, struct gb_err *err)
{
    cg->memory_bytes = spec->limits.memory_mb * MIB;
    cg->hard_bytes = (spec->limits.memory_mb + spec->limits.disk_mb) * MIB;
    cg->headroom_bytes =
            spec->limits.disk_mb * MIB / 4 > HEADROOM ? spec->limits.disk_mb * MIB / 4 : HEADROOM;
    cg->limit_bytes = first_limit(cg);
    int r = gb_cgroup_open_parents(cg, spec, err);
    if (r)
        goto fail;
    for (int attempt = 0; attempt < 8; attempt++) {
        r = make_dirs(cg, cg->version == 2 ? 1 : GB_CG_COUNT);
        if (r != -EAGAIN)
            break;
        for (size_t i = 0; i < GB_CG_COUNT; i++)
            if (cg->fd[i] >= 0)
                close(TAKE_FD(cg->fd[i]));
    }
    if (r) {
        gb_err_set(err, GB_ERR_LAYER, -r, "make the cgroup '%s'", cg->name);
        goto fail;
    }
    if ((r = write_limits(cg, &spec->limits, err)) || (r = watch_memory(cg, err)))
        goto fail;
    return 0;
fail:
    gb_cgroup_destroy(cg);
    return r;
}

int gb_cgroup_join(struct gb_cgroup *cg, struct gb_err *err)
{
    if (cg->tasks_fd[0] < 0)
        return gb_err_set(err, GB_ERR_LAYER, EBADF, "enter the box's cgroup");
    for (size_t i = 0; i < GB_CG_COUNT; i++)
        if (cg->tasks_fd[i] >= 0 && write(cg->tasks_fd[i], "0", 1) != 1)
            return gb_err_set(err, GB_ERR_LAYER, errno, "enter the box's %s cgroup",
                              gb_cgroup_controllers[i]);
    return 0;
}

/* --- what was used --- */

void gb_cgroup_open_files(struct gb_cgroup *cg)
{
    for (unsigned f = GB_CG_AT_END; cg->version && f < GB_CG_FILES; f++)
        open_file(cg, f);
}

/* All of a file as text, or a negative errno. */
static ssize_t look(const struct gb_cgroup *cg, enum gb_cgroup_file f, char *text, size_t size)
{
    if (!files[f].name[cg->version])
        return -ENOENT;
    if (cg->file_fd[f] < 0)
        return gb_fd_get(dir_of(cg, files[f].controller), files[f].name[cg->version], text, size);
    ssize_t n = pread(cg->file_fd[f], text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? -errno : n;
}

static int look_int(const struct gb_cgroup *cg, enum gb_cgroup_file f, int64_t *ret_value)
{
    char text[64];
    ssize_t n = look(cg, f, text, sizeof(text));
    return n < 0 ? (int)n : gb_fd_to_int(text, ret_value);
}

int64_t gb_cgroup_memory_current(const struct gb_cgroup *cg)
{
    int64_t current = 0;
    if (cg->version)
        look_int(cg, GB_CG_CURRENT, &current);
    return current;
}

int64_t gb_cgroup_memory_used(const struct gb_cgroup *cg, int64_t scratch_bytes)
{
    char stat[STAT_BYTES];
    int64_t current = gb_cgroup_memory_current(cg), file = 0, shmem = 0;
    if (!cg->version || gb_fd_get(dir_of(cg, GB_CG_MEMORY), "memory.stat", stat, sizeof(stat)) < 0)
        return current;
    gb_fd_find_int(stat, names[cg->version].file, &file);
    gb_fd_find_int(stat, names[cg->version].shmem, &shmem);
    int64_t shared = shmem > scratch_bytes ? shmem - scratch_bytes : 0, names_cached = 0;
    gb_fd_find_int(stat, "slab_reclaimable", &names_cached); /* v2 only */
    return current - file - names_cached +
           shared; /* `file` holds page cache and all shared memory, scratch included */
}

bool gb_cgroup_oom_killed(const struct gb_cgroup *cg)
{
    char text[512];
    int64_t kills = 0;
    if (!cg->version)
        return false;
    return look(cg, GB_CG_EVENTS, text, sizeof(text)) > 0 && !gb_fd_find_int(text, "oom_kill", &kills) &&
           kills > 0;
}

/* Names that a program has looked up are cached too, and v1 does not tell how much of the kernel's memory is
 * such cache: where it could be what is over, have it dropped and look again. */
static bool v1_drop_caches(const struct gb_cgroup *cg)
{
    int64_t peak = 0, kernel = 0;
    if (look_int(cg, GB_CG_PEAK, &peak) || peak < KERNEL_MUCH) /* of all memory, the kernel's included */
        return false;
    if (look_int(cg, GB_CG_KERNEL, &kernel) || kernel < KERNEL_MUCH)
        return false;
    return !gb_fd_put(cg->fd[GB_CG_MEMORY], "memory.force_empty", "0");
}

/* Files have grown: so may usage. */
static void v1_follow_scratch(struct gb_cgroup *cg, int64_t scratch_bytes)
{
    int64_t want = cg->memory_bytes + 2 * scratch_bytes +
                   cg->headroom_bytes; /* ahead of a program that goes on writing */
    if (want > cg->hard_bytes)
        want = cg->hard_bytes;
    if (want < cg->limit_bytes + SMALL_STEP)
        return;
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, want);
    if (!gb_fd_put(cg->fd[GB_CG_MEMORY], "memory.limit_in_bytes", text))
        cg->limit_bytes = want;
}

bool gb_cgroup_memory_exceeded(struct gb_cgroup *cg, int64_t scratch_bytes)
{
    char text[512];
    if (!cg->version)
        return false;
    open_file(cg, GB_CG_CURRENT); /* it will be looked at again and again */
    if (cg->version == 2)
        (void)!pread(cg->event_fd, text, sizeof(text), 0); /* re-arms POLLPRI */
    else
        (void)!read(cg->event_fd, text, sizeof(uint64_t));
    if (gb_cgroup_oom_killed(cg))
        return true;
    if (cg->version == 1)
        v1_follow_scratch(cg, scratch_bytes);
    int64_t current = gb_cgroup_memory_current(cg);
    if (current < cg->memory_bytes)
        return false;
    int64_t used = gb_cgroup_memory_used(cg, scratch_bytes);
    if (used >= cg->memory_bytes && cg->version == 1 && v1_drop_caches(cg))
        used = gb_cgroup_memory_used(cg, scratch_bytes);
    if (used >= cg->memory_bytes)
        return true;
    if (cg->version == 2) {
        /* The usage at which memory would be full if nothing but memory grew; above it the kernel slows the
         * box down and wakes us. */
        int64_t room = cg->memory_bytes - used;
        snprintf(text, sizeof(text), "%" PRId64, current + (room < SMALL_STEP ? SMALL_STEP : room));
        gb_fd_put(cg->fd[0], "memory.high", text);
    }
    return false;
}

/* v1 has only numbers, which can be reused: what is hit is a process that is in our cgroup after we took hold
 * of it. */
static void v1_kill_one(const struct gb_cgroup *cg, pid_t pid)
{
    char path[32], text[2048];
    AUTO_FD handle = pidfd_open(pid, 0);
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (handle >= 0 && gb_fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, cg->name))
        pidfd_send_signal(handle, SIGKILL, NULL, 0);
}

static void v1_kill(const struct gb_cgroup *cg)
{
    AUTO_FD fd = openat(cg->fd[GB_CG_PIDS], "cgroup.procs", O_RDONLY | O_CLOEXEC);
    char text[1024];
    pid_t pid = 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, text, sizeof(text))) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            v1_kill_one(cg, pid);
            pid = 0;
        }
}

void gb_cgroup_kill(struct gb_cgroup *cg)
{
    cg->lifted = true;
    /* Dying takes cpu time too, which the box may have used up. */
    if (cg->version == 2) {
        gb_fd_put(cg->fd[0], "cpu.max", "max");
        gb_fd_put(cg->fd[0], "cgroup.kill", "1"); /* since 5.14; before, init's death alone must do */
    } else if (cg->version == 1) {
        gb_fd_put(cg->fd[GB_CG_CPU], "cpu.cfs_quota_us", "-1");
        v1_kill(cg);
    }
}

int64_t gb_cgroup_cpu_us(const struct gb_cgroup *cg)
{
    char stat[STAT_BYTES];
    int64_t value = 0;
    if (cg->version == 2 && look(cg, GB_CG_CPU_USED, stat, sizeof(stat)) > 0)
        gb_fd_find_int(stat, "usage_usec", &value);
    else if (cg->version == 1 && !look_int(cg, GB_CG_CPU_USED, &value))
        value /= 1000;
    return value;
}

void gb_cgroup_usage(const struct gb_cgroup *cg, struct gb_usage *usage)
{
    usage->pids_peak = -1;
    if (!cg->version)
        return;
    usage->cpu_us = gb_cgroup_cpu_us(cg);
    int64_t peak;
    if (!look_int(cg, GB_CG_PEAK, &peak))
        usage->memory_peak_bytes =
                peak; /* v2 before 5.19 keeps none: then what the largest process had stands */
    if (!cg->used && !look_int(cg, GB_CG_PIDS_PEAK, &usage->pids_peak) && usage->pids_peak > 0)
        usage->pids_peak--; /* init */
}

bool gb_cgroup_recycle(struct gb_cgroup *cg)
{
    /* v2 has no way back to zero for what was used (before 6.12 none for the peak). */
    if (cg->version != 1 || cg->lifted || gb_cgroup_oom_killed(cg) ||
        gb_cgroup_memory_current(cg) > RESIDUE_MOST)
        return false;
    const int64_t limit = first_limit(cg);
    char text[32], events[sizeof(uint64_t)];
    (void)!read(cg->event_fd, events, sizeof(events));
    if (cg->limit_bytes != limit) {
        snprintf(text, sizeof(text), "%" PRId64, limit);
        if (gb_fd_put(cg->fd[GB_CG_MEMORY], "memory.limit_in_bytes", text))
            return false;
        cg->limit_bytes = limit;
    }
    cg->used = true;
    return pwrite(cg->file_fd[GB_CG_PEAK], "0", 1, 0) == 1 &&
           pwrite(cg->file_fd[GB_CG_CPU_USED], "0", 1, 0) == 1;
}

void gb_cgroup_destroy(struct gb_cgroup *cg)
{
    if (*cg->name) {
        if (cg->version == 1)
            v1_drop_caches(cg); /* or they would stay until the host is short of memory */
        /* The kernel lets go of the last dead task a moment after we have reaped it. */
        for (int i = 0; i < 200 && remove_all(cg, cg->name) == -EBUSY; i++)
            usleep(i < 20 ? 100 : 5000);
    }
    for (size_t i = 0; i < GB_CG_COUNT; i++) {
        gb_auto_close(&cg->fd[i]);
        gb_auto_close(&cg->tasks_fd[i]);
        gb_auto_close(&cg->parent_fd[i]);
    }
    for (size_t i = 0; i < GB_CG_FILES; i++)
        gb_auto_close(&cg->file_fd[i]);
    gb_auto_close(&cg->event_fd);
    gb_cgroup_init(cg);
}

/* --- rows of the step table --- */

int gb_cgroup_step_create(struct gb_box *box, struct gb_err *err)
{
    if (box->cgroup.version) /* of the box before; see gb_cgroup_recycle */
        return 0;
    return gb_cgroup_create(&box->cgroup, box->spec, err);
}

/* cgroup-join. Should: come before whatever grows with the call: its files, its processes. What the box has
 * made until then is of fixed size, and its supervisor has made the cgroup meanwhile. v2 boxes are born in
 * theirs. */
int gb_cgroup_step_join(struct gb_box *box, struct gb_err *err)
{
    if (!box->warm && gb_channel_take_equipment(box))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "wait for the cgroup");
    return box->cgroup.version == 1 || (box->cgroup.version && box->warm) ? gb_cgroup_join(&box->cgroup, err)
                                                                          : GB_STEP_NOT_APPLICABLE;
}

/* ns-cgroup. Should: make the box's own cgroup look like the root. So it comes after the box is in it. */
int gb_cgroup_step_namespace(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    if (unshare(CLONE_NEWCGROUP))
        return gb_err_set(err, GB_ERR_LAYER, errno, "make a cgroup namespace");
    return 0;
}
