#include "front/http.h"

#include "base/auto.h"
#include "front/http_chars.h"

/* One function for each place in the grammar. It looks at one byte, and says what comes next:
 *
 *     body    = *(size [ext] CRLF data CRLF) "0" [ext] CRLF *(name ":" value CRLF) CRLF
 *     ext     = *(";" token ["=" (token / quoted-string)])       without the white space that RFC 9112 calls
 * bad
 */
enum state {
    SIZE_FIRST, /* where a zeroed struct begins */
    SIZE,
    EXT_NAME_FIRST,
    EXT_NAME,
    EXT_VALUE_FIRST,
    EXT_VALUE,
    EXT_QUOTED,
    EXT_ESCAPED,
    EXT_END,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    STATES
};

typedef int step_fn(struct gb_chunks *c, char byte, struct gb_http_error *err);

_Static_assert(GB_CHUNKS_SIZE_DIGITS == 8 && GB_CHUNKS_LINE_BYTES == 256, "texts below name these");
_Static_assert(GB_CHUNKS_EXTENSION_BYTES == 8192, "so do they this");
_Static_assert(GB_CHUNKS_TRAILER_BYTES == 8192, "and this");

/* --- the size line --- */

static int at_size_end(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    (void)c;
    if (byte == '\r')
        return SIZE_LF;
    if (byte == ';')
        return EXT_NAME_FIRST;
    return gb_http_refuse(err, 400,
                          "a chunk must begin with its size in hex digits, perhaps extensions, and CR LF");
}

static int at_size(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    int digit = gb_char_hex(byte);
    if (digit < 0 && c->line_bytes > 1)
        return at_size_end(c, byte, err);
    if (digit < 0)
        return gb_http_refuse(err, 400, "a chunk must begin with its size in hex digits");
    if (c->line_bytes > GB_CHUNKS_SIZE_DIGITS)
        return gb_http_refuse(err, 400, "a chunk's size must have at most 8 digits");
    c->left = c->left << 4 | (unsigned)digit;
    return SIZE;
}

/* The first byte of a token, or a further one. */
static int at_ext_name(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (gb_char_is_token(byte))
        return EXT_NAME;
    if (c->state == EXT_NAME && byte == '=')
        return EXT_VALUE_FIRST;
    if (c->state == EXT_NAME)
        return at_size_end(c, byte, err);
    return gb_http_refuse(err, 400, "a chunk extension must have a name");
}

static int at_ext_value(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (gb_char_is_token(byte))
        return EXT_VALUE;
    if (c->state == EXT_VALUE)
        return at_size_end(c, byte, err);
    return byte == '"' ? EXT_QUOTED
                       : gb_http_refuse(err, 400, "a chunk extension must have a value behind its '='");
}

static int at_ext_quoted(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (!gb_char_is_value(byte))
        return gb_http_refuse(err, 400,
                              "a chunk extension must be made of visible ASCII characters, spaces and tabs");
    if (c->state == EXT_ESCAPED)
        return EXT_QUOTED;
    return byte == '"' ? EXT_END : byte == '\\' ? EXT_ESCAPED : EXT_QUOTED;
}

static int at_size_lf(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (byte != '\n')
        return gb_http_refuse(err, 400, "a chunk's size line must end with CR LF");
    c->line_bytes = 0;
    return c->left ? DATA : TRAILER_FIRST;
}

/* --- the end of the data --- */

static int at_data_cr(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    (void)c;
    return byte == '\r' ? DATA_LF
                        : gb_http_refuse(err, 400,
                                         "a chunk's data must be as long as its size, and end with CR LF");
}

static int at_data_lf(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    (void)c;
    return byte == '\n' ? SIZE_FIRST : gb_http_refuse(err, 400, "a chunk's data must end with CR LF");
}

/* --- trailers --- */

/* What frames, routes, authorises or describes a request must come before its body: RFC 9110, 6.5.1. */
static bool is_refused_trailer(const struct gb_chunks *c)
{
    static const char *const names[] = {
            "Host",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "Authorization",
            "X-API-Key",
            "Content-Type",
            "Content-Encoding",
            "Content-Range",
            "Origin",
            "Idempotency-Key",
            "Cookie",
            "Max-Forwards",
            "Cache-Control",
            "Range",
            "Accept",
    };
    if (c->line_bytes > sizeof(c->name))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (gb_slice_is_nocase((struct gb_slice){c->name, c->line_bytes}, names[i]))
            return true;
    return false;
}

