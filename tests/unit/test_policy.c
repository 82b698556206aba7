/* The resolved policy, in memory. What is refused, with line and remedy, is in
 * tests/integration/test_policy.py. */
#include "unit.h"

#include "base/text.h"
#include "policy/host.h"
#include "policy/policy.h"
#include "policy/template.h"
#include "spec/spec.h"

static struct gb_config *configured(const char *text)
{
    struct gb_config *config = NULL;
    struct gb_err err = {0};
    if (gb_config_read(text, strlen(text), &config, &err))
        fail_msg("refused: %s\n%s", text, err.text);
    return config;
}

static struct gb_policy *built(const struct gb_config *config, enum gb_policy_use use)
{
    struct gb_policy *p = NULL;
    struct gb_err err = {0};
    if (gb_policy_new(config, use, &p, &err))
        fail_msg("refused: %s", err.text);
    return p;
}

static const char WHOLE[] =
        "profiles:\n"
        "  default: {limits: {timeout_seconds: 7}}\n"
        "  small: {runtimes: [sh], ceilings: {max_memory_mb: 100}, allowed_modules: [math], screen: warn}\n"
        "principals:\n"
        "  team: {profile: small, tools: [look], budget: {calls_per_minute: 3, cpu_seconds_per_day: 1.5}}\n"
        "  default: {tools: [run], approver: true}\n"
        "keys:\n"
        "  - {name: k, principal: team, sha256: "
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff}\n"
        "  - {name: boss, sha256: "
        "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff}\n"
        "tools:\n"
        "  - {name: run, code: {language: python}}\n"
        "  - {name: look, http: {url: 'https://a.example/{q}', query: {n: '{n}'}, headers: {X-Key: "
        "'{secret:k}'}},\n"
        "     parameters: {required: [q], properties: {q: {type: string}, n: {type: integer, default: 5}}},\n"
        "     approval: {when: {properties: {q: {const: x}}}}, budget: {concurrent: 2}}\n"
        "  - {name: put, sql: {sqlite: /x, tables: {t: true}, write: true}, profile: small}\n"
        "screening: [{name: mine, pattern: frobnicate, action: off}]\n"
        "sanitising: [{name: mine, pattern: 'C-[0-9]+'}]\n"
        "secrets: {k: {value: '12345678'}}\n";

static void defaults(void **state)
{
    (void)state;
    struct gb_config *config = configured("limits: {max_pids: 5}\nscreen: warn\nsanitise: false\n");
    struct gb_policy *p = built(config, GB_POLICY_DECIDE);
    const struct gb_principal *who = gb_policy_principal(p, "local");
    assert_int_equal(p->tool_count, 2);
    assert_string_equal(p->tools[0].name, "execute_code");
    assert_string_equal(p->tools[1].name, "execute_command");
    assert_int_equal(p->tools[0].kind, GB_TOOL_CODE);
    assert_int_equal(p->tools[1].kind, GB_TOOL_COMMAND);
    assert_int_equal(p->profile_count, 1);
    assert_int_equal(p->principal_count, 1);
    assert_string_equal(who->name, "default");
    assert_false(who->approver);
    for (size_t i = 0; i < p->tool_count; i++) {
        const struct gb_profile *profile = gb_policy_profile(who, &p->tools[i]);
        assert_true(gb_policy_may(p, who, &p->tools[i]));
        assert_memory_equal(&profile->limits, &config->limits, sizeof(config->limits));
        assert_memory_equal(&profile->ceilings, &config->ceilings, sizeof(config->ceilings));
        assert_false(profile->sanitise);
        assert_false(profile->raw_output);
        assert_false(profile->limits_modules);
        assert_int_equal(profile->builtin_count, 0);
        assert_int_equal(profile->runtimes, (1U << gb_runtime_count) - 1);
        assert_ptr_equal(profile->commands.allow, gb_command_defaults.allow);
        assert_int_equal(profile->commands.block_count, gb_command_defaults.block_count);
        for (size_t k = 0; k < gb_screen_rule_count(p->screen); k++)
            assert_int_equal(profile->actions.action[k], GB_SCREEN_WARN);
        assert_int_equal(p->tools[i].approval, GB_APPROVAL_NEVER);
        assert_int_equal(p->tools[i].budget.calls_per_day, 0);
    }
    assert_non_null(p->screen);
    assert_non_null(p->rules);
    gb_policy_free(p);
    gb_config_free(config);
}

