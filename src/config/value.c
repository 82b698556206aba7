/* One value into one row, and back. Each kind of row has three functions: set, reset, write. */
#include "config/table.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define MEMBER(config, row, type)       ((type *)(void *)((char *)(config) + (row)->offset))
#define CONST_MEMBER(config, row, type) ((const type *)(const void *)((const char *)(config) + (row)->offset))

static int no_memory(struct gb_err *err)
{
    return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
}

int gb_value_refuse(const json_t *value, const char *allowed, struct gb_err *err)
{
    AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const bool is_long = text && strlen(text) > 80;
    return gb_err_set(err, GB_ERR_CONFIG, 0, "%.80s%s is not allowed; %s", text ? text : "this",
                      is_long ? "…" : "", allowed);
}

/* --- numbers --- */

static int64_t scale_of(const struct gb_setting *row)
{
    int64_t scale = 1;
    for (unsigned i = 0; i < row->decimals; i++)
        scale *= 10;
    return scale;
}

/* As a whole number of 10^-decimals: the double nearest to 1.1 is 1100 thousandths, for all that it is not
 * exact. */
static bool to_fixed(const json_t *value, int64_t scale, int64_t *ret)
{
    if (json_is_integer(value))
        return !__builtin_mul_overflow((int64_t)json_integer_value(value), scale, ret);
    const double scaled = json_real_value(value) * (double)scale;
    if (!json_is_real(value) || scaled < 0 || scaled > 1e15)
        return false;
    *ret = (int64_t)(scaled + 0.5);
    const double off = scaled - (double)*ret, slack = scaled * 4e-15;
    return off >= -slack && off <= slack;
}

int gb_number_set(int64_t *member, const struct gb_setting *row, const json_t *value, struct gb_err *err)
{
    int64_t fixed;
    if (to_fixed(value, scale_of(row), &fixed) && fixed >= row->least && fixed <= row->most) {
        *member = fixed * row->unit;
        return 0;
    }
    char least[32], most[32], allowed[160];
    gb_text_decimal(row->least, row->decimals, least, sizeof(least));
    gb_text_decimal(row->most, row->decimals, most, sizeof(most));
    snprintf(allowed, sizeof(allowed), "it takes a %s from %s to %s%s%s",
             row->decimals ? "number" : "whole number", least, most,
             row->decimals ? " with up to three decimals" : "",
             json_is_string(value) ? ", in decimal digits and without quotes" : "");
    return gb_value_refuse(value, allowed, err);
}

int gb_config_set_limit(struct gb_limits *limits, const struct gb_limit_row *row, const json_t *value,
                        struct gb_err *err)
{
    const struct gb_setting range = {
            .decimals = row->decimals, .unit = 1, .least = row->least, .most = row->ceiling};
    return gb_number_set((int64_t *)(void *)((char *)limits + row->offset), &range, value, err);
}

static int set_number(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                      struct gb_err *err)
{
    return gb_number_set(MEMBER(config, row, int64_t), row, value, err);
}

static void reset_number(struct gb_config *config, const struct gb_setting *row)
{
    *MEMBER(config, row, int64_t) = row->def == GB_COMPUTED ? GB_COMPUTED : row->def * row->unit;
}

static void write_number(const struct gb_config *config, const struct gb_setting *row, const char *name,
                         struct gb_json *out)
{
    gb_json_decimal(out, name, *CONST_MEMBER(config, row, int64_t) / row->unit, row->decimals);
}

/* --- booleans and choices --- */

static int set_bool(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                    struct gb_err *err)
{
    if (!json_is_boolean(value))
        return gb_value_refuse(value, "write true or false, without quotes", err);
    *MEMBER(config, row, bool) = json_is_true(value);
    return 0;
}

static void reset_bool(struct gb_config *config, const struct gb_setting *row)
{
    *MEMBER(config, row, bool) = row->def;
}

