#include "front/sched.h"

#include "base/auto.h"
#include "base/clock.h"
#include "front/budget.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MICRO 1000000

static const struct gb_config_key *key_of(const struct call *call)
{
    const struct gb_config *config = call->policy->config;
    for (size_t i = 0; i < config->key_count; i++)
        if (!strcmp(config->keys[i].principal, call->principal))
            return &config->keys[i];
    return NULL;
}

static struct usage *usage_of(struct front *f, const char *name)
{
    for (size_t i = 0; i < f->user_count; i++)
        if (!strcmp(f->users[i].name, name))
            return &f->users[i];
    /* Names come from the configuration; after many reloads one that is not in use makes room. */
    struct usage *u = f->user_count < ARRAY_LEN(f->users) ? &f->users[f->user_count++] : NULL;
    for (size_t i = 0; !u && i < f->user_count; i++)
        if (!f->users[i].active && !f->users[i].parked)
            u = &f->users[i];
    if (u) {
        *u = (struct usage){.tokens_micro = INT64_MAX};
        snprintf(u->name, sizeof(u->name), "%s", name);
    }
    return u;
}

/* A bucket that holds a minute's worth of calls and fills evenly. Returns seconds to wait, 0: go on. */
static int take_token(struct usage *u, int64_t per_minute)
{
    const int64_t now = gb_clock_us(), most = per_minute * MICRO;
    if (u->tokens_micro > most)
        u->tokens_micro = most;
    else
        u->tokens_micro += (now - u->filled_us) * per_minute / 60;
    if (u->tokens_micro > most)
        u->tokens_micro = most;
    u->filled_us = now;
    if (u->tokens_micro >= MICRO) {
        u->tokens_micro -= MICRO;
        return 0;
    }
    return (int)((MICRO - u->tokens_micro) * 60 / per_minute / MICRO) + 1;
}

static void count(struct call *call, int64_t by)
{
    call->counted = by > 0;
    call->user->active += by;
    call->front->active += by;
}

int sched_admit(struct call *call, int *ret_retry_s, struct gb_err *err)
{
    struct front *f = call->front;
    const struct gb_config *config = call->policy->config;
    const struct gb_config_key *key = key_of(call);
    *ret_retry_s = 1;
    if (f->draining)
        return gb_err_set(err, GB_ERR_STOPPING, 0, "the service is going down");
    if (!budget_is_known(f))
        return gb_err_set(err, GB_ERR_AUDIT, 0, "what was used of budgets today cannot be read");
    struct usage *u = usage_of(f, call->principal);
    if (!u)
        return gb_err_set(err, GB_ERR_BUSY, 0, "too many principals at once");
    if (key && key->running && u->active >= key->running) {
        metrics_count(&f->metrics.rate_limited);
        return gb_err_set(err, GB_ERR_RATE, 0, "this key may have %lld calls under way at once",
                          (long long)key->running);
    }
    if (f->active >= config->boxes.running + config->boxes.queued) {
        metrics_count(&f->metrics.queue_full);
        return gb_err_set(err, GB_ERR_QUEUE, 0, "%lld boxes are in use and %lld calls wait already",
                          (long long)f->running, (long long)(f->active - f->running));
    }
    const int wait = key && key->rate_per_minute ? take_token(u, key->rate_per_minute) : 0;
    if (wait) {
        *ret_retry_s = wait;
        metrics_count(&f->metrics.rate_limited);
        return gb_err_set(err, GB_ERR_RATE, 0, "this key may make %lld calls in a minute",
                          (long long)key->rate_per_minute);
    }
    call->user = u;
    count(call, 1);
    return 0;
}

static void take_slot(struct call *call)
{
    call->has_slot = true;
    call->front->running++;
    call_start(call);
}

void sched_request(struct call *call)
{
    struct front *f = call->front;
    if (f->running < f->policy->config->boxes.running) {
        take_slot(call);
        return;
    }
    call->wait_next = NULL;
    *f->waiting_end = call;
    f->waiting_end = &call->wait_next;
}

static void leave_queue(struct call *call)
{
    struct front *f = call->front;
    struct call **p = &f->waiting;
    while (*p && *p != call)
        p = &(*p)->wait_next;
    if (!*p)
        return;
    *p = call->wait_next;
    if (!*p)
        f->waiting_end = p;
}

void sched_release(struct call *call)
{
    struct front *f = call->front;
    if (!call->has_slot) {
        leave_queue(call);
        return;
    }
    call->has_slot = false;
    f->running--;
    if (f->handing_out) /* one that could not start gives its slot back to the loop below */
        return;
    f->handing_out = true;
    while (f->waiting && f->running < f->policy->config->boxes.running) {
        struct call *next = f->waiting;
        leave_queue(next);
        take_slot(next);
    }
    f->handing_out = false;
}

void sched_park(struct call *call)
{
    if (!call->counted)
        return;
    count(call, -1);
    call->user->parked++;
}

void sched_return(struct call *call)
{
    if (call->counted || !call->user)
        return;
    call->user->parked--;
    count(call, 1);
}

void sched_leave(struct call *call)
{
    sched_release(call);
    sched_return(call);
    if (call->counted)
        count(call, -1);
}
