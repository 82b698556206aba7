/* The life of the four processes as one: they are started one after the other, and when one of them dies the
 * others are killed and all are started anew. What they hold belongs together (channels, calls that are
 * under way), so a part of it is worth nothing; and a process that may have been captured takes its peers'
 * state with it.
 *
 * We are a subreaper: keepers and boxes of a launcher that died become our children, die by their own
 * parents' death signal, and are reaped here. "Nobody is left to wait for" therefore says that no box is left
 * either. */
#include "serve/service.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/cgroup.h"
#include "serve/notify.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define SECOND        1000000LL
#define READY_US      (30 * SECOND) /* for a child to confine itself */
#define GONE_US       (5 * SECOND)  /* for what was killed to be gone, and for what was told to stop to end */
#define HANG_UP_US    (1 * SECOND)  /* from the end of its channel to its own */
#define FAILURE_US    (10 * SECOND)
#define PAUSE_MOST_US (5 * SECOND)
#define CALM_US       (30 * SECOND) /* without a failure: what was before is forgotten */
#define EARLY_MOST    10

static void fail(struct gb_service *s, struct gb_child *c, bool refused, const char *how);
static void enter(struct gb_service *s, enum gb_phase phase);

/* The child that was started last, of those that run. */
static struct gb_child *running(struct gb_service *s)
{
    for (size_t i = GB_CHILDREN; i-- > 0;)
        if (s->children[i].pid)
            return &s->children[i];
    return NULL;
}

/* --- starting --- */

static void start_next(struct gb_service *s, size_t i)
{
    struct gb_child *c = &s->children[i];
    struct gb_err err = {0};
    int r = gb_child_start(c, i == GB_CHILD_STORE ? s->state.audit_fd : -1, &err);
    if (!r)
        r = gb_loop_watch(s->loop, &c->channel, EPOLLIN);
    if (!r)
        r = gb_start_tell(s, (enum gb_child_index)i, &err);
    if (r)
        fail(s, c, false, err.text[0] ? err.text : strerror(-r));
    else
        gb_loop_at(s->loop, &s->timer, gb_clock_us() + READY_US);
}

static void begin_starting(struct gb_service *s)
{
    int r = gb_start_pairs(s);
    if (r)
        fail(s, NULL, false, strerror(-r));
    else
        start_next(s, 0);
}

static void announce(struct gb_service *s)
{
    struct gb_buf banner = {.max = 8192};
    char where[256] = "";
    for (size_t i = 0; i < s->listen_count; i++)
        snprintf(where + strlen(where), sizeof(where) - strlen(where), "%s%s", i ? " " : "",
                 s->listen[i].text);
    const char *text = where;
    gb_log(GB_LOG_INFO, s->was_ready ? "serving again" : "serving", GB_S("addresses", text));
    gb_notify("READY=1\nSTATUS=Listening on %s", where);
    if (s->was_ready)
        return;
    gb_banner_write(s, &banner);
    (void)gb_fd_write_all(STDOUT_FILENO, banner.data ? banner.data : "", banner.len);
    gb_buf_done(&banner);
}

static void all_ready(struct gb_service *s)
{
    enter(s, GB_PHASE_SERVING);
    announce(s);
    s->was_ready = true;
    if (s->reload_wanted)
        gb_reload(s);
}

static void became_ready(struct gb_service *s, struct gb_child *c)
{
    const size_t i = (size_t)(c - s->children);
    c->ready = true;
    gb_log(GB_LOG_DEBUG, "ready", GB_S("process", c->name), GB_I("pid", c->pid));
    if (i + 1 < GB_CHILDREN)
        start_next(s, i + 1);
    else
        all_ready(s);
}

/* --- what they say --- */

static void heard(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct gb_child *c = GB_OWNER(source, struct gb_child, channel);
    struct gb_service *s = c->service;
    int r = gb_msg_receive(c->channel.fd, c->name, "serve", &s->msg);
    if (r == -EAGAIN)
        return;
    if (r) { /* it ends, or is not to be trusted any more; its death tells the rest */
        gb_loop_forget(s->loop, &c->channel);
        gb_loop_at(s->loop, &c->hung_up, gb_clock_us() + (r == -EPIPE ? HANG_UP_US : 1));
        if (r == -EPROTO)
            gb_log(GB_LOG_ERROR, "sent something that is no message of ours", GB_S("process", c->name));
        return;
    }
    /* There is one thing that they can say. */
    if (!c->ready && s->phase == GB_PHASE_STARTING)
        became_ready(s, c);
    else
        gb_reload_heard(s, c, s->msg.tag);
    gb_msg_done(&s->msg);
}

