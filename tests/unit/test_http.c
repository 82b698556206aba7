#include "unit.h"

#include "front/http.h"

#define TEXT(literal) literal, sizeof(literal) - 1
#define OK            200

/* A copy without a byte behind it, so that a sanitizer sees a read past the end. */
static char *exact(const char *data, size_t len)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    return copy;
}

/* Reads the head from every prefix: 0 up to some byte, and from there on one answer, whatever follows.
 * Returns it: OK or the status. gb_http_worth_reading must have announced it. */
static int read_by_prefix(const char *data, size_t len, const char **ret_why)
{
    static struct gb_http_request r;
    struct gb_http_error error = {0, NULL}, first = {0, NULL};
    long answer = 0;
    *ret_why = NULL;
    for (size_t n = 0; n <= len; n++) {
        char *copy = exact(data, n);
        long got = gb_http_read_head(copy, n, &r, &error);
        assert_true(got <= (long)n);
        if (answer) {
            assert_int_equal(got, answer);
            assert_int_equal(error.status, first.status);
            assert_ptr_equal(error.why, first.why);
        } else if (got) {
            assert_true(gb_http_worth_reading(copy, n - 1, n));
            assert_true(gb_http_worth_reading(copy, 0, n));
            answer = got;
            first = error;
        }
        free(copy);
    }
    *ret_why = first.why;
    return answer > 0 ? OK : answer < 0 ? first.status : 0;
}

struct row {
    const char *head;
    size_t len;
    int status; /* OK, what it is refused with, or 0: not complete */
    const char *why;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *why;
        int status = read_by_prefix(rows[i].head, rows[i].len, &why);
        if (status != rows[i].status || (rows[i].why && (!why || !strstr(why, rows[i].why))))
            fail_msg("row %zu: %d (%s), not %d (%s): %.200s", i, status, why ? why : "-", rows[i].status,
                     rows[i].why ? rows[i].why : "-", rows[i].head);
    }
}

/* --- the request line --- */

#define H "Host: a\r\n"

