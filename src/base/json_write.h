/* Writes JSON into a buffer. Strings are made valid UTF-8 on the way: each invalid byte becomes U+FFFD. The
 * writer keeps the commas; the caller keeps the nesting. It parses nothing, so privileged programs may link
 * it. */
#pragma once

#include "base/buf.h"

struct gb_json {
    struct gb_buf *out;
    bool first; /* nothing written yet at this level */
};

void gb_json_open(struct gb_json *j, const char *key, char bracket);
void gb_json_close(struct gb_json *j, char bracket);
void gb_json_text(struct gb_json *j, const char *key, const char *text);
void gb_json_bytes(struct gb_json *j, const char *key, const char *text, size_t len);
void gb_json_int(struct gb_json *j, const char *key, int64_t value);
/* value / 10^decimals, with as many digits behind the point as needed */
void gb_json_decimal(struct gb_json *j, const char *key, int64_t value, unsigned decimals);
void gb_json_bool(struct gb_json *j, const char *key, bool value);
void gb_json_null(struct gb_json *j, const char *key);
void gb_json_base64(struct gb_json *j, const char *key, const void *data, size_t len);
/* A value that is JSON already. */
void gb_json_raw(struct gb_json *j, const char *key, const char *json, size_t len);
