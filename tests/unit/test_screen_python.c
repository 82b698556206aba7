/* What goes into a box for Python, what must not, and the report that comes out. */
#include "unit.h"

#include "screen/screen.h"
#include "wire/payload.h"

static struct gb_screen *screen;
static struct gb_screen_actions block, warn, off;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    screen = gb_screen_new(NULL, 0, &err);
    if (!screen)
        return -1;
    gb_screen_actions_init(screen, GB_SCREEN_BLOCK, &block);
    gb_screen_actions_init(screen, GB_SCREEN_WARN, &warn);
    gb_screen_actions_init(screen, GB_SCREEN_OFF, &off);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gb_screen_free(screen);
    return 0;
}

/* --- what the start-up code is told --- */

static void tells_only_what_there_is(void **state)
{
    (void)state;
    static const char *const modules[] = {"math", "xml.etree", "a b", "c\nB len"}, *const builtins[] = {
                                                                                           "open"};
    struct gb_buf text = {.max = 1 << 16};
    struct gb_screen_python level = {0};
    assert_false(gb_screen_python_text(screen, &off, &level, &text));
    assert_false(gb_screen_python_text(screen, &off, NULL, &text));
    assert_int_equal(text.len, 0);
    level = (struct gb_screen_python){.limits_modules = true};
    assert_true(gb_screen_python_text(screen, &off, &level, &text));
    assert_int_equal(text.len, 2);
    assert_memory_equal(text.data, "M\n", 2); /* nothing may be imported */
    text.len = 0;
    level = (struct gb_screen_python){true, modules, LEN(modules), builtins, LEN(builtins)};
    struct gb_screen_actions one = off;
    one.action[2] = GB_SCREEN_WARN;
    assert_true(gb_screen_python_text(screen, &one, &level, &text));
    static const char wanted[] = "R 2 warn\nC shutil.rmtree shutil.move\nM math xml.etree\nB open\n";
    assert_int_equal(text.len, sizeof(wanted) - 1);
    assert_memory_equal(text.data, wanted, sizeof(wanted) - 1);
    gb_buf_done(&text);
}

static void files_make_a_payload(void **state)
{
    (void)state;
    static struct gb_payload p;
    struct gb_err err = {0};
    struct gb_buf text = {.max = 1 << 16}, payload = {.max = 1 << 22};
    assert_true(gb_screen_python_text(screen, &block, NULL, &text));
    gb_payload_add_text(&payload, GB_ITEM_ARG, "python3");
    gb_screen_python_env(&payload);
    gb_screen_python_files(&text, "print(1)", 8, &payload);
    assert_int_equal(gb_payload_read(payload.data, payload.len, &p, &err), 0);
    assert_int_equal(p.envc, 2);
    assert_int_equal(p.file_count, 2);
    /* What the launcher adds. */
    gb_python_start_files(&p.files[p.file_count]);
    assert_string_equal(p.files[2].name, ".glovebox/sitecustomize.py");
    assert_memory_equal(p.files[3].name, ".glovebox/__pycache__/sitecustomize.", 36);
    p.file_count += GB_PYTHON_START_FILES;
    for (size_t i = 0; i < p.file_count; i++) {
        assert_memory_equal(p.files[i].name, ".glovebox/", 10);
        assert_false(gb_screen_file_is_safe(p.files[i].name));
        assert_true(p.files[i].len > 0);
    }
    for (size_t i = 0; i < p.envc; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(p.env[i], "="), p.env[i]);
        assert_false(gb_screen_env_is_safe(name));
    }
    assert_int_equal(p.files[0].len, 8);
    assert_memory_equal(p.files[0].data, "print(1)", 8);
    gb_buf_done(&text);
    gb_buf_done(&payload);
}

/* --- what must not come along --- */

