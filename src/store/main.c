/* glovebox-store: the only process that writes the audit.
 *
 * The front and the launcher send records; all that have arrived by the time it looks are written together,
 * to the journal or in one transaction, and then each is acknowledged. Until then nothing is promised; if it
 * fails, each is told why, and the next batch tries anew. What the front has sent before the launcher was
 * asked is read before what the launcher sends then: an intent that nobody waits for is stored, or refused,
 * before its launch is acknowledged. It is confined to one directory before it opens the
 * database, and interprets nothing in the records.
 *
 * It ends when the supervisor says so or is gone, with everything stored that has arrived. */
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "confine/confine.h"
#include "store/ledger.h"
#include "store/peer.h"
#include "wire/begin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLUSH_MS    1000     /* for peers to take their answers at the end */
#define SWEEP_US    60000000 /* between looks at what is too old */
#define SWEEP_ON_US 20000    /* between steps while there is more to remove */
#define SETTLE_US   20000    /* that records wait in the journal for others to come */
#define BEHIND_US   1000000  /* between tries while they cannot leave it */
#define QUIET_US    100000   /* without a record: a good moment for what takes longer */
#define OPEN_FILES  64

enum { FRONT, LAUNCH, PEERS };

static struct store {
    struct gb_loop *loop;
    struct gb_source control;
    struct gb_timer turn, sweep, settle, tidy;
    struct gb_peer peers[PEERS];
    struct gb_ledger ledger;
    unsigned batch; /* records of this turn */
    bool open;      /* a transaction is */
    bool refusing;  /* the last batch could not be stored: say so once */
    struct gb_err batch_err;
    /* Calls whose intents nobody waits for, and which could not be stored: they must not be launched. What is
     * in between are those of this batch. */
    char lost[GB_BATCH][GB_ID_BYTES];
    size_t lost_end, lost_next;
    struct gb_msg msg;
} s = {
        .control = {.fd = GB_CONTROL},
        .peers = {[FRONT] = {.name = "front",
                             .source.fd = -1,
                             .kinds = 1U << GB_RECORD_INTENT | 1U << GB_RECORD_OUTCOME |
                                      1U << GB_RECORD_APPROVAL,
                             .charges = true},
                  [LAUNCH] = {.name = "launch", .source.fd = -1, .kinds = 1U << GB_RECORD_LAUNCH}},
};

static void die(const char *what, const char *why) __attribute__((noreturn));
static void die(const char *what, const char *why)
{
    gb_log(GB_LOG_ERROR, what, GB_S("error", why));
    _exit(1);
}

/* A peer that breaks the protocol is captured or broken: the supervisor starts all anew. What was
 * acknowledged is stored; what was not was promised to nobody. */
static void broken(const struct gb_peer *p, const char *why) __attribute__((noreturn));
static void broken(const struct gb_peer *p, const char *why)
{
    gb_log(GB_LOG_ERROR, "a peer broke the protocol", GB_S("peer", p->name), GB_S("error", why));
    _exit(1);
}

/* Damage does not pass by itself, and writing on would hide it. */
static void check_damage(int r, const struct gb_err *err)
{
    if (r == -EBADMSG)
        die("the audit database cannot be used", err->text);
}

static void set_timer(struct gb_timer *timer, int64_t from_now_us)
{
    if (gb_loop_at(s.loop, timer, gb_clock_us() + from_now_us))
        die("set a timer", "out of memory");
}

/* --- one turn: read, commit, answer --- */

static bool is_lost(const char *id)
{
    for (size_t i = s.lost_end < GB_BATCH ? 0 : s.lost_end - GB_BATCH; i < s.lost_end; i++)
        if (!strcmp(s.lost[i % GB_BATCH], id))
            return true;
    return false;
}

