/* The native backend in parts, for a supervisor whose boxes are built before their calls come. */
#pragma once

#include "backend/backend.h"
#include "sandbox/box.h"

/* From the start of the program to the end of the box: fills the result. */
int gb_native_serve(struct gb_box *box, gb_backend_output_fn *on_output, void *context,
                    struct gb_result *result, struct gb_err *err);
/* The result of a run that was given up before its program started. */
void gb_native_cancelled(const struct gb_box *box, struct gb_result *result, struct gb_err *err);