static void knows_what_would_run_before(void **state)
{
    (void)state;
    static const char *const unsafe[] = {"LD_PRELOAD",
                                         "LD_LIBRARY_PATH",
                                         "LD_AUDIT",
                                         "LD_",
                                         "PYTHONPATH",
                                         "PYTHONHOME",
                                         "PYTHONSTARTUP",
                                         "PYTHONINSPECT",
                                         "PYTHONUSERBASE",
                                         "PYTHONVERBOSE",
                                         "PYTHONPROFILEIMPORTTIME",
                                         "PYTHONMALLOCSTATS",
                                         "PYTHONDUMPREFS",
                                         "PYTHONWARNINGS",
                                         "PYTHONPLATLIBDIR",
                                         "PYTHONEXECUTABLE",
                                         "PYTHONDEBUG",
                                         "PYTHON_FROZEN_MODULES",
                                         "PYTHON",
                                         "PYTHONNEW",
                                         "PATH",
                                         "GLIBC_TUNABLES",
                                         "GCONV_PATH",
                                         "LOCPATH",
                                         "PYTHONPYCACHEPREFIX",
                                         "PYTHONBREAKPOINT",
                                         "PYTHONDEVMODE",
                                         "PYTHONFAULTHANDLER",
                                         "PYTHONMALLOC",
                                         "PYTHONSAFEPATH",
                                         "PYTHONTRACEMALLOC",
                                         "PYTHONASYNCIODEBUG",
                                         "PYTHONCOERCECLOCALE",
                                         "PYTHONWARNDEFAULTENCODING",
                                         "PYTHONINTMAXSTRDIGITS",
                                         "PYTHONNODEBUGRANGES",
                                         "PYTHONCASEOK",
                                         "PYTHONUTF8X",
                                         "MALLOC_CHECK_",
                                         "MALLOC_TRACE",
                                         "GLIBC_X",
                                         "NLSPATH",
                                         "TZDIR",
                                         "HOSTALIASES",
                                         "BASH_ENV",
                                         "BASHOPTS",
                                         "ENV",
                                         "PS4",
                                         "SHELLOPTS",
                                         "OPENSSL_CONF",
                                         "OPENSSL_MODULES",
                                         "OPENSSL_ENGINES",
                                         "SSLKEYLOGFILE",
                                         "CURL_HOME",
                                         "XDG_CONFIG_HOME",
                                         "KRB5_CONFIG",
                                         "SASL_PATH",
                                         "NODE_OPTIONS",
                                         "NODE_PATH",
                                         "PERL5OPT",
                                         "PERL5LIB",
                                         "RUBYOPT",
                                         "JAVA_TOOL_OPTIONS",
                                         "TAR_OPTIONS",
                                         "GIT_SSH_COMMAND",
                                         "PAGER"};
    static const char *const safe[] = {"HOME",
                                       "LANG",
                                       "TZ",
                                       "A",
                                       "",
                                       "LDFLAGS",
                                       "MYPATH",
                                       "PATHS",
                                       "PYTHO",
                                       "LC_ALL",
                                       "LC_CTYPE",
                                       "LANGUAGE",
                                       "TMPDIR",
                                       "USER",
                                       "ENVIRONMENT",
                                       "PS1",
                                       "CURL_CA_BUNDLE",
                                       "SSL_CERT_FILE",
                                       "XDG_CACHE_HOME",
                                       "http_proxy",
                                       "PAGERS",
                                       "PYTHONNOUSERSITE",
                                       "PYTHONUNBUFFERED",
                                       "PYTHONHASHSEED",
                                       "PYTHONIOENCODING",
                                       "PYTHONUTF8",
                                       "PYTHONDONTWRITEBYTECODE",
                                       "PYTHONOPTIMIZE"};
    for (size_t i = 0; i < LEN(unsafe); i++)
        if (gb_screen_env_is_safe(unsafe[i]))
            fail_msg("%s is not safe", unsafe[i]);
    for (size_t i = 0; i < LEN(safe); i++)
        if (!gb_screen_env_is_safe(safe[i]))
            fail_msg("%s is safe", safe[i]);
}

static void knows_whose_files_are_whose(void **state)
{
    (void)state;
    static const char *const ours[] = {"main.py",
                                       ".glovebox",
                                       ".glovebox/x",
                                       ".glovebox/encodings/__init__.py",
                                       "main.py/__main__.py",
                                       ".curlrc",
                                       "x/.curlrc",
                                       ".config/curlrc",
                                       "_curlrc"};
    static const char *const theirs[] = {"a",        "main.pyc",   "x/main.py",     ".gloveboxes",
                                         ".glovebo", "glovebox/x", "x/.glovebox/y", ".GLOVEBOX/x",
                                         "main.py2", "curlrc.txt", "xcurlrc"};
    for (size_t i = 0; i < LEN(ours); i++)
        assert_false(gb_screen_file_is_safe(ours[i]));
    for (size_t i = 0; i < LEN(theirs); i++)
        assert_true(gb_screen_file_is_safe(theirs[i]));
}

