/* rlimits: the second wall behind the cgroup, and the only place for a few limits. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/wall.h"
#include "init/report.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#define MIB ((rlim_t)1 << 20)

/* Since 5.14 the kernel counts a user's processes per user namespace. Before that an ordinary user's own
 * shell would count. */
static bool counts_per_namespace(void)
{
    struct utsname u;
    int major = 0, minor = 0;
    return !uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

/* A caller with a hard core limit of 0 cannot give its box the 1 that keeps a core helper away. That matters
 * only where there is one. */
static bool has_core_helper(const struct gb_box *box)
{
    char pattern[8] = "";
    return gb_fd_get(box->proc_fd, "sys/kernel/core_pattern", pattern, sizeof(pattern)) < 0 ||
           pattern[0] == '|';
}

int gb_rlimit_apply(struct gb_box *box, struct gb_err *err)
{
    const struct gb_limits *l = &box->spec->limits;
    const bool own_count = box->leased || counts_per_namespace();
    const bool cgroup = box->cgroup.version != 0;
    /* PID 1 gives it back in the program, before that starts. (A double one is as one that was kept.) */
    const int64_t spare = !box->warm ? 0 : GB_WALL("spare-files") ? GB_INIT_SPARE : 2 * GB_INIT_SPARE;
    bool writable = false;
    for (size_t i = 0; i < box->spec->mount_count; i++)
        writable |= box->spec->mounts[i].writable;
    const struct {
        int resource;
        const char *name;
        bool use;
        rlim_t value;
    } rows[] = {
            {RLIMIT_NOFILE, "open files", GB_WALL("rlimit-files"), (rlim_t)(l->open_files + spare)},
            /* 1 and not 0: a core_pattern that is a pipe ignores every limit but this (core(5)), and its
               helper is the host's root. */
            {RLIMIT_CORE, "core dumps", GB_WALL("rlimit-core"), 1},
            /* With PID 1 and, in the same user namespace, the cradle. */
            {RLIMIT_NPROC, "processes", own_count && GB_WALL("rlimit-processes"),
             (rlim_t)l->pids + 1 + box->warm},
            /* Scratch has its own size; what the operator let the box write on the host has only this. */
            {RLIMIT_FSIZE, "file size", writable && GB_WALL("rlimit-file-size"), (rlim_t)l->disk_mb * MIB},
            {RLIMIT_CPU, "cpu seconds", GB_WALL("rlimit-cpu"), (rlim_t)(l->cpu_ms + 999) / 1000 + 1},
            {RLIMIT_MEMLOCK, "locked memory", GB_WALL("rlimit-locked"), (rlim_t)64 * 1024},
            {RLIMIT_SIGPENDING, "queued signals", GB_WALL("rlimit-signals"), 1024},
            {RLIMIT_RTPRIO, "realtime priority", GB_WALL("rlimit-realtime"), 0},
            {RLIMIT_NICE, "nice", GB_WALL("rlimit-nice"), 0},
            /* Without a cgroup this is all there is: private writable memory of each process. */
            {RLIMIT_DATA, "data", !cgroup && GB_WALL("rlimit-data"), (rlim_t)l->memory_mb * MIB},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rlimit value, now;
        /* A caller that is bound more tightly binds its boxes. Only open files were promised: less would be a
         * broken promise, and fails. */
        if (getrlimit(rows[i].resource, &now) || rows[i].resource == RLIMIT_NOFILE)
            now.rlim_max = RLIM_INFINITY;
        value.rlim_cur = value.rlim_max = rows[i].value < now.rlim_max ? rows[i].value : now.rlim_max;
        if (rows[i].resource == RLIMIT_CORE && now.rlim_max == 0 && has_core_helper(box))
            return gb_err_set(err, GB_ERR_LAYER, EPERM,
                              "the caller's hard core limit is 0, at which the host's core helper would run "
                              "for the box");
        if (rows[i].use && setrlimit(rows[i].resource, &value))
            return gb_err_set(err, GB_ERR_LAYER, errno, "limit %s to %llu", rows[i].name,
                              (unsigned long long)rows[i].value);
    }
    return 0;
}