/* The policy keeps what it needs of the configuration. */
static void outlives_the_configuration(void **state)
{
    (void)state;
    struct gb_config *config = configured(WHOLE);
    struct gb_policy *p = built(config, GB_POLICY_DECIDE);
    gb_config_free(config);
    const struct gb_tool *look = gb_policy_tool(p, "look"), *run = gb_policy_tool(p, "run"),
                         *put = gb_policy_tool(p, "put");
    const struct gb_principal *team = gb_policy_principal(p, "team"),
                              *other = gb_policy_principal(p, "nobody");
    assert_true(look && run && put);
    assert_null(gb_policy_tool(p, "loo"));
    assert_string_equal(other->name, "default");
    assert_true(gb_policy_may(p, team, look));
    assert_false(gb_policy_may(p, team, run));
    assert_true(gb_policy_may(p, other, run));
    assert_false(gb_policy_may(p, other, put));
    assert_int_equal(team->budget.calls_per_minute, 3);
    assert_int_equal(team->budget.cpu_ms_per_day, 1500);
    assert_int_equal(look->budget.concurrent, 2);
    assert_int_equal(look->approval, GB_APPROVAL_WHEN);
    assert_non_null(look->approval_when);
    assert_int_equal(put->approval, GB_APPROVAL_ALWAYS);
    assert_string_equal(gb_policy_profile(other, put)->name, "small");
    assert_string_equal(gb_policy_profile(team, look)->name, "small");
    assert_string_equal(gb_policy_profile(other, run)->name, "default");
    assert_int_equal(gb_policy_profile(other, run)->limits.timeout_ms, 7000);
    assert_int_equal(team->profile->limits.memory_mb, 100);
    assert_int_equal(team->profile->runtimes, 1U << (gb_runtime_find("sh") - gb_runtimes));
    assert_true(team->profile->limits_modules);
    assert_string_equal(team->profile->modules[0], "math");
    assert_string_equal(gb_policy_secret(p, "k"), "12345678");
    assert_null(gb_policy_secret(p, "K"));
    assert_string_equal(json_string_value(json_object_get(look->spec, "url")), "https://a.example/{q}");
    const int mine = gb_screen_find(p->screen, "mine");
    assert_true(mine >= 0);
    assert_int_equal(team->profile->actions.action[mine], GB_SCREEN_OFF); /* its own, not the profile's */
    assert_int_equal(team->profile->actions.action[0], GB_SCREEN_WARN);
    gb_policy_free(p);
}

static void broker_has_no_rules(void **state)
{
    (void)state;
    struct gb_config *config = configured(WHOLE);
    struct gb_policy *p = built(config, GB_POLICY_BROKER), *whole = built(config, GB_POLICY_DECIDE);
    assert_null(p->screen);
    assert_null(p->rules);
    assert_string_equal(p->sha256, whole->sha256);
    assert_string_equal(gb_policy_secret(p, "k"), "12345678");
    assert_non_null(gb_policy_tool(p, "look")->schema);
    gb_policy_free(p);
    gb_policy_free(whole);
    gb_config_free(config);
}

