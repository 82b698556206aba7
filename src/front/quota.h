/* The arithmetic of budgets: an account for each principal and each tool, by name. It knows no calls and no
 * clock, so that tests can give it both. Accounts are kept for whoever calls, with a budget or without: one
 * that a reload brings counts what was used before it.
 *
 * - In a minute: the last 600 tenths of a second and the one that runs are counted, so in no 60 seconds are
 *   there more calls than allowed; a call is forgotten at most a tenth of a second later than it could be.
 * - In a day (UTC): sums, which begin anew when the day is a later one. A clock that is set back changes
 *   nothing until it has passed the day that was reached.
 * - At once: how many are under way.
 * - Cpu time in a day: each call sets aside what it may use at most, and pays what it has used. */
#pragma once

#include "policy/policy.h"

#define QUOTA_ACCOUNTS 4096

enum quota_kind { QUOTA_PRINCIPAL, QUOTA_TOOL };
enum quota_what { QUOTA_NONE, QUOTA_MINUTE, QUOTA_DAY, QUOTA_CONCURRENT, QUOTA_CPU, QUOTA_ROOM };

struct quota;

struct quota_now {
    int64_t us;    /* on gb_clock_us */
    int64_t day;   /* since 1970, UTC */
    int64_t day_s; /* seconds that are left of it */
};

/* One account that a call draws on. */
struct quota_claim {
    enum quota_kind kind;
    const char *name;
    const struct gb_budget *budget;
};

struct quota_refusal {
    enum quota_what what;
    size_t claim;                   /* which one refused */
    int64_t used, set_aside, limit; /* calls, or milliseconds of cpu time */
    int64_t wait_s;                 /* until it frees up; 0: not known */
};

struct quota *quota_new(void);
void quota_free(struct quota *q);

/* Takes one call from each account, or from none and says why. cpu_ms: NULL for a call that uses no cpu time
 * of its own; else what it may use at most, which is narrowed to what is left and set aside. */
bool quota_take(struct quota *q, const struct quota_now *now, const struct quota_claim *claims, size_t count,
                int64_t *cpu_ms, struct quota_refusal *ret);
/* A call that was taken waits, and uses nothing of what is for calls under way; then it goes on, if that is
 * still to be had. It stays counted in minute and day. */
void quota_pause(struct quota *q, const struct quota_claim *claims, size_t count, int64_t set_aside_ms);
bool quota_resume(struct quota *q, const struct quota_now *now, const struct quota_claim *claims,
                  size_t count, int64_t *cpu_ms, struct quota_refusal *ret);
/* That call is over: what was set aside is given back, what it has used is paid. */
void quota_done(struct quota *q, const struct quota_now *now, const struct quota_claim *claims, size_t count,
                int64_t set_aside_ms, int64_t used_us);
/* It was taken, but nothing became of it that is recorded: the day (that it was taken on) does not count it.
 */
void quota_undo(struct quota *q, const struct quota_claim *claims, size_t count, int64_t day,
                int64_t set_aside_ms);
/* What was used on a day before we began. False: there is no room for it. */
bool quota_load(struct quota *q, int64_t day, enum quota_kind kind, const char *name, int64_t calls,
                int64_t cpu_us);
