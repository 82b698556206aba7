#include "confine/confine.h"

#include "base/auto.h"
#include "base/landlock.h"
#include "base/wall.h"
#include "confine/view.h"
#include "confine/walls.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What the launcher keeps as root. SETUID, SETGID: to write the id maps of a box, and to drop its own groups
 * around a clone. CHOWN: to give a box its pipes. DAC_OVERRIDE: the top of a cgroup hierarchy is read-only
 * even for root, and a box may make the files unreadable that are collected from it. SETFCAP: to map a box to
 * our own uid where there is no other, as root of a small user namespace (since 5.12). Everything else that
 * building a box takes, the kernel gives inside the box's own user namespace. */
#define BIT(cap) ((uint64_t)1 << (cap))
#define LAUNCH_CAPS                                                                                          \
    (BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_SETFCAP))

struct state {
    const struct gb_confine *c;
    pid_t parent;
    bool root; /* started with privilege */
};

/* --- namespaces, root --- */

/* confine-net. Should: leave no network to speak over but descriptors that came from the supervisor. Abstract
 * unix sockets go with it. */
static int step_net(const struct state *s, struct gb_err *err)
{
    (void)s;
    return unshare(CLONE_NEWNET) ? gb_walls_fail(err, errno, "make a network namespace") : 0;
}

/* confine-ipc. Should: hide System V and POSIX queues, which landlock does not know, and the host's name. */
static int step_ipc(const struct state *s, struct gb_err *err)
{
    (void)s;
    return unshare(CLONE_NEWIPC | CLONE_NEWUTS) ? gb_walls_fail(err, errno, "make ipc and uts namespaces")
                                                : 0;
}

/* confine-root. Should: leave an empty read-only root, or the one directory. Must not: leave the host's
 * mounted anywhere. */
static int step_root(const struct state *s, struct gb_err *err)
{
    int r = gb_view_replace(s->c->root_fd);
    return r ? gb_walls_fail(err, -r, "change the root") : 0;
}

/* confine-view. Should: keep a captured or confused launcher from writing the host's files, though it is
 * root. It cannot be undone without CAP_SYS_ADMIN, and not from a new user namespace, where the flags are
 * locked. */
static int step_view(const struct state *s, struct gb_err *err)
{
    (void)s;
    int r = gb_view_freeze();
    return r ? gb_walls_fail(err, -r, "make the host's file systems read-only") : 0;
}

/* confine-directory. Should: not stay where we were started. */
static int step_directory(const struct state *s, struct gb_err *err)
{
    if (s->c->rw_fd < 0 ? chdir("/") : fchdir(s->c->rw_fd))
        return gb_walls_fail(err, errno, "change the working directory");
    return 0;
}

/* --- limits --- */

/* confine-rlimits. Core: 1 and not 0, as in a box: a core_pattern that is a pipe ignores every limit but
 * this. */
static int step_rlimits(const struct state *s, struct gb_err *err)
{
    if (gb_walls_limit(RLIMIT_CORE, 1) ||
        (s->c->open_files && gb_walls_limit(RLIMIT_NOFILE, s->c->open_files)) ||
        (!s->c->keep_root && !s->c->keep_host && gb_walls_limit(RLIMIT_NPROC, 0)))
        return gb_walls_fail(err, errno, "set resource limits");
    return 0;
}

/* --- privilege --- */

static uint64_t kept_caps(const struct state *s)
{
    return s->c->keep_root ? LAUNCH_CAPS : 0;
}

/* confine-bounding. Should: make sure that what is dropped stays dropped: no set can be filled again from the
 * bounding set, by uid 0 or by a file. Comes before the change of user, which takes the right to do it. */
static int step_bounding(const struct state *s, struct gb_err *err)
{
    const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) || prctl(PR_SET_SECUREBITS, locked, 0, 0, 0))
        return gb_walls_fail(err, errno, "lock securebits");
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(kept_caps(s) >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
            return gb_walls_fail(err, errno, "drop a capability from the bounding set");
    return 0;
}

/* confine-identity. Should: run under an id that nobody else has. Root of a user namespace that has no such
 * id stays who it is, as an ordinary user does. */
static int step_identity(const struct state *s, struct gb_err *err)
{
    const uid_t id = s->c->uid;
    if (setgroups(0, NULL) && errno != EPERM) /* EPERM: a user namespace where it is forbidden */
        return gb_walls_fail(err, errno, "drop supplementary groups");
    if (setresgid(id, id, id) || setresuid(id, id, id))
        return errno == EINVAL ? 0 : gb_walls_fail(err, errno, "change to an id of its own");
    return 0;
}

