#include "sandbox/zygote.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/wall.h"
#include "sandbox/birth.h"
#include "sandbox/channel.h"
#include "sandbox/launch.h"
#include "sandbox/seccomp.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- in the new process --- */

/* Should: be root of its own user namespace, and of nothing else. */
static int become_root(struct gb_box *box, struct gb_err *err)
{
    if (gb_channel_await(box, GB_GO_MAPPED))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "wait for the id maps");
    if (syscall(SYS_setresgid, 0, 0, 0) || syscall(SYS_setresuid, 0, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "become root of the zygote's user namespace");
    return 0;
}

/* Should: leave the socket, /proc and stderr, for what an interpreter has to say when it cannot start. Must
 * not: leave anything else of the supervisor's: boxes are clones of this process. */
static int keep_descriptors(struct gb_box *box, int socket)
{
    AUTO_FD nothing =
            GB_WALL("dev-made") ? open("/dev/null", O_RDWR | O_CLOEXEC) : fcntl(2, F_DUPFD_CLOEXEC, 3);
    const int want[] = {nothing, nothing, 2, socket, box->proc_fd, box->image_fd};
    int high[ARRAY_LEN(want)];
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if ((high[i] = fcntl(want[i], F_DUPFD_CLOEXEC, (int)ARRAY_LEN(want))) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (dup2(high[i], (int)i) < 0)
            return -errno;
    return GB_WALL("zygote-fds") && close_range(ARRAY_LEN(want), ~0U, 0) ? -errno : 0;
}

static void run_interpreter(const struct gb_zygote_spec *spec) __attribute__((noreturn));
static void run_interpreter(const struct gb_zygote_spec *spec)
{
    char *const argv[] = {(char *)spec->program, (char *)spec->script, NULL};
    const char *env[16] = {0};
    for (size_t i = 0; i < gb_spec_env_count; i++)
        env[i] = gb_spec_env[i];
#ifdef GB_TESTING
    static const char *const passed[] = {
            "GLOVEBOX_TEST_SKIP=", "GLOVEBOX_TEST_FAIL=", "GLOVEBOX_TEST_SECCOMP_OFF="};
    size_t count = gb_spec_env_count;
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        for (char **e = environ; *e; e++)
            if (!strncmp(*e, passed[i], strlen(passed[i])))
                env[count++] = *e;
#endif
    gb_birth_execute(argv, (char *const *)env);
    dprintf(2, "glovebox: the interpreter '%s' cannot be started in a zygote: %s\n", spec->program,
            strerror(errno));
    _exit(1);
}

/* As for a box that nobody bears: nothing of the supervisor's is inherited. */
static int reset(struct gb_box *box, struct gb_err *err)
{
    box->warm = false;
    int r = gb_process_reset(box, err);
    box->warm = true;
    return r;
}

static void zygote_main(struct gb_box *box, const struct gb_zygote_spec *spec, int socket)
        __attribute__((noreturn));
static void zygote_main(struct gb_box *box, const struct gb_zygote_spec *spec, int socket)
{
    struct gb_err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, GB_ZYGOTE_NAME, 0, 0, 0);
    umask(022);
    close(TAKE_FD(box->channel));
    int r = become_root(box, &err);
    if (!r)
        r = gb_steps_run(box, GB_SIDE_TEMPLATE, &err);
    if (!r)
        r = reset(box, &err);
    if (!r && gb_steps_stand("no-new-privs"))
        r = gb_caps_no_new_privs(box, &err);
    if (!r && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) /* again: the change of user has undone it */
        r = gb_err_set(&err, GB_ERR_LAYER, errno, "ask to die with the supervisor");
    if (!r && gb_steps_stand("seccomp") && GB_WALL("zygote-seccomp"))
        r = gb_seccomp_enter_nursery(&err);
    if (gb_channel_report(box, r ? GB_REPORT_FAILED : GB_REPORT_READY, &err) || r)
        _exit(1);
    r = keep_descriptors(box, socket);
    if (r) {
        dprintf(2, "glovebox: a zygote cannot close its descriptors: %s\n", strerror(-r));
        _exit(1);
    }
    if (spec->program)
        run_interpreter(spec);
    struct gb_nursery n = {.socket = GB_ZYGOTE_SOCKET,
                           .proc_fd = GB_ZYGOTE_PROC,
                           .image_fd = GB_ZYGOTE_PROC + 1,
                           .ahead = spec->ahead};
    (void)gb_nursery_serve(&n);
    _exit(0);
}

/* --- in the supervisor --- */

