/* Known secrets, found whatever form they take: as they are, percent-encoded, escaped as in JSON, in
 * hexadecimal, in base64. Internal to redact/.
 *
 * The values stand in a trie; an attempt at one place of the text follows all readings of it at once, byte by
 * byte, so that it is linear and can be continued when more text has come. */
#pragma once

#include "redact/rules.h"

#define GB_SECRET_MOST  8192 /* bytes of one */
#define GB_SECRETS_MOST 64

struct gb_secrets;

/* NULL with err on failure. count may be 0. */
struct gb_secrets *gb_secrets_new(const char *const *values, size_t count, struct gb_err *err);
void gb_secrets_free(struct gb_secrets *s);
/* As gb_rules_try: the longest secret that begins at the start of text. */
enum gb_rules_verdict gb_secrets_try(const struct gb_secrets *s, const char *text, size_t len, bool whole,
                                     size_t *ret_len);
