#include "unit.h"

#include "redact/redact.h"

#define FFFD "\xEF\xBF\xBD"

static struct gb_rules *rules;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    rules = gb_rules_new(NULL, &err);
    return rules ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gb_rules_free(rules);
    gb_rules_free(NULL);
    gb_redact_free(NULL);
    return 0;
}

/* Redacts in pieces: first, then second, then bytes one at a time up to `single`, then the rest at once. */
struct way {
    const struct gb_rules *rules;
    size_t hold, first, second, single;
};

static struct gb_buf redact(const struct way *way, const char *text, size_t len, uint64_t *ret_hits)
{
    struct gb_buf out = {.max = SIZE_MAX / 2};
    struct gb_redact *r = gb_redact_new(way->rules, way->hold);
    assert_non_null(r);
    const size_t pieces[2] = {way->first, way->second};
    size_t at = 0;
    for (size_t i = 0; i < 2; at += pieces[i++])
        assert_int_equal(gb_redact_feed(r, text + at, pieces[i], false, &out), 0);
    for (; at < way->single; at++)
        assert_int_equal(gb_redact_feed(r, text + at, 1, false, &out), 0);
    assert_int_equal(gb_redact_feed(r, text + at, len - at, true, &out), 0);
    if (ret_hits)
        *ret_hits = gb_redact_hits(r);
    gb_redact_free(r);
    gb_buf_puts(&out, "");
    return out;
}

/* The same result in one write, in every two writes, byte by byte, and with the end in a write of its own. */
static void expect_hold(const struct gb_rules *use, size_t hold, const char *text, size_t len,
                        const char *wanted, uint64_t wanted_hits)
{
    for (size_t i = 0; i <= len + 2; i++) {
        struct way way = {use, hold, i <= len ? i : 0, 0,
                          i == len + 1          ? len
                          : i == len + 2 && len ? len - 1
                                                : 0};
        uint64_t hits;
        struct gb_buf out = redact(&way, text, len, &hits);
        if (out.len != strlen(wanted) || (out.len && memcmp(out.data, wanted, out.len)) ||
            hits != wanted_hits)
            fail_msg("'%.*s' cut at %zu: '%.*s' (%d hits), wanted '%s' (%d)", (int)len, text, i, (int)out.len,
                     out.data ? out.data : "", (int)hits, wanted, (int)wanted_hits);
        gb_buf_done(&out);
    }
}

static void expect(const char *text, const char *wanted, uint64_t hits)
{
    expect_hold(rules, GB_REDACT_HOLD, text, strlen(text), wanted, hits);
}

static void leaves_the_seeds_marks(void **state)
{
    (void)state;
    expect("", "", 0);
    expect("hello\n", "hello\n", 0);
    expect("in /home/bob/x and /home/eve_2\n", "in [HOME_DIR]/x and [HOME_DIR]\n", 2);
    expect("at 10.0.0.1:80, 192.168.100.200", "at [IP_ADDR]:80, [IP_ADDR]", 2);
    expect("password=hunter2 PassWord : x\n", "[REDACTED_SECRET] [REDACTED_SECRET]\n", 2);
    expect("API_KEY=abc, my_token:\n\t zz, secret = 1",
           "API_[REDACTED_SECRET] my_[REDACTED_SECRET] [REDACTED_SECRET]", 3);
    expect("/tmp/tmpab12/f /tmp/tmp /tmp/x", "[TEMP_DIR]/f /tmp/tmp /tmp/x", 1);
    expect("key", "key", 0);
    expect("key =", "key =", 0);
    expect("key = \n ", "key = \n ", 0);
    expect("/home/ /home", "/home/ /home", 0);
    expect("1.2.3. 1.2.3", "1.2.3. 1.2.3", 0);
    expect("1.2.3.4567.8.9.1 1234.5.6.7", "[IP_ADDR][IP_ADDR] 1[IP_ADDR]", 3);
    expect("1.2.3.4.5.6", "[IP_ADDR].5.6", 1);
    expect("passwordkeytoken=x", "passwordkey[REDACTED_SECRET]", 1);
    expect("keykey=x", "key[REDACTED_SECRET]", 1);
}

static void overlapping_matches_all_go(void **state)
{
    (void)state;
    expect("key=/home/bob,1.2.3.4 x", "[REDACTED_SECRET] x", 1);
    expect("/home/token=abc x", "[HOME_DIR][REDACTED_SECRET] x", 2);
    expect("/tmp/tmpkey=abc x", "[TEMP_DIR][REDACTED_SECRET] x", 2);
    expect("/home/1.2.3.4 x", "[HOME_DIR][IP_ADDR] x", 2);
    expect("1.2.3.4key:1.2.3.4", "[IP_ADDR][REDACTED_SECRET]", 2);
    expect("[REDACTED_SECRET]=x [HOME_DIR]", "[REDACTED_SECRET]=x [HOME_DIR]", 0);
}