static void write_bool(const struct gb_config *config, const struct gb_setting *row, const char *name,
                       struct gb_json *out)
{
    gb_json_bool(out, name, *CONST_MEMBER(config, row, bool));
}

static int set_choice(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                      struct gb_err *err)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    const size_t len = json_string_length(value);
    int number = 0;
    for (const char *word = row->words; *word; number++) {
        const size_t word_len = strcspn(word, ",");
        if (len == word_len && !memcmp(text, word, len)) {
            *MEMBER(config, row, int) = number;
            return 0;
        }
        word += word_len + (word[word_len] == ',');
    }
    char allowed[128];
    snprintf(allowed, sizeof(allowed), "it takes one of: %s", row->words);
    return gb_value_refuse(value, allowed, err);
}

static void reset_choice(struct gb_config *config, const struct gb_setting *row)
{
    *MEMBER(config, row, int) = (int)row->def;
}

static void write_choice(const struct gb_config *config, const struct gb_setting *row, const char *name,
                         struct gb_json *out)
{
    const char *word = row->words;
    for (int i = *CONST_MEMBER(config, row, int); i > 0; i--)
        word += strcspn(word, ",") + 1;
    gb_json_bytes(out, name, word, strcspn(word, ","));
}

/* --- texts --- */

/* A copy of the text in its normal form. */
static int take_text(const struct gb_setting *row, const json_t *value, size_t most, char **ret,
                     struct gb_err *err)
{
    if (!json_is_string(value))
        return gb_value_refuse(value, "it takes text; put it in quotes", err);
    const size_t len = json_string_length(value);
    if (memchr(json_string_value(value), '\0', len))
        return gb_value_refuse(value, "it takes text without NUL", err);
    if (len > most)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it has %zu bytes; it takes up to %zu", len, most);
    AUTO_FREE char *text = strdup(json_string_value(value));
    if (!text)
        return no_memory(err);
    const char *allowed = row->form(text);
    if (allowed)
        return gb_value_refuse(value, allowed, err);
    *ret = TAKE_PTR(text);
    return 0;
}

static int set_text(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                    struct gb_err *err)
{
    char **member = MEMBER(config, row, char *), *text = NULL;
    int r = take_text(row, value, (size_t)row->most, &text, err);
    if (r)
        return r;
    free(*member);
    *member = text;
    return 0;
}

static void reset_text(struct gb_config *config, const struct gb_setting *row)
{
    char **member = MEMBER(config, row, char *);
    if (*member)
        explicit_bzero(*member, strlen(*member)); /* it may be a private key */
    free(*member);
    *member = NULL;
}

static void write_text(const struct gb_config *config, const struct gb_setting *row, const char *name,
                       struct gb_json *out)
{
    const char *text = *CONST_MEMBER(config, row, char *);
    if (text)
        gb_json_text(out, name, text);
    else
        gb_json_null(out, name);
}

/* --- lists --- */

#define LONGEST_LIST 64
_Static_assert(GB_CONFIG_LISTEN <= LONGEST_LIST && GB_CONFIG_NAMES <= LONGEST_LIST,
               "lists are taken through an array");

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}

static int take_texts(const struct gb_setting *row, const json_t *value, size_t most, char **texts,
                      struct gb_err *err)
{
    if (!json_is_array(value))
        return gb_value_refuse(value, "it takes a list: [\"one\", \"two\"]", err);
    if (json_array_size(value) > most)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it has %zu items; it takes up to %zu",
                          json_array_size(value), most);
    for (size_t i = 0; i < json_array_size(value); i++) {
        int r = take_text(row, json_array_get(value, i), 4096, &texts[i], err);
        if (r) {
            free_texts(texts, i);
            return r;
        }
    }
    return 0;
}

static size_t *count_of(struct gb_config *config, const struct gb_setting *row)
{
    return (size_t *)(void *)((char *)config + row->count_offset);
}

