/* HTTP/1.1 requests, strictly: whatever two readers could understand differently is refused. Works on bytes
 * in memory, allocates nothing and keeps no state but its arguments, so that it can be tested and fuzzed
 * alone.
 *
 * Stricter than RFC 9112 has to be, on purpose: no empty line before a request, no bare LF, no folded
 * headers, no bytes over 0x7E, targets in origin form only and made of RFC 3986 characters only, no leading
 * zero in Content-Length, "chunked" as the only transfer coding, no white space behind these two and
 * Connection, no repetition of a header of which we use one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_HTTP_HEADERS    100
#define GB_HTTP_LINE_BYTES 8192  /* request line, without its CRLF */
#define GB_HTTP_HEAD_BYTES 32768 /* request line, headers and the empty line together */

struct gb_slice {
    const char *data;
    size_t len;
};

struct gb_http_header {
    struct gb_slice name, value; /* value without white space around it */
};

/* Why a request is refused: the status to answer with, and a static text. */
struct gb_http_error {
    int status;
    const char *why;
};

static inline int gb_http_refuse(struct gb_http_error *ret, int status, const char *why)
{
    *ret = (struct gb_http_error){status, why};
    return -1;
}

struct gb_http_request {
    struct gb_slice method, target; /* target as sent: origin form, or "*" with OPTIONS */
    struct gb_slice path, query;    /* of the target; path is not decoded; query without '?' */
    unsigned minor;                 /* HTTP/1.minor: 0 or 1 */
    struct gb_http_header headers[GB_HTTP_HEADERS];
    size_t header_count;
    struct gb_slice host; /* name or address, and port if sent; empty if HTTP/1.0 sent none */
    bool chunked, has_length;
    bool expect_continue; /* the client waits for 100 before it sends the body; never set if there is none */
    bool keep_alive;      /* what the client wants */
    uint64_t content_length; /* at most 18 digits, so that sums cannot overflow; 0 if there is none */
};

/* Reads one head (request line, headers, empty line) at the start of data. Returns its length; 0 if more
 * bytes are needed, which they never are from GB_HTTP_HEAD_BYTES on; -1 with *ret_error set. Slices point
 * into data; *ret holds nothing of use unless a length is returned. More bytes never change an answer other
 * than 0. */
long gb_http_read_head(const char *data, size_t len, struct gb_http_request *ret,
                       struct gb_http_error *ret_error);
/* Can gb_http_read_head, which said 0 to the first `known` bytes, say more about `len` of them? Whoever asks
 * before reading again reads a head that comes in drops once per line, not once per drop. */
bool gb_http_worth_reading(const char *data, size_t known, size_t len);
/* The header of that name (case-insensitive), or NULL; *ret_count says how many there are if not NULL. The
 * headers of which a request has at most one: Host, Content-Length, Transfer-Encoding, Expect, Content-Type,
 * Content-Encoding, Authorization, X-API-Key, Origin, Idempotency-Key. */
const struct gb_http_header *gb_http_find(const struct gb_http_request *r, const char *name,
                                          size_t *ret_count);
bool gb_slice_is(struct gb_slice s, const char *text);        /* exact */
bool gb_slice_is_nocase(struct gb_slice s, const char *text); /* ASCII */

#define GB_CHUNKS_SIZE_DIGITS     8
#define GB_CHUNKS_LINE_BYTES      256  /* a size line with its extensions */
#define GB_CHUNKS_EXTENSION_BYTES 8192 /* all extensions of a body together */
#define GB_CHUNKS_TRAILER_BYTES   8192
#define GB_CHUNKS_NAME            24 /* longer than any trailer name that we refuse */

/* A chunked body, decoded as it arrives. Zero-initialise. */
struct gb_chunks {
    int state;
    uint64_t left;          /* of the chunk in progress */
    uint64_t total;         /* decoded so far */
    size_t line_bytes;      /* of the size line in progress, or of the trailer's name */
    size_t extension_bytes; /* so far */
    size_t trailer_bytes;   /* so far */
    char name[GB_CHUNKS_NAME];
    bool done;
};

/* Consumes bytes of data, and moves decoded ones to the start of data (in place: *ret_decoded of them).
 * Returns how many bytes were consumed (fewer than len only when done), -1 with *ret_error set: then *c is of
 * no further use. Extensions are checked, bounded and dropped; so are trailers. body_most: 413 beyond it, as
 * soon as a chunk's size says so. The answer does not depend on how the bytes were cut into calls. */
long gb_chunks_decode(struct gb_chunks *c, char *data, size_t len, uint64_t body_most, size_t *ret_decoded,
                      struct gb_http_error *ret_error);
