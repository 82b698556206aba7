#include "schema/formats.h"

#include "base/text.h"

#include <string.h>

#define LETTERS    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS     "0123456789"
#define HEX        "0123456789abcdefABCDEF"
#define UNRESERVED LETTERS DIGITS "-._~"
#define SUB_DELIMS "!$&'()*+,;="

/* What may be beyond ASCII. */
enum beyond { ASCII, IRI, IRI_PRIVATE };

static bool is_beyond(const char *text, size_t n, enum beyond beyond)
{
    uint32_t code = (unsigned char)text[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3fU);
    const bool private = (code >= 0xe000 && code <= 0xf8ff) || code >= 0xf0000;
    if (beyond == ASCII || (private && beyond != IRI_PRIVATE))
        return false;
    /* no controls, tags, specials or noncharacters */
    return code >= 0xa0 && !(code >= 0xfdd0 && code <= 0xfdef) && !(code >= 0xfff0 && code <= 0xffff) &&
           (code & 0xfffe) != 0xfffe && !(code >= 0xe0000 && code <= 0xe0fff);
}

/* Only these characters, escapes, and what is beyond ASCII as allowed. */
static bool all_of(const char *text, size_t len, const char *allowed, enum beyond beyond)
{
    for (size_t i = 0; i < len;) {
        if (text[i] & 0x80) {
            const size_t n = gb_text_utf8_len(text + i, len - i);
            if (!n || !is_beyond(text + i, n, beyond))
                return false;
            i += n;
        } else if (text[i] == '%') {
            if (len - i < 3 || !text[i + 1] || !strchr(HEX, text[i + 1]) || !text[i + 2] ||
                !strchr(HEX, text[i + 2]))
                return false;
            i += 3;
        } else if (!text[i] || !strchr(allowed, text[i])) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

static size_t span_until(const char *text, size_t len, const char *stops)
{
    size_t n = 0;
    while (n < len && !(text[n] && strchr(stops, text[n])))
        n++;
    return n;
}

/* Behind '[', up to ']': an IPv6 address, or "v1.…". */
static bool is_literal(const char *text, size_t len)
{
    if (!len || (*text != 'v' && *text != 'V'))
        return gb_formats_ipv6(text, len);
    const char *dot = memchr(text, '.', len);
    return dot && dot > text + 1 && all_of(text + 1, (size_t)(dot - text) - 1, HEX, ASCII) &&
           !memchr(text, '%', len) && dot + 1 < text + len &&
           all_of(dot + 1, len - (size_t)(dot - text) - 1, UNRESERVED SUB_DELIMS ":", ASCII);
}

static bool is_authority(const char *text, size_t len, enum beyond beyond)
{
    const char *at = memchr(text, '@', len);
    if (at) {
        const size_t n = (size_t)(at - text);
        if (!all_of(text, n, UNRESERVED SUB_DELIMS ":", beyond))
            return false;
        text += n + 1;
        len -= n + 1;
    }
    size_t host;
    if (len && *text == '[') {
        host = span_until(text, len, "]");
        if (host == len || !is_literal(text + 1, host - 1))
            return false;
        host++;
    } else {
        host = span_until(text, len, ":");
        if (!all_of(text, host, UNRESERVED SUB_DELIMS, beyond))
            return false;
    }
    if (host == len)
        return true;
    return text[host] == ':' && !memchr(text + host, '%', len - host) &&
           all_of(text + host + 1, len - host - 1, DIGITS, ASCII);
}

static size_t scheme_length(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && text[n] && strchr(n ? LETTERS DIGITS "+-." : LETTERS, text[n]))
        n++;
    return n && n < len && text[n] == ':' ? n + 1 : 0;
}

static bool is_reference(const char *text, size_t len, bool needs_scheme, enum beyond beyond)
{
    const size_t scheme = scheme_length(text, len);
    if (needs_scheme && !scheme)
        return false;
    text += scheme;
    len -= scheme;
    if (len >= 2 && !strncmp(text, "//", 2)) {
        const size_t n = span_until(text + 2, len - 2, "/?#");
        if (!is_authority(text + 2, n, beyond))
            return false;
        text += n + 2;
        len -= n + 2;
    } else if (!scheme && span_until(text, len, ":") < span_until(text, len, "/?#")) {
        return false; /* it would look like a scheme */
    }
    const size_t path = span_until(text, len, "?#");
    const size_t query = span_until(text + path, len - path, "#");
    const size_t rest = path + query;
    return all_of(text, path, UNRESERVED SUB_DELIMS ":@/", beyond) &&
           all_of(text + path, query, UNRESERVED SUB_DELIMS ":@/?", beyond == IRI ? IRI_PRIVATE : beyond) &&
           (rest == len || all_of(text + rest + 1, len - rest - 1, UNRESERVED SUB_DELIMS ":@/?", beyond));
}

bool gb_formats_uri(const char *text, size_t len)
{
    return is_reference(text, len, true, ASCII);
}

bool gb_formats_uri_reference(const char *text, size_t len)
{
    return is_reference(text, len, false, ASCII);
}

bool gb_formats_iri(const char *text, size_t len)
{
    return is_reference(text, len, true, IRI);
}

bool gb_formats_iri_reference(const char *text, size_t len)
{
    return is_reference(text, len, false, IRI);
}
