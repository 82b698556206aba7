/* tool_http: one request to one upstream, and its redirects as far as the policy lets them lead. */
#include "broker/tool.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "broker/dial.h"
#include "broker/fill.h"
#include "redact/redact.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define URL_MOST      65536
#define HEADERS_MOST  65536 /* of one answer */
#define HOSTS_MOST    256
#define REDIRECTS     3
#define BODY_BYTES    1000000
#define CONNECT_MS    10000L
#define STATUS_FIRST  200
#define STATUS_BEHIND 300

struct http {
    struct tool_call *call;
    const json_t *spec;
    CURL *curl;
    struct dial dial;
    struct gb_host_url upstream; /* the policy's own */
    struct gb_buf url;
    const char *method;
    struct curl_slist *headers; /* with secrets in them, perhaps: for the upstream alone */
    struct curl_slist *plain;   /* for whoever a redirect leads to */
    char *json;                 /* the body, or NULL */
    struct gb_buf body;         /* of the answer */
    size_t header_bytes;
};

/* --- what is asked --- */

static int deny(struct http *h, enum gb_denial_code code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static int deny(struct http *h, enum gb_denial_code code, const char *format, ...)
{
    char reason[sizeof(h->call->denials[0].reason)];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    gb_denial_add(h->call->denials, &h->call->denial_count, code, NULL, "%s", reason);
    return -EINVAL;
}

/* How many characters one '.' (or one separator) takes here, in any of its spellings; 0 if there is none. */
static size_t spelled(const char *p, const char *end, const char *plain, const char *first,
                      const char *second)
{
    if (strchr(plain, *p))
        return 1;
    return end - p >= 3 && (!strncasecmp(p, first, 3) || !strncasecmp(p, second, 3)) ? 3 : 0;
}

/* An argument must not climb: ".." means the same to servers however it and the separators around it are
 * written, and some decode a path before they look at it. */
static bool climbs(const char *path)
{
    const char *end = path + strcspn(path, "?");
    size_t dots = 0, others = 0;
    for (const char *p = path; p < end;) {
        const size_t dot = spelled(p, end, ".", "%2e", "%2e");
        const size_t cut = dot ? 0 : spelled(p, end, "/\\", "%2f", "%5c");
        if (cut && !others && (dots == 1 || dots == 2))
            return true;
        dots = cut ? 0 : dots + !!dot;
        others = cut ? 0 : others + !dot;
        p += dot ? dot : cut ? cut : 1;
    }
    return !others && (dots == 1 || dots == 2);
}

/* Parameters whose argument is absent are left out. */
static int add_query(struct http *h)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(h->spec, "query"), name, value) {
        AUTO_BUF text = {.max = URL_MOST};
        int r = fill_text(h->call, json_string_value(value), FILL_URL, &text, NULL, NULL);
        if (r == -ENOENT)
            continue;
        if (r)
            return r;
        AUTO_FREE char *key = curl_easy_escape(h->curl, name, 0);
        gb_buf_printf(&h->url, "%c%s=%s", strchr(h->url.data, '?') ? '&' : '?', key ? key : "",
                      text.len ? text.data : "");
    }
    return 0;
}

static int build_url(struct http *h)
{
    const char *text = json_string_value(json_object_get(h->spec, "url")), *why, *absent = "";
    h->url.max = URL_MOST;
    if (gb_host_parse_url(text, &h->upstream, &why))
        return -EINVAL;
    int r = fill_text(h->call, text, FILL_URL, &h->url, NULL, &absent);
    if (r == -ENOENT)
        return deny(h, GB_DENIAL_ARGUMENTS, "the address of the tool needs %.70s", absent);
    r = r ? r : add_query(h);
    if (r)
        return r;
    if (h->url.failed || gb_buf_truncated(&h->url))
        return deny(h, GB_DENIAL_ARGUMENTS, "the arguments make an address of more than 64 KiB");
    if (climbs(h->url.data + (h->upstream.rest - text)))
        return deny(h, GB_DENIAL_ARGUMENTS, "a part of the path that is '.' or '..' is not allowed");
    return 0;
}

static int add_header(struct http *h, const char *line, bool secret)
{
    struct curl_slist *all = curl_slist_append(h->headers, line);
    struct curl_slist *some = secret ? h->plain : curl_slist_append(h->plain, line);
    h->headers = all ? all : h->headers;
    h->plain = some ? some : h->plain;
    return all && (secret || some) ? 0 : -ENOMEM;
}

