/* The arithmetic of budgets, with a clock of our own. */
#include "unit.h"

#include "front/quota.h"

#include <stdlib.h>

#define SECOND 1000000LL
#define DAY    86400LL

/* Some moment: the monotonic clock and the day have nothing to do with each other. */
static struct quota_now at(int64_t us, int64_t day)
{
    return (struct quota_now){.us = us, .day = day, .day_s = 3600};
}

static struct quota_claim claim(enum quota_kind kind, const char *name, const struct gb_budget *b)
{
    return (struct quota_claim){.kind = kind, .name = name, .budget = b};
}

static bool take(struct quota *q, struct quota_now now, const struct gb_budget *b, struct quota_refusal *why)
{
    const struct quota_claim c = claim(QUOTA_PRINCIPAL, "alice", b);
    struct quota_refusal ignored;
    return quota_take(q, &now, &c, 1, NULL, why ? why : &ignored);
}

static void done(struct quota *q, struct quota_now now, int64_t set_aside_ms, int64_t used_us)
{
    static const struct gb_budget none;
    const struct quota_claim c = claim(QUOTA_PRINCIPAL, "alice", &none);
    quota_done(q, &now, &c, 1, set_aside_ms, used_us);
}

static void without_limits_all_is_allowed(void **state)
{
    (void)state;
    struct quota *q = quota_new();
    const struct gb_budget none = {0};
    for (int i = 0; i < 10000; i++)
        assert_true(take(q, at(7 * SECOND, 3), &none, NULL));
    quota_free(q);
}

static void minute_is_a_minute(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, 1, 99999, 100000, 59999999, 12345678901};
    const struct gb_budget b = {.calls_per_minute = 3};
    struct quota_refusal why;
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        struct quota *q = quota_new();
        const int64_t t = starts[i];
        assert_true(take(q, at(t, 3), &b, NULL));
        assert_true(take(q, at(t + 10 * SECOND, 3), &b, NULL));
        assert_true(take(q, at(t + 20 * SECOND, 3), &b, NULL));
        assert_false(take(q, at(t + 20 * SECOND, 3), &b, &why));
        assert_int_equal(why.what, QUOTA_MINUTE);
        assert_int_equal(why.used, 3);
        assert_int_equal(why.limit, 3);
        assert_in_range(why.wait_s, 40, 41);
        assert_false(take(q, at(t + 60 * SECOND - 1, 3), &b, NULL));
        assert_true(take(q, at(t + 60 * SECOND + 100000, 3), &b, NULL)); /* the first is forgotten */
        assert_false(take(q, at(t + 60 * SECOND + 100000, 3), &b, &why));
        assert_in_range(why.wait_s, 10, 11);
        assert_true(take(q, at(t + 100000 * SECOND, 3), &b, NULL)); /* long after */
        quota_free(q);
    }
}

/* However calls come: in no 60 seconds are there more than allowed, and after a quiet minute there is room.
 */
static void no_window_has_too_many(void **state)
{
    (void)state;
    enum { LIMIT = 20, CALLS = 4000 };
    static int64_t taken[CALLS];
    const struct gb_budget b = {.calls_per_minute = LIMIT};
    struct quota *q = quota_new();
    int64_t t = 5 * SECOND;
    size_t count = 0;
    srandom(4);
    for (int i = 0; i < CALLS; i++) {
        t += random() % 16 ? random() % (2 * SECOND) : random() % (70 * SECOND);
        const int64_t before = count >= LIMIT ? taken[count - LIMIT] : -100 * SECOND;
        const bool good = take(q, at(t, 3), &b, NULL);
        if (good) {
            assert_true(t - before >= 60 * SECOND);
            taken[count++] = t;
        } else
            assert_true(t - before < 60 * SECOND + 100000); /* nor one too few, but for a tenth of a second */
    }
    assert_true(count > 400);
    quota_free(q);
}

static void day_begins_anew(void **state)
{
    (void)state;
    const struct gb_budget b = {.calls_per_day = 2}, more = {.calls_per_day = 3};
    struct quota_refusal why;
    struct quota *q = quota_new();
    assert_true(take(q, at(SECOND, 3), &b, NULL));
    assert_true(take(q, at(2 * SECOND, 3), &b, NULL));
    assert_false(take(q, at(3 * SECOND, 3), &b, &why));
    assert_int_equal(why.what, QUOTA_DAY);
    assert_int_equal(why.used, 2);
    assert_int_equal(why.wait_s, 3600);
    assert_true(take(q, at(4 * SECOND, 3), &more, NULL)); /* a reload: the count stays */
    assert_false(take(q, at(4 * SECOND, 3), &more, NULL));
    assert_false(take(q, at(5 * SECOND, 2), &b, NULL)); /* a clock that is set back gives no second day */
    assert_true(take(q, at(6 * SECOND, 4), &b, NULL));
    assert_true(take(q, at(6 * SECOND, 4), &b, NULL));
    assert_false(take(q, at(6 * SECOND, 4), &b, NULL));
    quota_free(q);
}

