#include "serve/delegate.h"

#include "base/auto.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MOUNT "/sys/fs/cgroup"
#define LEAF  "supervisor"

/* Our own cgroup, "" if there is none of ours or it is the root. */
static void own_cgroup(char *path, size_t size)
{
    char text[PATH_MAX + 16];
    struct statfs fs;
    *path = '\0';
    if (statfs(MOUNT, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC ||
        gb_fd_get(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) <= 0)
        return;
    /* v2 alone: one line, "0::/system.slice/glovebox.service". */
    char *end = strchr(text, '\n');
    if (strncmp(text, "0::/", 4) || !end || end[1] || end - text >= (ptrdiff_t)size + 3)
        return;
    *end = '\0';
    if (text[4])
        snprintf(path, size, "%s", text + 3);
}

void gb_delegate(char *ret_parent, size_t size)
{
    char path[PATH_MAX], full[PATH_MAX + sizeof(MOUNT)];
    *ret_parent = '\0';
    own_cgroup(path, sizeof(path));
    if (!*path || strlen(path) >= size)
        return;
    snprintf(full, sizeof(full), MOUNT "%s", path);
    AUTO_FD parent = gb_fd_open_dir(AT_FDCWD, full);
    if (parent < 0 || faccessat(parent, ".", W_OK, AT_EACCESS) ||
        (mkdirat(parent, LEAF, 0755) && errno != EEXIST))
        return;
    if (!gb_fd_put(parent, LEAF "/cgroup.procs", "0") &&
        !gb_fd_put(parent, "cgroup.subtree_control", "+memory +pids +cpu")) {
        snprintf(ret_parent, size, "%s", path);
        return;
    }
    /* Somebody else is in it too (a shell's session, for one): leave it as it was. */
    (void)gb_fd_put(parent, "cgroup.procs", "0");
    (void)unlinkat(parent, LEAF, AT_REMOVEDIR);
}