/* --- the report --- */

static enum gb_report_state read_report(const struct gb_screen_actions *actions, const char *data, size_t len,
                                        bool end, size_t *used, struct gb_finding *found, size_t *count,
                                        bool *blocked)
{
    /* In memory of its own, so that a sanitizer sees a byte too many. */
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    enum gb_report_state s = gb_screen_report(screen, actions, copy, len, end, used, found, count, blocked);
    free(copy);
    return s;
}

#define MARK GB_SCREEN_REPORT
#define TWO                                                                                                  \
    "{\"blocked\":true,\"findings\":[{\"rule\":1,\"line\":3,\"reason\":\"calls os.system\"},"                \
    "{\"rule\":9,\"line\":70000,\"reason\":\"names /etc/x\"}]}"

static void split_at_every_byte(void **state)
{
    (void)state;
    static const char all[] = MARK TWO "\nand more\n";
    const size_t whole = sizeof(MARK TWO); /* with the newline, without the NUL */
    struct gb_finding found[GB_FINDINGS];
    for (size_t len = 0; len < sizeof(all); len++) {
        size_t used = 99, count = 0;
        bool blocked = false;
        enum gb_report_state s = read_report(&block, all, len, false, &used, found, &count, &blocked);
        if (len < whole) {
            assert_int_equal(s, GB_REPORT_OPEN);
            assert_int_equal(count, 0);
            continue;
        }
        assert_int_equal(s, GB_REPORT_DONE);
        assert_int_equal(used, whole);
        assert_true(blocked);
        assert_int_equal(count, 2);
        assert_string_equal(found[0].rule, "OS command execution");
        assert_string_equal(found[0].reason, "calls os.system");
        assert_int_equal(found[0].line, 3);
        assert_int_equal(found[0].action, GB_SCREEN_BLOCK);
        assert_non_null(found[0].hint);
        assert_string_equal(found[1].rule, "system file access");
        assert_int_equal(found[1].line, 70000);
    }
}

static void is_appended_once(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS] = {{.rule = "system file access", .line = 7}};
    size_t used, count = 1;
    bool blocked;
    assert_int_equal(
            read_report(&block, MARK TWO "\n", sizeof(MARK TWO), true, &used, found, &count, &blocked),
            GB_REPORT_DONE);
    assert_int_equal(count, 2);
    assert_int_equal(found[0].line, 7);
    assert_string_equal(found[1].rule, "OS command execution");
    for (count = 0; count < GB_FINDINGS; count++)
        found[count] = (struct gb_finding){.rule = "full"};
    assert_int_equal(
            read_report(&block, MARK TWO "\n", sizeof(MARK TWO), true, &used, found, &count, &blocked),
            GB_REPORT_DONE);
    assert_int_equal(count, GB_FINDINGS);
    assert_true(blocked);
}

static void none_is_none(void **state)
{
    (void)state;
    static const char *const rows[] = {"",
                                       "x",
                                       "\n",
                                       "\x1e",
                                       "\x1eglovebox-screeN ",
                                       "glovebox-screen {}\n",
                                       "\x1eglovebox-screen",
                                       "Fatal Python error: x\n"};
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(rows); i++) {
        size_t used = 5, count = 0;
        bool blocked = true;
        assert_int_equal(read_report(&block, rows[i], strlen(rows[i]), true, &used, found, &count, &blocked),
                         GB_REPORT_NONE);
        assert_int_equal(used, 0);
        assert_int_equal(count, 0);
        assert_false(blocked);
    }
    size_t used, count = 0;
    bool blocked;
    assert_int_equal(read_report(&block, "Trace", 5, false, &used, found, &count, &blocked), GB_REPORT_OPEN);
    assert_int_equal(gb_screen_report(screen, &block, NULL, 0, false, &used, found, &count, &blocked),
                     GB_REPORT_OPEN);
    assert_int_equal(gb_screen_report(screen, &block, NULL, 0, true, &used, found, &count, &blocked),
                     GB_REPORT_NONE);
}

