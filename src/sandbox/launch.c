#include "sandbox/launch.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/wall.h"
#include "sandbox/channel.h"
#include "sandbox/netns.h"
#include "sandbox/steps.h"
#include "sandbox/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_SECONDS 60 /* a set-up that hangs (a dead network file system below /usr, say) is given up */
#define MAX_GROUPS    1024

static int open_image(struct gb_box *box, struct gb_err *err)
{
    int fd = memfd_create("glovebox-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before 6.3 every memfd is executable */
        fd = memfd_create("glovebox-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    box->image_fd = fd;
    int r = fd < 0 ? -errno : gb_fd_write_all(fd, gb_init_image, gb_init_image_bytes);
    /* Not readable, only executable: then the kernel keeps init out of its box's reach from its first
     * instruction. */
    if (!r && (fchmod(fd, 0111) ||
               fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)))
        r = -errno;
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "prepare the image of init (is vm.memfd_noexec 2?)") : 0;
}

/* Two fresh ends: ours and the box's. */
static int open_pipe(int *ret_ours, int *ret_box, bool to_box, struct gb_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return gb_err_set(err, GB_ERR_BUSY, errno, "make a pipe");
    *ret_ours = ends[to_box];
    *ret_box = ends[!to_box];
    return 0;
}

/* A pipe of the caller's. Must not: be anything else, since it is about to be given to the box's user: not a
 * file, and no FIFO that has a name on some file system. */
static int take_pipe(int fd, int *ret_box, struct gb_err *err)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) || fs.f_type != PIPEFS_MAGIC)
        return gb_err_set(err, GB_ERR_USAGE, 0, "stdout and stderr of a box must be pipes");
    *ret_box = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *ret_box < 0 ? gb_err_set(err, GB_ERR_BUSY, errno, "take a pipe") : 0;
}

static int open_stdio(struct gb_box *box, struct gb_err *err)
{
    const int *theirs = box->spec->out_fd;
    int r = open_pipe(&box->stdin_fd, &box->box_stdio[0], true, err);
    for (int i = 0; !r && i < 2; i++)
        r = theirs[0] >= 0 ? take_pipe(theirs[i], &box->box_stdio[i + 1], err)
                           : open_pipe(&box->out_fd[i], &box->box_stdio[i + 1], false, err);
    if (r)
        return r;
    /* Only our ends: the flag belongs to the end, not to the pipe, and programs expect blocking input and
     * output. */
    const int ours[] = {box->stdin_fd, box->out_fd[0], box->out_fd[1]};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (ours[i] >= 0 && fcntl(ours[i], F_SETFL, O_NONBLOCK))
            return gb_err_set(err, GB_ERR_INTERNAL, errno, "set up a pipe");
    /* Theirs, so that the program can open /dev/stdout and its like. */
    for (size_t i = 0; box->host_uid != geteuid() && i < ARRAY_LEN(box->box_stdio); i++)
        if (fchown(box->box_stdio[i], box->host_uid, box->host_gid))
            return gb_err_set(err, GB_ERR_INTERNAL, errno, "give a pipe to the box");
    return 0;
}

/* --- inside the box --- */

static void box_main(struct gb_box *box) __attribute__((noreturn));
static void box_main(struct gb_box *box)
{
    struct gb_err err = {0};
    /* From the first moment; the step of that name does it again, because a change of user undoes it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (GB_WALL("umask"))
        umask(022); /* the caller's may not even let us into the directories that we make */
    close(TAKE_FD(box->channel));
    box->unequipped = true;
    gb_netns_begin(box);
    if (!gb_steps_run(box, GB_SIDE_BOX, &err) && !gb_channel_ready(box, &box->scratch_fd, 1, &err)) {
        execveat(box->image_fd, "", (char *const *)box->spec->argv, (char *const *)box->spec->env,
                 AT_EMPTY_PATH);
        gb_err_set(&err, errno == E2BIG ? GB_ERR_USAGE : GB_ERR_INTERNAL, errno, "start init");
    }
    gb_channel_report(box, GB_REPORT_FAILED, &err);
    _exit(1);
}

/* --- the clone --- */

/* A user namespace freezes supplementary groups for good, so they must go before it. Root can; an ordinary
 * user cannot, and the receipt says how many stayed. Raw calls: this thread only, and for the length of one
 * clone. */
static int drop_groups(gid_t *saved)
{
    int count = getgroups(MAX_GROUPS, saved);
    if (GB_WALL("groups") && count > 0 && syscall(SYS_setgroups, 0, NULL) == 0)
        return count;
    return 0;
}

long gb_launch_clone(struct gb_box *box, uint64_t more_flags)
{
    gid_t groups[MAX_GROUPS];
    struct clone_args args = {.flags = gb_steps_clone_flags(box, GB_SIDE_CLONE) | more_flags | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&box->init_fd};
    if (box->cgroup.version == 2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->cgroup.fd[0];
    }
    /* No exit signal: a program that links us keeps its SIGCHLD and its wait() to itself. */
    int dropped = drop_groups(groups);
    box->receipt.extra_groups = dropped ? 0 : getgroups(0, NULL);
    long pid = gb_sys_clone3(&args);
    int error = errno;
    if (pid == 0)
        return 0;
    if (dropped)
        (void)!syscall(SYS_setgroups, (size_t)dropped, groups);
    errno = error;
    return pid;
}

