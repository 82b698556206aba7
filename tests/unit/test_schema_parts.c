/* What the JSON Schema validator is made of: numbers, equality, references, patterns. */
#include "unit.h"

#include "schema/decimal.h"
#include "schema/ecma.h"
#include "schema/same.h"
#include "schema/uri.h"

#include "json/json.h"

#include <errno.h>

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    struct gb_err err = {0};
    if (gb_json_read(text, strlen(text), &value, &err))
        fail_msg("%s: %s", text, err.text);
    return value;
}

static struct gb_decimal decimal(const char *text)
{
    AUTO_JSON value = parse(text);
    return gb_decimal_of(value);
}

/* In rising order; those on a line are equal. */
static const char *const rising[][3] = {
        {"-1e308"},
        {"-9223372036854775808"},
        {"-9223372036854775807"},
        {"-1.5", "-15e-1"},
        {"-1e-300"},
        {"0", "-0.0", "0e5"},
        {"5e-324"},
        {"1e-320"},
        {"0.1", "1e-1", "0.10"},
        {"0.30000000000000004"},
        {"1", "1.0", "10e-1"},
        {"9007199254740992", "9007199254740992.0"},
        {"9007199254740993"},
        {"9223372036854775806"},
        {"9223372036854775807"},
        {"1e19", "10000000000000000000.0"},
        {"1e308", "1.0e308"},
};

static void order(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rising); i++)
        for (size_t j = 0; j < LEN(rising); j++)
            for (size_t k = 0; k < 3 && rising[i][k]; k++)
                for (size_t l = 0; l < 3 && rising[j][l]; l++) {
                    const struct gb_decimal a = decimal(rising[i][k]), b = decimal(rising[j][l]);
                    const int found = gb_decimal_compare(&a, &b);
                    if ((found > 0) - (found < 0) != (i > j) - (i < j))
                        fail_msg("%s and %s: %d", rising[i][k], rising[j][l], found);
                }
}

static const struct {
    const char *number, *of;
    bool is;
} multiples[] = {
        {"0.0075", "0.0001", true},
        {"0.00751", "0.0001", false},
        {"4.5", "1.5", true},
        {"35", "1.5", false},
        {"0", "1e-300", true},
        {"1e308", "0.5", true},
        {"1e308", "1e-308", true},
        {"1e308", "3", false},
        {"1e308", "0.123456789", false},
        {"1e-308", "1e308", false},
        {"9223372036854775807", "7", true},
        {"9223372036854775807", "2", false},
        {"-9223372036854775808", "2", true},
        {"0.1", "0.01", true},
        {"19.99", "0.01", true},
        {"1.1", "0.1", true},
        {"0.3", "0.1", true},
        {"-4.02", "0.01", true},
        {"1e20", "1e19", true},
        {"1e19", "1e20", false},
        {"12e18", "5e18", false},
        {"1e-320", "5e-321", true},
        {"1.5e-20", "1", false},
};

static void multiple(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(multiples); i++) {
        const struct gb_decimal a = decimal(multiples[i].number), b = decimal(multiples[i].of);
        if (gb_decimal_is_multiple(&a, &b) != multiples[i].is)
            fail_msg("%s of %s", multiples[i].number, multiples[i].of);
    }
}

static void integers(void **state)
{
    static const char *const whole[] = {"1", "1.0", "-0.0", "1e3", "1.5e1", "1e308", "-9223372036854775808"};
    static const char *const broken[] = {"1.5", "1e-1", "5e-324", "0.1"};
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < LEN(whole); i++) {
        const struct gb_decimal d = decimal(whole[i]);
        assert_true(gb_decimal_is_integer(&d));
    }
    for (size_t i = 0; i < LEN(broken); i++) {
        const struct gb_decimal d = decimal(broken[i]);
        assert_false(gb_decimal_is_integer(&d));
        assert_false(gb_decimal_is_count(&d, &count));
    }
    const struct gb_decimal d = decimal("1.2e3"), large = decimal("1e300"), negative = decimal("-1");
    assert_true(gb_decimal_is_count(&d, &count));
    assert_int_equal(count, 1200);
    assert_false(gb_decimal_is_count(&large, &count) || gb_decimal_is_count(&negative, &count));
}

