/* The parsed form of a command line: for the files of this folder, and for the tests that look inside. */
#pragma once

#include "command/command.h"

#include <stdint.h>

/* What stands before a simple command. */
enum gb_command_join {
    GB_CMD_JOIN_NONE,
    GB_CMD_JOIN_PIPE,
    GB_CMD_JOIN_AND,
    GB_CMD_JOIN_OR,
    GB_CMD_JOIN_THEN,
    GB_CMD_JOINS
};
extern const char *const gb_command_joins[GB_CMD_JOINS];

enum gb_command_kind {
    GB_CMD_WORD,
    GB_CMD_FROM,       /* <    the text is the file's name */
    GB_CMD_TO,         /* >    */
    GB_CMD_ADD,        /* >>   */
    GB_CMD_ERR_TO,     /* 2>   */
    GB_CMD_ERR_ADD,    /* 2>>  */
    GB_CMD_ERR_TO_OUT, /* 2>&1 has no text */
    GB_CMD_OUT_TO_ERR, /* >&2  */
    GB_CMD_KINDS
};
/* The one way in which we write each redirection. */
extern const char *const gb_command_redirections[GB_CMD_KINDS];

struct gb_command_item {
    const char *text; /* without quotes; NULL if the kind has none */
    uint32_t at;      /* offset in the line */
    uint8_t kind;
};

/* One simple command: items[first] to items[first + count - 1], in the order of the line. */
struct gb_command_part {
    uint16_t first, count;
    uint16_t program; /* the item that is its first word */
    uint8_t join;
};

struct gb_command {
    struct gb_command_part parts[GB_COMMAND_PARTS];
    struct gb_command_item items[GB_COMMAND_WORDS];
    size_t part_count, item_count;
    /* The same as patterns see it: of kind GB_CMD_WORD, or an operator (GB_CMD_KINDS: a join). */
    struct gb_command_item tokens[GB_COMMAND_PARTS + 2 * GB_COMMAND_WORDS];
    size_t token_count;
    const char *argv[GB_COMMAND_ARGS + 2]; /* one can be ours: gb_command_first */
    char *shell_line;                      /* owned; NULL: argv holds the words themselves */
    const char *line;                      /* the line itself, in text */
    size_t len;
    char text[]; /* the line, NUL, the words, each with its NUL */
};

/* What runs where this name is called: `python` is python3. */
const char *gb_command_program(const char *name);
/* What a program gets before the words of the line, or NULL. In the line for sh it is the only word without
 * quotes. */
const char *gb_command_first(const char *program);
/* Fills tokens, argv, and shell_line if there must be one. 0, -ENOMEM or -E2BIG. */
int gb_command_build(struct gb_command *c);
/* "column 5 (byte 4), 'text'" for a place in a line, cut at a blank. */
void gb_command_place(const char *line, size_t len, size_t at, char *buf, size_t size);
/* Why this character may stand nowhere, or (bare) not outside quotes; NULL if it may. bytes: of one valid
 * UTF-8 sequence. */
const char *gb_command_bad_char(const char *bytes, size_t count, bool bare);