static int build_headers(struct http *h)
{
    const char *name;
    json_t *value;
    int r = 0;
    json_object_foreach(json_object_get(h->spec, "headers"), name, value) {
        AUTO_BUF line = {.max = URL_MOST};
        bool secret = false;
        gb_buf_printf(&line, "%s: ", name);
        r = fill_text(h->call, json_string_value(value), FILL_TEXT, &line, &secret, NULL);
        if (r == -ENOENT)
            continue; /* its argument is absent */
        r = r ? r : add_header(h, line.data, secret);
        if (r)
            return r;
    }
    r = h->json ? add_header(h, "Content-Type: application/json", false) : 0;
    return r ? r : add_header(h, "Expect:", false); /* curl's own 100-continue only costs a round trip */
}

static int build_body(struct http *h)
{
    const json_t *json = json_object_get(h->spec, "json");
    bool secret = false;
    if (!json)
        return 0;
    AUTO_JSON filled = fill_json(h->call, json, &secret);
    h->json = filled ? json_dumps(filled, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    return h->json ? 0 : h->call->denial_count ? -EINVAL : -ENOMEM;
}

/* --- one exchange --- */

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct http *h = context;
    gb_buf_add(&h->body, data, size * count);
    return gb_buf_truncated(&h->body) || h->body.failed ? 0 : size * count; /* the rest is not wanted */
}

static size_t take_header(char *data, size_t size, size_t count, void *context)
{
    struct http *h = context;
    (void)data;
    h->header_bytes += size * count;
    return h->header_bytes > HEADERS_MOST ? 0 : size * count;
}

static int set_options(struct http *h)
{
    CURL *c = h->curl;
    const bool good = !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
                      !curl_easy_setopt(c, CURLOPT_PROXY, "") && !curl_easy_setopt(c, CURLOPT_NETRC, 0L) &&
                      !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
                      !curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L) &&
                      !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
                      !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                      !curl_easy_setopt(c, CURLOPT_USERAGENT, "glovebox/" GB_VERSION) &&
                      !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
                      !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body) &&
                      !curl_easy_setopt(c, CURLOPT_WRITEDATA, h) &&
                      !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header) &&
                      !curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
    return good ? 0 : -ENOMEM;
}

static int set_request(struct http *h, const char *url, bool own)
{
    const int64_t left_ms = (h->call->deadline_us - gb_clock_us()) / 1000;
    CURL *c = h->curl;
    h->body.len = h->body.seen = h->header_bytes = 0;
    bool good = !curl_easy_setopt(c, CURLOPT_URL, url) &&
                !curl_easy_setopt(c, CURLOPT_HTTPHEADER, own ? h->headers : h->plain) &&
                !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
    if (h->json)
        good = good && !curl_easy_setopt(c, CURLOPT_POSTFIELDS, h->json);
    else if (strcmp(h->method, "GET") != 0)
        good = good && !curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
    else
        good = good && !curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
    return good && !curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, h->method) ? 0 : -ENOMEM;
}

/* Does a list of the policy name this host? */
static bool is_listed(const struct http *h, const char *list, const struct gb_host *host)
{
    const json_t *entries = json_object_get(h->spec, list);
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const char *text = json_string_value(json_array_get(entries, i));
        struct gb_host entry;
        if (text && !gb_host_parse(text, strlen(text), &entry) &&
            gb_host_covers(&entry, host->name, host->port))
            return true;
    }
    return false;
}

static bool is_upstream(const struct http *h, const struct gb_host_url *url)
{
    return !strcmp(url->scheme, h->upstream.scheme) && !strcmp(url->host.name, h->upstream.host.name) &&
           url->host.port == h->upstream.host.port;
}

