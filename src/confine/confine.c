#include "confine/confine.h"

#include "base/auto.h"
#include "base/landlock.h"
#include "base/text.h"
#include "base/wall.h"
#include "confine/filter.h"
#include "confine/view.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

static int fail(struct gb_err *err, int error, const char *what)
{
    return gb_err_set(err, GB_ERR_LAYER, error, "%s", what);
}

/* --- namespaces, root --- */

/* confine-net. Should: leave no network to speak over but descriptors that came from the supervisor. Abstract
 * unix sockets go with it. */
static int step_net(const struct state *s, struct gb_err *err)
{
    (void)s;
    return unshare(CLONE_NEWNET) ? fail(err, errno, "make a network namespace") : 0;
}

/* confine-ipc. Should: hide System V and POSIX queues, which landlock does not know, and the host's name. */
static int step_ipc(const struct state *s, struct gb_err *err)
{
    (void)s;
    return unshare(CLONE_NEWIPC | CLONE_NEWUTS) ? fail(err, errno, "make ipc and uts namespaces") : 0;
}

/* confine-root. Should: leave an empty read-only root, or the one directory. Must not: leave the host's
 * mounted anywhere. */
static int step_root(const struct state *s, struct gb_err *err)
{
    int r = gb_view_replace(s->c->root_fd);
    return r ? fail(err, -r, "change the root") : 0;
}

/* confine-view. Should: keep a captured or confused launcher from writing the host's files, though it is
 * root. It cannot be undone without CAP_SYS_ADMIN, and not from a new user namespace, where the flags are
 * locked. */
static int step_view(const struct state *s, struct gb_err *err)
{
    (void)s;
    int r = gb_view_freeze();
    return r ? fail(err, -r, "make the host's file systems read-only") : 0;
}

/* confine-directory. Should: not stay where we were started. */
static int step_directory(const struct state *s, struct gb_err *err)
{
    if (s->c->rw_fd < 0 ? chdir("/") : fchdir(s->c->rw_fd))
        return fail(err, errno, "change the working directory");
    return 0;
}

/* --- limits --- */

static int limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now))
        return -1;
    if (value > now.rlim_max)
        value = now.rlim_max;
    return setrlimit(resource, &(struct rlimit){value, value});
}

/* confine-rlimits. Core: 1 and not 0, as in a box: a core_pattern that is a pipe ignores every limit but
 * this. */
