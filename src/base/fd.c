#include "base/fd.h"

#include "base/auto.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int gb_fd_open_dir(int at_fd, const char *path)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int gb_fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

void gb_fd_close_others(const int *keep, unsigned count)
{
    for (int from = STDERR_FILENO + 1; from >= 0;) {
        int next = -1;
        for (unsigned i = 0; i < count; i++)
            if (keep[i] >= from && (next < 0 || keep[i] < next))
                next = keep[i];
        if (next != from)
            close_range((unsigned)from, next < 0 ? ~0U : (unsigned)next - 1, 0);
        from = next < 0 ? -1 : next + 1;
    }
}

int gb_fd_put(int dir_fd, const char *name, const char *text)
{
    AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

ssize_t gb_fd_get(int dir_fd, const char *name, char *buf, size_t size)
{
    AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    while (used < size - 1) {
        ssize_t n = read(fd, buf + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (!n) /* only this is the end: the kernel gives out lists page by page */
            break;
        used += (size_t)n;
    }
    buf[used] = '\0';
    return (ssize_t)used;
}

int gb_fd_to_int(const char *text, int64_t *ret_value)
{
    if (!strncmp(text, "max", 3)) {
        *ret_value = INT64_MAX;
        return 0;
    }
    char *end;
    errno = 0;
    int64_t value = strtoimax(text, &end, 10);
    if (end == text || errno)
        return -EINVAL;
    *ret_value = value;
    return 0;
}

int gb_fd_get_int(int dir_fd, const char *name, int64_t *ret_value)
{
    char text[64];
    AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1); /* a number comes in one piece */
    if (n < 0)
        return -errno;
    text[n] = '\0';
    return gb_fd_to_int(text, ret_value);
}

int gb_fd_find_int(const char *text, const char *key, int64_t *ret_value)
{
    size_t len = strlen(key);
    for (const char *line = text; line && *line;) {
        if (!strncmp(line, key, len) && line[len] == ' ')
            return gb_fd_to_int(line + len + 1, ret_value);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return -ENOENT;
}

int gb_fd_each(int dir_fd, int (*each)(void *context, const char *name), void *context)
{
    _Alignas(struct dirent64) char buf[4096];
    for (;;) {
        ssize_t n = getdents64(dir_fd, buf, sizeof(buf));
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(buf + at);
            at += e->d_reclen;
            int r = strcmp(e->d_name, ".") && strcmp(e->d_name, "..") ? each(context, e->d_name) : 0;
            if (r)
                return r;
        }
    }
}

int gb_fd_open_parent(int dir_fd, const char *name, const char **ret_leaf)
{
    AUTO_FD here = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    for (const char *slash; here >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char part[NAME_MAX + 1];
        if ((size_t)(slash - name) >= sizeof(part))
            return -ENAMETOOLONG;
        memcpy(part, name, (size_t)(slash - name));
        part[slash - name] = '\0';
        if (mkdirat(here, part, 0755) && errno != EEXIST)
            return -errno;
        int next = gb_sys_openat2(here, part, O_PATH | O_DIRECTORY, GB_BENEATH);
        close(here);
        here = next;
    }
    if (here < 0)
        return -errno;
    *ret_leaf = name;
    return TAKE_FD(here);
}

ssize_t gb_fd_copy(int out_fd, int in_fd)
{
    ssize_t total = 0;
    for (;;) {
        ssize_t n = sendfile(out_fd, in_fd, NULL, 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (!n)
            return total;
        total += n;
    }
}
