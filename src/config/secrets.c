/* Secrets: read from where the configuration says they are. Nothing of a value gets into a message. */
#include "config/table.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define SECRET_MOST 65536

static int read_secret_file(const char *path, struct gb_buf *out, struct gb_err *err)
{
    int r = gb_config_read_file(path, S_IRWXG | S_IRWXO, out, NULL, err);
    if (r)
        return r;
    if (out->len && out->data[out->len - 1] == '\n') /* it belongs to the editor, not to the secret */
        out->len--;
    if (out->len && out->data[out->len - 1] == '\r')
        out->len--;
    return out->len ? 0 : gb_err_set(err, GB_ERR_CONFIG, 0, "'%.200s' is empty", path);
}

static int read_variable(const char *name, struct gb_buf *out, struct gb_err *err)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "the environment variable %.64s, which should hold it, is %s", name,
                          value ? "empty" : "not set");
    gb_buf_puts(out, value);
    if (gb_buf_truncated(out) && !out->failed)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "the environment variable %.64s has more than %d bytes",
                          name, SECRET_MOST);
    return 0;
}

/* In the file itself only if nobody else can read that. */
static int check_value(const struct gb_config *config, struct gb_err *err)
{
    const bool from_file = json_object_get(config->lines, "secrets") && config->file;
    if (!from_file || !(config->file_mode & (S_IRWXG | S_IRWXO)))
        return 0;
    return gb_err_set(
            err, GB_ERR_CONFIG, 0,
            "'%.200s' holds the value of a secret and can be read by others (mode %03o); chmod 600 it, "
            "or put the value into a file of its own and write file: /path",
            config->file, config->file_mode);
}

/* One secret into `values`. What has not the right form is left to the policy, which says so better. */
static int read_secret(struct gb_config *config, const char *name, const json_t *secret, json_t *values,
                       struct gb_err *err)
{
    const char *file = json_string_value(json_object_get(secret, "file"));
    const char *variable = json_string_value(json_object_get(secret, "env"));
    AUTO_BUF text = {.max = SECRET_MOST};
    int r = 0;
    if (json_object_get(secret, "value"))
        return check_value(config, err);
    if (!file == !variable)
        return 0;
    r = file ? read_secret_file(file, &text, err) : read_variable(variable, &text, err);
    if (!r && text.failed)
        r = gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read a secret");
    if (!r && gb_text_find_binary(text.data, text.len) < text.len)
        r = gb_err_set(err, GB_ERR_CONFIG, 0, "it is not text in UTF-8");
    if (!r && json_object_set_new(values, name, json_stringn(text.data, text.len)))
        r = gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read a secret");
    if (text.data)
        explicit_bzero(text.data, text.size);
    return r;
}

int gb_secrets_read(struct gb_config *config, struct gb_err *err)
{
    const char *name;
    json_t *secret;
    if (!json_is_object(config->secrets))
        return 0;
    json_t *values = config->secret_values = json_object();
    if (!values)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the secrets");
    json_object_foreach(config->secrets, name, secret) {
        int r = read_secret(config, name, secret, values, err);
        if (r) {
            char path[128], place[256];
            snprintf(path, sizeof(path), "secrets.%.80s", name);
            gb_config_place(config, path, place, sizeof(place));
            gb_err_wrap(err, "%s%s%s", place, *place ? ": " : "", path);
            return r;
        }
    }
    return 0;
}