static void reset_list(struct gb_config *config, const struct gb_setting *row)
{
    free_texts(MEMBER(config, row, char *), *count_of(config, row));
    memset(MEMBER(config, row, char *), 0, (size_t)row->most * sizeof(char *));
    *count_of(config, row) = 0;
}

static int set_list(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                    struct gb_err *err)
{
    char *texts[LONGEST_LIST] = {NULL};
    int r = take_texts(row, value, (size_t)row->most, texts, err);
    if (r)
        return r;
    reset_list(config, row);
    *count_of(config, row) = json_array_size(value);
    memcpy(MEMBER(config, row, char *), texts, json_array_size(value) * sizeof(char *));
    return 0;
}

static void write_list(const struct gb_config *config, const struct gb_setting *row, const char *name,
                       struct gb_json *out)
{
    const size_t count = *(const size_t *)(const void *)((const char *)config + row->count_offset);
    gb_json_open(out, name, '[');
    for (size_t i = 0; i < count; i++)
        gb_json_text(out, NULL, CONST_MEMBER(config, row, char *)[i]);
    gb_json_close(out, ']');
}

/* --- words: a list that is kept as one text --- */

static int set_words(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                     struct gb_err *err)
{
    char *texts[LONGEST_LIST] = {NULL};
    AUTO_BUF all = {.max = (size_t)row->most};
    int r = take_texts(row, value, LONGEST_LIST, texts, err);
    if (r)
        return r;
    for (size_t i = 0; i < json_array_size(value); i++) {
        gb_buf_puts(&all, i ? "," : "");
        gb_buf_puts(&all, texts[i]);
    }
    free_texts(texts, json_array_size(value));
    if (all.failed)
        return no_memory(err);
    if (gb_buf_truncated(&all))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it takes names of up to %zu bytes together", all.max);
    reset_text(config, row);
    *MEMBER(config, row, char *) = TAKE_PTR(all.data);
    return 0;
}

static void write_words(const struct gb_config *config, const struct gb_setting *row, const char *name,
                        struct gb_json *out)
{
    const char *word = *CONST_MEMBER(config, row, char *);
    gb_json_open(out, name, '[');
    while (word && *word) {
        const size_t len = strcspn(word, ",");
        gb_json_bytes(out, NULL, word, len);
        word += len + (word[len] == ',');
    }
    gb_json_close(out, ']');
}

/* --- the kinds --- */

static const struct {
    int (*set)(struct gb_config *config, const struct gb_setting *row, const json_t *value,
               struct gb_err *err);
    void (*reset)(struct gb_config *config, const struct gb_setting *row);
    void (*write)(const struct gb_config *config, const struct gb_setting *row, const char *name,
                  struct gb_json *out);
} kinds[GB_KINDS] = {
        [GB_KIND_NUMBER] = {set_number, reset_number, write_number},
        [GB_KIND_BOOL] = {set_bool, reset_bool, write_bool},
        [GB_KIND_CHOICE] = {set_choice, reset_choice, write_choice},
        [GB_KIND_TEXT] = {set_text, reset_text, write_text},
        [GB_KIND_LIST] = {set_list, reset_list, write_list},
        [GB_KIND_WORDS] = {set_words, reset_text, write_words},
        [GB_KIND_KEYS] = {gb_keys_set, gb_keys_reset, gb_keys_write},
        [GB_KIND_TREE] = {gb_tree_set, gb_tree_reset, gb_tree_write},
};

int gb_setting_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                   struct gb_err *err)
{
    if (!json_is_null(value))
        return kinds[row->kind].set(config, row, value, err);
    gb_setting_reset(config, row);
    return 0;
}

void gb_setting_reset(struct gb_config *config, const struct gb_setting *row)
{
    kinds[row->kind].reset(config, row);
}

void gb_setting_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                      struct gb_json *out)
{
    kinds[row->kind].write(config, row, name, out);
}
