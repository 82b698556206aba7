/* The box's own root.
 *
 * A small tmpfs becomes the root; system directories are cloned into it read-only, /etc and /dev are made by
 * hand, one size-limited tmpfs carries everything that can be written (/sandbox, /tmp, /dev/shm), and /proc
 * shows only the box's own processes. Then the host's root is unmounted.
 *
 * Everything is done through descriptors with the new mount calls (open_tree, move_mount, mount_setattr): no
 * path is walked twice, so no symlink in a root file system can lead a mount elsewhere (CVE-2025-31133,
 * CVE-2026-47766). */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/wall.h"
#include "sandbox/channel.h"
#include "sandbox/remount.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Nothing but scratch can be written, no setuid bit and no device node means anything. */
#define NO_PRIVILEGE                                                                                         \
    (GB_WALL_FLAG("mount-nosuid", MOUNT_ATTR_NOSUID) | GB_WALL_FLAG("mount-nodev", MOUNT_ATTR_NODEV))
#define RO_SYSTEM (GB_WALL_FLAG("mount-ro", MOUNT_ATTR_RDONLY) | NO_PRIVILEGE)

static struct mount_attr attributes(uint64_t attr)
{
    return (struct mount_attr){.attr_set = attr, .propagation = GB_WALL_FLAG("propagation", MS_PRIVATE)};
}

/* Sets attributes on the mount at fd, and on all below it if recursive. */
static int set_attr(int fd, uint64_t attr, unsigned recursive)
{
    struct mount_attr set = attributes(attr);
    if (!mount_setattr(fd, "", AT_EMPTY_PATH | recursive, &set, sizeof(set)))
        return 0;
    return errno == ENOSYS ? gb_remount(fd, attr, recursive) : -errno;
}

/* Mounts `tree` on dir/name, which we made. */
static int attach(int tree, int dir, const char *name)
{
    return move_mount(tree, "", dir, name, MOVE_MOUNT_F_EMPTY_PATH) ? -errno : 0;
}

/* A copy of a tree of mounts, not mounted yet. */
struct copy {
    int fd;
    uint64_t attr;
    bool set; /* it has these attributes already */
};

static void drop_copy(const struct copy *c)
{
    gb_auto_close(&c->fd);
}
#define AUTO_COPY __attribute__((cleanup(drop_copy))) struct copy

/* Of the tree that from/name is the top of, or from itself for "", with attributes on it and all below it.
 * Since 6.15 that is one call. fd is negative on failure. */
static struct copy copy_tree(int from, const char *name, unsigned flags, uint64_t attr)
{
    struct mount_attr set = attributes(attr);
    flags |= OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | (*name ? 0U : AT_EMPTY_PATH);
    int fd = (int)syscall(SYS_open_tree_attr, from, name, flags, &set, sizeof(set));
    if (fd >= 0)
        return (struct copy){fd, attr, true};
    fd = open_tree(from, name, flags);
    return (struct copy){fd < 0 ? -errno : fd, attr, false};
}

static int show_copy(const struct copy *c, int dir, const char *name)
{
    int r = c->fd < 0 ? c->fd : attach(c->fd, dir, name);
    return r || c->set ? r : set_attr(c->fd, c->attr, AT_RECURSIVE);
}

/* Mounts a copy of the tree that source is the top of on dir/name. */
static int show_tree(int source, int dir, const char *name, uint64_t attr)
{
    AUTO_COPY c = copy_tree(source, "", 0, attr);
    return show_copy(&c, dir, name);
}

/* The same for the directory from/name, which must not be a symlink; the place is made. */
static int show_dir(int from, const char *name, int to, const char *place, uint64_t attr)
{
    AUTO_COPY c = copy_tree(from, name, AT_SYMLINK_NOFOLLOW, attr);
    if (c.fd >= 0 && mkdirat(to, place, 0755) && errno != EEXIST)
        return -errno;
    return show_copy(&c, to, place);
}

