/* Before 5.12 a bind mount is made read-only by remounting it, and the remount does not reach the mounts
 * below it: each is looked up in the mount table and remounted with the flags it has and the ones that are
 * asked for. The box is not running yet, so nothing can be mounted meanwhile. */
#include "sandbox/remount.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static const struct {
    uint64_t attr;
    unsigned long flag;
    const char *word; /* in the mount table */
} flags[] = {
        {MOUNT_ATTR_RDONLY, MS_RDONLY, "ro"},
        {MOUNT_ATTR_NOSUID, MS_NOSUID, "nosuid"},
        {MOUNT_ATTR_NODEV, MS_NODEV, "nodev"},
        {MOUNT_ATTR_NOEXEC, MS_NOEXEC, "noexec"},
        {MOUNT_ATTR_NOATIME, MS_NOATIME, "noatime"},
        {MOUNT_ATTR_NODIRATIME, MS_NODIRATIME, "nodiratime"},
        {0, MS_RELATIME, "relatime"},
};

static unsigned long flags_of(uint64_t attr, const char *options)
{
    unsigned long result = 0;
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if ((attr & flags[i].attr) || gb_text_in_list(options, flags[i].word))
            result |= flags[i].flag;
    }
    return result;
}

/* The mount table writes blanks and backslashes as \ooo. */
static void unescape(char *path)
{
    char *out = path;
    for (const char *p = path; *p; p++) {
        if (p[0] == '\\' && p[1] && p[2] && p[3]) {
            *out++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 3;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
}

int gb_remount(int fd, uint64_t attr, bool recursive)
{
    static char table[1 << 20]; /* no allocation after a fork; touched on old kernels only */
    char link[32], base[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, base, sizeof(base) - 1);
    if (n < 0)
        return -errno;
    base[n] = '\0';
    const size_t len = strlen(base);
    n = gb_fd_get(AT_FDCWD, "/proc/self/mountinfo", table, sizeof(table));
    if (n < 0 || n == (ssize_t)sizeof(table) - 1)
        return n < 0 ? (int)n : -E2BIG;
    bool found = false;
    for (char *save, *line = strtok_r(table, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char where[PATH_MAX], options[256];
        if (sscanf(line, "%*s %*s %*s %*s %4095s %255s", where, options) != 2)
            continue;
        unescape(where);
        bool self = !strcmp(where, base);
        bool below = recursive && !strncmp(where, base, len) && where[len] == '/';
        if (!self && !below)
            continue;
        found |= self;
        if (mount(NULL, where, NULL, MS_REMOUNT | MS_BIND | flags_of(attr, options), NULL))
            return -errno;
    }
    return found ? 0 : -ENOENT;
}
