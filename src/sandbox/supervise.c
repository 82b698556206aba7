#include "sandbox/supervise.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/wall.h"
#include "sandbox/channel.h"
#include "sandbox/locks.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK           (GB_BOX_BUFFER / 2) /* one half for output, one for input */
#define CPU_LOOK_US     10000               /* least time between two looks at cpu use */
#define MEMORY_LEAST_US 2000
#define MEMORY_MOST_US  50000
#define MEMORY_BYTES_US 4000 /* faster than a program can touch new memory */
#define LOCKS_LOOK_US   100000
#define LINGER_US       20000 /* after the program has ended, until its cpu quota is lifted */

enum slot { OUT, ERR, CHANNEL, DEATH, CANCEL, MEMORY, IN_FROM, IN_TO, SLOTS };

/* Why we ended the box. */
static const struct cause {
    enum gb_status status;
    const char *reason;
} timed_out = {GB_STATUS_TIMEOUT, "timeout"}, out_of_cpu = {GB_STATUS_RESOURCE, "cpu"},
  out_of_memory = {GB_STATUS_RESOURCE, "memory"}, cancelled = {GB_STATUS_CANCELLED, "cancelled"};

struct run {
    struct gb_box *box;
    struct gb_result *result;
    gb_output_fn *on_output;
    void *context;
    const struct cause *cause;
    struct gb_report last; /* from init: EXIT or EXEC_FAILED; kind -1 before */
    bool dead;
    int64_t start_us, deadline_us, cpu_look_us, memory_look_us, locks_look_us, late_us, exit_us;
    int in_fd; /* where the program's input comes from */
    char *in;  /* CHUNK bytes */
    size_t in_at, in_len;
    struct rusage rusage;
};

static void stop(struct run *run, const struct cause *cause)
{
    if (run->cause || run->last.kind == GB_REPORT_EXIT)
        return;
    run->cause = cause;
    /* PID 1's death is everybody's: the kernel kills the whole pid namespace and lets no new process in, so
     * nothing can fork its way out. By pidfd, so never the wrong process. */
    pidfd_send_signal(run->box->init_fd, SIGKILL, NULL, 0);
    gb_cgroup_kill(&run->box->cgroup);
}

static int64_t scratch_bytes(const struct run *run)
{
    struct statfs fs;
    if (run->box->scratch_fd < 0 || fstatfs(run->box->scratch_fd, &fs))
        return 0;
    return (int64_t)(fs.f_blocks - fs.f_bfree) * fs.f_bsize;
}

/* --- the streams --- */

/* Reads once; false if there was nothing to read. */
static bool take_output(struct run *run, int stream)
{
    char *chunk = run->box->buffer;
    struct gb_buf *buf = stream ? &run->result->err : &run->result->out;
    ssize_t n = read(run->box->out_fd[stream], chunk, CHUNK);
    if (n < 0)
        return errno == EINTR;
    if (n == 0) {
        close(TAKE_FD(run->box->out_fd[stream]));
        return false;
    }
    size_t kept = gb_buf_add(buf, chunk, (size_t)n);
    if (kept && run->on_output)
        run->on_output(run->context, stream, chunk, kept);
    return true;
}

/* All writers are dead: what is in the pipe is all there will ever be. But the box may have handed its end to
 * another one that lives: no more than a pipe can hold is taken. */
static void drain(struct run *run, int stream)
{
    const struct gb_buf *buf = stream ? &run->result->err : &run->result->out;
    int size = run->box->out_fd[stream] >= 0 ? fcntl(run->box->out_fd[stream], F_GETPIPE_SZ) : 0;
    for (uint64_t end = buf->seen + (size > 0 ? (uint64_t)size : 0);
         run->box->out_fd[stream] >= 0 && buf->seen < end;)
        if (!take_output(run, stream))
            break;
}

static void end_input(struct run *run)
{
    run->in_fd = -1;
    if (run->box->stdin_fd >= 0)
        close(TAKE_FD(run->box->stdin_fd));
}

static void fill_input(struct run *run)
{
    ssize_t n = read(run->in_fd, run->in, CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_input(run);
        return;
    }
    run->in_at = 0;
    run->in_len = (size_t)n;
}

