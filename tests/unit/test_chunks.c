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

#define BODY_MOST 64

struct decoded {
    int status; /* OK: done, 0: more is needed */
    const char *why;
    size_t consumed, len;
    char body[512];
};

/* Feeds the first part, then the second (from where the first was left). */
static struct decoded decode_split(const char *data, size_t len, size_t split, uint64_t most)
{
    struct decoded d = {0};
    struct gb_chunks c = {0};
    const size_t part[] = {split, len - split};
    for (size_t i = 0; i < 2 && !c.done; i++) {
        struct gb_http_error error;
        size_t decoded;
        char *copy = exact(data + d.consumed, part[i]);
        long got = gb_chunks_decode(&c, copy, part[i], most, &decoded, &error);
        if (got < 0) {
            assert_int_equal(decoded, 0);
            d.status = error.status;
            d.why = error.why;
            d.consumed = d.len = 0;
            free(copy);
            return d;
        }
        assert_true(c.done || (size_t)got == part[i]);
        assert_true((size_t)got <= part[i] && decoded <= (size_t)got);
        memcpy(d.body + d.len, copy, decoded);
        d.len += decoded;
        d.consumed += (size_t)got;
        free(copy);
    }
    assert_int_equal(c.total, d.len);
    d.status = c.done ? OK : 0;
    return d;
}

static void check_body(size_t row, const char *data, size_t len, int status, const char *what, size_t rest)
{
    struct decoded whole = decode_split(data, len, len, BODY_MOST);
    if (whole.status != status ||
        (status == OK ? strcmp(whole.body, what) : status && !strstr(whole.why, what)))
        fail_msg("row %zu: %d %s '%s', not %d %s", row, whole.status, whole.why ? whole.why : "", whole.body,
                 status, what);
    if (status == OK)
        assert_int_equal(whole.consumed, len - rest);
    for (size_t split = 0; split <= len; split++) {
        struct decoded d = decode_split(data, len, split, BODY_MOST);
        assert_int_equal(d.status, whole.status);
        assert_ptr_equal(d.why, whole.why);
        assert_int_equal(d.consumed, whole.consumed);
        assert_int_equal(d.len, whole.len);
        assert_memory_equal(d.body, whole.body, d.len);
    }
}

static void chunks(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        int status;
        const char *what; /* the body, or part of the reason */
        size_t rest;      /* bytes that belong to the next request */
    } rows[] = {
            {TEXT("0\r\n\r\n"), OK, "", 0},
            {TEXT("0\r\n\r\nGET /"), OK, "", 5},
            {TEXT("3\r\nabc\r\n0\r\n\r\n"), OK, "abc", 0},
            {TEXT("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\r\n"), OK, "abcde", 2},
            {TEXT("a\r\n0123456789\r\n0\r\n\r\n"), OK, "0123456789", 0},
            {TEXT("A\r\n0123456789\r\n0\r\n\r\n"), OK, "0123456789", 0},
            {TEXT("00000003\r\n\r\n0\r\n00000000\r\n\r\n"), OK, "\r\n0", 0},
            {TEXT("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"), OK, "abc", 0},
            {TEXT("3;a\r\nabc\r\n0;b\r\n\r\n"), OK, "abc", 0},
            {TEXT("3;a=b;c;d=\"e; \\\"\\\\\t\"\r\nabc\r\n0\r\n\r\n"), OK, "abc", 0},
            {TEXT("0\r\nA: b\r\nX:\r\n\r\n"), OK, "", 0},
            {TEXT("0\r\nContent-Lengths: 1\r\n\r\n"), OK, "", 0},
            {TEXT("0\r\nabcdefghijklmnopqrstuvwxyz: 1\r\n\r\n"), OK, "", 0},
            {TEXT(""), 0, NULL, 0},
            {TEXT("3"), 0, NULL, 0},
            {TEXT("3\r\nab"), 0, NULL, 0},
            {TEXT("3\r\nabc\r\n"), 0, NULL, 0},
            {TEXT("3\r\nabc\r\n0\r\n"), 0, NULL, 0},
            {TEXT("0\r\n\r"), 0, NULL, 0},
            {TEXT("\r\n"), 400, "begin with its size", 0},
            {TEXT(";a\r\n"), 400, "begin with its size", 0},
            {TEXT(" 3\r\n"), 400, "begin with its size", 0},
            {TEXT("\n3\r\n"), 400, "begin with its size", 0},
            {TEXT("+3\r\n"), 400, "begin with its size", 0},
            {TEXT("-3\r\n"), 400, "begin with its size", 0},
            {TEXT("g\r\n"), 400, "begin with its size", 0},
            {TEXT("\xff\r\n"), 400, "begin with its size", 0},
            {TEXT("0x3\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3 \r\n"), 400, "perhaps extensions", 0},
            {TEXT("3 ;a\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3\t\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3,3\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3\0\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3_0\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3\n"), 400, "perhaps extensions", 0},
            {TEXT("3\ra"), 400, "must end with CR LF", 0},
            {TEXT("3\r\r\n"), 400, "must end with CR LF", 0},
            {TEXT("000000003\r\n"), 400, "8 digits", 0},
            {TEXT("100000000\r\n"), 400, "8 digits", 0},
            {TEXT("ffffffffffffffff\r\n"), 400, "8 digits", 0},
            {TEXT("10000000000000003\r\n"), 400, "8 digits", 0},
            {TEXT("ffffffff\r\n"), 413, "larger", 0},
            {TEXT("40\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n0\r\n\r\n"), OK,
             "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 0},
            {TEXT("41\r\n"), 413, "larger", 0},
            {TEXT("1\r\na\r\n40\r\n"), 413, "larger", 0},
            {TEXT("3;\r\n"), 400, "must have a name", 0},
            {TEXT("3; a\r\n"), 400, "must have a name", 0},
            {TEXT("3;=a\r\n"), 400, "must have a name", 0},
            {TEXT("3;a;;b\r\n"), 400, "must have a name", 0},
            {TEXT("3;a =b\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3;a=\r\n"), 400, "must have a value", 0},
            {TEXT("3;a= b\r\n"), 400, "must have a value", 0},
            {TEXT("3;a=\"b\r\n"), 400, "visible ASCII", 0},
            {TEXT("3;a=\"b\\\r\n"), 400, "visible ASCII", 0},
            {TEXT("3;a=\"\x80\"\r\n"), 400, "visible ASCII", 0},
            {TEXT("3;a=\"b\"c\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3;a\nabc"), 400, "perhaps extensions", 0},
            {TEXT("3;a\x80\r\n"), 400, "perhaps extensions", 0},
            {TEXT("3\r\nabcd"), 400, "as long as its size", 0},
            {TEXT("3\r\nabc\n"), 400, "as long as its size", 0},
            {TEXT("3\r\nabc0\r\n"), 400, "as long as its size", 0},
            {TEXT("3\r\nabc\r0"), 400, "must end with CR LF", 0},
            {TEXT("0\r\n\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\n\ra"), 400, "empty line", 0},
            {TEXT("0\n\n"), 400, "perhaps extensions", 0},
            {TEXT("0\r\nA\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\nA : b\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\n: b\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\n A: b\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\nA: b\r\n c\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\n\xc3: b\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\nGET / HTTP/1.1\r\n"), 400, "behind the last chunk", 0},
            {TEXT("0\r\nA: b\n"), 400, "visible ASCII", 0},
            {TEXT("0\r\nA: \0\r\n"), 400, "visible ASCII", 0},
            {TEXT("0\r\nA: \x80\r\n"), 400, "visible ASCII", 0},
            {TEXT("0\r\nA: b\rc"), 400, "must end with CR LF", 0},
            {TEXT("0\r\nHost: a\r\n"), 400, "must not frame", 0},
            {TEXT("0\r\nContent-Length: 1\r\n"), 400, "must not frame", 0},
            {TEXT("0\r\nA: b\r\ntransfer-ENCODING: chunked\r\n"), 400, "must not frame", 0},
            {TEXT("0\r\nauthorization: b\r\n"), 400, "must not frame", 0},
    };
    for (size_t i = 0; i < LEN(rows); i++)
        check_body(i, rows[i].data, rows[i].len, rows[i].status, rows[i].what, rows[i].rest);
}