static int await_template(struct gb_box *box, struct gb_err *err)
{
    struct gb_report report;
    int fds[GB_REPORT_FDS];
    if (gb_channel_receive(box, &report, fds))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "the zygote died during its set-up");
    for (int i = 0; i < GB_REPORT_FDS; i++)
        gb_auto_close(&fds[i]);
    if (report.kind != GB_REPORT_READY) {
        *err = report.err;
        return err->errnum ? -err->errnum : -EINVAL;
    }
    box->receipt.applied |= report.applied;
    box->receipt.degraded |= report.degraded;
    return 0;
}

int gb_zygote_start(const struct gb_zygote_spec *zspec, struct gb_zygote *ret, struct gb_err *err)
{
    const struct gb_spec spec = {.files = zspec->files,
                                 .file_count = zspec->file_count,
                                 .shown = zspec->shown,
                                 .shown_count = zspec->shown_count,
                                 .degraded = zspec->degraded};
    struct gb_box box;
    gb_box_init(&box, &spec);
    gb_userns_take_zygote(&box);
    int pair[2] = {-1, -1};
    int r = gb_launch_prepare(&box, err);
    if (!r && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        r = gb_err_set(err, GB_ERR_BUSY, errno, "make the socket of a zygote");
    if (r)
        goto out;
    /* An ordinary user may write the id maps of its child only if that can be looked at, and it is born as we
     * are. */
    const int dumpable = prctl(PR_GET_DUMPABLE);
    if (geteuid() != 0)
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    long pid = gb_launch_clone(&box, (gb_steps_stand("ns-net") ? CLONE_NEWNET : 0));
    const int error = errno;
    if (pid != 0)
        prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
    errno = error;
    box.warm = true; /* from here on: its namespaces are all its own, as those of a box from nothing */
    if (pid == 0)
        zygote_main(&box, zspec, pair[1]);
    if (pid < 0) {
        r = gb_launch_explain(&box, errno, err);
        goto out;
    }
    box.init_pid = (pid_t)pid;
    close(TAKE_FD(box.box_channel));
    r = gb_userns_map_zygote(&box, err);
    if (!r)
        r = await_template(&box, err);
    if (r) {
        gb_launch_kill(&box);
        goto out;
    }
    box.receipt.applied &= ~gb_steps_mask(GB_SIDE_CLONE, false); /* each box has its own of these */
    *ret = (struct gb_zygote){.pid = (pid_t)pid,
                              .pidfd = TAKE_FD(box.init_fd),
                              .socket = TAKE_FD(pair[0]),
                              .receipt = box.receipt};
out:
    for (size_t i = 0; i < ARRAY_LEN(pair); i++)
        gb_auto_close(&pair[i]);
    gb_box_done(&box);
    return r;
}

void gb_zygote_retire(struct gb_zygote *z)
{
    gb_close(&z->socket);
    gb_close(&z->pidfd);
}

/* A new cradle's socket: ours is kept, and its own goes to the zygote with the first birth. */
static int open_cradle(struct gb_box *box, int *ret_end, struct gb_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return gb_err_set(err, GB_ERR_BUSY, errno, "make the socket of a cradle");
    box->cradle_fd = pair[0];
    *ret_end = pair[1];
    return 0;
}

int gb_zygote_ask(struct gb_box *box, struct gb_err *err)
{
    const struct gb_cgroup *cg = &box->cgroup;
    struct gb_birth birth = {
            .uid = gb_userns_in_zygote(box), .cgroup_version = cg->version, .limits = box->spec->limits};
    const int ask = box->cradle_fd >= 0 ? box->cradle_fd : box->zygote->socket;
    AUTO_FD end = -1;
    int r = box->cradle_fd >= 0 ? 0 : open_cradle(box, &end, err);
    if (r)
        return r;
    int fds[GB_BIRTH_FDS];
    unsigned count = 0;
    if (end >= 0)
        fds[count++] = end;
    fds[count++] = box->box_channel;
    for (size_t i = 0; i < ARRAY_LEN(box->box_stdio); i++)
        fds[count++] = box->box_stdio[i];
    snprintf(birth.degraded, sizeof(birth.degraded), "%s", box->spec->degraded ? box->spec->degraded : "");
    /* v2: a zygote has no right to have boxes born in a cgroup, but who opens this file has the right to have
     * them enter. It takes an RCU grace period, and nobody waits for it but the box. */
    AUTO_FD procs = cg->version == 2 ? openat(cg->fd[0], "cgroup.procs", O_WRONLY | O_CLOEXEC) : -1;
    if (procs >= 0)
        fds[count++] = procs;
    for (size_t i = 0; cg->version == 1 && i < GB_CG_COUNT; i++)
        if (cg->tasks_fd[i] >= 0)
            fds[count++] = cg->tasks_fd[i];
    r = gb_channel_send(ask, &birth, sizeof(birth), fds, count);
    return r ? gb_err_set(err, GB_ERR_BUSY, -r, "ask a zygote for a box") : 0;
}
