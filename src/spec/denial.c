#include "spec/denial.h"

#include "base/auto.h"
#include "spec/action.h"

#include <stdarg.h>
#include <stdio.h>

const char *const gb_screen_names[] = {
        [GB_SCREEN_BLOCK] = "block", [GB_SCREEN_WARN] = "warn", [GB_SCREEN_OFF] = "off"};

static const struct {
    const char *name, *stage, *hint;
} codes[GB_DENIAL_COUNT] = {
#define GB_DENIAL(code, name, stage, hint) [GB_DENIAL_##code] = {name, stage, hint},
#include "spec/denials.def"
#undef GB_DENIAL
};

const char *gb_denial_name(enum gb_denial_code code)
{
    return (unsigned)code < GB_DENIAL_COUNT ? codes[code].name : NULL;
}

const char *gb_denial_stage(enum gb_denial_code code)
{
    return (unsigned)code < GB_DENIAL_COUNT ? codes[code].stage : NULL;
}

void gb_denial_add(struct gb_denial denials[GB_DENIALS], size_t *count, enum gb_denial_code code,
                   const char *hint, const char *format, ...)
{
    if (*count == GB_DENIALS)
        return;
    struct gb_denial *d = &denials[(*count)++];
    va_list args;
    *d = (struct gb_denial){.code = code};
    va_start(args, format);
    vsnprintf(d->reason, sizeof(d->reason), format, args);
    va_end(args);
    snprintf(d->hint, sizeof(d->hint), "%s", hint ? hint : "");
    for (char *p = d->reason; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
}

void gb_denials_to_json(struct gb_json *j, const char *key, const struct gb_denial *denials, size_t count)
{
    gb_json_open(j, key, '[');
    for (size_t i = 0; i < count; i++) {
        const struct gb_denial *d = &denials[i];
        gb_json_open(j, NULL, '{');
        gb_json_text(j, "code", gb_denial_name(d->code));
        gb_json_text(j, "stage", gb_denial_stage(d->code));
        gb_json_text(j, "reason", d->reason);
        gb_json_text(j, "hint", *d->hint ? d->hint : codes[d->code].hint);
        gb_json_close(j, '}');
    }
    gb_json_close(j, ']');
}
