/* The JSON reader: what RFC 8259 wants, and what we want besides. The public suite of cases is in
 * tests/integration/test_json_cases.py. */
#include "unit.h"

#include "base/text.h"
#include "json/json.h"

#include <errno.h>

/* Reads from an exact allocation, so that the sanitizer sees a read past the end. */
static int read_bytes(const char *data, size_t len, json_t **ret, struct gb_err *err)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    int r = gb_json_read(copy, len, ret, err);
    free(copy);
    return r;
}

static bool takes(const char *text, size_t len)
{
    json_t *value = NULL;
    struct gb_err err = {0};
    int r = read_bytes(text, len, &value, &err);
    if (r) {
        assert_null(value);
        assert_int_equal(r, -EINVAL);
        assert_int_equal(err.code, GB_ERR_SYNTAX);
        assert_true(*err.text);
    } else {
        assert_non_null(value);
    }
    json_decref(value);
    return r == 0;
}

static void accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}",
                                        "[]",
                                        " [1] \n",
                                        "null",
                                        "true",
                                        "false",
                                        "\"\"",
                                        "0",
                                        "-0",
                                        "[-0.0]",
                                        "1E+2",
                                        "[1e-400]",
                                        "{\"\":0}",
                                        "[\"\\/\"]",
                                        "[\"\\ud83d\\ude00\"]",
                                        "[\"\x7f\"]",
                                        "[\"\xe2\x82\xac\"]",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "{\"a\":{\"a\":{\"a\":1}}}"};
    for (size_t i = 0; i < LEN(texts); i++)
        if (!takes(texts[i], strlen(texts[i])))
            fail_msg("refused %s", texts[i]);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
#define CASE(text) {text, sizeof(text) - 1}
            CASE(""),
            CASE(" "),
            CASE("\xef\xbb\xbf{}"), /* a byte order mark */
            CASE("[1,]"),
            CASE("{\"a\":1,}"),
            CASE("{a:1}"),
            CASE("{'a':1}"),
            CASE("[1] x"),
            CASE("[1]]"),
            CASE("{}{}"),
            CASE("[01]"),
            CASE("[.5]"),
            CASE("[1.]"),
            CASE("[+1]"),
            CASE("[0x10]"),
            CASE("[NaN]"),
            CASE("[Infinity]"),
            CASE("[True]"),
            CASE("[1e400]"),
            CASE("[-1e400]"),
            CASE("[9223372036854775808]"),
            CASE("[\"\\x41\"]"),
            CASE("[\"\\u00\"]"),
            CASE("[\"\\ud800\"]"),
            CASE("[\"\n\"]"),
            CASE("[\"\0\"]"),
            CASE("[1\0]"),
            CASE("{}\0"),
            CASE("[\"\xff\"]"),
            CASE("[\"\xc0\xaf\"]"),
            CASE("[\"\xed\xa0\x80\"]"),
            CASE("[\xe2\x82]"),
            CASE("[\"abc"),
            CASE("[\"abc\\"),
            CASE("[\"\\u0000"),
            CASE("/* */ []"),
            CASE("{\"a\":1,\"a\":1}"),
            CASE("{\"x\":{\"a\":1,\"b\":2,\"a\":3}}"),
            CASE("{\"a\":1,\"\\u0061\":2}"), /* the same key, written differently */
    };
    for (size_t i = 0; i < LEN(cases); i++)
        if (takes(cases[i].text, cases[i].len))
            fail_msg("took case %zu: %s", i, cases[i].text);
}

static void nested(char *buf, const char *open, const char *close, size_t depth)
{
    *buf = '\0';
    for (size_t i = 0; i < depth; i++)
        strcat(buf, open);
    strcat(buf, "1");
    for (size_t i = 0; i < depth; i++)
        strcat(buf, close);
}

static void depth(void **state)
{
    (void)state;
    static char text[8192];
    static const char *const pairs[][2] = {{"[", "]"}, {"{\"a\":", "}"}, {"[{\"a\":", "}]"}};
    for (size_t i = 0; i < LEN(pairs); i++) {
        const size_t most = i == 2 ? GB_JSON_DEPTH / 2 : GB_JSON_DEPTH;
        nested(text, pairs[i][0], pairs[i][1], most);
        assert_true(takes(text, strlen(text)));
        nested(text, pairs[i][0], pairs[i][1], most + 1);
        assert_false(takes(text, strlen(text)));
    }
    /* Brackets in strings do not nest, and escaped quotes do not end them. */
    char wide[4096] = "[\"\\\"";
    for (size_t i = 0; i < 500; i++)
        strcat(wide, "[{");
    strcat(wide, "\\\\\"]");
    assert_true(takes(wide, strlen(wide)));
    /* The place is told. */
    json_t *value = NULL;
    struct gb_err err = {0};
    nested(text, "[\n", "]", 70);
    assert_int_equal(read_bytes(text, strlen(text), &value, &err), -EINVAL);
    assert_string_equal(err.text, "line 65, column 1: more than 64 levels of nesting");
}

