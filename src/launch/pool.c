#include "launch/pool.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "launch/keeper.h"
#include "launch/nest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PENDING_MOST  4096
#define BACK_OFF_US   100000 /* after a failure; doubled with each one more */
#define BACK_OFF_MOST 30000000
#define TEND_US       100000
#define PATIENCE_US   5000000 /* a call that has waited so long for a box is built one from nothing */
#define MEMORY_LEAST  16      /* MiB */

struct slot {
    pid_t pid; /* 0: free */
    int socket;
    bool left; /* it was told that no more calls come */
    int pool;  /* row of the table; -1: built for limits that no row has, or for one that is gone */
    unsigned nest;
    uint64_t key; /* 0: of a configuration that is gone */
    struct gb_limits limits;
};

/* A call for which a box is being built. */
struct pending {
    struct gb_run run;
    int64_t until_us;
};

/* A row of the table, and how it does. */
struct pool {
    struct gb_pool_want want;
    unsigned spare; /* boxes that shall wait: from low to high */
    bool called;    /* there was a call: before, nothing waits that is not asked for at once */
    int64_t call_us, retry_us;
    unsigned failures; /* in a row */
};

static struct {
    pid_t launcher;
    void (*cold)(struct gb_run *run);
    struct gb_slots *shared;
    int bell; /* one for all keepers: to look at each one's socket would cost more than the call's own message
               */
    struct gb_msg_ceiling ceiling;
    int64_t idle_us;
    uint64_t zygote_boxes;
    struct pool pools[GB_POOLS];
    unsigned pool_count, slot_end; /* slots are below slot_end */
    struct slot slots[GB_SLOTS];
    struct pending pending[PENDING_MOST]; /* in the order in which they came */
    unsigned pending_count;
    int64_t tend_us; /* when to look at the marks next */
    bool stopped;
} p;

static enum gb_slot_state state_of(unsigned i)
{
    return p.slots[i].pid ? (enum gb_slot_state)atomic_load(&p.shared->state[i]) : GB_SLOT_FREE;
}

/* Interpreters of other kinds take more memory than a fork of a zygote: they are started when they are used.
 */
static bool is_eager(const struct pool *pool)
{
    return pool->want.kind != GB_POOL_NODE;
}

/* Could its box, if it waits or comes to, serve that call? */
static bool fits(const struct slot *s, const struct gb_msg_run *ask)
{
    return s->pid && !s->left && s->key == ask->pool && gb_pool_has_limits(&s->limits, &ask->limits);
}

/* A box shares its cradle's memory while it sets itself up, already in its own cgroup: if that is full by
 * then, the kernel may end both. It takes a megabyte or two. */
static bool is_roomy(const struct gb_limits *limits)
{
    return limits->memory_mb >= MEMORY_LEAST;
}

/* --- slots --- */

static void release(unsigned i)
{
    gb_close(&p.slots[i].socket);
    p.slots[i].pid = 0;
    atomic_store(&p.shared->state[i], GB_SLOT_FREE);
}

/* Its keeper gives up a box that waits, and builds no other. What was said to it before it still hears: so a
 * half-close, since the end of a socket in which something lies unread is an error at the other one. */
static void leave(struct slot *s)
{
    s->left = true;
    s->pool = -1;
    (void)shutdown(s->socket, SHUT_WR);
}

static void fork_keeper(unsigned i, const struct gb_pool_want *want, const struct gb_limits *limits, int nest,
                        int pair[2])
{
    struct slot *s = &p.slots[i];
    atomic_store(&p.shared->state[i], GB_SLOT_BUILDING);
    const pid_t pid = fork();
    if (pid == 0) {
        static struct gb_keeper_post post;
        post = (struct gb_keeper_post){.slots = p.shared,
                                       .slot = i,
                                       .nest = (unsigned)nest,
                                       .socket = pair[1],
                                       .bell = p.bell,
                                       .start_code = gb_nest_start_code(),
                                       .zygote = *gb_nest_zygote((unsigned)nest),
                                       .kind = (enum gb_pool_kind)want->kind,
                                       .limits = *limits,
                                       .ceiling = p.ceiling};
        gb_keeper_wait(&post, p.launcher);
    }
    if (pid < 0)
        return;
    *s = (struct slot){.pid = pid,
                       .socket = TAKE_FD(pair[0]),
                       .pool = -1,
                       .nest = (unsigned)nest,
                       .key = want->key,
                       .limits = *limits};
}

