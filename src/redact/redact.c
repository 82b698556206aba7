#include "redact/redact.h"

#include "redact/rules.h"
#include "redact/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How it works. A cursor goes over the text, from one place where a match could begin to the next. At each,
 * every rule that is not inside a match of its own is tried; a match removes the text up to its end
 * (`covered`), but the cursor goes on byte by byte, since a match of another rule may begin inside. When a
 * rule needs more text to decide, the cursor stops: everything before it has gone out, everything from it on
 * is held. An attempt never sees more than hold_most bytes, however many there are, so that what it decides
 * does not depend on how the text came. */

#define ROOM 16384 /* for new bytes, besides those that are held */

enum swallow { SWALLOW_NONE, SWALLOW_GAP, SWALLOW_LINE };

struct gb_redact {
    const struct gb_rules *rules;
    pcre2_match_data *match;
    char *text;     /* hold_most + ROOM bytes */
    size_t at, len; /* the cursor, and how many bytes there are */
    char before[2]; /* what stood before text[0] */
    size_t hold_most;
    uint64_t base;        /* the stream's offset of text[0]; offsets below count from the stream's start */
    uint64_t covered;     /* what is before this offset is removed */
    enum swallow swallow; /* and what follows it, to the end of the line */
    uint64_t resting;     /* rules that were beyond their bounds, and rest until that line has ended */
    uint64_t busy[GB_RULES_MOST]; /* where the last match of each rule ended */
    size_t tried;                 /* how many bytes did not suffice for a decision */
    uint64_t received, rescanned;
    uint64_t hits;
    struct gb_utf8 utf8;
};

struct gb_redact *gb_redact_new(const struct gb_rules *rules, size_t hold_most)
{
    struct gb_redact *r = calloc(1, sizeof(*r));
    if (!r || !rules)
        return r;
    r->rules = rules;
    r->hold_most = hold_most > GB_REDACT_HOLD_LEAST ? hold_most : GB_REDACT_HOLD_LEAST;
    r->text = malloc(r->hold_most + ROOM);
    r->match = pcre2_match_data_create(1, NULL);
    if (r->text && r->match)
        return r;
    gb_redact_free(r);
    return NULL;
}

void gb_redact_free(struct gb_redact *r)
{
    if (!r)
        return;
    pcre2_match_data_free(r->match);
    free(r->text);
    free(r);
}

uint64_t gb_redact_hits(const struct gb_redact *r)
{
    return r->hits;
}

/* Does this byte belong to what is swallowed? An open match may be an assignment whose value is still to
 * come: white space (or a byte of it, beyond ASCII) and the sign are not the line yet. */
static bool swallows(struct gb_redact *r, unsigned char c)
{
    bool gap = c <= ' ' || c == ':' || c == '=' || c >= 0x80;
    if (r->swallow == SWALLOW_GAP && !gap)
        r->swallow = SWALLOW_LINE;
    if (r->swallow == SWALLOW_LINE && c == '\n') {
        r->swallow = SWALLOW_NONE;
        r->resting = 0;
    }
    return r->swallow != SWALLOW_NONE;
}

/* Moves the cursor to `to`: bytes on the way that are not removed go out. */
static void pass(struct gb_redact *r, size_t to, struct gb_buf *out)
{
    size_t from = r->at;
    r->at = to;
    if (r->covered > r->base + from) {
        if (r->covered >= r->base + to)
            return;
        from = (size_t)(r->covered - r->base);
    }
    while (r->swallow && from < to && swallows(r, (unsigned char)r->text[from]))
        r->covered = r->base + ++from;
    gb_utf8_add(&r->utf8, r->text + from, to - from, out);
}

/* Removes the text from the cursor to `end`. What is being swallowed has its mark already. */
static void cover(struct gb_redact *r, uint64_t end, size_t rule, struct gb_buf *out)
{
    if (end <= r->covered)
        return;
    r->covered = end;
    if (r->swallow)
        return;
    gb_utf8_cut(&r->utf8, out);
    gb_buf_puts(out, r->rules->mark[rule]);
    r->hits++;
}

