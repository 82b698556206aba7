/* What the table of lines does not reach: templates, rules as they are loaded, and the edges of buffers.
 * Lines themselves are tested in tests/integration/test_command*.py. */
#include "unit.h"

#include "command/form.h"

#include <errno.h>

/* --- templates --- */

static const char *value(void *context, const char *name)
{
    (void)context;
    static const struct {
        const char *name, *text;
    } values[] = {{"a", "one two"},  {"b", "$(id); 'x' \"y\" \n |"}, {"empty", ""},
                  {"n.-_1", "dots"}, {"brace", "{a}{{a}}{"},         {"dash", "--option"}};
    for (size_t i = 0; i < LEN(values); i++)
        if (!strcmp(values[i].name, name))
            return values[i].text;
    return NULL;
}

/* Words joined by '/', or the text of the error. */
static void fill(const char *word, char *ret, size_t size)
{
    const char *const argv[] = {"prog", word, "end"};
    struct gb_buf out = {.max = 1 << 20};
    struct gb_err err = {0};
    size_t count = 0, n = 0;
    if (gb_command_fill(argv, LEN(argv), value, NULL, &out, &count, &err)) {
        snprintf(ret, size, "%s", err.text);
    } else {
        const char *p = out.data;
        for (size_t i = 0; i < count; i++, p += strlen(p) + 1)
            n += (size_t)snprintf(ret + n, size - n, "%s%s", i ? "/" : "", p);
        assert_ptr_equal(p, out.data + out.len);
    }
    gb_buf_done(&out);
}

