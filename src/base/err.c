#include "base/err.h"

#include "base/auto.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const struct {
    const char *name;
    int exit_code, http;
} errors[GB_ERR_COUNT] = {
        [GB_ERR_NONE] = {"none", 0, 200},
#define GB_ERROR(code, name, exit_code, http, text) [GB_ERR_##code] = {name, exit_code, http},
#include "base/err.def"
#undef GB_ERROR
};

int gb_err_set(struct gb_err *err, enum gb_error_code code, int errnum, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        *err = (struct gb_err){.code = (int32_t)code, .errnum = errnum};
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
        if (errnum) {
            size_t used = strlen(err->text);
            const char *text = strerrordesc_np(errnum); /* takes no lock, so it can be used after a fork */
            snprintf(err->text + used, sizeof(err->text) - used, ": %s", text ? text : "unknown error");
        }
    }
    return errnum ? -errnum : -EINVAL;
}

void gb_err_wrap(struct gb_err *err, const char *fmt, ...)
{
    char old[sizeof(err->text)];
    if (!err)
        return;
    memcpy(old, err->text, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %.*s", (int)(sizeof(old) - 1), old);
}

void gb_err_hint(struct gb_err *err, const char *fmt, ...)
{
    if (!err)
        return;
    size_t used = strlen(err->text);
    if (used + 3 >= sizeof(err->text))
        return;
    err->hinted = 1;
    memcpy(err->text + used, "; ", 3);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text + used + 2, sizeof(err->text) - used - 2, fmt, ap);
    va_end(ap);
}

const char *gb_err_name(enum gb_error_code code)
{
    return (unsigned)code < ARRAY_LEN(errors) ? errors[code].name : "unknown";
}

int gb_err_exit_code(enum gb_error_code code)
{
    return (unsigned)code < ARRAY_LEN(errors) ? errors[code].exit_code : 125;
}

int gb_err_http_status(enum gb_error_code code)
{
    return (unsigned)code < GB_ERR_COUNT ? errors[code].http : 500;
}
