/* Approvals: calls that a person must agree to first.
 *
 *   asked -> approved -> used          the call runs
 *         -> denied, expired, withdrawn   it does not
 *
 * An approval is bound to principal, tool and the exact request by a hash, to what the tool does by another
 * (a reload can change that), and good for one call. A call
 * waits for the decision with its client connected, holding no box; or it is answered at once with the id
 * (`"wait": false`), and repeated with it later. Each step is a record in the audit, and counts only when
 * that is acknowledged.
 *
 * They live in memory: a front that ends forgets them, and who was asked must be asked again. */
#pragma once

#include "front/call.h"

enum approval_verdict { APPROVAL_NOT_NEEDED, APPROVAL_GRANTED, APPROVAL_WAITS, APPROVAL_REFUSED };

/* Looks at the tool's policy, the arguments and call->request.approval (an id, or NULL).
 * GRANTED: call->approval is the one that it will use up.
 * WAITS: call->approval is the one that it will wait for.
 * REFUSED: denials were added; with APPROVAL_PENDING, call->approval is to be asked for.
 * Unless REFUSED without an approval, approval_wait comes next, when the intent is recorded. */
enum approval_verdict approval_check(struct call *call);
/* The intent is recorded: asks, or uses up. call_decided is called, perhaps from inside, when the records of
 * it are acknowledged; for a pending one as soon as it has been asked for. */
void approval_wait(struct call *call);
/* The call is over: no more waiting. Safe if there was no approval. */
void approval_leave(struct call *call);

/* For records and replies: the id alone; and what the caller may know of it (id, tool, state, expires) as
 * an object. */
const char *approval_id(const struct approval *a);
void approval_to_json(struct gb_json *j, const char *key, const struct approval *a);

/* GET /v1/approvals; GET and POST /v1/approvals/{id}. */
void approval_list(struct conn *c);
void approval_show(struct conn *c);
void approval_decide(struct conn *c);
