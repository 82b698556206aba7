/* From the line to its parsed form, in one pass. Whatever has no rule here is refused: what a shell does with
 * it need not be known. */
#include "command/form.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const gb_command_joins[GB_CMD_JOINS] = {"", "|", "&&", "||", ";"};
const char *const gb_command_redirections[GB_CMD_KINDS] = {"", "<", ">", ">>", "2>", "2>>", "2>&1", ">&2"};

enum refusal {
#define GB_REFUSAL(name, text, what, hint) REFUSAL_##name,
#include "command/refusals.def"
#undef GB_REFUSAL
};

static const struct {
    const char *text, *what, *hint;
} refusals[] = {
#define GB_REFUSAL(name, text, what, hint) {text, what, hint},
#include "command/refusals.def"
#undef GB_REFUSAL
};

static const char *const reserved[] = {
#define GB_COMMAND_RESERVED(word) word,
#include "command/defaults.def"
};

/* How a line may write redirections; the longest that fits is meant. */
static const struct {
    const char *text;
    enum gb_command_kind kind;
} spellings[] = {
        {"2>&1", GB_CMD_ERR_TO_OUT}, {"1>&2", GB_CMD_OUT_TO_ERR}, {">&2", GB_CMD_OUT_TO_ERR},
        {"2>>", GB_CMD_ERR_ADD},     {"1>>", GB_CMD_ADD},         {">>", GB_CMD_ADD},
        {"2>", GB_CMD_ERR_TO},       {"1>", GB_CMD_TO},           {">", GB_CMD_TO},
        {"0<", GB_CMD_FROM},         {"<", GB_CMD_FROM},
};

struct reader {
    struct gb_command *c;
    const char *line; /* c->line: ends in NUL, which is no character of a line */
    size_t at;
    char *out; /* where the next word goes */
    struct gb_denial *denials;
    size_t *denial_count;
};

static int refuse(struct reader *r, size_t at, const char *hint, const char *what)
{
    char place[128];
    gb_command_place(r->line, r->c->len, at, place, sizeof(place));
    gb_denial_add(r->denials, r->denial_count, GB_DENIAL_SYNTAX, hint, "%s: %s", place, what);
    return -EINVAL;
}

static int refuse_row(struct reader *r, enum refusal row)
{
    return refuse(r, r->at, refusals[row].hint, refusals[row].what);
}

/* For a character that is never plain: its row is in the table. */
static int refuse_here(struct reader *r)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (!strncmp(r->line + r->at, refusals[i].text, strlen(refusals[i].text)))
            return refuse_row(r, (enum refusal)i);
    return refuse(r, r->at, NULL, "not understood");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The end of the line, or what ends a simple command (or would, if it were understood). */
static bool ends_part(char c)
{
    return !c || strchr("|&;", c);
}

static void skip_blanks(struct reader *r)
{
    while (is_blank(r->line[r->at]))
        r->at++;
}

static int add_item(struct reader *r, size_t at, enum gb_command_kind kind, const char *text)
{
    struct gb_command *c = r->c;
    if (c->item_count == GB_COMMAND_WORDS)
        return refuse(r, at, "split it into several calls", "the line has more than 4096 words");
    c->items[c->item_count++] = (struct gb_command_item){text, (uint32_t)at, (uint8_t)kind};
    c->parts[c->part_count - 1].count++;
    return 0;
}

/* --- words --- */

static int read_single(struct reader *r)
{
    const char *start = r->line + r->at + 1;
    const char *end = strchr(start, '\'');
    if (!end)
        return refuse(r, r->at, "close the quote", "this quote is never closed");
    const size_t n = (size_t)(end - start);
    memcpy(r->out, start, n);
    r->out += n;
    r->at += n + 2;
    return 0;
}

static int read_double(struct reader *r)
{
    const size_t start = r->at++;
    for (;; r->at++) {
        char c = r->line[r->at];
        if (!c)
            return refuse(r, start, "close the quote", "this quote is never closed");
        if (c == '"')
            break;
        if (c == '$' && r->line[r->at + 1] != '(')
            return refuse_row(r, REFUSAL_VARIABLE); /* quotes behind it mean nothing here */
        if (c == '$' || c == '`')
            return refuse_here(r);
        /* A backslash means something before these four only; before others it is a character. */
        if (c == '\\' && r->line[r->at + 1] && strchr("$`\"\\", r->line[r->at + 1]))
            c = r->line[++r->at];
        *r->out++ = c;
    }
    r->at++;
    return 0;
}

