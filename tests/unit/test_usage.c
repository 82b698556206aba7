/* The audit's sums by day: beside the chain, but in its transactions; and files of an older layout. */
#include "audit_unit.h"

#include <errno.h>
#include <time.h>

static int64_t today(void)
{
    return (int64_t)time(NULL) / 86400;
}

static int charge(struct gb_audit *a, const char *principal, const char *tool, int64_t calls, int64_t cpu_us)
{
    struct gb_err err = {0};
    const struct gb_audit_usage u = {.principal = principal, .tool = tool, .calls = calls, .cpu_us = cpu_us};
    return gb_audit_charge(a, &u, &err);
}

struct seen {
    char text[1024];
    int64_t rows;
};

static int note(void *context, const struct gb_audit_usage *u)
{
    struct seen *s = context;
    const size_t used = strlen(s->text);
    s->rows++;
    snprintf(s->text + used, sizeof(s->text) - used, "%s/%s:%lld,%lld ", u->principal, u->tool,
             (long long)u->calls, (long long)u->cpu_us);
    return 0;
}

static struct seen list(struct gb_audit *a, int64_t day, const char *principal, const char *tool,
                        int64_t most)
{
    struct seen s = {0};
    struct gb_err err = {0};
    const struct gb_audit_usage behind = {.day = day, .principal = principal, .tool = tool};
    if (gb_audit_each_usage(a, &behind, most, note, &s, &err))
        fail_msg("usage: %s", err.text);
    return s;
}

static void adds_up(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    begin(a);
    append_at(a, GB_RECORD_INTENT, "x", 0);
    assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
    append_at(a, GB_RECORD_OUTCOME, "x", 0);
    assert_int_equal(charge(a, "alice", "t", 0, 1500), 0);
    assert_int_equal(charge(a, "alice", "u", 1, 7), 0);
    assert_int_equal(charge(a, "bob", "t", 1, 0), 0);
    commit(a);
    begin(a);
    assert_int_equal(charge(a, "alice", "t", 1, 500), 0);
    commit(a);
    assert_string_equal(list(a, today(), "", "", 10).text, "alice/t:2,2000 alice/u:1,7 bob/t:1,0 ");
    assert_string_equal(list(a, today(), "alice", "t", 10).text, "alice/u:1,7 bob/t:1,0 ");
    assert_string_equal(list(a, today(), "alice", "u", 1).text, "bob/t:1,0 ");
    assert_string_equal(list(a, today() - 1, "", "", 10).text, "");
    gb_audit_close(a);
    assert_int_equal(sound(), 2); /* it is no record */
}

static void undone_with_its_record(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    assert_true(charge(a, "alice", "t", 1, 0) < 0); /* no transaction */
    begin(a);
    append_at(a, GB_RECORD_INTENT, "x", 0);
    assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
    gb_audit_rollback(a);
    assert_int_equal(list(a, today(), "", "", 10).rows, 0);
    static const struct {
        const char *principal, *tool;
        int64_t calls, cpu_us;
    } bad[] = {{"", "t", 1, 0},     {"a", "", 1, 0},   {"a", "t", 2, 0},
               {"a", "t", -1, 0},   {"a", "t", 0, -1}, {"a", "t", 0, GB_AUDIT_CPU_MOST + 1},
               {"a\xff", "t", 1, 0}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        begin(a);
        append_at(a, GB_RECORD_INTENT, "x", 0);
        assert_int_equal(charge(a, bad[i].principal, bad[i].tool, bad[i].calls, bad[i].cpu_us), -EINVAL);
        struct gb_err err = {0};
        assert_true(gb_audit_commit(a, &err) < 0); /* all of it is undone */
    }
    assert_int_equal(ask("SELECT count(*) FROM records"), 0);
    gb_audit_close(a);
}

/* Whoever may say what was used can say it as often as he likes: sums stop before they overflow. */
static void sums_do_not_overflow(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    begin(a);
    assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
    commit(a);
    gb_audit_close(a);
    tamper("UPDATE usage SET cpu_us = 999999999999999999");
    a = open_audit(true);
    begin(a);
    for (int i = 0; i < 10; i++)
        assert_int_equal(charge(a, "alice", "t", 1, GB_AUDIT_CPU_MOST), 0);
    commit(a);
    assert_string_equal(list(a, today(), "", "", 10).text, "alice/t:11,1000000000000000000 ");
    gb_audit_close(a);
}

