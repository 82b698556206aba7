/* What a box is asked for, and what is made of one that ran without a report of our start-up code. With the
 * real rules; the rest of the front is not needed. */
#include "unit.h"

#include "front/approval.h"
#include "front/auth.h"
#include "front/budget.h"
#include "front/decide.h"
#include "wire/payload.h"

enum approval_verdict approval_check(struct call *call)
{
    (void)call;
    fail();
    return APPROVAL_REFUSED;
}

bool budget_take(struct call *call)
{
    (void)call;
    fail();
    return false;
}

bool auth_is_known(const struct gb_config *config, const char *principal)
{
    (void)config;
    (void)principal;
    fail();
    return false;
}

struct world {
    struct gb_config *config;
    struct policy policy;
    struct call *call;
};

static void begin(struct world *w, const char *text)
{
    struct gb_err err = {0};
    *w = (struct world){.call = calloc(1, sizeof(*w->call))};
    assert_non_null(w->call);
    assert_int_equal(gb_config_read(text, strlen(text), &w->config, &err), 0);
    assert_int_equal(gb_policy_new(w->config, GB_POLICY_DECIDE, &w->policy.gb, &err), 0);
    w->call->policy = &w->policy;
    w->call->tool = &w->policy.gb->tools[0];
    w->call->profile = &w->policy.gb->profiles[0];
    w->call->result.err.max = w->call->run.raw[1].max = 1000;
}

static void end(struct world *w)
{
    gb_buf_done(&w->call->result.err);
    gb_buf_done(&w->call->run.raw[1]);
    free(w->call);
    gb_policy_free(w->policy.gb);
    gb_config_free(w->config);
}

static const struct {
    const char *config;
    enum gb_status status;
    size_t out_bytes, files;
    const char *err; /* what stderr has instead */
    bool blocks;
} rows[] = {
        /* It did not get that far, and nothing speaks against that. */
        {"screen: block\n", GB_STATUS_ERROR, 0, 0, "Fatal Python error: no memory\n", false},
        {"screen: block\n", GB_STATUS_RESOURCE, 0, 0, "", false},
        {"screen: block\n", GB_STATUS_TIMEOUT, 0, 0, "", false},
        {"screen: block\n", GB_STATUS_CANCELLED, 0, 0, "", false},
        /* Something has run. */
        {"screen: block\n", GB_STATUS_SUCCESS, 0, 0, "", true},
        {"screen: block\n", GB_STATUS_SUCCESS, 3, 0, "warning\n", true},
        {"screen: block\n", GB_STATUS_ERROR, 3, 0, "", true},
        {"screen: block\n", GB_STATUS_TIMEOUT, 3, 0, "", true},
        {"screen: block\n", GB_STATUS_ERROR, 0, 1, "", true},
        {"screen: block\n", GB_STATUS_ERROR, 0, 0, "warning\n" GB_SCREEN_REPORT "{}\n", true},
        {"screen: off\nprofiles: {default: {rules: {dynamic import: block}}}\n", GB_STATUS_SUCCESS, 0, 0, "",
         true},
        /* Nothing is to be blocked: it is only told. */
        {"screen: warn\n", GB_STATUS_SUCCESS, 3, 0, "warning\n" GB_SCREEN_REPORT "{}\n", false},
        {"screen: off\nprofiles: {default: {allowed_modules: [math]}}\n", GB_STATUS_SUCCESS, 3, 0, "", false},
};

static void unreported(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct world w;
        begin(&w, rows[i].config);
        struct call *call = w.call;
        call->result.status = rows[i].status;
        call->run.seen[0] = rows[i].out_bytes;
        call->result.file_count = rows[i].files;
        gb_buf_puts(&call->result.err, rows[i].err);
        decide_unreported(call);
        if (call->denial_count != rows[i].blocks)
            fail_msg("row %zu: %zu denials", i, call->denial_count);
        assert_int_equal(call->finding_count, 1);
        assert_string_equal(call->findings[0].rule, "screening");
        assert_string_equal(call->findings[0].reason, "the report of the start-up code is missing");
        assert_int_equal(call->findings[0].action, rows[i].blocks ? GB_SCREEN_BLOCK : GB_SCREEN_WARN);
        if (rows[i].blocks)
            assert_int_equal(call->denials[0].code, GB_DENIAL_SCREENED);
        end(&w);
    }
}