/* confine-caps. Should: leave none, or the launcher's few. */
static int step_caps(const struct state *s, struct gb_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    if (syscall(SYS_capget, &header, caps))
        return gb_walls_fail(err, errno, "read the capability sets");
    for (int i = 0; i < 2; i++) {
        caps[i].permitted &= (uint32_t)(kept_caps(s) >> (32 * i));
        caps[i].effective = caps[i].permitted;
        caps[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, caps) ? gb_walls_fail(err, errno, "drop capabilities") : 0;
}

/* confine-nnp. Should: make setuid bits and file capabilities mean nothing, for ever. */
static int step_nnp(const struct state *s, struct gb_err *err)
{
    (void)s;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? gb_walls_fail(err, errno, "set no_new_privs") : 0;
}

/* confine-hidden. Should: keep other processes of the same user out of our memory; it holds keys and the
 * channels. Comes after the change of user, which undoes it. */
static int step_hidden(const struct state *s, struct gb_err *err)
{
    (void)s;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ? gb_walls_fail(err, errno, "become undumpable") : 0;
}

/* confine-life. Should: die with the supervisor, however it dies; also if it is dead already. After the
 * change of user, which undoes it. */
static int step_life(const struct state *s, struct gb_err *err)
{
    return gb_walls_die_with(s->parent, err);
}

/* --- landlock, system calls --- */

/* confine-landlock. Should: deny every file but those beneath one directory, tcp, and signals and abstract
 * sockets of others. For an ordinary user, who has no namespaces here, it is the wall on files. The broker,
 * whose children need files and connections, keeps what SQLite does with a database, anywhere, and reaching
 * out: it can start no program, make no device, directory or link, and take no calls. */
static int step_landlock(const struct state *s, struct gb_err *err)
{
    const uint64_t files = GB_LL_READ_FILE | GB_LL_READ_DIR | GB_LL_WRITE_FILE | GB_LL_TRUNCATE |
                           GB_LL_REMOVE_FILE | GB_LL_MAKE_REG;
    AUTO_FD ruleset = -1, host = s->c->keep_host ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    const int below = s->c->keep_host ? host : s->c->rw_fd;
    int r = gb_walls_ruleset(s->c->degraded, s->c->keep_host ? GB_LL_BIND : GB_LL_TCP, &ruleset, err);
    if (r || ruleset < 0)
        return r;
    if ((below >= 0 && gb_landlock_allow(ruleset, below, gb_walls_known(files))) ||
        gb_landlock_enter(ruleset))
        return gb_walls_fail(err, errno, "enter a landlock ruleset");
    return 0;
}

/* confine-seccomp. Should: be the last step. */
static int step_seccomp(const struct state *s, struct gb_err *err)
{
    return gb_walls_filter(s->c->name, err);
}

/* --- all of it, in order --- */

enum who { SERVANTS = 1, LAUNCHER = 2, BROKER = 4, ALL = SERVANTS | LAUNCHER | BROKER };

static const struct step {
    const char *name;
    enum who who;
    bool root; /* needs privilege, and is left out without */
    int (*apply)(const struct state *s, struct gb_err *err);
} steps[] = {
        {"confine-net", SERVANTS | LAUNCHER, true, step_net},
        {"confine-ipc", ALL, true, step_ipc},
        {"confine-root", SERVANTS, true, step_root},
        {"confine-view", LAUNCHER, true, step_view},
        {"confine-directory", ALL, false, step_directory},
        {"confine-rlimits", ALL, false, step_rlimits},
        {"confine-bounding", ALL, true, step_bounding},
        {"confine-identity", SERVANTS | BROKER, true, step_identity},
        {"confine-caps", ALL, true, step_caps},
        {"confine-nnp", ALL, false, step_nnp},
        {"confine-hidden", ALL, false, step_hidden},
        {"confine-life", ALL, false, step_life},
        {"confine-landlock", SERVANTS | BROKER, false, step_landlock},
        {"confine-seccomp", ALL, false, step_seccomp},
};

int gb_confine_enter(const struct gb_confine *c, pid_t parent, struct gb_err *err)
{
    const struct state s = {.c = c, .parent = parent, .root = geteuid() == 0};
    const enum who who = c->keep_root ? LAUNCHER : c->keep_host ? BROKER : SERVANTS;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (!(steps[i].who & who) || (steps[i].root && !s.root) || !GB_WALL(steps[i].name))
            continue;
        int r = steps[i].apply(&s, err);
        if (r) {
            gb_err_wrap(err, "%s", steps[i].name);
            snprintf(err->step, sizeof(err->step), "%s", steps[i].name);
            return r;
        }
    }
    return 0;
}
