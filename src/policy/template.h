/* Texts of the policy with places in them: {name} stands for an argument, {secret:NAME} for a secret, and
 * {{name}} for {name} itself; in SQL :name stands for an argument. Whatever else has braces is plain text:
 * awk's
 * '{print $1}' is. One reader, for whoever checks such a text and for whoever fills it (words of a command
 * are gb_command_fill's, which reads them the same way). Pure, linear. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GB_TEMPLATE_NAME 64

struct gb_template_item {
    size_t start, end; /* in the text: from the opening brace, or colon, to behind the last character */
    bool secret;
    bool literal; /* {{name}}: stands for {name} */
    bool bad;     /* it begins with {secret: and is not whole */
    char name[GB_TEMPLATE_NAME];
};

/* Finds the next place from *at on, and moves *at behind it. */
bool gb_template_next(const char *text, size_t *at, struct gb_template_item *ret);
/* The text is this one place and nothing else. */
bool gb_template_is_whole(const char *text, const struct gb_template_item *item);
/* The same for SQL: not in strings, quoted names and comments, and no :: of a cast. */
bool gb_template_next_sql(const char *text, size_t *at, struct gb_template_item *ret);
