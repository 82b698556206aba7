#include "front/quota.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

#define SLOT_US  100000
#define SLOTS    601 /* a minute and the slot that runs */
#define US       1000000
#define SUM_MOST ((int64_t)1000000000000000000) /* of what a file says; more would overflow */

struct account {
    enum quota_kind kind;
    char name[64];
    int64_t running;
    int64_t day, calls, cpu_us; /* of this day */
    int64_t set_aside_ms;       /* for calls that are under way */
    int64_t slot;               /* the newest that is counted */
    int64_t minute;             /* the sum of the slots */
    uint32_t slots[SLOTS];
};

struct quota {
    struct account *accounts[QUOTA_ACCOUNTS];
    size_t count;
};

struct quota *quota_new(void)
{
    return calloc(1, sizeof(struct quota));
}

void quota_free(struct quota *q)
{
    for (size_t i = 0; q && i < q->count; i++)
        free(q->accounts[i]);
    free(q);
}

/* --- accounts --- */

/* Forgets what is older than a minute, and what is of another day. */
static void advance(struct account *a, const struct quota_now *now)
{
    const int64_t slot = now->us / SLOT_US;
    if (slot - a->slot >= SLOTS) {
        memset(a->slots, 0, sizeof(a->slots));
        a->minute = 0;
        a->slot = slot;
    }
    while (a->slot < slot) {
        uint32_t *old = &a->slots[++a->slot % SLOTS];
        a->minute -= *old;
        *old = 0;
    }
    if (now->day > a->day) {
        a->day = now->day;
        a->calls = a->cpu_us = 0;
    }
}

static struct account *find(const struct quota *q, enum quota_kind kind, const char *name)
{
    for (size_t i = 0; i < q->count; i++)
        if (q->accounts[i]->kind == kind && !strcmp(q->accounts[i]->name, name))
            return q->accounts[i];
    return NULL;
}

/* Names come from the configuration. After many reloads one that was not used today makes room; what it had
 * used then counts for nothing any more. */
static struct account **make_room(struct quota *q, int64_t day)
{
    if (q->count < QUOTA_ACCOUNTS)
        return &q->accounts[q->count];
    for (size_t i = 0; i < q->count; i++)
        if (!q->accounts[i]->running && q->accounts[i]->day < day)
            return &q->accounts[i];
    return NULL;
}

static struct account *account_of(struct quota *q, int64_t day, enum quota_kind kind, const char *name)
{
    struct account *a = find(q, kind, name);
    struct account **place = a ? NULL : make_room(q, day);
    if (!place)
        return a;
    a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->kind = kind;
    a->day = day;
    snprintf(a->name, sizeof(a->name), "%s", name);
    if (place == &q->accounts[q->count])
        q->count++;
    else
        free(*place);
    *place = a;
    return a;
}

/* --- one account and one budget --- */

/* When so many calls of the minute are forgotten that there is room for one. */
static int64_t minute_wait_s(const struct account *a, int64_t limit, const struct quota_now *now)
{
    int64_t slot = a->slot - SLOTS, too_many = a->minute - limit + 1;
    while (too_many > 0 && slot < a->slot)
        too_many -= ++slot < 0 ? 0 : a->slots[slot % SLOTS];
    const int64_t left_us = (slot + SLOTS) * SLOT_US - now->us;
    return left_us > 0 ? (left_us + US - 1) / US : 1;
}

static int64_t cpu_left_ms(const struct account *a, const struct gb_budget *b)
{
    return b->cpu_ms_per_day - (a->cpu_us + 999) / 1000 - a->set_aside_ms;
}

static bool refuse(struct quota_refusal *ret, enum quota_what what, int64_t used, int64_t limit,
                   int64_t wait_s)
{
    *ret = (struct quota_refusal){.what = what, .used = used, .limit = limit, .wait_s = wait_s};
    return false;
}

/* Looks, and changes nothing but *cpu_ms. */
static bool fits(const struct account *a, const struct gb_budget *b, const struct quota_now *now,
                 int64_t *cpu_ms, struct quota_refusal *ret)
{
    if (b->concurrent && a->running >= b->concurrent)
        return refuse(ret, QUOTA_CONCURRENT, a->running, b->concurrent, 0);
    if (b->calls_per_minute && a->minute >= b->calls_per_minute)
        return refuse(ret, QUOTA_MINUTE, a->minute, b->calls_per_minute,
                      minute_wait_s(a, b->calls_per_minute, now));
    if (b->calls_per_day && a->calls >= b->calls_per_day)
        return refuse(ret, QUOTA_DAY, a->calls, b->calls_per_day, now->day_s);
    if (!b->cpu_ms_per_day || !cpu_ms)
        return true;
    const int64_t left = cpu_left_ms(a, b);
    if (left < 1) {
        refuse(ret, QUOTA_CPU, (a->cpu_us + 999) / 1000, b->cpu_ms_per_day, now->day_s);
        ret->set_aside = a->set_aside_ms;
        return false;
    }
    if (*cpu_ms > left)
        *cpu_ms = left;
    return true;
}

