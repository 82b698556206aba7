/* Landlock: a second wall on files that holds even if the mount view had a hole, and walls on TCP, abstract
 * sockets and signals where the kernel has them. The kernel's ABI number says what it can; everything up
 * to ABI 6 is handled, so that what no rule allows is denied. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/sys.h"
#include "base/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* linux/landlock.h of the oldest distribution we build on knows ABI 3 only. */
struct ruleset_attr {
    uint64_t fs, net, scoped;
};
struct path_rule {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

#define RULE_PATH_BENEATH   1
#define CREATE_VERSION_FLAG 1U

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_ABI1 = (1 << 13) - 1, /* the above, removing and making of each kind of file */
    FS_REFER = 1 << 13,      /* ABI 2 */
    FS_TRUNCATE = 1 << 14,   /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15,  /* ABI 5 */
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_BLOCK = 1 << 11,
    NET_TCP = 3,   /* ABI 4: bind and connect */
    SCOPE_ALL = 3, /* ABI 6: abstract unix sockets, signals */
};

#define READ_EXECUTE (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define READ_ONLY    (FS_READ_FILE | FS_READ_DIR)
#define DEVICES      (FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE)
#define EVERYTHING   (FS_ABI1 | FS_REFER | FS_TRUNCATE)
#define SCRATCH      (EVERYTHING & ~(uint64_t)(FS_MAKE_CHAR | FS_MAKE_BLOCK))

#define ABI_USED 6 /* the newest whose walls we use */

int gb_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION_FLAG);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled_fs(int abi)
{
    return GB_WALL_FLAG("landlock-fs", FS_ABI1) | (abi >= 2 ? FS_REFER : 0U) | (abi >= 3 ? FS_TRUNCATE : 0U) |
           (abi >= 5 ? GB_WALL_FLAG("landlock-ioctl", FS_IOCTL_DEV) : 0U);
}

static int allow(int ruleset, int root, const char *path, uint64_t access)
{
    AUTO_FD fd = openat(root, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) || !S_ISDIR(st.st_mode))
        return 0; /* /bin and /lib are links into /usr nearly everywhere */
    if (!access)
        return 0;
    struct path_rule rule = {access, fd};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) ? -errno : 0;
}

static int allow_system(struct gb_box *box, int ruleset, uint64_t handled)
{
    static const struct {
        const char *path;
        uint64_t access;
    } rules[] = {
            {".", FS_READ_DIR},    {"usr", READ_EXECUTE},   {"bin", READ_EXECUTE},   {"sbin", READ_EXECUTE},
            {"lib", READ_EXECUTE}, {"lib32", READ_EXECUTE}, {"lib64", READ_EXECUTE}, {"libx32", READ_EXECUTE},
            {"etc", READ_ONLY},    {"proc", READ_ONLY},     {"dev", DEVICES},        {"dev/shm", SCRATCH},
            {"tmp", SCRATCH},      {"sandbox", SCRATCH},
    };
    int r = 0;
    if (box->spec->rootfs) /* whatever the tree holds may be read and run; the mount is read-only */
        r = allow(ruleset, box->root_fd, ".", READ_EXECUTE & handled);
    for (size_t i = 0; !r && i < ARRAY_LEN(rules); i++)
        r = allow(ruleset, box->root_fd, rules[i].path, rules[i].access & handled);
    for (size_t i = 0; !r && i < box->spec->mount_count; i++)
        r = allow(ruleset, box->root_fd, box->spec->mounts[i].target + 1,
                  (box->spec->mounts[i].writable ? SCRATCH : READ_EXECUTE) & handled);
    return r;
}

/* landlock. Should: allow reading the system, writing scratch, and nothing else. Must not: be skipped because
 * the kernel is old: that is the operator's decision. */
int gb_landlock_apply(struct gb_box *box, struct gb_err *err)
{
    int abi = gb_landlock_abi();
    if (!abi)
        return gb_err_set(err, GB_ERR_LAYER, ENOSYS, "this kernel has no landlock");
    struct ruleset_attr attr = {.fs = handled_fs(abi),
                                .net = abi >= 4 ? GB_WALL_FLAG("landlock-tcp", NET_TCP) : 0,
                                .scoped = abi >= 6 ? GB_WALL_FLAG("landlock-scope", SCOPE_ALL) : 0};
    /* Older kernels refuse a longer struct unless its tail is zero, which it then is. */
    AUTO_FD ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return gb_err_set(err, GB_ERR_LAYER, errno, "make a ruleset of ABI %d", abi);
    int r = allow_system(box, ruleset, attr.fs);
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "add a rule");
    if (syscall(SYS_landlock_restrict_self, ruleset, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "enter the ruleset");
    box->receipt.landlock_abi = abi < ABI_USED ? abi : ABI_USED;
    return 0;
}
