/* What musl 1.2 lacks of what the C library of GNU has, for the one program that is linked with musl
 * (meson.build says why). The compiler includes it before every source of that program. Values are kernel
 * ABI. */
#pragma once

#include <dirent.h>
#include <limits.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

static inline const char *strerrordesc_np(int errnum)
{
    return strerror(errnum); /* a table, no lock */
}

static inline int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static inline int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
    return (int)syscall(SYS_execveat, dir, path, argv, env, flags);
}

#undef getdents64
static inline ssize_t getdents64(int fd, void *buf, size_t size)
{
    return syscall(SYS_getdents64, fd, buf, size);
}

/* --- mounts --- */

static inline int open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int move_mount(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_dir, from, to_dir, to, flags);
}

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attr)
{
    return (int)syscall(SYS_fsmount, fd, flags, attr);
}

static inline int mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, size);
}
