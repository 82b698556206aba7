#include "schema/ecma_write.h"

#include "base/auto.h"
#include "base/text.h"
#include "schema/ecma.h"

#include <errno.h>
#include <string.h>

#define NESTING_MOST 64
#define REPEAT_MOST  65535 /* of PCRE2 */

/* What \D, \W and \s take, \s being white space and line terminators of ECMA-262, and \S. */
#define NO_DIGITS "\\x{0}-\\x{2f}\\x{3a}-\\x{10ffff}"
#define NO_WORDS  "\\x{0}-\\x{2f}\\x{3a}-\\x{40}\\x{5b}-\\x{5e}\\x{60}\\x{7b}-\\x{10ffff}"
#define SPACES                                                                                               \
    "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"   \
    "\\x{feff}"
#define NO_SPACES                                                                                            \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"      \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

struct reader {
    const char *text;
    size_t len, at;
    unsigned depth;
    struct gb_buf *out;
    struct gb_err *err;
    bool refers; /* to a group */
};

static int refuse(const struct reader *r, const char *why)
{
    size_t characters = 1;
    for (size_t i = 0; i < r->at && i < r->len; i++)
        characters += (r->text[i] & 0xC0) != 0x80;
    return gb_err_set(r->err, GB_ERR_CONFIG, 0, "not a pattern of ECMA-262: %s, at character %zu", why,
                      characters);
}

static bool next_is(const struct reader *r, const char *word)
{
    return r->len - r->at >= strlen(word) && !memcmp(r->text + r->at, word, strlen(word));
}

static bool take(struct reader *r, const char *word)
{
    if (!next_is(r, word))
        return false;
    r->at += strlen(word);
    return true;
}

static char peek(const struct reader *r)
{
    if (r->at >= r->len)
        return '\0';
    return r->text[r->at];
}

/* What is behind a backslash that comes next; NUL: none does. */
static char peek_escaped(const struct reader *r)
{
    if (r->len - r->at < 2 || r->text[r->at] != '\\')
        return '\0';
    return r->text[r->at + 1];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The next character as a code point. */
static int take_character(struct reader *r, uint32_t *ret_code)
{
    const size_t n = gb_text_utf8_len(r->text + r->at, r->len - r->at);
    const unsigned char *p = (const unsigned char *)r->text + r->at;
    if (!n)
        return refuse(r, "not UTF-8");
    *ret_code = n == 1 ? p[0] : p[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++)
        *ret_code = *ret_code << 6 | (p[i] & 0x3fU);
    r->at += n;
    return 0;
}

static void put_code(struct reader *r, uint32_t code)
{
    gb_buf_printf(r->out, "\\x{%x}", code);
}

static bool take_hex(struct reader *r, size_t least, size_t most, uint32_t *ret_code)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    size_t n = 0;
    uint32_t code = 0;
    for (; n < most && r->at + n < r->len; n++) {
        const char c = r->text[r->at + n];
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit)
            break;
        code = code << 4 | (uint32_t)((digit - digits) % 16);
    }
    if (n < least)
        return false;
    r->at += n;
    *ret_code = code;
    return true;
}