static void take_append(struct gb_peer *p)
{
    const struct gb_msg_append *append = s.msg.body;
    const struct gb_audit_record record = {.kind = append->kind,
                                           .id = append->id,
                                           .principal = append->principal,
                                           .body = s.msg.tail,
                                           .body_bytes = s.msg.tail_bytes};
    const struct gb_audit_usage usage = {.principal = append->principal,
                                         .tool = append->tool,
                                         .calls = append->calls,
                                         .cpu_us = append->cpu_us};
    if (append->kind >= GB_RECORD_KINDS || !(p->kinds >> append->kind & 1))
        broken(p, "it may not append records of this kind");
    if (append->quiet > 1 || (append->quiet && append->kind != GB_RECORD_INTENT))
        broken(p, "it must wait for the answer to records of this kind");
    if (!append->id[0])
        broken(p, "its record names no call");
    if (append->tool[0] &&
        (!p->charges || append->calls > 1 || append->cpu_us < 0 || append->cpu_us > GB_AUDIT_CPU_MOST))
        broken(p, "its record adds to the day's usage what no call can use");
    int64_t seq = 0;
    int r = 0;
    const bool refused = append->kind == GB_RECORD_LAUNCH && is_lost(append->id);
    if (append->quiet)
        memcpy(s.lost[s.lost_next++ % GB_BATCH], append->id, GB_ID_BYTES);
    if (!refused && !s.batch_err.code && !s.open) {
        r = gb_ledger_begin(&s.ledger, &s.batch_err);
        s.open = !r;
    }
    if (!refused && !s.batch_err.code) {
        r = gb_ledger_append(&s.ledger, &record, append->tool[0] ? &usage : NULL, &seq, &s.batch_err);
        s.open = !r;
        if (r == -EINVAL)
            broken(p, s.batch_err.text);
    }
    check_damage(r, &s.batch_err);
    p->acks[p->ack_count].tag = s.msg.tag;
    p->acks[p->ack_count].quiet = append->quiet;
    p->acks[p->ack_count].refused = refused;
    p->acks[p->ack_count++].seq = seq;
    s.batch++;
}

static void take_find(struct gb_peer *p)
{
    p->find_usage = s.msg.kind == GB_MSG_FIND_USAGE;
    if (p->find_usage)
        p->last_usage = (struct gb_msg_usage){.day = ((const struct gb_msg_find_usage *)s.msg.body)->day};
    else
        p->find = *(const struct gb_msg_find *)s.msg.body;
    p->find_tag = s.msg.tag;
    p->found = p->at = 0;
    p->finding = true;
}

static void read_from(struct gb_peer *p)
{
    while (p->source.fd >= 0 && !p->finding && s.batch < GB_BATCH &&
           !(s.open && gb_ledger_is_full(&s.ledger))) {
        int r = gb_msg_receive(p->source.fd, p->name, "store", &s.msg);
        if (r == -EAGAIN) {
            p->ready = false;
            return;
        }
        if (r == -EPROTO)
            broken(p, "its message has not the shape that it should have");
        if (r && !p->ended) { /* a peer that dies with answers unread is an error before it is an end */
            p->deaf = p->ended = true;
            continue;
        }
        if (r) { /* the supervisor will tell us what comes next */
            gb_loop_forget(s.loop, &p->source);
            close(TAKE_FD(p->source.fd));
            return;
        }
        if (s.msg.kind == GB_MSG_APPEND)
            take_append(p);
        else
            take_find(p); /* the shapes let nothing else through */
        gb_msg_done(&s.msg);
    }
}

static void commit(void)
{
    if (s.open) {
        s.open = false;
        check_damage(gb_ledger_commit(&s.ledger, &s.batch_err), &s.batch_err);
    }
    const bool failed = s.batch_err.code != GB_ERR_NONE;
    if (failed)
        s.lost_end = s.lost_next;
    else
        s.lost_next = s.lost_end;
    if (failed && !s.refusing)
        gb_log(GB_LOG_ERROR, "records cannot be stored, so calls are refused",
               GB_S("error", s.batch_err.text));
    else if (!failed && s.refusing && s.batch)
        gb_log(GB_LOG_INFO, "records can be stored again", GB_I("records", s.batch));
    if (failed || s.batch)
        s.refusing = failed;
    if (!s.settle.at_us && gb_ledger_is_unsettled(&s.ledger))
        set_timer(&s.settle, SETTLE_US);
    if (gb_ledger_wants_tidying(&s.ledger))
        set_timer(&s.tidy, QUIET_US);
}

