/* One interface for everything that can run a box. Doors (command line, library, service) know this and
 * nothing below it. */
#pragma once

#include "spec/result.h"
#include "spec/spec.h"

typedef void gb_backend_output_fn(void *context, int stream, const char *data, size_t len);

struct gb_backend {
    const char *name, *what;
    /* Runs one box from start to end. 0: result is filled, whatever became of the program. Negative: nothing
     * was run, err says why. The caller releases the result with gb_result_done in both cases. */
    int (*run)(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
               struct gb_result *result, struct gb_err *err);
};

extern const struct gb_backend gb_backend_native;

/* A hash over what the native backend allows a box: limits, root, mounts, layers that may be missing, and the
 * system call filter. ret_hex has room for 65 characters. */
void gb_native_hash_policy(const struct gb_spec *spec, char *ret_hex);

const struct gb_backend *gb_backend_find(const char *name);