static void many_values(void **state)
{
    (void)state;
    const size_t count = GB_JSON_VALUES;
    char *text = malloc(2 * count + 16);
    assert_non_null(text);
    size_t len = 0;
    text[len++] = '[';
    for (size_t i = 0; i + 1 < count; i++) {
        text[len++] = '0';
        text[len++] = ',';
    }
    memcpy(text + len, "0]", 2);
    assert_true(takes(text, len + 2));
    memcpy(text + len, "0,0]", 4);
    assert_false(takes(text, len + 4));
    free(text);
}

static void nul(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key;
    } keys[] = {
            {"{\"a\\u0000b\":1}", "a\xef\xbf\xbd"
                                  "b"},
            {"{\"\\u0000\\u0000\" \n:1}", "\xef\xbf\xbd\xef\xbf\xbd"},
            {"{\"\\\\u0000\":1}", "\\u0000"}, /* an escaped backslash, and letters */
            {"{\"\\\\\\u0000\":1}", "\\\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < LEN(keys); i++) {
        json_t *value = NULL;
        assert_int_equal(read_bytes(keys[i].text, strlen(keys[i].text), &value, NULL), 0);
        assert_non_null(json_object_get(value, keys[i].key));
        assert_int_equal(json_object_size(value), 1);
        json_decref(value);
    }
    /* It must not pass for the key that a reader of C strings would see. */
    json_t *value = NULL;
    static const char text[] = "{\"code\\u0000x\":\"a\\u0000b\",\"v\":\"\\u0000\"}";
    assert_int_equal(read_bytes(text, strlen(text), &value, NULL), 0);
    assert_null(json_object_get(value, "code"));
    assert_int_equal(json_string_length(json_object_get(value, "code\xef\xbf\xbdx")), 3);
    assert_int_equal(json_string_length(json_object_get(value, "v")), 1); /* values keep theirs */
    json_decref(value);
    static const char two[] = "{\"\\u0000\":1,\"\\ufffd\":2}"; /* which would be two of one name */
    assert_false(takes(two, strlen(two)));
}

static void places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
            {"{\"a\": 1,\n \"b\" 2}", "line 2, column 6: ':' expected near '2'"},
            {"[1] 2", "line 1, column 5: end of file expected near '2'"},
            {"{\"a\":1,\n\"a\":2}", "line 2, column 3: duplicate object key near '\"a\"'"},
            {"[\x1b]", "line 1, column 2: invalid token near '?'"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        json_t *value = NULL;
        struct gb_err err = {0};
        assert_int_equal(read_bytes(cases[i].text, strlen(cases[i].text), &value, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].error);
    }
}

/* Whatever comes in, what is said about it can be shown on a terminal and put into a reply. */
static void error_texts_are_harmless(void **state)
{
    (void)state;
    static const char alphabet[] = "[]{}\",:\\u0019aetr\n \x1b\x80\xe2\x82\xac\xff\x7f\xc2\x9b";
    uint32_t random = 1;
    for (size_t run = 0; run < 20000; run++) {
        char text[40];
        size_t len = run % sizeof(text);
        for (size_t i = 0; i < len; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = alphabet[(random >> 16) % (sizeof(alphabet) - 1)];
        }
        json_t *value = NULL;
        struct gb_err err = {0};
        if (read_bytes(text, len, &value, &err) == 0) {
            json_decref(value);
            continue;
        }
        char shown[sizeof(err.text)];
        memcpy(shown, err.text, sizeof(shown));
        gb_text_defuse(shown);
        assert_string_equal(shown, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(accepted),
            cmocka_unit_test(refused),
            cmocka_unit_test(depth),
            cmocka_unit_test(many_values),
            cmocka_unit_test(nul),
            cmocka_unit_test(places),
            cmocka_unit_test(error_texts_are_harmless),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
