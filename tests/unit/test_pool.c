/* What a box that waits is known by, and which calls it can serve. */
#include "unit.h"

#include "spec/pool.h"

#include <string.h>

static void keys_tell_boxes_apart(void **state)
{
    (void)state;
    static const struct {
        enum gb_pool_kind kind;
        const char *program, *preload;
    } rows[] = {{GB_POOL_PLAIN, "", ""},
                {GB_POOL_PYTHON, "", ""},
                {GB_POOL_PYTHON, "python3", ""},
                {GB_POOL_PYTHON, "", "python3"},
                {GB_POOL_PYTHON, "python3", "json"},
                {GB_POOL_PYTHON, "python3json", ""},
                {GB_POOL_PYTHON, "python3", "json numpy"},
                {GB_POOL_PYTHON, "python3", "numpy json"},
                {GB_POOL_PYTHON, "/usr/bin/python3", "json"},
                {GB_POOL_NODE, "python3", "json"},
                {GB_POOL_NODE, "node", ""}};
    for (size_t i = 0; i < LEN(rows); i++) {
        const uint64_t key = gb_pool_key(rows[i].kind, rows[i].program, rows[i].preload);
        assert_int_not_equal(key, 0);
        assert_int_equal(key, gb_pool_key(rows[i].kind, rows[i].program, rows[i].preload));
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(key, gb_pool_key(rows[k].kind, rows[k].program, rows[k].preload));
    }
}

static void every_kind_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < GB_POOL_KINDS; i++) {
        const struct gb_pool_kind_row *row = &gb_pool_kinds[i];
        assert_non_null(row->name);
        assert_non_null(row->what);
        assert_true(!row->runtime || gb_runtime_find(row->runtime));
        assert_int_equal(!row->runtime, i == GB_POOL_PLAIN);
        if (row->runtime)
            assert_int_equal(gb_pool_kind_for(gb_runtime_find(row->runtime)), i);
    }
    assert_int_equal(gb_pool_kind_for(NULL), GB_POOL_PLAIN);
    assert_int_equal(gb_pool_kind_for(gb_runtime_find("bash")), GB_POOL_PLAIN);
    assert_int_equal(gb_pool_kind_for(gb_runtime_find("sh")), GB_POOL_PLAIN);
}

static void variables_of_the_start(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool python, node;
    } rows[] = {{"A", true, true},
                {"API_KEY", true, true},
                {"TMPDIR", true, true},
                {"USER", true, true},
                {"LANGUAGES", true, true},
                {"TZX", true, true},
                {"LD_PRELOAD", false, false},
                {"GLIBC_TUNABLES", false, false},
                {"MALLOC_ARENA_MAX", false, false},
                {"LANG", false, false},
                {"LANGUAGE", false, false},
                {"LC_ALL", false, false},
                {"TZ", false, false},
                {"PATH", false, false},
                {"HOME", false, true},
                {"PYTHONHASHSEED", false, true},
                {"PYTHONPATH", false, true},
                {"PYTHON", false, true},
                {"NODE_OPTIONS", true, false},
                {"UV_THREADPOOL_SIZE", true, false},
                {"OMP_NUM_THREADS", false, true},
                {"pythonpath", true, true}};
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(gb_pool_takes_env(GB_POOL_PYTHON, rows[i].name), rows[i].python);
        assert_int_equal(gb_pool_takes_env(GB_POOL_NODE, rows[i].name), rows[i].node);
        assert_true(gb_pool_takes_env(GB_POOL_PLAIN, rows[i].name)); /* nothing has started in it */
    }
}

/* All but the two that begin with the call. */
static void limits_of_a_box(void **state)
{
    (void)state;
    struct gb_limits a;
    gb_limits_init(&a);
    for (size_t i = 0; i < gb_limit_count; i++) {
        struct gb_limits b = a;
        *(int64_t *)(void *)((char *)&b + gb_limit_rows[i].offset) += 1;
        const bool of_the_call = !strcmp(gb_limit_rows[i].key, "timeout_seconds") ||
                                 !strcmp(gb_limit_rows[i].key, "max_output_bytes");
        assert_int_equal(gb_pool_has_limits(&a, &b), of_the_call);
        assert_int_equal(gb_pool_has_limits(&b, &a), of_the_call);
    }
    assert_true(gb_pool_has_limits(&a, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(keys_tell_boxes_apart), cmocka_unit_test(every_kind_is_named),
            cmocka_unit_test(variables_of_the_start), cmocka_unit_test(limits_of_a_box)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
