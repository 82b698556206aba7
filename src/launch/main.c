/* glovebox-launch: the only process of the service that can make a box.
 *
 * It takes fixed-size messages and parses nothing. The front asks; every number is held against the ceiling
 * that the supervisor gave, so that a captured front can at most start boxes that were legal anyway. Each
 * launch is told to the store before the box exists: a second witness, beside the front's own records. The
 * work on one box is a keeper's (keeper.c), forked for it alone. One thread; nothing is allocated after the
 * start.
 *
 * It ends when the supervisor says so or is gone, and with it every keeper and every box: however it ends. */
#include "backend/backend.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/text.h"
#include "confine/confine.h"
#include "launch/keeper.h"
#include "sandbox/cgroup.h"
#include "wire/id.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sha2.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL      3       /* the supervisor's channel */
#define START_MS     10000   /* for its first message */
#define HOLD_US      1000000 /* a run that comes when all places are taken waits this long for one */
#define STORE_MS     1000    /* a store that is slower than this refuses the run */
#define RECORD_BYTES 4096
#define HASH_CHUNK   65536

/* When to look for cgroups of dead boxes, counted from the start or from a keeper's sudden death: a box that
 * was killed takes a moment to be gone. */
static const int64_t sweep_us[] = {0, 1000000, 2000000, 5000000};

static struct launcher {
    pid_t pid;
    int front, store, signals;
    struct gb_msg_ceiling ceiling;
    unsigned running; /* keepers of calls */
    pid_t probe;      /* the keeper of a probe; 0: none. It has a place of its own */
    bool stopping;    /* take nothing new */
    bool held;        /* `run` is a message that waits for a place */
    int64_t held_until_us, swept_from_us;
    size_t sweeps; /* of sweep_us, done */
    struct gb_msg run, other;
    char record[RECORD_BYTES], chunk[HASH_CHUNK];
} l = {.front = -1, .store = -1, .signals = -1};

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
    if (run->flags & ~GB_RUN_PROBE)
        return gb_err_set(err, GB_ERR_USAGE, 0, "flags 0x%x are not known", run->flags);
    if (run->runtime > gb_runtime_count)
        return gb_err_set(err, GB_ERR_USAGE, 0, "there is no runtime %u", run->runtime);
    if (run->flags & GB_RUN_PROBE)
        return 0;
    if (!gb_id_is_valid(run->id))
        return gb_err_set(err, GB_ERR_USAGE, 0, "the id is not one of ours");
    return check_limits(&run->limits, err);
}

/* --- the second witness --- */

/* Of the sealed bytes themselves: what the keeper will read is what was recorded. */
static int hash_payload(int fd, uint64_t bytes, char *ret_hex)
{
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    for (uint64_t at = 0; at < bytes;) {
        ssize_t n = pread(fd, l.chunk, sizeof(l.chunk), (off_t)at);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        SHA256Update(&ctx, (const uint8_t *)l.chunk, (size_t)n);
        at += (uint64_t)n;
    }
    SHA256End(&ctx, ret_hex);
    return 0;
}

static size_t write_record(const struct gb_msg_run *run, const char *payload_hash)
{
    struct gb_spec spec;
    char policy[SHA256_DIGEST_STRING_LENGTH];
    gb_keeper_spec(run, &l.ceiling, &spec);
    gb_native_hash_policy(&spec, policy);
    /* A buffer that never grows: it has its size from the start. */
    struct gb_buf out = {.data = l.record, .size = sizeof(l.record), .max = sizeof(l.record) - 1};
    struct gb_json j = {.out = &out, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "runtime", spec.runtime ? spec.runtime : "");
    gb_json_int(&j, "payload_bytes", (int64_t)run->payload_bytes);
    gb_json_text(&j, "payload_sha256", payload_hash);
    gb_json_open(&j, "limits", '{');
    for (size_t i = 0; i < gb_limit_count; i++)
        gb_json_decimal(&j, gb_limit_rows[i].key, gb_limits_get(&run->limits, &gb_limit_rows[i]),
                        gb_limit_rows[i].decimals);
    gb_json_close(&j, '}');
    gb_json_text(&j, "policy_hash", policy);
    gb_json_close(&j, '}');
    return out.len;
}

