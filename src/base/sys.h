/* System calls and constants that the C library or its kernel headers do not have yet. Values are kernel ABI.
 */
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Since 5.6. Every path that somebody else could have prepared is opened with this. */
static inline int gb_sys_openat2(int dir_fd, const char *name, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
    return (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
}

#define GB_BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static inline long gb_sys_clone3(struct clone_args *args)
{
    return syscall(SYS_clone3, args, sizeof(*args));
}

static inline int gb_sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}
