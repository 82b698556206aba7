/* From the parsed form to what runs. Nothing of the line itself is used: only words, kinds and joins. */
#include "command/form.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *name, *program;
} same[] = {
#define GB_COMMAND_SAME(name, program) {name, program},
#include "command/defaults.def"
};

const char *gb_command_program(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if (!strcmp(name, same[i].name))
            return same[i].program;
    return name;
}

static const struct {
    const char *program, *word;
} firsts[] = {
#define GB_COMMAND_FIRST(program, word) {program, word},
#include "command/defaults.def"
};

const char *gb_command_first(const char *program)
{
    for (size_t i = 0; i < ARRAY_LEN(firsts); i++)
        if (!strcmp(program, firsts[i].program))
            return firsts[i].word;
    return NULL;
}

/* In single quotes nothing means anything, and single quotes themselves go into double ones. */
static void add_quoted(struct gb_buf *out, const char *text)
{
    if (!*text)
        gb_buf_puts(out, "''");
    while (*text) {
        const char quote = *text == '\'' ? '"' : '\'';
        const size_t n = quote == '"' ? strspn(text, "'") : strcspn(text, "'");
        gb_buf_add(out, &quote, 1);
        gb_buf_add(out, text, n);
        gb_buf_add(out, &quote, 1);
        text += n;
    }
}

/* exec, in a subshell of its own, starts the program that PATH has, as it would start without a shell: `echo`
 * would else be the shell's own, which reads backslashes, and the same words would print something else in a
 * pipe than alone. */
static void add_part(struct gb_buf *out, const struct gb_command *c, const struct gb_command_part *part)
{
    if (part->join != GB_CMD_JOIN_NONE)
        gb_buf_printf(out, " %s ", gb_command_joins[part->join]);
    gb_buf_puts(out, "(exec");
    for (size_t i = part->first; i < (size_t)part->first + part->count; i++) {
        const struct gb_command_item *item = &c->items[i];
        gb_buf_printf(out, " %s", gb_command_redirections[item->kind]);
        if (item->text)
            add_quoted(out, i == part->program ? gb_command_program(item->text) : item->text);
        if (item->text && i == part->program && gb_command_first(item->text))
            gb_buf_printf(out, " %s", gb_command_first(item->text));
    }
    gb_buf_puts(out, ")");
}

static int build_line(struct gb_command *c)
{
    AUTO_BUF out = {.max = GB_COMMAND_SHELL};
    for (size_t i = 0; i < c->part_count; i++)
        add_part(&out, c, &c->parts[i]);
    if (out.failed)
        return -ENOMEM;
    if (gb_buf_truncated(&out))
        return -E2BIG;
    c->shell_line = TAKE_PTR(out.data); /* gb_buf keeps a NUL behind it */
    c->argv[0] = "sh";
    c->argv[1] = "-c";
    c->argv[2] = c->shell_line;
    return 0;
}

static void add_token(struct gb_command *c, const struct gb_command_item *item, enum gb_command_kind kind,
                      const char *text)
{
    c->tokens[c->token_count++] = (struct gb_command_item){text, item->at, (uint8_t)kind};
}

/* Joins, words and redirections as patterns see them: those of one simple command stand behind its words, so
 * that one in the middle hides nothing. Silencing a program is nothing to block. */
static void build_tokens(struct gb_command *c)
{
    for (size_t i = 0; i < c->part_count; i++) {
        const struct gb_command_part *part = &c->parts[i];
        const struct gb_command_item *first = &c->items[part->first], *end = first + part->count, *item;
        if (i)
            add_token(c, &c->items[part->program], GB_CMD_KINDS, gb_command_joins[part->join]);
        for (item = first; item < end; item++)
            if (item->kind == GB_CMD_WORD)
                add_token(c, item, GB_CMD_WORD, item->text);
        for (item = first; item < end; item++) {
            const bool silent = (item->kind == GB_CMD_ERR_TO || item->kind == GB_CMD_ERR_ADD) &&
                                !strcmp(item->text, "/dev/null");
            if (item->kind == GB_CMD_WORD || silent)
                continue;
            add_token(c, item, item->kind, gb_command_redirections[item->kind]);
            if (item->text)
                add_token(c, item, GB_CMD_WORD, item->text);
        }
    }
}

int gb_command_build(struct gb_command *c)
{
    build_tokens(c);
    bool plain = c->part_count == 1;
    for (size_t i = 0; i < c->item_count; i++)
        plain = plain && c->items[i].kind == GB_CMD_WORD;
    if (!plain)
        return build_line(c);
    size_t count = 0;
    c->argv[count++] = gb_command_program(c->items[0].text);
    if (gb_command_first(c->items[0].text))
        c->argv[count++] = gb_command_first(c->items[0].text);
    for (size_t i = 1; i < c->item_count; i++)
        c->argv[count++] = c->items[i].text;
    return 0;
}

const char *const *gb_command_argv(const struct gb_command *c)
{
    return c->argv;
}
