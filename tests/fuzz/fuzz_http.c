/* Request heads. The same bytes must have one meaning, however they arrive and whoever reads them. */
#include "fuzz.h"

#include "front/http.h"

#include <strings.h>

static const int statuses[] = {400, 413, 414, 417, 431, 501, 505};

static void check_error(const struct gb_http_error *error)
{
    CHECK(error->why && *error->why);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (error->status == statuses[i])
            return;
    CHECK(!"a status that is in the table");
}

static void check_slice(struct gb_slice s, const char *data, size_t len)
{
    if (s.len) {
        CHECK(s.data >= data && s.data < data + len);
        CHECK(s.len <= len - (size_t)(s.data - data));
    }
    for (size_t i = 0; i < s.len; i++) /* none of them may hold a line end, whatever prints it later */
        CHECK((s.data[i] >= ' ' && s.data[i] <= '~') || s.data[i] == '\t');
}

static bool same(struct gb_slice a, struct gb_slice b)
{
    return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

static void check_same(const struct gb_http_request *a, const struct gb_http_request *b)
{
    CHECK(same(a->method, b->method) && same(a->target, b->target));
    CHECK(same(a->path, b->path) && same(a->query, b->query) && same(a->host, b->host));
    CHECK(a->minor == b->minor && a->header_count == b->header_count);
    CHECK(a->chunked == b->chunked && a->has_length == b->has_length &&
          a->content_length == b->content_length);
    CHECK(a->expect_continue == b->expect_continue && a->keep_alive == b->keep_alive);
    for (size_t i = 0; i < a->header_count; i++)
        CHECK(same(a->headers[i].name, b->headers[i].name) && same(a->headers[i].value, b->headers[i].value));
}

/* How many lines of the head begin like that, as a careless reader would count them: any line end, any case.
 */
static size_t count_lines(const char *data, size_t len, const char *start)
{
    size_t count = 0;
    for (size_t i = 0; i + strlen(start) < len; i++)
        if (i && (data[i - 1] == '\n' || data[i - 1] == '\r') && !strncasecmp(data + i, start, strlen(start)))
            count++;
    return count;
}

static void check_meaning(const struct gb_http_request *r, const char *data, size_t len)
{
    check_slice(r->method, data, len);
    check_slice(r->target, data, len);
    check_slice(r->path, data, len);
    check_slice(r->query, data, len);
    check_slice(r->host, data, len);
    CHECK(r->header_count <= GB_HTTP_HEADERS);
    for (size_t i = 0; i < r->header_count; i++) {
        check_slice(r->headers[i].name, data, len);
        check_slice(r->headers[i].value, data, len);
        CHECK(r->headers[i].name.len);
    }
    CHECK(len <= GB_HTTP_HEAD_BYTES && len >= 4 && !memcmp(data + len - 4, "\r\n\r\n", 4));
    CHECK(r->minor <= 1 && (r->minor == 0 || r->host.len));
    CHECK(r->target.len && (r->target.data[0] == '/' || gb_slice_is(r->target, "*")));
    CHECK(!(r->chunked && r->has_length) && (r->has_length || !r->content_length));
    CHECK(!r->expect_continue || r->chunked || r->content_length);
    CHECK(count_lines(data, len, "content-length:") == (r->has_length ? 1 : 0));
    CHECK(count_lines(data, len, "transfer-encoding:") == (r->chunked ? 1 : 0));
    CHECK(count_lines(data, len, "host:") == (r->host.len ? 1 : 0));
}

/* Writes what was understood as plainly as possible; it must be understood the same. */
static void check_rewritten(const struct gb_http_request *r, size_t len)
{
    static char text[GB_HTTP_HEAD_BYTES + GB_HTTP_HEADERS + 1];
    struct gb_http_request again;
    struct gb_http_error error;
    size_t n = (size_t)snprintf(text, sizeof(text), "%.*s %.*s HTTP/1.%u\r\n", (int)r->method.len,
                                r->method.data, (int)r->target.len, r->target.data, r->minor);
    for (size_t i = 0; i < r->header_count; i++) {
        const struct gb_http_header *h = &r->headers[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s:%.*s\r\n", (int)h->name.len, h->name.data,
                              (int)h->value.len, h->value.data);
    }
    n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\n");
    CHECK(n <= len);
    CHECK(gb_http_read_head(text, n, &again, &error) == (long)n);
    check_same(r, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct gb_http_request r, other;
    struct gb_http_error error = {0, NULL}, other_error = {0, NULL};
    const char *data = (const char *)bytes;
    long whole = gb_http_read_head(data, size, &r, &error);
    CHECK(whole >= -1 && whole <= (long)size);
    CHECK(whole || size < GB_HTTP_HEAD_BYTES);
    if (whole < 0)
        check_error(&error);
    if (whole > 0) {
        check_meaning(&r, data, (size_t)whole);
        check_rewritten(&r, (size_t)whole);
    }

    size_t split = fuzz_position(bytes, size);
    char *part = fuzz_copy(data, split);
    long early = gb_http_read_head(part, split, &other, &other_error);
    if (early) {
        CHECK(early == whole);
        CHECK(early > 0 || (other_error.status == error.status && other_error.why == error.why));
        if (early > 0)
            check_same(&r, &other);
    } else if (whole) {
        CHECK(gb_http_worth_reading(data, split, size));
    }
    free(part);

    if (whole > 0) { /* exactly the head, and nothing behind it */
        part = fuzz_copy(data, (size_t)whole);
        CHECK(gb_http_read_head(part, (size_t)whole, &other, &other_error) == whole);
        check_same(&r, &other);
        CHECK(gb_http_read_head(part, (size_t)whole - 1, &other, &other_error) == 0);
        free(part);
    }
    return 0;
}
