/* In the zygote and its cradles: bearing boxes. */
#include "sandbox/birth.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/wall.h"
#include "init/call.h"
#include "init/report.h"
#include "sandbox/channel.h"
#include "sandbox/steps.h"
#include "sandbox/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PIDFD_GET_MNT_NAMESPACE
#define PIDFD_GET_MNT_NAMESPACE _IO(0xFF, 3) /* from 6.11 on */
#endif
#define REAP_MS     1000              /* how often dead cradles are looked for, at least */
#define CRADLE_NAME "glovebox-cradle" /* in a list of processes */

/* Cradles: clones of the zygote, each in a user, network and uts namespace of its own, where it bears one box
 * after the other. To make these anew for every box would cost nearly as much as all the rest of it. A box
 * has no right over them, can make no socket but unix ones, and no other user namespace: so it leaves nothing
 * there but sockets, and the next is borne when no process and no socket of the one before is left. */
static struct {
    int sockstat;              /* of the network namespace */
    pid_t box;                 /* that was borne last; 0: none, or it is reaped */
    struct gb_receipt receipt; /* of what was done for all its boxes */
    char degraded[128];        /* what may be missing in them */
} cradle;

/* No socket is left in the namespace. Those that a dead box has sent to itself outlive it, names and all,
 * until the kernel looks for such, which may be a while. */
static bool is_clean(void)
{
    static const char none[] = "sockets: used 0\n";
    char text[sizeof(none) - 1];
    if (!gb_steps_stand("ns-net") || !GB_WALL("net-clean"))
        return true;
    return pread(cradle.sockstat, text, sizeof(text), 0) == (ssize_t)sizeof(text) &&
           !memcmp(text, none, sizeof(text));
}

/* ns-net, where a zygote bears the box. Should: put the cradle into a network namespace that nobody else is
 * in and that has nothing but a loopback device that is down. Must not: be the cradle's own, over which it
 * would have rights. */
int gb_net_enter(struct gb_box *box, struct gb_err *err)
{
    static bool made;
    (void)box;
    if (made && !GB_WALL("net-own"))
        return 0;
    made = true;
    return unshare(CLONE_NEWNET) ? gb_err_set(err, GB_ERR_LAYER, errno, "make a network namespace") : 0;
}

/* --- in the new box --- */

void gb_birth_execute(char *const *argv, char *const *env)
{
    char full[4096];
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        return;
    }
    for (const char *p = GB_BOX_PATH; *p;) {
        const size_t len = strcspn(p, ":");
        snprintf(full, sizeof(full), "%.*s/%s", (int)len, p, argv[0]);
        execve(full, argv, env);
        p += len + (p[len] == ':');
    }
}

/* Executes init, which starts what is to wait in the box, or has the pipe to what waits there already. */
static void execute_init(const struct gb_nursery *n, struct gb_box *box, long waiting, int control,
                         struct gb_err *err)
{
    char number[16];
    const char *const nobody[] = {"", number, GB_WALL("channel-watch") ? NULL : "blind", NULL};
    snprintf(number, sizeof(number), "%ld", waiting);
    const int image = GB_INIT_CONTROL + 1;
    const unsigned first_closed = GB_INIT_CHANNEL + 1, last_closed = (unsigned)image - 1 - (control >= 0);
    int ends[2];
    if ((control >= 0 && (control = fcntl(control, F_DUPFD_CLOEXEC, image + 1)) < 0) ||
        (box->image_fd != image && dup3(box->image_fd, image, O_CLOEXEC) < 0) ||
        (control >= 0 && dup2(control, GB_INIT_CONTROL) < 0) ||
        (GB_WALL("close-fds") && close_range(image + 1, ~0U, 0)) ||
        close_range(first_closed, last_closed, 0) ||
        (n->ahead && (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFD, 0) || fcntl(ends[1], F_SETFD, 0)))) {
        gb_err_set(err, GB_ERR_INTERNAL, errno, "place the descriptors of init");
        return;
    }
    execveat(image, "", (char *const *)(n->ahead ? n->ahead : nobody), (char *const *)gb_spec_env,
             AT_EMPTY_PATH);
    gb_err_set(err, GB_ERR_INTERNAL, errno, "start init");
}