/* Whatever comes before it: the report counts, and that it was not the first thing counts, too. */
static void is_found_behind_other_text(void **state)
{
    (void)state;
    static const char *const before[] = {"x",
                                         "\n",
                                         "Python detected LC_CTYPE=C\n",
                                         "\x1e",
                                         "\x1eglovebox-screen",
                                         "\x1eglovebox-screen\n"};
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(before); i++) {
        char text[512];
        const size_t len = (size_t)snprintf(text, sizeof(text), "%s" MARK TWO "\nrest", before[i]);
        for (size_t cut = 0; cut <= len; cut++) {
            size_t used = 0, count = 0;
            bool blocked = false;
            enum gb_report_state s = read_report(&warn, text, cut, false, &used, found, &count, &blocked);
            assert_int_equal(s, cut < len - 4 ? GB_REPORT_OPEN : GB_REPORT_DONE);
            if (s == GB_REPORT_OPEN)
                continue;
            assert_int_equal(used, len - 4);
            assert_true(blocked);
        }
        size_t used = 0, count = 0;
        bool blocked = false;
        read_report(&block, text, len, false, &used, found, &count, &blocked);
        assert_true(blocked);
        assert_int_equal(count, 3);
        assert_string_equal(found[0].rule, "OS command execution");
        assert_string_equal(found[1].rule, "system file access");
        assert_string_equal(found[2].rule, "screening");
        assert_int_equal(found[2].action, GB_SCREEN_BLOCK);
    }
}

/* It cannot be pushed out of sight, either. */
static void does_not_come_late(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    const size_t size = GB_SCREEN_REPORT_MOST + 64;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    for (size_t len = GB_SCREEN_REPORT_MOST - 1; len <= size; len++)
        for (int end = 0; end < 2; end++) {
            size_t used = 0, count = 0;
            bool blocked = false;
            enum gb_report_state s = read_report(&warn, text, len, end, &used, found, &count, &blocked);
            const bool late = len >= GB_SCREEN_REPORT_MOST;
            assert_int_equal(s, late ? GB_REPORT_DONE : end ? GB_REPORT_NONE : GB_REPORT_OPEN);
            assert_int_equal(blocked, late);
            assert_int_equal(count, late);
        }
    free(text);
}

#define ONE(rule, line, reason) "{\"rule\":" rule ",\"line\":" line ",\"reason\":" reason "}"
#define WITH(blocked, findings) "{\"blocked\":" blocked ",\"findings\":[" findings "]}"

/* What cannot be read is a finding that blocks: nobody knows what ran. */
static void unreadable_counts_as_blocked(void **state)
{
    (void)state;
    static const char *const rows[] = {
            "",
            " ",
            "{}",
            "[]",
            "null",
            "{",
            TWO "x",
            WITH("true", ""),
            WITH("1", ""),
            WITH("null", ""),
            "{\"blocked\":false}",
            "{\"findings\":[]}",
            "{\"blocked\":false,\"findings\":{}}",
            "{\"blocked\":false,\"findings\":[],\"more\":1}",
            "{\"blocked\":false,\"blocked\":false,\"findings\":[]}",
            WITH("true", ONE("10", "1", "\"x\"")),
            WITH("true", ONE("-1", "1", "\"x\"")),
            WITH("true", ONE("99999999999", "1", "\"x\"")),
            WITH("true", ONE("1.0", "1", "\"x\"")),
            WITH("true", ONE("\"OS command execution\"", "1", "\"x\"")),
            WITH("true", ONE("1", "0", "\"x\"")),
            WITH("true", ONE("1", "-1", "\"x\"")),
            WITH("true", ONE("1", "4294967297", "\"x\"")),
            WITH("true", ONE("1", "1", "\"\"")),
            WITH("true", ONE("1", "1", "1")),
            WITH("true", ONE("1", "1", "\"\xff\"")),
            WITH("true", "{\"rule\":1,\"line\":1}"),
            WITH("true", "1"),
            WITH("true", "null"),
            WITH("true", "{\"rule\":1,\"line\":1,\"reason\":\"x\",\"y\":1}"),
            WITH("false", ONE("1", "1", "\"x\"")), /* it blocks, and yet the script ran? */
    };
    struct gb_finding found[GB_FINDINGS];
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[512];
        int len = snprintf(text, sizeof(text), MARK "%s\nrest", rows[i]);
        size_t used = 0, count = 0;
        bool blocked = false;
        assert_int_equal(read_report(&block, text, (size_t)len, false, &used, found, &count, &blocked),
                         GB_REPORT_DONE);
        if (!blocked || count != 1 || strcmp(found[0].rule, "screening") != 0 ||
            found[0].action != GB_SCREEN_BLOCK)
            fail_msg("row %zu was taken: %s", i, rows[i]);
        assert_int_equal(used, (size_t)len - 4);
    }
}

