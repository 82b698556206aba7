#include "unit.h"

#include "base/text.h"

#include <errno.h>
#include <sys/stat.h>

static void parse_decimal(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned decimals;
        int result;
        int64_t value;
    } rows[] = {
            {"0", 0, 0, 0},
            {"0", 3, 0, 0},
            {"12", 0, 0, 12},
            {"12", 3, 0, 12000},
            {"1.5", 3, 0, 1500},
            {"1.234", 3, 0, 1234},
            {"0.001", 3, 0, 1},
            {"00.10", 3, 0, 100},
            {"007", 0, 0, 7},
            {"9223372036854775807", 0, 0, INT64_MAX},
            {"9223372036854775.807", 3, 0, INT64_MAX},
            {"1.2345", 3, -EINVAL, 0},
            {"1.0", 0, -EINVAL, 0},
            {"1.", 3, -EINVAL, 0},
            {"0.", 3, -EINVAL, 0},
            {".5", 3, -EINVAL, 0},
            {".", 3, -EINVAL, 0},
            {"1.2.3", 3, -EINVAL, 0},
            {"1..2", 3, -EINVAL, 0},
            {"", 0, -EINVAL, 0},
            {"", 3, -EINVAL, 0},
            {"-1", 0, -EINVAL, 0},
            {"-0", 0, -EINVAL, 0},
            {"+1", 0, -EINVAL, 0},
            {" 1", 0, -EINVAL, 0},
            {"1 ", 0, -EINVAL, 0},
            {"1\n", 0, -EINVAL, 0},
            {"1e3", 3, -EINVAL, 0},
            {"0x10", 0, -EINVAL, 0},
            {"1,5", 3, -EINVAL, 0},
            {"1_000", 0, -EINVAL, 0},
            {"inf", 3, -EINVAL, 0},
            {"nan", 3, -EINVAL, 0},
            {"1s", 3, -EINVAL, 0},
            {"\xD9\xA3", 0, -EINVAL, 0}, /* ARABIC-INDIC DIGIT THREE */
            {"9223372036854775808", 0, -ERANGE, 0},
            {"9223372036854775.808", 3, -ERANGE, 0},
            {"9223372036854776", 3, -ERANGE, 0},
            {"18446744073709551616", 0, -ERANGE, 0},
            {"99999999999999999999999999999999", 0, -ERANGE, 0},
            {"10000000000000000000", 3, -ERANGE, 0},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t value = -77;
        int r = gb_text_parse_decimal(rows[i].text, rows[i].decimals, &value);
        if (r != rows[i].result || value != (r ? -77 : rows[i].value))
            fail_msg("'%s' with %u decimals: result %d, value %lld", rows[i].text, rows[i].decimals, r,
                     (long long)value);
    }
}

