/* Screening and sanitising as a filter, to compare them with Python's re: reads records from standard input,
 * answers each on standard output. A record is a letter, a length (4 bytes, little endian) and so many bytes;
 * an answer is a length and bytes. "s": names of the rules that fire on this Python code, a line each. "r":
 * the text, sanitised. */
#include "redact/redact.h"
#include "screen/screen.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MOST (64U << 20)

static void screen_code(const struct gb_screen *screen, const char *code, size_t len, struct gb_buf *out)
{
    struct gb_finding found[GB_FINDINGS];
    size_t count = gb_screen_code(screen, "python", code, len, found);
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
    struct gb_screen *screen = gb_screen_new(&err);
    struct gb_rules *rules = gb_rules_new(&err);
    if (!screen || !rules) {
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
            failed = redact(rules, text, len, &out);
        uint32_t answer = htole32((uint32_t)out.len);
        fwrite(&answer, sizeof(answer), 1, stdout);
        fwrite(out.data ? out.data : "", 1, out.len, stdout);
        fflush(stdout);
        free(text);
        gb_buf_done(&out);
    }
    gb_rules_free(rules);
    gb_screen_free(screen);
    return failed ? 1 : 0;
}
