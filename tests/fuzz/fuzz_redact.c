/* The sanitiser. How the text is cut into writes must not matter; what comes out is UTF-8, has nothing in it
 * that a rule of the seeds would still remove; and with the seeds' rules alone it does not change when it is
 * sanitised again. */
#include "fuzz.h"

#include "base/text.h"
#include "redact/redact.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* As the seeds have them, for text and not for bytes, as Python reads them; but digits are those of ASCII,
 * and so is what is called the same letter (Python takes U+212A for a k). */
#define SPACE                                                                                                \
    "\\t-\\r\\x1c-\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
static const char *const seeds[] = {
        "/home/\\w+",
        "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}",
        "([Pp][Aa][Ss][Ss][Ww][Oo][Rr][Dd]|[Ss][Ee][Cc][Rr][Ee][Tt]|[Tt][Oo][Kk][Ee][Nn]|[Kk][Ee][Yy])"
        "[" SPACE "]*[:=][" SPACE "]*[^" SPACE "]+",
        "/tmp/tmp[\\w]+",
};
#define SEEDS (sizeof(seeds) / sizeof(seeds[0]))

static struct gb_rules *rules, *seeds_only;
static pcre2_code *seed_code[SEEDS];
static pcre2_match_data *match;

static void set_up(void)
{
    struct gb_err err;
    int code;
    size_t at;
    static const char *const known[] = {"s3cr3t%value", "s3cr3t%val2e\"\\x"};
    rules = gb_rules_new(&(struct gb_rules_options){.secrets = known, .secret_count = 2}, &err);
    const char *others[64];
    size_t count = 0;
    for (size_t i = SEEDS; i < gb_rules_builtin_count(); i++)
        others[count++] = gb_rules_builtin_name(i);
    seeds_only = gb_rules_new(&(struct gb_rules_options){.off = others, .off_count = count}, &err);
    match = pcre2_match_data_create(4, NULL);
    CHECK(rules && seeds_only && match);
    for (size_t i = 0; i < SEEDS; i++) {
        seed_code[i] = pcre2_compile((PCRE2_SPTR)seeds[i], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                     &code, &at, NULL);
        CHECK(seed_code[i]);
    }
}

/* Pieces of `piece` bytes; 0: of lengths that the text decides. */
static struct gb_buf redact_by(const struct gb_rules *use, const char *data, size_t size, size_t hold,
                               size_t piece, uint64_t *ret_hits)
{
    struct gb_buf out = {.max = SIZE_MAX / 2};
    struct gb_redact *r = gb_redact_new(use, hold);
    CHECK(r);
    for (size_t at = 0, n; at < size; at += n) {
        n = piece ? piece
                  : 1 + fuzz_position((const uint8_t *)data + at, size - at < 32 ? size - at : 32) % 23;
        n = n < size - at ? n : size - at;
        char *copy = fuzz_copy(data + at, n);
        CHECK(!gb_redact_feed(r, copy, n, piece == size, &out));
        free(copy);
    }
    if (!size || piece != size)
        CHECK(!gb_redact_feed(r, NULL, 0, true, &out));
    *ret_hits = gb_redact_hits(r);
    gb_redact_free(r);
    return out;
}

static struct gb_buf redact(const char *data, size_t size, size_t hold, size_t piece, uint64_t *ret_hits)
{
    return redact_by(rules, data, size, hold, piece, ret_hits);
}

static void check_same(struct gb_buf *a, struct gb_buf b)
{
    CHECK(a->len == b.len && (!b.len || !memcmp(a->data, b.data, b.len)));
    gb_buf_done(&b);
}

static void check_output(const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = gb_text_utf8_len(text + at, len - at);
        CHECK(n);
    }
    for (size_t i = 0; i < SEEDS; i++)
        CHECK(pcre2_match(seed_code[i], (PCRE2_SPTR)(text ? text : ""), len, 0, 0, match, NULL) ==
              PCRE2_ERROR_NOMATCH);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *data = (const char *)bytes;
    const size_t holds[] = {GB_REDACT_HOLD, GB_REDACT_HOLD_LEAST};
    if (!rules)
        set_up();
    for (size_t i = 0; i < 2; i++) {
        uint64_t hits, other;
        struct gb_buf whole = redact(data, size, holds[i], size, &hits);
        check_same(&whole, redact(data, size, holds[i], 1, &other));
        CHECK(hits == other);
        check_same(&whole, redact(data, size, holds[i], 0, &other));
        CHECK(hits == other);
        check_same(&whole, redact(data, size, holds[i], fuzz_position(bytes, size) + 1, &other));
        CHECK(hits == other);
        check_output(whole.data, whole.len);
        gb_buf_done(&whole);
        if (size >= GB_REDACT_HOLD)
            continue;
        struct gb_buf once = redact_by(seeds_only, data, size, GB_REDACT_HOLD, size, &other);
        check_same(&once, redact_by(seeds_only, once.data, once.len, GB_REDACT_HOLD, once.len, &other));
        gb_buf_done(&once);
    }
    return 0;
}