static void feed_input(struct run *run)
{
    ssize_t n = write(run->box->stdin_fd, run->in + run->in_at, run->in_len - run->in_at);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) { /* the program reads no more: its right */
        run->in_len = run->in_at = 0;
        end_input(run);
        return;
    }
    run->in_at += (size_t)n;
    if (run->in_at == run->in_len)
        run->in_at = run->in_len = 0;
}

/* --- the limits --- */

static void look_at_cpu(struct run *run, int64_t now)
{
    const struct gb_limits *l = &run->box->spec->limits;
    const int64_t left = l->cpu_ms * 1000 - (gb_cgroup_cpu_us(&run->box->cgroup) - run->box->cpu_before_us);
    if (GB_WALL("cpu-seconds") && left <= 0)
        stop(run, &out_of_cpu);
    /* It cannot use cpu faster than its share, so nothing can happen before this. */
    int64_t wait = left * 100 / l->cpu_percent;
    run->cpu_look_us = now + (wait < CPU_LOOK_US ? CPU_LOOK_US : wait);
}

static void look_at_memory(struct run *run, int64_t now)
{
    if (GB_WALL("memory-watch") && gb_cgroup_memory_exceeded(&run->box->cgroup, scratch_bytes(run)))
        stop(run, &out_of_memory);
    /* The nearer to the limit, the sooner the next look. */
    const struct gb_cgroup *cg = &run->box->cgroup;
    int64_t wait = (cg->memory_bytes - gb_cgroup_memory_current(cg)) / MEMORY_BYTES_US;
    run->memory_look_us = now + (wait < MEMORY_LEAST_US  ? MEMORY_LEAST_US
                                 : wait > MEMORY_MOST_US ? MEMORY_MOST_US
                                                         : wait);
}

static void look_at_clocks(struct run *run)
{
    const int64_t now = gb_clock_us();
    if (GB_WALL("deadline") && now >= run->deadline_us)
        stop(run, &timed_out);
    if (run->late_us < INT64_MAX && run->box->spec->late(run->box->spec->late_context, now >= run->late_us))
        run->late_us = INT64_MAX;
    if (run->box->cgroup.version && now >= run->cpu_look_us)
        look_at_cpu(run, now);
    if (run->box->cgroup.version && now >= run->memory_look_us)
        look_at_memory(run, now);
    if (run->box->cgroup.version && now >= run->locks_look_us) {
        if (gb_locks_exceeded(&run->box->cgroup))
            stop(run, &out_of_memory);
        run->locks_look_us = now + LOCKS_LOOK_US;
    }
    /* The program has ended, and what it left behind is dying: if that takes long, it is for want of cpu
     * time. */
    if (run->exit_us && now >= run->exit_us + LINGER_US) {
        gb_cgroup_kill(&run->box->cgroup);
        run->exit_us = now;
    }
}

