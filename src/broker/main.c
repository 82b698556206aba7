/* glovebox-broker: see broker.h. Started by `glovebox serve` with its control channel as descriptor 3. */
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"
#include "confine/confine.h"
#include "wire/begin.h"
#include "wire/id.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define HOLD_US        1000000 /* a call that comes when all places are taken waits this long for one */
#define TAKE_MOST      64      /* calls in a row, before others have their turn */
#define FILES_PER_CALL 3       /* its socket, its process, and its arguments until it has begun */
#define FILES_KEPT     32      /* channels, configurations, and what comes with the next message */
#define RUNNING_MOST   4096    /* as many as can be configured */

static struct broker broker;

static void die(const char *what, const char *why) __attribute__((noreturn));
static void die(const char *what, const char *why)
{
    gb_log(GB_LOG_ERROR, what, GB_S("error", why));
    _exit(1); /* the processes of calls die with us */
}

static void check_done(struct broker *b)
{
    if (b->stopping && !b->calls && !b->held)
        gb_loop_stop(b->loop);
}

/* --- calls --- */

/* A process answers just before it ends, so the front may fill a place a moment before we see that it is
 * free: such a call waits. Returns whether it does. */
static bool hold(struct broker *b, struct call *call)
{
    const int64_t now = gb_clock_us();
    if (b->held)
        return now < b->hold.at_us;
    if (gb_loop_at(b->loop, &b->hold, now + HOLD_US))
        return false;
    gb_loop_forget(b->loop, &b->front);
    b->held = call;
    return true;
}

static void release(struct broker *b)
{
    if (!b->held)
        return;
    b->held = NULL;
    gb_loop_at(b->loop, &b->hold, 0);
    if (!b->stopping && gb_loop_watch(b->loop, &b->front, EPOLLIN))
        die("watch the front's channel", strerror(errno));
}

static int try_start(struct broker *b, struct call *call, struct gb_err *err)
{
    if (b->stopping)
        return gb_err_set(err, GB_ERR_STOPPING, 0, "the service is going down");
    if (!gb_id_is_valid(call->ask.id))
        return gb_err_set(err, GB_ERR_USAGE, 0, "the id is not one of ours");
    const int config = generation_find(&b->generations, call->ask.policy, gb_clock_us());
    if (config < 0)
        return gb_err_set(err, GB_ERR_CONFLICT, 0, "the policy has just changed; try again");
    if (b->running >= b->limits.running)
        return gb_err_set(err, GB_ERR_BUSY, 0, "all %u calls that the broker does at once are under way",
                          b->limits.running);
    return call_start(call, config, err);
}

/* Starts it, holds it, or refuses it. */
static void decide(struct broker *b, struct call *call)
{
    struct gb_err err = {0};
    if (!b->stopping && b->running >= b->limits.running && hold(b, call))
        return;
    if (b->held == call)
        release(b);
    if (try_start(b, call, &err))
        call_refuse(call, &err);
    else
        b->running++;
}

static void held_too_long(struct gb_timer *timer)
{
    struct broker *b = GB_OWNER(timer, struct broker, hold);
    decide(b, b->held);
}

void broker_ended(struct broker *b)
{
    b->running--;
    if (b->held)
        decide(b, b->held);
    check_done(b);
}

/* --- what comes in --- */

/* Nobody is left to ask; calls that are under way have lost their caller, and end. */
static void lose_front(struct broker *b)
{
    gb_loop_forget(b->loop, &b->front);
    b->stopping = true;
    check_done(b);
}

static void front_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct broker *b = GB_OWNER(source, struct broker, front);
    for (int i = 0; i < TAKE_MOST && !b->held; i++) {
        bool broken = false;
        int r = gb_msg_receive(source->fd, "front", "broker", &b->msg);
        if (r == -EAGAIN)
            return;
        if (r == -EPIPE) {
            lose_front(b);
            return;
        }
        /* A front that does not keep to the protocol is broken or not ours any more: nothing it says counts.
         */
        if (r)
            die("the front sent something that is no message", strerror(-r));
        struct call *call = call_take(b, &b->msg, &broken);
        gb_msg_done(&b->msg);
        if (broken)
            die("the front sent a call without a socket", strerror(ENOTSOCK));
        if (call)
            decide(b, call);
    }
}

/* The limit of descriptors is fixed at the start, and may be lower than was asked for: a message whose
 * descriptors find no room would be none. */
