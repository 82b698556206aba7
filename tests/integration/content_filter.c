/* Screening and sanitising as a filter, to compare them with Python's re: reads records from standard input,
 * answers each on standard output. A record is a letter, a length (4 bytes, little endian) and so many bytes;
 * an answer is a length and bytes. "s": names of those of the seeds' rules that
 * fire on this code, a line each. "r":
 * the text, sanitised. "c": the text, without what looks like a credential; the seeds' four rules are off. */
#include "redact/redact.h"
#include "screen/screen.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MOST (64U << 20)

/* The seeds' ten patterns as rules of an operator: they take the place of the built-in ones. */
#define SEED(its_name, its_pattern)                                                                          \
    {                                                                                                        \
        .name = its_name, .language = "*", .pattern = its_pattern, .action = -1                              \
    }
static const struct gb_screen_rule seed_rules[] = {
        SEED("subprocess execution", "subprocess\\.(run|call|Popen|check_output)"),
        SEED("OS command execution", "os\\.(system|exec|spawn|popen)"),
        SEED("filesystem modification", "shutil\\.(rmtree|move)"),
        SEED("network socket access", "socket\\."),
        SEED("HTTP requests", "requests\\.(get|post|put|delete)"),
        SEED("URL access", "urllib"),
        SEED("dynamic import", "__import__\\("),
        SEED("dynamic code execution", "eval\\(|exec\\("),
        SEED("file write access", "open\\(.*(w|a|x).*\\)"),
        SEED("system file access", "/etc/|/proc/|/sys/"),
};

static void screen_code(const struct gb_screen *screen, const char *code, size_t len, struct gb_buf *out)
{
    struct gb_finding found[GB_FINDINGS];
    struct gb_screen_actions actions;
    gb_screen_actions_init(screen, GB_SCREEN_WARN, &actions);
    size_t count = gb_screen_code(screen, &actions, "python", code, len, found);
    for (size_t i = 0; i < count; i++)
        gb_buf_printf(out, "%u %s\n", found[i].line, found[i].rule);
}

static int redact(const struct gb_rules *rules, const char *text, size_t len, struct gb_buf *out)
{
    struct gb_redact *r = gb_redact_new(rules, GB_REDACT_HOLD);
    int failed = r ? gb_redact_feed(r, text, len, true, out) : -1;
    gb_redact_free(r);
    return failed;
}

int main(void)
{
    struct gb_err err = {0};
    struct gb_screen *screen = gb_screen_new(seed_rules, sizeof(seed_rules) / sizeof(seed_rules[0]), &err);
    static const char *const seeds[] = {"home directory", "IPv4 address", "secret assignment",
                                        "temporary directory"};
    const struct gb_rules_options only = {.off = seeds, .off_count = sizeof(seeds) / sizeof(seeds[0])};
    struct gb_rules *rules = gb_rules_new(NULL, &err);
    struct gb_rules *credentials = gb_rules_new(&only, &err);
    if (!screen || !rules || !credentials) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int kind, failed = 0;
    while (!failed && (kind = getchar()) != EOF) {
        uint32_t len = 0;
        if (fread(&len, sizeof(len), 1, stdin) != 1 || le32toh(len) > RECORD_MOST)
            return 1;
        len = le32toh(len);
        char *text = malloc(len + 1);
        if (!text || fread(text, 1, len, stdin) != len)
            return 1;
        struct gb_buf out = {.max = SIZE_MAX / 2};
        if (kind == 's')
            screen_code(screen, text, len, &out);
        else
            failed = redact(kind == 'c' ? credentials : rules, text, len, &out);
        uint32_t answer = htole32((uint32_t)out.len);
        fwrite(&answer, sizeof(answer), 1, stdout);
        fwrite(out.data ? out.data : "", 1, out.len, stdout);
        fflush(stdout);
        free(text);
        gb_buf_done(&out);
    }
    gb_rules_free(rules);
    gb_rules_free(credentials);
    gb_screen_free(screen);
    return failed ? 1 : 0;
}