/* Supervisor, front and broker mean the same by the hash. */
static void same_policy_after_a_round_trip(void **state)
{
    (void)state;
    struct gb_config *first = configured(WHOLE), *second = NULL;
    struct gb_buf text = {.max = 1 << 20};
    char hash[65];
    assert_int_equal(gb_config_write(first, true, &text, NULL), 0);
    gb_policy_hash(text.data, text.len, hash);
    assert_int_equal(gb_config_from_json(text.data, text.len, &second, NULL), 0);
    struct gb_policy *one = built(first, GB_POLICY_DECIDE), *two = built(second, GB_POLICY_DECIDE);
    assert_string_equal(one->sha256, hash);
    assert_string_equal(two->sha256, hash);
    struct gb_buf shown[2] = {{.max = 1 << 20}, {.max = 1 << 20}};
    for (size_t i = 0; i < one->tool_count; i++) {
        struct gb_json a = {.out = &shown[0], .first = true}, b = {.out = &shown[1], .first = true};
        gb_policy_show(one, gb_policy_principal(one, "team"), &one->tools[i], &a);
        gb_policy_show(two, gb_policy_principal(two, "team"), &two->tools[i], &b);
    }
    assert_string_equal(shown[0].data, shown[1].data);
    assert_null(strstr(shown[0].data, "12345678"));
    assert_null(strstr(shown[0].data, "X-Key"));
    gb_buf_done(&shown[0]);
    gb_buf_done(&shown[1]);
    gb_buf_done(&text);
    gb_policy_free(one);
    gb_policy_free(two);
    gb_config_free(first);
    gb_config_free(second);
}

/* --- boxes that wait --- */

static struct gb_pool_want wants[GB_POOLS];
static char left_out[512];

/* The kinds of those that were asked for, in their order: "PyN", with their marks if these are not 1 to 2. */
static const char *asked(const char *text)
{
    static char found[512];
    struct gb_config *config = configured(text);
    struct gb_policy *p = built(config, GB_POLICY_BROKER);
    struct gb_buf names = {.max = sizeof(left_out) - 1};
    const size_t count = gb_policy_pools(p, wants, &names);
    snprintf(left_out, sizeof(left_out), "%s", names.data ? names.data : "");
    gb_buf_done(&names);
    *found = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct gb_pool_want *w = &wants[i];
        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s:%u-%u%s%s%s%s", i ? " " : "",
                 gb_pool_kinds[w->kind].name, w->low, w->high, *w->program ? ":" : "", w->program,
                 *w->preload ? ":" : "", w->preload);
        assert_int_equal(w->key, gb_pool_key((enum gb_pool_kind)w->kind, w->program, w->preload));
    }
    gb_policy_free(p);
    gb_config_free(config);
    return found;
}

