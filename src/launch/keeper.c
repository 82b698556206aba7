#include "launch/keeper.h"

#include "backend/native.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "init/report.h"
#include "sandbox/launch.h"
#include "sandbox/steps.h"
#include "screen/start.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BASE_ENV 16 /* room for gb_spec_env */
/* Where nobody follows the output as it comes, it is left in the pipes until it is much or the program takes
 * long: most have ended by then. Who fills a pipe waits until somebody looks. */
#define UNREAD_US    20000
#define UNREAD_BYTES 32768
#define PAUSE_NS     300000
#define KEEPER_NAME  "glovebox-keeper"

/* What the keeper works on. Static: it has one run, and its pages cost nothing before they are touched. */
struct keeper {
    const struct gb_run *run;
    struct gb_payload payload;
    const char *env[BASE_ENV + GB_PAYLOAD_STRINGS + 1];
    struct gb_file files[GB_PAYLOAD_FILES + GB_PYTHON_START_FILES];
    struct gb_spec spec;
    struct gb_result result;
    int out[2]; /* reading ends of the output, until the front has them; -1 */
};

void gb_keeper_spec(const struct gb_run *run, struct gb_spec *ret_spec)
{
    const struct gb_msg_ceiling *ceiling = &run->ceiling;
    *ret_spec = (struct gb_spec){
            .runtime = run->ask.runtime ? gb_runtimes[run->ask.runtime - 1].name : NULL,
            .limits = run->ask.limits,
            .cgroup_parent = *ceiling->cgroup_parent ? ceiling->cgroup_parent : NULL,
            .degraded = *ceiling->degraded ? ceiling->degraded : NULL,
            .stdin_fd = -1,
            .cancel_fd = -1,
            .out_fd = {-1, -1},
    };
}

/* --- descriptors --- */

/* Input is a file in memory. Must not: be something that could make a read wait: while we wait, nobody looks
 * at the clock of the box. */
static int take_stdin(struct keeper *k, struct gb_err *err)
{
    if (k->run->fd_count <= GB_RUN_STDIN)
        return 0;
    const int fd = k->run->fd[GB_RUN_STDIN];
    if (fcntl(fd, F_GET_SEALS) < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return gb_err_set(err, GB_ERR_USAGE, 0, "stdin of a box must be a memfd");
    k->spec.stdin_fd = fd;
    return 0;
}

/* --- what to run --- */

static bool is_replaced(const struct gb_payload *p, const char *variable)
{
    const size_t len = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < p->envc; i++)
        if (!strncmp(p->env[i], variable, len))
            return true;
    return false;
}

static void fill_env(struct keeper *k)
{
    size_t count = 0;
    for (size_t i = 0; i < gb_spec_env_count && i < BASE_ENV; i++)
        if (!is_replaced(&k->payload, gb_spec_env[i]))
            k->env[count++] = gb_spec_env[i];
    for (size_t i = 0; i < k->payload.envc; i++)
        k->env[count++] = k->payload.env[i];
    k->env[count] = NULL;
    k->spec.env = k->env;
}