static int poll_timeout_ms(const struct run *run)
{
    int64_t next = run->deadline_us;
    if (run->cause)
        return -1; /* the kill is on its way; only death is awaited */
    if (run->exit_us)
        return LINGER_US / 1000;
    if (run->late_us < next)
        next = run->late_us;
    if (run->box->cgroup.version && run->locks_look_us < next)
        next = run->locks_look_us;
    if (run->box->cgroup.version && run->cpu_look_us < next)
        next = run->cpu_look_us;
    if (run->box->cgroup.version && run->memory_look_us < next)
        next = run->memory_look_us;
    int64_t left = (next - gb_clock_us() + 999) / 1000;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/* --- the loop --- */

static void take_report(struct run *run)
{
    struct gb_report report;
    int fds[GB_REPORT_FDS];
    if (gb_channel_receive(run->box, &report, fds)) {
        close(TAKE_FD(run->box->channel));
        return;
    }
    for (int i = 0; i < GB_REPORT_FDS; i++)
        gb_auto_close(&fds[i]);
    /* A failed exec is followed by the exit of the child that failed: the first one tells. */
    if (run->last.kind != GB_REPORT_EXEC_FAILED)
        run->last = report;
    if (run->last.kind == GB_REPORT_EXIT)
        run->exit_us = gb_clock_us();
}

static bool has_report(const struct run *run)
{
    struct pollfd p = {.fd = run->box->channel, .events = POLLIN};
    return run->box->channel >= 0 && poll(&p, 1, 0) == 1;
}

static void reap(struct run *run)
{
    siginfo_t info;
    run->dead = true;
    if (run->box->zygote) /* whose child it is; it was PID 1, so with it everything else is dead */
        return;
    while (syscall(SYS_waitid, P_PIDFD, run->box->init_fd, &info, WEXITED | __WALL, &run->rusage) < 0 &&
           errno == EINTR)
        ;
}

static void wait_once(struct run *run)
{
    const bool have_input = run->in_len > 0;
    const short memory_event = run->box->cgroup.version == 2 ? POLLPRI : POLLIN;
    struct pollfd p[SLOTS] = {
            [OUT] = {run->box->out_fd[0], POLLIN, 0},
            [ERR] = {run->box->out_fd[1], POLLIN, 0},
            [CHANNEL] = {run->box->cgroup.version ? -1 : run->box->channel, POLLIN, 0},
            [DEATH] = {run->box->init_fd, POLLIN, 0},
            [CANCEL] = {run->cause ? -1 : run->box->spec->cancel_fd, POLLIN, 0},
            [MEMORY] = {run->cause ? -1 : run->box->cgroup.event_fd, memory_event, 0},
            [IN_FROM] = {have_input ? -1 : run->in_fd, POLLIN, 0},
            [IN_TO] = {run->box->stdin_fd, have_input ? POLLOUT : 0, 0},
    };
    if (poll(p, SLOTS, poll_timeout_ms(run)) < 0)
        return;
    /* The end of the program is followed by that of init, of which we are told. Where the first comes long
     * before the second, it is early enough to see that when we look at the clock: so it wakes nobody. */
    if (has_report(run))
        take_report(run);
    if (p[OUT].revents)
        take_output(run, 0);
    if (p[ERR].revents)
        take_output(run, 1);
    if (p[IN_FROM].revents)
        fill_input(run);
    if (p[IN_TO].revents & POLLERR)
        end_input(run); /* nobody can read it any more */
    else if (p[IN_TO].revents & POLLOUT)
        feed_input(run);
    if (p[CANCEL].revents)
        stop(run, &cancelled);
    if (p[MEMORY].revents & memory_event)
        look_at_memory(run, gb_clock_us());
    look_at_clocks(run);
    if (p[DEATH].revents)
        reap(run);
}

/* --- the result --- */

static int explain_exec(const struct gb_box *box, int error, struct gb_err *err)
{
    const char *program = box->spec->argv[0];
    if (error == ENOENT && box->spec->runtime)
        return gb_err_set(err, GB_ERR_RUNTIME, 0,
                          "the runtime '%s' is not installed: there is no '%s' in %s of the box",
                          box->spec->runtime, program, GB_BOX_PATH);
    if (error == ENOENT)
        return gb_err_set(err, GB_ERR_RUNTIME, 0, "there is no program '%.200s' in the box", program);
    return gb_err_set(err, GB_ERR_RUNTIME, error, "cannot start '%.200s' in the box", program);
}

static void conclude(struct run *run)
{
    struct gb_result *r = run->result;
    const int status = run->last.value;
    const struct gb_limits *l = &run->box->spec->limits;
    const bool exited = run->last.kind == GB_REPORT_EXIT;
    /* The kernel may have struck before we looked. */
    if (!run->cause && gb_cgroup_oom_killed(&run->box->cgroup))
        run->cause = &out_of_memory;
    if (!run->cause && exited && WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL) && r->usage.cpu_us >= l->cpu_ms * 1000)
        run->cause = &out_of_cpu;
    r->exit_code = exited && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r->signal = exited && WIFSIGNALED(status) ? WTERMSIG(status) : run->cause ? SIGKILL : 0;
    if (run->cause) {
        r->status = run->cause->status;
        r->kill_reason = run->cause->reason;
        r->exit_code = -1;
    } else if (!exited) {
        r->status = GB_STATUS_INTERNAL; /* init was killed from outside */
        r->signal = SIGKILL;
    } else {
        r->status = r->exit_code == 0 ? GB_STATUS_SUCCESS : GB_STATUS_ERROR;
    }
}

