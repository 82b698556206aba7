#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int gb_text_parse_decimal(const char *text, unsigned decimals, int64_t *ret_value)
{
    int64_t value = 0;
    unsigned behind = 0;
    bool point = false, digit = false;
    for (const char *p = text; *p; p++) {
        if (*p == '.' && !point && decimals && digit) {
            point = true;
            digit = false;
            continue;
        }
        if (*p < '0' || *p > '9' || (point && ++behind > decimals))
            return -EINVAL;
        digit = true;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return -ERANGE;
    }
    if (!digit)
        return -EINVAL;
    for (; behind < decimals; behind++)
        if (__builtin_mul_overflow(value, 10, &value))
            return -ERANGE;
    *ret_value = value;
    return 0;
}

void gb_text_decimal(int64_t value, unsigned decimals, char *buf, size_t size)
{
    char text[48], *at = text + sizeof(text);
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    while (decimals && rest % 10 == 0) {
        rest /= 10;
        decimals--;
    }
    *--at = '\0';
    for (unsigned i = 0; i <= decimals || rest; i++, rest /= 10) {
        if (i && i == decimals)
            *--at = '.';
        *--at = (char)('0' + rest % 10);
    }
    if (value < 0)
        *--at = '-';
    const size_t len = (size_t)(text + sizeof(text) - 1 - at);
    if (!size)
        return;
    memcpy(buf, at, len < size ? len : size - 1);
    buf[len < size ? len : size - 1] = '\0';
}

size_t gb_text_utf8_len(const char *p, size_t len)
{
    const unsigned char *s = (const unsigned char *)p;
    if (!len)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] > 0x9F;
    bool beyond = s[0] == 0xF4 && s[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : n;
}

size_t gb_text_find_binary(const char *p, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = gb_text_utf8_len(p + i, len - i);
        if (!n || !p[i])
            return i;
        i += n;
    }
    return len;
}

static bool is_harmful(const unsigned char *s, size_t n)
{
    if (n == 1)
        return s[0] < 0x20 || s[0] == 0x7f;
    if (n == 2)
        return s[0] == 0xC2 && s[1] < 0xA0; /* U+0080 to U+009F */
    /* U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F */
    return n == 3 && s[0] == 0xE2 &&
           ((s[1] == 0x80 && ((s[2] >= 0x8B && s[2] <= 0x8F) || (s[2] >= 0xA8 && s[2] <= 0xAE))) ||
            (s[1] == 0x81 && s[2] >= 0xA0 && s[2] <= 0xAF));
}

void gb_text_defuse(char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = gb_text_utf8_len(text + i, len - i);
        if (!n || is_harmful((unsigned char *)text + i, n))
            memset(text + i, '?', n ? n : 1);
        i += n ? n : 1;
    }
}

bool gb_text_is_relative_name(const char *name)
{
    if (!*name || strlen(name) >= 1024)
        return false;
    for (const char *p = name; p;) {
        const char *end = strchrnul(p, '/');
        size_t len = (size_t)(end - p);
        if (!len || len > 255 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p = *end ? end + 1 : NULL;
    }
    return true;
}

bool gb_text_is_like(const char *name, const char *pattern)
{
    const size_t len = strlen(pattern);
    return len && pattern[len - 1] == '*' ? !strncmp(name, pattern, len - 1) : !strcmp(name, pattern);
}

bool gb_text_in_list(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; p && *p;) {
        const char *end = strchrnul(p, ',');
        if ((size_t)(end - p) == len && !memcmp(p, word, len))
            return true;
        p = *end ? end + 1 : end;
    }
    return false;
}

void gb_text_hex(const uint8_t *bytes, size_t len, char *ret_hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        ret_hex[2 * i] = digits[bytes[i] >> 4];
        ret_hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_hex[2 * len] = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int gb_text_unhex(const char *hex, uint8_t *ret_bytes, size_t len)
{
    if (strlen(hex) != 2 * len)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

void gb_text_time(int64_t us, char *buf, size_t size)
{
    const time_t seconds = us / 1000000 - (us % 1000000 < 0);
    char text[40];
    struct tm tm;
    if (!gmtime_r(&seconds, &tm)) { /* a year that no calendar has */
        snprintf(buf, size, "%" PRId64, us);
        return;
    }
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf, size, "%s.%06dZ", text, (int)(us - (int64_t)seconds * 1000000));
}

size_t gb_text_distance(const char *a, const char *b)
{
    const size_t a_len = strlen(a), b_len = strlen(b);
    size_t row[GB_TEXT_DISTANCE + 1];
    if (a_len > GB_TEXT_DISTANCE || b_len > GB_TEXT_DISTANCE)
        return SIZE_MAX;
    for (size_t k = 0; k <= b_len; k++)
        row[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            const size_t above = row[k];
            const size_t least = above < row[k - 1] ? above : row[k - 1];
            const size_t change = diagonal + (a[i - 1] != b[k - 1]);
            row[k] = change < least + 1 ? change : least + 1;
            diagonal = above;
        }
    }
    return row[b_len];
}
