/* What texts of the configuration must look like. */
#include "config/table.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

static bool consists_of(const char *text, const char *characters)
{
    return *text && !text[strspn(text, characters)];
}

static bool is_plain(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

static void lower(char *text)
{
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static int bad_address(struct gb_err *err, const char *text, const char *why)
{
    return gb_err_set(err, GB_ERR_CONFIG, 0,
                      "\"%.200s\" %s; write 127.0.0.1:8640, [::1]:8640 (numbers, not names) or unix:/path",
                      text, why);
}

static int parse_unix(const char *text, struct gb_config_address *ret, struct gb_err *err)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&ret->addr;
    const char *path = text + strlen("unix:");
    const size_t len = strlen(path);
    if (*path != '/' || !is_plain(path))
        return bad_address(err, text, "is no absolute path");
    if (len >= sizeof(un->sun_path))
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "\"%.200s\": the path of a unix socket has up to %zu bytes, this has %zu", text,
                          sizeof(un->sun_path) - 1, len);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len + 1);
    ret->len = sizeof(*un);
    ret->loopback = true;
    return 0;
}

int gb_config_parse_address(const char *text, struct gb_config_address *ret, struct gb_err *err)
{
    *ret = (struct gb_config_address){0};
    if (!strncmp(text, "unix:", strlen("unix:")))
        return parse_unix(text, ret, err);
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN + 2];
    int64_t port;
    if (!colon || gb_text_parse_decimal(colon + 1, 0, &port) || port > UINT16_MAX)
        return bad_address(err, text, "has no port from 0 to 65535 at its end");
    const size_t len = (size_t)(colon - text);
    if (len >= sizeof(host))
        return bad_address(err, text, "is no address");
    memcpy(host, text, len);
    host[len] = '\0';
    struct sockaddr_in *in = (struct sockaddr_in *)&ret->addr;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->addr;
    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
            return bad_address(err, text, "is no address");
        /* Our IPv6 sockets take IPv6 only, so it could not be bound. */
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
            return bad_address(err, text, "is an IPv4 address in disguise");
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        ret->len = sizeof(*in6);
        ret->loopback = IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
        return 0;
    }
    if (inet_pton(AF_INET, host, &in->sin_addr) != 1)
        return bad_address(err, text, "is no address");
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    ret->len = sizeof(*in);
    ret->loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
    return 0;
}

const char *gb_form_address(char *text)
{
    struct gb_config_address address;
    return gb_config_parse_address(text, &address, NULL)
                   ? "write 127.0.0.1:8640, [::1]:8640 (numbers, not names; IPv4 as such, not as "
                     "[::ffff:127.0.0.1]) or unix:/path (absolute, up to 107 bytes)"
                   : NULL;
}

/* As gb_run_set_cgroup_parent takes it, and short enough for the message to the launcher. */
const char *gb_form_cgroup(char *text)
{
    const char *relative = text + strspn(text, "/");
    const bool good = *text && strlen(text) < 256 && is_plain(text) &&
                      (!*relative || gb_text_is_relative_name(relative));
    return good ? NULL : "it takes a path below the cgroup mount, such as /system.slice/glovebox.service";
}

/* Without a port: the Host header is compared by name, whatever port a proxy in between has. */
const char *gb_form_host(char *text)
{
    const size_t len = strlen(text);
    char inner[INET6_ADDRSTRLEN + 2];
    struct in6_addr address;
    lower(text);
    if (consists_of(text, LETTERS DIGITS ".-_") && len < 254 && !strstr(text, "..") && *text != '.' &&
        *text != '-')
        return NULL;
    if (len > 2 && len < sizeof(inner) && text[0] == '[' && text[len - 1] == ']') {
        memcpy(inner, text + 1, len - 2);
        inner[len - 2] = '\0';
        if (inet_pton(AF_INET6, inner, &address) == 1)
            return NULL;
    }
    return "it takes a host name or address without port, such as sandbox.example.com or [2001:db8::1]";
}

const char *gb_form_origin(char *text)
{
    lower(text);
    const char *host = !strncmp(text, "http://", 7)    ? text + 7
                       : !strncmp(text, "https://", 8) ? text + 8
                                                       : "";
    return consists_of(host, LETTERS DIGITS ".-_:[]") && strlen(text) < 512
                   ? NULL
                   : "it takes scheme, host and port as a browser sends them, such as "
                     "https://app.example.com:8443, "
                     "without a path";
}

const char *gb_form_path(char *text)
{
    return *text == '/' && is_plain(text) ? NULL : "it takes an absolute path without control characters";
}

const char *gb_form_pem(char *text)
{
    return strstr(text, "-----BEGIN ") ? NULL : "it takes PEM";
}

/* Which steps there are, and which may be left out, is checked by gb_config_load: the front reads a
 * configuration too, and has no business with the sandbox. */
const char *gb_form_step(char *text)
{
    return consists_of(text, LETTERS DIGITS "-") ? NULL : "it takes the name of a confinement step";
}
