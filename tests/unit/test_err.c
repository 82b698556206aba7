#include "unit.h"

#include "base/err.h"

#include <errno.h>

static void set(void **state)
{
    (void)state;
    struct gb_err err;
    memset(&err, 'x', sizeof(err));
    assert_int_equal(gb_err_set(&err, GB_ERR_INPUT, ENOENT, "open '%s'", "f"), -ENOENT);
    assert_int_equal(err.code, GB_ERR_INPUT);
    assert_int_equal(err.errnum, ENOENT);
    assert_string_equal(err.text, "open 'f': No such file or directory");
    assert_string_equal(err.step, "");
    assert_int_equal(gb_err_set(&err, GB_ERR_USAGE, 0, "no"), -EINVAL);
    assert_int_equal(err.errnum, 0);
    assert_string_equal(err.text, "no");
}

static void without_a_place(void **state)
{
    (void)state;
    assert_int_equal(gb_err_set(NULL, GB_ERR_INPUT, EIO, "x"), -EIO);
    assert_int_equal(gb_err_set(NULL, GB_ERR_INPUT, 0, "x"), -EINVAL);
    gb_err_wrap(NULL, "x");
    gb_err_hint(NULL, "x");
}

static void wrap_and_hint(void **state)
{
    (void)state;
    struct gb_err err;
    gb_err_set(&err, GB_ERR_LAYER, EPERM, "mount %s", "/proc");
    gb_err_wrap(&err, "step %d", 7);
    gb_err_wrap(&err, "run");
    gb_err_hint(&err, "try %s", "root");
    assert_string_equal(err.text, "run: step 7: mount /proc: Operation not permitted; try root");
    assert_int_equal(err.code, GB_ERR_LAYER);
    assert_int_equal(err.errnum, EPERM);
}

/* However long the parts are, the text is ended and nothing behind it is touched. */
static void long_text(void **state)
{
    (void)state;
    char text[1001];
    for (size_t len = 470; len < 1000; len += len < 490 ? 1 : 255) {
        struct {
            struct gb_err err;
            char guard[16];
        } at;
        memset(&at, '#', sizeof(at));
        memset(text, 'a', len);
        text[len] = '\0';
        gb_err_set(&at.err, GB_ERR_INTERNAL, EIO, "%s", text);
        size_t size = sizeof(at.err.text);
        assert_true(strnlen(at.err.text, size) < size);
        gb_err_hint(&at.err, "%s", text);
        assert_true(strnlen(at.err.text, size) < size);
        gb_err_wrap(&at.err, "%s", text);
        assert_true(strnlen(at.err.text, size) < size);
        assert_memory_equal(at.err.text, text, len < size - 1 ? len : size - 1);
        assert_memory_equal(at.guard, "################", 16);
        assert_string_equal(at.err.step, "");
    }
}

/* A wrapped text that no longer fits loses its end, never its beginning. */
static void wrap_keeps_the_context(void **state)
{
    (void)state;
    struct gb_err err;
    char text[480];
    memset(text, 'b', sizeof(text));
    text[479] = '\0';
    gb_err_set(&err, GB_ERR_INTERNAL, 0, "%s", text);
    gb_err_wrap(&err, "context");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_memory_equal(err.text, "context: bbbb", 13);
}

static void hint_that_does_not_fit(void **state)
{
    (void)state;
    struct gb_err err;
    char text[480];
    for (size_t len = 470; len < sizeof(err.text); len++) {
        memset(text, 'c', sizeof(text));
        text[len] = '\0';
        gb_err_set(&err, GB_ERR_INTERNAL, 0, "%s", text);
        gb_err_hint(&err, "hint");
        /* as much of it as fits, but no "; " with nothing behind it */
        if (len + 3 < sizeof(err.text))
            assert_memory_equal(err.text + len, "; h", 3);
        else
            assert_string_equal(err.text, text);
    }
}

static void names_and_codes(void **state)
{
    (void)state;
    assert_string_equal(gb_err_name(GB_ERR_NONE), "none");
    assert_int_equal(gb_err_exit_code(GB_ERR_NONE), 0);
    assert_string_equal(gb_err_name(GB_ERR_LAYER), "layer_unavailable");
    for (int a = 1; a < GB_ERR_COUNT; a++) {
        assert_true(*gb_err_name(a));
        assert_int_equal(gb_err_exit_code(a), 125);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(gb_err_name(a), gb_err_name(b));
    }
    assert_string_equal(gb_err_name(GB_ERR_COUNT), "unknown");
    assert_string_equal(gb_err_name((enum gb_error_code) - 1), "unknown");
    assert_int_equal(gb_err_exit_code((enum gb_error_code)4711), 125);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(set),
            cmocka_unit_test(without_a_place),
            cmocka_unit_test(wrap_and_hint),
            cmocka_unit_test(long_text),
            cmocka_unit_test(wrap_keeps_the_context),
            cmocka_unit_test(hint_that_does_not_fit),
            cmocka_unit_test(names_and_codes),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
