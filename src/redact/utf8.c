#include "redact/utf8.h"

#include "base/text.h"

#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* Could more bytes make this a character? Which second bytes are allowed depends on the first: if the lowest
 * or the highest continuation fits, some continuation does. */
static bool is_begun(const char *p, size_t len)
{
    char low[4] = {'\x80', '\x80', '\x80', '\x80'}, high[4] = {'\xBF', '\xBF', '\xBF', '\xBF'};
    if (!len || len > 3)
        return false;
    memcpy(low, p, len);
    memcpy(high, p, len);
    return gb_text_utf8_len(low, 4) > len || gb_text_utf8_len(high, 4) > len;
}

static size_t skip_ascii(const char *p, size_t at, size_t len)
{
    for (uint64_t word; at + sizeof(word) <= len; at += sizeof(word)) {
        memcpy(&word, p + at, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < len && (unsigned char)p[at] < 0x80)
        at++;
    return at;
}

/* Writes what is valid or certainly not; returns how many bytes at the end are a begun character. */
static size_t repair(const char *p, size_t len, struct gb_buf *out)
{
    size_t from = 0;
    for (size_t at = skip_ascii(p, 0, len); at < len; at = skip_ascii(p, at, len)) {
        size_t n = gb_text_utf8_len(p + at, len - at);
        if (n) {
            at += n;
            continue;
        }
        gb_buf_add(out, p + from, at - from);
        if (is_begun(p + at, len - at))
            return len - at;
        gb_buf_puts(out, REPLACEMENT);
        from = ++at;
    }
    gb_buf_add(out, p + from, len - from);
    return 0;
}

void gb_utf8_add(struct gb_utf8 *u, const char *data, size_t len, struct gb_buf *out)
{
    while (u->count && len) {
        char joined[sizeof(u->held)];
        memcpy(joined, u->held, u->count);
        joined[u->count++] = *data++;
        len--;
        size_t rest = repair(joined, u->count, out);
        memcpy(u->held, joined + u->count - rest, rest);
        u->count = rest;
    }
    if (!len)
        return;
    u->count = repair(data, len, out);
    memcpy(u->held, data + len - u->count, u->count);
}

void gb_utf8_cut(struct gb_utf8 *u, struct gb_buf *out)
{
    for (; u->count; u->count--)
        gb_buf_puts(out, REPLACEMENT);
}