static void fill_table(void **state)
{
    (void)state;
    static const struct {
        const char *word, *result;
    } rows[] = {
            {"plain", "prog/plain/end"},
            {"", "prog//end"},
            {"{a}", "prog/one two/end"},
            {"--x={a}", "prog/--x=one two/end"},
            {"{a}{b}", "prog/one two$(id); 'x' \"y\" \n |/end"},
            {"{b}", "prog/$(id); 'x' \"y\" \n |/end"},
            {"{empty}", "prog//end"},
            {"{n.-_1}", "prog/dots/end"},
            {"{brace}", "prog/{a}{{a}}{/end"}, /* what is put in is not looked at again */
            {"x{dash}", "prog/x--option/end"},
            {"{dash}", "the argument 'dash' must not begin with '-', which would make it an option"},
            {"{empty}{dash}", "the argument 'dash' must not begin with '-', which would make it an option"},
            {"{absent}", "prog/end"},
            {"x{absent}", "the argument 'absent' is missing, which 'x{absent}' needs"},
            {"{absent}x", "the argument 'absent' is missing, which '{absent}x' needs"},
            {"{absent}{absent}", "the argument 'absent' is missing, which '{absent}{absent}' needs"},
            {"{a}{absent}", "the argument 'absent' is missing, which '{a}{absent}' needs"},
            {"{{a}}", "prog/{a}/end"},
            {"{{absent}}", "prog/{absent}/end"},
            {"x{{a}}y", "prog/x{a}y/end"},
            {"{{{a}}}", "prog/{{a}}/end"},
            {"{{a}", "prog/{one two/end"},
            {"{a}}", "prog/one two}/end"},
            {"{}", "prog/{}/end"},
            {"{", "prog/{/end"},
            {"}", "prog/}/end"},
            {"{a", "prog/{a/end"},
            {"{a b}", "prog/{a b}/end"},
            {"{print $1}", "prog/{print $1}/end"},
            {"{a:b}", "prog/{a:b}/end"},
            {"{é}", "prog/{é}/end"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char result[512];
        fill(rows[i].word, result, sizeof(result));
        assert_string_equal(result, rows[i].result);
    }
}

static int fill_one(const char *program, const char *word, size_t max, size_t *count, struct gb_err *err)
{
    const char *const argv[] = {program, word};
    struct gb_buf out = {.max = max};
    int r = gb_command_fill(argv, LEN(argv), value, NULL, &out, count, err);
    gb_buf_done(&out);
    return r;
}

static const char *large(void *context, const char *name)
{
    (void)name;
    return context;
}

static void fill_refuses(void **state)
{
    (void)state;
    size_t count = 77;
    struct gb_err err = {0};
    assert_int_equal(fill_one("{a}", "x", 100, &count, &err), -EINVAL);
    assert_int_equal(err.code, GB_ERR_CONFIG);
    assert_int_equal(fill_one("x{a}", "x", 100, &count, &err), -EINVAL);
    assert_int_equal(fill_one("", "x", 100, &count, &err), -EINVAL);
    assert_int_equal(gb_command_fill(NULL, 0, value, NULL, &(struct gb_buf){.max = 1}, &count, &err),
                     -EINVAL);
    assert_int_equal(fill_one("p", "{a}", 9, &count, &err), -E2BIG);
    assert_int_equal(err.code, GB_ERR_USAGE);
    char name[128] = "{";
    memset(name + 1, 'n', 65);
    name[66] = '}';
    assert_int_equal(fill_one("p", name, 100, &count, &err), -ENAMETOOLONG);
    assert_int_equal(count, 77); /* untouched on failure */
    memcpy(name + 65, "}", 2);
    assert_int_equal(fill_one("p", name, 100, &count, &err), 0); /* 64 are a name, of nothing that is given */
    assert_int_equal(count, 1);
    assert_int_equal(fill_one("p", "{a}", 10, &count, &err), 0);
    assert_int_equal(count, 2);
}

static const char *dashed(void *context, const char *name)
{
    (void)name;
    return context;
}

static void fill_makes_no_options(void **state)
{
    (void)state;
    static const struct {
        const char *argv[4], *value;
        bool good;
    } rows[] = {
            {{"grep", "{p}", "f"}, "--file=/etc/passwd", false},
            {{"grep", "{p}", "f"}, "-", false},
            {{"grep", "{p}", "f"}, "a-b", true},
            {{"grep", "--", "{p}", "f"}, "--file=/etc/passwd", true},
            {{"head", "-n{p}", "f"}, "-5", true},
            {{"sort", "x{p}", "f"}, "-o", true},
            {{"sort", "{q}{p}", "f"}, "-o", false},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_buf out = {.max = 100};
        struct gb_err err = {0};
        size_t count = 0, words = 0;
        while (words < 4 && rows[i].argv[words])
            words++;
        const int r = gb_command_fill(rows[i].argv, words, dashed, (void *)rows[i].value, &out, &count, &err);
        if (!r != rows[i].good || (r && !strstr(err.text, "must not begin with '-'")))
            fail_msg("%s with %s: %s", rows[i].argv[1], rows[i].value, err.text);
        gb_buf_done(&out);
    }
}

static void fill_long_words(void **state)
{
    (void)state;
    const char *const argv[] = {"p", "{x}"};
    for (size_t bytes = 131070; bytes <= 131072; bytes++) {
        char *text = malloc(bytes + 1);
        struct gb_buf out = {.max = 1 << 20};
        struct gb_err err = {0};
        size_t count;
        memset(text, 'x', bytes);
        text[bytes] = '\0';
        assert_int_equal(gb_command_fill(argv, 2, large, text, &out, &count, &err),
                         bytes > 131071 ? -E2BIG : 0);
        gb_buf_done(&out);
        free(text);
    }
}

static int collect(void *context, const char *name)
{
    char *all = context;
    strcat(all, name);
    strcat(all, ",");
    return !strcmp(name, "stop") ? 5 : 0;
}

static void each_name(void **state)
{
    (void)state;
    char all[256] = "";
    assert_int_equal(gb_command_each_name("x{a}{{b}}{c d}{e}{", collect, all), 0);
    assert_string_equal(all, "a,e,");
    assert_int_equal(gb_command_each_name("{stop}{after}", collect, all), 5);
    assert_string_equal(all, "a,e,stop,");
}

/* --- rules --- */

static void rules(void **state)
{
    (void)state;
    static const struct {
        const char *allow, *block;
        int result;
    } rows[] = {
            {"ls", "rm -rf", 0},
            {"g++", ">", 0},
            {"python3.11", "x", 0},
            {"", "x", -EINVAL},
            {"-a", "x", -EINVAL},
            {"/bin/ls", "x", -EINVAL},
            {"l s", "x", -EINVAL},
            {"caf\xc3\xa9", "x", -EINVAL},
            {"ls", "", -EINVAL},
            {"ls", " \t ", -EINVAL},
            {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x", 0},
            {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x", -EINVAL},
    };
    struct gb_err err = {0};
    assert_int_equal(gb_command_rules_check(&gb_command_defaults, &err), 0);
    assert_int_equal(gb_command_defaults.allow_count, 17);
    assert_int_equal(gb_command_defaults.block_count, 15);
    for (size_t i = 0; i < LEN(rows); i++) {
        const char *allow[] = {rows[i].allow}, *block[] = {rows[i].block};
        const struct gb_command_rules r = {allow, 1, block, 1};
        assert_int_equal(gb_command_rules_check(&r, &err), rows[i].result);
        assert_true(!rows[i].result || (err.code == GB_ERR_CONFIG && *err.text));
    }
}

/* --- lines --- */

static int parse(const char *line, size_t len, struct gb_command **ret)
{
    struct gb_denial denials[GB_DENIALS];
    size_t count = 0;
    char *exact = malloc(len ? len : 1); /* no byte behind it */
    memcpy(exact, line, len);
    int r = gb_command_parse(exact, len, ret, denials, &count);
    free(exact);
    assert_int_equal(count, r ? 1 : 0);
    return r;
}

/* Every beginning of a line with everything in it is understood or refused, and nothing is read behind it. */
static void every_beginning(void **state)
{
    (void)state;
    static const char line[] =
            "ls -l 'a b' \"c\\\"d\" e\\ f 2>&1 <in >>'out' 2>err | sort && cat \xc3\xa9 || date ; wc >&2";
    size_t understood = 0;
    for (size_t len = 0; len < sizeof(line); len++) {
        AUTO_COMMAND c = NULL;
        if (!parse(line, len, &c))
            understood++;
        else
            assert_null(c);
    }
    assert_true(understood > 40);
    gb_command_free(NULL);
}

/* What does not fit into the list of denials is refused all the same. */
static void no_room_for_denials(void **state)
{
    (void)state;
    struct gb_denial denials[GB_DENIALS] = {0};
    size_t count = GB_DENIALS;
    AUTO_COMMAND c = NULL;
    assert_int_equal(gb_command_parse("ls $x", 5, &c, denials, &count), -EINVAL);
    assert_null(c);
    assert_int_equal(gb_command_parse("rm", 2, &c, denials, &count), 0);
    assert_int_equal(gb_command_check(c, &gb_command_defaults, denials, &count), -EPERM);
    assert_int_equal(count, GB_DENIALS);
}

static void no_rules(void **state)
{
    (void)state;
    const struct gb_command_rules none = {0};
    struct gb_denial denials[GB_DENIALS];
    size_t count = 0;
    AUTO_COMMAND c = NULL;
    assert_int_equal(parse("ls", 2, &c), 0);
    assert_int_equal(gb_command_check(c, &none, denials, &count), -EPERM);
    assert_string_equal(denials[0].hint, "no program is allowed");
}

/* Each refused character, and its neighbours, which are not. */
static void characters(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool hidden, alike;
    } rows[] = {
            {"a", false, false},
            {"\t", false, false},
            {"\x1f", true, true},
            {" ", false, false},
            {"~", false, false},
            {"\x7f", true, true},
            {"\xc2\x80", true, true},
            {"\xc2\x9f", true, true},
            {"\xc2\xa0", false, true},
            {"\xc2\xa1", false, false},
            {"\xe2\x80\x8a", false, true},
            {"\xe2\x80\x8b", true, true},
            {"\xe2\x80\xae", true, true},
            {"\xe2\x80\xaf", false, true},
            {"\xe2\x80\xb0", false, false},
            {"\xef\xbb\xbf", true, true},
            {"\xef\xbc\x9b", false, true},
            {"\xef\xbc\x90", false, false},
            {"\xf3\xa0\x81\x81", true, true},
            {"\xf0\x9f\x98\x80", false, false},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        const size_t n = strlen(rows[i].bytes);
        assert_int_equal(gb_command_bad_char(rows[i].bytes, n, false) != NULL, rows[i].hidden);
        assert_int_equal(gb_command_bad_char(rows[i].bytes, n, true) != NULL, rows[i].alike);
    }
    assert_non_null(gb_command_bad_char("\0", 1, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(fill_table),
            cmocka_unit_test(fill_refuses),
            cmocka_unit_test(fill_makes_no_options),
            cmocka_unit_test(fill_long_words),
            cmocka_unit_test(each_name),
            cmocka_unit_test(rules),
            cmocka_unit_test(every_beginning),
            cmocka_unit_test(no_room_for_denials),
            cmocka_unit_test(no_rules),
            cmocka_unit_test(characters),
    };
    return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
