#include "redact/rules.h"

#include "redact/secrets.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

/* Bounds of one attempt. Ours need a few steps; a rule that needs so many would make output slow to look at.
 */
#define STEPS_MOST    1000000
#define HEAP_KIB_MOST 4096

#define SECRET_MARK "[REDACTED_SECRET]"

static const struct gb_rule defaults[] = {
#define GB_REDACT(name, mark, need, within, pattern)      {name, mark, pattern, within, need, false},
#define GB_CREDENTIAL(name, where, need, within, pattern) {name, SECRET_MARK, pattern, within, need, where},
#include "redact/rules.def"
#undef GB_REDACT
#undef GB_CREDENTIAL
};

enum gb_rules_verdict gb_rules_try(const struct gb_rules *rules, size_t rule, const char *text, size_t len,
                                   bool whole, pcre2_match_data *match, size_t *ret_len)
{
    if (!rules->code[rule])
        return gb_secrets_try(rules->secrets, text, len, whole, ret_len);
    uint32_t options = PCRE2_ANCHORED | PCRE2_NO_JIT | (whole ? 0 : PCRE2_PARTIAL_HARD);
    int rc = pcre2_match(rules->code[rule], (PCRE2_SPTR)text, len, 0, options, match, rules->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return GB_RULES_NONE;
    if (rc == PCRE2_ERROR_PARTIAL)
        return GB_RULES_OPEN;
    if (rc < 0)
        return GB_RULES_LIMIT;
    *ret_len = pcre2_get_ovector_pointer(match)[1];
    return GB_RULES_MATCH;
}

static size_t hash_of(const char *four)
{
    uint32_t word;
    memcpy(&word, four, sizeof(word));
    return (word * UINT32_C(0x9E3779B1)) >> 19;
}
_Static_assert(GB_RULES_FOUR == 1 << 13, "the hash has 13 bits");

uint64_t gb_rules_at(const struct gb_rules *rules, const char *text, size_t len)
{
    uint64_t found = rules->first[(unsigned char)*text];
    if (len >= 4)
        found &= rules->four[hash_of(text)];
    for (uint64_t left = found & rules->needy; left; left &= left - 1) {
        size_t rule = (size_t)__builtin_ctzll(left);
        if (len >= rules->within[rule] && !memchr(text, rules->need[rule], rules->within[rule]))
            found &= ~(UINT64_C(1) << rule);
    }
    return found;
}

size_t gb_rules_next(const struct gb_rules *rules, const char *text, size_t at, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    for (; at + 1 < len; at++)
        if (rules->pair[(size_t)s[at] << 5 | s[at + 1] >> 3] & 1U << (s[at + 1] & 7) &&
            gb_rules_at(rules, text + at, len - at))
            return at;
    if (at < len && !rules->first[s[at]])
        at++;
    return at;
}

static bool may_begin(const struct gb_rules *rules, size_t rule, const char *text, size_t len,
                      pcre2_match_data *match)
{
    size_t ignored;
    return gb_rules_try(rules, rule, text, len, false, match, &ignored) != GB_RULES_NONE;
}

/* Asks the compiled rule itself with which bytes it can begin, so that no table can be at odds with a
 * pattern. Where there are too many to ask about, it may begin with any four. */
#define QUESTIONS_MOST 60000

static bool learn_fours(struct gb_rules *rules, size_t rule, pcre2_match_data *match)
{
    unsigned next[4] = {0}; /* what is tried next at each place */
    char text[4];
    size_t at = 0;
    for (size_t questions = 0; questions < QUESTIONS_MOST; questions++) {
        while (next[at] == 256) { /* this place is through: on to the next byte of the one before it */
            if (!at)
                return true;
            next[at--] = 0;
        }
        text[at] = (char)next[at]++;
        if (!may_begin(rules, rule, text, at + 1, match))
            continue;
        if (at == 3)
            rules->four[hash_of(text)] |= UINT64_C(1) << rule;
        else
            at++;
    }
    return false;
}

static void learn_beginnings(struct gb_rules *rules, size_t rule, pcre2_match_data *match)
{
    for (unsigned a = 0; a < 256; a++) {
        const char first = (char)a;
        if (!may_begin(rules, rule, &first, 1, match))
            continue;
        rules->first[a] |= UINT64_C(1) << rule;
        for (unsigned b = 0; b < 256; b++)
            if (may_begin(rules, rule, (const char[]){first, (char)b}, 2, match))
                rules->pair[a << 5 | b >> 3] |= (uint8_t)(1U << (b & 7));
    }
    if (!learn_fours(rules, rule, match))
        for (size_t i = 0; i < GB_RULES_FOUR; i++)
            rules->four[i] |= UINT64_C(1) << rule;
}

static int compile_rule(struct gb_rules *rules, const struct gb_rule *rule, struct gb_err *err)
{
    int code = 0;
    size_t at = 0;
    /* Start optimisations look for bytes far ahead, at every attempt anew; gb_rules_next does their work. */
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)rule->pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_UTF | PCRE2_NO_START_OPTIMIZE,
                                         &code, &at, NULL);
    if (!compiled) {
        char text[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
        return gb_err_set(err, GB_ERR_CONFIG, 0, "redaction rule '%s': %s at offset %zu of its pattern",
                          rule->name, text, at);
    }
    rules->code[rules->count] = compiled;
    rules->mark[rules->count] = strdup(rule->mark);
    if (!rules->mark[rules->count]) {
        rules->count++;
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "redaction rules");
    }
    rules->alone |= (uint64_t)rule->alone << rules->count;
    rules->need[rules->count] = rule->need;
    rules->within[rules->count] = rule->within;
    rules->needy |= (uint64_t) !!rule->within << rules->count;
    rules->count++;

    if (rule->within > GB_REDACT_HOLD_LEAST)
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "redaction rule '%s': a needed byte must be within the first %d", rule->name,
                          GB_REDACT_HOLD_LEAST);
    uint32_t empty = 0, behind = 0;
    pcre2_pattern_info(compiled, PCRE2_INFO_MATCHEMPTY, &empty);
    pcre2_pattern_info(compiled, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    if (empty)
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "redaction rule '%s': its pattern must not match the empty string", rule->name);
    if (behind)
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "redaction rule '%s': its pattern must not look behind itself, nor use \\b or \\B; "
                          "looking ahead is allowed",
                          rule->name);
    return 0;
}