/* Closes all above the channel but init's image and the scratch file system: what is opened from here on
 * needs numbers below the box's limit. */
static int close_others(const struct gb_box *box)
{
    const int image = box->image_fd, scratch = box->scratch_fd;
    const unsigned low = (unsigned)(image < scratch ? image : scratch),
                   high = (unsigned)(image < scratch ? scratch : image), first = GB_INIT_CHANNEL + 1;
    if (!GB_WALL("close-fds"))
        return 0;
    if ((low > first && close_range(first, low - 1, 0)) ||
        (high > low + 1 && close_range(low + 1, high - 1, 0)) || close_range(high + 1, ~0U, 0))
        return -errno;
    return 0;
}

/* The mount namespace goes to whoever wants the box, too: who is the last to have it takes it down and waits
 * until every processor has noticed, and if that were init, the answer would wait as well. Where the kernel
 * does not hand it out, init it is. */
static int tell_ready(struct gb_box *box, struct gb_err *err)
{
    AUTO_FD init = pidfd_open(getpid(), 0);
    AUTO_FD mounts = init < 0 ? -1 : ioctl(init, PIDFD_GET_MNT_NAMESPACE, 0);
    const int fds[] = {
            [GB_READY_SCRATCH] = box->scratch_fd, [GB_READY_INIT] = init, [GB_READY_MOUNTS] = mounts};
    return init < 0 ? gb_err_set(err, GB_ERR_BUSY, errno, "hand out the box")
                    : gb_channel_ready(box, fds, GB_READY_MOUNTS + (mounts >= 0), err);
}

/* PID 1. Returns only in what `born` has forked. */
static __attribute__((noinline)) void grow(const struct gb_nursery *n, struct gb_box *box)
{
    struct gb_err err = {0};
    int control = -1;
    long waiting = 0;
    if (GB_WALL("umask"))
        umask(022);
    /* Of our own copy of the mounts. */
    box->root_fd = open(gb_steps_stand("pivot") ? "/" : "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = box->root_fd < 0 ? gb_err_set(&err, GB_ERR_BUSY, errno, "open the root of the box")
                             : gb_steps_run(box, GB_SIDE_BOX, &err);
    if (!r && (r = close_others(box)))
        gb_err_set(&err, GB_ERR_INTERNAL, -r, "close what is the zygote's");
    if (!r && n->born) {
        waiting = n->born(&control);
        if (waiting == 0)
            return;
        if (waiting < 0)
            r = gb_err_set(&err, GB_ERR_BUSY, errno, "start the interpreter of the box");
    }
    if (!r)
        r = tell_ready(box, &err);
    if (!r)
        execute_init(n, box, waiting, control, &err);
    gb_channel_report(box, GB_REPORT_FAILED, &err);
    _exit(1);
}

/* --- births --- */

static int receive(int socket, struct gb_birth *ret, int *fds, unsigned *ret_count)
{
    struct iovec iov = {ret, sizeof(*ret)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * GB_BIRTH_FDS)];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    *ret_count = 0;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        *ret_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), *ret_count * sizeof(int));
    }
    ret->degraded[sizeof(ret->degraded) - 1] = '\0';
    return got == (ssize_t)sizeof(*ret) && *ret_count > GB_BIRTH_LEAST - 1 ? 0 : got == 0 ? -EPIPE : -EPROTO;
}

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

/* What was asked for, as a box that is yet to be borne. `spec` must live as long. */
static void conceive(struct gb_box *box, struct gb_spec *spec, const struct gb_nursery *n,
                     const struct gb_birth *birth, const int *fds, unsigned count)
{
    *spec = (struct gb_spec){.limits = birth->limits, .degraded = *birth->degraded ? birth->degraded : NULL};
    gb_box_init(box, spec);
    box->warm = true;
    box->proc_fd = n->proc_fd;
    box->image_fd = n->image_fd;
    box->host_uid = box->host_gid = birth->uid;
    box->box_channel = fds[0];
    for (int i = 0; i < 3; i++)
        box->box_stdio[i] = fds[1 + i];
    box->cgroup.version = birth->cgroup_version;
    for (unsigned i = GB_BIRTH_LEAST; i < count && i < GB_BIRTH_LEAST + GB_CG_COUNT; i++)
        box->cgroup.tasks_fd[i - GB_BIRTH_LEAST] = fds[i];
}