static void cut_off_counts_as_blocked(void **state)
{
    (void)state;
    static const char all[] = MARK TWO;
    struct gb_finding found[GB_FINDINGS];
    for (size_t len = sizeof(MARK) - 1; len < sizeof(all); len++) {
        size_t used, count = 0;
        bool blocked = false;
        assert_int_equal(read_report(&block, all, len, true, &used, found, &count, &blocked), GB_REPORT_DONE);
        assert_true(blocked);
        assert_int_equal(used, len);
        assert_int_equal(count, 1);
    }
}

static void too_long_counts_as_blocked(void **state)
{
    (void)state;
    struct gb_finding found[GB_FINDINGS];
    const size_t size = GB_SCREEN_REPORT_MOST + 64;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, MARK, sizeof(MARK) - 1);
    memcpy(text + size - sizeof(WITH("false", "")), WITH("false", "") "\n", sizeof(WITH("false", "")));
    for (size_t len = GB_SCREEN_REPORT_MOST - 1; len <= size; len++) {
        size_t used, count = 0;
        bool blocked = false;
        enum gb_report_state s = read_report(&block, text, len, false, &used, found, &count, &blocked);
        assert_int_equal(s, len < GB_SCREEN_REPORT_MOST ? GB_REPORT_OPEN : GB_REPORT_DONE);
        assert_int_equal(blocked, len >= GB_SCREEN_REPORT_MOST);
    }
    free(text);
}

static void warnings_do_not_block(void **state)
{
    (void)state;
    static const char text[] = MARK WITH("false", ONE("1", "2", "\"x\"")) "\n";
    struct gb_finding found[GB_FINDINGS];
    size_t used, count = 0;
    bool blocked = true;
    assert_int_equal(read_report(&warn, text, sizeof(text) - 1, false, &used, found, &count, &blocked),
                     GB_REPORT_DONE);
    assert_false(blocked);
    assert_int_equal(count, 1);
    assert_int_equal(found[0].action, GB_SCREEN_WARN);
    count = 0; /* a rule that is off was not asked about */
    assert_int_equal(read_report(&off, text, sizeof(text) - 1, false, &used, found, &count, &blocked),
                     GB_REPORT_DONE);
    assert_true(blocked);
}

static void reasons_fit_and_are_harmless(void **state)
{
    (void)state;
    char many[201] = "", text[512];
    for (size_t i = 0; i < 100; i++)
        memcpy(many + 2 * i, "é", 3);
    snprintf(text, sizeof(text), MARK WITH("true", ONE("1", "1", "\"\\u001b[31m\\u202e%s\"")) "\n", many);
    struct gb_finding found[GB_FINDINGS];
    size_t used, count = 0;
    bool blocked;
    assert_int_equal(read_report(&block, text, strlen(text), false, &used, found, &count, &blocked),
                     GB_REPORT_DONE);
    assert_int_equal(count, 1);
    assert_string_equal(found[0].rule, "OS command execution");
    const size_t len = strlen(found[0].reason);
    assert_true(len >= sizeof(found[0].reason) - 4 && len < sizeof(found[0].reason));
    assert_null(strchr(found[0].reason, '\x1b'));
    assert_null(strstr(found[0].reason, "\u202e"));
    assert_memory_equal(found[0].reason + len - 2, "é", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(tells_only_what_there_is),
            cmocka_unit_test(files_make_a_payload),
            cmocka_unit_test(knows_what_would_run_before),
            cmocka_unit_test(knows_whose_files_are_whose),
            cmocka_unit_test(split_at_every_byte),
            cmocka_unit_test(is_appended_once),
            cmocka_unit_test(none_is_none),
            cmocka_unit_test(is_found_behind_other_text),
            cmocka_unit_test(does_not_come_late),
            cmocka_unit_test(unreadable_counts_as_blocked),
            cmocka_unit_test(cut_off_counts_as_blocked),
            cmocka_unit_test(too_long_counts_as_blocked),
            cmocka_unit_test(warnings_do_not_block),
            cmocka_unit_test(reasons_fit_and_are_harmless),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