static int read_escape(struct reader *r)
{
    const char c = r->line[r->at + 1];
    if (c < ' ' || c > '~')
        return refuse(r, r->at, "put quotes around the text instead",
                      "a backslash must stand before a printable ASCII character");
    *r->out++ = c;
    r->at += 2;
    return 0;
}

/* A character outside quotes that ends no word. `start`: where the word begins. */
static int read_bare(struct reader *r, size_t start)
{
    const char *p = r->line + r->at;
    const int before = r->at > start ? p[-1] : 0;
    const size_t n = gb_text_utf8_len(p, r->c->len - r->at);
    const char *why = gb_command_bad_char(p, n, true);
    if (why)
        return refuse(r, r->at, "put quotes around the text if you mean this character", why);
    if (strchr("$`*?[{}()", *p))
        return refuse_here(r);
    if (*p == '#' && !before)
        return refuse_row(r, REFUSAL_COMMENT);
    /* Some shells expand it behind = and : too. */
    if (*p == '~' && (!before || before == '=' || before == ':'))
        return refuse_row(r, REFUSAL_HOME);
    /* History, had a person typed it; as in `find . ! -name x` and `a != b` it is plain for everybody. */
    if (*p == '!' && p[1] && !is_blank(p[1]) && p[1] != '=')
        return refuse_row(r, REFUSAL_HISTORY);
    memcpy(r->out, p, n);
    r->out += n;
    r->at += n;
    return 0;
}

static int read_word(struct reader *r, enum gb_command_kind kind, size_t item_at)
{
    const size_t start = r->at;
    const char *text = r->out;
    int failed = 0;
    for (char c; !failed && (c = r->line[r->at]) && !strchr(" \t|&;<>", c);)
        failed = c == '\''   ? read_single(r)
                 : c == '"'  ? read_double(r)
                 : c == '\\' ? read_escape(r)
                             : read_bare(r, start);
    if (failed)
        return failed;
    *r->out++ = '\0';
    return add_item(r, item_at, kind, text);
}

/* --- redirections --- */

/* Digits directly before < or > say which descriptor; elsewhere they are a word. */
static bool at_redirection(const struct reader *r)
{
    const char *p = r->line + r->at;
    p += strspn(p, "0123456789");
    return *p == '<' || *p == '>';
}

/* bash makes connections of these names, quoted or not. */
static bool is_network(const char *name)
{
    return !strncmp(name, "/dev/tcp/", 9) || !strncmp(name, "/dev/udp/", 9);
}

static int read_target(struct reader *r, enum gb_command_kind kind, size_t start)
{
    skip_blanks(r);
    const size_t at = r->at;
    if (ends_part(r->line[at]) || at_redirection(r)) /* also in `>2>f`, where 2> is the next one */
        return refuse(r, start, "write the file's name behind it", "this redirection has no file");
    const char *name = r->out;
    const int failed = read_word(r, kind, start);
    if (failed)
        return failed;
    if (!*name || is_network(name))
        return refuse(r, at, "write the name of a file", "this is no file's name");
    return 0;
}

static int read_redirection(struct reader *r)
{
    const size_t start = r->at;
    const char *p = r->line + start;
    for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
        const size_t n = strlen(spellings[i].text);
        if (strncmp(p, spellings[i].text, n))
            continue;
        const char next = p[n];
        const enum gb_command_kind kind = spellings[i].kind;
        r->at += n;
        if (kind == GB_CMD_ERR_TO_OUT || kind == GB_CMD_OUT_TO_ERR) {
            if (ends_part(next) || is_blank(next))
                return add_item(r, start, kind, NULL);
            break;
        }
        if (next && strchr("<>&|(", next))
            break;
        return read_target(r, kind, start);
    }
    r->at = start + strspn(p, "0123456789");
    if (p[0] != '<' && p[0] != '>' && (r->line[r->at + 1] != '&' && r->line[r->at + 1] != '('))
        return refuse(r, start, "use <, >, >>, 2>, 2>>, 2>&1 or >&2", "this redirection is not understood");
    return refuse_here(r);
}

/* --- simple commands --- */

static bool is_assignment(const char *p)
{
    const char *name = p;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
           (p > name && *p >= '0' && *p <= '9'))
        p++;
    return p > name && (*p == '=' || (*p == '+' && p[1] == '='));
}

/* What stands where a program's name should: a shell may take it for something else. */
static int check_first(struct reader *r, const struct gb_command_item *first)
{
    const char *raw = r->line + first->at;
    if (is_assignment(raw))
        return refuse(r, first->at,
                      "write the program first; variables are set with the call, not in the line",
                      "variables cannot be set here");
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        const size_t n = strlen(reserved[i]);
        if (!strncmp(raw, reserved[i], n) && (!raw[n] || strchr(" \t|&;<>", raw[n])))
            return refuse(r, first->at, "write programs and their arguments only; use a script for more",
                          "a word of the shell's own language is not understood here");
    }
    return 0;
}