static void letters_and_spaces_beyond_ascii_count(void **state)
{
    (void)state;
    expect("/home/ren\u00e9e/x /tmp/tmp\u00e9", "[HOME_DIR]/x [TEMP_DIR]", 2);
    expect("token\u00a0:\u2003s\u00e9same x", "[REDACTED_SECRET] x", 1);
    expect("token\u00a0\u3000\u202f :x", "[REDACTED_SECRET]", 1);
    expect("token\u00a1:x", "token\u00a1:x", 0);
    expect("\u2028key\u2028=\u2028", "\u2028key\u2028=\u2028", 0);
}

static void output_is_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {
            {"gr\u00fc\u00df \u20ac \U0001F600", "gr\u00fc\u00df \u20ac \U0001F600"},
            {"\xED\x95\x9C \xF4\x8F\xBF\xBF", "\xED\x95\x9C \xF4\x8F\xBF\xBF"},
            {"\xff", FFFD},
            {"a\xC3", "a" FFFD},
            {"\xE2\x82", FFFD FFFD},
            {"\xE2\x82z", FFFD FFFD "z"},
            {"\xF0\x9F\x98", FFFD FFFD FFFD},
            {"\xF0\x9F\xE2\x82\xAC", FFFD FFFD "\u20ac"},
            {"\xC0\x80\xE0\x80\x80", FFFD FFFD FFFD FFFD FFFD},
            {"\xED\xA0\x80", FFFD FFFD FFFD},
            {"\xF4\x90\x80\x80\xF5", FFFD FFFD FFFD FFFD FFFD},
            {"\x80\xBF\xC3\xA9", FFFD FFFD "\u00e9"},
            {"\xE2\x82 1.2.3.4\x80", FFFD FFFD " [IP_ADDR]" FFFD},
            {"\xE2\x82"
             "1.2.3.4\xAC",
             FFFD FFFD "[IP_ADDR]" FFFD},
            {"\xE2\x82"
             "key=\xAC x",
             FFFD FFFD "[REDACTED_SECRET] x"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        size_t len = strlen(rows[i].text);
        uint64_t hits = strchr(rows[i].wanted, '[') ? 1 : 0;
        expect_hold(rules, GB_REDACT_HOLD, rows[i].text, len, rows[i].wanted, hits);
        if (!hits)
            expect_hold(NULL, 0, rows[i].text, len, rows[i].wanted, 0);
    }
    expect_hold(NULL, 0, "key=x 1.2.3.4", 13, "key=x 1.2.3.4", 0);
    struct way way = {rules, GB_REDACT_HOLD, 0, 0, 0};
    struct gb_buf out = redact(&way, "a\0b", 3, NULL);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "a\0b", 3);
    gb_buf_done(&out);
}

static void what_cannot_match_goes_out_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *write, *out;
    } writes[] = {
            {"hello\n", "hello\n"},
            {"a k", "a "},
            {"i", "ki"},
            {"n /hom", "n "},
            {"ez", "/homez"},
            {" key ", " "},
            {"ring 1", "key ring "},
            {".2", ""},
            {".3x", "1.2.3x"},
            {" token=", " "},
            {"abc", ""},
            {"\n", "[REDACTED_SECRET]\n"},
            {"\xC3", ""},
            {"\xA9", "\u00e9"},
    };
    struct gb_redact *r = gb_redact_new(rules, GB_REDACT_HOLD);
    for (size_t i = 0; i < LEN(writes); i++) {
        struct gb_buf out = {.max = 100};
        assert_int_equal(gb_redact_feed(r, writes[i].write, strlen(writes[i].write), false, &out), 0);
        if (out.len != strlen(writes[i].out) || (out.len && memcmp(out.data, writes[i].out, out.len)))
            fail_msg("'%s' gave '%s', not '%s'", writes[i].write, out.data ? out.data : "", writes[i].out);
        gb_buf_done(&out);
    }
    assert_int_equal(gb_redact_hits(r), 1);
    gb_redact_free(r);
}