static void at_once(void **state)
{
    (void)state;
    const struct gb_budget b = {.concurrent = 2};
    struct quota_refusal why;
    struct quota *q = quota_new();
    assert_true(take(q, at(SECOND, 3), &b, NULL));
    assert_true(take(q, at(SECOND, 3), &b, NULL));
    assert_false(take(q, at(SECOND, 3), &b, &why));
    assert_int_equal(why.what, QUOTA_CONCURRENT);
    assert_int_equal(why.used, 2);
    done(q, at(2 * SECOND, 3), 0, 0);
    assert_true(take(q, at(2 * SECOND, 3), &b, NULL));
    assert_false(take(q, at(2 * SECOND, 5), &b, NULL)); /* another day changes nothing */
    quota_free(q);
}

static void all_or_none(void **state)
{
    (void)state;
    const struct gb_budget five = {.calls_per_minute = 5, .calls_per_day = 5, .concurrent = 5};
    const struct gb_budget two = {.calls_per_day = 2};
    const struct quota_claim both[] = {claim(QUOTA_PRINCIPAL, "x", &five), claim(QUOTA_TOOL, "x", &two)};
    const struct quota_now now = at(SECOND, 3);
    struct quota_refusal why;
    struct quota *q = quota_new();
    for (int i = 0; i < 2; i++)
        assert_true(quota_take(q, &now, both, 2, NULL, &why));
    for (int i = 0; i < 10; i++) {
        assert_false(quota_take(q, &now, both, 2, NULL, &why));
        assert_int_equal(why.claim, 1);
        assert_int_equal(why.what, QUOTA_DAY);
    }
    for (int i = 0; i < 3; i++) /* what was refused cost the principal nothing */
        assert_true(quota_take(q, &now, both, 1, NULL, &why));
    assert_false(quota_take(q, &now, both, 1, NULL, &why));
    quota_free(q);
}

static void cpu_is_set_aside(void **state)
{
    (void)state;
    const struct gb_budget b = {.cpu_ms_per_day = 10000}, small = {.cpu_ms_per_day = 3000};
    const struct quota_claim both[] = {claim(QUOTA_PRINCIPAL, "alice", &b), claim(QUOTA_TOOL, "t", &small)};
    const struct quota_now now = at(SECOND, 3);
    struct quota_refusal why;
    struct quota *q = quota_new();
    int64_t cpu = 2000;
    assert_true(quota_take(q, &now, both, 2, &cpu, &why));
    assert_int_equal(cpu, 2000);
    assert_true(quota_take(q, &now, both, 2, &cpu, &why)); /* narrowed by the tool's */
    assert_int_equal(cpu, 1000);
    cpu = 2000;
    assert_false(quota_take(q, &now, both, 2, &cpu, &why));
    assert_int_equal(why.what, QUOTA_CPU);
    assert_int_equal(why.claim, 1);
    assert_int_equal(why.used, 0);
    assert_int_equal(why.set_aside, 3000);
    assert_int_equal(cpu, 2000);                           /* untouched */
    assert_true(quota_take(q, &now, both, 2, NULL, &why)); /* what uses none may go on */
    quota_done(q, &now, both, 2, 0, 0);
    quota_done(q, &now, both, 2, 2000, 500001); /* rounded up: 501 ms */
    assert_true(quota_take(q, &now, both, 2, &cpu, &why));
    assert_int_equal(cpu, 1499);
    quota_done(q, &now, both, 2, 1499, 1499000);
    quota_done(q, &now, both, 2, 1000, 5000000); /* more than it might: it pays that, too */
    cpu = 1;
    assert_false(quota_take(q, &now, both, 2, &cpu, &why));
    assert_int_equal(why.used, 7000);
    assert_true(quota_take(q, &now, both, 1, &cpu, &why)); /* the principal has 3 seconds left */
    cpu = 99999;
    assert_true(quota_take(q, &now, both, 1, &cpu, &why));
    assert_int_equal(cpu, 2999);
    const struct quota_now next = at(2 * SECOND, 4);
    cpu = 99999;
    assert_true(quota_take(q, &next, both, 1, &cpu, &why)); /* a new day, but two are still under way */
    assert_int_equal(cpu, 10000 - 2999 - 1);
    quota_free(q);
}

/* A call that waits for a person: counted, but neither under way nor with cpu time set aside. */
static void waiting_holds_nothing(void **state)
{
    (void)state;
    const struct gb_budget b = {
            .calls_per_minute = 2, .calls_per_day = 2, .concurrent = 1, .cpu_ms_per_day = 1000};
    const struct quota_claim c = claim(QUOTA_PRINCIPAL, "alice", &b);
    const struct quota_now now = at(SECOND, 3);
    struct quota_refusal why;
    struct quota *q = quota_new();
    int64_t waiting = 800, other = 700;
    assert_true(quota_take(q, &now, &c, 1, &waiting, &why));
    quota_pause(q, &c, 1, waiting);
    assert_true(quota_take(q, &now, &c, 1, &other,
                           &why)); /* the other one runs meanwhile, with all of its cpu time */
    assert_int_equal(other, 700);
    assert_false(quota_resume(q, &now, &c, 1, &waiting, &why));
    assert_int_equal(why.what, QUOTA_CONCURRENT);
    quota_done(q, &now, &c, 1, other, 700000);
    assert_true(quota_resume(q, &now, &c, 1, &waiting,
                             &why)); /* the two of the day do not refuse it: it is one of them */
    assert_int_equal(waiting, 300);
    quota_done(q, &now, &c, 1, waiting, 300000);
    assert_false(quota_take(q, &now, &c, 1, NULL, &why));
    assert_int_equal(why.what, QUOTA_MINUTE);
    quota_free(q);
}

