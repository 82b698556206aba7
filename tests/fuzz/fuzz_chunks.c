/* Chunked bodies. How they are cut into reads must not matter, and what we accept every careless reader reads
 * the same. */
#include "fuzz.h"

#include "front/http.h"

#define BODY_MOST 4096

struct outcome {
    struct gb_http_error error; /* status 0: none */
    bool done;
    size_t consumed, len;
    char body[BODY_MOST];
};

/* Decodes in pieces of `first`, then of `further` bytes. */
static struct outcome decode(const char *data, size_t size, size_t first, size_t further)
{
    struct outcome o = {0};
    struct gb_chunks c = {0};
    for (size_t piece = first; o.consumed < size && !c.done; piece = further) {
        size_t decoded, n = piece < size - o.consumed ? piece : size - o.consumed;
        char *copy = fuzz_copy(data + o.consumed, n);
        long got = gb_chunks_decode(&c, copy, n, BODY_MOST, &decoded, &o.error);
        if (got < 0) {
            CHECK(o.error.status == 400 || o.error.status == 413 || o.error.status == 431);
            CHECK(o.error.why && *o.error.why);
            o.consumed = o.len = 0; /* how far it came is the one thing that may differ */
            memset(o.body, 0, sizeof(o.body));
            free(copy);
            return o;
        }
        CHECK((size_t)got <= n && decoded <= (size_t)got && (c.done || (size_t)got == n));
        CHECK(decoded <= BODY_MOST - o.len);
        memcpy(o.body + o.len, copy, decoded);
        o.len += decoded;
        o.consumed += (size_t)got;
        CHECK(c.total == o.len);
        free(copy);
    }
    o.done = c.done;
    return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    CHECK(a->error.status == b->error.status && a->error.why == b->error.why);
    CHECK(a->done == b->done && a->consumed == b->consumed && a->len == b->len);
    CHECK(!memcmp(a->body, b->body, a->len));
}

/* A careless reader: numbers by strtoul, anything up to the next LF is a line. Returns how much it took. */
static size_t decode_carelessly(const char *data, size_t size, char *body, size_t *ret_len)
{
    size_t at = 0;
    for (*ret_len = 0;;) {
        const char *end = memchr(data + at, '\n', size - at);
        CHECK(end);
        size_t chunk = strtoul(data + at, NULL, 16);
        at = (size_t)(end - data) + 1;
        if (!chunk)
            break;
        CHECK(chunk <= BODY_MOST - *ret_len && chunk + 2 <= size - at);
        memcpy(body + *ret_len, data + at, chunk);
        *ret_len += chunk;
        at += chunk + 2;
    }
    for (size_t line = 1; line;) {
        const char *end = memchr(data + at, '\n', size - at);
        CHECK(end);
        line = (size_t)(end - data) - at;
        line -= line && end[-1] == '\r';
        at = (size_t)(end - data) + 1;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *data = (const char *)bytes;
    struct outcome whole = decode(data, size, size, size);
    struct outcome split = decode(data, size, fuzz_position(bytes, size), size);
    struct outcome drops = decode(data, size, 1, 1);
    check_same(&whole, &split);
    check_same(&whole, &drops);
    if (whole.done) {
        static char body[BODY_MOST], again[BODY_MOST + 32];
        size_t len;
        CHECK(decode_carelessly(data, whole.consumed, body, &len) == whole.consumed);
        CHECK(len == whole.len && !memcmp(body, whole.body, len));

        size_t n = len ? (size_t)snprintf(again, sizeof(again), "%zx\r\n", len) : 0;
        memcpy(again + n, body, len);
        n += len;
        n += (size_t)snprintf(again + n, sizeof(again) - n, len ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
        struct outcome plain = decode(again, n, n, n);
        CHECK(plain.done && plain.len == len && !memcmp(plain.body, body, len));
    }
    return 0;
}