static void tell_failure(struct gb_box *box, long error, const char *what)
{
    struct gb_err err;
    gb_err_set(&err, error == -EAGAIN || error == -ENOMEM ? GB_ERR_BUSY : GB_ERR_LAYER, (int)-error, "%s",
               what);
    (void)gb_channel_report(box, GB_REPORT_FAILED, &err);
}

/* Memory is shared with the new process until that executes init, and we sleep meanwhile: to copy the memory
 * of an interpreter for a process that needs none of it, and to give it back, would cost as much as all else
 * that it does. So the two must not meet on the stack: the system call is made right here, and the new
 * process never returns from this function. What it forks has memory of its own, and does. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARED 0 /* which knows nothing of two processes on one stack */
#else
#define SHARED (CLONE_VM | CLONE_VFORK)
#endif
static __attribute__((noinline)) long clone_and_grow(struct clone_args *args, const struct gb_nursery *n,
                                                     struct gb_box *box)
{
    const long pid = gb_call(__NR_clone3, (long)args, sizeof(*args), 0, 0, 0);
    if (pid == 0)
        grow(n, box);
    return pid;
}

/* Bears one box. True only in what waits in it. */
static bool bear(const struct gb_nursery *n, const struct gb_birth *birth, const int *fds, unsigned count)
{
    struct gb_spec spec;
    struct gb_box box;
    conceive(&box, &spec, n, birth, fds, count);
    box.receipt.applied = cradle.receipt.applied;
    box.receipt.degraded = cradle.receipt.degraded;
    struct clone_args args = {.flags = gb_steps_clone_flags(&box, GB_SIDE_CLONE) | SHARED};
    const long pid = clone_and_grow(&args, n, &box);
    if (pid == 0)
        return true;
    if (pid > 0)
        cradle.box = (pid_t)pid;
    else
        tell_failure(&box, pid, "bear a box");
    return false;
}

/* --- in a cradle --- */

static void await_end(void)
{
    pid_t pid = 0;
    while (cradle.box && (pid = waitpid(cradle.box, NULL, __WALL)) < 0 && errno == EINTR)
        ;
    if (pid < 0) /* then nobody knows what is left */
        _exit(1);
    cradle.box = 0;
}

/* Until nobody asks any more, or something is left that no box may find: then who asks gets no answer, and
 * has a new cradle made. True: in what waits in a box. */
static bool rock(const struct gb_nursery *n)
{
    struct gb_birth birth;
    int fds[GB_BIRTH_FDS];
    unsigned count;
    while (!receive(n->socket, &birth, fds, &count)) {
        await_end();
        if (!is_clean() || strcmp(birth.degraded, cradle.degraded))
            return false;
        if (bear(n, &birth, fds, count))
            return true;
        close_all(fds, count);
    }
    await_end(); /* it notices by itself that its supervisor has left */
    return false;
}

