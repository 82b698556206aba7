/* Errors a person can act on. A struct gb_err is owned by the caller, has a fixed size and never allocates,
 * so that it can cross a fork and travel over a pipe. Functions return 0 or a negative errno; where a person
 * must understand the failure, the last parameter is a struct gb_err. */
#pragma once

#include <stdint.h>

enum gb_error_code {
    GB_ERR_NONE,
#define GB_ERROR(code, name, exit_code, http, text) GB_ERR_##code,
#include "base/err.def"
#undef GB_ERROR
    GB_ERR_COUNT
};

struct gb_err {
    int32_t code;   /* enum gb_error_code */
    int32_t errnum; /* positive errno, 0 if none */
    int32_t hinted; /* the text says how to mend it */
    char step[24];  /* the confinement step that failed, or "" */
    char text[480];
};

/* Sets *err and returns -errnum (-EINVAL when errnum is 0). With errnum set, its text is appended. err may be
 * NULL. */
int gb_err_set(struct gb_err *err, enum gb_error_code code, int errnum, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

/* Puts "what I was doing: " before the text: once per layer, on the way up. */
void gb_err_wrap(struct gb_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends a hint on how to mend it: "; hint". */
void gb_err_hint(struct gb_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *gb_err_name(enum gb_error_code code);
int gb_err_exit_code(enum gb_error_code code);
int gb_err_http_status(enum gb_error_code code);
