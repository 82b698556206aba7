#include "sandbox/locks.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/wall.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCKS_MOST 16384 /* 3 MB of kernel memory; a busy database has hundreds */

/* The pid is the fifth word of a line: "1: POSIX  ADVISORY  WRITE 123 fe:00:9 0 EOF". */
static long pid_of(const char *line)
{
    long pid = 0;
    return sscanf(line, "%*s %*s %*s %*s %ld", &pid) == 1 ? pid : 0;
}

static bool in_box(const struct gb_cgroup *cg, long pid)
{
    char path[32], text[2048];
    snprintf(path, sizeof(path), "/proc/%ld/cgroup", pid);
    return gb_fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, cg->name);
}

bool gb_locks_exceeded(const struct gb_cgroup *cg)
{
    if (!cg->version || !GB_WALL("lock-count"))
        return false;
    AUTO_FILE table = fopen("/proc/locks", "re");
    char line[256];
    long last = 0, count = 0;
    bool ours = false;
    /* Locks of one process stand together for the most part, so its cgroup is rarely asked for twice. */
    while (table && count <= LOCKS_MOST && fgets(line, sizeof(line), table)) {
        long pid = pid_of(line);
        if (pid != last)
            ours = in_box(cg, pid);
        last = pid;
        count += ours;
    }
    return count > LOCKS_MOST;
}