static void pools(void **state)
{
    (void)state;
    static const struct {
        const char *text, *asked;
    } rows[] = {
            {"", "plain:1-2 python:1-2:python3 node:1-2:node"},
            {"profiles: {default: {runtimes: [python]}}", "plain:1-2 python:1-2:python3"}, /* commands, too */
            {"profiles: {default: {runtimes: [sh]}}", "plain:1-2"},
            {"tools: [{name: a, command: {}}]", "plain:1-2"},
            {"tools: [{name: a, code: {language: node}}]", "node:1-2:node"},
            {"tools: [{name: a, code: {language: bash}}]", "plain:1-2"},
            {"tools: [{name: a, http: {url: 'https://a.example/'}}]", ""}, /* no box */
            {"profiles: {default: {pool: {high: 0}}}", ""},
            {"profiles: {default: {pool: {low: 0}}}\ntools: [{name: a, command: {}}]", "plain:0-2"},
            {"profiles: {default: {pool: {low: 3, high: 9}, python: {program: /opt/py, preload: [json, "
             "os.path]}}}\n"
             "tools: [{name: a, code: {language: python}}]",
             "python:3-9:/opt/py:json os.path"},
            /* A profile that nobody comes to has no boxes. */
            {"profiles: {other: {python: {program: a}}}\ntools: [{name: a, code: {language: python}}]",
             "python:1-2:python3"},
            /* Two that are alike but for what is no box's share them; the greater marks count. */
            {"profiles: {default: {pool: {low: 0, high: 5}},\n"
             "  b: {limits: {timeout_seconds: 2, max_output_bytes: 3}}}\n"
             "tools: [{name: a, command: {}}, {name: b, command: {}, profile: b}]",
             "plain:1-5"},
            {"profiles: {default: {limits: {max_pids: 3}}, b: {}}\n"
             "tools: [{name: a, command: {}}, {name: b, command: {}, profile: b}]",
             "plain:1-2 plain:1-2"},
            {"profiles: {b: {python: {preload: [json]}}}\n"
             "tools: [{name: a, code: {language: python}}, {name: b, code: {language: python}, profile: b}]",
             "python:1-2:python3:json python:1-2:python3"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[1024];
        snprintf(text, sizeof(text), "pool: {low: 1, high: 2}\n%s\n", rows[i].text);
        assert_string_equal(asked(text), rows[i].asked);
        assert_string_equal(left_out, "");
    }
}

/* They have the limits of a call that asks for none. */
static void pools_have_limits(void **state)
{
    (void)state;
    asked("profiles: {default: {limits: {max_memory_mb: 77}, ceilings: {max_pids: 5}}}\n"
          "tools: [{name: a, command: {}}]\n");
    assert_int_equal(wants[0].limits.memory_mb, 77);
    assert_int_equal(wants[0].limits.pids, 5);
    assert_int_equal(wants[0].limits.disk_mb, 100);
}

/* Those that are named first have theirs. */
static void too_many_pools(void **state)
{
    (void)state;
    struct gb_buf text = {.max = 1 << 16};
    gb_buf_puts(&text, "profiles:\n");
    for (int i = 0; i < GB_POOLS + 2; i++)
        gb_buf_printf(&text, "  p%d: {limits: {max_pids: %d}}\n", i, i + 1);
    gb_buf_puts(&text, "tools:\n");
    for (int i = 0; i < GB_POOLS + 2; i++)
        gb_buf_printf(&text, "  - {name: t%d, command: {}, profile: p%d}\n", i, i);
    asked(text.data);
    for (int i = 0; i < GB_POOLS; i++)
        assert_int_equal(wants[i].limits.pids, i + 1);
    assert_string_equal(left_out, "p16, p17");
    gb_buf_done(&text);
}

/* What a tool and its profile mean, however it is written. */
static void definition(const char *text, const char *tool, char ret[65])
{
    struct gb_config *config = configured(text);
    struct gb_policy *p = built(config, GB_POLICY_DECIDE);
    gb_policy_definition(gb_policy_principal(p, "team"), gb_policy_tool(p, tool), ret);
    gb_policy_free(p);
    gb_config_free(config);
}

static void definitions(void **state)
{
    (void)state;
    static const char first[] =
            "tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}, "
            "{name: b, code: {}}]\nsecrets: {k: {value: '12345678'}}\n";
    static const struct {
        const char *text;
        bool same;
    } rows[] = {
            {"secrets: {k: {value: '12345679'}}\n" /* another order, another value of the secret, another tool
                                                    */
             "tools: [{name: b, code: {language: sh}}, {http: {headers: {K: '{secret:k}'}, url: "
             "'https://a.example/'}, name: a}]\n",
             true},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nprofiles: {other: {screen: off}}\n",
             true},
            {"tools: [{name: a, http: {url: 'https://b.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\n",
             false},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nlimits: {timeout_seconds: 3}\n",
             false},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nprofiles: {default: {commands: {allow: [ls]}}}\n",
             false},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nprofiles: {default: {python: {program: python3.11}}}\n",
             false},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nprofiles: {default: {pool: {low: 0, high: 9}}}\n",
             true}, /* how many boxes wait is not what a call does */
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nscreening: [{name: x, pattern: y}]\n",
             false},
            {"tools: [{name: a, http: {url: 'https://a.example/', headers: {K: '{secret:k}'}}}]\n"
             "secrets: {k: {value: '12345678'}}\nprofiles: {p: {}}\nprincipals: {team: {profile: p}, "
             "default: {}}\n"
             "keys: [{name: k, principal: team, sha256: "
             "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff}]\n",
             false},
    };
    char one[65], other[65];
    definition(first, "a", one);
    assert_int_equal(strlen(one), 64);
    for (size_t i = 0; i < LEN(rows); i++) {
        definition(rows[i].text, "a", other);
        if (!strcmp(one, other) != rows[i].same)
            fail_msg("row %zu", i);
    }
}

