/* glovebox-front: see front.h. Started by `glovebox serve` with its control channel as descriptor 3. */
#include "front/front.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "confine/confine.h"
#include "front/audit.h"
#include "front/budget.h"
#include "front/call.h"
#include "front/conn.h"
#include "front/idem.h"
#include "front/io.h"
#include "json/json.h"
#include "wire/begin.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define ACCEPT_MOST 64 /* in a row, before others have their turn */
#define CONFIG_MOST ((off_t)16 << 20)
#define OPENING_US  1000 /* how often to look whether the store has answered */
/* Calls come and go, and what one gives back the next one takes: so much stays ours between them. */
#define HEAP_KEPT  (4 << 20)
#define PIECE_KEPT (1 << 20) /* of which no piece is larger than this */

enum { FD_LAUNCH, FD_STORE, FD_BROKER, FD_DIAG, FD_CONFIG, FD_LISTEN }; /* of START_FRONT */

static struct front front;

void front_fail(const char *what)
{
    gb_log_plain(GB_LOG_ERROR, what);
    _exit(1);
}

/* --- configuration --- */

struct policy *policy_ref(struct policy *p)
{
    p->refs++;
    return p;
}

void policy_unref(struct policy *p)
{
    if (!p || --p->refs)
        return;
    SSL_CTX_free(p->tls);
    gb_rules_free(p->secrets);
    gb_policy_free(p->gb);
    gb_config_free(p->config);
    free(p);
}

/* The rules for the policy's secrets alone. */
static int secret_rules(const struct gb_policy *gb, struct gb_rules **ret, struct gb_err *err)
{
    if (!gb->secret_count)
        return 0;
    AUTO_FREE const char **values = calloc(gb->secret_count, sizeof(*values));
    AUTO_FREE const char **off = calloc(gb_rules_builtin_count() + 1, sizeof(*off));
    if (!values || !off)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "keep the configuration");
    for (size_t i = 0; i < gb->secret_count; i++)
        values[i] = gb->secrets[i].value;
    for (size_t i = 0; i < gb_rules_builtin_count(); i++)
        off[i] = gb_rules_builtin_name(i);
    const struct gb_rules_options options = {.off = off,
                                             .off_count = gb_rules_builtin_count(),
                                             .secrets = values,
                                             .secret_count = gb->secret_count};
    *ret = gb_rules_new(&options, err);
    return *ret ? 0 : -EINVAL;
}

static int policy_read(int fd, struct policy **ret, struct gb_err *err)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > CONFIG_MOST)
        return gb_err_set(err, GB_ERR_INTERNAL, 0,
                          "the configuration that was handed over is empty or too large");
    AUTO_FREE char *text = malloc((size_t)size);
    if (!text || pread(fd, text, (size_t)size, 0) != size)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "read the configuration");
    struct policy *p = calloc(1, sizeof(*p));
    if (!p)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "keep the configuration");
    p->refs = 1;
    int r = gb_config_from_json(text, (size_t)size, &p->config, err);
    if (!r)
        r = gb_policy_new(p->config, GB_POLICY_DECIDE, &p->gb, err);
    if (!r) {
        gb_policy_hash(text, (size_t)size, p->gb->sha256);
        r = secret_rules(p->gb, &p->secrets, err);
    }
    if (!r && p->config->tls_certificate_pem)
        r = io_tls_context(p->config->tls_certificate_pem, p->config->tls_key_pem, &p->tls, err);
    OPENSSL_cleanse(text, (size_t)size); /* the TLS key */
    if (r)
        policy_unref(p);
    else
        *ret = p;
    return r;
}

/* --- the supervisor --- */

void front_check_drained(struct front *f)
{
    if (f->draining && !f->calls && !f->conns)
        gb_loop_stop(f->loop);
}

/* Asked once: take nothing new, finish what is under way. Asked again: end that, and answer what came of it.
 */
static void stop(struct front *f)
{
    for (struct call *call = f->draining ? f->calls : NULL, *next; call; call = next) {
        next = call->next;
        call_cancel(call);
    }
    f->draining = true;
    call_stop_waiting(f);
    for (size_t i = 0; i < f->listener_count; i++)
        if (f->listeners[i].source.fd >= 0) {
            gb_loop_forget(f->loop, &f->listeners[i].source);
            close(TAKE_FD(f->listeners[i].source.fd));
        }
    conn_drain_all(f);
    front_check_drained(f);
}