static char byte_before(const struct gb_redact *r, size_t back)
{
    if (r->at >= back)
        return r->text[r->at - back];
    return r->before[r->at + 2 - back];
}

/* Does a word begin at the cursor? Also behind what was removed, and behind an escape that ends in a letter:
 * "\n" in JSON, or a colour of a terminal. */
static bool is_alone(const struct gb_redact *r)
{
    if (r->covered && r->covered == r->base + r->at)
        return true;
    const char c = byte_before(r, 1), d = byte_before(r, 2);
    const bool word = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
    return !word || (d == '\\' && c && strchr("bfnrt", c)) ||
           (c == 'm' && ((d >= '0' && d <= '9') || d == '['));
}

/* Tries the rules at the cursor. False: more text is needed. */
static bool decide(struct gb_redact *r, bool end, struct gb_buf *out)
{
    const uint64_t start = r->base + r->at;
    const char *text = r->text + r->at;
    size_t len = r->len - r->at;
    const bool full = len >= r->hold_most;
    if (full)
        len = r->hold_most;
    uint64_t rules = gb_rules_at(r->rules, text, len) & ~r->resting;
    if (rules & r->rules->alone && !is_alone(r))
        rules &= ~r->rules->alone;
    for (; rules; rules &= rules - 1) {
        const size_t rule = (size_t)__builtin_ctzll(rules);
        size_t match = 0;
        if (r->busy[rule] > start)
            continue;
        switch (gb_rules_try(r->rules, rule, text, len, end && !full, r->match, &match)) {
        case GB_RULES_NONE:
            break;
        case GB_RULES_MATCH:
            r->busy[rule] = start + match;
            cover(r, start + match, rule, out);
            break;
        case GB_RULES_OPEN:
            if (!full) {
                r->tried = len;
                r->rescanned += len;
                return false;
            }
            match = len - 1;
            __attribute__((fallthrough));
        case GB_RULES_LIMIT:
            cover(r, start + match + 1, rule, out);
            r->swallow = SWALLOW_GAP;
            r->resting |= UINT64_C(1) << rule;
            break;
        }
    }
    r->tried = 0;
    return true;
}

/* An open match is tried again from its start when more text has come. One that grows by a byte at a time
 * would cost the square of its length: beyond a budget, it must have doubled first. */
static bool is_worth_trying(const struct gb_redact *r, bool end)
{
    size_t held = r->len - r->at;
    return end || held >= r->hold_most || held / 2 >= r->tried || r->rescanned <= 4 * r->received + 65536;
}

static void scan(struct gb_redact *r, bool end, struct gb_buf *out)
{
    if (r->tried && !is_worth_trying(r, end))
        return;
    for (;;) {
        pass(r, gb_rules_next(r->rules, r->text, r->at, r->len), out);
        if (r->at == r->len || !decide(r, end, out))
            break;
        pass(r, r->at + 1, out);
    }
    const char before[2] = {byte_before(r, 2), byte_before(r, 1)};
    memcpy(r->before, before, sizeof(before));
    memmove(r->text, r->text + r->at, r->len - r->at);
    r->base += r->at;
    r->len -= r->at;
    r->at = 0;
}

int gb_redact_feed(struct gb_redact *r, const char *data, size_t len, bool end, struct gb_buf *out)
{
    r->received += len;
    if (!r->rules)
        gb_utf8_add(&r->utf8, data, len, out);
    for (size_t done = 0; r->rules && done < len;) {
        /* After a scan fewer than hold_most bytes are held: there is always room. */
        size_t room = r->hold_most + ROOM - r->len;
        size_t part = len - done < room ? len - done : room;
        memcpy(r->text + r->len, data + done, part);
        r->len += part;
        done += part;
        scan(r, end && done == len, out);
    }
    if (end && r->rules)
        scan(r, true, out); /* for an end without bytes; it finds nothing to do after others */
    if (end)
        gb_utf8_cut(&r->utf8, out);
    return out->failed ? -ENOMEM : 0;
}