static int furnish(struct gb_box *box, struct gb_err *err)
{
    prctl(PR_SET_NAME, CRADLE_NAME, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the change of uid has made our own id maps root's */
    int r = gb_steps_run(box, GB_SIDE_CRADLE, err);
    if (!r && gb_steps_stand("capabilities") && (r = gb_caps_bound(err)))
        snprintf(err->step, sizeof(err->step), "capabilities");
    if (r)
        return r;
    cradle.sockstat = openat(box->proc_fd, "thread-self/net/sockstat", O_RDONLY | O_CLOEXEC);
    if (cradle.sockstat < 0)
        return gb_err_set(err, GB_ERR_BUSY, errno, "look at the sockets of a cradle");
    /* Nobody looks into it or its boxes' PID 1, not even from one of them that had all rights there. */
    if (GB_WALL("cradle-dumpable"))
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    cradle.receipt = box->receipt;
    snprintf(cradle.degraded, sizeof(cradle.degraded), "%s", box->spec->degraded ? box->spec->degraded : "");
    return is_clean() ? 0
                      : gb_err_set(err, GB_ERR_LAYER, EBUSY, "ns-net: a new network namespace has sockets");
}

/* Comes back only in what waits in a box. */
static void live_in_cradle(struct gb_nursery n, struct gb_box *box, const struct gb_birth *birth,
                           const int *fds, unsigned count)
{
    struct gb_err err = {0};
    /* In the place of the zygote's: whatever a box opens has a number above those that it will have. */
    if (dup3(fds[0], n.socket, O_CLOEXEC) < 0)
        _exit(1);
    close(fds[0]);
    if (furnish(box, &err)) {
        (void)gb_channel_report(box, GB_REPORT_FAILED, &err);
        _exit(1);
    }
    if (bear(&n, birth, fds + 1, count - 1))
        return;
    close_all(fds + 1, count - 1);
    if (!rock(&n))
        _exit(0);
}

/* --- in the zygote --- */

/* As the uid that the box will have, since only under its own uid may its cradle map itself. Our user
 * namespace has that uid, and the right to become it and to come back is ours. */
static long clone_as(const struct gb_box *box, struct clone_args *args)
{
    if (gb_steps_stand("ns-user") &&
        (syscall(SYS_setresgid, -1, box->host_gid, -1) || syscall(SYS_setresuid, -1, box->host_uid, -1)))
        return -errno;
    const long pid = gb_call(__NR_clone3, (long)args, sizeof(*args), 0, 0, 0);
    if (pid == 0)
        return 0;
    /* A change of user undoes the wish to die with the supervisor. */
    if (syscall(SYS_setresuid, -1, 0, -1) || syscall(SYS_setresgid, -1, 0, -1) ||
        (GB_WALL("zygote-death") && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)))
        _exit(1);
    return pid;
}

/* Makes a cradle, which bears the first box right away. True only in what waits in one of its boxes. */
static bool found(const struct gb_nursery *n, const struct gb_birth *birth, const int *fds, unsigned count)
{
    struct gb_spec spec;
    struct gb_err err = {0};
    struct gb_box box;
    conceive(&box, &spec, n, birth, fds + 1, count - 1);
    if (gb_steps_run(&box, GB_SIDE_ZYGOTE, &err)) {
        (void)gb_channel_report(&box, GB_REPORT_FAILED, &err);
        return false;
    }
    struct clone_args args = {.flags = gb_steps_clone_flags(&box, GB_SIDE_CRADLE)};
    const long pid = clone_as(&box, &args);
    if (pid == 0) {
        live_in_cradle(*n, &box, birth, fds, count);
        return true;
    }
    if (pid < 0)
        tell_failure(&box, pid, "make a cradle");
#ifdef GB_TESTING
    else if (!gb_userns_maps_itself())
        (void)gb_userns_map_other(&box, (pid_t)pid);
#endif
    return false;
}

/* Where it fails, each box looks for itself. */
static void keep_directories(void)
{
    AUTO_FD root = gb_steps_stand("pivot") ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (root >= 0)
        (void)gb_landlock_keep(root);
}

/* Returns whether any is left. */
static bool reap(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
        ;
    return pid == 0;
}

bool gb_nursery_serve(struct gb_nursery *n)
{
    struct gb_birth birth;
    int fds[GB_BIRTH_FDS];
    unsigned count;
    keep_directories();
    for (bool open = true;;) {
        const bool any = reap();
        if (!open && !any)
            return false;
        struct pollfd p = {.fd = open ? n->socket : -1, .events = POLLIN};
        if (poll(&p, 1, any ? REAP_MS : -1) <= 0 || !p.revents)
            continue;
        int r = receive(n->socket, &birth, fds, &count);
        if (!r && count > GB_BIRTH_LEAST && found(n, &birth, fds, count))
            return true;
        open = r != -EPIPE;
        close_all(fds, count);
    }
}