static void outlived_channel(struct gb_timer *timer)
{
    const struct gb_child *c = GB_OWNER(timer, struct gb_child, hung_up);
    gb_log(GB_LOG_ERROR, "cannot be reached any more; killing it", GB_S("process", c->name));
    kill(c->pid, SIGKILL);
}

/* Who was started last depends on the others, so it stops first: the front, the broker, the launcher, the
 * store. */
static void tell_last_to_stop(struct gb_service *s)
{
    struct gb_child *last = running(s);
    if (last)
        (void)gb_msg_send(last->channel.fd, GB_MSG_STOP, 0, NULL, NULL, 0, NULL, 0);
}

/* --- dying --- */

static void kill_all(struct gb_service *s)
{
    for (size_t i = 0; i < GB_CHILDREN; i++)
        if (s->children[i].pid)
            kill(s->children[i].pid, SIGKILL);
    gb_start_close_pairs(s);
}

static void give_up(struct gb_service *s, const char *name, const char *how)
{
    gb_err_set(s->err, GB_ERR_LAYER, 0, "the service does not start: %s: %s", name, how);
    gb_err_hint(s->err, "its own message is above; `glovebox doctor` shows what this host can give");
    enter(s, GB_PHASE_KILLING);
}

/* None at first: whoever calls waits only as long as a start takes. Failures that go on and on get a pause,
 * so that they do not keep the host busy, but a short one: who tries to crash the service must not get long
 * silences out of it. */
static int64_t pause_after_failure(struct gb_service *s, int64_t now)
{
    int64_t *slot = &s->failed_us[s->failures % GB_FAILURES];
    const int64_t oldest = *slot, last = s->failures ? s->failed_us[(s->failures - 1) % GB_FAILURES] : 0;
    *slot = now;
    s->failures++;
    if (s->pause_us && now - last < CALM_US)
        return s->pause_us * 2 < PAUSE_MOST_US ? s->pause_us * 2 : PAUSE_MOST_US;
    return oldest && now - oldest < FAILURE_US ? SECOND : 0;
}

/* A child that ends by its own decision instead of becoming ready has said why, and would say it again: if
 * the service was never ready, it does not start here. Who was killed may have had bad luck. */
static void fail(struct gb_service *s, struct gb_child *c, bool refused, const char *how)
{
    const char *name = c ? c->name : "channels";
    gb_log(GB_LOG_ERROR, "a process of the service ended", GB_S("process", name), GB_S("how", how));
    s->phase = GB_PHASE_CLEARING;
    gb_reload_answered(s, false, "a process ended while it was taken over");
    if (!s->was_ready && (refused || ++s->early_failures >= EARLY_MOST)) {
        give_up(s, name, how);
        return;
    }
    s->pause_us = pause_after_failure(s, gb_clock_us());
    gb_notify("STATUS=Starting anew after the %s ended: %s", name, how);
    enter(s, GB_PHASE_CLEARING);
}

static void ended(struct gb_service *s, struct gb_child *c, int status)
{
    char text[128];
    const char *how = gb_child_describe(status, text, sizeof(text));
    const bool well = WIFEXITED(status) && !WEXITSTATUS(status);
    const bool refused = WIFEXITED(status) && !c->ready;
    gb_child_forget(c, s->loop);
    if (s->phase <= GB_PHASE_SERVING) {
        fail(s, c, refused, how);
        return;
    }
    /* Whose death was the first is not always whose we hear of first. */
    if (s->phase == GB_PHASE_CLEARING)
        gb_log(GB_LOG_INFO, "ended as well", GB_S("process", c->name), GB_S("how", how));
    if (!well && (s->phase == GB_PHASE_DRAINING || s->phase == GB_PHASE_STOPPING))
        gb_log(GB_LOG_WARN, "did not end well", GB_S("process", c->name), GB_S("how", how));
    if (s->phase == GB_PHASE_DRAINING || s->phase == GB_PHASE_STOPPING)
        tell_last_to_stop(s);
}

/* Boxes whose keeper was killed have left their cgroups. (A new launcher would sweep, but none comes.) */
static void end(struct gb_service *s)
{
    struct gb_msg_ceiling ceiling;
    gb_start_ceiling(s, &ceiling);
    (void)gb_cgroup_sweep_parent(*ceiling.cgroup_parent ? ceiling.cgroup_parent : NULL, NULL);
    gb_loop_stop(s->loop);
}

/* Nobody is left: no child, and no box. */
static void all_gone(struct gb_service *s)
{
    if (s->phase == GB_PHASE_CLEARING)
        enter(s, GB_PHASE_WAITING);
    else if (s->phase >= GB_PHASE_DRAINING)
        end(s);
}