struct fs_option {
    const char *key, *value;
};

static int new_fs(const char *type, const struct fs_option *options, size_t count, unsigned attr)
{
    AUTO_FD fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (size_t i = 0; i < count; i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i].key, options[i].value, 0))
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, attr);
    return fd < 0 ? -errno : fd;
}

/* --- mount-private --- */

/* mount-private. Should: cut the box's mounts off from the host's. Then, before the box takes its own uid, it
 * takes hold of the directories that the operator named, with the operator's rights and in the new mount
 * namespace. */
int gb_mount_private(struct gb_box *box, struct gb_err *err)
{
    const struct gb_spec *spec = box->spec;
    if (GB_WALL("propagation") && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return gb_err_set(err, GB_ERR_LAYER, errno, "make all mounts private");
    box->source_fd = open(spec->rootfs ? spec->rootfs : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box->source_fd < 0)
        return gb_err_set(err, GB_ERR_INPUT, errno, "open the root file system '%s'",
                          spec->rootfs ? spec->rootfs : "/");
    for (size_t i = 0; i < spec->mount_count; i++) {
        box->mount_fd[i] = open(spec->mounts[i].source, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (box->mount_fd[i] < 0)
            return gb_err_set(err, GB_ERR_INPUT, errno, "open the directory '%s'", spec->mounts[i].source);
    }
    return 0;
}

/* --- root --- */

/* Shows source/name in the new root: a symlink as a symlink, a directory as a read-only clone. Other kinds
 * are left out. */
static int expose(struct gb_box *box, const char *name, struct gb_err *err)
{
    struct stat st;
    if (fstatat(box->source_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0
                               : gb_err_set(err, GB_ERR_LAYER, errno, "look at /%s%s", name,
                                            box->spec->rootfs ? " of the root file system, whose top must be "
                                                                "open to all (chmod 755)"
                                                              : "");
    if (S_ISLNK(st.st_mode)) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(box->source_fd, name, target, sizeof(target) - 1);
        if (n < 0)
            return gb_err_set(err, GB_ERR_LAYER, errno, "read the link /%s", name);
        target[n] = '\0';
        return symlinkat(target, box->root_fd, name)
                       ? gb_err_set(err, GB_ERR_LAYER, errno, "make the link /%s", name)
                       : 0;
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    int r = show_dir(box->source_fd, name, box->root_fd, name, RO_SYSTEM);
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "show /%s read-only", name) : 0;
}

static int expose_host(struct gb_box *box, struct gb_err *err)
{
    static const char *const system_dirs[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    int r = 0;
    for (size_t i = 0; !r && i < ARRAY_LEN(system_dirs); i++)
        r = expose(box, system_dirs[i], err);
    return r;
}

struct exposure {
    struct gb_box *box;
    struct gb_err *err;
};

static int expose_entry(void *context, const char *name)
{
    static const char ours[] = "dev,proc,sys,tmp,run,sandbox";
    const struct exposure *e = context;
    return gb_text_in_list(ours, name) ? 0 : expose(e->box, name, e->err);
}

/* A given root file system: all of its top level but what we make ourselves. Its /etc is its own. */
static int expose_rootfs(struct gb_box *box, struct gb_err *err)
{
    return gb_fd_each(box->source_fd, expose_entry, &(struct exposure){box, err});
}

/* root. Should: leave the box nothing of the host but programs and libraries. Must not: follow a link out of
 * a given root. */
int gb_mount_root(struct gb_box *box, struct gb_err *err)
{
    const struct fs_option options[] = {
            {"size", "8m"}, {"nr_inodes", "1024"}, {"mode", GB_WALL("root-mode") ? "0755" : "0777"}};
    box->root_fd = new_fs("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (box->root_fd < 0)
        return gb_err_set(err, GB_ERR_LAYER, -box->root_fd, "make the root file system");
    /* It must be in the tree for anything to be mounted on it; /tmp is a place that every host has. */
    int r = attach(box->root_fd, AT_FDCWD, "/tmp");
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "place the root file system");
    /* Where each box mounts what is its own. */
    static const char *const places[] = {"sandbox", "tmp", "proc"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (mkdirat(box->root_fd, places[i], 0755))
            return gb_err_set(err, GB_ERR_LAYER, errno, "make /%s", places[i]);
    return box->spec->rootfs ? expose_rootfs(box, err) : expose_host(box, err);
}

/* The zygote's own /proc. It writes through a mount that is nowhere in the tree; what lies in the tree, below
 * the /proc of each box, is read-only. */
static int mount_template_proc(struct gb_box *box)
{
    static const struct fs_option options[] = {{"hidepid", "invisible"}};
    const unsigned attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    if (!gb_steps_stand("proc")) /* nor can it be had without a pid namespace */
        return 0;
    box->proc_fd = new_fs("proc", options, ARRAY_LEN(options), attr);
    AUTO_FD shown =
            new_fs("proc", options, ARRAY_LEN(options), attr | GB_WALL_FLAG("proc-ro", MOUNT_ATTR_RDONLY));
    if (box->proc_fd < 0 || shown < 0)
        return box->proc_fd < 0 ? box->proc_fd : shown;
    return attach(shown, box->root_fd, "proc");
}

/* The root of a zygote, which each of its boxes gets a copy of. It has two things that no box sees, since
 * those mount their own over them: the zygote's files in /sandbox, and its /proc, without which the kernel
 * gives no box one. */
int gb_mount_template(struct gb_box *box, struct gb_err *err)
{
    int r = gb_mount_root(box, err);
    if (!r)
        r = gb_files_put(box, err);
    if (r)
        return r;
    r = mount_template_proc(box);
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "mount a /proc of the zygote's own") : 0;
}

/* --- etc --- */

static int write_file(int dir, const char *name, const char *data, size_t len, mode_t mode)
{
    AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    return gb_fd_write_all(fd, data, len);
}

/* An empty file to mount something on. */
static int make_place(int dir, const char *name)
{
    return mknodat(dir, name, S_IFREG | 0644, 0) ? -errno : 0;
}

/* Shows a file of the host's /etc, or what a link there leads to, if everybody on the host may read it. No
 * copy: that would be memory of each box, and a mount is made in half the time. */
static int show_file(int from, int to, const char *name)
{
    struct stat st;
    AUTO_COPY file = copy_tree(from, name, 0, RO_SYSTEM | MOUNT_ATTR_NOEXEC);
    if (file.fd < 0 || fstat(file.fd, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        return 0;
    int r = make_place(to, name);
    return r ? r : show_copy(&file, to, name);
}

/* Shows a host directory below /etc if everybody on the host may enter it. */
static int show_public(int from, int to, const char *name)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) || !(st.st_mode & S_IXOTH))
        return 0;
    return show_dir(from, name, to, name, RO_SYSTEM | MOUNT_ATTR_NOEXEC);
}

/* etc. Should: be enough for ordinary programs to start and to know their user. Must not: hold anything that
 * tells about the host's users, names or network. */
int gb_mount_etc(struct gb_box *box, struct gb_err *err)
{
    static const struct {
        const char *name, *text;
    } made[] = {
            {"passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
                       "sandbox:x:1000:1000:sandbox:/sandbox:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
            {"group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
            {"hosts", "127.0.0.1 localhost glovebox\n::1 localhost glovebox\n"},
            {"hostname", "glovebox\n"},
            {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
    };
    static const char *const files[] = {"ld.so.cache", "matplotlibrc", "ssl/openssl.cnf"};
    static const char *const shown[] = {"alternatives", "fonts", "ssl/certs"};
    if (box->spec->rootfs)
        return GB_STEP_NOT_APPLICABLE;
    if (!GB_WALL("etc-made"))
        return expose(box, "etc", err);
    AUTO_FD host = openat(box->source_fd, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host < 0 || mkdirat(box->root_fd, "etc", 0755))
        return gb_err_set(err, GB_ERR_LAYER, errno, "make /etc");
    AUTO_FD etc = openat(box->root_fd, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = etc < 0 || mkdirat(etc, "ssl", 0755) ? -errno : 0;
    for (size_t i = 0; !r && i < ARRAY_LEN(made); i++)
        r = write_file(etc, made[i].name, made[i].text, strlen(made[i].text), 0644);
    for (size_t i = 0; !r && i < ARRAY_LEN(files); i++)
        r = show_file(host, etc, files[i]);
    for (size_t i = 0; !r && i < ARRAY_LEN(shown); i++)
        r = show_public(host, etc, shown[i]);
    if (!r && box->spec->shown_count && mkdirat(etc, "glovebox", 0755))
        r = -errno;
    for (size_t i = 0; !r && i < box->spec->shown_count; i++) {
        const struct gb_file *f = &box->spec->shown[i];
        char name[64];
        snprintf(name, sizeof(name), "glovebox/%s", f->name);
        r = write_file(etc, name, f->data, f->len, 0644);
    }
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "fill /etc") : 0;
}

/* --- dev --- */

/* A clone of one host device, if it is the device that its name says. */
static int show_device(int from, int to, const char *name, unsigned minor_number)
{
    AUTO_COPY node = copy_tree(from, name, AT_SYMLINK_NOFOLLOW,
                               MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    struct stat st;
    if (node.fd < 0 || fstat(node.fd, &st))
        return node.fd < 0 ? node.fd : -errno;
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, minor_number))
        return -ENODEV;
    int r = make_place(to, name);
    return r ? r : show_copy(&node, to, name);
}

/* dev. Should: hold five harmless devices and the usual links. Must not: hold a terminal. */
int gb_mount_dev(struct gb_box *box, struct gb_err *err)
{
    static const struct {
        const char *name;
        unsigned minor_number;
    } devices[] = {{"null", 3}, {"zero", 5}, {"full", 7}, {"random", 8}, {"urandom", 9}};
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"}};
    if (!GB_WALL("dev-made"))
        return expose(box, "dev", err);
    AUTO_FD host = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host < 0 || mkdirat(box->root_fd, "dev", 0755))
        return gb_err_set(err, GB_ERR_LAYER, errno, "make /dev");
    AUTO_FD dev = openat(box->root_fd, "dev", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dev < 0 || mkdirat(dev, "shm", 0755))
        return gb_err_set(err, GB_ERR_LAYER, errno, "make /dev/shm");
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        int r = show_device(host, dev, devices[i].name, devices[i].minor_number);
        if (r)
            return gb_err_set(err, GB_ERR_LAYER, -r, "show /dev/%s", devices[i].name);
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i][0], dev, links[i][1]))
            return gb_err_set(err, GB_ERR_LAYER, errno, "make /dev/%s", links[i][1]);
    return 0;
}

/* --- scratch --- */

/* What of the scratch file system is seen where. The last one comes to lie on the place where the whole was
 * put. */
static const struct {
    const char *name, *place;
    mode_t mode;
    uint64_t attr;
} scratch_dirs[] = {{"sandbox", "sandbox", 0755, 0},
                    {"shm", "dev/shm", 01777, MOUNT_ATTR_NOEXEC},
                    {"tmp", "tmp", 01777, 0}};

static int place_scratch(struct gb_box *box, int fs)
{
    int r = 0;
    const mode_t mask = umask(0);
    for (size_t i = 0; !r && i < ARRAY_LEN(scratch_dirs); i++)
        if (mkdirat(fs, scratch_dirs[i].name, scratch_dirs[i].mode))
            r = -errno;
    umask(mask);
    /* Only what is in the tree can be shown elsewhere. It stays there, covered: to take it away again would
     * mean to wait for all processors (namespace_unlock). */
    if (!r)
        r = attach(fs, box->root_fd, "tmp");
    for (size_t i = 0; !r && i < ARRAY_LEN(scratch_dirs); i++) {
        AUTO_COPY dir =
                copy_tree(fs, scratch_dirs[i].name, AT_SYMLINK_NOFOLLOW, NO_PRIVILEGE | scratch_dirs[i].attr);
        r = show_copy(&dir, box->root_fd, scratch_dirs[i].place);
    }
    return r;
}

/* scratch. Should: give /sandbox, /tmp and /dev/shm one common size limit and an inode limit. Must not: write
 * to the root, which may be frozen already and shared with other boxes. */
int gb_mount_scratch(struct gb_box *box, struct gb_err *err)
{
    char size[32], inodes[32];
    const int64_t mb = box->spec->limits.disk_mb;
    snprintf(size, sizeof(size), "%" PRId64 "m", mb);
    snprintf(inodes, sizeof(inodes), "%" PRId64, 4096 + mb * 256);
    const struct fs_option options[] = {{"size", GB_WALL("scratch-size") ? size : "0"},
                                        {"nr_inodes", GB_WALL("scratch-inodes") ? inodes : "0"},
                                        {"mode", "0755"}};
    AUTO_FD fs = new_fs("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    int r = fs < 0 ? fs : place_scratch(box, fs);
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "make the writable directories");
    /* The supervisor, who gets it with the report that all is done, measures disk use and takes output files
     * through this descriptor. */
    box->scratch_fd = TAKE_FD(fs);
    return 0;
}

/* --- proc --- */

/* proc. Should: show the box's own processes but init, and nothing of the kernel. Must not: be writable:
 * oom_score_adj, attr and the id maps are all there. */
int gb_mount_proc(struct gb_box *box, struct gb_err *err)
{
    const struct fs_option options[] = {{"hidepid", GB_WALL("proc-hidepid") ? "invisible" : "off"},
                                        {"subset", "pid"}};
    AUTO_FD fs = new_fs("proc", options, ARRAY_LEN(options) - !GB_WALL("proc-subset"),
                        GB_WALL_FLAG("proc-ro", MOUNT_ATTR_RDONLY) | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                MOUNT_ATTR_NOEXEC);
    int r = fs < 0 ? fs : attach(fs, box->root_fd, "proc");
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "mount a /proc of the box's own") : 0;
}

