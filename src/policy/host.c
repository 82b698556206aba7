#include "policy/host.h"

#include "base/auto.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Labels of letters, digits, '-' and '_', as DNS has them; the last must not look like a number. */
static bool is_name(const char *name)
{
    size_t label = 0, digits = 0;
    for (const char *p = name;; p++) {
        if (*p && *p != '.') {
            if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
                return false;
            digits += isdigit((unsigned char)*p) != 0;
            label++;
            continue;
        }
        if (!label || label > 63 || p[-1] == '-' || p[-(ptrdiff_t)label] == '-')
            return false;
        if (!*p)
            return digits < label && strncmp(p - label, "0x", 2) != 0;
        label = digits = 0;
    }
}

static int take_name(char *name, struct gb_host *ret)
{
    struct in_addr v4;
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    ret->is_address = inet_pton(AF_INET, name, &v4) == 1;
    if (ret->is_address)
        inet_ntop(AF_INET, &v4, ret->name, sizeof(ret->name));
    else if (is_name(name) && strlen(name) < 254)
        memcpy(ret->name, name, strlen(name) + 1);
    else
        return -EINVAL;
    return 0;
}

static int take_v6(const char *name, struct gb_host *ret)
{
    struct in6_addr v6;
    ret->is_address = true;
    if (inet_pton(AF_INET6, name, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6))
        return -EINVAL;
    return inet_ntop(AF_INET6, &v6, ret->name, sizeof(ret->name)) ? 0 : -EINVAL;
}

int gb_host_parse(const char *text, size_t len, struct gb_host *ret)
{
    char name[256];
    *ret = (struct gb_host){0};
    if (!len || len >= sizeof(name) || memchr(text, '\0', len))
        return -EINVAL;
    memcpy(name, text, len);
    name[len] = '\0';
    char *close = *name == '[' ? strchr(name, ']') : NULL;
    char *colon = close ? close + 1 : strchr(name, ':');
    if (*name == '[' && !close)
        return -EINVAL;
    if (colon && *colon) {
        int64_t port;
        if (*colon != ':' || gb_text_parse_decimal(colon + 1, 0, &port) || port < 1 || port > UINT16_MAX)
            return -EINVAL;
        ret->port = (uint16_t)port;
        *colon = '\0';
    }
    if (!close)
        return take_name(name, ret);
    *close = '\0';
    return take_v6(name + 1, ret);
}

bool gb_host_covers(const struct gb_host *entry, const char *name, uint16_t port)
{
    return !strcmp(entry->name, name) && (!entry->port || entry->port == port);
}

int gb_host_parse_url(const char *url, struct gb_host_url *ret, const char **ret_why)
{
    static const struct {
        const char *name;
        uint16_t port;
    } schemes[] = {{"http", 80}, {"https", 443}, {"smtp", 25}, {"smtps", 465}};
    const char *mark = strstr(url, "://");
    const size_t scheme = mark ? (size_t)(mark - url) : 0;
    *ret = (struct gb_host_url){0};
    *ret_why = NULL;
    uint16_t port = 0;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strlen(schemes[i].name) == scheme && !strncmp(schemes[i].name, url, scheme))
            port = schemes[i].port;
    const char *host = url + scheme + strlen("://");
    const size_t len = port ? strcspn(host, "/?#") : 0;
    for (const char *p = url; *p && !*ret_why; p++)
        if (*p <= ' ' || *p > '~' || *p == '\\')
            *ret_why = "it takes visible ASCII characters; others are written %XX";
    if (!port)
        *ret_why = "it has no scheme of those that are allowed";
    else if (memchr(host, '@', len))
        *ret_why = "it must hold no user name and password; use a header and a secret";
    else if (memchr(host, '{', len))
        *ret_why = "scheme, host and port are fixed; {…} may stand behind them only";
    else if (strchr(url, '#'))
        *ret_why = "it must have no #fragment";
    else if (!*ret_why && gb_host_parse(host, len, &ret->host))
        *ret_why = "its host is no name or address (write 127.0.0.1 in full, and [::1] in brackets), or its "
                   "port is none";
    if (*ret_why)
        return -EINVAL;
    memcpy(ret->scheme, url, scheme);
    ret->rest = host + len;
    ret->host.port = ret->host.port ? ret->host.port : port;
    return 0;
}
