/* The formats of strings. Each is checked by its own grammar, in linear time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct gb_format;

/* NULL: not known, and so only a remark. */
const struct gb_format *gb_format_find(const char *name);
/* Some are known, but nothing here can tell what is one. */
bool gb_format_can_check(const struct gb_format *format);
bool gb_format_check(const struct gb_format *format, const char *text, size_t len);
/* "a date, as 2026-11-15" */
const char *gb_format_what(const struct gb_format *format);