static bool can_clone(uint64_t flags, int cgroup)
{
    struct clone_args args = {.flags = flags, .cgroup = (uint64_t)cgroup};
    long pid = gb_sys_clone3(&args);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, __WALL);
    return pid > 0;
}

/* The clone failed as a whole: ask for each part alone, to name the one that is missing. */
int gb_launch_explain(struct gb_box *box, int error, struct gb_err *err)
{
    if (error == EAGAIN || error == ENOMEM)
        return gb_err_set(err, GB_ERR_BUSY, error, "start a process for the box");
    const struct gb_step *culprit = NULL;
    for (unsigned i = 0; i < gb_step_count && !culprit; i++)
        if (gb_steps[i].side == GB_SIDE_CLONE &&
            !can_clone(CLONE_NEWUSER | gb_steps_clone_flag(&gb_steps[i]), 0))
            culprit = &gb_steps[i];
    /* Born into a v2 cgroup: that needs a right on the cgroup above both, which an ordinary user's login
     * often lacks. */
    if (!culprit && box->cgroup.version == 2 && !can_clone(CLONE_INTO_CGROUP, box->cgroup.fd[0]))
        culprit = gb_steps_find("cgroup-join");
    const char *name = culprit ? culprit->name : "namespaces";
    int r = gb_err_set(err, GB_ERR_LAYER, error, "%s: start the box", name);
    snprintf(err->step, sizeof(err->step), "%s", name);
    if (culprit)
        gb_err_hint(err, "%s", culprit->remedy);
    return r;
}

/* --- the supervisor's half of the set-up --- */

static int take_ready(struct gb_box *box, const int fds[GB_REPORT_FDS], struct gb_err *err)
{
    box->scratch_fd = fds[GB_READY_SCRATCH];
    box->mounts_fd = fds[GB_READY_MOUNTS];
    if (box->zygote)
        box->init_fd = fds[GB_READY_INIT];
    if (box->scratch_fd < 0 || box->init_fd < 0)
        return gb_err_set(err, GB_ERR_BUSY, EMFILE, "take the descriptors of the box");
    return 0;
}

/* One report of the set-up, or -EAGAIN if none comes before the deadline. */
static int receive(struct gb_box *box, int64_t deadline_us, struct gb_report *report, struct gb_err *err)
{
    struct pollfd p[] = {{.fd = box->channel, .events = POLLIN},
                         {.fd = box->spec->cancel_fd, .events = POLLIN}};
    int fds[GB_REPORT_FDS];
    for (;;) {
        int64_t left_ms = (deadline_us - gb_clock_us()) / 1000;
        int n = poll(p, ARRAY_LEN(p), left_ms < 0 ? 0 : (int)left_ms);
        if (p[0].revents)
            break;
        if (n > 0)
            return gb_err_set(err, GB_ERR_INTERNAL, ECANCELED, "cancelled before the program started");
        if (n == 0)
            return gb_err_set(err, GB_ERR_BUSY, ETIMEDOUT, "the box did not finish its set-up in time");
        if (errno != EINTR)
            return gb_err_set(err, GB_ERR_INTERNAL, errno, "wait for the box");
    }
    if (gb_channel_receive(box, report, fds))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "the box died during its set-up");
    if (report->kind == GB_REPORT_READY)
        return take_ready(box, fds, err);
    for (int i = 0; i < GB_REPORT_FDS; i++)
        gb_auto_close(&fds[i]);
    if (report->kind == GB_REPORT_FAILED) {
        if (err)
            *err = report->err;
        return report->err.errnum ? -report->err.errnum : -EINVAL;
    }
    return 0;
}

static int64_t setup_us(void)
{
#ifdef GB_TESTING
    const char *ms = getenv("GLOVEBOX_TEST_SETUP_MS");
    if (ms)
        return strtoll(ms, NULL, 10) * 1000;
#endif
    return (int64_t)SETUP_SECONDS * 1000000;
}

static int await_ready(struct gb_box *box, struct gb_err *err)
{
    struct gb_report ready = {.kind = -1};
    const int64_t deadline_us = gb_clock_us() + setup_us();
    do {
        int r = receive(box, deadline_us, &ready, err);
        if (r)
            return r;
    } while (ready.kind != GB_REPORT_READY);
    box->receipt.applied |= ready.applied;
    box->receipt.degraded |= ready.degraded;
    box->receipt.landlock_abi = ready.landlock_abi;
    snprintf(box->receipt.seccomp_profile, sizeof(box->receipt.seccomp_profile), "%s",
             gb_steps_applied(ready.applied, "seccomp") ? "default" : "none");
    box->receipt.cgroup_version = box->cgroup.version;
    if (box->cgroup.version)
        snprintf(box->receipt.controllers, sizeof(box->receipt.controllers), "memory,pids,cpu");
    return 0;
}

