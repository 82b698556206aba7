/* Formats of credentials and known secrets: found however they are cut into writes, and nothing else is. */
#include "unit.h"

#include "redact/redact.h"

#define MARK "[REDACTED_SECRET]"
#define A16  "Ab3dEf6hIj9lMn2p"
#define A32  A16 "Qr5tUv8xYz1bCd4f"
#define HEX  "0123456789abcdef"

/* One of each rule of rules.def that is about credentials. The pieces are put together by the compiler: the
 * source holds nothing that looks like one. */
static const struct {
    const char *rule, *text;
} examples[] = {
        {"private key", "-----BEGIN RSA PRIVATE "
                        "KEY-----\nProc-Type: 4\n\nMIIEabc+/=\nxx-yy\n-----END RSA PRIVATE KEY-----"},
        {"URL with a password", "://bob:hunter2%21@"},
        {"authorization header", "Authorization: Bearer " A16},
        {"secret member", "password\" : \"hunt\\\"er2\""},
        {"JSON web token", "eyJ" A16 ".eyJ" A16 "." A16},
        {"AWS access key", "AK"
                           "IAIOSFODNN7EXAMPLE"},
        {"GitHub token", "gh"
                         "p_" A32 A16},
        {"GitHub fine-grained token", "github_"
                                      "pat_" A32},
        {"GitLab token", "gl"
                         "pat-" A16 "-abcd"},
        {"Slack token", "xo"
                        "xb-123456789012-" A16},
        {"Slack app token", "xa"
                            "pp-1-A0123456789-1234567890123-" HEX HEX HEX HEX},
        {"Slack webhook", "hooks.slack"
                          ".com/services/T01234567/B01234567/" A16},
        {"Google API key", "AI"
                           "za" A32 "-_x"},
        {"Google OAuth token", "ya"
                               "29." A32},
        {"Google client secret", "GOC"
                                 "SPX-" A16 "-_Abcdefghij"},
        {"Anthropic key", "sk-"
                          "ant-api03-" A32},
        {"OpenAI key", "sk-"
                       "proj-" A32},
        {"OpenAI-style key", "sk-" A32},
        {"Stripe key", "sk_"
                       "live_" A16},
        {"Stripe webhook secret", "wh"
                                  "sec_" A32},
        {"Hugging Face token", "h"
                               "f_" A32 "Ab"},
        {"npm token", "np"
                      "m_" A32 "Ab3d"},
        {"PyPI token", "py"
                       "pi-AgE" A32 A32},
        {"SendGrid key", "S"
                         "G." A16 "abcdef." A32 "abcdefghijk"},
        {"Twilio key", "S"
                       "K" HEX HEX},
        {"DigitalOcean token", "do"
                               "p_v1_" HEX HEX HEX HEX},
        {"Telegram bot token", "123456789:"
                               "AA" A32 "x"},
        {"Discord bot token", "MT" A16 "abcdef.abcdef." A16 "abcdefghijk"},
        {"Shopify token", "sh"
                          "pat_" HEX HEX},
        {"Vault token", "hv"
                        "s." A32},
        {"Databricks token", "da"
                             "pi" HEX HEX},
        {"Docker Hub token", "dc"
                             "kr_pat_" A16 "abcd-"},
        {"Grafana token", "gl"
                          "sa_" A32 "_abcdef12"},
        {"age key", "AGE-SECRET-"
                    "KEY-1"
                    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGHIJKL"},
};

static const char *const known[] = {"s3cr3t/value+of \"the\" key", "another-known-secret", "another-known"};

static struct gb_rules *rules;

static int set_up(void **state)
{
    (void)state;
    struct gb_err err = {0};
    const struct gb_rules_options options = {.secrets = known, .secret_count = LEN(known)};
    rules = gb_rules_new(&options, &err);
    if (!rules)
        fprintf(stderr, "%s\n", err.text);
    return rules ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gb_rules_free(rules);
    return 0;
}

static struct gb_buf redact(const char *text, size_t first, size_t second)
{
    struct gb_buf out = {.max = SIZE_MAX / 2};
    struct gb_redact *r = gb_redact_new(rules, GB_REDACT_HOLD);
    assert_non_null(r);
    assert_int_equal(gb_redact_feed(r, text, first, false, &out), 0);
    assert_int_equal(gb_redact_feed(r, text + first, second - first, false, &out), 0);
    assert_int_equal(gb_redact_feed(r, text + second, strlen(text) - second, true, &out), 0);
    gb_redact_free(r);
    return out;
}

/* In one, two and three writes, cut at every place. */
static void expect(const char *text, const char *wanted)
{
    const size_t len = strlen(text);
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            struct gb_buf out = redact(text, first, second);
            if (out.len != strlen(wanted) || (out.len && memcmp(out.data, wanted, out.len)))
                fail_msg("'%s' cut at %zu and %zu: '%.*s', wanted '%s'", text, first, second, (int)out.len,
                         out.data ? out.data : "", wanted);
            gb_buf_done(&out);
        }
}