/* Those on a line are equal, and different from those on all others. */
static const char *const values[][3] = {
        {"null"},
        {"true"},
        {"false"},
        {"0", "0.0", "-0.0"},
        {"1", "1.0", "10e-1"},
        {"\"1\""},
        {"\"\""},
        {"\"a\\u0000b\""},
        {"\"a\""},
        {"[]"},
        {"[[]]"},
        {"{}"},
        {"[1]", "[1.0]"},
        {"[true]"},
        {"[1,2]"},
        {"[2,1]"},
        {"[[1],2]"},
        {"{\"a\":1,\"b\":2}", "{\"b\":2.0,\"a\":1}"},
        {"{\"a\":2,\"b\":1}"},
        {"{\"a\":1}"},
        {"{\"a\":{\"a\":1}}"},
        {"{\"a\":null}"},
        {"{\"b\":null}"},
};

static void equality(void **state)
{
    struct gb_same_key key;
    uint64_t steps = 0;
    (void)state;
    gb_same_seed(&key);
    for (size_t i = 0; i < LEN(values); i++)
        for (size_t j = 0; j < LEN(values); j++)
            for (size_t k = 0; k < 3 && values[i][k]; k++)
                for (size_t l = 0; l < 3 && values[j][l]; l++) {
                    AUTO_JSON a = parse(values[i][k]);
                    AUTO_JSON b = parse(values[j][l]);
                    const bool hashes = gb_same_hash(&key, a, &steps) == gb_same_hash(&key, b, &steps);
                    if (gb_same_equal(a, b) != (i == j) || hashes != (i == j))
                        fail_msg("%s and %s", values[i][k], values[j][l]);
                }
}

static void pairs(void **state)
{
    struct gb_same_key key;
    uint64_t steps = 0;
    size_t first = 9, second = 9;
    AUTO_JSON none = parse("[1,2,\"1\",[1],{\"a\":1}]");
    AUTO_JSON some = parse("[5,{\"a\":1},7,{\"a\":1.0},5,{\"a\":1}]");
    AUTO_JSON one = parse("[1]");
    (void)state;
    gb_same_seed(&key);
    assert_int_equal(gb_same_find_pair(&key, none, &steps, &first, &second), 0);
    assert_int_equal(gb_same_find_pair(&key, one, &steps, &first, &second), 0);
    assert_int_equal(gb_same_find_pair(&key, some, &steps, &first, &second), 1);
    assert_int_equal(first, 1);
    assert_int_equal(second, 3);
}

/* --- RFC 3986, 5.4, and what schemas are called --- */

static const struct {
    const char *base, *ref, *uri, *fragment;
} references[] = {
        {"http://a/b/c/d;p?q", "g:h", "g:h", ""},
        {"http://a/b/c/d;p?q", "g", "http://a/b/c/g", ""},
        {"http://a/b/c/d;p?q", "./g", "http://a/b/c/g", ""},
        {"http://a/b/c/d;p?q", "g/", "http://a/b/c/g/", ""},
        {"http://a/b/c/d;p?q", "/g", "http://a/g", ""},
        {"http://a/b/c/d;p?q", "//g", "http://g", ""},
        {"http://a/b/c/d;p?q", "?y", "http://a/b/c/d;p?y", ""},
        {"http://a/b/c/d;p?q", "g?y", "http://a/b/c/g?y", ""},
        {"http://a/b/c/d;p?q", "#s", "http://a/b/c/d;p?q", "s"},
        {"http://a/b/c/d;p?q", "g#s", "http://a/b/c/g", "s"},
        {"http://a/b/c/d;p?q", "", "http://a/b/c/d;p?q", ""},
        {"http://a/b/c/d;p?q", ".", "http://a/b/c/", ""},
        {"http://a/b/c/d;p?q", "..", "http://a/b/", ""},
        {"http://a/b/c/d;p?q", "../g", "http://a/b/g", ""},
        {"http://a/b/c/d;p?q", "../..", "http://a/", ""},
        {"http://a/b/c/d;p?q", "../../../g", "http://a/g", ""},
        {"http://a/b/c/d;p?q", "/./g", "http://a/g", ""},
        {"http://a/b/c/d;p?q", "./g/.", "http://a/b/c/g/", ""},
        {"http://a/b/c/d;p?q", "g/../h", "http://a/b/c/h", ""},
        {"http://a", "g", "http://a/g", ""},
        {"", "#/$defs/a%25b~1c", "", "/$defs/a%b~1c"},
        {"", "a.json#x", "a.json", "x"},
        {"dir/a.json", "b.json", "dir/b.json", ""},
        {"urn:uuid:deadbeef", "#a", "urn:uuid:deadbeef", "a"},
        {"urn:x", "urn:y:z#/q", "urn:y:z", "/q"},
};