static int at_trailer_name(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (gb_char_is_token(byte)) {
        if (c->line_bytes < sizeof(c->name))
            c->name[c->line_bytes] = byte;
        c->line_bytes++;
        return TRAILER_NAME;
    }
    if (byte == '\r' && c->state == TRAILER_FIRST)
        return END_LF;
    if (byte != ':' || c->state == TRAILER_FIRST)
        return gb_http_refuse(
                err, 400,
                "behind the last chunk only trailers (name, colon, value) and an empty line may stand");
    if (is_refused_trailer(c))
        return gb_http_refuse(err, 400, "a trailer must not frame, route, authorise or describe the request");
    return TRAILER_VALUE;
}

static int at_trailer_value(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    (void)c;
    if (byte == '\r')
        return TRAILER_LF;
    if (!gb_char_is_value(byte))
        return gb_http_refuse(err, 400,
                              "a trailer's value must be made of visible ASCII characters, spaces and tabs");
    return TRAILER_VALUE;
}

static int at_trailer_lf(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (byte != '\n')
        return gb_http_refuse(err, 400, "a trailer must end with CR LF");
    c->line_bytes = 0;
    return TRAILER_FIRST;
}

static int at_end_lf(struct gb_chunks *c, char byte, struct gb_http_error *err)
{
    if (byte != '\n')
        return gb_http_refuse(err, 400, "a chunked body must end with an empty line");
    c->done = true;
    return SIZE_FIRST;
}

/* --- the machine --- */

static step_fn *const steps[STATES] = {
        [SIZE_FIRST] = at_size,
        [SIZE] = at_size,
        [EXT_NAME_FIRST] = at_ext_name,
        [EXT_NAME] = at_ext_name,
        [EXT_VALUE_FIRST] = at_ext_value,
        [EXT_VALUE] = at_ext_value,
        [EXT_QUOTED] = at_ext_quoted,
        [EXT_ESCAPED] = at_ext_quoted,
        [EXT_END] = at_size_end,
        [SIZE_LF] = at_size_lf,
        [DATA_CR] = at_data_cr,
        [DATA_LF] = at_data_lf,
        [TRAILER_FIRST] = at_trailer_name,
        [TRAILER_NAME] = at_trailer_name,
        [TRAILER_VALUE] = at_trailer_value,
        [TRAILER_LF] = at_trailer_lf,
        [END_LF] = at_end_lf,
};

/* Counts the byte against the bound of the part that it is in. */
static int count(struct gb_chunks *c, struct gb_http_error *err)
{
    if (c->state >= TRAILER_FIRST && ++c->trailer_bytes > GB_CHUNKS_TRAILER_BYTES)
        return gb_http_refuse(err, 431, "the trailers are longer than 8192 bytes");
    if (c->state <= SIZE_LF && ++c->line_bytes > GB_CHUNKS_LINE_BYTES)
        return gb_http_refuse(err, 400, "a chunk's size line is longer than 256 bytes");
    if (c->state >= EXT_NAME_FIRST && c->state < SIZE_LF && ++c->extension_bytes > GB_CHUNKS_EXTENSION_BYTES)
        return gb_http_refuse(err, 400, "the chunk extensions of a body are longer than 8192 bytes");
    return 0;
}

static int step(struct gb_chunks *c, char byte, uint64_t body_most, struct gb_http_error *err)
{
    if (count(c, err))
        return -1;
    int next = steps[c->state](c, byte, err);
    if (next < 0)
        return -1;
    c->state = next;
    if (next == DATA && (c->left > body_most || c->total > body_most - c->left))
        return gb_http_refuse(err, 413, "the body is larger than allowed");
    return 0;
}

long gb_chunks_decode(struct gb_chunks *c, char *data, size_t len, uint64_t body_most, size_t *ret_decoded,
                      struct gb_http_error *ret_error)
{
    size_t at = 0, decoded = 0;
    *ret_decoded = 0;
    while (at < len && !c->done) {
        if (c->state != DATA) {
            if (step(c, data[at++], body_most, ret_error))
                return -1;
            continue;
        }
        size_t n = len - at < c->left ? len - at : (size_t)c->left;
        memmove(data + decoded, data + at, n);
        at += n;
        decoded += n;
        c->total += n;
        c->left -= n;
        if (!c->left)
            c->state = DATA_CR;
    }
    *ret_decoded = decoded;
    return (long)at;
}