static int step_rlimits(const struct state *s, struct gb_err *err)
{
    if (limit(RLIMIT_CORE, 1) || (s->c->open_files && limit(RLIMIT_NOFILE, s->c->open_files)) ||
        (!s->c->keep_root && limit(RLIMIT_NPROC, 0)))
        return fail(err, errno, "set resource limits");
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
        return fail(err, errno, "lock securebits");
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(kept_caps(s) >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
            return fail(err, errno, "drop a capability from the bounding set");
    return 0;
}

/* confine-identity. Should: run under an id that nobody else has. Root of a user namespace that has no such
 * id stays who it is, as an ordinary user does. */
static int step_identity(const struct state *s, struct gb_err *err)
{
    const uid_t id = s->c->uid;
    if (setgroups(0, NULL) && errno != EPERM) /* EPERM: a user namespace where it is forbidden */
        return fail(err, errno, "drop supplementary groups");
    if (setresgid(id, id, id) || setresuid(id, id, id))
        return errno == EINVAL ? 0 : fail(err, errno, "change to an id of its own");
    return 0;
}

/* confine-caps. Should: leave none, or the launcher's few. */
static int step_caps(const struct state *s, struct gb_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    if (syscall(SYS_capget, &header, caps))
        return fail(err, errno, "read the capability sets");
    for (int i = 0; i < 2; i++) {
        caps[i].permitted &= (uint32_t)(kept_caps(s) >> (32 * i));
        caps[i].effective = caps[i].permitted;
        caps[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, caps) ? fail(err, errno, "drop capabilities") : 0;
}

/* confine-nnp. Should: make setuid bits and file capabilities mean nothing, for ever. */
static int step_nnp(const struct state *s, struct gb_err *err)
{
    (void)s;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? fail(err, errno, "set no_new_privs") : 0;
}

/* confine-hidden. Should: keep other processes of the same user out of our memory; it holds keys and the
 * channels. Comes after the change of user, which undoes it. */
static int step_hidden(const struct state *s, struct gb_err *err)
{
    (void)s;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ? fail(err, errno, "become undumpable") : 0;
}

/* confine-life. Should: die with the supervisor, however it dies; also if it is dead already. After the
 * change of user, which undoes it. */
static int step_life(const struct state *s, struct gb_err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        return fail(err, errno, "ask to die with the supervisor");
    return getppid() == s->parent ? 0 : fail(err, ESRCH, "the supervisor is dead");
}

/* --- landlock, system calls --- */

/* confine-landlock. Should: deny every file but those beneath one directory, tcp, and signals and abstract
 * sockets of others. For an ordinary user, who has no namespaces here, it is the wall on files. */
static int step_landlock(const struct state *s, struct gb_err *err)
{
    const int abi = gb_landlock_version();
    if (!abi && s->c->degraded && gb_text_in_list(s->c->degraded, "landlock"))
        return 0;
    if (!abi) {
        fail(err, ENOSYS, "this kernel has no landlock");
        gb_err_hint(err,
                    "boot a kernel from 5.13 on with landlock in its lsm= list, or allow to go without it");
        return -ENOSYS;
    }
    const uint64_t fs = GB_LL_ABI1 | (abi >= 2 ? GB_LL_REFER : 0U) | (abi >= 3 ? GB_LL_TRUNCATE : 0U) |
                        (abi >= 5 ? GB_LL_IOCTL_DEV : 0U);
    const struct gb_landlock_attr attr = {
            .fs = fs, .net = abi >= 4 ? GB_LL_TCP : 0, .scoped = abi >= 6 ? GB_LL_SCOPES : 0};
    const uint64_t files = (GB_LL_READ_FILE | GB_LL_READ_DIR | GB_LL_WRITE_FILE | GB_LL_TRUNCATE |
                            GB_LL_REMOVE_FILE | GB_LL_MAKE_REG) &
                           fs;
    AUTO_FD ruleset = gb_landlock_create(&attr);
    if (ruleset < 0 || (s->c->rw_fd >= 0 && gb_landlock_allow(ruleset, s->c->rw_fd, files)) ||
        gb_landlock_enter(ruleset))
        return fail(err, errno, "enter a landlock ruleset");
    return 0;
}

/* confine-seccomp. Should: be the last step. */
static int step_seccomp(const struct state *s, struct gb_err *err)
{
    const struct gb_confine_filter *f = NULL;
    for (unsigned i = 0; i < gb_confine_filter_count; i++)
        if (!strcmp(gb_confine_filters[i].name, s->c->name))
            f = &gb_confine_filters[i];
    if (!f)
        return fail(err, ENOENT, "there is no system call policy of that name");
    const struct sock_fprog program = {(unsigned short)f->len, (struct sock_filter *)f->code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? fail(err, errno, "load the filter")
                                                                      : 0;
}

/* --- all of it, in order --- */

enum who { SERVANTS = 1, LAUNCHER = 2, ALL = SERVANTS | LAUNCHER };

static const struct step {
    const char *name;
    enum who who;
    bool root; /* needs privilege, and is left out without */
    int (*apply)(const struct state *s, struct gb_err *err);
} steps[] = {
        {"confine-net", ALL, true, step_net},
        {"confine-ipc", ALL, true, step_ipc},
        {"confine-root", SERVANTS, true, step_root},
        {"confine-view", LAUNCHER, true, step_view},
        {"confine-directory", ALL, false, step_directory},
        {"confine-rlimits", ALL, false, step_rlimits},
        {"confine-bounding", ALL, true, step_bounding},
        {"confine-identity", SERVANTS, true, step_identity},
        {"confine-caps", ALL, true, step_caps},
        {"confine-nnp", ALL, false, step_nnp},
        {"confine-hidden", ALL, false, step_hidden},
        {"confine-life", ALL, false, step_life},
        {"confine-landlock", SERVANTS, false, step_landlock},
        {"confine-seccomp", ALL, false, step_seccomp},
};

int gb_confine_enter(const struct gb_confine *c, pid_t parent, struct gb_err *err)
{
    const struct state s = {.c = c, .parent = parent, .root = geteuid() == 0};
    const enum who who = c->keep_root ? LAUNCHER : SERVANTS;
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