/* Descriptors that connections must leave to boxes and to ourselves. */
static int64_t files_kept(const struct gb_config *config)
{
    return 8 * (config->boxes.running + 16) + 64;
}

/* The limit is fixed at the start, and may be lower than was asked for: boxes come before connections. */
static void set_room(struct front *f)
{
    const struct gb_config *config = f->policy->config;
    struct rlimit limit;
    f->conn_most = config->http.connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) || (int64_t)limit.rlim_cur >= f->conn_most + files_kept(config))
        return;
    const int64_t left = (int64_t)limit.rlim_cur - files_kept(config);
    f->conn_most = left > 1 ? left : 1;
    gb_log(GB_LOG_WARN, "fewer connections than configured: the limit of open files (ulimit -n) is too low",
           GB_I("connections", f->conn_most));
}

static void reload(struct front *f, int fd)
{
    struct policy *fresh = NULL;
    struct gb_err err = {0};
    if (policy_read(fd, &fresh, &err) || !fresh) {
        gb_log(GB_LOG_ERROR, "the new configuration is not used", GB_S("error", err.text));
        return;
    }
    policy_unref(f->policy);
    f->policy = fresh;
    set_room(f);
    gb_log_init("front", (enum gb_log_level)fresh->config->log_level,
                (enum gb_log_format)fresh->config->log_format);
    gb_log_plain(GB_LOG_INFO, "new configuration in use");
    if (gb_msg_send(GB_CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        _exit(1);
}

static void control_ready(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct front *f = GB_OWNER(source, struct front, control);
    int r = gb_msg_receive(source->fd, "serve", "front", &f->msg);
    if (r == -EAGAIN)
        return;
    if (r)
        _exit(1); /* the supervisor is gone, and so are we */
    if (f->msg.kind == GB_MSG_STOP)
        stop(f);
    else if (f->msg.kind == GB_MSG_CONFIG)
        reload(f, f->msg.fd[0]);
    gb_msg_done(&f->msg);
}

static void peer_broken(struct channel *ch, const char *why)
{
    gb_log(GB_LOG_ERROR, "a process of the service is gone", GB_S("which", ch->peer), GB_S("why", why));
    _exit(1);
}

static void launch_received(struct channel *ch, struct gb_msg *msg)
{
    (void)ch;
    (void)msg;
    front_fail("the launcher answers on the sockets of runs, not here");
}

static void broker_received(struct channel *ch, struct gb_msg *msg)
{
    (void)ch;
    (void)msg;
    front_fail("the broker answers on the sockets of calls, not here");
}

/* --- clients --- */

/* No descriptor is left for the next client: use the spare one to accept and close, so that it is not left to
 * wait for nothing, nor we to be told of it for ever. */
static void turn_away(struct listener *l)
{
    struct front *f = l->front;
    if (conn_evict(f))
        return; /* there is one now */
    if (f->spare_fd >= 0)
        close(TAKE_FD(f->spare_fd));
    AUTO_FD fd = accept4(l->source.fd, NULL, NULL, SOCK_CLOEXEC);
    gb_auto_close(&fd);
    fd = -1;
    f->spare_fd = eventfd(0, EFD_CLOEXEC);
    metrics_count(&f->metrics.turned_away);
}

static void client_waits(struct gb_source *source, uint32_t events)
{
    (void)events;
    struct listener *l = GB_OWNER(source, struct listener, source);
    for (int i = 0; i < ACCEPT_MOST; i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            conn_accept(l->front, l, fd);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(l);
        else if (errno == EAGAIN)
            return;
        else if (errno == EINVAL || errno == EBADF)
            front_fail("a listening socket does not listen any more");
    }
}

static int listen_on(struct front *f, int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);
    struct listener *l = &f->listeners[f->listener_count];
    if (getsockname(fd, (struct sockaddr *)&a, &len))
        return -errno;
    *l = (struct listener){
            .front = f, .is_unix = a.ss_family == AF_UNIX, .source = {.fd = fd, .ready = client_waits}};
    f->listener_count++;
    return 0;
}

/* Callers wait in the kernel's queue until it is known what has been used today: nobody gets a second day by
 * a restart, and nobody is refused for it. */
static void open_doors(struct gb_timer *timer)
{
    struct front *f = GB_OWNER(timer, struct front, opening);
    if (!budget_is_ready(f)) {
        gb_loop_at(f->loop, timer, gb_clock_us() + OPENING_US);
        return;
    }
    for (size_t i = 0; i < f->listener_count; i++)
        if (f->listeners[i].source.fd >= 0 && gb_loop_watch(f->loop, &f->listeners[i].source, EPOLLIN))
            front_fail("a listening socket cannot be watched");
    if (gb_msg_send(GB_CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        _exit(1);
}

/* --- the beginning --- */

static int confine(const struct front *f, struct gb_err *err)
{
    const struct gb_config *config = f->policy->config;
    const int64_t files = config->http.connections + files_kept(config);
    const struct gb_confine c = {.name = "front",
                                 .uid = GB_UID_FRONT,
                                 .root_fd = -1,
                                 .rw_fd = -1,
                                 .open_files = (unsigned)files,
                                 .degraded = config->allow_degraded};
    return gb_confine_enter(&c, getppid(), err);
}

static int start(struct front *f, struct gb_msg *msg, struct gb_err *err)
{
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    mallopt(M_MMAP_THRESHOLD, PIECE_KEPT);
    f->own_uid = getuid();
    f->diag_fd = TAKE_FD(msg->fd[FD_DIAG]);
    f->spare_fd = eventfd(0, EFD_CLOEXEC);
    f->waiting_end = &f->waiting;
    f->waits_end = &f->waits;
    f->next_tag = 1;
    f->sweep.fire = conn_sweep;
    f->loop = gb_loop_new();
    f->idem = idem_new();
    if (!f->loop || !f->idem || f->spare_fd < 0)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "start the front");
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG,
                     NULL); /* it would look for files later, when there are none */
    int r = policy_read(msg->fd[FD_CONFIG], &f->policy, err);
    if (r || !f->policy)
        return r ? r : -EINVAL;
    gb_log_init("front", (enum gb_log_level)f->policy->config->log_level,
                (enum gb_log_format)f->policy->config->log_format);
    f->launch.received = launch_received;
    f->store.received = audit_received;
    f->store.expects = audit_expects;
    f->broker.received = broker_received;
    f->launch.broken = f->store.broken = f->broker.broken = peer_broken;
    r = channel_open(&f->launch, f->loop, TAKE_FD(msg->fd[FD_LAUNCH]), "launch", &f->msg);
    if (!r)
        r = channel_open(&f->store, f->loop, TAKE_FD(msg->fd[FD_STORE]), "store", &f->msg);
    if (!r)
        r = channel_open(&f->broker, f->loop, TAKE_FD(msg->fd[FD_BROKER]), "broker", &f->msg);
    for (unsigned i = FD_LISTEN; !r && i < msg->fd_count; i++)
        r = listen_on(f, TAKE_FD(msg->fd[i]));
    f->control = (struct gb_source){.fd = GB_CONTROL, .ready = control_ready};
    if (!r)
        r = gb_loop_watch(f->loop, &f->control, EPOLLIN);
    f->opening.fire = open_doors;
    if (!r)
        r = budget_begin(f);
    if (!r)
        r = gb_loop_at(f->loop, &f->opening, gb_clock_us());
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "set up the event loop");
    r = confine(f, err);
    if (!r)
        set_room(f);
    return r;
}

int main(void)
{
    struct gb_err err = {0};
    gb_log_init("front", GB_LOG_INFO, GB_LOG_AUTO);
    if (gb_begin_receive("front", GB_MSG_START_FRONT, &front.msg)) {
        fprintf(stderr, "glovebox-front is started by `glovebox serve`\n");
        return 125;
    }
    int r = start(&front, &front.msg, &err);
    gb_msg_done(&front.msg);
    if (r) {
        gb_log(GB_LOG_ERROR, "cannot start", GB_S("error", err.text));
        _exit(1);
    }
    r = gb_loop_run(front.loop);
    _exit(r ? 1 : 0); /* not exit: what libraries do there may need system calls that are gone */
}
