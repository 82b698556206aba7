/* The configuration in memory: table, values, YAML, contradictions, round trip. Files and environment are in
 * test_config_load.c. */
#include "unit.h"

#include "base/text.h"
#include "config/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/un.h>

#define HASH_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HASH_B "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct gb_config *good(const char *text)
{
    struct gb_config *config = NULL;
    struct gb_err err = {0};
    if (gb_config_read(text, strlen(text), &config, &err))
        fail_msg("refused: %s\n%s", text, err.text);
    return config;
}

/* It must be refused, and the error must hold all the words. */
static void bad(const char *text, size_t len, const char *const *words, size_t count)
{
    struct gb_config *config = NULL;
    struct gb_err err = {0};
    char shown[sizeof(err.text)];
    if (!gb_config_read(text, len, &config, &err))
        fail_msg("taken: %s", text);
    assert_null(config);
    assert_int_equal(err.code, GB_ERR_CONFIG);
    for (size_t i = 0; i < count && words[i]; i++)
        if (!strstr(err.text, words[i]))
            fail_msg("%s\nsays: %s\nwithout: %s", text, err.text, words[i]);
    memcpy(shown, err.text, sizeof(shown));
    gb_text_defuse(shown);
    assert_string_equal(shown, err.text);
}

static char *written(const struct gb_config *config, bool secrets)
{
    struct gb_buf out = {.max = (size_t)4 << 20};
    struct gb_err err = {0};
    if (gb_config_write(config, secrets, &out, &err))
        fail_msg("%s", err.text);
    return out.data;
}

static void table_makes_sense(void **state)
{
    (void)state;
    char name[128], other[128];
    assert_true(gb_setting_count > 40);
    for (size_t i = 0; i < gb_setting_count; i++) {
        const struct gb_setting *row = &gb_settings[i];
        assert_true(strlen(row->path) < 64); /* nearest() compares no more */
        assert_int_equal(strspn(row->path, "abcdefghijklmnopqrstuvwxyz_."), strlen(row->path));
        assert_ptr_equal(strchr(row->path, '.'), strrchr(row->path, '.'));
        assert_ptr_equal(gb_setting_find(row->path), row);
        assert_false(gb_setting_is_section(row->path));
        if (row->kind == GB_KIND_NUMBER) {
            assert_true(row->least >= 0 && row->least < row->most && row->unit >= 1);
            assert_true(row->def == GB_COMPUTED || (row->def >= row->least && row->def <= row->most));
            assert_true(row->most <= INT64_MAX / row->unit);
        }
        gb_config_variable(row->path, name, sizeof(name));
        for (size_t k = 0; k < i; k++) {
            gb_config_variable(gb_settings[k].path, other, sizeof(other));
            assert_string_not_equal(name, other); /* a.b_c and a_b.c would be one variable */
            if (gb_settings[k].kind != GB_KIND_KEYS && row->kind != GB_KIND_KEYS)
                assert_true(gb_settings[k].offset != row->offset);
        }
    }
}

static void defaults(void **state)
{
    (void)state;
    struct gb_config *config = good("{}");
    assert_int_equal(config->listen_count, 2);
    assert_string_equal(config->listen[0], "127.0.0.1:8640");
    assert_true(config->boxes.running >= 4);
    assert_int_equal(config->http.idle_ms, 75000);
    assert_int_equal(config->audit.keep_seconds, 90LL * 86400);
    assert_int_equal(config->audit.keep_bytes, 1024LL << 20);
    assert_int_equal(config->screen, GB_SCREEN_BLOCK);
    assert_true(config->sanitise);
    assert_null(config->tls_certificate);
    assert_null(gb_config_origin(config, "listen"));
    for (size_t i = 0; i < gb_limit_count; i++) {
        assert_true(gb_limits_get(&config->limits, &gb_limit_rows[i]) == gb_limit_rows[i].def);
        assert_true(gb_limits_get(&config->ceilings, &gb_limit_rows[i]) == gb_limit_rows[i].usual);
    }
    char *text = written(config, false);
    for (size_t i = 0; i < gb_setting_count; i++) { /* every setting is shown */
        char leaf[64];
        const char *dot = strchr(gb_settings[i].path, '.');
        snprintf(leaf, sizeof(leaf), "\"%s\":", dot ? dot + 1 : gb_settings[i].path);
        assert_true(gb_settings[i].handed != !!strstr(text, leaf));
    }
    free(text);
    gb_config_free(config);
}

