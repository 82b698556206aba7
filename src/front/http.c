#include "front/http.h"

#include "base/auto.h"
#include "front/http_chars.h"

#include <arpa/inet.h>

#define METHOD_BYTES  32 /* the longest that is registered has 17 */
#define LENGTH_DIGITS 18 /* 2^63 has 19 */
#define NAME_BYTES    253
#define PORT_DIGITS   5
#define LINE_MOST     (GB_HTTP_LINE_BYTES + 2)

_Static_assert(GB_HTTP_LINE_BYTES == 8192 && GB_HTTP_HEAD_BYTES == 32768 && GB_HTTP_HEADERS == 100,
               "texts below name these");

/* --- slices --- */

bool gb_slice_is(struct gb_slice s, const char *text)
{
    return s.len == strlen(text) && (!s.len || !memcmp(s.data, text, s.len));
}

bool gb_slice_is_nocase(struct gb_slice s, const char *text)
{
    if (s.len != strlen(text))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (gb_char_lower(s.data[i]) != gb_char_lower(text[i]))
            return false;
    return true;
}

static struct gb_slice skip(struct gb_slice s, size_t n)
{
    return (struct gb_slice){s.data + n, s.len - n};
}

/* What is in front of the first c; all of it if there is none. */
static struct gb_slice until(struct gb_slice s, char c)
{
    const char *at = memchr(s.data, c, s.len);
    return at ? (struct gb_slice){s.data, (size_t)(at - s.data)} : s;
}

static struct gb_slice trim(struct gb_slice s, const char *spaces)
{
    while (s.len && gb_char_in(s.data[0], spaces))
        s = skip(s, 1);
    while (s.len && gb_char_in(s.data[s.len - 1], spaces))
        s.len--;
    return s;
}

static bool is_all(struct gb_slice s, bool (*is)(char))
{
    for (size_t i = 0; i < s.len; i++)
        if (!is(s.data[i]))
            return false;
    return true;
}

/* --- lines --- */

/* The line at *at, without its CRLF. 1, 0 (its end has not come yet) or -1. Nothing is said about a line
 * before its end is there: so the answer does not depend on how the bytes arrive. */
static int next_line(const char *data, size_t len, size_t *at, struct gb_slice *ret,
                     struct gb_http_error *err)
{
    const char *start = data + *at;
    const char *end = memchr(start, '\n', len - *at);
    if (!end)
        return 0;
    if (end == start || end[-1] != '\r')
        return gb_http_refuse(err, 400, "a line ends with LF alone: it must end with CR LF");
    *ret = (struct gb_slice){start, (size_t)(end - start) - 1};
    if (memchr(ret->data, '\r', ret->len))
        return gb_http_refuse(err, 400, "a CR that is not part of a line end");
    *at += ret->len + 2;
    return 1;
}

/* --- the request line --- */

