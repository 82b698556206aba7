#include "base/json_write.h"

#include "base/text.h"

#include <string.h>

#define KEY_BYTES 64 /* longer ones are written piece by piece */

/* As it is in JSON, too. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static size_t plain_bytes(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_plain((unsigned char)text[n]))
        n++;
    return n;
}

static void escape(struct gb_buf *out, const char *text, size_t len)
{
    gb_buf_add(out, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t n = plain_bytes(text + i, len - i);
        if (n) {
            gb_buf_add(out, text + i, n);
            i += n;
            continue;
        }
        n = gb_text_utf8_len(text + i, len - i);
        unsigned char c = (unsigned char)text[i];
        if (!n) {
            gb_buf_puts(out, "\xEF\xBF\xBD");
            n = 1;
        } else if (c == '"' || c == '\\') {
            gb_buf_printf(out, "\\%c", c);
        } else if (c == '\n') {
            gb_buf_add(out, "\\n", 2);
        } else if (c < 0x20 || c == 0x7f) {
            gb_buf_printf(out, "\\u%04x", c);
        } else {
            gb_buf_add(out, text + i, n);
        }
        i += n;
    }
    gb_buf_add(out, "\"", 1);
}

/* Comma and key, in one piece if they can be. */
static void lead(struct gb_json *j, const char *key)
{
    char text[KEY_BYTES + 4];
    const size_t len = key ? strlen(key) : 0;
    size_t at = 0;
    if (!j->first)
        text[at++] = ',';
    j->first = false;
    if (key && len <= KEY_BYTES && plain_bytes(key, len) == len) {
        text[at++] = '"';
        memcpy(text + at, key, len); /* NOLINT(bugprone-not-null-terminated-result): no string */
        at += len;
        text[at++] = '"';
        text[at++] = ':';
        key = NULL;
    }
    if (at)
        gb_buf_add(j->out, text, at);
    if (key) {
        escape(j->out, key, len);
        gb_buf_add(j->out, ":", 1);
    }
}

void gb_json_open(struct gb_json *j, const char *key, char bracket)
{
    lead(j, key);
    gb_buf_add(j->out, &bracket, 1);
    j->first = true;
}

void gb_json_close(struct gb_json *j, char bracket)
{
    gb_buf_add(j->out, &bracket, 1);
    j->first = false;
}

void gb_json_bytes(struct gb_json *j, const char *key, const char *text, size_t len)
{
    lead(j, key);
    escape(j->out, text ? text : "", len);
}

void gb_json_text(struct gb_json *j, const char *key, const char *text)
{
    gb_json_bytes(j, key, text, text ? strlen(text) : 0);
}

void gb_json_int(struct gb_json *j, const char *key, int64_t value)
{
    gb_json_decimal(j, key, value, 0);
}

void gb_json_decimal(struct gb_json *j, const char *key, int64_t value, unsigned decimals)
{
    char text[32];
    lead(j, key);
    gb_text_decimal(value, decimals, text, sizeof(text));
    gb_buf_puts(j->out, text);
}

void gb_json_bool(struct gb_json *j, const char *key, bool value)
{
    lead(j, key);
    gb_buf_puts(j->out, value ? "true" : "false");
}

void gb_json_null(struct gb_json *j, const char *key)
{
    lead(j, key);
    gb_buf_puts(j->out, "null");
}

void gb_json_base64(struct gb_json *j, const char *key, const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    lead(j, key);
    gb_buf_puts(j->out, "\"");
    for (size_t i = 0; i < len; i += 3) {
        const size_t have = len - i < 3 ? len - i : 3;
        const uint32_t bits = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                              (have > 2 ? (uint32_t)p[i + 2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63],
                        digits[bits & 63]};
        memset(four + have + 1, '=', 3 - have);
        gb_buf_add(j->out, four, sizeof(four));
    }
    gb_buf_puts(j->out, "\"");
}

void gb_json_raw(struct gb_json *j, const char *key, const char *json, size_t len)
{
    lead(j, key);
    gb_buf_add(j->out, json, len);
}