/* Of two marks, the one that nobody has set follows the other. */
static void pool_marks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t low, high;
    } rows[] = {{"boxes: {running: 4}", 2, 4},
                {"boxes: {running: 1}", 1, 1},
                {"boxes: {running: 4096}", 2, 64},
                {"boxes: {running: 4}\npool: {low: 9}", 9, 9},
                {"boxes: {running: 4}\npool: {low: 0}", 0, 4},
                {"pool: {high: 0}", 0, 0},
                {"pool: {high: 1}", 1, 1},
                {"pool: {high: 1000}", 2, 1000},
                {"pool: {low: 3, high: 3}", 3, 3}};
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_config *config = good(rows[i].text);
        assert_int_equal(config->pool.low, rows[i].low);
        assert_int_equal(config->pool.high, rows[i].high);
        assert_int_equal(config->pool.idle_ms, 10000);
        assert_int_equal(config->pool.zygote_boxes, 10000);
        gb_config_free(config);
    }
}

/* Every number at its ends, and one beyond. */
static void ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < gb_setting_count; i++) {
        const struct gb_setting *row = &gb_settings[i];
        if (row->kind != GB_KIND_NUMBER)
            continue;
        const int64_t values[] = {row->least, row->most, row->least - 1, row->most + 1};
        for (size_t v = 0; v < LEN(values); v++) {
            char text[256], number[32], least[32], most[32];
            const char *dot = strchr(row->path, '.');
            const int section = dot ? (int)(dot - row->path) : 0;
            gb_text_decimal(values[v], row->decimals, number, sizeof(number));
            gb_text_decimal(row->least, row->decimals, least, sizeof(least));
            gb_text_decimal(row->most, row->decimals, most, sizeof(most));
            if (section && !strncmp(row->path, "limits", 6)) /* with the ceiling out of its way */
                snprintf(text, sizeof(text), "ceilings: {%s: %s}\nlimits: {%s: %s}", dot + 1, most, dot + 1,
                         number);
            else if (section)
                snprintf(text, sizeof(text), "%.*s: {%s: %s}", section, row->path, dot + 1, number);
            else
                snprintf(text, sizeof(text), "%s: %s", row->path, number);
            if (v > 1) {
                bad(text, strlen(text), (const char *const[]){row->path, number, least, most}, 4);
                continue;
            }
            struct gb_config *config = good(text);
            assert_true(*(int64_t *)(void *)((char *)config + row->offset) == values[v] * row->unit);
            gb_config_free(config);
        }
    }
}