/* A match that is longer than what may be held: one mark, and nothing of it leaks. */
static void an_open_match_beyond_the_bound_is_a_hit(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after, *wanted;
        char fill;
    } rows[] = {
            {"a key=", " b\nc", "a [REDACTED_SECRET]\nc", 's'},
            {"a key=", "\nc", "a [REDACTED_SECRET]\nc", 's'},
            {"a key=", "", "a [REDACTED_SECRET]", 's'},
            {"a key=", "s token=\nzz y", "a [REDACTED_SECRET]\nzz y", 's'},
            {"a password", "= hunter2 z\nc", "a [REDACTED_SECRET]\nc", ' '},
            {"a password", "=\n\n hunter2\nc", "a [REDACTED_SECRET]\nc", '\n'},
            {"a password:", " hunter2\nc", "a [REDACTED_SECRET]\nc", ' '},
            {"a password:", "\u00a0hunter2\nc", "a [REDACTED_SECRET]\nc", ' '},
            {"a password", ":\n hunter2\nc", "a [REDACTED_SECRET]\nc", ' '},
            {"a password", "\u00a0\n=\n hunter2\nc", "a [REDACTED_SECRET]\nc", ' '},
            {"a password", "", "a [REDACTED_SECRET]", ' '},
            {"a /home/", "/x 1.2.3.4\n1.2.3.4", "a [HOME_DIR]\n[IP_ADDR]", 'u'},
    };
    for (size_t i = 0; i < LEN(rows); i++)
        for (size_t fill = 48; fill < 160; fill += fill < 70 ? 1 : 45) {
            char text[256];
            int n = snprintf(text, sizeof(text), "%s%*s%s", rows[i].before, (int)fill, "", rows[i].after);
            memset(text + strlen(rows[i].before), rows[i].fill, fill);
            struct way way = {rules, 64, 0, 0, 0};
            uint64_t hits;
            struct gb_buf whole = redact(&way, text, (size_t)n, &hits);
            char *copy = strndup(whole.data, whole.len);
            expect_hold(rules, 64, text, (size_t)n, copy, hits);
            if (fill > 64)
                assert_string_equal(copy, rows[i].wanted);
            assert_null(rows[i].fill == 's' ? strstr(copy, "ss") : NULL);
            assert_null(strstr(copy, "hunter2"));
            free(copy);
            gb_buf_done(&whole);
        }
    /* Exactly as long as the bound, and a byte shorter. */
    char text[65] = "password";
    memset(text + 8, ' ', 56);
    expect_hold(rules, 64, text, 64, "[REDACTED_SECRET]", 1);
    text[63] = '\0';
    expect_hold(rules, 64, text, 63, text, 0);
    /* A bound that is too small for anything becomes the least. */
    expect_hold(rules, 0, "key = 1.2.3.4 k", 15, "[REDACTED_SECRET] k", 1);
}

static void a_rule_at_its_limit_is_a_hit(void **state)
{
    (void)state;
    static const struct gb_rule table[] = {{"slow", "[SLOW]", "(?:a|aa|a(?=a))+b", 0, 0},
                                           {"x", "[X]", "x\n?y", 0, 0}};
    struct gb_rules *slow = gb_rules_compile(table, LEN(table), NULL);
    assert_non_null(slow);
    const char *a50 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    char text[200];
    snprintf(text, sizeof(text), "- %sc xy z\n aaab aac\n%sx\ny\nxy.", a50, a50);
    struct way way = {slow, GB_REDACT_HOLD, 0, 0, 0};
    uint64_t hits;
    struct gb_buf out = redact(&way, text, strlen(text), &hits);
    /* xy of the second swallowed line ends behind it: what it matches is gone as well, but has no mark of its
     * own */
    assert_string_equal(out.data, "- [SLOW]\n [SLOW] aac\n[SLOW]\n[X].");
    assert_int_equal(hits, 4);
    gb_buf_done(&out);
    gb_rules_free(slow);
}

static void rules_look_ahead_and_overlap(void **state)
{
    (void)state;
    static const struct gb_rule table[] = {
            {"id", "[ID]", "AK[0-9]{4}(?![0-9])", 0, 0},
            {"optional", "[OPT]", "ab(?:cd)?", 0, 0},
            {"far", "[FAR]", "z[a-y]{0,9};", 10, ';'},
            {"both", "[AB]", "abc", 0, 0},
    };
    struct gb_rules *own = gb_rules_compile(table, LEN(table), NULL);
    assert_non_null(own);
    static const char text[] = "AK1234 AK12345 AK1234";
    expect_hold(own, 64, text, sizeof(text) - 1, "[ID] AK12345 [ID]", 2);
    expect_hold(own, 64, "abcd abx", 8, "[OPT] [OPT]x", 2);
    expect_hold(own, 64, "abce", 4, "[OPT][AB]e", 2);
    expect_hold(own, 64, "zaaa; z zz; zaaaaaaaaaaaa;", 26, "[FAR] z z[FAR] zaaaaaaaaaaaa;", 2);
    gb_rules_free(own);
}