static void set_room(struct broker *b)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FILES_PER_CALL * b->limits.running + FILES_KEPT)
        return;
    const rlim_t left = limit.rlim_cur > FILES_KEPT ? limit.rlim_cur - FILES_KEPT : 0;
    b->limits.running = left > FILES_PER_CALL ? (uint32_t)(left / FILES_PER_CALL) : 1;
    gb_log(GB_LOG_WARN, "fewer calls at once than configured: the limit of open files (ulimit -n) is too low",
           GB_I("calls", b->limits.running));
}

static void obey(struct broker *b, const struct gb_msg_broker *limits)
{
    b->limits = *limits;
    gb_log_init("broker", (enum gb_log_level)limits->log.level, (enum gb_log_format)limits->log.format);
    set_room(b);
}

/* Unanswered, it is not in force. */
static void take_config(struct broker *b)
{
    struct gb_err err = {0};
    if (generation_add(&b->generations, b->msg.fd[0], gb_clock_us(), &err)) {
        gb_log(GB_LOG_ERROR, "the new configuration is not used", GB_S("error", err.text));
        return;
    }
    (void)TAKE_FD(b->msg.fd[0]);
    obey(b, b->msg.body);
    if (gb_msg_send(GB_CONTROL, GB_MSG_READY, b->msg.tag, NULL, NULL, 0, NULL, 0))
        _exit(1);
}

/* Asked once: take nothing new, finish what is under way. Asked again: end that. */
static void stop(struct broker *b)
{
    for (struct call *call = b->stopping ? b->calls : NULL; call; call = call->next)
        call_cancel(call);
    b->stopping = true;
    gb_loop_forget(b->loop, &b->front);
    if (b->held)
        decide(b, b->held);
    check_done(b);
}

static void control_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct broker *b = GB_OWNER(source, struct broker, control);
    int r = gb_msg_receive(source->fd, "serve", "broker", &b->msg);
    if (r == -EAGAIN)
        return;
    if (r == -EPIPE)
        _exit(0); /* the supervisor is gone */
    if (r)
        die("the supervisor sent something that is no message", strerror(-r));
    if (b->msg.kind == GB_MSG_CONFIG_BROKER)
        take_config(b);
    else if (b->msg.kind == GB_MSG_STOP)
        stop(b);
    gb_msg_done(&b->msg);
}

/* --- the start --- */

static void take_start(struct broker *b)
{
    struct gb_err err = {0};
    if (gb_begin_receive("broker", GB_MSG_START_BROKER, &b->msg))
        die("nobody started us", "glovebox serve does; this program is not for the command line");
    obey(b, b->msg.body);
    if (generation_add(&b->generations, b->msg.fd[1], gb_clock_us(), &err))
        die("cannot start", err.text);
    b->front.fd = TAKE_FD(b->msg.fd[0]);
    (void)TAKE_FD(b->msg.fd[1]);
    gb_msg_done(&b->msg);
}

static void confine(const struct broker *b, pid_t parent)
{
    struct gb_err err = {0};
    const struct gb_confine row = {.name = "broker",
                                   .keep_host = true,
                                   .uid = GB_UID_BROKER,
                                   .root_fd = -1,
                                   .rw_fd = -1,
                                   .open_files = FILES_PER_CALL * RUNNING_MOST + FILES_KEPT,
                                   .degraded = b->limits.degraded};
    if (gb_confine_enter(&row, parent, &err))
        die("cannot confine itself", err.text);
}

int main(void)
{
    const pid_t parent = getppid();
    struct broker *b = &broker;
    gb_log_init("broker", GB_LOG_INFO, GB_LOG_AUTO);
    b->pid = getpid();
    generation_init(&b->generations);
    take_start(b);
    b->loop = gb_loop_new();
    if (!b->loop)
        die("make an event loop", strerror(errno));
    confine(b, parent);
    b->control = (struct gb_source){.fd = GB_CONTROL, .ready = control_ready};
    b->front.ready = front_ready;
    b->hold.fire = held_too_long;
    if (gb_loop_watch(b->loop, &b->control, EPOLLIN) || gb_loop_watch(b->loop, &b->front, EPOLLIN))
        die("watch the channels", strerror(errno));
    if (!gb_msg_send(GB_CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        gb_loop_run(b->loop);
    _exit(0); /* not exit: what libraries do there may need system calls that are gone */
}