static void lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), OK, NULL},
            {TEXT(""), 0, NULL},
            {TEXT("G"), 0, NULL},
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\n"), 0, NULL},
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\r"), 0, NULL},
            {TEXT("GET / HTTP/1.1\r\n\r\n"), 400, "needs a Host"},
            {TEXT("\r\nGET / HTTP/1.1\r\n" H "\r\n"), 400, "begin with its method"},
            {TEXT("\nGET / HTTP/1.1\r\n" H "\r\n"), 400, "begin with its method"},
            {TEXT(" GET / HTTP/1.1\r\n" H "\r\n"), 400, "begin with its method"},
            {TEXT("\x16\x03\x01"), 400, "begin with its method"},
            {TEXT("\0"), 400, "begin with its method"},
            {TEXT("GET / HTTP/1.1\n" H "\r\n"), 400, "LF alone"},
            {TEXT("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400, "LF alone"},
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400, "LF alone"},
            {TEXT("GET / HTTP/1.1\r\n\n"), 400, "LF alone"},
            {TEXT("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400, "not part of a line end"},
            {TEXT("GET / HTTP/1.1\r\r\n" H "\r\n"), 400, "not part of a line end"},
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"), 400, "not part of a line end"},
            {TEXT("GET / HTTP/1.1\r\nA: b\rHost: a\r\n\r\n"), 400, "not part of a line end"},
            {TEXT("GET / HTTP/1.1\r\n" H "\r\r\n"), 400, "not part of a line end"},
            {TEXT("GET  / HTTP/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET  HTTP/1.1\r\n" H "\r\n"), 400, "exactly one space"},
            {TEXT("GET /  HTTP/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1.1 \r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET\t/ HTTP/1.1\r\n" H "\r\n"), 400, "method must be a word"},
            {TEXT("GET /\tHTTP/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / a HTTP/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET /\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET \r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / \r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / http/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1.10\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/01.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1,1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/x.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1.x\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTPS/1.1\r\n" H "\r\n"), 400, "method, one space"},
            {TEXT("GET / HTTP/1.2\r\n" H "\r\n"), 505, NULL},
            {TEXT("GET / HTTP/0.9\r\n" H "\r\n"), 505, NULL},
            {TEXT("GET / HTTP/2.0\r\n" H "\r\n"), 505, NULL},
            {TEXT("GET / HTTP/9.9\r\n" H "\r\n"), 505, NULL},
            {TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, NULL},
            {TEXT("G@T / HTTP/1.1\r\n" H "\r\n"), 400, "method must be a word"},
            {TEXT("GET\0 / HTTP/1.1\r\n" H "\r\n"), 400, "method must be a word"},
            {TEXT("G\xc3\x84T / HTTP/1.1\r\n" H "\r\n"), 400, "method must be a word"},
            {TEXT("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\n" H "\r\n"), OK, NULL},
            {TEXT("aaaaaaaaaabbbbbbbbbbccccccccccdd / HTTP/1.1\r\n" H "\r\n"), OK, NULL},
            {TEXT("aaaaaaaaaabbbbbbbbbbccccccccccddd / HTTP/1.1\r\n" H "\r\n"), 501, "so long"},
            {TEXT("CONNECT a:443 HTTP/1.1\r\n" H "\r\n"), 501, "CONNECT"},
            {TEXT("TRACE / HTTP/1.1\r\n" H "\r\n"), 501, "TRACE"},
            {TEXT("PRI / HTTP/1.1\r\n" H "\r\n"), 505, "HTTP/2"},
            {TEXT("connect / HTTP/1.1\r\n" H "\r\n"), OK, NULL},
    };
    check_rows(rows, LEN(rows));
}

static void targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        size_t len;
        const char *why; /* NULL: accepted */
    } rows[] = {
            {TEXT("/"), NULL},
            {TEXT("/v1/execute?a=b&c=d"), NULL},
            {TEXT("/?"), NULL},
            {TEXT("/?/?"), NULL},
            {TEXT("//a/../b/./c"), NULL},
            {TEXT("/azAZ09-._~!$&'()*+,;=:@/%41%fF%00"), NULL},
            {TEXT("*"), "goes with OPTIONS"},
            {TEXT("**"), "begins with '/'"},
            {TEXT("a"), "begins with '/'"},
            {TEXT("?a"), "begins with '/'"},
            {TEXT("http://a/"), "begins with '/'"},
            {TEXT("a:80"), "begins with '/'"},
            {TEXT("%2f"), "begins with '/'"},
            {TEXT("\\a"), "begins with '/'"},
            {TEXT("/#"), "fragment"},
            {TEXT("/a?b#c"), "fragment"},
            {TEXT("/%"), "two hex digits"},
            {TEXT("/%4"), "two hex digits"},
            {TEXT("/%zz"), "two hex digits"},
            {TEXT("/%4g"), "two hex digits"},
            {TEXT("/?%u0041"), "two hex digits"},
            {TEXT("/%%41"), "two hex digits"},
            {TEXT("/\\"), "percent-encoded"},
            {TEXT("/\""), "percent-encoded"},
            {TEXT("/<a>"), "percent-encoded"},
            {TEXT("/a|b"), "percent-encoded"},
            {TEXT("/a^b"), "percent-encoded"},
            {TEXT("/a`b"), "percent-encoded"},
            {TEXT("/{a}"), "percent-encoded"},
            {TEXT("/?a[]=1"), "percent-encoded"},
            {TEXT("/a\tb"), "percent-encoded"},
            {TEXT("/a\x7f"), "percent-encoded"},
            {TEXT("/a\x01"), "percent-encoded"},
            {TEXT("/a\0b"), "percent-encoded"},
            {TEXT("/\x80"), "percent-encoded"},
            {TEXT("/\xc3\xa4"), "percent-encoded"},
            {TEXT("/\xff"), "percent-encoded"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char head[256];
        const char *why;
        size_t len = 0;
        memcpy(head, "GET ", 4);
        memcpy(head + 4, rows[i].target, rows[i].len);
        len = 4 + rows[i].len;
        memcpy(head + len, TEXT(" HTTP/1.1\r\n" H "\r\n"));
        len += sizeof(" HTTP/1.1\r\n" H "\r\n") - 1;
        int status = read_by_prefix(head, len, &why);
        if (status != (rows[i].why ? 400 : OK) || (rows[i].why && !strstr(why, rows[i].why)))
            fail_msg("row %zu: %d %s: %s", i, status, why ? why : "-", rows[i].target);
    }
}

