/* What the verbs of the command line share: the verbs, and options as rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define EXIT_GLOVEBOX 125 /* Glovebox's own failure */

/* One function for each row of verbs.def, in the file of that name; argv[0] is the verb. Returns the exit
 * code. */
#define VERB(program, name, summary) int verb_##name(int argc, char **argv);
#include "cli/verbs.def"
#undef VERB

/* What comes first in every program with verbs: refuses to be lent to others, and makes sure of descriptors 0
 * to 2. 0, or the exit code. */
int begin(void);

/* A program of ours: beside us in a build tree, or in libexec where we are installed. False if it is in
 * neither place. */
bool find_sibling(const char *name, char *path, size_t size);

/* One option of a verb. `apply` returns 0, or negative after having said why. value is NULL for an option
 * that takes none. */
struct option_row {
    const char *name;  /* "--json"; one letter options are written "-c" */
    const char *value; /* name of its value in the help text, or NULL */
    const char *help;
    int (*apply)(void *context, const struct option_row *row, const char *value);
};

/* Reads options up to the first word that is none, or behind "--". Returns the index of that word, or -1
 * after a message. Takes "--name value" and "--name=value". */
int options_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *context,
                  bool *ret_dashes);
void options_print(const struct option_row *rows, size_t count);

/* The exit code of a verb that has printed all it has to say: 0, or EXIT_GLOVEBOX after a message if it did
 * not get through. */
int finish_output(void);

/* One line on standard error, with the program's name before it. Returns EXIT_GLOVEBOX. */
int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
