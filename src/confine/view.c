#include "confine/view.h"

#include "base/auto.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PLAIN (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* --- a new root --- */

static int empty_tree(void)
{
    AUTO_FD fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, PLAIN | MOUNT_ATTR_RDONLY);
    return fd < 0 ? -errno : fd;
}

/* The kernel copies only mounts of our own namespace, and dir_fd was opened in the one that we left: the same
 * directory is opened again by its name, and must be the same. */
static int copy_tree(int dir_fd)
{
    char link[32], path[PATH_MAX];
    struct stat old, new;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    AUTO_FD dir = gb_sys_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (dir < 0 || fstat(dir, &new) || fstat(dir_fd, &old))
        return -errno;
    if (old.st_dev != new.st_dev || old.st_ino != new.st_ino)
        return -ESTALE;
    AUTO_FD tree = open_tree(dir, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return -errno;
    struct mount_attr attr = {.attr_set = PLAIN};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) && errno != ENOSYS)
        return -errno; /* before 5.12 it keeps the flags that the directory's file system has */
    return TAKE_FD(tree);
}

int gb_view_replace(int dir_fd)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return -errno;
    AUTO_FD tree = dir_fd < 0 ? empty_tree() : copy_tree(dir_fd);
    if (tree < 0)
        return tree;
    if (move_mount(tree, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) || fchdir(tree) ||
        gb_sys_pivot_root(".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        return -errno;
    /* The caller's descriptor lies in the tree that we left, and one could climb from it: it becomes the same
     * directory in this one. */
    AUTO_FD root = dir_fd < 0 ? -1 : open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd >= 0 && (root < 0 || dup3(root, dir_fd, O_CLOEXEC) < 0) ? -errno : 0;
}

/* --- the host's tree, frozen --- */

/* What stays as it was: copies of these are put back on top of what is frozen. */
static const char *const needed[] = {"/proc", "/sys/fs/cgroup", "/run/glovebox"};

/* Before 5.12 one mount at a time: the root at least. All its flags are given again, or they would be
 * dropped. */
static int freeze_root(void)
{
    struct statvfs fs;
    if (statvfs("/", &fs))
        return -1;
    unsigned long flags = fs.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME);
    if (fs.f_flag & ST_RELATIME)
        flags |= MS_RELATIME;
    return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL);
}

int gb_view_freeze(void)
{
    (void)mkdir("/run/glovebox", 0700); /* for a box of root's, which says what is wrong if it is not there */
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        return -errno;
    int tree[ARRAY_LEN(needed)], r = 0;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        tree[i] = open_tree(AT_FDCWD, needed[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) && (errno != ENOSYS || freeze_root()))
        r = -errno;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (!r && tree[i] >= 0 && move_mount(tree[i], "", AT_FDCWD, needed[i], MOVE_MOUNT_F_EMPTY_PATH))
            r = -errno;
        gb_auto_close(
                &tree[i]); /* one that is not there is missed by the first box, which can say so better */
    }
    return r;
}
