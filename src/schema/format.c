#include "schema/format.h"

#include "base/auto.h"
#include "schema/ecma.h"
#include "schema/formats.h"

#include <string.h>

struct gb_format {
    const char *name, *what;
    bool (*check)(const char *text, size_t len); /* NULL: known, but cannot be checked */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_uuid(const char *text, size_t len)
{
    if (len != 36)
        return false;
    for (size_t i = 0; i < len; i++)
        if (i == 8 || i == 13 || i == 18 || i == 23 ? text[i] != '-'
                                                    : !strchr("0123456789abcdefABCDEF", text[i]))
            return false;
    return !memchr(text, 0, len);
}

static bool is_json_pointer(const char *text, size_t len)
{
    if (len && *text != '/')
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '~' && (i + 1 == len || (text[i + 1] != '0' && text[i + 1] != '1')))
            return false;
    return true;
}

static bool is_relative_json_pointer(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_digit(text[n]))
        n++;
    if (!n || (n > 1 && *text == '0'))
        return false;
    return (len - n == 1 && text[n] == '#') || is_json_pointer(text + n, len - n);
}

/* --- RFC 6570 --- */

static bool is_escape(const char *text, size_t len)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    return len >= 3 && *text == '%' && text[1] && strchr(hex, text[1]) && text[2] && strchr(hex, text[2]);
}

/* The length of a variable with its modifier; 0: none. */
static size_t variable_length(const char *text, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t n = 0;
    bool name = false; /* the last was part of a name, not a dot */
    while (n < len) {
        const size_t step = is_escape(text + n, len - n) ? 3 : text[n] && strchr(letters, text[n]) ? 1 : 0;
        if (!step && !(text[n] == '.' && name))
            break;
        name = step;
        n += step ? step : 1;
    }
    if (!name)
        return 0;
    if (n < len && text[n] == '*')
        return n + 1;
    if (n == len || text[n] != ':')
        return n;
    const size_t first = ++n;
    while (n < len && is_digit(text[n]))
        n++;
    return n == first || n - first > 4 || text[first] == '0' ? 0 : n;
}

/* Between the braces. */
static bool is_expression(const char *text, size_t len)
{
    size_t at = len && *text && strchr("+#./;?&", *text) ? 1 : 0;
    for (;;) {
        const size_t n = variable_length(text + at, len - at);
        at += n;
        if (!n || at == len)
            return n;
        if (text[at++] != ',')
            return false;
    }
}

static bool is_uri_template(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c == '{') {
            const char *end = memchr(text + i, '}', len - i);
            if (!end || !is_expression(text + i + 1, (size_t)(end - text) - i - 1))
                return false;
            i = (size_t)(end - text);
        } else if (c == '%' ? !is_escape(text + i, len - i)
                            : (unsigned char)c <= ' ' || c == 127 || strchr("\"<>\\^`|}", c)) {
            return false;
        }
    }
    return true;
}

/* --- the table --- */

static const struct gb_format formats[] = {
        {"date-time", "a date and time as 2026-11-15T09:23:41Z", gb_formats_date_time},
        {"date", "a date as 2026-11-15", gb_formats_date},
        {"time", "a time with its offset as 09:23:41Z", gb_formats_time},
        {"duration", "a duration as P1DT12H", gb_formats_duration},
        {"email", "a mail address", gb_formats_email},
        {"idn-email", "a mail address", gb_formats_idn_email},
        {"hostname", "a host name (ASCII, without xn--)", gb_formats_hostname},
        {"idn-hostname", "a host name", NULL},
        {"ipv4", "an IPv4 address as 192.0.2.1", gb_formats_ipv4},
        {"ipv6", "an IPv6 address as 2001:db8::1", gb_formats_ipv6},
        {"uri", "a URI as https://example.com/a", gb_formats_uri},
        {"uri-reference", "a URI or a relative reference", gb_formats_uri_reference},
        {"iri", "an IRI as https://example.com/a", gb_formats_iri},
        {"iri-reference", "an IRI or a relative reference", gb_formats_iri_reference},
        {"uri-template", "a URI template as /users/{name}", is_uri_template},
        {"uuid", "a UUID as 2eb8aa08-aa98-41ea-b4aa-73b441d16380", is_uuid},
        {"json-pointer", "a JSON pointer as /a/0", is_json_pointer},
        {"relative-json-pointer", "a relative JSON pointer as 1/a", is_relative_json_pointer},
        {"regex", "a regular expression of ECMA-262", gb_ecma_is_pattern},
};

const struct gb_format *gb_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

bool gb_format_can_check(const struct gb_format *format)
{
    return format->check;
}

bool gb_format_check(const struct gb_format *format, const char *text, size_t len)
{
    return format->check(text, len);
}

const char *gb_format_what(const struct gb_format *format)
{
    return format->what;
}