static void takes(void **state)
{
    (void)state;
    struct gb_config *config = configured("tools: [{name: a, code: {}}, {name: b, code: {language: sh}}]\n");
    struct gb_policy *p = built(config, GB_POLICY_DECIDE);
    assert_true(gb_policy_takes(&p->tools[0], "language"));
    assert_true(gb_policy_takes(&p->tools[0], "code"));
    assert_false(gb_policy_takes(&p->tools[0], "command"));
    assert_false(gb_policy_takes(&p->tools[1], "language"));
    gb_policy_free(p);
    gb_config_free(config);
}

static void defaults_of_arguments(void **state)
{
    (void)state;
    struct gb_config *config = configured(WHOLE);
    struct gb_policy *p = built(config, GB_POLICY_BROKER);
    json_t *arguments = json_pack("{ss}", "q", "x");
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    const struct gb_tool *look = gb_policy_tool(p, "look");
    assert_int_equal(gb_policy_defaults(look, arguments), 0);
    assert_int_equal(json_integer_value(json_object_get(arguments, "n")), 5);
    assert_int_equal(gb_schema_check(look->schema, arguments, "arguments", problems), 0);
    json_object_set_new(arguments, "n", json_integer(7));
    assert_int_equal(gb_policy_defaults(look, arguments), 0);
    assert_int_equal(json_integer_value(json_object_get(arguments, "n")), 7);
    json_object_set_new(arguments, "more", json_true()); /* a tool takes what it names */
    assert_int_equal(gb_schema_check(look->schema, arguments, "arguments", problems), 1);
    json_decref(arguments);
    gb_policy_free(p);
    gb_config_free(config);
}

static void places(void **state)
{
    (void)state;
    struct gb_config *config =
            configured("tools:\n- name: a\n  code: {}\n- name: b\n\n  http:\n    url: x\nkeys: []\n");
    static const struct {
        const char *path, *place;
    } cases[] = {{"tools", "line 1"},
                 {"tools[0]", "line 2"},
                 {"tools[0].code", "line 3"},
                 {"tools[1].name", "line 4"},
                 {"tools[1].http", "line 6"},
                 {"tools[1].http.url", "line 7"},
                 {"tools[1].http.no", "line 6"},
                 {"tools[1].http.no[3].x", "line 6"},
                 {"tools[7].x", "line 1"},
                 {"keys", "line 8"},
                 {"profiles.x", ""}};
    for (size_t i = 0; i < LEN(cases); i++) {
        char place[64];
        gb_config_place(config, cases[i].path, place, sizeof(place));
        assert_string_equal(place, cases[i].place);
    }
    gb_config_free(config);
}

/* --- texts --- */

static void templates(void **state)
{
    (void)state;
    static const struct {
        const char *text, *items; /* name, with ! for a secret, ? for one that is not whole, ~ for {{name}} */
    } cases[] = {
            {"", ""},
            {"plain", ""},
            {"{a}", "a"},
            {"x{a}y{b-c}z{d.e_1}", "a b-c d.e_1"},
            {"{secret:a.b}", "!a.b"},
            {"{{a}}", "~a"},
            {"{{a}", "a"},
            {"{a}}", "a"},
            {"{{secret:a}}", "~a"},
            {"{print $1}", ""},
            {"{ a }", ""},
            {"{}", ""},
            {"{", ""},
            {"{a", ""},
            {"{a b}{c}", "c"},
            {"{secret:}", "?"},
            {"{secret: a}", "?"},
            {"{secret:a", "?"},
            {"{\xc3\xa4}", ""},
            {"{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", ""},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        struct gb_template_item item;
        char found[256] = "";
        size_t at = 0;
        while (gb_template_next(cases[i].text, &at, &item)) {
            assert_true(item.start < item.end && item.end <= strlen(cases[i].text) && at == item.end);
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s%s", *found ? " " : "",
                     item.bad       ? "?"
                     : item.literal ? "~"
                     : item.secret  ? "!"
                                    : "",
                     item.name);
        }
        assert_string_equal(found, cases[i].items);
    }
}

