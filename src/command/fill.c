/* Templates: fixed argv with places for arguments. What is put in never becomes more than one word, and is
 * never read by a shell. */
#include "command/command.h"

#include <errno.h>
#include <string.h>

#define NAME_BYTES 64
#define WORD_BYTES 131071 /* as long as the kernel lets one argument be */

/* A piece of a template: text as it stands, or the name of an argument. */
struct piece {
    const char *start;
    size_t len;
    bool is_name;
};

/* The length of the name in {name} at p, 0 if it is something else. */
static size_t name_len(const char *p)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const size_t n = *p == '{' ? strspn(p + 1, plain) : 0;
    return n && p[n + 1] == '}' ? n : 0;
}

/* Takes the next piece off; false at the end. */
static bool next_piece(const char **word, struct piece *ret)
{
    const char *p = *word;
    size_t n = *p == '{' ? name_len(p + 1) : 0;
    if (!*p)
        return false;
    if (n && p[n + 3] == '}') { /* {{name}} */
        *ret = (struct piece){p + 1, n + 2, false};
        *word = p + n + 4;
        return true;
    }
    n = name_len(p);
    if (n) {
        *ret = (struct piece){p + 1, n, true};
        *word = p + n + 2;
        return true;
    }
    n = 1 + strcspn(p + 1, "{");
    *ret = (struct piece){p, n, false};
    *word = p + n;
    return true;
}

static int copy_name(const struct piece *piece, char ret[NAME_BYTES + 1])
{
    if (piece->len > NAME_BYTES)
        return -ENAMETOOLONG;
    memcpy(ret, piece->start, piece->len);
    ret[piece->len] = '\0';
    return 0;
}

int gb_command_each_name(const char *word, int (*each)(void *context, const char *name), void *context)
{
    struct piece piece;
    char name[NAME_BYTES + 1];
    int r = 0;
    while (!r && next_piece(&word, &piece)) {
        if (!piece.is_name)
            continue;
        r = copy_name(&piece, name);
        if (!r)
            r = each(context, name);
    }
    return r;
}

/* What a caller gives must not become an option of the program, some of which start others: a word that
 * begins with an argument must not begin with '-', unless the template has said that no more options follow.
 */
static int fill_word(const char *word, const char *(*value)(void *context, const char *name), void *context,
                     bool options_ended, struct gb_buf *out, size_t *count, struct gb_err *err)
{
    const uint64_t start = out->seen;
    const char *rest = word;
    struct piece piece;
    char name[NAME_BYTES + 1];
    while (next_piece(&rest, &piece)) {
        if (!piece.is_name) {
            gb_buf_add(out, piece.start, piece.len);
            continue;
        }
        if (copy_name(&piece, name))
            return gb_err_set(err, GB_ERR_CONFIG, ENAMETOOLONG, "a name in '%.100s'", word);
        const char *text = value(context, name);
        const bool alone = piece.start == word + 1 && !*rest;
        if (!text && alone)
            return 0;
        if (!text)
            return gb_err_set(err, GB_ERR_USAGE, 0, "the argument '%s' is missing, which '%.100s' needs",
                              name, word);
        if (*text == '-' && out->seen == start && !options_ended)
            return gb_err_set(err, GB_ERR_USAGE, 0,
                              "the argument '%s' must not begin with '-', which would make it an option",
                              name);
        gb_buf_puts(out, text);
    }
    if (out->seen - start > WORD_BYTES)
        return gb_err_set(err, GB_ERR_USAGE, E2BIG, "'%.100s' has more than %d bytes once it is filled in",
                          word, WORD_BYTES);
    gb_buf_add(out, "", 1);
    ++*count;
    return 0;
}

static int refuse_name(void *context, const char *name)
{
    (void)context;
    (void)name;
    return -EINVAL;
}

int gb_command_fill(const char *const *argv, size_t count,
                    const char *(*value)(void *context, const char *name), void *context, struct gb_buf *out,
                    size_t *ret_count, struct gb_err *err)
{
    size_t words = 0;
    if (!count || !*argv[0] || gb_command_each_name(argv[0], refuse_name, NULL))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "the program, the first word, must be fixed");
    bool options_ended = false;
    for (size_t i = 0; i < count; i++) {
        const int failed = fill_word(argv[i], value, context, options_ended, out, &words, err);
        if (failed)
            return failed;
        options_ended |= !strcmp(argv[i], "--");
    }
    if (out->failed)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "argv");
    if (gb_buf_truncated(out))
        return gb_err_set(err, GB_ERR_USAGE, E2BIG, "the arguments have more than %zu bytes together",
                          out->max);
    *ret_count = words;
    return 0;
}