/* --- mounts --- */

/* mounts. Should: show the directories that the operator named, read-only with all that is mounted below them
 * unless he said otherwise. */
int gb_mount_extra(struct gb_box *box, struct gb_err *err)
{
    for (size_t i = 0; i < box->spec->mount_count; i++) {
        const struct gb_mount *m = &box->spec->mounts[i];
        const char *leaf;
        AUTO_FD parent = gb_fd_open_parent(box->root_fd, m->target + 1, &leaf);
        int r = parent < 0 ? parent
                : mkdirat(parent, leaf, 0755)
                        ? -errno
                        : show_tree(box->mount_fd[i], parent, leaf, m->writable ? NO_PRIVILEGE : RO_SYSTEM);
        if (r)
            return gb_err_set(err, GB_ERR_INPUT, -r, "show '%.200s' at '%.200s'", m->source, m->target);
    }
    return box->spec->mount_count ? 0 : GB_STEP_NOT_APPLICABLE;
}

/* --- pivot, read-only --- */

/* pivot. Should: make the new root the only one. Must not: leave the old one mounted anywhere, not even
 * hidden. */
int gb_mount_pivot(struct gb_box *box, struct gb_err *err)
{
    if (fchdir(box->root_fd) || gb_sys_pivot_root(".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        return gb_err_set(err, GB_ERR_LAYER, errno, "change the root");
    return 0;
}

/* read-only. Should: freeze the root now that all is in place. */
int gb_mount_readonly(struct gb_box *box, struct gb_err *err)
{
    int r = set_attr(box->root_fd, RO_SYSTEM, 0);
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "make the root read-only") : 0;
}
