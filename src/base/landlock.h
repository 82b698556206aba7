/* Landlock's kernel interface: linux/landlock.h of the oldest distribution that we build on knows ABI 3 only.
 * Values are kernel ABI. */
#pragma once

#include "base/sys.h"

struct gb_landlock_attr {
    uint64_t fs, net, scoped; /* what is handled: denied unless a rule allows it */
};
struct gb_landlock_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

enum {
    GB_LL_EXECUTE = 1 << 0,
    GB_LL_WRITE_FILE = 1 << 1,
    GB_LL_READ_FILE = 1 << 2,
    GB_LL_READ_DIR = 1 << 3,
    GB_LL_REMOVE_FILE = 1 << 5,
    GB_LL_MAKE_CHAR = 1 << 6,
    GB_LL_MAKE_REG = 1 << 8,
    GB_LL_MAKE_BLOCK = 1 << 11,
    GB_LL_ABI1 = (1 << 13) - 1, /* the above, removing and making of each kind of file */
    GB_LL_REFER = 1 << 13,      /* ABI 2 */
    GB_LL_TRUNCATE = 1 << 14,   /* ABI 3 */
    GB_LL_IOCTL_DEV = 1 << 15,  /* ABI 5 */
    GB_LL_BIND = 1,             /* ABI 4, TCP */
    GB_LL_CONNECT = 2,
    GB_LL_TCP = 3,    /* both */
    GB_LL_SCOPES = 3, /* ABI 6: abstract unix sockets, signals */
    GB_LL_NEWEST = 6, /* the newest ABI whose walls we use */
};

/* 0: the kernel has none. */
static inline int gb_landlock_version(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1U);
    return abi < 0 ? 0 : (int)abi;
}

/* A ruleset's descriptor, or -1 and errno. Older kernels refuse a longer struct unless its tail is zero. */
static inline int gb_landlock_create(const struct gb_landlock_attr *attr)
{
    return (int)syscall(SYS_landlock_create_ruleset, attr, sizeof(*attr), 0);
}

/* 0, or -1 and errno. */
static inline int gb_landlock_allow(int ruleset, int dir_fd, uint64_t access)
{
    const struct gb_landlock_beneath rule = {access, dir_fd};
    return (int)syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0);
}

static inline int gb_landlock_enter(int ruleset)
{
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