/* The front first: what it has sent before it asked the launcher is there when the launcher's record is.
 * Whoever still has answers to take is not read from, so a turn holds at most one batch; and then the
 * launcher, too, waits for the front. Returns whether there was nothing to do. */
static bool turn(void)
{
    bool was_busy[PEERS], idle = true, held = false;
    s.batch = 0;
    s.batch_err = (struct gb_err){0};
    s.peers[FRONT].ready |= s.peers[LAUNCH].ready;
    for (size_t i = 0; i < PEERS; i++) {
        was_busy[i] = gb_peer_is_busy(&s.peers[i]);
        if (!was_busy[i] && !held && s.peers[i].ready)
            read_from(&s.peers[i]);
        held |= was_busy[i] || s.peers[i].finding;
        idle &= !was_busy[i] && !s.peers[i].finding;
    }
    commit();
    for (size_t i = 0; i < PEERS; i++) {
        if (!was_busy[i])
            s.peers[i].ack_err = s.batch_err;
        gb_peer_flush(&s.peers[i], &s.ledger);
        int r = gb_peer_watch(&s.peers[i], i > FRONT && gb_peer_is_busy(&s.peers[FRONT]), s.loop);
        if (r)
            die("watch a channel", strerror(-r));
    }
    return idle && !s.batch;
}

static void on_peer(struct gb_source *source, uint32_t events)
{
    struct gb_peer *p = GB_OWNER(source, struct gb_peer, source);
    if (events & (EPOLLHUP | EPOLLERR))
        p->deaf = true; /* what it has left is read, and its answers are dropped */
    p->ready = true;
    set_timer(&s.turn, 0); /* when all who are ready have said so: they share a commit */
}

static void on_turn(struct gb_timer *timer)
{
    (void)timer;
    (void)turn();
}

/* --- retention --- */

static void on_sweep(struct gb_timer *timer)
{
    struct gb_err err = {0};
    int64_t removed;
    int r = gb_ledger_retain(&s.ledger, &removed, &err);
    check_damage(r, &err);
    if (r)
        gb_log(GB_LOG_WARN, "old records cannot be removed", GB_S("error", err.text));
    else if (removed)
        gb_log(GB_LOG_INFO, "removed old records", GB_I("records", removed));
    set_timer(timer, removed && !r ? SWEEP_ON_US : SWEEP_US);
}

/* --- from the journal into the tables --- */

/* Where that fails, whoever sends the next record is told why. */
static void on_settle(struct gb_timer *timer)
{
    struct gb_err err = {0};
    bool more;
    int r = gb_ledger_settle(&s.ledger, &more, &err);
    check_damage(r, &err);
    if (r || more)
        set_timer(timer, r ? BEHIND_US : 0);
    else if (gb_ledger_wants_tidying(&s.ledger))
        set_timer(&s.tidy, QUIET_US);
}

static void on_tidy(struct gb_timer *timer)
{
    (void)timer;
    gb_ledger_tidy(&s.ledger);
}

/* --- the supervisor --- */

static void wait_for_peers(void)
{
    struct pollfd p[PEERS];
    for (size_t i = 0; i < PEERS; i++)
        p[i] = (struct pollfd){.fd = gb_peer_is_busy(&s.peers[i]) ? s.peers[i].source.fd : -1,
                               .events = POLLOUT};
    if (p[FRONT].fd >= 0 || p[LAUNCH].fd >= 0)
        poll(p, PEERS, FLUSH_MS / 10);
}

/* Stores what has arrived. The answers have a moment to leave; then they are dropped, so that what waits
 * behind them can be read. */
static void finish(void)
{
    const int64_t begun = gb_clock_us(), flush_us = (int64_t)FLUSH_MS * 1000;
    for (;;) {
        s.peers[FRONT].ready = s.peers[LAUNCH].ready = true;
        if (turn() || gb_clock_us() - begun >= 3 * flush_us)
            break;
        if (gb_clock_us() - begun > flush_us)
            s.peers[FRONT].deaf = s.peers[LAUNCH].deaf = true;
        wait_for_peers();
    }
    gb_ledger_close(&s.ledger);
    gb_loop_stop(s.loop);
}

