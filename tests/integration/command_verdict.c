/* What we make of command lines, for test_command*.py: reads records from standard input (a length of 4
 * bytes, little endian, and so many bytes), answers each with one line of JSON: denials, and if the line was
 * understood, its parts and what runs. Arguments: allow=NAME and block=PATTERN for other rules than the
 * defaults. */
#include "command/form.h"

#include "base/auto.h"

#include <endian.h>
#include <string.h>

#define RULES       256
#define RECORD_MOST (1U << 20)

static void show_part(struct gb_json *j, const struct gb_command *c, const struct gb_command_part *part)
{
    gb_json_open(j, NULL, '{');
    gb_json_text(j, "join", gb_command_joins[part->join]);
    gb_json_text(j, "program", gb_command_program(c->items[part->program].text));
    gb_json_open(j, "words", '[');
    for (size_t i = part->first; i < (size_t)part->first + part->count; i++)
        if (c->items[i].kind == GB_CMD_WORD)
            gb_json_text(j, NULL, c->items[i].text);
    gb_json_close(j, ']');
    gb_json_open(j, "redirections", '[');
    for (size_t i = part->first; i < (size_t)part->first + part->count; i++) {
        if (c->items[i].kind == GB_CMD_WORD)
            continue;
        gb_json_open(j, NULL, '[');
        gb_json_text(j, NULL, gb_command_redirections[c->items[i].kind]);
        if (c->items[i].text)
            gb_json_text(j, NULL, c->items[i].text);
        gb_json_close(j, ']');
    }
    gb_json_close(j, ']');
    gb_json_close(j, '}');
}

static void show(struct gb_json *j, const struct gb_command *c)
{
    gb_json_open(j, "parts", '[');
    for (size_t i = 0; i < c->part_count; i++)
        show_part(j, c, &c->parts[i]);
    gb_json_close(j, ']');
    gb_json_open(j, "argv", '[');
    for (const char *const *word = gb_command_argv(c); *word; word++)
        gb_json_text(j, NULL, *word);
    gb_json_close(j, ']');
}

static int answer(const struct gb_command_rules *rules, const char *line, size_t len)
{
    AUTO_BUF out = {.max = SIZE_MAX / 2};
    struct gb_json j = {&out, true};
    struct gb_denial denials[GB_DENIALS];
    size_t count = 0;
    AUTO_COMMAND c = NULL;
    if (!gb_command_parse(line, len, &c, denials, &count))
        gb_command_check(c, rules, denials, &count);
    gb_json_open(&j, NULL, '{');
    gb_denials_to_json(&j, "denials", denials, count);
    if (c)
        show(&j, c);
    gb_json_close(&j, '}');
    fwrite(out.data, 1, out.len, stdout);
    return putchar('\n') == EOF || fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *allow[RULES], *block[RULES];
    struct gb_command_rules rules = {allow, 0, block, 0};
    for (int i = 1; i < argc && i < RULES; i++) {
        if (!strncmp(argv[i], "allow=", 6))
            allow[rules.allow_count++] = argv[i] + 6;
        else if (!strncmp(argv[i], "block=", 6))
            block[rules.block_count++] = argv[i] + 6;
        else
            return 2;
    }
    for (uint32_t len; fread(&len, sizeof(len), 1, stdin) == 1;) {
        len = le32toh(len);
        AUTO_FREE char *line = len <= RECORD_MOST ? malloc(len + 1) : NULL;
        if (!line || fread(line, 1, len, stdin) != len ||
            answer(argc > 1 ? &rules : &gb_command_defaults, line, len))
            return 1;
    }
    return 0;
}
