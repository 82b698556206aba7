/* What a process inherits without asking: signals, masks, priority, terminal, descriptors, parentage. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/wall.h"
#include "sandbox/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* hostname. Should: show a neutral name. */
int gb_process_hostname(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    if (sethostname("glovebox", 8) || setdomainname("", 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "set the host name");
    return 0;
}

/* process. Should: start the program in the state of a fresh login, whatever our caller had: an inherited
 * SIGCHLD or blocked signal has broken sandboxed programs before (bubblewrap #705). Must not: keep a
 * controlling terminal (TIOCSTI). */
int gb_process_reset(struct gb_box *box, struct gb_err *err)
{
    AUTO_FD workdir = openat(box->root_fd, "sandbox", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (workdir < 0 || fchdir(workdir))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "enter %s", GB_WORKDIR);
    /* The raw call: the C library's refuses its own two signals, which posix_spawn leaves ignored. All zero
     * is SIG_DFL. */
    const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } plain = {0};
    /* A zygote has done this for itself; what its interpreter has set since, its boxes need. */
    for (int sig = 1; !box->warm && GB_WALL("signal-handlers") && sig < NSIG; sig++)
        (void)syscall(SYS_rt_sigaction, sig, &plain, NULL,
                      sizeof(plain.mask)); /* SIGKILL and SIGSTOP: EINVAL, and never inherited */
    sigset_t none;
    sigemptyset(&none);
    if (GB_WALL("signal-mask") && sigprocmask(SIG_SETMASK, &none, NULL))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "clear the signal mask");
    if (GB_WALL("personality") && personality(PER_LINUX) < 0)
        return gb_err_set(err, GB_ERR_LAYER, errno, "reset the personality");
    /* Never better than the default; a caller that runs niced keeps that for its boxes. */
    if (GB_WALL("priority") && getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "reset the priority");
    /* Raw calls: musl's are of POSIX, of which Linux has another notion, and refuse. */
    const struct sched_param param = {0};
    if (syscall(SYS_sched_getscheduler, 0) != SCHED_OTHER &&
        syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &param))
        return gb_err_set(err, GB_ERR_LAYER, errno, "reset the scheduling class");
    if (GB_WALL("session") && setsid() < 0)
        return gb_err_set(err, GB_ERR_LAYER, errno, "start a session without a terminal");
    return 0;
}

/* die-with-parent. Should: take the whole box down when the supervisor dies, however it dies. The supervisor
 * may have died before this line: then the channel's other end is closed, and the next report on it fails. */
int gb_process_die_with_parent(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "ask to die with the supervisor");
    return 0;
}

static int close_one(void *context, const char *name)
{
    unsigned long fd = strtoul(name, NULL, 10);
    return fd >= *(const unsigned *)context && fcntl((int)fd, F_SETFD, FD_CLOEXEC) ? -errno : 0;
}

static int close_on_exec_from(unsigned first)
{
    if (!close_range(first, ~0U, CLOSE_RANGE_CLOEXEC))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* Before 5.11: one by one, as /proc lists them. */
    AUTO_FD dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -errno : gb_fd_each(dir, close_one, &first);
}

/* descriptors. Should: leave stdin, stdout, stderr (three pipes) and init's channel; everything else closes
 * when init starts. Must not: rely on each open() in the supervisor, or in a program that links us, having
 * asked for close-on-exec (CVE-2024-21626). */
int gb_process_descriptors(struct gb_box *box, struct gb_err *err)
{
    if (gb_channel_take_equipment(box))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "wait for the pipes");
    const int want[] = {box->box_stdio[0], box->box_stdio[1], box->box_stdio[2], box->box_channel};
    int high[ARRAY_LEN(want)];
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        high[i] = fcntl(want[i], F_DUPFD_CLOEXEC, GB_INIT_CHANNEL + 1); /* out of the way of 0 to 3 */
        if (high[i] < 0)
            return gb_err_set(err, GB_ERR_LAYER, errno, "move descriptor %d", want[i]);
    }
    AUTO_FD image = box->image_fd < 0 ? -1 : fcntl(box->image_fd, F_DUPFD_CLOEXEC, GB_INIT_CHANNEL + 1);
    if (image < 0 && box->image_fd >= 0) /* a warm interpreter has no use for it */
        return gb_err_set(err, GB_ERR_LAYER, errno, "move the image of init");
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (dup2(high[i], (int)i) < 0)
            return gb_err_set(err, GB_ERR_LAYER, errno, "place descriptor %zu", i);
    int r = GB_WALL("close-fds") ? close_on_exec_from(GB_INIT_CHANNEL + 1) : 0;
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "mark all other descriptors close-on-exec");
    box->box_channel = GB_INIT_CHANNEL;
    box->image_fd = TAKE_FD(image);
    return 0;
}