static void every_format_is_found(void **state)
{
    (void)state;
    char text[512], wanted[512];
    for (size_t i = 0; i < LEN(examples); i++) {
        snprintf(text, sizeof(text), "see (%s) here\n", examples[i].text);
        snprintf(wanted, sizeof(wanted), "see (" MARK "%s here\n",
                 !strcmp(examples[i].rule, "authorization header") ? ""
                                                                   : ")"); /* whose value is up to a space */
        expect(text, wanted);
    }
}

static void every_rule_has_an_example(void **state)
{
    (void)state;
    const size_t seeds = 4;
    for (size_t i = seeds; i < gb_rules_builtin_count(); i++) {
        size_t k = 0;
        while (k < LEN(examples) && strcmp(examples[k].rule, gb_rules_builtin_name(i)))
            k++;
        if (k == LEN(examples))
            fail_msg("no example of '%s'", gb_rules_builtin_name(i));
    }
    assert_null(gb_rules_builtin_name(gb_rules_builtin_count()));
}

static void behind_colours_and_escapes_too(void **state)
{
    (void)state;
    expect("\x1b[32mAK"
           "IAIOSFODNN7EXAMPLE\x1b[0m",
           "\x1b[32m" MARK "\x1b[0m");
    expect("\"\\nAK"
           "IAIOSFODNN7EXAMPLE\"",
           "\"\\n" MARK "\"");
}

static void known_secrets_are_found_in_every_form(void **state)
{
    (void)state;
    static const char *const forms[] = {
            "s3cr3t/value+of \"the\" key",           /* as it is */
            "s3cr3t%2Fvalue%2Bof%20%22the%22%20key", /* percent-encoded, */
            "s3cr3t%2fvalue%2bof+%22the%22+key",     /* as forms do it, */
            "%73%33%63%72%33%74%2F%76%61%6C%75%65%2B%6F%66%20%22%74%68%65%22%20%6B%65%79", /* all of it */
            "s3cr3t\\/value+of \\\"the\\\" key",                                           /* in JSON */
            "s3cr3t\\u002fvalue\\u002Bof \\u0022the\\u0022 key",
            "7333637233742f76616c75652b6f66202274686522206b6579",  /* in hexadecimal, */
            "7333637233742F76616C75652B6F6620227468652220 6B6579", /* as dumps write it */
            "73:33:63:72:33:74:2f:76:61:6c:75:65:2b:6f:66:20:22:74:68:65:22:20:6b:65:79",
            "7333637233742f76616c\n75652b6f66202274686522206b6579",
    };
    char text[256];
    for (size_t i = 0; i < LEN(forms); i++) {
        snprintf(text, sizeof(text), "<%s>", forms[i]);
        expect(text, "<" MARK ">");
    }
    /* A space inside a byte is no such form. */
    expect("<7333637233742f76616c75652b6f662022746865222 06b6579>",
           "<7333637233742f76616c75652b6f662022746865222 06b6579>");
}

/* The value of `printf '%s' before-value-after | base64` at each of the three places: no eight characters of
 * what stands for the value come through. */
