#include "unit.h"

#include "spec/result.h"

static const char *step_name(unsigned index)
{
    static const char *const names[] = {"zero", "one", "two"};
    return index < LEN(names) ? names[index] : "late";
}

static void exit_codes(void **state)
{
    (void)state;
    static const struct {
        enum gb_status status;
        int exit_code, signal, expect;
    } rows[] = {
            {GB_STATUS_SUCCESS, 0, 0, 0},     {GB_STATUS_ERROR, 3, 0, 3},
            {GB_STATUS_ERROR, 255, 0, 255},   {GB_STATUS_ERROR, -1, 11, 139},
            {GB_STATUS_ERROR, -1, 9, 137},    {GB_STATUS_TIMEOUT, -1, 9, 124},
            {GB_STATUS_TIMEOUT, 0, 0, 124},   {GB_STATUS_RESOURCE, -1, 9, 137},
            {GB_STATUS_BLOCKED, -1, 31, 126}, {GB_STATUS_CANCELLED, -1, 9, 130},
            {GB_STATUS_INTERNAL, -1, 0, 125},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_result r = {
                .status = rows[i].status, .exit_code = rows[i].exit_code, .signal = rows[i].signal};
        assert_int_equal(gb_result_exit_code(&r), rows[i].expect);
    }
}

