#include "schema/ecma.h"

#include "base/auto.h"
#include "schema/ecma_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Bounds of searching. An honest pattern takes a few steps per byte. */
#define STEPS_FREE     256     /* for any text, */
#define STEPS_PER_BYTE 8       /* and for each byte of it */
#define STEPS_STORE    4000000 /* for what takes more, in all searches together */
#define STEPS_TIMES    4       /* how much more is tried next */
#define HEAP_KIB_MOST  32768
/* What that is in steps of a check, which are larger. */
#define CHECK_FREE  4
#define CHECK_BYTES 4  /* in one step */
#define CHECK_STEPS 16 /* in one step */

struct gb_ecma {
    pcre2_code *code;
};

struct gb_ecma_search {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t store;
};

/* No automatic possessives: what they skip is not counted, and could be as long as the text at each place of
 * it. No optimisations at the start for the same reason. */
#define OPTIONS                                                                                              \
    (PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE | PCRE2_NO_AUTO_POSSESS |       \
     PCRE2_NO_START_OPTIMIZE | PCRE2_NO_DOTSTAR_ANCHOR | PCRE2_NEVER_BACKSLASH_C)

int gb_ecma_new(const char *pattern, size_t len, struct gb_ecma **ret, struct gb_err *err)
{
    AUTO_BUF text = {.max = (size_t)GB_ECMA_BYTES_MOST * 64};
    int code = 0;
    size_t at = 0;
    if (len > GB_ECMA_BYTES_MOST)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "a pattern has at most %d bytes; it has %zu",
                          GB_ECMA_BYTES_MOST, len);
    int r = gb_ecma_write(pattern, len, &text, err);
    if (r)
        return r;
    if (text.failed)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read a pattern");
    if (gb_buf_truncated(&text))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "the pattern is too large");
    struct gb_ecma *p = calloc(1, sizeof(*p));
    if (!p)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read a pattern");
    p->code = pcre2_compile((PCRE2_SPTR)text.data, text.len, OPTIONS, &code, &at, NULL);
    if (!p->code) {
        char why[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
        free(p);
        return gb_err_set(err, GB_ERR_CONFIG, 0, "the pattern cannot be used: %s", why);
    }
    *ret = p;
    return 0;
}

void gb_ecma_free(struct gb_ecma *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    free(p);
}

struct gb_ecma_search *gb_ecma_search_new(void)
{
    struct gb_ecma_search *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->data = pcre2_match_data_create(1, NULL);
    s->limits = pcre2_match_context_create(NULL);
    s->store = STEPS_STORE;
    if (!s->data || !s->limits) {
        gb_ecma_search_free(s);
        return NULL;
    }
    pcre2_set_heap_limit(s->limits, HEAP_KIB_MOST);
    return s;
}

void gb_ecma_search_free(struct gb_ecma_search *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->limits);
    free(s);
}

/* The first limit is for free; each next one must be in the store, which is what a hostile text empties. */
int gb_ecma_find(const struct gb_ecma *p, struct gb_ecma_search *s, const char *text, size_t len,
                 uint64_t *steps)
{
    uint64_t limit = STEPS_FREE + (uint64_t)len * STEPS_PER_BYTE;
    for (bool first = true;; first = false) {
        if (limit > UINT32_MAX)
            return -ELOOP;
        if (!first && limit > s->store)
            return -ELOOP;
        if (!first)
            s->store -= limit;
        *steps += first ? CHECK_FREE + len / CHECK_BYTES : limit / CHECK_STEPS;
        pcre2_set_match_limit(s->limits, (uint32_t)limit);
        pcre2_set_depth_limit(s->limits, (uint32_t)limit);
        const int r = pcre2_match(p->code, (PCRE2_SPTR)text, len, 0, PCRE2_NO_UTF_CHECK, s->data, s->limits);
        if (r >= 0)
            return 1;
        if (r == PCRE2_ERROR_NOMATCH)
            return 0;
        if (r == PCRE2_ERROR_NOMEMORY)
            return -ENOMEM;
        if (r != PCRE2_ERROR_MATCHLIMIT && r != PCRE2_ERROR_DEPTHLIMIT)
            return -ELOOP;
        limit *= STEPS_TIMES;
    }
}
