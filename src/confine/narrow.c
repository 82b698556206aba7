#include "confine/narrow.h"

#include "base/auto.h"
#include "base/landlock.h"
#include "base/wall.h"
#include "confine/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct state {
    const struct gb_narrow *n;
    pid_t parent;
};

/* narrow-life. Should: end with the broker, and so with the service; also if that is dead already. */
static int step_life(const struct state *s, struct gb_err *err)
{
    return gb_walls_die_with(s->parent, err);
}

/* narrow-rlimits. Should: keep what one call can use up of the host within bounds, however it is fooled.
 * Processes: none but this. */
static int step_rlimits(const struct state *s, struct gb_err *err)
{
    const struct gb_narrow *n = s->n;
    if ((n->memory_bytes && gb_walls_limit(RLIMIT_AS, n->memory_bytes)) ||
        gb_walls_limit(RLIMIT_CPU, n->cpu_seconds) || gb_walls_limit(RLIMIT_NOFILE, n->open_files) ||
        gb_walls_limit(RLIMIT_NPROC, 0))
        return gb_walls_fail(err, errno, "set resource limits");
    return 0;
}

/* A file can be given no right that only directories have. */
static int allow(int ruleset, const char *path, uint64_t rights)
{
    struct stat st;
    AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return -1;
    if (!S_ISDIR(st.st_mode))
        rights &= GB_LL_READ_FILE | GB_LL_WRITE_FILE | GB_LL_TRUNCATE;
    return gb_landlock_allow(ruleset, fd, gb_walls_known(rights));
}

/* narrow-landlock. Should: leave the files that this kind of tool is about, and none else; no TCP where there
 * is nobody to talk to; no signal to anybody, the broker and its other children included. */
static int step_landlock(const struct state *s, struct gb_err *err)
{
    const uint64_t reads = GB_LL_READ_FILE | GB_LL_READ_DIR;
    const uint64_t writes = GB_LL_WRITE_FILE | GB_LL_TRUNCATE | GB_LL_REMOVE_FILE | GB_LL_MAKE_REG;
    const struct gb_narrow *n = s->n;
    AUTO_FD ruleset = -1;
    int r = gb_walls_ruleset(n->degraded, n->tcp ? GB_LL_BIND : GB_LL_BIND | GB_LL_CONNECT, &ruleset, err);
    if (r || ruleset < 0)
        return r;
    for (size_t i = 0; n->read && n->read[i]; i++)
        if (allow(ruleset, n->read[i], reads) && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            return gb_walls_fail(err, errno, n->read[i]);
    if (n->dir && allow(ruleset, n->dir, n->write ? reads | writes : reads))
        return gb_walls_fail(err, errno, n->dir);
    return gb_landlock_enter(ruleset) ? gb_walls_fail(err, errno, "enter a landlock ruleset") : 0;
}

/* narrow-seccomp. Should: be the last step. Must not: leave sockets to what has no network, nor a way to
 * start anything to anybody. */
static int step_seccomp(const struct state *s, struct gb_err *err)
{
    return gb_walls_filter(s->n->name, err);
}

static const struct step {
    const char *name;
    int (*apply)(const struct state *s, struct gb_err *err);
} steps[] = {
        {"narrow-life", step_life},
        {"narrow-rlimits", step_rlimits},
        {"narrow-landlock", step_landlock},
        {"narrow-seccomp", step_seccomp},
};

int gb_narrow_enter(const struct gb_narrow *n, pid_t parent, struct gb_err *err)
{
    const struct state s = {.n = n, .parent = parent};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = GB_WALL(steps[i].name) ? steps[i].apply(&s, err) : 0;
        if (r) {
            gb_err_wrap(err, "%s", steps[i].name);
            snprintf(err->step, sizeof(err->step), "%s", steps[i].name);
            return r;
        }
    }
    return 0;
}