/* What the redaction took out of the text is still in the raw bytes; and as many findings as fit. */
static void unreported_raw_and_full(void **state)
{
    (void)state;
    struct world w;
    begin(&w, "screen: block\n");
    w.call->result.status = GB_STATUS_ERROR;
    gb_buf_puts(&w.call->run.raw[1], "x" GB_SCREEN_REPORT "{}\n");
    w.call->finding_count = GB_FINDINGS;
    decide_unreported(w.call);
    assert_int_equal(w.call->finding_count, GB_FINDINGS);
    assert_int_equal(w.call->denial_count, 1);
    end(&w);
}

/* --- what is asked for --- */

static const char POOLED[] = "profiles: {default: {python: {program: /opt/py, preload: [json, re]}}}\n";

/* The kind of box that is wanted, and what runs. */
static const struct {
    const char *runtime, *body;
    enum gb_pool_kind kind;
    const char *program, *preload;
} boxes[] = {
        {"python", "{}", GB_POOL_PYTHON, "/opt/py", "json re"},
        {"python", "{\"env\": {\"A\": \"b\", \"TMPDIR\": \"/tmp\"}}", GB_POOL_PYTHON, "/opt/py", "json re"},
        {"python", "{\"env\": {\"A\": \"b\", \"PYTHONHASHSEED\": \"1\", \"B\": \"c\"}}", GB_POOL_PLAIN, "",
         ""},
        {"python", "{\"env\": {\"TZ\": \"UTC\"}}", GB_POOL_PLAIN, "", ""},
        {"node", "{\"env\": {\"PYTHONHASHSEED\": \"1\"}}", GB_POOL_NODE, "node", ""},
        {"node", "{\"env\": {\"NODE_ENV\": \"production\"}}", GB_POOL_PLAIN, "", ""},
        {"bash", "{}", GB_POOL_PLAIN, "", ""},
        {"sh", "{\"env\": {\"LANG\": \"C\"}}", GB_POOL_PLAIN, "", ""},
        {NULL, "{\"env\": {\"PATH\": \"/bin\"}}", GB_POOL_PLAIN, "", ""},
};

static void names_a_box(void **state)
{
    (void)state;
    static struct gb_payload payload;
    for (size_t i = 0; i < LEN(boxes); i++) {
        struct world w;
        struct gb_err err = {0};
        begin(&w, POOLED);
        struct request *r = &w.call->request;
        r->runtime = boxes[i].runtime ? gb_runtime_find(boxes[i].runtime) : NULL;
        r->code = "1";
        r->code_len = 1;
        r->payload.max = r->program.max = 1 << 16;
        if (!r->runtime)
            gb_payload_add_text(&r->program, GB_ITEM_ARG, "ls");
        assert_int_equal(gb_json_read(boxes[i].body, strlen(boxes[i].body), &r->json, &err), 0);
        assert_int_equal(decide_payload(w.call, &err), 0);
        assert_int_equal(w.call->run.pool, gb_pool_key(boxes[i].kind, boxes[i].program, boxes[i].preload));
        assert_int_equal(gb_payload_read(r->payload.data, r->payload.len, &payload, &err), 0);
        const char *program = !r->runtime                           ? "ls"
                              : !strcmp(boxes[i].runtime, "python") ? "/opt/py"
                                                                    : r->runtime->program;
        assert_string_equal(payload.argv[0], program);
        json_decref(r->json);
        gb_buf_done(&r->payload);
        gb_buf_done(&r->program);
        end(&w);
    }
}

/* What the start-up code needs is ours: it is no reason for another kind of box, and the code itself stays
 * away. */
static void screened_python_is_warm(void **state)
{
    (void)state;
    static struct gb_payload payload;
    struct world w;
    struct gb_err err = {0};
    begin(&w, "{}");
    struct request *r = &w.call->request;
    r->runtime = gb_runtime_find("python");
    r->code = "1";
    r->code_len = 1;
    r->payload.max = 1 << 16;
    w.call->run.reports = true;
    assert_int_equal(gb_json_read("{}", 2, &r->json, &err), 0);
    assert_int_equal(decide_payload(w.call, &err), 0);
    assert_int_equal(w.call->run.pool, gb_pool_key(GB_POOL_PYTHON, "python3", ""));
    assert_int_equal(gb_payload_read(r->payload.data, r->payload.len, &payload, &err), 0);
    assert_int_equal(payload.envc, 2);
    assert_int_equal(payload.file_count, 2);
    assert_true(r->payload.len < 1000);
    json_decref(r->json);
    gb_buf_done(&r->payload);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(unreported), cmocka_unit_test(unreported_raw_and_full),
            cmocka_unit_test(names_a_box), cmocka_unit_test(screened_python_is_warm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