/* A new keeper with a box of that kind. -1: not now. */
static int spawn(const struct gb_pool_want *want, const struct gb_limits *limits)
{
    unsigned i = 0;
    int pair[2] = {-1, -1};
    const int nest = gb_nest_find(want->key);
    while (i < GB_SLOTS && p.slots[i].pid)
        i++;
    if (nest < 0 || i == GB_SLOTS || gb_msg_pair(pair))
        return -1;
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK); /* nobody can make the launcher wait */
    fork_keeper(i, want, limits, nest, pair);
    for (int k = 0; k < 2; k++)
        gb_auto_close(&pair[k]);
    if (!p.slots[i].pid)
        return -1;
    if (i >= p.slot_end)
        p.slot_end = i + 1;
    return (int)i;
}

static unsigned count(int pool, enum gb_slot_state state)
{
    unsigned n = 0;
    for (unsigned i = 0; i < p.slot_end; i++)
        n += p.slots[i].pid && p.slots[i].pool == pool && state_of(i) == state;
    return n;
}

/* --- pools --- */

/* Many boxes may end for one reason: that counts once. */
static void back_off(struct pool *pool, int64_t now)
{
    int64_t wait = BACK_OFF_US;
    if (now < pool->retry_us)
        return;
    for (unsigned i = 0; i < pool->failures && wait < BACK_OFF_MOST; i++)
        wait *= 2;
    pool->failures++;
    pool->retry_us = now + (wait < BACK_OFF_MOST ? wait : BACK_OFF_MOST);
}

/* Of that kind nothing can be had just now, with whatever limits. */
static void back_off_all(uint64_t key)
{
    const int64_t now = gb_clock_us();
    for (unsigned i = 0; key && i < p.pool_count; i++)
        if (p.pools[i].want.key == key)
            back_off(&p.pools[i], now);
}

/* Has a zygote that can be asked, after starting it if need be. */
static bool is_usable(struct pool *pool, int64_t now)
{
    if (p.stopped || now < pool->retry_us)
        return false;
    if (gb_nest_find(pool->want.key) >= 0)
        return true;
    struct gb_err err = {0};
    if (!gb_nest_start(&pool->want, &p.ceiling, &err))
        return true;
    gb_log(GB_LOG_ERROR, "no zygote could be started", GB_S("kind", gb_pool_kinds[pool->want.kind].name),
           GB_S("error", err.text));
    back_off_all(pool->want.key);
    return false;
}

static void fill(unsigned index, int64_t now)
{
    struct pool *pool = &p.pools[index];
    if ((!is_eager(pool) && !pool->called) || !is_usable(pool, now))
        return;
    for (unsigned have = count((int)index, GB_SLOT_WAITING) + count((int)index, GB_SLOT_BUILDING);
         have < pool->spare; have++) {
        int i = spawn(&pool->want, &pool->want.limits);
        if (i < 0)
            return;
        p.slots[i].pool = (int)index;
    }
}

/* Gives up boxes that wait, down to so many. */
static void shrink(unsigned index, unsigned most)
{
    unsigned have = count((int)index, GB_SLOT_WAITING);
    for (unsigned i = 0; i < p.slot_end && have > most; i++)
        if (p.slots[i].pool == (int)index && state_of(i) == GB_SLOT_WAITING) {
            leave(&p.slots[i]);
            have--;
        }
}

/* In quiet times boxes of a zygote that has been replaced are, too, so that it can end. */
static void renew(unsigned index)
{
    const int nest = gb_nest_find(p.pools[index].want.key);
    if (nest < 0 || !gb_nest_is_warm((unsigned)nest))
        return;
    for (unsigned i = 0; i < p.slot_end; i++)
        if (p.slots[i].pool == (int)index && p.slots[i].nest != (unsigned)nest &&
            state_of(i) == GB_SLOT_WAITING)
            leave(&p.slots[i]);
}

static bool is_awaited(const struct slot *s)
{
    for (unsigned i = 0; i < p.pending_count; i++)
        if (fits(s, &p.pending[i].run.ask))
            return true;
    return false;
}

/* Boxes that were built for one call, which got another or is not there any more. */
static void shrink_others(void)
{
    for (unsigned i = 0; i < p.slot_end; i++)
        if (p.slots[i].pid && p.slots[i].pool < 0 && !p.slots[i].left && state_of(i) == GB_SLOT_WAITING &&
            !is_awaited(&p.slots[i]))
            leave(&p.slots[i]);
}

