/* May this be done? Every check between a request that was read and a box or the broker, in one table. */
#pragma once

#include "front/call.h"

/* Sets call->decision, and call->denials if it is refused. */
void decide(struct call *call);
/* The findings from this one on: those that block become denials. */
void decide_findings(struct call *call, size_t from);
/* May the principal use the tool as the configuration is now? The call keeps the one that it began with. */
bool decide_may(const struct call *call);
/* It has waited, and is about to go on: false after a denial if a reload has taken that away, or has changed
 * what a person agreed to. */
bool decide_again(struct call *call);
/* The box ran, and the report of our start-up code is missing. */
void decide_unreported(struct call *call);
/* It may run: what the launcher is to get, into request.payload. */
int decide_payload(struct call *call, struct gb_err *err);