static int read_version(struct gb_slice version, struct gb_http_request *ret, struct gb_http_error *err)
{
    const char *v = version.data;
    if (version.len != sizeof("HTTP/1.1") - 1 || memcmp(v, "HTTP/", 5) || !gb_char_is_digit(v[5]) ||
        v[6] != '.' || !gb_char_is_digit(v[7]))
        return gb_http_refuse(err, 400,
                              "the request line must be: method, one space, target, one space, HTTP/1.1");
    if (v[5] != '1' || v[7] > '1')
        return gb_http_refuse(err, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    ret->minor = (unsigned)(v[7] - '0');
    return 0;
}

static int read_method(struct gb_slice method, struct gb_http_error *err)
{
    static const struct {
        const char *method;
        struct gb_http_error error;
    } refused[] = {
            {"CONNECT", {501, "CONNECT is not served here: this is no proxy"}},
            {"TRACE", {501, "TRACE is not served here"}},
            {"PRI", {505, "HTTP/2 is not spoken here"}}, /* what its clients begin with */
    };
    if (!method.len || !is_all(method, gb_char_is_token))
        return gb_http_refuse(err, 400, "the method must be a word such as GET or POST");
    if (method.len > METHOD_BYTES)
        return gb_http_refuse(err, 501, "there is no method with so long a name");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (gb_slice_is(method, refused[i].method))
            return gb_http_refuse(err, refused[i].error.status, refused[i].error.why);
    return 0;
}

static int read_target(struct gb_slice target, struct gb_http_request *ret, struct gb_http_error *err)
{
    if (!target.len)
        return gb_http_refuse(err, 400, "the request line must have exactly one space between its parts");
    ret->target = ret->path = target;
    if (gb_slice_is(target, "*")) {
        if (!gb_slice_is(ret->method, "OPTIONS"))
            return gb_http_refuse(err, 400, "the target * goes with OPTIONS only");
        return 0;
    }
    if (target.data[0] != '/')
        return gb_http_refuse(err, 400,
                              "the target must be a path that begins with '/', not a URL or an authority");
    for (size_t i = 0; i < target.len; i++) {
        char c = target.data[i];
        if (c == '#')
            return gb_http_refuse(err, 400, "the target must have no fragment");
        if (c == '%') {
            if (target.len - i < 3 || gb_char_hex(target.data[i + 1]) < 0 ||
                gb_char_hex(target.data[i + 2]) < 0)
                return gb_http_refuse(err, 400, "a '%' in the target must be followed by two hex digits");
        } else if (!gb_char_is_target(c)) {
            return gb_http_refuse(err, 400, "a character in the target that must be percent-encoded");
        }
    }
    ret->path = until(target, '?');
    if (ret->path.len < target.len)
        ret->query = skip(target, ret->path.len + 1);
    return 0;
}

static int read_request_line(struct gb_slice line, struct gb_http_request *ret, struct gb_http_error *err)
{
    ret->method = until(line, ' ');
    struct gb_slice rest = skip(line, ret->method.len);
    struct gb_slice target = rest.len ? until(skip(rest, 1), ' ') : rest;
    rest = rest.len ? skip(rest, 1 + target.len) : rest;
    if (read_method(ret->method, err))
        return -1;
    if (read_version(rest.len ? skip(rest, 1) : rest, ret, err))
        return -1;
    return read_target(target, ret, err);
}

/* --- headers --- */

static int read_header(struct gb_slice line, struct gb_http_header *ret, struct gb_http_error *err)
{
    if (gb_char_is_space(line.data[0]))
        return gb_http_refuse(err, 400,
                              "a header line must not begin with white space (folded headers are obsolete)");
    ret->name = until(line, ':');
    if (ret->name.len == line.len)
        return gb_http_refuse(err, 400, "a header line must have a colon");
    if (ret->name.len && gb_char_is_space(ret->name.data[ret->name.len - 1]))
        return gb_http_refuse(err, 400, "no white space may stand between a header's name and its colon");
    if (!ret->name.len || !is_all(ret->name, gb_char_is_token))
        return gb_http_refuse(err, 400,
                              "a header's name must be made of letters, digits and !#$%&'*+-.^_`|~");
    ret->value = trim(skip(line, ret->name.len + 1), " \t");
    if (!is_all(ret->value, gb_char_is_value))
        return gb_http_refuse(err, 400,
                              "a header's value must be made of visible ASCII characters, spaces and tabs");
    return 0;
}

const struct gb_http_header *gb_http_find(const struct gb_http_request *r, const char *name,
                                          size_t *ret_count)
{
    const struct gb_http_header *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < r->header_count; i++)
        if (gb_slice_is_nocase(r->headers[i].name, name) && !count++)
            found = &r->headers[i];
    if (ret_count)
        *ret_count = count;
    return found;
}

static bool is_host_char(char c)
{
    return gb_char_is_alnum(c) || gb_char_in(c, "-._");
}

static bool is_port(struct gb_slice s)
{
    unsigned long port = 0;
    if (!s.len || s.len > PORT_DIGITS || !is_all(s, gb_char_is_digit))
        return false;
    for (size_t i = 0; i < s.len; i++)
        port = port * 10 + (unsigned long)(s.data[i] - '0');
    return port >= 1 && port <= 65535;
}

