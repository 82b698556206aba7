/* The sanitiser: replaces what must not leave, in a stream. A secret that is split over any number of writes
 * is still caught: bytes that could be the beginning of a match are held back until it is decided. Then bytes
 * that are not UTF-8 become U+FFFD. The result depends on the bytes alone, never on how they were cut into
 * writes.
 *
 * Every rule reads the raw text for itself, from left to right, as if it were the only one; whatever any of
 * them matches is removed. Each match leaves its mark, unless matches that began before it cover all of it:
 * so "key=/home/bob" is one secret, and "/home/token=x" a home directory and a secret.
 *
 * Text that cannot be part of a match goes out with the write that brought it. (A prompt "Password: " waits
 * for what follows it: it could be the beginning of a secret.)
 *
 * Linear in time whatever the input and the writes; memory is bounded. What cannot be decided within these
 * bounds counts as a hit: a match that is still open after `hold_most` bytes, or a rule that reaches its
 * match limit. Then the text is swallowed to the end of the line (after white space, ":" and "=", so that the
 * value of an assignment does not escape behind them). */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_REDACT_HOLD       65536 /* a good hold_most: longer than any credential */
#define GB_REDACT_HOLD_LEAST 64    /* one that is smaller becomes this */

/* One rule as data. The pattern is PCRE2's, on bytes; it must not match the empty string nor look behind
 * itself (looking ahead is fine). An attempt must end soon after it has become hopeless: no unbounded run
 * before a part that may be missing, if the run can contain further beginnings of a match. */
struct gb_rule {
    const char *name, *mark, *pattern;
    /* To be quick: a byte that every match has among its first `within`, at most GB_REDACT_HOLD_LEAST; within
     * 0 if there is none. */
    size_t within;
    char need;
    /* It does not begin inside a word: for what is short or looks like ordinary text ("task-…"). */
    bool alone;
};

struct gb_rules; /* compiled once, shared by all streams, not changed by them */

/* What is wanted besides the rules of rules.def. Strings are copied. */
struct gb_rules_options {
    const struct gb_rule *more; /* one of the same name takes the place of a built-in one */
    size_t more_count;
    const char *const *off; /* names of built-in rules that are not wanted */
    size_t off_count;
    /* Values that must not appear: as they are, percent-encoded, escaped as in JSON, in hexadecimal, in
     * base64 (wherever in what was encoded). Shorter than GB_SECRET_LEAST: refused. Not found: reversed,
     * compressed, encrypted, in another character set. */
    const char *const *secrets;
    size_t secret_count;
};
#define GB_SECRET_LEAST 8

/* The rules of rules.def and what the options say (NULL: nothing). NULL with err on failure. */
struct gb_rules *gb_rules_new(const struct gb_rules_options *options, struct gb_err *err);
/* How many rules there are of rules.def, and their names. */
size_t gb_rules_builtin_count(void);
const char *gb_rules_builtin_name(size_t index);
/* The same for a table of one's own, of at most 64. */
struct gb_rules *gb_rules_compile(const struct gb_rule *table, size_t count, struct gb_err *err);
void gb_rules_free(struct gb_rules *rules);

struct gb_redact; /* one stream */

/* rules NULL: only UTF-8 repair. The rules must outlive the stream. NULL if there is no memory. */
struct gb_redact *gb_redact_new(const struct gb_rules *rules, size_t hold_most);
void gb_redact_free(struct gb_redact *r);
/* Takes bytes, appends what is decided to out. end: no more will come, decide everything; the stream is over
 * then. 0, or -ENOMEM if out could not grow. */
int gb_redact_feed(struct gb_redact *r, const char *data, size_t len, bool end, struct gb_buf *out);
/* How many marks were left so far. */
uint64_t gb_redact_hits(const struct gb_redact *r);
