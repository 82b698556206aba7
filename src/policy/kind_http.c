/* Tools of the kind http. */
#include "policy/kinds.h"

#include "base/auto.h"
#include "policy/host.h"
#include "policy/template.h"

#include <string.h>
#include <strings.h>

static const char *text_of(const json_t *spec, const char *name)
{
    return json_string_value(json_object_get(spec, name));
}

/* A name of a list of texts, in any case of letters. */
static bool is_one_of(const char *const *list, const char *name)
{
    while (*list && strcasecmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static int check_url(struct gb_build *b, const struct gb_tool *tool, const char *path,
                     struct gb_host_url *ret)
{
    const char *url = text_of(tool->spec, "url"), *why = NULL;
    struct gb_template_item item;
    char where[GB_BUILD_PATH];
    size_t at = 0, plain = 0;
    snprintf(where, sizeof(where), "%s.http.url", path);
    if (gb_host_parse_url(url, ret, &why))
        return gb_build_fail(b, where, "%s", why);
    /* Braces that are no place are no part of a URL either: most likely a name that is written wrongly. */
    while (gb_template_next(url, &at, &item)) {
        if (item.literal || memchr(url + plain, '{', item.start - plain))
            break;
        plain = item.end;
    }
    if (strpbrk(url + plain, "{}"))
        return gb_build_fail(b, where, "there is a brace that is not part of {name} or {secret:NAME}");
    return gb_kind_check_text(b, tool, where, url, GB_TEXT_ARGUMENTS | GB_TEXT_SECRETS | GB_TEXT_ONE_LINE);
}

/* --- hosts --- */

/* Each entry of a list must be one; `known`, if given, must be among what the tool can reach. */
static int check_hosts(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *list,
                       const struct gb_host_url *url)
{
    const json_t *entries = json_object_get(tool->spec, list), *more = json_object_get(tool->spec, "hosts");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const char *text = json_string_value(json_array_get(entries, i));
        const char *where = gb_build_path(b, "%s.http.%s[%zu]", path, list, i);
        struct gb_host entry, other;
        if (gb_host_parse(text, strlen(text), &entry))
            return gb_build_fail(b, where,
                                 "'%.64s' is not allowed; it takes a host or host:port, such as "
                                 "api.example.com or 10.0.0.5:8080, without scheme, path or *",
                                 text);
        if (!url)
            continue;
        bool reached = gb_host_covers(&entry, url->host.name, url->host.port);
        for (size_t k = 0; !reached && k < json_array_size(more); k++) {
            const char *host = json_string_value(json_array_get(more, k));
            reached = !gb_host_parse(host, strlen(host), &other) && !strcmp(other.name, entry.name) &&
                      (!other.port || !entry.port || other.port == entry.port);
        }
        if (!reached)
            return gb_build_fail(
                    b, where,
                    "the tool never goes there: '%.64s' is neither the host of its url nor one of "
                    "its hosts",
                    text);
    }
    return 0;
}

static bool is_private(const struct gb_tool *tool, const struct gb_host_url *url)
{
    const json_t *entries = json_object_get(tool->spec, "private");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const char *text = json_string_value(json_array_get(entries, i));
        struct gb_host entry;
        if (!gb_host_parse(text, strlen(text), &entry) &&
            gb_host_covers(&entry, url->host.name, url->host.port))
            return true;
    }
    return false;
}

/* --- query, headers, body --- */

static int check_query(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json_object_get(tool->spec, "query"), name, value) {
        char where[GB_BUILD_PATH];
        snprintf(where, sizeof(where), "%s.http.query.%.64s", path, name);
        int r = gb_kind_check_text(b, tool, where, json_string_value(value),
                                   GB_TEXT_ARGUMENTS | GB_TEXT_SECRETS | GB_TEXT_ABSENT | GB_TEXT_ONE_LINE);
        if (r)
            return r;
    }
    return 0;
}

static int check_headers(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    static const char *const ours[] = {"host",       "content-length", "transfer-encoding", "connection",
                                       "te",         "trailer",        "upgrade",           "expect",
                                       "keep-alive", "content-type",   "proxy-connection",  NULL};
    static const char *const credentials[] = {
            "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", NULL};
    const bool json = json_object_get(tool->spec, "json");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json_object_get(tool->spec, "headers"), name, value) {
        const char *text = json_string_value(value);
        char where[GB_BUILD_PATH];
        snprintf(where, sizeof(where), "%s.http.headers.%s", path, name);
        const bool type = !strcasecmp(name, "content-type");
        if (is_one_of(ours, name) && (!type || json))
            return gb_build_fail(b, where, "this header is made from the rest; leave it out");
        if (is_one_of(credentials, name) && !strchr(text, '{'))
            return gb_build_fail(b, where, "put the credential under `secrets`, and {secret:NAME} here");
        int r = gb_kind_check_text(b, tool, where, text,
                                   GB_TEXT_ARGUMENTS | GB_TEXT_SECRETS | GB_TEXT_ONE_LINE);
        if (r)
            return r;
    }
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the readers allow */
static int check_body(struct gb_build *b, const struct gb_tool *tool, char *path, json_t *value)
{
    const size_t len = strlen(path);
    const char *name;
    json_t *item;
    size_t i;
    int r = 0;
    if (json_is_string(value))
        return gb_kind_check_text(b, tool, path, json_string_value(value),
                                  GB_TEXT_ARGUMENTS | GB_TEXT_SECRETS | GB_TEXT_OPTIONAL | GB_TEXT_ANY_TYPE);
    json_object_foreach(value, name, item) {
        snprintf(path + len, GB_BUILD_PATH - len, ".%s", name);
        r = r ? r : check_body(b, tool, path, item);
    }
    json_array_foreach(value, i, item) {
        snprintf(path + len, GB_BUILD_PATH - len, "[%zu]", i);
        r = r ? r : check_body(b, tool, path, item);
    }
    path[len] = '\0';
    return r;
}

/* --- the whole --- */

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the readers allow */
static bool has_secret(json_t *value)
{
    const char *name;
    json_t *item;
    size_t i;
    if (json_is_string(value))
        return gb_kind_has_secret(json_string_value(value));
    json_object_foreach(value, name, item)
        if (has_secret(item))
            return true;
    json_array_foreach(value, i, item)
        if (has_secret(item))
            return true;
    return false;
}

int gb_kind_check_http(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const char *method = text_of(tool->spec, "method");
    json_t *body = json_object_get(tool->spec, "json");
    struct gb_host_url url;
    char where[GB_BUILD_PATH];
    snprintf(where, sizeof(where), "%s.http.json", path);
    int r = check_url(b, tool, path, &url);
    r = r ? r : check_hosts(b, tool, path, "hosts", NULL);
    r = r ? r : check_hosts(b, tool, path, "private", &url);
    r = r ? r : check_query(b, tool, path);
    r = r ? r : check_headers(b, tool, path);
    if (r)
        return r;
    if (body && (!method || !strcmp(method, "GET")))
        return gb_build_fail(b, where, "a GET has no body; add method: POST");
    if (!strcmp(url.scheme, "http") && has_secret((json_t *)tool->spec) && !is_private(tool, &url))
        return gb_build_fail(
                b, gb_build_path(b, "%s.http.url", path),
                "a secret would go over the network unencrypted; write https://, or list the host under "
                "`private` if it is one of your own");
    return body ? check_body(b, tool, where, body) : 0;
}