static int tell_store(const struct gb_msg *msg, struct gb_err *err)
{
    const struct gb_msg_run *run = msg->body;
    char hash[SHA256_DIGEST_STRING_LENGTH];
    int r = gb_payload_check(msg->fd[GB_RUN_PAYLOAD], run->payload_bytes, err);
    if (r)
        return r;
    r = hash_payload(msg->fd[GB_RUN_PAYLOAD], run->payload_bytes, hash);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "read the payload");
    struct gb_msg_append append = {.kind = GB_RECORD_LAUNCH};
    memcpy(append.id, run->id, sizeof(append.id));
    const size_t bytes = write_record(run, hash);
    r = l.store < 0 ? -EPIPE : -EAGAIN;
    for (int attempt = 0; attempt < 2 && r == -EAGAIN; attempt++) {
        struct pollfd p = {.fd = l.store, .events = POLLOUT};
        if (attempt)
            (void)poll(&p, 1, STORE_MS);
        r = gb_msg_send(l.store, GB_MSG_APPEND, msg->tag, &append, l.record, bytes, NULL, 0);
    }
    return r ? gb_err_set(err, GB_ERR_AUDIT, -r, "the launch cannot be recorded") : 0;
}

/* --- starting --- */

static void refuse(const struct gb_err *err)
{
    const struct gb_msg_failed failed = {.err = *err};
    gb_log(GB_LOG_WARN, "run refused", GB_S("id", ((const struct gb_msg_run *)l.run.body)->id),
           GB_S("error", err->text));
    (void)gb_msg_send(l.run.fd[GB_RUN_SOCKET], GB_MSG_RUN_FAILED, l.run.tag, &failed, NULL, 0, NULL, 0);
}

static bool is_probe(void)
{
    return ((const struct gb_msg_run *)l.run.body)->flags & GB_RUN_PROBE;
}

static bool has_place(void)
{
    return is_probe() ? !l.probe : l.running < l.ceiling.running;
}

static int start(struct gb_err *err)
{
    int r = is_probe() ? 0 : tell_store(&l.run, err);
    if (r)
        return r;
    pid_t pid = fork();
    if (pid == 0)
        gb_keeper_main(&l.run, &l.ceiling, l.pid);
    if (pid < 0)
        return gb_err_set(err, GB_ERR_BUSY, errno, "start a process for the box");
    if (is_probe())
        l.probe = pid;
    else
        l.running++;
    return 0;
}

/* The message in l.run: start it, hold it, or refuse it. A keeper answers just before it exits, so the front
 * may fill a place a moment before we see that it is free: such a run waits. */
static void decide(void)
{
    struct gb_err err = {0};
    int r = l.stopping ? gb_err_set(&err, GB_ERR_STOPPING, 0, "the service is going down")
                       : check_run(l.run.body, &err);
    if (!r && !has_place()) {
        const int64_t now = gb_clock_us();
        if (!l.held)
            l.held_until_us = now + HOLD_US;
        l.held = now < l.held_until_us;
        if (l.held)
            return;
        r = gb_err_set(&err, GB_ERR_BUSY, 0, "all %u boxes that the launcher allows are in use",
                       l.ceiling.running);
    }
    if (!r)
        r = start(&err);
    if (r)
        refuse(&err);
    l.held = false;
    gb_msg_done(&l.run);
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
    int r = gb_msg_receive(l.front, "front", "launch", &l.run);
    if (r == -EAGAIN)
        return;
    if (r == -EPIPE) {
        l.stopping = true; /* nobody is left to ask; runs that are under way have lost their caller and end */
        return;
    }
    /* A front that does not keep to the protocol is broken or not ours any more: nothing it says counts. */
    if (r)
        die("the front sent something that is no message", strerror(-r));
    if (!is_channel(l.run.fd[GB_RUN_SOCKET]))
        die("the front sent a run without a socket", strerror(ENOTSOCK));
    /* The socket's other end is the front's: it must not be able to make us wait for it. */
    if (fcntl(l.run.fd[GB_RUN_SOCKET], F_SETFL, O_NONBLOCK))
        die("the front sent a socket that cannot be used", strerror(errno));
    decide();
}

static void take_ack(void)
{
    int r = gb_msg_receive(l.store, "store", "launch", &l.other);
    if (r == -EAGAIN)
        return;
    if (r) { /* from now on every run is refused, until the supervisor has started the service anew */
        gb_log(GB_LOG_ERROR, "the store is gone", GB_S("error", strerror(-r)));
        l.store = -1;
        return;
    }
    const struct gb_msg_ack *ack = l.other.body;
    if (ack->err.code != GB_ERR_NONE)
        gb_log(GB_LOG_ERROR, "a launch was not recorded", GB_S("error", ack->err.text));
    gb_msg_done(&l.other);
}