static void bad_rules_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct gb_rule rule;
        const char *text;
    } rows[] = {
            {{"one", "[]", "a(b", 0, 0},
             "redaction rule 'one': missing closing parenthesis at offset 3 of its pattern"},
            {{"two", "[]", "a*", 0, 0}, "redaction rule 'two': its pattern must not match the empty string"},
            {{"three", "[]", "\\bx", 0, 0}, "must not look behind itself"},
            {{"four", "[]", "(?<=a)x", 0, 0}, "must not look behind itself"},
            {{"five", "[]", "ab", 65, 'b'}, "within the first 64"},
            {{"six", "[]", "(*UTF)x", 0, 0}, "redaction rule 'six'"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_err err = {0};
        assert_null(gb_rules_compile(&rows[i].rule, 1, &err));
        assert_int_equal(err.code, GB_ERR_CONFIG);
        if (!strstr(err.text, rows[i].text))
            fail_msg("%s", err.text);
    }
    struct gb_rule many[64]; /* one place is for the secrets */
    for (size_t i = 0; i < LEN(many); i++)
        many[i] = (struct gb_rule){"x", "[]", "x", 0, 0};
    struct gb_err err = {0};
    assert_null(gb_rules_compile(many, 64, &err));
    assert_non_null(strstr(err.text, "64 redaction rules: at most 63"));
    struct gb_rules *most = gb_rules_compile(many, 63, &err);
    assert_non_null(most);
    expect_hold(most, 64, "axb", 3, "a[]b", 1);
    gb_rules_free(most);
}

static void the_output_is_bounded(void **state)
{
    (void)state;
    struct gb_redact *r = gb_redact_new(rules, GB_REDACT_HOLD);
    struct gb_buf out = {.max = 10};
    assert_int_equal(gb_redact_feed(r, "12345678 key=abc 12345678\n", 26, true, &out), 0);
    assert_int_equal(out.len, 10);
    assert_memory_equal(out.data, "12345678 [", 10);
    assert_int_equal(out.seen, 9 + 17 + 10);
    gb_buf_done(&out);
    gb_redact_free(r);
}

/* At once, and byte by byte after the first so many. */
static void expect_same(const char *text, size_t len, size_t first)
{
    struct way whole = {rules, GB_REDACT_HOLD, 0, 0, 0}, bytes = {rules, GB_REDACT_HOLD, first, 0, len};
    uint64_t hits[2];
    struct gb_buf out[2] = {redact(&whole, text, len, &hits[0]), redact(&bytes, text, len, &hits[1])};
    assert_int_equal(hits[0], hits[1]);
    assert_int_equal(out[0].len, out[1].len);
    assert_memory_equal(out[0].data, out[1].data, out[0].len);
    gb_buf_done(&out[0]);
    gb_buf_done(&out[1]);
}

/* Megabytes, one byte at a time, of what would be quadratic if an open match were looked at anew for each
 * byte, or if attempts that lead nowhere overlapped. It would take hours. */
static void is_linear(void **state)
{
    (void)state;
    static const struct {
        const char *start, *piece;
    } rows[] = {
            {"key=", "a"}, {"password", " "}, {"password=", " "},  {"", "1."},
            {"", "1"},     {"/home/", "a"},   {"", "/home/"},      {"", "key"},
            {"", "key="},  {"", "key "},      {"", "password\n"},  {"", "1.1.1."},
            {"", "\xC2"},  {"key", "\u00a0"}, {"/tmp/tmp", "key"}, {"", "key=1.1.1.1/home/"},
    };
    const size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < LEN(rows); i++) {
        size_t start = strlen(rows[i].start), piece = strlen(rows[i].piece);
        memcpy(text, rows[i].start, start);
        for (size_t at = start; at < size; at++)
            text[at] = rows[i].piece[(at - start) % piece];
        expect_same(text, size, 0);
        expect_same(text, size, 50000);
        expect_same(text, 40000, 0);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(leaves_the_seeds_marks),
            cmocka_unit_test(overlapping_matches_all_go),
            cmocka_unit_test(letters_and_spaces_beyond_ascii_count),
            cmocka_unit_test(output_is_utf8),
            cmocka_unit_test(what_cannot_match_goes_out_at_once),
            cmocka_unit_test(an_open_match_beyond_the_bound_is_a_hit),
            cmocka_unit_test(a_rule_at_its_limit_is_a_hit),
            cmocka_unit_test(rules_look_ahead_and_overlap),
            cmocka_unit_test(bad_rules_are_refused),
            cmocka_unit_test(the_output_is_bounded),
            cmocka_unit_test(is_linear),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
