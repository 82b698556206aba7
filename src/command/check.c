/* Whether a parsed line may run. */
#include "command/form.h"

#include "base/auto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *allow[] = {
#define GB_COMMAND_ALLOW(name) name,
#include "command/defaults.def"
};

static const char *block[] = {
#define GB_COMMAND_BLOCK(pattern) pattern,
#include "command/defaults.def"
};

static const struct refusal {
    const char *program, *option, *with_value, *why;
} refused[] = {
#define GB_COMMAND_REFUSE(program, option, with_value, why) {program, option, with_value, "this option " why},
#include "command/defaults.def"
};

const struct gb_command_rules gb_command_defaults = {allow, ARRAY_LEN(allow), block, ARRAY_LEN(block)};

struct check {
    const struct gb_command *c;
    const struct gb_command_rules *rules;
    struct gb_denial *denials;
    size_t *denial_count;
    bool refused;
};

static void deny(struct check *k, size_t at, const char *hint, const char *what)
{
    char place[128];
    k->refused = true;
    if (*k->denial_count == GB_DENIALS)
        return; /* no time for what nobody will see: a line can have thousands of these */
    gb_command_place(k->c->line, k->c->len, at, place, sizeof(place));
    gb_denial_add(k->denials, k->denial_count, GB_DENIAL_COMMAND, hint, "%s: %s", place, what);
}

/* --- programs --- */

/* What the policy's schema lets an operator allow. A name that begins with '-' would be an option to exec. */
static bool is_name(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    const size_t n = strspn(text, plain);
    return n && n <= 64 && !text[n] && *text != '-';
}

static bool is_allowed(const struct gb_command_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->allow_count; i++)
        if (!strcmp(gb_command_program(rules->allow[i]), gb_command_program(name)))
            return true;
    return false;
}

static void list_allowed(const struct gb_command_rules *rules, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "allowed programs:");
    for (size_t i = 0; i < rules->allow_count; i++) {
        const size_t room = i + 1 < rules->allow_count ? 16 : 0; /* for the words below */
        if (n + strlen(rules->allow[i]) + 2 + room > size) {
            snprintf(buf + n, size - n, " and %zu more", rules->allow_count - i);
            return;
        }
        n += (size_t)snprintf(buf + n, size - n, " %s", rules->allow[i]);
    }
    if (!rules->allow_count)
        snprintf(buf, size, "no program is allowed");
}

static void check_program(struct check *k, const struct gb_command_item *program)
{
    char hint[sizeof(((struct gb_denial *)0)->hint)];
    const char *name = program->text;
    if (is_name(name) && is_allowed(k->rules, name))
        return;
    list_allowed(k->rules, hint, sizeof(hint));
    if (strchr(name, '/'))
        deny(k, program->at, hint, "programs are called by their names, without a directory");
    else if (!is_name(name))
        deny(k, program->at, hint, "not the name of a program: letters, digits, _ . + - of ASCII, up to 64");
    else
        deny(k, program->at, hint, "this program is not allowed");
}

static bool named_before(const struct gb_command *c, size_t part)
{
    for (size_t i = 0; i < part; i++)
        if (!strcmp(c->items[c->parts[i].program].text, c->items[c->parts[part].program].text))
            return true;
    return false;
}

static bool is_option(const char *word, const struct refusal *row)
{
    const size_t n = strcspn(word, "=");
    /* Programs take every beginning that is clear, curl in capitals too. */
    if (!strncmp(row->option, "--", 2))
        return n > 2 && !strncasecmp(word, row->option, n);
    if (strlen(row->option) > 2 || *word != '-' || word[1] == '-')
        return !strcmp(word, row->option);
    const char *letter = strchr(word, row->option[1]); /* -sK: two options */
    return letter && strcspn(word + 1, row->with_value) >= (size_t)(letter - word - 1);
}

static void check_options(struct check *k, const struct gb_command_part *part)
{
    const struct gb_command_item *items = k->c->items;
    for (size_t row = 0; row < ARRAY_LEN(refused); row++) {
        if (strcmp(items[part->program].text, refused[row].program))
            continue;
        for (size_t i = part->program + 1U; i < (size_t)part->first + part->count; i++)
            if (items[i].kind == GB_CMD_WORD && is_option(items[i].text, &refused[row]))
                deny(k, items[i].at, "do it without; use a pipe, or a script", refused[row].why);
    }
}

/* --- patterns --- */

/* The next word or operator of a pattern: its length and whether it is a word; 0 at the end. Blanks before it
 * are skipped. */
static size_t next_token(const char **pattern, bool *ret_word)
{
    static const char *const operators[] = {"2>&1", "2>>", "2>", ">&2", ">>", ">", "<", "&&", "||", "|", ";"};
    *pattern += strspn(*pattern, " \t");
    *ret_word = false;
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (!strncmp(*pattern, operators[i], strlen(operators[i])))
            return strlen(operators[i]);
    const size_t n = strcspn(*pattern, " \t|&;<>");
    *ret_word = n > 0;
    return n || !**pattern ? n : 1; /* an operator that no line can have */
}

static bool token_is(const struct gb_command_item *token, const char *text, size_t n, bool word)
{
    if (word != (token->kind == GB_CMD_WORD))
        return false;
    if (word && (text[n - 1] == '=' || text[n - 1] == '/'))
        return !strncasecmp(token->text, text, n);
    const bool writes = !word && strchr(token->text, '>') && !strchr(token->text, '&');
    if (n == 1 && *text == '>' && writes)
        return true;
    return strlen(token->text) == n && !strncasecmp(token->text, text, n);
}

static bool matches_at(const struct gb_command *c, size_t at, const char *pattern)
{
    bool word;
    size_t n, i = at;
    for (; (n = next_token(&pattern, &word)); pattern += n, i++)
        if (i == c->token_count || !token_is(&c->tokens[i], pattern, n, word))
            return false;
    return i > at;
}

static void check_pattern(struct check *k, const char *pattern)
{
    for (size_t i = 0; i < k->c->token_count; i++) {
        if (!matches_at(k->c, i, pattern))
            continue;
        char what[160];
        snprintf(what, sizeof(what), "the pattern '%.100s' is blocked", pattern);
        deny(k, k->c->tokens[i].at, "do it without; a pattern is blocked wherever its words stand in a row",
             what);
        return;
    }
}

int gb_command_check(const struct gb_command *c, const struct gb_command_rules *rules,
                     struct gb_denial denials[GB_DENIALS], size_t *denial_count)
{
    struct check k = {c, rules, denials, denial_count, false};
    for (size_t i = 0; i < c->part_count; i++)
        if (!named_before(c, i))
            check_program(&k, &c->items[c->parts[i].program]);
    for (size_t i = 0; i < c->part_count; i++)
        check_options(&k, &c->parts[i]);
    for (size_t i = 0; i < rules->block_count; i++)
        check_pattern(&k, rules->block[i]);
    return k.refused ? -EPERM : 0;
}

int gb_command_rules_check(const struct gb_command_rules *rules, struct gb_err *err)
{
    for (size_t i = 0; i < rules->allow_count; i++)
        if (!is_name(rules->allow[i]))
            return gb_err_set(err, GB_ERR_CONFIG, 0,
                              "'%.100s' is not the name of a program: letters, digits, _ . + -, up to 64, "
                              "and not beginning with -",
                              rules->allow[i]);
    for (size_t i = 0; i < rules->block_count; i++) {
        const char *pattern = rules->block[i];
        if (!pattern[strspn(pattern, " \t")])
            return gb_err_set(err, GB_ERR_CONFIG, 0, "a blocked pattern has no words");
    }
    return 0;
}