static void print_decimal(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        unsigned decimals;
        const char *text;
    } rows[] = {
            {0, 0, "0"},
            {0, 3, "0"},
            {5, 0, "5"},
            {10, 0, "10"},
            {1, 3, "0.001"},
            {10, 3, "0.01"},
            {100, 3, "0.1"},
            {1000, 3, "1"},
            {1500, 3, "1.5"},
            {1050, 3, "1.05"},
            {30000, 3, "30"},
            {123456, 3, "123.456"},
            {-1, 0, "-1"},
            {-1, 3, "-0.001"},
            {-1500, 3, "-1.5"},
            {-2000, 3, "-2"},
            {INT64_MAX, 0, "9223372036854775807"},
            {INT64_MAX, 3, "9223372036854775.807"},
            {-INT64_MAX, 3, "-9223372036854775.807"},
            {INT64_MIN, 0, "-9223372036854775808"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[32];
        gb_text_decimal(rows[i].value, rows[i].decimals, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
    char small[4];
    gb_text_decimal(123456, 0, small, sizeof(small));
    assert_string_equal(small, "123");
}

/* What is printed reads back as the same number. */
static void decimal_round_trip(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252U; /* xorshift: the same numbers on each run */
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        int64_t value = (int64_t)(x >> 1 >> (i % 63)), back = -1;
        unsigned decimals = (unsigned)i % 7;
        char text[32];
        gb_text_decimal(value, decimals, text, sizeof(text));
        assert_int_equal(gb_text_parse_decimal(text, decimals, &back), 0);
        assert_true(back == value);
    }
}

static void utf8_table(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len, expect;
    } rows[] = {
            {"", 0, 0},
            {"a", 1, 1},
            {"\0", 1, 1},
            {"\x7F", 1, 1},
            {"\x80", 1, 0}, /* continuation alone */
            {"\xBF", 1, 0},
            {"\xC0\x80", 2, 0}, /* overlong NUL */
            {"\xC1\xBF", 2, 0},
            {"\xC2\x80", 2, 2}, /* U+0080 */
            {"\xC3\xA9", 2, 2},
            {"\xDF\xBF", 2, 2},     /* U+07FF */
            {"\xC3", 1, 0},         /* cut */
            {"\xC3\x28", 2, 0},     /* no continuation */
            {"\xC3\xC3", 2, 0},     /* lead after lead */
            {"\xE0\x9F\xBF", 3, 0}, /* overlong U+07FF */
            {"\xE0\xA0\x80", 3, 3}, /* U+0800 */
            {"\xE2\x82\xAC", 3, 3},
            {"\xE2\x82", 2, 0},
            {"\xE2", 1, 0},
            {"\xE2\x28\xA1", 3, 0},
            {"\xE2\x82\x28", 3, 0},
            {"\xED\x9F\xBF", 3, 3}, /* U+D7FF */
            {"\xED\xA0\x80", 3, 0}, /* U+D800, a surrogate */
            {"\xED\xBF\xBF", 3, 0}, /* U+DFFF */
            {"\xEE\x80\x80", 3, 3}, /* U+E000 */
            {"\xEF\xBF\xBF", 3, 3},
            {"\xF0\x8F\xBF\xBF", 4, 0}, /* overlong U+FFFF */
            {"\xF0\x90\x80\x80", 4, 4}, /* U+10000 */
            {"\xF0\x9F\x98\x80", 4, 4},
            {"\xF0\x9F\x98", 3, 0},
            {"\xF0\x9F", 2, 0},
            {"\xF0", 1, 0},
            {"\xF4\x8F\xBF\xBF", 4, 4}, /* U+10FFFF */
            {"\xF4\x90\x80\x80", 4, 0}, /* U+110000 */
            {"\xF5\x80\x80\x80", 4, 0},
            {"\xF8\x88\x80\x80\x80", 5, 0},
            {"\xFE", 1, 0},
            {"\xFF", 1, 0},
            {"ab", 2, 1},
    };
    for (size_t i = 0; i < LEN(rows); i++)
        if (gb_text_utf8_len(rows[i].bytes, rows[i].len) != rows[i].expect)
            fail_msg("row %zu: got %zu", i, gb_text_utf8_len(rows[i].bytes, rows[i].len));
}

/* Every code point that exists is taken with its length; the surrogates are not. */
static void utf8_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char s[4];
        size_t n = 0;
        if (c < 0x80) {
            s[n++] = (char)c;
        } else if (c < 0x800) {
            s[n++] = (char)(0xC0 | c >> 6);
        } else if (c < 0x10000) {
            s[n++] = (char)(0xE0 | c >> 12);
            s[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        } else {
            s[n++] = (char)(0xF0 | c >> 18);
            s[n++] = (char)(0x80 | (c >> 12 & 0x3F));
            s[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        }
        if (c >= 0x80)
            s[n++] = (char)(0x80 | (c & 0x3F));
        bool valid = c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
        if (gb_text_utf8_len(s, n) != (valid ? n : 0))
            fail_msg("U+%04X", c);
        for (size_t cut = 1; cut < n; cut++)
            if (gb_text_utf8_len(s, cut))
                fail_msg("U+%04X cut to %zu bytes", c, cut);
    }
}

static void find_binary(void **state)
{
    (void)state;
    assert_int_equal(gb_text_find_binary("", 0), 0);
    assert_int_equal(gb_text_find_binary("hello\n\t", 7), 7);
    assert_int_equal(gb_text_find_binary("h\xC3\xA9llo", 6), 6);
    assert_int_equal(gb_text_find_binary("ab\0cd", 5), 2);
    assert_int_equal(gb_text_find_binary("\0", 1), 0);
    assert_int_equal(gb_text_find_binary("ab\xFF", 3), 2);
    assert_int_equal(gb_text_find_binary("ab\xC3", 3), 2); /* cut at the end */
    assert_int_equal(gb_text_find_binary("\xC3\xA9\xC3", 3), 2);
}

