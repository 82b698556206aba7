#include "redact/secrets.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

/* --- the trie --- */

struct node {
    uint32_t child, next; /* indices; 0: none */
    unsigned char byte;
    bool end;
};

struct gb_secrets {
    struct node *nodes; /* 0 is the root of plain values, 1 that of base64 */
    size_t count, room;
};

enum { PLAIN_ROOT, BASE64_ROOT };

static uint32_t step(const struct gb_secrets *s, uint32_t node, unsigned char byte)
{
    uint32_t at = s->nodes[node].child;
    while (at && s->nodes[at].byte != byte)
        at = s->nodes[at].next;
    return at;
}

static int add_node(struct gb_secrets *s, uint32_t parent, unsigned char byte, uint32_t *ret)
{
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 256;
        struct node *nodes = reallocarray(s->nodes, room, sizeof(*nodes));
        if (!nodes)
            return -ENOMEM;
        s->nodes = nodes;
        s->room = room;
    }
    *ret = (uint32_t)s->count++;
    s->nodes[*ret] = (struct node){.byte = byte};
    if (*ret != parent) { /* a root has none */
        s->nodes[*ret].next = s->nodes[parent].child;
        s->nodes[parent].child = *ret;
    }
    return 0;
}

static int add_text(struct gb_secrets *s, uint32_t root, const char *text, size_t len)
{
    uint32_t node = root;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = step(s, node, (unsigned char)text[i]);
        int r = next ? 0 : add_node(s, node, (unsigned char)text[i], &next);
        if (r)
            return r;
        node = next;
    }
    s->nodes[node].end = true;
    return 0;
}

/* The characters of base64 that depend on the value alone, for each of the three places at which it can stand
 * in what was encoded. */
static int add_base64(struct gb_secrets *s, const char *value, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[GB_SECRET_MOST * 4 / 3 + 4];
    for (size_t before = 0; before < 3; before++) {
        size_t count = 0;
        for (size_t bit = (8 * before + 5) / 6 * 6; bit + 6 <= 8 * (before + len); bit += 6) {
            const size_t at = bit / 8 - before;
            const unsigned high = (unsigned char)value[at];
            const unsigned low = at + 1 < len ? (unsigned char)value[at + 1] : 0;
            text[count++] = digits[((high << 8 | low) >> (10 - bit % 8)) & 63];
        }
        int r = add_text(s, BASE64_ROOT, text, count);
        if (r)
            return r;
    }
    return 0;
}

struct gb_secrets *gb_secrets_new(const char *const *values, size_t count, struct gb_err *err)
{
    struct gb_secrets *s = calloc(1, sizeof(*s));
    uint32_t root;
    int r = s ? add_node(s, PLAIN_ROOT, 0, &root) : -ENOMEM;
    r = r ? r : add_node(s, BASE64_ROOT, 0, &root);
    for (size_t i = 0; !r && i < count; i++) {
        const size_t len = strlen(values[i]);
        if (count > GB_SECRETS_MOST || len < GB_SECRET_LEAST || len > GB_SECRET_MOST) {
            gb_err_set(err, GB_ERR_CONFIG, 0,
                       "there may be up to %d secrets of %d to %d bytes: one that is shorter would be found "
                       "everywhere",
                       GB_SECRETS_MOST, GB_SECRET_LEAST, GB_SECRET_MOST);
            gb_secrets_free(s);
            return NULL;
        }
        r = add_text(s, PLAIN_ROOT, values[i], len);
        r = r ? r : add_base64(s, values[i], len);
    }
    if (!r)
        return s;
    gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "redaction of secrets");
    gb_secrets_free(s);
    return NULL;
}

void gb_secrets_free(struct gb_secrets *s)
{
    if (!s)
        return;
    if (s->nodes)
        explicit_bzero(s->nodes, s->room * sizeof(*s->nodes));
    free(s->nodes);
    free(s);
}

/* --- reading --- */

enum form { PLAIN, PERCENT, PERCENT_2, ESCAPE, UNICODE, HEX, HEX_2, BASE64 };

/* One reading of the text so far. */
struct reading {
    uint32_t node;
    uint16_t form, digits; /* digits: of UNICODE, how many have been read */
    uint32_t value;        /* what they make */
};

#define READINGS 16 /* at once; there are rarely more than three */

struct attempt {
    const struct gb_secrets *secrets;
    struct reading now[READINGS], then[READINGS];
    size_t now_count, then_count;
    bool ended, crowded; /* a secret ends here; more readings than we follow */
};

