#include "front/approval.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/approval_table.h"
#include "front/budget.h"
#include "front/decide.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define AGAIN_US 100000 /* a timer that comes while a record is on its way looks again */

static int64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* --- may this call go on? --- */

static bool is_needed(const struct call *call)
{
    const struct gb_tool *tool = call->tool;
    return tool->approval == GB_APPROVAL_ALWAYS ||
           (tool->approval == GB_APPROVAL_WHEN &&
            !gb_schema_excludes(tool->approval_when, call->request.arguments));
}

static bool is_for(const struct approval *a, const struct call *call)
{
    return !strcmp(a->principal, call->principal) && !strcmp(a->tool, call->tool->name) &&
           !strcmp(a->sha256, call->arguments_sha256) && !strcmp(a->definition, call->definition);
}

static bool waits(const struct call *call)
{
    return call->request.wait && call->policy->config->approvals.wait_ms > 0;
}

static void deny_pending(struct call *call, const struct approval *a)
{
    const bool approved = a->state == APPROVAL_APPROVED;
    APPROVAL_DENY(call, GB_DENIAL_APPROVAL_PENDING, NULL, "approval %s is %s", a->id,
                  approved ? "granted, and waits to be used" : "pending: a person must decide");
}

/* It was decided, or is over. */
static void deny_closed(struct call *call, const struct approval *a)
{
    if (a->state == APPROVAL_DENIED)
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL, NULL, "%s has denied approval %s%s%s", a->decided_by, a->id,
                      *a->reason ? ": " : "", a->reason);
    else if (a->state == APPROVAL_USED)
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL_MISMATCH, NULL,
                      "approval %s was used before; an approval is for one call", a->id);
    else
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL_EXPIRED, NULL, "approval %s %s", a->id,
                      a->state == APPROVAL_WITHDRAWN ? "was withdrawn: whoever asked has left"
                                                     : "has expired");
}

/* The call brings an approval. A mismatch leaves it as it is: it is still good for what was shown. */
static enum approval_verdict check_given(struct call *call)
{
    struct approval *a = approval_find(call->front, call->request.approval);
    if (!a || a->state == APPROVAL_NEW || strcmp(a->principal, call->principal) != 0)
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL_MISMATCH, NULL,
                      "you have no approval %s; a restart of the service forgets them",
                      call->request.approval);
    else if (!is_for(a, call))
        APPROVAL_DENY(
                call, GB_DENIAL_APPROVAL_MISMATCH, NULL,
                "approval %s is for another call: the tool, its definition, the arguments or something else "
                "was changed",
                a->id);
    else if (!approval_is_open(a))
        deny_closed(call, a);
    else if (a->call || (a->going != APPROVAL_NEW && a->state == APPROVAL_APPROVED))
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL_MISMATCH, "wait for that call to end",
                      "approval %s is taken by a call that is under way", a->id);
    else {
        a->call = call;
        call->approval = a;
        if (a->state == APPROVAL_APPROVED)
            return APPROVAL_GRANTED;
        if (waits(call))
            return APPROVAL_WAITS;
        deny_pending(call, a);
    }
    return APPROVAL_REFUSED;
}

/* The same call, asked for before and not yet over: a person is not asked twice. */
static struct approval *find_same(const struct call *call)
{
    struct approval *a = call->front->approvals ? call->front->approvals->first : NULL;
    while (a &&
           (a->call || !a->keeps || a->going != APPROVAL_NEW || !approval_is_open(a) || !is_for(a, call)))
        a = a->next;
    return a;
}

enum approval_verdict approval_check(struct call *call)
{
    if (!is_needed(call))
        return APPROVAL_NOT_NEEDED;
    if (call->request.approval)
        return check_given(call);
    struct approval *a = waits(call) ? NULL : find_same(call);
    if (!a)
        a = approval_make(call);
    if (!a)
        return APPROVAL_REFUSED;
    a->call = call;
    call->approval = a;
    if (waits(call))
        return APPROVAL_WAITS;
    a->keeps = true;
    deny_pending(call, a);
    return APPROVAL_REFUSED;
}

/* --- what becomes of it --- */

static void recorded(struct audit_wait *wait, const struct gb_msg_ack *ack);

