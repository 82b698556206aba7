/* What our reader understands of raw bytes, for tests/service/test_differential.py. Reads inputs from stdin
 * (4 bytes of length, big-endian, then the bytes), each a connection of its own; prints one line of JSON for
 * each: the requests that were complete, and how it ended: clean, closed (the client asked for it),
 * incomplete or reject. Text and bytes are in hex. */
#include "front/http.h"

#include "base/auto.h"

#include <string.h>

#define INPUT_MOST (1 << 20)
#define BODY_MOST  (1 << 20)

static void print_hex(struct gb_slice s)
{
    putchar('"');
    for (size_t i = 0; i < s.len; i++)
        printf("%02x", (unsigned char)s.data[i]);
    putchar('"');
}

static void print_message(const struct gb_http_request *r, struct gb_slice body)
{
    printf("{\"method\":");
    print_hex(r->method);
    printf(",\"target\":");
    print_hex(r->target);
    printf(",\"minor\":%u,\"headers\":[", r->minor);
    for (size_t i = 0; i < r->header_count; i++) {
        if (i)
            putchar(',');
        print_hex(r->headers[i].name);
        putchar(',');
        print_hex(r->headers[i].value);
    }
    printf("],\"body\":");
    print_hex(body);
    putchar('}');
}

/* Takes the body at the start of `rest` (chunks are decoded in place). Returns how many bytes it had, -1
 * refused, -2 incomplete. */
static long take_body(const struct gb_http_request *r, char *rest, size_t len, struct gb_slice *ret,
                      struct gb_http_error *err)
{
    *ret = (struct gb_slice){rest, (size_t)r->content_length};
    if (!r->chunked)
        return r->content_length <= len ? (long)r->content_length : -2;
    struct gb_chunks chunks = {0};
    long used = gb_chunks_decode(&chunks, rest, len, BODY_MOST, &ret->len, err);
    return used < 0 ? -1 : chunks.done ? used : -2;
}

static void judge(char *data, size_t len)
{
    static struct gb_http_request r;
    struct gb_http_error error = {0, ""};
    const char *end = "clean", *where = "";
    printf("{\"messages\":[");
    for (size_t at = 0, count = 0; at < len; count++) {
        long head = gb_http_read_head(data + at, len - at, &r, &error);
        if (head <= 0) {
            end = head < 0 ? "reject" : "incomplete";
            where = "head";
            break;
        }
        at += (size_t)head;
        struct gb_slice body;
        long used = take_body(&r, data + at, len - at, &body, &error);
        if (used < 0) {
            end = used == -1 ? "reject" : "incomplete";
            where = r.chunked ? "chunks" : "body";
            break;
        }
        at += (size_t)used;
        if (count)
            putchar(',');
        print_message(&r, body);
        if (!r.keep_alive) {
            end = "closed";
            break;
        }
    }
    printf("],\"end\":\"%s\",\"where\":\"%s\",\"status\":%d,\"why\":\"%s\",\"method\":", end, where,
           error.status, error.why);
    /* of a request whose head was accepted, but not its body */
    print_hex(*where && strcmp(where, "head") ? r.method : (struct gb_slice){0});
    puts("}");
}

int main(void)
{
    AUTO_FREE char *data = malloc(INPUT_MOST);
    unsigned char size[4];
    while (data && fread(size, 1, 4, stdin) == 4) {
        size_t len = (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
        if (len > INPUT_MOST || fread(data, 1, len, stdin) != len)
            return 1;
        AUTO_FREE char *exact = malloc(len ? len : 1); /* so that a sanitizer sees a read past the end */
        if (!exact)
            return 1;
        memcpy(exact, data, len);
        judge(exact, len);
    }
    return data && feof(stdin) ? 0 : 1;
}
