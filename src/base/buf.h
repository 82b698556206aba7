/* A growing byte buffer with a maximum. What does not fit is counted and dropped, never an error: floods cost
 * no memory. Owns its bytes; zero-initialise, set max, release with gb_buf_done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_buf {
    char *data;
    size_t len, size, max;
    uint64_t seen; /* bytes offered, kept or not */
    bool failed;   /* memory ran out: bytes below max were lost */
};

/* Returns how many of the bytes were kept. */
size_t gb_buf_add(struct gb_buf *b, const void *data, size_t len);
size_t gb_buf_puts(struct gb_buf *b, const char *s);
size_t gb_buf_printf(struct gb_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gb_buf_done(struct gb_buf *b);

#define AUTO_BUF __attribute__((cleanup(gb_buf_done))) struct gb_buf

static inline bool gb_buf_truncated(const struct gb_buf *b)
{
    return b->seen > b->len;
}