static void tend(unsigned index, int64_t now)
{
    struct pool *pool = &p.pools[index];
    const bool idle = now >= pool->call_us + p.idle_us;
    if (idle)
        pool->spare = pool->want.low;
    shrink(index, idle ? pool->want.low : pool->want.high);
    if (idle)
        renew(index);
    const int nest = gb_nest_find(pool->want.key);
    /* Its boxes serve to their end; the next ones come from a fresh one. */
    if (nest >= 0 && atomic_load(&p.shared->born[nest]) >= p.zygote_boxes && gb_nest_has_room())
        gb_nest_retire((unsigned)nest);
    fill(index, now);
}

/* --- calls --- */

static int find_pool(const struct gb_msg_run *ask)
{
    int found = -1;
    for (unsigned i = 0; i < p.pool_count; i++)
        if (p.pools[i].want.key == ask->pool) {
            found = (int)i;
            if (gb_pool_has_limits(&p.pools[i].want.limits, &ask->limits))
                break;
        }
    return found;
}

/* False: its box has just ended. */
static bool hand_over(unsigned i, struct gb_run *run, enum gb_start how)
{
    struct slot *s = &p.slots[i];
    const bool kept = s->pool >= 0 && gb_nest_is_current(s->nest);
    const struct gb_msg_serve serve = {
            .ask = run->ask, .ceiling = run->ceiling, .again = kept, .start = (uint32_t)how};
    uint32_t state = GB_SLOT_WAITING;
    if (!atomic_compare_exchange_strong(&p.shared->state[i], &state, GB_SLOT_BUSY))
        return false;
    if (gb_msg_send(s->socket, GB_MSG_SERVE, run->tag, &serve, NULL, 0, run->fd, run->fd_count)) {
        atomic_store(&p.shared->state[i], GB_SLOT_WAITING);
        return false;
    }
    for (unsigned k = 0; k < p.pool_count; k++)
        if (p.pools[k].want.key == s->key)
            p.pools[k].failures = 0;
    if (!kept)
        s->pool = -1;
    gb_run_drop(run);
    return true;
}

static bool hand_to_waiting(struct gb_run *run, enum gb_start how)
{
    for (unsigned i = 0; i < p.slot_end; i++)
        if (fits(&p.slots[i], &run->ask) && state_of(i) == GB_SLOT_WAITING && hand_over(i, run, how))
            return true;
    return false;
}

static void set_pending(unsigned count_now)
{
    p.pending_count = count_now;
    atomic_store(&p.shared->pending, count_now);
}

static void remove_pending(unsigned at)
{
    memmove(&p.pending[at], &p.pending[at + 1], (p.pending_count - at - 1) * sizeof(*p.pending));
    set_pending(p.pending_count - 1);
}

/* Slots whose next box such a call could get, less the calls that are before it. */
static bool is_coming(const struct gb_msg_run *ask, unsigned before)
{
    unsigned boxes = 0, calls = 0;
    for (unsigned i = 0; i < p.slot_end; i++)
        boxes += fits(&p.slots[i], ask) && state_of(i) == GB_SLOT_BUILDING;
    for (unsigned i = 0; i < before; i++)
        calls += p.pending[i].run.ask.pool == ask->pool &&
                 gb_pool_has_limits(&p.pending[i].run.ask.limits, &ask->limits);
    return boxes > calls;
}

/* Sees to it that a box is built for it, unless that could take longer than to build one from nothing. */
static bool order(const struct gb_run *run, unsigned before, int64_t now)
{
    const int index = find_pool(&run->ask);
    if (index < 0 || !is_usable(&p.pools[index], now) ||
        !gb_nest_is_warm((unsigned)gb_nest_find(run->ask.pool)))
        return false;
    if (is_coming(&run->ask, before))
        return true;
    const bool same = gb_pool_has_limits(&p.pools[index].want.limits, &run->ask.limits);
    const int i = spawn(&p.pools[index].want, &run->ask.limits);
    if (i >= 0 && same)
        p.slots[i].pool = index;
    return i >= 0;
}

/* Calls that wait get what waits for them. Those that cannot get anything here any more are built from
 * nothing. */
static void settle_pending(void)
{
    const int64_t now = gb_clock_us();
    for (unsigned i = 0; i < p.pending_count;) {
        struct gb_run run = p.pending[i].run;
        if (gb_run_is_left(&run)) {
            remove_pending(i);
            gb_run_drop(&run);
        } else if (hand_to_waiting(&run, GB_START_BUILT)) {
            remove_pending(i);
        } else if (now >= p.pending[i].until_us || !order(&run, i, now)) {
            remove_pending(i);
            p.cold(&run);
        } else {
            i++;
        }
    }
}

