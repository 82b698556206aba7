/* Inside ecma.c: reads a pattern of ECMA-262 and writes it for PCRE2. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* -EINVAL: it is none; -ENOTSUP: it is one, but cannot be searched within bounds. The error says why. */
int gb_ecma_write(const char *pattern, size_t len, struct gb_buf *out, struct gb_err *err);

#define GB_ECMA_PROPERTY 96
/* What \p (letter p) or \P of that name is to PCRE2. 0 or -ENOENT. */
int gb_ecma_property(char letter, const char *name, char ret_escape[static GB_ECMA_PROPERTY]);