static void values_that_are_taken(void **state)
{
    (void)state;
    struct gb_config *c = good("# a comment\n"
                               "listen: ['127.0.0.1:0', \"[::1]:8640\",\n  unix:/run/x.sock]\n"
                               "boxes: {running: 4.0, wait_seconds: 1.1, queued: 0}\n"
                               "http:\n  body_seconds: 0.1\n  idle_seconds: 1e2\n"
                               "screen: off\nsanitise: false\naudit: {sync: full}\nlog:\n"
                               "hosts: [Sandbox.Example.COM, '[2001:DB8::1]']\n"
                               "origins:\n  - https://App.example.com:8443\n"
                               "allow_degraded: [landlock, cgroup]\n"
                               "drain_seconds: null\ncgroup_parent:\n"
                               "keys:\n- name: alice\n  sha256: " HASH_A "\n  rate_per_minute: 60\n"
                               "- {name: b.o-b_1, key_file: /etc/key, max_running: 2, sha256: null}\n");
    assert_int_equal(c->listen_count, 3);
    assert_string_equal(c->listen[1], "[::1]:8640");
    assert_int_equal(c->boxes.running, 4);
    assert_int_equal(c->boxes.wait_ms, 1100);
    assert_int_equal(c->http.body_ms, 100);
    assert_int_equal(c->http.idle_ms, 100000);
    assert_int_equal(c->screen, GB_SCREEN_OFF);
    assert_false(c->sanitise);
    assert_true(c->audit.sync_full);
    assert_string_equal(c->hosts[0], "sandbox.example.com");
    assert_string_equal(c->hosts[1], "[2001:db8::1]");
    assert_string_equal(c->origins[0], "https://app.example.com:8443");
    assert_string_equal(c->allow_degraded, "landlock,cgroup");
    assert_int_equal(c->drain_ms, 30000);
    assert_int_equal(c->key_count, 2);
    assert_int_equal(c->keys[0].sha256[1], 0x11);
    assert_int_equal(c->keys[0].rate_per_minute, 60);
    assert_string_equal(c->keys[1].name, "b.o-b_1");
    assert_string_equal(c->keys[1].file, "/etc/key");
    assert_string_equal(gb_config_origin(c, "boxes.running"), "line 4");
    assert_null(gb_config_origin(c, "drain_seconds"));
    char *shown = written(c, false);
    assert_null(strstr(shown, HASH_A));
    assert_null(strstr(shown, "_pem"));
    free(shown);
    gb_config_free(c);
}

