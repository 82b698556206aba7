/* Where a box's cgroup goes: below which directory of the cgroup file system, on v1 and on v2, for root and
 * for an ordinary user. */
#include "sandbox/cgroup.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CG_MOUNT "/sys/fs/cgroup"

/* The path of this process's own cgroup: of a v1 controller, or of v2 for "". */
static int own_path(const char *controller, char *path, size_t size)
{
    char text[4096];
    ssize_t n = gb_fd_get(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));
    if (n < 0)
        return (int)n;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *where = list ? strchr(list + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = '\0';
        if (*controller ? gb_text_in_list(list + 1, controller) : !list[1]) {
            snprintf(path, size, ".%s", where);
            return 0;
        }
    }
    return -ENOENT;
}

/* A parent is usable if we may make directories in it and move processes below it. */
static bool may_use(int fd)
{
    return !faccessat(fd, ".", W_OK, AT_EACCESS);
}

static const char *strip_root(const char *path)
{
    while (*path == '/')
        path++;
    return *path ? path : ".";
}

static int v1_open_parent(const struct gb_spec *spec, enum gb_controller c, struct gb_err *err)
{
    char base[64], own[PATH_MAX];
    snprintf(base, sizeof(base), CG_MOUNT "/%s", gb_cgroup_controllers[c]);
    struct statfs fs;
    AUTO_FD root = gb_fd_open_dir(AT_FDCWD, base);
    if (root < 0 || fstatfs(root, &fs) || fs.f_type != CGROUP_SUPER_MAGIC)
        return gb_err_set(err, GB_ERR_LAYER, ENOENT, "no cgroup v1 controller '%s' at %s",
                          gb_cgroup_controllers[c], base);
    if (spec->cgroup_parent) {
        int fd = gb_fd_open_dir(root, strip_root(spec->cgroup_parent));
        if (fd < 0)
            return gb_err_set(err, GB_ERR_LAYER, -fd, "cgroup parent '%s' of controller '%s'",
                              spec->cgroup_parent, gb_cgroup_controllers[c]);
        return fd;
    }
    if (may_use(root))
        return TAKE_FD(root);
    AUTO_FD mine = own_path(gb_cgroup_controllers[c], own, sizeof(own)) ? -1 : gb_fd_open_dir(root, own);
    if (mine >= 0 && may_use(mine))
        return TAKE_FD(mine);
    gb_err_set(err, GB_ERR_LAYER, EACCES, "cgroup v1: no right to make a cgroup of controller '%s'",
               gb_cgroup_controllers[c]);
    gb_err_hint(err, "run as root, or have root make a directory in each of memory, pids, cpu and cpuacct "
                     "that is yours and name "
                     "it as cgroup parent (--cgroup-parent, or cgroup_parent of the service)");
    return -EACCES;
}

/* May boxes be made right below fd: are the controllers on for its children, or can we turn them on? */
static int v2_enable(int fd)
{
    char text[256];
    ssize_t n = gb_fd_get(fd, "cgroup.subtree_control", text, sizeof(text));
    if (n < 0)
        return (int)n;
    for (char *p = text; *p; p++)
        if (*p == ' ' || *p == '\n')
            *p = ',';
    bool all = true;
    for (size_t i = GB_CG_MEMORY; i <= GB_CG_CPU; i++)
        all &= gb_text_in_list(text, gb_cgroup_controllers[i]);
    return all ? 0 : gb_fd_put(fd, "cgroup.subtree_control", "+memory +pids +cpu");
}

static int v2_open_parent(const struct gb_spec *spec, struct gb_err *err)
{
    AUTO_FD root = gb_fd_open_dir(AT_FDCWD, CG_MOUNT);
    if (root < 0)
        return gb_err_set(err, GB_ERR_LAYER, -root, "open %s", CG_MOUNT);
    char path[PATH_MAX] = ".";
    if (spec->cgroup_parent) {
        snprintf(path, sizeof(path), "%s", strip_root(spec->cgroup_parent));
    } else if (!may_use(root)) {
        int r = own_path("", path, sizeof(path));
        if (r)
            return gb_err_set(err, GB_ERR_LAYER, -r, "read the own cgroup from /proc/self/cgroup");
    }
    /* From our own cgroup upwards: the first that is ours to divide. Our own is rarely it (the kernel allows
     * no processes in a cgroup that has controllers on for its children), but the slice above it often is. */
    int last = EACCES;
    for (;;) {
        AUTO_FD fd = gb_fd_open_dir(root, path);
        int r = fd < 0 ? fd : may_use(fd) ? v2_enable(fd) : -EACCES;
        if (r == 0)
            return TAKE_FD(fd);
        last = -r;
        char *slash = strrchr(path, '/');
        if (!slash || spec->cgroup_parent)
            break;
        *slash = '\0';
    }
    gb_err_set(err, GB_ERR_LAYER, last,
               "cgroup v2: no cgroup with the memory, pids and cpu controllers that is ours to divide");
    gb_err_hint(err, "run as root, or under: systemd-run --user --scope -p Delegate=yes glovebox run …");
    return -last;
}

bool gb_cgroup_is_v2(void)
{
    struct statfs fs;
    return !statfs(CG_MOUNT, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC;
}

int gb_cgroup_open_parents(struct gb_cgroup *cg, const struct gb_spec *spec, struct gb_err *err)
{
    const bool v2 = gb_cgroup_is_v2();
    size_t count = v2 ? 1 : GB_CG_COUNT;
    for (size_t i = 0; i < count; i++) {
        int fd = v2 ? v2_open_parent(spec, err) : v1_open_parent(spec, i, err);
        if (fd < 0)
            return fd;
        cg->parent_fd[i] = fd;
        struct stat st;
        if (fstat(fd, &st))
            return gb_err_set(err, GB_ERR_LAYER, errno, "look at the cgroup's parent");
        cg->hierarchy[i] = st.st_dev;
    }
    cg->version = v2 ? 2 : 1;
    return 0;
}