static void base64_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t before = 0; before < 6; before++)
        for (int variant = 0; variant < 3; variant++) {
            char plain[64], text[128];
            snprintf(plain, sizeof(plain), "%.*sanother-known-secret", (int)before, "xyzxyz");
            while (strlen(plain) % 3)
                memcpy(plain + strlen(plain), "!", 2);
            size_t n = 0;
            const char *use = variant == 1 ? url_digits : digits;
            for (size_t i = 0; plain[i]; i += 3) {
                const unsigned v =
                        (unsigned)plain[i] << 16 | (unsigned)plain[i + 1] << 8 | (unsigned)plain[i + 2];
                for (int shift = 18; shift >= 0; shift -= 6)
                    text[n++] = use[v >> shift & 63];
                if (variant == 2 && i == 12)
                    text[n++] = '\n';
            }
            text[n] = '\0';
            struct gb_buf out = redact(text, n / 2, n / 2);
            gb_buf_puts(&out, "");
            assert_non_null(strstr(out.data, MARK));
            assert_true(out.len <= strlen(MARK) + 4 + before * 4 / 3 + 4);
            gb_buf_done(&out);
        }
}

static void the_longest_known_secret_wins(void **state)
{
    (void)state;
    expect("another-known-secret", MARK);
    expect("another-known-secre", MARK "-secre");
    expect("another-know", "another-know");
    expect("another-knownanother-known", MARK MARK);
}

static void ordinary_text_is_left_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {
            "task-" A32 " disk-0123456789abcdef0123456789abcdef",
            "sk-learn and sk-very-long-name-of-a-thing-here",
            "http://[::1]:80/a@b https://example.com/a:b@c git@github.com:a/b.git",
            "QUtJ" A32 "AKIA" A16 "9xAKIAIOSFODNN7EXAMPLE0", /* inside base64 */
            "gh_" A32 " ghp_short npm_config_cache pypi-server",
            "commit 0123456789abcdef0123456789abcdef01234567",
            "8d7f5e0e-4f0e-4d0a-9b1a-3f6f0f6f8e7d",
            "\"secrets\": [1] 'passwords' = 5, password_hash(x), token_count(list)",
            "MTAwMDAwMDAwMDAwMDAwMDAw MTIzNDU2Nzg5.MTIzNDU2 eyJub3QiOiJhIGp3dCJ9",
            "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----\nMIIC\n-----END PUBLIC KEY-----",
    };
    for (size_t i = 0; i < LEN(texts); i++)
        expect(texts[i], texts[i]);
}

static void options_replace_and_take_away(void **state)
{
    (void)state;
    static const struct gb_rule more[] = {{"IPv4 address", "[ADDRESS]", "10\\.[0-9.]+", 0, 0, false},
                                          {"ticket", "[TICKET]", "TICKET-[0-9]+", 0, 0, false}};
    static const char *const off[] = {"home directory"};
    const struct gb_rules_options options = {.more = more, .more_count = 2, .off = off, .off_count = 1};
    struct gb_err err = {0};
    struct gb_rules *all = rules;
    rules = gb_rules_new(&options, &err);
    assert_non_null(rules);
    expect("/home/bob 10.1.2.3 1.2.3.4 TICKET-7 key=x", "/home/bob [ADDRESS] 1.2.3.4 [TICKET] " MARK);
    gb_rules_free(rules);
    rules = all;
}

static void bad_secrets_are_refused(void **state)
{
    (void)state;
    static const char *const shorts[] = {"seven77"};
    const struct gb_rules_options options = {.secrets = shorts, .secret_count = 1};
    struct gb_err err = {0};
    assert_null(gb_rules_new(&options, &err));
    assert_non_null(strstr(err.text, "of 8 to 8192 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(every_format_is_found),
            cmocka_unit_test(every_rule_has_an_example),
            cmocka_unit_test(behind_colours_and_escapes_too),
            cmocka_unit_test(known_secrets_are_found_in_every_form),
            cmocka_unit_test(base64_is_found_wherever_it_stands),
            cmocka_unit_test(the_longest_known_secret_wins),
            cmocka_unit_test(ordinary_text_is_left_alone),
            cmocka_unit_test(options_replace_and_take_away),
            cmocka_unit_test(bad_secrets_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