static void parts(void **state)
{
    (void)state;
    static const char head[] =
            "POST /a/b?c=d?e HTTP/1.1\r\nHost: a:1\r\nX-One:\t 1 \t 2\t \r\nx-one:3\r\nEmpty:\r\n\r\nrest";
    struct gb_http_request r;
    struct gb_http_error error;
    size_t count;
    assert_int_equal(gb_http_read_head(TEXT(head), &r, &error), sizeof(head) - 1 - 4);
    assert_true(gb_slice_is(r.method, "POST"));
    assert_true(gb_slice_is(r.target, "/a/b?c=d?e"));
    assert_true(gb_slice_is(r.path, "/a/b"));
    assert_true(gb_slice_is(r.query, "c=d?e"));
    assert_int_equal(r.minor, 1);
    assert_int_equal(r.header_count, 4);
    assert_true(gb_slice_is(r.host, "a:1"));
    const struct gb_http_header *h = gb_http_find(&r, "X-ONE", &count);
    assert_ptr_equal(h, &r.headers[1]);
    assert_int_equal(count, 2);
    assert_true(gb_slice_is(h->name, "X-One"));
    assert_true(gb_slice_is(h->value, "1 \t 2"));
    assert_true(gb_slice_is(gb_http_find(&r, "empty", NULL)->value, ""));
    assert_null(gb_http_find(&r, "X-On", &count));
    assert_int_equal(count, 0);
    assert_true(r.keep_alive && !r.chunked && !r.has_length && !r.expect_continue && !r.content_length);
    assert_false(gb_slice_is(r.method, "post") || gb_slice_is(r.method, "POS") ||
                 gb_slice_is(r.method, "POSTS"));
    assert_true(gb_slice_is((struct gb_slice){0}, "") && gb_slice_is_nocase((struct gb_slice){0}, ""));
    assert_true(gb_slice_is_nocase(r.method, "post"));
    assert_false(gb_slice_is_nocase(r.method, "pos") || gb_slice_is_nocase(r.method, "posts"));

    assert_true(gb_http_read_head(TEXT("GET /a HTTP/1.0\r\n\r\n"), &r, &error) > 0);
    assert_true(gb_slice_is(r.path, "/a") && !r.query.len);
    assert_true(gb_http_read_head(TEXT("OPTIONS * HTTP/1.0\r\n\r\n"), &r, &error) > 0);
    assert_true(gb_slice_is(r.path, "*") && !r.query.len && !r.host.len && r.minor == 0 && !r.keep_alive);
    assert_true(gb_http_read_head(TEXT("OPTIONS /? HTTP/1.0\r\n\r\n"), &r, &error) > 0);
    assert_true(gb_slice_is(r.path, "/") && !r.query.len && gb_slice_is(r.target, "/?"));
}

/* --- headers --- */

#define L "POST / HTTP/1.1\r\n"
#define O "POST / HTTP/1.0\r\n"