static void undone_is_not_counted(void **state)
{
    (void)state;
    const struct gb_budget b = {.calls_per_day = 1, .concurrent = 1, .cpu_ms_per_day = 100};
    const struct quota_claim c = claim(QUOTA_PRINCIPAL, "alice", &b);
    const struct quota_now now = at(SECOND, 3), next = at(2 * SECOND, 4);
    struct quota_refusal why;
    struct quota *q = quota_new();
    int64_t cpu = 100;
    for (int i = 0; i < 3; i++) {
        assert_true(quota_take(q, &now, &c, 1, &cpu, &why));
        quota_undo(q, &c, 1, 3, cpu);
    }
    assert_true(quota_take(q, &now, &c, 1, &cpu, &why));
    quota_pause(q, &c, 1, cpu);
    assert_true(quota_take(q, &next, &c, 1, &cpu, &why));
    quota_undo(q, &c, 1, 3, cpu); /* one of yesterday gives nothing back today */
    assert_false(quota_take(q, &next, &c, 1, &cpu, &why));
    quota_free(q);
}

static void loads_what_was_used(void **state)
{
    (void)state;
    const struct gb_budget b = {.calls_per_day = 7, .cpu_ms_per_day = 100};
    const struct quota_claim c = claim(QUOTA_PRINCIPAL, "alice", &b);
    struct quota_now now = at(SECOND, 3);
    struct quota_refusal why;
    struct quota *q = quota_new();
    int64_t cpu = 1000;
    assert_true(quota_load(q, 3, QUOTA_PRINCIPAL, "alice", 2, 50000));
    assert_true(quota_load(q, 3, QUOTA_PRINCIPAL, "alice", 4, 10000));
    assert_true(quota_take(q, &now, &c, 1, &cpu, &why));
    assert_int_equal(cpu, 40);
    assert_false(quota_take(q, &now, &c, 1, NULL, &why));
    assert_int_equal(why.used, 7);
    assert_false(quota_load(q, 3, QUOTA_PRINCIPAL, "alice", INT64_MAX, 0)); /* a file that somebody changed */
    for (int i = 0; i < 100; i++)
        assert_true(quota_load(q, 3, QUOTA_PRINCIPAL, "alice", 1000000000000000000, 1000000000000000000));
    assert_false(quota_take(q, &now, &c, 1, NULL, &why));
    now = at(2 * SECOND, 4);
    assert_true(quota_take(q, &now, &c, 1, NULL, &why));
    quota_free(q);
}

/* Names of many reloads: the table stays bounded, and what is in use is never forgotten. */
static void is_bounded(void **state)
{
    (void)state;
    const struct gb_budget one = {.calls_per_day = 1, .concurrent = 1};
    struct quota_refusal why;
    struct quota *q = quota_new();
    const struct quota_now today = at(SECOND, 3), tomorrow = at(DAY * SECOND, 4);
    const struct quota_claim first = claim(QUOTA_TOOL, "first", &one);
    char name[32];
    const struct quota_claim any = claim(QUOTA_TOOL, name, &one);
    assert_true(quota_take(q, &today, &first, 1, NULL, &why));
    for (int i = 1; i < QUOTA_ACCOUNTS; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_true(quota_take(q, &today, &any, 1, NULL, &why));
        quota_done(q, &today, &any, 1, 0, 0);
    }
    snprintf(name, sizeof(name), "late");
    assert_false(quota_take(q, &today, &any, 1, NULL, &why)); /* refused, not let through uncounted */
    assert_int_equal(why.what, QUOTA_ROOM);
    assert_false(quota_load(q, 3, QUOTA_TOOL, "late", 1, 1));
    for (int i = 0; i < QUOTA_ACCOUNTS - 1; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        assert_true(quota_take(q, &tomorrow, &any, 1, NULL, &why));
        quota_done(q, &tomorrow, &any, 1, 0, 0);
    }
    assert_false(quota_take(q, &tomorrow, &first, 1, NULL, &why)); /* still under way */
    assert_int_equal(why.what, QUOTA_CONCURRENT);
    quota_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(without_limits_all_is_allowed),
            cmocka_unit_test(minute_is_a_minute),
            cmocka_unit_test(no_window_has_too_many),
            cmocka_unit_test(day_begins_anew),
            cmocka_unit_test(at_once),
            cmocka_unit_test(all_or_none),
            cmocka_unit_test(cpu_is_set_aside),
            cmocka_unit_test(waiting_holds_nothing),
            cmocka_unit_test(undone_is_not_counted),
            cmocka_unit_test(loads_what_was_used),
            cmocka_unit_test(is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
