#include "screen/screen.h"

#include "base/auto.h"
#include "base/clock.h"
#include "screen/rules.h"

#include <errno.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Bounds of one attempt to match. */
#define STEPS_MOST    1000000
#define HEAP_KIB_MOST 4096
/* Bounds of one search. An attempt can look at all that follows it, so a rule that is written badly takes
 * time with the square of the length. It is asked about a few beginnings at a time, and after so much time no
 * more. */
#define BEGINNINGS   128
#define SEARCH_MS    200
#define BYTES_PER_MS 10000 /* and a millisecond more for so many */

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct gb_screen_rule builtin[] = {
#define GB_SCREEN(name, language, pattern, calls, imports, paths, writes, hint)                              \
    {name, language, pattern, calls, imports, paths, writes, hint, -1},
#include "screen/rules.def"
#undef GB_SCREEN
};
_Static_assert(ARRAY_LEN(builtin) <= GB_SCREEN_RULES, "every rule has room");

struct gb_screen {
    struct gb_screen_rule rules[GB_SCREEN_RULES];
    pcre2_code *code[GB_SCREEN_RULES]; /* NULL: no pattern */
    size_t count;
    pcre2_match_context *limits;
};

/* --- building --- */

static int check_names(const struct gb_screen_rule *rule, const char *field, const char *const *names,
                       struct gb_err *err)
{
    for (; names && *names; names++)
        if (!**names || strpbrk(*names, "\r\n"))
            return gb_err_set(err, GB_ERR_CONFIG, 0, "screening rule '%.64s': %s: '%.64s' is not a name",
                              rule->name, field, *names);
    return 0;
}

static int check_rule(const struct gb_screen_rule *rule, struct gb_err *err)
{
    if (!rule->name || !*rule->name)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "a screening rule has no name");
    const bool syntax = rule->calls || rule->imports || rule->paths || rule->writes;
    if (!rule->pattern && !syntax)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "screening rule '%.64s': has no pattern, calls or imports",
                          rule->name);
    if (syntax && !gb_screen_is_for(rule, "python"))
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "screening rule '%.64s': calls and imports are for python, not for '%.64s'",
                          rule->name, rule->language);
    int r = check_names(rule, "calls", rule->calls, err);
    return r ? r : check_names(rule, "imports", rule->imports, err);
}

static int compile_one(struct gb_screen *screen, size_t at, struct gb_err *err)
{
    const struct gb_screen_rule *rule = &screen->rules[at];
    int code = 0;
    size_t offset = 0;
    PCRE2_UCHAR why[128] = "";
    int r = check_rule(rule, err);
    if (r || !rule->pattern)
        return r;
    screen->code[at] = pcre2_compile((PCRE2_SPTR)rule->pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_NEVER_UTF | PCRE2_USE_OFFSET_LIMIT, &code, &offset, NULL);
    if (screen->code[at])
        return 0;
    pcre2_get_error_message(code, why, sizeof(why));
    return gb_err_set(err, GB_ERR_CONFIG, 0, "screening rule '%.64s': pattern: %s (at offset %zu)",
                      rule->name, (const char *)why, offset);
}

/* Puts it in place of one of the same name, or behind the others. */
static int put(struct gb_screen *screen, const struct gb_screen_rule *rule, struct gb_err *err)
{
    const int known = rule->name ? gb_screen_find(screen, rule->name) : -1;
    if (known < 0 && screen->count == GB_SCREEN_RULES)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "screening: there are more than %d rules", GB_SCREEN_RULES);
    screen->rules[known < 0 ? screen->count++ : (size_t)known] = *rule;
    return 0;
}

static int fill(struct gb_screen *screen, const struct gb_screen_rule *more, size_t count, struct gb_err *err)
{
    screen->limits = pcre2_match_context_create(NULL);
    if (!screen->limits)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "screening rules");
    pcre2_set_match_limit(screen->limits, STEPS_MOST);
    pcre2_set_depth_limit(screen->limits, STEPS_MOST);
    pcre2_set_heap_limit(screen->limits, HEAP_KIB_MOST);
    int r = 0;
    for (size_t i = 0; !r && i < ARRAY_LEN(builtin); i++)
        r = put(screen, &builtin[i], err);
    for (size_t i = 0; !r && i < count; i++)
        r = put(screen, &more[i], err);
    for (size_t i = 0; !r && i < screen->count; i++)
        r = compile_one(screen, i, err);
    return r;
}