/* [::1] at the start of s; its length, 0 if there is none. No zone: it means something to one host only. */
static size_t bracketed(struct gb_slice s)
{
    struct gb_slice inner = until(skip(s, 1), ']');
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (inner.len == s.len - 1 || inner.len >= sizeof(text))
        return 0;
    memcpy(text, inner.data, inner.len);
    text[inner.len] = '\0';
    /* A NUL inside cannot hide the rest: header values have none. */
    return inet_pton(AF_INET6, text, &address) == 1 ? inner.len + 2 : 0;
}

static int take_host(struct gb_http_request *r, struct gb_slice value, struct gb_http_error *err)
{
    size_t name = 0;
    if (value.len && value.data[0] == '[') {
        name = bracketed(value);
    } else {
        struct gb_slice host = until(value, ':');
        if (host.len <= NAME_BYTES && is_all(host, is_host_char))
            name = host.len;
    }
    struct gb_slice rest = skip(value, name);
    if (!name || (rest.len && (rest.data[0] != ':' || !is_port(skip(rest, 1)))))
        return gb_http_refuse(
                err, 400,
                "Host must be a name or an address (IPv6 in brackets), and perhaps a colon and a port");
    r->host = value;
    return 0;
}

/* Trailing white space is legal, but some do not strip it, or not all of it. Where the end of a body or of a
 * connection is at stake, that is enough. */
static bool is_followed_by_space(struct gb_slice value)
{
    return value.data[value.len] != '\r'; /* every line has one */
}

static int take_coding(struct gb_http_request *r, struct gb_slice value, struct gb_http_error *err)
{
    if (!r->minor)
        return gb_http_refuse(err, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (is_followed_by_space(value))
        return gb_http_refuse(err, 400, "no white space may stand behind Transfer-Encoding");
    if (!gb_slice_is_nocase(value, "chunked"))
        return gb_http_refuse(err, 501, "the only Transfer-Encoding that is served is: chunked");
    r->chunked = true;
    return 0;
}

static int take_length(struct gb_http_request *r, struct gb_slice value, struct gb_http_error *err)
{
    if (!value.len || !is_all(value, gb_char_is_digit))
        return gb_http_refuse(err, 400, "Content-Length must be one number, of digits only");
    if (is_followed_by_space(value))
        return gb_http_refuse(err, 400, "no white space may stand behind Content-Length");
    if (value.len > 1 && value.data[0] == '0')
        return gb_http_refuse(err, 400, "Content-Length must not begin with 0: some would read it as octal");
    if (value.len > LENGTH_DIGITS)
        return gb_http_refuse(err, 413, "no body can be so large");
    for (size_t i = 0; i < value.len; i++)
        r->content_length = r->content_length * 10 + (uint64_t)(value.data[i] - '0');
    r->has_length = true;
    return 0;
}

static int take_expect(struct gb_http_request *r, struct gb_slice value, struct gb_http_error *err)
{
    if (!gb_slice_is_nocase(value, "100-continue"))
        return gb_http_refuse(err, 417, "the only expectation that can be met is: 100-continue");
    r->expect_continue = r->minor > 0; /* HTTP/1.0 knows no interim answers: RFC 9110, 10.1.1 */
    return 0;
}

/* All Connection headers are one list. We upgrade to nothing; but behind a request that asks for it some
 * would expect another protocol, so it is the last of its connection. */
static int take_connection(struct gb_http_request *r, struct gb_http_error *err)
{
    bool close = false, keep = false;
    for (size_t i = 0; i < r->header_count; i++) {
        if (!gb_slice_is_nocase(r->headers[i].name, "Connection"))
            continue;
        if (is_followed_by_space(r->headers[i].value))
            return gb_http_refuse(err, 400, "no white space may stand behind Connection");
        for (struct gb_slice list = r->headers[i].value; list.len;) {
            struct gb_slice item = until(list, ',');
            list = skip(list, item.len + (item.len < list.len));
            item = trim(item, " ");
            if (!is_all(item, gb_char_is_token))
                return gb_http_refuse(err, 400, "Connection must be a comma-separated list of words");
            close |= gb_slice_is_nocase(item, "close") || gb_slice_is_nocase(item, "upgrade");
            keep |= gb_slice_is_nocase(item, "keep-alive");
        }
    }
    r->keep_alive = !close && (r->minor || keep);
    return 0;
}

/* Of these we act on one, so a second one is somebody's attempt to have another reader act on the other. */
static const struct single {
    const char *name, *twice;
    int (*take)(struct gb_http_request *r, struct gb_slice value, struct gb_http_error *err);
} singles[] = {
        {"Host", "Host must not be sent more than once", take_host},
        {"Transfer-Encoding", "Transfer-Encoding must not be sent more than once", take_coding},
        {"Content-Length", "Content-Length must not be sent more than once", take_length},
        {"Expect", "Expect must not be sent more than once", take_expect},
        {"Content-Type", "Content-Type must not be sent more than once", NULL},
        {"Content-Encoding", "Content-Encoding must not be sent more than once", NULL},
        {"Authorization", "Authorization must not be sent more than once", NULL},
        {"X-API-Key", "X-API-Key must not be sent more than once", NULL},
        {"Origin", "Origin must not be sent more than once", NULL},
        {"Idempotency-Key", "Idempotency-Key must not be sent more than once", NULL},
};

static int take_headers(struct gb_http_request *r, struct gb_http_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(singles); i++) {
        size_t count;
        const struct gb_http_header *h = gb_http_find(r, singles[i].name, &count);
        if (count > 1)
            return gb_http_refuse(err, 400, singles[i].twice);
        if (h && singles[i].take && singles[i].take(r, h->value, err))
            return -1;
    }
    if (r->minor && !r->host.len)
        return gb_http_refuse(err, 400, "HTTP/1.1 needs a Host header");
    if (r->chunked && r->has_length)
        return gb_http_refuse(err, 400, "Content-Length and Transfer-Encoding must not be sent together");
    r->expect_continue &= r->chunked || r->content_length;
    return take_connection(r, err);
}

