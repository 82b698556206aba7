#include "schema/tree.h"

#include "base/auto.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gb_block {
    struct gb_block *next;
    max_align_t data[];
};

void *gb_arena_new(struct gb_schema *s, size_t size)
{
    struct gb_block *b = calloc(1, sizeof(*b) + size);
    if (!b)
        return NULL;
    b->next = s->blocks;
    s->blocks = b;
    return b->data;
}

const char *gb_arena_print(struct gb_schema *s, const char *fmt, ...)
{
    AUTO_FREE char *made = NULL;
    va_list args;
    va_start(args, fmt);
    const int n = vasprintf(&made, fmt, args);
    va_end(args);
    if (n < 0) {
        made = NULL; /* it need not be */
        return NULL;
    }
    char *text = gb_arena_new(s, (size_t)n + 1);
    if (text)
        memcpy(text, made, (size_t)n + 1);
    return text;
}

const char *gb_arena_below(struct gb_schema *s, const char *where, const char *name)
{
    char *text = gb_arena_new(s, strlen(where) + 2 * strlen(name) + 2);
    if (!text)
        return NULL;
    size_t n = (size_t)snprintf(text, strlen(where) + 2, "%s/", where);
    for (; *name; name++) {
        if (*name == '~' || *name == '/') {
            text[n++] = '~';
            text[n++] = *name == '~' ? '0' : '1';
        } else {
            text[n++] = *name;
        }
    }
    return text;
}

void gb_arena_free(struct gb_schema *s)
{
    while (s->blocks) {
        struct gb_block *b = s->blocks;
        s->blocks = b->next;
        free(b);
    }
}

int gb_arena_error(struct gb_err *err)
{
    return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "compile a schema");
}
