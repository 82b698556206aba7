/* The list of keys: who may call, by which key, how much. */
#include "config/table.h"

#include "base/text.h"
#include "base/auto.h"

#include <errno.h>
#include <string.h>

static const struct gb_setting numbers[] = {
#define GB_NUMBER(...)
#define GB_BOOL(...)
#define GB_CHOICE(...)
#define GB_TEXT(...)
#define GB_HANDED(...)
#define GB_LIST(...)
#define GB_WORDS(...)
#define GB_KEYS(...)
#define GB_TREE(...)
#define GB_KEY_NUMBER(name, member, def_, least_, most_, meaning)                                            \
    {.path = (name),                                                                                         \
     .offset = offsetof(struct gb_config_key, member),                                                       \
     .unit = 1,                                                                                              \
     .def = (def_),                                                                                          \
     .least = (least_),                                                                                      \
     .most = (most_)},
#include "config/config.def"
};

static int64_t *number_of(struct gb_config_key *key, const struct gb_setting *row)
{
    return (int64_t *)(void *)((char *)key + row->offset);
}

/* --- one field of one key --- */

static int take_name(const json_t *value, char ret[64], struct gb_err *err)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    const size_t len = strlen(text);
    if (!len || len != json_string_length(value) || len >= 64 || text[strspn(text, characters)])
        return gb_value_refuse(value, "it takes up to 63 letters, digits, '.', '_' and '-'", err);
    memcpy(ret, text, len + 1);
    return 0;
}

static int set_name(struct gb_config_key *key, const json_t *value, struct gb_err *err)
{
    return take_name(value, key->name, err);
}

static int set_principal(struct gb_config_key *key, const json_t *value, struct gb_err *err)
{
    return take_name(value, key->principal, err);
}

static int set_hash(struct gb_config_key *key, const json_t *value, struct gb_err *err)
{
    static const char wanted[] =
            "the sha256 of the key in 64 hexadecimal digits; `glovebox config key NAME` makes one";
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    if (json_string_length(value) != 2 * sizeof(key->sha256) ||
        gb_text_unhex(text, key->sha256, sizeof(key->sha256)))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it takes %s",
                          wanted); /* whatever it is, it may be secret */
    return 0;
}

static int set_file(struct gb_config_key *key, const json_t *value, struct gb_err *err)
{
    const size_t len = json_string_length(value);
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
    if (!text || strlen(text) != len || len > 4096 || gb_form_path(text)) {
        free(text);
        return gb_value_refuse(value, "it takes the absolute path of a file that holds the key", err);
    }
    key->file = text;
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct gb_config_key *key, const json_t *value, struct gb_err *err);
} texts[] = {{"name", set_name}, {"principal", set_principal}, {"sha256", set_hash}, {"key_file", set_file}};

static int set_field(struct gb_config_key *key, const char *name, const json_t *value, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (!strcmp(texts[i].name, name))
            return texts[i].set(key, value, err);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (!strcmp(numbers[i].path, name))
            return gb_number_set(number_of(key, &numbers[i]), &numbers[i], value, err);
    return gb_err_set(
            err, GB_ERR_CONFIG, 0,
            "there is no such field; a key has: name, sha256 or key_file, principal, rate_per_minute, "
            "max_running");
}

/* --- one key, all keys --- */

static int set_key(struct gb_config_key *key, json_t *value, struct gb_err *err)
{
    const char *name;
    json_t *field;
    if (!json_is_object(value))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it takes fields: name, sha256 or key_file, …");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        *number_of(key, &numbers[i]) = numbers[i].def;
    json_object_foreach(value, name, field) {
        int r = json_is_null(field) ? 0 : set_field(key, name, field, err);
        if (r) {
            gb_err_wrap(err, "%.64s", name);
            return r;
        }
    }
    if (!*key->name)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it has no name");
    if (!*key->principal)
        memcpy(key->principal, key->name, sizeof(key->name));
    const json_t *hash = json_object_get(value, "sha256");
    if ((hash && !json_is_null(hash)) == (key->file != NULL))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "key '%s' takes exactly one of sha256 and key_file",
                          key->name);
    return 0;
}

static void free_keys(struct gb_config_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(keys[i].file);
    free(keys);
}

int gb_keys_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                struct gb_err *err)
{
    if (!json_is_array(value))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "it takes a list of keys, each with name and sha256");
    const size_t count = json_array_size(value);
    if (count > GB_CONFIG_KEYS)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "there are %zu; there may be %d", count, GB_CONFIG_KEYS);
    struct gb_config_key *keys = calloc(count + 1, sizeof(*keys));
    if (!keys)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    for (size_t i = 0; i < count; i++) {
        int r = set_key(&keys[i], json_array_get(value, i), err);
        if (r) {
            gb_err_wrap(err, "item %zu", i + 1);
            free_keys(keys, count);
            return r;
        }
    }
    gb_keys_reset(config, row);
    config->keys = keys;
    config->key_count = count;
    return 0;
}

void gb_keys_reset(struct gb_config *config, const struct gb_setting *row)
{
    (void)row;
    free_keys(config->keys, config->key_count);
    config->keys = NULL;
    config->key_count = 0;
}

static void write_keys(const struct gb_config *config, const char *name, bool hashes, struct gb_json *out)
{
    gb_json_open(out, name, '[');
    for (size_t i = 0; i < config->key_count; i++) {
        struct gb_config_key *key = &config->keys[i];
        char hex[2 * sizeof(key->sha256) + 1];
        gb_text_hex(key->sha256, sizeof(key->sha256), hex);
        gb_json_open(out, NULL, '{');
        gb_json_text(out, "name", key->name);
        gb_json_text(out, "principal", key->principal);
        if (key->file)
            gb_json_text(out, "key_file", key->file);
        else if (hashes)
            gb_json_text(out, "sha256", hex);
        for (size_t k = 0; k < ARRAY_LEN(numbers); k++)
            gb_json_int(out, numbers[k].path, *number_of(key, &numbers[k]));
        gb_json_close(out, '}');
    }
    gb_json_close(out, ']');
}

void gb_keys_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                   struct gb_json *out)
{
    (void)row;
    write_keys(config, name, false, out);
}

void gb_keys_write_hashes(const struct gb_config *config, const char *name, struct gb_json *out)
{
    write_keys(config, name, true, out);
}
