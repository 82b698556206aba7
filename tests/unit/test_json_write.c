#include "unit.h"

#include "base/json_write.h"

static struct gb_buf out;
static struct gb_json j;

static int begin(void **state)
{
    (void)state;
    out = (struct gb_buf){.max = 1 << 20};
    j = (struct gb_json){.out = &out, .first = true};
    return 0;
}

static int end(void **state)
{
    (void)state;
    gb_buf_done(&out);
    return 0;
}

static void nesting_and_commas(void **state)
{
    (void)state;
    gb_json_open(&j, NULL, '{');
    gb_json_open(&j, "empty", '{');
    gb_json_close(&j, '}');
    gb_json_open(&j, "list", '[');
    gb_json_int(&j, NULL, 1);
    gb_json_int(&j, NULL, -2);
    gb_json_open(&j, NULL, '[');
    gb_json_close(&j, ']');
    gb_json_open(&j, NULL, '{');
    gb_json_bool(&j, "t", true);
    gb_json_bool(&j, "f", false);
    gb_json_close(&j, '}');
    gb_json_null(&j, NULL);
    gb_json_close(&j, ']');
    gb_json_null(&j, "last");
    gb_json_close(&j, '}');
    assert_string_equal(out.data,
                        "{\"empty\":{},\"list\":[1,-2,[],{\"t\":true,\"f\":false},null],\"last\":null}");
}

static void escapes(void **state)
{
    (void)state;
    gb_json_text(&j, NULL, "a\"b\\c/d\ne\tf\rg\bh\fi");
    assert_string_equal(out.data, "\"a\\\"b\\\\c/d\\ne\\u0009f\\u000dg\\u0008h\\u000ci\"");
}

/* No byte below 0x20 may stand in a JSON string as it is. */
static void control_characters(void **state)
{
    (void)state;
    for (int c = 0; c < 0x80; c++) {
        char byte = (char)c, expect[16];
        begin(state);
        gb_json_bytes(&j, NULL, &byte, 1);
        if (c == '"' || c == '\\')
            snprintf(expect, sizeof(expect), "\"\\%c\"", c);
        else if (c == '\n')
            snprintf(expect, sizeof(expect), "\"\\n\"");
        else if (c < 0x20 || c == 0x7f)
            snprintf(expect, sizeof(expect), "\"\\u%04x\"", c);
        else
            snprintf(expect, sizeof(expect), "\"%c\"", c);
        assert_string_equal(out.data, expect);
        end(state);
    }
}

static void valid_utf8_stays(void **state)
{
    (void)state;
    gb_json_text(&j, "k\xC3\xA9y", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    assert_string_equal(out.data, "\"k\xC3\xA9y\":\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
}

#define BAD "\xEF\xBF\xBD"

static void invalid_bytes_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *expect;
    } rows[] = {
            {"a\xFFz", 3, "\"a" BAD "z\""},     {"\xC3", 1, "\"" BAD "\""},
            {"\xC3\"", 2, "\"" BAD "\\\"\""}, /* a cut lead must not swallow the quote */
            {"\xE2\x82", 2, "\"" BAD BAD "\""}, {"\xED\xA0\x80", 3, "\"" BAD BAD BAD "\""},
            {"\xC0\xAF", 2, "\"" BAD BAD "\""}, {"\xF4\x90\x80\x80x", 5, "\"" BAD BAD BAD BAD "x\""},
            {"a\0b", 3, "\"a\\u0000b\""},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        begin(state);
        gb_json_bytes(&j, NULL, rows[i].bytes, rows[i].len);
        assert_string_equal(out.data, rows[i].expect);
        end(state);
    }
}

static void missing_text_is_empty(void **state)
{
    (void)state;
    gb_json_open(&j, NULL, '[');
    gb_json_text(&j, NULL, NULL);
    gb_json_bytes(&j, NULL, NULL, 0);
    gb_json_text(&j, NULL, "");
    gb_json_close(&j, ']');
    assert_string_equal(out.data, "[\"\",\"\",\"\"]");
}

static void numbers(void **state)
{
    (void)state;
    gb_json_open(&j, NULL, '[');
    gb_json_int(&j, NULL, INT64_MAX);
    gb_json_int(&j, NULL, INT64_MIN);
    gb_json_decimal(&j, NULL, 0, 3);
    gb_json_decimal(&j, NULL, 1, 3);
    gb_json_decimal(&j, NULL, 1500, 3);
    gb_json_decimal(&j, NULL, 30000, 3);
    gb_json_decimal(&j, NULL, -50, 3);
    gb_json_decimal(&j, NULL, 64, 0);
    gb_json_close(&j, ']');
    assert_string_equal(out.data, "[9223372036854775807,-9223372036854775808,0,0.001,1.5,30,-0.05,64]");
}

static void keys_are_escaped(void **state)
{
    (void)state;
    gb_json_open(&j, NULL, '{');
    gb_json_int(&j, "a\"b\n", 1);
    gb_json_close(&j, '}');
    assert_string_equal(out.data, "{\"a\\\"b\\n\":1}");
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
            WITH(nesting_and_commas),
            WITH(escapes),
            cmocka_unit_test(control_characters),
            WITH(valid_utf8_stays),
            cmocka_unit_test(invalid_bytes_are_replaced),
            WITH(missing_text_is_empty),
            WITH(numbers),
            WITH(keys_are_escaped),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
