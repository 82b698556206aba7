/* glovebox-launch: the only process of the service that can make a box.
 *
 * It takes fixed-size messages and parses nothing. The front asks; every number is held against the ceiling
 * that the supervisor gave, so that a captured front can at most start boxes that were legal anyway. Each
 * launch is in the store before the box exists (witness.c). The work on one box is a keeper's (keeper.c),
 * forked for it alone. One thread; nothing is allocated after the start.
 *
 * It ends when the supervisor says so or is gone, and with it every keeper and every box: however it ends. */
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "confine/confine.h"
#include "launch/keeper.h"
#include "launch/pool.h"
#include "launch/witness.h"
#include "sandbox/cgroup.h"
#include "wire/begin.h"
#include "wire/id.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_FDS  4
#define HOLD_US  1000000 /* a run that comes when all places are taken waits this long for one */
#define LEAVE_US 2000000 /* at the end keepers have so long to put away what they have */

/* When to look for cgroups of dead boxes, counted from the start or from a keeper's sudden death: a box that
 * was killed takes a moment to be gone. */
static const int64_t sweep_us[] = {0, 1000000, 2000000, 5000000};

static struct launcher {
    pid_t pid;
    int front, signals;
    struct gb_msg_ceiling ceiling;
    struct gb_msg_pools pools; /* that were asked for, each within the ceiling */
    unsigned running;          /* keepers of calls, but for those of the pool */
    pid_t probe;               /* the keeper of a probe; 0: none. It has a place of its own */
    bool stopping;             /* take nothing new */
    bool held;                 /* `run` waits for a place */
    int64_t held_until_us, swept_from_us;
    int64_t leave_us; /* when to exit, whoever is still there; INT64_MAX: not yet known */
    size_t sweeps;    /* of sweep_us, done */
    struct gb_run run;
    struct gb_witness witness;
    struct gb_msg msg;
} l = {.front = -1, .signals = -1, .witness.store = -1, .leave_us = INT64_MAX};

static void die(const char *what, const char *why) __attribute__((noreturn));
static void die(const char *what, const char *why)
{
    gb_log(GB_LOG_ERROR, what, GB_S("error", why));
    _exit(1); /* keepers and boxes die with us */
}

/* --- is it allowed? --- */

static int check_limits(const struct gb_limits *limits, struct gb_err *err)
{
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        const int64_t value = gb_limits_get(limits, row), most = gb_limits_get(&l.ceiling.limits, row);
        if (value >= row->least && value <= most)
            continue;
        char least_text[32], most_text[32];
        gb_text_decimal(row->least, row->decimals, least_text, sizeof(least_text));
        gb_text_decimal(most, row->decimals, most_text, sizeof(most_text));
        return gb_err_set(err, GB_ERR_USAGE, 0, "%s: the launcher allows from %s to %s", row->key, least_text,
                          most_text);
    }
    return 0;
}

static int check_run(const struct gb_msg_run *run, struct gb_err *err)
{
    const struct gb_runtime *runtime =
            run->runtime && run->runtime <= gb_runtime_count ? &gb_runtimes[run->runtime - 1] : NULL;
    if (run->flags & ~(GB_RUN_PROBE | GB_RUN_START_CODE | GB_RUN_FOLLOWED))
        return gb_err_set(err, GB_ERR_USAGE, 0, "flags 0x%x are not known", run->flags);
    if (run->runtime > gb_runtime_count)
        return gb_err_set(err, GB_ERR_USAGE, 0, "there is no runtime %u", run->runtime);
    if (run->flags & GB_RUN_START_CODE && gb_pool_kind_for(runtime) != GB_POOL_PYTHON)
        return gb_err_set(err, GB_ERR_USAGE, 0, "the start-up code is for python only");
    if (run->flags & GB_RUN_PROBE)
        return 0;
    if (!gb_id_is_valid(run->id))
        return gb_err_set(err, GB_ERR_USAGE, 0, "the id is not one of ours");
    return check_limits(&run->limits, err);
}

/* --- starting --- */

static void refuse(struct gb_run *run, const struct gb_err *err)
{
    gb_log(GB_LOG_WARN, "run refused", GB_S("id", run->ask.id), GB_S("error", err->text));
    (void)gb_run_fail(run, err); /* who has hung up wants no answer */
    gb_run_drop(run);
}

static bool is_probe(const struct gb_run *run)
{
    return run->ask.flags & GB_RUN_PROBE;
}

/* A keeper for this run alone, which builds its box from nothing. */
static void start_cold(struct gb_run *run)
{
    struct gb_err err = {0};
    pid_t pid = fork();
    if (pid == 0)
        gb_keeper_main(run, l.pid);
    if (pid < 0) {
        gb_err_set(&err, GB_ERR_BUSY, errno, "start a process for the box");
        refuse(run, &err);
        return;
    }
    if (is_probe(run))
        l.probe = pid;
    else
        l.running++;
    gb_run_drop(run);
}

