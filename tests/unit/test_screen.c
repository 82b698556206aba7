#include "unit.h"

#include "screen/screen.h"

static struct gb_screen *screen;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    screen = gb_screen_new(&err);
    return screen ? 0 : -1;
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
    return gb_screen_code(screen, runtime, code, strlen(code), found);
}

/* One line of code for each rule, in the seeds' order. */
static const struct {
    const char *rule, *code;
} ten[] = {
        {"subprocess execution", "import subprocess; subprocess.run(['ls'])"},
        {"OS command execution", "import os; os.system('rm -rf /')"},
        {"filesystem modification", "shutil.rmtree('x')"},
        {"network socket access", "s = socket.create_connection(('h', 1))"},
        {"HTTP requests", "requests.post(u)"},
        {"URL access", "import urllib.request as u"},
        {"dynamic import", "__import__('os')"},
        {"dynamic code execution", "eval('1')"},
        {"file write access", "open('f', 'w')"},
        {"system file access", "f = '/etc/passwd'"},
};

static void fires_under_the_seeds_names(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(ten); i++) {
        size_t n = look("python", ten[i].code, found);
        assert_int_equal(n, 1);
        assert_string_equal(found[0].rule, ten[i].rule);
        assert_int_equal(found[0].line, 1);
    }
}

static void finds_all_in_order_with_their_lines(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    char code[2048] = "\n\n";
    for (size_t i = LEN(ten); i-- > 0;) { /* backwards, and each of them twice */
        size_t used = strlen(code);
        snprintf(code + used, sizeof(code) - used, "%s\n%s\n", ten[i].code, ten[i].code);
    }
    assert_int_equal(look("python", code, found), LEN(ten));
    for (size_t i = 0; i < LEN(ten); i++) {
        assert_string_equal(found[i].rule, ten[i].rule);
        assert_int_equal(found[i].line, 3 + 2 * (LEN(ten) - 1 - i));
    }
}

static void passes_harmless_code(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    static const char *const harmless[] = {
            "",
            "\n",
            "print(2 + 2)",
            "with open('f') as g: print(g.r())",
            "open('f',\n'w')",
            "open('w'\n)",
            "re.compile('x').match('y')",
            "subprocess.PIPE",
            "os.path.join('x')",
            "/etc",
            "etc/passwd",
            "sockets",
    };
    for (size_t i = 0; i < LEN(harmless); i++)
        assert_int_equal(look("python", harmless[i], found), strstr(harmless[i], "as g") ? 1 : 0);
}

static void rules_have_languages(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    static const char *const others[] = {"bash", "sh", "node", "ruby", NULL};
    for (size_t i = 0; i < LEN(others); i++) {
        assert_int_equal(look(others[i], "x\ncat /etc/passwd", found), 1);
        assert_string_equal(found[0].rule, "system file access");
        assert_int_equal(found[0].line, 2);
        assert_int_equal(look(others[i], "/re/.exec(line); eval(x); urllib", found), 0);
    }
}

static void code_is_bytes(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    static const char code[] = "\0\xff\n\0os.system";
    assert_int_equal(gb_screen_code(screen, "python", code, sizeof(code) - 1, found), 1);
    assert_int_equal(found[0].line, 2);
    assert_int_equal(gb_screen_code(screen, "python", code, sizeof(code) - 2, found), 0);
}

/* Each piece is the worst for some rule: many beginnings that each look far ahead. Quadratic time would take
 * hours. */
static void is_linear(void **state)
{
    (void)state;
    static const char *const pieces[] = {"open(",       "open(w",     "eval", "/et",
                                         "subprocess.", "__import__", "e",    "open("};
    const size_t size = 10 << 20;
    char *code = malloc(size);
    assert_non_null(code);
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(pieces); i++) {
        size_t len = strlen(pieces[i]);
        for (size_t at = 0; at < size; at++)
            code[at] = pieces[i][at % len];
        assert_int_equal(gb_screen_code(screen, "python", code, size, found), 0);
    }
    code[size / 2] = 'w';
    code[size - 1] = ')';
    assert_int_equal(gb_screen_code(screen, "python", code, size, found), 1);
    assert_string_equal(found[0].rule, "file write access");
    free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(fires_under_the_seeds_names),
            cmocka_unit_test(finds_all_in_order_with_their_lines),
            cmocka_unit_test(passes_harmless_code),
            cmocka_unit_test(rules_have_languages),
            cmocka_unit_test(code_is_bytes),
            cmocka_unit_test(is_linear),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