struct gb_screen *gb_screen_new(const struct gb_screen_rule *more, size_t count, struct gb_err *err)
{
    struct gb_screen *screen = calloc(1, sizeof(*screen));
    if (!screen) {
        gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "screening rules");
        return NULL;
    }
    if (fill(screen, more, count, err) < 0) {
        gb_screen_free(screen);
        return NULL;
    }
    return screen;
}

void gb_screen_free(struct gb_screen *screen)
{
    if (!screen)
        return;
    for (size_t i = 0; i < screen->count; i++)
        pcre2_code_free(screen->code[i]);
    pcre2_match_context_free(screen->limits);
    free(screen);
}

/* --- looking at the rules --- */

size_t gb_screen_rule_count(const struct gb_screen *screen)
{
    return screen->count;
}

const char *gb_screen_rule_name(const struct gb_screen *screen, size_t index)
{
    return index < screen->count ? screen->rules[index].name : NULL;
}

const struct gb_screen_rule *gb_screen_rule(const struct gb_screen *screen, size_t index)
{
    return &screen->rules[index];
}

int gb_screen_find(const struct gb_screen *screen, const char *name)
{
    for (size_t i = 0; i < screen->count; i++)
        if (!strcmp(screen->rules[i].name, name))
            return (int)i;
    return -1;
}

bool gb_screen_is_for(const struct gb_screen_rule *rule, const char *runtime)
{
    const char *language = rule->language ? rule->language : "*";
    return !strcmp(language, "*") || (runtime && !strcmp(language, runtime));
}

void gb_screen_actions_init(const struct gb_screen *screen, enum gb_screen_action usual,
                            struct gb_screen_actions *ret)
{
    *ret = (struct gb_screen_actions){0};
    for (size_t i = 0; i < screen->count; i++)
        ret->action[i] = (unsigned char)(screen->rules[i].action < 0 ? (int)usual : screen->rules[i].action);
}

/* --- patterns --- */

static unsigned line_of(const char *code, size_t offset)
{
    unsigned line = 1;
    for (const char *p = code; (p = memchr(p, '\n', (size_t)(code + offset - p))); p++)
        line++;
    return line;
}

static int64_t cpu_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The line where a rule fires, 0 if it does not; *ret_undecided: it could not be found out. */
static unsigned find(const pcre2_code *rule, const char *code, size_t len, pcre2_match_context *limits,
                     pcre2_match_data *match, bool *ret_undecided)
{
    const int64_t most_us = 1000 * (SEARCH_MS + (int64_t)(len / BYTES_PER_MS));
    const int64_t began_us = cpu_us();
    const int64_t next_us =
            gb_clock_us() + most_us; /* the clock that is quick to read says when to ask the other */
    for (size_t at = 0; match && at <= len; at += BEGINNINGS) {
        pcre2_set_offset_limit(limits, at + BEGINNINGS - 1);
        int rc = pcre2_match(rule, (PCRE2_SPTR)code, len, at, PCRE2_NO_JIT, match, limits);
        if (rc >= 0)
            return line_of(code, pcre2_get_startchar(match));
        if (rc == PCRE2_ERROR_NOMATCH && len - at < BEGINNINGS)
            return 0;
        if (rc != PCRE2_ERROR_NOMATCH || (gb_clock_us() > next_us && cpu_us() - began_us > most_us))
            break;
    }
    *ret_undecided = true;
    return 1;
}

size_t gb_screen_code(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                      const char *runtime, const char *code, size_t len, struct gb_finding ret[GB_FINDINGS])
{
    size_t count = 0;
    const bool python = runtime && !strcmp(runtime, "python");
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_copy(screen->limits);
    if (!limits) {
        pcre2_match_data_free(match);
        match = NULL;
    }
    for (size_t i = 0; i < screen->count; i++) {
        const struct gb_screen_rule *rule = &screen->rules[i];
        bool undecided = false;
        if (!rule->pattern || actions->action[i] == GB_SCREEN_OFF || !gb_screen_is_for(rule, runtime) ||
            (python && rule->paths))
            continue;
        unsigned line = find(screen->code[i], code, len, limits, match, &undecided);
        if (!line)
            continue;
        ret[count++] = (struct gb_finding){.rule = rule->name,
                                           .hint = rule->hint,
                                           .line = line,
                                           .action = (enum gb_screen_action)actions->action[i]};
        snprintf(ret[count - 1].reason, sizeof(ret->reason), "%s",
                 undecided ? "cannot be decided: the pattern takes too long on this text"
                           : "matches the pattern");
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(match);
    return count;
}
