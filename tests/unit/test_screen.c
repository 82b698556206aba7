#include "unit.h"

#include "screen/screen.h"

static struct gb_screen *screen;
static struct gb_screen_actions block, off;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    screen = gb_screen_new(NULL, 0, &err);
    if (!screen)
        return -1;
    gb_screen_actions_init(screen, GB_SCREEN_BLOCK, &block);
    gb_screen_actions_init(screen, GB_SCREEN_OFF, &off);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gb_screen_free(screen);
    gb_screen_free(NULL);
    return 0;
}

static size_t look(const char *runtime, const char *code, struct gb_finding *found)
{
    return gb_screen_code(screen, &block, runtime, code, strlen(code), found);
}

static const char *const ten[] = {
        "subprocess execution", "OS command execution", "filesystem modification", "network socket access",
        "HTTP requests",        "URL access",           "dynamic import",          "dynamic code execution",
        "file write access",    "system file access",
};

static void has_the_seeds_names_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(gb_screen_rule_count(screen), LEN(ten));
    for (size_t i = 0; i < LEN(ten); i++) {
        assert_string_equal(gb_screen_rule_name(screen, i), ten[i]);
        assert_int_equal(gb_screen_find(screen, ten[i]), i);
    }
    assert_null(gb_screen_rule_name(screen, LEN(ten)));
    assert_int_equal(gb_screen_find(screen, "nothing"), -1);
}

/* Its syntax is looked at in the box. */
static void has_no_patterns_for_python(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    assert_int_equal(look("python", "import os; os.system('cat /etc/passwd'); eval('1')", found), 0);
}

static void other_languages_have_patterns(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    static const char *const others[] = {"bash", "sh", "node", "ruby", NULL};
    for (size_t i = 0; i < LEN(others); i++) {
        assert_int_equal(look(others[i], "x\ncat /etc/passwd", found), 1);
        assert_string_equal(found[0].rule, "system file access");
        assert_string_equal(found[0].reason, "matches the pattern");
        assert_non_null(found[0].hint);
        assert_int_equal(found[0].line, 2);
        assert_int_equal(found[0].action, GB_SCREEN_BLOCK);
        assert_int_equal(look(others[i], "/re/.exec(line); eval(x); urllib; etc/x; /etc", found), 0);
        assert_int_equal(gb_screen_code(screen, &off, others[i], "/etc/passwd", 11, found), 0);
    }
}

static void actions_are_by_rule(void **state)
{
    (void)state;
    static const struct gb_screen_rule more[] = {
            {.name = "a", .language = "*", .pattern = "a", .action = -1},
            {.name = "b", .language = "sh", .pattern = "b", .action = GB_SCREEN_WARN},
            {.name = "c", .language = "*", .pattern = "c", .action = GB_SCREEN_OFF}};
    struct gb_err err = {0};
    struct gb_screen *own = gb_screen_new(more, LEN(more), &err);
    assert_non_null(own);
    struct gb_screen_actions actions;
    struct gb_finding found[GB_FINDINGS];
    gb_screen_actions_init(own, GB_SCREEN_BLOCK, &actions);
    assert_int_equal(gb_screen_code(own, &actions, "sh", "c\nb\na", 5, found), 2);
    assert_string_equal(found[0].rule, "a");
    assert_int_equal(found[0].line, 3);
    assert_int_equal(found[0].action, GB_SCREEN_BLOCK);
    assert_string_equal(found[1].rule, "b");
    assert_int_equal(found[1].action, GB_SCREEN_WARN);
    actions.action[gb_screen_find(own, "c")] = GB_SCREEN_WARN;
    assert_int_equal(gb_screen_code(own, &actions, "python", "c\nb\na", 5, found), 2);
    assert_string_equal(found[1].rule, "c");
    gb_screen_free(own);
}

