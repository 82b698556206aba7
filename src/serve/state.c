#include "serve/state.h"

#include "base/auto.h"
#include "base/fd.h"
#include "confine/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Opens a directory, making it and what is missing above it. It must be ours (or root's), and nobody else may
 * be able to write into it: what is found in it is trusted. */
static int open_dir(const char *path, mode_t mode, struct gb_err *err)
{
    char part[PATH_MAX];
    struct stat st;
    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
        return gb_err_set(err, GB_ERR_CONFIG, ENAMETOOLONG, "directory %.100s…", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) && errno != EEXIST)
            return gb_err_set(err, GB_ERR_INPUT, errno, "make the directory %s", part);
        *slash = '/';
    }
    if (mkdir(part, mode) && errno != EEXIST)
        return gb_err_set(err, GB_ERR_INPUT, errno, "make the directory %s", part);
    AUTO_FD fd = gb_fd_open_dir(AT_FDCWD, path);
    if (fd < 0 || fstat(fd, &st))
        return gb_err_set(err, GB_ERR_INPUT, fd < 0 ? -fd : errno, "open the directory %s", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH)) {
        gb_err_set(err, GB_ERR_INPUT, EPERM, "directory %s belongs to uid %u and has mode %04o", path,
                   st.st_uid, st.st_mode & 07777);
        gb_err_hint(err, "it must belong to uid %u, and others must not be able to write into it", geteuid());
        return -EPERM;
    }
    return TAKE_FD(fd);
}

/* Who ends in order leaves the file empty. */
static int take_lock(int dir_fd, const char *dir, bool *ret_after_kill, struct gb_err *err)
{
    char text[32];
    /* Ours alone: whoever can open it, if only to read, can lock it. */
    AUTO_FD fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return gb_err_set(err, GB_ERR_INPUT, errno, "open %s/lock", dir);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        const int e = errno;
        if (e != EWOULDBLOCK || gb_fd_get(dir_fd, "lock", text, sizeof(text)) <= 0)
            return gb_err_set(err, GB_ERR_BUSY, e, "lock %s/lock", dir);
        text[strcspn(text, "\n")] = '\0';
        gb_err_set(err, GB_ERR_BUSY, 0, "another glovebox serve, process %s, uses %s", text, dir);
        gb_err_hint(err, "stop it (kill %s), or give this one its own state_dir", text);
        return -EBUSY;
    }
    *ret_after_kill = gb_fd_get(dir_fd, "lock", text, sizeof(text)) > 0;
    snprintf(text, sizeof(text), "%d\n", getpid());
    int r = ftruncate(fd, 0) ? -errno : gb_fd_write_all(fd, text, strlen(text));
    if (r)
        return gb_err_set(err, GB_ERR_INPUT, -r, "write %s/lock", dir);
    return TAKE_FD(fd);
}

/* The audit's directory is the store's: under root it has a uid of its own. Where that uid does not exist
 * (root of a user namespace that maps few), the store stays who we are. */
static int open_audit(int dir_fd, const char *dir, struct gb_err *err)
{
    struct stat st;
    if (mkdirat(dir_fd, "audit", 0700) && errno != EEXIST)
        return gb_err_set(err, GB_ERR_INPUT, errno, "make the directory %s/audit", dir);
    AUTO_FD fd = openat(dir_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return gb_err_set(err, GB_ERR_INPUT, errno, "open the directory %s/audit", dir);
    if (st.st_uid != geteuid() && st.st_uid != GB_UID_STORE)
        return gb_err_set(err, GB_ERR_INPUT, EPERM, "directory %s/audit belongs to uid %u", dir, st.st_uid);
    if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700))
        return gb_err_set(err, GB_ERR_INPUT, errno, "set the mode of %s/audit", dir);
    if (geteuid() == 0 && st.st_uid == 0 && fchown(fd, GB_UID_STORE, GB_UID_STORE) && errno != EINVAL)
        return gb_err_set(err, GB_ERR_INPUT, errno, "give %s/audit to the store", dir);
    return TAKE_FD(fd);
}

int gb_state_open(const char *state_dir, const char *runtime_dir, struct gb_state *ret, struct gb_err *err)
{
    const mode_t mode = geteuid() == 0 ? 0755 : 0700;
    AUTO_FD dir = open_dir(state_dir, mode, err);
    if (dir < 0)
        return dir;
    AUTO_FD runtime = open_dir(runtime_dir, mode, err);
    if (runtime < 0)
        return runtime;
    bool after_kill = false;
    AUTO_FD lock = take_lock(dir, state_dir, &after_kill, err);
    if (lock < 0)
        return lock;
    AUTO_FD audit = open_audit(dir, state_dir, err);
    if (audit < 0)
        return audit;
    *ret = (struct gb_state){.lock_fd = TAKE_FD(lock), .audit_fd = TAKE_FD(audit), .after_kill = after_kill};
    return 0;
}

void gb_state_close(struct gb_state *state)
{
    if (state->audit_fd >= 0)
        close(TAKE_FD(state->audit_fd));
    if (state->lock_fd >= 0) {
        (void)!ftruncate(state->lock_fd, 0);
        close(TAKE_FD(state->lock_fd));
    }
}