static void changed_rows_are_named(void **state)
{
    (void)state;
    static const char *const changes[] = {"UPDATE usage SET calls = -1", "UPDATE usage SET cpu_us = -5",
                                          "UPDATE usage SET tool = ''",
                                          "UPDATE usage SET principal = printf('%.*c', 200, 'x')"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        struct gb_audit *a = open_audit(true);
        struct gb_err err = {0};
        struct seen s = {0};
        begin(a);
        assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
        commit(a);
        gb_audit_close(a);
        tamper(changes[i]);
        a = open_audit(true);
        const struct gb_audit_usage behind = {.day = today(), .principal = "", .tool = ""};
        assert_int_equal(gb_audit_each_usage(a, &behind, 10, note, &s, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "usage"));
        gb_audit_close(a);
        tamper("DELETE FROM usage");
    }
}

static void old_days_are_forgotten(void **state)
{
    (void)state;
    static const struct {
        int64_t keep_seconds, left;
    } rows[] = {{0, 6}, {400 * 86400, 6}, {90 * 86400, 5}, {7 * 86400, 3}, {86400, 2}, {1, 2}};
    struct gb_audit *a = open_audit(true);
    begin(a);
    assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
    commit(a);
    gb_audit_close(a);
    tamper("INSERT INTO usage SELECT day - value, 'alice', 't', 1, 1 FROM usage, "
           "(SELECT 1 AS value UNION SELECT 6 UNION SELECT 7 UNION SELECT 89 UNION SELECT 90) WHERE calls = "
           "1");
    a = open_audit(true);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct gb_err err = {0};
        const struct gb_msg_retention keep = {.keep_seconds = rows[i].keep_seconds};
        assert_int_equal(gb_audit_forget_usage(a, &keep, &err), 0);
        const int64_t left = ask("SELECT count(*) FROM usage");
        if (left != rows[i].left)
            fail_msg("keep %lld s: %lld days are left", (long long)keep.keep_seconds, (long long)left);
    }
    gb_audit_close(a);
}

#define OLD_LAYOUT "DROP TABLE usage; PRAGMA user_version = 1"

/* A file that an older Glovebox has made: read as it is, and brought up to date by who writes to it. */
static void older_layout_is_taken_over(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    append_calls(a, "old", 3, 0);
    gb_audit_close(a);
    tamper(OLD_LAYOUT);
    assert_int_equal(sound(), 9); /* a reader leaves it alone */
    assert_int_equal(ask("PRAGMA user_version"), 1);
    a = open_audit(true);
    append_calls(a, "new", 1, 0);
    begin(a);
    assert_int_equal(charge(a, "alice", "t", 1, 0), 0);
    commit(a);
    gb_audit_close(a);
    assert_int_equal(ask("PRAGMA user_version"), 2);
    assert_int_equal(ask("SELECT count(*) FROM usage"), 1);
    assert_int_equal(sound(), 12);
}

static void other_layouts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *says;
    } rows[] = {{"PRAGMA user_version = 1", "its tables are not those"}, /* claims to be older than it is */
                {OLD_LAYOUT "; PRAGMA user_version = 2", "its tables are not those"},
                {"PRAGMA user_version = 3", "layout 3"},
                {"PRAGMA user_version = 0", "layout 0"},
                {OLD_LAYOUT "; CREATE TABLE usage(day, principal, tool, calls, cpu_us)",
                 "its tables are not those"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct gb_audit *a = open_audit(true);
        struct gb_err err = {0};
        append_calls(a, "x", 1, 0);
        gb_audit_close(a);
        tamper(rows[i].sql);
        for (int writable = 0; writable < 2; writable++) {
            assert_int_equal(gb_audit_open(".", writable, false, &a, &err), -EBADMSG);
            if (!strstr(err.text, rows[i].says))
                fail_msg("%s: '%s'", rows[i].sql, err.text);
        }
        unlink(GB_AUDIT_FILE);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, unit_enter_dir, unit_leave_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
            TEST(adds_up),
            TEST(undone_with_its_record),
            TEST(sums_do_not_overflow),
            TEST(changed_rows_are_named),
            TEST(old_days_are_forgotten),
            TEST(older_layout_is_taken_over),
            TEST(other_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
