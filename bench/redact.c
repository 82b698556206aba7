/* How fast output is sanitised: 64 MiB (or as many as the argument says) of each text, in writes of 64 KiB as
 * the front reads them. Hostile texts are the nearest miss of each rule, over and over, which is the most
 * work that a byte can make. Prints one JSON object a line: text, MB/s, and MB/s of the second half divided
 * by that of the first, which is about 1 if the work is linear. */
#include "base/clock.h"
#include "redact/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITE 65536

static const struct {
    const char *rule, *text; /* rule NULL: ordinary text */
} rows[] = {
        {NULL, "[ 42%] Building CXX object src/core/CMakeFiles/core.dir/engine/render_pass.cpp.o\n"
               "warning: unused variable 'count' [-Wunused-variable] at src/main.c:123:9\n"},
        {NULL, "-    if (token_count(list) > max_tokens)\n+    if (token_count(list) >= max_tokens) {\n"
               "@@ -101,7 +101,9 @@ static int parse_header(struct reader *r)\n     return read_next(r);\n"},
        {NULL, "aGVsbG8gd29ybGQgdGhpcyBpcyBhIGxvbmcgYmFzZTY0IGJsb2IgdGhhdCBnb2VzIG9uIGFuZCBvbiBhbmQgb24K\n"},
        {"home directory", "/home/"},
        {"IPv4 address", "1.1.1."},
        {"IPv4 address", "111.111.111.x"},
        {"secret assignment", "password "},
        {"secret assignment", "tokentokenkeykeysecre"},
        {"secret assignment", "key:\n"},
        {"temporary directory", "/tmp/tmp/"},
        {"private key", "-----BEGIN PRIVATE KEY----"},
        {"private key", "-----BEGIN PRIVATE KEY-----"},
        {"private key", "-----BEGIN RSA PRIVATE KEY-----\n-----EN\n"},
        {"URL with a password", "://a:"},
        {"URL with a password", "://"
                                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:"
                                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "},
        {"authorization header", "Authorization: Bearer\n"},
        {"secret member", "\"password\": \"\n"},
        {"secret member", "secret'='\\"},
        {"JSON web token", " eyJaaaaaaaaa"},
        {"JSON web token", " eyJaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.eyJ"},
        {"AWS access key", " AKIAAAAAAAAAAAAAAAA"},
        {"GitHub token", "ghp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"GitHub fine-grained token", "github_pat_AAAAAAAAAAAAAAAAAAAAA"},
        {"GitLab token", " glpat-AAAAAAAAAAAAAAAAAAA"},
        {"Slack token", " xoxb-AAAAAAAAA"},
        {"Slack webhook", "hooks.slack.com/services/AAAAAAAAAAAAAAAAAAA "},
        {"Google API key", " AIzaAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"OpenAI-style key", " sk-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"Stripe key", " sk_live_AAAAAAAAAAAAAAA"},
        {"SendGrid key", " SG.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"Twilio key", " SKaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"Telegram bot token", " 1111111111:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"Discord bot token", " MTAAAAAAAAAAAAAAAAAAAAAA.AAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"known secret", "s3cr3t-value-of-the-search-ke"},
        {"known secret", "%733cr3t-value-of-the-search-ke"},
        {"known secret", "7333637233742d76616c75652d6f662d7468652d7365617263682d6b65"},
};

static double run(const struct gb_rules *rules, const char *text, size_t bytes, double *ret_halves)
{
    const size_t len = strlen(text);
    char *chunk = malloc(WRITE + len);
    struct gb_redact *r = gb_redact_new(rules, GB_REDACT_HOLD);
    struct gb_buf out = {.max = SIZE_MAX / 2};
    if (!chunk || !r)
        exit(1);
    for (size_t at = 0; at < WRITE + len; at += len)
        memcpy(chunk + at, text, len < WRITE + len - at ? len : WRITE + len - at);
    const int64_t begun = gb_clock_us();
    int64_t middle = 0;
    for (size_t done = 0; done < bytes; done += WRITE) {
        if (gb_redact_feed(r, chunk + done % len, WRITE, done + WRITE >= bytes, &out))
            exit(1);
        out.len = out.seen = 0;
        if (!middle && done >= bytes / 2)
            middle = gb_clock_us();
    }
    const int64_t end = gb_clock_us();
    *ret_halves = (double)(middle - begun) / (double)(end - middle + 1);
    gb_redact_free(r);
    gb_buf_done(&out);
    free(chunk);
    return (double)bytes / (double)(end - begun + 1);
}

int main(int argc, char **argv)
{
    static const char *const secrets[] = {"s3cr3t-value-of-the-search-key"};
    static const char *const names[] = {"a build log", "a diff", "base64"};
    const struct gb_rules_options options = {.secrets = secrets, .secret_count = 1};
    const size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20;
    struct gb_err err = {0};
    struct gb_rules *rules = gb_rules_new(&options, &err);
    if (!rules) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double halves;
        const double speed = run(rules, rows[i].text, bytes, &halves);
        printf("{\"text\": \"%s\", \"hostile\": %s, \"mb_per_s\": %.1f, \"halves\": %.2f}\n",
               rows[i].rule ? rows[i].rule : names[i], rows[i].rule ? "true" : "false", speed, halves);
        fflush(stdout);
    }
    gb_rules_free(rules);
    return 0;
}
