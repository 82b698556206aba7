#include "front/budget.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/quota.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define DAY_S    86400
#define AGAIN_US 1000000

struct budget {
    struct front *front;
    struct quota *quota;
    struct audit_wait wait;
    struct gb_timer again;
    bool answered, known, told;
    int64_t day; /* that was asked for */
};

static struct quota_now moment(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (struct quota_now){.us = gb_clock_us(),
                              .day = (int64_t)wall.tv_sec / DAY_S,
                              .day_s = DAY_S - (int64_t)wall.tv_sec % DAY_S};
}

/* --- what was used today, from the store --- */

static void take_row(struct audit_wait *wait, const struct gb_msg_usage *row)
{
    struct budget *b = GB_OWNER(wait, struct budget, wait);
    if (row->day != b->day || row->calls < 0 || row->cpu_us < 0)
        front_fail("the store told of another day than was asked for");
    if (!quota_load(b->quota, row->day, QUOTA_PRINCIPAL, row->principal, row->calls, row->cpu_us) ||
        !quota_load(b->quota, row->day, QUOTA_TOOL, row->tool, row->calls, row->cpu_us))
        gb_log(GB_LOG_WARN, "too much to remember of what was used today", GB_S("principal", row->principal),
               GB_S("tool", row->tool));
}

static void take_end(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    struct budget *b = GB_OWNER(wait, struct budget, wait);
    b->known = ack->err.code == GB_ERR_NONE;
    if (!b->answered && gb_loop_at(b->front->loop, &b->front->opening, gb_clock_us()))
        front_fail("no memory to begin");
    b->answered = true;
    if (b->known)
        return;
    /* Part of it may have come: begin anew, or it would count twice. */
    if (!b->told)
        gb_log(GB_LOG_ERROR, "calls are refused: what was used today is not known",
               GB_S("error", ack->err.text));
    b->told = true;
    quota_free(b->quota);
    b->quota = quota_new();
    if (!b->quota || gb_loop_at(b->front->loop, &b->again, gb_clock_us() + AGAIN_US))
        front_fail("no memory to ask what was used today");
}

static void ask(struct budget *b)
{
    b->day = moment().day;
    b->wait.done = take_end;
    b->wait.usage = take_row;
    if (audit_find_usage(b->front, &b->wait, b->day))
        front_fail("no memory to ask what was used today");
}

static void ask_again(struct gb_timer *timer)
{
    ask(GB_OWNER(timer, struct budget, again));
}

int budget_begin(struct front *f)
{
    struct budget *b = calloc(1, sizeof(*b));
    if (!b || !(b->quota = quota_new())) {
        free(b);
        return -ENOMEM;
    }
    b->front = f;
    b->again.fire = ask_again;
    f->budget = b;
    ask(b);
    return 0;
}

bool budget_is_ready(const struct front *f)
{
    return f->budget->answered;
}

bool budget_is_known(const struct front *f)
{
    return f->budget->known;
}

/* --- calls --- */

static size_t claims_of(const struct call *call, struct quota_claim ret[2])
{
    ret[0] = (struct quota_claim){QUOTA_PRINCIPAL, call->principal, &call->who->budget};
    ret[1] = (struct quota_claim){QUOTA_TOOL, call->tool->name, &call->tool->budget};
    return 2;
}

/* "50 s", "12 min", "3 h 20 min" */
static void duration(int64_t seconds, char *buf, size_t size)
{
    const int64_t minutes = (seconds + 59) / 60;
    if (seconds < 120)
        snprintf(buf, size, "%lld s", (long long)seconds);
    else if (minutes < 120)
        snprintf(buf, size, "%lld min", (long long)minutes);
    else
        snprintf(buf, size, "%lld h %lld min", (long long)(minutes / 60), (long long)(minutes % 60));
}

