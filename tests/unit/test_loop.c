/* The event loop: order of timers, removal from within handlers, hang-ups. */
#include "unit.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/loop.h"

#include <fcntl.h>
#include <sys/epoll.h>

static struct gb_loop *loop;
static struct gb_source a, b;
static struct gb_timer stop_timer;
static int told_a, told_b;

static void stop(struct gb_timer *timer)
{
    (void)timer;
    gb_loop_stop(loop);
}

static int setup(void **state)
{
    (void)state;
    loop = gb_loop_new();
    stop_timer = (struct gb_timer){.fire = stop};
    told_a = told_b = 0;
    return !loop;
}

static int teardown(void **state)
{
    (void)state;
    gb_loop_free(loop);
    return 0;
}

#define TIMERS 500
static struct gb_timer timers[TIMERS];
static int64_t last_us;
static int fired;

/* Each remembers when it was due; they must fire in that order, whatever the order in which they were set. */
static int64_t due[TIMERS];
static void note(struct gb_timer *timer)
{
    const int64_t mine = due[timer - timers];
    assert_true(mine >= last_us);
    assert_true(gb_clock_us() >= mine);
    last_us = mine;
    fired++;
}

static void timers_fire_in_order(void **state)
{
    (void)state;
    const int64_t start = gb_clock_us() - 1000000;
    uint32_t x = 12345;
    fired = 0;
    last_us = 0;
    for (int i = 0; i < TIMERS; i++) {
        x = x * 1664525 + 1013904223;
        timers[i] = (struct gb_timer){.fire = note};
        due[i] = start + x % 5000;
        assert_int_equal(gb_loop_at(loop, &timers[i], due[i]), 0);
    }
    for (int i = 0; i < TIMERS; i += 3) { /* a third moves, a third goes */
        due[i] = start + (i * 7919) % 5000;
        gb_loop_at(loop, &timers[i], due[i]);
    }
    int gone = 0;
    for (int i = 1; i < TIMERS; i += 3, gone++)
        gb_loop_at(loop, &timers[i], 0);
    gb_loop_at(loop, &stop_timer, start + 10000);
    assert_int_equal(gb_loop_run(loop), 0);
    assert_int_equal(fired, TIMERS - gone);
}

static void forget_other(struct gb_source *source, uint32_t events)
{
    (void)events;
    told_a += source == &a;
    told_b += source == &b;
    gb_loop_forget(loop, source == &a ? &b : &a);
    gb_loop_forget(loop, source);
}

/* Both are ready in the same round; whoever is told first removes the other, who must not be told any more.
 */
static void forgotten_is_not_told(void **state)
{
    (void)state;
    int p[2], q[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(pipe2(q, O_CLOEXEC), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_int_equal(write(q[1], "x", 1), 1);
    a = (struct gb_source){.fd = p[0], .ready = forget_other};
    b = (struct gb_source){.fd = q[0], .ready = forget_other};
    assert_int_equal(gb_loop_watch(loop, &a, EPOLLIN), 0);
    assert_int_equal(gb_loop_watch(loop, &b, EPOLLIN), 0);
    gb_loop_at(loop, &stop_timer, gb_clock_us() + 50000);
    assert_int_equal(gb_loop_run(loop), 0);
    assert_int_equal(told_a + told_b, 1);
    for (int i = 0; i < 2; i++) {
        close(p[i]);
        close(q[i]);
    }
}

static void count_hangup(struct gb_source *source, uint32_t events)
{
    told_a += (events & EPOLLHUP) != 0;
    gb_loop_forget(loop, source);
    gb_loop_stop(loop);
}

/* Watched for nothing: still told when the other side is gone. */
static void hangup_is_always_told(void **state)
{
    (void)state;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    a = (struct gb_source){.fd = p[0], .ready = count_hangup};
    assert_int_equal(gb_loop_watch(loop, &a, 0), 0);
    close(p[1]);
    gb_loop_at(loop, &stop_timer, gb_clock_us() + 5000000);
    assert_int_equal(gb_loop_run(loop), 0);
    assert_int_equal(told_a, 1);
    close(p[0]);
}

static void bad_descriptor(void **state)
{
    (void)state;
    a = (struct gb_source){.fd = 999999, .ready = count_hangup};
    assert_true(gb_loop_watch(loop, &a, EPOLLIN) < 0);
    gb_loop_forget(loop, &a); /* harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test_setup_teardown(timers_fire_in_order, setup, teardown),
            cmocka_unit_test_setup_teardown(forgotten_is_not_told, setup, teardown),
            cmocka_unit_test_setup_teardown(hangup_is_always_told, setup, teardown),
            cmocka_unit_test_setup_teardown(bad_descriptor, setup, teardown),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