/* Those of the call, and our own start-up code where the call's interpreter needs it. */
static void fill_files(struct keeper *k)
{
    const struct gb_payload *p = &k->payload;
    memcpy(k->files, p->files, p->file_count * sizeof(*k->files));
    k->spec.files = k->files;
    k->spec.file_count = p->file_count;
    if (!(k->run->ask.flags & GB_RUN_START_CODE))
        return;
    gb_python_start_files(&k->files[k->spec.file_count]);
    k->spec.file_count += GB_PYTHON_START_FILES;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Nothing of anybody's: the payload is not even looked at, and it gets as little as a box can do with. */
static int prepare_probe(struct keeper *k, const struct gb_limits *most)
{
    static const char *const argv[] = {"true", NULL};
    k->spec.argv = argv;
    k->spec.limits = (struct gb_limits){.timeout_ms = lesser(10000, most->timeout_ms),
                                        .cpu_ms = lesser(2000, most->cpu_ms),
                                        .cpu_percent = lesser(100, most->cpu_percent),
                                        .memory_mb = lesser(32, most->memory_mb),
                                        .disk_mb = 1,
                                        .pids = lesser(4, most->pids),
                                        .open_files = lesser(32, most->open_files),
                                        .output_bytes = 0};
    return 0;
}

static int prepare_call(struct keeper *k, struct gb_err *err)
{
    const struct gb_payload *p = &k->payload;
    int r = gb_payload_open(k->run->fd[GB_RUN_PAYLOAD], k->run->ask.payload_bytes, &k->payload, err);
    if (r)
        return r;
    if (!p->argc)
        return gb_err_set(err, GB_ERR_USAGE, 0, "payload: there is nothing to run");
    for (size_t i = 0; i < p->file_count; i++)
        if (!p->files[i].data)
            return gb_err_set(err, GB_ERR_USAGE, 0, "payload: a file for the box has no bytes");
    k->spec.argv = p->argv;
    fill_files(k);
    k->spec.outputs = p->outputs;
    k->spec.output_count = p->output_count;
    return take_stdin(k, err);
}

static int prepare(struct keeper *k, struct gb_err *err)
{
    k->spec.cancel_fd = k->run->fd[GB_RUN_SOCKET];
    int r = k->run->ask.flags & GB_RUN_PROBE ? prepare_probe(k, &k->run->ceiling.limits)
                                             : prepare_call(k, err);
    fill_env(k);
    return r;
}

/* --- output --- */

/* Once. A front that cannot be told has hung up, which is seen elsewhere. */
static void tell_output(struct keeper *k)
{
    if (k->out[0] >= 0)
        (void)gb_run_tell_output(k->run, k->out);
}

static bool look_at_output(void *context, bool overdue)
{
    struct keeper *k = context;
    int bytes[2] = {0};
    for (int i = 0; i < 2; i++)
        (void)ioctl(k->out[i], FIONREAD, &bytes[i]);
    if (!overdue && bytes[0] < UNREAD_BYTES && bytes[1] < UNREAD_BYTES)
        return false;
    tell_output(k);
    return true;
}

/* The front gets the reading ends: at once if it follows; else when there is need, or with the end. */
static void hand_out_output(struct keeper *k)
{
    k->spec.late_us = UNREAD_US;
    k->spec.late_context = k;
    if (k->run->ask.flags & GB_RUN_FOLLOWED)
        tell_output(k);
    else
        k->spec.late = look_at_output;
}

/* --- its life --- */

/* Should: die with the launcher, from the first moment. */
static void settle(const int *fds, unsigned fd_count, pid_t launcher)
{
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != launcher)
        _exit(1);
    prctl(PR_SET_NAME, KEEPER_NAME, 0, 0, 0);
    /* An ordinary user may write the id maps of its child only if that, and so we, can be looked at. */
    if (geteuid() != 0)
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    /* The launcher's channels are not a box's business, and the end of a socket that a keeper holds open
     * would hide the launcher's death from those at the other end. */
    gb_fd_close_others(fds, fd_count);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void answer(struct keeper *k, int r, struct gb_err *err)
{
    if (r && err->code == GB_ERR_NONE)
        gb_err_set(err, GB_ERR_INTERNAL, -r, "run the box");
    int sent = r ? gb_run_fail(k->run, err) : gb_run_answer(k->run, &k->result, k->out);
    /* A front that has hung up wants no answer. */
    if (sent && sent != -EPIPE && sent != -ECONNRESET)
        gb_log(GB_LOG_WARN, "a run could not be answered", GB_S("id", k->run->ask.id),
               GB_S("error", strerror(-sent)));
}

/* --- a box from nothing --- */

static int open_output(struct keeper *k, struct gb_err *err)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC))
            return gb_err_set(err, GB_ERR_BUSY, errno, "make a pipe");
        k->out[i] = ends[0];
        k->spec.out_fd[i] = ends[1];
        if (fcntl(ends[0], F_SETFL, O_NONBLOCK)) /* only its end: programs expect output that blocks */
            return gb_err_set(err, GB_ERR_INTERNAL, errno, "set up a pipe");
    }
    hand_out_output(k);
    return 0;
}