/* Our step failed, perhaps because the box died of its own failure first: then that is the one to tell. */
static void prefer_box_error(struct gb_box *box, struct gb_err *err)
{
    struct gb_err theirs = {0};
    struct gb_report report;
    while (!receive(box, 0, &report, &theirs))
        ;
    if (*theirs.step)
        *err = theirs;
}

/* The box is at work on its root meanwhile; what it needs of us comes in the order in which it needs it. */
static int finish(struct gb_box *box, struct gb_err *err)
{
    int r = gb_steps_run(box, GB_SIDE_PARENT, err);
    if (!r)
        r = open_image(box, err);
    if (!r)
        r = open_stdio(box, err);
    if (!r)
        r = gb_channel_equip(box, err);
    if (r) {
        prefer_box_error(box, err);
        return r;
    }
    gb_cgroup_sweep(&box->cgroup);
    return await_ready(box, err);
}

void gb_launch_kill(struct gb_box *box)
{
    siginfo_t info;
    if (box->init_fd < 0)
        return;
    pidfd_send_signal(box->init_fd, SIGKILL, NULL, 0);
    if (box->zygote) { /* whose cradle reaps it */
        struct pollfd p = {.fd = box->init_fd, .events = POLLIN};
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
            ;
        return;
    }
    while (waitid(P_PIDFD, (id_t)box->init_fd, &info, WEXITED | __WALL) < 0 && errno == EINTR)
        ;
}

static int open_ways(struct gb_box *box, struct gb_err *err)
{
    box->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (box->proc_fd < 0)
        return gb_err_set(err, GB_ERR_LAYER, errno, "open /proc");
    return gb_channel_open(box, err);
}

int gb_launch_prepare(struct gb_box *box, struct gb_err *err)
{
    int r = open_ways(box, err);
    return r ? r : open_image(box, err);
}

/* From this process. It is cloned as soon as can be: then two work. */
static int start_cold(struct gb_box *box, struct gb_err *err)
{
    box->born_inside = box->cgroup.version ? box->cgroup.version == 2 : gb_cgroup_is_v2();
    int r = open_ways(box, err);
    if (!r)
        r = gb_steps_run(box, GB_SIDE_PREPARE, err);
    if (r)
        return r;
    long pid = gb_launch_clone(box, 0);
    if (pid == 0)
        box_main(box);
    if (pid < 0)
        return gb_launch_explain(box, errno, err);
    box->init_pid = (pid_t)pid;
    close(TAKE_FD(box->box_channel));
    return finish(box, err);
}

static int ask_for_birth(struct gb_box *box, bool sweep, struct gb_err *err)
{
    int r = gb_channel_open(box, err);
    if (!r)
        r = gb_zygote_ask(box, err);
    gb_close(&box->box_channel);
    if (r)
        return r;
    gb_close(&box->past_mounts_fd); /* the zygote is at work meanwhile */
    if (sweep)
        gb_cgroup_sweep(&box->cgroup);
    return await_ready(box, err);
}

/* From a zygote. */
static int start_warm(struct gb_box *box, struct gb_err *err)
{
    const bool recycled = box->cgroup.version != 0;
    int r = gb_steps_run(box, GB_SIDE_PREPARE, err);
    if (!r)
        r = open_stdio(box, err);
    if (r)
        return r;
    box->receipt.applied |= box->zygote->receipt.applied;
    box->receipt.degraded |= box->zygote->receipt.degraded;
    box->receipt.extra_groups = box->zygote->receipt.extra_groups;
    const bool used = box->cradle_fd >= 0;
    r = ask_for_birth(box, !recycled, err);
    if (!r || box->init_fd >= 0)
        return r;
    gb_close(&box->cradle_fd); /* it bears no more, since something was left in it, or it is dead */
    if (!used || r == -ETIMEDOUT || r == -ECANCELED)
        return r;
    gb_close(&box->channel);
    *err = (struct gb_err){0};
    return ask_for_birth(box, false, err);
}

int gb_launch(struct gb_box *box, struct gb_err *err)
{
    box->warm = box->zygote != NULL;
    box->buffer = box->buffer ? box->buffer : malloc(GB_BOX_BUFFER);
    if (!box->buffer)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "make the buffers of the streams");
    int r = box->zygote ? start_warm(box, err) : start_cold(box, err);
    gb_box_close_ends(box);
    if (r)
        gb_launch_kill(box);
    return r;
}

int gb_launch_start(struct gb_box *box, char go, const int *payloads, unsigned count, struct gb_err *err)
{
    box->cpu_before_us = gb_cgroup_cpu_us(&box->cgroup);
    int r = gb_steps_run(box, GB_SIDE_START, err);
    if (r)
        return r;
    r = gb_channel_send(box->channel, &go, 1, payloads, count);
    return r ? gb_err_set(err, GB_ERR_INTERNAL, -r, "tell the box to start") : 0;
}
