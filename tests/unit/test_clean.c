/* Sanitising of JSON: every text in it, names too, and nothing is lost. */
#include "unit.h"

#include "front/clean.h"

#include <time.h>

static struct gb_rules *rules;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    const char *secrets[] = {"swordfish-9000"};
    const struct gb_rules_options options = {.secrets = secrets, .secret_count = 1};
    rules = gb_rules_new(&options, &err);
    return rules ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gb_rules_free(rules);
    return 0;
}

/* What it becomes, as JSON in the order in which it was. */
static char *cleaned(const struct gb_rules *with, const char *text, uint64_t *ret_hits)
{
    struct cleaner c = {.rules = with};
    struct gb_err err = {0};
    json_t *value = NULL;
    assert_int_equal(gb_json_read(text, strlen(text), &value, &err), 0);
    json_t *clean = clean_value(&c, value);
    assert_false(c.failed);
    char *out = json_dumps(clean, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(out);
    json_decref(clean);
    json_decref(value);
    if (ret_hits)
        *ret_hits = c.hits;
    return out;
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
        uint64_t hits;
    } rows[] = {
            {"\"at 10.0.0.1\"", "\"at [IP_ADDR]\"", 1},
            {"[1,2.5,true,false,null,\"\"]", "[1,2.5,true,false,null,\"\"]", 0},
            {"{\"a\":{\"b\":[\"/home/bob/x\"]}}", "{\"a\":{\"b\":[\"[HOME_DIR]/x\"]}}", 1},
            {"{\"10.0.0.1\":1}", "{\"[IP_ADDR]\":1}", 1},
            /* two that become one are still two, whoever has such a name already */
            {"{\"10.0.0.1\":1,\"10.0.0.2\":2,\"10.0.0.3\":3}",
             "{\"[IP_ADDR]\":1,\"[IP_ADDR] (2)\":2,\"[IP_ADDR] (3)\":3}", 3},
            {"{\"[IP_ADDR] (2)\":0,\"10.0.0.1\":1,\"10.0.0.2\":2}",
             "{\"[IP_ADDR] (2)\":0,\"[IP_ADDR]\":1,\"[IP_ADDR] (3)\":2}", 2},
            {"\"a\\u0000 10.0.0.1\"", "\"a\\u0000 [IP_ADDR]\"", 1},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        uint64_t hits;
        char *out = cleaned(rules, rows[i].text, &hits);
        assert_string_equal(out, rows[i].expected);
        assert_int_equal(hits, rows[i].hits);
        free(out);
    }
}

static void test_secrets_in_any_form(void **state)
{
    (void)state;
    static const char *const forms[] = {"\"x swordfish-9000 y\"", "\"c3dvcmRmaXNoLTkwMDA=\"",
                                        "\"73776f7264666973682d39303030\"", "{\"swordfish-9000\":1}"};
    for (size_t i = 0; i < LEN(forms); i++) {
        char *out = cleaned(rules, forms[i], NULL);
        assert_null(strstr(out, "swordfish"));
        assert_null(strstr(out, "c3dvcmRmaXNo"));
        assert_null(strstr(out, "73776f72"));
        free(out);
    }
}

/* A number is digits, and digits can be a secret: however it is written, it does not come through. */
static void test_numbers(void **state)
{
    (void)state;
    static const char secret[] = "1829104829104829";
    static const struct {
        const char *text, *expected;
    } rows[] = {
            {"[1829104829104829]", "[\"[REDACTED_SECRET]\"]"},
            {"{\"n\":-1829104829104829}", "{\"n\":\"-[REDACTED_SECRET]\"}"},
            {"[118291048291048299]", "[\"1[REDACTED_SECRET]9\"]"},
            {"[1829104829104829.5]", "[\"[REDACTED_SECRET].50000000000000000\"]"},
            {"[1.829104829104829e15]", "[\"[REDACTED_SECRET].00000000000000000\"]"},
            {"[182910482910482,-1,0.1,1e308,-1.7976931348623157e308,1e-300]", NULL},
    };
    const char *const secrets[] = {secret};
    const struct gb_rule digits = {.name = "digits", .mark = "#", .pattern = "777"};
    const struct gb_rules_options options = {.secrets = secrets, .secret_count = 1},
                                  more = {.more = &digits, .more_count = 1};
    struct gb_err err = {0};
    struct gb_rules *own = gb_rules_new(&options, &err), *other = gb_rules_new(&more, &err);
    assert_non_null(own);
    assert_non_null(other);
    for (size_t i = 0; i < LEN(rows); i++) {
        struct cleaner c = {.rules = own, .secrets = own};
        json_t *value = NULL;
        assert_int_equal(gb_json_read(rows[i].text, strlen(rows[i].text), &value, &err), 0);
        json_t *clean = clean_value(&c, value);
        char *out = json_dumps(clean, JSON_COMPACT);
        assert_int_equal(c.hits, rows[i].expected ? 1 : 0);
        if (rows[i].expected)
            assert_string_equal(out, rows[i].expected);
        else
            assert_true(json_equal(clean, value));
        free(out);
        json_decref(clean);
        json_decref(value);
    }
    char *out = cleaned(other, "[777,17770,776]", NULL); /* any rule, and any number of digits */
    assert_string_equal(out, "[\"#\",\"1#0\",776]");
    free(out);
    gb_rules_free(own);
    gb_rules_free(other);
}

static void test_without_rules(void **state)
{
    (void)state;
    static const char text[] = "{\"10.0.0.1\":[\"/home/bob\",\"swordfish-9000\"]}";
    uint64_t hits;
    char *out = cleaned(NULL, text, &hits);
    assert_string_equal(out, text);
    assert_int_equal(hits, 0);
    free(out);
}

/* Names that all become the same, and names that stand where the next would go: still linear. */
static void test_hostile_names(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct cleaner c = {.rules = rules};
    json_t *value = json_object();
    char name[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "[IP_ADDR] (%d)", i + 2);
        json_object_set_new(value, name, json_integer(i));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "10.%d.%d.1", i / 250, i % 250);
        json_object_set_new(value, name, json_integer(i));
    }
    const clock_t start = clock();
    json_t *clean = clean_value(&c, value);
    assert_false(c.failed);
    assert_int_equal(json_object_size(clean), 2 * MANY);
    assert_true(clock() - start < (clock_t)20 * CLOCKS_PER_SEC); /* 4e8 look-ups take minutes */
    json_decref(clean);
    json_decref(value);
}

static void test_field(void **state)
{
    (void)state;
    char text[32] = "token swordfish-9000 ok";
    clean_field(rules, text, sizeof(text));
    assert_null(strstr(text, "swordfish"));
    char same[] = "swordfish-9000";
    clean_field(NULL, same, sizeof(same));
    assert_string_equal(same, "swordfish-9000");
    char tight[] = "a 1.2.3.4 b"; /* the mark is longer: cut, never overrun */
    clean_field(rules, tight, sizeof(tight));
    assert_int_equal(strlen(tight), sizeof(tight) - 1);
    assert_null(strstr(tight, "1.2.3.4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_values),        cmocka_unit_test(test_secrets_in_any_form),
            cmocka_unit_test(test_numbers),       cmocka_unit_test(test_without_rules),
            cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_field),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