/* 0: there is an answer; 1: it failed, and the result says so; else negative. */
static int exchange(struct http *h, const char *url, const struct gb_host_url *to, struct gb_err *err)
{
    int r = dial_prepare(&h->dial, h->curl, &to->host, is_listed(h, "private", &to->host), h->call, err);
    if (r == -ENOENT)
        return 1;
    r = r ? r : set_request(h, url, is_upstream(h, to));
    if (r)
        return r;
    const CURLcode code = curl_easy_perform(h->curl);
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && gb_buf_truncated(&h->body)))
        return 0;
    if (code == CURLE_OPERATION_TIMEDOUT)
        r = dial_failed(h->call, "%s did not answer in time", to->host.name);
    else if (h->header_bytes > HEADERS_MOST)
        r = dial_failed(h->call, "the headers of the answer are more than %d bytes", HEADERS_MOST);
    else
        r = dial_failed(h->call, "%s: %s", to->host.name, curl_easy_strerror(code));
    return r ? r : 1;
}

/* --- redirects --- */

/* Where the answer leads: NULL if nowhere. A redirect that is not allowed is refused, not shown: following it
 * is what the caller would try next. */
static int next_hop(struct http *h, const struct gb_host_url *from, long status, char **ret_url,
                    struct gb_host_url *ret_to)
{
    char *location = NULL;
    const char *why = NULL;
    *ret_url = NULL;
    if (status < 301 || status > 308 || status == 304 || status == 305 || status == 306)
        return 0;
    curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &location);
    if (!location)
        return 0;
    if (gb_host_parse_url(location, ret_to, &why) ||
        (strcmp(ret_to->scheme, "http") != 0 && strcmp(ret_to->scheme, "https") != 0))
        return deny(h, GB_DENIAL_DESTINATION,
                    "the upstream redirects to what is no plain http or https address: %s",
                    why ? why : "another scheme");
    if (!is_upstream(h, ret_to) && !is_listed(h, "hosts", &ret_to->host))
        return deny(h, GB_DENIAL_DESTINATION, "the upstream redirects to %.200s, which is not listed",
                    ret_to->host.name);
    if (!strcmp(from->scheme, "https") && strcmp(ret_to->scheme, "https") != 0)
        return deny(h, GB_DENIAL_DESTINATION, "the upstream redirects from https to http, to %.200s",
                    ret_to->host.name);
    const bool keeps = status == 307 || status == 308;
    if (keeps && strcmp(h->method, "GET") != 0 && !is_upstream(h, ret_to))
        return deny(h, GB_DENIAL_DESTINATION, "the upstream redirects what was sent to it to %.200s",
                    ret_to->host.name);
    if (!keeps && strcmp(h->method, "GET") != 0) {
        h->method = "GET";
        free(TAKE_PTR(h->json));
    }
    *ret_url = strdup(location);
    return *ret_url ? 0 : -ENOMEM;
}

/* --- the answer --- */

/* Rules for this tool's own secrets and nothing else. NULL if it has none, or there is no memory. */
static struct gb_rules *own_secrets(const struct http *h, bool *ret_failed)
{
    const char *off[64], *values[64];
    const struct gb_policy *policy = h->call->policy;
    struct gb_rules_options options = {.off = off, .secrets = values};
    for (size_t i = 0; i < gb_rules_builtin_count() && i < ARRAY_LEN(off); i++)
        off[options.off_count++] = gb_rules_builtin_name(i);
    for (size_t i = 0; i < policy->secret_count && i < ARRAY_LEN(values); i++)
        if (strlen(policy->secrets[i].value) >= GB_SECRET_LEAST) /* the others' were overwritten */
            values[options.secret_count++] = policy->secrets[i].value;
    struct gb_rules *rules = options.secret_count ? gb_rules_new(&options, NULL) : NULL;
    *ret_failed = options.secret_count && !rules;
    return rules;
}

/* The front sanitises. But where the answer was cut off, half a secret may be at the end, which it could not
 * know: what could be the beginning of one goes no further than here. */
static json_t *text_value(const struct http *h)
{
    AUTO_BUF clean = {.max = SIZE_MAX / 2};
    bool failed;
    struct gb_rules *rules = own_secrets(h, &failed);
    struct gb_redact *r = failed ? NULL : gb_redact_new(rules, GB_REDACT_HOLD);
    const bool good = r && !gb_redact_feed(r, h->body.data ? h->body.data : "", h->body.len,
                                           !gb_buf_truncated(&h->body), &clean);
    gb_redact_free(r);
    gb_rules_free(rules);
    return good ? json_stringn(clean.data ? clean.data : "", clean.len) : NULL;
}