/* --- the head --- */

long gb_http_read_head(const char *data, size_t len, struct gb_http_request *ret,
                       struct gb_http_error *ret_error)
{
    *ret = (struct gb_http_request){0};
    if (!len)
        return 0;
    /* The one look before the end of a line: a client that speaks TLS need not wait for a time limit. */
    if (!gb_char_is_token(data[0]))
        return gb_http_refuse(
                ret_error, 400,
                "a request must begin with its method: no empty line, no white space before it");
    struct gb_slice line;
    size_t at = 0;
    int r = next_line(data, len < LINE_MOST ? len : LINE_MOST, &at, &line, ret_error);
    if (!r && len >= LINE_MOST)
        return gb_http_refuse(ret_error, 414, "the request line is longer than 8192 bytes");
    if (r <= 0)
        return r;
    if (read_request_line(line, ret, ret_error))
        return -1;
    for (;;) {
        r = next_line(data, len < GB_HTTP_HEAD_BYTES ? len : GB_HTTP_HEAD_BYTES, &at, &line, ret_error);
        if (!r && len >= GB_HTTP_HEAD_BYTES)
            return gb_http_refuse(ret_error, 431, "request line and headers are longer than 32768 bytes");
        if (r <= 0)
            return r;
        if (!line.len)
            break;
        if (ret->header_count == GB_HTTP_HEADERS)
            return gb_http_refuse(ret_error, 431, "more than 100 headers");
        if (read_header(line, &ret->headers[ret->header_count], ret_error))
            return -1;
        ret->header_count++;
    }
    return take_headers(ret, ret_error) ? -1 : (long)at;
}

bool gb_http_worth_reading(const char *data, size_t known, size_t len)
{
    if (len == known)
        return false;
    return !known || len >= GB_HTTP_HEAD_BYTES || (known < LINE_MOST && len >= LINE_MOST) ||
           memchr(data + known, '\n', len - known);
}