/* Each step is recorded with the call that it is about: the one that asked, or the one that uses it. */
/* NOLINTNEXTLINE(misc-no-recursion): a withdrawal that cannot be recorded ends it */
static void go(struct approval *a, enum approval_state to)
{
    AUTO_BUF body = {.max = 8192};
    struct gb_json j = {.out = &body, .first = true};
    char expires[GB_TIME_BYTES];
    gb_text_time(a->expires_wall_us, expires, sizeof(expires));
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "approval", a->id);
    gb_json_text(&j, "event", to == APPROVAL_ASKED ? "asked" : approval_states[to]);
    gb_json_text(&j, "tool", a->tool);
    gb_json_text(&j, "arguments_sha256", a->sha256);
    gb_json_text(&j, "asked_by", a->call_id);
    gb_json_text(&j, "expires", expires);
    if (*a->decided_by) {
        gb_json_text(&j, "decided_by", a->decided_by);
        gb_json_text(&j, "reason", a->reason);
    }
    gb_json_close(&j, '}');
    const char *id = to == APPROVAL_USED && a->call ? a->call->id : a->call_id;
    gb_log(GB_LOG_INFO, "approval", GB_S("id", a->id), GB_S("state", approval_states[to]),
           GB_S("principal", a->principal), GB_S("tool", a->tool), GB_S("by", a->decided_by));
    a->going = to;
    a->wait.done = recorded;
    if (audit_append(a->front, &a->wait, GB_RECORD_APPROVAL, id, a->principal, &body)) {
        struct gb_msg_ack ack = {0};
        gb_err_set(&ack.err, GB_ERR_AUDIT, 0, "no memory for the record of the approval");
        recorded(&a->wait, &ack);
    }
}

/* The call that waits for this, if it still does; it is told only once. */
static struct call *take_waiting(struct approval *a)
{
    a->wait_until_us = 0;
    return a->call && a->call->state == CALL_APPROVAL ? a->call : NULL;
}

static void tell(struct approval *a, bool granted, const struct gb_err *err)
{
    struct call *call = take_waiting(a);
    if (!call)
        return;
    if (err)
        call->err = *err;
    call_decided(call, granted && !err);
}

/* The person agreed: the one call that this is for begins, when that is recorded too; unless it was taken
 * away from whoever asked. A budget that has no room for it leaves the approval for later. */
static void use(struct approval *a)
{
    struct call *call = a->call;
    const bool late = gb_clock_us() >= a->expires_us;
    if (!late && !decide_again(call)) {
        tell(a, false, NULL);
        return;
    }
    if (late || budget_resume(call)) {
        go(a, late ? APPROVAL_EXPIRED : APPROVAL_USED);
        return;
    }
    a->keeps = true;
    APPROVAL_DENY(call, GB_DENIAL_APPROVAL_PENDING, NULL, "approval %s is granted, and waits to be used",
                  a->id);
    tell(a, false, NULL);
}

/* When to look again: at the end of its time, or of its call's patience. */
static void set_timer(struct approval *a)
{
    const bool patient = a->wait_until_us && a->wait_until_us < a->expires_us;
    gb_loop_at(a->front->loop, &a->timer,
               !approval_is_open(a) ? 0
               : patient            ? a->wait_until_us
                                    : a->expires_us);
}

static void time_is_up(struct gb_timer *timer)
{
    struct approval *a = GB_OWNER(timer, struct approval, timer);
    const int64_t now = gb_clock_us();
    if (a->going != APPROVAL_NEW || (a->state == APPROVAL_APPROVED && a->call)) {
        gb_loop_at(a->front->loop, &a->timer, now + AGAIN_US);
    } else if (now >= a->expires_us) {
        go(a, APPROVAL_EXPIRED);
    } else { /* whoever asked need not wait longer: it can be used later */
        struct call *call = take_waiting(a);
        set_timer(a);
        if (!call)
            return;
        a->keeps = true;
        deny_pending(call, a);
        call_decided(call, false);
    }
}

/* Nobody is there who could use it. */
static bool is_left(const struct approval *a)
{
    return !a->keeps && !(a->call && a->call->state == CALL_APPROVAL);
}

static void begin(struct approval *a)
{
    struct call *call = take_waiting(a);
    const bool wait = call && !call->denial_count;
    if (wait)
        a->wait_until_us = gb_clock_us() + call->policy->config->approvals.wait_ms * 1000;
    set_timer(a);
    if (call && !wait)
        call_decided(call, false); /* it is pending, as the denial says */
}