static void resolving(void **state)
{
    char uri[GB_URI_MOST], fragment[GB_URI_MOST], big[GB_URI_MOST + 8];
    (void)state;
    for (size_t i = 0; i < LEN(references); i++) {
        assert_int_equal(gb_uri_resolve(references[i].base, references[i].ref, uri, fragment), 0);
        assert_string_equal(uri, references[i].uri);
        assert_string_equal(fragment, references[i].fragment);
    }
    memset(big, 'a', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(gb_uri_resolve("", big, uri, fragment), -ENAMETOOLONG);
    assert_int_equal(gb_uri_resolve(big, "", uri, fragment), -ENAMETOOLONG);
    big[GB_URI_MOST - 10] = '\0';
    big[0] = '#';
    assert_int_equal(gb_uri_resolve("", big, uri, fragment), 0);
    big[0] = 'a';
    assert_int_equal(gb_uri_resolve("http://example.com/folder/", big, uri, fragment), -ENAMETOOLONG);
    assert_int_equal(gb_uri_resolve("", "#%0", uri, fragment), -EINVAL);
    assert_int_equal(gb_uri_resolve("", "#%", uri, fragment), -EINVAL);
    assert_int_equal(gb_uri_resolve("", "#%zz", uri, fragment), -EINVAL);
    assert_int_equal(gb_uri_resolve("", "#%00", uri, fragment), -EINVAL);
}

/* --- ECMA-262 --- */

static const struct {
    const char *pattern, *text;
    bool found;
} patterns[] = {
        {"", "", true},
        {"b", "abc", true},
        {"^b", "abc", false},
        {"^a|c$", "xc", true},
        {"^(a|c)$", "xc", false},
        {"^abc$", "abc\n", false},
        {"^.$", "\n", false},
        {"^.$", "\xE2\x80\xA8", false}, /* U+2028 */
        {"^.$", "\xF0\x9F\x98\x80", true},
        {"^[^]$", "\n", true},
        {"[]", "a", false},
        {"^\\d+$", "\xD9\xA1", false}, /* an Arabic 1 */
        {"^\\w$", "\xC3\xA9", false},
        {"^[\\w-.]+$", "a-.", true},
        {"^[adwsp]+$", "adwsp", true},
        {"^[adwsp]+$", "1", false},
        {"[^Z\\P{Lu}\\D]", "\xE2\x84\xAA", false}, /* what is both a digit and a letter */
        {"^[\\W]\\W[\\D]\\D$", "\xE2\x84\xAA\xE2\x84\xAA\xE2\x84\xAA\xE2\x84\xAA", true},
        {"^[a-]+$", "a-", true},
        {"^[\\d-z]+$", "1-z", true},
        {"^\\s$", "\xC2\xA0", true},
        {"^[\\S]$", "\xC2\xA0", false},
        {"^[\\s\\S]$", "\xC2\xA0", true},
        {"^\\x41\\u0042\\u{43}\\cA\\0$", "ABC\x01", false},
        {"^\\x41\\u0042\\u{43}\\cA$", "ABC\x01", true},
        {"^\\ud83d\\ude00$", "\xF0\x9F\x98\x80", true},
        {"^[\\u{1F600}-\\u{1F64F}]$", "\xF0\x9F\x98\x80", true},
        {"^\\p{Lu}\\p{Letter}\\P{L}$",
         "A\xC3\xA9"
         "1",
         true},
        {"^\\p{Script=Greek}+$", "\xCE\xB1\xCE\xB2", true},
        {"^\\p{Script=Greek}+$", "ab", false},
        {"^[[:alpha:]]$", "a]", true}, /* a class of [ : a l p h, then ] */
        {"^\\-\\_\\@\\/$", "-_@/", true},
        {"a{2}", "aab", true},
        {"^a{2,3}?$", "aaaa", false},
        {"^(?=.*[A-Z])(?!.*x).{3,}$", "abC", true},
        {"(?<=a)b", "ab", true},
        {"(?<name>a)(?:b)", "ab", true},
        {"\\bfoo\\b", "a foo b", true},
        {"^[\\b]$", "\b", true},
        {"x*", "", true},
        {"^#\\sx$", "# x", true}, /* no comments */
        {"\\$\\{a\\}", "${a}", true},
        {"^}]$", "}]", true},
};

static void searching(void **state)
{
    struct gb_ecma_search *search = gb_ecma_search_new();
    (void)state;
    assert_non_null(search);
    for (size_t i = 0; i < LEN(patterns); i++) {
        struct gb_ecma *p = NULL;
        struct gb_err err = {0};
        uint64_t steps = 0;
        if (gb_ecma_new(patterns[i].pattern, strlen(patterns[i].pattern), &p, &err))
            fail_msg("%s: %s", patterns[i].pattern, err.text);
        if (gb_ecma_find(p, search, patterns[i].text, strlen(patterns[i].text), &steps) != patterns[i].found)
            fail_msg("%s in %s", patterns[i].pattern, patterns[i].text);
        assert_true(steps);
        gb_ecma_free(p);
    }
    gb_ecma_search_free(search);
}

static const char *const no_patterns[] = {
        "(",
        ")",
        "[",
        "a**",
        "*",
        "+a",
        "?",
        "a{",
        "a{,5}",
        "a{2",
        "a{2,1}",
        "a{99999}",
        "\\",
        "\\a",
        "\\Z",
        "\\A",
        "\\z",
        "\\01",
        "\\x1",
        "\\u12",
        "\\u{110000}",
        "\\ud800",
        "\\ud800\\u0041",
        "\\c1",
        "\\p",
        "\\pL",
        "\\p{",
        "\\p{}",
        "\\p{Xx}",
        "\\p{Script=Nowhere}",
        "[z-a]",
        "(?i)a",
        "(?i:a)",
        "(?P<a>b)",
        "(?>a)",
        "(?#a)",
        "(?<1>a)",
        "(?",
        "(?<a",
        "^*",
        "(?=a)*",
        "a++",
        "[\\",
        "\xC3",
        "(*UTF)a",
        "\\Q*\\E",
};

static void no_pattern(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(no_patterns); i++) {
        struct gb_ecma *p = NULL;
        struct gb_err err = {0};
        if (gb_ecma_new(no_patterns[i], strlen(no_patterns[i]), &p, &err) != -EINVAL)
            fail_msg("%s was taken", no_patterns[i]);
        assert_false(gb_ecma_is_pattern(no_patterns[i], strlen(no_patterns[i])));
        assert_int_equal(err.code, GB_ERR_CONFIG);
    }
    assert_true(gb_ecma_is_pattern("(?<a>b)\\k<a>\\1", 14)); /* a pattern, if not one that we search */
    char deep[201];
    memset(deep, '(', 100);
    memset(deep + 100, ')', 100);
    assert_false(gb_ecma_is_pattern(deep, 200));
    static const char nul[] = {'^', '\0', '$'};
    assert_true(gb_ecma_is_pattern(nul, sizeof(nul)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(order),     cmocka_unit_test(multiple),   cmocka_unit_test(integers),
            cmocka_unit_test(equality),  cmocka_unit_test(pairs),      cmocka_unit_test(resolving),
            cmocka_unit_test(searching), cmocka_unit_test(no_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