/* --- a call --- */

/* Whether each account has room for it; one that is counted already (again) asks only for what calls under
 * way use. On false nothing has changed. */
static bool all_fit(struct quota *q, const struct quota_now *now, const struct quota_claim *claims,
                    size_t count, bool again, int64_t *cpu_ms, struct quota_refusal *ret)
{
    int64_t cpu = cpu_ms ? *cpu_ms : 0;
    for (size_t i = 0; i < count; i++) {
        struct account *a = account_of(q, now->day, claims[i].kind, claims[i].name);
        struct gb_budget budget = *claims[i].budget;
        bool good = a || refuse(ret, QUOTA_ROOM, QUOTA_ACCOUNTS, QUOTA_ACCOUNTS, now->day_s);
        if (again)
            budget.calls_per_minute = budget.calls_per_day = 0;
        if (a) {
            advance(a, now);
            good = fits(a, &budget, now, cpu_ms ? &cpu : NULL, ret);
        }
        if (!good) {
            ret->claim = i;
            return false;
        }
    }
    if (cpu_ms)
        *cpu_ms = cpu;
    return true;
}

/* Somebody with a call under way makes no room for others, so the accounts are there. */
static void run(struct quota *q, const struct quota_claim *claims, size_t count, int64_t calls,
                int64_t cpu_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct account *a = find(q, claims[i].kind, claims[i].name);
        if (!a)
            continue;
        a->running += calls;
        a->set_aside_ms += cpu_ms;
    }
}

bool quota_take(struct quota *q, const struct quota_now *now, const struct quota_claim *claims, size_t count,
                int64_t *cpu_ms, struct quota_refusal *ret)
{
    if (!all_fit(q, now, claims, count, false, cpu_ms, ret))
        return false;
    run(q, claims, count, 1, cpu_ms ? *cpu_ms : 0);
    for (size_t i = 0; i < count; i++) {
        struct account *a = find(q, claims[i].kind, claims[i].name);
        if (!a)
            continue;
        a->minute++;
        a->slots[a->slot % SLOTS]++;
        a->calls++;
    }
    return true;
}

void quota_pause(struct quota *q, const struct quota_claim *claims, size_t count, int64_t set_aside_ms)
{
    run(q, claims, count, -1, -set_aside_ms);
}

bool quota_resume(struct quota *q, const struct quota_now *now, const struct quota_claim *claims,
                  size_t count, int64_t *cpu_ms, struct quota_refusal *ret)
{
    if (!all_fit(q, now, claims, count, true, cpu_ms, ret))
        return false;
    run(q, claims, count, 1, cpu_ms ? *cpu_ms : 0);
    return true;
}

void quota_done(struct quota *q, const struct quota_now *now, const struct quota_claim *claims, size_t count,
                int64_t set_aside_ms, int64_t used_us)
{
    run(q, claims, count, -1, -set_aside_ms);
    for (size_t i = 0; i < count; i++) {
        struct account *a = find(q, claims[i].kind, claims[i].name);
        if (!a)
            continue;
        advance(a, now);
        a->cpu_us += used_us;
    }
}

void quota_undo(struct quota *q, const struct quota_claim *claims, size_t count, int64_t day,
                int64_t set_aside_ms)
{
    run(q, claims, count, -1, -set_aside_ms);
    for (size_t i = 0; i < count; i++) {
        struct account *a = find(q, claims[i].kind, claims[i].name);
        if (a && a->day == day && a->calls > 0)
            a->calls--;
    }
}

bool quota_load(struct quota *q, int64_t day, enum quota_kind kind, const char *name, int64_t calls,
                int64_t cpu_us)
{
    struct account *a = calls > SUM_MOST || cpu_us > SUM_MOST ? NULL : account_of(q, day, kind, name);
    if (!a)
        return false;
    a->calls = a->calls + calls < SUM_MOST ? a->calls + calls : SUM_MOST;
    a->cpu_us = a->cpu_us + cpu_us < SUM_MOST ? a->cpu_us + cpu_us : SUM_MOST;
    return true;
}
