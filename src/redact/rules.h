/* Compiled rules: where a match may begin, and what begins there. Internal to redact/. */
#pragma once

#include "redact/redact.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define GB_RULES_MOST 64   /* a set of rules is one word of bits */
#define GB_RULES_FOUR 8192 /* a power of two */

struct gb_secrets;

struct gb_rules {
    size_t count;
    pcre2_code *code[GB_RULES_MOST]; /* NULL: the rule that finds the secrets */
    struct gb_secrets *secrets;
    char *mark[GB_RULES_MOST];
    char need[GB_RULES_MOST]; /* see struct gb_rule */
    size_t within[GB_RULES_MOST];
    uint64_t needy; /* the rules that have these */
    uint64_t alone; /* the rules that do not begin inside a word */
    pcre2_match_context *limits;
    uint64_t first[256];  /* the rules that can begin with this byte */
    uint8_t pair[0x2000]; /* a bit for each two bytes with which some rule can begin */
    /* For each hash of four bytes, the rules that can begin with such: most places end here. */
    uint64_t four[GB_RULES_FOUR];
};

enum gb_rules_verdict {
    GB_RULES_NONE,  /* no match begins here */
    GB_RULES_MATCH, /* one does, and more text would not change its end */
    GB_RULES_OPEN,  /* more text is needed to know */
    GB_RULES_LIMIT, /* cannot be known within the limits */
};

/* Where the next match could begin: an index from `at` on, or len. */
size_t gb_rules_next(const struct gb_rules *rules, const char *text, size_t at, size_t len);
/* The rules that are worth trying at the start of text, of at least one byte. */
uint64_t gb_rules_at(const struct gb_rules *rules, const char *text, size_t len);
/* Tries one rule at the start of text. whole: there is no more text, so nothing stays open. */
enum gb_rules_verdict gb_rules_try(const struct gb_rules *rules, size_t rule, const char *text, size_t len,
                                   bool whole, pcre2_match_data *match, size_t *ret_len);