/* The store has the record, or does not. A run that was given up meanwhile has kept its place until now: the
 * store takes moments. */
static void settled(struct gb_run *run, const struct gb_err *err)
{
    if (err->code != GB_ERR_NONE)
        refuse(run, err);
    else if (gb_run_is_left(run))
        gb_run_drop(run);
    else if (!gb_pool_take(run))
        start_cold(run);
}

static bool has_place(const struct gb_run *run)
{
    if (is_probe(run))
        return !l.probe;
    return l.running + gb_pool_calls() + gb_witness_waiting(&l.witness) < l.ceiling.running &&
           !gb_witness_is_full(&l.witness);
}

/* A keeper answers just before it exits, so the front may fill a place a moment before we see that it is
 * free: such a run waits. Returns whether it still does. */
static bool hold(void)
{
    const int64_t now = gb_clock_us();
    if (!l.held)
        l.held_until_us = now + HOLD_US;
    l.held = now < l.held_until_us;
    return l.held;
}

/* The run in l.run: start it, hold it, or refuse it. */
static void decide(void)
{
    struct gb_run *run = &l.run;
    struct gb_err err = {0};
    int r = l.stopping ? gb_err_set(&err, GB_ERR_STOPPING, 0, "the service is going down")
                       : check_run(&run->ask, &err);
    if (!r && !has_place(run)) {
        if (hold())
            return;
        r = !is_probe(run) && gb_witness_is_full(&l.witness)
                    ? gb_err_set(&err, GB_ERR_AUDIT, 0, "the store does not answer")
                    : gb_err_set(&err, GB_ERR_BUSY, 0, "all %u boxes that the launcher allows are in use",
                                 l.ceiling.running);
    }
    l.held = false;
    run->ceiling = l.ceiling;
    if (!r && is_probe(run))
        start_cold(run);
    else if (!r)
        r = gb_witness_tell(&l.witness, run, &err);
    if (r)
        refuse(run, &err);
}

/* --- what comes in --- */

