/* Budgets of principals and tools: calls in a minute and a day, calls at once, cpu time in a day. The
 * arithmetic is in quota.c; here it meets calls, denials and the store, which remembers what a day has cost
 * (FIND_USAGE) so that a restart gives nobody a second day. */
#pragma once

#include "front/call.h"

/* Asks the store what has been used today; f->opening fires when it has answered. */
int budget_begin(struct front *f);
/* It has answered, if only that it cannot tell now: then it is asked again, and no call is taken until then.
 */
bool budget_is_ready(const struct front *f);
bool budget_is_known(const struct front *f);
/* Takes one call from every budget of call->who and call->tool, or none; false: a GB_DENIAL_BUDGET was added
 * to the call's denials. May narrow call->request.limits.cpu_ms to what is left. Called once, after
 * everything else was allowed. */
bool budget_take(struct call *call);
/* It waits for a person: what runs at once and its cpu time are for others meanwhile. */
void budget_pause(struct call *call);
/* It may go on; false: as in budget_take, and it stays paused. */
bool budget_resume(struct call *call);
/* Its intent could not be recorded, so it is none: the day does not count it. budget_done then does nothing.
 */
void budget_undo(struct call *call);
/* The call is over: gives back what runs at once, charges the cpu time that it used. Safe if never taken. */
void budget_done(struct call *call);