static void one_of_the_same_name_takes_the_place(void **state)
{
    (void)state;
    static const struct gb_screen_rule more[] = {
            {.name = "dynamic import", .language = "*", .pattern = "dlopen", .action = -1},
            {.name = "last", .language = "*", .pattern = "x", .action = -1}};
    struct gb_err err = {0};
    struct gb_screen *own = gb_screen_new(more, LEN(more), &err);
    assert_non_null(own);
    struct gb_screen_actions actions;
    struct gb_finding found[GB_FINDINGS];
    gb_screen_actions_init(own, GB_SCREEN_BLOCK, &actions);
    assert_int_equal(gb_screen_rule_count(own), LEN(ten) + 1);
    assert_int_equal(gb_screen_find(own, "dynamic import"), 6);
    assert_int_equal(gb_screen_find(own, "last"), LEN(ten));
    assert_int_equal(gb_screen_code(own, &actions, "python", "dlopen", 6, found), 1);
    struct gb_buf text = {.max = 1 << 16};
    assert_true(gb_screen_python_text(own, &actions, NULL, &text));
    assert_null(memmem(text.data, text.len, "__import__", 10));
    gb_buf_done(&text);
    gb_screen_free(own);
}

static void refuses_bad_rules_by_name(void **state)
{
    (void)state;
    static const char *const call[] = {"os.system", NULL}, *const broken[] = {"a\nB open", NULL};
    const struct {
        struct gb_screen_rule rule;
        const char *says;
    } rows[] = {
            {{.name = "bad", .pattern = "a(b"},
             "screening rule 'bad': pattern: missing closing parenthesis (at offset 3)"},
            {{.name = "bad", .pattern = "[z-a]"}, "screening rule 'bad': pattern: "},
            {{.name = "bad", .pattern = "(*UTF)x"}, "screening rule 'bad': pattern: "},
            {{.name = "bad"}, "screening rule 'bad': has no pattern, calls or imports"},
            {{.name = "", .pattern = "a"}, "a screening rule has no name"},
            {{.name = "bad", .language = "node", .calls = call},
             "screening rule 'bad': calls and imports are for python, not for 'node'"},
            {{.name = "bad", .language = "python", .calls = broken}, "screening rule 'bad': calls: 'a"},
            {{.name = "bad", .language = "python", .imports = broken}, "screening rule 'bad': imports: 'a"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_err err = {0};
        assert_null(gb_screen_new(&rows[i].rule, 1, &err));
        assert_int_equal(err.code, GB_ERR_CONFIG);
        if (strncmp(err.text, rows[i].says, strlen(rows[i].says)) != 0)
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void there_is_room_for_so_many(void **state)
{
    (void)state;
    static char names[GB_SCREEN_RULES + 1][8];
    struct gb_screen_rule more[GB_SCREEN_RULES + 1];
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(more); i++) {
        snprintf(names[i], sizeof(names[i]), "r%zu", i);
        more[i] = (struct gb_screen_rule){.name = names[i], .language = "*", .pattern = "x", .action = -1};
    }
    struct gb_err err = {0};
    struct gb_screen *own = gb_screen_new(more, GB_SCREEN_RULES - LEN(ten), &err);
    assert_non_null(own);
    assert_int_equal(gb_screen_code(own, &block, NULL, "x/etc/", 6, found), GB_SCREEN_RULES - LEN(ten) + 1);
    gb_screen_free(own);
    assert_null(gb_screen_new(more, GB_SCREEN_RULES - LEN(ten) + 1, &err));
    assert_string_equal(err.text, "screening: there are more than 64 rules");
}

static void code_is_bytes(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    static const char code[] = "\0\xff\n\0/proc/";
    assert_int_equal(gb_screen_code(screen, &block, "sh", code, sizeof(code) - 1, found), 1);
    assert_int_equal(found[0].line, 2);
    assert_int_equal(gb_screen_code(screen, &block, "sh", code, sizeof(code) - 2, found), 0);
    assert_int_equal(gb_screen_code(screen, &block, "sh", code, 0, found), 0);
}

/* A match can begin and end anywhere, whatever the pieces in which the search is made. */
static void finds_at_every_offset(void **state)
{
    (void)state;
    static const struct gb_screen_rule rule = {
            .name = "r", .language = "*", .pattern = "(?<=b)c{3}\\z|^x", .action = -1};
    struct gb_err err = {0};
    struct gb_screen *own = gb_screen_new(&rule, 1, &err);
    struct gb_finding found[GB_FINDINGS];
    char code[700];
    assert_non_null(own);
    for (size_t len = 4; len < sizeof(code); len++) {
        memset(code, 'a', sizeof(code));
        memcpy(code + len - 4, "bccc", 4);
        assert_int_equal(gb_screen_code(own, &block, "sh", code, len, found), 1);
        assert_int_equal(gb_screen_code(own, &block, "sh", code, len - 1, found), 0);
    }
    code[256] = 'x'; /* ^ is the beginning of the text, not of a piece */
    assert_int_equal(gb_screen_code(own, &block, "sh", code, 600, found), 0);
    gb_screen_free(own);
}

static void fill_with(char *code, size_t size, const char *piece)
{
    for (size_t at = 0; at < size; at++)
        code[at] = piece[at % strlen(piece)];
}

/* Each piece is the worst for the pattern; quadratic time would take hours. */
static void is_linear(void **state)
{
    (void)state;
    static const char *const pieces[] = {"/", "/et", "/etc", "etc/", "/proc", "/sys"};
    const size_t size = 10 << 20;
    char *code = malloc(size);
    assert_non_null(code);
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(pieces); i++) {
        fill_with(code, size, pieces[i]);
        code[size - 1] = '.';
        size_t n = gb_screen_code(screen, &block, "sh", code, size, found);
        assert_int_equal(n, strchr(pieces[i] + 1, '/') || strlen(pieces[i]) < 4 ? n : 1);
        assert_true(n <= 1);
    }
    free(code);
}

/* A pattern of the operator that takes too long on this text: that is a finding, and soon. */
static void what_takes_too_long_is_a_finding(void **state)
{
    (void)state;
    static const struct gb_screen_rule rules[] = {
            {.name = "square", .language = "*", .pattern = "a[^b]*(?:b|d)", .action = -1},
            {.name = "power", .language = "*", .pattern = "(a+)+$", .action = -1},
            {.name = "fine", .language = "*", .pattern = "a{5}c", .action = -1},
    };
    struct gb_err err = {0};
    struct gb_screen *own = gb_screen_new(rules, LEN(rules), &err);
    const size_t size = 1 << 20;
    char *code = malloc(size);
    struct gb_finding found[GB_FINDINGS];
    assert_non_null(own);
    assert_non_null(code);
    memset(code, 'a', size);
    code[size - 1] = 'c';
    assert_int_equal(gb_screen_code(own, &block, "sh", code, size, found), 3);
    assert_string_equal(found[0].reason, "cannot be decided: the pattern takes too long on this text");
    assert_string_equal(found[1].reason, "cannot be decided: the pattern takes too long on this text");
    assert_string_equal(found[2].reason, "matches the pattern");
    free(code);
    gb_screen_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(has_the_seeds_names_in_their_order),
            cmocka_unit_test(has_no_patterns_for_python),
            cmocka_unit_test(other_languages_have_patterns),
            cmocka_unit_test(actions_are_by_rule),
            cmocka_unit_test(one_of_the_same_name_takes_the_place),
            cmocka_unit_test(refuses_bad_rules_by_name),
            cmocka_unit_test(there_is_room_for_so_many),
            cmocka_unit_test(code_is_bytes),
            cmocka_unit_test(finds_at_every_offset),
            cmocka_unit_test(is_linear),
            cmocka_unit_test(what_takes_too_long_is_a_finding),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
