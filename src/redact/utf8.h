/* Makes a stream of bytes valid UTF-8: each byte that is part of no character becomes U+FFFD. A character
 * that is split over two writes stays whole. Internal to redact/. */
#pragma once

#include "base/buf.h"

struct gb_utf8 {
    char held[4]; /* the beginning of a character whose rest has not come yet */
    size_t count;
};

void gb_utf8_add(struct gb_utf8 *u, const char *data, size_t len, struct gb_buf *out);
/* What was begun will not be completed: the text ends here, or something else comes in between. */
void gb_utf8_cut(struct gb_utf8 *u, struct gb_buf *out);
