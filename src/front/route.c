#include "front/route.h"

#include "base/auto.h"
#include "front/approval.h"
#include "front/auth.h"
#include "front/call.h"
#include "front/listing.h"
#include "front/pages.h"
#include "front/reply.h"
#include "front/send.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void call(struct conn *c);

/* Every door of the service. tests/service/test_openapi.py compares this table with openapi.json. */
static const struct route {
    const char *method, *path;
    bool open; /* answers whoever may connect: says nothing about anybody */
    bool json; /* takes a JSON body */
    void (*answer)(struct conn *c);
} routes[] = {
        {"POST", "/execute", false, true, call},
        {"POST", "/v1/execute", false, true, call},
        {"GET", "/v1/tools", false, false, listing_tools},
        {"POST", "/v1/tools/{name}/call", false, true, call},
        {"GET", "/v1/policy", false, false, listing_policy},
        {"GET", "/v1/approvals", false, false, approval_list},
        {"GET", "/v1/approvals/{id}", false, false, approval_show},
        {"POST", "/v1/approvals/{id}", false, true, approval_decide},
        {"GET", "/v1/executions", false, false, pages_executions},
        {"GET", "/v1/executions/{id}", false, false, pages_execution},
        {"POST", "/v1/executions/{id}/cancel", false, false, pages_cancel},
        {"GET", "/v1/capabilities", false, false, listing_capabilities},
        {"GET", "/healthz", true, false, pages_health},
        {"GET", "/health", true, false, pages_health},
        {"GET", "/readyz", true, false, pages_ready},
        {"GET", "/metrics", false, false, pages_metrics},
        {"GET", "/openapi.json", true, false, pages_openapi},
};

static bool matches(const char *pattern, struct gb_slice path, struct gb_slice *ret_param)
{
    const char *hole = strchr(pattern, '{');
    if (!hole)
        return gb_slice_is(path, pattern);
    const char *rest = strchr(hole, '}') + 1;
    const size_t before = (size_t)(hole - pattern), after = strlen(rest);
    if (path.len <= before + after || memcmp(path.data, pattern, before) ||
        memcmp(path.data + path.len - after, rest, after))
        return false;
    *ret_param = (struct gb_slice){path.data + before, path.len - before - after};
    return !memchr(ret_param->data, '/', ret_param->len);
}

bool route_accepts(struct gb_slice accept, const char *type)
{
    const size_t len = strlen(type);
    for (size_t i = 0; i + len <= accept.len; i++) {
        const bool starts = !i || strchr(", \t", accept.data[i - 1]);
        const bool ends = i + len == accept.len || strchr(",; \t", accept.data[i + len]);
        if (starts && ends && !strncasecmp(accept.data + i, type, len))
            return true;
    }
    return false;
}

static bool has_json_type(const struct gb_http_request *http)
{
    const struct gb_http_header *type = gb_http_find(http, "Content-Type", NULL);
    if (!type)
        return false;
    const char *end = memchr(type->value.data, ';', type->value.len);
    struct gb_slice media = {type->value.data, end ? (size_t)(end - type->value.data) : type->value.len};
    while (media.len && (media.data[media.len - 1] == ' ' || media.data[media.len - 1] == '\t'))
        media.len--;
    return gb_slice_is_nocase(media, "application/json");
}

/* Which methods the path has, as the value of Allow; empty if there is no such path. */
static const struct route *find(struct conn *c, char *allow, size_t size)
{
    const struct gb_http_request *http = &c->x->http;
    const struct route *found = NULL;
    *allow = '\0';
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        struct gb_slice param = {0};
        if (!matches(routes[i].path, http->path, &param))
            continue;
        const bool get = !strcmp(routes[i].method, "GET");
        if (gb_slice_is(http->method, routes[i].method) || (get && gb_slice_is(http->method, "HEAD"))) {
            found = &routes[i];
            c->x->param = param;
        }
        const size_t used = strlen(allow);
        snprintf(allow + used, size - used, "%s%s", used ? ", " : "", get ? "GET, HEAD" : routes[i].method);
    }
    return found;
}

/* A browser asks before it lets a page of a listed origin call us. */
static bool preflight(struct conn *c, const char *allow)
{
    if (!*allow || !gb_slice_is(c->x->http.method, "OPTIONS") || !gb_http_find(&c->x->http, "Origin", NULL))
        return false;
    char headers[256];
    snprintf(headers, sizeof(headers),
             "Access-Control-Allow-Methods: %s\r\n"
             "Access-Control-Allow-Headers: authorization, content-type, idempotency-key, x-api-key\r\n",
             allow);
    send_reply(c, 204, "", headers, "", 0);
    return true;
}

/* What can be known of a body before it comes. */
static int check_body(struct conn *c, const struct route *route, struct gb_err *err)
{
    if (route->json)
        return has_json_type(&c->x->http)
                       ? 0
                       : gb_err_set(err, GB_ERR_MEDIA, 0, "Content-Type must be application/json");
    c->x->body.max = 0; /* chunks can still be empty */
    return c->x->http.content_length ? gb_err_set(err, GB_ERR_USAGE, 0, "this request takes no body") : 0;
}

bool route_find(struct conn *c)
{
    struct gb_err err = {0};
    char allow[64], header[80] = "";
    const struct route *route = find(c, allow, sizeof(allow));
    int r = auth_origin(c, &err);
    if (!r && preflight(c, allow))
        return false;
    /* Whoever may not ask is not told what there is. */
    if (!r && !(route && route->open)) {
        r = auth_principal(c, &err);
        if (r && err.code == GB_ERR_UNAUTHORIZED)
            snprintf(header, sizeof(header), "WWW-Authenticate: Bearer realm=\"glovebox\"\r\n");
    }
    if (!r && !*allow) {
        r = gb_err_set(&err, GB_ERR_NOT_FOUND, 0, "there is no such path; /openapi.json lists them");
    } else if (!r && !route) {
        r = gb_err_set(&err, GB_ERR_METHOD, 0, "this path takes: %s", allow);
        snprintf(header, sizeof(header), "Allow: %s\r\n", allow);
    } else if (!r && route) {
        r = check_body(c, route, &err);
    }
    if (r)
        reply_problem(c, 0, &err, header);
    else
        c->x->route = route;
    return r == 0;
}

static void call(struct conn *c)
{
    call_begin(c, c->x->route->path);
}

void route_call(struct conn *c)
{
    c->x->route->answer(c);
}