static int run_cold(struct keeper *k, struct gb_err *err)
{
    struct gb_receipt *receipt = &k->result.enforced;
    int r = open_output(k, err);
    if (!r)
        r = gb_backend_native.run(&k->spec, NULL, NULL, &k->result, err);
    if (!r && *receipt->seccomp_profile) /* the last step: the box was whole */
        gb_native_hash_policy(&k->spec, receipt->policy_hash);
    return r;
}

void gb_keeper_main(const struct gb_run *run, pid_t launcher)
{
    static struct keeper k = {.out = {-1, -1}};
    settle(run->fd, run->fd_count, launcher);
    k.run = run;
    gb_keeper_spec(run, &k.spec);
    struct gb_err err = {0};
    int r = prepare(&k, &err);
    if (!r)
        r = run_cold(&k, &err);
    answer(&k, r, &err);
    _exit(0);
}

/* --- boxes that wait --- */

struct waiter {
    const struct gb_keeper_post *post;
    struct gb_spec spec; /* what the box is built with */
    struct gb_box box;
    struct gb_cgroup rested; /* of the box before it */
    struct gb_run run;
    struct keeper k;
    struct gb_msg msg;
    bool again;
    enum gb_start how;
    /* of the call before; most have the same, and need not wait for it */
    struct gb_limits hashed;
    char degraded[128], hash[65];
};

static void set_state(const struct gb_keeper_post *post, enum gb_slot_state state)
{
    atomic_store(&post->slots->state[post->slot], (uint32_t)state);
}