static void follow(struct attempt *a, struct reading r)
{
    if (a->then_count == READINGS)
        a->crowded = true;
    else
        a->then[a->then_count++] = r;
}

/* A byte of the value has been read: is it the one that comes next? */
static void take(struct attempt *a, uint32_t node, unsigned byte, enum form form)
{
    const uint32_t next = byte < 256 ? step(a->secrets, node, (unsigned char)byte) : 0;
    if (!next)
        return;
    a->ended |= a->secrets->nodes[next].end;
    if (a->secrets->nodes[next].child)
        follow(a, (struct reading){.node = next, .form = (uint16_t)form});
}

static int hex_value(unsigned char c)
{
    const unsigned char small = c | 0x20;
    return c >= '0' && c <= '9' ? c - '0' : small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

static void read_plain(struct attempt *a, const struct reading *r, unsigned char c)
{
    take(a, r->node, c, PLAIN);
    if (c == '+')
        take(a, r->node, ' ', PLAIN); /* as forms write it */
    if (c == '%')
        follow(a, (struct reading){.node = r->node, .form = PERCENT});
    if (c == '\\')
        follow(a, (struct reading){.node = r->node, .form = ESCAPE});
}

static void read_escape(struct attempt *a, const struct reading *r, unsigned char c)
{
    static const char names[] = "bfnrt\"\\/'", values[] = "\b\f\n\r\t\"\\/'";
    const char *found = c ? strchr(names, c) : NULL;
    if (found)
        take(a, r->node, (unsigned char)values[found - names], PLAIN);
    else if (c == 'u')
        follow(a, (struct reading){.node = r->node, .form = UNICODE});
}

/* Digits that make a byte: two of percent encoding and hexadecimal, four of \u. */
static void read_digit(struct attempt *a, const struct reading *r, unsigned char c, unsigned wanted,
                       enum form more, enum form done)
{
    const int digit = hex_value(c);
    if (digit < 0)
        return;
    const uint32_t value = r->value << 4 | (uint32_t)digit;
    if (r->digits + 1U < wanted)
        follow(a, (struct reading){r->node, (uint16_t)more, (uint16_t)(r->digits + 1), value});
    else
        take(a, r->node, value, done);
}

static void read_one(struct attempt *a, const struct reading *r, unsigned char c)
{
    switch ((enum form)r->form) {
    case PLAIN:
        read_plain(a, r, c);
        break;
    case PERCENT:
    case PERCENT_2:
        read_digit(a, r, c, 2, PERCENT_2, PLAIN);
        break;
    case ESCAPE:
        read_escape(a, r, c);
        break;
    case UNICODE:
        read_digit(a, r, c, 4, UNICODE, PLAIN);
        break;
    case HEX: /* between bytes, dumps put a space, a colon or a line end */
        if (r->node != PLAIN_ROOT && c && strchr(" :\r\n", c))
            follow(a, *r);
        __attribute__((fallthrough));
    case HEX_2:
        read_digit(a, r, c, 2, HEX_2, HEX);
        break;
    case BASE64:
        if (r->node != BASE64_ROOT && (c == '\n' || c == '\r'))
            follow(a, *r);
        take(a, r->node, c == '-' ? '+' : c == '_' ? '/' : c, BASE64);
        break;
    }
}

enum gb_rules_verdict gb_secrets_try(const struct gb_secrets *s, const char *text, size_t len, bool whole,
                                     size_t *ret_len)
{
    struct attempt a = {.secrets = s,
                        .now = {{.node = PLAIN_ROOT, .form = PLAIN},
                                {.node = PLAIN_ROOT, .form = HEX},
                                {.node = BASE64_ROOT, .form = BASE64}},
                        .now_count = 3};
    size_t match = 0;
    for (size_t i = 0; i < len && a.now_count; i++) {
        a.then_count = 0;
        a.ended = false;
        for (size_t k = 0; k < a.now_count; k++)
            read_one(&a, &a.now[k], (unsigned char)text[i]);
        if (a.crowded)
            return GB_RULES_LIMIT;
        if (a.ended)
            match = i + 1;
        memcpy(a.now, a.then, a.then_count * sizeof(a.now[0]));
        a.now_count = a.then_count;
    }
    if (a.now_count && !whole)
        return GB_RULES_OPEN;
    *ret_len = match;
    return match ? GB_RULES_MATCH : GB_RULES_NONE;
}