static void status_names(void **state)
{
    (void)state;
    assert_string_equal(gb_status_name(GB_STATUS_SUCCESS), "success");
    assert_string_equal(gb_status_name(GB_STATUS_RESOURCE), "resource_exceeded");
    for (int a = 0; a < GB_STATUS_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(gb_status_name(a), gb_status_name(b));
    assert_string_equal(gb_status_name(GB_STATUS_COUNT), "unknown");
    assert_string_equal(gb_status_name((enum gb_status) - 1), "unknown");
}

static char *json(const struct gb_result *r)
{
    struct gb_buf out = {.max = 1 << 20};
    AUTO_BUF receipt = {.max = 1 << 20};
    gb_receipt_to_json(&r->enforced, step_name, &receipt);
    const struct gb_result_form form = {.out_key = "stdout", .err_key = "stderr", .enforced = receipt.data};
    gb_result_to_json(r, &form, &out);
    assert_false(gb_buf_truncated(&out));
    return out.data;
}

static void fill_receipt(struct gb_receipt *e)
{
    *e = (struct gb_receipt){.backend = "native",
                             .applied = 1 << 0 | 1 << 2,
                             .degraded = 1 << 1,
                             .landlock_abi = 6,
                             .cgroup_version = 2,
                             .seccomp_profile = "default",
                             .root = "system",
                             .host_uid = 200001,
                             .extra_groups = 2};
    snprintf(e->controllers, sizeof(e->controllers), "memory pids");
    snprintf(e->policy_hash, sizeof(e->policy_hash), "abc");
    gb_limits_init(&e->limits);
    e->limits.timeout_ms = 2500;
}

#define RECEIPT                                                                                              \
    "\"enforced\":{\"backend\":\"native\",\"steps\":[\"zero\",\"two\"],\"degraded\":[\"one\"],\"root\":"     \
    "\"system\",\"start\":\"cold\","                                                                         \
    "\"network\":\"host\",\"seccomp\":\"default\",\"landlock_abi\":6,\"cgroup\":{\"version\":2,"             \
    "\"controllers\":"                                                                                       \
    "\"memory pids\"},\"host_uid\":200001,\"supplementary_groups\":2,\"limits\":{\"timeout_seconds\":2.5,"   \
    "\"max_cpu_seconds\":10,\"max_cpu_percent\":100,\"max_memory_mb\":256,\"max_disk_mb\":100,\"max_pids\":" \
    "64,"                                                                                                    \
    "\"max_open_files\":256,\"max_output_bytes\":1000000},\"limits_hold_for\":\"box\",\"policy_hash\":"      \
    "\"abc\"}}\n"

static void success(void **state)
{
    (void)state;
    struct gb_result r = {.exit_code = 0, .out = {.max = 100}, .err = {.max = 100}};
    gb_buf_puts(&r.out, "4\n");
    r.usage = (struct gb_usage){.cpu_us = 12345,
                                .wall_us = 20000,
                                .memory_peak_bytes = 3 << 19,
                                .disk_bytes = 4096,
                                .pids_peak = 1,
                                .stdout_bytes = 2};
    fill_receipt(&r.enforced);
    char *text = json(&r);
    assert_string_equal(text, "{\"success\":true,\"status\":\"success\",\"exit_code\":0,\"signal\":null,"
                              "\"was_killed\":false,\"kill_reason\":null,"
                              "\"stdout\":\"4\\n\",\"stderr\":\"\",\"truncated\":false,\"execution_time_ms\":"
                              "20,\"resource_usage\":{\"cpu_ms\":12.345,"
                              "\"wall_ms\":20,\"memory_peak_mb\":1.5,\"pids_peak\":1,\"disk_bytes\":4096,"
                              "\"stdout_bytes\":2,\"stderr_bytes\":0},"
                              "\"files\":[]," RECEIPT);
    free(text);
    gb_result_done(&r);
}

static void killed_with_files(void **state)
{
    (void)state;
    struct gb_result r = {.status = GB_STATUS_TIMEOUT,
                          .kill_reason = "timeout",
                          .exit_code = -1,
                          .signal = 9,
                          .out = {.max = 2},
                          .err = {.max = 0}};
    gb_buf_add(&r.out, "a\xFF!", 3);
    r.usage.pids_peak = -1;
    r.files = calloc(2, sizeof(*r.files));
    r.file_count = 2;
    r.files[0] = (struct gb_output){.name = strdup("a \"b\""), .data = strdup("xyz"), .len = 3};
    r.files[1] = (struct gb_output){.name = strdup("link"), .skipped = "is a symbolic link"};
    fill_receipt(&r.enforced);
    char *text = json(&r);
    assert_string_equal(
            text, "{\"success\":false,\"status\":\"timeout\",\"exit_code\":null,\"signal\":9,\"was_killed\":"
                  "true,\"kill_reason\":\"timeout\","
                  "\"stdout\":\"a\xEF\xBF\xBD\",\"stderr\":\"\",\"truncated\":true,\"execution_time_ms\":0,"
                  "\"resource_usage\":{\"cpu_ms\":0,"
                  "\"wall_ms\":0,\"memory_peak_mb\":0,\"pids_peak\":null,\"disk_bytes\":0,\"stdout_bytes\":0,"
                  "\"stderr_bytes\":0},"
                  "\"files\":[{\"name\":\"a \\\"b\\\"\",\"bytes\":3},{\"name\":\"link\",\"skipped\":\"is a "
                  "symbolic link\"}]," RECEIPT);
    free(text);
    gb_result_done(&r);
}

static void truncated_stderr_alone(void **state)
{
    (void)state;
    struct gb_result r = {.err = {.max = 1}};
    gb_buf_puts(&r.err, "ab");
    fill_receipt(&r.enforced);
    char *text = json(&r);
    assert_non_null(strstr(text, "\"truncated\":true"));
    free(text);
    gb_result_done(&r);
}

/* Without a cgroup nothing throttles, and the receipt does not pretend. */
static void no_cgroup(void **state)
{
    (void)state;
    struct gb_result r = {0};
    fill_receipt(&r.enforced);
    r.enforced.cgroup_version = 0;
    char *text = json(&r);
    assert_non_null(strstr(text, "\"max_cpu_percent\":null,"));
    assert_non_null(strstr(text, "\"max_memory_mb\":256,"));
    assert_non_null(strstr(text, "\"limits_hold_for\":\"process\""));
    free(text);
}

static void highest_step_bit(void **state)
{
    (void)state;
    struct gb_result r = {0};
    fill_receipt(&r.enforced);
    r.enforced.applied = (uint64_t)1 << 63;
    char *text = json(&r);
    assert_non_null(strstr(text, "\"pids_peak\":0,"));
    assert_non_null(strstr(text, "\"steps\":[\"late\"]"));
    free(text);
}

static void done_empties(void **state)
{
    (void)state;
    struct gb_result r = {0}, empty = {0};
    gb_result_done(&r);
    assert_memory_equal(&r, &empty, sizeof(r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(exit_codes),
            cmocka_unit_test(status_names),
            cmocka_unit_test(success),
            cmocka_unit_test(killed_with_files),
            cmocka_unit_test(truncated_stderr_alone),
            cmocka_unit_test(no_cgroup),
            cmocka_unit_test(highest_step_bit),
            cmocka_unit_test(done_empties),
    };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
