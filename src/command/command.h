/* Command lines: parsed, never searched. What is fully understood is words, quotes, backslashes, |, &&, ||, ;
 * and redirections to plain files; everything else a shell would do something with (expansion, substitution,
 * globs, subshells, here-documents, background, comments, control characters, assignments …) is refused with
 * its position: refusals.def and chars.def have the list. What runs is built from the parsed form, so that
 * what was checked is what runs: one simple command without redirections runs without any shell; more than
 * that becomes a line for `sh` in which every word is quoted and every program is started with exec, so that
 * nothing in it is a builtin, a function or a reserved word.
 *
 * Allowed means: the programs that the line names. Some of them (python, node, awk) run whatever they are
 * told to; what these can reach is up to the box, not to the line.
 *
 * Pure: no I/O; one struct gb_command of bounded size is all that is allocated. Linear in the line. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "spec/denial.h"

#include <stdbool.h>

#define GB_COMMAND_BYTES 65536  /* the longest line */
#define GB_COMMAND_WORDS 4096   /* words and redirections in it */
#define GB_COMMAND_PARTS 256    /* simple commands in it: 100 in a row are fine */
#define GB_COMMAND_ARGS  1000   /* words of one simple command; a payload carries that many */
#define GB_COMMAND_SHELL 131071 /* bytes of the line for sh: as long as the kernel lets one argument be */

/* Which programs, and which patterns of words not. Lists of NUL-terminated strings. */
struct gb_command_rules {
    const char **allow;
    size_t allow_count;
    const char **block;
    size_t block_count;
};

/* The defaults (command/defaults.def): the seeds' seventeen programs and fifteen patterns. */
extern const struct gb_command_rules gb_command_defaults;

/* For whoever loads rules: names of programs must be bare names, patterns must have words. 0 or -EINVAL. */
int gb_command_rules_check(const struct gb_command_rules *rules, struct gb_err *err);

struct gb_command; /* a parsed line */

/* 0; or -EINVAL with one denial added (GB_DENIAL_SYNTAX; its reason begins "column C (byte B), 'TEXT': ", C
 * counted in characters from 1, B in bytes from 0); or -ENOMEM. The line need not end in NUL. */
int gb_command_parse(const char *line, size_t len, struct gb_command **ret,
                     struct gb_denial denials[GB_DENIALS], size_t *denial_count);
void gb_command_free(struct gb_command *c);
/* Every program must be allowed by its bare name, no blocked pattern may appear, no option of an allowed
 * program may start another one or load code. 0, or -EPERM with denials added: GB_DENIAL_COMMAND, with the
 * position.
 *
 * A pattern is words and operators. It matches where they stand in a row as whole words of the parsed form,
 * whatever their case and quotes, as programs or as arguments; a word of the pattern that ends in '=' or '/'
 * matches every word that begins with it. Blanks at the pattern's ends mean nothing. '>' stands for every
 * redirection of output; standard error sent to /dev/null matches nothing. */
int gb_command_check(const struct gb_command *c, const struct gb_command_rules *rules,
                     struct gb_denial denials[GB_DENIALS], size_t *denial_count);
/* What to run: NULL-terminated argv that lives as long as c. Either the words of the one simple command, or
 * {"sh", "-c", LINE}, LINE built from the parsed form. Only for what gb_command_check has let through. */
const char *const *gb_command_argv(const struct gb_command *c);

/* A fixed argv whose words may be or contain {name}, name being letters, digits, '_', '-' and '.': each
 * becomes exactly one word, whatever is put in. value() returns the text of an argument, or NULL if it is
 * absent (then a word that is exactly {name} is left out, and one that contains it among others is an error).
 * {{name}} stands for the text {name}, and other braces for themselves. The program, argv[0], is fixed. A
 * word that begins with an argument must not begin with '-', unless a word before it is "--": it would be an
 * option. Appends the words, each with its NUL, to out. 0, or negative with err set. */
int gb_command_fill(const char *const *argv, size_t count,
                    const char *(*value)(void *context, const char *name), void *context, struct gb_buf *out,
                    size_t *ret_count, struct gb_err *err);
/* Calls each(context, name) for each {name} of a word until it returns non-zero, which is then returned: to
 * check templates when they are loaded. */
int gb_command_each_name(const char *word, int (*each)(void *context, const char *name), void *context);

static inline void gb_auto_command(struct gb_command **c)
{
    gb_command_free(*c);
}
#define AUTO_COMMAND __attribute__((cleanup(gb_auto_command))) struct gb_command *