static bool is_channel(int fd)
{
    int domain = 0, type = 0;
    socklen_t len = sizeof(domain);
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
           !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

static void take_run(void)
{
    int r = gb_msg_receive(l.front, "front", "launch", &l.msg);
    if (r == -EAGAIN)
        return;
    if (r == -EPIPE) {
        l.stopping = true; /* nobody is left to ask; runs that are under way have lost their caller and end */
        return;
    }
    /* A front that does not keep to the protocol is broken or not ours any more: nothing it says counts. */
    if (r)
        die("the front sent something that is no message", strerror(-r));
    gb_run_take(&l.msg, &l.run);
    if (!is_channel(l.run.fd[GB_RUN_SOCKET]))
        die("the front sent a run without a socket", strerror(ENOTSOCK));
    /* The socket's other end is the front's: it must not be able to make us wait for it. */
    if (fcntl(l.run.fd[GB_RUN_SOCKET], F_SETFL, O_NONBLOCK))
        die("the front sent a socket that cannot be used", strerror(errno));
    decide();
}

static void take_answer(void)
{
    int r = gb_witness_hear(&l.witness);
    if (r == -EPROTO)
        die("the store sent something that is no answer", strerror(EPROTO));
    /* From now on every run is refused, until the supervisor has started the service anew. */
    if (r && r != -EAGAIN)
        gb_log(GB_LOG_ERROR, "the store is gone", GB_S("error", strerror(-r)));
}

static void take_ceiling(const struct gb_msg_ceiling *ceiling)
{
    l.ceiling = *ceiling;
    gb_log_init("launch", (enum gb_log_level)ceiling->log.level, (enum gb_log_format)ceiling->log.format);
}

/* The supervisor makes these from the same configuration as the ceiling. That a box which waits is one that
 * could be asked for is checked here all the same, so that handing it out needs no second look. */
static void take_pools(const struct gb_msg_pools *pools)
{
    struct gb_err err = {0};
    l.pools = *pools;
    l.pools.count = 0;
    for (size_t i = 0; i < pools->count; i++)
        if (!check_limits(&pools->want[i].limits, &err))
            l.pools.want[l.pools.count++] = pools->want[i];
        else
            gb_log(GB_LOG_ERROR, "a pool is above the ceiling",
                   GB_S("kind", gb_pool_kinds[pools->want[i].kind].name), GB_S("error", err.text));
    gb_pool_set(&l.pools, &l.ceiling);
}

static void take_control(void)
{
    int r = gb_msg_receive(GB_CONTROL, "serve", "launch", &l.msg);
    if (r == -EAGAIN)
        return;
    if (r == -EPIPE)
        _exit(0); /* the supervisor is gone */
    if (r)
        die("the supervisor sent something that is no message", strerror(-r));
    if (l.msg.kind == GB_MSG_CEILING)
        take_ceiling(l.msg.body);
    else if (l.msg.kind == GB_MSG_POOLS)
        take_pools(l.msg.body);
    else if (l.msg.kind == GB_MSG_STOP)
        l.stopping = true;
    gb_msg_done(&l.msg);
}

static void reap(void)
{
    struct signalfd_siginfo info;
    while (read(l.signals, &info, sizeof(info)) > 0)
        ;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (gb_pool_reaped_zygote(pid, status))
            continue;
        if (pid == l.probe)
            l.probe = 0;
        else if (!gb_pool_reaped(pid, status))
            l.running--;
        if (!status || (WIFEXITED(status) &&
                        (WEXITSTATUS(status) == GB_KEEPER_NO_BOX || WEXITSTATUS(status) == GB_KEEPER_STUCK)))
            continue;
        gb_log(GB_LOG_ERROR, "a keeper died", GB_I("pid", pid),
               GB_I("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
        l.swept_from_us = gb_clock_us();
        l.sweeps = 0;
    }
}

/* --- time --- */

static void sweep(void)
{
    struct gb_err err = {0};
    if (l.sweeps >= ARRAY_LEN(sweep_us) || gb_clock_us() < l.swept_from_us + sweep_us[l.sweeps])
        return;
    l.sweeps++;
    /* No cgroup to sweep in is for the first box to say, with what to do about it. */
    (void)gb_cgroup_sweep_parent(*l.ceiling.cgroup_parent ? l.ceiling.cgroup_parent : NULL, &err);
}

static int timeout_ms(void)
{
    int64_t next = gb_witness_next_us(&l.witness);
    if (l.held && l.held_until_us < next)
        next = l.held_until_us;
    if (gb_pool_next_us() < next)
        next = gb_pool_next_us();
    if (l.leave_us < next)
        next = l.leave_us;
    if (l.sweeps < ARRAY_LEN(sweep_us) && l.swept_from_us + sweep_us[l.sweeps] < next)
        next = l.swept_from_us + sweep_us[l.sweeps];
    if (next == INT64_MAX)
        return -1;
    const int64_t left = (next - gb_clock_us() + 999) / 1000;
    return left < 0 ? 0 : (int)left;
}

static bool is_busy(void)
{
    return l.held || l.running || l.probe || gb_pool_calls() || gb_witness_waiting(&l.witness);
}

/* Keepers whose boxes wait know that they can go, and remove their cgroups: nobody else will, at the end. */
static bool is_over(void)
{
    if (!l.stopping || is_busy())
        return false;
    if (l.leave_us == INT64_MAX)
        l.leave_us = gb_clock_us() + LEAVE_US;
    return !gb_pool_keepers() || gb_clock_us() >= l.leave_us;
}

static void serve(void)
{
    static struct pollfd p[OWN_FDS + GB_POOL_POLL_MOST];
    while (!is_over()) {
        p[0] = (struct pollfd){GB_CONTROL, POLLIN, 0};
        p[1] = (struct pollfd){l.signals, POLLIN, 0};
        p[2] = (struct pollfd){l.witness.store, POLLIN, 0};
        p[3] = (struct pollfd){l.stopping || l.held ? -1 : l.front, POLLIN, 0};
        const unsigned more = gb_pool_watch(p + OWN_FDS, GB_POOL_POLL_MOST);
        if (poll(p, OWN_FDS + more, timeout_ms()) < 0 && errno != EINTR)
            die("poll", strerror(errno));
        gb_pool_look(p + OWN_FDS, more);
        if (p[0].revents)
            take_control();
        if (p[1].revents)
            reap();
        if (p[2].revents)
            take_answer();
        gb_witness_expire(&l.witness);
        if (l.held)
            decide();
        else if (p[3].revents && !l.stopping)
            take_run();
        if (l.stopping)
            gb_pool_stop();
        sweep();
    }
}

/* --- the start --- */

static void prepare_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    l.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l.signals < 0)
        die("signalfd", strerror(errno));
}

static void take_start(void)
{
    if (gb_begin_receive("launch", GB_MSG_START_LAUNCH, &l.msg))
        die("nobody started us", "glovebox serve does; this program is not for the command line");
    take_ceiling(l.msg.body);
    l.front = TAKE_FD(l.msg.fd[0]);
    l.witness.store = TAKE_FD(l.msg.fd[1]);
    gb_msg_done(&l.msg);
}

int main(void)
{
    const pid_t parent = getppid();
    struct gb_err err = {0};
    gb_log_init("launch", GB_LOG_INFO, GB_LOG_AUTO);
    l.pid = getpid();
    l.witness.settled = settled;
    prepare_signals();
    take_start();
    const struct gb_confine row = {
            .name = "launch", .keep_root = true, .root_fd = -1, .rw_fd = -1, .degraded = l.ceiling.degraded};
    if (gb_confine_enter(&row, parent, &err))
        die("cannot confine itself", err.text);
    gb_pool_init(l.pid, start_cold);
    l.swept_from_us = gb_clock_us();
    sweep();
    if (gb_msg_send(GB_CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        _exit(0);
    serve();
    _exit(0); /* not exit: the system call filter would get in the way of a leak checker's last look */
}
