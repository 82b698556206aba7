/* What a caller is told: problems (RFC 9457), results, and streams of events. */
#pragma once

#include "front/call.h"

/* status 0: the error's own. `headers` as in conn_reply; if empty, 429 and 503 say Retry-After: 1. */
void reply_problem(struct conn *c, int status, const struct gb_err *err, const char *headers);
/* With Retry-After. */
void reply_later(struct conn *c, const struct gb_err *err, int retry_s);
void reply_json(struct conn *c, int status, const struct gb_buf *body);

/* The whole of it: result or problem, as reply or last event. The client must still be there. */
void reply_call(struct call *call);
/* Makes the text of the result, if it is not there yet. */
void reply_prepare(struct call *call);
/* The client has left: the result is only for those who repeat the call with its Idempotency-Key. */
void reply_keep(struct call *call);

/* Events: the beginning, output since the last time, a sign of life. */
void reply_start(struct call *call);
void reply_output(struct call *call);
void reply_keep_alive(struct call *call);
