/* In the zygote: bearing boxes. */
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
#define NETS    1024 /* boxes that live at once */
#define REAP_MS 1000 /* the dead are looked for before each birth, and when there is none for this long */

/* Network namespaces. To make one costs more than all the rest of a box, so they are used again: by one box
 * at a time, and by the next only when no process and no socket of the one before is left. A box owns no
 * right over the one it is in and can make no socket in it but unix ones, so that it leaves nothing else. */
static struct net {
    int fd;
    pid_t user; /* 0: free */
} nets[NETS];
static unsigned net_count;

static struct net *taken; /* by the box that is about to be born */

/* No socket is left in the namespace that we are in. Those that a dead box has sent to itself outlive it,
 * names and all, until the kernel looks for such, which it does when some socket is closed. */
static bool is_clean(int proc_fd)
{
    static const char none[] = "sockets: used 0\n";
    char text[512] = "";
    if (!GB_WALL("net-clean"))
        return true;
    if (gb_fd_get(proc_fd, "thread-self/net/sockstat", text, sizeof(text)) > 0 &&
        !strncmp(text, none, strlen(none)))
        return true;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return false; /* another time */
}

/* Enters one that was used before, if there is one that can be. */
static struct net *enter_used(int proc_fd)
{
    for (unsigned i = 0; i < net_count; i++)
        if ((!nets[i].user || !GB_WALL("net-own")) && !setns(nets[i].fd, CLONE_NEWNET) && is_clean(proc_fd))
            return &nets[i];
    return NULL;
}

/* Makes one, and is in it: this thread alone, which need not be the one that /proc/self tells of. */
static int make_net(int proc_fd, struct net **ret)
{
    if (net_count == NETS)
        return -EAGAIN;
    if (unshare(CLONE_NEWNET)) /* also for the first: in ours may be threads of ours */
        return -errno;
    int fd = openat(proc_fd, "thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret = &nets[net_count++];
    **ret = (struct net){.fd = fd};
    return 0;
}

/* ns-net, where a zygote bears the box. Should: put the box into a network namespace that nobody else is in
 * and that has nothing but a loopback device that is down. */
int gb_net_enter(struct gb_box *box, struct gb_err *err)
{
    taken = enter_used(box->proc_fd);
    int r = taken ? 0 : make_net(box->proc_fd, &taken);
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "make a network namespace") : 0;
}

static unsigned reap(void)
{
    unsigned alive = 0;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0;)
        for (unsigned i = 0; i < net_count; i++)
            if (nets[i].user == pid)
                nets[i].user = 0;
    for (unsigned i = 0; i < net_count; i++)
        alive += nets[i].user != 0;
    return alive;
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

/* Closes all above the channel but init's image and the scratch file system: a zygote has as many as it has
 * network namespaces, and what is opened from here on needs numbers below the box's limit. */
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
static int tell_ready(struct gb_box *box)
{
    AUTO_FD init = pidfd_open(getpid(), 0);
    AUTO_FD mounts = init < 0 ? -1 : ioctl(init, PIDFD_GET_MNT_NAMESPACE, 0);
    const int fds[] = {
            [GB_READY_SCRATCH] = box->scratch_fd, [GB_READY_INIT] = init, [GB_READY_MOUNTS] = mounts};
    return init < 0 ? -errno : gb_channel_ready(box, fds, GB_READY_MOUNTS + (mounts >= 0));
}

/* PID 1. Returns only in what `born` has forked. */
static __attribute__((noinline)) void grow(const struct gb_nursery *n, struct gb_box *box, bool leisure)
{
    struct gb_err err = {0};
    int control = -1;
    long waiting = 0;
    if (GB_WALL("umask"))
        umask(022);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the change of uid has made our own id maps root's */
    /* Of our own copy of the mounts. */
    box->root_fd = open(gb_steps_stand("pivot") ? "/" : "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = box->root_fd < 0 ? gb_err_set(&err, GB_ERR_BUSY, errno, "open the root of the box")
                             : gb_steps_run(box, GB_SIDE_BOX, &err);
    if (!r && (r = close_others(box)))
        gb_err_set(&err, GB_ERR_INTERNAL, -r, "close what is the zygote's");
    if (!r && n->born) {
        waiting = n->born(leisure, &control);
        if (waiting == 0)
            return;
        if (waiting < 0)
            r = gb_err_set(&err, GB_ERR_BUSY, errno, "start the interpreter of the box");
    }
    if (!r && (r = tell_ready(box)))
        gb_err_set(&err, GB_ERR_BUSY, -r, "hand out the box");
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
    ssize_t got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    *ret_count = 0;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        *ret_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), *ret_count * sizeof(int));
    }
    ret->degraded[sizeof(ret->degraded) - 1] = '\0';
    return got == (ssize_t)sizeof(*ret) && *ret_count >= 4 ? 0 : got == 0 ? -EPIPE : -EPROTO;
}