static void obey_log(void)
{
    const struct gb_msg_log *log = &s.ledger.keep.log;
    gb_log_init("store", (enum gb_log_level)log->level, (enum gb_log_format)log->format);
}

static void on_control(struct gb_source *source, uint32_t events)
{
    (void)events;
    int r = gb_msg_receive(source->fd, "serve", "store", &s.msg);
    if (r == -EAGAIN)
        return;
    if (r == -EPROTO)
        die("the supervisor broke the protocol", "its message has not the shape that it should have");
    if (r || s.msg.kind == GB_MSG_STOP) {
        finish(); /* told to stop, or left alone */
        return;
    }
    if (s.msg.kind != GB_MSG_RETENTION)
        die("the supervisor broke the protocol", "a second start");
    gb_ledger_set(&s.ledger, s.msg.body);
    obey_log();
    gb_msg_done(&s.msg);
    set_timer(&s.sweep, 0);
}

/* --- the start --- */

static void take_start(void)
{
    if (gb_begin_receive("store", GB_MSG_START_STORE, &s.msg))
        die("nobody started us", "glovebox serve does; this program is not for the command line");
    s.ledger.keep = *(const struct gb_msg_retention *)s.msg.body;
    obey_log();
    s.peers[FRONT].source.fd = TAKE_FD(s.msg.fd[0]);
    s.peers[LAUNCH].source.fd = TAKE_FD(s.msg.fd[1]);
    gb_msg_done(&s.msg);
}

static void confine(pid_t parent)
{
    struct gb_err err = {0};
    uint64_t seed;
    AUTO_FD dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        die("open the audit's directory", strerror(errno));
    umask(077);
    sqlite3_randomness(sizeof(seed), &seed); /* from a file that is out of reach in a moment */
    const struct gb_confine row = {.name = "store",
                                   .uid = GB_UID_STORE,
                                   .root_fd = dir,
                                   .rw_fd = dir,
                                   .open_files = OPEN_FILES,
                                   .degraded = s.ledger.keep.degraded};
    if (gb_confine_enter(&row, parent, &err))
        die("cannot confine itself", err.text);
}

/* A disk that is full now may not be later: the service starts, and refuses calls until then. */
static void begin(void)
{
    struct gb_err err = {0};
    int r = gb_ledger_begin(&s.ledger, &err);
    if (!r)
        r = gb_ledger_commit(&s.ledger, &err);
    check_damage(r, &err);
    if (r && r != -ENOSPC && r != -EIO && r != -EBUSY && r != -ENOMEM)
        die("the audit database cannot be used", err.text);
    s.refusing = r != 0;
    if (r)
        gb_log(GB_LOG_ERROR, "records cannot be stored, so calls are refused", GB_S("error", err.text));
}

int main(void)
{
    const pid_t parent = getppid();
    gb_log_init("store", GB_LOG_INFO, GB_LOG_AUTO);
    take_start();
    s.loop = gb_loop_new();
    if (!s.loop)
        die("make an event loop", strerror(errno));
    confine(parent);
    begin();
    s.control.ready = on_control;
    s.turn.fire = on_turn;
    s.sweep.fire = on_sweep;
    s.settle.fire = on_settle;
    s.tidy.fire = on_tidy;
    s.peers[FRONT].source.ready = s.peers[LAUNCH].source.ready = on_peer;
    if (gb_loop_watch(s.loop, &s.control, EPOLLIN) || gb_peer_watch(&s.peers[FRONT], false, s.loop) ||
        gb_peer_watch(&s.peers[LAUNCH], false, s.loop) || gb_loop_at(s.loop, &s.sweep, gb_clock_us()))
        die("watch the channels", strerror(errno));
    if (!gb_msg_send(GB_CONTROL, GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0))
        gb_loop_run(s.loop);
    gb_ledger_close(&s.ledger);
    _exit(0); /* not exit: what libraries do there may need system calls that are gone */
}