static void values_that_are_not(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words[3];
    } cases[] = {
            /* what other readers of YAML would take for a number or boolean */
            {"boxes: {running: yes}", {"line 1: boxes.running: \"yes\"", "whole number from 1 to 4096"}},
            {"\n\nboxes:\n  running: 0x10", {"line 4: boxes.running: \"0x10\"", "decimal digits"}},
            {"boxes: {running: 010}", {"\"010\""}},
            {"boxes: {running: 1_000}", {"\"1_000\""}},
            {"boxes: {running: .5}", {"\".5\""}},
            {"boxes: {running: ~}", {"\"~\""}},
            {"boxes: {running: +4}", {"\"+4\""}},
            {"boxes: {running: '4'}", {"without quotes"}},
            {"boxes: {running: 4.5}", {"4.5 is not", "whole number"}},
            {"boxes: {running: 3.00001}", {"3.00001"}},
            {"boxes: {running: -1}", {"-1"}},
            {"boxes: {running: 99999999999999999999}", {"boxes.running"}},
            {"boxes: {running: 1e400}", {"boxes.running"}},
            {"boxes: {running: true}", {"true is not allowed"}},
            {"boxes: {running: [4]}", {"[4] is not allowed"}},
            {"boxes: {wait_seconds: 1.0005}", {"three decimals"}},
            {"sanitise: yes", {"sanitise: \"yes\"", "write true or false"}},
            {"sanitise: 1", {"write true or false"}},
            {"sanitise: 'true'", {"without quotes"}},
            {"screen: Block", {"screen: \"Block\"", "block,warn,off"}},
            {"screen: false", {"block,warn,off"}},
            {"screen: bloc", {"block,warn,off"}},
            {"screen: ''", {"block,warn,off"}},
            {"log: {level: trace}", {"debug,info,warn,error"}},
            {"state_dir: var", {"absolute path"}},
            {"state_dir: 5", {"put it in quotes"}},
            {"state_dir: \"/a\\nb\"", {"control characters"}},
            {"state_dir: \"/a\\0b\"", {"without NUL"}},
            {"cgroup_parent: a/../b", {"below the cgroup mount"}},
            {"hosts: example.com", {"it takes a list"}},
            {"hosts: ['example.com:80']", {"without port"}},
            {"hosts: ['*']", {"without port"}},
            {"hosts: ['']", {"without port"}},
            {"hosts: [5]", {"put it in quotes"}},
            {"origins: ['https://a.example/']", {"without a path"}},
            {"origins: ['null']", {"scheme"}},
            {"origins: ['*']", {"scheme"}},
            {"allow_degraded: ['a,b']", {"allow_degraded"}},
            {"listen: []", {"empty list"}},
            {"listen: ['localhost:80']", {"numbers, not names"}},
            {"listen: ['127.0.0.1']", {"127.0.0.1:8640"}},
            {"listen: ['127.0.0.1:65536']", {"127.0.0.1:8640"}},
            {"listen: ['127.0.0.1:-1']", {"127.0.0.1:8640"}},
            {"listen: ['::1:80']", {"[::1]:8640"}},
            {"listen: ['unix:run/x']", {"unix:/path"}},
            {"listen: ['[fe80::1%eth0]:80']", {"numbers"}},
            {"keys: {}", {"a list of keys"}},
            {"keys: [a]", {"item 1", "it takes fields"}},
            {"keys: [{name: a}]", {"item 1", "exactly one of sha256 and key_file"}},
            {"keys: [{sha256: " HASH_A "}]", {"it has no name"}},
            {"keys: [{name: 'a b', sha256: " HASH_A "}]", {"item 1: name: \"a b\""}},
            {"keys: [{name: a, sha256: " HASH_A ", key_file: /x}]", {"exactly one"}},
            {"keys: [{name: a, sha256: secret-key}]", {"64 hexadecimal digits"}},
            {"keys: [{name: a, key: x}]", {"item 1: key: there is no such field"}},
            {"keys: [{name: a, sha256: " HASH_A ", rate_per_minute: -1}]",
             {"rate_per_minute: -1", "0 to 1000000"}},
            {"keys: [{name: a, key_file: x}]", {"absolute path"}},
            /* names */
            {"boxes: {runing: 4}",
             {"boxes.runing: there is no such setting", "did you mean boxes.running?",
              "running, queued, wait_seconds"}},
            {"timeout_seconds: 4", {"did you mean limits.timeout_seconds?"}},
            {"limits: {max_memory: 4}", {"did you mean limits.max_memory_mb?"}},
            {"frob: {a: 1}", {"frob: there is no such setting; there are: listen"}},
            {"quite_another_thing: 4", {"there is no such setting; there are: listen, tls, keys"}},
            {"boxes.running: 4", {"boxes.running", "boxes: and below it running:"}},
            {"tls: {key_pem: x}", {"there are: certificate, key"}},
            {"boxes: 4", {"settings of its own"}},
            {"boxes: [running]", {"settings of its own"}},
            {"screen: {a: 1}", {"is not allowed"}},
            /* contradictions */
            {"limits: {timeout_seconds: 301}", {"301 is above ceilings.timeout_seconds, which is 300"}},
            {"ceilings: {max_pids: 5}\nlimits: {max_pids: 6}", {"line 2: limits.max_pids: 6"}},
            {"pool: {low: 5, high: 4}", {"line 1: pool.low: 5 is above pool.high, which is 4"}},
            {"listen: ['0.0.0.0:80']", {"0.0.0.0:80", "keys", "127.0.0.1"}},
            {"listen: ['[::]:80']", {"other hosts"}},
            {"listen: ['[::ffff:10.0.0.1]:80']", {"IPv4 as such"}},
            {"listen: ['[::ffff:127.0.0.1]:80']", {"IPv4 as such"}},
            {"listen: ['127.0.0.1:80', '127.0.0.1:80']", {"twice"}},
            {"listen: ['[::1]:80', '[0::1]:80']", {"twice"}},
            {"tls: {certificate: /x}", {"tls.key"}},
            {"tls: {key: /x}", {"tls.certificate"}},
            {"keys: [{name: a, sha256: " HASH_A "}, {name: a, sha256: " HASH_B "}]",
             {"two with the name 'a'"}},
            {"keys: [{name: a, sha256: " HASH_A "}, {name: b, sha256: " HASH_A "}]",
             {"'a' and 'b'", "same key"}},
            {"keys: [{name: a, key_file: /x}, {name: b, key_file: /x}]", {"same key"}},
    };
    for (size_t i = 0; i < LEN(cases); i++)
        bad(cases[i].text, strlen(cases[i].text), cases[i].words, LEN(cases[i].words));
}

