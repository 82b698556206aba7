/* The log: one line per event, whatever is in it. */
#include "unit.h"

#include "base/log.h"

static char text[16384];

/* What goes to standard error in between is in `text` afterwards. */
static int saved;
static void begin(enum gb_log_level least, enum gb_log_format format)
{
    int fd = open("log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    assert_true(fd >= 0 && saved >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    close(fd);
    gb_log_init("unit", least, format);
}

static void end(void)
{
    memset(text, 0, sizeof(text));
    assert_true(pread(STDERR_FILENO, text, sizeof(text) - 1, 0) >= 0);
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static size_t lines(void)
{
    size_t count = 0;
    for (const char *p = text; *p; p++)
        count += *p == '\n';
    return count;
}

static void json_line(void **state)
{
    (void)state;
    begin(GB_LOG_INFO, GB_LOG_JSON);
    gb_log(GB_LOG_INFO, "call", GB_S("id", "a\"b\nc\x1b[31m\xff"), GB_I("us", -5), GB_S("none", NULL));
    end();
    assert_int_equal(lines(), 1);
    assert_non_null(strstr(text, "\"level\":\"info\",\"program\":\"unit\",\"msg\":\"call\","
                                 "\"id\":\"a\\\"b\\nc\\u001b[31m\xEF\xBF\xBD\",\"us\":-5,\"none\":\"\"}"));
}

static void text_line(void **state)
{
    (void)state;
    begin(GB_LOG_INFO, GB_LOG_TEXT);
    gb_log(GB_LOG_WARN, "call", GB_S("id", "a\nb\x1b[31m"), GB_I("us", 5));
    end();
    assert_int_equal(lines(), 1);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "warn"));
    assert_non_null(strstr(text, "us=5\n"));
}

static void least_level(void **state)
{
    (void)state;
    begin(GB_LOG_WARN, GB_LOG_JSON);
    gb_log(GB_LOG_INFO, "no");
    gb_log(GB_LOG_ERROR, "yes");
    end();
    assert_int_equal(lines(), 1);
    assert_non_null(strstr(text, "\"msg\":\"yes\""));
}

/* A field of a megabyte is cut; fields that together do not fit are left out; a line is never half a line. */
static void huge(void **state)
{
    (void)state;
    static char big[1 << 20];
    memset(big, 'x', sizeof(big) - 1);
    static const enum gb_log_format formats[] = {GB_LOG_JSON, GB_LOG_TEXT};
    for (size_t i = 0; i < LEN(formats); i++) {
        begin(GB_LOG_INFO, formats[i]);
        gb_log(GB_LOG_INFO, "one", GB_S("big", big));
        gb_log(GB_LOG_INFO, "many", GB_S("a", big), GB_S("b", big), GB_S("c", big), GB_S("d", big),
               GB_S("e", big), GB_S("f", big), GB_S("g", big), GB_S("h", big), GB_S("i", big));
        end();
        assert_int_equal(lines(), 2);
        assert_true(strlen(text) < 8192);
        assert_non_null(strstr(text, "many"));
        assert_true(text[strlen(text) - 1] == '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(json_line),
            cmocka_unit_test(text_line),
            cmocka_unit_test(least_level),
            cmocka_unit_test(huge),
    };
    return cmocka_run_group_tests_name("log", tests, unit_enter_dir, unit_leave_dir);
}
