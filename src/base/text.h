/* Reading and writing small pieces of text: numbers with a fixed point, hexadecimal, times, UTF-8, comma
 * lists, relative names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads "12" or "1.5" (at most `decimals` digits behind the point) as value * 10^decimals. No sign, no
 * spaces, no exponent. 0, -EINVAL (not such a number) or -ERANGE. */
int gb_text_parse_decimal(const char *text, unsigned decimals, int64_t *ret_value);
void gb_text_decimal(int64_t value, unsigned decimals, char *buf, size_t size);

/* Small letters; hex has room for 2 * len + 1. */
void gb_text_hex(const uint8_t *bytes, size_t len, char *ret_hex);
/* The other way, capitals too. 0, or -EINVAL if it is not exactly len bytes. */
int gb_text_unhex(const char *hex, uint8_t *ret_bytes, size_t len);

#define GB_TIME_BYTES 32
/* Microseconds since 1970 as RFC 3339 in UTC: 2026-11-15T09:23:41.752040Z. */
void gb_text_time(int64_t us, char *buf, size_t size);

/* Length of the valid UTF-8 sequence that starts at p (1 to 4), 0 if there is none: overlong forms,
 * surrogates and values past U+10FFFF are not valid. */
size_t gb_text_utf8_len(const char *p, size_t len);
/* Offset of the first byte that is not text (invalid UTF-8 or NUL), or len if all of it is. */
size_t gb_text_find_binary(const char *p, size_t len);

/* Replaces in place what could steer a terminal or fool its reader: control characters (C0, DEL, C1), marks
 * that turn the direction of writing, and bytes that are not UTF-8. */
void gb_text_defuse(char *text);

/* A name that stays beneath its directory: relative, no empty, "." or ".." component, none over 255 bytes. */
bool gb_text_is_relative_name(const char *name);
#define GB_TEXT_DISTANCE 64
/* How many letters must be added, removed, or changed to make one of the other; SIZE_MAX if one has more than
 * GB_TEXT_DISTANCE. */
size_t gb_text_distance(const char *a, const char *b);
/* Is it this name, or, where the pattern ends with *, one that begins so? */
bool gb_text_is_like(const char *name, const char *pattern);
/* Is `word` one of the comma-separated words of `list`? */
bool gb_text_in_list(const char *list, const char *word);