static void approved(struct approval *a)
{
    approval_answer(a, NULL);
    if (a->call && a->call->state == CALL_APPROVAL && !a->call->denial_count)
        use(a);
}

static void closed(struct approval *a)
{
    struct call *call = a->call && a->call->state == CALL_APPROVAL ? a->call : NULL;
    approval_drop_shown(a);
    gb_loop_at(a->front->loop, &a->timer, 0);
    if (a->state == APPROVAL_DENIED)
        approval_answer(a, NULL);
    if (call && a->state != APPROVAL_USED)
        deny_closed(call, a);
    tell(a, a->state == APPROVAL_USED, NULL);
}

/* What is not recorded has not happened, but for the end of its time: that comes all the same. */
static void not_recorded(struct approval *a, enum approval_state to, const struct gb_err *err)
{
    gb_log(GB_LOG_ERROR, "approval not recorded", GB_S("id", a->id), GB_S("state", approval_states[to]),
           GB_S("error", err->text));
    if (to == APPROVAL_APPROVED || to == APPROVAL_DENIED) {
        *a->decided_by = *a->reason = '\0';
        approval_answer(a, err);
    } else if (to == APPROVAL_ASKED || to == APPROVAL_USED) {
        if (to == APPROVAL_ASKED) {
            a->state = APPROVAL_WITHDRAWN;
            approval_drop_shown(a);
        } else
            a->keeps = true; /* it is still good */
        tell(a, false, err);
    } else {
        a->state = to;
        closed(a);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): as in go */
static void recorded(struct audit_wait *wait, const struct gb_msg_ack *ack)
{
    static void (*const next[APPROVAL_STATES])(struct approval *) = {
            [APPROVAL_ASKED] = begin,    [APPROVAL_APPROVED] = approved, [APPROVAL_DENIED] = closed,
            [APPROVAL_EXPIRED] = closed, [APPROVAL_WITHDRAWN] = closed,  [APPROVAL_USED] = closed};
    struct approval *a = GB_OWNER(wait, struct approval, wait);
    const enum approval_state to = a->going;
    a->going = APPROVAL_NEW;
    if (ack->err.code != GB_ERR_NONE) {
        not_recorded(a, to, &ack->err);
    } else {
        a->state = to;
        next[to](a);
    }
    if (a->going == APPROVAL_NEW && a->state != APPROVAL_NEW && approval_is_open(a) && is_left(a))
        go(a, APPROVAL_WITHDRAWN);
}

void approval_settle(struct approval *a, bool approve, const char *by, const char *reason)
{
    snprintf(a->decided_by, sizeof(a->decided_by), "%s", by);
    snprintf(a->reason, sizeof(a->reason), "%s", reason);
    go(a, approve ? APPROVAL_APPROVED : APPROVAL_DENIED);
}

/* --- a call --- */

void approval_wait(struct call *call)
{
    struct approval *a = call->approval;
    const int64_t now = gb_clock_us(), expires = call->policy->config->approvals.expires_ms * 1000;
    budget_pause(call);
    if (!approval_is_open(a)) { /* it came to its end meanwhile */
        deny_closed(call, a);
        call_decided(call, false);
    } else if (a->state != APPROVAL_NEW && call->denial_count) { /* asked for before, and it need not wait */
        call_decided(call, false);
    } else if (a->state == APPROVAL_APPROVED) {
        use(a);
    } else if (a->state == APPROVAL_ASKED) {
        begin(a);
    } else {
        a->asked_wall_us = wall_us();
        a->expires_wall_us = a->asked_wall_us + expires;
        a->expires_us = now + expires;
        a->timer.fire = time_is_up;
        go(a, APPROVAL_ASKED);
    }
}

void approval_leave(struct call *call)
{
    struct approval *a = TAKE_PTR(call->approval);
    if (!a)
        return;
    a->call = NULL;
    a->wait_until_us = 0;
    if (a->state == APPROVAL_NEW && a->going == APPROVAL_NEW)
        approval_forget(a); /* its intent was not recorded: it was never asked for */
    else if (a->going == APPROVAL_NEW && approval_is_open(a) && !a->keeps)
        go(a, APPROVAL_WITHDRAWN);
    else if (a->state != APPROVAL_NEW)
        set_timer(a);
}
