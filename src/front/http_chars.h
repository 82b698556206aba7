/* The character classes of RFC 9110 and RFC 3986. Not <ctype.h>: that obeys the locale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool gb_char_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool gb_char_is_alnum(char c)
{
    return gb_char_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The value of a hex digit, -1 if it is none. */
static inline int gb_char_hex(char c)
{
    if (gb_char_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static inline int gb_char_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* c is one of the characters of the text; NUL never is. */
static inline bool gb_char_in(char c, const char *text)
{
    return c && strchr(text, c);
}

static inline bool gb_char_is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* tchar: what methods, header names and the like are made of. */
static inline bool gb_char_is_token(char c)
{
    return gb_char_is_alnum(c) || gb_char_in(c, "!#$%&'*+-.^_`|~");
}

/* What a header's value is made of. Not bytes from 0x80 on: what they mean is anybody's guess. */
static inline bool gb_char_is_value(char c)
{
    return (c >= ' ' && c <= '~') || c == '\t';
}

/* What a path and a query are made of, besides escapes. */
static inline bool gb_char_is_target(char c)
{
    return gb_char_is_alnum(c) || gb_char_in(c, "-._~!$&'()*+,;=:@/?");
}