static int compile_all(struct gb_rules *rules, const struct gb_rule *table, size_t count, struct gb_err *err)
{
    if (count >= GB_RULES_MOST) /* one place is for the secrets */
        return gb_err_set(err, GB_ERR_CONFIG, 0, "%zu redaction rules: at most %d are allowed", count,
                          GB_RULES_MOST - 1);
    rules->limits = pcre2_match_context_create(NULL);
    if (!rules->limits)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "redaction rules");
    pcre2_set_match_limit(rules->limits, STEPS_MOST);
    pcre2_set_depth_limit(rules->limits, STEPS_MOST);
    pcre2_set_heap_limit(rules->limits, HEAP_KIB_MOST);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "redaction rules");
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        r = compile_rule(rules, &table[i], err);
        if (r == 0)
            learn_beginnings(rules, i, match);
    }
    pcre2_match_data_free(match);
    return r;
}

struct gb_rules *gb_rules_compile(const struct gb_rule *table, size_t count, struct gb_err *err)
{
    struct gb_rules *rules = calloc(1, sizeof(*rules));
    if (!rules) {
        gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "redaction rules");
        return NULL;
    }
    if (compile_all(rules, table, count, err) < 0) {
        gb_rules_free(rules);
        return NULL;
    }
    return rules;
}

/* --- doors --- */

size_t gb_rules_builtin_count(void)
{
    return ARRAY_LEN(defaults);
}

const char *gb_rules_builtin_name(size_t index)
{
    return index < ARRAY_LEN(defaults) ? defaults[index].name : NULL;
}

static bool is_wanted(const struct gb_rules_options *options, const char *name)
{
    for (size_t i = 0; i < options->off_count; i++)
        if (!strcmp(options->off[i], name))
            return false;
    for (size_t i = 0; i < options->more_count; i++)
        if (!strcmp(options->more[i].name, name))
            return false;
    return true;
}

static int add_secrets(struct gb_rules *rules, const struct gb_rules_options *options, struct gb_err *err)
{
    const size_t rule = rules->count;
    rules->secrets = gb_secrets_new(options->secrets, options->secret_count, err);
    rules->mark[rule] = rules->secrets ? strdup(SECRET_MARK) : NULL;
    if (!rules->mark[rule])
        return -EINVAL;
    rules->count++;
    learn_beginnings(rules, rule, NULL);
    return 0;
}

struct gb_rules *gb_rules_new(const struct gb_rules_options *options, struct gb_err *err)
{
    static const struct gb_rules_options none = {0};
    struct gb_rule table[GB_RULES_MOST];
    size_t count = 0;
    options = options ? options : &none;
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        if (is_wanted(options, defaults[i].name))
            table[count++] = defaults[i];
    for (size_t i = 0; i < options->more_count; i++) {
        if (count == ARRAY_LEN(table)) {
            gb_err_set(err, GB_ERR_CONFIG, 0, "there are more than %d redaction rules", GB_RULES_MOST - 1);
            return NULL;
        }
        table[count++] = options->more[i];
    }
    struct gb_rules *rules = gb_rules_compile(table, count, err);
    if (rules && options->secret_count && add_secrets(rules, options, err)) {
        gb_rules_free(rules);
        return NULL;
    }
    return rules;
}

void gb_rules_free(struct gb_rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 0; i < rules->count; i++) {
        pcre2_code_free(rules->code[i]);
        free(rules->mark[i]);
    }
    gb_secrets_free(rules->secrets);
    pcre2_match_context_free(rules->limits);
    free(rules);
}