/* For whoever looks at a list of processes: a keeper without a call says what it does, and of what kind. */
static void set_name(const struct gb_keeper_post *post, const char *does)
{
    char name[16];
    snprintf(name, sizeof(name), "gb-%s-%s", does, gb_pool_kinds[post->kind].name);
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* The cgroup of the box before last, if it is as new again: what the kernel counts for a box is given back a
 * while after its end. */
static void take_cgroup(struct waiter *w)
{
    const struct gb_cgroup last = w->box.cgroup;
    w->box.cgroup = w->rested;
    w->rested = last;
    if (w->box.cgroup.version && !gb_cgroup_recycle(&w->box.cgroup))
        gb_cgroup_destroy(&w->box.cgroup);
}

/* Takes over what the boxes before have left: uid, buffers, cgroup, cradle. */
static int build(struct waiter *w)
{
    struct gb_err err = {0};
    struct gb_box *box = &w->box;
    take_cgroup(w);
    set_name(w->post, "build");
    gb_box_again(box, &w->spec);
    box->zygote = &w->post->zygote;
    atomic_fetch_add(&w->post->slots->born[w->post->nest], 1);
    int r = gb_launch(box, &err);
    if (!r)
        atomic_store(&w->post->slots->warm[w->post->nest], 1);
    else
        gb_log(GB_LOG_WARN, "no box could be built to wait", GB_S("kind", gb_pool_kinds[w->post->kind].name),
               GB_S("error", err.text));
    return r;
}

static bool has_ended(const struct gb_box *box)
{
    struct pollfd p[] = {{box->channel, POLLIN, 0}, {box->init_fd, POLLIN, 0}};
    return poll(p, ARRAY_LEN(p), 0) != 0;
}

/* Takes the box off the market. False: a call is on its way to it. */
static bool withdraw(const struct gb_keeper_post *post)
{
    uint32_t state = GB_SLOT_WAITING;
    return atomic_compare_exchange_strong(&post->slots->state[post->slot], &state, GB_SLOT_ENDING);
}

/* Until a call has come: 0. 1: none will come any more. Negative: the box is not what it was. */
static int await_call(struct waiter *w)
{
    const struct gb_keeper_post *post = w->post;
    bool ended = false;
    set_name(post, "waits");
    set_state(post, GB_SLOT_WAITING);
    if (atomic_load(&post->slots->pending))
        (void)eventfd_write(post->bell, 1);
    for (;;) {
        struct pollfd p[] = {{post->socket, POLLIN, 0},
                             {ended ? -1 : w->box.channel, POLLIN, 0},
                             {ended ? -1 : w->box.init_fd, POLLIN, 0}};
        if (poll(p, ARRAY_LEN(p), ended ? 10 : -1) < 0)
            continue;
        if (p[0].revents) {
            int r = gb_msg_receive(post->socket, "launch", "keeper", &w->msg);
            if (r == -EAGAIN)
                continue;
            return r ? 1 : 0;
        }
        ended = true;
        if (withdraw(post)) {
            gb_log(GB_LOG_WARN, "a box has ended while it waited",
                   GB_S("kind", gb_pool_kinds[post->kind].name));
            return -EPIPE;
        }
    }
}

/* Nobody will call any more. */
static bool is_left(const struct gb_keeper_post *post)
{
    struct pollfd p = {post->socket, POLLIN, 0};
    return poll(&p, 1, 0) != 0;
}

static void take_call(struct waiter *w)
{
    const struct gb_msg_serve *serve = w->msg.body;
    w->again = serve->again;
    w->how = serve->start < GB_START_COUNT ? (enum gb_start)serve->start : GB_START_COLD;
    w->run = (struct gb_run){
            .tag = w->msg.tag, .ask = serve->ask, .ceiling = serve->ceiling, .fd_count = w->msg.fd_count};
    for (unsigned i = 0; i < w->msg.fd_count; i++)
        w->run.fd[i] = TAKE_FD(w->msg.fd[i]);
    gb_msg_done(&w->msg);
}

static bool is_hashed(const struct waiter *w)
{
    return *w->hash && !memcmp(&w->hashed, &w->k.spec.limits, sizeof(w->hashed)) &&
           !strcmp(w->degraded, w->k.spec.degraded ? w->k.spec.degraded : "");
}

static void keep_hash(struct waiter *w)
{
    w->hashed = w->k.spec.limits;
    memcpy(w->hash, w->box.receipt.policy_hash, sizeof(w->hash));
    snprintf(w->degraded, sizeof(w->degraded), "%s", w->k.spec.degraded ? w->k.spec.degraded : "");
}

static int start(struct waiter *w, struct gb_err *err)
{
    const struct gb_keeper_post *post = w->post;
    int payloads[GB_GO_PAYLOADS] = {w->run.fd[GB_RUN_PAYLOAD], post->start_code};
    const bool screened = w->run.ask.flags & GB_RUN_START_CODE, knows = post->kind == GB_POOL_PYTHON;
    w->box.spec = &w->k.spec;
    w->box.receipt.limits = w->k.spec.limits;
    w->box.receipt.start = w->how;
    if (is_hashed(w))
        memcpy(w->box.receipt.policy_hash, w->hash, sizeof(w->hash));
    if (has_ended(&w->box))
        return -EPIPE;
    return gb_launch_start(&w->box, screened && knows ? GB_GO_SCREENED : GB_GO_START, payloads,
                           screened && !knows ? 2 : 1, err);
}

/* -ECONNRESET: nothing of the call was in the box, which has ended in the moment in which the call came. */
static int serve_warm(struct waiter *w, struct gb_err *err)
{
    if (start(w, err))
        return -ECONNRESET;
    for (int i = 0; i < 2; i++)
        w->k.out[i] = TAKE_FD(w->box.out_fd[i]);
    hand_out_output(&w->k);
    int r = gb_native_serve(&w->box, NULL, NULL, &w->k.result, err);
    if (!r)
        keep_hash(w);
    return r;
}

/* In a box from nothing, as if there had been no other. */
static int run_instead(struct keeper *k, struct gb_err *err)
{
    for (int i = 0; i < 2; i++)
        gb_close(&k->out[i]);
    gb_result_done(&k->result);
    *err = (struct gb_err){0};
    int r = take_stdin(k, err); /* the other may have been sent some of it */
    return r ? r : run_cold(k, err);
}

/* The box is dead in any case. */
static int run_call(struct waiter *w, struct gb_err *err)
{
    int r = prepare(&w->k, err);
    if (!r && (r = serve_warm(w, err)) == -ECONNRESET) {
        w->again = false;
        r = run_instead(&w->k, err);
    }
    if (r || !w->again)
        gb_launch_kill(&w->box);
    return r;
}

static bool is_alone(const struct gb_slots *slots)
{
    bool others = atomic_load(&slots->pending);
    for (unsigned i = 0; i < GB_SLOTS && !others; i++)
        others = atomic_load(&slots->state[i]) == GB_SLOT_BUSY;
    return !others;
}

/* The answer's next stop, the front, is made to wait for the processor that we are on, since the kernel
 * thinks that who sends will sleep. So we do, for as long as an answer needs to reach its caller, unless
 * there are other calls that could use the time. */
static void stand_back(const struct gb_keeper_post *post)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (is_alone(post->slots))
        nanosleep(&pause, NULL);
}

