/* Which configurations a call may still name. */
#include "unit.h"

#include "broker/generation.h"
#include "policy/policy.h"
#include "wire/payload.h"

#include <fcntl.h>

#define NOW ((int64_t)1000 * 1000000)

static struct generations g;

static void add(const char *text, int64_t now_us, char ret_hash[65])
{
    const struct gb_buf b = {.data = (char *)text, .len = strlen(text)};
    struct gb_err err = {0};
    const int fd = gb_payload_seal(&b);
    assert_true(fd >= 0);
    assert_int_equal(generation_add(&g, fd, now_us, &err), 0);
    gb_policy_hash(text, strlen(text), ret_hash);
}

static void one_that_was_replaced_is_good_for_a_while(void **state)
{
    (void)state;
    char first[65], second[65];
    generation_init(&g);
    add("{\"a\": 1}", NOW, first);
    assert_true(generation_find(&g, first, NOW + 100 * GENERATION_US) >= 0); /* the newest: for ever */
    add("{\"a\": 2}", NOW + 100 * GENERATION_US, second);
    assert_true(generation_find(&g, first, NOW + 101 * GENERATION_US) >= 0);
    assert_int_equal(generation_find(&g, first, NOW + 101 * GENERATION_US + 1), -1);
    assert_true(generation_find(&g, second, NOW + 999 * GENERATION_US) >= 0);
    add("{\"a\": 1}", NOW + 200 * GENERATION_US, first); /* it came back */
    assert_true(generation_find(&g, first, NOW + 999 * GENERATION_US) >= 0);
    assert_int_equal(generation_find(&g, second, NOW + 202 * GENERATION_US), -1);
    assert_int_equal(generation_find(&g, "", NOW), -1);
}

static void the_oldest_makes_room(void **state)
{
    (void)state;
    char hash[GENERATIONS + 1][65], text[16];
    generation_init(&g);
    for (int i = 0; i <= GENERATIONS; i++) {
        snprintf(text, sizeof(text), "{\"a\": %d}", i);
        add(text, NOW, hash[i]);
    }
    assert_int_equal(generation_find(&g, hash[0], NOW), -1);
    for (int i = 1; i <= GENERATIONS; i++)
        assert_true(generation_find(&g, hash[i], NOW) >= 0);
}

static void what_could_change_is_refused(void **state)
{
    (void)state;
    struct gb_err err = {0};
    generation_init(&g);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(generation_add(&g, fd, NOW, &err) < 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(one_that_was_replaced_is_good_for_a_while),
            cmocka_unit_test(the_oldest_makes_room),
            cmocka_unit_test(what_could_change_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