static void headers(void **state)
{
    (void)state;
    static const struct row rows[] = {
            {TEXT(L H "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"), OK, NULL},
            {TEXT(L H "A:\r\n\r\n"), OK, NULL},
            {TEXT(L H "A: !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t x\r\n\r\n"), OK, NULL},
            {TEXT(L H "A\r\n\r\n"), 400, "must have a colon"},
            {TEXT(L H ": x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H " : x\r\n\r\n"), 400, "begin with white space"},
            {TEXT(L H "A : x\r\n\r\n"), 400, "between a header's name and its colon"},
            {TEXT(L H "A\t: x\r\n\r\n"), 400, "between a header's name and its colon"},
            {TEXT(L H "A b: x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "A\0: x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "A\x0b: x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "A\x80: x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "\xc3\x84: x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "A(b): x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "\"A\": x\r\n\r\n"), 400, "name must be made of"},
            {TEXT(L H "A: x\r\n y\r\n\r\n"), 400, "folded"},
            {TEXT(L H "A: x\r\n\ty: z\r\n\r\n"), 400, "folded"},
            {TEXT(L " Host: a\r\n\r\n"), 400, "folded"},
            {TEXT(L H " \r\n\r\n"), 400, "folded"},
            {TEXT(L H "A: x\0y\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "A: x\x0by\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "A: x\x7f\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "A: \x1b[m\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "A: \x80\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "A: \xc3\xa4\r\n\r\n"), 400, "value must be made of"},
            {TEXT(L H "Content-Type: a\r\nContent-Type: a\r\n\r\n"), 400, "Content-Type must not"},
            {TEXT(L H "content-encoding: a\r\nContent-Encoding: a\r\n\r\n"), 400,
             "Content-Encoding must not"},
            {TEXT(L H "Authorization: a\r\nauthorization: b\r\n\r\n"), 400, "Authorization must not"},
            {TEXT(L H "X-API-Key: a\r\nx-api-key: b\r\n\r\n"), 400, "X-API-Key must not"},
            {TEXT(L H "Origin: a\r\nOrigin: b\r\n\r\n"), 400, "Origin must not"},
            {TEXT(L H "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n"), 400, "Idempotency-Key must not"},
            {TEXT(L H "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n"), 400, "Expect must not"},
            {TEXT(L H "Accept: a\r\nAccept: b\r\nCookie: a\r\nCookie: b\r\n\r\n"), OK, NULL},
            {TEXT(L H "Upgrade: websocket\r\nConnection: upgrade\r\n\r\n"), OK, NULL},
            {TEXT(L H "Connection: a b\r\n\r\n"), 400, "list of words"},
            {TEXT(L H "Connection: a,\tb\r\n\r\n"), 400, "list of words"},
            {TEXT(L H "Connection: close \r\n\r\n"), 400, "behind Connection"},
            {TEXT(L H "Connection: close\t\r\n\r\n"), 400, "behind Connection"},
            {TEXT(L H "Connection: \"close\"\r\n\r\n"), 400, "list of words"},
            {TEXT(L H "Expect: 200-ok\r\n\r\n"), 417, NULL},
            {TEXT(L H "Expect: 100-continue, x\r\n\r\n"), 417, NULL},
            {TEXT(L H "Expect:\r\n\r\n"), 417, NULL},
    };
    check_rows(rows, LEN(rows));
}

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool good;
    } rows[] = {
            {"a", true},
            {"localhost:8640", true},
            {"127.0.0.1:1", true},
            {"a_b.c-d.example.", true},
            {"A.B:65535", true},
            {"[::1]", true},
            {"[::1]:8640", true},
            {"[2001:db8::ffff:1.2.3.4]:080", true},
            {"", false},
            {":80", false},
            {"a:", false},
            {"a:0", false},
            {"a:65536", false},
            {"a:123456", false},
            {"a:000080", false},
            {"a:8x", false},
            {"a:-1", false},
            {"a:+1", false},
            {"a: 1", false},
            {"a:1:2", false},
            {"::1", false},
            {"[::1", false},
            {"[", false},
            {"[]", false},
            {"[::1]80", false},
            {"[::1]:", false},
            {"[::1]]", false},
            {"[a]", false},
            {"[1.2.3.4]", false},
            {"[fe80::1%25eth0]", false},
            {"[fe80::1%lo]", false},
            {"[v1.a]", false},
            {"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", false},
            {"[0000:0000:0000:0000:0000:0000:0000:0000:00000]",
             false}, /* 45 characters, and 46: a buffer's end */
            {"[0000:0000:0000:0000:0000:0000:0000:0000:000000]", false},
            {"u@a", false},
            {"a/b", false},
            {"a?b", false},
            {"a#b", false},
            {"a b", false},
            {"a,b", false},
            {"a\\b", false},
            {"a%2eb", false},
            {"http://a", false},
            {"a;b", false},
            {"*", false},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char head[256];
        const char *why;
        int len = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", rows[i].host);
        int status = read_by_prefix(head, (size_t)len, &why);
        if (status != (rows[i].good ? OK : 400))
            fail_msg("Host '%s': %d %s", rows[i].host, status, why ? why : "-");
    }
    for (int n = 253; n <= 254; n++) { /* the longest name that DNS has, and one more */
        char head[400];
        const char *why;
        int len = snprintf(head, sizeof(head), "GET / HTTP/1.0\r\nHost: %0*d:80\r\n\r\n", n, 1);
        assert_int_equal(read_by_prefix(head, (size_t)len, &why), n == 253 ? OK : 400);
    }
    static const struct row more[] = {
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400, "Host must not"},
            {TEXT("GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\n\r\n"), 400, "Host must not"},
            {TEXT("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), 400, "Host must not"},
            {TEXT("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), 400, "Host must be"},
            {TEXT("GET / HTTP/1.0\r\nHost:\r\n\r\n"), 400, "Host must be"},
            {TEXT("GET / HTTP/1.0\r\n\r\n"), OK, NULL},
    };
    check_rows(more, LEN(more));
}

/* --- what frames the body --- */

static void framing(void **state)
{
    (void)state;
    static const struct row rows[] = {
            {TEXT(L H "Content-Length: 0\r\n\r\n"), OK, NULL},
            {TEXT(L H "Content-Length: 999999999999999999\r\n\r\n"), OK, NULL},
            {TEXT(L H "Content-Length: 1000000000000000000\r\n\r\n"), 413, NULL},
            {TEXT(L H "Content-Length: 18446744073709551617\r\n\r\n"), 413, NULL},
            {TEXT(L H "Content-Length: 99999999999999999999999999\r\n\r\n"), 413, NULL},
            {TEXT(L H "Content-Length: 00\r\n\r\n"), 400, "begin with 0"},
            {TEXT(L H "Content-Length: 010\r\n\r\n"), 400, "begin with 0"},
            {TEXT(L H "Content-Length:\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1 \r\n\r\n"), 400, "behind Content-Length"},
            {TEXT(L H "Content-Length: 1\t\r\n\r\n"), 400, "behind Content-Length"},
            {TEXT(L H "Transfer-Encoding: chunked \r\n\r\n"), 400, "behind Transfer-Encoding"},
            {TEXT(L H "Transfer-Encoding: chunked\t\r\n\r\n"), 400, "behind Transfer-Encoding"},
            {TEXT(L H "Content-Length: +1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: -1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1 2\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1,1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1, 1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 0x1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1.0\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1e1\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: \"1\"\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1;\r\n\r\n"), 400, "digits only"},
            {TEXT(L H "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400, "Content-Length must not"},
            {TEXT(L H "Content-Length: 1\r\ncontent-length: 2\r\n\r\n"), 400, "Content-Length must not"},
            {TEXT(L H "Content-Length: 1\r\nContent-Length:\r\n\r\n"), 400, "Content-Length must not"},
            {TEXT(L H "Transfer-Encoding: chunked\r\n\r\n"), OK, NULL},
            {TEXT(L H "transfer-encoding:\t CHUNKED\r\n\r\n"), OK, NULL},
            {TEXT(O H "Transfer-Encoding: chunked\r\n\r\n"), 400, "HTTP/1.0"},
            {TEXT(L H "Transfer-Encoding:\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: gzip\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: identity\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: chunked, chunked\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: chunked,\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: ,chunked\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: xchunked\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: chunked;a=b\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: \"chunked\"\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding: chunk\r\n\r\n"), 501, NULL},
            {TEXT(L H "Transfer-Encoding:\x0b"
                      "chunked\r\n\r\n"),
             400, "value must"},
            {TEXT(L H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "must not"},
            {TEXT(L H "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"), 400, "must not"},
            {TEXT(L H "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"), 400, "together"},
            {TEXT(L H "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "together"},
    };
    check_rows(rows, LEN(rows));
}

/* What the accepted ones mean. */
static void meaning(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        bool chunked, has_length, expect, keep;
        uint64_t length;
    } rows[] = {
            {L H, false, false, false, true, 0},
            {O, false, false, false, false, 0},
            {L H "Content-Length: 0\r\n", false, true, false, true, 0},
            {O "Content-Length: 42\r\n", false, true, false, false, 42},
            {L H "Content-Length:  \t999999999999999999\r\n", false, true, false, true, 999999999999999999},
            {L H "Transfer-Encoding: Chunked\r\n", true, false, false, true, 0},
            {L H "Expect: 100-Continue\r\nContent-Length: 1\r\n", false, true, true, true, 1},
            {L H "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", true, false, true, true, 0},
            {L H "Expect: 100-continue\r\nContent-Length: 0\r\n", false, true, false, true, 0},
            {L H "Expect: 100-continue\r\n", false, false, false, true, 0},
            {O "Expect: 100-continue\r\nContent-Length: 1\r\n", false, true, false, false, 1},
            {L H "Connection: close\r\n", false, false, false, false, 0},
            {L H "Connection: CLOSE\r\n", false, false, false, false, 0},
            {L H "Connection:\tx, , Close ,\r\n", false, false, false, false, 0},
            {L H "Connection: x\r\nConnection: close\r\n", false, false, false, false, 0},
            {L H "Connection: keep-alive, close\r\n", false, false, false, false, 0},
            {L H "Connection: closed, xclose\r\n", false, false, false, true, 0},
            {L H "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", false, false, false, false, 0},
            {L H "Upgrade: h2c\r\n", false, false, false, true, 0},
            {O "Connection: keep-alive, upgrade\r\n", false, false, false, false, 0},
            {L H "Connection:\r\n", false, false, false, true, 0},
            {O "Connection: Keep-Alive\r\n", false, false, false, true, 0},
            {O "Connection: keep-alive, close\r\n", false, false, false, false, 0},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char head[256];
        struct gb_http_request r;
        struct gb_http_error error;
        int len = snprintf(head, sizeof(head), "%s\r\n", rows[i].head);
        if (gb_http_read_head(head, (size_t)len, &r, &error) != len || r.chunked != rows[i].chunked ||
            r.has_length != rows[i].has_length || r.expect_continue != rows[i].expect ||
            r.keep_alive != rows[i].keep || r.content_length != rows[i].length)
            fail_msg("row %zu: %s", i, rows[i].head);
    }
}

/* --- sizes: the largest that is accepted, and one byte or header more --- */

static long read_sized(char *data, size_t len, struct gb_http_error *error)
{
    static struct gb_http_request r;
    char *copy = exact(data, len);
    long got = gb_http_read_head(copy, len, &r, error);
    free(copy);
    return got;
}

static void sizes(void **state)
{
    (void)state;
    static char data[GB_HTTP_HEAD_BYTES * 2];
    struct gb_http_error error;
    for (size_t extra = 0; extra <= 1; extra++) { /* the request line */
        size_t target = GB_HTTP_LINE_BYTES - 13 + extra;
        int len = snprintf(data, sizeof(data), "GET /%0*d HTTP/1.1\r\n" H "\r\n", (int)target - 1, 0);
        assert_int_equal(read_sized(data, (size_t)len, &error), extra ? -1 : len);
        assert_true(!extra || error.status == 414);
    }
    memset(data, 'a', sizeof(data)); /* that never ends */
    assert_int_equal(read_sized(data, GB_HTTP_LINE_BYTES + 1, &error), 0);
    assert_int_equal(read_sized(data, GB_HTTP_LINE_BYTES + 2, &error), -1);
    assert_int_equal(error.status, 414);
    assert_true(gb_http_worth_reading(data, GB_HTTP_LINE_BYTES + 1, GB_HTTP_LINE_BYTES + 2));
    assert_false(gb_http_worth_reading(data, 1, GB_HTTP_LINE_BYTES + 1));
    assert_false(gb_http_worth_reading(data, 1, 1));

    for (size_t extra = 0; extra <= 1; extra++) { /* the head */
        int len = snprintf(data, sizeof(data), L H "A: ");
        memset(data + len, 'a', sizeof(data) - (size_t)len);
        memcpy(data + GB_HTTP_HEAD_BYTES - 4 + extra, TEXT("\r\n\r\n"));
        assert_int_equal(read_sized(data, GB_HTTP_HEAD_BYTES - 1, &error), 0);
        assert_int_equal(read_sized(data, sizeof(data), &error), extra ? -1 : GB_HTTP_HEAD_BYTES);
        assert_int_equal(read_sized(data, GB_HTTP_HEAD_BYTES, &error), extra ? -1 : GB_HTTP_HEAD_BYTES);
        assert_true(!extra || error.status == 431);
        assert_true(gb_http_worth_reading(data, GB_HTTP_HEAD_BYTES - 1, GB_HTTP_HEAD_BYTES));
    }
    for (int extra = 0; extra <= 1; extra++) { /* the number of headers */
        size_t len = (size_t)snprintf(data, sizeof(data), L H);
        for (int i = 1; i < GB_HTTP_HEADERS + extra; i++)
            len += (size_t)snprintf(data + len, sizeof(data) - len, "A: b\r\n");
        len += (size_t)snprintf(data + len, sizeof(data) - len, "\r\n");
        assert_int_equal(read_sized(data, len, &error), extra ? -1 : (long)len);
        assert_true(!extra || error.status == 431);
    }
}

/* A head that comes byte by byte, read only when it is worth it: few reads, and the same answer. */
static void drops(void **state)
{
    (void)state;
    static const char head[] = L H "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\nC: d\r\n\r\n";
    struct gb_http_request r;
    struct gb_http_error error;
    size_t known = 0, reads = 0;
    for (size_t n = 1; n < sizeof(head); n++) {
        if (!gb_http_worth_reading(head, known, n))
            continue;
        reads++;
        long got = gb_http_read_head(head, n, &r, &error);
        assert_int_equal(got, n == sizeof(head) - 1 ? (long)n : 0);
        known = n;
    }
    assert_int_equal(reads, 6); /* the first byte, and five lines */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(lines),   cmocka_unit_test(targets), cmocka_unit_test(parts),
            cmocka_unit_test(headers), cmocka_unit_test(hosts),   cmocka_unit_test(framing),
            cmocka_unit_test(meaning), cmocka_unit_test(sizes),   cmocka_unit_test(drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
