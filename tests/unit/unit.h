/* What every unit test shares: cmocka with the headers that it forgets to include, and a temporary directory.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline int unit_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* setup and teardown of a group: *state is the path of a fresh directory, and it is the working directory. */
static inline int unit_enter_dir(void **state)
{
    char *path = strdup("/tmp/glovebox-unit-XXXXXX");
    *state = path;
    return path && mkdtemp(path) && !chdir(path) ? 0 : -1;
}

static inline int unit_leave_dir(void **state)
{
    int r = chdir("/") || nftw(*state, unit_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return r;
}

static inline void unit_write(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}