void gb_life_reap(struct gb_service *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < GB_CHILDREN; i++)
            if (s->children[i].pid == pid)
                ended(s, &s->children[i], status);
    if (pid < 0 && errno == ECHILD)
        all_gone(s);
}

/* --- stopping --- */

void gb_life_stop(struct gb_service *s)
{
    if (s->phase < GB_PHASE_DRAINING)
        enter(s, GB_PHASE_DRAINING);
    else
        enter(s, GB_PHASE_KILLING);
}

/* New callers are refused by the kernel from here on, and the path of a unix socket is free for the next
 * service. */
static void stop_listening(struct gb_service *s)
{
    for (size_t i = 0; i < s->listen_count; i++)
        gb_listen_close(&s->listen[i]);
}

/* --- phases: what happens on the way in, how long it may take, what then --- */

static void begin_serving(struct gb_service *s)
{
    gb_loop_at(s->loop, &s->timer, 0);
}

static void begin_clearing(struct gb_service *s)
{
    kill_all(s);
    gb_loop_at(s->loop, &s->timer, gb_clock_us() + GONE_US);
    gb_life_reap(s); /* there may be nobody whose end would wake us */
}

static void begin_waiting(struct gb_service *s)
{
    for (size_t i = 0; i < GB_CHILDREN; i++)
        gb_child_forget(&s->children[i], s->loop);
    if (s->pause_us)
        gb_log(GB_LOG_WARN, "waiting before the next start", GB_I("ms", s->pause_us / 1000));
    gb_loop_at(s->loop, &s->timer, gb_clock_us() + s->pause_us + 1);
}

static void begin_draining(struct gb_service *s)
{
    gb_log(GB_LOG_INFO, "stopping", GB_I("drain_ms", s->config->drain_ms));
    gb_notify("STOPPING=1\nSTATUS=Finishing calls that are under way");
    stop_listening(s);
    gb_loop_at(s->loop, &s->timer, gb_clock_us() + s->config->drain_ms * 1000 + 1);
    if (s->children[GB_CHILD_FRONT].ready)
        tell_last_to_stop(s);
    else
        enter(s, GB_PHASE_KILLING); /* nobody was served: there is nothing to finish */
}

static void begin_stopping(struct gb_service *s)
{
    gb_log(GB_LOG_WARN, "calls are still under way; ending them", GB_I("drain_ms", s->config->drain_ms));
    tell_last_to_stop(s); /* a second time: it may answer them, but not wait for them */
    gb_loop_at(s->loop, &s->timer, gb_clock_us() + GONE_US);
}

static void begin_killing(struct gb_service *s)
{
    struct gb_child *last = running(s);
    if (last)
        gb_log(GB_LOG_WARN, "killing what is left", GB_S("process", last->name));
    kill_all(s);
    gb_loop_at(s->loop, &s->timer, gb_clock_us() + GONE_US);
    gb_life_reap(s);
}

static const struct {
    void (*begin)(struct gb_service *s);
    enum gb_phase then; /* when the time is over */
} phases[GB_PHASE_COUNT] = {
        [GB_PHASE_STARTING] = {begin_starting, GB_PHASE_CLEARING},
        [GB_PHASE_SERVING] = {begin_serving, GB_PHASE_SERVING},
        [GB_PHASE_CLEARING] = {begin_clearing, GB_PHASE_WAITING},
        [GB_PHASE_WAITING] = {begin_waiting, GB_PHASE_STARTING},
        [GB_PHASE_DRAINING] = {begin_draining, GB_PHASE_STOPPING},
        [GB_PHASE_STOPPING] = {begin_stopping, GB_PHASE_KILLING},
        [GB_PHASE_KILLING] = {begin_killing, GB_PHASE_COUNT},
};

static void enter(struct gb_service *s, enum gb_phase phase)
{
    s->phase = phase;
    phases[phase].begin(s);
}

static void time_is_over(struct gb_timer *timer)
{
    struct gb_service *s = GB_OWNER(timer, struct gb_service, timer);
    if (s->phase == GB_PHASE_STARTING) {
        fail(s, running(s), false, "not ready in time");
        return;
    }
    if (s->phase == GB_PHASE_CLEARING)
        gb_log(GB_LOG_ERROR, "what was killed is still there; going on without waiting for it",
               GB_I("ms", GONE_US / 1000));
    if (phases[s->phase].then == GB_PHASE_COUNT)
        end(s);
    else
        enter(s, phases[s->phase].then);
}

void gb_life_begin(struct gb_service *s)
{
    s->timer.fire = time_is_over;
    for (size_t i = 0; i < GB_CHILDREN; i++) {
        s->children[i].service = s;
        s->children[i].channel.ready = heard;
        s->children[i].hung_up.fire = outlived_channel;
    }
    enter(s, GB_PHASE_WAITING);
}
