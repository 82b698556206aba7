#include "schema/formats.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

static bool is_address(int family, const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN], bytes[sizeof(struct in6_addr)];
    if (len >= sizeof(copy) || memchr(text, 0, len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(family, copy, bytes) == 1;
}

bool gb_formats_ipv4(const char *text, size_t len)
{
    return is_address(AF_INET, text, len);
}

bool gb_formats_ipv6(const char *text, size_t len)
{
    return is_address(AF_INET6, text, len);
}

/* Labels of letters, digits and hyphens. Names in other scripts, which xn-- stands for, have rules that need
 * tables of Unicode; rather than believe them, they are not taken. */
static bool is_label(const char *text, size_t len, bool any_script)
{
    if (!len || len > 63 || *text == '-' || text[len - 1] == '-' ||
        (len >= 4 && !strncasecmp(text, "xn--", 4)))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!(any_script && text[i] & 0x80) && (!text[i] || !strchr(LETTERS DIGITS "-", text[i])))
            return false;
    return true;
}

static bool is_domain(const char *text, size_t len, bool any_script)
{
    if (len > 253)
        return false;
    for (;;) {
        const char *dot = memchr(text, '.', len);
        const size_t n = dot ? (size_t)(dot - text) : len;
        if (!is_label(text, n, any_script))
            return false;
        if (!dot)
            return true;
        text += n + 1;
        len -= n + 1;
    }
}

bool gb_formats_hostname(const char *text, size_t len)
{
    return is_domain(text, len, false);
}

/* --- RFC 5321 --- */

/* "a.b", or anything within quotes. */
static bool is_local_part(const char *text, size_t len, bool any_script)
{
    if (!len || len > 64)
        return false;
    const bool quoted = len >= 2 && *text == '"' && text[len - 1] == '"';
    bool dot = true; /* none at the beginning, at the end, or two in a row */
    for (size_t i = quoted; i < len - quoted; i++) {
        const char c = text[i];
        if (any_script && c & 0x80) {
            dot = false;
        } else if (quoted) {
            if (c == '\\' && ++i >= len - 1)
                return false;
            if (text[i] < ' ' || text[i] == 127 || (c == '"'))
                return false;
        } else if (c == '.') {
            if (dot)
                return false;
            dot = true;
        } else {
            if (!c || !strchr(LETTERS DIGITS "!#$%&'*+-/=?^_`{|}~", c))
                return false;
            dot = false;
        }
    }
    return quoted || !dot;
}

static bool is_mail_domain(const char *text, size_t len, bool any_script)
{
    if (len < 2 || *text != '[' || text[len - 1] != ']')
        return is_domain(text, len, any_script);
    if (len > 7 && !strncasecmp(text, "[IPv6:", 6))
        return gb_formats_ipv6(text + 6, len - 7);
    return gb_formats_ipv4(text + 1, len - 2);
}

static bool is_email(const char *text, size_t len, bool any_script)
{
    const char *at = memrchr(text, '@', len);
    if (!at || len > 254)
        return false;
    const size_t local = (size_t)(at - text);
    return is_local_part(text, local, any_script) && is_mail_domain(at + 1, len - local - 1, any_script);
}

bool gb_formats_email(const char *text, size_t len)
{
    return is_email(text, len, false);
}

bool gb_formats_idn_email(const char *text, size_t len)
{
    return is_email(text, len, true);
}
