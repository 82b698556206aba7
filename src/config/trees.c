/* The parts of the policy: kept as they were written, with the lines where they stand. */
#include "config/table.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

#define HIDDEN "(not shown)"

static json_t **member_of(struct gb_config *config, const struct gb_setting *row)
{
    return (json_t **)(void *)((char *)config + row->offset);
}

static const json_t *tree_of(const struct gb_config *config, const struct gb_setting *row)
{
    return *(json_t *const *)(const void *)((const char *)config + row->offset);
}

static bool is_secrets(const struct gb_setting *row)
{
    return row->kind == GB_KIND_TREE && row->offset == offsetof(struct gb_config, secrets);
}

/* --- setting --- */

/* Whoever uses these texts takes them to end with NUL. Names of members cannot hold one. */
static bool has_nul(const json_t *value) /* NOLINT(misc-no-recursion): as deep as the readers allow */
{
    const char *name;
    json_t *item;
    size_t i;
    if (json_is_string(value))
        return strlen(json_string_value(value)) != json_string_length(value);
    json_object_foreach((json_t *)value, name, item)
        if (has_nul(item))
            return true;
    json_array_foreach((json_t *)value, i, item)
        if (has_nul(item))
            return true;
    return false;
}

int gb_tree_set(struct gb_config *config, const struct gb_setting *row, const json_t *value,
                struct gb_err *err)
{
    if (has_nul(value))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "there is a NUL character (\\u0000) in one of its texts");
    json_t *copy = json_deep_copy(value);
    if (!copy)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    gb_tree_reset(config, row);
    *member_of(config, row) = copy;
    return 0;
}

/* As much of a secret's life as is ours ends here. */
static void wipe(json_t *value) /* NOLINT(misc-no-recursion): as deep as the readers allow */
{
    const char *name;
    json_t *item;
    if (json_is_string(value))
        explicit_bzero((char *)json_string_value(value), json_string_length(value));
    json_object_foreach(value, name, item)
        wipe(item);
}

static void drop(json_t **tree, bool secret)
{
    if (secret)
        wipe(*tree);
    json_decref(*tree);
    *tree = NULL;
}

void gb_tree_reset(struct gb_config *config, const struct gb_setting *row)
{
    drop(member_of(config, row), is_secrets(row));
    if (is_secrets(row))
        drop(&config->secret_values, true);
}

bool gb_tree_has_values(const struct gb_setting *row, const json_t *value)
{
    const char *name;
    json_t *secret;
    if (is_secrets(row))
        json_object_foreach((json_t *)value, name, secret)
            if (json_object_get(secret, "value"))
                return true;
    return false;
}

/* --- writing --- */

static void write_tree(const json_t *tree, const char *name, int digits, struct gb_json *out)
{
    char *text = tree ? json_dumps(tree, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits)) : NULL;
    if (text)
        gb_json_raw(out, name, text, strlen(text));
    else
        gb_json_null(out, name);
    out->out->failed |= tree && !text;
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* A copy in which each secret has the one member that the caller chooses. */
static json_t *secrets_with(const struct gb_config *config, bool values)
{
    AUTO_JSON copy = json_deep_copy(config->secrets);
    const char *name;
    json_t *secret;
    json_object_foreach(copy, name, secret) {
        const char *value = gb_config_secret(config, name);
        if (!json_is_object(secret) || (values && !value) || (!values && !json_object_get(secret, "value")))
            continue; /* the policy will refuse it, or it says only where the secret is */
        wipe(secret);
        if (json_object_clear(secret) ||
            json_object_set_new(secret, "value", json_string(values ? value : HIDDEN)))
            return NULL;
    }
    return TAKE_PTR(copy);
}

static void write_secrets(const struct gb_config *config, const char *name, bool values, struct gb_json *out)
{
    json_t *copy = config->secrets ? secrets_with(config, values) : NULL;
    out->out->failed |= config->secrets && !copy;
    write_tree(copy, name, 17, out);
    drop(&copy, true);
}

/* Numbers as people write them. */
void gb_tree_write(const struct gb_config *config, const struct gb_setting *row, const char *name,
                   struct gb_json *out)
{
    if (is_secrets(row))
        write_secrets(config, name, false, out);
    else
        write_tree(tree_of(config, row), name, 15, out);
}

/* Numbers to the last bit. */
void gb_tree_write_handed(const struct gb_config *config, const struct gb_setting *row, const char *name,
                          struct gb_json *out)
{
    if (is_secrets(row))
        write_secrets(config, name, true, out);
    else
        write_tree(tree_of(config, row), name, 17, out);
}

const char *gb_config_secret(const struct gb_config *config, const char *name)
{
    const json_t *read = json_object_get(config->secret_values, name);
    const json_t *written = json_object_get(json_object_get(config->secrets, name), "value");
    return json_string_value(read ? read : written);
}

/* --- places --- */

void gb_tree_keep_lines(struct gb_config *config, const struct gb_setting *row, const json_t *lines)
{
    if (!lines) {
        json_object_del(config->lines, row->path);
        return;
    }
    json_decref(config->lines);
    config->lines = json_incref((json_t *)lines);
}

/* Cuts off the last member or index. */
static bool go_up(char *path)
{
    char *dot = strrchr(path, '.'), *bracket = strrchr(path, '[');
    char *last = dot > bracket ? dot : bracket;
    if (last)
        *last = '\0';
    return last != NULL;
}

void gb_config_place(const struct gb_config *config, const char *path, char *buf, size_t size)
{
    char at[512], top[64];
    snprintf(top, sizeof(top), "%.*s", (int)strcspn(path, ".["), path);
    const char *origin = gb_config_origin(config, top);
    snprintf(buf, size, "%s", origin ? origin : "");
    if (!json_object_get(config->lines, top))
        return; /* not from the file */
    snprintf(at, sizeof(at), "%s", path);
    json_int_t line = 0;
    do {
        line = json_integer_value(json_object_get(config->lines, at));
    } while (!line && go_up(at));
    if (config->file)
        snprintf(buf, size, "%.200s:%lld", config->file, (long long)line);
    else
        snprintf(buf, size, "line %lld", (long long)line);
}
