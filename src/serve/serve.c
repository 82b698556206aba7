#include "serve/serve.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "serve/delegate.h"
#include "serve/service.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define DYING_US (5 * 1000000LL)

/* --- what is opened once --- */

/* The processes of a service that was killed die with it, but take a moment in which the address is still
 * theirs. */
static int open_socket(struct gb_service *s, const char *text, struct gb_listen *ret, struct gb_err *err)
{
    const int64_t until = gb_clock_us() + (s->state.after_kill ? DYING_US : 0);
    int r;
    while ((r = gb_listen_open(text, ret, err)) == -EADDRINUSE && gb_clock_us() < until)
        (void)poll(NULL, 0, 10);
    if (!r)
        *err = (struct gb_err){0}; /* of the attempts before */
    return r;
}

static int open_sockets(struct gb_service *s, struct gb_err *err)
{
    bool tcp = false;
    for (; s->listen_count < s->config->listen_count; s->listen_count++) {
        struct gb_listen *l = &s->listen[s->listen_count];
        int r = open_socket(s, s->config->listen[s->listen_count], l, err);
        if (r)
            return r;
        tcp |= l->address.addr.ss_family != AF_UNIX;
    }
    struct gb_err why = {0};
    int fd = tcp ? gb_diag_open(&why) : -1;
    const char *text = why.text;
    if (fd >= 0)
        s->diag_fd = fd;
    else if (tcp)
        gb_log(GB_LOG_WARN, "the kernel does not tell who calls over TCP", GB_S("why", text));
    return gb_reload_check(s, s->config, err);
}

/* Told by the first box, in words that say what to do, rather than by every call later. */
static int try_box(struct gb_service *s, struct gb_err *err)
{
    struct gb_msg_ceiling ceiling;
    if (!s->config->cgroup_parent)
        gb_delegate(s->cgroup_parent, sizeof(s->cgroup_parent));
    gb_start_ceiling(s, &ceiling);
    int r = s->options->try_box(&s->config->limits, ceiling.cgroup_parent, ceiling.degraded, err);
    if (r)
        gb_err_wrap(err, "this host cannot start a box");
    return r;
}

static int open_all(struct gb_service *s, struct gb_err *err)
{
    int r = gb_child_find_all(s->children, err);
    if (!r)
        r = gb_state_open(s->config->state_dir, s->config->runtime_dir, &s->state, err);
    if (!r)
        r = open_sockets(s, err);
    return r ? r : try_box(s, err);
}

/* What the supervisor itself can do without. It holds the private key in its memory: no core, no debugger. It
 * stays who it is: only that user can start the launcher again. */
static int drop(struct gb_err *err)
{
    const struct rlimit none = {1, 1};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || setrlimit(RLIMIT_CORE, &none))
        return gb_err_set(err, GB_ERR_LAYER, errno, "give up what the supervisor does not need");
    return 0;
}

/* --- signals --- */

/* A terminal that was closed sends SIGHUP as well: whoever started us there is gone, and does not want a
 * reload. */
static bool terminal_is_gone(const struct gb_service *s)
{
    struct pollfd p = {.fd = STDERR_FILENO};
    return s->on_terminal && poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

static void signalled(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct gb_service *s = GB_OWNER(source, struct gb_service, signals);
    struct signalfd_siginfo info;
    if (read(source->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    switch (info.ssi_signo) {
    case SIGCHLD:
        gb_life_reap(s);
        break;
    case SIGHUP:
        if (!terminal_is_gone(s)) {
            gb_reload(s);
            break;
        }
        gb_life_stop(s);
        break;
    default:
        gb_life_stop(s);
    }
}

static int watch_signals(struct gb_service *s, struct gb_err *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, plain = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    /* With SIGCHLD ignored, as some parents leave it, the kernel would reap in our place. */
    if (sigaction(SIGPIPE, &ignore, NULL) || sigaction(SIGCHLD, &plain, NULL) ||
        sigprocmask(SIG_BLOCK, &set, NULL))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "set up signals");
    s->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->signals.ready = signalled;
    int r = s->signals.fd < 0 ? -errno : gb_loop_watch(s->loop, &s->signals, EPOLLIN);
    return r ? gb_err_set(err, GB_ERR_INTERNAL, -r, "watch for signals") : 0;
}

/* --- the whole --- */

static void no_answer(struct gb_timer *timer)
{
    struct gb_service *s = GB_OWNER(timer, struct gb_service, answer);
    gb_reload_answered(s, false,
                       s->config_fd >= 0 ? "the broker has not taken it; see its message"
                                         : "the front has not taken it; see its message");
}

static int serve(struct gb_service *s, struct gb_err *err)
{
    const struct gb_serve_options *o = s->options;
    int r = gb_config_load(o->file, o->overrides, o->override_count, &s->config, err);
    if (r)
        return r;
    gb_log_init("serve", (enum gb_log_level)s->config->log_level, (enum gb_log_format)s->config->log_format);
    umask(022);
    r = open_all(s, err);
    if (!r)
        r = drop(err);
    if (!r)
        r = watch_signals(s, err);
    if (r)
        return r;
    gb_life_begin(s);
    r = gb_loop_run(s->loop);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "wait for events");
    if (err->code)
        return -ECHILD;
    gb_log(GB_LOG_INFO, "stopped", GB_I("pid", getpid()));
    return 0;
}

static void release(struct gb_service *s)
{
    for (size_t i = 0; i < s->listen_count; i++)
        gb_listen_close(&s->listen[i]);
    for (size_t i = 0; i < GB_CHILDREN; i++)
        gb_child_forget(&s->children[i], s->loop);
    if (s->diag_fd >= 0)
        close(s->diag_fd);
    if (s->signals.fd >= 0)
        close(s->signals.fd);
    gb_state_close(&s->state);
    gb_config_free(s->before);
    gb_config_free(s->config);
    gb_loop_free(s->loop);
    free(s);
}

int gb_serve(const struct gb_serve_options *options, struct gb_err *err)
{
    struct gb_service *s = calloc(1, sizeof(*s));
    struct gb_loop *loop = gb_loop_new();
    if (!s || !loop) {
        free(s);
        gb_loop_free(loop);
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "start");
    }
    *s = (struct gb_service){.options = options, .loop = loop, .diag_fd = -1, .config_fd = -1, .err = err};
    s->state.lock_fd = s->state.audit_fd = s->signals.fd = -1;
    s->on_terminal = isatty(STDERR_FILENO);
    s->answer.fire = no_answer;
    memset(s->pair, -1, sizeof(s->pair));
    for (size_t i = 0; i < GB_CHILDREN; i++)
        s->children[i].channel.fd = -1;
    int r = serve(s, err);
    release(s);
    return r;
}