/* One call, from beginning to end. The box is dead when the answer leaves, and what is left of it is put away
 * after that. */
static void serve(struct waiter *w)
{
    struct gb_err err = {0};
    struct keeper *k = &w->k;
    k->run = &w->run;
    prctl(PR_SET_NAME, KEEPER_NAME, 0, 0, 0);
    gb_keeper_spec(&w->run, &k->spec);
    k->result = (struct gb_result){0};
    const int r = run_call(w, &err);
    const bool calm = !r && !k->result.kill_reason;
    /* Before the answer: who has it may ask for the place at once. */
    set_state(w->post, w->again ? GB_SLOT_BUILDING : GB_SLOT_ENDING);
    answer(k, r, &err);
    stand_back(w->post);
    for (int i = 0; i < 2; i++)
        gb_close(&k->out[i]);
    gb_result_done(&k->result);
    gb_payload_done(&k->payload);
    gb_run_drop(&w->run);
    if (!calm)
        gb_cgroup_destroy(&w->box.cgroup);
    gb_box_close(&w->box);
}

static void leave(struct waiter *w, int code) __attribute__((noreturn));
static void leave(struct waiter *w, int code)
{
    gb_cgroup_destroy(&w->box.cgroup);
    gb_cgroup_destroy(&w->rested);
    _exit(code);
}

void gb_keeper_wait(const struct gb_keeper_post *post, pid_t launcher)
{
    static struct waiter w = {.k.out = {-1, -1}};
    const int keep[] = {post->socket, post->bell, post->zygote.socket, post->start_code};
    settle(keep, ARRAY_LEN(keep), launcher);
    w.post = post;
    const struct gb_run nobody = {.ask.limits = post->limits, .ceiling = post->ceiling};
    gb_keeper_spec(&nobody, &w.spec);
    w.spec.env = gb_spec_env;
    gb_box_init(&w.box, &w.spec);
    gb_cgroup_init(&w.rested);
    for (bool more = true; more; more = w.again && !is_left(post)) {
        int r = build(&w);
        if (!r)
            r = await_call(&w);
        if (r) {
            gb_launch_kill(&w.box);
            leave(&w, r == -ETIMEDOUT ? GB_KEEPER_STUCK : r < 0 ? GB_KEEPER_NO_BOX : 0);
        }
        take_call(&w);
        serve(&w);
    }
    leave(&w, 0);
}