static void yaml_rules(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *words[2];
    } cases[] = {
#define Y(text, ...)                                                                                         \
    {                                                                                                        \
        text, sizeof(text) - 1,                                                                              \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
            Y("", "nothing in it"),
            Y("\n# only a comment\n", "nothing in it"),
            Y("---\n", "name: value"),
            Y("- a", "name: value"),
            Y("text", "name: value"),
            Y("a: &x 1", "line 1", "anchors"),
            Y("a: &x {b: 1}", "anchors"),
            Y("a: &x [1]", "anchors"),
            Y("hosts: [a]\norigins: *x", "line 2", "aliases"),
            Y("*x : 1", "aliases"),
            Y("a: !!str 1", "tags"),
            Y("a: !x {}", "tags"),
            Y("a: !x []", "tags"),
            Y("!x a: 1", "tags"),
            Y("<<: {a: 1}", "merge keys"),
            Y("[a]: 1", "must be text"),
            Y("? {a: 1}\n: 2", "must be text"),
            Y("\"a\\0b\": 1", "NUL"),
            Y("screen: off\nscreen: warn", "line 2", "screen is there twice"),
            Y("\"screen\": off\nscreen: warn", "twice"),
            Y("screen: off\n---\nscreen: warn", "second document"),
            Y("screen: off\n...\nscreen: warn", "document"),
            Y("%YAML 1.1\n---\nscreen: off", "directives"),
            Y("%TAG ! tag:x,2000:\n---\nscreen: off", "directives"),
            Y("screen: [", "not YAML"),
            Y("screen: \"", "not YAML"),
            Y("\tscreen: off", "not YAML"),
            Y("screen: off\n sanitise: true", "not YAML"),
            Y("screen: \0", "not text"),
            Y("screen: \xff", "not text"),
            Y("screen: \xed\xa0\x80", "not text"),
            Y("\xff\xfe{\0}\0", "not text"),
            Y("screen: \x1b[0m", "not text"),
            Y("screen: \"\\ud800\"", "not YAML"),
            Y("a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "32 levels"),
            Y("a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: "
              "{a: {a: "
              "{a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}",
              "32 levels"),
    };
    for (size_t i = 0; i < LEN(cases); i++)
        bad(cases[i].text, cases[i].len, cases[i].words, LEN(cases[i].words));
    /* A byte order mark, Windows line ends and the marks of a document are nobody's fault. */
    gb_config_free(good("\xef\xbb\xbf---\r\nscreen: off\r\n...\r\n"));
    /* JSON, tabs and all. */
    gb_config_free(good("{\n\t\"screen\": \"off\",\n\t\"boxes\": {\"running\": 4, \"wait_seconds\": "
                        "2.5e0},\n\t\"hosts\": []\n}\n"));
    /* Every way to write a text. */
    struct gb_config *c = good("hosts: [a, 'b', \"c\"]\nstate_dir: >-\n  /x\nruntime_dir: |-\n  /y\n");
    assert_int_equal(c->host_count, 3);
    assert_string_equal(c->state_dir, "/x");
    gb_config_free(c);
}

/* `open`, `count` times `item`, "]": must be refused with all the words. */
static void too_many(const char *open, const char *item, size_t count, const char *const *words,
                     size_t word_count)
{
    struct gb_buf text = {.max = GB_CONFIG_BYTES};
    gb_buf_puts(&text, open);
    for (size_t i = 0; i < count; i++)
        gb_buf_puts(&text, item);
    gb_buf_puts(&text, "]");
    bad(text.data, text.len, words, word_count);
    gb_buf_done(&text);
}

static void sizes(void **state)
{
    (void)state;
    char *text = malloc(GB_CONFIG_BYTES + 1);
    assert_non_null(text);
    memset(text, '#', GB_CONFIG_BYTES + 1);
    memcpy(text, "{}\n", 3);
    struct gb_config *config = NULL;
    assert_int_equal(gb_config_read(text, GB_CONFIG_BYTES, &config, NULL), 0);
    gb_config_free(config);
    bad(text, GB_CONFIG_BYTES + 1, (const char *const[]){"larger than 1048576"}, 1);
    free(text);
    too_many("hosts: [", "a,", 65, (const char *const[]){"65 items", "up to 64"}, 2);
    too_many("x: [", "1,", 20001, (const char *const[]){"more than 20000 names and values"}, 1);
    too_many("keys: [", "{},", 257, (const char *const[]){"257", "256"}, 2);
    too_many("listen: [unix:/", "x", 107, (const char *const[]){"107 bytes"}, 1);
    too_many("runtime_dir: /", "x", 100, (const char *const[]){"runtime_dir", "107 bytes", "listen"}, 3);
    too_many("allow_degraded: [", "0123456789abcdef,", 8, (const char *const[]){"127 bytes"}, 1);
}

/* A ceiling below a default lowers what nobody has set. */
static void lowered_ceiling(void **state)
{
    (void)state;
    struct gb_config *c = good("ceilings: {max_memory_mb: 128}");
    assert_int_equal(c->limits.memory_mb, 128);
    assert_int_equal(c->ceilings.memory_mb, 128);
    assert_int_equal(c->limits.timeout_ms, 30000);
    gb_config_free(c);
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int family, port; /* family 0: refused */
        bool loopback;
    } cases[] = {
            {"127.0.0.1:8640", AF_INET, 8640, true},
            {"127.255.0.9:0", AF_INET, 0, true},
            {"0.0.0.0:80", AF_INET, 80, false},
            {"10.0.0.1:80", AF_INET, 80, false},
            {"[::1]:80", AF_INET6, 80, true},
            {"[::]:80", AF_INET6, 80, false},
            {"[::ffff:127.0.0.1]:80", 0, 0, false},
            {"[::ffff:7f00:1]:80", 0, 0, false},
            {"[2001:db8::1]:65535", AF_INET6, 65535, false},
            {"unix:/run/x", AF_UNIX, 0, true},
            {"", 0, 0, false},
            {":80", 0, 0, false},
            {"*:80", 0, 0, false},
            {"127.1:80", 0, 0, false},
            {"127.0.0.1:", 0, 0, false},
            {"127.0.0.1:80 ", 0, 0, false},
            {"127.0.0.1:0x50", 0, 0, false},
            {"0127.0.0.1:80", 0, 0, false},
            {"[127.0.0.1]:80", 0, 0, false},
            {"[::1:80", 0, 0, false},
            {"[]:80", 0, 0, false},
            {"[::1]80", 0, 0, false},
            {"unix:", 0, 0, false},
            {"unix:@abstract", 0, 0, false},
            {"unix:/a\nb", 0, 0, false},
            {"[0000:0000:0000:0000:0000:ffff:255.255.255.255.255.255.255]:80", 0, 0, false},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        struct gb_config_address a;
        struct gb_err err = {0};
        const struct sockaddr_in *in = (const struct sockaddr_in *)&a.addr;
        int r = gb_config_parse_address(cases[i].text, &a, &err);
        assert_int_equal(r, cases[i].family ? 0 : -EINVAL);
        if (r) {
            assert_int_equal(err.code, GB_ERR_CONFIG);
            continue;
        }
        assert_int_equal(a.addr.ss_family, cases[i].family);
        assert_int_equal(a.loopback, cases[i].loopback);
        if (cases[i].family != AF_UNIX)
            assert_int_equal(ntohs(in->sin_port), cases[i].port); /* in6 has it in the same place */
    }
}