/* The same for bytes, of which a tail is left out that could hold the longest secret, escaped (\\u0041). */
static size_t whole_bytes(const struct http *h)
{
    size_t longest = 0;
    for (size_t i = 0; gb_buf_truncated(&h->body) && i < h->call->policy->secret_count; i++) {
        const size_t len = strlen(h->call->policy->secrets[i].value);
        longest = len > longest ? len : longest;
    }
    return h->body.len > 6 * longest ? h->body.len - 6 * longest : 0;
}

static json_t *body_value(const struct http *h, const char *type)
{
    json_t *value = NULL;
    const bool is_json = type && (strcasestr(type, "application/json") || strcasestr(type, "+json"));
    if (is_json && !gb_buf_truncated(&h->body) &&
        !gb_json_read(h->body.data ? h->body.data : "", h->body.len, &value, NULL))
        return value;
    if (gb_text_find_binary(h->body.data ? h->body.data : "", h->body.len) == h->body.len ||
        (type && !strncasecmp(type, "text/", 5)))
        return text_value(h);
    AUTO_BUF out = {.max = SIZE_MAX / 2};
    struct gb_json j = {.out = &out, .first = true};
    gb_json_base64(&j, NULL, h->body.data, whole_bytes(h));
    /* it wrote a quoted string */
    return out.len < 2 || out.failed ? NULL
                                     : json_pack("{s:o}", "base64", json_stringn(out.data + 1, out.len - 2));
}

static int answer(struct http *h, long status, struct gb_err *err)
{
    char *type = NULL;
    curl_easy_getinfo(h->curl, CURLINFO_CONTENT_TYPE, &type);
    json_t *body = body_value(h, type);
    const bool shown = type && gb_text_find_binary(type, strlen(type)) == strlen(type);
    h->call->result =
            body ? json_pack("{s:I, s:s?, s:o, s:b}", "status", (json_int_t)status, "content_type",
                             shown ? type : NULL, "body", body, "truncated", gb_buf_truncated(&h->body))
                 : NULL;
    h->call->failed = status < STATUS_FIRST || status >= STATUS_BEHIND;
    return h->call->result ? 0 : gb_err_set(err, GB_ERR_BUSY, ENOMEM, "keep the answer");
}

static int run(struct http *h, struct gb_err *err)
{
    const json_t *most = json_object_get(h->spec, "redirects");
    int left = most ? (int)json_integer_value(most) : REDIRECTS;
    AUTO_FREE char *url = strdup(h->url.data);
    struct gb_host_url to = h->upstream;
    for (;;) {
        long status = 0;
        struct gb_host_url next;
        int r = url ? exchange(h, url, &to, err) : -ENOMEM;
        if (r)
            return r == 1 ? 0 : r;
        curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
        char *where = NULL;
        r = next_hop(h, &to, status, &where, &next);
        if (r || !where)
            return r ? r : answer(h, status, err);
        free(url);
        url = where;
        to = next;
        to.rest = NULL; /* it pointed into what curl had */
        if (left-- == 0)
            return dial_failed(h->call, "the upstream redirects too often");
    }
}

static int prepare(struct http *h)
{
    const json_t *bytes = json_object_get(h->spec, "max_bytes"), *method = json_object_get(h->spec, "method");
    h->body.max = bytes ? (size_t)json_integer_value(bytes) : BODY_BYTES;
    h->method = method ? json_string_value(method) : "GET";
    h->curl = curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_easy_init();
    int r = h->curl ? set_options(h) : -ENOMEM;
    r = r ? r : build_url(h);
    r = r ? r : build_body(h);
    return r ? r : build_headers(h);
}

int tool_http(struct tool_call *call, struct gb_err *err)
{
    struct http h = {.call = call, .spec = call->tool->spec};
    int r = prepare(&h);
    r = r ? r : run(&h, err);
    curl_easy_cleanup(h.curl);
    dial_done(&h.dial);
    curl_slist_free_all(h.headers);
    curl_slist_free_all(h.plain);
    free(h.json);
    gb_buf_done(&h.url);
    gb_buf_done(&h.body);
    if (r && call->denial_count)
        return 0; /* refused: that is an answer */
    return r && err->code == GB_ERR_NONE ? gb_err_set(err, GB_ERR_INTERNAL, -r, "make the request") : r;
}