/* Behind "\u". Two surrogates make one character. */
static int take_unicode(struct reader *r, uint32_t *ret_code)
{
    uint32_t low = 0;
    if (take(r, "{")) {
        if (!take_hex(r, 1, 6, ret_code) || !take(r, "}") || *ret_code > 0x10ffff)
            return refuse(r, "\\u{ needs up to six hexadecimal digits, at most 10ffff, and }");
    } else if (!take_hex(r, 4, 4, ret_code)) {
        return refuse(r, "\\u needs four hexadecimal digits");
    } else if (*ret_code >= 0xd800 && *ret_code < 0xdc00 && take(r, "\\u")) {
        if (!take_hex(r, 4, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return refuse(r, "half of a surrogate pair");
        *ret_code = 0x10000 + ((*ret_code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (*ret_code >= 0xd800 && *ret_code < 0xe000)
        return refuse(r, "half of a surrogate pair");
    return 0;
}

/* Behind a backslash: what stands for one character, in a class or not. */
static int take_escaped_character(struct reader *r, uint32_t *ret_code)
{
    static const char controls[] = "t\tn\nv\vf\fr\r";
    const char c = peek(r);
    for (size_t i = 0; i + 1 < sizeof(controls); i += 2)
        if (c && controls[i] == c) {
            r->at++;
            *ret_code = (uint32_t)controls[i + 1];
            return 0;
        }
    if (take(r, "c")) {
        *ret_code = (uint32_t)peek(r) % 32;
        if (!is_letter(peek(r)))
            return refuse(r, "\\c needs a letter");
        r->at++;
        return 0;
    }
    if (take(r, "x"))
        return take_hex(r, 2, 2, ret_code) ? 0 : refuse(r, "\\x needs two hexadecimal digits");
    if (take(r, "u"))
        return take_unicode(r, ret_code);
    if (take(r, "0")) {
        *ret_code = 0;
        return is_digit(peek(r)) ? refuse(r, "\\0 with more digits") : 0;
    }
    if (r->at >= r->len)
        return refuse(r, "a \\ at the end");
    if (c < ' ' || c == 127 || is_letter(c) || is_digit(c)) /* and what is not ASCII */
        return refuse(r, "a \\ before a character that it gives no meaning");
    r->at++;
    *ret_code = (uint32_t)c;
    return 0;
}

static int write_property(struct reader *r, char letter)
{
    char name[64], escape[GB_ECMA_PROPERTY];
    size_t n = 0;
    r->at++;
    if (!take(r, "{"))
        return refuse(r, "\\p needs {NAME}");
    while (is_letter(peek(r)) || is_digit(peek(r)) || peek(r) == '_' || peek(r) == '=') {
        if (n + 1 >= sizeof(name))
            return refuse(r, "no property has such a long name");
        name[n++] = r->text[r->at++];
    }
    name[n] = '\0';
    if (!n || !take(r, "}"))
        return refuse(r, "\\p needs {NAME}");
    if (gb_ecma_property(letter, name, escape))
        return refuse(r, "a property that is not known");
    gb_buf_puts(r->out, escape);
    return 0;
}

/* What stands for many characters: 1 if there was one. */
static int write_class_escape(struct reader *r, bool in_class)
{
    /* Ranges, not \D and \W: in [^...] with a property, PCRE2 10.42 takes them wrongly beyond U+00FF. */
    static const char letters[] = "dDwWsS";
    static const char *const ranges[] = {"0-9", NO_DIGITS, "A-Za-z0-9_", NO_WORDS, SPACES, NO_SPACES};
    const char c = peek_escaped(r);
    if (!c || !strchr("dDwWsSpP", c))
        return 0;
    r->at += 1;
    if (c == 'p' || c == 'P') {
        const int e = write_property(r, c);
        return e ? e : 1;
    }
    r->at += 1;
    gb_buf_printf(r->out, "%s%s%s", in_class ? "" : "[", ranges[strchr(letters, c) - letters],
                  in_class ? "" : "]");
    return 1;
}

/* One member of a class that is one character. */
static int take_class_character(struct reader *r, uint32_t *ret_code)
{
    if (!take(r, "\\"))
        return take_character(r, ret_code);
    if (take(r, "b")) {
        *ret_code = '\b';
        return 0;
    }
    return take_escaped_character(r, ret_code);
}

static int write_class_member(struct reader *r)
{
    uint32_t from = 0, to = 0;
    const int many = write_class_escape(r, true);
    if (many)
        return many < 0 ? many : 0;
    int e = take_class_character(r, &from);
    if (e)
        return e;
    put_code(r, from);
    const size_t hyphen = r->at;
    if (!next_is(r, "-") || r->at + 1 >= r->len || r->text[r->at + 1] == ']')
        return 0;
    r->at++;
    const char c = peek_escaped(r);
    if (c && strchr("dDwWsSpP", c)) {
        r->at = hyphen; /* a hyphen, and then that */
        return 0;
    }
    e = take_class_character(r, &to);
    if (e)
        return e;
    if (from > to)
        return refuse(r, "a range of characters the wrong way round");
    gb_buf_puts(r->out, "-");
    put_code(r, to);
    return 0;
}

/* Behind '['. */
static int write_class(struct reader *r)
{
    const bool negated = take(r, "^");
    if (take(r, "]")) {
        gb_buf_puts(r->out, negated ? "(?s:.)" : "(?!)");
        return 0;
    }
    gb_buf_puts(r->out, negated ? "[^" : "[");
    while (!take(r, "]")) {
        if (r->at >= r->len)
            return refuse(r, "a [ without its ]");
        const int e = write_class_member(r);
        if (e)
            return e;
    }
    gb_buf_puts(r->out, "]");
    return 0;
}

/* A number of repeats; more than PCRE2 can count is refused. */
static int take_number(struct reader *r, uint32_t *ret_number)
{
    if (!is_digit(peek(r)))
        return refuse(r, "a { that is no {n}, {n,} or {n,m}; write \\{ for the character");
    for (*ret_number = 0; is_digit(peek(r)); r->at++) {
        *ret_number = *ret_number * 10 + (uint32_t)(peek(r) - '0');
        if (*ret_number > REPEAT_MOST)
            return refuse(r, "more than 65535 repeats");
    }
    return 0;
}

static int write_braces(struct reader *r)
{
    uint32_t least = 0, most = 0;
    int e = take_number(r, &least);
    if (e)
        return e;
    gb_buf_printf(r->out, "{%u", least);
    if (take(r, ",")) {
        gb_buf_puts(r->out, ",");
        if (peek(r) != '}') {
            e = take_number(r, &most);
            if (e)
                return e;
            if (most < least)
                return refuse(r, "repeats the wrong way round");
            gb_buf_printf(r->out, "%u", most);
        }
    }
    if (!take(r, "}"))
        return refuse(r, "a { that is no {n}, {n,} or {n,m}; write \\{ for the character");
    gb_buf_puts(r->out, "}");
    return 0;
}

static int write_quantifier(struct reader *r, bool allowed)
{
    const char c = peek(r);
    if (!c || !strchr("*+?{", c))
        return 0;
    if (!allowed)
        return refuse(r, "nothing there to repeat");
    r->at++;
    if (c == '{') {
        const int e = write_braces(r);
        if (e)
            return e;
    } else {
        gb_buf_add(r->out, &c, 1);
    }
    if (take(r, "?"))
        gb_buf_puts(r->out, "?");
    return peek(r) && strchr("*+?{", peek(r)) ? refuse(r, "a repeat of a repeat") : 0;
}

/* NOLINTBEGIN(misc-no-recursion): NESTING_MOST deep */
static int write_alternatives(struct reader *r);

/* "(?<name>": captures are of no use here, so it becomes a plain group. */
static int take_group_name(struct reader *r)
{
    if (!is_letter(peek(r)) && peek(r) != '_' && peek(r) != '$')
        return refuse(r, "a group's name begins with a letter");
    while (is_letter(peek(r)) || is_digit(peek(r)) || (peek(r) && strchr("_$", peek(r))))
        r->at++;
    return take(r, ">") ? 0 : refuse(r, "(?< needs NAME and >");
}

/* Behind '('. */
static int write_group(struct reader *r)
{
    static const char *const around[] = {"?=", "?!", "?<=", "?<!"};
    const char *open = "?:";
    bool looks = false;
    if (++r->depth > NESTING_MOST)
        return refuse(r, "groups nested too deeply");
    for (size_t i = 0; i < ARRAY_LEN(around) && !looks; i++)
        if (take(r, around[i])) {
            open = around[i];
            looks = true;
        }
    if (!looks && !take(r, "?:")) {
        int e = take(r, "?<")    ? take_group_name(r)
                : peek(r) == '?' ? refuse(r, "a group of an unknown kind")
                                 : 0;
        if (e)
            return e;
    }
    gb_buf_printf(r->out, "(%s", open);
    int e = write_alternatives(r);
    if (e)
        return e;
    if (!take(r, ")"))
        return refuse(r, "a ( without its )");
    gb_buf_puts(r->out, ")");
    r->depth--;
    return write_quantifier(r, !looks);
}

static int write_escape(struct reader *r)
{
    uint32_t code = 0;
    const int many = write_class_escape(r, false);
    if (many)
        return many < 0 ? many : write_quantifier(r, true);
    r->at++;
    if (next_is(r, "b") || next_is(r, "B")) {
        gb_buf_printf(r->out, "\\%c", r->text[r->at++]);
        return write_quantifier(r, false);
    }
    if ((is_digit(peek(r)) && peek(r) != '0') || next_is(r, "k<")) {
        r->refers = true;
        if (!take(r, "k<"))
            while (is_digit(peek(r)))
                r->at++;
        else if (take_group_name(r))
            return -EINVAL;
        return write_quantifier(r, true);
    }
    const int e = take_escaped_character(r, &code);
    if (e)
        return e;
    put_code(r, code);
    return write_quantifier(r, true);
}

static int write_term(struct reader *r)
{
    uint32_t code = 0;
    if (peek(r) == '\\')
        return write_escape(r);
    if (take(r, "("))
        return write_group(r);
    if (take(r, "^") || take(r, "$")) {
        gb_buf_puts(r->out, r->text[r->at - 1] == '^' ? "\\A" : "\\z");
        return write_quantifier(r, false);
    }
    if (peek(r) && strchr("*+?{", peek(r)))
        return refuse(r, "nothing there to repeat");
    int e = 0;
    if (take(r, "[")) {
        e = write_class(r);
    } else if (take(r, ".")) {
        gb_buf_puts(r->out, "[^\\n\\r\\x{2028}\\x{2029}]");
    } else {
        e = take_character(r, &code);
        put_code(r, code);
    }
    return e ? e : write_quantifier(r, true);
}

static int write_alternatives(struct reader *r)
{
    while (r->at < r->len && peek(r) != ')') {
        if (take(r, "|")) {
            gb_buf_puts(r->out, "|");
            continue;
        }
        const int e = write_term(r);
        if (e)
            return e;
    }
    return 0;
}

/* NOLINTEND(misc-no-recursion) */

/* Does every match begin at the beginning? Not having to try elsewhere is worth seeing the plain case. */
static bool is_anchored(const char *pattern, size_t len)
{
    return len && *pattern == '^' && !memchr(pattern, '|', len);
}

int gb_ecma_write(const char *pattern, size_t len, struct gb_buf *out, struct gb_err *err)
{
    struct reader r = {.text = pattern, .len = len, .out = out, .err = err};
    gb_buf_puts(out, is_anchored(pattern, len) ? "(?:" : "(?s:.*?)(?:");
    const int e = write_alternatives(&r);
    if (e)
        return e;
    if (r.at < r.len)
        return refuse(&r, "a ) without its (");
    gb_buf_puts(out, ")");
    if (r.refers) {
        gb_err_set(err, GB_ERR_CONFIG, 0,
                   "references back to a group (\\1, \\k<name>) are not supported: they "
                   "cannot be searched in bounded time");
        return -ENOTSUP;
    }
    return 0;
}

bool gb_ecma_is_pattern(const char *pattern, size_t len)
{
    AUTO_BUF text = {.max = 0};
    return len <= GB_ECMA_BYTES_MOST && gb_ecma_write(pattern, len, &text, NULL) != -EINVAL;
}
