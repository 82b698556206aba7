/* What came of a call, as JSON. */
#pragma once

#include "front/call.h"

/* Of POST /execute if the call is of the seeds' kind, else of /v1. Changes the call's output: once only. */
void result_text(struct call *call, struct gb_buf *out);
/* Nothing was done, and it may be allowed another time: not an answer for those who repeat the call. */
bool result_may_change(const struct call *call);