/* --- round trip --- */

static uint64_t random_state;

static uint64_t draw(uint64_t most)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random_state >> 20) % (most + 1);
}

static json_t *random_number(const struct gb_setting *row)
{
    /* Never above its ceiling or high mark, whatever that becomes. */
    const bool lower = !strncmp(row->path, "limits.", 7) || !strcmp(row->path, "pool.low");
    const int64_t value = row->least + (lower ? 0 : (int64_t)draw((uint64_t)(row->most - row->least)));
    return row->decimals ? json_real((double)value / 1000) : json_integer(value);
}

static json_t *random_texts(const struct gb_setting *row)
{
    static const char *const forms[][3] = {{"listen", "127.0.0.1:", ""},
                                           {"hosts", "host-", ".example"},
                                           {"origins", "https://o", ".example:8443"},
                                           {"allow_degraded", "step-", ""}};
    json_t *list = json_array();
    const size_t count = draw(7) + !strcmp(row->path, "listen");
    for (size_t i = 0; i < count; i++)
        for (size_t f = 0; f < LEN(forms); f++)
            if (!strcmp(forms[f][0], row->path))
                json_array_append_new(list, json_sprintf("%s%u%s", forms[f][1],
                                                         (unsigned)(i * 1000 + draw(999)), forms[f][2]));
    return list;
}

