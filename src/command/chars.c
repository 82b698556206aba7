/* Characters that may not stand in a line, and places in it. */
#include "command/form.h"

#include "base/auto.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define EXCERPT 40 /* bytes of the line that a reason shows */

struct range {
    uint32_t first, last;
    const char *why;
};

static const struct range hidden[] = {
#define GB_HIDDEN(first, last, why) {first, last, why},
#define GB_ALIKE(first, last, why)
#include "command/chars.def"
#undef GB_HIDDEN
#undef GB_ALIKE
};

static const struct range alike[] = {
#define GB_HIDDEN(first, last, why)
#define GB_ALIKE(first, last, why) {first, last, why},
#include "command/chars.def"
#undef GB_HIDDEN
#undef GB_ALIKE
};

static const char *find_range(const struct range *ranges, size_t count, uint32_t point)
{
    for (size_t i = 0; i < count; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return ranges[i].why;
    return NULL;
}

/* Of a valid UTF-8 sequence. */
static uint32_t decode(const char *bytes, size_t count)
{
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t point = (unsigned char)bytes[0] & first_bits[count];
    for (size_t i = 1; i < count; i++)
        point = point << 6 | ((unsigned char)bytes[i] & 0x3F);
    return point;
}

const char *gb_command_bad_char(const char *bytes, size_t count, bool bare)
{
    const uint32_t point = decode(bytes, count);
    if (point < 0x80) {
        if (point == '\n')
            return "a line end: one line is one call";
        return (point < ' ' && point != '\t') || point == 0x7F ? "a control character" : NULL;
    }
    const char *why = find_range(hidden, ARRAY_LEN(hidden), point);
    return why || !bare ? why : find_range(alike, ARRAY_LEN(alike), point);
}

/* The characters from `at` to the next blank, as many as a reason has room for. */
static void excerpt(const char *line, size_t len, size_t at, char *buf, size_t size)
{
    size_t n = 0;
    while (at + n < len && n < EXCERPT && (!n || (line[at + n] != ' ' && line[at + n] != '\t'))) {
        const size_t step = gb_text_utf8_len(line + at + n, len - at - n);
        if (!step || n + step >= size)
            break;
        n += step;
    }
    memcpy(buf, line + at, n);
    buf[n] = '\0';
    gb_text_defuse(buf);
}

void gb_command_place(const char *line, size_t len, size_t at, char *buf, size_t size)
{
    size_t column = 1;
    for (size_t i = 0; i < at;) {
        const size_t n = gb_text_utf8_len(line + i, len - i);
        i += n ? n : 1;
        column++;
    }
    const size_t n = at < len ? gb_text_utf8_len(line + at, len - at) : 0;
    if (at >= len) {
        snprintf(buf, size, "column %zu (byte %zu), the end", column, at);
    } else if (!n) {
        snprintf(buf, size, "column %zu (byte %zu), byte 0x%02X", column, at, (unsigned char)line[at]);
    } else if (n > 1 || line[at] < ' ' || line[at] == 0x7F) {
        snprintf(buf, size, "column %zu (byte %zu), U+%04X", column, at, decode(line + at, n));
    } else {
        char text[EXCERPT + 8];
        excerpt(line, len, at, text, sizeof(text));
        snprintf(buf, size, "column %zu (byte %zu), '%s'", column, at, text);
    }
}
