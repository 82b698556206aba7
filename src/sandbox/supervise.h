/* Watching a box from its start to its end: output, input, deadline, cpu, memory, cancellation. */
#pragma once

#include "sandbox/box.h"

/* Called with output as it arrives, within max_output_bytes. stream: 0 stdout, 1 stderr. */
typedef void gb_output_fn(void *context, int stream, const char *data, size_t len);

/* Returns when nothing of the box is alive any more and result is filled. A negative return means that the
 * program could not be started; err says why. -ECONNRESET: a box that waited had ended before its call came.
 */
int gb_supervise(struct gb_box *box, gb_output_fn *on_output, void *context, struct gb_result *result,
                 struct gb_err *err);