static void fill(struct gb_box *box, const struct gb_nursery *n, const struct gb_birth *birth, const int *fds,
                 unsigned count)
{
    box->warm = true;
    box->proc_fd = n->proc_fd;
    box->image_fd = n->image_fd;
    box->host_uid = box->host_gid = birth->uid;
    box->box_channel = fds[0];
    for (int i = 0; i < 3; i++)
        box->box_stdio[i] = fds[1 + i];
    box->cgroup.version = birth->cgroup_version;
    for (unsigned i = 4; i < count; i++)
        box->cgroup.tasks_fd[i - 4] = fds[i];
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
                                                     struct gb_box *box, bool leisure)
{
    const long pid = gb_call(__NR_clone3, (long)args, sizeof(*args), 0, 0, 0);
    if (pid == 0)
        grow(n, box, leisure);
    return pid;
}

/* As the uid that the box will have, since only under its own uid may it map itself. Our user namespace has
 * that uid, and the right to become it and to come back is ours. */
static long clone_as(struct gb_box box, struct clone_args *args, const struct gb_nursery *n, bool leisure)
{
    if (gb_steps_stand("ns-user") &&
        (syscall(SYS_setresgid, -1, box.host_gid, -1) || syscall(SYS_setresuid, -1, box.host_uid, -1)))
        return -errno;
    const long pid = clone_and_grow(args, n, &box, leisure); /* on its own copy of the box */
    if (pid == 0)
        return 0;
    /* A change of user undoes the wish to die with the supervisor. */
    if (syscall(SYS_setresuid, -1, 0, -1) || syscall(SYS_setresgid, -1, 0, -1) ||
        (GB_WALL("zygote-death") && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)))
        _exit(1);
    return pid;
}

/* Bears one box. Returns 0 only in what waits in it. */
static int bear(const struct gb_nursery *n, const struct gb_birth *birth, const int *fds, unsigned count)
{
    const struct gb_spec spec = {.limits = birth->limits,
                                 .degraded = *birth->degraded ? birth->degraded : NULL};
    struct gb_err err = {0};
    struct gb_box box;
    gb_box_init(&box, &spec);
    fill(&box, n, birth, fds, count);
    taken = NULL;
    int r = gb_steps_run(&box, GB_SIDE_ZYGOTE, &err);
    struct clone_args args = {.flags = gb_steps_clone_flags(&box)};
#ifdef GB_TESTING
    if (gb_userns_maps_itself()) /* else it waits for us */
#endif
        args.flags |= SHARED;
    const long pid = r ? -1 : clone_as(box, &args, n, birth->leisure);
    if (pid == 0)
        return 0;
    if (!r && pid < 0)
        gb_err_set(&err, pid == -EAGAIN || pid == -ENOMEM ? GB_ERR_BUSY : GB_ERR_LAYER, (int)-pid,
                   "bear a box");
    if (pid > 0 && taken)
        taken->user = (pid_t)pid;
#ifdef GB_TESTING
    if (pid > 0 && !gb_userns_maps_itself())
        (void)gb_userns_map_other(&box, pid);
#endif
    if (pid < 0)
        (void)gb_channel_report(&box, GB_REPORT_FAILED, &err);
    return -1;
}

/* Where it fails, each box looks for itself. */
static void keep_directories(void)
{
    AUTO_FD root = gb_steps_stand("pivot") ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (root >= 0)
        (void)gb_landlock_keep(root);
}

bool gb_nursery_serve(struct gb_nursery *n)
{
    struct gb_birth birth;
    int fds[GB_BIRTH_FDS];
    unsigned count;
    keep_directories();
    for (bool open = true;;) {
        const unsigned alive = reap();
        if (!open && !alive)
            return false;
        struct pollfd p = {.fd = open ? n->socket : -1, .events = POLLIN};
        if (poll(&p, 1, alive ? REAP_MS : -1) <= 0 || !p.revents)
            continue;
        int r = receive(n->socket, &birth, fds, &count);
        if (!r) {
            reap();
            r = bear(n, &birth, fds, count);
            if (!r)
                return true;
        } else if (r == -EPIPE)
            open = false;
        for (unsigned i = 0; i < count; i++)
            close(fds[i]);
    }
}