static json_t *random_keys(void)
{
    json_t *list = json_array();
    const size_t count = draw(5);
    for (size_t i = 0; i < count; i++) {
        char name[32], hash[65];
        snprintf(name, sizeof(name), "key.%zu-%u", i, (unsigned)draw(99));
        for (size_t k = 0; k < 64; k++)
            hash[k] = "0123456789abcdef"[draw(15)];
        hash[64] = '\0';
        json_array_append_new(list,
                              json_pack("{ss ss ss sI sI}", "name", name, "principal",
                                        draw(1) ? name : name + 1, "sha256", hash, "rate_per_minute",
                                        (json_int_t)draw(1000000), "max_running", (json_int_t)draw(4096)));
    }
    return list;
}

/* What the policy makes of it does not matter here. */
static json_t *random_tree(const struct gb_setting *row, int depth)
{
    if (!strcmp(row->path, "secrets"))
        return json_pack("{s{ss} s{ss}}", "a", "value", "x \"\\ \xe2\x82\xac\n", "b.c", "value", "y");
    switch (depth < 5 ? draw(7) : draw(4)) {
    case 0:
        return json_integer((json_int_t)draw(UINT64_MAX - 1));
    case 1:
        return json_real((double)draw(1000000) / 7 * (draw(1) ? 1e-9 : 1e9));
    case 2:
        return json_sprintf("%u \"'\\:#\n\xe2\x82\xac", (unsigned)draw(9));
    case 3:
        return json_boolean(draw(1));
    case 4:
        return depth ? json_null() : json_array();
    default: {
        json_t *outer = draw(1) ? json_object() : json_array();
        for (uint64_t i = draw(4); i > 0; i--) {
            char name[32];
            snprintf(name, sizeof(name), "a.b[%u] \xe2\x82\xac", (unsigned)i);
            if (json_is_array(outer))
                json_array_append_new(outer, random_tree(row, depth + 1));
            else
                json_object_set_new(outer, name, random_tree(row, depth + 1));
        }
        return outer;
    }
    }
}

static json_t *random_value(const struct gb_setting *row)
{
    char path[64];
    switch (row->kind) {
    case GB_KIND_NUMBER:
        return random_number(row);
    case GB_KIND_BOOL:
        return json_boolean(draw(1));
    case GB_KIND_CHOICE:
        return json_stringn(row->words, strcspn(row->words, ","));
    case GB_KIND_TEXT:
        if (row->handed)
            return json_string("-----BEGIN X-----\n\"\\\t€\n-----END X-----\n");
        snprintf(path, sizeof(path), "/a \"'\\:#%u\xe2\x82\xac", (unsigned)draw(9));
        return json_string(path);
    case GB_KIND_KEYS:
        return random_keys();
    case GB_KIND_TREE:
        return random_tree(row, 0);
    default:
        return random_texts(row);
    }
}