static void measure(struct run *run)
{
    struct gb_usage *u = &run->result->usage;
    u->wall_us = gb_clock_us() - run->start_us;
    const struct rusage *ru = &run->rusage;
    u->cpu_us = (ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1000000 + ru->ru_utime.tv_usec +
                ru->ru_stime.tv_usec;
    u->memory_peak_bytes = ru->ru_maxrss * 1024;
    if (run->box->zygote && run->last.kind == GB_REPORT_EXIT) {
        u->cpu_us = run->last.cpu_us;
        u->memory_peak_bytes = run->last.memory_bytes;
    }
    gb_cgroup_usage(&run->box->cgroup, u);
    if (run->box->cgroup.version)
        u->cpu_us -= run->box->cpu_before_us;
    u->disk_bytes = scratch_bytes(run);
    u->stdout_bytes = run->result->out.seen;
    u->stderr_bytes = run->result->err.seen;
}

/* Writing to a program that has closed its input raises SIGPIPE in whoever links us: keep it from them. */
static bool block_sigpipe(sigset_t *saved)
{
    sigset_t pipe_only, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, saved);
    return sigismember(&pending, SIGPIPE);
}

static void unblock_sigpipe(const sigset_t *saved, bool was_pending)
{
    sigset_t pipe_only;
    const struct timespec now = {0};
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    if (!was_pending)
        (void)sigtimedwait(&pipe_only, NULL, &now);
    pthread_sigmask(SIG_SETMASK, saved, NULL);
}

int gb_supervise(struct gb_box *box, gb_output_fn *on_output, void *context, struct gb_result *result,
                 struct gb_err *err)
{
    struct run run = {.in = box->buffer + CHUNK,
                      .box = box,
                      .result = result,
                      .on_output = on_output,
                      .context = context,
                      .in_fd = box->spec->stdin_fd};
    run.last.kind = -1;
    run.start_us = gb_clock_us();
    run.deadline_us = run.start_us + box->spec->limits.timeout_ms * 1000;
    run.cpu_look_us = run.start_us + CPU_LOOK_US;
    run.memory_look_us = run.start_us + MEMORY_LEAST_US;
    run.locks_look_us = run.start_us + LOCKS_LOOK_US;
    run.late_us = box->spec->late ? run.start_us + box->spec->late_us : INT64_MAX;
    result->out.max = result->err.max = (size_t)box->spec->limits.output_bytes;
    sigset_t saved;
    bool was_pending = block_sigpipe(&saved);
    if (run.in_fd < 0)
        end_input(&run);
    gb_cgroup_open_files(&box->cgroup); /* the program is starting meanwhile */
    while (!run.dead)
        wait_once(&run);
    for (int stream = 0; stream < 2; stream++)
        drain(&run, stream);
    if (box->channel >= 0 && run.last.kind < 0)
        take_report(&run);
    end_input(&run);
    unblock_sigpipe(&saved, was_pending);
    measure(&run);
    if (run.last.kind == GB_REPORT_EXEC_FAILED && !run.cause)
        return explain_exec(box, run.last.value, err);
    if (run.last.kind == GB_REPORT_FILE_FAILED && !run.cause)
        return gb_files_explain(box, run.last.number, run.last.value, err);
    if (run.last.kind == GB_REPORT_FAILED &&
        !run.cause) { /* init itself could not be started: arguments too long, say */
        if (err)
            *err = run.last.err;
        return run.last.err.errnum ? -run.last.err.errnum : -EINVAL;
    }
    if (run.last.kind < 0 && box->unheard && !run.cause)
        return gb_err_set(err, GB_ERR_INTERNAL, ECONNRESET, "the box had ended before its call came");
    conclude(&run);
    result->enforced = box->receipt;
    return 0;
}
