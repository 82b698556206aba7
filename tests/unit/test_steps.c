#include "unit.h"

#include "base/text.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <sched.h>

static void rows_make_sense(void **state)
{
    (void)state;
    uint64_t flags = 0;
    assert_true(gb_step_count >= 25);
    for (unsigned i = 0; i < gb_step_count; i++) {
        const struct gb_step *s = &gb_steps[i];
        assert_true(*s->name && *s->layer && *s->since && *s->why && s->remedy);
        assert_true(strlen(s->name) < sizeof(((struct gb_err *)0)->step));
        assert_null(strpbrk(s->name, ", +\t")); /* names stand in comma lists and in "a+b" of the probes */
        assert_true(s->since[0] >= '2' && s->since[0] <= '9');
        assert_string_equal(gb_step_name(i), s->name);
        if (s->side == GB_SIDE_CLONE) {
            assert_true(s->clone_flag != 0 && !(flags & s->clone_flag));
            assert_null(s->apply);
            assert_false(s->may_degrade);
            flags |= s->clone_flag;
        } else {
            assert_true(s->clone_flag == 0);
            assert_non_null(s->apply);
        }
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(s->name, gb_steps[k].name);
    }
    /* The network's is made by the step ns-net. */
    assert_true(flags == (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS));
    assert_string_equal(gb_step_name(gb_step_count), "?");
}

static unsigned at(const char *name)
{
    for (unsigned i = 0; i < gb_step_count; i++)
        if (!strcmp(gb_steps[i].name, name))
            return i;
    fail_msg("there is no step '%s'", name);
    return 0;
}

/* Orders that the safety of a box hangs on. */
static void order(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
            {"uid", "idmap"},
            {"cgroup", "cgroup-join"},
            {"cgroup-join", "files"},
            {"ns-net", "capabilities"},
            {"mount-private", "root"},
            {"root", "pivot"},
            {"files", "pivot"},
            {"proc", "pivot"},
            {"pivot", "read-only"},
            {"no-nested-userns", "capabilities"},
            {"no-new-privs", "capabilities"},
            {"no-new-privs", "landlock"},
            {"no-new-privs", "seccomp"},
            {"capabilities", "seccomp"},
            {"rlimits", "seccomp"},
            {"landlock", "seccomp"},
            {"descriptors", "seccomp"},
            {"ns-cgroup", "capabilities"},
            {"cgroup-join", "ns-cgroup"},
    };
    for (size_t i = 0; i < LEN(pairs); i++)
        if (at(pairs[i][0]) >= at(pairs[i][1]))
            fail_msg("%s must come before %s", pairs[i][0], pairs[i][1]);
    assert_int_equal(at("seccomp"), gb_step_count - 1);
}

/* What must never be left out, whatever the operator says. */
static void required(void **state)
{
    (void)state;
    static const char *const names[] = {"ns-user",      "ns-mount",     "ns-pid",      "ns-net",
                                        "ns-ipc",       "idmap",        "identity",    "root",
                                        "scratch",      "proc",         "dev",         "pivot",
                                        "read-only",    "rlimits",      "process",     "seccomp",
                                        "capabilities", "no-new-privs", "descriptors", "die-with-parent"};
    for (size_t i = 0; i < LEN(names); i++) {
        assert_false(gb_steps[at(names[i])].may_degrade);
        assert_int_equal(gb_steps_check_degraded(names[i], NULL), -EINVAL);
    }
}

static void check_degraded(void **state)
{
    (void)state;
    struct gb_err err = {0};
    char all[512] = "";
    for (unsigned i = 0; i < gb_step_count; i++)
        if (gb_steps[i].may_degrade) {
            assert_int_equal(gb_steps_check_degraded(gb_steps[i].name, &err), 0);
            snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? "," : "", gb_steps[i].name);
        }
    assert_true(*all);
    assert_int_equal(gb_steps_check_degraded(all, &err), 0);
    assert_int_equal(gb_steps_check_degraded("", &err), 0);
    static const char *const bad[] = {"nonsense",
                                      "landlock,seccomp",
                                      "seccomp,landlock",
                                      ",",
                                      ",landlock",
                                      "landlock ",
                                      "Landlock",
                                      "landloc",
                                      "all",
                                      "landlock,,cgroup",
                                      "landlockxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
    for (size_t i = 0; i < LEN(bad); i++) {
        if (gb_steps_check_degraded(bad[i], &err) != -EINVAL)
            fail_msg("'%s' taken", bad[i]);
        assert_int_equal(err.code, GB_ERR_USAGE);
        assert_non_null(strstr(err.text, all)); /* says which could be */
    }
}

static void applied(void **state)
{
    (void)state;
    uint64_t mask = (uint64_t)1 << at("landlock");
    assert_true(gb_steps_applied(mask, "landlock"));
    assert_false(gb_steps_applied(mask, "seccomp"));
    assert_false(gb_steps_applied(~(uint64_t)0, "nonsense"));
}

static void clone_flags(void **state)
{
    (void)state;
    struct gb_box box = {0};
    uint64_t flags = gb_steps_clone_flags(&box, GB_SIDE_CLONE);
    for (unsigned i = 0; i < gb_step_count; i++) {
        bool is = gb_steps[i].side == GB_SIDE_CLONE;
        assert_int_equal(is, box.receipt.applied >> i & 1);
        if (is)
            assert_true(flags & gb_steps[i].clone_flag);
    }
}

#ifdef GB_TESTING
/* The injected failure of a test build stops the run and names its step. */
static void failure_stops(void **state)
{
    (void)state;
    struct gb_spec spec = {0};
    struct gb_box box = {.spec = &spec};
    struct gb_err err = {0};
    setenv("GLOVEBOX_TEST_SKIP", "uid,idmap", 1);
    setenv("GLOVEBOX_TEST_FAIL", "cgroup", 1);
    /* on v1 beside the box, on v2 before it */
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PREPARE, &err), 0);
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PARENT, &err), -EIO);
    box.born_inside = true;
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PARENT, &err), 0);
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PREPARE, &err), -EIO);
    assert_string_equal(err.step, "cgroup");
    assert_int_equal(err.code, GB_ERR_LAYER);
    assert_ptr_equal(strstr(err.text, "cgroup: injected failure: "), err.text);
    assert_non_null(strstr(err.text, "; ")); /* and what to do about it */
    assert_true(box.receipt.applied == 0 && box.receipt.degraded == 0);

    spec.degraded = "landlock";
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PREPARE, &err), -EIO);

    /* allowed to be missing: goes on, and says so */
    spec.degraded = "landlock,cgroup";
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PREPARE, &err), 0);
    assert_true(box.receipt.degraded == (uint64_t)1 << at("cgroup"));
    assert_true(box.receipt.applied == 0);

    /* a step that is required stays required */
    spec.degraded = "uid";
    setenv("GLOVEBOX_TEST_SKIP", "", 1);
    setenv("GLOVEBOX_TEST_FAIL", "uid", 1);
    box.receipt.degraded = 0;
    assert_int_equal(gb_steps_run(&box, GB_SIDE_PARENT, &err), -EIO);
    assert_string_equal(err.step, "uid");
    assert_true(box.receipt.degraded == 0);
    unsetenv("GLOVEBOX_TEST_SKIP");
    unsetenv("GLOVEBOX_TEST_FAIL");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(rows_make_sense), cmocka_unit_test(order),   cmocka_unit_test(required),
            cmocka_unit_test(check_degraded),  cmocka_unit_test(applied), cmocka_unit_test(clone_flags),
#ifdef GB_TESTING
            cmocka_unit_test(failure_stops),
#endif
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