/* The object that the path goes into, and its name there. */
static void find_slot(json_t *tree, const char *path, json_t **ret_section, const char **ret_name)
{
    const char *dot = strchr(path, '.');
    char section[32] = "";
    *ret_section = tree;
    *ret_name = path;
    if (dot) {
        snprintf(section, sizeof(section), "%.*s", (int)(dot - path), path);
        if (!json_object_get(tree, section))
            json_object_set_new(tree, section, json_object());
        *ret_section = json_object_get(tree, section);
        *ret_name = dot + 1;
    }
}

/* What was set comes out as it was set; and what the front reads from it is the same again, to the last byte.
 */
static void round_trip(void **state)
{
    (void)state;
    for (size_t run = 0; run < 500; run++) {
        random_state = run;
        json_t *tree = json_object();
        const bool tls = draw(1);
        for (size_t i = 0; i < gb_setting_count; i++) {
            json_t *section;
            const char *name;
            const bool of_tls = !strncmp(gb_settings[i].path, "tls.", 4);
            if (of_tls ? !tls : draw(2) == 0)
                continue;
            find_slot(tree, gb_settings[i].path, &section, &name);
            json_object_set_new(section, name, random_value(&gb_settings[i]));
        }
        char *text = json_dumps(tree, 0);
        struct gb_config *first = NULL, *second = NULL;
        struct gb_err err = {0};
        if (gb_config_from_json(text, strlen(text), &first, &err))
            fail_msg("%s\n%s", text, err.text);
        char *one = written(first, true);
        if (gb_config_from_json(one, strlen(one), &second, &err))
            fail_msg("%s\n%s", one, err.text);
        char *two = written(second, true);
        assert_string_equal(one, two);
        assert_memory_equal(&first->limits, &second->limits, sizeof(first->limits));
        assert_memory_equal(&first->ceilings, &second->ceilings, sizeof(first->ceilings));
        assert_memory_equal(&first->http, &second->http, sizeof(first->http));

        json_t *out = json_loads(one, 0, NULL), *part, *value;
        const char *name, *inner;
        assert_non_null(out);
        json_object_foreach(tree, name, part) {
            const struct gb_setting *row = gb_setting_find(name);
            if (!json_is_object(part) || (row && row->kind == GB_KIND_TREE)) {
                if (json_is_real(part))
                    assert_true(json_number_value(part) == json_number_value(json_object_get(out, name)));
                else
                    assert_true(json_equal(part, json_object_get(out, name)));
                continue;
            }
            json_object_foreach(part, inner, value) {
                const json_t *got = json_object_get(json_object_get(out, name), inner);
                assert_true(json_is_number(value) ? json_number_value(value) == json_number_value(got)
                                                  : json_equal(value, got));
            }
        }
        json_decref(out);
        json_decref(tree);
        free(text);
        free(one);
        free(two);
        gb_config_free(first);
        gb_config_free(second);
    }
}

static void too_small_a_buffer(void **state)
{
    (void)state;
    struct gb_config *config = good("{}");
    struct gb_buf out = {.max = 100};
    struct gb_err err = {0};
    assert_int_equal(gb_config_write(config, true, &out, &err), -EMSGSIZE);
    gb_buf_done(&out);
    gb_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(table_makes_sense),
            cmocka_unit_test(defaults),
            cmocka_unit_test(pool_marks),
            cmocka_unit_test(ranges),
            cmocka_unit_test(values_that_are_taken),
            cmocka_unit_test(values_that_are_not),
            cmocka_unit_test(yaml_rules),
            cmocka_unit_test(sizes),
            cmocka_unit_test(lowered_ceiling),
            cmocka_unit_test(addresses),
            cmocka_unit_test(round_trip),
            cmocka_unit_test(too_small_a_buffer),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
