/* References as RFC 3986 resolves them: only the text, nothing is ever opened. */
#pragma once

#include <stddef.h>

#define GB_URI_MOST 2048

/* Resolves ref against base (which may be ""). What is behind '#' goes, percent-decoded, to ret_fragment, ""
 * if there is none; the rest to ret_uri. 0, -ENAMETOOLONG or -EINVAL (a bad percent code, or one of NUL). */
int gb_uri_resolve(const char *base, const char *ref, char ret_uri[static GB_URI_MOST],
                   char ret_fragment[static GB_URI_MOST]);
