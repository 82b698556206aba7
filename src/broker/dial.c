#include "broker/dial.h"

#include "base/auto.h"
#include "broker/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ADDRESSES 16 /* of one name; more are not tried */

int dial_failed(struct tool_call *call, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_decref(call->result);
    call->failed = true;
    call->result = json_pack("{s:s}", "error", text);
    return call->result ? 0 : -ENOMEM;
}

/* The last word: whatever curl is about to dial. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    const struct dial *d = context;
    (void)purpose;
    if (!d->any && address_refused(&address->addr))
        return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int refuse(struct tool_call *call, const struct gb_host *host, const char *what)
{
    gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_DESTINATION, NULL, "%s is at %s", host->name,
                  what);
    return -EACCES;
}

/* "name:port:address,address": one refused address makes all of them suspect. */
static int look_at(const struct addrinfo *found, const struct gb_host *host, bool any, struct gb_buf *pin,
                   struct tool_call *call)
{
    size_t count = 0;
    const bool v6_name = strchr(host->name, ':') != NULL;
    gb_buf_printf(pin, v6_name ? "[%s]:%u:" : "%s:%u:", host->name, host->port);
    for (const struct addrinfo *a = found; a && count < ADDRESSES; a = a->ai_next) {
        char text[INET6_ADDRSTRLEN];
        const void *bytes = a->ai_family == AF_INET
                                    ? (const void *)&((struct sockaddr_in *)(void *)a->ai_addr)->sin_addr
                                    : (const void *)&((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_addr;
        const char *what = address_refused(a->ai_addr);
        if (what && !any)
            return refuse(call, host, what);
        if (!inet_ntop(a->ai_family, bytes, text, sizeof(text)))
            continue;
        gb_buf_printf(pin, a->ai_family == AF_INET6 ? "%s[%s]" : "%s%s", count++ ? "," : "", text);
    }
    return count ? 0 : -ENOENT;
}

static int resolve(const struct gb_host *host, bool any, struct gb_buf *pin, struct tool_call *call)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = host->is_address ? AI_NUMERICHOST : 0};
    struct addrinfo *found = NULL;
    int r = getaddrinfo(host->name, NULL, &hints, &found) ? -ENOENT : look_at(found, host, any, pin, call);
    if (found)
        freeaddrinfo(found);
    if (r == -ENOENT && dial_failed(call, "the name %s has no address", host->name))
        return -ENOMEM;
    return r;
}

int dial_prepare(struct dial *d, CURL *curl, const struct gb_host *host, bool any, struct tool_call *call,
                 struct gb_err *err)
{
    AUTO_BUF pin = {.max = 4096};
    dial_done(d);
    d->any = any;
    int r = resolve(host, any, &pin, call);
    if (r == -EACCES || r == -ENOENT)
        return r;
    if (!r && !pin.failed && !gb_buf_truncated(&pin))
        d->pins = curl_slist_append(NULL, pin.data);
    if (!d->pins)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "resolve a name");
    const bool good = !curl_easy_setopt(curl, CURLOPT_RESOLVE, d->pins) &&
                      !curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
                      !curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, d) &&
                      !curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    return good ? 0 : gb_err_set(err, GB_ERR_INTERNAL, 0, "tell curl where to connect");
}

void dial_done(struct dial *d)
{
    curl_slist_free_all(TAKE_PTR(d->pins));
}