/* Decodes the same piece again and again. 0 or the status that it was refused with. */
static int decode_all(const char *piece, size_t len, size_t times, uint64_t most, uint64_t *ret_total)
{
    struct gb_chunks c = {0};
    for (size_t i = 0; i < times; i++) {
        struct gb_http_error error;
        size_t decoded;
        char *copy = exact(piece, len);
        long got = gb_chunks_decode(&c, copy, len, most, &decoded, &error);
        free(copy);
        if (got < 0)
            return error.status;
    }
    *ret_total = c.total;
    return 0;
}

static void chunk_sizes(void **state)
{
    (void)state;
    char line[600];
    uint64_t total = 0;
    /* many small chunks are fine, up to the body's bound to the byte */
    assert_int_equal(decode_all(TEXT("1\r\na\r\n"), 100000, 100000, &total), 0);
    assert_int_equal(total, 100000);
    assert_int_equal(decode_all(TEXT("1\r\na\r\n"), 100001, 100000, &total), 413);
    assert_int_equal(decode_all(TEXT("1\r\n"), 1, 0, &total), 413);
    assert_int_equal(decode_all(TEXT("0\r\n\r\n"), 1, 0, &total), 0);
    assert_int_equal(decode_all(TEXT("ffffffff\r\n"), 1, UINT64_MAX, &total), 0);

    /* a size line of 256 bytes, and of one more */
    for (int extra = 0; extra <= 1; extra++) {
        int len = snprintf(line, sizeof(line), "1;%0*d\r\na\r\n", GB_CHUNKS_LINE_BYTES - 4 + extra, 0);
        assert_int_equal(decode_all(line, (size_t)len, 1, 10, &total), extra ? 400 : 0);
    }
    /* extensions add up: each of these has 2 bytes, with its CR */
    const size_t most = GB_CHUNKS_EXTENSION_BYTES / 2;
    assert_int_equal(decode_all(TEXT("1;a\r\na\r\n"), most, most + 1, &total), 0);
    assert_int_equal(decode_all(TEXT("1;a\r\na\r\n"), most + 1, most + 1, &total), 400);

    /* so do trailers: 8192 bytes with the empty line */
    static char body[GB_CHUNKS_TRAILER_BYTES + 64];
    for (int extra = 0; extra <= 1; extra++) {
        size_t n = (size_t)snprintf(body, sizeof(body), "0\r\n");
        while (n < GB_CHUNKS_TRAILER_BYTES - 200)
            n += (size_t)snprintf(body + n, sizeof(body) - n, "A: %0100d\r\n", 0);
        n += (size_t)snprintf(body + n, sizeof(body) - n, "A: %0*d\r\n\r\n",
                              GB_CHUNKS_TRAILER_BYTES + 3 - 7 - (int)n + extra, 0);
        assert_int_equal(n, GB_CHUNKS_TRAILER_BYTES + 3 + extra);
        assert_int_equal(decode_all(body, n, 1, 10, &total), extra ? 431 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks), cmocka_unit_test(chunk_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