static void relative_names(void **state)
{
    (void)state;
    static const char *const good[] = {"a",    "a.txt", "a/b/c", "...", "..a",      "a..", ".hidden",
                                       "a/.b", "a b",   "*.txt", "-",   "\xC3\xA9", "a\nb"};
    static const char *const bad[] = {
            "",     "/",    "/a",   "/sandbox/a", ".",   "..",    "./a",    "a/.",
            "../a", "a/..", "a//b", "a/",         "//a", "a/./b", "a/../b", "../../etc/passwd"};
    for (size_t i = 0; i < LEN(good); i++)
        if (!gb_text_is_relative_name(good[i]))
            fail_msg("'%s' refused", good[i]);
    for (size_t i = 0; i < LEN(bad); i++)
        if (gb_text_is_relative_name(bad[i]))
            fail_msg("'%s' taken", bad[i]);
    char name[1100];
    memset(name, 'x', sizeof(name));
    name[255] = '\0';
    assert_true(gb_text_is_relative_name(name));
    name[255] = 'x';
    name[256] = '\0';
    assert_false(gb_text_is_relative_name(name));
    name[255] = '/';
    name[256] = 'y';
    name[257] = '\0';
    assert_true(gb_text_is_relative_name(name));
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 ? '/' : 'x';
    name[1023] = '\0';
    assert_true(gb_text_is_relative_name(name));
    name[1023] = 'x';
    name[1024] = '\0';
    assert_false(gb_text_is_relative_name(name));
}

static void lists(void **state)
{
    (void)state;
    assert_true(gb_text_in_list("a", "a"));
    assert_true(gb_text_in_list("a,b,c", "a"));
    assert_true(gb_text_in_list("a,b,c", "b"));
    assert_true(gb_text_in_list("a,b,c", "c"));
    assert_true(gb_text_in_list("cgroup,cgroup-join", "cgroup"));
    assert_true(gb_text_in_list("cgroup-join,cgroup", "cgroup"));
    assert_true(gb_text_in_list("a,,b", "b"));
    assert_true(gb_text_in_list("a,", "a"));
    assert_false(gb_text_in_list("", "a"));
    assert_false(gb_text_in_list("", ""));
    assert_false(gb_text_in_list(",", "a"));
    assert_false(gb_text_in_list("ab", "a"));
    assert_false(gb_text_in_list("a", "ab"));
    assert_false(gb_text_in_list("cgroup-join", "cgroup"));
    assert_false(gb_text_in_list("a, b", "b"));
    assert_false(gb_text_in_list("A", "a"));
}

static void hex(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x00, 0x0f, 0xa5, 0xff};
    uint8_t back[4] = {0};
    char text[9];
    gb_text_hex(bytes, sizeof(bytes), text);
    assert_string_equal(text, "000fa5ff");
    assert_int_equal(gb_text_unhex("000FA5ff", back, sizeof(back)), 0);
    assert_memory_equal(back, bytes, sizeof(bytes));
    static const char *const bad[] = {"", "000fa5f", "000fa5ff0", "000fa5fg", "0x0fa5ff", " 00fa5ff"};
    for (size_t i = 0; i < LEN(bad); i++)
        assert_int_equal(gb_text_unhex(bad[i], back, sizeof(back)), -EINVAL);
}

static void times(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {{0, "1970-01-01T00:00:00.000000Z"},
                {1, "1970-01-01T00:00:00.000001Z"},
                {-1, "1969-12-31T23:59:59.999999Z"},
                {1700000000123456, "2023-11-14T22:13:20.123456Z"},
                {INT64_MAX, "294247-01-10T04:00:54.775807Z"}};
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[GB_TIME_BYTES];
        gb_text_time(rows[i].us, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
}

static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pattern;
        bool like;
    } rows[] = {{"A", "A", true},     {"AB", "A", false},   {"A", "AB", false}, {"a", "A", false},
                {"AB", "A*", true},   {"A", "A*", true},    {"B", "A*", false}, {"", "A*", false},
                {"", "*", true},      {"A", "*", true},     {"", "", true},     {"A", "", false},
                {"A*B", "A*B", true}, {"AXB", "A*B", false}};
    for (size_t i = 0; i < LEN(rows); i++)
        assert_int_equal(gb_text_is_like(rows[i].name, rows[i].pattern), rows[i].like);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(hex),
            cmocka_unit_test(times),
            cmocka_unit_test(parse_decimal),
            cmocka_unit_test(print_decimal),
            cmocka_unit_test(decimal_round_trip),
            cmocka_unit_test(utf8_table),
            cmocka_unit_test(utf8_every_code_point),
            cmocka_unit_test(find_binary),
            cmocka_unit_test(relative_names),
            cmocka_unit_test(lists),
            cmocka_unit_test(patterns),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
