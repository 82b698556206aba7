/* Every row of limits.def, so that a new limit is tested by being there. */
#include "unit.h"

#include "base/text.h"
#include "spec/limits.h"

#include <errno.h>

static void as_text(const struct gb_limit_row *row, int64_t value, char *buf)
{
    gb_text_decimal(value, row->decimals, buf, 32);
}

static void rows_make_sense(void **state)
{
    (void)state;
    struct gb_limits limits;
    memset(&limits, 0xAA, sizeof(limits));
    gb_limits_init(&limits);
    assert_true(gb_limit_count >= 8);
    assert_int_equal(sizeof(limits), gb_limit_count * sizeof(int64_t));
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        assert_true(*row->key && *row->reached);
        assert_true(row->least >= 0 && row->least < row->ceiling);
        assert_true(row->def >= row->least && row->def <= row->usual);
        assert_true(row->usual <= row->ceiling);
        assert_true(gb_limits_get(&limits, row) == row->def);
        assert_ptr_equal(gb_limits_find(row->key), row);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(row->key, gb_limit_rows[k].key);
            assert_true(row->offset != gb_limit_rows[k].offset);
        }
    }
}

static void range(void **state)
{
    (void)state;
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        const struct {
            int64_t value;
            bool good;
        } cases[] = {{row->least, true},
                     {row->ceiling, true},
                     {row->def, true},
                     {row->least - 1, false},
                     {row->ceiling + 1, false}};
        char least[32], ceiling[32];
        as_text(row, row->least, least);
        as_text(row, row->ceiling, ceiling);
        for (size_t c = 0; c < LEN(cases); c++) {
            struct gb_limits limits, before;
            struct gb_err err = {0};
            char text[32];
            gb_limits_init(&limits);
            before = limits;
            as_text(row, cases[c].value, text);
            int r = gb_limits_set(&limits, row->key, text, &err);
            if (cases[c].good) {
                assert_int_equal(r, 0);
                assert_true(gb_limits_get(&limits, row) == cases[c].value);
                /* no other limit moved */
                *(int64_t *)(void *)((char *)&limits + row->offset) = row->def;
                assert_memory_equal(&limits, &before, sizeof(limits));
                continue;
            }
            assert_int_equal(r, -EINVAL);
            assert_memory_equal(&limits, &before, sizeof(limits));
            assert_int_equal(err.code, GB_ERR_USAGE);
            /* what, which value, what is allowed */
            assert_ptr_equal(strstr(err.text, row->key), err.text);
            assert_non_null(strstr(err.text, text));
            assert_non_null(strstr(err.text, least));
            assert_non_null(strstr(err.text, ceiling));
        }
    }
}

static void not_a_number(void **state)
{
    (void)state;
    static const char *const words[] = {
            "",    "abc",  "5s", " 5",   "5 ",    "-5",    "+5",    "1e3", "0x10", "nan",
            "inf", "true", "[]", "null", "1,000", "1.2.3", "\"5\"", ".5",  "5.",   "99999999999999999999"};
    for (size_t i = 0; i < gb_limit_count; i++)
        for (size_t w = 0; w < LEN(words); w++) {
            struct gb_limits limits;
            struct gb_err err = {0};
            gb_limits_init(&limits);
            if (gb_limits_set(&limits, gb_limit_rows[i].key, words[w], &err) != -EINVAL)
                fail_msg("%s took '%s'", gb_limit_rows[i].key, words[w]);
            assert_true(gb_limits_get(&limits, &gb_limit_rows[i]) == gb_limit_rows[i].def);
            assert_ptr_equal(strstr(err.text, gb_limit_rows[i].key), err.text);
        }
}

static void fractions(void **state)
{
    (void)state;
    for (size_t i = 0; i < gb_limit_count; i++) {
        struct gb_limits limits;
        struct gb_err err = {0};
        gb_limits_init(&limits);
        int r = gb_limits_set(&limits, gb_limit_rows[i].key, "4.5", &err);
        assert_int_equal(r, gb_limit_rows[i].decimals ? 0 : -EINVAL);
        if (!gb_limit_rows[i].decimals)
            assert_non_null(strstr(err.text, "whole number"));
        assert_int_equal(gb_limits_set(&limits, gb_limit_rows[i].key, "4.00000", NULL), -EINVAL);
    }
    struct gb_limits limits;
    gb_limits_init(&limits);
    assert_int_equal(gb_limits_set(&limits, "timeout_seconds", "2.5", NULL), 0);
    assert_int_equal(limits.timeout_ms, 2500);
}

static void unknown_key(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "timeout", "TIMEOUT_SECONDS", "timeout_seconds ", "max_memory_gb"};
    for (size_t i = 0; i < LEN(keys); i++) {
        struct gb_limits limits;
        struct gb_err err = {0};
        gb_limits_init(&limits);
        assert_null(gb_limits_find(keys[i]));
        assert_int_equal(gb_limits_set(&limits, keys[i], "1", &err), -EINVAL);
        assert_non_null(strstr(err.text, keys[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(rows_make_sense), cmocka_unit_test(range),       cmocka_unit_test(not_a_number),
            cmocka_unit_test(fractions),       cmocka_unit_test(unknown_key),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
