#include "front/auth.h"

#include "base/auto.h"
#include "front/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define KEY_MOST 512
#define LOCAL    "local"

/* --- keys --- */

/* The one credential of a request. Two could mean different callers to different readers, so two are none. */
static int credential(const struct gb_http_request *http, struct gb_slice *ret, struct gb_err *err)
{
    size_t bearers = 0, keys = 0;
    const struct gb_http_header *bearer = gb_http_find(http, "Authorization", &bearers);
    const struct gb_http_header *key = gb_http_find(http, "X-API-Key", &keys);
    if (bearers + keys == 0)
        return gb_err_set(err, GB_ERR_UNAUTHORIZED, 0,
                          "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY");
    if (bearers + keys > 1)
        return gb_err_set(err, GB_ERR_UNAUTHORIZED, 0, "more than one key was sent");
    if (key) {
        *ret = key->value;
        return 0;
    }
    static const char scheme[] = "Bearer ";
    if (bearer->value.len < sizeof(scheme) || strncasecmp(bearer->value.data, scheme, sizeof(scheme) - 1))
        return gb_err_set(err, GB_ERR_UNAUTHORIZED, 0, "Authorization must be: Bearer KEY");
    *ret = (struct gb_slice){bearer->value.data + sizeof(scheme) - 1,
                             bearer->value.len - (sizeof(scheme) - 1)};
    return 0;
}

/* Hashes are compared, all of them and to their ends, so that time tells nothing about the keys. */
static int by_key(struct conn *c, struct gb_err *err)
{
    const struct gb_config *config = c->policy->config;
    struct gb_slice given = {0};
    int r = credential(&c->x->http, &given, err);
    if (r)
        return r;
    uint8_t hash[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)given.data, given.len > KEY_MOST ? KEY_MOST : given.len);
    SHA256Final(hash, &ctx);
    const struct gb_config_key *found = NULL;
    for (size_t i = 0; i < config->key_count; i++)
        if (CRYPTO_memcmp(hash, config->keys[i].sha256, sizeof(hash)) == 0)
            found = &config->keys[i];
    if (!found || given.len > KEY_MOST)
        return gb_err_set(err, GB_ERR_UNAUTHORIZED, 0, "the key is not one of ours");
    snprintf(c->x->principal, sizeof(c->x->principal), "%s", found->principal);
    return 0;
}

/* Without keys, only our own user and root, on this host. */
static int by_uid(struct conn *c, struct gb_err *err)
{
    if (c->peer_uid < 0)
        c->peer_uid = peer_uid(c);
    if (c->peer_uid != 0 && c->peer_uid != (int64_t)c->front->own_uid)
        return gb_err_set(
                err, GB_ERR_FORBIDDEN, 0,
                "no keys are configured, so only the user who runs the service, and root, are served");
    snprintf(c->x->principal, sizeof(c->x->principal), LOCAL);
    return 0;
}

int auth_principal(struct conn *c, struct gb_err *err)
{
    return c->policy->config->key_count ? by_key(c, err) : by_uid(c, err);
}

bool auth_is_known(const struct gb_config *config, const char *principal)
{
    for (size_t i = 0; i < config->key_count; i++)
        if (!strcmp(config->keys[i].principal, principal))
            return true;
    return !config->key_count && !strcmp(principal, LOCAL);
}

/* --- Host and Origin --- */

bool auth_origin_listed(const struct gb_config *config, struct gb_slice origin)
{
    for (size_t i = 0; i < config->origin_count; i++)
        if (gb_slice_is_nocase(origin, config->origins[i]))
            return true;
    return false;
}

/* It stays the same for as long as the connection lasts. */
static const char *own_address(struct conn *c)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);
    char text[INET6_ADDRSTRLEN] = "";
    if (*c->own || getsockname(c->source.fd, (struct sockaddr *)&a, &len))
        return c->own;
    if (a.ss_family == AF_INET &&
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&a)->sin_addr, text, sizeof(text)))
        snprintf(c->own, sizeof(c->own), "%s", text);
    if (a.ss_family == AF_INET6 &&
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&a)->sin6_addr, text, sizeof(text)))
        snprintf(c->own, sizeof(c->own), "[%s]", text);
    return c->own;
}

/* A name that an attacker's DNS could point at us is not one of these. The port is not looked at: port
 * forwarding changes it, and rebinding does not need to. */
static bool host_is_ours(struct conn *c)
{
    const struct gb_config *config = c->policy->config;
    struct gb_slice host = c->x->http.host;
    const char *colon = memrchr(host.data, ':', host.len);
    if (colon && !memchr(colon, ']', host.len - (size_t)(colon - host.data)))
        host.len = (size_t)(colon - host.data);
    if (gb_slice_is_nocase(host, "localhost"))
        return true;
    for (size_t i = 0; i < config->host_count; i++)
        if (gb_slice_is_nocase(host, config->hosts[i]))
            return true;
    const char *own = own_address(c);
    return *own && gb_slice_is_nocase(host, own);
}

int auth_origin(struct conn *c, struct gb_err *err)
{
    const struct gb_http_request *http = &c->x->http;
    size_t count = 0;
    /* No browser can be made to speak to a unix socket. */
    if (!c->listener->is_unix && http->host.len && !host_is_ours(c))
        return gb_err_set(err, GB_ERR_FORBIDDEN, 0,
                          "Host: this service is not called that; add the name to `hosts` if it is");
    const struct gb_http_header *origin = gb_http_find(http, "Origin", &count);
    if (count > 1 || (origin && !auth_origin_listed(c->policy->config, origin->value)))
        return gb_err_set(err, GB_ERR_FORBIDDEN, 0, "Origin: web pages may call only if listed in `origins`");
    const struct gb_http_header *site = gb_http_find(http, "Sec-Fetch-Site", NULL);
    if (site && !origin && !gb_slice_is(site->value, "same-origin") && !gb_slice_is(site->value, "none"))
        return gb_err_set(err, GB_ERR_FORBIDDEN, 0, "Sec-Fetch-Site: a request from another web site");
    return 0;
}
