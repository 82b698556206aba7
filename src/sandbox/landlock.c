/* Landlock: a second wall on files that holds even if the mount view had a hole, and walls on TCP, abstract
 * sockets and signals where the kernel has them. The kernel's ABI number says what it can; everything up
 * to ABI 6 is handled, so that what no rule allows is denied. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/landlock.h"
#include "base/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define READ_EXECUTE (GB_LL_EXECUTE | GB_LL_READ_FILE | GB_LL_READ_DIR)
#define READ_ONLY    (GB_LL_READ_FILE | GB_LL_READ_DIR)
#define DEVICES      (GB_LL_READ_FILE | GB_LL_READ_DIR | GB_LL_WRITE_FILE | GB_LL_TRUNCATE)
#define EVERYTHING   (GB_LL_ABI1 | GB_LL_REFER | GB_LL_TRUNCATE)
#define SCRATCH      (EVERYTHING & ~(uint64_t)(GB_LL_MAKE_CHAR | GB_LL_MAKE_BLOCK))

int gb_landlock_abi(void)
{
    return gb_landlock_version();
}

static uint64_t handled_fs(int abi)
{
    return GB_WALL_FLAG("landlock-fs", GB_LL_ABI1) | (abi >= 2 ? GB_LL_REFER : 0U) |
           (abi >= 3 ? GB_LL_TRUNCATE : 0U) |
           (abi >= 5 ? GB_WALL_FLAG("landlock-ioctl", GB_LL_IOCTL_DEV) : 0U);
}

/* `fresh`: of each box its own, also where a zygote bears it. */
static const struct rule {
    const char *path;
    uint64_t access;
    bool fresh;
} rules[] = {
        {".", GB_LL_READ_DIR, false},   {"usr", READ_EXECUTE, false},    {"bin", READ_EXECUTE, false},
        {"sbin", READ_EXECUTE, false},  {"lib", READ_EXECUTE, false},    {"lib32", READ_EXECUTE, false},
        {"lib64", READ_EXECUTE, false}, {"libx32", READ_EXECUTE, false}, {"etc", READ_ONLY, false},
        {"dev", DEVICES, false},        {"proc", READ_ONLY, true},       {"dev/shm", SCRATCH, true},
        {"tmp", SCRATCH, true},         {"sandbox", SCRATCH, true},
};

/* A zygote's: directories that its boxes have in common, so that each need not look for them. -1: there is
 * no such directory. Boxes inherit the descriptors, and close them with all others. */
static int kept[ARRAY_LEN(rules)];
static bool has_kept;

static int open_directory(int root, const char *path)
{
    const int fd = openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

static bool is_missing(int r)
{
    return r == -ENOENT || r == -ENOTDIR; /* /bin and /lib are links into /usr nearly everywhere */
}

int gb_landlock_keep(int root)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        kept[i] = rules[i].fresh ? -1 : open_directory(root, rules[i].path);
        if (kept[i] < 0 && !rules[i].fresh && !is_missing(kept[i]))
            return kept[i];
    }
    has_kept = true;
    return 0;
}

static int allow(int ruleset, int root, const char *path, uint64_t access)
{
    AUTO_FD fd = access ? open_directory(root, path) : -1;
    if (!access || is_missing(fd))
        return 0;
    return fd < 0 ? fd : gb_landlock_allow(ruleset, fd, access) ? -errno : 0;
}

static int allow_kept(int ruleset, int fd, uint64_t access)
{
    return !access || fd < 0 ? 0 : gb_landlock_allow(ruleset, fd, access) ? -errno : 0;
}

static int allow_system(struct gb_box *box, int ruleset, uint64_t handled)
{
    int r = 0;
    if (box->spec->rootfs) /* whatever the tree holds may be read and run; the mount is read-only */
        r = allow(ruleset, box->root_fd, ".", READ_EXECUTE & handled);
    for (size_t i = 0; !r && i < ARRAY_LEN(rules); i++)
        r = has_kept && !rules[i].fresh
                    ? allow_kept(ruleset, kept[i], rules[i].access & handled)
                    : allow(ruleset, box->root_fd, rules[i].path, rules[i].access & handled);
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
    struct gb_landlock_attr attr = {.fs = handled_fs(abi),
                                    .net = abi >= 4 ? GB_WALL_FLAG("landlock-tcp", GB_LL_TCP) : 0,
                                    .scoped = abi >= 6 ? GB_WALL_FLAG("landlock-scope", GB_LL_SCOPES) : 0};
    AUTO_FD ruleset = gb_landlock_create(&attr);
    if (ruleset < 0)
        return gb_err_set(err, GB_ERR_LAYER, errno, "make a ruleset of ABI %d", abi);
    int r = allow_system(box, ruleset, attr.fs);
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "add a rule");
    if (gb_landlock_enter(ruleset))
        return gb_err_set(err, GB_ERR_LAYER, errno, "enter the ruleset");
    box->receipt.landlock_abi = abi < GB_LL_NEWEST ? abi : GB_LL_NEWEST;
    return 0;
}
