#include "json/json.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#define TEXT(macro)    TEXT_OF(macro)
#define TEXT_OF(value) #value

#define TEXT(macro)    TEXT_OF(macro)
#define TEXT_OF(value) #value

/* What jansson does not do for us happens in one pass over the bytes before it sees them. The pass finds the
 * same strings as jansson up to the first thing that jansson refuses, so what it counts is never less than
 * what jansson would build. */
struct scan {
    const char *data;
    size_t len, at;
    size_t depth, values;
    char *copy; /* of the data, with the NULs of its keys replaced; NULL: it had none */
};

static int refuse(const struct scan *s, struct gb_err *err, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < s->at; i++) {
        column += (s->data[i] & 0xC0) != 0x80; /* counts characters, as jansson does */
        if (s->data[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return gb_err_set(err, GB_ERR_SYNTAX, 0, "line %zu, column %zu: %s", line, column, what);
}

static bool is_nul_escape(const struct scan *s, size_t at)
{
    return s->len - at >= 6 && !memcmp(s->data + at, "\\u0000", 6);
}

/* A key with a NUL is legal JSON, but jansson cannot hold it, and a reader of C strings would take it for
 * another key. U+FFFD, escaped, is as long, so that places in error texts stay right. */
static int replace_nuls(struct scan *s, size_t from)
{
    if (!s->copy) {
        s->copy = malloc(s->len);
        if (!s->copy)
            return -ENOMEM;
        memcpy(s->copy, s->data, s->len);
    }
    for (size_t i = from; i < s->at; i += s->data[i] == '\\' ? 2 : 1)
        if (is_nul_escape(s, i))
            memcpy(s->copy + i, "\\ufffd", 6);
    return 0;
}

/* From the opening quote to behind the closing one, or to the end. */
static int skip_string(struct scan *s)
{
    const size_t from = ++s->at;
    bool nul = false;
    while (s->at < s->len && s->data[s->at] != '"') {
        nul = nul || is_nul_escape(s, s->at);
        s->at += s->data[s->at] == '\\' && s->len - s->at > 1 ? 2 : 1;
    }
    if (s->at == s->len)
        return 0; /* never ends: jansson says so */
    size_t next = s->at + 1;
    while (nul && next < s->len && strchr(" \t\r\n", s->data[next]) && s->data[next])
        next++;
    int r = nul && next < s->len && s->data[next] == ':' ? replace_nuls(s, from) : 0;
    s->at++;
    return r;
}

static int check(struct scan *s, struct gb_err *err)
{
    if (s->len >= 3 && !memcmp(s->data, "\xEF\xBB\xBF", 3))
        return refuse(s, err, "a byte order mark"); /* jansson would quote it, and nobody would see it */
    while (s->at < s->len) {
        switch (s->data[s->at]) {
        case '\0': /* jansson 2.14 overlooks one that stands behind a number or word */
            return refuse(s, err, "a NUL byte");
        case '"':
            if (skip_string(s))
                return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read JSON");
            continue;
        case '[':
        case '{':
            if (++s->depth > GB_JSON_DEPTH)
                return refuse(s, err, "more than " TEXT(GB_JSON_DEPTH) " levels of nesting");
            s->values++;
            break;
        case ']':
        case '}':
            s->depth -= s->depth > 0;
            break;
        case ',':
            s->values++;
            break;
        default:
            break;
        }
        if (s->values > GB_JSON_VALUES)
            return refuse(s, err, "more than " TEXT(GB_JSON_VALUES) " values");
        s->at++;
    }
    return 0;
}

/* jansson would read /dev/urandom, and where it cannot, as in a process that has locked itself in, take the
 * time of day. Only the first seed counts. */
void gb_json_seed(void)
{
    static bool seeded;
    size_t seed = 0;
    if (!seeded && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
        json_object_seed(seed);
    seeded = true;
}

/* Decided, where RFC 8259 leaves it open: duplicate keys are refused, for two readers could take different
 * ones. Integers beyond int64, and 1e400, are refused rather than rounded; 1e-400 is 0. Escaped lone
 * surrogates and a byte order mark are refused. */
int gb_json_read(const char *data, size_t len, json_t **ret_value, struct gb_err *err)
{
    struct scan s = {.data = len ? data : "", .len = len};
    gb_json_seed();
    int r = check(&s, err);
    AUTO_FREE char *copy = s.copy;
    if (r)
        return r;
    json_error_t error;
    json_t *value = json_loadb(copy ? copy : s.data, len,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!value && json_error_code(&error) == json_error_out_of_memory)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read JSON");
    if (!value) {
        gb_text_defuse(error.text); /* it quotes the input */
        return gb_err_set(err, GB_ERR_SYNTAX, 0, "line %d, column %d: %s", error.line, error.column,
                          error.text);
    }
    *ret_value = value;
    return 0;
}