static int read_part(struct reader *r, enum gb_command_join join)
{
    struct gb_command *c = r->c;
    const size_t start = r->at;
    if (c->part_count == GB_COMMAND_PARTS)
        return refuse(r, start, "split it into several calls", "the line has more than 256 commands");
    struct gb_command_part *part = &c->parts[c->part_count++];
    *part = (struct gb_command_part){.first = (uint16_t)c->item_count, .join = (uint8_t)join};
    size_t words = 0;
    int failed = 0;
    for (; !failed && !ends_part(r->line[r->at]); skip_blanks(r)) {
        const size_t item = c->item_count;
        failed = at_redirection(r) ? read_redirection(r) : read_word(r, GB_CMD_WORD, r->at);
        if (failed || c->items[item].kind != GB_CMD_WORD)
            continue;
        if (!words++) {
            part->program = (uint16_t)item;
            failed = check_first(r, &c->items[item]);
        } else if (words > GB_COMMAND_ARGS) {
            failed = refuse(r, c->items[item].at, "split it into several calls",
                            "one command has more than 1000 words");
        }
    }
    if (failed || words)
        return failed;
    return refuse(r, start, "write a program and its arguments", "a command is missing");
}

/* Behind a simple command that did not end the line: what joins it to the next. */
static int read_join(struct reader *r, enum gb_command_join *ret)
{
    const char *p = r->line + r->at;
    if (p[0] == '&' && p[1] != '&')
        return refuse_here(r);
    if ((p[0] == '|' && p[1] == '&') || (p[0] == ';' && (p[1] == ';' || p[1] == '&')))
        return refuse_here(r);
    *ret = p[0] == '&'                  ? GB_CMD_JOIN_AND
           : p[0] == '|' && p[1] == '|' ? GB_CMD_JOIN_OR
           : p[0] == '|'                ? GB_CMD_JOIN_PIPE
                                        : GB_CMD_JOIN_THEN;
    r->at += strlen(gb_command_joins[*ret]);
    return 0;
}

static int read_line(struct reader *r)
{
    enum gb_command_join join = GB_CMD_JOIN_NONE;
    skip_blanks(r);
    for (;;) {
        int failed = read_part(r, join);
        if (failed)
            return failed;
        if (!r->line[r->at])
            return 0;
        failed = read_join(r, &join);
        if (failed)
            return failed;
        skip_blanks(r);
        if (join == GB_CMD_JOIN_THEN && !r->line[r->at])
            return 0; /* a ; at the end is as good as none */
    }
}

/* What may stand nowhere, quotes or not. */
static int check_text(struct reader *r)
{
    for (size_t i = 0; i < r->c->len;) {
        const size_t n = gb_text_utf8_len(r->line + i, r->c->len - i);
        const char *why = n ? gb_command_bad_char(r->line + i, n, false) : "not UTF-8";
        if (why)
            return refuse(
                    r, i,
                    "write one line of plain text; for scripts of several lines use a tool that takes code",
                    why);
        i += n;
    }
    return 0;
}

int gb_command_parse(const char *line, size_t len, struct gb_command **ret,
                     struct gb_denial denials[GB_DENIALS], size_t *denial_count)
{
    if (len > GB_COMMAND_BYTES) {
        gb_denial_add(denials, denial_count, GB_DENIAL_SYNTAX,
                      "split it into several calls, or send a script",
                      "column 1 (byte 0), the line has %zu bytes: more than %d", len, GB_COMMAND_BYTES);
        return -EINVAL;
    }
    /* Words are no longer than what they are written with, and something stands between any two. */
    AUTO_COMMAND c = calloc(1, sizeof(*c) + 2 * (len + 1));
    if (!c)
        return -ENOMEM;
    memcpy(c->text, line, len);
    c->line = c->text;
    c->len = len;
    struct reader r = {c, c->line, 0, c->text + len + 1, denials, denial_count};
    int failed = check_text(&r);
    if (!failed)
        failed = read_line(&r);
    if (!failed) {
        failed = gb_command_build(c);
        if (failed == -E2BIG)
            return refuse(&r, 0, "split it into several calls",
                          "the line is too long once its words are quoted");
    }
    if (!failed)
        *ret = TAKE_PTR(c);
    return failed;
}

void gb_command_free(struct gb_command *c)
{
    if (c)
        free(c->shell_line);
    free(c);
}