static void deny(struct call *call, const struct quota_claim *claim, const struct quota_refusal *why)
{
    static const char *const names[] = {[QUOTA_MINUTE] = "calls_per_minute",
                                        [QUOTA_DAY] = "calls_per_day",
                                        [QUOTA_CONCURRENT] = "concurrent",
                                        [QUOTA_CPU] = "cpu_seconds_per_day",
                                        [QUOTA_ROOM] = "accounts of the service"};
    char wait[32], hint[128], used[64], limit[32];
    const unsigned decimals = why->what == QUOTA_CPU ? 3 : 0;
    duration(why->wait_s, wait, sizeof(wait));
    if (why->what == QUOTA_CONCURRENT)
        snprintf(hint, sizeof(hint), "try again when one of the calls that are under way has ended");
    else if (why->what == QUOTA_MINUTE)
        snprintf(hint, sizeof(hint), "try again in %s", wait);
    else
        snprintf(hint, sizeof(hint), "%stry again when the day has ended (UTC), in %s",
                 why->set_aside ? "try again when calls that are under way have ended; else " : "", wait);
    gb_text_decimal(why->used, decimals, used, sizeof(used));
    gb_text_decimal(why->limit, decimals, limit, sizeof(limit));
    if (why->set_aside) {
        char aside[32];
        gb_text_decimal(why->set_aside, decimals, aside, sizeof(aside));
        snprintf(used + strlen(used), sizeof(used) - strlen(used), " and %s set aside", aside);
    }
    gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_BUDGET, hint,
                  "the budget %s of the %s %s is used up: %s of %s", names[why->what],
                  claim->kind == QUOTA_PRINCIPAL ? "principal" : "tool", claim->name, used, limit);
}

/* What a box may use is narrowed to what is left; the broker's work is not measured. */
static int64_t *cpu_of(struct call *call)
{
    return call_is_boxed(call) ? &call->request.limits.cpu_ms : NULL;
}

static bool taken(struct call *call, bool good, const struct quota_claim *claims,
                  const struct quota_refusal *why)
{
    const int64_t *cpu_ms = cpu_of(call);
    if (good)
        call->set_aside_ms = cpu_ms ? *cpu_ms : 0;
    else
        deny(call, &claims[why->claim], why);
    return good;
}

bool budget_take(struct call *call)
{
    struct quota_claim claims[2];
    struct quota_refusal why = {0};
    const size_t count = claims_of(call, claims);
    const struct quota_now now = moment();
    call->budget_day = now.day;
    call->budgeted = quota_take(call->front->budget->quota, &now, claims, count, cpu_of(call), &why);
    return taken(call, call->budgeted, claims, &why);
}

void budget_undo(struct call *call)
{
    struct quota_claim claims[2];
    if (!call->budgeted)
        return;
    call->budgeted = false;
    quota_undo(call->front->budget->quota, claims, claims_of(call, claims), call->budget_day,
               call->set_aside_ms);
}

void budget_pause(struct call *call)
{
    struct quota_claim claims[2];
    if (!call->budgeted || call->paused)
        return;
    call->paused = true;
    quota_pause(call->front->budget->quota, claims, claims_of(call, claims), call->set_aside_ms);
}

bool budget_resume(struct call *call)
{
    struct quota_claim claims[2];
    struct quota_refusal why = {0};
    const struct quota_now now = moment();
    if (!call->paused)
        return true;
    const size_t count = claims_of(call, claims);
    call->paused = !quota_resume(call->front->budget->quota, &now, claims, count, cpu_of(call), &why);
    return taken(call, !call->paused, claims, &why);
}

void budget_done(struct call *call)
{
    struct quota_claim claims[2];
    const bool running = call->budgeted && !call->paused;
    call->budgeted = call->paused = false;
    if (!running)
        return;
    const struct quota_now now = moment();
    const int64_t used_us = call->result.usage.cpu_us;
    quota_done(call->front->budget->quota, &now, claims, claims_of(call, claims), call->set_aside_ms,
               used_us > 0 ? used_us : 0);
}