bool gb_pool_take(struct gb_run *run)
{
    const int index = run->ask.pool ? find_pool(&run->ask) : -1;
    if (index < 0 || p.stopped || !is_roomy(&run->ask.limits))
        return false;
    const int64_t now = gb_clock_us();
    struct pool *pool = &p.pools[index];
    pool->called = true;
    pool->call_us = now;
    if (hand_to_waiting(run, GB_START_WAITING)) {
        fill((unsigned)index, now);
        return true;
    }
    if (pool->spare < pool->want.high)
        pool->spare++;
    if (p.pending_count == PENDING_MOST || !order(run, p.pending_count, now))
        return false;
    p.pending[p.pending_count] = (struct pending){*run, now + PATIENCE_US};
    set_pending(p.pending_count + 1);
    settle_pending(); /* one may have come to wait before it could see that a call does */
    return true;
}

unsigned gb_pool_calls(void)
{
    unsigned n = p.pending_count;
    for (unsigned i = 0; i < p.slot_end; i++)
        n += state_of(i) == GB_SLOT_BUSY;
    return n;
}

unsigned gb_pool_keepers(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < p.slot_end; i++)
        n += p.slots[i].pid != 0;
    return n;
}

/* --- what happens --- */

bool gb_pool_reaped_zygote(pid_t pid, int status)
{
    uint64_t lost = 0;
    const bool was = gb_nest_reaped(pid, status, &lost);
    back_off_all(lost);
    return was;
}

bool gb_pool_reaped(pid_t pid, int status)
{
    unsigned i = 0;
    while (i < p.slot_end && p.slots[i].pid != pid)
        i++;
    if (i == p.slot_end)
        return false;
    const struct slot *s = &p.slots[i];
    if (status) {
        back_off_all(s->key);
        /* It may never become warm. */
        if (gb_nest_find(s->key) == (int)s->nest && !gb_nest_is_warm(s->nest))
            gb_nest_retire(s->nest);
        /* A set-up hangs, and in which of its cradles nobody knows. */
        if (WIFEXITED(status) && WEXITSTATUS(status) == GB_KEEPER_STUCK)
            gb_nest_kill(s->nest);
    }
    release(i);
    settle_pending();
    return true;
}

unsigned gb_pool_watch(struct pollfd *ret, unsigned most)
{
    ret[0] = (struct pollfd){.fd = p.bell, .events = POLLIN};
    return 1 + gb_nest_watch(ret + 1, most - 1);
}

void gb_pool_look(const struct pollfd *polled, unsigned polled_count)
{
    bool said = polled[0].revents;
    eventfd_t rung;
    if (said)
        (void)eventfd_read(p.bell, &rung);
    for (unsigned i = 1; i < polled_count; i++)
        if (polled[i].revents) {
            uint64_t lost = 0;
            said |= gb_nest_look(polled[i].fd, &lost);
            back_off_all(lost);
        }
    if (said)
        settle_pending();
    const int64_t now = gb_clock_us();
    if (now >= p.tend_us) {
        p.tend_us = now + TEND_US;
        for (unsigned i = 0; i < p.pool_count && !p.stopped; i++)
            tend(i, now);
        shrink_others();
        settle_pending(); /* none waits for ever */
    }
}

int64_t gb_pool_next_us(void)
{
    return p.pool_count && !p.stopped ? p.tend_us : INT64_MAX;
}

static void give_up(void)
{
    for (unsigned i = 0; i < p.slot_end; i++)
        if (p.slots[i].pid && !p.slots[i].left) {
            leave(&p.slots[i]);
            p.slots[i].key = 0;
        }
    gb_nest_retire_all();
}

void gb_pool_set(const struct gb_msg_pools *pools, const struct gb_msg_ceiling *ceiling)
{
    give_up();
    p.ceiling = *ceiling;
    p.idle_us = (int64_t)pools->idle_ms * 1000;
    p.zygote_boxes = pools->zygote_boxes;
    p.pool_count = 0;
    for (unsigned i = 0; i < pools->count; i++)
        if (is_roomy(&pools->want[i].limits))
            p.pools[p.pool_count++] = (struct pool){.want = pools->want[i], .spare = pools->want[i].low};
    p.tend_us = 0;
    settle_pending();
}

void gb_pool_stop(void)
{
    p.stopped = true;
    give_up();
    settle_pending();
}

void gb_pool_init(pid_t launcher, void (*cold)(struct gb_run *run))
{
    p.launcher = launcher;
    p.cold = cold;
    p.shared = mmap(NULL, sizeof(*p.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    p.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p.shared == MAP_FAILED)
        p.shared = NULL;
    p.stopped = !p.shared || p.bell < 0;
    gb_nest_init(p.shared);
}
