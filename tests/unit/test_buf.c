#include "unit.h"

#include "base/buf.h"

static void keeps_up_to_max(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 10};
    assert_int_equal(gb_buf_add(&b, "12345", 5), 5);
    assert_false(gb_buf_truncated(&b));
    assert_int_equal(gb_buf_add(&b, "67890", 5), 5);
    assert_false(gb_buf_truncated(&b)); /* exactly full is not cut */
    assert_string_equal(b.data, "1234567890");
    assert_int_equal(gb_buf_add(&b, "x", 1), 0);
    assert_true(gb_buf_truncated(&b));
    assert_int_equal(b.len, 10);
    assert_int_equal(b.seen, 11);
    assert_string_equal(b.data, "1234567890");
    assert_false(b.failed);
    gb_buf_done(&b);
}

static void keeps_the_part_that_fits(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 7};
    assert_int_equal(gb_buf_puts(&b, "12345"), 5);
    assert_int_equal(gb_buf_puts(&b, "abcde"), 2);
    assert_string_equal(b.data, "12345ab");
    assert_int_equal(b.seen, 10);
    assert_true(gb_buf_truncated(&b));
    gb_buf_done(&b);
}

static void zero_max_counts(void **state)
{
    (void)state;
    struct gb_buf b = {0};
    assert_int_equal(gb_buf_add(&b, "abc", 3), 0);
    assert_int_equal(gb_buf_puts(&b, ""), 0);
    assert_null(b.data);
    assert_int_equal(b.seen, 3);
    assert_true(gb_buf_truncated(&b));
    assert_false(b.failed);
    gb_buf_done(&b);
}

static void empty_adds(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 4};
    assert_int_equal(gb_buf_add(&b, "", 0), 0);
    assert_int_equal(b.seen, 0);
    assert_false(gb_buf_truncated(&b));
    gb_buf_done(&b);
}

/* Around each size at which it grows or stops to grow: all bytes kept, a NUL behind them, never more memory
 * than max + 1. */
static void growth(void **state)
{
    (void)state;
    static const size_t maxima[] = {1, 2, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 100000};
    for (size_t m = 0; m < LEN(maxima); m++)
        for (size_t piece = 1; piece <= 5000; piece = piece * 3 + 1) {
            struct gb_buf b = {.max = maxima[m]};
            char chunk[5000];
            uint64_t offered = 0;
            memset(chunk, 'a' + (int)(piece % 26), sizeof(chunk));
            while (offered <= maxima[m] + 10) {
                size_t room = b.max - b.len;
                assert_int_equal(gb_buf_add(&b, chunk, piece), piece < room ? piece : room);
                offered += piece;
                assert_true(b.size <= b.max + 1);
                assert_int_equal(b.data[b.len], '\0');
            }
            assert_int_equal(b.len, maxima[m]);
            assert_int_equal(strlen(b.data), maxima[m]);
            assert_int_equal(b.seen, offered);
            assert_false(b.failed);
            gb_buf_done(&b);
        }
}

static void holds_any_byte(void **state)
{
    (void)state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct gb_buf b = {.max = 1000};
    gb_buf_add(&b, all, sizeof(all));
    assert_int_equal(b.len, 256);
    assert_memory_equal(b.data, all, 256);
    gb_buf_done(&b);
}

static void print(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 2000};
    assert_int_equal(gb_buf_printf(&b, "%d-%s", 42, "x"), 4);
    assert_string_equal(b.data, "42-x");
    /* Its line is fixed; what is longer is an error that shows, not a cut text that does not. */
    char longest[512];
    memset(longest, 'y', sizeof(longest));
    longest[511] = '\0';
    assert_int_equal(gb_buf_printf(&b, "%s", longest), 511);
    assert_false(b.failed);
    assert_int_equal(gb_buf_printf(&b, "%sz", longest), 0);
    assert_true(b.failed);
    assert_int_equal(b.len, 515);
    gb_buf_done(&b);
}

static void done_empties(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 10}, empty = {0};
    gb_buf_puts(&b, "abc");
    gb_buf_done(&b);
    assert_memory_equal(&b, &empty, sizeof(b));
    gb_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(keeps_up_to_max), cmocka_unit_test(keeps_the_part_that_fits),
            cmocka_unit_test(zero_max_counts), cmocka_unit_test(empty_adds),
            cmocka_unit_test(growth),          cmocka_unit_test(holds_any_byte),
            cmocka_unit_test(print),           cmocka_unit_test(done_empties),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
