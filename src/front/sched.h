/* Who may run, and when: rates and boxes of each key, boxes of all, a bounded queue. Too much is refused at
 * once. */
#pragma once

#include "front/call.h"

/* Counts the call in, or says why not and (429, 503) after how many seconds to try again. */
int sched_admit(struct call *call, int *ret_retry_s, struct gb_err *err);
/* A slot for an admitted call: starts it now or puts it into the queue. */
void sched_request(struct call *call);
/* Gives back a slot or the place in the queue, if it has one; the next in the queue starts. */
void sched_release(struct call *call);
/* It waits for a person: meanwhile it counts for nothing. It comes back however many there are by then. */
void sched_park(struct call *call);
void sched_return(struct call *call);
/* The call is over. */
void sched_leave(struct call *call);
