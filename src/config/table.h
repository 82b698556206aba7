/* The table of settings, and what its rows can do. Private to src/config. */
#pragma once

#include "config/config.h"

#include "base/json_write.h"
#include "json/json.h"

#include <sys/types.h>

#define GB_COMPUTED (-1) /* the default depends on the host */

enum gb_setting_kind {
    GB_KIND_NUMBER, /* int64_t */
    GB_KIND_BOOL,   /* bool */
    GB_KIND_CHOICE, /* int */
    GB_KIND_TEXT,   /* char *, owned */
    GB_KIND_LIST,   /* array of char *, owned, and a count */
    GB_KIND_WORDS,  /* char *, owned: a comma list */
    GB_KIND_KEYS,   /* keys and key_count */
    GB_KIND_TREE,   /* json_t *, owned: a part of the policy */
    GB_KINDS
};

struct gb_setting {
    const char *path;
    enum gb_setting_kind kind;
    bool handed;   /* only in what the supervisor hands to the front */
    size_t offset; /* of the member in struct gb_config */
    unsigned decimals;
    int64_t unit, def, least, most; /* most: also how many texts a list has, and how many bytes words have */
    const char *words;              /* of a choice */
    size_t count_offset;            /* of a list */
    const char *(*form)(char *text);
};

extern const struct gb_setting gb_settings[];
extern const size_t gb_setting_count;

/* The row of that path, or NULL. */
const struct gb_setting *gb_setting_find(const char *path);
bool gb_setting_is_section(const char *name);
/* Says that there is no such setting, which one is the most like it, and what there is in its section. */
int gb_setting_unknown(const char *path, struct gb_err *err);

/* Each form returns NULL if the text is right, else what is allowed. It may put the text into its normal
 * form, which is never longer. */
const char *gb_form_address(char *text);
const char *gb_form_cgroup(char *text);
const char *gb_form_host(char *text);
const char *gb_form_origin(char *text);
const char *gb_form_path(char *text);
const char *gb_form_pem(char *text);
const char *gb_form_step(char *text);

/* Sets one row from a value (null: the default); the error says what is allowed, without place and path. On
 * failure nothing has changed. */
int gb_setting_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                   struct gb_err *err);
void gb_setting_reset(struct gb_config *config, const struct gb_setting *row);
void gb_setting_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                      struct gb_json *out);
/* The same for the list of keys, whose items have fields of their own (keys.c). gb_keys_write leaves out the
 * hashes. */
int gb_keys_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                struct gb_err *err);
void gb_keys_reset(struct gb_config *config, const struct gb_setting *row);
void gb_keys_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                   struct gb_json *out);
void gb_keys_write_hashes(const struct gb_config *config, const char *name, struct gb_json *out);
/* The same for trees (trees.c). gb_tree_write leaves out values of secrets. */
int gb_tree_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                struct gb_err *err);
void gb_tree_reset(struct gb_config *config, const struct gb_setting *row);
void gb_tree_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                   struct gb_json *out);
void gb_tree_write_handed(const struct gb_config *config, const struct gb_setting *row, const char *name,
                          struct gb_json *out);
/* Does it hold the value of a secret, rather than say where it is? */
bool gb_tree_has_values(const struct gb_setting *row, const json_t *value);
/* After a tree was set: keeps the lines of the file that it came from, or forgets those of an earlier one. */
void gb_tree_keep_lines(struct gb_config *config, const struct gb_setting *row, const json_t *lines);
/* Shared by both: a number of a row into *member, and the error for a value that is not allowed. */
int gb_number_set(int64_t *member, const struct gb_setting *row, const json_t *value, struct gb_err *err);
int gb_value_refuse(const json_t *value, const char *allowed, struct gb_err *err);

/* Where values come from, for messages and gb_config_origin. */
struct gb_config_source {
    const char *name;    /* a file, "environment variable X", "command line"; NULL: text in memory */
    const json_t *lines; /* path to line, or NULL. Kept by the configuration if a tree came from it */
    bool visible;        /* everybody on the host can see it: it may hold no secret */
    bool handed;         /* rows that are only handed down are taken */
};
int gb_config_apply(struct gb_config *config, const json_t *tree, const struct gb_config_source *source,
                    struct gb_err *err);
/* YAML text; `name` is that of its file, or NULL. */
int gb_config_apply_text(struct gb_config *config, const char *text, size_t len, const char *name,
                         struct gb_err *err);
int gb_config_apply_one(struct gb_config *config, const char *path, const json_t *value,
                        const struct gb_config_source *source, struct gb_err *err);

/* All of a file that the operator names. `forbidden`: permissions that it must not give; ret_mode: those that
 * it gives, or NULL. (load.c) */
int gb_config_read_file(const char *path, mode_t forbidden, struct gb_buf *out, unsigned *ret_mode,
                        struct gb_err *err);
/* Reads what the secrets name. (secrets.c) */
int gb_secrets_read(struct gb_config *config, struct gb_err *err);

struct gb_config *gb_config_new(void);
/* Fills in the defaults that depend on the host, where nobody has set them. 0 or -ENOMEM. */
int gb_config_finish(struct gb_config *config, struct gb_err *err);
/* Refuses what contradicts itself. */
int gb_config_check(const struct gb_config *config, struct gb_err *err);
/* What every reader ends with: if r is 0, finishes and checks, and hands *config over. Makes the error text
 * safe. */
int gb_config_complete(struct gb_config **config, int r, struct gb_config **ret_config, struct gb_err *err);
