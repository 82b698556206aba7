#include "unit.h"

#include "base/text.h"
#include "spec/spec.h"

#include <errno.h>

static void rows_make_sense(void **state)
{
    (void)state;
    assert_true(gb_runtime_count >= 4);
    for (size_t i = 0; i < gb_runtime_count; i++) {
        const struct gb_runtime *r = &gb_runtimes[i];
        assert_true(*r->name && *r->program && r->option);
        assert_int_equal(r->extension[0], '.');
        assert_true(gb_text_is_relative_name(r->script));
        /* a script called by its own name finds its own runtime */
        assert_ptr_equal(gb_runtime_by_extension(r->script), r);
        assert_ptr_equal(gb_runtime_find(r->name), r);
    }
}

static void find(void **state)
{
    (void)state;
    assert_string_equal(gb_runtime_find("python")->program, "python3");
    assert_string_equal(gb_runtime_find("node")->program, "node");
    assert_null(gb_runtime_find("python3"));
    assert_null(gb_runtime_find("Python"));
    assert_null(gb_runtime_find(""));
}

static void by_extension(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name;
    } rows[] = {{"a.py", "python"}, {"dir.js/a.py", "python"},
                {"a.tar.sh", "sh"}, {"/x/y/a.bash", "bash"},
                {"a.js", "node"},   {"a", NULL},
                {"", NULL},         {"a.", NULL},
                {"a.PY", NULL},     {"a.pyc", NULL},
                {"dir.py/a", NULL}, {"py", NULL},
                {"a.py ", NULL}};
    for (size_t i = 0; i < LEN(rows); i++) {
        const struct gb_runtime *r = gb_runtime_by_extension(rows[i].file);
        if ((r != NULL) != (rows[i].name != NULL) || (r && strcmp(r->name, rows[i].name) != 0))
            fail_msg("'%s' gave %s", rows[i].file, r ? r->name : "nothing");
    }
}

static void code(void **state)
{
    (void)state;
    struct gb_err err = {0};
    assert_int_equal(gb_runtime_check_code("", 0, &err), 0);
    assert_int_equal(gb_runtime_check_code("print('h\xC3\xA9')\n", 13, &err), 0);
    assert_int_equal(gb_runtime_check_code("ab\0c", 4, &err), -EINVAL);
    assert_int_equal(err.code, GB_ERR_INPUT);
    assert_non_null(strstr(err.text, "byte 2 (0x00)"));
    assert_int_equal(gb_runtime_check_code("\xFF\xFE", 2, &err), -EINVAL);
    assert_non_null(strstr(err.text, "byte 0 (0xff)"));
    assert_int_equal(gb_runtime_check_code("caf\xE9", 4, &err), -EINVAL); /* latin-1 */
    assert_non_null(strstr(err.text, "byte 3 (0xe9)"));
}

static void code_size(void **state)
{
    (void)state;
    struct gb_err err = {0};
    char *big = malloc(GB_CODE_BYTES + 1);
    assert_non_null(big);
    memset(big, ' ', GB_CODE_BYTES + 1);
    assert_int_equal(gb_runtime_check_code(big, GB_CODE_BYTES, &err), 0);
    assert_int_equal(gb_runtime_check_code(big, GB_CODE_BYTES + 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "1048576"));
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(rows_make_sense), cmocka_unit_test(find),
            cmocka_unit_test(by_extension),    cmocka_unit_test(code),
            cmocka_unit_test(code_size),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
