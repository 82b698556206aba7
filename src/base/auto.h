/* Scope-bound ownership: what a variable owns is given back when it leaves its scope, on every path. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void gb_auto_close(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* Closes it and forgets it, for what lives longer than a scope. */
static inline void gb_close(int *fd)
{
    gb_auto_close(fd);
    *fd = -1;
}

static inline void gb_auto_free(void *p)
{
    free(*(void **)p);
}

static inline void gb_auto_fclose(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void gb_auto_closedir(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define AUTO_FD   __attribute__((cleanup(gb_auto_close), unused)) int
#define AUTO_FREE __attribute__((cleanup(gb_auto_free), unused))
#define AUTO_FILE __attribute__((cleanup(gb_auto_fclose))) FILE *
#define AUTO_DIR  __attribute__((cleanup(gb_auto_closedir))) DIR *

/* Hand the owned value on: the scope no longer gives it back. */
#define TAKE_FD(fd)                                                                                          \
    __extension__({                                                                                          \
        int taken_ = (fd);                                                                                   \
        (fd) = -1;                                                                                           \
        taken_;                                                                                              \
    })
#define TAKE_PTR(p)                                                                                          \
    __extension__({                                                                                          \
        __typeof__(p) taken_ = (p);                                                                          \
        (p) = NULL;                                                                                          \
        taken_;                                                                                              \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
