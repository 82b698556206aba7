#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct gb_buf *b, size_t want)
{
    if (want <= b->size)
        return true;
    size_t size = b->size ? b->size : 4096;
    while (size < want)
        size *= 2;
    if (size - 1 > b->max)
        size = b->max + 1; /* one more for the NUL that add() keeps behind the text */
    char *data = realloc(b->data, size);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->size = size;
    return true;
}

size_t gb_buf_add(struct gb_buf *b, const void *data, size_t len)
{
    b->seen += len;
    size_t room = b->max - b->len;
    size_t keep = len < room ? len : room;
    if (!keep || !reserve(b, b->len + keep + 1))
        return 0;
    memcpy(b->data + b->len, data, keep);
    b->len += keep;
    b->data[b->len] = '\0';
    return keep;
}

size_t gb_buf_puts(struct gb_buf *b, const char *s)
{
    return gb_buf_add(b, s, strlen(s));
}

size_t gb_buf_printf(struct gb_buf *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (len < 0 || (size_t)len >= sizeof(text)) {
        b->failed = true;
        return 0;
    }
    return gb_buf_add(b, text, (size_t)len);
}

void gb_buf_done(struct gb_buf *b)
{
    free(b->data);
    *b = (struct gb_buf){0};
}