static void statements(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } cases[] = {
            {"SELECT 1", ""},
            {"SELECT :a, :b_2", "a b_2"},
            {"SELECT a::text, :b::int", "b"},
            {"SELECT ':a', \":b\", `:c`, :d", "d"},
            {"SELECT 'it''s :a', :b", "b"},
            {"SELECT 1 -- :a\n, :b", "b"},
            {"SELECT /* :a */ :b /* :c", "b"},
            {"SELECT :1, : a, :", ""},
            {"SELECT ':a", ""},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        struct gb_template_item item;
        char found[256] = "";
        for (size_t at = 0; gb_template_next_sql(cases[i].text, &at, &item);)
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s", *found ? " " : "",
                     item.name);
        assert_string_equal(found, cases[i].names);
    }
}

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name; /* NULL: it is none */
        unsigned port;
    } cases[] = {
            {"a.example", "a.example", 0},
            {"A.Example:8080", "a.example", 8080},
            {"localhost", "localhost", 0},
            {"my_host-1", "my_host-1", 0},
            {"10.0.0.5:1", "10.0.0.5", 1},
            {"[::1]", "::1", 0},
            {"[2001:DB8::0:1]:65535", "2001:db8::1", 65535},
            {"xn--bcher-kva.example", "xn--bcher-kva.example", 0},
            {"", NULL, 0},
            {":80", NULL, 0},
            {"a:0", NULL, 0},
            {"a:65536", NULL, 0},
            {"a:", NULL, 0},
            {"a:80:80", NULL, 0},
            {"::1", NULL, 0},
            {"[::1", NULL, 0},
            {"[::1]x", NULL, 0},
            {"[::ffff:127.0.0.1]", NULL, 0},
            {"[127.0.0.1]", NULL, 0},
            {"127.1", NULL, 0},
            {"127.0.0.1.", NULL, 0},
            {"2130706433", NULL, 0},
            {"0x7f000001", NULL, 0},
            {"1.2.3.0x4", NULL, 0},
            {"256.1.1.1", NULL, 0},
            {"01.2.3.4", NULL, 0},
            {"a..b", NULL, 0},
            {".a", NULL, 0},
            {"a.", NULL, 0},
            {"-a.b", NULL, 0},
            {"a-.b", NULL, 0},
            {"*.a", NULL, 0},
            {"a b", NULL, 0},
            {"a/b", NULL, 0},
            {"a@b", NULL, 0},
            {"b\xc3\xbc.example", NULL, 0},
            {"http://a", NULL, 0},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        struct gb_host host;
        const int r = gb_host_parse(cases[i].text, strlen(cases[i].text), &host);
        if (!cases[i].name != (r != 0))
            fail_msg("%s: %s", cases[i].text, r ? "refused" : "taken");
        if (r)
            continue;
        assert_string_equal(host.name, cases[i].name);
        assert_int_equal(host.port, cases[i].port);
    }
}

/* --- no memory --- */

static size_t allocations, fail_at;

static void *failing_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

/* Whichever allocation of JSON fails: an error, and nothing is lost (the sanitizers look). */
static void without_memory(void **state)
{
    (void)state;
    struct gb_config *config = configured(WHOLE);
    size_t failures = 0;
    json_set_alloc_funcs(failing_malloc, free);
    for (fail_at = 1; fail_at < 20000; fail_at += fail_at < 300 ? 1 : 7) {
        struct gb_policy *p = NULL;
        struct gb_err err = {0};
        allocations = 0;
        const int r = gb_policy_new(config, GB_POLICY_BROKER, &p, &err);
        if (r)
            assert_true(r < 0 && !p && *err.text);
        failures += r != 0;
        gb_policy_free(p);
        if (allocations < fail_at)
            break;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(failures > 100);
    assert_true(allocations < fail_at); /* all of them were tried */
    gb_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(defaults),
            cmocka_unit_test(outlives_the_configuration),
            cmocka_unit_test(broker_has_no_rules),
            cmocka_unit_test(same_policy_after_a_round_trip),
            cmocka_unit_test(pools),
            cmocka_unit_test(pools_have_limits),
            cmocka_unit_test(too_many_pools),
            cmocka_unit_test(definitions),
            cmocka_unit_test(takes),
            cmocka_unit_test(defaults_of_arguments),
            cmocka_unit_test(places),
            cmocka_unit_test(templates),
            cmocka_unit_test(statements),
            cmocka_unit_test(hosts),
            cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