static void take_ceiling(const struct gb_msg_ceiling *ceiling)
{
    l.ceiling = *ceiling;
    gb_log_init("launch", (enum gb_log_level)ceiling->log.level, (enum gb_log_format)ceiling->log.format);
}

static void take_control(void)
{
    int r = gb_msg_receive(CONTROL, "serve", "launch", &l.other);
    if (r == -EAGAIN)
        return;
    if (r == -EPIPE)
        _exit(0); /* the supervisor is gone */
    if (r)
        die("the supervisor sent something that is no message", strerror(-r));
    if (l.other.kind == GB_MSG_CEILING)
        take_ceiling(l.other.body);
    else if (l.other.kind == GB_MSG_STOP)
        l.stopping = true;
    gb_msg_done(&l.other);
}

static void reap(void)
{
    struct signalfd_siginfo info;
    while (read(l.signals, &info, sizeof(info)) > 0)
        ;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == l.probe)
            l.probe = 0;
        else
            l.running--;
        if (!status)
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
    int64_t next = INT64_MAX;
    if (l.held)
        next = l.held_until_us;
    if (l.sweeps < ARRAY_LEN(sweep_us) && l.swept_from_us + sweep_us[l.sweeps] < next)
        next = l.swept_from_us + sweep_us[l.sweeps];
    if (next == INT64_MAX)
        return -1;
    const int64_t left = (next - gb_clock_us() + 999) / 1000;
    return left < 0 ? 0 : (int)left;
}

static void serve(void)
{
    while (!l.stopping || l.held || l.running || l.probe) {
        struct pollfd p[] = {{CONTROL, POLLIN, 0},
                             {l.signals, POLLIN, 0},
                             {l.store, POLLIN, 0},
                             {l.stopping || l.held ? -1 : l.front, POLLIN, 0}};
        if (poll(p, ARRAY_LEN(p), timeout_ms()) < 0 && errno != EINTR)
            die("poll", strerror(errno));
        if (p[0].revents)
            take_control();
        if (p[1].revents)
            reap();
        if (p[2].revents)
            take_ack();
        if (l.held)
            decide();
        else if (p[3].revents && !l.stopping)
            take_run();
        sweep();
    }
}

/* --- the start --- */

static void prepare_signals(void)
{
    /* The supervisor tells us when to end; a Ctrl-C or a service manager's signal to the whole group is for
     * it. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        sigaction(ignored[i], &ignore, NULL);
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
    struct pollfd p = {.fd = CONTROL, .events = POLLIN};
    if (poll(&p, 1, START_MS) != 1)
        die("nobody started us", "glovebox serve does; this program is not for the command line");
    int r = gb_msg_receive(CONTROL, "serve", "launch", &l.other);
    if (r || l.other.kind != GB_MSG_START_LAUNCH)
        die("nobody started us", "glovebox serve does; this program is not for the command line");
    take_ceiling(l.other.body);
    l.front = TAKE_FD(l.other.fd[0]);
    l.store = TAKE_FD(l.other.fd[1]);
    gb_msg_done(&l.other);
    const int channels[] = {CONTROL, l.front, l.store};
    for (size_t i = 0; i < ARRAY_LEN(channels); i++)
        if (fcntl(channels[i], F_SETFD, FD_CLOEXEC) || fcntl(channels[i], F_SETFL, O_NONBLOCK))
            die("set up a channel", strerror(errno));
}

int main(void)
{
    const pid_t parent = getppid();
    struct gb_err err = {0};
    gb_log_init("launch", GB_LOG_INFO, GB_LOG_AUTO);
    l.pid = getpid();
    prepare_signals();
    take_start();
    const struct gb_confine row = {
            .name = "launch", .keep_root = true, .root_fd = -1, .rw_fd = -1, .degraded = l.ceiling.degraded};
    if (gb_confine_enter(&row, parent, &err))
        die("cannot confine itself", err.text);
    l.swept_from_us = gb_clock_us();
    sweep();
    if (gb_msg_send(CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        _exit(0);
    serve();
    _exit(0); /* not exit: the system call filter would get in the way of a leak checker's last look */
}
