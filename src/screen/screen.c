#include "screen/screen.h"

#include "base/auto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Bounds of one attempt; the rules need a few steps. */
#define STEPS_MOST    1000000
#define HEAP_KIB_MOST 4096

static const struct {
    const char *name, *language, *pattern;
} rules[] = {
#define GB_SCREEN(name, language, pattern) {name, language, pattern},
#include "screen/rules.def"
#undef GB_SCREEN
};
_Static_assert(ARRAY_LEN(rules) <= GB_FINDINGS, "every rule may fire");

struct gb_screen {
    pcre2_code *code[ARRAY_LEN(rules)];
    pcre2_match_context *limits;
};

static int compile_all(struct gb_screen *screen, struct gb_err *err)
{
    screen->limits = pcre2_match_context_create(NULL);
    if (!screen->limits)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "screening rules");
    pcre2_set_match_limit(screen->limits, STEPS_MOST);
    pcre2_set_depth_limit(screen->limits, STEPS_MOST);
    pcre2_set_heap_limit(screen->limits, HEAP_KIB_MOST);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        int code = 0;
        size_t at = 0;
        screen->code[i] = pcre2_compile((PCRE2_SPTR)rules[i].pattern, PCRE2_ZERO_TERMINATED, PCRE2_NEVER_UTF,
                                        &code, &at, NULL);
        if (!screen->code[i])
            return gb_err_set(err, GB_ERR_INTERNAL, 0,
                              "screening rule '%s': error %d at offset %zu of its pattern", rules[i].name,
                              code, at);
    }
    return 0;
}

struct gb_screen *gb_screen_new(struct gb_err *err)
{
    struct gb_screen *screen = calloc(1, sizeof(*screen));
    if (!screen) {
        gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "screening rules");
        return NULL;
    }
    if (compile_all(screen, err) < 0) {
        gb_screen_free(screen);
        return NULL;
    }
    return screen;
}

void gb_screen_free(struct gb_screen *screen)
{
    if (!screen)
        return;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        pcre2_code_free(screen->code[i]);
    pcre2_match_context_free(screen->limits);
    free(screen);
}

static unsigned line_of(const char *code, size_t offset)
{
    unsigned line = 1;
    for (const char *p = code; (p = memchr(p, '\n', (size_t)(code + offset - p))); p++)
        line++;
    return line;
}

/* The line where a rule fires, 0 if it does not. */
static unsigned find(const struct gb_screen *screen, size_t rule, const char *code, size_t len,
                     pcre2_match_data *match)
{
    if (!match)
        return 1;
    int rc = pcre2_match(screen->code[rule], (PCRE2_SPTR)code, len, 0, PCRE2_NO_JIT, match, screen->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    return rc < 0 ? 1 : line_of(code, pcre2_get_ovector_pointer(match)[0]);
}

size_t gb_screen_code(const struct gb_screen *screen, const char *runtime, const char *code, size_t len,
                      struct gb_finding ret[GB_FINDINGS])
{
    size_t count = 0;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        bool applies = !strcmp(rules[i].language, "*") || (runtime && !strcmp(rules[i].language, runtime));
        unsigned line = applies ? find(screen, i, code, len, match) : 0;
        if (line)
            ret[count++] = (struct gb_finding){rules[i].name, line};
    }
    pcre2_match_data_free(match);
    return count;
}
